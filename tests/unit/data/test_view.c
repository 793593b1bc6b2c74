/* Samples that are put together: paths, columns, groups, windows, padding; by the opener and by another rank. */
#include "data_support.h"
#include "view_impl.h"

/* ---- paths ---- */

static void reads_paths(void **state) {
    (void)state;
    static const struct {
        const char *text, *file, *set, *columns;
        bool csr, whole;
    } cases[] = {
        {"/a/b", NULL, "/a/b", NULL, false, false},
        {"f.h5#/x", "f.h5", "/x", NULL, false, false},
        {"f.h5#/x[3,-1]", "f.h5", "/x", "3,-1", false, false},
        {"csr:/X", NULL, "/X", NULL, true, false},
        {"whole:species", NULL, "species", NULL, false, true},
        {"t/t.a[1]", NULL, "t/t.a", "1", false, false},
        {"", NULL, "", NULL, false, false},
    };
    for (size_t i = 0; i < SUPPORT_COUNT(cases); i++) {
        trm_view_path p;
        assert_ok(trm_view_path_read(cases[i].text, &p));
        assert_string_equal(p.set, cases[i].set);
        assert_true(p.csr == cases[i].csr && p.whole == cases[i].whole);
        assert_true((p.file != NULL) == (cases[i].file != NULL));
        if (p.file) assert_string_equal(p.file, cases[i].file);
        assert_true((p.columns != NULL) == (cases[i].columns != NULL));
        if (p.columns) assert_string_equal(p.columns, cases[i].columns);
        trm_view_path_free(&p);
    }
}

static void reads_columns(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int n;
        int64_t pick[6];
    } good[] = {{"0:3", 3, {0, 1, 2}},       {"-1", 1, {9}},
                {"2,0", 2, {2, 0}},          {"7:", 3, {7, 8, 9}},
                {":2,-2:", 4, {0, 1, 8, 9}}, {"-3:-1, 4", 3, {7, 8, 4}}};
    static const char *const bad[] = {"", "a", "3:3", "5:2", "10", "-11", "1,", "1;2", "0:11", ",1"};
    for (size_t i = 0; i < SUPPORT_COUNT(good); i++) {
        int64_t *pick = NULL;
        int n = 0;
        assert_ok(trm_view_columns("input", good[i].text, 10, &pick, &n));
        assert_int_equal(n, good[i].n);
        for (int k = 0; k < n; k++) assert_int_equal(pick[k], good[i].pick[k]);
        trm_free(pick);
    }
    for (size_t i = 0; i < SUPPORT_COUNT(bad); i++) {
        int64_t *pick = NULL;
        int n = 0;
        assert_true(trm_view_columns("input", bad[i], 10, &pick, &n) == TRM_DATA);
        assert_non_null(strstr(trm_error_text(), "do not fit the 10"));
        trm_free(pick);
    }
}

/* ---- files ---- */

static void write_floats(trm_h5_file *f, const char *name, trm_shape shape, float from) {
    int64_t n = trm_shape_count(&shape);
    float *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = from + (float)i;
    assert_ok(trm_h5_write(f, name, TRM_F32, &shape, v));
    free(v);
}

/* Two groups: x of 3 and of 2 rows, of width 4 and 3; `same` of one row each; a sequence of 5 steps. */
static const char *grouped(void) {
    const char *path = support_path("grouped.h5");
    trm_h5_file *f = NULL;
    assert_ok(trm_h5_create(path, &f));
    write_floats(f, "g/a/x", trm_shape_of(2, 3, 4), 0);
    write_floats(f, "g/a/y", trm_shape_of(1, 3), 100);
    write_floats(f, "g/a/same", trm_shape_of(1, 2), 50);
    write_floats(f, "g/b/x", trm_shape_of(2, 2, 3), 20);
    write_floats(f, "g/b/y", trm_shape_of(1, 2), 200);
    write_floats(f, "g/b/same", trm_shape_of(1, 2), 60);
    write_floats(f, "steps", trm_shape_of(3, 2, 5, 3), 0);
    write_floats(f, "wide", trm_shape_of(2, 4, 6), 0);
    write_floats(f, "image", trm_shape_of(4, 4, 2, 3, 2), 0);
    write_floats(f, "label", trm_shape_of(1, 4), 0);
    assert_ok(trm_h5_close(f));
    return path;
}

