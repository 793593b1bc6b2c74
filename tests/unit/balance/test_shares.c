/* Shares: against every way to share out few units, and against one unit at a time. */
#include <math.h>
#include <string.h>
#include <trireme/balance.h>
#include "support.h"

#define RANKS 32

typedef struct ask {
    int ranks;
    trm_speed speed[RANKS];
    int64_t cap[RANKS], now[RANKS], total;
    bool has_cap, has_now;
} ask;

static const trm_rng_key KEY = {.seed = 20, .purpose = TRM_RNG_SYNTH};
static uint64_t draws;

static int64_t below(int64_t n) { return (int64_t)trm_rng_below(&KEY, draws++, (uint64_t)n); }
static double uniform(void) { return trm_rng_uniform(&KEY, 4 * draws++); }

static trm_status shares(const ask *a, int64_t *counts) {
    return trm_balance_shares(a->ranks, a->speed, a->has_cap ? a->cap : NULL, a->total,
                              a->has_now ? a->now : NULL, counts);
}

static double finish(const trm_speed *s, int64_t n) { return n ? s->fixed + s->each * (double)n : s->fixed; }

static double slowest(const ask *a, const int64_t *counts) {
    double t = 0;
    for (int r = 0; r < a->ranks; r++) t = fmax(t, finish(&a->speed[r], counts[r]));
    return t;
}

static int64_t moved(const ask *a, const int64_t *counts) {
    int64_t n = 0;
    for (int r = 0; r < a->ranks && a->has_now; r++) n += trm_max64(0, a->now[r] - counts[r]);
    return n;
}

static int64_t room(const ask *a, int r) {
    if (isinf(a->speed[r].each)) return 0;
    return a->has_cap ? a->cap[r] : INT64_MAX;
}

/* Few distinct numbers, for ties, or any, of any size. */
static void draw(ask *a, int ranks, int64_t total) {
    bool ties = below(2);
    *a = (ask){.ranks = 1 + (int)below(ranks),
               .total = below(total + 1),
               .has_cap = below(2),
               .has_now = below(4) > 0};
    for (int r = 0; r < a->ranks; r++) {
        a->speed[r].fixed = below(2) ? 0 : ties ? (double)below(4) : exp(8 * uniform() - 4);
        a->speed[r].each = below(8) == 0 ? INFINITY : ties ? (double)(1 + below(3)) : exp(6 * uniform() - 3);
        a->cap[r] = below(total + 2);
        a->now[r] = below(2 * total / a->ranks + 2); /* their sum is seldom the total */
    }
}

/* Counts that keep the sum, the caps and the least time `best`. */
static void check(const ask *a, const int64_t *counts, double best) {
    int64_t sum = 0;
    for (int r = 0; r < a->ranks; r++) {
        assert_true(counts[r] >= 0 && counts[r] <= room(a, r));
        sum += counts[r];
    }
    assert_int_equal(sum, a->total);
    assert_true(slowest(a, counts) == best);
    assert_true(trm_balance_makespan(a->ranks, a->speed, counts) == best);
}

/* ---- every way ---- */

typedef struct best_way {
    double time;
    int64_t moved;
    bool any;
} best_way;

static void every_way(const ask *a, int r, int64_t left, int64_t *counts, best_way *b) {
    if (r == a->ranks - 1) {
        counts[r] = left;
        if (left > room(a, r)) return;
        double t = slowest(a, counts);
        int64_t m = moved(a, counts);
        if (!b->any || t < b->time || (t == b->time && m < b->moved)) *b = (best_way){t, m, true};
        return;
    }
    for (counts[r] = 0; counts[r] <= trm_min64(left, room(a, r)); counts[r]++)
        every_way(a, r + 1, left - counts[r], counts, b);
}

