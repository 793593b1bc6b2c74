/* Private to kernels/cpu: one machine vector of floats, and how loops are cut.
 *
 * Most loops are left to the compiler.  Where sums must stay in registers across rows (norms), or where
 * a sum may be reordered, the loops are written with GCC's vector types, which need no intrinsics and
 * no -ffast-math. */
#ifndef TRM_CPU_LANES_H
#define TRM_CPU_LANES_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define TRM_LANES 16
#elif defined(__AVX__)
#define TRM_LANES 8
#else
#define TRM_LANES 4
#endif

typedef float trm_vf __attribute__((vector_size(4 * TRM_LANES)));
typedef int32_t trm_vi __attribute__((vector_size(4 * TRM_LANES)));   /* also the type of a comparison */
typedef float trm_vh __attribute__((vector_size(2 * TRM_LANES)));     /* half the lanes, */
typedef double trm_vd __attribute__((vector_size(4 * TRM_LANES)));    /* as doubles */
typedef float trm_vf4 __attribute__((vector_size(16)));
#define TRM_INLINE static inline __attribute__((always_inline))

TRM_INLINE trm_vf vload(const float *p) {
    trm_vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
TRM_INLINE void vstore(float *p, trm_vf v) { memcpy(p, &v, sizeof v); }
/* TRM_LANES / 2 floats as doubles. */
TRM_INLINE trm_vd vload_double(const float *p) {
    trm_vh v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, trm_vd);
}
TRM_INLINE trm_vf vset(float x) { return x - (trm_vf){0}; }
/* v where `off` is false, else 0. */
TRM_INLINE trm_vf vzero_where(trm_vi off, trm_vf v) { return (trm_vf)((trm_vi)v & ~off); }
/* The larger of each pair; b where one is no number. */
TRM_INLINE trm_vf vmax(trm_vf a, trm_vf b) {
#if TRM_LANES == 16
    return (trm_vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif TRM_LANES == 8
    return (trm_vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return (trm_vf)_mm_max_ps((__m128)a, (__m128)b);
#endif
}
/* Sum of the lanes, halves first: always the same order. */
TRM_INLINE float vsum(trm_vf v) {
    trm_vf4 part[TRM_LANES / 4];
    memcpy(part, &v, sizeof v);
    for (int step = TRM_LANES / 8; step > 0; step /= 2)
        for (int i = 0; i < step; i++) part[i] += part[i + step];
    return (part[0][0] + part[0][2]) + (part[0][1] + part[0][3]);
}

/* The t-th of `threads` spans of n things, cut at multiples of `grain` (16 floats: a cache line). */
typedef struct trm_span {
    int64_t begin, end;
} trm_span;
static inline int64_t span_edge(int64_t n, int64_t grain, int threads, int t) {
    int64_t grains = (n + grain - 1) / grain;
    int64_t edge = (grains / threads * t + (t < grains % threads ? t : grains % threads)) * grain;
    return edge < n ? edge : n;
}
static inline trm_span span_of(int64_t n, int64_t grain, int threads, int t) {
    return (trm_span){span_edge(n, grain, threads, t), span_edge(n, grain, threads, t + 1)};
}
/* Waking a thread costs about a microsecond: fewer for little work. */
static inline int threads_for(int64_t elements, int threads) {
    int64_t worth = elements / 8192;
    return worth >= threads ? threads : worth > 1 ? (int)worth : 1;
}

#endif
