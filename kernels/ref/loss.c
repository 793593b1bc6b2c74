/* loss: sums over samples (never means: the division by the global count belongs to the update)
 * of torch.nn.functional.cross_entropy and mse_loss. */
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

/* loss = log sum_i exp(x_i) - x_t, with the largest logit taken out so that exp stays finite;
 * its gradient is softmax(x) - onehot(t). */
void trm_ref_cross_entropy(int64_t rows, int64_t c, const double *x, const int32_t *t, double *dx,
                           trm_ref_loss *sum) {
    for (int64_t r = 0; r < rows; r++) {
        const double *row = x + r * c;
        int64_t best = first_largest(row, c);
        double exps = 0;
        for (int64_t i = 0; i < c; i++) exps += exp(row[i] - row[best]);
        /* cppcheck-suppress invalidFunctionArg ; the largest term of the sum is 1 */
        double lse = row[best] + log(exps);
        sum->loss += lse - row[t[r]];
        sum->count += 1;
        sum->correct += best == t[r] && all_finite(row, c);
        for (int64_t i = 0; i < c && dx; i++) dx[r * c + i] = exp(row[i] - lse) - (i == t[r]);
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
