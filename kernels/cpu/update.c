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

void TRM_K(update)(const trm_update *a) {
    int threads = threads_for(a->count, a->threads);
    void (*span_fn)(const trm_update *, trm_span) = a->m2         ? adam
                                                    : !a->m1      ? sgd_plain
                                                    : a->nesterov ? sgd_nesterov
                                                                  : sgd_momentum;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) span_fn(a, span_of(a->count, 16, threads, t));
}

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
