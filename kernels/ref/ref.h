/* kernels/ref: the oracle.  Plain-pointer functions in float64, one file per family, written to be
 * read beside the formula: no blocking, no threads, no tricks.  Everything else is tested against
 * them, and they are tested against finite differences.  Opened by backend/ref only.
 *
 * Layouts are those of <trireme/backend.h>: images and volumes lie with their channels last, all else row-major in
 * the canonical shape, parameters in PyTorch's shape and order.  Where a function takes `acc`, it
 * adds to its output instead of overwriting it.
 */
#ifndef TRM_KERNELS_REF_H
#define TRM_KERNELS_REF_H

#include <trireme/tensor.h>

/* ---- linear.c: y = x W^T + b, x (rows,in), y (rows,out), w (out,in) -------------------- */

typedef struct trm_ref_dense {
    int64_t rows, in, out;
} trm_ref_dense;
/* b and res may be NULL. */
void trm_ref_linear_fwd(const trm_ref_dense *s, const double *x, const double *w, const double *b, const double *res,
                        double *y);
void trm_ref_linear_bwd_x(const trm_ref_dense *s, const double *dy, const double *w, bool acc, double *dx);
/* db may be NULL. */
void trm_ref_linear_bwd_w(const trm_ref_dense *s, const double *dy, const double *x, bool acc, double *dw, double *db);

/* ---- conv.c, pool.c ---------------------------------------------------------------------- */

/* A window that slides over n images of c channels and leaves o of them.  Axes are depth, height and width; where there are
 * fewer, the first ones have one pixel.  Pooling has o == c, groups == 1. */
typedef struct trm_ref_window {
    int64_t n, c, o, in[3], out[3];
    int64_t kernel[3], stride[3], pad[3], groups;
    int64_t gap[3];                 /* convolution: pixels left out between two of the kernel */
    bool adaptive;                  /* pooling: windows divide the input; kernel, stride and pad are not read */
} trm_ref_window;
/* b and db may be NULL; weights are (o, c/groups, kernel). */
void trm_ref_conv_fwd(const trm_ref_window *s, const double *x, const double *w, const double *b, double *y);
void trm_ref_conv_bwd_x(const trm_ref_window *s, const double *dy, const double *w, bool acc, double *dx);
void trm_ref_conv_bwd_w(const trm_ref_window *s, const double *dy, const double *x, bool acc, double *dw, double *db);
/* The transpose of the convolution that s describes: x and dx are (out, o), y and dy are (in, c). */
void trm_ref_conv_transposed_fwd(const trm_ref_window *s, const double *x, const double *w, const double *b, double *y);
void trm_ref_conv_transposed_bwd_x(const trm_ref_window *s, const double *dy, const double *w, bool acc, double *dx);
void trm_ref_conv_transposed_bwd_w(const trm_ref_window *s, const double *dy, const double *x, bool acc, double *dw,
                                   double *db);

void trm_ref_pool_max_fwd(const trm_ref_window *s, const double *x, double *y);
void trm_ref_pool_max_bwd(const trm_ref_window *s, const double *x, const double *dy, bool acc, double *dx);
void trm_ref_pool_avg_fwd(const trm_ref_window *s, const double *x, double *y);
void trm_ref_pool_avg_bwd(const trm_ref_window *s, const double *dy, bool acc, double *dx);

/* ---- norm.c: batch norm over rows of c channels (of an image, one for each pixel), layer norm per row -- */

/* stat: c sums, c sums of squares, the number of rows. */
void trm_ref_bn_stats(int64_t rows, int64_t c, const double *x, double *stat);
/* mean[c] and biased variance[c] out of (reduced) stat; both of c entries. */
void trm_ref_bn_moments(int64_t c, const double *stat, double *mean, double *var);
/* running = (1 - momentum) running + momentum batch, with the unbiased batch variance. */
void trm_ref_bn_running(int64_t c, const double *stat, double momentum, double *run_mean, double *run_var);
/* y = w (x - mean) / sqrt(var + eps) + b + res; res may be NULL. */
typedef struct trm_ref_bn {
    int64_t rows, c;
    double eps;
    const double *mean, *var;
} trm_ref_bn;
void trm_ref_bn_apply(const trm_ref_bn *s, const double *x, const double *w, const double *b, const double *res,
                      double *y);
