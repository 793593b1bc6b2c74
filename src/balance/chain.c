/* chain: cuts of a chain of items over stages in a fixed order; the ways to find them are in chain_cut.c. */
#include <float.h>
#include <math.h>
#include <trireme/balance.h>
#include "chain_impl.h"

static bool has_limits(const trm_chain *c) { return c->memory && c->limit; }
static double slow_of(const trm_chain *c, int s) { return c->times || !c->slow ? 1 : c->slow[s]; }
/* Of item i on stage s, without the stage's slowness. */
static const double *row_of(const trm_chain *c, int s) {
    return c->times ? c->times + (int64_t)s * c->items : c->work;
}

/* ---- what may be asked ---- */

/* The first of n numbers that is no number >= 0 (or is infinite, where that is not allowed); n: none. */
static int64_t first_bad(const double *x, int64_t n, bool infinite) {
    for (int64_t i = 0; x && i < n; i++)
        if (!(x[i] >= 0) || (isinf(x[i]) && !infinite)) return i;
    return n;
}

static trm_status check_items(const trm_chain *c) {
    int64_t n = c->items, i;
    if (!c->times && !c->work && n > 0)
        return trm_fail(TRM_INTERNAL, "a chain of %lld items has neither work nor times", (long long)n);
    if (!c->times && (i = first_bad(c->work, n, false)) < n)
        return trm_fail(TRM_INTERNAL, "work %g of item %lld: it is a finite number of at least 0", c->work[i],
                        (long long)i);
    if (has_limits(c) && (i = first_bad(c->memory, n, false)) < n)
        return trm_fail(TRM_INTERNAL, "%g bytes of item %lld: a finite number of at least 0 is needed",
                        c->memory[i], (long long)i);
    if (c->cut && n > 1 && (i = first_bad(c->cut + 1, n - 1, true)) < n - 1)
        return trm_fail(TRM_INTERNAL, "a cut in front of item %lld costs %g s: at least 0 is needed",
                        (long long)i + 1, c->cut[i + 1]);
    return TRM_OK;
}

static trm_status check_stage(const trm_chain *c, int s) {
    int64_t i = first_bad(c->times ? row_of(c, s) : NULL, c->items, true);
    if (i < c->items && c->times)
        return trm_fail(TRM_INTERNAL, "time %g of item %lld on stage %d: at least 0 is needed",
                        row_of(c, s)[i], (long long)i, s);
    if (!(slow_of(c, s) > 0))
        return trm_fail(TRM_INTERNAL, "stage %d is slow by %g: it has to be more than 0", s, slow_of(c, s));
    if (has_limits(c) && !(c->limit[s] >= 0))
        return trm_fail(TRM_INTERNAL, "stage %d has room for %g bytes: at least 0 is needed", s, c->limit[s]);
    return TRM_OK;
}

static trm_status check(const trm_chain *c) {
    if (c->stages < 1)
        return trm_fail(TRM_INTERNAL, "a chain over %d stages: at least 1 is needed", c->stages);
    if (c->items < 0)
        return trm_fail(TRM_INTERNAL, "a chain of %lld items: at least 0 are needed", (long long)c->items);
    TRM_TRY(check_items(c));
    for (int s = 0; s < c->stages; s++) TRM_TRY(check_stage(c, s));
    if (!c->may_be_empty && c->items < c->stages)
        return trm_fail(TRM_JOB, "%lld items over %d stages: stage %lld would have none, and each needs one",
                        (long long)c->items, c->stages, (long long)c->items);
    return TRM_OK;
}

/* ---- spans ---- */

void trm_links_turn(trm_links *l, int s) {
    if (l->stage == s || l->stage < 0) return;
    const double *x = row_of(l->c, s);
    for (int64_t i = 0; i < l->c->items; i++) {
        bool can = !isinf(x[i]);
        l->sum[i + 1] = l->sum[i] + (can ? x[i] : 0);
        l->never[i + 1] = can ? l->never[i] : i + 1;
    }
    l->stage = s;
}

/* Of a span that is not empty and fits the stage's room. */
static double seconds_of(const trm_chain *c, int s, int64_t begin, long double work) {
    if (isinf(slow_of(c, s))) return INFINITY; /* nor can it do work of 0 */
    double seconds = (double)(work * slow_of(c, s));
    return c->cut && begin > 0 ? seconds + c->cut[begin] : seconds;
}

