/* check: the values of a data set, before a run trusts them: label and token range, numbers that are not finite.
 * Also the fingerprint, which tells another data set from this one. */
#include "data_impl.h"
#include <math.h>
#include <string.h>

#define PIECE 65536 /* elements that are looked at together */
#define PRINT_SAMPLES 1000
#define PRINT_BYTES 16384
#define MOST_CLASSES ((int64_t)1 << 31)
#define SKIP "`data.on_bad_sample: skip` leaves such samples out"

/* ---- streaming ---- */

typedef trm_status (*see_fn)(trm_dataset *d, trm_column *c, int64_t row, const void *rows, int64_t n,
                             void *ctx);

static trm_status stream(trm_dataset *d, trm_column *c, see_fn see, void *ctx) {
    int64_t step = trm_max64(PIECE / c->row_elems, 1), rows = trm_rows(c);
    char *buf = trm_alloc((size_t)step * trm_row_bytes(c), "looking at the data");
    if (!buf) return TRM_MEMORY;
    trm_status s = TRM_OK;
    for (int64_t at = 0, n, bad; at < rows && s == TRM_OK; at += bad + n) {
        n = trm_good_rows(d, at, trm_min64(step, rows - at), &bad);
        if (n > 0) s = trm_column_rows(d, c, at + bad, n, buf);
        if (n > 0 && s == TRM_OK) s = see(d, c, at + bad, buf, n, ctx);
    }
    trm_free(buf);
    return s;
}

/* ---- class numbers ---- */

typedef struct range {
    int64_t limit; /* classes, 0 = not known */
    int64_t max, bad, first_bad, value, zeros;
    bool ignores; /* the number `ignore` is no class */
    int64_t ignore;
} range;

static void see_number(range *r, int64_t row, int64_t v) {
    if (r->ignores && v == r->ignore) return;
    if (v > r->max) r->max = v;
    if (v == 0) r->zeros++;
    if (v >= 0 && (r->limit == 0 || v < r->limit)) return;
    if (r->bad++ > 0) return;
    r->first_bad = row;
    r->value = v;
}

static trm_status see_numbers(trm_dataset *d, trm_column *c, int64_t row, const void *rows, int64_t n,
                              void *ctx) {
    (void)d;
    int64_t v[512], total = n * c->row_elems, item = (int64_t)trm_dtype_size(c->type);
    for (int64_t at = 0; at < total; at += 512) {
        int64_t k = trm_min64(512, total - at);
        trm_convert_i64((const char *)rows + at * item, c->type, k, v);
        for (int64_t i = 0; i < k; i++) see_number(ctx, row + (at + i) / c->row_elems, v[i]);
    }
    return TRM_OK;
}

/* Stored rows as the classes that they mean. */
static trm_status see_targets(trm_dataset *d, trm_column *c, int64_t row, const void *rows, int64_t n,
                              void *ctx) {
    for (int64_t i = 0; i < n; i++) {
        int64_t v;
        TRM_TRY(trm_target_class(d, row + i, (const char *)rows + (size_t)i * trm_row_bytes(c), &v));
        see_number(ctx, row + i, v);
    }
    return TRM_OK;
}

static trm_status out_of_range(const trm_dataset *d, const trm_column *c, const range *r) {
    const char *path;
    int64_t at;
    char allowed[64], from_one[64] = "";
    trm_row_place(d, c, r->first_bad, &path, &at);
    if (r->limit > 0)
        snprintf(allowed, sizeof allowed, "outside 0..%lld", (long long)r->limit - 1);
    else
        snprintf(allowed, sizeof allowed, "below 0");
    if (r->value == r->limit && r->max == r->limit && r->limit > 0)
        snprintf(from_one, sizeof from_one, "%s",
                 r->zeros == 0 ? "; the classes start at 1" : "; do the classes start at 1?");
    trm_status s =
        trm_fail(TRM_DATA, "%s: '%s'[%lld] = %lld, %s (%lld bad of %lld)%s", path, c->name, (long long)at,
                 (long long)r->value, allowed, (long long)r->bad,
                 (long long)(trm_rows(c) * (d->y_rows != TRM_TARGET_PLAIN ? 1 : c->row_elems)), from_one);
    if (r->limit > 0)
        trm_hint("classes are numbered from 0; `data.classes` (or the model's outputs) says how many there "
                 "are: %lld; " SKIP,
                 (long long)r->limit);
    else
        trm_hint("classes are numbered from 0; " SKIP);
    return s;
}

