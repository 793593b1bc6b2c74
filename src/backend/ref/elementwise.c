/* ref/elementwise: activations, softmax, dropout, flatten, concat, sums and copies. */
#include "ref_impl.h"

static trm_ref_act act_of(trm_act a) {
    switch (a) {
    case TRM_ACT_GELU: return TRM_REF_GELU;
    case TRM_ACT_GELU_TANH: return TRM_REF_GELU_TANH;
    case TRM_ACT_TANH: return TRM_REF_TANH;
    case TRM_ACT_SIGMOID: return TRM_REF_SIGMOID;
    case TRM_ACT_SILU: return TRM_REF_SILU;
    default: return TRM_REF_RELU;
    }
}

void trm_ref_apply_act(trm_act act, int64_t n, double *y) {
    if (act != TRM_ACT_NONE) trm_ref_act_fwd(act_of(act), n, y, y);
}

trm_status trm_ref_run_ACT_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_act_fwd(act_of(op->desc.act), trm_ref_in_count(op), REF(X), REF(Y));
    return TRM_OK;
}

/* The binding has left only that one of X and Y from which the slope is computed. */
trm_status trm_ref_run_ACT_BWD(trm_op *op, const trm_step *step) {
    (void)step;
    const double *x_or_y = REF(X) ? REF(X) : REF(Y);
    trm_ref_act_bwd(act_of(op->desc.act), trm_ref_in_count(op), x_or_y, REF(DY), op->desc.accumulate,
                    REF(DX));
    return TRM_OK;
}

trm_status trm_ref_run_SOFTMAX_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    int64_t c = trm_shape_channels(&op->desc.in);
    trm_ref_softmax_fwd(trm_ref_in_count(op) / c, c, REF(X), REF(Y));
    return TRM_OK;
}

trm_status trm_ref_run_SOFTMAX_BWD(trm_op *op, const trm_step *step) {
    (void)step;
    int64_t c = trm_shape_channels(&op->desc.in);
    trm_ref_softmax_bwd(trm_ref_in_count(op) / c, c, REF(Y), REF(DY), op->desc.accumulate, REF(DX));
    return TRM_OK;
}

/* Both phases scale by the same mask. */
static void drop(const trm_op *op, const trm_step *step, const double *in, bool acc, double *out) {
    const trm_op_desc *d = &op->desc;
    trm_ref_image m = trm_ref_image_of(&d->in);
    trm_ref_dropout s = {m.c, m.pixels, d->p};
    for (int64_t i = 0; i < d->n; i++) {
        trm_rng_key key = {d->seed, TRM_RNG_DROPOUT, d->layer, (uint64_t)step->update,
                           (uint64_t)step->sample[d->first + i]};
        int64_t at = i * m.c * m.pixels;
        trm_ref_dropout_sample(&s, &key, in + at, acc, out + at);
    }
}

trm_status trm_ref_run_DROPOUT_FWD(trm_op *op, const trm_step *step) {
    drop(op, step, REF(X), false, REF(Y));
    return TRM_OK;
}

trm_status trm_ref_run_DROPOUT_BWD(trm_op *op, const trm_step *step) {
    drop(op, step, REF(DY), op->desc.accumulate, REF(DX));
    return TRM_OK;
}

trm_status trm_ref_run_FLATTEN_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_image m = trm_ref_image_of(&op->desc.in);
    trm_ref_flatten_fwd(op->desc.n, m.c, m.pixels, REF(X), REF(Y));
    return TRM_OK;
}

trm_status trm_ref_run_FLATTEN_BWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_image m = trm_ref_image_of(&op->desc.in);
    trm_ref_flatten_bwd(op->desc.n, m.c, m.pixels, REF(DY), op->desc.accumulate, REF(DX));
    return TRM_OK;
}

/* The way back of a flatten, and its gradient the way there. */
trm_status trm_ref_run_UNFLATTEN_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_image m = trm_ref_image_of(&op->desc.out);
    trm_ref_flatten_bwd(op->desc.n, m.c, m.pixels, REF(X), false, REF(Y));
    return TRM_OK;
}

trm_status trm_ref_run_UNFLATTEN_BWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_image m = trm_ref_image_of(&op->desc.out);
    int64_t size = m.c * m.pixels;
    for (int64_t i = 0; i < op->desc.n * size; i++) {
        double d = REF(DY)[i / size * size + trm_ref_channels_last(m.c, m.pixels, i % size)];
        REF(DX)[i] = op->desc.accumulate ? REF(DX)[i] + d : d;
    }
    return TRM_OK;
}

static trm_ref_concat concat_of(const trm_op *op) {
    int64_t c = trm_shape_channels(&op->desc.in);
    return (trm_ref_concat){trm_ref_in_count(op) / c, c, trm_shape_channels(&op->desc.out), op->desc.at};
}

trm_status trm_ref_run_CONCAT_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_concat s = concat_of(op);
    trm_ref_concat_fwd(&s, REF(X), REF(Y));
    return TRM_OK;
}

trm_status trm_ref_run_CONCAT_BWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_concat s = concat_of(op);
    trm_ref_concat_bwd(&s, REF(DY), op->desc.accumulate, REF(DX));
    return TRM_OK;
}

trm_status trm_ref_run_ADD_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_add(trm_ref_in_count(op), REF(X), REF(X2), REF(Y));
    trm_ref_apply_act(op->desc.act, trm_ref_in_count(op), REF(Y));
    return TRM_OK;
}

trm_status trm_ref_run_ADD_INTO(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_add(trm_ref_in_count(op), REF(DX), REF(DY), REF(DX));
    return TRM_OK;
}

trm_status trm_ref_run_COPY(trm_op *op, const trm_step *step) {
    (void)step;
    for (int64_t i = 0; i < trm_ref_in_count(op); i++) REF(DX)[i] = REF(DY)[i];
    return TRM_OK;
}

/* Whoever compares knows what a rounding is; here nothing lies as bfloat16. */
trm_status trm_ref_run_CAST(trm_op *op, const trm_step *step) {
    (void)step;
    for (int64_t i = 0; i < trm_ref_in_count(op); i++) REF(Y)[i] = REF(X)[i];
    return TRM_OK;
}
