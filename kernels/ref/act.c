/* act: element-wise functions, as torch.nn.functional. */
#include <math.h>

#include "ref/ref.h"

/* gelu(x) = x Phi(x), Phi the normal distribution (Hendrycks, Gimpel 2016). */
static double phi(double x) { return 0.5 * (1 + erf(x / sqrt(2))); }
static double gelu(double x) { return x * phi(x); }
static double gelu_slope(double x) { return phi(x) + x * exp(-x * x / 2) / sqrt(2 * M_PI); }

/* The same paper's approximation: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
static double inner(double x) { return sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }
static double gelu_tanh(double x) { return 0.5 * x * (1 + tanh(inner(x))); }
static double gelu_tanh_slope(double x) {
    double t = tanh(inner(x)), inner_slope = sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner_slope;
}

/* silu(x) = x sigmoid(x) (Elfwing, Uchibe, Doya 2018). */
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double silu_slope(double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }

double trm_ref_act_value(trm_ref_act a, double x) {
    switch (a) {
    case TRM_REF_RELU: return x > 0 ? x : (isnan(x) ? x : 0); /* a NaN passes, so that it is seen */
    case TRM_REF_GELU: return gelu(x);
    case TRM_REF_GELU_TANH: return gelu_tanh(x);
    case TRM_REF_TANH: return tanh(x);
    case TRM_REF_SIGMOID: return sigmoid(x);
    case TRM_REF_SILU: return x * sigmoid(x);
    }
    return x;
}

double trm_ref_act_slope(trm_ref_act a, double x_or_y) {
    switch (a) {
    case TRM_REF_RELU: return x_or_y > 0 ? 1 : 0;
    case TRM_REF_GELU: return gelu_slope(x_or_y);
    case TRM_REF_GELU_TANH: return gelu_tanh_slope(x_or_y);
    case TRM_REF_TANH: return 1 - x_or_y * x_or_y;
    case TRM_REF_SIGMOID: return x_or_y * (1 - x_or_y);
    case TRM_REF_SILU: return silu_slope(x_or_y);
    }
    return 1;
}

void trm_ref_act_fwd(trm_ref_act a, int64_t n, const double *x, double *y) {
    for (int64_t i = 0; i < n; i++) y[i] = trm_ref_act_value(a, x[i]);
}

void trm_ref_act_bwd(trm_ref_act a, int64_t n, const double *x_or_y, const double *dy, bool acc, double *dx) {
    for (int64_t i = 0; i < n; i++) {
        double d = dy[i] * trm_ref_act_slope(a, x_or_y[i]);
        dx[i] = acc ? dx[i] + d : d;
    }
}
