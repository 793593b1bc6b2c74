/* kernels/cpu: the loops of the CPU back end, plain pointers in and out.
 *
 * Every kernels/cpu/X.c is compiled three times, with -DTRM_ISA=v2 -march=x86-64-v2 and likewise v3 and
 * v4, so that one library runs on every x86-64 and fast on each.  Flags beside -O3 -fopenmp: -fno-math-errno
 * -fno-trapping-math, without which vecmath.h does not turn into vector code; never -ffast-math: sums keep
 * their order unless `#pragma omp simd reduction` says otherwise, and infinities and NaN are kept.
 *
 * One list makes the type of the table, the declarations and the three tables (table.c): an entry is
 * X(result, name, (arguments)), its function TRM_K(name), the back end calls table->name(...).
 *
 * `threads` is the number of OpenMP threads that a loop may use; 1 inside a parallel region.  A result
 * depends on it only by the order of sums, never by chance.  Pointers of one call do not overlap unless
 * the comment says so.  All matrices are row-major; ld is the distance of rows.
 */
#ifndef TRM_KERNELS_H
#define TRM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loops.h"                  /* norms, element-wise ops, losses, loads, updates: TRM_KERNELS_LOOPS */

/* dense.c.  z is rows x cols; b (cols) may be NULL.
 *   fill_rows     y = b + res; either may be NULL (then 0), res may be y
 *   bias_*        z += b, y = act(z); y may be z, then only y is kept
 *   bias_*_bf16   the same, y as bfloat16; z is always kept
 *   column_sums   out (+)= sum over rows of x
 *   pad_rows      copies x to y, whose rows are ld apart; where sum is not NULL, sum += column sums
 *   add_into      y += x */
#define TRM_KERNELS_DENSE(X)                                                                                 \
    X(void, fill_rows, (float *y, const float *b, const float *res, int64_t rows, int64_t cols, int threads)) \
    X(void, bias_relu, (float *y, float *z, const float *b, int64_t rows, int64_t cols, int threads))        \
    X(void, bias_tanh, (float *y, float *z, const float *b, int64_t rows, int64_t cols, int threads))        \
    X(void, bias_sigmoid, (float *y, float *z, const float *b, int64_t rows, int64_t cols, int threads))     \
    X(void, bias_gelu, (float *y, float *z, const float *b, int64_t rows, int64_t cols, int threads))        \
    X(void, bias_gelu_tanh, (float *y, float *z, const float *b, int64_t rows, int64_t cols, int threads))   \
    X(void, bias_silu, (float *y, float *z, const float *b, int64_t rows, int64_t cols, int threads))        \
    X(void, bias_gelu_bf16, (uint16_t *y, float *z, const float *b, int64_t rows, int64_t cols, int threads)) \
    X(void, bias_gelu_tanh_bf16, (uint16_t *y, float *z, const float *b, int64_t rows, int64_t cols, int threads)) \
    X(void, bias_silu_bf16, (uint16_t *y, float *z, const float *b, int64_t rows, int64_t cols, int threads)) \
    X(void, column_sums, (float *out, const float *x, int64_t rows, int64_t cols, bool add, int threads))    \
    X(void, pad_rows, (float *y, int64_t ld, const float *x, int64_t rows, int64_t cols, float *sum, int threads)) \
    X(void, add_into, (float *y, const float *x, int64_t n, int threads))

/* attention.c: rows of scores, ld apart (a multiple of 16); row i sees its first seen + i * step columns, the
 * others become 0.  Meant for use inside a parallel region.
 *   softmax_rows   s = softmax(s); lse[i] = log of the sum of exp(s)
 *   softmax_again  s = exp(s - lse): the same from the kept sums
 *   softmax_grad   ds = scale * p * (ds - sum of p * ds) */
#define TRM_KERNELS_ATTENTION(X)                                                                            \
    X(void, softmax_rows,                                                                                   \
      (float *s, int64_t ld, int64_t rows, int64_t cols, int64_t seen, int64_t step, float *lse))           \
    X(void, softmax_again,                                                                                  \
      (float *s, int64_t ld, int64_t rows, int64_t cols, int64_t seen, int64_t step, const float *lse))     \
    X(void, softmax_grad,                                                                                   \
      (float *ds, const float *p, int64_t ld, int64_t rows, int64_t cols, int64_t seen, int64_t step, float scale))

/* bf16.c: bfloat16 (rounded to the nearest, ties to even) and back; column_sums of it. */
#define TRM_KERNELS_BF16(X)                                                                              \
    X(void, to_bf16, (const float *x, uint16_t *y, int64_t n, int threads))                              \
    X(void, from_bf16, (const uint16_t *x, float *y, int64_t n, int threads))                            \
    X(void, column_sums_bf16, (float *out, const uint16_t *x, int64_t rows, int64_t cols, bool add, int threads))

/* pool.c: n images or volumes (D,H,W,C); an image is one deep.  `place` is the index in the window where the largest value
 * was found.  Adaptive windows divide the input: `kernel` is the largest of them, stride and pad are not read. */
typedef struct trm_pool {
    int64_t n, c, in[3], out[3], kernel[3], stride[3], pad[3];
    int threads;
    bool accumulate, adaptive;
    const float *x, *dy;
    float *y, *dx;
    int32_t *place;                     /* max: as large as y */
} trm_pool;
#define TRM_KERNELS_POOL(X)                   \
    X(void, pool_max, (const trm_pool *a))      \
    X(void, pool_max_grad, (const trm_pool *a)) \
    X(void, pool_avg, (const trm_pool *a))      \
    X(void, pool_avg_grad, (const trm_pool *a))

#define TRM_KERNELS(X) \
    TRM_KERNELS_DENSE(X) TRM_KERNELS_BF16(X) TRM_KERNELS_ATTENTION(X) TRM_KERNELS_POOL(X) TRM_KERNELS_LOOPS(X)

typedef struct trm_kernels {
    const char *isa;                /* "x86-64-v3" */
#define X(result, name, args) result(*name) args;
    TRM_KERNELS(X)
#undef X
} trm_kernels;

/* One for each instruction set; backend/cpu/cpu.c chooses. */
extern const trm_kernels trm_kernels_v2, trm_kernels_v3, trm_kernels_v4;

#ifdef TRM_ISA
#define TRM_JOIN_(a, b, c) a##b##_##c
#define TRM_JOIN(a, b, c) TRM_JOIN_(a, b, c)
#define TRM_K(name) TRM_JOIN(trm_, name, TRM_ISA)       /* trm_fill_rows_v3 */
#define X(result, name, args) result TRM_K(name) args;
TRM_KERNELS(X)
#undef X
#endif

#endif
