/* moments: mean, deviation and range of the inputs, channel by channel, in float64.
 *
 * Rows are taken in their order and in pieces whose size follows from their shape alone; each piece is summed up around
 * its own mean and then joined to those before it (Chan, Golub, LeVeque 1983).  So the numbers depend on the rows and on
 * nothing else. */
#include "data_impl.h"
#include <math.h>
#include <string.h>

#define PIECE 65536 /* elements that are looked at together */

/* Where the elements of a channel lie in a row: n of them, `step` from each other; the next channel begins `next` later. */
typedef struct lie {
    int64_t channels, n, step, next;
} lie;

static lie lie_of(const trm_data_info *info) {
    int64_t channels = trm_data_channels(&info->x), n = trm_shape_count(&info->x) / channels;
    bool last = info->x_hwc || !trm_shape_channels_first(&info->x);
    return last ? (lie){channels, n, channels, 1} : (lie){channels, n, 1, n};
}

/* Sums of one channel. */
typedef struct sums {
    double n, mean, m2, min, max;
} sums;

static void join(sums *a, const sums *b) {
    double n = a->n + b->n, delta = b->mean - a->mean;
    if (b->n == 0) return;
    a->mean += delta * (b->n / n);
    a->m2 += b->m2 + delta * delta * (a->n * b->n / n);
    a->n = n;
    a->min = fmin(a->min, b->min);
    a->max = fmax(a->max, b->max);
}

/* The elements of one channel in a piece of rows, around their own mean. */
static sums sum_channel(const lie *l, const double *values, int64_t rows, int64_t elems) {
    sums s = {.n = (double)(rows * l->n), .min = INFINITY, .max = -INFINITY};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < l->n; i++) {
            double v = values[r * elems + i * l->step];
            s.mean += v;
            if (v < s.min) s.min = v;
            if (v > s.max) s.max = v;
        }
    s.mean /= s.n;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < l->n; i++) {
            double apart = values[r * elems + i * l->step] - s.mean;
            s.m2 += apart * apart;
        }
    return s;
}

static void add_piece(const lie *l, const double *values, int64_t rows, int64_t elems, sums *all) {
    for (int64_t c = 0; c < l->channels; c++) {
        sums s = sum_channel(l, values + c * l->next, rows, elems);
        join(&all[c], &s);
    }
}

/* Memory for a piece of `step` rows, and who is told how far it is. */
typedef struct work {
    lie l;
    char *raw;
    double *values;
    int64_t step;
    trm_stats_fn tell;
    void *ctx;
} work;

static trm_status sum_rows(trm_dataset *d, const work *w, sums *all) {
    int64_t rows = trm_rows(&d->x), elems = d->x.row_elems;
    for (int64_t at = 0, n, bad; at < rows; at += bad + n) {
        n = trm_good_rows(d, at, trm_min64(w->step, rows - at), &bad);
        if (n == 0) continue;
        TRM_TRY(trm_column_rows(d, &d->x, at + bad, n, w->raw));
        TRM_TRY(trm_check_x_rows(d, at + bad, w->raw, n));
        trm_convert_f64(w->raw, d->x.type, n * elems, w->values);
        add_piece(&w->l, w->values, n, elems, all);
        if (w->tell) TRM_TRY(w->tell(w->ctx, at + bad + n, rows));
    }
    return TRM_OK;
}

static trm_status sum_all(trm_dataset *d, work *w, sums *all) {
    w->step = trm_max64(PIECE / d->x.row_elems, 1);
    w->raw = trm_alloc_array((size_t)w->step, trm_row_bytes(&d->x), "looking at the data");
    w->values = trm_alloc_array((size_t)(w->step * d->x.row_elems), sizeof *w->values, "looking at the data");
    trm_status s = w->raw && w->values ? TRM_OK : TRM_MEMORY;
    for (int64_t c = 0; c < w->l.channels; c++) all[c] = (sums){.min = INFINITY, .max = -INFINITY};
    if (s == TRM_OK) s = sum_rows(d, w, all);
    trm_free(w->raw);
    trm_free(w->values);
    return s;
}