/* All samples, forwards and backwards, equal what is expected; then the same of a twin. */
static void expect_samples(const trm_data_spec *spec, int64_t n, trm_shape shape, const float *x,
                           const float *y, int64_t y_n) {
    for (int turn = 0; turn < 4; turn++) {
        trm_dataset *d = NULL, *of = NULL;
        trm_data_spec s = *spec;
        s.cache = turn & 1 ? TRM_CACHE_ON : TRM_CACHE_OFF;
        assert_ok(trm_dataset_open(&s, &d));
        of = turn & 2 ? support_twin(d) : d;
        const trm_data_info *info = trm_dataset_info(of);
        assert_int_equal(info->samples, n);
        assert_true(trm_shape_equal(&info->x, &shape));
        int64_t count = trm_shape_count(&shape);
        assert_int_equal(info->x_stride, count * 4);
        float *a = malloc((size_t)info->x_stride), *b = malloc((size_t)info->y_stride);
        for (int64_t i = 0; i < 2 * n; i++) {
            int64_t at = i < n ? i : 2 * n - 1 - i;
            assert_ok(trm_dataset_read(of, &at, 1, a, b));
            for (int64_t k = 0; k < count; k++)
                if (a[k] != x[at * count + k])
                    fail_msg("turn %d sample %d element %d: %g, not %g", turn, (int)at, (int)k, a[k],
                             x[at * count + k]);
            for (int64_t k = 0; y && k < y_n; k++)
                if (b[k] != y[at * y_n + k])
                    fail_msg("turn %d target %d element %d: %g, not %g", turn, (int)at, (int)k, b[k],
                             y[at * y_n + k]);
        }
        free(a);
        free(b);
        if (of != d) trm_dataset_close(of);
        trm_dataset_close(d);
    }
}

/* Groups of unequal length beside one that is whole. */
static trm_data_spec padded_groups(const char *const *path) {
    static const char *const input[] = {"x", "whole:same"}, *const target[] = {"y"};
    return (trm_data_spec){
        .files = path,
        .n_files = 1,
        .float_target = true,
        .view = {.input = input, .n_input = 2, .target = target, .n_target = 1, .groups = "/g/*", .pad = -1}};
}

static void pads_groups(void **state) {
    (void)state;
    const char *path = grouped();
    trm_data_spec spec = padded_groups(&path);
    const float x[] = {0,  1,  2,  3,  50, 51, 4, 5,  6,  7,  50, 51, 8, 9,  10,
                       11, 50, 51, 20, 21, 22, 0, 60, 61, 23, 24, 25, 0, 60, 61};
    const float y[] = {100, 101, 102, 200, 201};
    expect_samples(&spec, 5, trm_shape_of(1, 6), x, y, 1);
    spec.first = 2;
    spec.count = 2;
    expect_samples(&spec, 2, trm_shape_of(1, 6), x + 12, y + 2, 1);
}

static void cuts_windows(void **state) {
    (void)state;
    const char *path = grouped();
    trm_data_spec spec = {.files = &path,
                          .n_files = 1,
                          .input = "steps",
                          .float_target = true,
                          .view = {.sample = TRM_SAMPLE_WINDOW, .axis = 1, .in_steps = 2, .out_steps = 2}};
    float x[4 * 6], y[4 * 6];
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 6; k++) {
            x[i * 6 + k] = (float)(i / 2 * 15 + i % 2 * 3 + k);
            y[i * 6 + k] = x[i * 6 + k] + 6;
        }
    expect_samples(&spec, 4, trm_shape_of(2, 2, 3), x, y, 6);
}

static void picks_columns(void **state) {
    (void)state;
    const char *path = grouped(), *input[] = {"wide[5,0:2]"}, *target[] = {"wide[-2]"};
    trm_data_spec spec = {.files = &path,
                          .n_files = 1,
                          .float_target = true,
                          .view = {.input = input, .n_input = 1, .target = target, .n_target = 1}};
    float x[12], y[4];
    for (int i = 0; i < 4; i++) {
        x[3 * i] = (float)(6 * i + 5);
        x[3 * i + 1] = (float)(6 * i);
        x[3 * i + 2] = (float)(6 * i + 1);
        y[i] = (float)(6 * i + 4);
    }
    expect_samples(&spec, 4, trm_shape_of(1, 3), x, y, 1);
}

