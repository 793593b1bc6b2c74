/* Statistics of the inputs: values against slow sums, whatever the type, the order of storage and the layout of the file. */
#include "data_support.h"
#include <math.h>

enum { N = 37, C = 3, H = 5, W = 4, COUNT = C * H * W };

static double value_of(int64_t i, int64_t c, int64_t p) {
    return (double)((31 * i + 17 * c + 7 * p) % (97 + 20 * c));
}

/* `scale`: of float values; 0: bytes. */
static const char *write_images(const char *name, bool hwc, double scale, double shift, int64_t chunk) {
    const char *path = support_path(name);
    trm_h5_file *f = NULL;
    static unsigned char bytes[N * COUNT];
    static float floats[N * COUNT];
    static int64_t label[N];
    for (int64_t i = 0; i < N; i++)
        for (int64_t c = 0; c < C; c++)
            for (int64_t p = 0; p < H * W; p++) {
                int64_t to = i * COUNT + (hwc ? p * C + c : c * H * W + p);
                bytes[to] = (unsigned char)value_of(i, c, p);
                floats[to] = (float)(value_of(i, c, p) * scale + shift);
            }
    trm_shape x = hwc ? trm_shape_of(4, N, H, W, C) : trm_shape_of(4, N, C, H, W), y = trm_shape_of(1, N);
    const void *data = scale != 0 ? (void *)floats : (void *)bytes;
    trm_dtype type = scale != 0 ? TRM_F32 : TRM_U8;
    assert_ok(trm_h5_create(path, &f));
    assert_ok(chunk ? trm_h5_write_chunked(f, "data", type, &x, data, chunk, 1)
                    : trm_h5_write(f, "data", type, &x, data));
    assert_ok(trm_h5_write(f, "label", TRM_I64, &y, label));
    assert_ok(trm_h5_close(f));
    return path;
}

static void take_stats(const char *path, bool hwc, trm_data_cache cache, trm_data_stats *out) {
    trm_dataset *d = NULL;
    trm_data_spec spec = {.files = &path, .n_files = 1, .hwc = hwc, .cache = cache};
    assert_ok(trm_dataset_open(&spec, &d));
    assert_ok(trm_dataset_stats(d, NULL, NULL, out));
    trm_dataset_close(d);
}

static void assert_near(double got, double want, double bound, const char *what) {
    if (!(fabs(got - want) <= bound)) fail_msg("%s is %.17g, not %.17g", what, got, want);
}

static void check_images(double scale, double shift, double bound) {
    trm_data_stats s;
    take_stats(write_images("stats.h5", false, scale, shift, 0), false, TRM_CACHE_ON, &s);
    double a = scale != 0 ? scale : 1;
    assert_int_equal(s.channels, C);
    assert_int_equal(s.count, N * H * W);
    for (int64_t c = 0; c < C; c++) {
        double sum = 0, square = 0, min = INFINITY, max = -INFINITY, n = N * H * W;
        for (int64_t i = 0; i < N * H * W; i++) sum += value_of(i / (H * W), c, i % (H * W));
        for (int64_t i = 0; i < N * H * W; i++) {
            double v = value_of(i / (H * W), c, i % (H * W));
            square += (v - sum / n) * (v - sum / n);
            min = fmin(min, v);
            max = fmax(max, v);
        }
        assert_near(s.mean[c], a * sum / n + shift, bound, "mean");
        assert_near(s.std[c], a * sqrt(square / n), bound, "std");
        assert_near(s.min[c], a * min + shift, bound, "min");
        assert_near(s.max[c], a * max + shift, bound, "max");
    }
    trm_data_stats_free(&s);
}

static void of_images(void **state) {
    (void)state;
    check_images(0, 0, 1e-12);
    check_images(0.25, 0, 1e-12);
    /* A mean that is large against the deviation does not eat it. */
    check_images(0.25, 65536, 1e-9);
}

static void assert_same(const trm_data_stats *a, const trm_data_stats *b) {
    size_t bytes = (size_t)a->channels * sizeof *a->mean;
    assert_int_equal(a->channels, b->channels);
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->mean, b->mean, bytes);
    assert_memory_equal(a->std, b->std, bytes);
    assert_memory_equal(a->min, b->min, bytes);
    assert_memory_equal(a->max, b->max, bytes);
}

/* Chunks, caches and the order of storage change no bit. */
static void depend_on_rows_only(void **state) {
    (void)state;
    trm_data_stats want, got;
    take_stats(write_images("whole.h5", false, 0.1, 3, 0), false, TRM_CACHE_ON, &want);
    for (int k = 0; k < 6; k++) {
        take_stats(write_images("other.h5", k % 2, 0.1, 3, k / 2 * 5), k % 2,
                   k > 2 ? TRM_CACHE_OFF : TRM_CACHE_ON, &got);
        assert_same(&got, &want);
        trm_data_stats_free(&got);
    }
    trm_data_stats_free(&want);
}

