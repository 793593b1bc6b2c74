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

/* What smoothing e adds to a row's loss, e (x_t - mean(x)), and to its gradient, e onehot(t) - e/c.  Numbers relative to the
 * largest one, so that a common offset costs no digits. */
static double smooth_row(const trm_ce *a, int64_t r) {
    const float *x = a->x + r * a->c;
    float m = row_max(x, a->c);
    double sum = 0;
    for (int64_t at = 0; at < a->c; at += PIECE) {
        int64_t end = at + PIECE < a->c ? at + PIECE : a->c;
        float s = 0;
#pragma omp simd reduction(+ : s)
        for (int64_t j = at; j < end; j++) s += x[j] - m;
        sum += (double)s;
    }
    if (a->dx) {
        float *dx = a->dx + r * a->c, even = (float)(a->smoothing / (double)a->c);
#pragma omp simd
        for (int64_t j = 0; j < a->c; j++) dx[j] -= even;
        dx[a->t[r]] += (float)a->smoothing;
    }
    return a->smoothing * ((double)(x[a->t[r]] - m) - sum / (double)a->c);
}

/* Sums of the rows of a span: loss, correct, count. */
static void ce_rows(const trm_ce *a, trm_span s, double sum[3]) {
    for (int64_t r = s.begin; r < s.end; r++) {
        if (a->ignores && a->t[r] == a->ignore) {
            if (a->dx) memset(a->dx + r * a->c, 0, sizeof *a->dx * (size_t)a->c);
            continue;
        }
        sum[0] += a->c <= SHORT ? ce_short(a, r, &sum[1]) : ce_long(a, r, &sum[1]);
        if (a->smoothing > 0) sum[0] += smooth_row(a, r);
        sum[2] += 1;
    }
}

void TRM_K(loss_ce)(const trm_ce *a) {
    int threads = threads_for(a->rows * a->c, a->threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        double sum[3] = {0, 0, 0};
        ce_rows(a, span_of(a->rows, 1, threads, t), sum);
        memcpy(a->work + 3 * t, sum, sizeof sum);
    }
    *a->loss = *a->correct = *a->count = 0;
    for (int t = 0; t < threads; t++) {
        *a->loss += a->work[3 * t];
        *a->correct += a->work[3 * t + 1];
        *a->count += a->work[3 * t + 2];
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

typedef double (*pair_fn)(const float *x, const float *t, float *dx, int64_t n, float scale);

static double each_pair(const trm_mse *a, pair_fn fn) {
    int threads = threads_for(a->count, a->threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(a->count, 16, threads, t);
        double sum = 0;
        for (int64_t i = s.begin; i < s.end; i += PIECE)
            sum += fn(a->x + i, a->t + i, a->dx ? a->dx + i : NULL, s.end - i < PIECE ? s.end - i : PIECE,
                      a->scale);
        a->work[t] = sum;
    }
    double total = 0;
    for (int t = 0; t < threads; t++) total += a->work[t];
    return total;
}

double TRM_K(loss_mse)(const trm_mse *a) { return each_pair(a, mse_piece); }

/* ---- binary cross-entropy ----------------------------------------------------------- */

/* Sum of log(1 + exp(-|x|)) over at most 512 numbers: the logarithm of a product of factors up to 2, which a double holds. */
static double log_terms(const float *x, int64_t n) {
    double product = 1;
#pragma omp simd reduction(* : product)
    for (int64_t j = 0; j < n; j++) product *= 1 + (double)trm_exp_neg(-fabsf(x[j]));
    return log(product);
}

static double bce_piece(const float *x, const float *t, float *dx, int64_t n, float scale) {
    float s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < n; j++) s += (x[j] > 0 ? x[j] : 0) - x[j] * t[j];
    if (dx) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) dx[j] = (trm_sigmoidf(x[j]) - t[j]) * scale;
    }
    return (double)s + log_terms(x, n / 2) + log_terms(x + n / 2, n - n / 2);
}

double TRM_K(loss_bce)(const trm_mse *a) { return each_pair(a, bce_piece); }
