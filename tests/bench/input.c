/* input: samples per second of the feed beside a plain gather by memcpy.
 *
 *   build/bench/input              50,000 made images of 3 x 32 x 32 bytes, stored in four ways
 *   build/bench/input FILE...      files of such images (`data` uint8 (N,3,32,32), `label`)
 *
 * Batches of 64.  The gather, one thread over as many samples in random order, is timed right before each run: on a busy
 * machine the ratio says more than the speed, and that of the processor time of all threads (cpu) more than that of the
 * clock; all are medians of the rounds.  `cold`: the pages of the file are dropped
 * before each round, and the ratio is to reading the file past the page cache (O_DIRECT, 1 MiB at a time). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <trireme/data.h>
#include <unistd.h>

#define SAMPLES 50000
#define BATCH 64
#define BYTES (3 * 32 * 32)
#define ROUNDS 5

static void must(trm_status s) {
    if (s == TRM_OK) return;
    fprintf(stderr, "input: %s\n", trm_error_text());
    exit(1);
}

/* Samples per second of the clock, and of processor time. */
typedef struct speed {
    double clock, cpu;
} speed;

static double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static speed speed_since(double n, double clock, double cpu) {
    return (speed){n / (trm_now() - clock), n / (cpu_now() - cpu)};
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

/* ---- what it is held against ---- */

static char *all, batch[BATCH * BYTES];
static int64_t *order, samples;

static void begin_gather(int64_t n) {
    if (n == samples) return;
    samples = n;
    all = realloc(all, (size_t)n * BYTES);
    order = realloc(order, (size_t)n * sizeof *order);
    memset(all, 1, (size_t)n * BYTES);
}

/* Copying samples from memory in the order of an epoch. */
static speed gather(int64_t epoch) {
    trm_order_fill(TRM_SHUFFLE_EXACT, 1, epoch, samples, order);
    double start = trm_now(), cpu = cpu_now();
    for (int64_t i = 0; i < samples; i++) memcpy(batch + i % BATCH * BYTES, all + order[i] * BYTES, BYTES);
    return speed_since((double)samples, start, cpu);
}

/* If the file were all that is to be read. */
static speed direct(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECT);
    void *buf = aligned_alloc(4096, 1 << 20);
    double start = trm_now(), cpu = cpu_now();
    ssize_t n;
    if (fd < 0 || !buf) return (speed){0, 0};
    while ((n = read(fd, buf, 1 << 20)) > 0) {}
    speed s = speed_since((double)samples, start, cpu);
    free(buf);
    close(fd);
    return s;
}

