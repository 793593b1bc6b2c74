/* Private to balance: a chain with its prefix sums, shared by both ways of cutting it. */
#ifndef TRM_BALANCE_CHAIN_IMPL_H
#define TRM_BALANCE_CHAIN_IMPL_H

#include <trireme/balance.h>

/* Sums are differences of prefix sums: these never fall with the end nor rise with the begin, so comparisons of spans
 * and bisections over them are exact.  They are held longer than a double, so that a difference of them rounds
 * like the short sum that it stands for. */
typedef struct trm_links {
    const trm_chain *c;
    int stage;                      /* whose times `sum` and `never` hold; -1: everyone's */
    long double *sum;               /* [items + 1] of work or of the stage's times, without those that are INFINITY */
    int64_t *never;                 /* [items + 1]: the stage can do no span that begins before this; NULL: none such */
    long double *memory;            /* [items + 1]; NULL: no limits */
    double *weight;                 /* [stages]: how quick a stage is on the whole */
} trm_links;

/* Makes sum and never those of stage s. */
void trm_links_turn(trm_links *l, int s);
/* Seconds of stage s for the items begin .. end-1; INFINITY where it cannot have them. */
double trm_links_span(const trm_links *l, int s, int64_t begin, int64_t end);
/* The last end by which stage s, from `begin` on, is done in `seconds`; `begin` where it can do none. */
int64_t trm_links_reach(const trm_links *l, int s, int64_t begin, double seconds);
/* Where the cut behind stage s would lie if what is left were shared out evenly.  Decides among cuts that are equally
 * good, so that no stage is filled to the brim while the last ones have nothing. */
int64_t trm_links_even(const trm_links *l, int s, int64_t begin);

/* Each fills begin[stages + 1]; false where nothing fits. */
/* Probe and bisection: cuts are free, items have one time but for a stage's speed, and stages may be empty or are
 * all alike.  O(items + 64 stages log items). */
bool trm_chain_probe(trm_links *l, int64_t *begin);
/* Dynamic programming: any chain.  table[(stages + 1) * (items + 1)], stack[items + 1]. O(stages * items * log items). */
bool trm_chain_dp(trm_links *l, double *table, int64_t *stack, int64_t *begin);

#endif
