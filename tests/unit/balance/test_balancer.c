/* The balancer on ranks that are threads here, each with a clock of its own: their speeds are what a test says. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include <trireme/balance.h>
#include "support.h"

#define RANKS 3
#define TOLD 40

typedef struct world {
    /* what a test says */
    int64_t items[RANKS], iterations;
    double each[RANKS], then[RANKS]; /* seconds for a unit of weight; from iteration `at` on */
    int64_t at;
    const double *weights;
    int64_t every;
    bool off, dry_run, no_move;
    double move_s;             /* seconds that a move takes */
    int fails, forgets, twice; /* ranks that fail to move, never begin, begin twice; -1: none */
    bool all_zero;             /* every rank says that it is rank 0 */
    bool moves_apart;          /* the last rank has no `move` */
    int64_t other_every;       /* of the last rank, where not 0; the ranks then meet only to gather */
    bool misreads;             /* the last rank takes rank 0's times for rank 1's, and the other way round */
    int gather_fails_at;       /* gather that fails on all; 0: none */
    /* what came out */
    trm_status status[RANKS];
    char text[RANKS][512];
    int64_t moves[RANKS], calls[RANKS], part[RANKS][RANKS + 1], first[RANKS + 1];
    int gathers;
    char told[TOLD][256];
    int lines;
    double seconds;
    /* how the ranks talk */
    pthread_barrier_t barrier;
    char slots[RANKS][4096];
    bool uneven; /* from and to of a move differed between ranks */
} world;

typedef struct one_rank {
    world *w;
    int rank;
} one_rank;

/* ---- clock, gather, move ---- */

static _Thread_local double now;
static double read_now(void) { return now; }

static void talk(world *w, int rank, const void *mine, size_t bytes, void *all) {
    memcpy(w->slots[rank], mine, bytes);
    pthread_barrier_wait(&w->barrier);
    for (int r = 0; r < RANKS; r++) memcpy((char *)all + (size_t)r * bytes, w->slots[r], bytes);
    pthread_barrier_wait(&w->barrier);
}

/* All ranks wait for the last one. */
static void meet(world *w, int rank) {
    double all[RANKS];
    talk(w, rank, &now, sizeof now, all);
    for (int r = 0; r < RANKS; r++) now = fmax(now, all[r]);
}

static trm_status gather(void *ctx, const void *mine, size_t bytes, void *all) {
    one_rank *o = ctx;
    if (bytes > sizeof o->w->slots[0]) return trm_fail(TRM_INTERNAL, "a record of %zu bytes", bytes);
    talk(o->w, o->rank, mine, bytes, all);
    if (o->w->misreads && o->rank == RANKS - 1 && bytes > 100) {
        memcpy(all, o->w->slots[1], bytes);
        memcpy((char *)all + bytes, o->w->slots[0], bytes);
        /* Their times alone: a record begins with its rank. */
        memcpy(all, o->w->slots[0], sizeof(int64_t));
        memcpy((char *)all + bytes, o->w->slots[1], sizeof(int64_t));
    }
    if (o->rank == 0) o->w->gathers++;
    pthread_barrier_wait(&o->w->barrier);
    return o->w->gather_fails_at == o->w->gathers ? TRM_COMM : TRM_OK;
}

static trm_status move(void *ctx, int ranks, const int64_t *from, const int64_t *to) {
    one_rank *o = ctx;
    world *w = o->w;
    int64_t mine[2][RANKS + 1], all[RANKS][2][RANKS + 1];
    memcpy(mine[0], from, sizeof mine[0]);
    memcpy(mine[1], to, sizeof mine[1]);
    talk(w, o->rank, mine, sizeof mine, all);
    for (int r = 0; r < ranks; r++)
        if (o->rank == 0 && memcmp(all[r], mine, sizeof mine) != 0) w->uneven = true;
    w->calls[o->rank]++;
    now += w->move_s;
    return w->fails == o->rank ? trm_fail(TRM_IO, "the disk is full") : TRM_OK;
}

