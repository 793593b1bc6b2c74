/* op_check: the rules of each op kind: what it takes, and what of a description is refused. */
#include <math.h>

#include "op_impl.h"

/* Samples times elements of one tensor; far below what overflows in bytes. */
#define MAX_ELEMENTS (INT64_C(1) << 48)

static const char *text(const trm_shape *s, char buf[80]) { return trm_shape_text(s, buf, 80); }

static trm_status check_rank(const trm_shape *s, const char *what, int low, int high) {
    char buf[80];
    if (s->rank >= low && s->rank <= high) return TRM_OK;
    if (low == high) return trm_fail(TRM_JOB, "%s %s wants %d dimensions", what, text(s, buf), low);
    return trm_fail(TRM_JOB, "%s %s wants %d to %d dimensions", what, text(s, buf), low, high);
}

/* Ops that keep the shape: `out` may be left out. */
static trm_status check_same(const trm_op_desc *d) {
    char in[80], out[80];
    if (d->out.rank == 0 || trm_shape_equal(&d->in, &d->out)) return TRM_OK;
    return trm_fail(TRM_JOB, "in %s and out %s must be equal", text(&d->in, in), text(&d->out, out));
}

static trm_status check_positive(const char *what, double value) {
    if (isfinite(value) && value > 0) return TRM_OK;
    return trm_fail(TRM_JOB, "%s is %g and must be above 0", what, value);
}

/* low <= value <= high, or value < high where `open`. */
static trm_status check_range(const char *what, double value, double high, bool open) {
    if (value >= 0 && (open ? value < high : value <= high)) return TRM_OK;
    return trm_fail(TRM_JOB, "%s is %g and must be in [0, %g%c", what, value, high, open ? ')' : ']');
}

/* ---- linear, convolution, pooling ------------------------------------------------------ */

static trm_status check_linear(const trm_op_desc *d) {
    char in[80], out[80];
    TRM_TRY(check_rank(&d->in, "in", 1, 2));
    bool same = d->in.rank == d->out.rank && (d->in.rank == 1 || d->in.dim[0] == d->out.dim[0]);
    if (!same)
        return trm_fail(TRM_JOB, "in %s and out %s may differ in the last dimension only", text(&d->in, in),
                        text(&d->out, out));
    if (d->residual && d->act != TRM_ACT_NONE)
        return trm_fail(TRM_JOB, "a residual is added without activation, not with %s", trm_act_name(d->act));
    return TRM_OK;
}

static const char *axis_name(const trm_op_desc *d, int a) {
    static const char *const names[TRM_MAX_AXES] = {"depth", "height", "width"};
    return names[a + TRM_MAX_AXES - (d->in.rank - 1)];
}

static trm_status check_steps(const trm_op_desc *d, int a) {
    if (d->kernel[a] < 1 || d->stride[a] < 1 || d->pad[a] < 0)
        return trm_fail(
            TRM_JOB, "in %s: kernel %lld, stride %lld and padding %lld must be at least 1, 1 and 0",
            axis_name(d, a), (long long)d->kernel[a], (long long)d->stride[a], (long long)d->pad[a]);
    if (d->gap[a] < 0)
        return trm_fail(TRM_JOB, "in %s: a gap of %lld pixels in the kernel must be at least 0",
                        axis_name(d, a), (long long)d->gap[a]);
    const int64_t largest = trm_max64(trm_max64(d->kernel[a], d->stride[a]), trm_max64(d->pad[a], d->gap[a]));
    if (largest <= INT32_MAX) return TRM_OK;
    return trm_fail(TRM_JOB, "in %s: a window with %lld is too large; allowed is up to %d", axis_name(d, a),
                    (long long)largest, INT32_MAX);
}

/* Pixels that a kernel spans. */
static int64_t reach(const trm_op_desc *d, int a) { return (d->kernel[a] - 1) * (d->gap[a] + 1) + 1; }

static trm_status check_axis(const trm_op_desc *d, int a) {
    TRM_TRY(check_steps(d, a));
    int64_t size = d->in.dim[1 + a], padded = size + 2 * d->pad[a];
    if (reach(d, a) > padded)
        return trm_fail(TRM_JOB, "in %s: kernel %lld is larger than the padded image, %lld", axis_name(d, a),
                        (long long)reach(d, a), (long long)padded);
    int64_t out = (padded - reach(d, a)) / d->stride[a] + 1;
    if (d->out.dim[1 + a] != out)
        return trm_fail(TRM_JOB,
                        "in %s: %lld with kernel %lld, stride %lld, padding %lld gives %lld, not %lld",
                        axis_name(d, a), (long long)size, (long long)d->kernel[a], (long long)d->stride[a],
                        (long long)d->pad[a], (long long)out, (long long)d->out.dim[1 + a]);
    return TRM_OK;
}

