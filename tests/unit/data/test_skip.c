/* Samples that are left out: which ones, that what is left is what a file without them holds, and that all ranks agree. */
#include "data_impl.h"
#include "data_support.h"
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#define N 40
#define ROW 6

static bool is_bad(int64_t i) { return i == 0 || i == 7 || (i >= 16 && i < 24) || i == 39; }
static bool bad_value(int64_t i) { return i == 0 || i == 7; }
static bool bad_label(int64_t i) { return i == 7 || i == 39; }

/* Bytes 4 to 7 of the first zlib stream with this compressed size are overwritten: it no longer inflates. */
static void break_chunk(const char *path, int which) {
    unsigned char b[65536];
    int fd = open(path, O_RDWR), seen = 0;
    ssize_t n = pread(fd, b, sizeof b, 0);
    assert_true(n > 0 && n < (ssize_t)sizeof b);
    for (ssize_t i = 0; i + 8 < n; i++) {
        if (b[i] != 0x78 || b[i + 1] != 0x9C || seen++ != which) continue;
        memset(b + i + 4, 0xFF, 12);
        assert_int_equal(pwrite(fd, b + i + 4, 12, i + 4), 12);
        close(fd);
        return;
    }
    fail_msg("%s has no chunk %d", path, which);
}

/* Rows 0..N-1 (bad: of them all, with what is_bad says; else only the good ones), chunks of 8 rows. */
static const char *make(const char *name, bool bad) {
    const char *path = support_path(name);
    trm_h5_file *f = NULL;
    float x[N * ROW];
    int64_t y[N], n = 0;
    for (int64_t i = 0; i < N; i++) {
        if (!bad && is_bad(i)) continue;
        for (int64_t j = 0; j < ROW; j++) x[n * ROW + j] = (float)support_value(i, j);
        if (bad && bad_value(i)) x[n * ROW + 2] = i ? NAN : -INFINITY;
        y[n++] = bad && bad_label(i) ? (i == 7 ? -1 : 10) : i % 10;
    }
    trm_shape sx = trm_shape_of(2, n, ROW), sy = trm_shape_of(1, n);
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write_chunked(f, "data", TRM_F32, &sx, x, 8, 6));
    assert_ok(trm_h5_write(f, "label", TRM_I64, &sy, y));
    assert_ok(trm_h5_close(f));
    if (bad) break_chunk(path, 2);
    return path;
}

static trm_dataset *open_set(const char *path, trm_on_bad on_bad, trm_data_cache cache) {
    trm_dataset *d = NULL;
    trm_data_spec spec = {.files = &path, .n_files = 1, .classes = 10, .cache = cache, .on_bad = on_bad};
    assert_ok(trm_dataset_open(&spec, &d));
    return d;
}

static void read_all(trm_dataset *d, float *x, int64_t *y) {
    int64_t at[N], n = trm_dataset_info(d)->samples;
    /* Not in order. */
    for (int64_t i = 0; i < n; i++) at[i] = n - 1 - i;
    assert_ok(trm_dataset_read(d, at, n, x, y));
}

static void what_is_left_is_what_a_clean_file_holds(void **state) {
    (void)state;
    const char *clean = make("clean.h5", false), *bad = make("bad.h5", true);
    float want[N * ROW], x[N * ROW];
    int64_t want_y[N], y[N];
    trm_dataset *c = open_set(clean, TRM_BAD_ERROR, TRM_CACHE_AUTO);
    read_all(c, want, want_y);
    int64_t left = trm_dataset_info(c)->samples;
    uint64_t print = 0;
    for (int cache = 0; cache < 3; cache++) {
        support_log_start();
        trm_dataset *d = open_set(bad, TRM_BAD_SKIP, (trm_data_cache)cache), *twin = support_twin(d);
        assert_int_equal(support_log.warnings, 1);
        assert_non_null(
            strstr(support_log.last, "11 of 40 samples are left out: 0, 7, 16 to 23, 39; the first: "));
        assert_non_null(strstr(support_log.last, "'data'[0] holds -inf"));
        assert_int_equal(trm_dataset_info(d)->skipped, 11);
        assert_int_equal(trm_dataset_info(d)->samples, left);
        assert_int_equal(trm_dataset_info(twin)->samples, left);
        for (int k = 0; k < 2; k++) {
            memset(x, 0, sizeof x);
            read_all(k ? twin : d, x, y);
            assert_memory_equal(x, want, (size_t)left * ROW * sizeof *x);
            assert_memory_equal(y, want_y, (size_t)left * sizeof *y);
            assert_ok(trm_dataset_check(k ? twin : d));
        }
        /* The same list is the same set, whatever is kept in memory; and not the clean one. */
        if (cache == 0) print = trm_dataset_info(d)->fingerprint;
        assert_true(trm_dataset_info(d)->fingerprint == print);
        assert_true(print != trm_dataset_info(c)->fingerprint);
        for (int64_t i = 0, k = 0; i < N; i++)
            if (!is_bad(i)) assert_int_equal(trm_dataset_place(twin, k++), i);
        trm_dataset_close(twin);
        trm_dataset_close(d);
    }
    trm_dataset_close(c);
}

