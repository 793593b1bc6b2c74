/* The feed: every sample once an epoch whatever the cuts, seeking, faults, closing. */
#include "data_support.h"
#include <dirent.h>

#define N 103
#define MOST_RANKS 3

/* Uneven shares that change from update to update. */
typedef struct share {
    int ranks, rank;
} share;

static void cut(void *ctx, int64_t update, int64_t m, int64_t *begin, int64_t *count) {
    const share *s = ctx;
    int64_t weight[MOST_RANKS] = {1 + update % 3, s->ranks > 1 ? 2 : 0, s->ranks > 2 ? update % 2 : 0};
    int64_t sum = weight[0] + weight[1] + weight[2], before = 0;
    for (int r = 0; r < s->rank; r++) before += weight[r];
    *begin = m * before / sum;
    *count = m * (before + weight[s->rank]) / sum - *begin;
}

static void check_values(const trm_slot *slot, int64_t width) {
    const int32_t *x = slot->x_raw;
    const int64_t *y = slot->y_raw;
    for (int64_t i = 0; i < slot->n; i++) {
        assert_int_equal(y[i], slot->sample[i] % 10);
        for (int64_t j = 0; j < width; j += 1 + j / 6)
            assert_int_equal(x[width * i + j], support_value(slot->sample[i], j));
    }
}

/* What the feeds of run_epoch have in common. */
static trm_feed_spec way = {.shuffle = TRM_SHUFFLE_EXACT, .seed = 9};

/* One epoch of all ranks together, each with a data set of its own as in a run: `order` gets the samples of each update, micro-batch by micro-batch. */
static void run_epoch(trm_dataset *d, int ranks, int micro, int64_t batch, int64_t epoch, int64_t *order) {
    trm_feed *feed[MOST_RANKS];
    trm_dataset *own[MOST_RANKS];
    share who[MOST_RANKS];
    int64_t updates = 0, at = 0;
    for (int r = 0; r < ranks; r++) {
        who[r] = (share){ranks, r};
        own[r] = support_twin(d);
        trm_feed_spec spec = way;
        spec.batch = batch;
        spec.micro_batches = micro;
        spec.cut = cut;
        spec.cut_ctx = &who[r];
        assert_ok(trm_feed_open(own[r], &spec, &feed[r]));
        updates = trm_feed_updates_per_epoch(feed[r]);
        assert_ok(trm_feed_seek(feed[r], epoch, 0, epoch * updates));
    }
    for (int64_t u = 0; u < updates; u++) {
        int64_t taken[MOST_RANKS] = {0};
        trm_slot slot[MOST_RANKS];
        for (int r = 0; r < ranks; r++) {
            assert_ok(trm_feed_next(feed[r], &slot[r], NULL));
            assert_int_equal(slot[r].epoch, epoch);
            assert_int_equal(slot[r].update, u);
            assert_int_equal(slot[r].batch, trm_min64(batch, N - u * batch));
            check_values(&slot[r], trm_dataset_info(d)->x.dim[0]);
        }
        for (int k = 0; k < micro; k++) {
            int64_t m = trm_cut(slot[0].batch, micro, k + 1) - trm_cut(slot[0].batch, micro, k);
            for (int r = 0; r < ranks; r++) {
                int64_t begin, count = 0;
                if (m > 0) cut(&who[r], epoch * updates + u, m, &begin, &count);
                for (int64_t i = 0; i < count; i++) order[at++] = slot[r].sample[taken[r]++];
            }
        }
        for (int r = 0; r < ranks; r++) {
            assert_int_equal(taken[r], slot[r].n);
            trm_feed_release(feed[r], &slot[r]);
        }
    }
    assert_int_equal(at, N);
    for (int r = 0; r < ranks; r++) {
        trm_feed_close(feed[r]);
        trm_dataset_close(own[r]);
    }
}

