/* replay: what a run would have taken, reckoned by hand, and the histories that it reads. */
#include <math.h>
#include <string.h>

#include "report_impl.h"
#include "support.h"

static const trm_replay_spec plain = {
    .threshold = 0.05, .predictor = TRM_PREDICT_EMA, .cooldown = 1, .reprobe = 4, .every = 1};

/* `n` windows of ten updates on two ranks, the second three times as slow; half a second of each update is wait. */
static trm_history uneven(int64_t n, int64_t moved_at) {
    trm_history h = {.ranks = 2, .total = 8, .windows = true};
    for (int64_t i = 0; i < n; i++) {
        assert_ok(trm_history_grow(&h));
        h.stretch[i] = (trm_stretch){
            .update = 10 * (i + 1), .updates = 10, .left = 10 * (n - i), .rest = 0.5, .cost = 3};
        trm_speeds_at(&h, i)[0] = (trm_speed){0, 1};
        trm_speeds_at(&h, i)[1] = (trm_speed){0, 3};
        trm_had_at(&h, i)[0] = i < moved_at ? 4 : 6;
        trm_had_at(&h, i)[1] = i < moved_at ? 4 : 2;
    }
    return h;
}

static void assert_course(const trm_course *c, double seconds, int64_t moves, int64_t moved) {
    assert_bound(fabs(c->seconds - seconds), 1e-9 * seconds);
    assert_int_equal(c->moves, moves);
    assert_int_equal(c->moved, moved);
}

/* Equal: 12.5 s an update. 6 : 2 is 6.5 s, and also what units of any size would take. */
static void by_hand(void **state) {
    (void)state;
    trm_history h = uneven(4, 2);
    trm_replay o;
    assert_ok(trm_replay_run(&h, &plain, &o));
    assert_course(&o.was, 2 * 125 + 2 * 65 + 3, 1, 2);
    assert_course(&o.equal, 500, 0, 0);
    assert_course(&o.policy, 125 + 3 * 65 + 3, 1, 2);
    assert_course(&o.oracle, 260, 0, 0);
    assert_bound(fabs(o.ideal - 260), 1e-9);
    assert_int_equal(o.updates, 40);
    assert_int_equal(o.decisions, 3);
    trm_history_free(&h);
}

static void options_count(void **state) {
    (void)state;
    trm_history h = uneven(4, 2);
    trm_replay_spec s = plain;
    trm_replay o;
    s.threshold = 0.6; /* the move gains 48 % */
    assert_ok(trm_replay_run(&h, &s, &o));
    assert_course(&o.policy, 500, 0, 0);
    s = plain;
    s.off = true;
    assert_ok(trm_replay_run(&h, &s, &o));
    assert_course(&o.policy, 500, 0, 0);
    assert_int_equal(o.decisions, 0);
    s = plain;
    s.every = 2; /* acts from the third window on, as the run did */
    assert_ok(trm_replay_run(&h, &s, &o));
    assert_course(&o.policy, o.was.seconds, 1, 2);
    assert_int_equal(o.decisions, 1);
    s.every = 4; /* nothing is left to decide on */
    assert_ok(trm_replay_run(&h, &s, &o));
    assert_int_equal(o.decisions, 0);
    trm_history_free(&h);
}

/* A policy begins with the shares that the run began with. */
static void begins_as_the_run(void **state) {
    (void)state;
    trm_history h = uneven(3, 0);
    trm_replay_spec s = plain;
    trm_replay o;
    s.off = true;
    assert_ok(trm_replay_run(&h, &s, &o));
    assert_course(&o.policy, 195, 0, 0);
    assert_course(&o.was, 195, 0, 0);
    assert_course(&o.equal, 375, 0, 0);
    trm_history_free(&h);
}

static double ideal_of(double fixed0, double fixed1, int64_t total) {
    trm_history h = {.ranks = 2, .total = total, .windows = true};
    trm_replay o;
    assert_ok(trm_history_grow(&h));
    h.stretch[0].updates = 1;
    trm_had_at(&h, 0)[0] = total;
    trm_speeds_at(&h, 0)[0] = (trm_speed){fixed0, 1};
    trm_speeds_at(&h, 0)[1] = (trm_speed){fixed1, 1};
    assert_ok(trm_replay_run(&h, &plain, &o));
    assert_true(o.ideal <= o.oracle.seconds * (1 + 1e-12));
    trm_history_free(&h);
    return o.ideal;
}

static void fixed_parts_bound_the_ideal(void **state) {
    (void)state;
    assert_bound(fabs(ideal_of(0, 2, 4) - 3), 1e-12);       /* 3 and 1 units */
    assert_bound(fabs(ideal_of(0, 1, 4) - 2.5), 1e-12);     /* 2.5 and 1.5 */
    assert_bound(fabs(ideal_of(0, 10, 4) - 10), 1e-12);     /* nobody is done before the fixed part */
    assert_bound(fabs(ideal_of(1e16, 1e16, 4) - 1e16), 10); /* units that are lost in rounding */
}