/* All outputs whose convolution has the size of the input: as many as the stride has steps. */
static trm_status check_transposed_axis(const trm_op_desc *d, int a) {
    TRM_TRY(check_steps(d, a));
    int64_t size = d->in.dim[1 + a], out = d->out.dim[1 + a];
    int64_t least = size > MAX_ELEMENTS / d->stride[a]
                        ? MAX_ELEMENTS
                        : (size - 1) * d->stride[a] - 2 * d->pad[a] + reach(d, a);
    if (out >= least && out < least + d->stride[a]) return TRM_OK;
    return trm_fail(
        TRM_JOB, "in %s: %lld with kernel %lld, stride %lld, padding %lld gives %lld to %lld, not %lld",
        axis_name(d, a), (long long)size, (long long)d->kernel[a], (long long)d->stride[a],
        (long long)d->pad[a], (long long)least, (long long)(least + d->stride[a] - 1), (long long)out);
}

static trm_status check_axes(const trm_op_desc *d, trm_status (*check)(const trm_op_desc *d, int a)) {
    char in[80], out[80];
    TRM_TRY(check_rank(&d->in, "in", 3, 1 + TRM_MAX_AXES));
    if (d->out.rank != d->in.rank)
        return trm_fail(TRM_JOB, "in %s and out %s differ in their number of dimensions", text(&d->in, in),
                        text(&d->out, out));
    for (int a = 0; a < d->in.rank - 1; a++) TRM_TRY(check(d, a));
    return TRM_OK;
}

static trm_status check_conv(const trm_op_desc *d) {
    TRM_TRY(check_axes(d, d->transposed ? check_transposed_axis : check_axis));
    if (d->groups < 1 || d->in.dim[0] % d->groups != 0 || d->out.dim[0] % d->groups != 0)
        return trm_fail(TRM_JOB, "%lld groups do not divide %lld input and %lld output channels",
                        (long long)d->groups, (long long)d->in.dim[0], (long long)d->out.dim[0]);
    return TRM_OK;
}

static trm_status check_pool_axis(const trm_op_desc *d, int a) {
    if (d->adaptive) return TRM_OK;
    TRM_TRY(check_axis(d, a));
    if (2 * d->pad[a] > d->kernel[a])
        return trm_fail(TRM_JOB, "padding %lld is more than half the kernel, %lld", (long long)d->pad[a],
                        (long long)d->kernel[a]);
    if (d->gap[a] != 0) return trm_fail(TRM_JOB, "a pooling window has no gaps");
    return TRM_OK;
}

static trm_status check_pool(const trm_op_desc *d) {
    TRM_TRY(check_axes(d, check_pool_axis));
    if (d->in.dim[0] != d->out.dim[0])
        return trm_fail(TRM_JOB, "pooling keeps %lld channels, not %lld", (long long)d->in.dim[0],
                        (long long)d->out.dim[0]);
    if (d->pool != TRM_POOL_MAX && d->pool != TRM_POOL_AVG)
        return trm_fail(TRM_JOB, "pooling mode %d is neither max nor avg", (int)d->pool);
    return TRM_OK;
}

/* ---- norms and element-wise ops ---------------------------------------------------------- */

static trm_status check_batch_norm(const trm_op_desc *d) {
    char in[80];
    if (d->in.rank != 1 && !trm_shape_channels_first(&d->in))
        return trm_fail(TRM_JOB, "in %s wants 1 dimension (features) or 3 and more", text(&d->in, in));
    TRM_TRY(check_same(d));
    if (d->kind != TRM_OP_BN_STATS) TRM_TRY(check_positive("eps", d->eps));
    if (d->kind == TRM_OP_BN_RUN) return check_range("momentum", d->momentum, 1, false);
    return TRM_OK;
}

static trm_status check_layer_norm(const trm_op_desc *d) {
    TRM_TRY(check_rank(&d->in, "in", 1, 2));
    TRM_TRY(check_same(d));
    return check_positive("eps", d->eps);
}

