/* history_run: how fast the ranks of a run were, from its records. */
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <trireme/wire.h>

#include "report_impl.h"

#define LEAST_S 1e-12 /* no unit takes less */

typedef struct reader {
    const char *path;
    int64_t line, ranks, batch, micro_batches;
    trm_history *h;
} reader;

static trm_status refuse(const reader *r, const char *what) {
    return trm_fail(TRM_DATA, "%s:%lld: %s", r->path, (long long)r->line, what);
}

/* ---- values of a record ---- */

/* A whole number of at least `least`. */
static bool whole(const json_t *j, const char *key, int64_t least, int64_t *out) {
    const json_t *v = json_object_get(j, key);
    *out = json_is_integer(v) ? json_integer_value(v) : least - 1;
    return *out >= least;
}

#define MOST_SECONDS 1e9 /* some 30 years: sums of them stay far from the end of doubles */

/* Seconds, or another number from 0 on. */
static bool seconds(const json_t *j, const char *key, double *out) {
    const json_t *v = json_object_get(j, key);
    *out = json_is_number(v) ? json_number_value(v) : -1;
    return *out >= 0 && *out <= MOST_SECONDS;
}

/* The same, where a record may have none or null. */
static double seconds_or(const json_t *j, const char *key, double none) {
    double v;
    return seconds(j, key, &v) ? v : none;
}

/* ---- records ---- */

/* Each start writes one; where the work is cut otherwise than before, all that was before is another story. */
static trm_status read_run(reader *r, const json_t *j) {
    int64_t ranks, batch, k;
    if (!whole(j, "ranks", 1, &ranks) || ranks > TRM_MOST_RANKS || !whole(j, "batch", 1, &batch) ||
        !whole(j, "micro_batches", 1, &k))
        return refuse(r, "the record of the run makes no sense");
    if (ranks != r->ranks || batch != r->batch || k != r->micro_batches)
        trm_history_restart(r->h, (int)ranks, 0);
    r->ranks = ranks;
    r->batch = batch;
    r->micro_batches = k;
    return TRM_OK;
}

static trm_status read_had(const reader *r, const json_t *j, int64_t *had) {
    const json_t *list = json_object_get(j, "had");
    trm_history *h = r->h;
    int64_t sum = 0;
    if (!json_is_array(list) || json_array_size(list) != (size_t)h->ranks)
        return refuse(r, "a record of balancing names not one share of each rank");
    for (int i = 0; i < h->ranks; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        had[i] = json_is_integer(v) ? json_integer_value(v) : -1;
        if (had[i] < 0 || had[i] > INT64_MAX - sum) return refuse(r, "a share is no whole number from 0");
        sum += had[i];
    }
    if (sum < 1) return refuse(r, "the shares are all 0");
    if (h->total == 0 && sum > r->batch) return refuse(r, "the shares add up to more than a batch");
    if (h->total == 0) h->total = sum;
    if (sum == h->total) return TRM_OK;
    return trm_fail(TRM_DATA, "%s:%lld: the shares add up to %lld, before to %lld", r->path,
                    (long long)r->line, (long long)sum, (long long)h->total);
}

/* What a rank takes follows from what it took; where it had nothing, from what was believed of it. */
static bool read_rank(const json_t *j, int64_t had, trm_speed *s, double *noise, double *compute) {
    if (!seconds(j, "compute_s", compute) || !seconds(j, "fixed_s", &s->fixed)) return false;
    s->fixed = fmin(s->fixed, *compute);
    s->each = seconds_or(j, "each_s", INFINITY);
    if (had > 0) s->each = (*compute - s->fixed) / (double)had;
    s->each = fmax(s->each, LEAST_S);
    *noise = seconds_or(j, "noise", 0);
    return true;
}

