/* Chains: against every cut of few items, one way against the other, and many items. */
#include <math.h>
#include <string.h>
#include <trireme/balance.h>
#include "support.h"

#define ITEMS 10
#define STAGES 5

typedef struct box {
    trm_chain c;
    double work[ITEMS], slow[STAGES], times[ITEMS * STAGES], cut[ITEMS], memory[ITEMS], limit[STAGES];
} box;

static const trm_rng_key KEY = {.seed = 21, .purpose = TRM_RNG_SYNTH};
static uint64_t draws;

static int64_t below(int64_t n) { return (int64_t)trm_rng_below(&KEY, draws++, (uint64_t)n); }
static double uniform(void) { return trm_rng_uniform(&KEY, 4 * draws++); }
/* Small integers, whose sums are exact, or any numbers. */
static double number(bool whole) { return whole ? (double)below(5) : 10 * uniform(); }

static void draw(box *b) {
    bool whole = below(2), empty = below(2);
    *b = (box){.c = {.items = below(ITEMS + 1), .stages = 1 + (int)below(STAGES), .may_be_empty = empty}};
    trm_chain *c = &b->c;
    for (int i = 0; i < ITEMS; i++)
        b->work[i] = number(whole), b->memory[i] = (double)below(100), b->cut[i] = number(whole);
    for (int i = 0; i < ITEMS * STAGES; i++) b->times[i] = below(12) ? number(whole) : INFINITY;
    for (int s = 0; s < STAGES; s++)
        b->slow[s] = below(10) ? whole ? 1 + (double)below(3) : 0.1 + uniform() : INFINITY;
    for (int s = 0; s < STAGES; s++) b->limit[s] = below(10) ? (double)below(500) : INFINITY;
    b->cut[below(ITEMS)] = below(3) ? 1 : INFINITY; /* this must not be cut */
    c->work = b->work;
    if (below(2)) c->slow = b->slow;
    if (below(4) == 0) c->times = b->times;
    if (below(3) == 0) c->cut = b->cut;
    if (below(3) == 0) c->memory = b->memory, c->limit = b->limit;
}

/* ---- a stage's time, written out ---- */

static double stage_time(const trm_chain *c, int s, int64_t begin, int64_t end) {
    long double sum = 0, bytes = 0;
    if (begin == end) return c->may_be_empty ? 0 : INFINITY;
    if (!c->times && c->slow && isinf(c->slow[s])) return INFINITY;
    for (int64_t i = begin; i < end; i++) {
        sum += c->times ? c->times[s * c->items + i] : c->work[i];
        bytes += c->memory ? c->memory[i] : 0;
    }
    if (c->memory && bytes > c->limit[s]) return INFINITY;
    if (!c->times && c->slow) sum *= c->slow[s];
    return (double)sum + (c->cut && begin > 0 ? c->cut[begin] : 0);
}

static double slowest_time(const trm_chain *c, const int64_t *begin) {
    double t = 0;
    for (int s = 0; s < c->stages; s++) t = fmax(t, stage_time(c, s, begin[s], begin[s + 1]));
    return t;
}

/* Long sums end on one side or the other of the last bit. */
static bool same(double a, double b) { return a == b || fabs(a - b) <= 1e-15 * fabs(b); }

/* ---- every cut ---- */

static double every_cut(const trm_chain *c, int s, int64_t *begin) {
    double best = INFINITY;
    if (s == c->stages - 1) {
        begin[c->stages] = c->items;
        double got = trm_balance_chain_seconds(c, begin), want = slowest_time(c, begin);
        assert_true(same(got, want));
        return want;
    }
    for (begin[s + 1] = begin[s]; begin[s + 1] <= c->items; begin[s + 1]++)
        best = fmin(best, every_cut(c, s + 1, begin));
    return best;
}

static void no_other_cut_is_better(void **state) {
    (void)state;
    int fitting = 0;
    for (int round = 0; round < 20000; round++) {
        box b;
        int64_t begin[STAGES + 1] = {0}, way[STAGES + 1] = {0};
        double seconds = -1;
        draw(&b);
        double best = every_cut(&b.c, 0, way);
        if (isinf(best)) {
            assert_int_equal(trm_balance_chain(&b.c, begin, &seconds), TRM_JOB);
            assert_true(seconds == -1);
            continue;
        }
        assert_ok(trm_balance_chain(&b.c, begin, &seconds));
        assert_true(same(seconds, best));
        assert_true(seconds == trm_balance_chain_seconds(&b.c, begin));
        assert_true(same(seconds, slowest_time(&b.c, begin)));
        fitting++;
    }
    assert_true(fitting > 5000);
}

/* ---- one way against the other ---- */

