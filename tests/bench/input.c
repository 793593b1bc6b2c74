/* input: samples per second of the feed beside a plain gather by memcpy, one thread each.
 *
 * 10,000 made images of 3 x 32 x 32 bytes in random order, batches of 64.  The gather is timed right before each
 * run: on a busy machine the ratio says more than the speed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trireme/data.h>
#include <unistd.h>

#define SAMPLES 10000
#define BATCH 64
#define BYTES (3 * 32 * 32)

static void must(trm_status s) {
    if (s == TRM_OK) return;
    fprintf(stderr, "input: %s\n", trm_error_text());
    exit(1);
}

/* Samples per second of copying them from memory in the order of an epoch. */
static double gather(const char *all, char *batch, int64_t *order, int64_t epoch) {
    trm_order_fill(TRM_SHUFFLE_EXACT, 1, epoch, SAMPLES, order);
    double start = trm_now();
    for (int64_t i = 0; i < SAMPLES; i++) memcpy(batch + i % BATCH * BYTES, all + order[i] * BYTES, BYTES);
    return SAMPLES / (trm_now() - start);
}

/* As CIFAR is trained on. */
static void augment(trm_dataset *d) {
    static const trm_transform list[] = {{.kind = TRM_PAD, .size = {4, 4}},
                                         {.kind = TRM_CROP, .size = {32, 32}},
                                         {.kind = TRM_FLIP, .p = 0.5}};
    must(trm_dataset_transform(d, NULL, 0, list, 3));
}

/* The same through the feed, without its start. */
static double feed(trm_dataset *d, int64_t updates) {
    trm_feed *f = NULL;
    trm_slot s;
    trm_feed_spec spec = {.shuffle = TRM_SHUFFLE_EXACT, .seed = 1, .batch = BATCH, .micro_batches = 1};
    int64_t n = 0;
    double start = 0;
    must(trm_feed_open(d, &spec, &f));
    for (int64_t u = 0; u < updates; u++) {
        if (u == 4) start = trm_now();
        must(trm_feed_next(f, &s, NULL));
        if (u >= 4) n += s.n;
        trm_feed_release(f, &s);
    }
    double speed = (double)n / (trm_now() - start);
    trm_feed_close(f);
    return speed;
}

static void row(const char *path, const char *what, trm_data_cache cache, int64_t updates, bool augments) {
    static int64_t order[SAMPLES];
    trm_data_spec spec = {.files = &path, .n_files = 1, .cache = cache, .cache_limit = 4 << 20};
    trm_dataset *d = NULL;
    char *all = malloc((size_t)SAMPLES * BYTES), *batch = malloc(BATCH * BYTES);
    memset(all, 1, (size_t)SAMPLES * BYTES);
    double start = trm_now();
    must(trm_dataset_open(&spec, &d));
    if (augments) augment(d);
    double open_s = trm_now() - start, best = 0, ratio = 0;
    for (int k = 0; k < 3; k++) {
        double plain = gather(all, batch, order, k), fed = feed(d, updates);
        if (fed / plain > ratio) ratio = fed / plain;
        if (fed > best) best = fed;
    }
    printf("%-32s open %5.2f s   %9.0f samples/s   %5.2f of memcpy\n", what, open_s, best, ratio);
    trm_dataset_close(d);
    free(all);
    free(batch);
}

int main(void) {
    char path[64];
    static const struct {
        int64_t chunk;
        int deflate;
        const char *kept, *read;
    } kind[] = {
        {0, 0, "contiguous, kept in memory", "contiguous, pread per sample"},
        {256, 0, "chunks of 256, kept", "chunks of 256, pread per sample"},
        {256, 1, "gzip chunks of 256, kept", "gzip chunks of 256, not kept"},
        {1, 1, "gzip chunks of 1, kept", "gzip chunks of 1, not kept"},
    };
    for (size_t k = 0; k < sizeof kind / sizeof *kind; k++) {
        trm_synth_spec synth = {TRM_SYNTH_IMAGES, SAMPLES, 1, kind[k].chunk, kind[k].deflate};
        snprintf(path, sizeof path, "/tmp/trireme-input-%ld.h5", (long)getpid());
        must(trm_synth(&synth, path));
        row(path, kind[k].kept, TRM_CACHE_ON, SAMPLES / BATCH, false);
        if (k == 0) row(path, "the same, pad, crop and flip", TRM_CACHE_ON, SAMPLES / BATCH, true);
        row(path, kind[k].read, TRM_CACHE_OFF, kind[k].deflate && kind[k].chunk == 256 ? 16 : SAMPLES / BATCH,
            false);
        unlink(path);
    }
    return 0;
}
