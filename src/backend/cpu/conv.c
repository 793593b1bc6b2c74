/* conv: convolution and its transpose with oneDNN.
 *
 * Channels lie last throughout; the library says which layout of the weights it likes.  They are kept plain,
 * so every run first packs them into scratch memory, and a gradient is unpacked from there: some
 * microseconds beside a convolution's hundreds.
 *
 * The transpose sends every product of a convolution the other way, so its forward pass is that convolution's gradient
 * by X, and the other way round; biases are added by a loop behind it.  `plain` below is the convolution as the library
 * sees it: its SRC is the side that the transpose writes. */
#include <string.h>

#include "onednn.h"
#include "own.h"

typedef struct conv_state {
    trm_cpu_state base;
    trm_dnn *conv, *reorder;                  /* reorder is NULL where plain weights suit */
    size_t weights_at, result_at, library_at; /* pieces of scratch */
    bool add; /* BWD_X: the library cannot add to DX, so its result goes to scratch first */
} conv_state;

static trm_op_desc plain_of(const trm_op_desc *d) {
    trm_op_desc p = *d;
    if (!d->transposed) return p;
    p.in = d->out;
    p.out = d->in;
    p.transposed = p.bias = false;
    p.act = TRM_ACT_NONE;
    if (d->kind == TRM_OP_CONV_FWD) p.kind = TRM_OP_CONV_BWD_X;
    if (d->kind == TRM_OP_CONV_BWD_X) p.kind = TRM_OP_CONV_FWD;
    return p;
}

static conv_state *state_of(const trm_op *op) { return op->state; }

static void conv_destroy(trm_op *op) {
    conv_state *s = state_of(op);
    trm_dnn_destroy(s->conv);
    trm_dnn_destroy(s->reorder);
}

/* ---- run ------------------------------------------------------------------------------ */

static trm_status run_fwd(trm_op *op, const trm_step *step) {
    (void)step;
    const conv_state *s = state_of(op);
    if (s->reorder) TRM_TRY(trm_dnn_run(s->reorder));
    return trm_dnn_run(s->conv);
}

/* Biases and relu of a transpose. */
static trm_status run_transposed_fwd(trm_op *op, const trm_step *step) {
    const trm_kernels *k = trm_cpu_kernels(op->device);
    const trm_shape *out = &op->desc.out;
    float *y = op->arg[TRM_ARG_Y];
    const float *b = op->arg[TRM_ARG_B];
    TRM_TRY(run_fwd(op, step));
    int64_t rows = op->desc.n * (trm_shape_count(out) / out->dim[0]);
    if (op->desc.act == TRM_ACT_RELU)
        k->bias_relu(y, y, b, rows, out->dim[0], op->device->threads);
    else if (b)
        k->fill_rows(y, b, y, rows, out->dim[0], op->device->threads);
    return TRM_OK;
}

static trm_status run_bwd_x(trm_op *op, const trm_step *step) {
    const conv_state *s = state_of(op);
    TRM_TRY(run_fwd(op, step));
    if (!s->add) return TRM_OK;
    const float *result = (const float *)((char *)op->scratch + s->result_at);
    int64_t count = op->desc.n * trm_shape_count(&op->desc.in);
    trm_cpu_kernels(op->device)->add_into(op->arg[TRM_ARG_DX], result, count, op->device->threads);
    return TRM_OK;
}

static void sum_biases(const trm_op *op) {
    const trm_op_desc *d = &op->desc;
    const trm_kernels *k = trm_cpu_kernels(op->device);
    int64_t rows = d->n * (trm_shape_count(&d->out) / d->out.dim[0]), cols = d->out.dim[0];
    if (d->half)
        k->column_sums_bf16(op->arg[TRM_ARG_DB], op->arg[TRM_ARG_DY], rows, cols, d->accumulate,
                            op->device->threads);
    else
        k->column_sums(op->arg[TRM_ARG_DB], op->arg[TRM_ARG_DY], rows, cols, d->accumulate,
                       op->device->threads);
}

static trm_status run_bwd_w(trm_op *op, const trm_step *step) {
    (void)step;
    const conv_state *s = state_of(op);
    TRM_TRY(trm_dnn_run(s->conv));
    if (s->reorder) TRM_TRY(trm_dnn_run(s->reorder));
    if (op->desc.bias) sum_biases(op);
    return TRM_OK;
}

/* ---- bind ----------------------------------------------------------------------------- */

