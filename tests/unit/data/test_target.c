/* Targets that become classes: one-hot rows, rows of scores, maps of labels; and which row is at fault. */
#include "data_support.h"

enum { N = 20, K = 4 };

/* Rows of K numbers, or single labels where k is 0; `bad`: put into row 13. */
static const char *write_rows(const char *name, trm_dtype type, int64_t k, const double *row13) {
    const char *path = support_path(name);
    trm_h5_file *f = NULL;
    static float data[N * 2];
    static float floats[N * K];
    static int64_t ints[N * K];
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < trm_max64(k, 1); j++) {
            int64_t at = i * trm_max64(k, 1) + j;
            double v = k == 0            ? (double)(i % 2 ? 7 : -3)
                       : type == TRM_F32 ? 0.1 * (double)(j == i % k) + 0.05
                                         : j == i % k;
            if (row13 && i == 13) v = row13[j];
            floats[at] = (float)v;
            ints[at] = (int64_t)v;
        }
    trm_shape x = trm_shape_of(2, N, 2), y = k ? trm_shape_of(2, N, k) : trm_shape_of(1, N);
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write(f, "data", TRM_F32, &x, data));
    assert_ok(trm_h5_write(f, "label", type, &y, type == TRM_F32 ? (void *)floats : (void *)ints));
    assert_ok(trm_h5_close(f));
    return path;
}

static trm_status open_rows(const char *path, trm_data_spec spec, trm_dataset **d) {
    spec.files = &path;
    spec.n_files = 1;
    return trm_dataset_open(&spec, d);
}

static void check_classes(const char *path, trm_data_spec spec, int64_t classes, int64_t (*want)(int64_t i)) {
    static const trm_data_cache caches[] = {TRM_CACHE_ON, TRM_CACHE_OFF};
    for (int k = 0; k < 4; k++) {
        trm_dataset *d = NULL, *twin;
        spec.cache = caches[k / 2];
        assert_ok(open_rows(path, spec, &d));
        twin = support_twin(d);
        trm_dataset *from = k % 2 ? twin : d;
        const trm_data_info *info = trm_dataset_info(from);
        assert_int_equal(info->y_type, TRM_I64);
        assert_int_equal(info->y_stride, sizeof(int64_t));
        assert_int_equal(info->y.rank, 0);
        assert_true(info->y_is_class);
        assert_int_equal(info->classes, classes);
        for (int64_t i = N - 1; i >= 0; i--) {
            float x[2];
            int64_t y;
            assert_ok(trm_dataset_read(from, &i, 1, x, &y));
            assert_int_equal(y, want(i));
        }
        assert_ok(trm_dataset_check(from));
        trm_dataset_close(twin);
        trm_dataset_close(d);
    }
}

static int64_t place(int64_t i) { return i % K; }
static int64_t mapped_place(int64_t i) { return i % K == 3 ? 0 : 1; }
static int64_t mapped_label(int64_t i) { return i % 2 ? 0 : 2; }

static const trm_label two_of_four[] = {{3, 0}, {0, 1}, {1, 1}, {2, 1}}, labels[] = {{7, 0}, {-3, 2}};

static void become_classes(void **state) {
    (void)state;
    check_classes(write_rows("onehot.h5", TRM_I64, K, NULL),
                  (trm_data_spec){.target_rows = TRM_TARGET_ONEHOT}, K, place);
    check_classes(write_rows("argmax.h5", TRM_F32, K, NULL),
                  (trm_data_spec){.target_rows = TRM_TARGET_ARGMAX}, K, place);
    check_classes(support_path("onehot.h5"), (trm_data_spec){.target_rows = TRM_TARGET_ARGMAX}, K, place);
    check_classes(support_path("onehot.h5"),
                  (trm_data_spec){.target_rows = TRM_TARGET_ONEHOT, .label_map = two_of_four, .n_labels = 4},
                  2, mapped_place);
    check_classes(write_rows("labels.h5", TRM_I64, 0, NULL),
                  (trm_data_spec){.label_map = labels, .n_labels = 2}, 3, mapped_label);
    /* Float labels that are whole numbers, and more classes than labels. */
    check_classes(write_rows("floats.h5", TRM_F32, 0, NULL),
                  (trm_data_spec){.label_map = labels, .n_labels = 2, .classes = 5}, 5, mapped_label);
}

