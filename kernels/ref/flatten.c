/* flatten: images lie as (H,W,C) in memory but flatten in PyTorch's order, (C,H,W). */
#include "ref/ref.h"

void trm_ref_flatten_fwd(int64_t n, int64_t c, int64_t h, int64_t w, const double *x, double *y) {
    int64_t size = c * h * w;
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < size; e++) y[i * size + e] = x[i * size + trm_ref_hwc(c, h, w, e)];
}

void trm_ref_flatten_bwd(int64_t n, int64_t c, int64_t h, int64_t w, const double *dy, bool acc, double *dx) {
    int64_t size = c * h * w;
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < size; e++) {
            double *d = &dx[i * size + trm_ref_hwc(c, h, w, e)];
            *d = acc ? *d + dy[i * size + e] : dy[i * size + e];
        }
}