static trm_status check_group_norm(const trm_op_desc *d) {
    char in[80];
    if (d->in.rank != 1 && !trm_shape_channels_first(&d->in))
        return trm_fail(TRM_JOB, "in %s wants 1 dimension (features) or 3 and more", text(&d->in, in));
    TRM_TRY(check_same(d));
    if (d->groups < 1 || d->in.dim[0] % d->groups != 0)
        return trm_fail(TRM_JOB, "%lld groups do not divide %lld channels", (long long)d->groups,
                        (long long)d->in.dim[0]);
    return check_positive("eps", d->eps);
}

static trm_status check_softmax(const trm_op_desc *d) {
    TRM_TRY(check_rank(&d->in, "in", 1, TRM_MAX_DIMS));
    return check_same(d);
}

static trm_status check_dropout(const trm_op_desc *d) {
    TRM_TRY(check_same(d));
    if (d->first < 0) return trm_fail(TRM_JOB, "first sample %lld is negative", (long long)d->first);
    return check_range("p", d->p, 1, true);
}

static trm_status check_flatten(const trm_op_desc *d) {
    char in[80], out[80];
    TRM_TRY(check_rank(&d->out, "out", 1, 2));
    if (trm_shape_count(&d->in) == trm_shape_count(&d->out)) return TRM_OK;
    return trm_fail(TRM_JOB, "in %s and out %s differ in their number of elements", text(&d->in, in),
                    text(&d->out, out));
}

static trm_status check_unflatten(const trm_op_desc *d) {
    char in[80], out[80];
    TRM_TRY(check_rank(&d->out, "out", 3, TRM_MAX_DIMS));
    if (trm_shape_count(&d->in) == trm_shape_count(&d->out)) return TRM_OK;
    return trm_fail(TRM_JOB, "in %s and out %s differ in their number of elements", text(&d->in, in),
                    text(&d->out, out));
}

static trm_status check_concat(const trm_op_desc *d) {
    char in[80], out[80];
    TRM_TRY(check_rank(&d->in, "in", 1, TRM_MAX_DIMS));
    const int c = trm_shape_channel_dim(&d->in);
    trm_shape same = d->in;
    same.dim[c] = d->out.dim[c];
    if (!trm_shape_equal(&same, &d->out))
        return trm_fail(TRM_JOB, "in %s and out %s may differ in their channels only", text(&d->in, in),
                        text(&d->out, out));
    if (d->at < 0 || d->at > d->out.dim[c] - d->in.dim[c])
        return trm_fail(TRM_JOB, "%lld channels from channel %lld on do not fit in %lld",
                        (long long)d->in.dim[c], (long long)d->at, (long long)d->out.dim[c]);
    return TRM_OK;
}

/* ---- sequences ---------------------------------------------------------------------------- */

static trm_status check_embed(const trm_op_desc *d) {
    char in[80], out[80];
    TRM_TRY(check_rank(&d->in, "in", 1, 1));
    if (d->out.rank != 2 || d->out.dim[0] != d->in.dim[0])
        return trm_fail(TRM_JOB, "tokens %s want out (%lld,C), not %s", text(&d->in, in),
                        (long long)d->in.dim[0], text(&d->out, out));
    if (d->count < 1 || d->count > INT32_MAX)
        return trm_fail(TRM_JOB, "a vocabulary of %lld must be in [1, %d]", (long long)d->count, INT32_MAX);
    return TRM_OK;
}

static trm_status check_sequence(const trm_op_desc *d) {
    TRM_TRY(check_rank(&d->in, "in", 2, 2));
    return check_same(d);
}

static trm_status check_attention(const trm_op_desc *d) {
    char in[80], out[80];
    TRM_TRY(check_rank(&d->in, "in", 2, 2));
    int64_t c = d->in.dim[1] / 3;
    if (d->in.dim[1] % 3 != 0 || d->out.rank != 2 || d->out.dim[0] != d->in.dim[0] || d->out.dim[1] != c)
        return trm_fail(TRM_JOB, "in %s and out %s want to be (T,3C) and (T,C)", text(&d->in, in),
                        text(&d->out, out));
    if (d->heads < 1 || c % d->heads != 0)
        return trm_fail(TRM_JOB, "%lld heads do not divide %lld features", (long long)d->heads, (long long)c);
    return TRM_OK;
}

