/* dense_bf16: the passes of a fully connected layer whose factors lie as bfloat16.  One library product each, summed in
 * float32; what surrounds it is float32 as in dense.c. */
#include <string.h>

#include "onednn.h"
#include "own.h"

typedef void (*half_act_fn)(uint16_t *y, float *z, const float *b, int64_t rows, int64_t cols, int threads);

typedef struct product_state {
    trm_cpu_state base;
    trm_dnn *product;
    int64_t rows, out;
    trm_bias_act_fn bias_act; /* FWD; NULL for none */
    half_act_fn half_act;     /* the same where Y lies as bfloat16 */
    bool fill;                /* FWD: Y holds the bias and the residual first, the product is added */
} product_state;

static product_state *state_of(const trm_op *op) { return op->state; }

static void destroy(trm_op *op) { trm_dnn_destroy(state_of(op)->product); }

/* ---- run ------------------------------------------------------------------------------ */

static trm_status run_fwd(trm_op *op, const trm_step *step) {
    (void)step;
    const product_state *s = state_of(op);
    const float *b = op->arg[TRM_ARG_B];
    float *y = op->arg[TRM_ARG_Y], *z = op->arg[TRM_ARG_PRE] ? op->arg[TRM_ARG_PRE] : y;
    int threads = op->device->threads;
    if (s->fill) trm_cpu_kernels(op->device)->fill_rows(y, b, op->arg[TRM_ARG_RES], s->rows, s->out, threads);
    TRM_TRY(trm_dnn_run(s->product));
    if (s->half_act)
        s->half_act(op->arg[TRM_ARG_Y], z, b, s->rows, s->out, threads);
    else if (s->bias_act)
        s->bias_act(y, z, b, s->rows, s->out, threads);
    return TRM_OK;
}

static trm_status run_bwd_x(trm_op *op, const trm_step *step) {
    (void)step;
    return trm_dnn_run(state_of(op)->product);
}

static trm_status run_bwd_w(trm_op *op, const trm_step *step) {
    (void)step;
    const product_state *s = state_of(op);
    TRM_TRY(trm_dnn_run(s->product));
    if (op->desc.bias)
        trm_cpu_kernels(op->device)
            ->column_sums_bf16(op->arg[TRM_ARG_DB], op->arg[TRM_ARG_DY], s->rows, s->out, op->desc.accumulate,
                               op->device->threads);
    return TRM_OK;
}

/* ---- plan ----------------------------------------------------------------------------- */

static trm_status bind(trm_op *op) {
    const product_state *s = state_of(op);
    bool x = op->desc.kind == TRM_OP_LINEAR_BWD_X, w = op->desc.kind == TRM_OP_LINEAR_BWD_W;
    void *z = op->arg[TRM_ARG_PRE] ? op->arg[TRM_ARG_PRE] : op->arg[TRM_ARG_Y];
    trm_dnn_bind(s->product, TRM_DNN_SRC, op->arg[x || w ? TRM_ARG_DY : TRM_ARG_X]);
    trm_dnn_bind(s->product, TRM_DNN_WEIGHTS, op->arg[w ? TRM_ARG_X : TRM_ARG_W]);
    trm_dnn_bind(s->product, TRM_DNN_DST, x ? op->arg[TRM_ARG_DX] : w ? op->arg[TRM_ARG_DW] : z);
    trm_dnn_bind(s->product, TRM_DNN_SCRATCH, op->scratch);
    return TRM_OK;
}

/* Those that keep what they are given. */
static half_act_fn choose_half_act(const trm_kernels *k, trm_act act) {
    switch (act) {
    case TRM_ACT_GELU: return k->bias_gelu_bf16;
    case TRM_ACT_GELU_TANH: return k->bias_gelu_tanh_bf16;
    default: return k->bias_silu_bf16;
    }
}

/* Y = X W^T, DX = DY W, DW = DY^T X */
static trm_dnn_product_spec spec_of(const trm_op_desc *o, const product_state *s, int64_t in) {
    switch (o->kind) {
    case TRM_OP_LINEAR_FWD: return (trm_dnn_product_spec){s->rows, s->out, in, false, true, s->fill};
    case TRM_OP_LINEAR_BWD_X: return (trm_dnn_product_spec){s->rows, in, s->out, false, false, o->accumulate};
    default: return (trm_dnn_product_spec){s->out, in, s->rows, true, false, o->accumulate};
    }
}

trm_status trm_cpu_plan_linear_bf16(trm_device *d, trm_op *op) {
    const trm_op_desc *o = &op->desc;
    trm_cpu_run_fn run = o->kind == TRM_OP_LINEAR_FWD     ? run_fwd
                         : o->kind == TRM_OP_LINEAR_BWD_X ? run_bwd_x
                                                          : run_bwd_w;
    TRM_TRY(trm_cpu_own(op, sizeof(product_state), bind, run));
    product_state *s = state_of(op);
    s->base.destroy = destroy;
    int64_t in = o->in.dim[o->in.rank - 1];
    s->out = o->out.dim[o->out.rank - 1];
    s->rows = o->n * (trm_shape_count(&o->in) / in);
    s->bias_act = trm_cpu_bias_act(trm_cpu_kernels(d), o->act);
    if (o->half & TRM_HALF(TRM_ARG_Y)) s->half_act = choose_half_act(trm_cpu_kernels(d), o->act);
    s->fill = o->kind == TRM_OP_LINEAR_FWD && !s->bias_act && (o->bias || o->residual);
    trm_dnn_product_spec spec = spec_of(o, s, in);
    TRM_TRY(trm_dnn_product(d, &spec, &s->product));
    op->scratch_bytes = trm_dnn_bytes(s->product, TRM_DNN_SCRATCH);
    snprintf(op->impl, sizeof op->impl, "bf16 %s", trm_dnn_impl(s->product));
    return TRM_OK;
}