static void tell(void *ctx, const char *line) {
    world *w = ((one_rank *)ctx)->w;
    if (w->lines < TOLD) snprintf(w->told[w->lines], sizeof w->told[0], "%s", line);
    w->lines++;
}

/* ---- a program on ranks ---- */

static double weight_of(const world *w, int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t i = begin; i < end; i++) sum += w->weights ? w->weights[i] : 1;
    return sum;
}

static trm_status iterate(world *w, int rank, trm_balancer *b, int64_t i) {
    int64_t begin, count;
    trm_balancer_part(b, &begin, &count);
    if (rank != w->forgets) trm_balancer_begin(b);
    if (rank == w->twice) trm_balancer_begin(b);
    now += weight_of(w, begin, begin + count) * (i < w->at ? w->each[rank] : w->then[rank]);
    trm_balancer_end(b);
    if (!w->other_every) meet(w, rank);
    return trm_balancer_step(b);
}

static trm_status live(one_rank *o) {
    world *w = o->w;
    trm_balancer *b = NULL;
    trm_status s = TRM_OK;
    trm_balancer_spec spec = {.ranks = RANKS,
                              .rank = o->rank,
                              .gather = gather,
                              .items = w->items[o->rank],
                              .weights = w->weights,
                              .every = w->every,
                              .off = w->off,
                              .dry_run = w->dry_run,
                              .move = w->no_move ? NULL : move,
                              .tell = tell,
                              .ctx = o};
    if (w->other_every && o->rank == RANKS - 1) spec.every = w->other_every;
    if (w->all_zero) spec.rank = 0;
    if (w->moves_apart && o->rank == RANKS - 1) spec.move = NULL;
    TRM_TRY(trm_balancer_open(&spec, &b));
    if (o->rank == 0) memcpy(w->first, trm_balancer_offsets(b), sizeof w->first);
    for (int64_t i = 0; s == TRM_OK && i < w->iterations; i++) s = iterate(w, o->rank, b, i);
    if (s != TRM_OK) {
        char text[512];
        snprintf(text, sizeof text, "%s", trm_error_text());
        trm_balancer_begin(b);
        trm_balancer_end(b);
        if (trm_balancer_step(b) != s || !strstr(trm_error_text(), text))
            s = TRM_INTERNAL; /* it has to stay so */
    }
    memcpy(w->part[o->rank], trm_balancer_offsets(b), sizeof w->part[0]);
    w->moves[o->rank] = trm_balancer_moves(b);
    trm_balancer_free(b);
    return s;
}

static void *thread_main(void *arg) {
    one_rank *o = arg;
    now = 100 * o->rank; /* clocks of machines differ */
    meet(o->w, o->rank);
    double from = now;
    o->w->status[o->rank] = live(o);
    if (o->rank == 0) o->w->seconds = now - from;
    snprintf(o->w->text[o->rank], sizeof o->w->text[0], "%s", trm_error_text());
    return NULL;
}

static world new_world(int64_t items, int64_t iterations, double a, double b, double c) {
    world w = {.iterations = iterations,
               .each = {a, b, c},
               .then = {a, b, c},
               .at = iterations,
               .fails = -1,
               .forgets = -1,
               .twice = -1};
    for (int r = 0; r < RANKS; r++) w.items[r] = items;
    return w;
}

