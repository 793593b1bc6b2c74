/* split: parts of a data set, and a data set in random order. */
#include "make_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- how many rows each part has ---- */

static trm_status count_parts(const trm_split_part *part, int n, int64_t rows, int64_t *count) {
    double sum = 0;
    int64_t before = 0;
    for (int k = 0; k < n; k++) {
        double share = part[k].rows > 0 ? (double)part[k].rows / (double)rows : part[k].fraction;
        if (!(share > 0) || (part[k].rows == 0 && share > 1))
            return trm_fail(TRM_USAGE,
                            "part %d is %g of the rows; allowed are fractions up to 1, and numbers of rows",
                            k + 1, part[k].fraction);
        sum += share;
        int64_t end = (int64_t)llround(sum * (double)rows);
        count[k] = part[k].rows > 0 ? part[k].rows : end - before;
        before = end;
        if (count[k] < 1)
            return trm_fail(TRM_USAGE, "part %d has no row: %g of %lld", k + 1, share, (long long)rows);
    }
    int64_t all = 0;
    for (int k = 0; k < n; k++) all += count[k];
    if (sum > 1 + 1e-9 || all > rows)
        return trm_fail(TRM_USAGE, "the parts add up to %lld rows; there are %lld",
                        (long long)llround(sum * (double)rows), (long long)rows);
    return TRM_OK;
}

/* ---- which rows ---- */

typedef struct classed {
    int64_t label, drawn, row;
} classed;

static int by_class(const void *a, const void *b) {
    const classed *x = a, *y = b;
    int c = (x->label > y->label) - (x->label < y->label);
    return c ? c : (x->drawn > y->drawn) - (x->drawn < y->drawn);
}

/* Rows of a class behind each other, each class in the order that was drawn. */
static trm_status sort_by_class(trm_rowset *r, const char *target, int64_t *order, int64_t n) {
    int64_t *label = NULL;
    TRM_TRY(trm_rowset_labels(r, target, &label));
    classed *c = trm_alloc_array((size_t)n, sizeof *c, "rows");
    for (int64_t i = 0; i < n && c; i++) c[i] = (classed){label[order[i]], i, order[i]};
    trm_free(label);
    if (!c) return TRM_MEMORY;
    qsort(c, (size_t)n, sizeof *c, by_class);
    for (int64_t i = 0; i < n; i++) order[i] = c[i].row;
    trm_free(c);
    return TRM_OK;
}

/* Deals n rows out to parts: each goes to the part that is furthest behind its share of the rows dealt so far.  So every
 * stretch, as that of a class, is cut alike, to one row. */
static void deal(int64_t n, const int64_t *count, int parts, int *to) {
    int64_t given[TRM_MOST_PARTS + 1] = {0};
    for (int64_t i = 0; i < n; i++) {
        int best = 0;
        double most = -INFINITY;
        for (int k = 0; k < parts; k++) {
            double behind = (double)count[k] * (double)(i + 1) / (double)n - (double)given[k];
            if (given[k] < count[k] && behind > most) best = k, most = behind;
        }
        to[i] = best;
        given[best]++;
    }
}

/* part_of[row], with n_parts for the rows of none. */
static trm_status choose_rows(trm_rowset *r, trm_split_rows how, const char *target, uint64_t seed,
                              int64_t *count, int n_parts, int *part_of) {
    int64_t n = trm_rowset_count(r), rest = n;
    int64_t *order = trm_alloc_array((size_t)n, sizeof *order, "an order");
    int *to = trm_alloc_array((size_t)n, sizeof *to, "an order");
    trm_status s = order && to ? TRM_OK : TRM_MEMORY;
    for (int k = 0; k < n_parts; k++) rest -= count[k];
    count[n_parts] = rest;
    if (s == TRM_OK)
        trm_order_fill(how == TRM_SPLIT_KEPT ? TRM_SHUFFLE_NONE : TRM_SHUFFLE_EXACT, seed, 0, n, order);
    if (s == TRM_OK && how == TRM_SPLIT_STRATIFIED) {
        s = sort_by_class(r, target, order, n);
        if (s == TRM_OK) deal(n, count, n_parts + 1, to);
    } else if (s == TRM_OK) {
        int64_t at = 0;
        for (int k = 0; k <= n_parts; k++)
            for (int64_t i = 0; i < count[k]; i++) to[at++] = k;
    }
    for (int64_t i = 0; i < n && s == TRM_OK; i++) part_of[order[i]] = to[i];
    trm_free(order);
    trm_free(to);
    return s;
}

