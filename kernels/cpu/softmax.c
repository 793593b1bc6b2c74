/* Softmax over rows and its gradient; one pass over a row that stays in the cache. */
#include "kernels.h"
#include "rows.h"

static void softmax_row(const float *x, float *y, int64_t c) {
    float inv = (float)(1 / row_exp(x, row_max(x, c), c, y, true));
#pragma omp simd
    for (int64_t j = 0; j < c; j++) y[j] *= inv;
}

void TRM_K(softmax)(const float *x, float *y, int64_t rows, int64_t c, int threads) {
    threads = threads_for(rows * c, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++) softmax_row(x + r * c, y + r * c, c);
}

/* Sum of y * dy. */
static float dot_row(const float *y, const float *dy, int64_t c) {
    double total = 0;
    for (int64_t at = 0; at < c; at += PIECE) {
        int64_t end = at + PIECE < c ? at + PIECE : c;
        float s = 0;
#pragma omp simd reduction(+ : s)
        for (int64_t j = at; j < end; j++) s += y[j] * dy[j];
        total += (double)s;
    }
    return (float)total;
}

/* dx (+)= y * (dy - sum of y * dy) */
static void softmax_grad_row(const float *y, const float *dy, float *dx, int64_t c, bool accumulate) {
    float sum = dot_row(y, dy, c);
    if (accumulate) {
#pragma omp simd
        for (int64_t j = 0; j < c; j++) dx[j] += y[j] * (dy[j] - sum);
    } else {
#pragma omp simd
        for (int64_t j = 0; j < c; j++) dx[j] = y[j] * (dy[j] - sum);
    }
}

void TRM_K(softmax_back)(const float *y, const float *dy, float *dx, int64_t rows, int64_t c, bool accumulate,
                         int threads) {
    threads = threads_for(rows * c, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++) softmax_grad_row(y + r * c, dy + r * c, dx + r * c, c, accumulate);
}
