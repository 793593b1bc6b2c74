/* The order of `shuffle: window`: every sample once, the same from anywhere, lanes that end together, and how well it mixes. */
#include "data_support.h"
#include "lanes.h"
#include <math.h>

/* ---- whole epochs ---- */

static void every_sample_once(void **state) {
    (void)state;
    static const struct {
        int64_t n, block, window, batch;
    } c[] = {{1, 1, 1, 1},          {1, 10, 3, 64},     {1000, 16, 2, 64},  {1000, 16, 2, 7},
             {1003, 10, 1, 100},    {999, 999, 4, 64},  {640, 100, 5, 64},  {130, 1, 1, 64},
             {130, 1, 2, 65},       {5000, 3, 16, 63},  {777, 10, 1000, 3}, {12, 5, 2, 1000},
             {100000, 256, 2, 128}, {4097, 64, 4, 4096}};
    for (size_t k = 0; k < SUPPORT_COUNT(c); k++)
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            int64_t n = c[k].n, *order = malloc((size_t)n * sizeof *order);
            unsigned char *seen = calloc((size_t)n, 1);
            assert_ok(trm_order_window(n, c[k].block, c[k].window, 5, epoch, c[k].batch, order));
            for (int64_t i = 0; i < n; i++) {
                assert_in_range(order[i], 0, n - 1);
                assert_int_equal(seen[order[i]]++, 0);
            }
            free(order);
            free(seen);
        }
}

static int64_t equal_places(int64_t window, uint64_t seed, int64_t epoch, int64_t batch) {
    int64_t a[2000], b[2000], n = 0;
    assert_ok(trm_order_window(2000, 16, 4, 1, 0, 32, a));
    assert_ok(trm_order_window(2000, 16, window, seed, epoch, batch, b));
    for (int i = 0; i < 2000; i++) n += a[i] == b[i];
    return n;
}

static void what_it_depends_on(void **state) {
    (void)state;
    assert_int_equal(equal_places(4, 1, 0, 32), 2000);
    assert_true(equal_places(4, 2, 0, 32) < 20);
    assert_true(equal_places(4, 1, 1, 32) < 20);
    assert_true(equal_places(2, 1, 0, 32) < 1200);
    assert_true(equal_places(4, 1, 0, 16) < 200);
}

/* A later program must give the same order, or count up TRM_ORDER_VERSION. */
static void known_answer(void **state) {
    (void)state;
    int64_t got[14];
    static const int64_t fixed[14] = {0, 5, 6, 1, 9, 7, 2, 8, 10, 3, 12, 4, 13, 11};
    assert_ok(trm_order_window(14, 2, 2, 42, 3, 3, got));
    for (int i = 0; i < 14; i++) assert_int_equal(got[i], fixed[i]);
}

/* ---- from anywhere, in any slices ---- */

typedef struct set {
    trm_blocks blocks;
    trm_lanes *x;
} set;

static void open_set(set *s, int64_t n, int64_t block, int64_t batch, int lanes, int64_t window) {
    trm_lanes_spec spec = {.seed = 11, .batch = batch, .lanes = lanes, .window = window};
    assert_ok(trm_blocks_even(n, block, &s->blocks));
    if (spec.lanes > s->blocks.n) spec.lanes = (int)s->blocks.n;
    assert_ok(trm_lanes_new(&s->blocks, &spec, &s->x));
}

static void close_set(set *s) {
    trm_lanes_free(s->x);
    trm_blocks_free(&s->blocks);
}

/* Ranks with shares that change from update to update, each with lanes of its own that see only their slices. */
static void slices_of_ranks(void **state) {
    (void)state;
    enum { N = 3001, BATCH = 100, MOST = 4 };
    static int64_t want[N];
    int64_t got[BATCH];
    for (int ranks = 1; ranks <= MOST; ranks++) {
        set own[MOST];
        for (int r = 0; r < ranks; r++) open_set(&own[r], N, 16, BATCH, 64, 3);
        for (int64_t epoch = 0; epoch < 2; epoch++) {
            assert_ok(trm_order_window(N, 16, 3, 11, epoch, BATCH, want));
            for (int64_t u = 0; u * BATCH < N; u++) {
                int64_t b = trm_min64(BATCH, N - u * BATCH), at = 0;
                for (int r = 0; r < ranks; r++) {
                    int64_t end = r == ranks - 1 ? b : b * (r + 1 + (u + r) % 3) / (ranks + 3);
                    if (end < at) end = at;
                    trm_lanes_go(own[r].x, epoch, u);
                    assert_int_equal(trm_lanes_batch(own[r].x), b);
                    assert_ok(trm_lanes_list(own[r].x, at, end - at, got + at));
                    at = end;
                }
                assert_memory_equal(got, want + u * BATCH, (size_t)b * sizeof *got);
            }
        }
        for (int r = 0; r < ranks; r++) close_set(&own[r]);
    }
}

/* An update is found without those before it, forwards and backwards; within it, any part. */
static void any_update(void **state) {
    (void)state;
    enum { N = 2500, BATCH = 48 };
    static int64_t want[N];
    int64_t got[BATCH];
    set s;
    open_set(&s, N, 20, BATCH, 48, 2);
    for (int64_t k = 0; k < 200; k++) {
        int64_t epoch = k * 7 % 3, u = k * 31 % 53, b = trm_min64(BATCH, N - u * BATCH);
        int64_t from = k % b, n = 1 + k * 13 % (b - from);
        assert_ok(trm_order_window(N, 20, 2, 11, epoch, BATCH, want));
        trm_lanes_go(s.x, epoch, u);
        assert_ok(trm_lanes_list(s.x, from, n, got));
        assert_memory_equal(got, want + u * BATCH + from, (size_t)n * sizeof *got);
    }
    assert_fault(trm_lanes_list(s.x, 40, 9, got), TRM_INTERNAL, "samples 40 to 48 of an update");
    close_set(&s);
}

