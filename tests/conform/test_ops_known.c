/* What PyTorch gives, by hand: small inputs whose outputs can be worked out on paper (or are
 * documented), for every back end.  These pin down what the words of backend.h leave open. */
#include <math.h>
#include <string.h>

#include "op_bench.h"

#define BOUND 1e-6 /* of the largest number of a tensor */
#define MOST_VALUES 64

typedef struct values {
    trm_arg arg;
    int count;
    const double *v;
} values;

typedef struct known {
    const char *name;
    trm_op_desc desc;
    values in[8], out[4]; /* end with count 0; a buffer that is in both is updated */
    double loss, correct;
    const unsigned char *raw; /* samples for the loads */
} known;

#define V(arg_, ...)                                                                                       \
    {                                                                                                      \
        TRM_ARG_##arg_, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (const double[]) { __VA_ARGS__ } \
    }
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

/* clang-format off */
static const known knowns[] = {
    {"linear is x W^T + b", {OP(LINEAR_FWD), .n = 1, .in = S1(2), .out = S1(3), .bias = true},
     .in = {V(X, 1, 2), V(W, 1, 2, 3, 4, 5, 6), V(B, 10, 20, 30)}, .out = {V(Y, 15, 31, 47)}},
    {"gelu is exact", {OP(ACT_FWD), .n = 1, .in = S1(4), .act = TRM_ACT_GELU},
     .in = {V(X, -1, 0, 1, 3)}, .out = {V(Y, -0.15865525393145707, 0, 0.8413447460685429, 2.9959503059051097)}},
    {"gelu tanh", {OP(ACT_FWD), .n = 1, .in = S1(4), .act = TRM_ACT_GELU_TANH},
     .in = {V(X, -1, 0, 1, 3)}, .out = {V(Y, -0.15880800939172324, 0, 0.8411919906082768, 2.996362607918227)}},
    {"silu is x sigmoid(x)", {OP(ACT_FWD), .n = 1, .in = S1(4), .act = TRM_ACT_SILU},
     .in = {V(X, -1, 0, 1, 3)}, .out = {V(Y, -0.2689414213699951, 0, 0.7310585786300049, 2.8577223804673)}},
    {"softmax goes over the channels of an image", {OP(SOFTMAX_FWD), .n = 1, .in = S3(3, 1, 2)},
     .in = {V(X, 1, 2, 3, 7, 7, 7)}, .out = {V(Y, 0.09003057317038046, 0.24472847105479764, 0.6652409557748218, 1 / 3.0, 1 / 3.0, 1 / 3.0)}},
    /* Groups of 1, 3 and 10, 30: variances 1 and 100 and eps 3, so 1/2 and 1/sqrt(103). */
    {"group norm", {OP(GN_FWD), .n = 1, .in = S1(4), .groups = 2, .eps = 3, .bias = true},
     .in = {V(X, 1, 3, 10, 30), V(W, 2, 2, 1, 1), V(B, 0, 1, 0, 0)}, .out = {V(Y, -1, 2, -0.985329278164293, 0.985329278164293)}},
    {"relu passes no gradient at 0", {OP(ACT_BWD), .n = 1, .in = S1(3), .act = TRM_ACT_RELU},
     .in = {V(Y, 0, 2, 0), V(DY, 5, 6, 7)}, .out = {V(DX, 0, 6, 0)}},

    /* The image 1 2 3 / 4 5 6 / 7 8 9 under 1 2 / 3 4, as it stands: 1*1 + 2*2 + 4*3 + 5*4 = 37. */
    {"conv does not flip its kernel", {OP(CONV_FWD), .n = 1, .in = S3(1, 3, 3), .out = S3(1, 2, 2), WINDOW(2, 1, 0), .groups = 1},
     .in = {V(X, 1, 2, 3, 4, 5, 6, 7, 8, 9), V(W, 1, 2, 3, 4)}, .out = {V(Y, 37, 47, 67, 77)}},
    {"conv weights are out, in, height, width", {OP(CONV_FWD), .n = 1, .in = S3(2, 1, 2), .out = S3(2, 1, 1), .kernel = {1, 2}, .stride = {1, 1}, .groups = 1},
     .in = {V(X, 1, 10, 2, 20), V(W, 1, 2, 3, 4, 5, 6, 7, 8)}, .out = {V(Y, 1 * 1 + 2 * 2 + 3 * 10 + 4 * 20, 5 * 1 + 6 * 2 + 7 * 10 + 8 * 20)}},
    {"conv dilates its kernel", {OP(CONV_FWD), .n = 1, .in = S3(1, 3, 3), .out = S3(1, 1, 1), WINDOW(2, 1, 0), .gap = {1, 1}, .groups = 1},
     .in = {V(X, 1, 2, 3, 4, 5, 6, 7, 8, 9), V(W, 1, 2, 3, 4)}, .out = {V(Y, 1 * 1 + 2 * 3 + 3 * 7 + 4 * 9)}},
    /* Each pixel puts the kernel, times its value, into the output: 1 and 2 of a row, two columns apart, one of them cut off. */
    {"a transposed convolution does not flip its kernel", {OP(CONV_FWD), .n = 1, .in = S3(1, 1, 2), .out = S3(1, 1, 5), .kernel = {1, 3}, .stride = {1, 2}, .groups = 1, .transposed = true, .bias = true},
     .in = {V(X, 1, 2), V(W, 1, 2, 3), V(B, 10)}, .out = {V(Y, 11, 12, 15, 14, 16)}},
    {"padding of a transposed convolution cuts off", {OP(CONV_FWD), .n = 1, .in = S3(1, 1, 2), .out = S3(1, 1, 4), .kernel = {1, 3}, .stride = {1, 2}, .pad = {0, 1}, .groups = 1, .transposed = true},
     .in = {V(X, 1, 2), V(W, 1, 2, 3)}, .out = {V(Y, 2, 5, 4, 6)}},
    {"transposed weights are in, out, height, width", {OP(CONV_FWD), .n = 1, .in = S3(2, 1, 1), .out = S3(2, 1, 2), .kernel = {1, 2}, .stride = {1, 1}, .groups = 1, .transposed = true},
     .in = {V(X, 1, 10), V(W, 1, 2, 3, 4, 5, 6, 7, 8)}, .out = {V(Y, 1 + 50, 3 + 70, 2 + 60, 4 + 80)}},
    {"conv of a volume", {OP(CONV_FWD), .n = 1, .in = {4, {1, 2, 1, 2}}, .out = {4, {1, 1, 1, 1}}, .kernel = {2, 1, 2}, .stride = {1, 1, 1}, .groups = 1},
     .in = {V(X, 1, 2, 3, 4), V(W, 1, 10, 100, 1000)}, .out = {V(Y, 1 + 20 + 300 + 4000)}},
    {"adaptive windows overlap where they leave a rest", {OP(POOL_FWD), .n = 1, .in = S3(1, 1, 5), .out = S3(1, 1, 3), .pool = TRM_POOL_AVG, .adaptive = true},
     .in = {V(X, 1, 3, 5, 7, 9)}, .out = {V(Y, 2, 5, 8)}},
    {"unflatten takes channels first", {OP(UNFLATTEN_FWD), .n = 1, .in = S1(6), .out = S3(2, 1, 3)},
     .in = {V(X, 1, 2, 3, 4, 5, 6)}, .out = {V(Y, 1, 4, 2, 5, 3, 6)}},
    {"concat writes its channels only", {OP(CONCAT_FWD), .n = 1, .in = S3(1, 1, 2), .out = S3(2, 1, 2), .at = 1},
     .in = {V(X, 5, 6), V(Y, 1, 2, 3, 4)}, .out = {V(Y, 1, 5, 3, 6)}},
    {"flatten is channels first", {OP(FLATTEN_FWD), .n = 1, .in = S3(2, 1, 3), .out = S1(6)},
     .in = {V(X, 1, 10, 2, 20, 3, 30)}, .out = {V(Y, 1, 2, 3, 10, 20, 30)}},
    {"padding never is a maximum", {OP(POOL_FWD), .n = 1, .in = S3(1, 2, 2), .out = S3(1, 2, 2), WINDOW(2, 2, 1), .pool = TRM_POOL_MAX},
     .in = {V(X, -1, -2, -3, -4)}, .out = {V(Y, -1, -2, -3, -4)}},
    {"padding is not counted in an average", {OP(POOL_FWD), .n = 1, .in = S3(1, 2, 2), .out = S3(1, 1, 1), .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}, .pool = TRM_POOL_AVG},
     .in = {V(X, 1, 2, 3, 6)}, .out = {V(Y, 3)}},

    {"images are loaded from channels first", {OP(LOAD_X), .n = 1, .out = S3(2, 1, 3), .raw_type = TRM_U8, .raw_stride = 6, .scale = 1},
     .raw = (const unsigned char[]){1, 2, 3, 10, 20, 30}, .out = {V(Y, 1, 10, 2, 20, 3, 30)}},
    {"images are loaded from channels last", {OP(LOAD_X), .n = 1, .out = S3(2, 1, 3), .raw_type = TRM_U8, .raw_stride = 6, .scale = 1, .raw_hwc = true},
     .raw = (const unsigned char[]){1, 10, 2, 20, 3, 30}, .out = {V(Y, 1, 10, 2, 20, 3, 30)}},
    {"a load scales, then takes the mean, then divides", {OP(LOAD_Y), .n = 2, .out = S1(1), .raw_type = TRM_U8, .raw_stride = 2, .first = 1, .scale = 0.5, .norm_count = 1, .mean = (const double[]){3}, .std = (const double[]){4}},
     .raw = (const unsigned char[]){99, 99, 30, 99, 50}, .out = {V(Y, (15 - 3) / 4.0, (25 - 3) / 4.0)}},
    {"each number of a vector has its own mean and deviation", {OP(LOAD_X), .n = 2, .out = S1(3), .raw_type = TRM_U8, .raw_stride = 3, .scale = 1, .norm_count = 3, .mean = (const double[]){1, 2, 3}, .std = (const double[]){1, 2, 4}},
     .raw = (const unsigned char[]){2, 6, 11, 1, 0, 3}, .out = {V(Y, 1, 2, 2, 0, -1, 0)}},

    /* Mean 2, biased variance 2/3, unbiased 1; 1/sqrt(2/3) = 1.2247448713915890 without eps. */
    {"batch norm divides by the biased variance", {OP(BN_APPLY), .n = 3, .in = S1(1), .eps = 1e-12, .train = true},
     .in = {V(X, 1, 2, 3), V(STAT, 6, 14, 3), V(W, 2), V(B, 1)},
     .out = {V(Y, 1 - 2 * 1.224744871391589, 1, 1 + 2 * 1.224744871391589)}},
    {"running moments go to the unbiased variance", {OP(BN_RUN), .n = 1, .in = S1(1), .eps = 1e-12, .momentum = 0.1, .train = true},
     .in = {V(STAT, 6, 14, 3), V(RUN_MEAN, 0), V(RUN_VAR, 3)}, .out = {V(RUN_MEAN, 0.2), V(RUN_VAR, 2.8)}},
    {"batch norm of ranks: sums of more rows than its own", {OP(BN_APPLY), .n = 1, .in = S1(1), .eps = 1e-12, .train = true},
     .in = {V(X, 3), V(STAT, 6, 14, 3), V(W, 1), V(B, 0)}, .out = {V(Y, 1.224744871391589)}},
    {"batch norm in evaluation", {OP(BN_APPLY), .n = 2, .in = S1(1), .eps = 1e-12, .momentum = 0.1},
     .in = {V(X, 1, 5), V(W, 3), V(B, 1), V(RUN_MEAN, 1), V(RUN_VAR, 4)}, .out = {V(Y, 1, 7), V(RUN_MEAN, 1), V(RUN_VAR, 4)}},
    {"layer norm takes the biased variance", {OP(LN_FWD), .n = 1, .in = S1(4), .eps = 1e-12, .bias = true},
     .in = {V(X, 1, 2, 3, 4), V(W, 1, 1, 1, 2), V(B, 0, 0, 0, 1)},
     .out = {V(Y, -1.3416407864998738, -0.4472135954999579, 0.4472135954999579, 1 + 2 * 1.3416407864998738)}},

    /* Two positions, one head of 1: scores are q k. The second sees both keys with equal scores. */
    {"causal attention does not look ahead", {OP(ATTN_FWD), .n = 1, .in = S2(2, 3), .out = S2(2, 1), .heads = 1, .causal = true},
     .in = {V(X, 1, 2, 10, 0, 5, 20)}, .out = {V(Y, 10, 15)}},
    /* d = 4, q.k = 2 and 0, over sqrt(4): softmax(1, 0) = 0.7310585786300049 */
    {"attention scales by the size of a head", {OP(ATTN_FWD), .n = 1, .in = S2(2, 12), .out = S2(2, 4), .heads = 1},
     .in = {V(X, 1, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)},
     .out = {V(Y, 0.7310585786300049, 0, 0, 0.2689414213699951, 0.5, 0, 0, 0.5)}},
    {"heads lie side by side in each third", {OP(ATTN_FWD), .n = 1, .in = S2(1, 6), .out = S2(1, 2), .heads = 2},
     .in = {V(X, 1, 2, 3, 4, 5, 6)}, .out = {V(Y, 5, 6)}},

    /* log(e^1 + e^2 + e^3) = 3.4076059644443806 */
    {"cross entropy and its gradient", {OP(LOSS_CE), .n = 1, .in = S1(3), .train = true},
     .in = {V(X, 1, 2, 3), V(T, 0)}, .out = {V(DX, 0.09003057317038046 - 1, 0.24472847105479764, 0.6652409557748218)}, .loss = 2.4076059644443806, .correct = 0},
    {"cross entropy of the pixels of an image", {OP(LOSS_CE), .n = 1, .in = S3(3, 1, 2), .train = true},
     .in = {V(X, 1, 2, 3, 1, 2, 3), V(T, 0, 2)}, .out = {V(DX, 0.09003057317038046 - 1, 0.24472847105479764, 0.6652409557748218, 0.09003057317038046, 0.24472847105479764, 0.6652409557748218 - 1)},
     .loss = 2.4076059644443806 + 0.4076059644443806, .correct = 1},
    {"cross entropy of huge logits", {OP(LOSS_CE), .n = 2, .in = S1(2), .train = true},
     .in = {V(X, 10000, 0, 0, -10000), V(T, 0, 1)}, .out = {V(DX, 0, 0, 1, -1)}, .loss = 10000, .correct = 1},
    {"of equal logits the first is the answer", {OP(LOSS_CE), .n = 2, .in = S1(2)},
     .in = {V(X, 1, 1, 1, 1), V(T, 0, 1)}, .loss = 2 * 0.6931471805599453, .correct = 1},
    /* 3.4076059644443806 - 0.7 * 1 - 0.1 * (1 + 2 + 3) */
    {"smoothed cross entropy", {OP(LOSS_CE), .n = 1, .in = S1(3), .train = true, .smoothing = 0.3},
     .in = {V(X, 1, 2, 3), V(T, 0)}, .out = {V(DX, 0.09003057317038046 - 0.8, 0.14472847105479764, 0.5652409557748218)}, .loss = 2.1076059644443806, .correct = 0},
    {"an ignored class counts nowhere", {OP(LOSS_CE), .n = 3, .in = S1(3), .train = true, .ignores = true, .ignore = -1},
     .in = {V(X, 5, 2, 3, 1, 2, 3, 7, 8, 9), V(T, -1, 0, -1)}, .out = {V(DX, 0, 0, 0, 0.09003057317038046 - 1, 0.24472847105479764, 0.6652409557748218, 0, 0, 0)}, .loss = 2.4076059644443806, .correct = 0},
    /* (log 2 + log(1 + e^-2)) / 2 */
    {"binary cross entropy is a mean over a sample", {OP(LOSS_BCE), .n = 1, .in = S1(2), .train = true},
     .in = {V(X, 0, 2), V(T, 0.5, 1)}, .out = {V(DX, 0, -0.05960146101105885)}, .loss = 0.41003759580145887, .correct = 0},
    {"mean squares is a mean over a sample, a sum over samples", {OP(LOSS_MSE), .n = 2, .in = S1(2), .train = true},
     .in = {V(X, 1, 2, 3, 4), V(T, 0, 0, 3, 0)}, .out = {V(DX, 1, 2, 0, 4)}, .loss = 2.5 + 8, .correct = 0},

    /* The step of these has lr 0.1, 1/count 0.5, clip factor 0.5: G 2 is a gradient of 0.5. */
    {"sgd with decay", {OP(UPDATE), .count = 1, .weight_decay = 0.1}, .in = {V(W, 1), V(G, 2)}, .out = {V(W, 1 - 0.1 * 0.6)}},
    {"sgd with momentum", {OP(UPDATE), .count = 1, .beta1 = 0.9}, .in = {V(W, 1), V(G, 2), V(M1, 1)}, .out = {V(W, 1 - 0.1 * 1.4), V(M1, 1.4)}},
    {"sgd with nesterov", {OP(UPDATE), .count = 1, .beta1 = 0.9, .nesterov = true},
     .in = {V(W, 1), V(G, 2), V(M1, 1)}, .out = {V(W, 1 - 0.1 * (0.5 + 0.9 * 1.4)), V(M1, 1.4)}},
    {"adam's first step is lr", {OP(UPDATE), .count = 2, .optimizer = TRM_OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
     .in = {V(W, 1, 1), V(G, 2, -2e-3), V(M1, 0, 0), V(M2, 0, 0)},
     .out = {V(W, 0.9, 1.1 - 0.1 * 2e-5), V(M1, 0.05, -5e-5), V(M2, 0.00025, 2.5e-10)}},
    {"adam's decay joins the gradient", {OP(UPDATE), .count = 1, .optimizer = TRM_OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1},
     .in = {V(W, 1), V(G, 2), V(M1, 0), V(M2, 0)}, .out = {V(W, 0.9), V(M1, 0.06), V(M2, 0.00036)}},
    {"adamw's decay does not", {OP(UPDATE), .count = 1, .optimizer = TRM_OPT_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1},
     .in = {V(W, 1), V(G, 2), V(M1, 0), V(M2, 0)}, .out = {V(W, 0.99 - 0.1), V(M1, 0.05), V(M2, 0.00025)}},
    /* 0.5 / sqrt(0.01 * 0.5^2) = 10 */
    {"rmsprop's first step is ten times lr", {OP(UPDATE), .count = 1, .optimizer = TRM_OPT_RMSPROP, .beta2 = 0.99, .eps = 1e-10},
     .in = {V(W, 3), V(G, 2), V(M1, 0)}, .out = {V(W, 2), V(M1, 0.0025)}},
    {"rmsprop with momentum", {OP(UPDATE), .count = 1, .optimizer = TRM_OPT_RMSPROP, .beta1 = 0.5, .beta2 = 0.99, .eps = 1e-10},
     .in = {V(W, 3), V(G, 2), V(M1, 0), V(M2, 4)}, .out = {V(W, 1.8), V(M1, 0.0025), V(M2, 12)}},
    /* Adam's step is 1, 1; the weights are 5 / sqrt(2) times as long. */
    {"lamb's step is as long as the weights", {OP(UPDATE), .count = 2, .optimizer = TRM_OPT_LAMB, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-10},
     .in = {V(W, 3, 4), V(G, 2, 2), V(M1, 0, 0), V(M2, 0, 0)},
     .out = {V(W, 2.6464466094067263, 3.6464466094067263), V(M1, 0.05, 0.05), V(M2, 0.00025, 0.00025)}},
    {"lamb moves weights of zero", {OP(UPDATE), .count = 1, .optimizer = TRM_OPT_LAMB, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-10},
     .in = {V(W, 0), V(G, 2), V(M1, 0), V(M2, 0)}, .out = {V(W, -0.1), V(M1, 0.05), V(M2, 0.00025)}},
};
/* clang-format on */

