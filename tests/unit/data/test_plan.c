/* Packed plans: they come back whole, and damaged or hostile ones are refused without harm. */
#include "data_support.h"
#include "data_impl.h"

static void unpack_fails(const void *bytes, size_t n) {
    trm_dataset *d = NULL;
    trm_status s = trm_dataset_unpack(bytes, n, &d);
    if (s == TRM_OK) trm_dataset_close(d);
    assert_int_equal(s, TRM_INTERNAL);
}

static void it_comes_back(void **state) {
    (void)state;
    for (int64_t chunk = 0; chunk <= 8; chunk += 4) {
        trm_dataset *d = support_open(support_set("plan.h5", 30, chunk), TRM_CACHE_OFF),
                    *twin = support_twin(d);
        assert_memory_equal(trm_dataset_info(d), trm_dataset_info(twin), sizeof(trm_data_info));
        trm_dataset_close(d);
        int64_t index[3] = {29, 0, 7}, y[3];
        int32_t x[18];
        assert_ok(trm_dataset_read(twin, index, 3, x, y));
        for (int i = 0; i < 18; i++) assert_int_equal(x[i], support_value(index[i / 6], i % 6));
        trm_dataset_close(twin);
    }
}

static void cut_or_flipped(void **state) {
    (void)state;
    void *bytes = NULL;
    size_t n = 0;
    trm_dataset *d = support_open(support_set("damaged.h5", 30, 8), TRM_CACHE_OFF);
    assert_ok(trm_dataset_pack(d, &bytes, &n));
    uint64_t live = trm_mem_count().live_bytes;
    for (size_t k = 0; k < n; k++) unpack_fails(bytes, k);
    for (size_t k = 0; k < n; k++) {
        ((unsigned char *)bytes)[k] ^= 0x10;
        unpack_fails(bytes, n);
        ((unsigned char *)bytes)[k] ^= 0x10;
    }
    assert_int_equal(trm_mem_count().live_bytes, live);
    trm_free(bytes);
    trm_dataset_close(d);
}

/* Every word replaced by nasty ones, with a right sum: what comes through must still be safe to read with. */
static void every_word(void **state) {
    (void)state;
    static const int64_t nasty[] = {0,         1,         -1,
                                    2,         7,         255,
                                    1 << 20,   INT32_MAX, (int64_t)INT32_MAX + 1,
                                    INT64_MAX, INT64_MIN, (int64_t)1 << 40};
    for (int64_t chunk = 0; chunk <= 8; chunk += 8) {
        void *bytes = NULL;
        size_t n = 0;
        trm_dataset *d = support_open(support_set("words.h5", 30, chunk), TRM_CACHE_OFF);
        assert_ok(trm_dataset_pack(d, &bytes, &n));
        uint64_t live = trm_mem_count().live_bytes;
        for (size_t at = 8; at + 16 <= n; at += 4)
            for (size_t k = 0; k < SUPPORT_COUNT(nasty); k++) {
                char *copy = malloc(n);
                trm_dataset *got = NULL;
                memcpy(copy, bytes, n);
                memcpy(copy + at, &nasty[k], 8);
                uint64_t sum = trm_sum64(copy, n - 8);
                memcpy(copy + n - 8, &sum, 8);
                if (trm_dataset_unpack(copy, n, &got) == TRM_OK) {
                    const trm_data_info *info = trm_dataset_info(got);
                    int64_t last = info->samples - 1;
                    assert_true(info->samples > 0);
                    if (info->x_stride < 1 << 20 && info->y_stride < 1 << 20) {
                        char *x = malloc((size_t)info->x_stride), *y = malloc((size_t)info->y_stride);
                        (void)!trm_dataset_read(got, &last, 1, x, y);
                        free(x);
                        free(y);
                    }
                    trm_dataset_close(got);
                }
                free(copy);
                assert_int_equal(trm_mem_count().live_bytes, live);
            }
        trm_free(bytes);
        trm_dataset_close(d);
    }
}

