/* ref/dense: linear layers, convolution and pooling. */
#include "ref_impl.h"

static trm_ref_dense dense_of(const trm_op *op) {
    const trm_shape *in = &op->desc.in, *out = &op->desc.out;
    int64_t last = in->dim[in->rank - 1];
    return (trm_ref_dense){trm_ref_in_count(op) / last, last, out->dim[out->rank - 1]};
}

trm_status trm_ref_run_LINEAR_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_dense s = dense_of(op);
    trm_ref_linear_fwd(&s, REF(X), REF(W), REF(B), REF(RES), REF(Y));
    for (int64_t i = 0; i < s.rows * s.out && REF(PRE); i++) REF(PRE)[i] = REF(Y)[i];
    trm_ref_apply_act(op->desc.act, s.rows * s.out, REF(Y));
    return TRM_OK;
}

trm_status trm_ref_run_LINEAR_BWD_X(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_dense s = dense_of(op);
    trm_ref_linear_bwd_x(&s, REF(DY), REF(W), op->desc.accumulate, REF(DX));
    return TRM_OK;
}

trm_status trm_ref_run_LINEAR_BWD_W(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_dense s = dense_of(op);
    trm_ref_linear_bwd_w(&s, REF(DY), REF(X), op->desc.accumulate, REF(DW), REF(DB));
    return TRM_OK;
}

/* The windows of a convolution or pooling; those of a transpose go from its output to its input. */
static trm_ref_window window_of(const trm_op *op) {
    const trm_op_desc *d = &op->desc;
    const trm_shape *in = d->transposed ? &d->out : &d->in, *out = d->transposed ? &d->in : &d->out;
    const int axes = in->rank - 1;
    trm_ref_window s = {
        .n = d->n,
        .c = in->dim[0],
        .o = out->dim[0],
        .in = {1, 1, 1},
        .out = {1, 1, 1},
        .kernel = {1, 1, 1},
        .stride = {1, 1, 1},
        .groups = d->groups,
        .adaptive = d->adaptive,
    };
    for (int a = 0; a < axes; a++) {
        const int to = a + TRM_MAX_AXES - axes;
        s.in[to] = in->dim[1 + a];
        s.out[to] = out->dim[1 + a];
        s.kernel[to] = d->kernel[a];
        s.stride[to] = d->stride[a];
        s.pad[to] = d->pad[a];
        s.gap[to] = d->gap[a];
    }
    return s;
}

trm_status trm_ref_run_CONV_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_window s = window_of(op);
    if (op->desc.transposed)
        trm_ref_conv_transposed_fwd(&s, REF(X), REF(W), REF(B), REF(Y));
    else
        trm_ref_conv_fwd(&s, REF(X), REF(W), REF(B), REF(Y));
    trm_ref_apply_act(op->desc.act, trm_ref_out_count(op), REF(Y));
    return TRM_OK;
}

trm_status trm_ref_run_CONV_BWD_X(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_window s = window_of(op);
    if (op->desc.transposed)
        trm_ref_conv_transposed_bwd_x(&s, REF(DY), REF(W), op->desc.accumulate, REF(DX));
    else
        trm_ref_conv_bwd_x(&s, REF(DY), REF(W), op->desc.accumulate, REF(DX));
    return TRM_OK;
}

trm_status trm_ref_run_CONV_BWD_W(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_window s = window_of(op);
    if (op->desc.transposed)
        trm_ref_conv_transposed_bwd_w(&s, REF(DY), REF(X), op->desc.accumulate, REF(DW), REF(DB));
    else
        trm_ref_conv_bwd_w(&s, REF(DY), REF(X), op->desc.accumulate, REF(DW), REF(DB));
    return TRM_OK;
}

trm_status trm_ref_run_POOL_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_window s = window_of(op);
    if (op->desc.pool == TRM_POOL_MAX)
        trm_ref_pool_max_fwd(&s, REF(X), REF(Y));
    else
        trm_ref_pool_avg_fwd(&s, REF(X), REF(Y));
    return TRM_OK;
}

/* The maximum is looked for again in X, so nothing is saved. */
trm_status trm_ref_run_POOL_BWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_window s = window_of(op);
    if (op->desc.pool == TRM_POOL_MAX)
        trm_ref_pool_max_bwd(&s, REF(X), REF(DY), op->desc.accumulate, REF(DX));
    else
        trm_ref_pool_avg_bwd(&s, REF(DY), op->desc.accumulate, REF(DX));
    return TRM_OK;
}
