/* A wrong description gets a sentence at plan time; a missing argument one at bind time. */
#include <math.h>
#include <string.h>
#include <trireme/backend.h>

#include "support.h"

#define S1(a)    \
    {            \
        1, { a } \
    }
#define S2(a, b)    \
    {               \
        2, { a, b } \
    }
#define S3(a, b, c)    \
    {                  \
        3, { a, b, c } \
    }
#define OP(k) .kind = TRM_OP_##k
#define WINDOW(k, s, p) .kernel = {k, k}, .stride = {s, s}, .pad = {p, p}

static trm_device *device;

static int open_device(void **state) {
    (void)state;
    return trm_device_open("ref", 1, &device) == TRM_OK ? 0 : -1;
}

static int close_device(void **state) {
    (void)state;
    trm_device_close(device);
    return 0;
}

/* ---- descriptions ---------------------------------------------------------------------- */

typedef struct bad {
    const char *sentence; /* a part of what is said */
    trm_op_desc desc;
} bad;

static const double zero_std[] = {0.5, 0}, two_means[] = {0.5, 0.5}, nan_mean[] = {NAN};

/* clang-format off */
static const bad bads[] = {
    {"linear_fwd: 0 samples", {OP(LINEAR_FWD), .in = S1(3), .out = S1(2)}},
    {"linear_fwd: in has no valid shape", {OP(LINEAR_FWD), .n = 1, .in = S1(0), .out = S1(2)}},
    {"out has no valid shape", {OP(LINEAR_FWD), .n = 1, .in = S1(2), .out = S2(3, -1)}},
    {"samples of in (1048576) are too many", {OP(LINEAR_FWD), .n = INT64_C(1) << 40, .in = S1(1 << 20), .out = S1(2)}},
    {"in (3,4,5) wants 1 to 2 dimensions", {OP(LINEAR_FWD), .n = 1, .in = S3(3, 4, 5), .out = S1(2)}},
    {"in (4,3) and out (5,2) may differ in the last dimension only", {OP(LINEAR_BWD_W), .n = 1, .in = S2(4, 3), .out = S2(5, 2)}},
    {"in (4,3) and out (2) may differ", {OP(LINEAR_FWD), .n = 1, .in = S2(4, 3), .out = S1(2)}},
    {"without activation, not with relu", {OP(LINEAR_FWD), .n = 1, .in = S1(3), .out = S1(2), .residual = true, .act = TRM_ACT_RELU}},
    {"linear_fwd: activation unknown act", {OP(LINEAR_FWD), .n = 1, .in = S1(3), .out = S1(2), .act = (trm_act)77}},

    {"conv_fwd: in (9) wants 3 to 4 dimensions", {OP(CONV_FWD), .n = 1, .in = S1(9), .out = S3(1, 1, 1)}},
    {"kernel 0, stride 1 and padding 0 must be", {OP(CONV_FWD), .n = 1, .in = S3(1, 4, 4), .out = S3(1, 4, 4), WINDOW(0, 1, 0), .groups = 1}},
    {"kernel 3, stride 0 and", {OP(CONV_FWD), .n = 1, .in = S3(1, 4, 4), .out = S3(1, 4, 4), WINDOW(3, 0, 0), .groups = 1}},
    {"padding -1 must be", {OP(CONV_FWD), .n = 1, .in = S3(1, 4, 4), .out = S3(1, 4, 4), WINDOW(3, 1, -1), .groups = 1}},
    {"kernel 7 is larger than the padded image, 6", {OP(CONV_FWD), .n = 1, .in = S3(1, 4, 4), .out = S3(1, 1, 1), WINDOW(7, 1, 1), .groups = 1}},
    {"in height: 5 with kernel 3, stride 2, padding 1 gives 3, not 4", {OP(CONV_BWD_X), .n = 1, .in = S3(1, 5, 5), .out = S3(1, 4, 3), WINDOW(3, 2, 1), .groups = 1}},
    {"in width: 5 with kernel 3", {OP(CONV_BWD_W), .n = 1, .in = S3(1, 5, 5), .out = S3(1, 3, 5), WINDOW(3, 2, 1), .groups = 1}},
    {"0 groups do not divide", {OP(CONV_FWD), .n = 1, .in = S3(1, 4, 4), .out = S3(1, 4, 4), WINDOW(1, 1, 0)}},
    {"2 groups do not divide 4 input and 3 output channels", {OP(CONV_FWD), .n = 1, .in = S3(4, 4, 4), .out = S3(3, 4, 4), WINDOW(1, 1, 0), .groups = 2}},
    {"conv_fwd: activation tanh is not possible", {OP(CONV_FWD), .n = 1, .in = S3(1, 4, 4), .out = S3(1, 4, 4), WINDOW(1, 1, 0), .groups = 1, .act = TRM_ACT_TANH}},
    {"conv_fwd: a residual is not possible", {OP(CONV_FWD), .n = 1, .in = S3(1, 4, 4), .out = S3(1, 4, 4), WINDOW(1, 1, 0), .groups = 1, .residual = true}},
    {"pooling keeps 3 channels, not 2", {OP(POOL_FWD), .n = 1, .in = S3(3, 4, 4), .out = S3(2, 2, 2), WINDOW(2, 2, 0)}},
    {"padding 2 is more than half the kernel, 3", {OP(POOL_FWD), .n = 1, .in = S3(3, 4, 4), .out = S3(3, 6, 6), WINDOW(3, 1, 2)}},
    {"pooling mode 9", {OP(POOL_BWD), .n = 1, .in = S3(3, 4, 4), .out = S3(3, 2, 2), WINDOW(2, 2, 0), .pool = (trm_pool_mode)9}},

    {"bn_stats: in (4,3) wants 1 dimension (features) or 3 and more", {OP(BN_STATS), .n = 1, .in = S2(4, 3)}},
    {"eps is 0 and must be above 0", {OP(BN_APPLY), .n = 1, .in = S1(4)}},
    {"momentum is 1.5", {OP(BN_RUN), .n = 1, .in = S1(4), .eps = 1e-5, .momentum = 1.5, .train = true}},
    {"in (4) and out (5) must be equal", {OP(BN_APPLY), .n = 1, .in = S1(4), .out = S1(5), .eps = 1e-5}},
    {"bn_apply: activation gelu", {OP(BN_APPLY), .n = 1, .in = S1(4), .eps = 1e-5, .act = TRM_ACT_GELU}},
    {"ln_fwd: in (3,4,5) wants", {OP(LN_FWD), .n = 1, .in = S3(3, 4, 5), .eps = 1e-5}},
    {"gn_fwd: in (4,3) wants 1 dimension", {OP(GN_FWD), .n = 1, .in = S2(4, 3), .groups = 1, .eps = 1e-5}},
    {"3 groups do not divide 4 channels", {OP(GN_BWD), .n = 1, .in = S3(4, 2, 2), .groups = 3, .eps = 1e-5}},
    {"gn_fwd: eps is 0", {OP(GN_FWD), .n = 1, .in = S1(4), .groups = 2}},
    {"softmax_fwd: in (4) and out (5) must be equal", {OP(SOFTMAX_FWD), .n = 1, .in = S1(4), .out = S1(5)}},
    {"in (25) and out (2,3,4) differ in their number", {OP(UNFLATTEN_FWD), .n = 1, .in = S1(25), .out = S3(2, 3, 4)}},
    {"unflatten_bwd: out (24) wants 3 to 5 dimensions", {OP(UNFLATTEN_BWD), .n = 1, .in = S1(24), .out = S1(24)}},
    {"in (3,4,5) and out (6,4,6) may differ in their channels only", {OP(CONCAT_FWD), .n = 1, .in = S3(3, 4, 5), .out = S3(6, 4, 6)}},
    {"3 channels from channel 4 on do not fit in 6", {OP(CONCAT_BWD), .n = 1, .in = S3(3, 4, 5), .out = S3(6, 4, 5), .at = 4}},
    {"in height: a gap of -1 pixels", {OP(CONV_FWD), .n = 1, .in = S3(1, 4, 4), .out = S3(1, 4, 4), WINDOW(3, 1, 1), .groups = 1, .gap = {-1, 0}}},
    {"in width: kernel 7 is larger than the padded image, 6", {OP(CONV_FWD), .n = 1, .in = S3(1, 4, 4), .out = S3(1, 4, 1), WINDOW(3, 1, 1), .groups = 1, .gap = {0, 2}}},
    {"a pooling window has no gaps", {OP(POOL_FWD), .n = 1, .in = S3(1, 5, 5), .out = S3(1, 3, 3), WINDOW(2, 1, 0), .gap = {1, 1}}},
    {"in depth: 2 with kernel 2, stride 1, padding 0 gives 1, not 2", {OP(CONV_FWD), .n = 1, .in = {4, {1, 2, 4, 4}}, .out = {4, {1, 2, 3, 3}}, .kernel = {2, 2, 2}, .stride = {1, 1, 1}, .groups = 1}},
    {"in (1,4,4) and out (1,4,4,4) differ in their number of dimensions", {OP(CONV_FWD), .n = 1, .in = S3(1, 4, 4), .out = {4, {1, 4, 4, 4}}, WINDOW(1, 1, 0), .groups = 1}},
    {"in width: a window with 4294967296 is too large", {OP(CONV_FWD), .n = 1, .in = S3(1, 4, 4), .out = S3(1, 4, 1), .kernel = {1, 1}, .stride = {1, INT64_C(1) << 32}, .groups = 1}},
    {"in height: 4 with kernel 3, stride 2, padding 1 gives 7 to 8, not 9", {OP(CONV_FWD), .n = 1, .in = S3(1, 4, 4), .out = S3(1, 9, 7), WINDOW(3, 2, 1), .groups = 1, .transposed = true}},
    {"in width: 4 with kernel 3, stride 2, padding 1 gives 7 to 8, not 6", {OP(CONV_BWD_W), .n = 1, .in = S3(1, 4, 4), .out = S3(1, 8, 6), WINDOW(3, 2, 1), .groups = 1, .transposed = true}},
    {"pooling keeps 3 channels, not 2", {OP(POOL_FWD), .n = 1, .in = S3(3, 4, 4), .out = S3(2, 2, 2), .adaptive = true}},
    {"ln_bwd: eps is -1", {OP(LN_BWD), .n = 1, .in = S1(4), .eps = -1}},
    {"act_fwd: activation none is not possible", {OP(ACT_FWD), .n = 1, .in = S1(4)}},
    {"p is 1 and must be in [0, 1)", {OP(DROPOUT_FWD), .n = 1, .in = S1(4), .p = 1}},
    {"p is nan", {OP(DROPOUT_FWD), .n = 1, .in = S1(4), .p = NAN}},
    {"dropout_bwd: first sample -2", {OP(DROPOUT_BWD), .n = 1, .in = S1(4), .first = -2}},
    {"in (2,3,4) and out (25) differ in their number", {OP(FLATTEN_FWD), .n = 1, .in = S3(2, 3, 4), .out = S1(25)}},
    {"out (4,3,2) wants 1 to 2", {OP(FLATTEN_FWD), .n = 1, .in = S3(2, 3, 4), .out = S3(4, 3, 2)}},

    {"tokens (4) want out (4,C), not (5,8)", {OP(EMBED_FWD), .n = 1, .in = S1(4), .out = S2(5, 8), .count = 3}},
    {"a vocabulary of 0", {OP(EMBED_BWD), .n = 1, .in = S1(4), .out = S2(4, 8)}},
    {"posemb_fwd: in (4) wants 2 dimensions", {OP(POSEMB_FWD), .n = 1, .in = S1(4), .out = S1(4)}},
    {"in (4,8) and out (4,2) want to be (T,3C) and (T,C)", {OP(ATTN_FWD), .n = 1, .in = S2(4, 8), .out = S2(4, 2), .heads = 1}},
    {"5 heads do not divide 8 features", {OP(ATTN_FWD), .n = 1, .in = S2(4, 24), .out = S2(4, 8), .heads = 5}},
    {"0 heads", {OP(ATTN_BWD), .n = 1, .in = S2(4, 24), .out = S2(4, 8)}},
    {"add_fwd: activation sigmoid", {OP(ADD_FWD), .n = 1, .in = S1(4), .act = TRM_ACT_SIGMOID}},

    {"loss_ce: in (2,3,4,5,6) wants", {OP(LOSS_CE), .n = 1, .in = {5, {2, 3, 4, 5, 6}}}},
    {"label smoothing is 1.5 and must be in [0, 1]", {OP(LOSS_CE), .n = 1, .in = S1(3), .smoothing = 1.5}},
    {"loss_bce: in (3) and out (2) must be equal", {OP(LOSS_BCE), .n = 1, .in = S1(3), .out = S1(2)}},
    {"raw type 99 is unknown", {OP(LOAD_X), .n = 1, .out = S1(4), .raw_type = (trm_dtype)99, .raw_stride = 4, .scale = 1}},
    {"a raw sample of float32 (4) has 16 bytes, but the next one begins after 4", {OP(LOAD_X), .n = 1, .out = S1(4), .raw_type = TRM_F32, .raw_stride = 4, .scale = 1}},
    {"scale is 0", {OP(LOAD_X), .n = 1, .out = S1(4), .raw_type = TRM_F32, .raw_stride = 16}},
    {"mean and std have 2 entries, but the data has 3 channels", {OP(LOAD_X), .n = 1, .out = S3(3, 2, 2), .raw_type = TRM_U8, .raw_stride = 12, .scale = 1, .norm_count = 2, .mean = two_means}},
    {"std is 0 and must be above 0", {OP(LOAD_X), .n = 1, .out = S3(2, 2, 2), .raw_type = TRM_U8, .raw_stride = 8, .scale = 1, .norm_count = 2, .std = zero_std}},
    {"mean nan is not finite", {OP(LOAD_Y), .n = 1, .out = S1(2), .raw_type = TRM_U8, .raw_stride = 8, .scale = 1, .norm_count = 1, .mean = nan_mean}},
    {"load_y: first sample -1", {OP(LOAD_Y), .n = 1, .first = -1, .raw_type = TRM_U8, .raw_stride = 8, .scale = 1}},
    {"come from an integer type, not float16", {OP(LOAD_Y), .n = 1, .raw_type = TRM_F16, .raw_stride = 8, .out_tokens = true}},

    {"update: count is 0", {OP(UPDATE)}},
    {"sumsq: count is -3", {OP(SUMSQ), .count = -3}},
    {"momentum is 1 and must be in [0, 1)", {OP(UPDATE), .count = 1, .beta1 = 1}},
    {"weight decay is -0.1", {OP(UPDATE), .count = 1, .weight_decay = -0.1}},
    {"nesterov wants a momentum", {OP(UPDATE), .count = 1, .nesterov = true}},
    {"beta2 is 1.1", {OP(UPDATE), .count = 1, .optimizer = TRM_OPT_ADAM, .beta1 = 0.9, .beta2 = 1.1, .eps = 1e-8}},
    {"eps is 0", {OP(UPDATE), .count = 1, .optimizer = TRM_OPT_ADAMW, .beta1 = 0.9, .beta2 = 0.99}},
    {"nesterov belongs to sgd", {OP(UPDATE), .count = 1, .optimizer = TRM_OPT_ADAM, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .nesterov = true}},
    {"alpha is 1 and must be in [0, 1)", {OP(UPDATE), .count = 1, .optimizer = TRM_OPT_RMSPROP, .beta2 = 1, .eps = 1e-8}},
    {"momentum is 1.5", {OP(UPDATE), .count = 1, .optimizer = TRM_OPT_RMSPROP, .beta1 = 1.5, .beta2 = 0.9, .eps = 1e-8}},
    {"eps is 0", {OP(UPDATE), .count = 1, .optimizer = TRM_OPT_LAMB, .beta1 = 0.9, .beta2 = 0.99}},
    {"optimizer 5 is unknown", {OP(UPDATE), .count = 1, .optimizer = (trm_optimizer_kind)5}},
};
/* clang-format on */

