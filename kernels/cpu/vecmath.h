/* vecmath: exp, tanh and friends in float32 as straight-line code without branches or calls, so that a
 * loop over them turns into vector code (without -ffast-math).  Largest errors over all floats, in units
 * in the last place (tests/unit/backend/test_cpu_vecmath.c): exp 1, tanh 2, sigmoid 3; gelu, silu and the slopes
 * 3e-7 of max(|x|, 1).  exp, tanh and sigmoid of infinities are their limits, NaN gives NaN; results
 * below the smallest normal number are 0.
 *
 * The polynomials are minimax fits made for this file. */
#ifndef TRM_VECMATH_H
#define TRM_VECMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __FMA__
#define TRM_FMA(a, b, c) __builtin_fmaf(a, b, c)
#else
#define TRM_FMA(a, b, c) ((a) * (b) + (c))
#endif

static inline uint32_t trm_float_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float trm_bits_float(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#define TRM_EXP_LOW -87.33654f          /* below: not a normal number */
#define TRM_EXP_HIGH 88.72284f

/* exp(x) = 2^n exp(r), |r| <= ln(2)/2, for x in that range.  n is rounded by adding 1.5 * 2^23, which leaves
 * it in the low bits of the sum; it is added to the exponent of exp(r). */
static inline float trm_exp_core(float x) {
    const float magic = 12582912.0f;
    float t = TRM_FMA(x, 1.44269504f, magic);
    float n = t - magic;
    float r = TRM_FMA(n, -0.693359375f, x);
    r = TRM_FMA(n, 2.12194440e-4f, r);
    float q = TRM_FMA(1.3814597e-3f, r, 8.3687157e-3f);
    q = TRM_FMA(q, r, 4.1668388e-2f);
    q = TRM_FMA(q, r, 1.6666521e-1f);
    q = TRM_FMA(q, r, 4.9999993e-1f);
    float p = 1.0f + TRM_FMA(q, r * r, r);
    return trm_bits_float(trm_float_bits(p) + (trm_float_bits(t) << 23));
}

static inline float trm_expf(float x) {
    float c = x < TRM_EXP_LOW ? TRM_EXP_LOW : x;
    c = c > TRM_EXP_HIGH ? TRM_EXP_HIGH : c;
    float y = trm_exp_core(c);
    y = x < TRM_EXP_LOW ? 0.0f : y;
    y = x >= TRM_EXP_HIGH ? HUGE_VALF : y;
    return x == x ? y : x;
}

/* exp(x) for x <= 0 (or a little more): fewer cases, so faster. */
static inline float trm_exp_neg(float x) {
    float c = x < TRM_EXP_LOW ? TRM_EXP_LOW : x;
    float y = trm_exp_core(c);
    return x >= TRM_EXP_LOW ? y : c - c;                /* 0, or NaN where x is */
}

/* 1 / (1 + exp(-x)) with e = exp(-|x|): 1 / (1 + e) or e / (1 + e); its slope is e / (1 + e)^2. */
static inline float trm_sigmoid_slope(float x, float *slope) {
    float e = trm_exp_neg(-fabsf(x));
    float r = 1.0f / (1.0f + e);
    *slope = e * r * r;
    return x < 0.0f ? e * r : r;
}

static inline float trm_sigmoidf(float x) {
    float slope;
    return trm_sigmoid_slope(x, &slope);
}

/* Small |x|: an odd polynomial; else 1 - 2e / (1 + e) with e = exp(-2|x|) and the sign of x. */
static inline float trm_tanhf(float x) {
    float a = fabsf(x), z = x * x;
    float q = TRM_FMA(-5.7049946e-3f, z, 2.0639095e-2f);
    q = TRM_FMA(q, z, -5.3739718e-2f);
    q = TRM_FMA(q, z, 1.3331442e-1f);
    q = TRM_FMA(q, z, -3.3333282e-1f);
    float small = TRM_FMA(q * z, x, x);
    float e = trm_exp_neg(-2.0f * a);
    float large = copysignf(1.0f - 2.0f * e / (1.0f + e), x);
    return a < 0.625f ? small : large;
}

/* The normal distribution: returns P(X <= x); *density = exp(-x*x/2) / sqrt(2 pi).  The tail is
 * exp(-x*x/2) times a polynomial in u = 1 / (1 + 0.35 |x|), so that both share one exponential. */
static inline float trm_normal_cdf(float x, float *density) {
    float a = fabsf(x), e = trm_exp_neg(-0.5f * x * x);
    float u = 1.0f / TRM_FMA(0.35f, a, 1.0f);
    float p = TRM_FMA(-2.9146559e-2f, u, 1.4397470e-1f);
    p = TRM_FMA(p, u, -2.5572032e-1f);
    p = TRM_FMA(p, u, 1.5918090e-1f);
    p = TRM_FMA(p, u, -2.3114326e-2f);
    p = TRM_FMA(p, u, 1.0550983e-1f);
    p = TRM_FMA(p, u, 1.1983243e-1f);
    p = TRM_FMA(p, u, 1.3986193e-1f);
    p = TRM_FMA(p, u, 1.3962140e-1f);
    float tail = e * (p * u);
    *density = 0.39894228f * e;
    return x < 0.0f ? tail : 1.0f - tail;
}

/* gelu(x) = x P(X <= x) and its derivative. */
static inline float trm_geluf(float x) {
    float density, cdf = trm_normal_cdf(x, &density);
    return x * cdf;
}

static inline float trm_gelu_slope(float x) {
    float density, cdf = trm_normal_cdf(x, &density);
    return TRM_FMA(x, density, cdf);
}

/* The tanh form, 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3): since
 * 0.5 (1 + tanh(u)) = sigmoid(2u), it needs no tanh. */
static inline float trm_gelu_tanhf(float x) {
    float z = x * x;
    return x * trm_sigmoidf(x * TRM_FMA(0.071354814f, z, 1.5957691f));
}

static inline float trm_gelu_tanh_slope(float x) {
    float z = x * x;
    float slope, s = trm_sigmoid_slope(x * TRM_FMA(0.071354814f, z, 1.5957691f), &slope);
    float du = TRM_FMA(0.21406444f, z, 1.5957691f);
    return TRM_FMA(slope, x * du, s);
}

/* silu(x) = x sigmoid(x) and its derivative. */
static inline float trm_siluf(float x) { return x * trm_sigmoidf(x); }

static inline float trm_silu_slope(float x) {
    float slope, s = trm_sigmoid_slope(x, &slope);
    return TRM_FMA(x, slope, s);
}

#endif