/* Ranks, cuts and micro-batches never change which samples an update takes, nor their order. */
static void every_sample_once_on_any_ranks(void **state) {
    (void)state;
    int64_t want[N], got[N];
    static const int micro[] = {1, 2, 4};
    trm_dataset *d = support_open(support_set("feed.h5", N, 0), TRM_CACHE_ON);
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        trm_order_fill(TRM_SHUFFLE_EXACT, 9, epoch, N, want);
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
            for (size_t k = 0; k < SUPPORT_COUNT(micro); k++) {
                run_epoch(d, ranks, micro[k], 16, epoch, got);
                assert_memory_equal(got, want, sizeof want);
            }
    }
    /* A batch larger than the data, and one smaller than the micro-batches. */
    run_epoch(d, 3, 2, 1000, 1, got);
    assert_memory_equal(got, want, sizeof want);
    run_epoch(d, 2, 4, 3, 1, got);
    assert_memory_equal(got, want, sizeof want);
    trm_dataset_close(d);
}

/* The same from a file in chunks that is not kept in memory. */
static void chunks_give_the_same(void **state) {
    (void)state;
    int64_t want[N], got[N];
    trm_dataset *d = support_open(support_set("feed_chunks.h5", N, 16), TRM_CACHE_OFF);
    trm_order_fill(TRM_SHUFFLE_EXACT, 9, 1, N, want);
    run_epoch(d, 2, 2, 16, 1, got);
    assert_memory_equal(got, want, sizeof want);
    trm_dataset_close(d);
}

/* ---- window order ---- */

#define WIDE 8192 /* a row of 32 KiB: blocks of 8 and more */

/* On any ranks, with any threads, kept in memory or not, in chunks or not, the feeds give the order that is told. */
static void windows_on_any_ranks(void **state) {
    (void)state;
    int64_t want[N], got[N];
    static const struct {
        int64_t chunk, memory;
        trm_data_cache cache;
        int threads;
    } c[] = {{8, 1 << 20, TRM_CACHE_OFF, 1}, {8, 1 << 20, TRM_CACHE_OFF, 3},  {8, 0, TRM_CACHE_OFF, 2},
             {8, 1 << 20, TRM_CACHE_ON, 1},  {20, 2 << 20, TRM_CACHE_OFF, 2}, {0, 2 << 20, TRM_CACHE_OFF, 1},
             {3, 3 << 20, TRM_CACHE_OFF, 2}};
    for (size_t k = 0; k < SUPPORT_COUNT(c); k++) {
        trm_dataset *d = support_open(support_wide("windows.h5", N, WIDE, c[k].chunk), c[k].cache);
        way.shuffle = TRM_SHUFFLE_WINDOW;
        way.memory = c[k].memory;
        way.threads = c[k].threads;
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
            for (int64_t epoch = 0; epoch < 2; epoch++) {
                assert_ok(trm_dataset_order(d, TRM_SHUFFLE_WINDOW, 9, epoch, 16, way.memory, want));
                run_epoch(d, ranks, 1 + ranks % 2, 16, epoch, got);
                assert_memory_equal(got, want, sizeof want);
            }
        trm_dataset_close(d);
    }
    way = (trm_feed_spec){.shuffle = TRM_SHUFFLE_EXACT, .seed = 9};
}

