/* Losses, forward and gradient in one pass over a row that stays in the cache. */
#include "kernels.h"
#include "rows.h"

#include <float.h>

/* ---- cross-entropy ------------------------------------------------------------------ */

/* The answer is correct where x[t] is the first largest. */
static bool is_first(const float *x, int64_t t, float m) {
    int before = 0;
    if (x[t] < m) return false;
#pragma omp simd reduction(+ : before)
    for (int64_t j = 0; j < t; j++) before += x[j] >= m;
    return before == 0;
}

static bool all_finite(const float *x, int64_t c) {
    int bad = 0;
#pragma omp simd reduction(+ : bad)
    for (int64_t j = 0; j < c; j++) bad += !(fabsf(x[j]) <= FLT_MAX);
    return bad == 0;
}

/* One row of c logits (padded: the first `real` of them count as classes); returns the loss. */
TRM_INLINE double ce_row(const float *x, int64_t c, int64_t real, int64_t t, float *dx, double *correct,
                         const bool grad) {
    float m = row_max(x, c);
    double sum = row_exp(x, m, c, dx, grad), at = (double)x[t];
    *correct += is_first(x, t, m) && all_finite(x, c);
    if (grad) {
        float inv = (float)(1 / sum);
#pragma omp simd
        for (int64_t j = 0; j < real; j++) dx[j] *= inv;
        dx[t] -= 1;
    }
    return log(sum) + ((double)m - at);
}

/* A short row goes through a buffer of whole vectors, filled up with logits that have no weight. */
#define SHORT 64
static double ce_short(const trm_ce *a, int64_t r, double *correct) {
    float x[SHORT], e[SHORT];
    int64_t c = a->c, full = (c + 15) / 16 * 16;
    memcpy(x, a->x + r * c, sizeof *x * (size_t)c);
    for (int64_t j = c; j < full; j++) x[j] = -FLT_MAX;
    if (!a->dx) return ce_row(x, full, c, a->t[r], e, correct, false);
    double loss = ce_row(x, full, full, a->t[r], e, correct, true);
    memcpy(a->dx + r * c, e, sizeof *e * (size_t)c);
    return loss;
}

static double ce_long(const trm_ce *a, int64_t r, double *correct) {
    const float *x = a->x + r * a->c;
    if (!a->dx) return ce_row(x, a->c, a->c, a->t[r], NULL, correct, false);
    return ce_row(x, a->c, a->c, a->t[r], a->dx + r * a->c, correct, true);
}

void TRM_K(loss_ce)(const trm_ce *a) {
    int threads = threads_for(a->rows * a->c, a->threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(a->rows, 1, threads, t);
        double loss = 0, correct = 0;
        for (int64_t r = s.begin; r < s.end; r++)
            loss += a->c <= SHORT ? ce_short(a, r, &correct) : ce_long(a, r, &correct);
        a->work[2 * t] = loss;
        a->work[2 * t + 1] = correct;
    }
    *a->loss = *a->correct = 0;
    for (int t = 0; t < threads; t++) {
        *a->loss += a->work[2 * t];
        *a->correct += a->work[2 * t + 1];
    }
}

/* ---- squared difference ------------------------------------------------------------- */

static double mse_piece(const float *x, const float *t, float *dx, int64_t n, float scale) {
    float s = 0;
    if (!dx) {
#pragma omp simd reduction(+ : s)
        for (int64_t j = 0; j < n; j++) s += (x[j] - t[j]) * (x[j] - t[j]);
    } else {
#pragma omp simd reduction(+ : s)
        for (int64_t j = 0; j < n; j++) {
            float d = x[j] - t[j];
            s += d * d;
            dx[j] = d * scale;
        }
    }
    return (double)s;
}

double TRM_K(loss_mse)(const trm_mse *a) {
    int threads = threads_for(a->count, a->threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(a->count, 16, threads, t);
        double sum = 0;
        for (int64_t i = s.begin; i < s.end; i += PIECE)
            sum += mse_piece(a->x + i, a->t + i, a->dx ? a->dx + i : NULL,
                             s.end - i < PIECE ? s.end - i : PIECE, a->scale);
        a->work[t] = sum;
    }
    double total = 0;
    for (int t = 0; t < threads; t++) total += a->work[t];
    return total;
}
