/* Element-wise ops, softmax, concat, casts and the change of order of flatten: which loop of kernels/cpu/elementwise.c each one is. */
#include "own.h"

typedef void (*act_fn)(const float *x, float *y, int64_t n, int threads);
typedef void (*act_grad_fn)(const float *from, const float *dy, float *dx, int64_t n, bool accumulate,
                            int threads);

typedef void (*act_grad_half_fn)(const float *from, const float *dy, uint16_t *dx, int64_t n, int threads);

typedef struct map_state {
    trm_cpu_state base;
    int64_t elements; /* of all samples */
    act_fn act;
    act_grad_fn act_grad;
    act_grad_half_fn act_grad_half;
    trm_arg from;             /* act_grad: where the slope comes from */
    int64_t channels, pixels; /* flatten, unflatten */
    int64_t row, wide;        /* softmax, concat: channels of X and of Y */
    trm_dropout drop;
} map_state;

/* ---- activations -------------------------------------------------------------------- */

static trm_status act_fwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const map_state *s = op->state;
    s->act(op->arg[TRM_ARG_X], op->arg[TRM_ARG_Y], s->elements, op->device->threads);
    return TRM_OK;
}

static trm_status act_bwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const map_state *s = op->state;
    if (op->desc.half) {
        s->act_grad_half(op->arg[s->from], op->arg[TRM_ARG_DY], op->arg[TRM_ARG_DX], s->elements,
                         op->device->threads);
        return TRM_OK;
    }
    s->act_grad(op->arg[s->from], op->arg[TRM_ARG_DY], op->arg[TRM_ARG_DX], s->elements, op->desc.accumulate,
                op->device->threads);
    return TRM_OK;
}

static trm_status choose_act(trm_op *op) {
    const trm_kernels *k = trm_cpu_kernels(op->device);
    map_state *s = op->state;
    switch (op->desc.act) {
#define USE(name, source)                                                                   \
    s->act = k->act_##name, s->act_grad = k->act_##name##_grad, s->from = TRM_ARG_##source, \
    s->act_grad_half = k->act_##name##_grad_bf16;                                           \
    return TRM_OK
    case TRM_ACT_RELU: USE(relu, Y);
    case TRM_ACT_TANH: USE(tanh, Y);
    case TRM_ACT_SIGMOID: USE(sigmoid, Y);
    case TRM_ACT_GELU: USE(gelu, X);
    case TRM_ACT_GELU_TANH: USE(gelu_tanh, X);
    case TRM_ACT_SILU: USE(silu, X);
#undef USE
    default: break;
    }
    return trm_fail(TRM_INTERNAL, "activation %s has no loop", trm_act_name(op->desc.act));
}

/* ---- sums and copies ---------------------------------------------------------------- */

static trm_status add_run(trm_op *op, const trm_step *step) {
    (void)step;
    const map_state *s = op->state;
    trm_cpu_kernels(op->device)
        ->add(op->arg[TRM_ARG_X], op->arg[TRM_ARG_X2], op->arg[TRM_ARG_Y], s->elements,
              op->desc.act == TRM_ACT_RELU, op->device->threads);
    return TRM_OK;
}

static void copy_or_add(const trm_op *op, const float *from, float *to, bool accumulate) {
    const map_state *s = op->state;
    const trm_kernels *k = trm_cpu_kernels(op->device);
    if (accumulate)
        k->add_into(to, from, s->elements, op->device->threads);
    else
        k->copy(from, to, s->elements, op->device->threads);
}

static trm_status add_into_run(trm_op *op, const trm_step *step) {
    (void)step;
    copy_or_add(op, op->arg[TRM_ARG_DY], op->arg[TRM_ARG_DX], true);
    return TRM_OK;
}

static trm_status copy_run(trm_op *op, const trm_step *step) {
    (void)step;
    copy_or_add(op, op->arg[TRM_ARG_DY], op->arg[TRM_ARG_DX], false);
    return TRM_OK;
}