static void rules(void **state) {
    (void)state;
    trm_dataset *d = support_open(support_set("rules.h5", 30, 8), TRM_CACHE_OFF);
    trm_stretch *p = &d->x.part[0];
    assert_ok(trm_plan_check(d));
#define BROKEN(place, value)                               \
    do {                                                   \
        __typeof__(place) held = (place);                  \
        (place) = (value);                                 \
        assert_int_equal(trm_plan_check(d), TRM_INTERNAL); \
        (place) = held;                                    \
        assert_ok(trm_plan_check(d));                      \
    } while (0)
    BROKEN(p->file, 1);
    BROKEN(p->file, -1);
    BROKEN(p->layout, TRM_LAY_CONTIGUOUS);
    BROKEN(p->layout, TRM_LAY_CALLS);
    BROKEN(p->layout, TRM_LAY_COUNT);
    BROKEN(p->stored, TRM_I64);
    BROKEN(p->rank, 0);
    BROKEN(p->rank, 7);
    BROKEN(p->dim[0], 0);
    BROKEN(p->dim[1], 7);
    BROKEN(p->chunk[0], 0);
    BROKEN(p->chunk[0], INT64_MAX);
    BROKEN(p->chunk[1], 1 << 30);
    BROKEN(p->n_chunks, 3);
    BROKEN(p->table[2].offset, UINT64_MAX - 5);
    BROKEN(p->table[2].offset, (uint64_t)d->file[0].size);
    BROKEN(p->table[2].bytes, UINT32_MAX);
    BROKEN(p->filter[0].id, 4);
    BROKEN(p->first, -1);
    BROKEN(p->first, 1);
    BROKEN(p->rows, 0);
    BROKEN(p->rows, 31);
    BROKEN(d->x.row_elems, 5);
    BROKEN(d->x.type, TRM_F32);
    BROKEN(d->info.x.dim[0], 5);
    BROKEN(d->info.kind, TRM_DATA_AUTO);
    BROKEN(d->info.kind, TRM_DATA_TOKEN_STREAM);
    BROKEN(d->has_y, false);
    BROKEN(d->y.part[0].rows, 29);
    BROKEN(d->file[0].size, 0);
    BROKEN(d->n_files, 0);
    trm_dataset_close(d);
}

static void memory_may_fail(void **state) {
    (void)state;
    uint64_t live = trm_mem_count().live_bytes;
    for (int64_t chunk = 0; chunk <= 8; chunk += 8) {
        const char *path = support_set("fail.h5", 30, chunk);
        trm_status s = TRM_MEMORY;
        for (uint64_t n = 1; n < 200 && s != TRM_OK; n++) {
            trm_dataset *d = NULL, *twin = NULL;
            void *bytes = NULL;
            size_t size = 0;
            trm_data_spec spec = {.files = &path, .n_files = 1, .cache = TRM_CACHE_ON};
            trm_mem_fail_after(n);
            s = trm_dataset_open(&spec, &d);
            if (s == TRM_OK) s = trm_dataset_pack(d, &bytes, &size);
            if (s == TRM_OK) s = trm_dataset_unpack(bytes, size, &twin);
            if (s == TRM_OK) s = trm_dataset_check(twin);
            trm_mem_fail_after(0);
            trm_free(bytes);
            trm_dataset_close(twin);
            trm_dataset_close(d);
            assert_true(s == TRM_OK || s == TRM_MEMORY || s == TRM_INTERNAL);
            assert_int_equal(trm_mem_count().live_bytes, live);
        }
        assert_int_equal(s, TRM_OK);
    }
}

/* A file that has only its input, and one whose targets are left alone. */
static void without_targets(void **state) {
    (void)state;
    const char *path = support_path("bare.h5");
    trm_h5_file *f = NULL;
    trm_shape shape = trm_shape_of(2, 30, 6);
    int32_t data[180];
    for (int i = 0; i < 180; i++) data[i] = (int32_t)support_value(i / 6, i % 6);
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write(f, "data", TRM_I32, &shape, data));
    assert_ok(trm_h5_close(f));
    const char *file[2] = {path, support_set("whole.h5", 30, 8)};
    for (int i = 0; i < 4; i++) {
        trm_data_spec spec = {
            .files = &file[i / 2], .n_files = 1, .float_target = i % 2, .classes = 3 * (i % 2 == 0)};
        trm_dataset *d = NULL;
        if (i < 2) assert_int_equal(trm_dataset_open(&spec, &d), TRM_DATA);
        spec.no_target = true;
        assert_ok(trm_dataset_open(&spec, &d));
        trm_dataset *twin = support_twin(d);
        const trm_data_info *info = trm_dataset_info(twin);
        assert_memory_equal(info, trm_dataset_info(d), sizeof *info);
        assert_int_equal(info->samples, 30);
        assert_int_equal(info->y_is_class, i % 2 == 0);
        assert_int_equal(info->y.rank, i % 2);
        assert_int_equal(info->y_stride, 0);
        int64_t index[3] = {29, 0, 7};
        int32_t x[18];
        assert_ok(trm_dataset_read(twin, index, 3, x, NULL));
        for (int k = 0; k < 18; k++) assert_int_equal(x[k], support_value(index[k / 6], k % 6));
        assert_ok(trm_dataset_check(twin));
        /* The plan of a set with targets may not say that it has none, nor the other way round. */
        d->info.no_target = false;
        assert_int_equal(trm_plan_check(d), TRM_INTERNAL);
        trm_dataset_close(twin);
        trm_dataset_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back), cmocka_unit_test(cut_or_flipped),  cmocka_unit_test(every_word),
        cmocka_unit_test(rules),         cmocka_unit_test(memory_may_fail), cmocka_unit_test(without_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