/* gstat: c sums of dy, c sums of dy * xhat; dw and db take those sums too. */
void trm_ref_bn_grad_sums(const trm_ref_bn *s, const double *x, const double *dy, double *gstat);
/* m: number of rows of all ranks, of which gstat holds the sums. */
typedef struct trm_ref_bn_grad {
    const double *gstat, *w;
    double m;
    bool acc;
} trm_ref_bn_grad;
void trm_ref_bn_grad_apply(const trm_ref_bn *s, const trm_ref_bn_grad *g, const double *x, const double *dy,
                           double *dx);

/* saved: mean and 1/sqrt(var + eps) of each row.  w, b, dw, db may be NULL. */
typedef struct trm_ref_ln {
    int64_t rows, c;
    double eps;
} trm_ref_ln;
void trm_ref_ln_fwd(const trm_ref_ln *s, const double *x, const double *w, const double *b, double *y, double *saved);
void trm_ref_ln_bwd_x(const trm_ref_ln *s, const double *x, const double *dy, const double *w, const double *saved,
                      bool acc, double *dx);
void trm_ref_ln_bwd_w(const trm_ref_ln *s, const double *x, const double *dy, const double *saved, bool acc,
                      double *dw, double *db);

/* n samples of `pixels` rows of c channels, in groups; saved: mean and 1/sqrt(var + eps) of each sample and group.
 * w, b, dw, db may be NULL. */
typedef struct trm_ref_gn {
    int64_t n, pixels, c, groups;
    double eps;
} trm_ref_gn;
void trm_ref_gn_fwd(const trm_ref_gn *s, const double *x, const double *w, const double *b, double *y, double *saved);
void trm_ref_gn_bwd_x(const trm_ref_gn *s, const double *x, const double *dy, const double *w, const double *saved,
                      bool acc, double *dx);
void trm_ref_gn_bwd_w(const trm_ref_gn *s, const double *x, const double *dy, const double *saved, bool acc,
                      double *dw, double *db);

/* ---- softmax.c: over rows of c ------------------------------------------------------------- */

void trm_ref_softmax_fwd(int64_t rows, int64_t c, const double *x, double *y);
void trm_ref_softmax_bwd(int64_t rows, int64_t c, const double *y, const double *dy, bool acc, double *dx);

/* ---- act.c ------------------------------------------------------------------------------ */

typedef enum trm_ref_act {
    TRM_REF_RELU,
    TRM_REF_GELU,
    TRM_REF_GELU_TANH,
    TRM_REF_TANH,
    TRM_REF_SIGMOID,
    TRM_REF_SILU
} trm_ref_act;
double trm_ref_act_value(trm_ref_act a, double x);
/* act'(x), from the input x for GELU, GELU_TANH and SILU, from the output y for the others. */
double trm_ref_act_slope(trm_ref_act a, double x_or_y);
/* y may be x, dx may be dy. */
void trm_ref_act_fwd(trm_ref_act a, int64_t n, const double *x, double *y);
void trm_ref_act_bwd(trm_ref_act a, int64_t n, const double *x_or_y, const double *dy, bool acc, double *dx);

/* ---- dropout.c, flatten.c ----------------------------------------------------------------- */

/* Where canonical element (c, pixel) of a sample with its channels first lies in memory; the only place that says so.
 * Any other sample has one pixel. */
static inline int64_t trm_ref_channels_last(int64_t c, int64_t pixels, int64_t e) {
    return e % pixels * c + e / pixels;
}
/* One sample in and out, key as in <trireme/base.h>; out may be in. */
typedef struct trm_ref_dropout {
    int64_t c, pixels;
    double p;
} trm_ref_dropout;
void trm_ref_dropout_sample(const trm_ref_dropout *s, const trm_rng_key *key, const double *in, bool acc, double *out);

/* Memory with the channels last to canonical order, and back for the gradient. */
void trm_ref_flatten_fwd(int64_t n, int64_t c, int64_t pixels, const double *x, double *y);
void trm_ref_flatten_bwd(int64_t n, int64_t c, int64_t pixels, const double *dy, bool acc, double *dx);

/* ---- concat.c: rows of c channels inside rows of `wide`, from channel `at` on ---------------- */

