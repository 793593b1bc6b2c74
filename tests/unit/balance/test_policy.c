/* balance: windows and the policy.  Ranks are simulated: a rank takes fixed + each * n seconds. */
#include <math.h>
#include <string.h>
#include <trireme/balance.h>

#include "support.h"

#define assert_near(got, want, most) assert_bound(fabs((got) - (want)), most)

/* ---- windows ---- */

static void a_window_takes_the_median_of_blocks(void **state) {
    (void)state;
    trm_window w;
    trm_measure m[2] = {{0.010, 0.001, 0.009}, {0.020, 0.001, 0.019}};
    assert_ok(trm_window_open(2, &w));
    for (int i = 0; i < 50; i++) {
        assert_int_equal(trm_window_is_full(&w), i > 25 - 1);
        trm_window_add(&w, 0.0101, m);
    }
    /* One hiccup, a hundred times as long, moves no median. */
    trm_measure hiccup[2] = {{1.0, 0.1, 1.0}, {2.0, 0.1, 2.0}};
    trm_window_add(&w, 2.0, hiccup);
    double noise;
    trm_measure a = trm_window_rank(&w, 0, &noise), b = trm_window_rank(&w, 1, NULL);
    assert_near(a.compute, 0.010, 1e-9);
    assert_near(a.fixed, 0.001, 1e-9);
    assert_near(b.compute, 0.020, 1e-9);
    assert_near(b.cpu, 0.019, 1e-9);
    assert_near(noise, 0, 1e-9);
    assert_near(trm_window_step(&w), 0.0101, 1e-9);
    trm_window_free(&w);
}

/* Slices of a shared core: most updates are undisturbed, a few take four times as long.  The mean counts. */
static void short_updates_are_averaged(void **state) {
    (void)state;
    trm_window w;
    assert_ok(trm_window_open(1, &w));
    for (int i = 0; i < 2000; i++) {
        trm_measure m = {i % 3 == 0 ? 0.004 : 0.001, 0, 0};
        trm_window_add(&w, m.compute, &m);
    }
    double noise;
    assert_near(trm_window_rank(&w, 0, &noise).compute, 0.002, 0.0001);
    assert_true(noise < 0.02);
    trm_window_free(&w);
}

static void warm_up_is_left_out(void **state) {
    (void)state;
    trm_window w;
    assert_ok(trm_window_open(1, &w));
    trm_window_reset(&w, 3);
    for (int i = 0; i < 10; i++) trm_window_add(&w, 0.1, &(trm_measure){i < 3 ? 9 : 0.1, 0, 0});
    assert_int_equal(w.updates, 7);
    assert_near(trm_window_rank(&w, 0, NULL).compute, 0.1, 1e-12);
    trm_window_free(&w);
}

/* A long window keeps few blocks: they merge, and no update is lost. */
static void blocks_merge(void **state) {
    (void)state;
    trm_window w;
    assert_ok(trm_window_open(1, &w));
    for (int i = 0; i < 100000; i++) trm_window_add(&w, 0.01, &(trm_measure){0.01, 0, 0});
    assert_true(w.blocks <= TRM_WINDOW_BLOCKS && w.blocks >= TRM_WINDOW_BLOCKS / 2);
    assert_near(trm_window_rank(&w, 0, NULL).compute, 0.01, 1e-9);
    assert_int_equal(w.updates, 100000);
    trm_window_free(&w);
}

/* ---- the policy in a small world ---- */

enum { MOST = 4 };
typedef struct world {
    int ranks;
    int64_t n[MOST];
    double each[MOST], fixed, cost;
    int64_t updates, left;
    trm_policy *policy;
    trm_decision d;
    int moves;
} world;

static void open_world(world *w, int ranks, int64_t total, trm_policy_spec spec) {
    *w = (world){.ranks = ranks, .fixed = 0.001, .updates = 100, .left = 100000};
    spec.ranks = ranks;
    spec.total = total;
    for (int r = 0; r < ranks; r++) {
        w->n[r] = trm_cut(total, ranks, r + 1) - trm_cut(total, ranks, r);
        w->each[r] = 0.001;
    }
    assert_ok(trm_policy_open(&spec, w->n, &w->policy));
}

static double compute_of(const world *w, int r) { return w->fixed + w->each[r] * (double)w->n[r]; }

