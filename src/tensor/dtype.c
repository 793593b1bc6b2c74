/* dtype: the list of element types and conversion from any of them. */
#include <math.h>
#include <string.h>
#include <trireme/tensor.h>

static const struct {
    const char *name;
    size_t size;
} list[] = {
#define X(name, text, size) {text, size},
    TRM_DTYPE_LIST(X)
#undef X
};

static bool known(trm_dtype t) { return (unsigned)t < TRM_DTYPE_COUNT; }

const char *trm_dtype_name(trm_dtype t) { return known(t) ? list[t].name : "unknown"; }
size_t trm_dtype_size(trm_dtype t) { return known(t) ? list[t].size : 0; }
bool trm_dtype_is_float(trm_dtype t) { return t == TRM_F16 || t == TRM_BF16 || t == TRM_F32 || t == TRM_F64; }

/* ---- 16-bit floats ---- */

typedef struct half {
    uint16_t bits;
} half;
typedef struct bfloat {
    uint16_t bits;
} bfloat;

static float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float from_bfloat(bfloat b) { return float_of_bits((uint32_t)b.bits << 16); }

/* IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. Exact in float. */
static float from_half(half h) {
    uint32_t sign = (uint32_t)(h.bits & 0x8000) << 16;
    uint32_t exponent = h.bits >> 10 & 0x1F, fraction = h.bits & 0x3FF;
    if (exponent == 0) {
        float tiny = (float)fraction * 0x1p-24f;
        return sign ? -tiny : tiny;
    }
    uint32_t wide = exponent == 0x1F ? 0xFF : exponent + 127 - 15;
    return float_of_bits(sign | wide << 23 | fraction << 13);
}

/* ---- one element to double, float, int64 ---- */

/* Saturates; NaN becomes 0. A C cast would be undefined there. */
static int64_t to_i64(double v) {
    if (isnan(v)) return 0;
    if (v >= 0x1p63) return INT64_MAX;
    if (v < -0x1p63) return INT64_MIN;
    return (int64_t)v;
}

static int64_t saturate(uint64_t v) { return v > INT64_MAX ? INT64_MAX : (int64_t)v; }

#define SAME(v) (v)

// clang-format off
/* One loop. The source need not be aligned: elements are copied out, which costs nothing. */
#define LOOP(ctype, convert, dtype) \
    for (int64_t i = 0; i < n; i++) { \
        ctype v; \
        memcpy(&v, (const char *)src + (size_t)i * sizeof v, sizeof v); \
        dst[i] = (dtype)convert(v); \
    } \
    return

#define INTEGER_CASES(dtype) \
    case TRM_U8: LOOP(uint8_t, SAME, dtype); \
    case TRM_I8: LOOP(int8_t, SAME, dtype); \
    case TRM_U16: LOOP(uint16_t, SAME, dtype); \
    case TRM_I16: LOOP(int16_t, SAME, dtype); \
    case TRM_U32: LOOP(uint32_t, SAME, dtype); \
    case TRM_I32: LOOP(int32_t, SAME, dtype); \
    case TRM_I64: LOOP(int64_t, SAME, dtype)

#define FLOAT_CASES(dtype) \
    case TRM_U64: LOOP(uint64_t, SAME, dtype); \
    case TRM_F16: LOOP(half, from_half, dtype); \
    case TRM_BF16: LOOP(bfloat, from_bfloat, dtype); \
    case TRM_F32: LOOP(float, SAME, dtype); \
    case TRM_F64: LOOP(double, SAME, dtype); \
    case TRM_DTYPE_COUNT: return
// clang-format on

void trm_convert_f64(const void *src, trm_dtype type, int64_t n, double *dst) {
    switch (type) {
        INTEGER_CASES(double);
        FLOAT_CASES(double);
    }
}

void trm_convert_f32(const void *src, trm_dtype type, int64_t n, float *dst) {
    switch (type) {
        INTEGER_CASES(float);
        FLOAT_CASES(float);
    }
}

static int64_t half_to_i64(half h) { return to_i64((double)from_half(h)); }
static int64_t bfloat_to_i64(bfloat b) { return to_i64((double)from_bfloat(b)); }

void trm_convert_i64(const void *src, trm_dtype type, int64_t n, int64_t *dst) {
    switch (type) {
        INTEGER_CASES(int64_t);
    case TRM_U64: LOOP(uint64_t, saturate, int64_t);
    case TRM_F16: LOOP(half, half_to_i64, int64_t);
    case TRM_BF16: LOOP(bfloat, bfloat_to_i64, int64_t);
    case TRM_F32: LOOP(float, to_i64, int64_t);
    case TRM_F64: LOOP(double, to_i64, int64_t);
    case TRM_DTYPE_COUNT: return;
    }
}
