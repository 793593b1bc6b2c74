/* ref: the back end that every other one is compared with.  float64, one thread, no state; an op
 * is its description, its arguments and one call of a plain function in kernels/ref. */
#include "ref_impl.h"

static const trm_ref_run_fn run_of[TRM_OP_COUNT] = {
#define X(name) [TRM_OP_##name] = trm_ref_run_##name,
    TRM_OP_LIST(X)
#undef X
};

/* What forward leaves for backward. */
static size_t saved_doubles(const trm_op_desc *d) {
    int64_t last = d->in.rank > 0 ? d->in.dim[d->in.rank - 1] : 1;
    switch (d->kind) {
    case TRM_OP_LN_FWD:
    case TRM_OP_LN_BWD:
        return (size_t)(2 * d->n * trm_shape_count(&d->in) / last); /* mean and 1/sd of a row */
    case TRM_OP_GN_FWD:
    case TRM_OP_GN_BWD: return (size_t)(2 * d->n * d->groups); /* the same of a sample and group */
    case TRM_OP_ATTN_FWD:
    case TRM_OP_ATTN_BWD: return (size_t)(d->n * d->heads * d->in.dim[0]); /* log-sum-exp of a row */
    default: return 0;
    }
}

/* Mean and variance per channel; one row of attention scores. */
static size_t scratch_doubles(const trm_op_desc *d) {
    switch (d->kind) {
    case TRM_OP_BN_APPLY:
    case TRM_OP_BN_GRAD_SUMS:
    case TRM_OP_BN_GRAD_APPLY: return (size_t)(2 * d->in.dim[0]);
    case TRM_OP_ATTN_FWD: return (size_t)d->in.dim[0];
    default: return 0;
    }
}

static trm_status plan(trm_device *d, trm_op *op) {
    if (op->desc.half) return trm_device_half(d);
    op->run = run_of[op->desc.kind];
    op->saved_bytes = saved_doubles(&op->desc) * sizeof(double);
    op->scratch_bytes = scratch_doubles(&op->desc) * sizeof(double);
    snprintf(op->impl, sizeof op->impl, "ref");
    return TRM_OK;
}

extern const trm_backend trm_backend_ref;
const trm_backend trm_backend_ref = {
    .name = "ref",
    .about = "float64, one thread, slow and obvious: the oracle of the tests",
    .float_size = sizeof(double),
    .plan = plan,
};