/* ---- one op on given numbers --------------------------------------------------------------- */

static bool is_int(const trm_op_desc *d, trm_arg a) { return a == TRM_ARG_T && d->kind == TRM_OP_LOSS_CE; }
static bool is_double(const trm_device *dev, trm_arg a) {
    return a == TRM_ARG_STAT || a == TRM_ARG_GSTAT || dev->backend->float_size == sizeof(double);
}

static void put(const trm_device *dev, const trm_op_desc *d, const values *v, void *to) {
    for (int i = 0; i < v->count; i++)
        if (is_int(d, v->arg))
            ((int32_t *)to)[i] = (int32_t)v->v[i];
        else if (is_double(dev, v->arg))
            ((double *)to)[i] = v->v[i];
        else
            ((float *)to)[i] = (float)v->v[i];
}

static void check(const trm_device *dev, const values *v, const void *got) {
    double size = 0;
    for (int i = 0; i < v->count; i++) size = fmax(size, fabs(v->v[i]));
    for (int i = 0; i < v->count; i++) {
        double g = is_double(dev, v->arg) ? ((const double *)got)[i] : ((const float *)got)[i];
        if (!(fabs(g - v->v[i]) <= BOUND * size))
            fail_msg("%s[%d] is %.9g, not %.9g", op_arg_name(v->arg), i, g, v->v[i]);
    }
}