static double number(uint64_t i) {
    trm_rng_key key = {.seed = 7, .purpose = TRM_RNG_SYNTH};
    return trm_rng_uniform(&key, i);
}

/* Whatever happens: ideal <= oracle <= all others. */
static void nothing_beats_the_oracle(void **state) {
    (void)state;
    uint64_t at = 0;
    for (int c = 0; c < 200; c++) {
        trm_history h = {.ranks = 1 + c % 5, .total = 1 + c % 37, .windows = c % 2};
        for (int64_t i = 0; i < 1 + c % 30; i++) {
            assert_ok(trm_history_grow(&h));
            h.stretch[i] =
                (trm_stretch){.updates = 1 + c % 9, .left = 100, .rest = number(at++), .cost = 0.1};
            for (int r = 0; r < h.ranks; r++)
                trm_speeds_at(&h, i)[r] = (trm_speed){c % 3 * number(at++), 0.01 + number(at++)};
            trm_had_at(&h, i)[i % h.ranks] = h.total;
        }
        trm_replay_spec s = plain;
        trm_replay o;
        s.every = 1 + c % 7;
        s.threshold = 0.1 * number(at++);
        assert_ok(trm_replay_run(&h, &s, &o));
        assert_true(o.ideal <= o.oracle.seconds * (1 + 1e-12));
        assert_true(o.oracle.seconds <= o.policy.seconds * (1 + 1e-12));
        assert_true(o.oracle.seconds <= o.equal.seconds * (1 + 1e-12));
        assert_true(!h.windows || o.oracle.seconds <= o.was.seconds * (1 + 1e-12));
        trm_history_free(&h);
    }
}

/* ---- runs ---- */

#define RUN "{\"kind\":\"run\",\"v\":1,\"ranks\":2,\"batch\":8,\"micro_batches\":1,\"shares\":[4,4]}\n"
#define RANK(compute, fixed, each) \
    "{\"compute_s\":" #compute ",\"noise\":0.01,\"fixed_s\":" #fixed ",\"each_s\":" #each "}"
#define BALANCE(update, had, ranks)                                                                   \
    "{\"kind\":\"balance\",\"v\":1,\"update\":" #update ",\"updates\":10,\"left\":5,\"cost_s\":0.25," \
    "\"step_s\":7,\"had\":" had ",\"ranks\":[" ranks "]}\n"
#define WINDOW(update) BALANCE(update, "[4,4]", RANK(5, 1, 9) "," RANK(2, 0, 9))

static trm_status read_text(const char *text, trm_history *h) {
    support_file("metrics.jsonl", text);
    return trm_history_read(support_dir(), h);
}

static void reads_a_run(void **state) {
    (void)state;
    trm_history h;
    assert_ok(read_text(RUN "{\"kind\":\"update\"}\n" WINDOW(10) WINDOW(20) "{\"kind\":\"bal", &h));
    assert_int_equal(h.n, 2);
    assert_int_equal(h.ranks, 2);
    assert_int_equal(h.total, 8);
    assert_true(h.windows);
    assert_bound(fabs(h.stretch[1].rest - 2), 1e-12);
    assert_bound(fabs(h.stretch[1].cost - 0.25), 0);
    assert_int_equal(h.stretch[1].updates, 10);
    assert_int_equal(h.stretch[1].left, 5);
    assert_bound(fabs(h.speed[0].each - 1), 1e-12); /* (5 - 1) / 4: measured, not believed */
    assert_bound(fabs(h.speed[0].fixed - 1), 0);
    assert_bound(fabs(h.speed[1].each - 0.5), 1e-12);
    assert_bound(fabs(h.noise[3] - 0.01), 0);
    trm_history_free(&h);
}

static double each_of_idle(const char *text, int64_t window) {
    trm_history h;
    assert_ok(read_text(text, &h));
    double each = trm_speeds_at(&h, window)[1].each;
    trm_history_free(&h);
    return each;
}

static void an_idle_rank_has_a_speed(void **state) {
    (void)state;
    assert_bound(fabs(each_of_idle(RUN BALANCE(10, "[8,0]", RANK(8, 0, 1) "," RANK(0.5, 0.5, 6)), 0) - 6), 0);
    const char *after = RUN BALANCE(10, "[4,4]", RANK(4, 0, 1) "," RANK(8, 0, 2))
        BALANCE(20, "[8,0]", RANK(8, 0, 1) "," RANK(0, 0, null));
    assert_bound(fabs(each_of_idle(after, 1) - 2), 1e-12);
    const char *before = RUN BALANCE(10, "[8,0]", RANK(8, 0, 1) "," RANK(0, 0, null))
        BALANCE(20, "[4,4]", RANK(4, 0, 1) "," RANK(8, 0, 2));
    assert_bound(fabs(each_of_idle(before, 0) - 2), 1e-12);
    const char *never = RUN BALANCE(10, "[8,0]", RANK(24, 0, 1) "," RANK(0, 0, null));
    assert_bound(fabs(each_of_idle(never, 0) - 3), 1e-12);
}