/* Sequences (T,C) have statistics of each of their channels. */
static void of_sequences(void **state) {
    (void)state;
    const char *path = support_path("sequences.h5");
    trm_h5_file *f = NULL;
    trm_shape x = trm_shape_of(3, 2, 2, 3), y = trm_shape_of(1, 2);
    trm_data_stats s;
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write(f, "data", TRM_F64, &x, (double[]){1, 2, 3, 3, 2, 4, 5, 2, 5, 7, 2, 6}));
    assert_ok(trm_h5_write(f, "label", TRM_I64, &y, (int64_t[]){0, 1}));
    assert_ok(trm_h5_close(f));
    take_stats(path, false, TRM_CACHE_ON, &s);
    assert_int_equal(s.channels, 3);
    assert_int_equal(s.count, 4);
    assert_true(s.mean[0] == 4 && s.mean[1] == 2 && s.mean[2] == 4.5);
    assert_true(s.std[0] == sqrt(5) && s.std[1] == 0 && s.max[2] == 6);
    trm_data_stats_free(&s);
}

static int64_t told;
static trm_status tell(void *ctx, int64_t done, int64_t rows) {
    (void)ctx;
    assert_in_range(done, told + 1, rows);
    told = done;
    return TRM_OK;
}

static trm_status no_more(void *ctx, int64_t done, int64_t rows) {
    (void)ctx, (void)done, (void)rows;
    return trm_fail(TRM_STOPPED, "that is enough");
}

/* Vectors have statistics of each of their numbers; rows that are not used do not count. */
static void of_vectors(void **state) {
    (void)state;
    const char *path = support_set("vectors.h5", 50, 0);
    trm_dataset *d = NULL;
    trm_data_stats s;
    trm_data_spec spec = {.files = &path, .n_files = 1, .first = 10, .count = 20};
    assert_ok(trm_dataset_open(&spec, &d));
    told = 0;
    assert_ok(trm_dataset_stats(d, tell, NULL, &s));
    assert_int_equal(told, 20);
    assert_fault(trm_dataset_stats(d, no_more, NULL, &s), TRM_STOPPED, "that is enough");
    assert_int_equal(s.channels, 6);
    assert_int_equal(s.count, 20);
    for (int64_t j = 0; j < 6; j++) {
        double sum = 0;
        for (int64_t i = 10; i < 30; i++) sum += (double)support_value(i, j);
        assert_near(s.mean[j], sum / 20, 1e-12, "mean");
    }
    trm_data_stats_free(&s);
    trm_dataset_close(d);
}

static const char *write_stats(const char *name, int64_t n_mean, int64_t n_max, double first) {
    const char *path = support_path(name);
    trm_h5_file *f = NULL;
    double v[4] = {first, 2, 3, 4};
    trm_shape n = trm_shape_of(1, n_mean), m = trm_shape_of(1, n_max);
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write(f, "mean", TRM_F64, &n, v));
    assert_ok(trm_h5_write(f, "std", TRM_F64, &n, v));
    assert_ok(trm_h5_write(f, "min", TRM_F64, &n, v));
    assert_ok(trm_h5_write(f, "max", TRM_F64, &m, v));
    assert_ok(trm_h5_close(f));
    return path;
}

static void from_a_file(void **state) {
    (void)state;
    trm_data_stats s = {0};
    assert_ok(trm_data_stats_read(write_stats("good.h5", 3, 3, 1.5), &s));
    assert_int_equal(s.channels, 3);
    assert_true(s.mean[0] == 1.5 && s.max[2] == 3);
    trm_data_stats_free(&s);
    assert_fault(trm_data_stats_read(write_stats("long.h5", 3, 4, 1), &s), TRM_DATA,
                 "long.h5: 'max' has 4 numbers, 'mean' has 3");
    assert_fault(trm_data_stats_read(write_stats("nan.h5", 3, 3, NAN), &s), TRM_DATA,
                 "nan.h5: 'mean'[0] is not finite");
    assert_fault(trm_data_stats_read(support_set("none.h5", 5, 0), &s), TRM_DATA, "none.h5");
    assert_fault(trm_data_stats_read(support_file("text.h5", "mean"), &s), TRM_DATA, "text.h5");
    assert_null(s.mean);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_images),  cmocka_unit_test(depend_on_rows_only), cmocka_unit_test(of_sequences),
        cmocka_unit_test(of_vectors), cmocka_unit_test(from_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