static void no_other_way_is_better(void **state) {
    (void)state;
    int fitting = 0, moving = 0;
    for (int round = 0; round < 20000; round++) {
        ask a;
        best_way b = {0};
        int64_t counts[RANKS], way[RANKS];
        draw(&a, 4, 10);
        every_way(&a, 0, a.total, way, &b);
        if (!b.any) {
            assert_int_equal(shares(&a, counts), TRM_JOB);
            continue;
        }
        assert_ok(shares(&a, counts));
        check(&a, counts, b.time);
        assert_int_equal(moved(&a, counts), b.moved);
        fitting++;
        moving += b.moved > 0;
    }
    assert_true(fitting > 5000 && moving > 1000);
}

/* ---- one unit at a time ---- */

static void one_at_a_time(const ask *a, int64_t *counts) {
    memset(counts, 0, sizeof *counts * RANKS);
    for (int64_t i = 0; i < a->total; i++) {
        int to = -1;
        for (int r = 0; r < a->ranks; r++) {
            if (counts[r] >= room(a, r)) continue;
            if (to < 0 || finish(&a->speed[r], counts[r] + 1) < finish(&a->speed[to], counts[to] + 1)) to = r;
        }
        counts[to]++;
    }
}

static void same_as_one_at_a_time(void **state) {
    (void)state;
    for (int round = 0; round < 500; round++) {
        ask a;
        int64_t counts[RANKS], want[RANKS];
        draw(&a, RANKS, 1500);
        if (shares(&a, counts) != TRM_OK) continue;
        one_at_a_time(&a, want);
        check(&a, counts, slowest(&a, want));
        a.has_now = false;
        assert_ok(shares(&a, counts));
        assert_memory_equal(counts, want, (size_t)a.ranks * sizeof *counts);
    }
}

/* ---- many units ---- */

/* No time before `best` is enough: what each rank does before it, found by halving. */
static void assert_least(const ask *a, const int64_t *counts) {
    double best = slowest(a, counts), fixed = 0;
    int64_t before = 0;
    check(a, counts, best);
    for (int r = 0; r < a->ranks; r++) {
        int64_t lo = 0, hi = trm_min64(room(a, r), a->total);
        while (lo < hi) {
            int64_t mid = hi - (hi - lo) / 2;
            if (finish(&a->speed[r], mid) < best)
                lo = mid;
            else
                hi = mid - 1;
        }
        before += trm_min64(lo, a->total - before);
        fixed = fmax(fixed, a->speed[r].fixed);
    }
    assert_true(before < a->total || best == fixed);
}

static void many_units(void **state) {
    (void)state;
    for (int round = 0; round < 300; round++) {
        ask a;
        int64_t counts[RANKS];
        draw(&a, RANKS, 1);
        a.total = below(1000000000000) + 1;
        for (int r = 0; r < a.ranks; r++) {
            a.cap[r] = below(a.total) + a.total / 8;
            a.now[r] = below(2 * a.total / a.ranks);
            if (round % 3 == 0) a.speed[r].each *= 1e-13; /* units that a fixed part swallows */
        }
        if (shares(&a, counts) == TRM_OK) assert_least(&a, counts);
    }
}

static void numbers_at_the_edge(void **state) {
    (void)state;
    int64_t counts[RANKS];
    ask a = {.ranks = 2, .speed = {{0, 5e-324}, {0, 5e-324}}, .total = INT64_MAX};
    assert_ok(shares(&a, counts));
    assert_least(&a, counts);
    a = (ask){.ranks = 2, .speed = {{0, 1e308}, {1e308, 1e308}}, .total = 9}; /* more than a double holds */
    assert_ok(shares(&a, counts));
    check(&a, counts, INFINITY);
    a = (ask){.ranks = 2, .speed = {{1e9, 1e-300}, {0, 1e300}}, .total = 1000000000000};
    assert_ok(shares(&a, counts));
    assert_int_equal(counts[0], a.total);
    assert_least(&a, counts);
    a = (ask){.ranks = 3, .speed = {{0, 1}, {0, 1}, {0, 1}}, .total = INT64_MAX, .has_now = true};
    for (int r = 0; r < 3; r++) a.now[r] = INT64_MAX;
    assert_ok(shares(&a, counts));
    check(&a, counts, slowest(&a, counts));
}

