/* Writing and reading HDF5 files of our own. */
#include "data_support.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void every_type_comes_back(void **state) {
    (void)state;
    const char *path = support_path("types.h5");
    trm_h5_file *f = NULL;
    unsigned char raw[8 * 12];
    char name[32];
    trm_shape shape = trm_shape_of(3, 2, 3, 2), got;
    trm_dtype type;
    for (size_t i = 0; i < sizeof raw; i++) raw[i] = (unsigned char)(i % 60);
    assert_ok(trm_h5_create(path, &f));
    for (int t = 0; t < TRM_DTYPE_COUNT; t++) {
        snprintf(name, sizeof name, "deep/er/%s", trm_dtype_name((trm_dtype)t));
        assert_ok(trm_h5_write(f, name, (trm_dtype)t, &shape, raw));
    }
    assert_ok(trm_h5_close(f));
    assert_ok(trm_h5_open(path, &f));
    for (int t = 0; t < TRM_DTYPE_COUNT; t++) {
        unsigned char back[8 * 12] = {0};
        snprintf(name, sizeof name, "/deep/er/%s", trm_dtype_name((trm_dtype)t));
        assert_ok(trm_h5_stat(f, name, &type, &got));
        assert_int_equal(type, t);
        assert_true(trm_shape_equal(&shape, &got));
        assert_ok(trm_h5_read(f, name, (trm_dtype)t, 12, back));
        assert_memory_equal(raw, back, 12 * trm_dtype_size((trm_dtype)t));
    }
    assert_ok(trm_h5_close(f));
}

static void reading_converts(void **state) {
    (void)state;
    const char *path = support_path("convert.h5");
    trm_h5_file *f = NULL;
    float x[4] = {0, 1, -2.5f, 3}, scalar = 7;
    double wide[4];
    int64_t whole[4];
    trm_shape shape = trm_shape_of(1, 4), one = {0};
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write(f, "x", TRM_F32, &shape, x));
    assert_ok(trm_h5_write(f, "one", TRM_F32, &one, &scalar));
    assert_ok(trm_h5_close(f));
    assert_ok(trm_h5_open(path, &f));
    assert_ok(trm_h5_read(f, "x", TRM_F64, 4, wide));
    assert_ok(trm_h5_read(f, "x", TRM_I64, 4, whole));
    for (int i = 0; i < 4; i++) assert_true(wide[i] == x[i] && whole[i] == (int64_t)x[i]);
    assert_ok(trm_h5_read(f, "one", TRM_F64, 1, wide));
    assert_true(wide[0] == 7);
    assert_fault(trm_h5_read(f, "x", TRM_F64, 3, wide), TRM_DATA, "has shape (4), 3 elements expected");
    assert_fault(trm_h5_read(f, "y", TRM_F64, 3, wide), TRM_DATA, "no data set 'y'");
    assert_ok(trm_h5_close(f));
}

static void rows_are_appended(void **state) {
    (void)state;
    const char *path = support_path("append.h5");
    trm_h5_file *f = NULL;
    int32_t rows[2 * 5], back[2 * 12];
    trm_shape five = trm_shape_of(2, 5, 2), two = trm_shape_of(2, 2, 2), other = trm_shape_of(2, 2, 3), got;
    trm_dtype type;
    for (int i = 0; i < 10; i++) rows[i] = i;
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write_chunked(f, "a/x", TRM_I32, &five, rows, 4, 6));
    assert_ok(trm_h5_write_chunked(f, "a/x", TRM_I32, &five, rows, 4, 6));
    assert_ok(trm_h5_write_chunked(f, "a/x", TRM_I32, &two, rows, 4, 6));
    assert_fault(trm_h5_write_chunked(f, "a/x", TRM_I32, &other, rows, 4, 6), TRM_INTERNAL, "another shape");
    assert_ok(trm_h5_close(f));
    assert_ok(trm_h5_open(path, &f));
    assert_ok(trm_h5_stat(f, "a/x", &type, &got));
    assert_int_equal(got.dim[0], 12);
    assert_ok(trm_h5_read(f, "a/x", TRM_I32, 24, back));
    for (int i = 0; i < 24; i++) assert_int_equal(back[i], i % 10);
    assert_ok(trm_h5_close(f));
}