/* ---- losses, loads, updates ----------------------------------------------------------------- */

static trm_status check_cross_entropy(const trm_op_desc *d) {
    TRM_TRY(check_rank(&d->in, "in", 1, 4));
    int64_t classes = d->in.dim[trm_shape_channel_dim(&d->in)];
    TRM_TRY(check_range("label smoothing", d->smoothing, 1, false));
    if (classes <= INT32_MAX) return TRM_OK;
    return trm_fail(TRM_JOB, "%lld classes are more than %d", (long long)classes, INT32_MAX);
}

static trm_status check_normalisation(const trm_op_desc *d) {
    int64_t channels = trm_shape_channels(&d->out);
    if (!isfinite(d->scale) || d->scale == 0)
        return trm_fail(TRM_JOB, "scale is %g and must not be 0", d->scale);
    if (d->norm_count != 0 && d->norm_count != 1 && d->norm_count != channels)
        return trm_fail(TRM_JOB, "mean and std have %lld entries, but the data has %lld channels",
                        (long long)d->norm_count, (long long)channels);
    for (int64_t c = 0; c < d->norm_count; c++) {
        if (d->mean && !isfinite(d->mean[c])) return trm_fail(TRM_JOB, "mean %g is not finite", d->mean[c]);
        if (d->std) TRM_TRY(check_positive("std", d->std[c]));
    }
    return TRM_OK;
}

static trm_status check_load(const trm_op_desc *d) {
    char out[80];
    if ((unsigned)d->raw_type >= TRM_DTYPE_COUNT)
        return trm_fail(TRM_JOB, "raw type %d is unknown", (int)d->raw_type);
    int64_t bytes = trm_shape_count(&d->out) * (int64_t)trm_dtype_size(d->raw_type);
    if (d->raw_stride < bytes)
        return trm_fail(TRM_JOB, "a raw sample of %s %s has %lld bytes, but the next one begins after %lld",
                        trm_dtype_name(d->raw_type), text(&d->out, out), (long long)bytes,
                        (long long)d->raw_stride);
    if (d->first < 0) return trm_fail(TRM_JOB, "first sample %lld is negative", (long long)d->first);
    if (!d->out_tokens) return check_normalisation(d);
    if (trm_dtype_is_float(d->raw_type))
        return trm_fail(TRM_JOB, "tokens and classes come from an integer type, not %s",
                        trm_dtype_name(d->raw_type));
    return TRM_OK;
}

static trm_status check_adam(const trm_op_desc *d) {
    TRM_TRY(check_range("beta1", d->beta1, 1, true));
    TRM_TRY(check_range("beta2", d->beta2, 1, true));
    TRM_TRY(check_positive("eps", d->eps));
    if (d->nesterov) return trm_fail(TRM_JOB, "nesterov belongs to sgd");
    return TRM_OK;
}

static trm_status check_rmsprop(const trm_op_desc *d) {
    TRM_TRY(check_range("momentum", d->beta1, 1, true));
    TRM_TRY(check_range("alpha", d->beta2, 1, true));
    TRM_TRY(check_positive("eps", d->eps));
    if (d->nesterov) return trm_fail(TRM_JOB, "nesterov belongs to sgd");
    return TRM_OK;
}

static trm_status check_sgd(const trm_op_desc *d) {
    TRM_TRY(check_range("momentum", d->beta1, 1, true));
    if (d->nesterov && d->beta1 == 0) return trm_fail(TRM_JOB, "nesterov wants a momentum above 0");
    return TRM_OK;
}

static trm_status check_count(const trm_op_desc *d) {
    if (d->count >= 1 && d->count <= MAX_ELEMENTS) return TRM_OK;
    return trm_fail(TRM_JOB, "count is %lld and must be at least 1", (long long)d->count);
}

static trm_status check_update(const trm_op_desc *d) {
    TRM_TRY(check_count(d));
    TRM_TRY(check_range("weight decay", d->weight_decay, INFINITY, true));
    switch (d->optimizer) {
    case TRM_OPT_SGD: return check_sgd(d);
    case TRM_OPT_ADAM:
    case TRM_OPT_ADAMW:
    case TRM_OPT_LAMB: return check_adam(d);
    case TRM_OPT_RMSPROP: return check_rmsprop(d);
    case TRM_OPT_COUNT: break;
    }
    return trm_fail(TRM_JOB, "optimizer %d is unknown", (int)d->optimizer);
}

