/* op_cases: the families and the table of cases. */
#include "op_cases.h"

/* clang-format off */
/* ---- families: ops that run one after the other on the same buffers ---------------------- */

#define OP(k) {.kind = TRM_OP_##k}
#define OP1(k, a, b) {TRM_OP_##k, 1, {{TRM_ARG_##a, TRM_ARG_##b}}}
#define OP2(k, a, b, c, d) {TRM_OP_##k, 2, {{TRM_ARG_##a, TRM_ARG_##b}, {TRM_ARG_##c, TRM_ARG_##d}}}
#define GRAD(x, dx) {TRM_ARG_##x, TRM_ARG_##dx}
#define A(name) OP_BIT(TRM_ARG_##name)

/* The gradient of a fused activation is applied to DY in place, then the linear part follows. */
static const op_family linear = {
    .name = "linear", .stages = 4, .forward = 1,
    .stage = {OP(LINEAR_FWD), OP2(ACT_BWD, DX, DY, X, PRE), OP(LINEAR_BWD_X), OP(LINEAR_BWD_W)},
    .grads = 4, .grad = {GRAD(X, DX), GRAD(W, DW), GRAD(B, DB), GRAD(RES, DY)},
    .uses = A(X) | A(W) | A(B) | A(RES) | A(PRE) | A(Y) | A(DX) | A(DY) | A(DW) | A(DB),
};
static const op_family conv = {
    .name = "conv", .stages = 4, .forward = 1,
    .stage = {OP(CONV_FWD), OP1(ACT_BWD, DX, DY), OP(CONV_BWD_X), OP(CONV_BWD_W)},
    .grads = 3, .grad = {GRAD(X, DX), GRAD(W, DW), GRAD(B, DB)},
    .uses = A(X) | A(W) | A(B) | A(Y) | A(DX) | A(DY) | A(DW) | A(DB),
};
/* Their factors may lie as bfloat16; an activation is applied to DY before it becomes that. */
static const op_family linear_bf16 = {
    .name = "linear bf16", .stages = 3, .forward = 1,
    .stage = {OP(LINEAR_FWD), OP(LINEAR_BWD_X), OP(LINEAR_BWD_W)},
    .uses = A(X) | A(W) | A(B) | A(RES) | A(PRE) | A(Y) | A(DX) | A(DY) | A(DW) | A(DB),
};
static const op_family conv_bf16 = {
    .name = "conv bf16", .stages = 3, .forward = 1,
    .stage = {OP(CONV_FWD), OP(CONV_BWD_X), OP(CONV_BWD_W)},
    .uses = A(X) | A(W) | A(B) | A(Y) | A(DX) | A(DY) | A(DW) | A(DB),
};
static const op_family cast = {.name = "cast", .stages = 1, .forward = 1, .stage = {OP(CAST)}, .uses = A(X) | A(Y)};

static const op_family pool = {
    .name = "pool", .stages = 2, .forward = 1,
    .stage = {OP(POOL_FWD), OP(POOL_BWD)},
    .grads = 1, .grad = {GRAD(X, DX)},
    .uses = A(X) | A(Y) | A(DX) | A(DY) | A(SAVED),
};
static const op_family batch_norm = {
    .name = "batch norm", .stages = 5, .forward = 3,
    .stage = {OP(BN_STATS), OP(BN_APPLY), OP(BN_RUN), OP(BN_GRAD_SUMS), OP(BN_GRAD_APPLY)},
    .grads = 4, .grad = {GRAD(X, DX), GRAD(W, DW), GRAD(B, DB), GRAD(RES, DY)},
    .uses = A(X) | A(W) | A(B) | A(RES) | A(Y) | A(DX) | A(DY) | A(DW) | A(DB) | A(STAT) | A(GSTAT) | A(RUN_MEAN) |
            A(RUN_VAR),
};
static const op_family batch_norm_eval = {
    .name = "batch norm, eval", .stages = 1, .forward = 1,
    .stage = {OP(BN_APPLY)},
    .uses = A(X) | A(W) | A(B) | A(RES) | A(Y) | A(RUN_MEAN) | A(RUN_VAR),
};
static const op_family layer_norm = {
    .name = "layer norm", .stages = 2, .forward = 1,
    .stage = {OP(LN_FWD), OP(LN_BWD)},
    .grads = 3, .grad = {GRAD(X, DX), GRAD(W, DW), GRAD(B, DB)},
    .uses = A(X) | A(W) | A(B) | A(Y) | A(DX) | A(DY) | A(DW) | A(DB) | A(SAVED),
};
static const op_family group_norm = {
    .name = "group norm", .stages = 2, .forward = 1,
    .stage = {OP(GN_FWD), OP(GN_BWD)},
    .grads = 3, .grad = {GRAD(X, DX), GRAD(W, DW), GRAD(B, DB)},
    .uses = A(X) | A(W) | A(B) | A(Y) | A(DX) | A(DY) | A(DW) | A(DB) | A(SAVED),
};
static const op_family softmax = {
    .name = "softmax", .stages = 2, .forward = 1,
    .stage = {OP(SOFTMAX_FWD), OP(SOFTMAX_BWD)},
    .grads = 1, .grad = {GRAD(X, DX)},
    .uses = A(X) | A(Y) | A(DX) | A(DY),
};
static const op_family act = {
    .name = "act", .stages = 2, .forward = 1,
    .stage = {OP(ACT_FWD), OP(ACT_BWD)},
    .grads = 1, .grad = {GRAD(X, DX)},
    .uses = A(X) | A(Y) | A(DX) | A(DY),
};
static const op_family dropout = {
    .name = "dropout", .stages = 2, .forward = 1,
    .stage = {OP(DROPOUT_FWD), OP(DROPOUT_BWD)},
    .grads = 1, .grad = {GRAD(X, DX)},
    .uses = A(X) | A(Y) | A(DX) | A(DY),
};
static const op_family dropout_in_place = {
    .name = "dropout in place", .stages = 2, .forward = 1,
    .stage = {OP1(DROPOUT_FWD, Y, X), OP1(DROPOUT_BWD, DX, DY)},
    .uses = A(X) | A(DY),
};
static const op_family flatten = {
    .name = "flatten", .stages = 2, .forward = 1,
    .stage = {OP(FLATTEN_FWD), OP(FLATTEN_BWD)},
    .grads = 1, .grad = {GRAD(X, DX)},
    .uses = A(X) | A(Y) | A(DX) | A(DY),
};
static const op_family unflatten = {
    .name = "unflatten", .stages = 2, .forward = 1,
    .stage = {OP(UNFLATTEN_FWD), OP(UNFLATTEN_BWD)},
    .grads = 1, .grad = {GRAD(X, DX)},
    .uses = A(X) | A(Y) | A(DX) | A(DY),
};
static const op_family concat = {
    .name = "concat", .stages = 2, .forward = 1,
    .stage = {OP(CONCAT_FWD), OP(CONCAT_BWD)},
    .grads = 1, .grad = {GRAD(X, DX)},
    .uses = A(X) | A(Y) | A(DX) | A(DY),
};
static const op_family embed = {
    .name = "embed", .stages = 2, .forward = 1,
    .stage = {OP(EMBED_FWD), OP(EMBED_BWD)},
    .grads = 1, .grad = {GRAD(W, DW)},
    .uses = A(X) | A(W) | A(Y) | A(DW) | A(DY),
};
static const op_family posemb = {
    .name = "posemb", .stages = 2, .forward = 1,
    .stage = {OP(POSEMB_FWD), OP(POSEMB_BWD)},
    .grads = 2, .grad = {GRAD(W, DW), GRAD(X, DY)},
    .uses = A(X) | A(W) | A(Y) | A(DW) | A(DY),
};
static const op_family attention = {
    .name = "attention", .stages = 2, .forward = 1,
    .stage = {OP(ATTN_FWD), OP(ATTN_BWD)},
    .grads = 1, .grad = {GRAD(X, DX)},
    .uses = A(X) | A(Y) | A(DX) | A(DY) | A(SAVED),
};
static const op_family add = {
    .name = "add", .stages = 2, .forward = 1,
    .stage = {OP(ADD_FWD), OP1(ACT_BWD, DX, DY)},
    .grads = 2, .grad = {GRAD(X, DY), GRAD(X2, DY)},
    .uses = A(X) | A(X2) | A(Y) | A(DY),
};
static const op_family add_in_place = {
    .name = "add in place", .stages = 1, .forward = 1,
    .stage = {OP1(ADD_FWD, Y, X)},
    .uses = A(X) | A(X2),
};
static const op_family add_into = {
    .name = "add into", .stages = 1, .forward = 1,
    .stage = {OP(ADD_INTO)},
    .uses = A(DX) | A(DY),
};
static const op_family copy = {
    .name = "copy", .stages = 1, .forward = 1,
    .stage = {OP(COPY)},
    .uses = A(DX) | A(DY),
};
static const op_family cross_entropy = {
    .name = "cross entropy", .stages = 1, .forward = 1, .loss = true,
    .stage = {OP(LOSS_CE)},
    .grads = 1, .grad = {GRAD(X, DX)},
    .uses = A(X) | A(T) | A(DX),
};
static const op_family mean_squares = {
    .name = "mean squares", .stages = 1, .forward = 1, .loss = true,
    .stage = {OP(LOSS_MSE)},
    .grads = 1, .grad = {GRAD(X, DX)},
    .uses = A(X) | A(T) | A(DX),
};
static const op_family binary_cross_entropy = {
    .name = "binary cross entropy", .stages = 1, .forward = 1, .loss = true,
    .stage = {OP(LOSS_BCE)},
    .grads = 1, .grad = {GRAD(X, DX)},
    .uses = A(X) | A(T) | A(DX),
};
static const op_family update = {
    .name = "update", .stages = 2, .forward = 2,
    .stage = {OP(SUMSQ), OP(UPDATE)},
    .uses = A(W) | A(G) | A(M1) | A(M2),
};
static const op_family load_x = {
    .name = "load x", .stages = 1, .forward = 1,
    .stage = {OP(LOAD_X)},
    .uses = A(Y),
};
static const op_family load_y = {
    .name = "load y", .stages = 1, .forward = 1,
    .stage = {OP(LOAD_Y)},
    .uses = A(Y),
};

