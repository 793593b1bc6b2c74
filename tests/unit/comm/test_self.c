/* One process: texts that name ranks, the transport without peers, the start without a launcher. */
#include <stdlib.h>
#include <string.h>
#include <trireme/launch.h>

#include "comm_impl.h"
#include "support.h"

static const char *const launcher_words[] = {
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",   "PMI_RANK",
    "SLURM_STEP_ID",        "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"};

static int forget_launchers(void **state) {
    (void)state;
    for (size_t k = 0; k < SUPPORT_COUNT(launcher_words); k++) unsetenv(launcher_words[k]);
    return 0;
}

static void ranks_are_named_in_runs(void **state) {
    (void)state;
    char text[64];
    assert_string_equal(trm_comm_ranks_text((uint8_t[]){0, 1, 0}, 3, text, sizeof text), "rank 1");
    assert_string_equal(trm_comm_ranks_text((uint8_t[]){1, 1, 1, 0, 1, 1, 0, 1}, 8, text, sizeof text),
                        "ranks 0-2, 4-5, 7");
    assert_string_equal(trm_comm_ranks_text((uint8_t[]){1, 0, 1}, 3, text, 10), "ranks 0, ");
}

static void missing_ranks_are_named_with_hosts(void **state) {
    (void)state;
    char hosts[5][TRM_HOST_BYTES] = {"h1", "h1", "h1", "h2", "h2"}, text[64];
    trm_comm c = {.size = 5, .host = hosts};
    assert_string_equal(trm_comm_missing_text(&c, (uint8_t[]){0, 0, 1, 0, 0}, text, sizeof text),
                        "rank 2 on h1");
    assert_string_equal(trm_comm_missing_text(&c, (uint8_t[]){0, 1, 1, 1, 1}, text, sizeof text),
                        "ranks 1-2 on h1, ranks 3-4 on h2");
}

static void without_a_launcher_there_is_one_rank(void **state) {
    (void)state;
    trm_comm *c = NULL;
    assert_int_equal(trm_launch_rank(), 0);
    assert_ok(trm_launch_begin(&c));
    assert_string_equal(trm_comm_about(c), "self: 1 rank");
    assert_int_equal(trm_comm_size(c), 1);
    assert_int_equal(trm_comm_nodes(c), 1);
    assert_int_equal(trm_comm_node_size(c), 1);
    assert_string_equal(trm_comm_host(c, 7), "an unknown host");
    trm_launch_end(c);
}

static void a_lone_step_of_srun_is_one_rank(void **state) {
    (void)state;
    trm_comm *c = NULL;
    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    setenv("SLURM_PROCID", "0", 1);
    assert_ok(trm_launch_begin(&c));
    assert_int_equal(trm_comm_size(c), 1);
    trm_launch_end(c);
}

static void tasks_that_cannot_meet_are_refused(void **state) {
    (void)state;
    trm_comm *c = NULL;
    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    setenv("SLURM_PROCID", "3", 1);
    assert_int_equal(trm_launch_rank(), 3);
    assert_fault(trm_launch_begin(&c), TRM_MACHINE, "srun started 4 tasks");
    assert_string_equal(trm_error_hint(), "start it with srun --mpi=pmix");
}

static void ranks_are_known_before_the_start(void **state) {
    (void)state;
    setenv("PMI_RANK", "2", 1);
    assert_int_equal(trm_launch_rank(), 2);
    setenv("PMIX_RANK", "5", 1);
    assert_int_equal(trm_launch_rank(), 5);
    setenv("OMPI_COMM_WORLD_RANK", "7", 1);
    assert_int_equal(trm_launch_rank(), 7);
    setenv("OMPI_COMM_WORLD_RANK", "", 1);
    assert_int_equal(trm_launch_rank(), 5);
}

/* Each allocation fails once; nothing leaks, and the last try succeeds. */
static trm_status open_and_plan(void) {
    trm_comm *c = NULL;
    trm_comm_buffer *b = NULL;
    trm_comm_request *r = NULL;
    trm_status s = trm_comm_self(&c);
    if (s == TRM_OK) s = trm_comm_buffer_alloc(c, TRM_F32, 10, "x", &b);
    if (s == TRM_OK) s = trm_comm_plan(c, &(trm_comm_call){.buffer = b, .count = 10}, &r);
    double x = 1;
    if (s == TRM_OK) s = trm_comm_sum_f64(c, &x, 1);
    if (r) trm_comm_request_free(c, r);
    trm_comm_buffer_free(c, b);
    trm_comm_close(c);
    return s;
}

static void every_failing_allocation_is_survived(void **state) {
    (void)state;
    uint64_t live = trm_mem_count().live_bytes;
    for (uint64_t n = 1; n < 50; n++) {
        trm_mem_fail_after(n);
        trm_status s = open_and_plan();
        trm_mem_fail_after(0);
        assert_int_equal(trm_mem_count().live_bytes, live);
        if (s == TRM_OK) return;
        assert_int_equal(s, TRM_MEMORY);
    }
    fail();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_named_in_runs),
        cmocka_unit_test(missing_ranks_are_named_with_hosts),
        cmocka_unit_test_setup(without_a_launcher_there_is_one_rank, forget_launchers),
        cmocka_unit_test_setup(a_lone_step_of_srun_is_one_rank, forget_launchers),
        cmocka_unit_test_setup(tasks_that_cannot_meet_are_refused, forget_launchers),
        cmocka_unit_test_setup(ranks_are_known_before_the_start, forget_launchers),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