/* Looks at every class number of a column; 1 + the largest goes to *classes where it was 0. */
static trm_status check_range(trm_dataset *d, trm_column *c, int64_t *classes) {
    range r = {.limit = *classes, .max = -1, .ignores = c == &d->y && d->ignores, .ignore = d->ignore};
    bool mapped = c == &d->y && trm_maps_target(d);
    TRM_TRY(stream(d, c, mapped ? see_targets : see_numbers, &r));
    if (r.bad > 0) return out_of_range(d, c, &r);
    if (r.max < MOST_CLASSES) {
        if (*classes == 0) *classes = r.max + 1;
        return TRM_OK;
    }
    const char *path;
    int64_t at;
    trm_row_place(d, c, 0, &path, &at);
    trm_status s = trm_fail(TRM_DATA, "%s: '%s' holds numbers up to %lld: these are no classes", path,
                            c->name, (long long)r.max);
    trm_hint("numbers to regress are read with `data.target_type: float`");
    return s;
}

static trm_status see_whole(trm_dataset *d, trm_column *c, int64_t row, const void *rows, int64_t n,
                            void *ctx) {
    (void)ctx;
    for (int64_t i = 0; i < n * c->row_elems; i++) {
        double v;
        trm_convert_f64((const char *)rows + (size_t)i * trm_dtype_size(c->type), c->type, 1, &v);
        if (v == floor(v) && fabs(v) < 0x1p53) continue;
        const char *path;
        int64_t at;
        trm_row_place(d, c, row + i / c->row_elems, &path, &at);
        trm_status s =
            trm_fail(TRM_DATA, "%s: '%s'[%lld] = %g is no class number", path, c->name, (long long)at, v);
        trm_hint("numbers to regress are read with `data.target_type: float`");
        return s;
    }
    return TRM_OK;
}

trm_status trm_check_whole(trm_dataset *d) { return stream(d, &d->y, see_whole, NULL); }

/* ---- numbers that are not finite ---- */

static trm_status not_finite(const trm_dataset *d, const trm_column *c, int64_t row, int64_t element,
                             const void *value) {
    const char *path;
    int64_t at, index[TRM_MAX_DIMS];
    char where[128];
    double v;
    const trm_stretch *p = &c->part[0];
    trm_row_place(d, c, row, &path, &at);
    trm_convert_f64(value, c->type, 1, &v);
    for (int i = p->rank - 1; i > 0; i--) {
        index[i - 1] = element % p->dim[i];
        element /= p->dim[i];
    }
    trm_dims_text(index, p->rank - 1, 0, where, sizeof where);
    if (isfinite(v))
        trm_fail(TRM_DATA, "%s: '%s' sample %lld element %s is %g, which is too large for float32", path,
                 c->name, (long long)at, where, v);
    else
        trm_fail(TRM_DATA, "%s: '%s' sample %lld element %s is %s", path, c->name, (long long)at, where,
                 isnan(v) ? "NaN"
                 : v > 0  ? "+Inf"
                          : "-Inf");
    trm_hint(SKIP);
    return TRM_DATA;
}

static trm_status check_finite(const trm_dataset *d, const trm_column *c, int64_t row, const void *rows,
                               int64_t n) {
    int64_t at = trm_first_nonfinite(rows, c->type, n * c->row_elems);
    if (at < 0) return TRM_OK;
    return not_finite(d, c, row + at / c->row_elems, at % c->row_elems,
                      (const char *)rows + (size_t)at * trm_dtype_size(c->type));
}

static trm_status see_finite(trm_dataset *d, trm_column *c, int64_t row, const void *rows, int64_t n,
                             void *ctx) {
    (void)ctx;
    return check_finite(d, c, row, rows, n);
}

/* ---- target ---- */

trm_status trm_check_y(trm_dataset *d) {
    if (!d->has_y) return TRM_OK;
    if (d->info.y_is_class) return check_range(d, &d->y, &d->info.classes);
    return stream(d, &d->y, see_finite, NULL);
}

/* ---- input ---- */

trm_status trm_count_tokens(trm_dataset *d) {
    int64_t asked = d->info.classes, x = asked, y = asked;
    TRM_TRY(check_range(d, &d->x, &x));
    if (d->has_y) TRM_TRY(check_range(d, &d->y, &y));
    d->info.classes = trm_max64(x, y);
    return TRM_OK;
}

trm_status trm_check_x_rows(const trm_dataset *d, int64_t row, const void *rows, int64_t n) {
    const trm_column *c = &d->x;
    if (d->info.kind == TRM_DATA_SAMPLES) return check_finite(d, c, row, rows, n);
    /* One byte cannot leave a vocabulary of 256. */
    if (c->type == TRM_U8 && d->info.classes >= 256) return TRM_OK;
    range r = {.limit = d->info.classes, .max = -1};
    (void)!see_numbers(NULL, (trm_column *)c, row, rows, n, &r);
    return r.bad > 0 ? out_of_range(d, c, &r) : TRM_OK;
}

