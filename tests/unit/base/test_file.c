/* Whole files and folders. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "support.h"

static bool exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

static void makes_nested_folders(void **state) {
    (void)state;
    const char *deep = support_path("a/b//c/");
    assert_ok(trm_make_dirs(deep));
    assert_true(exists(deep));
    assert_ok(trm_make_dirs(deep));
    assert_ok(trm_make_dirs("/"));
    assert_ok(trm_make_dirs("."));
    assert_fault(trm_make_dirs(""), TRM_IO, "empty name");
}

static void a_file_in_the_way_is_named(void **state) {
    (void)state;
    const char *file = support_file("in-the-way", "x");
    assert_fault(trm_make_dirs(file), TRM_USAGE, "something else has this name");
    assert_fault(trm_make_dirs(support_path("in-the-way/below")), TRM_USAGE, "in-the-way");
}

static void written_is_read(void **state) {
    (void)state;
    char *text = NULL;
    size_t n = 0;
    const char *path = support_path("file");
    assert_ok(trm_write_file(path, "one\0two", 7));
    assert_ok(trm_read_file(path, 100, &text, &n));
    assert_int_equal(n, 7);
    assert_memory_equal(text, "one\0two\0", 8);
    trm_free(text);
    assert_ok(trm_write_file(path, "", 0));
    assert_ok(trm_read_file(path, 0, &text, NULL));
    assert_string_equal(text, "");
    trm_free(text);
}

static void big_files_come_whole(void **state) {
    (void)state;
    size_t n = 3000001, got = 0;
    char *out = trm_alloc(n, "a test"), *in = NULL;
    for (size_t i = 0; i < n; i++) out[i] = (char)(i * 31 % 251);
    const char *path = support_path("big");
    assert_ok(trm_write_file(path, out, n));
    assert_ok(trm_read_file(path, n, &in, &got));
    assert_int_equal(got, n);
    assert_memory_equal(in, out, n);
    trm_free(in);
    in = NULL;
    assert_fault(trm_read_file(path, n - 1, &in, &got), TRM_IO, "larger than the 3000000 bytes");
    assert_null(in);
    trm_free(out);
}

static void nothing_is_left_beside(void **state) {
    (void)state;
    assert_ok(trm_make_dirs(support_path("alone")));
    assert_ok(trm_write_file(support_path("alone/f"), "x", 1));
    assert_ok(trm_write_file(support_path("alone/f"), "y", 1));
    assert_int_equal(unlink(support_path("alone/f")), 0);
    assert_int_equal(rmdir(support_path("alone")), 0);
}

static void a_failed_write_keeps_the_old_file(void **state) {
    (void)state;
    char *text = NULL;
    const char *path = support_file("precious", "old");
    trm_mem_fail_after(1);
    assert_fault(trm_write_file(path, "new", 3), TRM_IO, "precious");
    trm_mem_fail_after(0);
    assert_ok(trm_read_file(path, 10, &text, NULL));
    assert_string_equal(text, "old");
    trm_free(text);
    assert_fault(trm_write_file(support_path("no/such/folder/f"), "x", 1), TRM_IO, "No such file");
}

static void only_regular_files(void **state) {
    (void)state;
    char *text = NULL;
    const char *pipe_path = support_path("pipe"), *link_path = support_path("link");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_fault(trm_read_file(pipe_path, 10, &text, NULL), TRM_IO, "not a regular file");
    assert_fault(trm_read_file(support_dir(), 10, &text, NULL), TRM_IO, "not a regular file");
    assert_fault(trm_read_file("/dev/zero", 10, &text, NULL), TRM_IO, "not a regular file");
    assert_fault(trm_read_file(support_path("absent"), 10, &text, NULL), TRM_IO, "No such file");
    assert_fault(trm_write_file("/dev/null", "x", 1), TRM_IO, "not a regular file");
    assert_fault(trm_write_file(pipe_path, "x", 1), TRM_IO, "not a regular file");
    assert_fault(trm_write_file(support_dir(), "x", 1), TRM_IO, "not a regular file");
    assert_int_equal(symlink(support_file("target", "t"), link_path), 0);
    assert_ok(trm_read_file(link_path, 10, &text, NULL));
    trm_free(text);
}

static void files_of_proc_have_no_size(void **state) {
    (void)state;
    char *text = NULL;
    size_t n = 0;
    assert_ok(trm_read_file("/proc/self/status", 1 << 20, &text, &n));
    assert_true(n > 100);
    trm_free(text);
}

static void reading_survives_no_memory(void **state) {
    (void)state;
    char *text = NULL;
    const char *path = support_file("some", "text");
    trm_mem_fail_after(1);
    assert_int_equal(trm_read_file(path, 100, &text, NULL), TRM_MEMORY);
    assert_null(text);
    assert_ok(trm_write_file(path, "", 0));
    trm_mem_fail_after(1);
    assert_int_equal(trm_read_file(path, 100, &text, NULL), TRM_MEMORY);
}

static void a_tree_goes_links_stay_closed(void **state) {
    (void)state;
    assert_ok(trm_make_dirs(support_path("tree/x/y")));
    assert_ok(trm_make_dirs(support_path("outside")));
    support_file("outside/keep", "k");
    support_file("tree/x/f", "f");
    assert_int_equal(symlink(support_path("outside"), support_path("tree/x/link")), 0);
    assert_ok(trm_remove_tree(support_path("tree/")));
    assert_false(exists(support_path("tree")));
    assert_true(exists(support_path("outside/keep")));
    assert_ok(trm_remove_tree(support_path("tree")));
    assert_ok(trm_remove_tree(support_file("plain", "p")));
    assert_false(exists(support_path("plain")));
}

static void some_trees_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"", "/", "//", ".", "..", "./", "a/..", NULL};
    for (int i = 0; bad[i]; i++) assert_fault(trm_remove_tree(bad[i]), TRM_IO, "will not remove");
}

static void hash_is_fnv(void **state) {
    (void)state;
    /* Known answers of FNV-1a, 64 bits. */
    assert_true(trm_hash("", 0, 0) == 0xcbf29ce484222325u);
    assert_true(trm_hash("a", 1, 0) == 0xaf63dc4c8601ec8cu);
    assert_true(trm_hash("foobar", 6, 0) == 0x85944171f73967e8u);
    assert_true(trm_hash("bar", 3, trm_hash("foo", 3, 0)) == 0x85944171f73967e8u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_nested_folders),
        cmocka_unit_test(a_file_in_the_way_is_named),
        cmocka_unit_test(written_is_read),
        cmocka_unit_test(big_files_come_whole),
        cmocka_unit_test(nothing_is_left_beside),
        cmocka_unit_test(a_failed_write_keeps_the_old_file),
        cmocka_unit_test(only_regular_files),
        cmocka_unit_test(files_of_proc_have_no_size),
        cmocka_unit_test(reading_survives_no_memory),
        cmocka_unit_test(a_tree_goes_links_stay_closed),
        cmocka_unit_test(some_trees_are_refused),
        cmocka_unit_test(hash_is_fnv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