static void without_the_word_it_is_a_fault(void **state) {
    (void)state;
    const char *bad = make("fault.h5", true);
    trm_dataset *d = NULL;
    trm_data_spec spec = {.files = &bad, .n_files = 1, .classes = 10};
    assert_int_equal(trm_dataset_open(&spec, &d), TRM_DATA);
}

/* A good set does not change by the word. */
static void nothing_to_leave_out(void **state) {
    (void)state;
    const char *clean = make("good.h5", false);
    support_log_start();
    trm_dataset *a = open_set(clean, TRM_BAD_ERROR, TRM_CACHE_AUTO),
                *b = open_set(clean, TRM_BAD_SKIP, TRM_CACHE_AUTO);
    assert_int_equal(support_log.warnings, 0);
    assert_true(trm_dataset_info(a)->fingerprint == trm_dataset_info(b)->fingerprint);
    assert_int_equal(trm_dataset_info(b)->skipped, 0);
    trm_dataset_close(a);
    trm_dataset_close(b);
}

static void one_column(const char *name, const char *set, trm_dtype type, int64_t n, const void *values) {
    trm_h5_file *f = NULL;
    trm_shape shape = trm_shape_of(1, n);
    assert_ok(trm_h5_create(support_path(name), &f));
    assert_ok(trm_h5_write(f, set, type, &shape, values));
    assert_ok(trm_h5_close(f));
}

/* A token out of range takes the window that holds it, and the one before where it is that one's last target. */
static void windows(void **state) {
    (void)state;
    static const struct {
        int64_t token, windows[2], n;
    } cases[] = {{0, {0}, 1}, {5, {1}, 1}, {8, {1, 2}, 2}, {19, {4}, 1}, {20, {4}, 1}, {22, {0}, 0}};
    for (size_t i = 0; i < SUPPORT_COUNT(cases); i++) {
        uint16_t token[23], x[5];
        trm_dataset *d = NULL;
        for (int k = 0; k < 23; k++) token[k] = (uint16_t)k;
        token[cases[i].token] = 999;
        one_column("stream.h5", "tokens", TRM_U16, 23, token);
        const char *path = support_path("stream.h5");
        trm_data_spec spec = {
            .files = &path, .n_files = 1, .window = 4, .classes = 30, .on_bad = TRM_BAD_SKIP};
        support_log_start();
        assert_ok(trm_dataset_open(&spec, &d));
        /* 22 tokens and a last target: 5 windows. */
        assert_int_equal(trm_dataset_info(d)->skipped, cases[i].n);
        assert_int_equal(trm_dataset_info(d)->samples, 5 - cases[i].n);
        for (int64_t k = 0, w = 0; w < 5; w++) {
            if (cases[i].n > 0 && (w == cases[i].windows[0] || (cases[i].n > 1 && w == cases[i].windows[1])))
                continue;
            assert_ok(trm_dataset_read(d, &k, 1, x, NULL));
            assert_int_equal(x[0], 4 * w);
            k++;
        }
        trm_dataset_close(d);
    }
}