/* ---- writing ---- */

typedef struct fill {
    trm_rowset *r;
    const int64_t *pick;
    int64_t n;
} fill;

static trm_status write_rows(trm_h5_file *f, const void *ctx) {
    const fill *x = ctx;
    return trm_rowset_copy(x->r, f, x->pick, x->n, NULL);
}

static trm_status write_part(trm_rowset *r, const int *part_of, int k, int64_t count, const char *out) {
    int64_t n = trm_rowset_count(r), at = 0;
    int64_t *pick = trm_alloc_array((size_t)count, sizeof *pick, "rows");
    if (!pick) return TRM_MEMORY;
    for (int64_t i = 0; i < n; i++)
        if (part_of[i] == k) pick[at++] = i;
    trm_status s = trm_h5_replace(out, write_rows, &(fill){r, pick, count});
    trm_free(pick);
    return s;
}

static trm_status check_outputs(const trm_rowset *r, const trm_split_part *part, int n_parts) {
    for (int i = 0; i < n_parts; i++) {
        TRM_TRY(trm_rowset_apart(r, part[i].out));
        for (int k = 0; k < i; k++)
            if (strcmp(part[k].out, part[i].out) == 0)
                return trm_fail(TRM_USAGE, "two parts would be written to %s", part[i].out);
    }
    return TRM_OK;
}

/* The order of a stream is its meaning. */
static trm_status check_stream(const trm_rowset *r, const char *what) {
    if (r->facts.rank > 1 || trm_dtype_is_float(r->facts.type)) return TRM_OK;
    trm_fail(TRM_USAGE, "%s: '%s' is a stream of tokens, %s", r->paths.at[0].path, r->input, what);
    return TRM_USAGE;
}

static trm_status split(trm_rowset *r, trm_split_rows how, const char *target, uint64_t seed,
                        const trm_split_part *part, int n_parts, trm_made *made) {
    int64_t n = trm_rowset_count(r), count[TRM_MOST_PARTS + 1];
    if (how != TRM_SPLIT_KEPT && check_stream(r, "whose order is its meaning") != TRM_OK) {
        trm_hint("`--rows kept` cuts it in stretches");
        return TRM_USAGE;
    }
    TRM_TRY(count_parts(part, n_parts, n, count));
    TRM_TRY(check_outputs(r, part, n_parts));
    int *part_of = trm_alloc_array((size_t)n, sizeof *part_of, "rows");
    trm_status s = part_of ? choose_rows(r, how, target, seed, count, n_parts, part_of) : TRM_MEMORY;
    for (int k = 0; k < n_parts && s == TRM_OK; k++) {
        s = write_part(r, part_of, k, count[k], part[k].out);
        trm_rowset_made(r, count[k], &made[k]);
    }
    trm_free(part_of);
    return s;
}

trm_status trm_split(const trm_set_spec *spec, trm_split_rows how, const char *target, uint64_t seed,
                     const trm_split_part *part, int n_parts, trm_made *made) {
    trm_rowset r;
    if (n_parts < 1 || n_parts > TRM_MOST_PARTS)
        return trm_fail(TRM_USAGE, "%d parts; allowed are 1 to %d", n_parts, TRM_MOST_PARTS);
    trm_status s = trm_rowset_open(spec, &r);
    if (s == TRM_OK) s = split(&r, how, target, seed, part, n_parts, made);
    trm_rowset_close(&r);
    return s;
}

static trm_status shuffle(trm_rowset *r, uint64_t seed, const char *out) {
    int64_t n = trm_rowset_count(r);
    TRM_TRY(check_stream(r, "whose order is its meaning: `train` draws its windows in random order"));
    TRM_TRY(trm_rowset_apart(r, out));
    int64_t *pick = trm_alloc_array((size_t)n, sizeof *pick, "an order");
    if (!pick) return TRM_MEMORY;
    trm_order_fill(TRM_SHUFFLE_EXACT, seed, 0, n, pick);
    trm_status s = trm_h5_replace(out, write_rows, &(fill){r, pick, n});
    trm_free(pick);
    return s;
}

trm_status trm_shuffle_rows(const trm_set_spec *spec, uint64_t seed, const char *out, trm_made *made) {
    trm_rowset r;
    trm_status s = trm_rowset_open(spec, &r);
    if (s == TRM_OK) s = shuffle(&r, seed, out);
    if (s == TRM_OK) trm_rowset_made(&r, trm_rowset_count(&r), made);
    trm_rowset_close(&r);
    return s;
}