/* Two images side by side, stored with their channels last; the input alone is a view, or both are. */
static void joins_channels(void **state) {
    (void)state;
    const char *path = grouped(), *input[] = {"image", "image[1]"}, *target[] = {"label"};
    trm_data_spec spec = {.files = &path,
                          .n_files = 1,
                          .float_target = true,
                          .hwc = true,
                          .view = {.input = input, .n_input = 2, .target = target, .n_target = 1}};
    float x[4 * 18];
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < 6; k++) x[i * 18 + c * 6 + k] = (float)(i * 12 + k * 2 + (c > 0));
    const float y[] = {0, 1, 2, 3};
    expect_samples(&spec, 4, trm_shape_of(3, 3, 2, 3), x, y, 1);
}

/* A plain input beside a target from another path form keeps its quick way. */
static void input_stays_plain(void **state) {
    (void)state;
    const char *path = grouped(), *target[] = {"wide[0]"};
    trm_dataset *d = NULL;
    trm_data_spec spec = {.files = &path,
                          .n_files = 1,
                          .input = "image",
                          .float_target = true,
                          .view = {.target = target, .n_target = 1}};
    assert_ok(trm_dataset_open(&spec, &d));
    assert_null(d->x.view);
    assert_non_null(d->y.view);
    assert_int_equal(d->x.part[0].layout, TRM_LAY_CONTIGUOUS);
    trm_dataset_close(d);
}

static void refuses(void **state) {
    (void)state;
    const char *path = grouped(), *none[] = {"x"}, *columns[] = {"wide[3:9]"}, *two[] = {"image", "wide"};
    const char *twice[] = {path, path}, *other[] = {"grouped.h5#wide"};
    const struct {
        const char *says;
        trm_data_spec spec;
    } cases[] = {
        {"no group fits '/h/*'", {.view = {.groups = "/h/*", .input = none, .n_input = 1}}},
        {"the first one was (3,4)", {.view = {.groups = "/g/*", .input = none, .n_input = 1}}},
        {"do not fit the 6", {.view = {.input = columns, .n_input = 1}}},
        {"cannot stand side by side", {.view = {.input = two, .n_input = 2}}},
        {"has 5 steps of time, a window has 9",
         {.input = "steps", .view = {.sample = TRM_SAMPLE_WINDOW, .axis = 1, .in_steps = 8, .out_steps = 1}}},
        {"no dimension 4 for samples", {.input = "image", .view = {.axis = 4}}},
        {"`data.lengths` is needed", {.input = "wide", .view = {.sample = TRM_SAMPLE_RAGGED}}},
        {"no table of splits", {.input = "wide", .target = "label", .view = {.split = "train"}}},
        {"is one file, but samples come from 2",
         {.files = twice, .n_files = 2, .view = {.input = other, .n_input = 1, .folder = support_path("")}}},
        {"data.window is for tokens", {.input = "wide", .window = 3, .view = {.axis = 1}}},
    };
    for (size_t i = 0; i < SUPPORT_COUNT(cases); i++) {
        trm_dataset *d = NULL;
        trm_data_spec spec = cases[i].spec;
        if (!spec.files) {
            spec.files = &path;
            spec.n_files = 1;
        }
        spec.float_target = true;
        spec.no_target = !spec.target;
        if (trm_dataset_open(&spec, &d) != TRM_DATA || !strstr(trm_error_text(), cases[i].says))
            fail_msg("case %d: '%s' expected, it says: %s", (int)i, cases[i].says, trm_error_text());
    }
}

/* Each allocation fails once: a sentence, and nothing is lost. */
static void survives_no_memory(void **state) {
    (void)state;
    const char *path = grouped();
    trm_data_spec spec = padded_groups(&path);
    uint64_t before = trm_mem_count().live_bytes;
    for (uint64_t n = 1; n < 4000; n++) {
        trm_dataset *d = NULL;
        trm_mem_fail_after(n);
        trm_status s = trm_dataset_open(&spec, &d);
        trm_mem_fail_after(0);
        trm_dataset_close(d);
        if (trm_mem_count().live_bytes != before) fail_msg("allocation %d: memory is lost", (int)n);
        if (s == TRM_OK) return;
    }
    fail_msg("it never opened");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_paths),        cmocka_unit_test(reads_columns),
        cmocka_unit_test(pads_groups),        cmocka_unit_test(cuts_windows),
        cmocka_unit_test(picks_columns),      cmocka_unit_test(joins_channels),
        cmocka_unit_test(input_stays_plain),  cmocka_unit_test(refuses),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