static void large_arrays_go_in_pieces(void **state) {
    (void)state;
    const char *path = support_path("large.h5");
    trm_h5_file *f = NULL;
    int64_t n = 5 << 20;
    float *x = malloc((size_t)n * sizeof *x), *back = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)i;
    trm_shape shape = trm_shape_of(2, n / 8, 8);
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write(f, "x", TRM_F32, &shape, x));
    assert_ok(trm_h5_close(f));
    assert_ok(trm_h5_open(path, &f));
    assert_ok(trm_h5_read(f, "x", TRM_F32, n, back));
    assert_memory_equal(x, back, (size_t)n * sizeof *x);
    assert_ok(trm_h5_close(f));
    free(x);
    free(back);
}

/* A limit of the file size stands for a full disk: the write comes back with an error of the system. */
/* Rows in pieces of any order and size; a file that is dropped is closed and no more. */
static void a_set_is_filled_in_pieces(void **state) {
    (void)state;
    const char *path = support_path("pieces.h5");
    trm_h5_file *f = NULL;
    trm_shape shape = trm_shape_of(2, 50, 3);
    float x[150], back[150];
    for (int i = 0; i < 150; i++) x[i] = (float)i / 7;
    uint64_t live = trm_mem_count().live_bytes;
    for (int dropped = 1; dropped >= 0; dropped--) {
        assert_ok(trm_h5_create(path, &f));
        assert_ok(trm_h5_make(f, "output", TRM_F32, &shape, 0, 0, false));
        assert_ok(trm_h5_put(f, "output", TRM_F32, 20, 30, 12, x + 60));
        assert_ok(trm_h5_put(f, "output", TRM_F32, 0, 20, 12, x));
        if (dropped)
            trm_h5_drop(f);
        else
            assert_ok(trm_h5_close(f));
        assert_int_equal(trm_mem_count().live_bytes, live);
    }
    trm_h5_drop(NULL);
    assert_ok(trm_h5_open(path, &f));
    assert_ok(trm_h5_read(f, "output", TRM_F32, 150, back));
    assert_ok(trm_h5_close(f));
    assert_memory_equal(x, back, sizeof x);
}

static void a_full_disk_is_told(void **state) {
    (void)state;
    trm_h5_file *f = NULL;
    struct rlimit before, small;
    size_t bytes = 4 << 20;
    char *x = calloc(1, bytes);
    trm_shape shape = trm_shape_of(1, (int64_t)bytes);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1 << 20;
    signal(SIGXFSZ, SIG_IGN);
    for (int chunked = 0; chunked < 2; chunked++) {
        assert_ok(trm_h5_create(support_path("full.h5"), &f));
        setrlimit(RLIMIT_FSIZE, &small);
        trm_status s = chunked ? trm_h5_write_chunked(f, "x", TRM_U8, &shape, x, 1 << 16, 0)
                               : trm_h5_write(f, "x", TRM_U8, &shape, x);
        char said[600];
        snprintf(said, sizeof said, "%s", trm_error_text());
        trm_status closed = trm_h5_close(f);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_int_equal(s, TRM_IO);
        assert_non_null(strstr(said, "'x' cannot be written"));
        assert_non_null(strstr(said, "File too large"));
        assert_int_equal(closed, TRM_IO);
    }
    signal(SIGXFSZ, SIG_DFL);
    free(x);
}

/* What was written and what lies in the file at the end have to be the same. */
static void a_change_behind_our_back_is_told(void **state) {
    (void)state;
    const char *path = support_path("changed.h5");
    trm_h5_file *f = NULL;
    char x[4096];
    memset(x, 'x', sizeof x);
    trm_shape shape = trm_shape_of(1, (int64_t)sizeof x);
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write(f, "x", TRM_U8, &shape, x));
    FILE *other = fopen(path, "r+b");
    char *found = NULL, *all = calloc(1, 16384);
    size_t n = fread(all, 1, 16384, other);
    for (size_t i = 0; i + 64 <= n && !found; i++)
        if (memcmp(all + i, x, 64) == 0) found = all + i;
    assert_non_null(found);
    fseek(other, found - all + 10, SEEK_SET);
    fputc('y', other);
    fclose(other);
    free(all);
    assert_fault(trm_h5_close(f), TRM_IO, "reads back other than it was written");
}