/* Targets that are not kept, and rows that the library reads, come in blocks too. */
static void windows_of_tokens(void **state) {
    (void)state;
    enum { T = 4096, TOKENS = 64 * T + 7 };
    const char *path = support_path("windows_tokens.h5");
    trm_h5_file *f = NULL;
    trm_shape shape = trm_shape_of(1, TOKENS);
    int32_t *token = malloc(TOKENS * sizeof *token);
    trm_slot s;
    for (int64_t i = 0; i < TOKENS; i++) token[i] = (int32_t)(i % 1000);
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write_chunked(f, "tokens", TRM_I32, &shape, token, 50000, 1));
    assert_ok(trm_h5_close(f));
    free(token);
    trm_data_spec spec = {.files = &path, .n_files = 1, .window = T, .cache = TRM_CACHE_OFF};
    trm_dataset *d = NULL;
    trm_feed *feed = NULL;
    assert_ok(trm_dataset_open(&spec, &d));
    trm_feed_spec how = {.shuffle = TRM_SHUFFLE_WINDOW, .batch = 3, .micro_batches = 1, .memory = 2 << 20};
    assert_ok(trm_feed_open(d, &how, &feed));
    int seen[64] = {0};
    for (int64_t u = 0; u < 44; u++) {
        assert_ok(trm_feed_next(feed, &s, NULL));
        for (int64_t i = 0; i < s.n; i++) {
            const int32_t *x = (const int32_t *)s.x_raw + i * (T + 1);
            seen[s.sample[i]]++;
            for (int64_t j = 0; j <= T; j += 64) assert_int_equal(x[j], (s.sample[i] * T + j) % 1000);
        }
        trm_feed_release(feed, &s);
    }
    for (int i = 0; i < 64; i++) assert_int_equal(seen[i], 2);
    trm_feed_close(feed);
    trm_dataset_close(d);
}

/* Of samples that are left out the blocks have places, and nothing else. */
static void windows_with_gaps(void **state) {
    (void)state;
    static const struct {
        int64_t chunk;
        trm_data_cache cache;
    } kind[] = {{8, TRM_CACHE_OFF}, {8, TRM_CACHE_ON}, {0, TRM_CACHE_OFF}};
    for (size_t k = 0; k < SUPPORT_COUNT(kind); k++) {
        const char *path = support_wide("gaps.h5", N, WIDE, kind[k].chunk);
        /* Every tenth label is a 9. */
        trm_data_spec spec = {
            .files = &path, .n_files = 1, .cache = kind[k].cache, .classes = 9, .on_bad = TRM_BAD_SKIP};
        trm_feed_spec how = {
            .shuffle = TRM_SHUFFLE_WINDOW, .batch = 7, .micro_batches = 1, .memory = 1 << 20, .threads = 2};
        trm_dataset *d = NULL;
        trm_feed *f = NULL;
        trm_slot s;
        int seen[N] = {0};
        assert_ok(trm_dataset_open(&spec, &d));
        assert_int_equal(trm_dataset_info(d)->samples, 93);
        assert_ok(trm_feed_open(d, &how, &f));
        for (int64_t u = 0; u < 28; u++) {
            assert_ok(trm_feed_next(f, &s, NULL));
            for (int64_t i = 0; i < s.n; i++) {
                int64_t at = s.sample[i], place = at + at / 9;
                seen[at]++;
                assert_int_equal(((const int64_t *)s.y_raw)[i], at % 9);
                for (int64_t j = 0; j < WIDE; j += 100)
                    assert_int_equal(((const int32_t *)s.x_raw)[i * WIDE + j], support_value(place, j));
            }
            trm_feed_release(f, &s);
        }
        for (int i = 0; i < 93; i++) assert_int_equal(seen[i], 2);
        trm_feed_close(f);
        trm_dataset_close(d);
    }
}

static trm_feed *open_feed(trm_dataset *d, trm_shuffle shuffle, int64_t batch, bool drop_last, int depth) {
    trm_feed *f = NULL;
    trm_feed_spec spec = {.shuffle = shuffle,
                          .seed = 3,
                          .batch = batch,
                          .micro_batches = 1,
                          .drop_last = drop_last,
                          .depth = depth,
                          .memory = 1 << 20,
                          .threads = 2};
    assert_ok(trm_feed_open(d, &spec, &f));
    return f;
}

static void take(trm_feed *f, int64_t epoch, int64_t update, int64_t *samples) {
    trm_slot s;
    assert_ok(trm_feed_next(f, &s, NULL));
    assert_int_equal(s.epoch, epoch);
    assert_int_equal(s.update, update);
    if (samples) memcpy(samples, s.sample, (size_t)s.n * sizeof *samples);
    trm_feed_release(f, &s);
}

