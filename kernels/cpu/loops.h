/* The own loops of the CPU back end: what each is given.  See the op list of <trireme/backend.h> for the
 * meaning; here are only plain pointers.  All sums over threads are added up in the order of threads, so a
 * result depends on the number of threads and on nothing else. */
#ifndef TRM_CPU_LOOPS_H
#define TRM_CPU_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

/* ---- batch norm --------------------------------------------------------------------- */

/* Rows of c channels.  `pack` rows that lie side by side are seen as one wide row of pack * c floats, so that
 * vectors are full whatever c is; a per-channel number is repeated `pack` times ("wide"). */
typedef struct trm_bn {
    int64_t rows, c, pack;
    int threads;
    bool relu, accumulate;
    const float *x, *res, *y;
    float *dy, *out;                /* out: Y of apply, DX of grad_apply */
    const uint16_t *x16, *res16, *y16;  /* set in place of x, res, y where these lie as bfloat16 */
    uint16_t *out16;                /* likewise; not with accumulate */
    const float *mean, *scale;      /* wide.  stats: mean is any number near the values, against cancellation */
    const float *shift, *slope;     /* wide.  apply: out = (x - mean) * scale + shift
                                     * grad_apply: out = dy * scale + (x - mean) * slope + shift */
    double *work;                   /* threads * 2 * wide */
    double *sum;                    /* 2c: sums of (x - mean) and of its squares; of dy and of dy * (x - mean) */
} trm_bn;

/* ---- layer norm --------------------------------------------------------------------- */

typedef struct trm_ln {
    int64_t rows, c;
    int threads;
    bool accumulate;                /* for dx */
    float eps;
    const float *x, *w, *b, *dy;
    float *out;                     /* Y or DX */
    uint16_t *out16;                /* in its place where Y lies as bfloat16 */
    float *saved;                   /* per row: mean, 1/sd */
    double *work;                   /* backward: threads * 3c */
    double *dw, *db;                /* backward: the sums, c each */
} trm_ln;

#define TRM_KERNELS_NORM(X)                  \
    X(void, bn_stats, (const trm_bn *a))      \
    X(void, bn_apply, (const trm_bn *a))      \
    X(void, bn_grad_sums, (const trm_bn *a))  \
    X(void, bn_grad_apply, (const trm_bn *a)) \
    X(void, ln_fwd, (const trm_ln *a))        \
    X(void, ln_bwd, (const trm_ln *a))

/* ---- element-wise ------------------------------------------------------------------- */

/* y[e] = keep(e) ? x[e] * scale : 0, where element e of a sample is kept if its random word reaches the
 * threshold.  y may be x. */
typedef struct trm_dropout {
    int64_t n, count, channels;     /* samples, elements of each; channels > 1: an image that lies as (H,W,C) */
    int threads;
    bool accumulate;
    uint32_t key[2], threshold;
    float scale;
    const uint32_t *counter;        /* Philox counter of element 0 of each sample, 4 words each */
    const float *x;
    float *y;
} trm_dropout;

/* act_*: y = act(x); act_*_grad: dx (+)= dy * slope, which follows from Y (relu, tanh, sigmoid) or X (gelu, silu).
 * add: y = a + b, with_relu: max with 0.  transpose: n matrices, y (cols x rows) (+)= x (rows x cols).
 * columns: c columns of rows that are ldx apart, to rows that are ldy apart.  softmax over rows of c; softmax_back: dx (+)=.
 * In place where shapes agree. */
