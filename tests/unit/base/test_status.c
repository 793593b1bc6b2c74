/* Status codes and the recorded sentence. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "support.h"

static void names_and_exit_codes(void **state) {
    (void)state;
    assert_string_equal(trm_status_name(TRM_DATA), "DATA");
    assert_string_equal(trm_status_text(TRM_DATA), "the data is wrong");
    assert_int_equal(trm_status_exit_code(TRM_OK), 0);
    assert_int_equal(trm_status_exit_code(TRM_RUN), 1);
    assert_int_equal(trm_status_exit_code(TRM_JOB), 2);
    assert_int_equal(trm_status_exit_code(TRM_MACHINE), 3);
    assert_int_equal(trm_status_exit_code(TRM_STOPPED), 75);
}

static void unknown_status_is_no_crash(void **state) {
    (void)state;
    assert_string_equal(trm_status_name((trm_status)999), "UNKNOWN");
    assert_string_equal(trm_status_name((trm_status)-1), "UNKNOWN");
    assert_int_equal(trm_status_exit_code((trm_status)999), 1);
}

static void fail_records_and_returns(void **state) {
    (void)state;
    errno = ENOSPC;
    assert_int_equal(trm_fail(TRM_DATA, "row %d of %s", 7, "x"), TRM_DATA);
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(trm_error_text(), "row 7 of x");
    assert_string_equal(trm_error_hint(), "");
    trm_hint("try %s", "y");
    assert_string_equal(trm_error_hint(), "try y");
    (void)trm_fail(TRM_IO, "another");
    assert_string_equal(trm_error_hint(), "");
}

static void prefix_goes_before(void **state) {
    (void)state;
    (void)trm_fail(TRM_DATA, "bad");
    assert_int_equal(trm_prefix(TRM_DATA, "file %s", "a.h5"), TRM_DATA);
    assert_string_equal(trm_error_text(), "file a.h5: bad");
    (void)trm_fail(TRM_DATA, "%s", "");
    (void)trm_prefix(TRM_DATA, "file b");
    assert_string_equal(trm_error_text(), "file b: the data is wrong");
}

static void a_sentence_may_quote_the_last_one(void **state) {
    (void)state;
    (void)trm_fail(TRM_RUN, "inner");
    (void)trm_fail(TRM_RUN, "outer (%s)", trm_error_text());
    assert_string_equal(trm_error_text(), "outer (inner)");
    (void)trm_prefix(TRM_RUN, "%s", trm_error_text());
    assert_string_equal(trm_error_text(), "outer (inner): outer (inner)");
}

static void long_sentence_is_cut_visibly(void **state) {
    (void)state;
    char big[5000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    (void)trm_fail(TRM_RUN, "%s", big);
    size_t n = strlen(trm_error_text());
    assert_in_range(n, 500, 1100);
    assert_string_equal(trm_error_text() + n - 3, "...");
    (void)trm_prefix(TRM_RUN, "%s", big);
    n = strlen(trm_error_text());
    assert_in_range(n, 500, 1100);
    assert_string_equal(trm_error_text() + n - 3, "...");
    trm_hint("%s", big);
    n = strlen(trm_error_hint());
    assert_in_range(n, 200, 1100);
    assert_string_equal(trm_error_hint() + n - 3, "...");
}

static void *other_thread(void *arg) {
    (void)trm_fail(TRM_RUN, "of the worker");
    *(bool *)arg = strcmp(trm_error_text(), "of the worker") == 0;
    return NULL;
}

static void each_thread_has_its_own(void **state) {
    (void)state;
    pthread_t t;
    bool seen = false;
    (void)trm_fail(TRM_RUN, "of the main thread");
    assert_int_equal(pthread_create(&t, NULL, other_thread, &seen), 0);
    pthread_join(t, NULL);
    assert_true(seen);
    assert_string_equal(trm_error_text(), "of the main thread");
}

static trm_status try_it(trm_status s) {
    TRM_TRY(s);
    return TRM_RUN;
}

static void try_passes_failures_up(void **state) {
    (void)state;
    assert_int_equal(try_it(TRM_DATA), TRM_DATA);
    assert_int_equal(try_it(TRM_OK), TRM_RUN);
}

/* Names out of files may hold anything. */
static void stays_one_line(void **state) {
    (void)state;
    trm_fail(TRM_DATA, "'%s': bad", "a\nb\x1b[31m\tc\x7f \xc3\xa9");
    assert_string_equal(trm_error_text(), "'a?b?[31m?c? \xc3\xa9': bad");
    trm_hint("try '%s'", "x\r\ny");
    assert_string_equal(trm_error_hint(), "try 'x??y'");
    trm_prefix(TRM_DATA, "%s", "p\n");
    assert_string_equal(trm_error_text(), "p?: 'a?b?[31m?c? \xc3\xa9': bad");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stays_one_line),
        cmocka_unit_test(names_and_exit_codes),
        cmocka_unit_test(unknown_status_is_no_crash),
        cmocka_unit_test(fail_records_and_returns),
        cmocka_unit_test(prefix_goes_before),
        cmocka_unit_test(a_sentence_may_quote_the_last_one),
        cmocka_unit_test(long_sentence_is_cut_visibly),
        cmocka_unit_test(each_thread_has_its_own),
        cmocka_unit_test(try_passes_failures_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