static void test_bad_descriptions(void **state) {
    (void)state;
    for (size_t i = 0; i < SUPPORT_COUNT(bads); i++) {
        trm_op *op = NULL;
        assert_fault(trm_op_plan(device, &bads[i].desc, &op), TRM_JOB, bads[i].sentence);
        assert_null(op);
    }
}

/* Which arguments may lie as bfloat16 is checked before the device is asked whether it has any. */
static void test_bfloat16(void **state) {
    (void)state;
    enum {
        X = TRM_HALF(TRM_ARG_X),
        W = TRM_HALF(TRM_ARG_W),
        Y = TRM_HALF(TRM_ARG_Y),
        DX = TRM_HALF(TRM_ARG_DX)
    };
    const bad wrong[] = {
        {"linear_fwd: only arguments", {OP(LINEAR_FWD), .n = 1, .in = S1(3), .out = S1(2), .half = X}},
        {"linear_fwd: Y lies as bfloat16 only where PRE",
         {OP(LINEAR_FWD), .n = 1, .in = S1(3), .out = S1(2), .half = X | W | Y}},
        {"cannot lie as bfloat16",
         {OP(LINEAR_FWD), .n = 1, .in = S1(3), .out = S1(2), .half = X | W | TRM_HALF(TRM_ARG_B)}},
        {"softmax_fwd: arguments", {OP(SOFTMAX_FWD), .n = 1, .in = S1(3), .half = Y}},
        {"is not added to",
         {OP(BN_GRAD_APPLY), .n = 1, .in = S1(3), .eps = 1e-5, .accumulate = true, .half = DX}},
    };
    for (size_t i = 0; i < SUPPORT_COUNT(wrong); i++) {
        trm_op *op = NULL;
        assert_fault(trm_op_plan(device, &wrong[i].desc, &op), TRM_INTERNAL, wrong[i].sentence);
        assert_null(op);
    }
    trm_op *op = NULL;
    trm_op_desc right = {OP(CAST), .n = 1, .in = S1(3), .half = Y};
    assert_fault(trm_op_plan(device, &right, &op), TRM_MACHINE, "back end ref has no bfloat16");
    assert_fault(trm_device_half(device), TRM_MACHINE, "it computes in float64");
    assert_false(trm_op_half_pays(device, &(trm_op_desc){OP(LINEAR_FWD), .n = 1, .in = S1(3), .out = S1(2)}));
}