typedef struct known_run {
    _Alignas(64) char memory[TRM_ARG_COUNT][MOST_VALUES * sizeof(double)];
    double tail[TRM_TAIL_SIZE];
    void *args[TRM_ARG_COUNT], *scratch, *saved;
} known_run;

static void bind(known_run *r, const known *k, trm_device *d, trm_op *op) {
    r->scratch = trm_alloc(op->scratch_bytes + 1, "scratch");
    r->saved = trm_alloc(op->saved_bytes + 1, "saved");
    for (int i = 0; k->in[i].count > 0; i++) r->args[k->in[i].arg] = r->memory[k->in[i].arg];
    for (int i = 0; k->out[i].count > 0; i++) r->args[k->out[i].arg] = r->memory[k->out[i].arg];
    for (int i = 0; k->in[i].count > 0; i++) put(d, &k->desc, &k->in[i], r->args[k->in[i].arg]);
    r->args[TRM_ARG_SAVED] = r->saved;
    assert_ok(trm_op_bind(op, r->args, r->scratch));
}

/* Runs it once; the caller looks at the outputs. */
static trm_status run(known_run *r, const known *k, trm_device *d) {
    trm_op *op;
    trm_step step = {.update = 1, .lr = 0.1, .inv_count = 0.5, .clip_factor = 0.5, .tail = r->tail};
    step.x_raw = k->desc.kind == TRM_OP_LOAD_X ? k->raw : NULL;
    step.y_raw = k->desc.kind == TRM_OP_LOAD_Y ? k->raw : NULL;
    assert_ok(trm_op_plan(d, &k->desc, &op));
    bind(r, k, d, op);
    trm_status s = trm_op_run(op, &step);
    trm_op_destroy(op);
    trm_free(r->scratch);
    trm_free(r->saved);
    return s;
}