static void many_ranks(void **state) {
    (void)state;
    enum { MANY = 4096 };
    static trm_speed speed[MANY];
    static int64_t now[MANY], counts[MANY];
    int64_t sum = 0;
    for (int r = 0; r < MANY; r++) speed[r] = (trm_speed){0, 1 + r % 7}, now[r] = r;
    assert_ok(trm_balance_shares(MANY, speed, NULL, (int64_t)1 << 40, now, counts));
    for (int r = 0; r < MANY; r++) {
        sum += counts[r];
        assert_bound(fabs((double)counts[r] * speed[r].each - (double)counts[0]), 8);
    }
    assert_true(sum == (int64_t)1 << 40);
}

/* ---- cases ---- */

static void expect(const ask *a, const int64_t *want) {
    int64_t counts[RANKS];
    assert_ok(shares(a, counts));
    for (int r = 0; r < a->ranks; r++) assert_int_equal(counts[r], want[r]);
}

static void simple_cases(void **state) {
    (void)state;
    expect(&(ask){.ranks = 1, .speed = {{3, 2}}, .total = 7}, (int64_t[]){7});
    expect(&(ask){.ranks = 2, .speed = {{0, 1}, {0, 2}}, .total = 0}, (int64_t[]){0, 0});
    expect(&(ask){.ranks = 2, .speed = {{0, 1}, {0, 3}}, .total = 8}, (int64_t[]){6, 2});
    expect(&(ask){.ranks = 3, .speed = {{0, 1}, {0, 1}, {0, 1}}, .total = 8}, (int64_t[]){3, 3, 2});
    expect(&(ask){.ranks = 3, .speed = {{0, 1}, {0, 1}, {0, 1 - 1e-12}}, .total = 2}, (int64_t[]){1, 0, 1});
    /* A fixed part counts for a rank without units, and nobody has to be done before it. */
    expect(&(ask){.ranks = 2, .speed = {{0, 1}, {5, 1}}, .total = 4}, (int64_t[]){4, 0});
    expect(&(ask){.ranks = 2, .speed = {{0, 1}, {9, INFINITY}}, .total = 4}, (int64_t[]){4, 0});
    expect(&(ask){.ranks = 2, .speed = {{0, INFINITY}, {0, INFINITY}}, .total = 0}, (int64_t[]){0, 0});
}

static void caps_hold(void **state) {
    (void)state;
    ask a = {.ranks = 3, .speed = {{0, 1}, {0, 5}, {0, 1}}, .cap = {2, 9, 3}, .total = 14, .has_cap = true};
    expect(&a, (int64_t[]){2, 9, 3}); /* just enough */
    a.total = 8;
    expect(&a, (int64_t[]){2, 3, 3});
    a.cap[0] = INT64_MAX;
    expect(&a, (int64_t[]){5, 0, 3});
}

static void little_moves(void **state) {
    (void)state;
    /* As good as any: all stay. */
    ask a = {.ranks = 3, .speed = {{0, 1}, {0, 1}, {0, 1}}, .now = {2, 3, 3}, .total = 8, .has_now = true};
    expect(&a, (int64_t[]){2, 3, 3});
    /* The fixed part of rank 2 is longer than all: nothing is gained by a move. */
    a = (ask){.ranks = 3, .speed = {{0, 1}, {0, 1}, {9, 1}}, .now = {1, 7, 0}, .total = 8, .has_now = true};
    expect(&a, (int64_t[]){1, 7, 0});
    /* What is too much goes to the ranks that are done first, what is new too. */
    a = (ask){.ranks = 3, .speed = {{0, 1}, {0, 1}, {0, 1}}, .now = {6, 0, 0}, .total = 6, .has_now = true};
    expect(&a, (int64_t[]){2, 2, 2});
    a = (ask){.ranks = 3, .speed = {{0, 2}, {0, 1}, {0, 1}}, .now = {1, 1, 1}, .total = 6, .has_now = true};
    expect(&a, (int64_t[]){1, 3, 2});
    /* Fewer units than before: nobody gets any. */
    a = (ask){.ranks = 3, .speed = {{0, 1}, {0, 1}, {0, 4}}, .now = {3, 1, 1}, .total = 3, .has_now = true};
    expect(&a, (int64_t[]){2, 1, 0});
}

