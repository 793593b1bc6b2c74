/* chain_cut: two ways to the cuts that make the slowest stage's time least.
 *
 * Both take a stage's end from those that the least time allows, the nearest to an even one: equal chains are cut
 * equally, whichever way they go. */
#include <math.h>
#include "bits.h"
#include "chain_impl.h"

/* ---- probe and bisection (Pinar & Aykanat 2004) ---- */

/* The first begin from which stage s is done with all items before `end` in `seconds`. */
static int64_t reach_back(const trm_links *l, int s, int64_t end, double seconds) {
    int64_t lo = -1, hi = end;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (trm_links_span(l, s, mid, end) <= seconds)
            hi = mid;
        else
            lo = mid;
    }
    return hi;
}

/* Fills the stages from the last one on.  low[s]: the first begin of stage s with which it and those behind it are
 * done in `seconds`. A later begin is only easier, so all are done where low[0] is 0. */
static bool probe(const trm_links *l, double seconds, int64_t *low) {
    low[l->c->stages] = l->c->items;
    for (int s = l->c->stages - 1; s >= 0; s--) low[s] = reach_back(l, s, low[s + 1], seconds);
    return low[0] == 0;
}

/* On entry the first begins that `seconds` allows; cut by cut these become the even ones. */
static void lay(const trm_links *l, double seconds, int64_t *begin) {
    const trm_chain *c = l->c;
    int own = c->may_be_empty ? 0 : 1;
    for (int s = 0; s < c->stages; s++) {
        int64_t first = trm_max64(begin[s + 1], begin[s] + own);
        int64_t last = trm_min64(trm_links_reach(l, s, begin[s], seconds),
                                 c->items - (int64_t)own * (c->stages - 1 - s));
        begin[s + 1] = trm_min64(trm_max64(trm_links_even(l, s, begin[s]), first), last);
    }
}

bool trm_chain_probe(trm_links *l, int64_t *begin) {
    uint64_t lo = 0, hi = trm_bits_of(INFINITY); /* that one no stage may take */
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (probe(l, trm_of_bits(mid), begin))
            hi = mid;
        else
            lo = mid + 1;
    }
    double least = trm_of_bits(lo);
    if (isinf(least)) return false;
    (void)probe(l, least, begin);
    lay(l, least, begin);
    return true;
}

/* ---- dynamic programming (Pinar, Tabak & Aykanat 2008, with a stack) ---- */

/* The least over the ends on the stack of the slower of stage s, from b to that end, and the stages behind it.
 * Down the stack the ends move away: the stage gets slower, those behind it faster.  So the best of each kind is
 * where the two cross. */
static double best_end(const trm_links *l, int s, int64_t b, const double *behind, const int64_t *stack,
                       int64_t depth) {
    int64_t lo = 0, hi = depth; /* the ends below lo are far: the stage is the slower one */
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (trm_links_span(l, s, b, stack[mid]) >= behind[stack[mid]])
            lo = mid + 1;
        else
            hi = mid;
    }
    double far = lo > 0 ? trm_links_span(l, s, b, stack[lo - 1]) : INFINITY;
    return lo < depth ? fmin(far, behind[stack[lo]]) : far;
}

/* row[b]: the least time of the stages from s on for the items from b on; behind[]: of those from s + 1 on. */
static void fill_row(const trm_links *l, int s, const double *behind, double *row, int64_t *stack) {
    int64_t depth = 0;
    for (int64_t b = l->c->items; b >= 0; b--) {
        row[b] = best_end(l, s, b, behind, stack, depth);
        if (l->c->may_be_empty) row[b] = fmin(row[b], behind[b]);
        /* A nearer end that is no slower behind makes a farther one needless. */
        while (depth > 0 && behind[stack[depth - 1]] >= behind[b]) depth--;
        if (!isinf(behind[b])) stack[depth++] = b;
    }
}

/* Of the ends of stage s that keep all in `seconds`, the nearest to the even one. */
static int64_t choose_end(const trm_links *l, int s, int64_t begin, double seconds, const double *behind) {
    int64_t first = l->c->may_be_empty ? begin : begin + 1, last = trm_links_reach(l, s, begin, seconds);
    int64_t even = trm_min64(trm_max64(trm_links_even(l, s, begin), first), last), down = even, up = even;
    while (down >= first && behind[down] > seconds) down--;
    while (up <= last && behind[up] > seconds) up++;
    if (down < first) return up;
    return up <= last && up - even < even - down ? up : down;
}

bool trm_chain_dp(trm_links *l, double *table, int64_t *stack, int64_t *begin) {
    const trm_chain *c = l->c;
    int64_t n = c->items + 1;
    for (int64_t b = 0; b < c->items; b++) table[c->stages * n + b] = INFINITY; /* items that no stage has */
    for (int s = c->stages - 1; s >= 0; s--) {
        trm_links_turn(l, s);
        fill_row(l, s, table + (s + 1) * n, table + s * n, stack);
    }
    if (isinf(table[0])) return false;
    begin[0] = 0;
    for (int s = 0; s < c->stages; s++) {
        trm_links_turn(l, s);
        begin[s + 1] = choose_end(l, s, begin[s], table[0], table + (s + 1) * n);
    }
    return true;
}