double trm_links_span(const trm_links *l, int s, int64_t begin, int64_t end) {
    if (begin == end) return 0;
    if (l->memory && l->memory[end] - l->memory[begin] > l->c->limit[s]) return INFINITY;
    if (l->never && l->never[end] > begin) return INFINITY;
    return seconds_of(l->c, s, begin, l->sum[end] - l->sum[begin]);
}

int64_t trm_links_reach(const trm_links *l, int s, int64_t begin, double seconds) {
    int64_t lo = begin, hi = l->c->items + 1;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (trm_links_span(l, s, begin, mid) <= seconds)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

int64_t trm_links_even(const trm_links *l, int s, int64_t begin) {
    double all = 0;
    for (int k = s; k < l->c->stages; k++) all += l->weight[k];
    double part = all > 0 ? l->weight[s] / all : 0;
    long double aim = l->sum[begin] + (l->sum[l->c->items] - l->sum[begin]) * part;
    int64_t lo = begin, hi = l->c->items;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (l->sum[mid] >= aim)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo > begin && aim - l->sum[lo - 1] <= l->sum[lo] - aim ? lo - 1 : lo;
}

/* ---- prefix sums ---- */

static void links_free(trm_links *l) {
    trm_free(l->sum);
    trm_free(l->never);
    trm_free(l->memory);
    trm_free(l->weight);
}

/* One over the time that the stage would take for all items; 0 where it can do none. */
static double weight_of(const trm_links *l, int s) {
    if (!l->c->times) return 1 / slow_of(l->c, s);
    const double *x = row_of(l->c, s);
    double sum = 0;
    bool any = false;
    for (int64_t i = 0; i < l->c->items; i++) {
        any = any || !isinf(x[i]);
        sum += isinf(x[i]) ? 0 : x[i];
    }
    return any ? 1 / fmax(sum, 1e-300) : 0; /* so many of these can be added up */
}

static trm_status links_open(const trm_chain *c, trm_links *l) {
    size_t n = (size_t)c->items + 1;
    *l = (trm_links){.c = c, .stage = c->times ? c->stages : -1};
    l->sum = trm_alloc_array(n, sizeof *l->sum, "the sums of a chain");
    l->weight = trm_alloc_array((size_t)c->stages, sizeof *l->weight, "the stages of a chain");
    if (c->times) l->never = trm_alloc_array(n, sizeof *l->never, "the gaps of a chain");
    if (has_limits(c)) l->memory = trm_alloc_array(n, sizeof *l->memory, "the memory of a chain");
    if (!l->sum || !l->weight || (c->times && !l->never) || (has_limits(c) && !l->memory)) return TRM_MEMORY;
    for (int64_t i = 0; i < c->items; i++) {
        if (!c->times) l->sum[i + 1] = l->sum[i] + c->work[i];
        if (l->memory) l->memory[i + 1] = l->memory[i] + c->memory[i];
    }
    for (int s = 0; s < c->stages; s++) l->weight[s] = weight_of(l, s);
    return TRM_OK;
}

/* ---- seconds of given cuts ---- */

/* Goes over the items once, adding up as links_open does, so that both round alike. */
typedef struct walker {
    int64_t at, never;
    long double sum, bytes;
} walker;

static void walk(const trm_chain *c, int s, int64_t end, walker *w) {
    const double *x = row_of(c, s);
    for (; w->at < end; w->at++) {
        if (isinf(x[w->at]))
            w->never = w->at + 1;
        else
            w->sum += x[w->at];
        if (has_limits(c)) w->bytes += c->memory[w->at];
    }
}

static double stage_seconds(const trm_chain *c, int s, int64_t begin, int64_t end, walker *w) {
    if (begin == end) return c->may_be_empty ? 0 : INFINITY;
    walk(c, s, begin, w);
    walker from = *w;
    walk(c, s, end, w);
    if (w->never > begin || (has_limits(c) && w->bytes - from.bytes > c->limit[s])) return INFINITY;
    return seconds_of(c, s, begin, w->sum - from.sum);
}

double trm_balance_chain_seconds(const trm_chain *c, const int64_t *begin) {
    double slowest = 0;
    walker w = {0};
    if (begin[0] != 0 || begin[c->stages] != c->items) return INFINITY;
    for (int s = 0; s < c->stages; s++) {
        if (begin[s + 1] < begin[s] || begin[s + 1] > c->items) return INFINITY;
        slowest = fmax(slowest, stage_seconds(c, s, begin[s], begin[s + 1], &w));
    }
    return slowest;
}

/* ---- nothing fits ---- */

/* The first item that no stage can have; items: none such. */
static int64_t homeless(trm_links *l) {
    const trm_chain *c = l->c;
    for (int64_t i = 0; i < c->items; i++) {
        bool fits = false;
        for (int s = 0; s < c->stages && !fits; s++)
            fits = !isinf(row_of(c, s)[i]) && !isinf(slow_of(c, s)) &&
                   (!l->memory || c->memory[i] <= c->limit[s]);
        if (!fits) return i;
    }
    return c->items;
}

/* Whether the stage can have an item, whichever. */
static bool has_use(const trm_chain *c, int s) {
    for (int64_t i = 0; i < c->items && !isinf(slow_of(c, s)); i++)
        if (!isinf(row_of(c, s)[i]) && (!has_limits(c) || c->memory[i] <= c->limit[s])) return true;
    return false;
}

static trm_status no_home(const trm_links *l, int64_t i) {
    const trm_chain *c = l->c;
    char need[16], room[16];
    double most = 0;
    if (!l->memory)
        return trm_fail(TRM_JOB, "item %lld can be done on none of the %d stages", (long long)i, c->stages);
    for (int s = 0; s < c->stages; s++)
        most = fmax(most, isinf(slow_of(c, s)) || isinf(row_of(c, s)[i]) ? 0 : c->limit[s]);
    return trm_fail(TRM_JOB,
                    "item %lld needs %s; the largest of the %d stages that can do it has room for %s",
                    (long long)i, trm_human_bytes(c->memory[i], need, sizeof need), c->stages,
                    trm_human_bytes(most, room, sizeof room));
}

static trm_status nothing_fits(trm_links *l) {
    const trm_chain *c = l->c;
    int64_t at = homeless(l);
    if (at < c->items) return no_home(l, at);
    for (int s = 0; s < c->stages; s++)
        if (!c->may_be_empty && !has_use(c, s))
            return trm_fail(TRM_JOB, "stage %d can do none of the %lld items, and each stage needs one", s,
                            (long long)c->items);
    at = 0;
    for (int s = 0; s < c->stages; s++) {
        trm_links_turn(l, s);
        at = trm_links_reach(l, s, at, DBL_MAX);
    }
    if (at < c->items)
        return trm_fail(TRM_JOB,
                        "the %d stages, each filled as far as it has room, end before item %lld of %lld",
                        c->stages, (long long)at, (long long)c->items);
    return trm_fail(TRM_JOB,
                    "no cut of the %lld items gives each of the %d stages what it can do, in this order",
                    (long long)c->items, c->stages);
}

/* ---- both ways ---- */

static bool alike(const trm_chain *c) {
    for (int s = 1; s < c->stages; s++)
        if (slow_of(c, s) != slow_of(c, 0) || (has_limits(c) && c->limit[s] != c->limit[0])) return false;
    return true;
}

static trm_status by_dp(trm_links *l, int64_t *begin, bool *found) {
    size_t n = (size_t)l->c->items + 1, cells;
    if (!trm_mul_size(n, (size_t)l->c->stages + 1, &cells)) cells = SIZE_MAX;
    double *table = trm_alloc_array(cells, sizeof *table, "the table of a chain");
    int64_t *stack = trm_alloc_array(n, sizeof *stack, "the ends of a chain");
    bool have = table && stack;
    if (have) *found = trm_chain_dp(l, table, stack, begin);
    trm_free(table);
    trm_free(stack);
    return have ? TRM_OK : TRM_MEMORY;
}

static trm_status cut(trm_links *l, int64_t *begin, double *seconds) {
    const trm_chain *c = l->c;
    bool found = false;
    if (!c->cut && !c->times && (c->may_be_empty || alike(c)))
        found = trm_chain_probe(l, begin);
    else
        TRM_TRY(by_dp(l, begin, &found));
    if (!found) return nothing_fits(l);
    double slowest = trm_balance_chain_seconds(c, begin);
    if (isinf(slowest))
        return trm_fail(TRM_INTERNAL, "the cuts of a chain of %lld items break a rule", (long long)c->items);
    if (seconds) *seconds = slowest;
    return TRM_OK;
}

trm_status trm_balance_chain(const trm_chain *c, int64_t *begin, double *seconds) {
    trm_links l;
    TRM_TRY(check(c));
    trm_status status = links_open(c, &l);
    if (status == TRM_OK) status = cut(&l, begin, seconds);
    links_free(&l);
    return status;
}
