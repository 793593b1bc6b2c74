/* ref/ends: where a step begins and ends: loads, losses, updates. */
#include "ref_impl.h"

static trm_status load(const trm_op *op, const void *raw) {
    const trm_op_desc *d = &op->desc;
    trm_ref_image m = trm_ref_image_of(&d->out);
    trm_ref_load s = {m.c, m.pixels, d->raw_type, d->raw_hwc, d->scale, d->mean, d->std, d->norm_count};
    int64_t size = trm_shape_count(&d->out);
    for (int64_t i = 0; i < d->n; i++) {
        const char *from = (const char *)raw + (d->first + i) * d->raw_stride;
        if (d->out_tokens)
            trm_ref_load_tokens(size, d->raw_type, from, (int32_t *)op->arg[TRM_ARG_Y] + i * size);
        else
            trm_ref_load_floats(&s, from, REF(Y) + i * size);
    }
    return TRM_OK;
}

trm_status trm_ref_run_LOAD_X(trm_op *op, const trm_step *step) { return load(op, step->x_raw); }
trm_status trm_ref_run_LOAD_Y(trm_op *op, const trm_step *step) { return load(op, step->y_raw); }

static void add_to_tail(const trm_step *step, const trm_ref_loss *sum) {
    step->tail[TRM_TAIL_LOSS] += sum->loss;
    step->tail[TRM_TAIL_COUNT] += sum->count;
    step->tail[TRM_TAIL_CORRECT] += sum->correct;
}

trm_status trm_ref_run_LOSS_CE(trm_op *op, const trm_step *step) {
    const trm_shape *in = &op->desc.in;
    const int32_t *t = op->arg[TRM_ARG_T];
    int64_t c = in->dim[trm_shape_channel_dim(in)], rows = trm_ref_in_count(op) / c;
    trm_ref_ce s = {rows, c, op->desc.smoothing, op->desc.ignores, op->desc.ignore};
    trm_ref_loss sum = {0};
    for (int64_t r = 0; r < rows; r++)
        if ((t[r] < 0 || t[r] >= c) && !(s.ignores && t[r] == s.ignore))
            return trm_fail(TRM_DATA, "class %d of row %lld is outside of [0, %lld)", (int)t[r], (long long)r,
                            (long long)c);
    trm_ref_cross_entropy(&s, REF(X), t, REF(DX), &sum);
    add_to_tail(step, &sum);
    return TRM_OK;
}

trm_status trm_ref_run_LOSS_MSE(trm_op *op, const trm_step *step) {
    trm_ref_loss sum = {0};
    trm_ref_mean_squares(op->desc.n, trm_shape_count(&op->desc.in), REF(X), REF(T), REF(DX), &sum);
    add_to_tail(step, &sum);
    return TRM_OK;
}

trm_status trm_ref_run_LOSS_BCE(trm_op *op, const trm_step *step) {
    trm_ref_loss sum = {0};
    trm_ref_binary_cross_entropy(op->desc.n, trm_shape_count(&op->desc.in), REF(X), REF(T), REF(DX), &sum);
    add_to_tail(step, &sum);
    return TRM_OK;
}

trm_status trm_ref_run_UPDATE(trm_op *op, const trm_step *step) {
    const trm_op_desc *d = &op->desc;
    trm_ref_update s = {
        .n = d->count,
        .update = step->update,
        .lr = step->lr,
        .beta1 = d->beta1,
        .beta2 = d->beta2,
        .eps = d->eps,
        .weight_decay = d->weight_decay,
        .grad_scale = step->inv_count * step->clip_factor,
        .nesterov = d->nesterov,
        .decoupled = d->optimizer == TRM_OPT_ADAMW,
    };
    switch (d->optimizer) {
    case TRM_OPT_SGD: trm_ref_sgd(&s, REF(G), REF(M1), REF(W)); break;
    case TRM_OPT_RMSPROP: trm_ref_rmsprop(&s, REF(G), REF(M1), REF(M2), REF(W)); break;
    case TRM_OPT_LAMB: trm_ref_lamb(&s, REF(G), REF(M1), REF(M2), REF(W)); break;
    default: trm_ref_adam(&s, REF(G), REF(M1), REF(M2), REF(W));
    }
    return TRM_OK;
}

trm_status trm_ref_run_SUMSQ(trm_op *op, const trm_step *step) {
    step->tail[TRM_TAIL_SUMSQ] += trm_ref_sumsq(op->desc.count, REF(G));
    return TRM_OK;
}
