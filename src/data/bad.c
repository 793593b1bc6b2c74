/* bad: samples that are left out.
 *
 * With `on_bad: skip` rank 0 looks at every row once, when the set is opened.  What cannot be decoded, is not finite or is
 * no class is kept as stretches of rows, which the plan carries: all ranks leave the same samples out, and an order
 * is one of the samples that are left. */
#include "data_impl.h"
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE_BYTES ((size_t)1 << 20)
#define MOST_STRETCHES ((int64_t)1 << 20)
#define MOST_CLASSES 0x1p31
#define SHOWN 8

/* ---- lists of stretches ---- */

static trm_status grow(trm_spans *r) {
    if (r->n < r->cap) return TRM_OK;
    if (r->n >= MOST_STRETCHES)
        return trm_fail(TRM_DATA, "more than %lld stretches of samples are bad: this is no data set",
                        (long long)MOST_STRETCHES);
    int64_t cap = r->cap ? 2 * r->cap : 16;
    void *more =
        trm_realloc(r->at, (size_t)r->n * sizeof *r->at, (size_t)cap * sizeof *r->at, "samples left out");
    if (!more) return TRM_MEMORY;
    r->at = more;
    r->cap = cap;
    return TRM_OK;
}

/* Stretches come in the order of their first entries; those that touch become one. */
static trm_status add(trm_spans *r, int64_t first, int64_t count) {
    trm_span *last = r->n > 0 ? &r->at[r->n - 1] : NULL;
    if (last && first <= last->first + last->count) {
        last->count = trm_max64(last->count, first + count - last->first);
        return TRM_OK;
    }
    TRM_TRY(grow(r));
    r->at[r->n++] = (trm_span){first, count};
    return TRM_OK;
}

static trm_status merge(const trm_spans *a, const trm_spans *b, trm_spans *out) {
    for (int64_t i = 0, j = 0; i < a->n || j < b->n;) {
        bool from_a = j == b->n || (i < a->n && a->at[i].first <= b->at[j].first);
        const trm_span *next = from_a ? &a->at[i++] : &b->at[j++];
        TRM_TRY(add(out, next->first, next->count));
    }
    return TRM_OK;
}

/* The first stretch that ends behind `row`. */
static int64_t stretch_behind(const trm_spans *r, int64_t row) {
    int64_t low = 0, high = r->n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (r->at[middle].first + r->at[middle].count > row)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int64_t trm_good_rows(const trm_dataset *d, int64_t row, int64_t n, int64_t *bad) {
    *bad = 0;
    if (d->bad.n == 0) return n;
    int64_t i = stretch_behind(&d->bad, row);
    if (i < d->bad.n && d->bad.at[i].first <= row) {
        *bad = trm_min64(n, d->bad.at[i].first + d->bad.at[i].count - row);
        i++;
    }
    int64_t from = row + *bad;
    return trm_min64(n - *bad, i < d->bad.n ? d->bad.at[i].first - from : n - *bad);
}

/* ---- rows -> samples ---- */

/* The windows of one part that hold any of its rows [first, end). */
static trm_status add_windows(const trm_dataset *d, int part, int64_t first, int64_t end, trm_spans *out) {
    int64_t t = d->info.x.dim[0], more = d->info.no_target ? 0 : 1, start = d->window_start[part];
    int64_t low = first > more ? (first - more) / t : 0;
    int64_t high = trm_min64((end - 1) / t, d->window_start[part + 1] - start - 1);
    return low > high ? TRM_OK : add(out, start + low, high - low + 1);
}

static trm_status windows_of(const trm_dataset *d, trm_spans *out) {
    for (int64_t i = 0; i < d->bad.n; i++) {
        int64_t first = d->bad.at[i].first, end = first + d->bad.at[i].count;
        for (int k = 0; k < d->x.n_parts; k++) {
            int64_t from = trm_max64(first, d->x.start[k]), to = trm_min64(end, d->x.start[k + 1]);
            if (from < to) TRM_TRY(add_windows(d, k, from - d->x.start[k], to - d->x.start[k], out));
        }
    }
    return TRM_OK;
}

static trm_status make_gaps(trm_dataset *d, const trm_spans *out) {
    int64_t skipped = 0;
    trm_free(d->gap);
    d->n_gaps = out->n;
    d->gap = trm_alloc_array((size_t)out->n + 1, sizeof *d->gap, "samples left out");
    if (!d->gap) return TRM_MEMORY;
    for (int64_t i = 0; i < out->n; i++) {
        d->gap[i].from = out->at[i].first - skipped;
        d->gap[i].skipped = skipped += out->at[i].count;
    }
    d->info.skipped = skipped;
    d->info.samples -= skipped;
    return TRM_OK;
}

trm_status trm_bad_index(trm_dataset *d) {
    trm_spans out = {0}, none = {0};
    trm_status s = d->info.kind == TRM_DATA_TOKEN_STREAM ? windows_of(d, &out) : merge(&d->bad, &none, &out);
    if (s == TRM_OK) s = make_gaps(d, &out);
    trm_spans_free(&out);
    return s;
}

int64_t trm_dataset_place(const trm_dataset *d, int64_t sample) {
    int64_t low = 0, high = d->n_gaps;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (d->gap[middle].from > sample)
            high = middle;
        else
            low = middle + 1;
    }
    return low > 0 ? sample + d->gap[low - 1].skipped : sample;
}