/* ---- the numbers ---- */

static trm_status make_stats(int64_t channels, trm_data_stats *out) {
    *out = (trm_data_stats){.channels = channels};
    double **list[] = {&out->mean, &out->std, &out->min, &out->max};
    for (int i = 0; i < 4; i++) {
        *list[i] = trm_alloc_array((size_t)channels, sizeof(double), "statistics");
        if (*list[i]) continue;
        trm_data_stats_free(out);
        return TRM_MEMORY;
    }
    return TRM_OK;
}

void trm_data_stats_free(trm_data_stats *s) {
    trm_free(s->mean);
    trm_free(s->std);
    trm_free(s->min);
    trm_free(s->max);
    *s = (trm_data_stats){0};
}

trm_status trm_dataset_stats(trm_dataset *d, trm_stats_fn tell, void *ctx, trm_data_stats *out) {
    work w = {.l = lie_of(&d->info), .tell = tell, .ctx = ctx};
    int64_t channels = w.l.channels;
    if (d->info.kind != TRM_DATA_SAMPLES)
        return trm_fail(TRM_DATA, "%s: '%s' holds tokens, which have no mean", d->file[0].path, d->x.name);
    sums *all = trm_alloc_array((size_t)channels, sizeof *all, "statistics");
    if (!all) return TRM_MEMORY;
    trm_status s = sum_all(d, &w, all);
    if (s == TRM_OK) s = make_stats(channels, out);
    for (int64_t c = 0; c < channels && s == TRM_OK; c++) {
        out->count = (int64_t)all[c].n;
        out->mean[c] = all[c].mean;
        out->std[c] = sqrt(all[c].m2 / all[c].n);
        out->min[c] = all[c].min;
        out->max[c] = all[c].max;
    }
    trm_free(all);
    return s;
}

/* ---- a file of them ---- */

static trm_status read_set(trm_h5_file *f, const char *path, const char *name, trm_data_stats *s,
                           double *to) {
    trm_dtype type;
    trm_shape shape;
    TRM_TRY(trm_h5_stat(f, name, &type, &shape));
    if (trm_shape_count(&shape) != s->channels)
        return trm_fail(TRM_DATA, "%s: '%s' has %lld numbers, 'mean' has %lld", path, name,
                        (long long)trm_shape_count(&shape), (long long)s->channels);
    TRM_TRY(trm_h5_read(f, name, TRM_F64, s->channels, to));
    for (int64_t c = 0; c < s->channels; c++)
        if (!isfinite(to[c]))
            return trm_fail(TRM_DATA, "%s: '%s'[%lld] is not finite", path, name, (long long)c);
    return TRM_OK;
}

static trm_status read_sets(trm_h5_file *f, const char *path, trm_data_stats *s) {
    trm_dtype type;
    trm_shape shape;
    TRM_TRY(trm_h5_stat(f, "mean", &type, &shape));
    if (shape.rank > 1)
        return trm_fail(TRM_DATA, "%s: 'mean' has %d dimensions, statistics have one", path, shape.rank);
    TRM_TRY(make_stats(trm_shape_count(&shape), s));
    TRM_TRY(read_set(f, path, "mean", s, s->mean));
    TRM_TRY(read_set(f, path, "std", s, s->std));
    TRM_TRY(read_set(f, path, "min", s, s->min));
    return read_set(f, path, "max", s, s->max);
}

trm_status trm_data_stats_read(const char *path, trm_data_stats *out) {
    trm_h5_file *f = NULL;
    trm_data_stats s = {0};
    TRM_TRY(trm_h5_open(path, &f));
    trm_status status = read_sets(f, path, &s);
    trm_h5_drop(f);
    if (status == TRM_OK)
        *out = s;
    else
        trm_data_stats_free(&s);
    return status;
}