/* ---- the table -------------------------------------------------------------------------------- */

#define A(name) (UINT32_C(1) << TRM_ARG_##name)
#define ACT(name) (1u << TRM_ACT_##name)
enum {
    NO_ACT = ACT(NONE),
    RELU = ACT(NONE) | ACT(RELU),
    REAL_ACT = ACT(RELU) | ACT(GELU) | ACT(GELU_TANH) | ACT(TANH) | ACT(SIGMOID) | ACT(SILU),
    ANY_ACT = ACT(NONE) | REAL_ACT,
};

/* name, check, acts, residual; arguments: always, where the description asks, optional. */
/* clang-format off */
static const trm_op_rule rules[TRM_OP_COUNT] = {
    [TRM_OP_LOAD_X] = {"load_x", check_load, NO_ACT, false, A(Y), 0, 0},
    [TRM_OP_LOAD_Y] = {"load_y", check_load, NO_ACT, false, A(Y), 0, 0},
    [TRM_OP_LINEAR_FWD] = {"linear_fwd", check_linear, ANY_ACT, true, A(X) | A(W) | A(Y), A(B) | A(RES) | A(PRE), 0},
    [TRM_OP_LINEAR_BWD_X] = {"linear_bwd_x", check_linear, ANY_ACT, true, A(DX) | A(DY) | A(W), 0, 0},
    [TRM_OP_LINEAR_BWD_W] = {"linear_bwd_w", check_linear, ANY_ACT, true, A(DW) | A(DY) | A(X), A(DB), 0},
    [TRM_OP_CONV_FWD] = {"conv_fwd", check_conv, RELU, false, A(X) | A(W) | A(Y), A(B), 0},
    [TRM_OP_CONV_BWD_X] = {"conv_bwd_x", check_conv, RELU, false, A(DX) | A(DY) | A(W), 0, 0},
    [TRM_OP_CONV_BWD_W] = {"conv_bwd_w", check_conv, RELU, false, A(DW) | A(DY) | A(X), A(DB), 0},
    [TRM_OP_POOL_FWD] = {"pool_fwd", check_pool, NO_ACT, false, A(X) | A(Y), A(SAVED), 0},
    [TRM_OP_POOL_BWD] = {"pool_bwd", check_pool, NO_ACT, false, A(DX) | A(DY) | A(X) | A(Y), A(SAVED), 0},
    [TRM_OP_BN_STATS] = {"bn_stats", check_batch_norm, RELU, true, A(X) | A(STAT), 0, 0},
    [TRM_OP_BN_APPLY] = {"bn_apply", check_batch_norm, RELU, true, A(X) | A(Y) | A(W) | A(B), A(RES) | A(STAT) | A(RUN_MEAN) | A(RUN_VAR), 0},
    [TRM_OP_BN_RUN] = {"bn_run", check_batch_norm, RELU, true, A(STAT) | A(RUN_MEAN) | A(RUN_VAR), 0, 0},
    [TRM_OP_BN_GRAD_SUMS] = {"bn_grad_sums", check_batch_norm, RELU, true, A(X) | A(STAT) | A(DY) | A(GSTAT) | A(DW) | A(DB), A(Y), 0},
    [TRM_OP_BN_GRAD_APPLY] = {"bn_grad_apply", check_batch_norm, RELU, true, A(X) | A(STAT) | A(DY) | A(GSTAT) | A(W) | A(DX), 0, 0},
    [TRM_OP_LN_FWD] = {"ln_fwd", check_layer_norm, NO_ACT, false, A(X) | A(Y), A(SAVED), A(W) | A(B)},
    [TRM_OP_LN_BWD] = {"ln_bwd", check_layer_norm, NO_ACT, false, A(X) | A(DX) | A(DY), A(SAVED), A(W) | A(DW) | A(DB)},
    [TRM_OP_GN_FWD] = {"gn_fwd", check_group_norm, NO_ACT, false, A(X) | A(Y), A(SAVED), A(W) | A(B)},
    [TRM_OP_GN_BWD] = {"gn_bwd", check_group_norm, NO_ACT, false, A(X) | A(DX) | A(DY), A(SAVED), A(W) | A(DW) | A(DB)},
    [TRM_OP_SOFTMAX_FWD] = {"softmax_fwd", check_softmax, NO_ACT, false, A(X) | A(Y), 0, 0},
    [TRM_OP_SOFTMAX_BWD] = {"softmax_bwd", check_softmax, NO_ACT, false, A(DX) | A(DY) | A(Y), 0, 0},
    [TRM_OP_ACT_FWD] = {"act_fwd", check_same, REAL_ACT, false, A(X) | A(Y), 0, 0},
    [TRM_OP_ACT_BWD] = {"act_bwd", check_same, REAL_ACT, false, A(DX) | A(DY), A(X) | A(Y), 0},
    [TRM_OP_DROPOUT_FWD] = {"dropout_fwd", check_dropout, NO_ACT, false, A(X) | A(Y), 0, 0},
    [TRM_OP_DROPOUT_BWD] = {"dropout_bwd", check_dropout, NO_ACT, false, A(DX) | A(DY), 0, 0},
    [TRM_OP_FLATTEN_FWD] = {"flatten_fwd", check_flatten, NO_ACT, false, A(X) | A(Y), 0, 0},
    [TRM_OP_FLATTEN_BWD] = {"flatten_bwd", check_flatten, NO_ACT, false, A(DX) | A(DY), 0, 0},
    [TRM_OP_UNFLATTEN_FWD] = {"unflatten_fwd", check_unflatten, NO_ACT, false, A(X) | A(Y), 0, 0},
    [TRM_OP_UNFLATTEN_BWD] = {"unflatten_bwd", check_unflatten, NO_ACT, false, A(DX) | A(DY), 0, 0},
    [TRM_OP_CONCAT_FWD] = {"concat_fwd", check_concat, NO_ACT, false, A(X) | A(Y), 0, 0},
    [TRM_OP_CONCAT_BWD] = {"concat_bwd", check_concat, NO_ACT, false, A(DX) | A(DY), 0, 0},
    [TRM_OP_EMBED_FWD] = {"embed_fwd", check_embed, NO_ACT, false, A(X) | A(W) | A(Y), 0, 0},
    [TRM_OP_EMBED_BWD] = {"embed_bwd", check_embed, NO_ACT, false, A(X) | A(DW) | A(DY), 0, 0},
    [TRM_OP_POSEMB_FWD] = {"posemb_fwd", check_sequence, NO_ACT, false, A(X) | A(W) | A(Y), 0, 0},
    [TRM_OP_POSEMB_BWD] = {"posemb_bwd", check_sequence, NO_ACT, false, A(DW) | A(DY), 0, 0},
    [TRM_OP_ATTN_FWD] = {"attn_fwd", check_attention, NO_ACT, false, A(X) | A(Y), A(SAVED), 0},
    [TRM_OP_ATTN_BWD] = {"attn_bwd", check_attention, NO_ACT, false, A(DX) | A(DY) | A(X) | A(Y), A(SAVED), 0},
    [TRM_OP_ADD_FWD] = {"add_fwd", check_same, RELU, false, A(X) | A(X2) | A(Y), 0, 0},
    [TRM_OP_ADD_INTO] = {"add_into", check_same, NO_ACT, false, A(DX) | A(DY), 0, 0},
    [TRM_OP_COPY] = {"copy", check_same, NO_ACT, false, A(DX) | A(DY), 0, 0},
    [TRM_OP_CAST] = {"cast", check_same, NO_ACT, false, A(X) | A(Y), 0, 0},
    [TRM_OP_LOSS_CE] = {"loss_ce", check_cross_entropy, NO_ACT, false, A(X) | A(T), A(DX), 0},
    [TRM_OP_LOSS_MSE] = {"loss_mse", check_same, NO_ACT, false, A(X) | A(T), A(DX), 0},
    [TRM_OP_LOSS_BCE] = {"loss_bce", check_same, NO_ACT, false, A(X) | A(T), A(DX), 0},
    [TRM_OP_UPDATE] = {"update", check_update, NO_ACT, false, A(W) | A(G), A(M1) | A(M2), 0},
    [TRM_OP_SUMSQ] = {"sumsq", check_count, NO_ACT, false, A(G), 0, 0},
};
/* clang-format on */