static trm_status cast_run(trm_op *op, const trm_step *step) {
    (void)step;
    const map_state *s = op->state;
    const trm_kernels *k = trm_cpu_kernels(op->device);
    const bool from = op->desc.half & TRM_HALF(TRM_ARG_X);
    if (from)
        k->from_bf16(op->arg[TRM_ARG_X], op->arg[TRM_ARG_Y], s->elements, op->device->threads);
    else
        k->to_bf16(op->arg[TRM_ARG_X], op->arg[TRM_ARG_Y], s->elements, op->device->threads);
    return TRM_OK;
}

/* ---- flatten ------------------------------------------------------------------------ */

/* One pixel or one channel lies the same in both orders. */
static bool same_order(const map_state *s) { return s->channels == 1 || s->pixels == 1; }

/* n matrices of rows x columns, turned. */
static trm_status turn(const trm_op *op, trm_arg from, trm_arg to, int64_t rows, int64_t columns, bool add) {
    const float *x = op->arg[from];
    float *y = op->arg[to];
    if (same_order(op->state))
        copy_or_add(op, x, y, add);
    else
        trm_cpu_kernels(op->device)->transpose(x, y, op->desc.n, rows, columns, add, op->device->threads);
    return TRM_OK;
}

static trm_status flatten_fwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const map_state *s = op->state;
    return turn(op, TRM_ARG_X, TRM_ARG_Y, s->pixels, s->channels, false);
}

static trm_status flatten_bwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const map_state *s = op->state;
    return turn(op, TRM_ARG_DY, TRM_ARG_DX, s->channels, s->pixels, op->desc.accumulate);
}

/* The way back, for a sample that becomes an image. */
static trm_status unflatten_fwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const map_state *s = op->state;
    return turn(op, TRM_ARG_X, TRM_ARG_Y, s->channels, s->pixels, false);
}

static trm_status unflatten_bwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const map_state *s = op->state;
    return turn(op, TRM_ARG_DY, TRM_ARG_DX, s->pixels, s->channels, op->desc.accumulate);
}

/* ---- rows of channels: softmax, concat ----------------------------------------------- */

static trm_status softmax_fwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const map_state *s = op->state;
    trm_cpu_kernels(op->device)
        ->softmax(op->arg[TRM_ARG_X], op->arg[TRM_ARG_Y], s->elements / s->row, s->row, op->device->threads);
    return TRM_OK;
}

static trm_status softmax_bwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const map_state *s = op->state;
    trm_cpu_kernels(op->device)
        ->softmax_back(op->arg[TRM_ARG_Y], op->arg[TRM_ARG_DY], op->arg[TRM_ARG_DX], s->elements / s->row,
                       s->row, op->desc.accumulate, op->device->threads);
    return TRM_OK;
}

static trm_status concat_fwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const map_state *s = op->state;
    trm_cpu_kernels(op->device)
        ->columns(op->arg[TRM_ARG_X], s->row, (float *)op->arg[TRM_ARG_Y] + op->desc.at, s->wide,
                  s->elements / s->row, s->row, false, op->device->threads);
    return TRM_OK;
}

static trm_status concat_bwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const map_state *s = op->state;
    trm_cpu_kernels(op->device)
        ->columns((const float *)op->arg[TRM_ARG_DY] + op->desc.at, s->wide, op->arg[TRM_ARG_DX], s->row,
                  s->elements / s->row, s->row, op->desc.accumulate, op->device->threads);
    return TRM_OK;
}

/* ---- dropout ------------------------------------------------------------------------ */

/* The counters of this slice's samples are written to scratch; the loop counts on from them. */
static trm_status dropout_run(trm_op *op, const trm_step *step) {
    map_state *s = op->state;
    uint32_t *counter = op->scratch;
    trm_rng_key key = {op->desc.seed, TRM_RNG_DROPOUT, op->desc.layer, (uint64_t)step->update, 0};
    for (int64_t i = 0; i < op->desc.n; i++) {
        key.sample = (uint64_t)step->sample[op->desc.first + i];
        trm_rng_pack(&key, 0, s->drop.key, counter + 4 * i);
    }
    s->drop.counter = counter;
    trm_cpu_kernels(op->device)->dropout(&s->drop);
    return TRM_OK;
}