/* ---- one line per case ------------------------------------------------------------------------ */

#define S1(a) {1, {a}}
#define S2(a, b) {2, {a, b}}
#define S3(a, b, c) {3, {a, b, c}}
#define S4(a, b, c, d) {4, {a, b, c, d}}
#define WINDOW(kh, kw, sh, sw, ph, pw) .kernel = {kh, kw}, .stride = {sh, sw}, .pad = {ph, pw}
#define SQUARE(k, s, p) WINDOW(k, k, s, s, p, p)
#define CUBE(k, s, p) .kernel = {k, k, k}, .stride = {s, s, s}, .pad = {p, p, p}
#define TRANSPOSED .transposed = true
#define MAX .pool = TRM_POOL_MAX
#define AVG .pool = TRM_POOL_AVG
#define ADAPTIVE .adaptive = true
#define D(n_, in_, ...) .desc = {.n = n_, .in = in_, __VA_ARGS__}
#define EVAL .eval = true
#define RELU .act = TRM_ACT_RELU
#define BIAS .bias = true
#define RESIDUAL .residual = true
#define ACC .accumulate = true
#define ACC_W .accumulate_w = true

#define FACTORS .half = A(X) | A(W) | A(DY)
#define BN .eps = 1e-5, .momentum = 0.1
#define LN .eps = 1e-5
#define SEED .seed = UINT64_C(0x123456789ABCDEF), .layer = 7
#define SGD .optimizer = TRM_OPT_SGD
#define ADAM .optimizer = TRM_OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
#define ADAMW .optimizer = TRM_OPT_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8
#define RMSPROP .optimizer = TRM_OPT_RMSPROP, .beta2 = 0.99, .eps = 1e-8
#define LAMB .optimizer = TRM_OPT_LAMB, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6
#define RAW(type) .raw_type = TRM_##type
#define TOKENS .out_tokens = true
#define NORM1(m, s) .norm_count = 1, .mean = (const double[]){m}, .std = (const double[]){s}
#define NORM3                                                                                        \
    .norm_count = 3, .mean = (const double[]){0.49, 0.48, 0.45}, .std = (const double[]){0.25, 0.24, 0.26}

