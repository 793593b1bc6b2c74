/* Element-wise ops: activations, sums, copies, dropout, and the change of order of flatten. */
#include "bf16.h"
#include "kernels.h"
#include "lanes.h"
#include "vecmath.h"

/* ---- drivers: the same loop over one span per thread ---------------------------------- */

typedef void (*map_fn)(const float *x, float *y, int64_t n);
typedef void (*zip_fn)(const float *a, const float *b, float *out, int64_t n, bool accumulate);

static void map(map_fn fn, const float *x, float *y, int64_t n, int threads) {
    threads = threads_for(n, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(n, 16, threads, t);
        fn(x + s.begin, y + s.begin, s.end - s.begin);
    }
}

static void zip(zip_fn fn, const float *a, const float *b, float *out, int64_t n, bool accumulate,
                int threads) {
    threads = threads_for(n, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(n, 16, threads, t);
        fn(a + s.begin, b + s.begin, out + s.begin, s.end - s.begin, accumulate);
    }
}

/* ---- activations -------------------------------------------------------------------- */

/* Comparisons are written so that NaN stays NaN. */
static inline float relu(float x) { return x < 0 ? 0 : x; }
static inline float relu_grad(float y, float dy) { return y <= 0 ? 0 : dy; }
static inline float tanh_grad(float y, float dy) { return dy * (1 - y * y); }
static inline float sigmoid_grad(float y, float dy) { return dy * (y * (1 - y)); }
static inline float gelu_grad(float x, float dy) { return dy * trm_gelu_slope(x); }
static inline float gelu_tanh_grad(float x, float dy) { return dy * trm_gelu_tanh_slope(x); }
static inline float silu_grad(float x, float dy) { return dy * trm_silu_slope(x); }

/* `from` is Y where the slope follows from it, else X.  The two loops of a gradient are written out, because a
 * flag inside a long loop would keep it from turning into vector code. */