/* One window with the shares in force, and its decision. */
static trm_verdict turn(world *w) {
    trm_measure m[MOST];
    double slowest = 0;
    for (int r = 0; r < w->ranks; r++) {
        m[r] = (trm_measure){compute_of(w, r), w->fixed, compute_of(w, r)};
        slowest = m[r].compute > slowest ? m[r].compute : slowest;
    }
    trm_policy_seen seen = {
        .step = slowest + 0.001, .rank = m, .updates = w->updates, .left = w->left, .cost = w->cost};
    assert_ok(trm_policy_decide(w->policy, &seen, &w->d));
    int64_t sum = 0, total = 0;
    for (int r = 0; r < w->ranks; r++) {
        total += w->n[r];
        sum += w->d.counts[r];
        w->n[r] = w->d.counts[r];
    }
    assert_int_equal(sum, total);
    w->moves += trm_verdict_moves(w->d.verdict);
    return w->d.verdict;
}

static trm_policy_spec usual(void) {
    return (trm_policy_spec){.threshold = 0.05, .predictor = TRM_PREDICT_EMA, .cooldown = 1, .reprobe = 4};
}

static void equal_ranks_never_move(void **state) {
    (void)state;
    world w;
    open_world(&w, 3, 64, usual());
    for (int i = 0; i < 40; i++) {
        for (int r = 0; r < 3; r++) w.each[r] = 0.001 * (1 + 0.01 * ((i * 7 + r * 3) % 5 - 2));
        turn(&w);
    }
    assert_int_equal(w.moves, 0);
    trm_policy_free(w.policy);
}

static void a_slow_rank_sheds_at_once(void **state) {
    (void)state;
    world w;
    open_world(&w, 2, 60, usual());
    assert_int_equal(turn(&w), TRM_VERDICT_STAY);
    w.each[1] = 0.002;
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    assert_int_equal(w.n[0], 40);
    assert_int_equal(w.n[1], 20);
    assert_int_equal(w.d.rank, 1);
    assert_near(w.d.slower, 2, 1e-9);
    assert_int_equal(w.d.moved, 10);
    for (int i = 0; i < 10; i++) turn(&w);
    assert_int_equal(w.moves, 1);
    trm_policy_free(w.policy);
}

/* Work goes back when two windows say so. */
static void a_recovered_rank_gets_its_work_back_slowly(void **state) {
    (void)state;
    world w;
    open_world(&w, 2, 60, usual());
    w.each[1] = 0.002;
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    for (int i = 0; i < 4; i++) turn(&w);
    w.each[1] = 0.001;
    assert_int_equal(turn(&w), TRM_VERDICT_CONFIRM);
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    assert_true(w.d.gives_back);
    assert_int_equal(w.d.rank, 1);
    assert_int_equal(w.n[0], 30);
    trm_policy_free(w.policy);
}

/* Measured one way or the other by a few percent: what comes back are equal shares, not the error. */
static void ranks_alike_get_equal_shares_again(void **state) {
    (void)state;
    for (int error = -4; error <= 4; error++) {
        world w;
        open_world(&w, 2, 384, usual());
        turn(&w);
        w.each[1] = 0.002;
        for (int i = 0; i < 4; i++) turn(&w);
        assert_true(w.n[1] < 140);
        for (int i = 0; i < 4; i++) {
            w.each[1] = 0.001 * (1 + 0.01 * error);
            turn(&w);
        }
        assert_int_equal(w.n[0], 192);
        assert_int_equal(w.n[1], 192);
        trm_policy_free(w.policy);
    }
}

/* Ranks that differ by more than the threshold keep their own shares. */
static void ranks_unlike_do_not(void **state) {
    (void)state;
    world w;
    open_world(&w, 2, 384, usual());
    for (int i = 0; i < 4; i++) {
        w.each[1] = 0.00125;
        turn(&w);
    }
    assert_in_range(w.n[1], 168, 174);
    trm_policy_free(w.policy);
}

static void a_cooldown_follows_a_move(void **state) {
    (void)state;
    world w;
    trm_policy_spec s = usual();
    s.cooldown = 2;
    open_world(&w, 3, 90, s);
    w.each[1] = 0.002;
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    w.each[2] = 0.0008; /* work for it: its time has to come */
    assert_int_equal(turn(&w), TRM_VERDICT_COOLDOWN);
    assert_int_equal(turn(&w), TRM_VERDICT_COOLDOWN);
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    trm_policy_free(w.policy);
}

static void small_gains_do_not_move(void **state) {
    (void)state;
    world w;
    open_world(&w, 2, 100, usual());
    w.each[1] = 0.00106;
    assert_int_equal(turn(&w), TRM_VERDICT_SMALL);
    assert_true(w.d.gain > 0 && w.d.gain < 0.05);
    trm_policy_free(w.policy);
}

