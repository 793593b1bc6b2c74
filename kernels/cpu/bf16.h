/* Private to kernels/cpu: bfloat16, the upper half of a float32. */
#ifndef TRM_CPU_BF16_H
#define TRM_CPU_BF16_H

#include "lanes.h"

static inline float trm_bf16_value(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* To the nearest, ties to even, as the processor's own instruction does; a NaN stays one. */
static inline uint16_t trm_bf16_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t near = bits + 0x7FFFu + (bits >> 16 & 1u);
    return (uint16_t)((x == x ? near : bits | 0x400000u) >> 16);
}

typedef uint16_t trm_vu16 __attribute__((vector_size(2 * TRM_LANES)));
typedef uint32_t trm_vu32 __attribute__((vector_size(4 * TRM_LANES)));

TRM_INLINE trm_vf vload_bf16(const uint16_t *p) {
    trm_vu16 v;
    memcpy(&v, p, sizeof v);
    return (trm_vf)(__builtin_convertvector(v, trm_vu32) << 16);
}

TRM_INLINE void vstore_bf16(uint16_t *p, trm_vf x) {
    trm_vu32 bits = (trm_vu32)x, near = bits + 0x7FFFu + (bits >> 16 & 1u), ok = (trm_vu32)(x == x);
    trm_vu16 v = __builtin_convertvector(((near & ok) | ((bits | 0x400000u) & ~ok)) >> 16, trm_vu16);
    memcpy(p, &v, sizeof v);
}

#endif
