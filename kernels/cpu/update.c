/* Optimizer updates, one pass over weights, gradients and moments; and the norm of gradients. */
#include "kernels.h"
#include "lanes.h"

#include <math.h>

/* A gradient sum becomes a gradient: scaled, and with the L2 term. */
#define GRADIENT(i) (g[i] * scale + decay * w[i])

static void sgd_plain(const trm_update *a, trm_span s) {
    float *w = a->w, lr = a->lr, scale = a->grad_scale, decay = a->l2;
    const float *g = a->g;
#pragma omp simd
    for (int64_t i = s.begin; i < s.end; i++) w[i] -= lr * GRADIENT(i);
}

static void sgd_momentum(const trm_update *a, trm_span s) {
    float *w = a->w, *m = a->m1, lr = a->lr, scale = a->grad_scale, decay = a->l2, beta = a->beta1;
    const float *g = a->g;
#pragma omp simd
    for (int64_t i = s.begin; i < s.end; i++) {
        float moment = beta * m[i] + GRADIENT(i);
        m[i] = moment;
        w[i] -= lr * moment;
    }
}

static void sgd_nesterov(const trm_update *a, trm_span s) {
    float *w = a->w, *m = a->m1, lr = a->lr, scale = a->grad_scale, decay = a->l2, beta = a->beta1;
    const float *g = a->g;
#pragma omp simd
    for (int64_t i = s.begin; i < s.end; i++) {
        float grad = GRADIENT(i), moment = beta * m[i] + grad;
        m[i] = moment;
        w[i] -= lr * (grad + beta * moment);
    }
}

static void adam(const trm_update *a, trm_span s) {
    float *w = a->w, *m = a->m1, *v = a->m2;
    const float *g = a->g;
    float lr = a->lr, scale = a->grad_scale, decay = a->l2, shrink = a->shrink, eps = a->eps,
          root_scale = a->root_scale;
    float beta1 = a->beta1, rest1 = a->rest1, beta2 = a->beta2, rest2 = a->rest2;
#pragma omp simd
    for (int64_t i = s.begin; i < s.end; i++) {
        float grad = GRADIENT(i);
        float moment = beta1 * m[i] + rest1 * grad, square = beta2 * v[i] + rest2 * (grad * grad);
        m[i] = moment;
        v[i] = square;
        w[i] -= shrink * w[i] + lr * (moment / (sqrtf(square) * root_scale + eps));
    }
}

static void each_span(const trm_update *a, void (*span_fn)(const trm_update *, trm_span)) {
    int threads = threads_for(a->count, a->threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) span_fn(a, span_of(a->count, 16, threads, t));
}

void TRM_K(update)(const trm_update *a) {
    void (*span_fn)(const trm_update *, trm_span) = a->m2         ? adam
                                                    : !a->m1      ? sgd_plain
                                                    : a->nesterov ? sgd_nesterov
                                                                  : sgd_momentum;
    each_span(a, span_fn);
}

static void rmsprop_plain(const trm_update *a, trm_span s) {
    float *w = a->w, *v = a->m1, lr = a->lr, scale = a->grad_scale, decay = a->l2, eps = a->eps;
    float beta2 = a->beta2, rest2 = a->rest2;
    const float *g = a->g;
#pragma omp simd
    for (int64_t i = s.begin; i < s.end; i++) {
        float grad = GRADIENT(i), square = beta2 * v[i] + rest2 * (grad * grad);
        v[i] = square;
        w[i] -= lr * (grad / (sqrtf(square) + eps));
    }
}

static void rmsprop_momentum(const trm_update *a, trm_span s) {
    float *w = a->w, *v = a->m1, *m = a->m2, lr = a->lr, scale = a->grad_scale, decay = a->l2, eps = a->eps;
    float beta1 = a->beta1, beta2 = a->beta2, rest2 = a->rest2;
    const float *g = a->g;
#pragma omp simd
    for (int64_t i = s.begin; i < s.end; i++) {
        float grad = GRADIENT(i), square = beta2 * v[i] + rest2 * (grad * grad);
        float step = beta1 * m[i] + grad / (sqrtf(square) + eps);
        v[i] = square;
        m[i] = step;
        w[i] -= lr * step;
    }
}