static void a_resumed_run(void **state) {
    (void)state;
    trm_history h;
    assert_ok(read_text(RUN WINDOW(10) WINDOW(20) WINDOW(30) RUN WINDOW(20) WINDOW(40), &h));
    assert_int_equal(h.n, 3);
    assert_int_equal(h.stretch[1].update, 20);
    trm_history_free(&h);
    /* On other ranks: only what comes behind. */
    assert_ok(read_text("{\"kind\":\"run\",\"ranks\":1,\"batch\":8,\"micro_batches\":1}\n" BALANCE(
                            5, "[8]", RANK(5, 1, 1)) RUN WINDOW(10),
                        &h));
    assert_int_equal(h.n, 1);
    assert_int_equal(h.ranks, 2);
    assert_int_equal(h.left_out, 1);
    trm_history_free(&h);
}

static void refuses_nonsense(void **state) {
    (void)state;
    trm_history h;
    assert_fault(trm_history_read("none", &h), TRM_DATA, "none/metrics.jsonl");
    assert_fault(read_text("", &h), TRM_DATA, "no records of balancing");
    assert_fault(read_text(RUN, &h), TRM_DATA, "no records of balancing");
    assert_fault(read_text(WINDOW(10), &h), TRM_DATA, ":1: a record of balancing before the one of the run");
    assert_fault(read_text(RUN "rubbish\n", &h), TRM_DATA, ":2: no JSON object");
    assert_fault(read_text(RUN "[1]\n", &h), TRM_DATA, "no JSON object");
    assert_fault(read_text(RUN "{}\n", &h), TRM_DATA, "without a kind");
    assert_fault(
        read_text("{\"kind\":\"run\",\"ranks\":1000000000000,\"batch\":8,\"micro_batches\":1}\n", &h),
        TRM_DATA, "the record of the run makes no sense");
    assert_fault(read_text(RUN BALANCE(0, "[4,4]", ""), &h), TRM_DATA, "makes no sense");
    assert_fault(read_text(RUN BALANCE(5, "[8]", ""), &h), TRM_DATA, "not one share of each rank");
    assert_fault(read_text(RUN BALANCE(5, "[9,-1]", ""), &h), TRM_DATA, "a share is no whole number");
    assert_fault(read_text(RUN BALANCE(5, "[9223372036854775807,9]", ""), &h), TRM_DATA,
                 "a share is no whole number");
    assert_fault(read_text(RUN BALANCE(5, "[0,0]", ""), &h), TRM_DATA, "all 0");
    assert_fault(read_text(RUN BALANCE(5, "[4,4]", "{}"), &h), TRM_DATA, "not the times of each rank");
    assert_fault(read_text(RUN BALANCE(5, "[4,4]", "{},3"), &h), TRM_DATA, "the times of a rank");
    assert_fault(read_text(RUN BALANCE(5, "[4,4]", RANK(-1, 0, 1) "," RANK(1, 0, 1)), &h), TRM_DATA,
                 "the times of a rank");
    assert_fault(read_text(RUN WINDOW(5) BALANCE(6, "[4,5]", ""), &h), TRM_DATA, "add up to 9, before to 8");
    assert_fault(read_text(RUN BALANCE(5, "[4,5]", ""), &h), TRM_DATA, "more than a batch");
    assert_fault(read_text(RUN BALANCE(5, "[4,4]", RANK(1e308, 0, 1) "," RANK(1, 0, 1)), &h), TRM_DATA,
                 "the times of a rank");
    assert_fault(read_text(RUN BALANCE(5, "[4,4],\"cost_s\":-1", ""), &h), TRM_DATA, "the cost of a move");
}

/* ---- traces ---- */

static trm_status trace(const char *text, int64_t units, trm_history *h) {
    return trm_history_trace(support_file("trace.csv", text), units, h);
}