typedef struct trm_ref_concat {
    int64_t rows, c, wide, at;
} trm_ref_concat;
void trm_ref_concat_fwd(const trm_ref_concat *s, const double *x, double *y);
void trm_ref_concat_bwd(const trm_ref_concat *s, const double *dy, bool acc, double *dx);

/* ---- embedding.c ---------------------------------------------------------------------------- */

typedef struct trm_ref_embed {
    int64_t tokens, c, vocab;
} trm_ref_embed;
/* First index whose token is not in [0, vocab), or -1. */
int64_t trm_ref_embed_check(const trm_ref_embed *s, const int32_t *x);
void trm_ref_embed_fwd(const trm_ref_embed *s, const int32_t *x, const double *w, double *y);
void trm_ref_embed_bwd(const trm_ref_embed *s, const int32_t *x, const double *dy, bool acc, double *dw);
/* size = T * C of one sample. */
void trm_ref_posemb_fwd(int64_t n, int64_t size, const double *x, const double *w, double *y);
void trm_ref_posemb_bwd(int64_t n, int64_t size, const double *dy, bool acc, double *dw);

/* ---- attention.c: one sample, x (t,3c) = q|k|v, y (t,c) --------------------------------------- */

typedef struct trm_ref_attention {
    int64_t t, c, heads;
    bool causal;
} trm_ref_attention;
/* lse: heads * t numbers, log of the sum of exp of a row of scores.  row: t numbers of scratch. */
void trm_ref_attention_fwd(const trm_ref_attention *s, const double *x, double *y, double *lse, double *row);
void trm_ref_attention_bwd(const trm_ref_attention *s, const double *x, const double *y, const double *lse,
                           const double *dy, double *dx);

/* ---- add.c ------------------------------------------------------------------------------------ */

void trm_ref_add(int64_t n, const double *a, const double *b, double *y); /* y may be a or b */
double trm_ref_sumsq(int64_t n, const double *g);

/* ---- loss.c ------------------------------------------------------------------------------------- */

typedef struct trm_ref_loss {
    double loss, count, correct;
} trm_ref_loss;
/* smoothing: share of the target that all classes have alike; ignores: rows of class `ignore` count nowhere. */
typedef struct trm_ref_ce {
    int64_t rows, c;
    double smoothing;
    bool ignores;
    int64_t ignore;
} trm_ref_ce;
/* x (rows,c); dx may be NULL.  Adds to *sum. */
void trm_ref_cross_entropy(const trm_ref_ce *s, const double *x, const int32_t *t, double *dx, trm_ref_loss *sum);
/* n samples of `size` elements each. */
void trm_ref_mean_squares(int64_t n, int64_t size, const double *x, const double *t, double *dx, trm_ref_loss *sum);
void trm_ref_binary_cross_entropy(int64_t n, int64_t size, const double *x, const double *t, double *dx,
                                  trm_ref_loss *sum);

/* ---- load.c ------------------------------------------------------------------------------------- */

/* One raw sample of (c, pixels) elements of `type`; mean and std have norm_count entries: none (then
 * 0 and 1), one, or c. */
typedef struct trm_ref_load {
    int64_t c, pixels;
    trm_dtype type;
    bool raw_hwc;
    double scale;
    const double *mean, *std;
    int64_t norm_count;
} trm_ref_load;
void trm_ref_load_floats(const trm_ref_load *s, const void *raw, double *y);
void trm_ref_load_tokens(int64_t size, trm_dtype type, const void *raw, int32_t *y);

/* ---- update.c ------------------------------------------------------------------------------------- */

typedef struct trm_ref_update {
    int64_t n, update;              /* update counts from 1 */
    double lr, beta1, beta2, eps, weight_decay;
    double grad_scale;              /* inv_count * clip_factor */
    bool nesterov, decoupled;       /* decoupled: AdamW's decay */
} trm_ref_update;
/* m may be NULL where beta1 is 0. */
void trm_ref_sgd(const trm_ref_update *s, const double *g, double *m, double *w);
void trm_ref_adam(const trm_ref_update *s, const double *g, double *m, double *v, double *w);
/* beta1: momentum, beta2: alpha; m may be NULL where beta1 is 0. */
void trm_ref_rmsprop(const trm_ref_update *s, const double *g, double *v, double *m, double *w);
/* The n elements are one tensor. */
void trm_ref_lamb(const trm_ref_update *s, const double *g, double *m, double *v, double *w);

#endif