/* gain x horizon has to be worth one and a half times the cost; the horizon ends with the run. */
static void a_move_has_to_pay(void **state) {
    (void)state;
    world w;
    open_world(&w, 2, 60, usual());
    w.each[1] = 0.002; /* saves 20 ms an update */
    w.cost = 1;
    w.left = 74;
    assert_int_equal(turn(&w), TRM_VERDICT_SHORT);
    w.left = 76;
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    trm_policy_free(w.policy);
}

/* A world in which moving does not help: whoever has more samples becomes slower for each. */
static void a_move_that_brings_nothing_is_undone(void **state) {
    (void)state;
    world w;
    open_world(&w, 2, 60, usual());
    w.each[1] = 0.00113;
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    int64_t moved = w.n[0] - 30;
    assert_true(moved > 0);
    w.each[0] = 0.00109; /* within the band of one speed */
    assert_int_equal(turn(&w), TRM_VERDICT_ROLLBACK);
    assert_int_equal(w.n[0], 30);
    assert_true(w.d.brought < w.d.promised / 2);
    w.each[0] = 0.001;
    /* The threshold is twice what it was. */
    turn(&w);
    assert_int_equal(turn(&w), TRM_VERDICT_SMALL);
    trm_policy_free(w.policy);
}

static void an_idle_rank_is_measured_again(void **state) {
    (void)state;
    world w;
    open_world(&w, 2, 10, usual());
    w.each[1] = 0.1;
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    assert_int_equal(w.n[1], 0);
    int idle = 0;
    while (turn(&w) != TRM_VERDICT_REPROBE) assert_true(++idle < 4);
    assert_int_equal(idle, 3);
    assert_int_equal(w.n[1], 1);
    /* Still slow: idle again, at once. */
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    assert_int_equal(w.n[1], 0);
    w.each[1] = 0.001;
    while (turn(&w) != TRM_VERDICT_REPROBE) {}
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    assert_int_equal(w.n[1], 5);
    trm_policy_free(w.policy);
}

static void caps_hold(void **state) {
    (void)state;
    world w;
    trm_policy_spec s = usual();
    int64_t cap[2] = {35, 60};
    s.cap = cap;
    open_world(&w, 2, 60, s);
    w.each[1] = 0.004;
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    assert_int_equal(w.n[0], 35);
    trm_policy_free(w.policy);
}

static void a_dry_run_keeps_the_shares(void **state) {
    (void)state;
    world w;
    open_world(&w, 2, 60, usual());
    w.each[1] = 0.002;
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    trm_policy_keep(w.policy);
    w.n[0] = w.n[1] = 30;
    turn(&w);
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    assert_int_equal(w.d.moved, 10);
    trm_policy_free(w.policy);
}

/* Noise that would explain the gain is no reason to move, unless the gain is twice the threshold. */
static void noise_raises_the_threshold(void **state) {
    (void)state;
    world w;
    double noise[2] = {0.2, 0.2};
    for (int i = 0; i < 3; i++) {
        open_world(&w, 2, 60, usual());
        w.each[1] = i < 2 ? 0.00117 : 0.0013; /* gains of 8 % and 13 % */
        trm_measure m[2] = {{compute_of(&w, 0), w.fixed, 0}, {compute_of(&w, 1), w.fixed, 0}};
        trm_policy_seen seen = {.step = 0.04, .rank = m, .noise = noise, .updates = 100, .left = 1000};
        noise[0] = noise[1] = i == 0 ? 0.2 : i == 1 ? 0.01 : 0.2;
        assert_ok(trm_policy_decide(w.policy, &seen, &w.d));
        assert_int_equal(w.d.verdict, i == 0 ? TRM_VERDICT_SMALL : TRM_VERDICT_MOVE);
        trm_policy_free(w.policy);
    }
}

/* Another rank that becomes slow is relieved at once: no cooldown, no vote; and the last move is not to blame. */
static void what_becomes_slow_is_relieved_at_once(void **state) {
    (void)state;
    world w;
    open_world(&w, 3, 90, usual());
    w.each[1] = 0.002;
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    w.each[1] = 0.001;
    w.each[2] = 0.003;
    assert_int_equal(turn(&w), TRM_VERDICT_MOVE);
    assert_true(w.d.gives_back || w.n[1] > 18);
    assert_true(w.n[2] < 15);
    trm_policy_free(w.policy);
}

/* Slow for one window out of four: the first time work moves and comes back at once, then it stays where it is; what stays slow is
 * relieved all the same. */
static void flashes_are_learned(void **state) {
    (void)state;
    world w;
    open_world(&w, 2, 60, usual());
    for (int i = 0; i < 40; i++) {
        w.each[1] = i % 4 == 1 ? 0.002 : 0.001;
        turn(&w);
        if (i == 2) assert_int_equal(w.moves, 2);
    }
    assert_int_equal(w.moves, 2);
    assert_int_equal(w.n[0], 30);
    w.each[1] = 0.002;
    for (int i = 0; i < 3; i++) turn(&w);
    assert_int_equal(w.n[0], 40);
    trm_policy_free(w.policy);
}

