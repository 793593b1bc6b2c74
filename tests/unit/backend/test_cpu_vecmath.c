/* Vector maths against the C library in double precision, over floats of every size: as this test is compiled
 * (no fused multiply-add), and by the loops of each instruction set that this machine has. */
#include <math.h>

#include "cpu/kernels.h"
#include "cpu/vecmath.h"
#include "support.h"

/* Distance from the exact value in units in the last place of the float next to it. */
static double ulps(double exact, float got) {
    if (isnan(exact)) return isnan(got) ? 0 : INFINITY;
    if (isinf(exact) || isinf(got)) return (float)exact == got ? 0 : INFINITY;
    int exponent;
    frexp(exact, &exponent);
    return fabs((double)got - exact) / ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

typedef float (*float_fn)(float x);
typedef double (*exact_fn)(double x);

/* Largest distance over every 1021st float; results that are not normal may be 0. */
static double worst_ulps(float_fn fn, exact_fn exact) {
    double worst = 0;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 1021) {
        float x = trm_bits_float((uint32_t)bits);
        double want = exact(x), error = ulps(want, fn(x));
        if (fabs(want) < 0x1p-126) error = fabsf(fn(x)) <= 0x1p-126f ? 0 : INFINITY;
        if (error > worst) worst = error;
    }
    return worst;
}

static double exact_sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void exponential(void **state) {
    (void)state;
    assert_bound(worst_ulps(trm_expf, exp), 1.5);
    assert_true(trm_expf(0.0f) == 1.0f);
    assert_true(trm_expf(INFINITY) == INFINITY);
    assert_true(trm_expf(-INFINITY) == 0.0f);
    assert_true(trm_expf(88.73f) == INFINITY);
    assert_true(trm_expf(-87.34f) == 0.0f);
    assert_true(isnan(trm_expf(NAN)));
}

static void hyperbolic_tangent(void **state) {
    (void)state;
    assert_bound(worst_ulps(trm_tanhf, tanh), 2);
    assert_true(trm_tanhf(INFINITY) == 1.0f);
    assert_true(trm_tanhf(-INFINITY) == -1.0f);
    assert_true(isnan(trm_tanhf(NAN)));
}

static void sigmoid(void **state) {
    (void)state;
    assert_bound(worst_ulps(trm_sigmoidf, exact_sigmoid), 3);
    assert_true(trm_sigmoidf(INFINITY) == 1.0f);
    assert_true(trm_sigmoidf(-INFINITY) == 0.0f);
    assert_true(isnan(trm_sigmoidf(NAN)));
}

/* ---- gelu ------------------------------------------------------------------------------- */

static double exact_gelu(double x) { return 0.5 * x * erfc(-x / sqrt(2)); }
static double exact_gelu_slope(double x) {
    return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * M_PI);
}

static double inner(double x) { return sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }
static double exact_gelu_tanh(double x) { return 0.5 * x * (1 + tanh(inner(x))); }
static double exact_gelu_tanh_slope(double x) {
    double t = tanh(inner(x)), slope = sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope;
}

static double worst_error(float_fn fn, exact_fn exact) {
    double worst = 0;
    for (double at = -30; at <= 30; at += 1.0 / 4099) {
        float x = (float)at;
        double error = fabs(fn(x) - exact(x)) / fmax(fabs(x), 1);
        if (!(error <= worst)) worst = error;
    }
    return worst;
}

static void gelu(void **state) {
    (void)state;
    assert_bound(worst_error(trm_geluf, exact_gelu), 3e-7);
    assert_bound(worst_error(trm_gelu_slope, exact_gelu_slope), 3e-7);
    assert_bound(worst_error(trm_gelu_tanhf, exact_gelu_tanh), 3e-7);
    assert_bound(worst_error(trm_gelu_tanh_slope, exact_gelu_tanh_slope), 3e-7);
    assert_true(isnan(trm_geluf(NAN)));
    assert_true(isnan(trm_gelu_tanhf(NAN)));
}

static double exact_silu(double x) { return x / (1 + exp(-x)); }
static double exact_silu_slope(double x) {
    double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}

static void silu(void **state) {
    (void)state;
    assert_bound(worst_error(trm_siluf, exact_silu), 3e-7);
    assert_bound(worst_error(trm_silu_slope, exact_silu_slope), 3e-7);
    assert_true(isnan(trm_siluf(NAN)));
}

/* ---- by the loops of each instruction set ------------------------------------------------- */

enum { COUNT = 4099 };
typedef void (*act_loop)(float *y, float *z, const float *b, int64_t rows, int64_t cols, int threads);

static double loop_error(act_loop loop, exact_fn exact) {
    static float z[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) z[i] = (float)((i - COUNT / 2) * 0.005);
    loop(y, z, NULL, 1, COUNT, 1);
    double worst = 0;
    for (int i = 0; i < COUNT; i++) worst = fmax(worst, fabs(y[i] - exact(z[i])) / fmax(fabs(z[i]), 1));
    return worst;
}

static double exact_relu(double x) { return x > 0 ? x : 0; }

static void check_table(const trm_kernels *k) {
    assert_bound(loop_error(k->bias_relu, exact_relu), 0);
    assert_bound(loop_error(k->bias_tanh, tanh), 2e-7);
    assert_bound(loop_error(k->bias_sigmoid, exact_sigmoid), 2e-7);
    assert_bound(loop_error(k->bias_gelu, exact_gelu), 3e-7);
    assert_bound(loop_error(k->bias_gelu_tanh, exact_gelu_tanh), 3e-7);
    assert_bound(loop_error(k->bias_silu, exact_silu), 3e-7);
}

static void every_instruction_set(void **state) {
    (void)state;
    __builtin_cpu_init();
    check_table(&trm_kernels_v2);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) check_table(&trm_kernels_v3);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) check_table(&trm_kernels_v4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential), cmocka_unit_test(hyperbolic_tangent),
        cmocka_unit_test(sigmoid),     cmocka_unit_test(gelu),
        cmocka_unit_test(silu),        cmocka_unit_test(every_instruction_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
