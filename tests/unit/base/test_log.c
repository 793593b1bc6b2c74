/* The log: levels, cutting, one sink for all threads. */
#include <pthread.h>
#include <string.h>
#include "support.h"

static char last_line[4096];
static trm_log_level last_level;
static int lines, torn;

static void keep(void *ctx, trm_log_level level, const char *line) {
    ++*(int *)ctx;
    last_level = level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static void nothing_goes_nowhere(void **state) {
    (void)state;
    trm_log_set(NULL, NULL, TRM_LOG_DEBUG);
    trm_log(TRM_LOG_ERROR, "unheard");
}

static void levels_are_held(void **state) {
    (void)state;
    lines = 0;
    trm_log_set(keep, &lines, TRM_LOG_WARN);
    trm_log(TRM_LOG_INFO, "no");
    trm_log(TRM_LOG_DEBUG, "no");
    assert_int_equal(lines, 0);
    trm_log(TRM_LOG_WARN, "rank %d", 3);
    assert_int_equal(lines, 1);
    assert_int_equal(last_level, TRM_LOG_WARN);
    assert_string_equal(last_line, "rank 3");
    trm_log_set(NULL, NULL, TRM_LOG_WARN);
    trm_log(TRM_LOG_ERROR, "no");
    assert_int_equal(lines, 1);
}

static void a_long_line_is_cut_visibly(void **state) {
    (void)state;
    char big[4000];
    memset(big, 'y', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    trm_log_set(keep, &lines, TRM_LOG_DEBUG);
    trm_log(TRM_LOG_DEBUG, "%s", big);
    trm_log_set(NULL, NULL, TRM_LOG_DEBUG);
    size_t n = strlen(last_line);
    assert_in_range(n, 1000, 2100);
    assert_string_equal(last_line + n - 3, "...");
}

/* Not atomic on purpose: the log's lock has to be enough. */
static void count_slowly(void *ctx, trm_log_level level, const char *line) {
    (void)level;
    int seen = *(int *)ctx;
    if (strcmp(line, "a line of a worker") != 0) torn++;
    *(int *)ctx = seen + 1;
}

static void *worker(void *arg) {
    (void)arg;
    for (int i = 0; i < 2000; i++) trm_log(TRM_LOG_INFO, "a line of a %s", "worker");
    return NULL;
}

static void threads_do_not_interleave(void **state) {
    (void)state;
    pthread_t t[4];
    lines = torn = 0;
    trm_log_set(count_slowly, &lines, TRM_LOG_INFO);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, worker, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    trm_log_set(NULL, NULL, TRM_LOG_INFO);
    assert_int_equal(lines, 8000);
    assert_int_equal(torn, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_nowhere),
        cmocka_unit_test(levels_are_held),
        cmocka_unit_test(a_long_line_is_cut_visibly),
        cmocka_unit_test(threads_do_not_interleave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