static void test_unknown_kind(void **state) {
    (void)state;
    trm_op *op = NULL;
    trm_op_desc d = {.kind = TRM_OP_COUNT, .n = 1};
    assert_fault(trm_op_plan(device, &d, &op), TRM_INTERNAL, "op kind");
    assert_string_equal(trm_op_name(TRM_OP_COUNT), "unknown op");
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(trm_op_name(TRM_OP_LINEAR_FWD), "linear_fwd");
    assert_string_equal(trm_op_name(TRM_OP_SUMSQ), "sumsq");
    assert_string_equal(trm_act_name(TRM_ACT_GELU_TANH), "gelu_tanh");
    for (int k = 0; k < TRM_OP_COUNT; k++) assert_non_null(trm_op_name((trm_op_kind)k));
}

/* ---- arguments ---------------------------------------------------------------------------- */

static _Alignas(64) double memory[64];

static trm_status bind(const trm_op_desc *d, uint32_t given, void *scratch) {
    void *args[TRM_ARG_COUNT];
    trm_op *op;
    assert_ok(trm_op_plan(device, d, &op));
    for (int a = 0; a < TRM_ARG_COUNT; a++) args[a] = given >> a & 1 ? memory : NULL;
    trm_status s = trm_op_bind(op, args, scratch);
    trm_op_destroy(op);
    return s;
}