/* At each update each lane has given its part of what all have given, to a few samples. */
static void lanes_end_together(void **state) {
    (void)state;
    static const struct {
        int64_t n, block, batch;
    } c[] = {{100003, 256, 64}, {20000, 16, 100}, {20011, 300, 63}, {5000, 70, 7}};
    for (size_t k = 0; k < SUPPORT_COUNT(c); k++) {
        set s;
        double worst = 0;
        open_set(&s, c[k].n, c[k].block, c[k].batch, (int)trm_min64(64, c[k].batch), 2);
        for (int64_t u = 0; u * c[k].batch < c[k].n; u++) {
            trm_lanes_go(s.x, 0, u);
            for (int l = 0; l < s.x->is.lanes; l++) {
                const trm_lane *lane = &s.x->lane[l];
                double all = (double)(lane->given + lane->left);
                double due = all * (double)(c[k].n - s.x->left) / (double)c[k].n;
                if (fabs(due - (double)lane->given) > worst) worst = fabs(due - (double)lane->given);
            }
        }
        assert_true(worst < 8);
        close_set(&s);
    }
}

/* ---- blocks ---- */

static void blocks_of_files(void **state) {
    (void)state;
    /* 1000 rows of 24 + 8 bytes: chunks of 16 are small, a quarter of a MiB is all of it. */
    trm_dataset *d = support_open(support_set("blocks.h5", 1000, 16), TRM_CACHE_OFF);
    trm_blocks b;
    trm_data_window w;
    int64_t first, count;
    assert_ok(trm_blocks_of(d, &b));
    assert_int_equal(b.n, 1);
    assert_int_equal(b.samples, 1000);
    trm_blocks_free(&b);
    assert_ok(trm_data_window_of(d, 64, 0, &w));
    assert_int_equal(w.lanes, 1);
    assert_int_equal(w.window, 1);
    trm_dataset_close(d);
    /* Chunks that are large enough, of which not all rows are used. */
    const char *path = support_set("blocks_large.h5", 50000, 10000);
    trm_data_spec spec = {
        .files = &path, .n_files = 1, .cache = TRM_CACHE_OFF, .first = 9000, .count = 35000};
    assert_ok(trm_dataset_open(&spec, &d));
    assert_ok(trm_blocks_of(d, &b));
    assert_int_equal(b.n, 5);
    static const int64_t want[5][2] = {
        {0, 1000}, {1000, 10000}, {11000, 10000}, {21000, 10000}, {31000, 4000}};
    for (int i = 0; i < 5; i++) {
        trm_block_range(&b, i, &first, &count);
        assert_int_equal(first, want[i][0]);
        assert_int_equal(count, want[i][1]);
        assert_int_equal(trm_block_with(&b, first), i);
        assert_int_equal(trm_block_with(&b, first + count - 1), i);
    }
    trm_blocks_free(&b);
    trm_data_window wide, small;
    assert_ok(trm_data_window_of(d, 4, (int64_t)1 << 30, &wide));
    assert_int_equal(wide.lanes, 4);
    assert_int_equal(wide.window, 2);
    assert_ok(trm_data_window_of(d, 4, 1 << 20, &small));
    assert_int_equal(small.lanes, 2);
    assert_int_equal(small.window, 1);
    assert_true(wide.print != small.print);
    trm_dataset_close(d);
}

/* ---- how well it mixes ---- */

/* Variance of the class counts of batches against that of an exact shuffle, of a file that is sorted by class. */
static double mixing(int lanes, int64_t window) {
    enum { N = 64000, BLOCK = 100, BATCH = 64, CLASSES = 10, EPOCHS = 10 };
    int64_t sample[BATCH];
    double chi = 0, want = (double)BATCH / CLASSES, batches = 0;
    set s;
    open_set(&s, N, BLOCK, BATCH, lanes, window);
    for (int64_t e = 0; e < EPOCHS; e++)
        for (int64_t u = 0; u < N / BATCH; u++, batches++) {
            int count[CLASSES] = {0};
            trm_lanes_go(s.x, e, u);
            assert_ok(trm_lanes_list(s.x, 0, BATCH, sample));
            for (int i = 0; i < BATCH; i++) count[sample[i] * CLASSES / N]++;
            for (int c = 0; c < CLASSES; c++) chi += (count[c] - want) * (count[c] - want) / want;
        }
    close_set(&s);
    return chi / (batches * (CLASSES - 1));
}

static void variance_of_classes(void **state) {
    (void)state;
    static const struct {
        int lanes;
        int64_t window;
    } c[] = {{1, 1}, {1, 4}, {1, 16}, {4, 1}, {4, 4}, {16, 1}, {16, 4}, {64, 1}, {64, 4}};
    for (size_t k = 0; k < SUPPORT_COUNT(c); k++) {
        /* With L lanes of W blocks: 1 + (B - L) / (L W), below the plain 1 + (B - 1) / (L W); the first windows of an
         * epoch are shorter. */
        double lw = (double)c[k].lanes * (double)c[k].window, got = mixing(c[k].lanes, c[k].window);
        assert_true(got < 1.1 * (1 + 63 / lw));
        assert_true(got > 0.7 * (1 + (64 - c[k].lanes) / lw));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_once), cmocka_unit_test(what_it_depends_on),
        cmocka_unit_test(known_answer),      cmocka_unit_test(slices_of_ranks),
        cmocka_unit_test(any_update),        cmocka_unit_test(lanes_end_together),
        cmocka_unit_test(blocks_of_files),   cmocka_unit_test(variance_of_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
