/* Embeddings of tokens and of positions. */
#include "own.h"

typedef struct embed_state {
    trm_cpu_state base;
    int64_t tokens, count; /* tokens of all samples; elements of one sample */
    trm_embed_grad grad;
} embed_state;

/* A token out of range would read past the table, so it is looked for before. */
static trm_status embed_fwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const embed_state *s = op->state;
    const trm_kernels *k = trm_cpu_kernels(op->device);
    const int32_t *id = op->arg[TRM_ARG_X];
    int64_t bad = k->find_outside(id, s->tokens, op->desc.count);
    if (bad >= 0)
        return trm_fail(TRM_DATA, "token %d at position %lld is outside of the vocabulary, [0, %lld)",
                        (int)id[bad], (long long)bad, (long long)op->desc.count);
    k->embed(op->arg[TRM_ARG_W], id, op->arg[TRM_ARG_Y], s->tokens, op->desc.out.dim[1], op->device->threads);
    return TRM_OK;
}

static trm_status embed_bwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const embed_state *s = op->state;
    trm_cpu_kernels(op->device)->embed_grad(&s->grad);
    return TRM_OK;
}

static trm_status posemb_fwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const embed_state *s = op->state;
    trm_cpu_kernels(op->device)
        ->posemb(op->arg[TRM_ARG_X], op->arg[TRM_ARG_W], op->arg[TRM_ARG_Y], op->desc.n, s->count,
                 op->device->threads);
    return TRM_OK;
}

static trm_status posemb_bwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const embed_state *s = op->state;
    trm_cpu_kernels(op->device)
        ->posemb_grad(op->arg[TRM_ARG_DY], op->arg[TRM_ARG_DW], op->desc.n, s->count, op->desc.accumulate,
                      op->device->threads);
    return TRM_OK;
}

static trm_status embed_bind(trm_op *op) {
    embed_state *s = op->state;
    s->grad.id = op->arg[TRM_ARG_X];
    s->grad.dy = op->arg[TRM_ARG_DY];
    s->grad.dw = op->arg[TRM_ARG_DW];
    return TRM_OK;
}

static trm_cpu_run_fn run_of(trm_op_kind kind) {
    switch (kind) {
    case TRM_OP_EMBED_FWD: return embed_fwd_run;
    case TRM_OP_EMBED_BWD: return embed_bwd_run;
    case TRM_OP_POSEMB_FWD: return posemb_fwd_run;
    default: return posemb_bwd_run;
    }
}

trm_status trm_cpu_plan_embedding(trm_device *d, trm_op *op) {
    TRM_TRY(trm_cpu_own(op, sizeof(embed_state), embed_bind, run_of(op->desc.kind)));
    embed_state *s = op->state;
    s->count = trm_shape_count(&op->desc.in);
    s->tokens = op->desc.n * s->count;
    s->grad = (trm_embed_grad){.tokens = s->tokens,
                               .vocab = op->desc.count,
                               .c = op->desc.out.rank == 2 ? op->desc.out.dim[1] : 0,
                               .threads = d->threads,
                               .accumulate = op->desc.accumulate};
    return TRM_OK;
}