#define TRM_KERNELS_ACT(X, name)                                                          \
    X(void, act_##name, (const float *x, float *y, int64_t n, int threads))               \
    X(void, act_##name##_grad,                                                            \
      (const float *from, const float *dy, float *dx, int64_t n, bool accumulate, int threads)) \
    X(void, act_##name##_grad_bf16, (const float *from, const float *dy, uint16_t *dx, int64_t n, int threads))
#define TRM_KERNELS_ELEMENTWISE(X)                                                                            \
    TRM_KERNELS_ACT(X, relu) TRM_KERNELS_ACT(X, tanh) TRM_KERNELS_ACT(X, sigmoid) TRM_KERNELS_ACT(X, gelu)    \
    TRM_KERNELS_ACT(X, gelu_tanh) TRM_KERNELS_ACT(X, silu)                                                    \
    X(void, add, (const float *a, const float *b, float *y, int64_t n, bool with_relu, int threads))          \
    X(void, copy, (const float *x, float *y, int64_t n, int threads))                                         \
    X(void, transpose,                                                                                        \
      (const float *x, float *y, int64_t n, int64_t rows, int64_t cols, bool accumulate, int threads))        \
    X(void, columns,                                                                                          \
      (const float *x, int64_t ldx, float *y, int64_t ldy, int64_t rows, int64_t c, bool accumulate, int threads)) \
    X(void, softmax, (const float *x, float *y, int64_t rows, int64_t c, int threads))                        \
    X(void, softmax_back,                                                                                     \
      (const float *y, const float *dy, float *dx, int64_t rows, int64_t c, bool accumulate, int threads))    \
    X(void, dropout, (const trm_dropout *a))

/* ---- embeddings --------------------------------------------------------------------- */

typedef struct trm_embed_grad {
    int64_t tokens, vocab, c;
    int threads;
    bool accumulate;
    const int32_t *id;
    const float *dy;
    float *dw;
} trm_embed_grad;

/* find_outside: index of the first id outside 0 .. limit-1, or -1.  posemb: y = x + w for each of n samples of
 * `count` floats; posemb_grad: dw (+)= sum over samples. */
#define TRM_KERNELS_EMBEDDING(X)                                                                              \
    X(int64_t, find_outside, (const int32_t *id, int64_t n, int64_t limit))                                   \
    X(void, embed, (const float *w, const int32_t *id, float *y, int64_t tokens, int64_t c, int threads))     \
    X(void, embed_grad, (const trm_embed_grad *a))                                                            \
    X(void, posemb, (const float *x, const float *w, float *y, int64_t n, int64_t count, int threads))        \
    X(void, posemb_grad, (const float *dy, float *dw, int64_t n, int64_t count, bool accumulate, int threads))

/* ---- losses ------------------------------------------------------------------------- */

typedef struct trm_ce {
    int64_t rows, c;
    int threads;
    const float *x;
    const int32_t *t;               /* in 0 .. c-1, or `ignore` */
    float *dx;                      /* NULL: the loss only */
    double smoothing;
    bool ignores;
    int32_t ignore;
    double *work;                   /* 3 * threads */
    double *loss, *correct, *count; /* sums over rows; of the rows that are not ignored */
} trm_ce;

typedef struct trm_mse {
    int64_t count;                  /* elements of all samples */
    int threads;
    float scale;                    /* dx = (x - t) * scale; bce: (sigmoid(x) - t) * scale */
    const float *x, *t;
    float *dx;                      /* NULL: the loss only */
    double *work;                   /* threads */
} trm_mse;

/* loss_mse returns the sum of squared differences, loss_bce that of log(1 + exp(x)) - x t. */
#define TRM_KERNELS_LOSS(X)                \
    X(void, loss_ce, (const trm_ce *a))    \
    X(double, loss_mse, (const trm_mse *a)) \
    X(double, loss_bce, (const trm_mse *a))

/* ---- loads -------------------------------------------------------------------------- */

typedef struct trm_load {
    int64_t n, count, channels;     /* samples, elements of each; 1 channel: one slope and offset for all */
    int64_t stride;                 /* bytes from sample to sample */
    int64_t width;                  /* pixels_first: entries in slope and offset, whole pixels */
    int threads;
    bool pixels_first;              /* raw samples lie as (H,W,C), else as (C,H,W) */
    const double *slope_double, *offset_double;     /* y = raw * slope + offset */
    const float *slope_float, *offset_float;        /* the same numbers */
    const char *raw;
    void *y;                        /* float or int32_t */
} trm_load;

/* load_U8 and so on: to float, tokens_U8 and so on: to int32; by the names of trm_dtype. */
#define TRM_LOAD_INTEGERS(X, L) L(X, U8) L(X, I8) L(X, U16) L(X, I16) L(X, U32) L(X, I32) L(X, U64) L(X, I64)
#define TRM_LOAD_REALS(X, L) L(X, F16) L(X, BF16) L(X, F32) L(X, F64)
#define TRM_KERNELS_LOAD_ONE(X, name) X(void, load_##name, (const trm_load *a))
#define TRM_KERNELS_TOKENS_ONE(X, name) X(void, tokens_##name, (const trm_load *a))
#define TRM_KERNELS_LOAD(X)                       \
    TRM_LOAD_INTEGERS(X, TRM_KERNELS_LOAD_ONE)    \
    TRM_LOAD_INTEGERS(X, TRM_KERNELS_TOKENS_ONE)  \
    TRM_LOAD_REALS(X, TRM_KERNELS_LOAD_ONE)

/* ---- updates ------------------------------------------------------------------------ */

/* grad = g * grad_scale + l2 * w.
 * SGD (m2 NULL): m1 = beta1 * m1 + grad; w -= lr * (m1, or grad + beta1 * m1, or grad without m1).
 * Adam: m1 = beta1 * m1 + rest1 * grad; m2 = beta2 * m2 + rest2 * grad^2;
 *       w -= shrink * w + lr * m1 / (sqrt(m2) * root_scale + eps).
 * RMSprop: m1 = beta2 * m1 + rest2 * grad^2; step = grad / (sqrt(m1) + eps); with m2: step = m2 = beta1 * m2 + step; w -= lr * step.
 * LAMB in two passes: lamb_moments moves the moments as Adam does and sums the squares of w and of
 *       r = moment_scale * m1 / (sqrt(m2) * root_scale + eps) + shrink * w; lamb_step: w -= lr * r. */
typedef struct trm_update {
    int64_t count;
    int threads;
    bool nesterov;
    float lr, grad_scale, l2, beta1, rest1, beta2, rest2, shrink, moment_scale, root_scale, eps;
    float *w, *m1, *m2;
    const float *g;
} trm_update;

/* lamb_moments: work has 2 * threads numbers; the sums come to its first two.  sumsq: the sum of squares, in float64; work has `threads` numbers. */
#define TRM_KERNELS_UPDATE(X)               \
    X(void, update, (const trm_update *a))  \
    X(void, rmsprop, (const trm_update *a)) \
    X(void, lamb_moments, (const trm_update *a, double *work)) \
    X(void, lamb_step, (const trm_update *a)) \
    X(double, sumsq, (const float *g, int64_t n, double *work, int threads))

#define TRM_KERNELS_LOOPS(X)                                                                              \
    TRM_KERNELS_NORM(X) TRM_KERNELS_ELEMENTWISE(X) TRM_KERNELS_EMBEDDING(X) TRM_KERNELS_LOSS(X)           \
    TRM_KERNELS_LOAD(X) TRM_KERNELS_UPDATE(X)

#endif
