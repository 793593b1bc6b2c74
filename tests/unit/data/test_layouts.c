/* Every type and layout that h5py writes is read right: kept and not kept, by the opener and by another rank. */
#include "data_support.h"
#include "data_impl.h"

static char listed[512];

static int make_files(void **state) {
    (void)state;
    char arguments[600];
    snprintf(listed, sizeof listed, "%s", support_path("good.txt"));
    snprintf(arguments, sizeof arguments, "good %s", support_dir());
    int rc = support_python("tests/unit/data/make_files.py", arguments, listed);
    if (rc == 77) listed[0] = '\0';
    return rc == 0 || rc == 77 ? 0 : -1;
}

#define NEEDS_H5PY()                                                                            \
    do {                                                                                        \
        if (listed[0]) break;                                                                   \
        print_message("# python3-h5py is not there: files of another writer cannot be made\n"); \
        skip();                                                                                 \
    } while (0)

/* Reads all samples backwards, a few at a time, and compares. */
static void compare(trm_dataset *d, const char *name) {
    const trm_data_info *info = trm_dataset_info(d);
    char *x = malloc(8 * (size_t)info->x_stride), *y = malloc(8 * (size_t)info->y_stride);
    for (int64_t left = info->samples; left > 0; left -= 8) {
        int64_t n = trm_min64(8, left), index[8];
        for (int64_t i = 0; i < n; i++) index[i] = (left - 1 - i) * 5 % info->samples;
        assert_ok(trm_dataset_read(d, index, n, x, y));
        for (int64_t i = 0; i < n; i++) {
            double v[60], label;
            trm_convert_f64(x + i * info->x_stride, info->x_type, 60, v);
            trm_convert_f64(y + i * info->y_stride, info->y_type, 1, &label);
            for (int64_t j = 0; j < 60; j++)
                if (v[j] != (double)support_value(index[i], j))
                    fail_msg("%s: sample %d element %d is %g", name, (int)index[i], (int)j, v[j]);
            if (label != (double)(index[i] % 10)) fail_msg("%s: label %d is %g", name, (int)index[i], label);
        }
    }
    free(x);
    free(y);
}

static void check_file(const char *name) {
    const char *path = support_path(name);
    uint64_t print = 0;
    for (int kept = 0; kept < 2; kept++) {
        trm_dataset *d = NULL;
        trm_data_spec spec = {
            .files = &path, .n_files = 1, .cache = kept ? TRM_CACHE_ON : TRM_CACHE_OFF, .classes = 10};
        support_log_start();
        if (trm_dataset_open(&spec, &d) != TRM_OK) fail_msg("%s: %s", name, trm_error_text());
        if (support_log.warnings) fail_msg("%s: warning %s", name, support_log.last);
        trm_shape want = trm_shape_of(3, 3, 5, 4);
        assert_ok(trm_dataset_expect(d, &want));
        compare(d, name);
        trm_dataset *twin = support_twin(d);
        compare(twin, name);
        assert_ok(trm_dataset_check(twin));
        assert_ok(trm_dataset_check(d));
        if (kept) assert_true(print == trm_dataset_info(d)->fingerprint);
        print = trm_dataset_info(twin)->fingerprint;
        trm_dataset_close(twin);
        trm_dataset_close(d);
    }
}

static void all_files(void **state) {
    (void)state;
    char name[128];
    int n = 0;
    NEEDS_H5PY();
    FILE *f = fopen(listed, "r");
    while (fscanf(f, "%127s", name) == 1) {
        check_file(name);
        n++;
    }
    fclose(f);
    assert_true(n >= 100);
}

static const trm_stretch *stretch_of(const char *name, trm_dataset **d) {
    *d = support_open(support_path(name), TRM_CACHE_OFF);
    return &(*d)->x.part[0];
}