static trm_status see_x(trm_dataset *d, trm_column *c, int64_t row, const void *rows, int64_t n, void *ctx) {
    (void)c, (void)ctx;
    return trm_check_x_rows(d, row, rows, n);
}

trm_status trm_check_x(trm_dataset *d) { return trm_count_bad(d, stream(d, &d->x, see_x, NULL)); }

static trm_status see_bad(trm_dataset *d, trm_column *c, int64_t row, const void *rows, int64_t n,
                          void *ctx) {
    (void)d, (void)row;
    size_t bytes = trm_row_bytes(c);
    for (int64_t i = 0; i < n; i++)
        *(int64_t *)ctx +=
            trm_first_nonfinite((const char *)rows + (size_t)i * bytes, c->type, c->row_elems) >= 0;
    return TRM_OK;
}

trm_status trm_count_bad(trm_dataset *d, trm_status s) {
    char said[800], hint[300];
    int64_t bad = 0;
    if (s != TRM_DATA || d->info.kind != TRM_DATA_SAMPLES) return s;
    snprintf(said, sizeof said, "%s", trm_error_text());
    snprintf(hint, sizeof hint, "%s", trm_error_hint());
    if (stream(d, &d->x, see_bad, &bad) == TRM_OK && bad > 0)
        s = trm_fail(s, "%s (%lld of %lld samples are bad)", said, (long long)bad,
                     (long long)trm_rows(&d->x));
    else
        s = trm_fail(s, "%s", said);
    if (hint[0]) trm_hint("%s", hint);
    return s;
}

/* ---- all of it ---- */

static trm_status see_nothing(trm_dataset *d, trm_column *c, int64_t row, const void *rows, int64_t n,
                              void *ctx) {
    (void)d, (void)c, (void)row, (void)rows, (void)n, (void)ctx;
    return TRM_OK;
}

trm_status trm_dataset_check(trm_dataset *d) {
    TRM_TRY(trm_dataset_load(d));
    /* What is kept in memory was read and checked when it was loaded. */
    if (!d->x.cache) TRM_TRY(d->check_x ? trm_check_x(d) : stream(d, &d->x, see_nothing, NULL));
    return trm_check_y(d);
}

/* ---- fingerprint ---- */

static uint64_t print_shape(const trm_shape *s, uint64_t h) {
    h = trm_hash(&s->rank, sizeof s->rank, h);
    return trm_hash(s->dim, (size_t)s->rank * sizeof *s->dim, h);
}

static trm_status see_print(trm_dataset *d, trm_column *c, int64_t row, const void *rows, int64_t n,
                            void *ctx) {
    (void)d, (void)row;
    *(uint64_t *)ctx = trm_hash(rows, (size_t)n * trm_row_bytes(c), *(uint64_t *)ctx);
    return TRM_OK;
}

/* Evenly spaced samples. How many depends on what is stored and not on how. */
static trm_status print_samples(trm_dataset *d, uint64_t *h) {
    const trm_data_info *info = &d->info;
    int64_t most = info->samples > (int64_t)TRM_GIB / info->x_stride ? PRINT_SAMPLES / 8 : PRINT_SAMPLES;
    int64_t n = trm_min64(info->samples, most);
    char *x = trm_alloc((size_t)(info->x_stride + info->y_stride), "a sample");
    if (!x) return TRM_MEMORY;
    trm_status s = TRM_OK;
    for (int64_t i = 0; i < n && s == TRM_OK; i++) {
        int64_t at = trm_cut(info->samples, n, i);
        s = trm_dataset_read(d, &at, 1, x, x + info->x_stride);
        *h = trm_hash(x, (size_t)trm_min64(info->x_stride, PRINT_BYTES), *h);
    }
    trm_free(x);
    return s;
}

trm_status trm_fingerprint(trm_dataset *d) {
    const trm_data_info *info = &d->info;
    int64_t head[] = {info->samples, info->kind,       info->x_type, info->y_type,
                      info->x_hwc,   info->y_is_class, info->classes};
    uint64_t h = trm_hash(head, sizeof head, 0);
    h = print_shape(&info->y, print_shape(&info->x, h));
    if (d->n_labels > 0) h = trm_hash(d->label, (size_t)d->n_labels * sizeof *d->label, h);
    if (d->bad.n > 0) h = trm_hash(d->bad.at, (size_t)d->bad.n * sizeof *d->bad.at, h);
    if (d->has_y) TRM_TRY(stream(d, &d->y, see_print, &h));
    TRM_TRY(print_samples(d, &h));
    d->info.fingerprint = h;
    return TRM_OK;
}
