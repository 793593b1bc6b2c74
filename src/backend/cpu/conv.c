/* conv: convolution with oneDNN.
 *
 * Images lie as (H,W,C) throughout; the library says which layout of the weights it likes.  They are kept plain,
 * so every run first packs them into scratch memory, and a gradient is unpacked from there: some
 * microseconds beside a convolution's hundreds. */
#include "onednn.h"
#include "own.h"

typedef struct conv_state {
    trm_cpu_state base;
    trm_dnn *conv, *reorder;        /* reorder is NULL where plain weights suit */
    /* Offsets in scratch and whether the piece is there. */
    size_t weights_at, result_at, library_at;
    bool add_result;                /* DX or DB goes through scratch and is added */
    float *result;
    int64_t result_count;
} conv_state;

static conv_state *state_of(trm_op *op) { return op->state; }

static void conv_destroy(trm_op *op) {
    conv_state *s = state_of(op);
    trm_dnn_destroy(s->conv);
    trm_dnn_destroy(s->reorder);
}

/* ---- run ------------------------------------------------------------------------------ */

static trm_status run_fwd(trm_op *op, const trm_step *step) {
    (void)step;
    const conv_state *s = op->state;
    if (s->reorder) TRM_TRY(trm_dnn_run(s->reorder));
    return trm_dnn_run(s->conv);
}

static void add_result(const trm_op *op, const conv_state *s, trm_arg to) {
    if (!s->add_result) return;
    trm_cpu_kernels(op->device)->add_into(op->arg[to], s->result, s->result_count, op->device->threads);
}

static trm_status run_bwd_x(trm_op *op, const trm_step *step) {
    TRM_TRY(run_fwd(op, step));
    add_result(op, op->state, TRM_ARG_DX);
    return TRM_OK;
}

static trm_status run_bwd_w(trm_op *op, const trm_step *step) {
    (void)step;
    const conv_state *s = op->state;
    TRM_TRY(trm_dnn_run(s->conv));
    if (s->reorder) TRM_TRY(trm_dnn_run(s->reorder));
    add_result(op, s, TRM_ARG_DB);
    return TRM_OK;
}

/* ---- bind ----------------------------------------------------------------------------- */

static trm_status bind(trm_op *op) {
    conv_state *s = state_of(op);
    bool x = op->desc.kind == TRM_OP_CONV_BWD_X, w = op->desc.kind == TRM_OP_CONV_BWD_W;
    char *scratch = op->scratch;
    void *plain = op->arg[w ? TRM_ARG_DW : TRM_ARG_W], *packed = s->reorder ? scratch + s->weights_at : plain;
    void *bias = op->arg[w ? TRM_ARG_DB : TRM_ARG_B], *src = op->arg[x ? TRM_ARG_DX : TRM_ARG_X];
    if (s->add_result) s->result = (float *)(scratch + s->result_at);
    trm_dnn_bind(s->conv, TRM_DNN_SRC, x && s->add_result ? s->result : src);
    trm_dnn_bind(s->conv, TRM_DNN_WEIGHTS, packed);
    trm_dnn_bind(s->conv, TRM_DNN_BIAS, w && s->add_result ? s->result : bias);
    trm_dnn_bind(s->conv, TRM_DNN_DST, op->arg[x || w ? TRM_ARG_DY : TRM_ARG_Y]);
    trm_dnn_bind(s->conv, TRM_DNN_SCRATCH, scratch + s->library_at);
    if (!s->reorder) return TRM_OK;
    trm_dnn_bind(s->reorder, TRM_DNN_SRC, w ? packed : plain);
    trm_dnn_bind(s->reorder, TRM_DNN_DST, w ? plain : packed);
    trm_dnn_bind(s->reorder, TRM_DNN_SCRATCH, scratch + s->library_at);
    return TRM_OK;
}

/* ---- plan ----------------------------------------------------------------------------- */

static size_t at(size_t *used, size_t bytes) {
    size_t begin = *used;
    *used = trm_round_up(begin + bytes, TRM_ALIGN);
    return begin;
}

/* The gradient that the library cannot add to: of X, or of the biases. */
static int64_t added_count(const trm_op_desc *d) {
    if (!d->accumulate || d->kind == TRM_OP_CONV_FWD) return 0;
    if (d->kind == TRM_OP_CONV_BWD_X) return d->n * trm_shape_count(&d->in);
    return d->bias ? d->out.dim[0] : 0;
}

static void lay_out_scratch(trm_op *op, conv_state *s) {
    size_t used = 0;
    s->result_count = added_count(&op->desc);
    s->add_result = s->result_count > 0;
    s->result_at = at(&used, (size_t)s->result_count * sizeof(float));
    s->weights_at = at(&used, s->reorder ? trm_dnn_bytes(s->conv, TRM_DNN_WEIGHTS) : 0);
    size_t conv = trm_dnn_bytes(s->conv, TRM_DNN_SCRATCH);
    size_t reorder = s->reorder ? trm_dnn_bytes(s->reorder, TRM_DNN_SCRATCH) : 0;
    s->library_at = at(&used, conv > reorder ? conv : reorder);
    op->scratch_bytes = used;
}

trm_status trm_cpu_plan_conv(trm_device *d, trm_op *op) {
    bool w = op->desc.kind == TRM_OP_CONV_BWD_W;
    trm_cpu_run_fn run = w ? run_bwd_w : op->desc.kind == TRM_OP_CONV_BWD_X ? run_bwd_x : run_fwd;
    TRM_TRY(trm_cpu_own(op, sizeof(conv_state), bind, run));
    conv_state *s = state_of(op);
    s->base.destroy = conv_destroy;
    TRM_TRY(trm_dnn_conv(d, &op->desc, &s->conv));
    TRM_TRY(trm_dnn_conv_weights(d, &op->desc, s->conv, !w, w && op->desc.accumulate, &s->reorder));
    snprintf(op->impl, sizeof op->impl, "%s", trm_dnn_impl(s->conv));
    lay_out_scratch(op, s);
    return TRM_OK;
}