static void now_may_be_counts(void **state) {
    (void)state;
    for (int round = 0; round < 500; round++) {
        ask a;
        int64_t want[RANKS];
        draw(&a, 8, 40);
        a.has_now = true;
        if (shares(&a, want) != TRM_OK) continue;
        assert_ok(shares(&a, a.now));
        assert_memory_equal(a.now, want, (size_t)a.ranks * sizeof *want);
    }
}

static void faults_are_sentences(void **state) {
    (void)state;
    int64_t counts[RANKS] = {42};
    const ask good = {
        .ranks = 2, .speed = {{0, 1}, {0, 1}}, .cap = {2, 3}, .total = 5, .has_cap = true, .has_now = true};
    ask a = good;
    a.ranks = 0;
    assert_fault(shares(&a, counts), TRM_INTERNAL, "0 ranks");
    a = good, a.total = -1;
    assert_fault(shares(&a, counts), TRM_INTERNAL, "-1 units");
    a = good, a.speed[1].fixed = NAN;
    assert_fault(shares(&a, counts), TRM_INTERNAL, "of rank 1");
    a.speed[1].fixed = -2;
    assert_fault(shares(&a, counts), TRM_INTERNAL, "fixed time -2 of rank 1");
    a.speed[1].fixed = INFINITY;
    assert_fault(shares(&a, counts), TRM_INTERNAL, "fixed time inf");
    a = good, a.speed[0].each = 0;
    assert_fault(shares(&a, counts), TRM_INTERNAL, "time 0 of rank 0");
    a.speed[0].each = NAN;
    assert_fault(shares(&a, counts), TRM_INTERNAL, "of rank 0 for a unit");
    a = good, a.cap[1] = -1;
    assert_fault(shares(&a, counts), TRM_INTERNAL, "cap -1 of rank 1");
    a = good, a.now[1] = -3;
    assert_fault(shares(&a, counts), TRM_INTERNAL, "rank 1 has -3 units");
    a = good, a.total = 6;
    assert_fault(shares(&a, counts), TRM_JOB, "room for 5 units; 6 are");
    a = good, a.speed[0].each = INFINITY;
    assert_fault(shares(&a, counts), TRM_JOB, "room for 3 units; 5 are");
    a.speed[1].each = INFINITY;
    assert_fault(shares(&a, counts), TRM_JOB, "none of the 2 ranks");
    assert_int_equal(counts[0], 42);
}

static void makespan_counts_fixed_parts(void **state) {
    (void)state;
    const trm_speed speed[] = {{1, 2}, {8, 1}, {0, INFINITY}};
    assert_true(trm_balance_makespan(3, speed, (int64_t[]){0, 0, 0}) == 8);
    assert_true(trm_balance_makespan(3, speed, (int64_t[]){4, 0, 0}) == 9);
    assert_true(isinf(trm_balance_makespan(3, speed, (int64_t[]){0, 0, 1})));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_way_is_better),
        cmocka_unit_test(same_as_one_at_a_time),
        cmocka_unit_test(many_units),
        cmocka_unit_test(numbers_at_the_edge),
        cmocka_unit_test(many_ranks),
        cmocka_unit_test(simple_cases),
        cmocka_unit_test(caps_hold),
        cmocka_unit_test(little_moves),
        cmocka_unit_test(now_may_be_counts),
        cmocka_unit_test(faults_are_sentences),
        cmocka_unit_test(makespan_counts_fixed_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
