/* update: the optimizers of torch.optim, over gradient *sums* that are scaled to means here. */
#include <math.h>

#include "ref/ref.h"

/* g += wd w;  m = beta1 m + g (m starts at 0, so the first m is g);  w -= lr m,
 * or, with Nesterov's look ahead, w -= lr (g + beta1 m).  torch.optim.SGD, dampening 0. */
void trm_ref_sgd(const trm_ref_update *s, const double *g, double *m, double *w) {
    for (int64_t i = 0; i < s->n; i++) {
        double step = g[i] * s->grad_scale + s->weight_decay * w[i];
        if (s->beta1 != 0) {
            m[i] = s->beta1 * m[i] + step;
            step = s->nesterov ? step + s->beta1 * m[i] : m[i];
        }
        w[i] -= s->lr * step;
    }
}

/* Kingma, Ba 2015; decoupled decay: Loshchilov, Hutter 2019.  As torch.optim.Adam and AdamW:
 *   m = b1 m + (1-b1) g, v = b2 v + (1-b2) g^2, w -= lr m/(1-b1^k) / (sqrt(v/(1-b2^k)) + eps) */
void trm_ref_adam(const trm_ref_update *s, const double *g, double *m, double *v, double *w) {
    double correct1 = 1 - pow(s->beta1, (double)s->update), correct2 = 1 - pow(s->beta2, (double)s->update);
    for (int64_t i = 0; i < s->n; i++) {
        double grad = g[i] * s->grad_scale;
        if (s->decoupled)
            w[i] *= 1 - s->lr * s->weight_decay;
        else
            grad += s->weight_decay * w[i];
        m[i] = s->beta1 * m[i] + (1 - s->beta1) * grad;
        v[i] = s->beta2 * v[i] + (1 - s->beta2) * grad * grad;
        w[i] -= s->lr * (m[i] / correct1) / (sqrt(v[i] / correct2) + s->eps);
    }
}

/* Hinton 2012, as torch.optim.RMSprop, not centered:
 *   v = alpha v + (1-alpha) g^2, m = momentum m + g / (sqrt(v) + eps), w -= lr m */
void trm_ref_rmsprop(const trm_ref_update *s, const double *g, double *v, double *m, double *w) {
    for (int64_t i = 0; i < s->n; i++) {
        double grad = g[i] * s->grad_scale + s->weight_decay * w[i];
        v[i] = s->beta2 * v[i] + (1 - s->beta2) * grad * grad;
        double step = grad / (sqrt(v[i]) + s->eps);
        if (s->beta1 != 0) step = m[i] = s->beta1 * m[i] + step;
        w[i] -= s->lr * step;
    }
}

/* You et al. 2020, algorithm 2: r = m/(1-b1^k) / (sqrt(v/(1-b2^k)) + eps) + wd w, w -= lr |w|/|r| r, with the norms of the whole
 * tensor; where one of them is 0 the ratio is 1. */
static double lamb_step(const trm_ref_update *s, double m, double v, double w) {
    double correct1 = 1 - pow(s->beta1, (double)s->update), correct2 = 1 - pow(s->beta2, (double)s->update);
    return (m / correct1) / (sqrt(v / correct2) + s->eps) + s->weight_decay * w;
}

void trm_ref_lamb(const trm_ref_update *s, const double *g, double *m, double *v, double *w) {
    double ww = 0, rr = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double grad = g[i] * s->grad_scale;
        m[i] = s->beta1 * m[i] + (1 - s->beta1) * grad;
        v[i] = s->beta2 * v[i] + (1 - s->beta2) * grad * grad;
        double r = lamb_step(s, m[i], v[i], w[i]);
        ww += w[i] * w[i];
        rr += r * r;
    }
    double trust = ww > 0 && rr > 0 ? sqrt(ww / rr) : 1;
    for (int64_t i = 0; i < s->n; i++) w[i] -= s->lr * trust * lamb_step(s, m[i], v[i], w[i]);
}