#define A(name) (UINT32_C(1) << TRM_ARG_##name)

static void test_missing_arguments(void **state) {
    (void)state;
    trm_op_desc linear = {OP(LINEAR_FWD), .n = 1, .in = S1(3), .out = S1(2), .bias = true};
    assert_fault(bind(&linear, A(X) | A(Y), NULL), TRM_INTERNAL, "linear_fwd: argument W is not bound");
    assert_fault(bind(&linear, A(X) | A(Y) | A(W), NULL), TRM_INTERNAL, "argument B");
    assert_ok(bind(&linear, A(X) | A(Y) | A(W) | A(B), NULL));
    linear.act = TRM_ACT_GELU;
    assert_fault(bind(&linear, A(X) | A(Y) | A(W) | A(B), NULL), TRM_INTERNAL, "argument PRE");
    linear.act = TRM_ACT_NONE;
    linear.residual = true;
    assert_fault(bind(&linear, A(X) | A(Y) | A(W) | A(B), NULL), TRM_INTERNAL, "argument RES");
}

static void test_arguments_by_activation(void **state) {
    (void)state;
    trm_op_desc act = {OP(ACT_BWD), .n = 1, .in = S1(3), .act = TRM_ACT_GELU};
    assert_fault(bind(&act, A(DX) | A(DY) | A(Y), NULL), TRM_INTERNAL, "argument X");
    act.act = TRM_ACT_TANH;
    assert_fault(bind(&act, A(DX) | A(DY) | A(X), NULL), TRM_INTERNAL, "argument Y");
    assert_ok(bind(&act, A(DX) | A(DY) | A(Y), NULL));
}

