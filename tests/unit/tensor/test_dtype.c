/* Element types and conversion. */
#include <math.h>
#include <string.h>
#include <trireme/tensor.h>
#include "support.h"

static void table(void **state) {
    (void)state;
    assert_string_equal(trm_dtype_name(TRM_U8), "uint8");
    assert_string_equal(trm_dtype_name(TRM_BF16), "bfloat16");
    assert_int_equal(trm_dtype_size(TRM_U8), 1);
    assert_int_equal(trm_dtype_size(TRM_F16), 2);
    assert_int_equal(trm_dtype_size(TRM_F64), 8);
    for (int t = 0; t < TRM_DTYPE_COUNT; t++)
        assert_int_equal(trm_dtype_is_float((trm_dtype)t),
                         strstr(trm_dtype_name((trm_dtype)t), "float") != NULL);
    assert_string_equal(trm_dtype_name(TRM_DTYPE_COUNT), "unknown");
    assert_int_equal(trm_dtype_size((trm_dtype)-1), 0);
}

/* The ends of every integer type come out in all three targets. */
#define ENDS(ctype, dtype, low, high)                                                      \
    do {                                                                                   \
        const ctype src[3] = {low, high, 5};                                               \
        double d[3];                                                                       \
        float f[3];                                                                        \
        int64_t i[3];                                                                      \
        trm_convert_f64(src, dtype, 3, d);                                                 \
        trm_convert_f32(src, dtype, 3, f);                                                 \
        trm_convert_i64(src, dtype, 3, i);                                                 \
        assert_true(d[0] == (double)(low) && d[1] == (double)(high) && d[2] == 5);         \
        assert_true(f[0] == (float)(low) && f[1] == (float)(high) && f[2] == 5);           \
        assert_true(i[0] == (int64_t)(low) && i[2] == 5);                                  \
        assert_true(i[1] == ((uint64_t)(high) > INT64_MAX ? INT64_MAX : (int64_t)(high))); \
    } while (0)

static void integers(void **state) {
    (void)state;
    ENDS(uint8_t, TRM_U8, 0, UINT8_MAX);
    ENDS(int8_t, TRM_I8, INT8_MIN, INT8_MAX);
    ENDS(uint16_t, TRM_U16, 0, UINT16_MAX);
    ENDS(int16_t, TRM_I16, INT16_MIN, INT16_MAX);
    ENDS(uint32_t, TRM_U32, 0, UINT32_MAX);
    ENDS(int32_t, TRM_I32, INT32_MIN, INT32_MAX);
    ENDS(uint64_t, TRM_U64, 0, UINT64_MAX);
    ENDS(int64_t, TRM_I64, INT64_MIN, INT64_MAX);
}

static void floats(void **state) {
    (void)state;
    const float f[] = {0.1f, -0.0f, INFINITY, 1e30f};
    const double d[] = {0.1, -2.5, -INFINITY, 1e300};
    double to_d[4];
    float to_f[4];
    trm_convert_f64(f, TRM_F32, 4, to_d);
    assert_true(to_d[0] == (double)0.1f && signbit(to_d[1]) && isinf(to_d[2]));
    trm_convert_f32(d, TRM_F64, 4, to_f);
    assert_true(to_f[0] == 0.1f && to_f[1] == -2.5f && isinf(to_f[2]) && isinf(to_f[3]));
}

static double half(uint16_t bits) {
    double d;
    float f;
    trm_convert_f64(&bits, TRM_F16, 1, &d);
    trm_convert_f32(&bits, TRM_F16, 1, &f);
    assert_true((double)f == d || (isnan(f) && isnan(d)));
    return d;
}

static void halves(void **state) {
    (void)state;
    assert_true(half(0x0000) == 0 && !signbit(half(0x0000)));
    assert_true(half(0x8000) == 0 && signbit(half(0x8000)));
    assert_true(half(0x3C00) == 1);
    assert_true(half(0xC000) == -2);
    assert_true(half(0x7BFF) == 65504);
    assert_true(half(0x0400) == 0x1p-14);
    assert_true(half(0x0001) == 0x1p-24);
    assert_true(half(0x83FF) == -1023 * 0x1p-24);
    assert_true(half(0x3555) == 0.333251953125);
    assert_true(isinf(half(0x7C00)) && half(0xFC00) < 0);
    assert_true(isnan(half(0x7E00)) && isnan(half(0x7C01)));
    /* Values of one sign rise with their bits. */
    for (uint16_t b = 1; b < 0x7C00; b++) assert_true(half(b) > half(b - 1));
}

static void bfloats(void **state) {
    (void)state;
    const uint16_t src[] = {0x3F80, 0xC000, 0x7F80, 0x7FC0, 0x0000};
    float f[5];
    int64_t i[5];
    trm_convert_f32(src, TRM_BF16, 5, f);
    assert_true(f[0] == 1 && f[1] == -2 && isinf(f[2]) && isnan(f[3]) && f[4] == 0);
    trm_convert_i64(src, TRM_BF16, 5, i);
    assert_true(i[0] == 1 && i[1] == -2 && i[2] == INT64_MAX && i[3] == 0);
}

static void floats_to_integers_saturate(void **state) {
    (void)state;
    const double d[] = {1.9, -1.9, NAN, INFINITY, -INFINITY, 0x1p63, -0x1p63, 1e300, 9007199254740993.0};
    const int64_t want[] = {1,         -1,        0,         INT64_MAX,       INT64_MIN,
                            INT64_MAX, INT64_MIN, INT64_MAX, 9007199254740992};
    int64_t got[9];
    trm_convert_i64(d, TRM_F64, 9, got);
    assert_memory_equal(got, want, sizeof want);
    const float f[] = {2.7f, NAN, -1e20f};
    trm_convert_i64(f, TRM_F32, 3, got);
    assert_true(got[0] == 2 && got[1] == 0 && got[2] == INT64_MIN);
    const uint16_t h[] = {0x4248, 0x7C00};
    trm_convert_i64(h, TRM_F16, 2, got);
    assert_true(got[0] == 3 && got[1] == INT64_MAX);
}

static void unaligned_and_empty(void **state) {
    (void)state;
    char raw[1 + 3 * sizeof(double)];
    const double src[] = {1, 2, 3};
    float f[3] = {9, 9, 9};
    memcpy(raw + 1, src, sizeof src);
    trm_convert_f32(raw + 1, TRM_F64, 0, f);
    assert_true(f[0] == 9);
    trm_convert_f32(raw + 1, TRM_F64, 3, f);
    assert_true(f[0] == 1 && f[1] == 2 && f[2] == 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(integers),
        cmocka_unit_test(floats),
        cmocka_unit_test(halves),
        cmocka_unit_test(bfloats),
        cmocka_unit_test(floats_to_integers_saturate),
        cmocka_unit_test(unaligned_and_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