#define LOOP _Pragma("omp simd") for (int64_t i = 0; i < n; i++)
#define ACT(name, value)                                                                                     \
    static void name##_span(const float *x, float *y, int64_t n) { LOOP y[i] = value(x[i]); }                \
    static void name##_grad_span(const float *from, const float *dy, float *dx, int64_t n,                   \
                                 bool accumulate) {                                                          \
        if (accumulate)                                                                                      \
            LOOP dx[i] += name##_grad(from[i], dy[i]);                                                       \
        else                                                                                                 \
            LOOP dx[i] = name##_grad(from[i], dy[i]);                                                        \
    }                                                                                                        \
    void TRM_K(act_##name)(const float *x, float *y, int64_t n, int threads) {                               \
        map(name##_span, x, y, n, threads);                                                                  \
    }                                                                                                        \
    void TRM_K(act_##name##_grad)(const float *from, const float *dy, float *dx, int64_t n, bool accumulate, \
                                  int threads) {                                                             \
        zip(name##_grad_span, from, dy, dx, n, accumulate, threads);                                         \
    }                                                                                                        \
    void TRM_K(act_##name##_grad_bf16)(const float *from, const float *dy, uint16_t *dx, int64_t n,          \
                                       int threads) {                                                        \
        threads = threads_for(n, threads);                                                                   \
        _Pragma("omp parallel for num_threads(threads) if (threads > 1) schedule(static)") for (int t = 0;   \
                                                                                                t < threads; \
                                                                                                t++) {       \
            trm_span s = span_of(n, 32, threads, t);                                                         \
            _Pragma("omp simd") for (int64_t i = s.begin; i < s.end; i++) dx[i] =                            \
                trm_bf16_of(name##_grad(from[i], dy[i]));                                                    \
        }                                                                                                    \
    }

ACT(relu, relu)
ACT(tanh, trm_tanhf)
ACT(sigmoid, trm_sigmoidf)
ACT(gelu, trm_geluf)
ACT(gelu_tanh, trm_gelu_tanhf)
ACT(silu, trm_siluf)

/* ---- sums and copies ---------------------------------------------------------------- */

static void add_span(const float *a, const float *b, float *y, int64_t n, bool with_relu) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = a[i] + b[i];
        y[i] = with_relu ? relu(v) : v;
    }
}

void TRM_K(add)(const float *a, const float *b, float *y, int64_t n, bool with_relu, int threads) {
    zip(add_span, a, b, y, n, with_relu, threads);
}

static void copy_span(const float *x, float *y, int64_t n) {
    if (n > 0) memcpy(y, x, sizeof *x * (size_t)n);
}

void TRM_K(copy)(const float *x, float *y, int64_t n, int threads) { map(copy_span, x, y, n, threads); }

/* ---- flatten ------------------------------------------------------------------------ */

/* Tiles of 16 x 16 floats keep both sides in whole cache lines. */
static void transpose_one(const float *x, float *y, int64_t rows, int64_t cols, bool accumulate) {
    for (int64_t r0 = 0; r0 < rows; r0 += 16)
        for (int64_t c0 = 0; c0 < cols; c0 += 16) {
            int64_t r1 = r0 + 16 < rows ? r0 + 16 : rows, c1 = c0 + 16 < cols ? c0 + 16 : cols;
            for (int64_t c = c0; c < c1; c++)
                for (int64_t r = r0; r < r1; r++)
                    y[c * rows + r] = (accumulate ? y[c * rows + r] : 0) + x[r * cols + c];
        }
}

void TRM_K(transpose)(const float *x, float *y, int64_t n, int64_t rows, int64_t cols, bool accumulate,
                      int threads) {
    threads = threads_for(n * rows * cols, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < n; i++)
        transpose_one(x + i * rows * cols, y + i * rows * cols, rows, cols, accumulate);
}

/* ---- concat ------------------------------------------------------------------------- */

void TRM_K(columns)(const float *x, int64_t ldx, float *y, int64_t ldy, int64_t rows, int64_t c,
                    bool accumulate, int threads) {
    threads = threads_for(rows * c, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const float *from = x + r * ldx;
        float *to = y + r * ldy;
        if (accumulate) {
#pragma omp simd
            for (int64_t j = 0; j < c; j++) to[j] += from[j];
        } else {
            memcpy(to, from, sizeof *to * (size_t)c);
        }
    }
}

/* ---- dropout ------------------------------------------------------------------------ */

/* Philox4x32-10 (Salmon et al., SC'11) for counters that follow each other, side by side: the same numbers
 * as base's, which tests hold.  A 32-bit word lies in the low half of a 64-bit lane, as the one instruction
 * that multiplies 32 x 32 bits wants it; what is left in the high halves is never read. */
#define LANES64 (TRM_LANES / 2)
typedef uint64_t vu64 __attribute__((vector_size(8 * LANES64)));

#if TRM_LANES == 16
#define MUL32(a, b) ((vu64)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#define UNPACK_LOW(a, b) ((vu64)_mm512_unpacklo_epi64((__m512i)(a), (__m512i)(b)))
#define UNPACK_HIGH(a, b) ((vu64)_mm512_unpackhi_epi64((__m512i)(a), (__m512i)(b)))
#elif TRM_LANES == 8
#define MUL32(a, b) ((vu64)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#define UNPACK_LOW(a, b) ((vu64)_mm256_unpacklo_epi64((__m256i)(a), (__m256i)(b)))
#define UNPACK_HIGH(a, b) ((vu64)_mm256_unpackhi_epi64((__m256i)(a), (__m256i)(b)))
#else
#define MUL32(a, b) ((vu64)_mm_mul_epu32((__m128i)(a), (__m128i)(b)))
#define UNPACK_LOW(a, b) ((vu64)_mm_unpacklo_epi64((__m128i)(a), (__m128i)(b)))
#define UNPACK_HIGH(a, b) ((vu64)_mm_unpackhi_epi64((__m128i)(a), (__m128i)(b)))
#endif

/* The two key words of every round.  One word after the other: GCC 12.2 confuses the two where one loop steps
 * both and gets vectorised. */
typedef struct round_keys {
    uint64_t k[2][10];
} round_keys;

static round_keys rounds_of(const uint32_t key[2]) {
    static const uint32_t step[2] = {0x9E3779B9u, 0xBB67AE85u};
    round_keys r;
    for (int word = 0; word < 2; word++)
        for (uint32_t i = 0; i < 10; i++) r.k[word][i] = key[word] + i * step[word];
    return r;
}

/* Two groups of LANES64 blocks go side by side: one waits for its product while the other is mixed. */
#define GROUPS 2
#define STEP (4 * LANES64 * GROUPS) /* words made in one go */
typedef struct lanes {
    vu64 a, b, c, d;
} lanes;

/* Word i of block k to out[4*k + i].  Unpacking takes the even lanes for the first half of the blocks and the
 * odd ones for the second. */
TRM_INLINE void put_words(lanes s, uint32_t *out) {
    vu64 low = 0xFFFFFFFFu - (vu64){0}, ab = (s.a & low) | s.b << 32, cd = (s.c & low) | s.d << 32;
    vu64 half[2] = {UNPACK_LOW(ab, cd), UNPACK_HIGH(ab, cd)};
    memcpy(out, half, sizeof half);
}

TRM_INLINE void philox_step(const round_keys *r, const uint32_t counter[4], vu64 block, uint32_t *out) {
    lanes s[GROUPS];
    for (int g = 0; g < GROUPS; g++)
        s[g] = (lanes){block + (uint64_t)(g * LANES64), counter[1] - (vu64){0}, counter[2] - (vu64){0},
                       counter[3] - (vu64){0}};
    for (int i = 0; i < 10; i++)
        for (int g = 0; g < GROUPS; g++) {
            vu64 p = MUL32(s[g].a, 0xD2511F53u - (vu64){0}), q = MUL32(s[g].c, 0xCD9E8D57u - (vu64){0});
            s[g] = (lanes){(q >> 32) ^ s[g].b ^ r->k[0][i], q, (p >> 32) ^ s[g].d ^ r->k[1][i], p};
        }
    for (int g = 0; g < GROUPS; g++) put_words(s[g], out + g * 4 * LANES64);
}

/* At least `words` words from block `first` on, whole steps of them. */
static void philox(const round_keys *r, const uint32_t counter[4], uint32_t first, int64_t words,
                   uint32_t *out) {
    vu64 block = {0};
    for (int k = 0; k < LANES64; k++) block[k] = first + (uint32_t)(k / 2 + k % 2 * LANES64 / 2);
    for (int64_t k = 0; k < words; k += STEP, block += GROUPS * LANES64)
        philox_step(r, counter, block, out + k);
}

#define WORDS 256 /* words made at a time: a multiple of STEP */

/* Elements of one sample whose canonical order is the order in memory. */
static void drop_flat(const trm_dropout *a, const round_keys *keys, const uint32_t counter[4], const float *x,
                      float *y) {
    uint32_t word[WORDS], threshold = a->threshold;
    float scale = a->scale;
    for (int64_t e = 0; e < a->count; e += WORDS) {
        int64_t n = a->count - e < WORDS ? a->count - e : WORDS;
        const float *from = x + e;
        float *to = y + e;
        philox(keys, counter, (uint32_t)(e / 4), WORDS, word);
        if (a->accumulate)
            LOOP to[i] += word[i] >= threshold ? from[i] * scale : 0;
        else
            LOOP to[i] = word[i] >= threshold ? from[i] * scale : 0;
    }
}

/* An image: numbers are drawn in the order (C,H,W), elements lie as (H,W,C).  Tiles of 16 channels by 32
 * pixels; the numbers of a channel may begin inside a block. */
static void drop_tile(const trm_dropout *a, const round_keys *keys, const uint32_t counter[4], int64_t c0,
                      int64_t p0, const float *x, float *y) {
    uint32_t word[16][64];
    int64_t pixels = a->count / a->channels, skip[16];
    int64_t nc = a->channels - c0 < 16 ? a->channels - c0 : 16, np = pixels - p0 < 32 ? pixels - p0 : 32;
    for (int64_t c = 0; c < nc; c++) {
        int64_t e = (c0 + c) * pixels + p0;
        skip[c] = e % 4;
        philox(keys, counter, (uint32_t)(e / 4), np + skip[c], word[c]);
    }
    for (int64_t p = 0; p < np; p++)
        for (int64_t c = 0; c < nc; c++) {
            int64_t at = (p0 + p) * a->channels + c0 + c;
            float v = word[c][p + skip[c]] >= a->threshold ? x[at] * a->scale : 0;
            y[at] = a->accumulate ? y[at] + v : v;
        }
}

static void drop_image(const trm_dropout *a, const round_keys *keys, const uint32_t counter[4],
                       const float *x, float *y) {
    for (int64_t p = 0; p < a->count / a->channels; p += 32)
        for (int64_t c = 0; c < a->channels; c += 16) drop_tile(a, keys, counter, c, p, x, y);
}

void TRM_K(dropout)(const trm_dropout *a) {
    int threads = threads_for(a->n * a->count, a->threads);
    round_keys keys = rounds_of(a->key);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < a->n; i++) {
        const uint32_t *counter = a->counter + 4 * i;
        if (a->channels > 1)
            drop_image(a, &keys, counter, a->x + i * a->count, a->y + i * a->count);
        else
            drop_flat(a, &keys, counter, a->x + i * a->count, a->y + i * a->count);
    }
}