const trm_op_rule *trm_op_rule_of(trm_op_kind k) { return (unsigned)k < TRM_OP_COUNT ? &rules[k] : NULL; }

/* Ops over ranges of the parameters have no samples and no shapes. */
static bool has_samples(trm_op_kind k) { return k != TRM_OP_UPDATE && k != TRM_OP_SUMSQ; }

static trm_status check_shape(const trm_op_desc *d, const trm_shape *s, const char *what) {
    char buf[80];
    if (!trm_shape_valid(s)) return trm_fail(TRM_JOB, "%s has no valid shape", what);
    if (trm_shape_count(s) <= MAX_ELEMENTS / d->n) return TRM_OK;
    return trm_fail(TRM_JOB, "%lld samples of %s %s are too many elements", (long long)d->n, what,
                    text(s, buf));
}

static trm_status check_samples(const trm_op_desc *d) {
    if (!has_samples(d->kind)) return TRM_OK;
    if (d->n < 1) return trm_fail(TRM_JOB, "%lld samples, at least 1 is wanted", (long long)d->n);
    TRM_TRY(check_shape(d, &d->in, "in"));
    return check_shape(d, &d->out, "out");
}

/* ---- bfloat16 ----------------------------------------------------------------------------------- */

/* What a product multiplies lies as bfloat16 in all or in none of its arguments. */
static uint32_t factors_of(trm_op_kind k) {
    switch (k) {
    case TRM_OP_LINEAR_FWD:
    case TRM_OP_CONV_FWD: return A(X) | A(W);
    case TRM_OP_LINEAR_BWD_X:
    case TRM_OP_CONV_BWD_X: return A(DY) | A(W);
    case TRM_OP_LINEAR_BWD_W:
    case TRM_OP_CONV_BWD_W: return A(DY) | A(X);
    default: return 0;
    }
}

