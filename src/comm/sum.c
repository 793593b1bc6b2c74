/* sum: the loops that add up buffers.  Plain C, one clone per instruction set where the compiler can choose at
 * load time; additions are in a fixed order, so that all clones give the same bits. */
#include <string.h>

#include "comm_impl.h"

/* Clones are picked by a resolver that runs before a sanitizer's runtime is up: not with those. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define PLAIN_ONLY
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLAIN_ONLY
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(PLAIN_ONLY)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

/* Elements per block: a block stays in the first-level cache between two passes over it. */
#define BLOCK 1024
/* Accumulators of a sum of squares: one fixed grouping, whatever the vector length. */
#define LANES 16

CLONES static void add_f32(void *acc, const void *x, int64_t n) {
    float *restrict a = acc;
    const float *restrict b = x;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) a[i] += b[i];
}

CLONES static void add_f64(void *acc, const void *x, int64_t n) {
    double *restrict a = acc;
    const double *restrict b = x;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) a[i] += b[i];
}

/* Two ranks are the common case on a small node: one pass, both results. */
CLONES static void pair_f32(void *x, void *y, int64_t n) {
    float *restrict a = x, *restrict b = y;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) a[i] = b[i] = a[i] + b[i];
}

CLONES static void pair_f64(void *x, void *y, int64_t n) {
    double *restrict a = x, *restrict b = y;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) a[i] = b[i] = a[i] + b[i];
}

static double fold(const double lane[LANES]) {
    double sum = 0;
    for (int k = 0; k < LANES; k++) sum += lane[k];
    return sum;
}

CLONES static double sumsq_f32(const void *x, int64_t n) {
    const float *a = x;
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++) lane[k] += (double)a[i + k] * (double)a[i + k];
    for (; i < n; i++) lane[i % LANES] += (double)a[i] * (double)a[i];
    return fold(lane);
}

CLONES static double sumsq_f64(const void *x, int64_t n) {
    const double *a = x;
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++) lane[k] += a[i + k] * a[i + k];
    for (; i < n; i++) lane[i % LANES] += a[i] * a[i];
    return fold(lane);
}

typedef struct loops {
    void (*add)(void *acc, const void *x, int64_t n);
    void (*pair)(void *x, void *y, int64_t n);
    double (*sumsq)(const void *x, int64_t n);
} loops;

static const loops *loops_of(trm_dtype type) {
    static const loops f32 = {add_f32, pair_f32, sumsq_f32}, f64 = {add_f64, pair_f64, sumsq_f64};
    return type == TRM_F64 ? &f64 : &f32;
}

static const void *at(const void *p, size_t bytes) { return (const char *)p + bytes; }
static void *into(void *p, size_t bytes) { return (char *)p + bytes; }

double trm_comm_sumsq(trm_dtype type, const void *x, int64_t count) {
    size_t size = trm_dtype_size(type);
    double sum = 0;
    for (int64_t i = 0; i < count; i += BLOCK)
        sum += loops_of(type)->sumsq(at(x, (size_t)i * size), trm_min64(BLOCK, count - i));
    return sum;
}

/* No source, or one: fill or copy. */
static void copy_out(size_t bytes, const void *src, void *const *dst, int m) {
    for (int k = 0; k < m; k++) {
        if (!src)
            memset(dst[k], 0, bytes);
        else if (dst[k] != src)
            memcpy(dst[k], src, bytes);
    }
}

/* One block of several sources, through an accumulator that no one else sees: a destination may be a source. */
static void add_block(const loops *l, size_t size, const void *const *src, int n, void *const *dst, int m,
                      int64_t first, int64_t len) {
    _Alignas(TRM_ALIGN) unsigned char acc[BLOCK * sizeof(double)];
    size_t from = (size_t)first * size, bytes = (size_t)len * size;
    memcpy(acc, at(src[0], from), bytes);
    for (int k = 1; k < n; k++) l->add(acc, at(src[k], from), len);
    for (int k = 0; k < m; k++) memcpy(into(dst[k], from), acc, bytes);
}

double trm_comm_add_up(trm_dtype type, const void *const *src, int n, void *const *dst, int m, int64_t count,
                       bool want_sumsq) {
    size_t size = trm_dtype_size(type);
    if (n <= 1) {
        copy_out((size_t)count * size, n ? src[0] : NULL, dst, m);
        return want_sumsq ? trm_comm_sumsq(type, dst[0], count) : 0;
    }
    const loops *l = loops_of(type);
    bool pair = n == 2 && m == 2 && src[0] == dst[0] && src[1] == dst[1];
    double sum = 0;
    for (int64_t i = 0; i < count; i += BLOCK) {
        int64_t len = trm_min64(BLOCK, count - i);
        if (pair)
            l->pair(into(dst[0], (size_t)i * size), into(dst[1], (size_t)i * size), len);
        else
            add_block(l, size, src, n, dst, m, i, len);
        if (want_sumsq) sum += l->sumsq(at(dst[0], (size_t)i * size), len);
    }
    return sum;
}

trm_comm_range trm_comm_cut(trm_comm_range whole, size_t element_bytes, int parts, int k) {
    int64_t line = (int64_t)(TRM_ALIGN / element_bytes), end = whole.begin + whole.count;
    int64_t first = whole.begin / line, lines = (end + line - 1) / line - first;
    if (whole.count == 0) return whole;
    int64_t lo = trm_max64((first + trm_cut(lines, parts, k)) * line, whole.begin);
    int64_t hi = trm_min64((first + trm_cut(lines, parts, k + 1)) * line, end);
    return (trm_comm_range){lo, trm_max64(hi - lo, 0)};
}
