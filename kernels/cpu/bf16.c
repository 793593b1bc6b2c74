/* bf16: to bfloat16 and back, and what reads it beside a product. */
#include "bf16.h"

#include "kernels.h"
#include "lanes.h"

void TRM_K(to_bf16)(const float *x, uint16_t *y, int64_t n, int threads) {
    threads = threads_for(n, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(n, 32, threads, t);
#pragma omp simd
        for (int64_t i = s.begin; i < s.end; i++) y[i] = trm_bf16_of(x[i]);
    }
}

void TRM_K(from_bf16)(const uint16_t *x, float *y, int64_t n, int threads) {
    threads = threads_for(n, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(n, 32, threads, t);
#pragma omp simd
        for (int64_t i = s.begin; i < s.end; i++) y[i] = trm_bf16_value(x[i]);
    }
}

/* As column_sums: blocks of columns stay in the first-level cache, pieces of rows keep rounding small. */
enum { BLOCK = 256, ROWS = 512 };

static void sum_piece(float *total, const uint16_t *x, int64_t rows, int64_t cols, int64_t width) {
    float sum[BLOCK] = {0};
    for (int64_t i = 0; i < rows; i++, x += cols) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) sum[j] += trm_bf16_value(x[j]);
    }
    for (int64_t j = 0; j < width; j++) total[j] += sum[j];
}

static void sum_block(float *out, const uint16_t *x, int64_t rows, int64_t cols, int64_t width, bool add) {
    float total[BLOCK] = {0};
    for (int64_t i = 0; i < rows; i += ROWS)
        sum_piece(total, x + i * cols, rows - i < ROWS ? rows - i : ROWS, cols, width);
    for (int64_t j = 0; j < width; j++) out[j] = add ? out[j] + total[j] : total[j];
}

/* Threads share the columns, so that the order of every sum is the same for all of them. */
void TRM_K(column_sums_bf16)(float *out, const uint16_t *x, int64_t rows, int64_t cols, bool add,
                             int threads) {
    int64_t share = (cols + threads - 1) / threads, block = share < BLOCK ? (share + 15) / 16 * 16 : BLOCK;
#pragma omp parallel for if (threads > 1) num_threads(threads)
    for (int64_t j = 0; j < cols; j += block)
        sum_block(out + j, x + j, rows, cols, cols - j < block ? cols - j : block, add);
}