const op_case op_small_cases[] = {
    {&linear, "7 -> 5, one sample", D(1, S1(7), .out = S1(5), BIAS)},
    {&linear, "no bias", D(3, S1(7), .out = S1(5), .bias = false)},
    {&linear, "1 -> 1", D(5, S1(1), .out = S1(1), BIAS, ACC)},
    {&linear, "rows of a sequence", D(3, S2(4, 6), .out = S2(4, 9), BIAS)},
    {&linear, "added to gradients", D(5, S1(17), .out = S1(33), BIAS, ACC)},
    {&linear, "with residual", D(5, S2(3, 8), .out = S2(3, 8), BIAS, RESIDUAL)},
    {&linear, "residual, no bias", D(1, S2(3, 8), .out = S2(3, 5), RESIDUAL)},
    {&linear, "relu", D(5, S1(13), .out = S1(6), BIAS, RELU)},
    {&linear, "gelu", D(5, S2(2, 5), .out = S2(2, 7), BIAS, .act = TRM_ACT_GELU)},
    {&linear, "gelu tanh", D(3, S2(2, 5), .out = S2(2, 7), BIAS, .act = TRM_ACT_GELU_TANH)},
    {&linear, "silu", D(5, S2(2, 5), .out = S2(2, 7), BIAS, .act = TRM_ACT_SILU)},
    {&linear, "tanh, added", D(5, S1(5), .out = S1(7), BIAS, .act = TRM_ACT_TANH, ACC)},
    {&linear, "sigmoid, no bias", D(3, S1(5), .out = S1(7), .act = TRM_ACT_SIGMOID)},

    {&conv, "1x1", D(1, S3(3, 4, 5), .out = S3(2, 4, 5), SQUARE(1, 1, 0), .groups = 1, BIAS)},
    {&conv, "1x1 stride 2, no bias", D(3, S3(4, 5, 7), .out = S3(6, 3, 4), SQUARE(1, 2, 0), .groups = 1)},
    {&conv, "3x3 padded, relu", D(5, S3(3, 6, 5), .out = S3(4, 6, 5), SQUARE(3, 1, 1), .groups = 1, BIAS, RELU)},
    {&conv, "3x3 stride 2, added", D(5, S3(2, 7, 9), .out = S3(3, 4, 5), SQUARE(3, 2, 1), .groups = 1, BIAS, ACC)},
    {&conv, "kernel 2x5, stride 3x2, pad 1x2", D(3, S3(2, 8, 9), .out = S3(3, 3, 5), WINDOW(2, 5, 3, 2, 1, 2), .groups = 1, BIAS)},
    {&conv, "stride leaves a rest", D(1, S3(1, 8, 8), .out = S3(2, 2, 2), SQUARE(3, 3, 0), .groups = 1, BIAS)},
    {&conv, "kernel as large as the image", D(3, S3(2, 4, 3), .out = S3(5, 1, 1), WINDOW(4, 3, 1, 1, 0, 0), .groups = 1, BIAS)},
    {&conv, "pad as large as the kernel", D(1, S3(1, 3, 3), .out = S3(2, 6, 6), SQUARE(2, 1, 2), .groups = 1, BIAS)},
    {&conv, "two groups, relu", D(3, S3(4, 5, 5), .out = S3(6, 5, 5), SQUARE(3, 1, 1), .groups = 2, BIAS, RELU)},
    {&conv, "dilated, relu", D(5, S3(3, 8, 9), .out = S3(4, 8, 9), SQUARE(3, 1, 2), .gap = {1, 1}, .groups = 1, BIAS, RELU)},
    {&conv, "dilated by 3x2, stride 2, added", D(3, S3(2, 12, 10), .out = S3(5, 4, 5), SQUARE(3, 2, 1), .gap = {2, 0}, .groups = 1, BIAS, ACC)},
    {&conv, "dilated, two groups", D(3, S3(4, 7, 7), .out = S3(6, 5, 3), WINDOW(2, 3, 1, 1, 0, 0), .gap = {1, 1}, .groups = 2)},
    {&conv, "dilated, depthwise", D(5, S3(4, 7, 7), .out = S3(4, 7, 7), SQUARE(3, 1, 2), .gap = {1, 1}, .groups = 4, BIAS)},
    {&conv, "depthwise", D(5, S3(5, 6, 6), .out = S3(5, 3, 3), SQUARE(3, 2, 1), .groups = 5, BIAS)},
    {&conv, "depthwise, two per channel", D(1, S3(3, 4, 4), .out = S3(6, 4, 4), SQUARE(3, 1, 1), .groups = 3, ACC)},
    {&conv, "signal, relu", D(5, S3(3, 1, 9), .out = S3(4, 1, 5), WINDOW(1, 3, 1, 2, 0, 1), .groups = 1, BIAS, RELU)},
    {&conv, "volume 1x1x1", D(1, S4(3, 2, 3, 4), .out = S4(2, 2, 3, 4), CUBE(1, 1, 0), .groups = 1, BIAS)},
    {&conv, "volume 3x3x3 padded, relu", D(5, S4(2, 4, 5, 3), .out = S4(3, 4, 5, 3), CUBE(3, 1, 1), .groups = 1, BIAS, RELU)},
    {&conv, "volume, each axis its own, added", D(3, S4(2, 5, 4, 7), .out = S4(3, 3, 5, 3), .kernel = {1, 2, 3}, .stride = {2, 1, 3}, .pad = {0, 1, 1}, .groups = 1, BIAS, ACC)},
    {&conv, "volume, dilated, two groups", D(5, S4(4, 5, 6, 5), .out = S4(6, 3, 3, 4), CUBE(2, 1, 0), .gap = {1, 2, 0}, .groups = 2, BIAS)},
    {&conv, "volume, depthwise, stride above the kernel", D(3, S4(3, 5, 4, 7), .out = S4(3, 2, 1, 2), CUBE(2, 3, 0), .groups = 3, BIAS)},

    {&conv, "transposed 1x1", D(1, S3(3, 4, 5), .out = S3(2, 4, 5), SQUARE(1, 1, 0), .groups = 1, BIAS, TRANSPOSED)},
    {&conv, "transposed 3x3 padded, relu", D(5, S3(3, 4, 5), .out = S3(4, 4, 5), SQUARE(3, 1, 1), .groups = 1, BIAS, RELU, TRANSPOSED)},
    {&conv, "transposed 2x2 stride 2, no bias", D(3, S3(4, 3, 4), .out = S3(2, 6, 8), SQUARE(2, 2, 0), .groups = 1, TRANSPOSED)},
    {&conv, "transposed 3x3 stride 2, one more, added", D(5, S3(2, 4, 3), .out = S3(3, 8, 6), SQUARE(3, 2, 1), .groups = 1, BIAS, ACC, TRANSPOSED)},
    {&conv, "transposed, no bias, relu", D(3, S3(2, 4, 3), .out = S3(3, 7, 5), SQUARE(3, 2, 1), .groups = 1, RELU, TRANSPOSED)},
    {&conv, "transposed, each axis its own, dilated", D(3, S3(2, 4, 3), .out = S3(3, 10, 5), WINDOW(2, 5, 3, 2, 1, 2), .gap = {1, 0}, .groups = 1, BIAS, TRANSPOSED)},
    {&conv, "transposed, two groups, relu", D(5, S3(4, 3, 3), .out = S3(6, 7, 7), SQUARE(3, 2, 0), .groups = 2, BIAS, RELU, TRANSPOSED)},
    {&conv, "transposed, depthwise, stride above the kernel, added", D(5, S3(3, 3, 2), .out = S3(3, 8, 5), SQUARE(2, 3, 0), .groups = 3, ACC, TRANSPOSED)},
    {&conv, "transposed signal", D(5, S3(3, 1, 5), .out = S3(2, 1, 10), WINDOW(1, 4, 1, 2, 0, 1), .groups = 1, BIAS, TRANSPOSED)},
    {&conv, "transposed volume, each axis its own", D(3, S4(2, 2, 3, 2), .out = S4(4, 4, 3, 4), .kernel = {2, 3, 1}, .stride = {2, 1, 2}, .pad = {0, 1, 0}, .groups = 1, BIAS, TRANSPOSED)},
    {&conv, "transposed volume, two groups, relu, added", D(5, S4(4, 2, 2, 3), .out = S4(2, 4, 4, 6), CUBE(2, 2, 0), .groups = 2, BIAS, RELU, ACC, TRANSPOSED)},

    {&linear_bf16, "7 -> 5, one sample", D(1, S1(7), .out = S1(5), BIAS), FACTORS},
    {&linear_bf16, "1 -> 1", D(5, S1(1), .out = S1(1), BIAS, ACC), FACTORS},
    {&linear_bf16, "rows of a sequence, relu", D(3, S2(4, 6), .out = S2(4, 9), BIAS, RELU), FACTORS},
    {&linear_bf16, "added to gradients", D(5, S1(17), .out = S1(33), BIAS, ACC), FACTORS},
    {&linear_bf16, "with residual", D(5, S2(3, 8), .out = S2(3, 8), BIAS, RESIDUAL), FACTORS},
    {&linear_bf16, "residual, no bias", D(1, S2(3, 8), .out = S2(3, 5), RESIDUAL), FACTORS},
    {&linear_bf16, "gelu tanh", D(5, S2(2, 5), .out = S2(2, 7), BIAS, .act = TRM_ACT_GELU_TANH), FACTORS},
    {&conv_bf16, "3x3 padded, relu", D(5, S3(3, 6, 5), .out = S3(4, 6, 5), SQUARE(3, 1, 1), .groups = 1, BIAS, RELU), FACTORS},
    {&conv_bf16, "3x3 stride 2, added", D(5, S3(2, 7, 9), .out = S3(3, 4, 5), SQUARE(3, 2, 1), .groups = 1, BIAS, ACC), FACTORS},
    {&conv_bf16, "5x5 of one channel", D(5, S3(1, 8, 9), .out = S3(20, 4, 5), SQUARE(5, 1, 0), .groups = 1, BIAS), FACTORS},
    {&conv_bf16, "volume 3x3x3 padded, relu", D(5, S4(2, 4, 5, 3), .out = S4(3, 4, 5, 3), CUBE(3, 1, 1), .groups = 1, BIAS, RELU), FACTORS},
    {&conv_bf16, "two groups", D(3, S3(4, 5, 5), .out = S3(6, 5, 5), SQUARE(3, 1, 1), .groups = 2, BIAS), FACTORS},
    {&linear_bf16, "gelu tanh, y too", D(3, S2(2, 5), .out = S2(2, 7), BIAS, .act = TRM_ACT_GELU_TANH), .half = A(X) | A(W) | A(DY) | A(Y)},
    {&conv_bf16, "3x3 stride 2, y too", D(3, S3(2, 7, 9), .out = S3(3, 4, 5), SQUARE(3, 2, 1), .groups = 1), .half = A(X) | A(W) | A(DY) | A(Y)},
    {&batch_norm, "bf16: x", D(3, S3(5, 3, 4), BN, RELU), .half = A(X)},
    {&batch_norm, "bf16: y", D(3, S3(5, 3, 4), BN, RELU), .half = A(Y)},
    {&batch_norm, "bf16: dx, residual", D(3, S3(3, 3, 2), BN, RELU, RESIDUAL), .half = A(DX) | A(RES)},
    {&batch_norm, "bf16: x, added", D(3, S3(4, 2, 2), BN, ACC), .half = A(X)},
    {&batch_norm_eval, "bf16: x, residual, y", D(3, S3(5, 2, 3), BN, RELU, RESIDUAL), EVAL, .half = A(X) | A(RES) | A(Y)},
    {&layer_norm, "bf16: y", D(3, S2(3, 7), LN, BIAS), .half = A(Y)},
    {&act, "gelu, bf16: dx", D(3, S2(7, 11), .act = TRM_ACT_GELU), .half = A(DX)},
    {&act, "relu, bf16: dx", D(3, S2(7, 11), RELU), .half = A(DX)},
    {&cast, "to bf16", D(5, S2(3, 7)), .half = A(Y)},
    {&cast, "from bf16", D(5, S2(3, 7)), .half = A(X)},

    {&pool, "max 2x2", D(3, S3(3, 4, 6), .out = S3(3, 2, 3), SQUARE(2, 2, 0), .pool = TRM_POOL_MAX)},
    {&pool, "max 2x2, rest left out", D(5, S3(2, 5, 7), .out = S3(2, 2, 3), SQUARE(2, 2, 0), .pool = TRM_POOL_MAX)},
    {&pool, "max 3x3 overlapping, padded, added", D(5, S3(4, 7, 6), .out = S3(4, 4, 3), SQUARE(3, 2, 1), .pool = TRM_POOL_MAX, ACC)},
    {&pool, "max 3x2, stride 1", D(1, S3(1, 4, 4), .out = S3(1, 2, 3), WINDOW(3, 2, 1, 1, 0, 0), .pool = TRM_POOL_MAX)},
    {&pool, "avg 2x2", D(5, S3(3, 4, 6), .out = S3(3, 2, 3), SQUARE(2, 2, 0), .pool = TRM_POOL_AVG)},
    {&pool, "avg 3x3 padded, rest left out, added", D(3, S3(2, 6, 7), .out = S3(2, 3, 4), SQUARE(3, 2, 1), .pool = TRM_POOL_AVG, ACC)},
    {&pool, "avg over the whole image", D(1, S3(5, 3, 4), .out = S3(5, 1, 1), WINDOW(3, 4, 1, 1, 0, 0), .pool = TRM_POOL_AVG)},
    {&pool, "max, stride above the window", D(5, S3(2, 7, 8), .out = S3(2, 2, 3), SQUARE(2, 3, 0), MAX)},
    {&pool, "max of a signal", D(3, S3(3, 1, 9), .out = S3(3, 1, 5), WINDOW(1, 3, 1, 2, 0, 1), MAX)},
    {&pool, "max 2x2x2, rest left out", D(5, S4(3, 5, 4, 6), .out = S4(3, 2, 2, 3), CUBE(2, 2, 0), MAX)},
    {&pool, "max of a volume, each axis its own, added", D(3, S4(2, 5, 4, 3), .out = S4(2, 3, 5, 2), .kernel = {3, 2, 1}, .stride = {2, 1, 2}, .pad = {1, 1, 0}, MAX, ACC)},
    {&pool, "avg of a volume, padded", D(5, S4(2, 4, 5, 3), .out = S4(2, 2, 3, 4), .kernel = {2, 3, 2}, .stride = {2, 2, 1}, .pad = {0, 1, 1}, AVG)},
    {&pool, "max adaptive", D(5, S3(3, 7, 5), .out = S3(3, 3, 5), ADAPTIVE, MAX)},
    {&pool, "max adaptive, whole windows, added", D(3, S3(3, 6, 4), .out = S3(3, 3, 1), ADAPTIVE, MAX, ACC)},
    {&pool, "avg adaptive, added", D(3, S3(4, 6, 7), .out = S3(4, 3, 4), ADAPTIVE, AVG, ACC)},
    {&pool, "avg adaptive, more than there is", D(1, S3(2, 3, 2), .out = S3(2, 5, 4), ADAPTIVE, AVG)},
    {&pool, "max adaptive of a volume", D(5, S4(2, 5, 3, 4), .out = S4(2, 2, 3, 3), ADAPTIVE, MAX)},

    {&batch_norm, "image", D(5, S3(3, 4, 5), .out = S3(3, 4, 5), BN)},
    {&batch_norm, "one image, relu", D(1, S3(2, 5, 3), BN, RELU)},
    {&batch_norm, "residual and relu, added", D(5, S3(3, 3, 2), BN, RELU, RESIDUAL, ACC)},
    {&batch_norm, "residual", D(3, S3(4, 2, 2), BN, RESIDUAL)},
    {&batch_norm, "features", D(5, S1(6), BN)},
    {&batch_norm, "volume, relu", D(5, S4(3, 2, 3, 2), BN, RELU)},
    {&batch_norm_eval, "image", D(5, S3(3, 4, 5), BN), EVAL},
    {&batch_norm_eval, "residual and relu", D(3, S3(5, 2, 3), BN, RELU, RESIDUAL), EVAL},

    {&layer_norm, "rows", D(5, S2(3, 7), LN, BIAS)},
    {&layer_norm, "one row, added", D(1, S1(9), LN, BIAS, ACC, ACC_W)},
    {&layer_norm, "added to dx only", D(3, S2(2, 5), LN, BIAS, ACC)},
    {&layer_norm, "added to dw only", D(3, S2(2, 5), LN, BIAS, ACC_W)},
    {&layer_norm, "weight only", D(3, S2(2, 5), LN)},
    {&layer_norm, "no weight", D(5, S2(2, 5), LN), .without = A(W) | A(DW)},

    {&group_norm, "image", D(5, S3(6, 3, 4), LN, BIAS, .groups = 3)},
    {&group_norm, "one group, added", D(1, S3(4, 5, 3), LN, BIAS, .groups = 1, ACC, ACC_W)},
    {&group_norm, "a group for each channel", D(3, S3(5, 4, 4), LN, BIAS, .groups = 5, ACC)},
    {&group_norm, "features, added to dw only", D(5, S1(12), LN, BIAS, .groups = 4, ACC_W)},
    {&group_norm, "no weight", D(5, S3(4, 3, 3), LN, .groups = 2), .without = A(W) | A(DW)},
    {&group_norm, "volume", D(5, S4(4, 2, 3, 2), LN, BIAS, .groups = 2)},
    {&softmax, "features", D(5, S1(10))},
    {&softmax, "rows, added", D(3, S2(4, 7), ACC)},
    {&softmax, "channels of an image", D(5, S3(5, 3, 2))},
    {&softmax, "channels of a volume, added", D(3, S4(4, 2, 1, 3), ACC)},
    {&softmax, "one class", D(1, S1(1), ACC)},
    {&softmax, "large numbers", D(5, S1(6)), .spread = 5},
    {&act, "silu", D(5, S2(3, 7), .act = TRM_ACT_SILU)},
    {&act, "silu, added", D(3, S3(3, 2, 2), .act = TRM_ACT_SILU, ACC)},
    {&act, "relu", D(5, S1(7), RELU)},
    {&act, "gelu", D(3, S2(2, 7), .act = TRM_ACT_GELU)},
    {&act, "gelu tanh, added", D(5, S3(3, 2, 2), .act = TRM_ACT_GELU_TANH, ACC)},
    {&act, "tanh", D(1, S1(13), .act = TRM_ACT_TANH)},
    {&act, "sigmoid, added", D(3, S1(5), .act = TRM_ACT_SIGMOID, ACC)},
    {&act, "relu, added", D(3, S1(5), RELU, ACC)},

    {&dropout, "features", D(5, S1(37), .p = 0.25, SEED)},
    {&dropout, "image, added", D(3, S3(3, 5, 4), .p = 0.5, SEED, ACC)},
    {&dropout, "sequence, later slice", D(5, S2(7, 3), .p = 0.1, SEED, .first = 4)},
    {&dropout, "p = 0", D(1, S1(9), .p = 0, SEED)},
    {&dropout, "volume", D(5, S4(3, 2, 4, 3), .p = 0.4, SEED)},
    {&dropout_in_place, "image", D(5, S3(3, 5, 4), .p = 0.3, SEED)},

    {&flatten, "image", D(5, S3(3, 4, 5), .out = S1(60))},
    {&flatten, "image, added", D(3, S3(2, 1, 7), .out = S1(14), ACC)},
    {&flatten, "sequence", D(1, S2(4, 5), .out = S1(20))},
    {&flatten, "volume", D(5, S4(3, 2, 4, 5), .out = S1(120))},

    {&unflatten, "image", D(5, S1(60), .out = S3(3, 4, 5))},
    {&unflatten, "image, added", D(3, S2(7, 2), .out = S3(2, 1, 7), ACC)},
    {&unflatten, "one channel", D(1, S1(20), .out = S3(1, 4, 5))},
    {&unflatten, "volume, added", D(5, S2(12, 10), .out = S4(3, 2, 4, 5), ACC)},
    {&concat, "features", D(5, S1(7), .out = S1(19), .at = 5)},
    {&concat, "sequence, first, added", D(3, S2(4, 3), .out = S2(4, 8), ACC)},
    {&concat, "image, last", D(5, S3(3, 4, 5), .out = S3(10, 4, 5), .at = 7)},
    {&concat, "volume, added", D(5, S4(3, 2, 4, 2), .out = S4(7, 2, 4, 2), .at = 2, ACC)},
    {&embed, "tokens", D(5, S1(6), .out = S2(6, 4), .count = 11)},
    {&embed, "tokens, added", D(3, S1(9), .out = S2(9, 5), .count = 7, ACC)},
    {&posemb, "positions", D(5, S2(4, 6), .out = S2(4, 6))},
    {&posemb, "positions, added", D(3, S2(5, 3), .out = S2(5, 3), ACC)},

    {&attention, "full, one head", D(3, S2(5, 12), .out = S2(5, 4), .heads = 1)},
    {&attention, "full, three heads, added", D(5, S2(6, 27), .out = S2(6, 9), .heads = 3, ACC)},
    {&attention, "causal, one head", D(1, S2(7, 15), .out = S2(7, 5), .heads = 1, .causal = true)},
    {&attention, "causal, three heads", D(5, S2(9, 36), .out = S2(9, 12), .heads = 3, .causal = true)},
    {&attention, "one position", D(3, S2(1, 6), .out = S2(1, 2), .heads = 2, .causal = true)},

    {&add, "two values", D(5, S1(9))},
    {&add, "two images, relu", D(3, S3(3, 2, 4), RELU)},
    {&add_in_place, "relu", D(5, S3(3, 2, 4), RELU)},
    {&add_into, "gradients", D(5, S2(3, 7))},
    {&copy, "gradients", D(3, S2(3, 7))},

    {&cross_entropy, "ten classes", D(5, S1(10))},
    {&cross_entropy, "tokens", D(3, S2(4, 7))},
    {&cross_entropy, "pixels of an image", D(3, S3(7, 4, 5))},
    {&cross_entropy, "two classes", D(1, S1(2))},
    {&cross_entropy, "large logits", D(5, S1(6)), .spread = 30},
    {&cross_entropy, "smoothed", D(5, S1(10), .smoothing = 0.1)},
    {&cross_entropy, "smoothed to nothing", D(3, S1(3), .smoothing = 1)},
    {&cross_entropy, "a class ignored", D(5, S2(6, 4), .ignores = true, .ignore = 2)},
    {&cross_entropy, "smoothed, a class ignored", D(5, S2(6, 4), .smoothing = 0.3, .ignores = true, .ignore = 0)},
    {&cross_entropy, "nobody ignored", D(3, S1(5), .ignores = true, .ignore = -100)},
    {&binary_cross_entropy, "features", D(5, S1(7))},
    {&binary_cross_entropy, "image, large logits", D(3, S3(2, 3, 4)), .spread = 20},
    {&mean_squares, "features", D(5, S1(3))},
    {&mean_squares, "image", D(3, S3(2, 3, 4))},
};
const int op_small_count = sizeof op_small_cases / sizeof *op_small_cases;

