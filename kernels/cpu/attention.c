/* attention: rows of softmax.  The end of a row is filled up to whole vectors with scores of minus infinity, so
 * that the loops have no remainder. */
#include "cpu/kernels.h"
#include "cpu/vecmath.h"

enum { STEP = 16 };

/* Columns of a row to work on: `seen` and the filling. */
static int64_t fill_tail(float *s, int64_t seen, float value) {
    int64_t end = (seen + STEP - 1) / STEP * STEP;
    for (int64_t j = seen; j < end; j++) s[j] = value;
    return end;
}

static void clear(float *s, int64_t from, int64_t to) {
    if (from < to) memset(s + from, 0, (size_t)(to - from) * sizeof *s);
}

static float softmax_row(float *s, int64_t n) {
    float high = s[0], sum = 0;
#pragma omp simd reduction(max : high)
    for (int64_t j = 0; j < n; j++) high = s[j] > high ? s[j] : high;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        float e = trm_exp_neg(s[j] - high);
        s[j] = e;
        sum += e;
    }
    float scale = 1.0f / sum;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) s[j] *= scale;
    return high + logf(sum);
}

void TRM_K(softmax_rows)(float *s, int64_t ld, int64_t rows, int64_t cols, int64_t seen, int64_t step,
                         float *lse) {
    for (int64_t i = 0; i < rows; i++, s += ld) {
        int64_t n = fill_tail(s, seen + i * step, -HUGE_VALF);
        lse[i] = softmax_row(s, n);
        clear(s, n, cols);
    }
}

void TRM_K(softmax_again)(float *s, int64_t ld, int64_t rows, int64_t cols, int64_t seen, int64_t step,
                          const float *lse) {
    for (int64_t i = 0; i < rows; i++, s += ld) {
        int64_t n = fill_tail(s, seen + i * step, -HUGE_VALF);
        float shift = lse[i];
#pragma omp simd
        for (int64_t j = 0; j < n; j++) s[j] = trm_exp_neg(s[j] - shift);
        clear(s, n, cols);
    }
}

void TRM_K(softmax_grad)(float *ds, const float *p, int64_t ld, int64_t rows, int64_t cols, int64_t seen,
                         int64_t step, float scale) {
    for (int64_t i = 0; i < rows; i++, ds += ld, p += ld) {
        int64_t n = fill_tail(ds, seen + i * step, 0);
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t j = 0; j < n; j++) dot += p[j] * ds[j];
#pragma omp simd
        for (int64_t j = 0; j < n; j++) ds[j] = p[j] * (ds[j] - dot) * scale;
        clear(ds, n, cols);
    }
}