static void seek(trm_shuffle shuffle, int64_t chunk, trm_data_cache cache) {
    trm_dataset *d = support_open(support_wide("seek.h5", N, WIDE, chunk), cache);
    trm_feed *a = open_feed(d, shuffle, 10, false, 3), *b;
    int64_t x[30][10], y[10], at = 0;
    for (int64_t e = 0; e < 2; e++)
        for (int64_t u = 0; u < 11; u++) take(a, e, u, x[at++]);
    trm_dataset *twin = support_twin(d);
    b = open_feed(twin, shuffle, 10, false, 2);
    assert_ok(trm_feed_seek(b, 1, 4, 15));
    for (int64_t u = 4; u < 10; u++) {
        take(b, 1, u, y);
        assert_memory_equal(y, x[11 + u], sizeof y);
    }
    /* Back again, while the ring is full of others. */
    assert_ok(trm_feed_seek(b, 0, 2, 2));
    take(b, 0, 2, y);
    assert_memory_equal(y, x[2], sizeof y);
    /* And while a slot is held. */
    trm_slot held;
    assert_ok(trm_feed_next(b, &held, NULL));
    assert_ok(trm_feed_seek(b, 1, 9, 20));
    take(b, 1, 9, y);
    assert_memory_equal(y, x[20], sizeof y);
    trm_feed_release(b, &held);
    take(b, 1, 10, NULL);
    take(b, 2, 0, NULL);
    assert_fault(trm_feed_seek(b, 0, 11, 11), TRM_INTERNAL, "was sent to update 11");
    trm_feed_close(b);
    trm_feed_close(a);
    trm_dataset_close(twin);
    trm_dataset_close(d);
}

static void seeking_equals_going_on(void **state) {
    (void)state;
    seek(TRM_SHUFFLE_EXACT, 0, TRM_CACHE_AUTO);
    seek(TRM_SHUFFLE_WINDOW, 8, TRM_CACHE_OFF);
    seek(TRM_SHUFFLE_WINDOW, 8, TRM_CACHE_ON);
}

static void the_last_batch(void **state) {
    (void)state;
    trm_dataset *d = support_open(support_set("last.h5", N, 0), TRM_CACHE_AUTO);
    trm_feed *f = open_feed(d, TRM_SHUFFLE_NONE, 50, false, 2);
    trm_slot s;
    assert_int_equal(trm_feed_updates_per_epoch(f), 3);
    take(f, 0, 0, NULL);
    take(f, 0, 1, NULL);
    assert_ok(trm_feed_next(f, &s, NULL));
    assert_int_equal(s.batch, 3);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.sample[0], 100);
    assert_int_equal((uintptr_t)s.x_raw % 64, 0);
    trm_feed_release(f, &s);
    take(f, 1, 0, NULL);
    trm_feed_close(f);
    f = open_feed(d, TRM_SHUFFLE_NONE, 50, true, 2);
    assert_int_equal(trm_feed_updates_per_epoch(f), 2);
    take(f, 0, 0, NULL);
    take(f, 0, 1, NULL);
    take(f, 1, 0, NULL);
    trm_feed_close(f);
    trm_feed_spec spec = {.batch = 200, .micro_batches = 1, .drop_last = true};
    assert_fault(trm_feed_open(d, &spec, &f), TRM_DATA, "103 samples make no batch of 200");
    trm_dataset_close(d);
}

/* The reader is never more than the ring ahead. */
static void the_horizon(void **state) {
    (void)state;
    trm_dataset *d = support_open(support_set("horizon.h5", N, 0), TRM_CACHE_AUTO);
    trm_feed *f = open_feed(d, TRM_SHUFFLE_EXACT, 10, false, 4);
    assert_ok(trm_feed_seek(f, 0, 3, 103));
    for (int64_t i = 0; i < 40; i++) {
        trm_slot s;
        assert_ok(trm_feed_next(f, &s, NULL));
        int64_t h = trm_feed_horizon(f);
        assert_in_range(h, 103 + i + 1, 103 + i + 4);
        trm_feed_release(f, &s);
    }
    trm_feed_close(f);
    trm_dataset_close(d);
}