static trm_status read_ranks(const reader *r, const json_t *j, int64_t i) {
    const json_t *list = json_object_get(j, "ranks");
    const trm_history *h = r->h;
    double step, compute, slowest = 0;
    if (!json_is_array(list) || json_array_size(list) != (size_t)h->ranks)
        return refuse(r, "a record of balancing names not the times of each rank");
    for (int k = 0; k < h->ranks; k++) {
        const json_t *one = json_array_get(list, (size_t)k);
        if (!read_rank(one, trm_had_at(h, i)[k], &trm_speeds_at(h, i)[k], &trm_noise_at(h, i)[k], &compute))
            return refuse(r, "the times of a rank make no sense");
        slowest = fmax(slowest, compute);
    }
    if (!seconds(j, "step_s", &step)) return refuse(r, "the time of an update makes no sense");
    h->stretch[i].rest = fmax(step - slowest, 0);
    return TRM_OK;
}

static trm_status read_balance(reader *r, const json_t *j) {
    trm_history *h = r->h;
    trm_stretch s = {0};
    const json_t *cost = json_object_get(j, "cost_s");
    if (r->ranks < 1) return refuse(r, "a record of balancing before the one of the run");
    if (!whole(j, "update", 1, &s.update) || !whole(j, "updates", 1, &s.updates) ||
        !whole(j, "left", 0, &s.left))
        return refuse(r, "a record of balancing makes no sense");
    if (cost && !json_is_null(cost) && !seconds(j, "cost_s", &s.cost))
        return refuse(r, "the cost of a move makes no sense");
    /* What a resumed run does anew counts, not what was done before it. */
    while (h->n > 0 && h->stretch[h->n - 1].update >= s.update) h->n--;
    TRM_TRY(trm_history_grow(h));
    h->stretch[h->n - 1] = s;
    TRM_TRY(read_had(r, j, trm_had_at(h, h->n - 1)));
    return read_ranks(r, j, h->n - 1);
}

static trm_status read_record(void *ctx, int64_t line, const char *kind, const json_t *j) {
    reader *r = ctx;
    r->line = line;
    if (!strcmp(kind, "run")) return read_run(r, j);
    if (strcmp(kind, "balance") != 0) return TRM_OK;
    /* A replay moves what an earlier run decided, and measures nothing. */
    const char *verdict = json_string_value(json_object_get(j, "verdict"));
    return verdict && !strcmp(verdict, "replay") ? TRM_OK : read_balance(r, j);
}

/* ---- ranks that had nothing ---- */

/* The slowest of the others: rather too little is expected of a rank that nobody has ever seen at work. */
static double slowest_each(const trm_speed *speed, int ranks) {
    double most = LEAST_S;
    for (int r = 0; r < ranks; r++)
        if (isfinite(speed[r].each)) most = fmax(most, speed[r].each);
    return most;
}

static void fill_from(const trm_history *h, int64_t i, int64_t from) {
    for (int r = 0; r < h->ranks; r++)
        if (!isfinite(trm_speeds_at(h, i)[r].each))
            trm_speeds_at(h, i)[r].each = trm_speeds_at(h, from)[r].each;
}

static void fill_gaps(const trm_history *h) {
    for (int64_t i = 1; i < h->n; i++) fill_from(h, i, i - 1);
    for (int64_t i = h->n - 2; i >= 0; i--) fill_from(h, i, i + 1);
    for (int64_t i = 0; i < h->n; i++) {
        trm_speed *speed = trm_speeds_at(h, i);
        double most = slowest_each(speed, h->ranks);
        for (int r = 0; r < h->ranks; r++)
            if (!isfinite(speed[r].each)) speed[r].each = most;
    }
}

/* ---- the file ---- */

static trm_status read_file(const char *path, trm_history *h) {
    reader r = {.path = path, .h = h};
    trm_status status = trm_records_read(path, read_record, &r);
    if (status != TRM_OK || h->n > 0) return status;
    (void)trm_fail(TRM_DATA, "%s holds no records of balancing", path);
    trm_hint("a run on two ranks or more writes them where balance.mode is dynamic or hybrid; "
             "a window of less than a quarter of a second is not decided on");
    return TRM_DATA;
}

trm_status trm_history_read(const char *run, trm_history *out) {
    trm_str path = {0};
    *out = (trm_history){.windows = true};
    trm_str_add(&path, "%s/metrics.jsonl", run);
    trm_status status = path.failed ? TRM_MEMORY : read_file(path.p, out);
    trm_str_free(&path);
    if (status == TRM_OK)
        fill_gaps(out);
    else
        trm_history_free(out);
    return status;
}