/* Cuts that cost nothing are dynamic programming's work. */
static void both_ways_agree(void **state) {
    (void)state;
    for (int round = 0; round < 5000; round++) {
        box b;
        int64_t probe[STAGES + 1], dp[STAGES + 1];
        double fast = 0, slow = 0;
        const double free_cuts[ITEMS] = {0};
        draw(&b);
        b.c.times = b.c.cut = NULL;
        trm_status s = trm_balance_chain(&b.c, probe, &fast);
        b.c.cut = free_cuts;
        assert_int_equal(trm_balance_chain(&b.c, dp, &slow), s);
        if (s != TRM_OK) continue;
        assert_true(fast == slow);
        assert_memory_equal(probe, dp, sizeof *dp * ((size_t)b.c.stages + 1));
    }
}

/* Work as times is the same chain. */
static void times_agree_with_work(void **state) {
    (void)state;
    for (int round = 0; round < 5000; round++) {
        box b;
        int64_t work[STAGES + 1], times[STAGES + 1];
        double a = 0, t = 0;
        draw(&b);
        b.c.times = NULL;
        for (int s = 0; s < STAGES; s++)
            b.slow[s] = (double)(1 << below(4)); /* these scale without rounding */
        trm_status status = trm_balance_chain(&b.c, work, &a);
        for (int64_t i = 0; i < b.c.items * b.c.stages; i++)
            b.times[i] = b.work[i % b.c.items] * (b.c.slow ? b.slow[i / b.c.items] : 1);
        b.c.times = b.times;
        b.c.work = b.c.slow = NULL;
        assert_int_equal(trm_balance_chain(&b.c, times, &t), status);
        if (status == TRM_OK) assert_true(same(a, t));
    }
}

/* ---- cases ---- */

static void expect(const trm_chain *c, double seconds, const int64_t *want) {
    int64_t begin[64];
    double got = -1;
    assert_ok(trm_balance_chain(c, begin, &got));
    assert_true(got == seconds);
    for (int s = 0; s <= c->stages; s++) assert_int_equal(begin[s], want[s]);
    assert_ok(trm_balance_chain(c, begin, NULL));
}