/* Other arguments that may lie as bfloat16. */
static uint32_t others_of(trm_op_kind k) {
    switch (k) {
    case TRM_OP_LINEAR_FWD:
    case TRM_OP_CONV_FWD:
    case TRM_OP_LN_FWD: return A(Y);
    case TRM_OP_ACT_BWD: return A(DX);
    case TRM_OP_BN_STATS: return A(X);
    case TRM_OP_BN_APPLY: return A(X) | A(Y) | A(RES);
    case TRM_OP_BN_GRAD_SUMS: return A(X) | A(Y);
    case TRM_OP_BN_GRAD_APPLY: return A(X) | A(DX);
    case TRM_OP_CAST: return A(X) | A(Y);
    default: return 0;
    }
}

static trm_status check_half(const trm_op_desc *d) {
    uint32_t factors = factors_of(d->kind), wrong = d->half & ~(factors | others_of(d->kind));
    if (wrong) return trm_fail(TRM_INTERNAL, "arguments %#x cannot lie as bfloat16", wrong);
    if (d->half && (d->half & factors) != factors)
        return trm_fail(TRM_INTERNAL, "only arguments %#x of %#x lie as bfloat16", d->half, factors);
    if (d->half && d->transposed)
        return trm_fail(TRM_INTERNAL, "the factors of a transposed convolution do not lie as bfloat16");
    if ((d->half & A(DX)) && d->accumulate)
        return trm_fail(TRM_INTERNAL, "what lies as bfloat16 is not added to");
    if (d->kind == TRM_OP_LINEAR_FWD && (d->half & A(Y)) && !trm_act_from_input(d->act))
        return trm_fail(TRM_INTERNAL, "Y lies as bfloat16 only where PRE is kept");
    return TRM_OK;
}

/* ---- every op ------------------------------------------------------------------------------------ */

/* What an op would silently leave out is refused instead. */
static trm_status check_fused(const trm_op_desc *d, const trm_op_rule *r) {
    if ((unsigned)d->act >= TRM_ACT_COUNT || !(r->acts >> d->act & 1))
        return trm_fail(TRM_JOB, "activation %s is not possible here", trm_act_name(d->act));
    if (d->residual && !r->residual) return trm_fail(TRM_JOB, "a residual is not possible here");
    return TRM_OK;
}

trm_status trm_op_check(const trm_op_desc *d) {
    const trm_op_rule *r = trm_op_rule_of(d->kind);
    if (!r) return trm_fail(TRM_INTERNAL, "op kind %d is unknown", (int)d->kind);
    trm_status s = check_samples(d);
    if (s == TRM_OK) s = check_fused(d, r);
    if (s == TRM_OK) s = check_half(d);
    if (s == TRM_OK) s = r->check(d);
    return s == TRM_OK ? s : trm_prefix(s, "%s", r->name);
}
