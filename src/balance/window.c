/* window: what was measured between two decisions, robustly. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <trireme/balance.h>

enum { COMPUTE, FIXED, CPU, DELAY, WANTED, PARTS };

/* Fewer say nothing of the spread. */
#define BLOCKS_TO_DECIDE 5

struct trm_window_block {
    int64_t updates;
    double seconds;
};

trm_status trm_window_open(int ranks, trm_window *w) {
    size_t each = (size_t)ranks * PARTS;
    *w = (trm_window){.ranks = ranks};
    w->block = trm_alloc_array(TRM_WINDOW_BLOCKS, sizeof *w->block, "a window of times");
    w->open = trm_alloc_array(each, sizeof *w->open, "a window of times");
    w->sum = trm_alloc_array(TRM_WINDOW_BLOCKS * each, sizeof *w->sum, "a window of times");
    if (w->block && w->open && w->sum) {
        trm_window_reset(w, 0);
        return TRM_OK;
    }
    trm_window_free(w);
    return TRM_MEMORY;
}

void trm_window_free(trm_window *w) {
    trm_free(w->block);
    trm_free(w->open);
    trm_free(w->sum);
    *w = (trm_window){0};
}

static void open_block(trm_window *w) {
    w->open_s = 0;
    w->open_updates = 0;
    memset(w->open, 0, (size_t)w->ranks * PARTS * sizeof *w->open);
}

void trm_window_reset(trm_window *w, int64_t skip) {
    w->updates = 0;
    w->skip = skip;
    w->seconds = 0;
    w->blocks = 0;
    w->block_s = TRM_WINDOW_BLOCK;
    open_block(w);
}

/* Two neighbours become one: a long window keeps its length in few blocks. */
static void merge_blocks(trm_window *w) {
    int each = w->ranks * PARTS;
    for (int b = 0; b < w->blocks / 2; b++) {
        double *to = w->sum + (size_t)b * (size_t)each, *from = w->sum + 2 * (size_t)b * (size_t)each;
        w->block[b].updates = w->block[2 * b].updates + w->block[2 * b + 1].updates;
        w->block[b].seconds = w->block[2 * b].seconds + w->block[2 * b + 1].seconds;
        for (int i = 0; i < each; i++) to[i] = from[i] + from[each + i];
    }
    w->blocks /= 2;
    w->block_s *= 2;
}

static void close_block(trm_window *w) {
    size_t each = (size_t)w->ranks * PARTS;
    if (w->blocks == TRM_WINDOW_BLOCKS) merge_blocks(w);
    w->block[w->blocks].updates = w->open_updates;
    w->block[w->blocks].seconds = w->open_s;
    memcpy(w->sum + (size_t)w->blocks * each, w->open, each * sizeof *w->open);
    w->blocks++;
    open_block(w);
}

void trm_window_add(trm_window *w, double seconds, const trm_measure *rank) {
    if (w->skip > 0) {
        w->skip--;
        return;
    }
    w->updates++;
    w->seconds += seconds;
    w->open_s += seconds;
    w->open_updates++;
    for (int r = 0; r < w->ranks; r++) {
        double *p = &w->open[r * PARTS];
        p[COMPUTE] += rank[r].compute;
        p[FIXED] += rank[r].fixed;
        p[CPU] += rank[r].cpu;
        p[DELAY] += rank[r].delay;
        p[WANTED] += fmin(rank[r].cpu, rank[r].compute) + rank[r].delay;
    }
    if (w->open_s >= w->block_s) close_block(w);
}

bool trm_window_is_full(const trm_window *w) { return w->blocks >= BLOCKS_TO_DECIDE; }

/* ---- medians --------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of sorted values, between neighbours in proportion. */
static double quantile(const double *v, int n, double q) {
    if (n == 0) return 0;
    double at = q * (n - 1);
    int i = (int)at;
    return i + 1 < n ? v[i] + (at - i) * (v[i + 1] - v[i]) : v[i];
}

/* Sorts. */
static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, compare);
    return quantile(v, n, 0.5);
}

/* Means of the blocks of one measure. */
static int means(const trm_window *w, int rank, int part, double *v) {
    size_t each = (size_t)w->ranks * PARTS;
    for (int b = 0; b < w->blocks; b++)
        v[b] = w->sum[(size_t)b * each + (size_t)(rank * PARTS + part)] / (double)w->block[b].updates;
    return w->blocks;
}

/* Of a median of n values: 1.253 standard errors of the mean; the spread from the median distance, which an
 * outlier does not move. */
static double standard_error(double *v, int n, double middle) {
    if (n < 2 || middle <= 0) return 0;
    for (int i = 0; i < n; i++) v[i] = fabs(v[i] - middle);
    return 1.253 * 1.4826 * median(v, n) / sqrt(n) / middle;
}

/* All wait for a rank's slow updates and none gains by its fast ones: half way from the median to the upper quartile
 * foretells better than the median. */
static double pessimist(const trm_window *w, int rank, int part, double *noise) {
    double v[TRM_WINDOW_BLOCKS] = {0};
    int n = means(w, rank, part, v);
    double middle = median(v, n), result = (middle + quantile(v, n, 0.75)) / 2;
    if (noise) *noise = standard_error(v, n, middle);
    return result;
}

static double plain(const trm_window *w, int rank, int part) {
    double v[TRM_WINDOW_BLOCKS] = {0};
    return median(v, means(w, rank, part, v));
}

trm_measure trm_window_rank(const trm_window *w, int rank, double *noise) {
    /* A rank that shares its core sleeps while it waits for others and is then let run for a while without its rival:
     * the wall time of its work looks short.  What it may have in the long run shows in how long it was ready. */
    double compute = pessimist(w, rank, COMPUTE, noise), wanted = pessimist(w, rank, WANTED, NULL);
    return (trm_measure){.compute = fmax(compute, wanted),
                         .fixed = plain(w, rank, FIXED),
                         .cpu = plain(w, rank, CPU),
                         .delay = plain(w, rank, DELAY)};
}

double trm_window_step(const trm_window *w) {
    double v[TRM_WINDOW_BLOCKS] = {0};
    for (int b = 0; b < w->blocks; b++) v[b] = w->block[b].seconds / (double)w->block[b].updates;
    return median(v, w->blocks);
}