static void no_work_for_a_rank(void *ctx, int64_t update, int64_t m, int64_t *begin, int64_t *count) {
    (void)ctx, (void)update;
    *begin = m;
    *count = 0;
}

static void all_of_it_twice(void *ctx, int64_t update, int64_t m, int64_t *begin, int64_t *count) {
    (void)ctx;
    *begin = update >= 5 ? 1 : 0;
    *count = m;
}

static void odd_shares(void **state) {
    (void)state;
    trm_dataset *d = support_open(support_set("shares.h5", N, 0), TRM_CACHE_AUTO);
    trm_feed *f = NULL;
    trm_slot s;
    trm_feed_spec spec = {.batch = 10, .micro_batches = 2, .cut = no_work_for_a_rank};
    assert_ok(trm_feed_open(d, &spec, &f));
    for (int i = 0; i < 30; i++) {
        assert_ok(trm_feed_next(f, &s, NULL));
        assert_int_equal(s.n, 0);
        assert_int_equal(s.batch, s.update == 10 ? 3 : 10);
        trm_feed_release(f, &s);
    }
    trm_feed_close(f);
    spec.cut = NULL;
    spec.max_samples = 7;
    assert_ok(trm_feed_open(d, &spec, &f));
    assert_fault(trm_feed_next(f, &s, NULL), TRM_INTERNAL, "a share of 10 samples, the slots hold 7");
    trm_feed_close(f);
    spec.max_samples = 0;
    spec.cut = all_of_it_twice;
    assert_ok(trm_feed_open(d, &spec, &f));
    /* The slots before the fault come out first, and the fault stays. */
    for (int64_t u = 0; u < 5; u++) take(f, 0, u, NULL);
    assert_fault(trm_feed_next(f, &s, NULL), TRM_INTERNAL, "a share of samples 1 to 5 of a micro-batch of 5");
    assert_fault(trm_feed_next(f, &s, NULL), TRM_INTERNAL, "a share of samples 1 to 5 of a micro-batch of 5");
    assert_ok(trm_feed_seek(f, 0, 1, 1));
    take(f, 0, 1, NULL);
    trm_feed_close(f);
    trm_dataset_close(d);
}

/* A fault of the reader comes out on the user's thread with its sentence. */
static void a_changed_file(void **state) {
    (void)state;
    const char *path = support_set("cut.h5", N, 0);
    trm_dataset *d = support_open(path, TRM_CACHE_OFF), *twin = support_twin(d);
    FILE *f = fopen(path, "ab");
    fputs("more", f);
    fclose(f);
    trm_feed *feed = open_feed(twin, TRM_SHUFFLE_EXACT, 10, false, 3);
    trm_slot s;
    assert_fault(trm_feed_next(feed, &s, NULL), TRM_DATA, "it was changed meanwhile");
    trm_feed_close(feed);
    trm_dataset_close(twin);
    trm_dataset_close(d);
}

/* ---- over many epochs ---- */

/* Pages of this process in memory, and its open files. */
static long resident(void) {
    long all = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &all, &pages), 2);
    fclose(f);
    return pages;
}

