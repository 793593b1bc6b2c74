/* flatten: channels that come first lie last in memory, but flatten in PyTorch's order, channels first. */
#include "ref/ref.h"

void trm_ref_flatten_fwd(int64_t n, int64_t c, int64_t pixels, const double *x, double *y) {
    int64_t size = c * pixels;
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < size; e++)
            y[i * size + e] = x[i * size + trm_ref_channels_last(c, pixels, e)];
}

void trm_ref_flatten_bwd(int64_t n, int64_t c, int64_t pixels, const double *dy, bool acc, double *dx) {
    int64_t size = c * pixels;
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < size; e++) {
            double *d = &dx[i * size + trm_ref_channels_last(c, pixels, e)];
            *d = acc ? *d + dy[i * size + e] : dy[i * size + e];
        }
}
