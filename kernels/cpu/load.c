/* From samples as the data set has them to the device's floats or tokens: type, scale, normalisation and order
 * of channels in one pass.  load_type.inc has the loops, which are compiled for each element type. */
#include "kernels.h"
#include "lanes.h"

/* Half precision by shifting its bits into a float whose exponent is then mended by a product; infinities and
 * NaN (all exponent bits) are put right by an or. */
static inline float half_value(uint16_t h) {
    uint32_t magnitude = (uint32_t)(h & 0x7FFF) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    float f;
    memcpy(&f, &magnitude, sizeof f);
    f *= 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits |= sign | ((h & 0x7C00) == 0x7C00 ? 0x7F800000u : 0);
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float bfloat_value(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

#define SAME(x) (x)
#define PASTE(a, b) PASTE_(a, b)
#define PASTE_(a, b) a##_##b
#define SLOPE(a) ((a)->PASTE(slope, WORK))
#define OFFSET(a) ((a)->PASTE(offset, WORK))

/* A tile of planes becomes pixels.  Three channels are the common case, whose fixed pattern turns into
 * shuffles. */
enum { TILE_CHANNELS = 16, TILE_PIXELS = 64 };
static void put_tile(float tile[TILE_CHANNELS][TILE_PIXELS], float *y, int64_t pixels, int64_t channels,
                     int64_t stride) {
    for (int64_t p = 0; stride == 3 && p < pixels; p++) {
        y[3 * p] = tile[0][p];
        y[3 * p + 1] = tile[1][p];
        y[3 * p + 2] = tile[2][p];
    }
    for (int64_t p = 0; stride != 3 && p < pixels; p++)
        for (int64_t c = 0; c < channels; c++) y[p * stride + c] = tile[c][p];
}

static void each_sample(const trm_load *a, void (*fn)(const trm_load *a, const char *from, float *y)) {
    int threads = threads_for(a->n * a->count, a->threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < a->n; i++) fn(a, a->raw + i * a->stride, (float *)a->y + i * a->count);
}

#define TOKENS
#define NAME U8
#define TYPE uint8_t
#define VALUE SAME
#define WORK float
#include "load_type.inc"

#define NAME I8
#define TYPE int8_t
#define VALUE SAME
#define WORK float
#include "load_type.inc"

#define NAME U16
#define TYPE uint16_t
#define VALUE SAME
#define WORK float
#include "load_type.inc"

#define NAME I16
#define TYPE int16_t
#define VALUE SAME
#define WORK float
#include "load_type.inc"

#define NAME U32
#define TYPE uint32_t
#define VALUE SAME
#define WORK double
#include "load_type.inc"

#define NAME I32
#define TYPE int32_t
#define VALUE SAME
#define WORK double
#include "load_type.inc"

#define NAME U64
#define TYPE uint64_t
#define VALUE SAME
#define WORK double
#include "load_type.inc"

#define NAME I64
#define TYPE int64_t
#define VALUE SAME
#define WORK double
#include "load_type.inc"

#undef TOKENS
#define NAME F16
#define TYPE uint16_t
#define VALUE half_value
#define WORK float
#include "load_type.inc"

#define NAME BF16
#define TYPE uint16_t
#define VALUE bfloat_value
#define WORK float
#include "load_type.inc"

#define NAME F32
#define TYPE float
#define VALUE SAME
#define WORK float
#include "load_type.inc"

#define NAME F64
#define TYPE double
#define VALUE SAME
#define WORK double
#include "load_type.inc"
