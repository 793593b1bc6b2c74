/* add: sums of tensors and the sum of squares that gradient clipping needs. */
#include "ref/ref.h"

void trm_ref_add(int64_t n, const double *a, const double *b, double *y) {
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

double trm_ref_sumsq(int64_t n, const double *g) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += g[i] * g[i];
    return sum;
}