/* The quick way is really taken where the plan covers the file. */
static void the_plan_covers(void **state) {
    (void)state;
    static const struct {
        const char *name;
        trm_layout layout;
    } want[] = {
        {"type_u1.h5", TRM_LAY_CONTIGUOUS},
        {"type_be_f4.h5", TRM_LAY_CONTIGUOUS},
        {"latest_block512.h5", TRM_LAY_CONTIGUOUS},
        {"earliest_block2048.h5", TRM_LAY_CONTIGUOUS},
        {"filter_all.h5", TRM_LAY_CHUNKED},
        {"filter_lzf.h5", TRM_LAY_CHUNKED},
        {"latest_block512_gzip.h5", TRM_LAY_CHUNKED},
        {"earliest_block2048_gzip.h5", TRM_LAY_CHUNKED},
        {"cut_8.h5", TRM_LAY_CHUNKED},
        {"wide.h5", TRM_LAY_CHUNKED},
        {"latest_fixed.h5", TRM_LAY_CHUNKED},
        {"latest_grow2.h5", TRM_LAY_CHUNKED},
        {"latest_single.h5", TRM_LAY_CHUNKED},
        {"latest_early.h5", TRM_LAY_CHUNKED},
        {"earliest_many.h5", TRM_LAY_CHUNKED},
        {"latest_many.h5", TRM_LAY_CHUNKED},
        {"filter_scaleoffset.h5", TRM_LAY_LIBRARY},
        {"latest_compact.h5", TRM_LAY_LIBRARY},
    };
    NEEDS_H5PY();
    for (size_t i = 0; i < SUPPORT_COUNT(want); i++) {
        trm_dataset *d;
        trm_layout got = stretch_of(want[i].name, &d)->layout;
        if (got != want[i].layout) fail_msg("%s: layout %d, wanted %d", want[i].name, got, want[i].layout);
        trm_dataset_close(d);
    }
}

/* Where there are too many chunks for a table, or it is not to be trusted, the library hands them out. */
static void chunks_by_calls(void **state) {
    (void)state;
    static const char *const name[] = {"earliest_many.h5", "latest_many.h5", "filter_all.h5",
                                       "earliest_block2048_gzip.h5", "cut_8.h5"};
    NEEDS_H5PY();
    for (size_t i = 0; i < SUPPORT_COUNT(name); i++) {
        trm_dataset *d = support_open(support_path(name[i]), TRM_CACHE_OFF);
        trm_stretch *p = &d->x.part[0];
        assert_int_equal(p->layout, TRM_LAY_CHUNKED);
        trm_free(p->table);
        p->table = NULL;
        p->n_chunks = 0;
        p->layout = TRM_LAY_CALLS;
        trm_dataset *twin = support_twin(d);
        compare(twin, name[i]);
        trm_dataset_close(twin);
        trm_dataset_close(d);
    }
}

/* Only the contents count: not byte order, chunks, filters or file format. */
static void fingerprints(void **state) {
    (void)state;
    NEEDS_H5PY();
    static const char *const same[] = {"type_le_i4.h5", "type_be_i4.h5", "chunk_be_i4.h5",
                                       "filter_scaleoffset.h5"};
    uint64_t print = 0;
    for (size_t i = 0; i < SUPPORT_COUNT(same); i++) {
        trm_dataset *d = support_open(support_path(same[i]), TRM_CACHE_AUTO);
        if (i > 0) assert_true(print == trm_dataset_info(d)->fingerprint);
        print = trm_dataset_info(d)->fingerprint;
        trm_dataset_close(d);
    }
    trm_dataset *other = support_open(support_path("type_le_u4.h5"), TRM_CACHE_AUTO);
    assert_true(print != trm_dataset_info(other)->fingerprint);
    trm_dataset_close(other);
}

/* ---- without another writer ---- */

static void shapes(void **state) {
    (void)state;
    const char *path = support_set("shapes.h5", 20, 0);
    trm_dataset *d = NULL;
    trm_data_spec spec = {.files = &path, .n_files = 1, .shape = trm_shape_of(3, 1, 2, 3)};
    assert_ok(trm_dataset_open(&spec, &d));
    assert_true(trm_shape_equal(&trm_dataset_info(d)->x, &spec.shape));
    assert_int_equal(trm_dataset_info(d)->classes, 10);
    trm_dataset_close(d);
    spec.hwc = true;
    assert_ok(trm_dataset_open(&spec, &d));
    assert_true(trm_dataset_info(d)->x_hwc);
    trm_dataset_close(d);
    spec.shape = trm_shape_of(2, 2, 4);
    assert_fault(trm_dataset_open(&spec, &d), TRM_DATA, "'data' samples are (6), the job asks for (2,4)");
    spec = (trm_data_spec){.files = &path, .n_files = 1, .hwc = true};
    assert_fault(trm_dataset_open(&spec, &d), TRM_DATA, "(H,W,C) asked for by `data.layout`");
}