const op_case op_large_cases[] = {
    {&linear, "mnist 784 -> 512 relu", D(32, S1(784), .out = S1(512), BIAS, RELU)},
    {&linear, "512 -> 10", D(67, S1(512), .out = S1(10), BIAS)},
    {&linear, "gpt 256 -> 1024 gelu tanh", D(1, S2(128, 256), .out = S2(128, 1024), BIAS, .act = TRM_ACT_GELU_TANH)},
    {&linear, "gpt 1024 -> 256 residual", D(1, S2(128, 1024), .out = S2(128, 256), BIAS, RESIDUAL)},
    {&linear, "gpt 256 -> 768, added", D(1, S2(128, 256), .out = S2(128, 768), BIAS, ACC)},
    {&linear, "silu, 131 rows", D(131, S1(67), .out = S1(129), BIAS, .act = TRM_ACT_SILU)},
    {&linear, "gelu, 131 rows", D(131, S1(67), .out = S1(129), BIAS, .act = TRM_ACT_GELU)},
    {&linear, "sigmoid, eval", D(33, S1(40), .out = S1(70), BIAS, .act = TRM_ACT_SIGMOID), EVAL},

    {&conv, "lenet 1 -> 20", D(4, S3(1, 28, 28), .out = S3(20, 24, 24), SQUARE(5, 1, 0), .groups = 1, BIAS, RELU)},
    {&conv, "lenet 20 -> 50", D(3, S3(20, 12, 12), .out = S3(50, 8, 8), SQUARE(5, 1, 0), .groups = 1, BIAS)},
    {&conv, "resnet 3 -> 16", D(2, S3(3, 32, 32), .out = S3(16, 32, 32), SQUARE(3, 1, 1), .groups = 1)},
    {&conv, "resnet 16 -> 16, added", D(2, S3(16, 32, 32), .out = S3(16, 32, 32), SQUARE(3, 1, 1), .groups = 1, ACC)},
    {&conv, "resnet 16 -> 32 stride 2", D(2, S3(16, 32, 32), .out = S3(32, 16, 16), SQUARE(3, 2, 1), .groups = 1)},
    {&conv, "resnet 16 -> 32 1x1 stride 2", D(3, S3(16, 32, 32), .out = S3(32, 16, 16), SQUARE(1, 2, 0), .groups = 1)},
    {&conv, "resnet 64 -> 64 relu", D(1, S3(64, 8, 8), .out = S3(64, 8, 8), SQUARE(3, 1, 1), .groups = 1, BIAS, RELU)},
    {&conv, "depthwise 32", D(2, S3(32, 14, 14), .out = S3(32, 14, 14), SQUARE(3, 1, 1), .groups = 32, BIAS)},

    {&conv, "depthwise 32, dilated", D(2, S3(32, 14, 14), .out = S3(32, 14, 14), SQUARE(3, 1, 2), .gap = {1, 1}, .groups = 32, BIAS)},
    {&conv, "16 -> 32, dilated by 4, relu", D(2, S3(16, 20, 20), .out = S3(32, 20, 20), SQUARE(3, 1, 4), .gap = {3, 3}, .groups = 1, BIAS, RELU)},
    {&conv, "signal 16 -> 32", D(3, S3(16, 1, 100), .out = S3(32, 1, 50), WINDOW(1, 5, 1, 2, 0, 2), .groups = 1, BIAS, RELU)},
    {&conv, "volume 16 -> 32", D(2, S4(16, 6, 8, 7), .out = S4(32, 6, 8, 7), CUBE(3, 1, 1), .groups = 1, BIAS, RELU)},
    {&conv, "volume 32 -> 16, added", D(2, S4(32, 6, 8, 7), .out = S4(16, 3, 4, 4), CUBE(3, 2, 1), .groups = 1, ACC)},
    {&conv, "volume, depthwise 16", D(2, S4(16, 6, 8, 7), .out = S4(16, 6, 8, 7), CUBE(3, 1, 1), .groups = 16, BIAS)},
    {&conv, "transposed 32 -> 16, stride 2", D(3, S3(32, 9, 8), .out = S3(16, 18, 16), SQUARE(4, 2, 1), .groups = 1, BIAS, RELU, TRANSPOSED)},
    {&conv, "transposed 16 -> 48, added", D(2, S3(16, 12, 12), .out = S3(48, 12, 12), SQUARE(5, 1, 2), .groups = 1, BIAS, ACC, TRANSPOSED)},
    {&conv, "transposed volume 32 -> 16", D(2, S4(32, 3, 4, 3), .out = S4(16, 6, 8, 6), CUBE(2, 2, 0), .groups = 1, BIAS, TRANSPOSED)},

    {&linear_bf16, "mlp", D(32, S1(784), .out = S1(512), BIAS, RELU), FACTORS},
    {&linear_bf16, "gpt, added", D(2, S2(128, 256), .out = S2(128, 768), BIAS, ACC), FACTORS},
    {&linear_bf16, "257 -> 65", D(33, S1(257), .out = S1(65), BIAS), FACTORS},
    {&conv_bf16, "lenet 20 -> 50", D(3, S3(20, 12, 12), .out = S3(50, 8, 8), SQUARE(5, 1, 0), .groups = 1, BIAS), FACTORS},
    {&conv_bf16, "resnet 16 -> 16, added", D(2, S3(16, 32, 32), .out = S3(16, 32, 32), SQUARE(3, 1, 1), .groups = 1, ACC), FACTORS},
    {&conv_bf16, "resnet 16 -> 32 1x1 stride 2", D(3, S3(16, 32, 32), .out = S3(32, 16, 16), SQUARE(1, 2, 0), .groups = 1), FACTORS},
    {&linear_bf16, "gpt gelu, y too", D(1, S2(128, 256), .out = S2(128, 1024), BIAS, .act = TRM_ACT_GELU_TANH), .half = A(X) | A(W) | A(DY) | A(Y)},
    {&conv_bf16, "resnet 32 -> 32, y too", D(2, S3(32, 16, 16), .out = S3(32, 16, 16), SQUARE(3, 1, 1), .groups = 1), .half = A(X) | A(W) | A(DY) | A(Y)},
    {&batch_norm, "bf16: 16 channels relu", D(4, S3(16, 32, 32), BN, RELU), .half = A(X) | A(Y) | A(DX)},
    {&batch_norm, "bf16: 64 channels residual relu", D(9, S3(64, 8, 8), BN, RELU, RESIDUAL), .half = A(X) | A(Y) | A(RES) | A(DX)},
    {&batch_norm, "bf16: 512 features", D(33, S1(512), BN), .half = A(X) | A(Y) | A(DX)},
    {&layer_norm, "bf16: 257", D(3, S2(67, 257), LN, BIAS), .half = A(Y)},
    {&act, "gelu tanh, bf16: dx", D(3, S2(128, 257), .act = TRM_ACT_GELU_TANH), .half = A(DX)},
    {&cast, "image to bf16", D(3, S3(16, 33, 32)), .half = A(Y)},

    {&pool, "lenet max", D(8, S3(20, 24, 24), .out = S3(20, 12, 12), SQUARE(2, 2, 0), .pool = TRM_POOL_MAX)},
    {&pool, "resnet max 3x3", D(3, S3(16, 33, 31), .out = S3(16, 17, 16), SQUARE(3, 2, 1), .pool = TRM_POOL_MAX, ACC)},
    {&pool, "resnet avg 8x8", D(7, S3(64, 8, 8), .out = S3(64, 1, 1), SQUARE(8, 1, 0), .pool = TRM_POOL_AVG)},
    {&pool, "max of a volume, 70 channels", D(3, S4(70, 6, 7, 8), .out = S4(70, 3, 4, 4), CUBE(3, 2, 1), MAX)},
    {&pool, "avg of a volume, 17 channels", D(3, S4(17, 6, 4, 8), .out = S4(17, 3, 2, 4), CUBE(2, 2, 0), AVG)},
    {&pool, "adaptive avg 13 -> 6", D(3, S3(33, 13, 13), .out = S3(33, 6, 6), ADAPTIVE, AVG)},

    {&batch_norm, "16 channels relu", D(4, S3(16, 32, 32), BN, RELU)},
    {&batch_norm, "64 channels residual relu", D(9, S3(64, 8, 8), BN, RELU, RESIDUAL)},
    {&batch_norm, "512 features, added", D(33, S1(512), BN, ACC)},
    {&batch_norm, "far from zero", D(9, S3(17, 16, 15), BN), .shift = 30},
    {&batch_norm_eval, "64 channels residual relu", D(5, S3(64, 8, 8), BN, RELU, RESIDUAL), EVAL},
    {&layer_norm, "256", D(2, S2(128, 256), LN, BIAS)},
    {&layer_norm, "257, added", D(3, S2(67, 257), LN, BIAS, ACC, ACC_W)},
    {&layer_norm, "far from zero", D(2, S2(31, 64), LN, BIAS), .shift = 30},
    {&layer_norm, "large", D(2, S2(31, 64), LN, BIAS), .spread = 1000},

    {&group_norm, "64 channels in 32 groups", D(5, S3(64, 16, 16), LN, BIAS, .groups = 32)},
    {&group_norm, "17 channels, one group, added", D(3, S3(17, 31, 9), LN, BIAS, .groups = 1, ACC, ACC_W)},
    {&group_norm, "one large image", D(1, S3(32, 40, 40), LN, BIAS, .groups = 8)},
    {&group_norm, "far from zero", D(9, S3(16, 16, 15), LN, BIAS, .groups = 4), .shift = 30},
    {&group_norm, "512 features", D(33, S1(512), LN, BIAS, .groups = 16)},
    {&softmax, "1000 classes", D(33, S1(1000))},
    {&softmax, "21 channels", D(3, S3(21, 40, 40), ACC)},
    {&softmax, "1500 far apart", D(5, S1(1500)), .spread = 20},
    {&act, "silu, wide", D(3, S2(64, 257), .act = TRM_ACT_SILU), .spread = 5},
    {&act, "gelu tanh", D(3, S2(128, 257), .act = TRM_ACT_GELU_TANH)},
    {&act, "gelu, wide", D(3, S2(64, 257), .act = TRM_ACT_GELU), .spread = 5},
    {&act, "tanh, wide", D(3, S2(64, 257), .act = TRM_ACT_TANH), .spread = 5},
    {&act, "sigmoid, wide", D(3, S2(64, 257), .act = TRM_ACT_SIGMOID), .spread = 10},
    {&dropout, "sequence", D(3, S2(128, 256), .p = 0.1, SEED, .first = 2)},
    {&dropout, "image", D(3, S3(20, 12, 12), .p = 0.5, SEED)},
    {&flatten, "lenet", D(9, S3(50, 4, 4), .out = S1(800))},
    {&unflatten, "decoder", D(9, S1(800), .out = S3(50, 4, 4))},
    {&concat, "64 of 192 channels", D(3, S3(64, 16, 16), .out = S3(192, 16, 16), .at = 64, ACC)},
    {&embed, "gpt", D(3, S1(128), .out = S2(128, 256), .count = 256)},
    {&posemb, "gpt", D(3, S2(128, 256), .out = S2(128, 256))},

    {&attention, "gpt 128, causal", D(2, S2(128, 768), .out = S2(128, 256), .heads = 4, .causal = true)},
    {&attention, "128, full, peaks", D(2, S2(128, 192), .out = S2(128, 64), .heads = 2), .spread = 3},
    {&attention, "131 of 24, causal, added", D(3, S2(131, 144), .out = S2(131, 48), .heads = 2, .causal = true, ACC)},
    {&attention, "512, causal", D(1, S2(512, 192), .out = S2(512, 64), .heads = 2, .causal = true)},
    {&attention, "1024, causal", D(1, S2(1024, 96), .out = S2(1024, 32), .heads = 1, .causal = true)},

    {&add, "image, relu", D(3, S3(16, 32, 32), RELU)},
    {&cross_entropy, "256 classes", D(3, S2(128, 256))},
    {&cross_entropy, "256 classes, large logits", D(3, S2(16, 256)), .spread = 1000},
    {&cross_entropy, "1000 classes, eval", D(9, S1(1000)), EVAL},
    {&cross_entropy, "256 classes, smoothed, one ignored", D(3, S2(128, 256), .smoothing = 0.1, .ignores = true, .ignore = 7)},
    {&cross_entropy, "5 classes, half ignored, eval", D(9, S2(64, 2), .ignores = true, .ignore = 1), EVAL},
    {&cross_entropy, "3000 classes far from zero, smoothed", D(9, S1(3000), .smoothing = 0.2), .shift = 100},
    {&binary_cross_entropy, "80 labels", D(67, S1(80))},
    {&binary_cross_entropy, "sure of itself", D(3, S3(3, 32, 32)), .spread = 40},
    {&binary_cross_entropy, "image, eval", D(3, S3(3, 32, 32)), EVAL},
    {&mean_squares, "image, eval", D(3, S3(3, 32, 32)), EVAL},
    {&mean_squares, "1000 features", D(17, S1(1000))},

    {&update, "sgd", D(0, {0}, .count = 1001, SGD), .steps = 3},
    {&update, "sgd, decay", D(0, {0}, .count = 7, SGD, .weight_decay = 0.01), .steps = 3},
    {&update, "sgd, momentum, decay", D(0, {0}, .count = 1001, SGD, .beta1 = 0.9, .weight_decay = 5e-4), .steps = 3},
    {&update, "sgd, nesterov", D(0, {0}, .count = 4099, SGD, .beta1 = 0.9, .nesterov = true, .weight_decay = 5e-4), .steps = 3},
    {&update, "adam", D(0, {0}, .count = 1001, ADAM), .steps = 3},
    {&update, "adam, decay", D(0, {0}, .count = 1, ADAM, .weight_decay = 0.1), .steps = 3},
    {&update, "adamw", D(0, {0}, .count = 70001, ADAMW, .weight_decay = 0.1), .steps = 3},
    {&update, "rmsprop", D(0, {0}, .count = 1001, RMSPROP), .steps = 3},
    {&update, "rmsprop, momentum, decay", D(0, {0}, .count = 70001, RMSPROP, .beta1 = 0.9, .weight_decay = 0.1), .steps = 3},
    {&update, "lamb", D(0, {0}, .count = 1001, LAMB), .steps = 3},
    {&update, "lamb, decay", D(0, {0}, .count = 70001, LAMB, .weight_decay = 0.1), .steps = 3},
    {&update, "lamb, one weight", D(0, {0}, .count = 1, LAMB, .weight_decay = 0.1), .steps = 3},

    {&load_x, "mnist u8", D(5, {0}, .out = S3(1, 28, 28), RAW(U8), .scale = 1 / 255.0, .raw_stride = 784, NORM1(0.1307, 0.3081))},
    {&load_x, "u8 chw, per channel", D(5, {0}, .out = S3(3, 9, 7), RAW(U8), .scale = 1 / 255.0, .raw_stride = 189, NORM3)},
    {&load_x, "u8 hwc, per channel, padded stride", D(3, {0}, .out = S3(3, 9, 7), RAW(U8), .raw_hwc = true, .scale = 1 / 255.0, .raw_stride = 200, NORM3)},
    {&load_x, "i16 chw, later slice", D(3, {0}, .out = S3(3, 5, 6), RAW(I16), .scale = 1 / 256.0, .raw_stride = 180, .first = 2, NORM3)},
    {&load_x, "f16 hwc", D(3, {0}, .out = S3(3, 5, 6), RAW(F16), .raw_hwc = true, .scale = 1, .raw_stride = 180, NORM3)},
    {&load_x, "bf16 chw", D(1, {0}, .out = S3(3, 5, 6), RAW(BF16), .scale = 1, .raw_stride = 180)},
    {&load_x, "f32 chw, scale", D(5, {0}, .out = S3(5, 3, 4), RAW(F32), .scale = -2.5, .raw_stride = 240)},
    {&load_x, "f32 hwc, per channel", D(5, {0}, .out = S3(3, 11, 4), RAW(F32), .raw_hwc = true, .scale = 1, .raw_stride = 528, NORM3)},
    {&load_x, "f64 features", D(5, {0}, .out = S1(17), RAW(F64), .scale = 1, .raw_stride = 136, NORM1(-0.3, 2))},
    {&load_x, "f32 features, each in its own way", D(5, {0}, .out = S1(3), RAW(F32), .scale = 1, .raw_stride = 12, NORM3)},
    {&load_x, "u8 volume, per channel", D(5, {0}, .out = S4(3, 2, 5, 4), RAW(U8), .scale = 1 / 255.0, .raw_stride = 120, NORM3)},
    {&load_x, "f32 volume, channels last", D(3, {0}, .out = S4(3, 2, 5, 4), RAW(F32), .raw_hwc = true, .scale = 1, .raw_stride = 480, NORM3)},
    {&load_x, "f64 sequence", D(3, {0}, .out = S2(5, 4), RAW(F64), .scale = 1, .raw_stride = 160)},
    {&load_x, "u8 sequence, per channel", D(3, {0}, .out = S2(75, 3), RAW(U8), .scale = 1 / 255.0, .raw_stride = 225, NORM3)},
    {&load_x, "i8, u16, u32 ...: i8", D(3, {0}, .out = S1(9), RAW(I8), .scale = 0.5, .raw_stride = 9)},
    {&load_x, "u16 features", D(3, {0}, .out = S1(9), RAW(U16), .scale = 0.5, .raw_stride = 18)},
    {&load_x, "u32 features", D(3, {0}, .out = S1(9), RAW(U32), .scale = 1e-9, .raw_stride = 36)},
    {&load_x, "i32 features", D(3, {0}, .out = S1(9), RAW(I32), .scale = 1e-9, .raw_stride = 36)},
    {&load_x, "i64 features", D(3, {0}, .out = S1(9), RAW(I64), .scale = 1e-3, .raw_stride = 72)},
    {&load_x, "tokens u8", D(5, {0}, .out = S1(13), RAW(U8), TOKENS, .raw_stride = 13)},
    {&load_x, "tokens u16, stride one more", D(5, {0}, .out = S1(16), RAW(U16), TOKENS, .raw_stride = 34, .first = 1)},
    {&load_x, "tokens i32", D(3, {0}, .out = S1(16), RAW(I32), TOKENS, .raw_stride = 64)},
    {&load_x, "tokens i64", D(3, {0}, .out = S1(16), RAW(I64), TOKENS, .raw_stride = 128)},
    {&load_y, "classes u8", D(5, {0}, .out = {0}, RAW(U8), TOKENS, .raw_stride = 1)},
    {&load_y, "classes i64, later slice", D(5, {0}, .out = {0}, RAW(I64), TOKENS, .raw_stride = 8, .first = 3)},
    {&load_y, "tokens u16", D(3, {0}, .out = S1(16), RAW(U16), TOKENS, .raw_stride = 32)},
    {&load_y, "f32 targets", D(5, {0}, .out = S1(3), RAW(F32), .scale = 1, .raw_stride = 12)},
    {&load_y, "f64 image targets", D(3, {0}, .out = S3(2, 3, 5), RAW(F64), .scale = 2, .raw_stride = 240, NORM1(1, 3))},
};
const int op_large_count = sizeof op_large_cases / sizeof *op_large_cases;
