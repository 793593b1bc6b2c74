/* softmax: y_i = exp(x_i) / sum_k exp(x_k), as torch.softmax; the largest x is taken out so that exp stays finite. */
#include <math.h>

#include "ref/ref.h"

void trm_ref_softmax_fwd(int64_t rows, int64_t c, const double *x, double *y) {
    for (int64_t r = 0; r < rows; r++) {
        const double *row = x + r * c;
        double most = row[0], sum = 0;
        for (int64_t i = 1; i < c; i++) most = fmax(most, row[i]);
        for (int64_t i = 0; i < c; i++) sum += exp(row[i] - most);
        for (int64_t i = 0; i < c; i++) y[r * c + i] = exp(row[i] - most) / sum;
    }
}

/* dy_k/dx_i = y_k (delta_ik - y_i), so dx = y (dy - sum(y dy)) */
void trm_ref_softmax_bwd(int64_t rows, int64_t c, const double *y, const double *dy, bool acc, double *dx) {
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < c; i++) sum += y[r * c + i] * dy[r * c + i];
        for (int64_t i = r * c; i < (r + 1) * c; i++) {
            double d = y[i] * (dy[i] - sum);
            dx[i] = acc ? dx[i] + d : d;
        }
    }
}