static void reads_traces(void **state) {
    (void)state;
    trm_history h;
    assert_ok(trace("a,b\r\n2,4\r\n\n3,6", 8, &h));
    assert_int_equal(h.n, 2);
    assert_int_equal(h.ranks, 2);
    assert_bound(fabs(h.speed[3].each - 1.5), 1e-12); /* 6 for 4 units */
    assert_int_equal(h.stretch[0].left, 1);
    trm_history_free(&h);
    assert_ok(trace("1,2,3\n", 0, &h));
    assert_int_equal(h.total, 3 * 64);
    trm_history_free(&h);
    /* Out of order, once twice (the later holds), step 3 not known of worker 0. */
    assert_ok(
        trace(",worker,gpu,time,batch_time_norm\n0,1,25,2,8\n1,0,25,1,2\n2,1,25,1,4\n3,1,25,3,9\n4,0,25,2,6\n"
              "5,1,25,2,10\n",
              4, &h));
    assert_int_equal(h.n, 2);
    assert_int_equal(h.left_out, 1);
    assert_bound(fabs(h.speed[0].each - 1), 0);
    assert_bound(fabs(h.speed[2].each - 3), 0);
    assert_bound(fabs(h.speed[3].each - 5), 0);
    trm_history_free(&h);
}

static void refuses_bad_traces(void **state) {
    (void)state;
    trm_history h;
    assert_fault(trm_history_trace("none.csv", 0, &h), TRM_DATA, "none.csv");
    assert_fault(trm_history_trace(support_dir(), 0, &h), TRM_DATA, "not a regular file");
    assert_fault(trace("", 0, &h), TRM_DATA, "no step");
    assert_fault(trace("a,b\n", 0, &h), TRM_DATA, "no step");
    assert_fault(trace("1\n2\n", 0, &h), TRM_DATA, "one worker");
    assert_fault(trace("1,2\n1\n", 0, &h), TRM_DATA, ":2: 1 columns, before 2");
    assert_fault(trace("1,2\n1,0\n", 0, &h), TRM_DATA, ":2: column 2 is '0'; a time is a number above 0");
    assert_fault(trace("1,2\n1,inf\n", 0, &h), TRM_DATA, "a time is a number above 0");
    assert_fault(trace("1,2\n1,x\n", 0, &h), TRM_DATA, "a time is a number above 0");
    assert_fault(trace("worker,time,batch_time_norm\n0,1\n", 0, &h), TRM_DATA, "too few columns");
    assert_fault(trace("worker,time,batch_time_norm\n-1,1,3\n", 0, &h), TRM_DATA, "no whole number");
    assert_fault(trace("worker,time,batch_time_norm\n9999999,1,3\n", 0, &h), TRM_DATA, "beyond 4095");
    assert_fault(trace("worker,time,batch_time_norm\n1,1,3\n", 0, &h), TRM_DATA, "no step");
}

/* Single updates are gathered until they are enough to decide on; single slow ones are no speed. */
static void decides_on_traces(void **state) {
    (void)state;
    trm_history h;
    trm_str text = {0};
    for (int i = 0; i < 20; i++) trm_str_add(&text, i % 5 == 2 ? "90,30\n" : "10,30\n");
    assert_ok(trace(trm_str_get(&text), 8, &h));
    trm_replay_spec s = plain;
    trm_replay o;
    s.every = 1;
    assert_ok(trm_replay_run(&h, &s, &o));
    assert_int_equal(o.decisions, 3); /* behind 5, 10, 15 */
    s.every = 10;
    assert_ok(trm_replay_run(&h, &s, &o));
    assert_int_equal(o.decisions, 1);
    /* 4 : 4 takes 8 * 30 + 2 * 90; 6 : 2 then takes 8 * 15 + 2 * 135. */
    assert_course(&o.policy, 420 + 390, 1, 2);
    assert_course(&o.equal, 840, 0, 0);
    assert_course(&o.was, 0, 0, 0);
    trm_str_free(&text);
    trm_history_free(&h);
}

static void out_of_memory(void **state) {
    (void)state;
    support_file("metrics.jsonl", RUN WINDOW(10) WINDOW(20));
    for (uint64_t n = 1;; n++) {
        trm_history h;
        trm_replay o;
        trm_mem_fail_after(n);
        trm_status status = trm_history_read(support_dir(), &h);
        if (status == TRM_OK) status = trm_replay_run(&h, &plain, &o);
        trm_mem_fail_after(0);
        trm_history_free(&h);
        if (status == TRM_OK) break;
        assert_int_equal(status, TRM_MEMORY);
        assert_true(n < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(options_count),
        cmocka_unit_test(begins_as_the_run),
        cmocka_unit_test(fixed_parts_bound_the_ideal),
        cmocka_unit_test(nothing_beats_the_oracle),
        cmocka_unit_test(reads_a_run),
        cmocka_unit_test(an_idle_rank_has_a_speed),
        cmocka_unit_test(a_resumed_run),
        cmocka_unit_test(refuses_nonsense),
        cmocka_unit_test(reads_traces),
        cmocka_unit_test(refuses_bad_traces),
        cmocka_unit_test(decides_on_traces),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