static void test_known(void **state) {
    const op_trial *t = op_trial_of(state);
    const known *k = NULL;
    known_run r = {{{0}}, {0}, {0}, NULL, NULL};
    for (size_t i = 0; i < SUPPORT_COUNT(knowns); i++)
        if (knowns[i].name == t->c->name) k = &knowns[i];
    assert_non_null(k);
    assert_ok(run(&r, k, t->device));
    for (int i = 0; k->out[i].count > 0; i++) check(t->device, &k->out[i], r.args[k->out[i].arg]);
    assert_bound(fabs(r.tail[TRM_TAIL_LOSS] - k->loss), BOUND * fabs(k->loss));
    assert_true(r.tail[TRM_TAIL_CORRECT] == k->correct);
}

/* ---- ids that do not exist ------------------------------------------------------------------- */

static void expect_bad_id(trm_device *d, trm_op_kind kind, int32_t id) {
    known k = {.desc = {.kind = kind, .n = 1, .in = S1(1), .out = S2(1, 1), .count = 3}};
    bool loss = kind == TRM_OP_LOSS_CE;
    if (loss) k.desc.in = k.desc.out = (trm_shape)S1(3);
    _Alignas(64) double memory[TRM_ARG_COUNT][8] = {{0}};
    double tail[TRM_TAIL_SIZE] = {0};
    trm_step step = {.tail = tail};
    void *args[TRM_ARG_COUNT], *scratch;
    trm_op *op;
    for (int a = 0; a < TRM_ARG_COUNT; a++) args[a] = memory[a];
    *(int32_t *)args[loss ? TRM_ARG_T : TRM_ARG_X] = id;
    assert_ok(trm_op_plan(d, &k.desc, &op));
    scratch = trm_alloc(op->scratch_bytes + 1, "scratch");
    assert_ok(trm_op_bind(op, args, scratch));
    assert_fault(trm_op_run(op, &step), TRM_DATA, "outside");
    trm_op_destroy(op);
    trm_free(scratch);
}

