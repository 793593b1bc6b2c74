/* Losses: sums go to the tail of the step, gradients are those of the sums. */
#include "own.h"

typedef struct loss_state {
    trm_cpu_state base;
    trm_ce ce;
    trm_mse mse;
} loss_state;

static trm_status ce_run(trm_op *op, const trm_step *step) {
    loss_state *s = op->state;
    const trm_kernels *k = trm_cpu_kernels(op->device);
    const trm_ce *a = &s->ce;
    int64_t bad = k->find_outside(a->t, a->rows, a->c);
    if (bad >= 0)
        return trm_fail(TRM_DATA, "class %d of row %lld is outside of [0, %lld)", (int)a->t[bad],
                        (long long)bad, (long long)a->c);
    k->loss_ce(a);
    step->tail[TRM_TAIL_LOSS] += *a->loss;
    step->tail[TRM_TAIL_COUNT] += (double)a->rows;
    step->tail[TRM_TAIL_CORRECT] += *a->correct;
    return TRM_OK;
}

static trm_status ce_bind(trm_op *op) {
    loss_state *s = op->state;
    size_t used = 0;
    s->ce.x = op->arg[TRM_ARG_X];
    s->ce.t = op->arg[TRM_ARG_T];
    s->ce.dx = op->desc.train ? op->arg[TRM_ARG_DX] : NULL;
    s->ce.loss = trm_cpu_take(op->scratch, &used, 2, sizeof(double));
    s->ce.correct = s->ce.loss + 1;
    s->ce.work = trm_cpu_take(op->scratch, &used, 2 * s->ce.threads, sizeof(double));
    return TRM_OK;
}

static trm_status plan_ce(trm_device *d, trm_op *op) {
    TRM_TRY(trm_cpu_own(op, sizeof(loss_state), ce_bind, ce_run));
    loss_state *s = op->state;
    s->ce.c = op->desc.in.dim[op->desc.in.rank - 1];
    s->ce.rows = op->desc.n * (trm_shape_count(&op->desc.in) / s->ce.c);
    s->ce.threads = d->threads;
    trm_cpu_take(NULL, &op->scratch_bytes, 2, sizeof(double));
    trm_cpu_take(NULL, &op->scratch_bytes, 2 * d->threads, sizeof(double));
    return TRM_OK;
}

static trm_status mse_run(trm_op *op, const trm_step *step) {
    const loss_state *s = op->state;
    double sum = trm_cpu_kernels(op->device)->loss_mse(&s->mse);
    step->tail[TRM_TAIL_LOSS] += sum * (double)op->desc.n / (double)s->mse.count;
    step->tail[TRM_TAIL_COUNT] += (double)op->desc.n;
    return TRM_OK;
}

static trm_status mse_bind(trm_op *op) {
    loss_state *s = op->state;
    s->mse.x = op->arg[TRM_ARG_X];
    s->mse.t = op->arg[TRM_ARG_T];
    s->mse.dx = op->desc.train ? op->arg[TRM_ARG_DX] : NULL;
    s->mse.work = op->scratch;
    return TRM_OK;
}

static trm_status plan_mse(trm_device *d, trm_op *op) {
    TRM_TRY(trm_cpu_own(op, sizeof(loss_state), mse_bind, mse_run));
    loss_state *s = op->state;
    int64_t count = trm_shape_count(&op->desc.in);
    s->mse.count = op->desc.n * count;
    s->mse.threads = d->threads;
    s->mse.scale = (float)(2 / (double)count);
    op->scratch_bytes = (size_t)d->threads * sizeof(double);
    return TRM_OK;
}

trm_status trm_cpu_plan_loss(trm_device *d, trm_op *op) {
    return op->desc.kind == TRM_OP_LOSS_CE ? plan_ce(d, op) : plan_mse(d, op);
}
