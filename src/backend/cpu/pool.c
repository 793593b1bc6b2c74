/* pool: pooling by own loops (oneDNN's are up to 50 times slower where the channels do not fill vectors).
 * SAVED holds, for the max of each window, its place there. */
#include "own.h"

typedef struct pool_state {
    trm_cpu_state base;
    trm_pool a;
} pool_state;

#define POOL_RUN(name)                                               \
    static trm_status run_##name(trm_op *op, const trm_step *step) { \
        (void)step;                                                  \
        const pool_state *s = op->state;                             \
        trm_cpu_kernels(op->device)->name(&s->a);                    \
        return TRM_OK;                                               \
    }
POOL_RUN(pool_max)
POOL_RUN(pool_max_grad)
POOL_RUN(pool_avg)
POOL_RUN(pool_avg_grad)

static trm_status bind(trm_op *op) {
    trm_pool *a = &((pool_state *)op->state)->a;
    a->x = op->arg[TRM_ARG_X];
    a->y = op->arg[TRM_ARG_Y];
    a->dx = op->arg[TRM_ARG_DX];
    a->dy = op->arg[TRM_ARG_DY];
    a->place = op->arg[TRM_ARG_SAVED];
    return TRM_OK;
}

static void describe(trm_pool *a, const trm_op *op) {
    const trm_op_desc *d = &op->desc;
    *a =
        (trm_pool){.n = d->n, .c = d->in.dim[0], .threads = op->device->threads, .accumulate = d->accumulate};
    for (int i = 0; i < 2; i++) {
        a->in[i] = d->in.dim[1 + i];
        a->out[i] = d->out.dim[1 + i];
        a->kernel[i] = d->kernel[i];
        a->stride[i] = d->stride[i];
        a->pad[i] = d->pad[i];
    }
}

trm_status trm_cpu_plan_pool(trm_device *d, trm_op *op) {
    (void)d;
    const trm_op_desc *o = &op->desc;
    bool max = o->pool == TRM_POOL_MAX, forward = o->kind == TRM_OP_POOL_FWD;
    trm_cpu_run_fn run = max       ? (forward ? run_pool_max : run_pool_max_grad)
                         : forward ? run_pool_avg
                                   : run_pool_avg_grad;
    TRM_TRY(trm_cpu_own(op, sizeof(pool_state), bind, run));
    describe(&((pool_state *)op->state)->a, op);
    op->saved_bytes = max ? (size_t)(o->n * trm_shape_count(&o->out)) * sizeof(int32_t) : 0;
    return TRM_OK;
}