void trm_spans_free(trm_spans *s) {
    trm_free(s->at);
    *s = (trm_spans){0};
}

/* ---- words ---- */

void trm_dataset_skipped(const trm_dataset *d, trm_str *out) {
    for (int64_t i = 0, before = 0; i < d->n_gaps && i < SHOWN; before = d->gap[i++].skipped) {
        int64_t first = d->gap[i].from + before, count = d->gap[i].skipped - before;
        trm_str_add(out, "%s%lld", i ? ", " : "", (long long)first);
        if (count > 1) trm_str_add(out, count > 2 ? " to %lld" : ", %lld", (long long)(first + count - 1));
    }
    if (d->n_gaps > SHOWN) trm_str_add(out, ", ...");
}

/* ---- looking ---- */

typedef struct look {
    trm_dataset *d;
    trm_column *c;
    char *rows;
    trm_spans bad;
    char *said; /* of the first one */
    size_t said_cap;
} look;

static bool is_class(const trm_dataset *d, const trm_column *c) {
    return c == &d->y ? d->info.y_is_class : d->info.kind != TRM_DATA_SAMPLES;
}

/* The first element that is no class; -1: all are. */
static int64_t first_no_class(const void *row, trm_dtype type, int64_t n, double classes) {
    double v[256];
    for (int64_t at = 0; at < n; at += 256) {
        int64_t k = trm_min64(256, n - at);
        trm_convert_f64((const char *)row + (size_t)at * trm_dtype_size(type), type, k, v);
        for (int64_t i = 0; i < k; i++)
            if (!(v[i] >= 0 && v[i] < classes && v[i] == floor(v[i]))) return at + i;
    }
    return -1;
}

static trm_status note(look *l, int64_t row, const char *words) {
    if (l->bad.n == 0) snprintf(l->said, l->said_cap, "%s", words);
    return add(&l->bad, row, 1);
}

static trm_status note_value(look *l, int64_t row, const char *element) {
    const char *path;
    int64_t at;
    char words[600];
    double v;
    trm_row_place(l->d, l->c, row, &path, &at);
    trm_convert_f64(element, l->c->type, 1, &v);
    snprintf(words, sizeof words, "%s: '%s'[%lld] holds %.10g", path, l->c->name, (long long)at, v);
    return note(l, row, words);
}

/* Stored targets that the job turns into classes. */
static trm_status see_mapped(look *l, int64_t row, const char *raw, double classes) {
    const trm_column *c = l->c;
    int64_t class;
    double v;
    trm_convert_f64(raw, c->type, 1, &v);
    bool number = l->d->y_rows != TRM_TARGET_PLAIN || (v == floor(v) && fabs(v) < 0x1p53);
    if (!number) return note_value(l, row, raw);
    trm_status s = trm_target_class(l->d, row, raw, &class);
    if (s == TRM_DATA) return note(l, row, trm_error_text());
    if (s == TRM_OK && (class < 0 || (double)class >= classes)) return note_value(l, row, raw);
    return s;
}

