/* ref/sequence: token and position embeddings, attention. */
#include "ref_impl.h"

static trm_ref_embed embed_of(const trm_op *op) {
    return (trm_ref_embed){trm_ref_in_count(op), op->desc.out.dim[1], op->desc.count};
}

static trm_status check_tokens(const trm_op *op, const trm_ref_embed *s) {
    const int32_t *x = op->arg[TRM_ARG_X];
    int64_t bad = trm_ref_embed_check(s, x);
    if (bad < 0) return TRM_OK;
    return trm_fail(TRM_DATA, "token %d at position %lld is outside of the vocabulary, [0, %lld)",
                    (int)x[bad], (long long)(bad % op->desc.in.dim[0]), (long long)s->vocab);
}

trm_status trm_ref_run_EMBED_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_embed s = embed_of(op);
    TRM_TRY(check_tokens(op, &s));
    trm_ref_embed_fwd(&s, op->arg[TRM_ARG_X], REF(W), REF(Y));
    return TRM_OK;
}

trm_status trm_ref_run_EMBED_BWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_embed s = embed_of(op);
    TRM_TRY(check_tokens(op, &s));
    trm_ref_embed_bwd(&s, op->arg[TRM_ARG_X], REF(DY), op->desc.accumulate, REF(DW));
    return TRM_OK;
}

trm_status trm_ref_run_POSEMB_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_posemb_fwd(op->desc.n, trm_shape_count(&op->desc.in), REF(X), REF(W), REF(Y));
    return TRM_OK;
}

trm_status trm_ref_run_POSEMB_BWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_posemb_bwd(op->desc.n, trm_shape_count(&op->desc.in), REF(DY), op->desc.accumulate, REF(DW));
    return TRM_OK;
}

static trm_ref_attention attention_of(const trm_op *op) {
    const trm_op_desc *d = &op->desc;
    return (trm_ref_attention){d->out.dim[0], d->out.dim[1], d->heads, d->causal};
}

trm_status trm_ref_run_ATTN_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_attention s = attention_of(op);
    int64_t size = s.t * s.c;
    for (int64_t i = 0; i < op->desc.n; i++)
        trm_ref_attention_fwd(&s, REF(X) + 3 * i * size, REF(Y) + i * size, REF(SAVED) + i * s.heads * s.t,
                              op->scratch);
    return TRM_OK;
}

trm_status trm_ref_run_ATTN_BWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_attention s = attention_of(op);
    int64_t size = s.t * s.c;
    for (int64_t i = 0; i < trm_ref_in_count(op) && !op->desc.accumulate; i++) REF(DX)[i] = 0;
    for (int64_t i = 0; i < op->desc.n; i++)
        trm_ref_attention_bwd(&s, REF(X) + 3 * i * size, REF(Y) + i * size, REF(SAVED) + i * s.heads * s.t,
                              REF(DY) + i * size, REF(DX) + 3 * i * size);
    return TRM_OK;
}