void TRM_K(rmsprop)(const trm_update *a) { each_span(a, a->m2 ? rmsprop_momentum : rmsprop_plain); }

/* ---- LAMB --------------------------------------------------------------------------- */

#define LAMB_STEP(m, v, w) (moment_scale * (m) / (sqrtf(v) * root_scale + eps) + shrink * (w))
enum { SUM_PIECE = 1024 }; /* squares that are summed in float */

static void lamb_piece(const trm_update *a, trm_span s, double sum[2]) {
    const float *g = a->g, *w = a->w;
    float *m = a->m1, *v = a->m2, ww = 0, rr = 0;
    float scale = a->grad_scale, shrink = a->shrink, eps = a->eps, moment_scale = a->moment_scale,
          root_scale = a->root_scale;
    float beta1 = a->beta1, rest1 = a->rest1, beta2 = a->beta2, rest2 = a->rest2;
#pragma omp simd reduction(+ : ww, rr)
    for (int64_t i = s.begin; i < s.end; i++) {
        float grad = g[i] * scale;
        float moment = beta1 * m[i] + rest1 * grad, square = beta2 * v[i] + rest2 * (grad * grad);
        float r = LAMB_STEP(moment, square, w[i]);
        m[i] = moment;
        v[i] = square;
        ww += w[i] * w[i];
        rr += r * r;
    }
    sum[0] += (double)ww;
    sum[1] += (double)rr;
}

void TRM_K(lamb_moments)(const trm_update *a, double *work) {
    int threads = threads_for(a->count, a->threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(a->count, 16, threads, t);
        double sum[2] = {0, 0};
        for (int64_t i = s.begin; i < s.end; i += SUM_PIECE)
            lamb_piece(a, (trm_span){i, s.end - i < SUM_PIECE ? s.end : i + SUM_PIECE}, sum);
        work[2 * t] = sum[0];
        work[2 * t + 1] = sum[1];
    }
    for (int t = 1; t < threads; t++) {
        work[0] += work[2 * t];
        work[1] += work[2 * t + 1];
    }
}

static void lamb_step_span(const trm_update *a, trm_span s) {
    float *w = a->w, lr = a->lr, shrink = a->shrink, eps = a->eps, moment_scale = a->moment_scale,
          root_scale = a->root_scale;
    const float *m = a->m1, *v = a->m2;
#pragma omp simd
    for (int64_t i = s.begin; i < s.end; i++) w[i] -= lr * LAMB_STEP(m[i], v[i], w[i]);
}

void TRM_K(lamb_step)(const trm_update *a) { each_span(a, lamb_step_span); }

/* Four vectors of sums hide the latency of an addition. */
static double sumsq_span(const float *g, int64_t n) {
    enum { HALF = TRM_LANES / 2 };
    trm_vd s[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * HALF <= n; i += 4 * HALF)
        for (int k = 0; k < 4; k++) {
            trm_vd v = vload_double(g + i + k * HALF);
            s[k] += v * v;
        }
    s[0] = (s[0] + s[1]) + (s[2] + s[3]);
    double sum = 0;
    for (int k = 0; k < HALF; k++) sum += s[0][k];
    for (; i < n; i++) sum += (double)g[i] * (double)g[i];
    return sum;
}

double TRM_K(sumsq)(const float *g, int64_t n, double *work, int threads) {
    threads = threads_for(n, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(n, 16, threads, t);
        work[t] = sumsq_span(g + s.begin, s.end - s.begin);
    }
    double total = 0;
    for (int t = 0; t < threads; t++) total += work[t];
    return total;
}