static void test_bad_ids(void **state) {
    static const trm_op_kind kinds[] = {TRM_OP_EMBED_FWD, TRM_OP_LOSS_CE};
    for (size_t k = 0; k < SUPPORT_COUNT(kinds); k++) {
        expect_bad_id(op_trial_of(state)->device, kinds[k], 3);
        expect_bad_id(op_trial_of(state)->device, kinds[k], -1);
        expect_bad_id(op_trial_of(state)->device, kinds[k], INT32_MIN);
    }
}

/* ---- equal maxima ------------------------------------------------------------------------------ */

static double number_at(const trm_device *d, const void *p, int i) {
    return d->backend->float_size == sizeof(double) ? ((const double *)p)[i] : ((const float *)p)[i];
}

static trm_op *plan_pool(trm_device *d, trm_op_kind kind) {
    trm_op_desc desc = {
        .kind = kind, .n = 1, .in = S3(1, 2, 2), .out = S3(1, 1, 1), WINDOW(2, 2, 0), .train = true};
    trm_op *op;
    assert_ok(trm_op_plan(d, &desc, &op));
    return op;
}

/* Of equal elements the first takes the whole gradient. */
static void test_equal_maxima(void **state) {
    trm_device *d = op_trial_of(state)->device;
    _Alignas(64) double memory[TRM_ARG_COUNT][8] = {{0}};
    void *args[TRM_ARG_COUNT], *scratch = trm_alloc(4096, "scratch"), *saved = trm_alloc(4096, "saved");
    trm_op *ops[] = {plan_pool(d, TRM_OP_POOL_FWD), plan_pool(d, TRM_OP_POOL_BWD)};
    for (int a = 0; a < TRM_ARG_COUNT; a++) args[a] = memory[a];
    args[TRM_ARG_SAVED] = saved;
    put(d, &ops[0]->desc, &(values)V(X, 1, 7, 7, 7), args[TRM_ARG_X]);
    put(d, &ops[0]->desc, &(values)V(DY, 5), args[TRM_ARG_DY]);
    for (int i = 0; i < 2; i++) {
        assert_true(ops[i]->scratch_bytes <= 4096 && ops[i]->saved_bytes <= 4096);
        assert_ok(trm_op_bind(ops[i], args, scratch));
        assert_ok(trm_op_run(ops[i], &(trm_step){0}));
        trm_op_destroy(ops[i]);
    }
    for (int i = 0; i < 4; i++) assert_true(number_at(d, memory[TRM_ARG_DX], i) == (i == 1 ? 5 : 0));
    trm_free(scratch);
    trm_free(saved);
}