static void rows_of_the_list(void **state) {
    (void)state;
    char first[512], second[512];
    snprintf(first, sizeof first, "%s", support_set("a.h5", 20, 0));
    snprintf(second, sizeof second, "%s", support_set("b.h5", 30, 7));
    const char *files[] = {first, second};
    for (int cache = 0; cache < 3; cache++) {
        trm_dataset *d = NULL;
        trm_data_spec spec = {
            .files = files, .n_files = 2, .first = 15, .count = 20, .cache = (trm_data_cache)cache};
        assert_ok(trm_dataset_open(&spec, &d));
        assert_int_equal(trm_dataset_info(d)->samples, 20);
        for (int64_t i = 0; i < 20; i++) {
            int32_t x[6];
            int64_t y, row = i < 5 ? 15 + i : i - 5;
            assert_ok(trm_dataset_read(d, &i, 1, x, &y));
            assert_int_equal(y, row % 10);
            for (int64_t j = 0; j < 6; j++) assert_int_equal(x[j], support_value(row, j));
        }
        int64_t bad = 20;
        int32_t x[6];
        int64_t y;
        assert_fault(trm_dataset_read(d, &bad, 1, x, &y), TRM_INTERNAL, "sample 20 of 20");
        trm_dataset_close(d);
        spec.first = 50;
        spec.count = 0;
        assert_fault(trm_dataset_open(&spec, &d), TRM_DATA, "there are 50");
        spec.first = 45;
        assert_ok(trm_dataset_open(&spec, &d));
        assert_int_equal(trm_dataset_info(d)->samples, 5);
        trm_dataset_close(d);
        spec.count = 6;
        assert_fault(trm_dataset_open(&spec, &d), TRM_DATA, "rows 45 to 50 are asked for, there are 50");
    }
}

/* `auto` keeps what fits: the target before the input. */
static void limits(void **state) {
    (void)state;
    const char *path = support_set("limits.h5", 100, 10);
    trm_dataset *d = NULL;
    trm_data_spec spec = {.files = &path, .n_files = 1, .cache_limit = 100 * 24 + 100 * 8};
    support_log_start();
    assert_ok(trm_dataset_open(&spec, &d));
    assert_non_null(d->x.cache);
    assert_int_equal(support_log.warnings, 0);
    trm_dataset_close(d);
    spec.cache_limit--;
    assert_ok(trm_dataset_open(&spec, &d));
    assert_null(d->x.cache);
    assert_non_null(d->y.cache);
    trm_dataset_close(d);
    spec.cache_limit = 1000;
    assert_ok(trm_dataset_open(&spec, &d));
    assert_int_equal(support_log.warnings, 1);
    assert_non_null(strstr(support_log.last, "compressed and not kept in memory (2.3 KiB, limit 1000 B)"));
    trm_dataset_close(d);
}

static void float_targets(void **state) {
    (void)state;
    const char *path = support_path("targets.h5");
    trm_synth_spec synth = {.kind = TRM_SYNTH_VECTORS, .samples = 40, .seed = 1};
    trm_dataset *d = NULL;
    assert_ok(trm_synth(&synth, path));
    trm_data_spec spec = {.files = &path, .n_files = 1, .float_target = true};
    assert_ok(trm_dataset_open(&spec, &d));
    assert_false(trm_dataset_info(d)->y_is_class);
    assert_int_equal(trm_dataset_info(d)->y_type, TRM_F32);
    assert_int_equal(trm_dataset_info(d)->y.rank, 1);
    trm_dataset_close(d);
    spec.float_target = false;
    assert_fault(trm_dataset_open(&spec, &d), TRM_DATA, "is no class number");
    spec = (trm_data_spec){.files = &path, .n_files = 1, .input = "data", .target = "data"};
    assert_fault(trm_dataset_open(&spec, &d), TRM_DATA, "one-hot?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_files),       cmocka_unit_test(the_plan_covers),
        cmocka_unit_test(chunks_by_calls), cmocka_unit_test(fingerprints),
        cmocka_unit_test(shapes),          cmocka_unit_test(rows_of_the_list),
        cmocka_unit_test(float_targets),   cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
