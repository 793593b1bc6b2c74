/* Private to backend/cpu: what the files of own loops share. */
#ifndef TRM_CPU_OWN_H
#define TRM_CPU_OWN_H

#include "cpu_impl.h"

typedef trm_status (*trm_cpu_bind_fn)(trm_op *op);
typedef trm_status (*trm_cpu_run_fn)(trm_op *op, const trm_step *step);

/* Gives the op a zeroed state of `bytes` (its first field is a trm_cpu_state) and its two functions. */
static inline trm_status trm_cpu_own(trm_op *op, size_t bytes, trm_cpu_bind_fn bind, trm_cpu_run_fn run) {
    trm_cpu_state *state = trm_alloc(bytes, "an operation");
    if (!state) return TRM_MEMORY;
    state->bind = bind;
    op->state = state;
    op->run = run;
    snprintf(op->impl, sizeof op->impl, "loops:%s", trm_cpu_kernels(op->device)->isa);
    return TRM_OK;
}

/* Takes `count` things of `size` bytes from a block that is laid out piece by piece; with `base` NULL only
 * the length is counted. */
static inline void *trm_cpu_take(void *base, size_t *used, int64_t count, size_t size) {
    size_t at = *used;
    *used = trm_round_up(at + (size_t)count * size, TRM_ALIGN);
    return base ? (char *)base + at : NULL;
}

#endif
