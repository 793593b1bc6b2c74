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

/* The largest window that an axis of `in` pixels is divided into. */
static int64_t largest_share(int64_t in, int64_t out) { return (in + out - 1) / out + (in % out != 0); }

static void describe(trm_pool *a, const trm_op *op) {
    const trm_op_desc *d = &op->desc;
    *a = (trm_pool){.n = d->n,
                    .c = d->in.dim[0],
                    .in = {1, 1, 1},
                    .out = {1, 1, 1},
                    .kernel = {1, 1, 1},
                    .stride = {1, 1, 1},
                    .threads = op->device->threads,
                    .accumulate = d->accumulate,
                    .adaptive = d->adaptive};
    const int axes = d->in.rank - 1;
    for (int i = 0; i < axes; i++) {
        const int to = i + TRM_MAX_AXES - axes;
        a->in[to] = d->in.dim[1 + i];
        a->out[to] = d->out.dim[1 + i];
        a->kernel[to] = d->adaptive ? largest_share(a->in[to], a->out[to]) : d->kernel[i];
        a->stride[to] = d->stride[i];
        a->pad[to] = d->pad[i];
    }
}

/* A place in the window has 32 bits. */
static trm_status check_places(const trm_pool *a) {
    const int64_t most = INT32_MAX;
    if (a->kernel[0] <= most / a->kernel[1] && a->kernel[0] * a->kernel[1] <= most / a->kernel[2])
        return TRM_OK;
    return trm_fail(TRM_MACHINE, "a window of %lld x %lld x %lld pixels is too large",
                    (long long)a->kernel[0], (long long)a->kernel[1], (long long)a->kernel[2]);
}

trm_status trm_cpu_plan_pool(trm_device *d, trm_op *op) {
    (void)d;
    const trm_op_desc *o = &op->desc;
    bool max = o->pool == TRM_POOL_MAX, forward = o->kind == TRM_OP_POOL_FWD;
    trm_cpu_run_fn run = max       ? (forward ? run_pool_max : run_pool_max_grad)
                         : forward ? run_pool_avg
                                   : run_pool_avg_grad;
    TRM_TRY(trm_cpu_own(op, sizeof(pool_state), bind, run));
    trm_pool *a = &((pool_state *)op->state)->a;
    describe(a, op);
    TRM_TRY(check_places(a));
    op->saved_bytes = max ? (size_t)(o->n * trm_shape_count(&o->out)) * sizeof(int32_t) : 0;
    return TRM_OK;
}
