/* Private to kernels/cpu: what is done to a row of logits, in softmax and in its loss. */
#ifndef TRM_CPU_ROWS_H
#define TRM_CPU_ROWS_H

#include <stdbool.h>

#include "lanes.h"
#include "vecmath.h"

/* Terms that are summed in float before they go to a float64 sum. */
#define PIECE 1024

static inline float row_max(const float *x, int64_t c) {
    enum { STEP = 4 * TRM_LANES };
    trm_vf v[4] = {vset(-HUGE_VALF), vset(-HUGE_VALF), vset(-HUGE_VALF), vset(-HUGE_VALF)};
    int64_t j = 0;
    for (; j + STEP <= c; j += STEP)
        for (int k = 0; k < 4; k++) v[k] = vmax(vload(x + j + k * TRM_LANES), v[k]);
    for (; j + TRM_LANES <= c; j += TRM_LANES) v[0] = vmax(vload(x + j), v[0]);
    v[0] = vmax(vmax(v[0], v[1]), vmax(v[2], v[3]));
    float m = -HUGE_VALF;
    for (int k = 0; k < TRM_LANES; k++) m = v[0][k] > m ? v[0][k] : m;
    for (; j < c; j++) m = x[j] > m ? x[j] : m;
    return m;
}

/* e[j] = exp(x[j] - m) where e is wanted; returns their sum. */
TRM_INLINE double row_exp(const float *x, float m, int64_t c, float *e, const bool keep) {
    double total = 0;
    for (int64_t at = 0; at < c; at += PIECE) {
        int64_t end = at + PIECE < c ? at + PIECE : c;
        float s = 0;
#pragma omp simd reduction(+ : s)
        for (int64_t j = at; j < end; j++) {
            float v = trm_exp_neg(x[j] - m);
            if (keep) e[j] = v;
            s += v;
        }
        total += (double)s;
    }
    return total;
}

#endif
