/* target: rows of targets that are no class numbers yet: one-hot rows and rows of scores become the place of their 1 or of
 * their largest number, and a map gives classes other numbers. */
#include "data_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 256

/* ---- one row -> one number ---- */

static trm_status bad_row(const trm_dataset *d, int64_t row, const char *what) {
    const char *path;
    int64_t at;
    trm_row_place(d, &d->y, row, &path, &at);
    trm_status s = trm_fail(TRM_DATA, "%s: '%s'[%lld] %s", path, d->y.name, (long long)at, what);
    if (d->y_rows == TRM_TARGET_ONEHOT)
        trm_hint(
            "the largest number of rows that are no zeros and a 1 is taken by `data.target_type: argmax`");
    return s;
}

/* Looks at a row piece by piece; `best` of `count` equal ones. */
typedef struct found {
    double best;
    int64_t at, count, others; /* others: neither 0 nor 1 */
    bool finite;
} found;

static void see_entries(found *f, int64_t first, const double *v, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        f->finite = f->finite && isfinite(v[i]);
        f->others += v[i] != 0 && v[i] != 1;
        if (v[i] > f->best) *f = (found){v[i], first + i, 0, f->others, f->finite};
        f->count += v[i] == f->best;
    }
}

static trm_status place_in_row(const trm_dataset *d, int64_t row, const char *raw, int64_t *out) {
    int64_t n = d->y.row_elems, item = (int64_t)trm_dtype_size(d->y.type);
    found f = {.best = -INFINITY, .finite = true};
    double v[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t k = trm_min64(PIECE, n - at);
        trm_convert_f64(raw + at * item, d->y.type, k, v);
        see_entries(&f, at, v, k);
    }
    *out = f.at;
    if (!f.finite) return bad_row(d, row, "holds a number that is not finite");
    if (d->y_rows == TRM_TARGET_ARGMAX)
        return f.count == 1 ? TRM_OK : bad_row(d, row, "has its largest number more than once");
    if (f.others > 0) return bad_row(d, row, "is no one-hot row: it holds other numbers than 0 and 1");
    if (f.best == 1 && f.count == 1) return TRM_OK;
    return bad_row(d, row,
                   f.best == 1 ? "is no one-hot row: it holds more than one 1"
                               : "is no one-hot row: it holds no 1");
}

/* ---- a number -> the class that the job gives it ---- */

static trm_status unmapped(const trm_dataset *d, int64_t row, int64_t v) {
    const char *path;
    int64_t at;
    trm_row_place(d, &d->y, row, &path, &at);
    trm_status s = trm_fail(TRM_DATA, "%s: '%s'[%lld] = %lld, which data.label_map does not name", path,
                            d->y.name, (long long)at, (long long)v);
    trm_hint("give it a class in `data.label_map`, or leave its rows out of the file");
    return s;
}

/* The list is in the order of `from`. */
static trm_status map_label(const trm_dataset *d, int64_t row, int64_t *v) {
    int low = 0, high = d->n_labels;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (d->label[middle].from < *v)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == d->n_labels || d->label[low].from != *v) return unmapped(d, row, *v);
    *v = d->label[low].to;
    return TRM_OK;
}

trm_status trm_target_class(const trm_dataset *d, int64_t row, const void *raw, int64_t *out) {
    if (d->y_rows == TRM_TARGET_PLAIN)
        trm_convert_i64(raw, d->y.type, 1, out);
    else
        TRM_TRY(place_in_row(d, row, raw, out));
    return d->n_labels > 0 ? map_label(d, row, out) : TRM_OK;
}

trm_status trm_target_read(trm_dataset *d, int64_t row, int64_t *out) {
    TRM_TRY(trm_column_rows(d, &d->y, row, 1, d->y_row));
    return trm_target_class(d, row, d->y_row, out);
}

/* ---- planning ---- */

static int by_from(const void *a, const void *b) {
    const trm_label *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

trm_status trm_target_spec(trm_dataset *d, const trm_data_spec *spec) {
    if (!d->has_y) return TRM_OK;
    d->y_rows = spec->target_rows;
    if (spec->n_labels == 0) return TRM_OK;
    d->label = trm_alloc_array((size_t)spec->n_labels, sizeof *d->label, "a map of labels");
    if (!d->label) return TRM_MEMORY;
    memcpy(d->label, spec->label_map, (size_t)spec->n_labels * sizeof *d->label);
    d->n_labels = spec->n_labels;
    qsort(d->label, (size_t)d->n_labels, sizeof *d->label, by_from);
    return TRM_OK;
}

trm_status trm_target_room(trm_dataset *d) {
    if (!trm_maps_target(d) || d->y_row) return TRM_OK;
    /* Float labels become int64 when they have been looked at. */
    d->y_row = trm_alloc_array((size_t)d->y.row_elems, sizeof(int64_t), "a target");
    return d->y_row ? TRM_OK : TRM_MEMORY;
}

bool trm_target_holds(const trm_dataset *d) {
    if (!trm_maps_target(d)) return true;
    if (!d->has_y || d->info.kind != TRM_DATA_SAMPLES || !d->info.y_is_class || d->info.y.rank != 0)
        return false;
    for (int i = 1; i < d->n_labels; i++)
        if (d->label[i - 1].from >= d->label[i].from) return false;
    return d->y_rows == TRM_TARGET_PLAIN ? d->y.row_elems == 1 && !trm_dtype_is_float(d->y.type)
                                         : d->y.row_elems > 1;
}