static void run(world *w) {
    one_rank o[RANKS];
    pthread_t thread[RANKS];
    pthread_barrier_init(&w->barrier, NULL, RANKS);
    trm_clock_replace(read_now);
    for (int r = 0; r < RANKS; r++) {
        o[r] = (one_rank){w, r};
        assert_int_equal(pthread_create(&thread[r], NULL, thread_main, &o[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) pthread_join(thread[r], NULL);
    trm_clock_replace(NULL);
    pthread_barrier_destroy(&w->barrier);
}

/* All ranks say the same, and every item has one owner. */
static void run_well(world *w) {
    run(w);
    for (int r = 0; r < RANKS; r++) {
        if (w->status[r] != TRM_OK) print_message("# rank %d: %s\n", r, w->text[r]);
        assert_int_equal(w->status[r], TRM_OK);
        assert_memory_equal(w->part[r], w->part[0], sizeof w->part[0]);
        assert_int_equal(w->moves[r], w->moves[0]);
        assert_int_equal(w->calls[r], w->calls[0]);
        assert_true(w->part[0][r] <= w->part[0][r + 1]);
    }
    assert_int_equal(w->part[0][0], 0);
    assert_int_equal(w->part[0][RANKS], w->items[0]);
    assert_false(w->uneven);
}

static void run_badly(world *w, trm_status want, const char *text) {
    run(w);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(w->status[r], want);
        if (!strstr(w->text[r], text)) print_message("# rank %d: '%s', not '%s'\n", r, w->text[r], text);
        assert_non_null(strstr(w->text[r], text));
    }
}

static int64_t share(const world *w, int r) { return w->part[0][r + 1] - w->part[0][r]; }

/* ---- decisions ---- */

static void equal_ranks_stay(void **state) {
    (void)state;
    world w = new_world(300, 400, 1e-4, 1e-4, 1e-4);
    run_well(&w);
    assert_int_equal(w.moves[0], 0);
    assert_int_equal(w.lines, 0);
    for (int r = 0; r < RANKS; r++) assert_int_equal(share(&w, r), 100);
}

static void a_slow_rank_gives_items_away(void **state) {
    (void)state;
    world w = new_world(300, 400, 1e-4, 2e-4, 1e-4);
    run_well(&w);
    assert_int_equal(w.moves[0], 1);
    assert_int_equal(w.calls[0], 1);
    assert_int_equal(share(&w, 0), 120);
    assert_int_equal(share(&w, 1), 60);
    assert_int_equal(w.lines, 1);
    assert_non_null(strstr(w.told[0], "rank 1 is 2.00"));
    assert_non_null(strstr(w.told[0], "40 items moved"));
}

/* 40 items go to rank 1, and 20 of rank 1 to rank 2. */
static void items_that_are_passed_on_count(void **state) {
    (void)state;
    world w = new_world(300, 400, 2e-4, 1e-4, 1e-4);
    run_well(&w);
    assert_int_equal(share(&w, 0), 60);
    assert_non_null(strstr(w.told[0], "60 items moved"));
}

/* A rank that is 1.12 times slower: 7 % to be gained; 1.05 times: 3 %. */
static void small_gains_are_left(void **state) {
    (void)state;
    for (int small = 0; small < 2; small++) {
        world w = new_world(300, 400, 1e-4, small ? 1.05e-4 : 1.12e-4, 1e-4);
        run_well(&w);
        assert_int_equal(w.moves[0], small ? 0 : 1);
    }
}

static void nothing_to_move_is_fine(void **state) {
    (void)state;
    world w = new_world(300, 400, 1e-4, 2e-4, 1e-4);
    w.no_move = true;
    run_well(&w);
    assert_int_equal(w.moves[0], 1);
    assert_int_equal(share(&w, 1), 60);
}

static void a_rank_that_recovers_gets_items_back(void **state) {
    (void)state;
    world w = new_world(300, 1500, 1e-4, 3e-4, 1e-4);
    w.at = 600;
    w.then[1] = 1e-4;
    run_well(&w);
    assert_true(w.moves[0] >= 2);
    for (int r = 0; r < RANKS; r++) assert_in_range(share(&w, r), 98, 102);
}

static void off_never_talks(void **state) {
    (void)state;
    world w = new_world(301, 400, 1e-4, 5e-4, 1e-4);
    w.off = true;
    run_well(&w);
    assert_int_equal(w.gathers, 0);
    assert_int_equal(w.moves[0], 0);
    assert_memory_equal(w.part[0], w.first, sizeof w.first);
    assert_int_equal(share(&w, 0), 101);
}

static void a_dry_run_tells_and_moves_nothing(void **state) {
    (void)state;
    world w = new_world(300, 400, 1e-4, 2e-4, 1e-4);
    w.dry_run = true;
    run_well(&w);
    assert_int_equal(w.moves[0], 0);
    assert_int_equal(w.calls[0], 0);
    assert_memory_equal(w.part[0], w.first, sizeof w.first);
    assert_in_range(w.lines, 2, TOLD);
    for (int i = 0; i < w.lines; i++) assert_non_null(strstr(w.told[i], "dry run: rank 1 is 2.00"));
}

/* A second move would gain, but not so much as the first one is known to have cost. */
static void a_move_that_costs_too_much_is_not_made(void **state) {
    (void)state;
    for (int dear = 0; dear < 2; dear++) {
        world w = new_world(300, 1200, 1e-4, 2e-4, 1e-4);
        w.at = 300;
        w.then[2] = 1.4e-4;
        w.move_s = dear ? 50 : 1e-3;
        run_well(&w);
        assert_int_equal(w.moves[0], dear ? 1 : 2);
    }
}

static void more_ranks_than_items(void **state) {
    (void)state;
    world w = new_world(2, 400, 1e-2, 1e-2, 1e-2);
    run_well(&w);
    assert_int_equal(w.moves[0], 0);
    assert_int_equal(share(&w, 0) + share(&w, 1), 2);
}

/* A gather costs what a thousand of these iterations do. */
static void short_iterations_are_seldom_interrupted(void **state) {
    (void)state;
    world w = new_world(30, 20000, 1e-6, 3e-6, 1e-6);
    w.every = 1;
    run_well(&w);
    assert_true(w.seconds < 0.6);
    assert_true(w.moves[0] >= 1);
    assert_true(w.gathers <= 24);
}

static void long_iterations_are_enough(void **state) {
    (void)state;
    world w = new_world(30, 8, 1, 3, 1);
    w.every = 1;
    run_well(&w);
    assert_int_equal(w.moves[0], 1);
}

/* ---- weights ---- */

static void parts_have_equal_weight(void **state) {
    (void)state;
    double weights[120];
    for (int i = 0; i < 120; i++) weights[i] = 1 + i;
    world w = new_world(120, 300, 1e-5, 1e-5, 1e-5);
    w.weights = weights;
    run_well(&w);
    assert_int_equal(w.moves[0], 0);
    for (int r = 0; r < RANKS; r++)
        assert_bound(fabs(weight_of(&w, w.part[0][r], w.part[0][r + 1]) / (120 * 121 / 2.0) - 1.0 / 3), 0.02);
}

static void a_slow_rank_gives_weight_away(void **state) {
    (void)state;
    double weights[120];
    for (int i = 0; i < 120; i++) weights[i] = 120 - i;
    world w = new_world(120, 400, 1e-5, 1e-5, 2e-5);
    w.weights = weights;
    run_well(&w);
    assert_true(w.moves[0] >= 1);
    for (int r = 0; r < RANKS; r++)
        assert_bound(
            fabs(weight_of(&w, w.part[0][r], w.part[0][r + 1]) / (120 * 121 / 2.0) - (r == 2 ? 0.2 : 0.4)),
            0.03);
}

/* The ranks are equal; their parts cannot be. */
static void uneven_parts_are_no_slow_rank(void **state) {
    (void)state;
    const double weights[] = {10, 2, 10, 10}, heavy[] = {100, 1, 1};
    world w = new_world(4, 600, 1e-3, 1e-3, 1e-3);
    w.weights = weights;
    run_well(&w);
    assert_int_equal(w.moves[0], 0);
    assert_int_equal(share(&w, 0) + share(&w, 1), 3); /* the light item lies with one of its neighbours */
    w = new_world(3, 100, 1e-4, 1e-4, 1e-4);
    w.weights = heavy;
    run_well(&w);
    assert_int_equal(w.moves[0], 0);
    for (int r = 0; r < RANKS; r++) assert_int_equal(share(&w, r), 1);
}

/* Rank 1 begins with the light item, too. To rank 0 with it: in weight there are 12 % to gain, in items only 4 %; where
 * rank 1 is slower still, enough. */
static void what_items_allow_is_what_counts(void **state) {
    (void)state;
    const double weights[] = {10, 1, 10, 10};
    for (int slow = 0; slow < 2; slow++) {
        world w = new_world(4, 600, 1.06e-3, slow ? 1.3e-3 : 1.1e-3, 0.8e-3);
        w.weights = weights;
        run_well(&w);
        assert_int_equal(w.first[1], 1);
        assert_int_equal(w.moves[0], slow);
        assert_int_equal(share(&w, 0), 1 + slow);
    }
}

/* ---- faults ---- */

static void misuse_is_told_on_all_ranks(void **state) {
    (void)state;
    world w = new_world(30, 100, 1e-3, 1e-3, 1e-3);
    w.forgets = 1;
    run_badly(&w, TRM_USAGE, "rank 1 called trm_balancer_end without trm_balancer_begin");
    w = new_world(30, 100, 1e-3, 1e-3, 1e-3);
    w.twice = 2;
    run_badly(&w, TRM_USAGE, "rank 2 called trm_balancer_begin twice");
    w = new_world(30, 100, 1e-3, 1e-3, 1e-3);
    w.items[1] = 31;
    run_badly(&w, TRM_USAGE, "rank 1 balances 31 items, rank 0 30");
    w = new_world(30, 100, 1e-3, 1e-3, 1e-3);
    w.all_zero = true;
    run_badly(&w, TRM_USAGE, "what rank 1 gathered comes from a balancer opened for rank 0");
    w = new_world(30, 100, 1e-3, 1e-3, 1e-3);
    w.moves_apart = true;
    run_badly(&w, TRM_USAGE, "rank 2 has other settings than rank 0");
    w = new_world(30, 100, 1e-3, 1e-3, 1e-3);
    w.other_every = 40;
    run_badly(&w, TRM_USAGE, "rank 2 compares times in iteration 40, rank 0 in 20");
}

static void a_failing_gather_is_passed_up(void **state) {
    (void)state;
    for (int at = 1; at <= 2; at++) {
        world w = new_world(30, 100, 1e-3, 1e-3, 1e-3);
        w.gather_fails_at = at;
        run_badly(&w, TRM_COMM, "the ranks could not gather their times");
    }
}

static void a_move_that_fails_on_one_rank_fails_on_all(void **state) {
    (void)state;
    world w = new_world(300, 400, 1e-4, 2e-4, 1e-4);
    w.fails = 2;
    run_badly(&w, TRM_IO, "rank 2 could not move its items: ");
    assert_non_null(strstr(w.text[2], "the disk is full"));
    assert_int_equal(w.moves[0], 0);
}

static void ranks_that_disagree_move_nothing(void **state) {
    (void)state;
    world w = new_world(300, 400, 1e-4, 2e-4, 1e-4);
    w.misreads = true;
    run_badly(&w, TRM_RUN, "ranks 0 and 2 decided differently");
    assert_int_equal(w.calls[0], 0);
}

static void wrong_settings_are_refused(void **state) {
    (void)state;
    const double bad[] = {1, 0, 1};
    trm_balancer *b = NULL;
    trm_balancer_spec good = {.ranks = 2, .gather = gather, .items = 3}, s = good;
    s.rank = 2;
    assert_fault(trm_balancer_open(&s, &b), TRM_USAGE, "rank 2 of 2");
    s = good, s.items = 0;
    assert_fault(trm_balancer_open(&s, &b), TRM_USAGE, "0 items");
    s = good, s.gather = NULL;
    assert_fault(trm_balancer_open(&s, &b), TRM_USAGE, "no way to gather");
    s = good, s.every = -1;
    assert_fault(trm_balancer_open(&s, &b), TRM_USAGE, "every -1");
    s = good, s.threshold = NAN;
    assert_fault(trm_balancer_open(&s, &b), TRM_USAGE, "threshold");
    s = good, s.weights = bad;
    assert_fault(trm_balancer_open(&s, &b), TRM_USAGE, "the weight of item 1 is 0");
    s = good, s.predictor = (trm_predictor)9;
    assert_fault(trm_balancer_open(&s, &b), TRM_USAGE, "predictor 9");
    assert_fault(trm_balancer_open(NULL, &b), TRM_USAGE, "needs a spec");
    assert_fault(trm_balancer_open(&good, NULL), TRM_USAGE, "needs a spec");
    assert_null(b);
    trm_balancer_free(NULL);
}

static void one_rank_needs_nothing(void **state) {
    (void)state;
    trm_balancer *b;
    int64_t begin, count;
    assert_ok(trm_balancer_open(&(trm_balancer_spec){.ranks = 1, .items = 7, .every = 1}, &b));
    trm_balancer_part(b, &begin, &count);
    assert_int_equal(begin, 0);
    assert_int_equal(count, 7);
    for (int i = 0; i < 50; i++) {
        trm_balancer_begin(b);
        trm_balancer_end(b);
        assert_ok(trm_balancer_step(b));
    }
    trm_balancer_end(b);
    assert_fault(trm_balancer_step(b), TRM_USAGE, "without trm_balancer_begin");
    trm_balancer_free(b);
}

static void open_without_memory(void **state) {
    (void)state;
    const double weights[] = {1, 2, 3, 4};
    trm_balancer_spec spec = {.ranks = 2, .gather = gather, .items = 4, .weights = weights};
    uint64_t before = trm_mem_count().live_bytes;
    trm_status s = TRM_MEMORY;
    for (uint64_t n = 1; s != TRM_OK && n < 100; n++) {
        trm_balancer *b = NULL;
        trm_mem_fail_after(n);
        s = trm_balancer_open(&spec, &b);
        trm_mem_fail_after(0);
        assert_true(s == TRM_OK || s == TRM_MEMORY);
        trm_balancer_free(b);
        assert_int_equal(trm_mem_count().live_bytes, before);
    }
    assert_int_equal(s, TRM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_ranks_stay),
        cmocka_unit_test(a_slow_rank_gives_items_away),
        cmocka_unit_test(items_that_are_passed_on_count),
        cmocka_unit_test(small_gains_are_left),
        cmocka_unit_test(nothing_to_move_is_fine),
        cmocka_unit_test(a_rank_that_recovers_gets_items_back),
        cmocka_unit_test(off_never_talks),
        cmocka_unit_test(a_dry_run_tells_and_moves_nothing),
        cmocka_unit_test(a_move_that_costs_too_much_is_not_made),
        cmocka_unit_test(more_ranks_than_items),
        cmocka_unit_test(short_iterations_are_seldom_interrupted),
        cmocka_unit_test(long_iterations_are_enough),
        cmocka_unit_test(parts_have_equal_weight),
        cmocka_unit_test(a_slow_rank_gives_weight_away),
        cmocka_unit_test(uneven_parts_are_no_slow_rank),
        cmocka_unit_test(what_items_allow_is_what_counts),
        cmocka_unit_test(misuse_is_told_on_all_ranks),
        cmocka_unit_test(a_failing_gather_is_passed_up),
        cmocka_unit_test(a_move_that_fails_on_one_rank_fails_on_all),
        cmocka_unit_test(ranks_that_disagree_move_nothing),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(one_rank_needs_nothing),
        cmocka_unit_test(open_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
