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

#define TRM_KERNELS_LOOPS(X) TRM_KERNELS_NORM(X)

#endif
