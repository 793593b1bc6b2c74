/* Optimizer updates and the norm of gradients.  What depends on the step is computed here in double. */
#include "own.h"

#include <math.h>

typedef struct update_state {
    trm_cpu_state base;
    trm_update a;
} update_state;

static trm_status sgd_run(trm_op *op, const trm_step *step) {
    update_state *s = op->state;
    s->a.lr = (float)step->lr;
    s->a.grad_scale = (float)(step->inv_count * step->clip_factor);
    trm_cpu_kernels(op->device)->update(&s->a);
    return TRM_OK;
}

/* As PyTorch: the decay of Adam is in the gradient, that of AdamW is apart and goes with the learning rate. */
static trm_status adam_run(trm_op *op, const trm_step *step) {
    update_state *s = op->state;
    const trm_op_desc *d = &op->desc;
    double t = (double)step->update, correct1 = 1 - pow(d->beta1, t), correct2 = 1 - pow(d->beta2, t);
    s->a.lr = (float)(step->lr / correct1);
    s->a.root_scale = (float)(1 / sqrt(correct2));
    s->a.shrink = (float)(d->optimizer == TRM_OPT_ADAMW ? step->lr * d->weight_decay : 0);
    s->a.grad_scale = (float)(step->inv_count * step->clip_factor);
    trm_cpu_kernels(op->device)->update(&s->a);
    return TRM_OK;
}

static trm_status rmsprop_run(trm_op *op, const trm_step *step) {
    update_state *s = op->state;
    s->a.lr = (float)step->lr;
    s->a.grad_scale = (float)(step->inv_count * step->clip_factor);
    trm_cpu_kernels(op->device)->rmsprop(&s->a);
    return TRM_OK;
}

/* The trust ratio: how long the weights are beside their step; 1 where one of them is 0. */
static trm_status lamb_run(trm_op *op, const trm_step *step) {
    update_state *s = op->state;
    const trm_kernels *k = trm_cpu_kernels(op->device);
    const trm_op_desc *d = &op->desc;
    double t = (double)step->update, *sum = op->scratch;
    s->a.moment_scale = (float)(1 / (1 - pow(d->beta1, t)));
    s->a.root_scale = (float)(1 / sqrt(1 - pow(d->beta2, t)));
    s->a.grad_scale = (float)(step->inv_count * step->clip_factor);
    k->lamb_moments(&s->a, sum);
    s->a.lr = (float)(step->lr * (sum[0] > 0 && sum[1] > 0 ? sqrt(sum[0] / sum[1]) : 1));
    k->lamb_step(&s->a);
    return TRM_OK;
}

static trm_status update_bind(trm_op *op) {
    update_state *s = op->state;
    const int moments = trm_optimizer_moments(op->desc.optimizer, op->desc.beta1);
    s->a.w = op->arg[TRM_ARG_W];
    s->a.g = op->arg[TRM_ARG_G];
    s->a.m1 = moments > 0 ? op->arg[TRM_ARG_M1] : NULL;
    s->a.m2 = moments > 1 ? op->arg[TRM_ARG_M2] : NULL;
    return TRM_OK;
}

static trm_cpu_run_fn run_of(trm_optimizer_kind k) {
    switch (k) {
    case TRM_OPT_SGD: return sgd_run;
    case TRM_OPT_RMSPROP: return rmsprop_run;
    case TRM_OPT_LAMB: return lamb_run;
    default: return adam_run;
    }
}

static trm_status plan_update(trm_device *d, trm_op *op) {
    const trm_op_desc *desc = &op->desc;
    const bool apart = desc->optimizer == TRM_OPT_ADAMW || desc->optimizer == TRM_OPT_LAMB;
    TRM_TRY(trm_cpu_own(op, sizeof(update_state), update_bind, run_of(desc->optimizer)));
    update_state *s = op->state;
    s->a = (trm_update){.count = desc->count,
                        .threads = d->threads,
                        .nesterov = desc->nesterov,
                        .l2 = (float)(apart ? 0 : desc->weight_decay),
                        .shrink = (float)(apart ? desc->weight_decay : 0),
                        .beta1 = (float)desc->beta1,
                        .rest1 = (float)(1 - desc->beta1),
                        .beta2 = (float)desc->beta2,
                        .rest2 = (float)(1 - desc->beta2),
                        .eps = (float)desc->eps};
    if (desc->optimizer == TRM_OPT_LAMB) op->scratch_bytes = 2 * (size_t)d->threads * sizeof(double);
    return TRM_OK;
}

static trm_status sumsq_run(trm_op *op, const trm_step *step) {
    step->tail[TRM_TAIL_SUMSQ] +=
        trm_cpu_kernels(op->device)
            ->sumsq(op->arg[TRM_ARG_G], op->desc.count, op->scratch, op->device->threads);
    return TRM_OK;
}

trm_status trm_cpu_plan_update(trm_device *d, trm_op *op) {
    if (op->desc.kind == TRM_OP_UPDATE) return plan_update(d, op);
    op->scratch_bytes = (size_t)d->threads * sizeof(double);
    return trm_cpu_own(op, sizeof(trm_cpu_state), NULL, sumsq_run);
}
