/* ref/norm: batch norm in its four steps, layer norm, group norm. */
#include "ref_impl.h"

/* Batch norm with moments of this micro-batch (out of STAT), which lie in scratch. */
static trm_ref_bn batch_norm_of(const trm_op *op) {
    int64_t c = op->desc.in.dim[0];
    double *mean = op->scratch, *var = mean + c;
    trm_ref_bn_moments(c, REF(STAT), mean, var);
    return (trm_ref_bn){trm_ref_in_count(op) / c, c, op->desc.eps, mean, var};
}

trm_status trm_ref_run_BN_STATS(trm_op *op, const trm_step *step) {
    (void)step;
    int64_t c = op->desc.in.dim[0];
    trm_ref_bn_stats(trm_ref_in_count(op) / c, c, REF(X), REF(STAT));
    return TRM_OK;
}

trm_status trm_ref_run_BN_APPLY(trm_op *op, const trm_step *step) {
    (void)step;
    int64_t c = op->desc.in.dim[0], rows = trm_ref_in_count(op) / c;
    trm_ref_bn s = {rows, c, op->desc.eps, REF(RUN_MEAN), REF(RUN_VAR)};
    if (op->desc.train) s = batch_norm_of(op);
    trm_ref_bn_apply(&s, REF(X), REF(W), REF(B), REF(RES), REF(Y));
    trm_ref_apply_act(op->desc.act, rows * c, REF(Y));
    return TRM_OK;
}

trm_status trm_ref_run_BN_RUN(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_bn_running(op->desc.in.dim[0], REF(STAT), op->desc.momentum, REF(RUN_MEAN), REF(RUN_VAR));
    return TRM_OK;
}

static void add_or_set(int64_t n, const double *from, bool acc, double *to) {
    for (int64_t i = 0; i < n; i++) to[i] = acc ? to[i] + from[i] : from[i];
}

trm_status trm_ref_run_BN_GRAD_SUMS(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_bn s = batch_norm_of(op);
    if (op->desc.act == TRM_ACT_RELU)
        trm_ref_act_bwd(TRM_REF_RELU, s.rows * s.c, REF(Y), REF(DY), false, REF(DY));
    trm_ref_bn_grad_sums(&s, REF(X), REF(DY), REF(GSTAT));
    add_or_set(s.c, REF(GSTAT), op->desc.accumulate, REF(DB));
    add_or_set(s.c, REF(GSTAT) + s.c, op->desc.accumulate, REF(DW));
    return TRM_OK;
}

trm_status trm_ref_run_BN_GRAD_APPLY(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_bn s = batch_norm_of(op);
    trm_ref_bn_grad g = {REF(GSTAT), REF(W), REF(STAT)[2 * s.c], op->desc.accumulate};
    trm_ref_bn_grad_apply(&s, &g, REF(X), REF(DY), REF(DX));
    return TRM_OK;
}

static trm_ref_ln layer_norm_of(const trm_op *op) {
    const trm_shape *in = &op->desc.in;
    int64_t last = in->dim[in->rank - 1];
    return (trm_ref_ln){trm_ref_in_count(op) / last, last, op->desc.eps};
}

trm_status trm_ref_run_LN_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_ln s = layer_norm_of(op);
    trm_ref_ln_fwd(&s, REF(X), REF(W), REF(B), REF(Y), REF(SAVED));
    return TRM_OK;
}

trm_status trm_ref_run_LN_BWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_ln s = layer_norm_of(op);
    trm_ref_ln_bwd_w(&s, REF(X), REF(DY), REF(SAVED), op->desc.accumulate_w, REF(DW), REF(DB));
    trm_ref_ln_bwd_x(&s, REF(X), REF(DY), REF(W), REF(SAVED), op->desc.accumulate, REF(DX));
    return TRM_OK;
}

static trm_ref_gn group_norm_of(const trm_op *op) {
    const trm_op_desc *d = &op->desc;
    int64_t c = d->in.dim[0];
    return (trm_ref_gn){d->n, trm_shape_count(&d->in) / c, c, d->groups, d->eps};
}

trm_status trm_ref_run_GN_FWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_gn s = group_norm_of(op);
    trm_ref_gn_fwd(&s, REF(X), REF(W), REF(B), REF(Y), REF(SAVED));
    return TRM_OK;
}

trm_status trm_ref_run_GN_BWD(trm_op *op, const trm_step *step) {
    (void)step;
    trm_ref_gn s = group_norm_of(op);
    trm_ref_gn_bwd_w(&s, REF(X), REF(DY), REF(SAVED), op->desc.accumulate_w, REF(DW), REF(DB));
    trm_ref_gn_bwd_x(&s, REF(X), REF(DY), REF(W), REF(SAVED), op->desc.accumulate, REF(DX));
    return TRM_OK;
}