/* Equal calls give equal decisions, to the bit. */
static void is_deterministic(void **state) {
    (void)state;
    world a, b;
    open_world(&a, 4, 256, usual());
    open_world(&b, 4, 256, usual());
    trm_rng_key key = {.seed = 5, .purpose = TRM_RNG_SYNTH};
    uint64_t draws = 0;
    for (int i = 0; i < 200; i++) {
        for (int r = 0; r < 4; r++)
            a.each[r] = b.each[r] = 0.001 * (1 + 2 * trm_rng_uniform(&key, 4 * draws++));
        assert_int_equal(turn(&a), turn(&b));
        assert_memory_equal(a.n, b.n, sizeof a.n);
        assert_memory_equal(&a.d.gain, &b.d.gain, sizeof a.d.gain);
    }
    trm_policy_free(a.policy);
    trm_policy_free(b.policy);
}

static void says_what_it_does(void **state) {
    (void)state;
    trm_str s = {0};
    int64_t counts[2] = {40, 20};
    trm_decision d = {
        .verdict = TRM_VERDICT_MOVE, .counts = counts, .rank = 1, .slower = 1.31, .moved = 11, .gain = 0.14};
    trm_decision_words(&d, "node07", "sample", &s);
    assert_string_equal(trm_str_get(&s), "rank 1 (node07) is 1.31× slower; 11 samples moved, saves 14 %");
    trm_str_free(&s);
    counts[1] = 0;
    d.moved = 1;
    trm_decision_words(&d, NULL, "row", &s);
    assert_string_equal(trm_str_get(&s), "rank 1 is 1.31× slower; 1 row moved, saves 14 %; it is idle now");
    trm_str_free(&s);
    d.verdict = TRM_VERDICT_SMALL;
    trm_decision_words(&d, NULL, "row", &s);
    assert_string_equal(trm_str_get(&s),
                        "rank 1 is 1.31× slower; 1 row would move, saving 14 %: too little to move");
    trm_str_free(&s);
    d.verdict = TRM_VERDICT_MOVE;
    d.dry = true;
    trm_decision_words(&d, NULL, "row", &s);
    assert_string_equal(trm_str_get(&s), "rank 1 is 1.31× slower; 1 row would move, saving 14 %");
    trm_str_free(&s);
    d.dry = false;
    d.gives_back = true;
    d.slower = 1.05;
    counts[1] = 30;
    trm_decision_words(&d, NULL, "row", &s);
    assert_string_equal(trm_str_get(&s),
                        "rank 1 is only 1.05× slower now; 1 row goes back to it, saves 14 %");
    trm_str_free(&s);
}

static void bad_starts_are_refused(void **state) {
    (void)state;
    trm_policy *p = NULL;
    trm_policy_spec s = usual();
    s.ranks = 2;
    s.total = 10;
    assert_fault(trm_policy_open(&s, (int64_t[]){5, 6}, &p), TRM_INTERNAL, "shares of 11");
    s.threshold = -1;
    assert_fault(trm_policy_open(&s, (int64_t[]){5, 5}, &p), TRM_INTERNAL, "threshold -1");
    assert_null(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_takes_the_median_of_blocks),
        cmocka_unit_test(short_updates_are_averaged),
        cmocka_unit_test(warm_up_is_left_out),
        cmocka_unit_test(blocks_merge),
        cmocka_unit_test(equal_ranks_never_move),
        cmocka_unit_test(a_slow_rank_sheds_at_once),
        cmocka_unit_test(a_recovered_rank_gets_its_work_back_slowly),
        cmocka_unit_test(ranks_alike_get_equal_shares_again),
        cmocka_unit_test(ranks_unlike_do_not),
        cmocka_unit_test(a_cooldown_follows_a_move),
        cmocka_unit_test(small_gains_do_not_move),
        cmocka_unit_test(a_move_has_to_pay),
        cmocka_unit_test(a_move_that_brings_nothing_is_undone),
        cmocka_unit_test(an_idle_rank_is_measured_again),
        cmocka_unit_test(caps_hold),
        cmocka_unit_test(a_dry_run_keeps_the_shares),
        cmocka_unit_test(noise_raises_the_threshold),
        cmocka_unit_test(what_becomes_slow_is_relieved_at_once),
        cmocka_unit_test(flashes_are_learned),
        cmocka_unit_test(is_deterministic),
        cmocka_unit_test(says_what_it_does),
        cmocka_unit_test(bad_starts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