/* ---- dropout ------------------------------------------------------------------------------------ */

/* The mask is what the key says, element by element in (C,H,W) order, whatever lies in memory. */
static void test_dropout_mask(void **state) {
    trm_device *d = op_trial_of(state)->device;
    enum { C = 3, H = 2, W = 5, SIZE = C * H * W };
    known k = {
        .desc = {OP(DROPOUT_FWD), .n = 1, .in = S3(C, H, W), .p = 0.3, .seed = 42, .layer = 5, .first = 1}};
    int64_t sample[] = {0, 123456789};
    _Alignas(64) double x[SIZE], y[SIZE];
    void *args[TRM_ARG_COUNT] = {[TRM_ARG_X] = x, [TRM_ARG_Y] = y};
    trm_step step = {.update = 17, .sample = sample};
    trm_rng_key key = {42, TRM_RNG_DROPOUT, 5, 17, 123456789};
    double ones[SIZE];
    trm_op *op;
    for (int i = 0; i < SIZE; i++) ones[i] = 1;
    put(d, &k.desc, &(values){TRM_ARG_X, SIZE, ones}, x);
    assert_ok(trm_op_plan(d, &k.desc, &op));
    void *scratch = trm_alloc(op->scratch_bytes + 1, "scratch");
    assert_ok(trm_op_bind(op, args, scratch));
    assert_ok(trm_op_run(op, &step));
    for (int e = 0; e < SIZE; e++) {
        int at = e % (H * W) * C + e / (H * W);
        bool keep = trm_rng_uniform(&key, (uint64_t)e) >= 0.3;
        assert_bound(fabs(number_at(d, y, at) - (keep ? 1 / 0.7 : 0)), BOUND);
    }
    trm_op_destroy(op);
    trm_free(scratch);
}

int main(void) {
    trm_device *devices[OP_MAX_DEVICES];
    op_tests tests = {0};
    static const op_family paper = {.name = "on paper"};
    op_case cases[SUPPORT_COUNT(knowns)] = {{0}};
    for (size_t i = 0; i < SUPPORT_COUNT(knowns); i++)
        cases[i] = (op_case){.family = &paper, .name = knowns[i].name};
    int count = op_devices_open(1, devices);
    for (int i = 0; i < count; i++) {
        op_tests_add(&tests, "as PyTorch", test_known, devices[i], cases, (int)SUPPORT_COUNT(knowns));
        op_tests_add_one(&tests, "refuses ids that do not exist", test_bad_ids, devices[i]);
        op_tests_add_one(&tests, "pools: the first of equal maxima takes the gradient", test_equal_maxima,
                         devices[i]);
        op_tests_add_one(&tests, "draws dropout by canonical element", test_dropout_mask, devices[i]);
    }
    int failed = op_tests_run(&tests);
    op_devices_close(devices, count);
    return failed;
}