static const double ONES[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static void simple_cases(void **state) {
    (void)state;
    const double mixed[] = {2, 1, 1, 4}, slow[] = {1, 3}, zeros[3] = {0};
    expect(&(trm_chain){.items = 1, .stages = 1, .work = ONES}, 1, (int64_t[]){0, 1});
    expect(&(trm_chain){.items = 10, .stages = 1, .work = ONES}, 10, (int64_t[]){0, 10});
    expect(&(trm_chain){.items = 4, .stages = 2, .work = mixed}, 4, (int64_t[]){0, 3, 4});
    expect(&(trm_chain){.items = 8, .stages = 2, .work = ONES, .slow = slow}, 6, (int64_t[]){0, 6, 8});
    expect(&(trm_chain){.items = 0, .stages = 2, .work = ONES, .may_be_empty = true}, 0,
           (int64_t[]){0, 0, 0});
    expect(&(trm_chain){.items = 0, .stages = 2, .may_be_empty = true}, 0, (int64_t[]){0, 0, 0});
    expect(&(trm_chain){.items = 3, .stages = 3, .work = zeros}, 0, (int64_t[]){0, 1, 2, 3});
}

static void equals_are_cut_evenly(void **state) {
    (void)state;
    const double head[] = {9, 1, 1, 1, 1, 1, 1};
    trm_chain c = {.items = 9, .stages = 8, .work = ONES, .may_be_empty = true};
    expect(&c, 2, (int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 9});
    c.may_be_empty = false;
    expect(&c, 2, (int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 9});
    c = (trm_chain){.items = 10, .stages = 4, .work = ONES, .may_be_empty = true};
    expect(&c, 3, (int64_t[]){0, 2, 5, 7, 10});
    c = (trm_chain){.items = 7, .stages = 4, .work = head};
    expect(&c, 9, (int64_t[]){0, 1, 3, 5, 7});
}

static void a_cut_costs_the_stage_behind(void **state) {
    (void)state;
    const double cut[] = {NAN, 5, 5, 1, 5, 5}, never[] = {0, INFINITY, INFINITY, INFINITY, 3, INFINITY};
    trm_chain c = {.items = 6, .stages = 2, .work = ONES, .cut = cut};
    expect(&c, 4, (int64_t[]){0, 3, 6});
    c.cut = never;
    expect(&c, 5, (int64_t[]){0, 4, 6});
    assert_true(trm_balance_chain_seconds(&c, (int64_t[]){0, 4, 6}) == 5);
    c.may_be_empty = true;
    assert_true(trm_balance_chain_seconds(&c, (int64_t[]){0, 0, 6}) == 6); /* nothing is in front of item 0 */
    assert_true(trm_balance_chain_seconds(&c, (int64_t[]){0, 6, 6}) == 6);
}

static void dead_stages_stay_empty(void **state) {
    (void)state;
    const double slow[] = {INFINITY, 1, INFINITY, 1}, zeros[4] = {0};
    trm_chain c = {.items = 4, .stages = 4, .work = ONES, .slow = slow, .may_be_empty = true};
    expect(&c, 2, (int64_t[]){0, 0, 2, 2, 4});
    assert_true(isinf(trm_balance_chain_seconds(&c, (int64_t[]){0, 1, 2, 2, 4})));
    c.work = zeros; /* nor do they get what costs nothing */
    int64_t begin[5];
    assert_ok(trm_balance_chain(&c, begin, NULL));
    assert_true(begin[1] == 0 && begin[2] == begin[3]);
}

static void memory_holds(void **state) {
    (void)state;
    const double memory[] = {1, 1, 1, 1, 4, 1}, limit[] = {2, 7}, exact[] = {4, 5};
    trm_chain c = {.items = 6, .stages = 2, .work = ONES, .memory = memory, .limit = limit};
    expect(&c, 4, (int64_t[]){0, 2, 6});
    c.limit = exact; /* just enough */
    expect(&c, 4, (int64_t[]){0, 4, 6});
    assert_true(isinf(trm_balance_chain_seconds(&c, (int64_t[]){0, 3, 6})));
    c.limit = NULL;
    expect(&c, 3, (int64_t[]){0, 3, 6});
}

/* A stage that each needs an item may have to take an early, light one: filling up in turn is not enough. */
static void a_small_stage_gets_its_item(void **state) {
    (void)state;
    const double memory[] = {1, 1, 9, 9, 9}, limit[] = {INFINITY, 1, INFINITY};
    trm_chain c = {.items = 5, .stages = 3, .work = ONES, .memory = memory, .limit = limit};
    expect(&c, 3, (int64_t[]){0, 1, 2, 5});
}

static void broken_cuts_take_forever(void **state) {
    (void)state;
    const trm_chain c = {.items = 4, .stages = 2, .work = ONES};
    assert_true(trm_balance_chain_seconds(&c, (int64_t[]){0, 1, 4}) == 3);
    assert_true(isinf(trm_balance_chain_seconds(&c, (int64_t[]){1, 2, 4})));
    assert_true(isinf(trm_balance_chain_seconds(&c, (int64_t[]){0, 2, 3})));
    assert_true(isinf(trm_balance_chain_seconds(&c, (int64_t[]){0, 5, 4})));
    assert_true(isinf(trm_balance_chain_seconds(&c, (int64_t[]){0, -1, 4})));
    assert_true(isinf(trm_balance_chain_seconds(&c, (int64_t[]){0, 0, 4}))); /* each stage needs an item */
}

/* ---- many items ---- */

#define MANY 1000000

/* All that fits, from the first stage on, in a time a little shorter: the items are not used up. */
static void assert_not_faster(const double *work, const double *slow, int stages, double seconds) {
    int64_t i = 0;
    for (int s = 0; s < stages; s++)
        for (long double sum = 0; i < MANY && (double)((sum + work[i]) * slow[s]) <= seconds; i++)
            sum += work[i];
    assert_true(i < MANY);
}

static void many_items(void **state) {
    (void)state;
    enum { MOST = 64 };
    double *work = trm_alloc_array(MANY, sizeof *work, "a test"), slow[MOST], seconds;
    int64_t begin[MOST + 1];
    for (int i = 0; i < MANY; i++) work[i] = i % 1000 ? uniform() : 50;
    for (int s = 0; s < MOST; s++) slow[s] = 0.5 + uniform();
    trm_chain c = {.items = MANY, .stages = MOST, .work = work, .slow = slow, .may_be_empty = true};
    assert_ok(trm_balance_chain(&c, begin, &seconds));
    assert_not_faster(work, slow, MOST, seconds * (1 - 1e-12));
    c.stages = 6;
    c.may_be_empty = false;
    slow[3] = 1e9; /* gets the lightest item that it can */
    assert_ok(trm_balance_chain(&c, begin, &seconds));
    assert_int_equal(begin[4] - begin[3], 1);
    trm_free(work);
}

/* ---- faults ---- */

static void refuse(const trm_chain *c, trm_status status, const char *text) {
    int64_t begin[STAGES + 1];
    assert_fault(trm_balance_chain(c, begin, NULL), status, text);
}

static void bad_input(void **state) {
    (void)state;
    const double bad[] = {1, -1, 1, 1}, nan_[] = {1, 1, NAN, 1}, inf[] = {1, 1, 1, INFINITY}, zero[] = {1, 0};
    const trm_chain good = {.items = 4, .stages = 2, .work = ONES};
    trm_chain c = good;
    c.stages = 0;
    refuse(&c, TRM_INTERNAL, "0 stages");
    c = good, c.items = -1;
    refuse(&c, TRM_INTERNAL, "-1 items");
    c = good, c.work = NULL;
    refuse(&c, TRM_INTERNAL, "neither work nor times");
    c.work = bad;
    refuse(&c, TRM_INTERNAL, "work -1 of item 1");
    c.work = nan_;
    refuse(&c, TRM_INTERNAL, "of item 2");
    c.work = inf;
    refuse(&c, TRM_INTERNAL, "work inf of item 3");
    c = good, c.slow = zero;
    refuse(&c, TRM_INTERNAL, "stage 1 is slow by 0");
    c.slow = nan_ + 1;
    refuse(&c, TRM_INTERNAL, "stage 1 is slow by");
    c = good, c.cut = bad;
    refuse(&c, TRM_INTERNAL, "in front of item 1 costs -1 s");
    c = good, c.memory = bad, c.limit = ONES;
    refuse(&c, TRM_INTERNAL, "-1 bytes of item 1");
    c.memory = ONES, c.limit = bad;
    refuse(&c, TRM_INTERNAL, "stage 1 has room for -1 bytes");
    const double times[] = {1, 1, 1, 1, 1, 1, -2, 1};
    c = good, c.times = times;
    refuse(&c, TRM_INTERNAL, "time -2 of item 2 on stage 1");
}

static void what_does_not_fit_is_named(void **state) {
    (void)state;
    const double memory[] = {1, 1, 5, 1}, limit[] = {4, 4}, little[] = {6, 0}, tight[] = {5, 2},
                 slow[] = {1, INFINITY};
    const double dead[] = {INFINITY, INFINITY}, times[] = {1, 1, 1, INFINITY, 1, 1, 1, INFINITY};
    const double never[] = {0, INFINITY, INFINITY, INFINITY};
    trm_chain c = {.items = 1, .stages = 2, .work = ONES};
    refuse(&c, TRM_JOB, "1 items over 2 stages: stage 1 would have none");
    c = (trm_chain){.items = 4, .stages = 2, .work = ONES, .memory = memory, .limit = limit};
    refuse(&c, TRM_JOB, "item 2 needs 5 B; the largest of the 2 stages that can do it has room for 4 B");
    c.limit = little;
    refuse(&c, TRM_JOB, "stage 1 can do none of the 4 items");
    c.limit = tight;
    c.may_be_empty = true;
    refuse(&c, TRM_JOB, "end before item 2 of 4");
    c = (trm_chain){.items = 4, .stages = 2, .work = ONES, .slow = slow};
    refuse(&c, TRM_JOB, "stage 1 can do none of the 4 items");
    c.slow = dead;
    refuse(&c, TRM_JOB, "item 0 can be done on none of the 2 stages");
    c = (trm_chain){.items = 4, .stages = 2, .times = times};
    refuse(&c, TRM_JOB, "item 3 can be done on none");
    c = (trm_chain){.items = 4, .stages = 2, .work = ONES, .cut = never};
    refuse(&c, TRM_JOB, "no cut of the 4 items");
}

static void failing_allocations(void **state) {
    (void)state;
    const trm_chain c = {.items = 4, .stages = 2, .times = ONES, .memory = ONES, .limit = (double[]){3, 3}};
    int64_t begin[3];
    uint64_t live = trm_mem_count().live_bytes;
    for (uint64_t n = 1; n <= 6; n++) {
        trm_mem_fail_after(n);
        assert_int_equal(trm_balance_chain(&c, begin, NULL), TRM_MEMORY);
        assert_true(trm_mem_count().live_bytes == live);
    }
    assert_ok(trm_balance_chain(&c, begin, NULL));
    assert_true(trm_mem_count().live_bytes == live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_cut_is_better),
        cmocka_unit_test(both_ways_agree),
        cmocka_unit_test(times_agree_with_work),
        cmocka_unit_test(simple_cases),
        cmocka_unit_test(equals_are_cut_evenly),
        cmocka_unit_test(a_cut_costs_the_stage_behind),
        cmocka_unit_test(dead_stages_stay_empty),
        cmocka_unit_test(memory_holds),
        cmocka_unit_test(a_small_stage_gets_its_item),
        cmocka_unit_test(broken_cuts_take_forever),
        cmocka_unit_test(many_items),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