static trm_status dropout_bind(trm_op *op) {
    map_state *s = op->state;
    bool fwd = op->desc.kind == TRM_OP_DROPOUT_FWD;
    s->drop.x = op->arg[fwd ? TRM_ARG_X : TRM_ARG_DY];
    s->drop.y = op->arg[fwd ? TRM_ARG_Y : TRM_ARG_DX];
    return TRM_OK;
}

/* An element is kept where word * 2^-32 >= p, that is where word >= ceil(p * 2^32). */
static uint32_t threshold_of(double p) {
    double at = p * 0x1p32;
    uint64_t whole = (uint64_t)at;
    whole += (double)whole < at;
    return whole > UINT32_MAX ? UINT32_MAX : (uint32_t)whole;
}

/* Four elements share a block and the loop counts blocks in 32 bits. */
static trm_status plan_dropout(trm_op *op, int64_t count) {
    map_state *s = op->state;
    if (count / 4 > INT32_MAX)
        return trm_fail(TRM_MACHINE, "a sample of %lld elements is too large", (long long)count);
    s->drop = (trm_dropout){.n = op->desc.n,
                            .count = count,
                            .channels = s->pixels == 1 ? 1 : s->channels,
                            .threads = op->device->threads,
                            .accumulate = op->desc.accumulate && op->desc.kind == TRM_OP_DROPOUT_BWD,
                            .threshold = threshold_of(op->desc.p),
                            .scale = (float)(1 / (1 - op->desc.p))};
    op->scratch_bytes = (size_t)op->desc.n * 4 * sizeof(uint32_t);
    return TRM_OK;
}

/* ---- plan --------------------------------------------------------------------------- */

static trm_cpu_run_fn run_of(trm_op_kind kind) {
    switch (kind) {
    case TRM_OP_ACT_FWD: return act_fwd_run;
    case TRM_OP_ACT_BWD: return act_bwd_run;
    case TRM_OP_ADD_FWD: return add_run;
    case TRM_OP_ADD_INTO: return add_into_run;
    case TRM_OP_COPY: return copy_run;
    case TRM_OP_CAST: return cast_run;
    case TRM_OP_FLATTEN_FWD: return flatten_fwd_run;
    case TRM_OP_FLATTEN_BWD: return flatten_bwd_run;
    case TRM_OP_UNFLATTEN_FWD: return unflatten_fwd_run;
    case TRM_OP_UNFLATTEN_BWD: return unflatten_bwd_run;
    case TRM_OP_SOFTMAX_FWD: return softmax_fwd_run;
    case TRM_OP_SOFTMAX_BWD: return softmax_bwd_run;
    case TRM_OP_CONCAT_FWD: return concat_fwd_run;
    case TRM_OP_CONCAT_BWD: return concat_bwd_run;
    default: return dropout_run;
    }
}

trm_status trm_cpu_plan_elementwise(trm_device *d, trm_op *op) {
    (void)d;
    trm_op_kind kind = op->desc.kind;
    bool dropout = kind == TRM_OP_DROPOUT_FWD || kind == TRM_OP_DROPOUT_BWD;
    TRM_TRY(trm_cpu_own(op, sizeof(map_state), dropout ? dropout_bind : NULL, run_of(kind)));
    map_state *s = op->state;
    int64_t count = trm_shape_count(&op->desc.in);
    s->elements = op->desc.n * count;
    const bool back = kind == TRM_OP_UNFLATTEN_FWD || kind == TRM_OP_UNFLATTEN_BWD;
    const trm_shape *image = back ? &op->desc.out : &op->desc.in;
    s->row = trm_shape_channels(&op->desc.in);
    s->wide = trm_shape_channels(&op->desc.out);
    s->channels = trm_shape_channels_first(image) ? image->dim[0] : 1;
    s->pixels = count / s->channels;
    if (kind == TRM_OP_ACT_FWD || kind == TRM_OP_ACT_BWD) return choose_act(op);
    const uint32_t x = TRM_HALF(TRM_ARG_X), y = TRM_HALF(TRM_ARG_Y);
    if (kind == TRM_OP_CAST && op->desc.half != x && op->desc.half != y)
        return trm_fail(TRM_INTERNAL, "X or Y lies as bfloat16, and not both");
    return dropout ? plan_dropout(op, count) : TRM_OK;
}