static int open_files(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

/* From the second epoch to the 30th nothing grows: neither memory, ours or the library's, nor open files. */
static void epochs_leave_nothing(void **state) {
    (void)state;
    static const struct {
        trm_shuffle shuffle;
        int64_t chunk;
        trm_data_cache cache;
    } kind[] = {{TRM_SHUFFLE_EXACT, 0, TRM_CACHE_ON},   {TRM_SHUFFLE_EXACT, 0, TRM_CACHE_OFF},
                {TRM_SHUFFLE_EXACT, 8, TRM_CACHE_OFF},  {TRM_SHUFFLE_WINDOW, 8, TRM_CACHE_OFF},
                {TRM_SHUFFLE_WINDOW, 0, TRM_CACHE_OFF}, {TRM_SHUFFLE_NONE, 8, TRM_CACHE_OFF}};
    for (size_t k = 0; k < SUPPORT_COUNT(kind); k++) {
        trm_dataset *d = support_open(support_wide("epochs.h5", N, WIDE, kind[k].chunk), kind[k].cache);
        trm_feed *f = open_feed(d, kind[k].shuffle, 10, false, 3);
        long pages = 0;
        int files = 0;
        for (int64_t e = 0; e < 30; e++) {
            for (int64_t u = 0; u < 11; u++) take(f, e, u, NULL);
            if (e == 1) pages = resident(), files = open_files();
        }
        /* The helper may have had nothing to read until then. */
        assert_true(open_files() <= files + 1);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
        /* A block that was read ahead more or less. */
        assert_true(resident() <= pages + 512);
#endif
        trm_feed_close(f);
        trm_dataset_close(d);
    }
}

/* In steady state nothing is allocated, and closing gives everything back. */
static void memory_stays(void **state) {
    (void)state;
    static const struct {
        int64_t chunk;
        trm_data_cache cache;
    } kind[] = {{0, TRM_CACHE_ON}, {0, TRM_CACHE_OFF}, {16, TRM_CACHE_ON}, {16, TRM_CACHE_OFF}};
    uint64_t live = trm_mem_count().live_bytes;
    for (size_t k = 0; k < SUPPORT_COUNT(kind); k++) {
        trm_dataset *d = support_open(support_set("memory.h5", N, kind[k].chunk), kind[k].cache);
        trm_feed *f = open_feed(d, TRM_SHUFFLE_EXACT, 10, false, 3);
        uint64_t before = 0;
        for (int64_t u = 0; u < 55; u++) {
            /* Two epochs to warm up. */
            if (u == 25) before = trm_mem_count().allocations;
            take(f, u / 11, u % 11, NULL);
        }
        assert_int_equal(trm_mem_count().allocations, before);
        trm_feed_close(f);
        trm_dataset_close(d);
        assert_int_equal(trm_mem_count().live_bytes, live);
    }
}

static void opening_and_closing(void **state) {
    (void)state;
    trm_dataset *d = support_open(support_set("open.h5", N, 0), TRM_CACHE_AUTO);
    trm_feed *first = open_feed(d, TRM_SHUFFLE_EXACT, 7, false, 2);
    /* The data set keeps what reading takes. */
    take(first, 0, 0, NULL);
    trm_feed_close(first);
    uint64_t live = trm_mem_count().live_bytes;
    for (int i = 0; i < 50; i++) {
        trm_feed *f = open_feed(d, TRM_SHUFFLE_EXACT, 7, false, 2 + i % 4);
        for (int u = 0; u < i % 5; u++) take(f, 0, u, NULL);
        trm_feed_close(f);
    }
    trm_feed_close(NULL);
    for (uint64_t n = 1; n < 20; n++) {
        trm_feed *f = NULL;
        trm_feed_spec spec = {.shuffle = TRM_SHUFFLE_EXACT, .batch = 7, .micro_batches = 1};
        trm_mem_fail_after(n);
        trm_status s = trm_feed_open(d, &spec, &f);
        trm_mem_fail_after(0);
        if (s == TRM_OK) trm_feed_close(f);
        assert_true(s == TRM_OK || s == TRM_MEMORY);
        assert_int_equal(trm_mem_count().live_bytes, live);
    }
    trm_dataset_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_once_on_any_ranks),
        cmocka_unit_test(chunks_give_the_same),
        cmocka_unit_test(windows_on_any_ranks),
        cmocka_unit_test(windows_of_tokens),
        cmocka_unit_test(windows_with_gaps),
        cmocka_unit_test(seeking_equals_going_on),
        cmocka_unit_test(the_last_batch),
        cmocka_unit_test(the_horizon),
        cmocka_unit_test(odd_shares),
        cmocka_unit_test(a_changed_file),
        cmocka_unit_test(epochs_leave_nothing),
        cmocka_unit_test(memory_stays),
        cmocka_unit_test(opening_and_closing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
