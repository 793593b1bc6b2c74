/* Private to backend/ref: from descriptions and bound arguments to the plain functions of
 * kernels/ref.  One run function per op kind, by family. */
#ifndef TRM_REF_IMPL_H
#define TRM_REF_IMPL_H

#include <trireme/backend.h>

#include "ref/ref.h"                /* kernels/ref/ref.h */

typedef trm_status (*trm_ref_run_fn)(trm_op *op, const trm_step *step);

/* Declares trm_ref_<kind>; the table in ref.c holds them all. */
#define X(name) trm_status trm_ref_run_##name(trm_op *op, const trm_step *step);
TRM_OP_LIST(X)
#undef X

static inline double *trm_ref_arg(const trm_op *op, trm_arg a) { return op->arg[a]; }
#define REF(name) trm_ref_arg(op, TRM_ARG_##name)

/* Elements of all samples of X / of Y. */
static inline int64_t trm_ref_in_count(const trm_op *op) { return op->desc.n * trm_shape_count(&op->desc.in); }
static inline int64_t trm_ref_out_count(const trm_op *op) { return op->desc.n * trm_shape_count(&op->desc.out); }

/* A sample seen as channels and pixels: what has no channels first is channels of one pixel, for which memory and canonical
 * order are one. */
typedef struct trm_ref_image {
    int64_t c, pixels;
} trm_ref_image;
static inline trm_ref_image trm_ref_image_of(const trm_shape *s) {
    const int64_t count = trm_shape_count(s), c = trm_shape_channels_first(s) ? s->dim[0] : count;
    return (trm_ref_image){c, count / c};
}

/* Applies desc.act in place over n values; NONE does nothing. */
void trm_ref_apply_act(trm_act act, int64_t n, double *y);

#endif
