/* Losses: sums go to the tail of the step, gradients are those of the sums. */
#include "own.h"

typedef struct loss_state {
    trm_cpu_state base;
    trm_ce ce;
    trm_mse mse;
} loss_state;

/* The first row whose class is none, or -1; the class that is ignored need not be one. */
static int64_t first_bad(const trm_kernels *k, const trm_ce *a) {
    if (!a->ignores) return k->find_outside(a->t, a->rows, a->c);
    for (int64_t r = 0; r < a->rows; r++)
        if ((a->t[r] < 0 || a->t[r] >= a->c) && a->t[r] != a->ignore) return r;
    return -1;
}

static trm_status ce_run(trm_op *op, const trm_step *step) {
    loss_state *s = op->state;
    const trm_kernels *k = trm_cpu_kernels(op->device);
    const trm_ce *a = &s->ce;
    int64_t bad = first_bad(k, a);
    if (bad >= 0)
        return trm_fail(TRM_DATA, "class %d of row %lld is outside of [0, %lld)", (int)a->t[bad],
                        (long long)bad, (long long)a->c);
    k->loss_ce(a);
    step->tail[TRM_TAIL_LOSS] += *a->loss;
    step->tail[TRM_TAIL_COUNT] += *a->count;
    step->tail[TRM_TAIL_CORRECT] += *a->correct;
    return TRM_OK;
}

static trm_status ce_bind(trm_op *op) {
    loss_state *s = op->state;
    size_t used = 0;
    s->ce.x = op->arg[TRM_ARG_X];
    s->ce.t = op->arg[TRM_ARG_T];
    s->ce.dx = op->desc.train ? op->arg[TRM_ARG_DX] : NULL;
    s->ce.loss = trm_cpu_take(op->scratch, &used, 3, sizeof(double));
    s->ce.correct = s->ce.loss + 1;
    s->ce.count = s->ce.loss + 2;
    s->ce.work = trm_cpu_take(op->scratch, &used, 3 * s->ce.threads, sizeof(double));
    return TRM_OK;
}

static trm_status plan_ce(trm_device *d, trm_op *op) {
    TRM_TRY(trm_cpu_own(op, sizeof(loss_state), ce_bind, ce_run));
    loss_state *s = op->state;
    /* Channels lie side by side, as the last dimension of other values does. */
    s->ce.c = op->desc.in.dim[trm_shape_channel_dim(&op->desc.in)];
    s->ce.rows = op->desc.n * (trm_shape_count(&op->desc.in) / s->ce.c);
    s->ce.threads = d->threads;
    s->ce.smoothing = op->desc.smoothing;
    /* A number that is no int32 is no target either. */
    s->ce.ignores = op->desc.ignores && op->desc.ignore == (int32_t)op->desc.ignore;
    s->ce.ignore = (int32_t)op->desc.ignore;
    trm_cpu_take(NULL, &op->scratch_bytes, 3, sizeof(double));
    trm_cpu_take(NULL, &op->scratch_bytes, 3 * d->threads, sizeof(double));
    return TRM_OK;
}

/* Squared differences and binary cross-entropy: predictions beside targets. */
static trm_status pairs_run(trm_op *op, const trm_step *step) {
    const loss_state *s = op->state;
    const trm_kernels *k = trm_cpu_kernels(op->device);
    double sum = op->desc.kind == TRM_OP_LOSS_MSE ? k->loss_mse(&s->mse) : k->loss_bce(&s->mse);
    step->tail[TRM_TAIL_LOSS] += sum * (double)op->desc.n / (double)s->mse.count;
    step->tail[TRM_TAIL_COUNT] += (double)op->desc.n;
    return TRM_OK;
}

static trm_status pairs_bind(trm_op *op) {
    loss_state *s = op->state;
    s->mse.x = op->arg[TRM_ARG_X];
    s->mse.t = op->arg[TRM_ARG_T];
    s->mse.dx = op->desc.train ? op->arg[TRM_ARG_DX] : NULL;
    s->mse.work = op->scratch;
    return TRM_OK;
}

static trm_status plan_pairs(trm_device *d, trm_op *op) {
    TRM_TRY(trm_cpu_own(op, sizeof(loss_state), pairs_bind, pairs_run));
    loss_state *s = op->state;
    int64_t count = trm_shape_count(&op->desc.in);
    s->mse.count = op->desc.n * count;
    s->mse.threads = d->threads;
    s->mse.scale = (float)((op->desc.kind == TRM_OP_LOSS_MSE ? 2 : 1) / (double)count);
    op->scratch_bytes = (size_t)d->threads * sizeof(double);
    return TRM_OK;
}

trm_status trm_cpu_plan_loss(trm_device *d, trm_op *op) {
    return op->desc.kind == TRM_OP_LOSS_CE ? plan_ce(d, op) : plan_pairs(d, op);
}