static void test_arguments_by_phase(void **state) {
    (void)state;
    trm_op_desc loss = {OP(LOSS_CE), .n = 1, .in = S1(3)};
    assert_ok(bind(&loss, A(X) | A(T), NULL));
    loss.train = true;
    assert_fault(bind(&loss, A(X) | A(T), NULL), TRM_INTERNAL, "argument DX");
    trm_op_desc bn = {OP(BN_APPLY), .n = 1, .in = S1(3), .eps = 1e-5, .train = true};
    uint32_t always = A(X) | A(Y) | A(W) | A(B) | A(RUN_MEAN) | A(RUN_VAR);
    assert_fault(bind(&bn, always, memory), TRM_INTERNAL, "argument STAT");
    bn.train = false;
    assert_ok(bind(&bn, always, memory));
}

static void test_arguments_of_optimizers(void **state) {
    (void)state;
    trm_op_desc sgd = {OP(UPDATE), .count = 3};
    assert_ok(bind(&sgd, A(W) | A(G), NULL));
    sgd.beta1 = 0.9;
    assert_fault(bind(&sgd, A(W) | A(G), NULL), TRM_INTERNAL, "argument M1");
    trm_op_desc adam = {OP(UPDATE),   .count = 3,    .optimizer = TRM_OPT_ADAM,
                        .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
    assert_fault(bind(&adam, A(W) | A(G) | A(M1), NULL), TRM_INTERNAL, "argument M2");
    trm_op_desc rmsprop = {OP(UPDATE), .count = 3, .optimizer = TRM_OPT_RMSPROP, .beta2 = 0.99, .eps = 1e-8};
    assert_fault(bind(&rmsprop, A(W) | A(G), NULL), TRM_INTERNAL, "argument M1");
    assert_ok(bind(&rmsprop, A(W) | A(G) | A(M1), NULL));
    rmsprop.beta1 = 0.9;
    assert_fault(bind(&rmsprop, A(W) | A(G) | A(M1), NULL), TRM_INTERNAL, "argument M2");
}

static void test_saved_and_scratch(void **state) {
    (void)state;
    trm_op_desc attention = {OP(ATTN_FWD), .n = 1, .in = S2(2, 6), .out = S2(2, 2), .heads = 1};
    assert_fault(bind(&attention, A(X) | A(Y), memory), TRM_INTERNAL, "argument SAVED");
    assert_fault(bind(&attention, A(X) | A(Y) | A(SAVED), NULL), TRM_INTERNAL,
                 "bytes of scratch are not bound");
    assert_fault(bind(&attention, A(X) | A(Y) | A(SAVED), memory + 1), TRM_INTERNAL, "no multiple of 64");
}

/* What a rule does not name is hidden from the back end. */
static void test_other_arguments_are_hidden(void **state) {
    (void)state;
    void *args[TRM_ARG_COUNT];
    trm_op *op;
    trm_op_desc linear = {OP(LINEAR_FWD), .n = 1, .in = S1(3), .out = S1(2)};
    for (int a = 0; a < TRM_ARG_COUNT; a++) args[a] = memory;
    assert_ok(trm_op_plan(device, &linear, &op));
    assert_ok(trm_op_bind(op, args, NULL));
    assert_non_null(op->arg[TRM_ARG_W]);
    assert_null(op->arg[TRM_ARG_B]);
    assert_null(op->arg[TRM_ARG_DX]);
    trm_op_destroy(op);
}

/* ---- devices ---------------------------------------------------------------------------------- */

static void test_devices(void **state) {
    (void)state;
    trm_device *d = NULL;
    assert_fault(trm_device_open("cuba", 1, &d), TRM_USAGE,
                 "no back end is named \"cuba\"; there are: cpu, ref");
    assert_fault(trm_device_open(NULL, 1, &d), TRM_USAGE, "there are: cpu, ref");
    assert_fault(trm_device_open("rf", 1, &d), TRM_USAGE, "no back end");
    assert_string_equal(trm_error_hint(), "did you mean \"ref\"?");
    assert_fault(trm_device_open("ref", 0, &d), TRM_USAGE, "at least 1 thread, not 0");
    assert_null(d);
    trm_device_close(NULL);
    trm_op_destroy(NULL);
}

static trm_status plan_nothing(trm_device *d, trm_op *op) {
    (void)d;
    (void)op;
    return TRM_OK;
}
static trm_status plan_refuses(trm_device *d, trm_op *op) {
    (void)d;
    (void)op;
    return trm_fail(TRM_MACHINE, "too wide");
}

/* Back ends that lack something: said at plan time, by name. */
static void test_poor_back_ends(void **state) {
    (void)state;
    trm_backend none = {.name = "none", .float_size = 4}, empty = none, narrow = none;
    trm_device d = {.backend = &none};
    trm_op_desc copy = {OP(COPY), .n = 1, .in = S1(3)};
    trm_op *op;
    assert_fault(trm_op_plan(&d, &copy, &op), TRM_MACHINE, "back end none has no ops");
    empty.plan = plan_nothing;
    d.backend = &empty;
    assert_fault(trm_op_plan(&d, &copy, &op), TRM_INTERNAL, "planned copy but not how to run it");
    narrow.plan = plan_refuses;
    d.backend = &narrow;
    assert_fault(trm_op_plan(&d, &copy, &op), TRM_MACHINE, "copy on none: too wide");
}

/* No memory is a sentence too, and nothing stays behind. */
static void test_no_memory(void **state) {
    (void)state;
    trm_op_desc copy = {OP(COPY), .n = 1, .in = S1(3)};
    uint64_t live = trm_mem_count().live_bytes;
    trm_device *d = NULL;
    trm_op *op = NULL;
    trm_mem_fail_after(1);
    assert_fault(trm_op_plan(device, &copy, &op), TRM_MEMORY, "for an op");
    trm_mem_fail_after(1);
    assert_fault(trm_device_open("ref", 1, &d), TRM_MEMORY, "for a device");
    assert_true(trm_mem_count().live_bytes == live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_descriptions),
        cmocka_unit_test(test_bfloat16),
        cmocka_unit_test(test_unknown_kind),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_missing_arguments),
        cmocka_unit_test(test_arguments_by_activation),
        cmocka_unit_test(test_arguments_by_phase),
        cmocka_unit_test(test_arguments_of_optimizers),
        cmocka_unit_test(test_saved_and_scratch),
        cmocka_unit_test(test_other_arguments_are_hidden),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_poor_back_ends),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