static trm_status see_rows(look *l, int64_t first, int64_t n) {
    const trm_column *c = l->c;
    bool class = is_class(l->d, c), mapped = c == &l->d->y && trm_maps_target(l->d);
    double classes = l->d->info.classes > 0 ? (double)l->d->info.classes : MOST_CLASSES;
    for (int64_t i = 0; i < n; i++) {
        const char *row = l->rows + (size_t)i * trm_row_bytes(c);
        int64_t at = mapped  ? -1
                     : class ? first_no_class(row, c->type, c->row_elems, classes)
                             : trm_first_nonfinite(row, c->type, c->row_elems);
        if (mapped) TRM_TRY(see_mapped(l, first + i, row, classes));
        if (at >= 0) TRM_TRY(note_value(l, first + i, row + (size_t)at * trm_dtype_size(c->type)));
    }
    return TRM_OK;
}

/* A file that is gone or was changed is no bad sample. */
static bool file_stays(const look *l, int64_t row) {
    int64_t i = 0;
    struct stat st;
    while (l->c->start[i + 1] <= row) i++;
    const trm_data_file *f = &l->d->file[l->c->part[i].file];
    return stat(f->path, &st) == 0 && st.st_size == f->size;
}

/* Halves what cannot be read until it is one row. */
static trm_status look_at(look *l, int64_t first, int64_t n) {
    trm_status s = trm_column_rows(l->d, l->c, first, n, l->rows);
    if (s == TRM_OK) return see_rows(l, first, n);
    if (s != TRM_DATA || !file_stays(l, first)) return s;
    if (n == 1) return note(l, first, trm_error_text());
    TRM_TRY(look_at(l, first, n / 2));
    return look_at(l, first + n / 2, n - n / 2);
}

static trm_status look_through(look *l) {
    int64_t step = trm_max64((int64_t)(PIECE_BYTES / trm_row_bytes(l->c)), 1), rows = trm_rows(l->c);
    l->rows = trm_alloc((size_t)step * trm_row_bytes(l->c), "looking for bad samples");
    if (!l->rows) return TRM_MEMORY;
    trm_status s = TRM_OK;
    for (int64_t at = 0; at < rows && s == TRM_OK; at += step) s = look_at(l, at, trm_min64(step, rows - at));
    trm_free(l->rows);
    l->rows = NULL;
    return s;
}

static trm_status find(trm_dataset *d, char *said, size_t cap) {
    char of_y[600] = "";
    look x = {.d = d, .c = &d->x, .said = said, .said_cap = cap};
    look y = {.d = d, .c = &d->y, .said = of_y, .said_cap = sizeof of_y};
    trm_status s = look_through(&x);
    if (s == TRM_OK && d->has_y) s = look_through(&y);
    if (s == TRM_OK) s = merge(&x.bad, &y.bad, &d->bad);
    if (y.bad.n > 0 && (x.bad.n == 0 || y.bad.at[0].first < x.bad.at[0].first))
        snprintf(said, cap, "%s", of_y);
    trm_spans_free(&x.bad);
    trm_spans_free(&y.bad);
    return s;
}

trm_status trm_bad_find(trm_dataset *d) {
    char said[600] = "";
    trm_str which = {0};
    int64_t all = d->info.samples;
    trm_log(TRM_LOG_INFO, "%s: all samples are read once, to leave out bad ones", d->file[0].path);
    TRM_TRY(find(d, said, sizeof said));
    TRM_TRY(trm_plan_index(d));
    if (d->info.samples < 1)
        return trm_fail(TRM_DATA, "all of %lld samples are bad, none is left; the first: %s", (long long)all,
                        said);
    if (d->info.skipped == 0) return TRM_OK;
    trm_dataset_skipped(d, &which);
    trm_log(TRM_LOG_WARN, "%lld of %lld samples are left out: %s; the first: %s", (long long)d->info.skipped,
            (long long)all, trm_str_get(&which), said);
    trm_status s = which.failed ? TRM_MEMORY : TRM_OK;
    trm_str_free(&which);
    return s;
}