static void odd_paths_are_refused(void **state) {
    (void)state;
    trm_h5_file *f = NULL;
    assert_fault(trm_h5_create(support_dir(), &f), TRM_IO, "not a regular file");
    assert_fault(trm_h5_create("/nowhere/at/all.h5", &f), TRM_IO, "cannot be created");
    assert_fault(trm_h5_open(support_path("gone.h5"), &f), TRM_DATA, "no such file");
    assert_int_equal(mkfifo(support_path("pipe.h5"), 0600), 0);
    assert_fault(trm_h5_create(support_path("pipe.h5"), &f), TRM_IO, "not a regular file");
    assert_fault(trm_h5_open(support_path("pipe.h5"), &f), TRM_DATA, "is a pipe, not a file");
    assert_fault(trm_h5_open("/dev/zero", &f), TRM_DATA, "is a device, not a file");
}

static void wrong_use_is_refused(void **state) {
    (void)state;
    const char *path = support_path("use.h5");
    trm_h5_file *f = NULL;
    int x = 1;
    trm_shape none = trm_shape_of(1, 0), one = trm_shape_of(1, 1);
    assert_ok(trm_h5_create(path, &f));
    assert_fault(trm_h5_write(f, "x", TRM_I32, &none, &x), TRM_INTERNAL, "cannot be written");
    assert_ok(trm_h5_write(f, "x", TRM_I32, &one, &x));
    assert_fault(trm_h5_write(f, "x", TRM_I32, &one, &x), TRM_IO, "'x' cannot be written");
    assert_fault(trm_h5_close(f), TRM_IO, "not written whole");
    f = NULL;
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write(f, "x", TRM_I32, &one, &x));
    assert_ok(trm_h5_close(f));
    assert_ok(trm_h5_open(path, &f));
    assert_fault(trm_h5_write(f, "y", TRM_I32, &one, &x), TRM_INTERNAL, "reading only");
    assert_ok(trm_h5_close(f));
}

/* Each allocation fails once; nothing leaks and nothing crashes. */
static void memory_may_fail(void **state) {
    (void)state;
    const char *path = support_path("memory.h5");
    uint64_t live = trm_mem_count().live_bytes;
    int32_t x[6] = {1, 2, 3, 4, 5, 6}, back[6];
    trm_shape shape = trm_shape_of(2, 3, 2);
    trm_status s = TRM_MEMORY;
    for (uint64_t n = 1; n < 100 && s != TRM_OK; n++) {
        trm_h5_file *f = NULL;
        trm_mem_fail_after(n);
        s = trm_h5_create(path, &f);
        if (s == TRM_OK) s = trm_h5_write(f, "g/x", TRM_I32, &shape, x);
        trm_status closed = f ? trm_h5_close(f) : TRM_OK;
        if (s == TRM_OK) s = closed;
        f = NULL;
        if (s == TRM_OK) s = trm_h5_open(path, &f);
        if (s == TRM_OK) s = trm_h5_read(f, "g/x", TRM_I32, 6, back);
        if (f) (void)!trm_h5_close(f);
        assert_true(s == TRM_OK || s == TRM_MEMORY);
        assert_int_equal(trm_mem_count().live_bytes, live);
    }
    trm_mem_fail_after(0);
    assert_int_equal(s, TRM_OK);
    assert_memory_equal(x, back, sizeof x);
}

static void a_file_is_described(void **state) {
    (void)state;
    trm_str text = {0};
    const char *path = support_set("described.h5", 30, 8);
    assert_ok(trm_h5_describe(path, &text));
    assert_non_null(strstr(text.p, "data "));
    assert_non_null(strstr(text.p, "int32 (30,6)"));
    assert_non_null(strstr(text.p, "chunks of (8,6), gzip"));
    assert_non_null(strstr(text.p, "input: data\n"));
    assert_non_null(strstr(text.p, "target: label\n"));
    trm_str_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_comes_back),     cmocka_unit_test(reading_converts),
        cmocka_unit_test(rows_are_appended),         cmocka_unit_test(large_arrays_go_in_pieces),
        cmocka_unit_test(a_full_disk_is_told),       cmocka_unit_test(a_change_behind_our_back_is_told),
        cmocka_unit_test(odd_paths_are_refused),     cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(a_set_is_filled_in_pieces), cmocka_unit_test(memory_may_fail),
        cmocka_unit_test(a_file_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
