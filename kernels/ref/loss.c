/* loss: sums over samples (never means: the division by the global count belongs to the update)
 * of torch.nn.functional.cross_entropy, mse_loss and binary_cross_entropy_with_logits. */
#include <math.h>

#include "ref/ref.h"

static int64_t first_largest(const double *x, int64_t c) {
    int64_t best = 0;
    for (int64_t i = 1; i < c; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static bool all_finite(const double *x, int64_t c) {
    for (int64_t i = 0; i < c; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* loss = log sum_i exp(x_i) - sum_i q_i x_i with the target q = (1-e) onehot(t) + e/c (Szegedy et al. 2016; e = 0: x_t), with the
 * largest logit taken out so that exp stays finite; its gradient is softmax(x) - q. */
static void cross_entropy_row(const trm_ref_ce *s, const double *x, int32_t t, double *dx,
                              trm_ref_loss *sum) {
    int64_t best = first_largest(x, s->c);
    double exps = 0, even = s->smoothing / (double)s->c, aim = (1 - s->smoothing) * x[t];
    for (int64_t i = 0; i < s->c; i++) exps += exp(x[i] - x[best]);
    /* cppcheck-suppress invalidFunctionArg ; the largest term of the sum is 1 */
    double lse = x[best] + log(exps);
    for (int64_t i = 0; i < s->c && s->smoothing > 0; i++) aim += even * x[i];
    sum->loss += lse - aim;
    sum->count += 1;
    sum->correct += best == t && all_finite(x, s->c);
    for (int64_t i = 0; i < s->c && dx; i++) dx[i] = exp(x[i] - lse) - even - (i == t ? 1 - s->smoothing : 0);
}

void trm_ref_cross_entropy(const trm_ref_ce *s, const double *x, const int32_t *t, double *dx,
                           trm_ref_loss *sum) {
    for (int64_t r = 0; r < s->rows; r++) {
        double *to = dx ? dx + r * s->c : NULL;
        if (!s->ignores || t[r] != s->ignore)
            cross_entropy_row(s, x + r * s->c, t[r], to, sum);
        else
            for (int64_t i = 0; i < s->c && to; i++) to[i] = 0;
    }
}

/* loss of a sample = mean over its elements of (x-t)^2; its gradient is 2 (x-t) / size. */
void trm_ref_mean_squares(int64_t n, int64_t size, const double *x, const double *t, double *dx,
                          trm_ref_loss *sum) {
    for (int64_t i = 0; i < n * size; i++) {
        double d = x[i] - t[i];
        sum->loss += d * d / (double)size;
        if (dx) dx[i] = 2 * d / (double)size;
    }
    sum->count += (double)n;
}

/* torch.nn.functional.binary_cross_entropy_with_logits: loss of a sample = mean over its elements of
 * -t log sigmoid(x) - (1-t) log(1 - sigmoid(x)) = max(x,0) - x t + log(1 + exp(-|x|)); its gradient is (sigmoid(x) - t) / size. */
void trm_ref_binary_cross_entropy(int64_t n, int64_t size, const double *x, const double *t, double *dx,
                                  trm_ref_loss *sum) {
    for (int64_t i = 0; i < n * size; i++) {
        sum->loss += ((x[i] > 0 ? x[i] : 0) - x[i] * t[i] + log1p(exp(-fabs(x[i])))) / (double)size;
        if (dx) dx[i] = (1 / (1 + exp(-x[i])) - t[i]) / (double)size;
    }
    sum->count += (double)n;
}