static void drop_pages(const char *path) {
    int fd = open(path, O_RDONLY);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* As CIFAR is trained on. */
static void augment(trm_dataset *d) {
    static const trm_transform list[] = {{.kind = TRM_PAD, .size = {4, 4}},
                                         {.kind = TRM_CROP, .size = {32, 32}},
                                         {.kind = TRM_FLIP, .p = 0.5}};
    must(trm_dataset_transform(d, NULL, 0, list, 3));
}

/* ---- the feed ---- */

typedef struct how {
    const char *what;
    trm_data_cache cache;
    trm_shuffle shuffle;
    int threads;
    int64_t updates; /* 0: an epoch */
    bool cold, augments;
} how;

/* Warm: without the first epoch, in which the pages and the memory are made. */
static speed feed(trm_dataset *d, const how *h) {
    trm_feed *f = NULL;
    trm_slot s;
    trm_feed_spec spec = {
        .shuffle = h->shuffle, .seed = 1, .batch = BATCH, .micro_batches = 1, .threads = h->threads};
    int64_t n = 0, epoch = (samples + BATCH - 1) / BATCH, updates = h->updates ? h->updates : epoch;
    int64_t skip = h->cold ? 0 : h->updates ? 4 : epoch;
    must(trm_feed_open(d, &spec, &f));
    double start = trm_now(), cpu = cpu_now();
    for (int64_t u = 0; u < skip + updates; u++) {
        if (u == skip) start = trm_now(), cpu = cpu_now();
        must(trm_feed_next(f, &s, NULL));
        if (u >= skip) n += s.n;
        trm_feed_release(f, &s);
    }
    speed fed = speed_since((double)n, start, cpu);
    trm_feed_close(f);
    return fed;
}

static void row(const char *path, const how *h) {
    trm_data_spec spec = {
        .files = &path, .n_files = 1, .cache = h->cache, .cache_limit = 4 << 20, .by_blocks = true};
    trm_dataset *d = NULL;
    double clock[ROUNDS], ratio[ROUNDS], cpu[ROUNDS], start = trm_now();
    must(trm_dataset_open(&spec, &d));
    if (h->augments) augment(d);
    double open_s = trm_now() - start;
    begin_gather(trm_dataset_info(d)->samples);
    int rounds = h->cold ? 3 : ROUNDS;
    for (int k = 0; k < rounds; k++) {
        if (h->cold) drop_pages(path);
        speed against = h->cold ? direct(path) : gather(k);
        if (h->cold) drop_pages(path);
        speed fed = feed(d, h);
        clock[k] = fed.clock;
        ratio[k] = fed.clock / against.clock;
        cpu[k] = fed.cpu / against.cpu;
    }
    printf("  %-28s open %5.2f s  %9.0f samples/s  %6.3f of %s", h->what, open_s, median(clock, rounds),
           median(ratio, rounds), h->cold ? "direct reading" : "memcpy");
    if (!h->cold) printf(" (cpu %.3f)", median(cpu, rounds));
    printf("\n");
    fflush(stdout);
    trm_dataset_close(d);
}

static void file(const char *path, bool compressed) {
    const how rows[] = {
        {"exact, kept in memory", TRM_CACHE_ON, TRM_SHUFFLE_EXACT, 1, 0, false, false},
        {"the same, pad, crop and flip", TRM_CACHE_ON, TRM_SHUFFLE_EXACT, 1, 0, false, true},
        {"exact, from the file", TRM_CACHE_OFF, TRM_SHUFFLE_EXACT, 1, compressed ? 16 : 0, false, false},
        {"window", TRM_CACHE_OFF, TRM_SHUFFLE_WINDOW, 1, 0, false, false},
        {"window, 2 threads", TRM_CACHE_OFF, TRM_SHUFFLE_WINDOW, 2, 0, false, false},
        {"window, cold", TRM_CACHE_OFF, TRM_SHUFFLE_WINDOW, 1, 0, true, false},
        {"window, 2 threads, cold", TRM_CACHE_OFF, TRM_SHUFFLE_WINDOW, 2, 0, true, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) row(path, &rows[i]);
}

int main(int argc, char **argv) {
    static const struct {
        const char *what;
        int64_t chunk;
        int deflate;
    } kind[] = {{"contiguous", 0, 0},
                {"chunks of 256", 256, 0},
                {"gzip chunks of 256", 256, 1},
                {"gzip chunks of 1", 1, 1}};
    for (int i = 1; i < argc; i++) {
        printf("%s\n", argv[i]);
        file(argv[i], strstr(argv[i], "gzip") || strstr(argv[i], "lzf"));
    }
    for (size_t k = 0; argc == 1 && k < sizeof kind / sizeof *kind; k++) {
        char path[64];
        trm_synth_spec synth = {TRM_SYNTH_IMAGES, SAMPLES, 1, kind[k].chunk, kind[k].deflate};
        snprintf(path, sizeof path, "/tmp/trireme-input-%ld.h5", (long)getpid());
        must(trm_synth(&synth, path));
        printf("%s\n", kind[k].what);
        file(path, kind[k].deflate > 0 && kind[k].chunk > 1);
        unlink(path);
    }
    free(all);
    free(order);
    return 0;
}