/* Labels as floats: halves, NaN and what is too large. */
static void float_labels(void **state) {
    (void)state;
    const char *path = support_path("floats.h5");
    trm_h5_file *f = NULL;
    float y[8] = {0, 2.5f, 1, NAN, 2, 1e30f, -1, 1}, x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    trm_shape shape = trm_shape_of(1, 8);
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write(f, "data", TRM_F32, &shape, x));
    assert_ok(trm_h5_write(f, "label", TRM_F32, &shape, y));
    assert_ok(trm_h5_close(f));
    trm_dataset *d = NULL;
    trm_data_spec spec = {.files = &path, .n_files = 1, .on_bad = TRM_BAD_SKIP};
    support_log_start();
    assert_ok(trm_dataset_open(&spec, &d));
    assert_int_equal(trm_dataset_info(d)->samples, 4);
    assert_int_equal(trm_dataset_info(d)->classes, 3);
    static const int64_t at[4] = {0, 1, 2, 3}, want_y[4] = {0, 1, 2, 1};
    static const float want[4] = {0, 2, 4, 7};
    float got[4];
    int64_t got_y[4];
    assert_ok(trm_dataset_read(d, at, 4, got, got_y));
    assert_memory_equal(got, want, sizeof want);
    assert_memory_equal(got_y, want_y, sizeof want_y);
    trm_dataset_close(d);
}

static void none_is_left(void **state) {
    (void)state;
    float x[3] = {NAN, INFINITY, NAN};
    const char *path = support_path("none.h5");
    trm_dataset *d = NULL;
    one_column("none.h5", "data", TRM_F32, 3, x);
    trm_data_spec spec = {.files = &path, .n_files = 1, .no_target = true, .on_bad = TRM_BAD_SKIP};
    assert_fault(trm_dataset_open(&spec, &d), TRM_DATA, "all of 3 samples are bad, none is left");
}

/* A file that is cut short while it is read is no file with many bad samples. */
static void a_file_that_shrinks_is_a_fault(void **state) {
    (void)state;
    const char *path = make("shrinks.h5", false);
    trm_dataset *d = open_set(path, TRM_BAD_SKIP, TRM_CACHE_OFF), *twin = support_twin(d);
    float x[ROW];
    int64_t at = 3, y;
    assert_int_equal(truncate(path, 100), 0);
    assert_fault(trm_dataset_read(twin, &at, 1, x, &y), TRM_DATA, "it was changed meanwhile");
    trm_dataset_close(twin);
    trm_dataset_close(d);
}

/* What happens to a file between the plan and the first reading of another rank. */
static void a_file_that_is_another_one_is_a_fault(void **state) {
    (void)state;
    static const char *const says[] = {"no such file", "it was changed meanwhile",
                                       "was written to or replaced", "is a directory", "is a pipe"};
    for (int i = 0; i < 5; i++) {
        const char *path = make("changes.h5", false);
        trm_dataset *d = open_set(path, TRM_BAD_ERROR, TRM_CACHE_OFF), *twin = support_twin(d);
        float x[ROW];
        int64_t at = 3, y;
        if (i != 1) assert_int_equal(unlink(path), 0);
        if (i == 1) assert_int_equal(truncate(path, 1 << 20), 0);
        if (i == 2) (void)make("changes.h5", false);
        if (i == 3) assert_int_equal(mkdir(path, 0700), 0);
        if (i == 4) assert_int_equal(mkfifo(path, 0600), 0);
        assert_fault(trm_dataset_read(twin, &at, 1, x, &y), TRM_DATA, says[i]);
        if (i == 3)
            rmdir(path);
        else
            unlink(path);
        trm_dataset_close(twin);
        trm_dataset_close(d);
    }
}

/* A plan whose list leads out of the set, or is out of order, is refused. */
static void the_plan_keeps_the_rules(void **state) {
    (void)state;
    static const trm_span wrong[] = {{-1, 1}, {0, 0}, {0, 41}, {40, 1}, {39, INT64_MAX}, {17, 1}};
    const char *bad = make("plan.h5", true);
    support_log_start();
    trm_dataset *d = open_set(bad, TRM_BAD_SKIP, TRM_CACHE_OFF);
    assert_int_equal(d->bad.n, 4);
    assert_ok(trm_plan_check(d));
    for (size_t i = 0; i < SUPPORT_COUNT(wrong); i++) {
        trm_span held = d->bad.at[1];
        d->bad.at[1] = wrong[i];
        assert_int_equal(trm_plan_check(d), TRM_INTERNAL);
        d->bad.at[1] = held;
    }
    trm_dataset_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_is_what_a_clean_file_holds),
        cmocka_unit_test(without_the_word_it_is_a_fault),
        cmocka_unit_test(nothing_to_leave_out),
        cmocka_unit_test(windows),
        cmocka_unit_test(float_labels),
        cmocka_unit_test(none_is_left),
        cmocka_unit_test(a_file_that_shrinks_is_a_fault),
        cmocka_unit_test(a_file_that_is_another_one_is_a_fault),
        cmocka_unit_test(the_plan_keeps_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