static void refuse(const char *path, trm_data_spec spec, const char *sentence, const char *hint) {
    trm_dataset *d = NULL;
    assert_fault(open_rows(path, spec, &d), TRM_DATA, sentence);
    if (!strstr(trm_error_hint(), hint)) fail_msg("hint '%s', not '%s'", trm_error_hint(), hint);
}

static void refuses_bad_rows(void **state) {
    (void)state;
    trm_data_spec onehot = {.target_rows = TRM_TARGET_ONEHOT}, argmax = {.target_rows = TRM_TARGET_ARGMAX},
                  map = {.label_map = labels + 1, .n_labels = 1},
                  five = {.target_rows = TRM_TARGET_ONEHOT, .classes = 5};
    refuse(write_rows("zeros.h5", TRM_I64, K, (double[]){0, 0, 0, 0}), onehot,
           "'label'[13] is no one-hot row: it holds no 1", "argmax");
    refuse(write_rows("ones.h5", TRM_I64, K, (double[]){1, 0, 1, 0}), onehot,
           "'label'[13] is no one-hot row: it holds more than one 1", "");
    refuse(write_rows("twos.h5", TRM_I64, K, (double[]){0, 2, 1, 0}), onehot,
           "'label'[13] is no one-hot row: it holds other numbers than 0 and 1", "");
    refuse(support_path("argmax.h5"), onehot, "'label'[0] is no one-hot row: it holds other numbers",
           "argmax");
    refuse(write_rows("ties.h5", TRM_F32, K, (double[]){0.5, 0, 0.5, 0}), argmax,
           "'label'[13] has its largest number more than once", "");
    refuse(write_rows("infinite.h5", TRM_F32, K, (double[]){0.5, 1.0 / 0.0, 0, 0}), argmax,
           "'label'[13] holds a number that is not finite", "");
    refuse(support_path("labels.h5"), map, "'label'[1] = 7, which data.label_map does not name",
           "data.label_map");
    refuse(support_path("onehot.h5"), five, "'label' has rows of 4 numbers, data.classes is 5", "");
    refuse(support_path("labels.h5"), onehot, "'label' is int64 (20): rows of two numbers or more expected",
           "");
    refuse(support_path("onehot.h5"), (trm_data_spec){.classes = 0}, "one class number per sample expected",
           "onehot");
}

/* Another map is another data set. */
static void maps_change_the_fingerprint(void **state) {
    (void)state;
    static const trm_label other[] = {{7, 2}, {-3, 0}};
    trm_dataset *a = NULL, *b = NULL;
    const char *path = write_rows("print.h5", TRM_I64, 0, NULL);
    assert_ok(open_rows(path, (trm_data_spec){.label_map = labels, .n_labels = 2}, &a));
    assert_ok(open_rows(path, (trm_data_spec){.label_map = other, .n_labels = 2}, &b));
    assert_true(trm_dataset_info(a)->fingerprint != trm_dataset_info(b)->fingerprint);
    trm_dataset_close(a);
    trm_dataset_close(b);
}

/* For inference nobody reads them. */
static void are_not_needed(void **state) {
    (void)state;
    trm_dataset *d = NULL;
    assert_ok(open_rows(write_rows("bare.h5", TRM_I64, K, (double[]){0, 0, 0, 0}),
                        (trm_data_spec){.target_rows = TRM_TARGET_ONEHOT, .no_target = true, .classes = K},
                        &d));
    assert_int_equal(trm_dataset_info(d)->classes, K);
    trm_dataset *twin = support_twin(d);
    trm_dataset_close(twin);
    trm_dataset_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(become_classes),
        cmocka_unit_test(refuses_bad_rows),
        cmocka_unit_test(maps_change_the_fingerprint),
        cmocka_unit_test(are_not_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