static trm_status bind(trm_op *op) {
    const conv_state *s = state_of(op);
    const trm_op_kind kind = op->desc.kind;
    bool w = kind == TRM_OP_CONV_BWD_W, transposed = op->desc.transposed;
    char *scratch = op->scratch;
    void *plain = op->arg[w ? TRM_ARG_DW : TRM_ARG_W], *packed = s->reorder ? scratch + s->weights_at : plain;
    void *in = op->arg[kind == TRM_OP_CONV_BWD_X ? TRM_ARG_DX : TRM_ARG_X];
    void *out = op->arg[kind == TRM_OP_CONV_FWD ? TRM_ARG_Y : TRM_ARG_DY];
    if (s->add) in = scratch + s->result_at;
    trm_dnn_bind(s->conv, TRM_DNN_SRC, transposed ? out : in);
    trm_dnn_bind(s->conv, TRM_DNN_WEIGHTS, packed);
    trm_dnn_bind(s->conv, TRM_DNN_BIAS, op->arg[TRM_ARG_B]);
    trm_dnn_bind(s->conv, TRM_DNN_DST, transposed ? in : out);
    trm_dnn_bind(s->conv, TRM_DNN_SCRATCH, scratch + s->library_at);
    if (!s->reorder) return TRM_OK;
    trm_dnn_bind(s->reorder, TRM_DNN_SRC, w ? packed : plain);
    trm_dnn_bind(s->reorder, TRM_DNN_DST, w ? plain : packed);
    trm_dnn_bind(s->reorder, TRM_DNN_SCRATCH, scratch + s->library_at);
    return TRM_OK;
}

/* ---- plan ----------------------------------------------------------------------------- */

static size_t take(size_t *used, size_t bytes) {
    size_t begin = *used;
    *used = trm_round_up(begin + bytes, TRM_ALIGN);
    return begin;
}

static void lay_out_scratch(trm_op *op, conv_state *s) {
    const trm_op_desc *o = &op->desc;
    size_t used = 0, conv = trm_dnn_bytes(s->conv, TRM_DNN_SCRATCH);
    size_t reorder = s->reorder ? trm_dnn_bytes(s->reorder, TRM_DNN_SCRATCH) : 0;
    s->add = o->kind == TRM_OP_CONV_BWD_X && o->accumulate;
    s->weights_at = take(&used, s->reorder ? trm_dnn_bytes(s->conv, TRM_DNN_WEIGHTS) : 0);
    s->library_at = take(&used, conv > reorder ? conv : reorder);
    s->result_at = take(&used, s->add ? (size_t)(o->n * trm_shape_count(&o->in)) * sizeof(float) : 0);
    op->scratch_bytes = used;
}

static trm_cpu_run_fn run_of(const trm_op_desc *d) {
    if (d->kind == TRM_OP_CONV_BWD_W) return run_bwd_w;
    if (d->kind == TRM_OP_CONV_BWD_X) return run_bwd_x;
    return d->transposed ? run_transposed_fwd : run_fwd;
}

trm_status trm_cpu_plan_conv(trm_device *d, trm_op *op) {
    const trm_op_desc plain = plain_of(&op->desc);
    bool w = plain.kind == TRM_OP_CONV_BWD_W;
    TRM_TRY(trm_cpu_own(op, sizeof(conv_state), bind, run_of(&op->desc)));
    conv_state *s = state_of(op);
    s->base.destroy = conv_destroy;
    TRM_TRY(trm_dnn_conv(d, &plain, &s->conv));
    TRM_TRY(trm_dnn_conv_weights(d, &plain, s->conv, !w, w && plain.accumulate, &s->reorder));
    snprintf(op->impl, sizeof op->impl, "%s%s", op->desc.half ? "bf16 " : "", trm_dnn_impl(s->conv));
    lay_out_scratch(op, s);
    return TRM_OK;
}

/* ---- bfloat16 --------------------------------------------------------------------------- */

/* Not the library's reference implementation, which is slower by orders of magnitude. */
static bool fast_pass(const trm_device *d, const trm_op_desc *forward, trm_op_kind kind, uint32_t factors) {
    trm_op_desc pass = *forward;
    trm_dnn *conv;
    pass.kind = kind;
    pass.n = 1;
    pass.half = factors;
    if (trm_dnn_conv(d, &pass, &conv) != TRM_OK) return false;
    bool fast = strncmp(trm_dnn_impl(conv), "ref", 3) != 0;
    trm_dnn_destroy(conv);
    return fast;
}

bool trm_cpu_conv_half_pays(const trm_device *d, const trm_op_desc *forward) {
    if (forward->transposed) return false;
    const uint32_t x = TRM_HALF(TRM_ARG_X), w = TRM_HALF(TRM_ARG_W), dy = TRM_HALF(TRM_ARG_DY);
    return fast_pass(d, forward, TRM_OP_CONV_FWD, x | w) &&
           fast_pass(d, forward, TRM_OP_CONV_BWD_X, dy | w) &&
           fast_pass(d, forward, TRM_OP_CONV_BWD_W, dy | x);
}
