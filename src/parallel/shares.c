/* Shares: who computes which contiguous part of a micro-batch. */
#include <trireme/parallel.h>

#include <string.h>

trm_status trm_shares_create(int ranks, const double *weights, trm_shares *out) {
    double *w = trm_alloc_array((size_t)ranks, sizeof *w, "shares");
    if (!w) return TRM_MEMORY;
    for (int r = 0; r < ranks; r++) w[r] = weights ? weights[r] : 1;
    *out = (trm_shares){ranks, w};
    return TRM_OK;
}

void trm_shares_free(trm_shares *s) {
    if (!s) return;
    trm_free(s->weights);
    memset(s, 0, sizeof *s);
}

trm_status trm_shares_counts(const trm_shares *s, int64_t batch, int micro_batches, int64_t *counts) {
    for (int k = 0; k < micro_batches; k++) {
        const int64_t m = trm_cut(batch, micro_batches, k + 1) - trm_cut(batch, micro_batches, k);
        trm_part part;
        TRM_TRY(trm_part_by_weights(s->ranks, s->weights, m, &part));
        for (int r = 0; r < s->ranks; r++) counts[r * micro_batches + k] = trm_part_count(&part, r);
        trm_part_free(&part);
    }
    return TRM_OK;
}

trm_status trm_shares_slice(const trm_shares *s, int64_t m, int rank, int64_t *begin, int64_t *count) {
    trm_part part;
    TRM_TRY(trm_part_by_weights(s->ranks, s->weights, m, &part));
    *begin = trm_part_begin(&part, rank);
    *count = trm_part_count(&part, rank);
    trm_part_free(&part);
    return TRM_OK;
}
