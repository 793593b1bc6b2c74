/* cpu: the float32 back end.  Opens the machine's table of loops and oneDNN, and sends each op kind to the
 * family that plans it. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "onednn.h"

/* ---- the instruction set ---------------------------------------------------------------- */

enum { ISAS = 3 };
static const trm_kernels *const tables[ISAS] = {&trm_kernels_v2, &trm_kernels_v3, &trm_kernels_v4};

/* Levels of x86-64 that this machine has, by features: older compilers do not know the levels' names. */
static int machine_levels(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) return 0;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
        return 1;
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
    return avx512 ? 3 : 2;
}

/* TRIREME_ISA=v2|v3|v4 may lower the level of the own loops, for tests and comparisons. */
static trm_status choose_table(const trm_kernels **out) {
    int levels = machine_levels();
    if (levels == 0)
        return trm_fail(TRM_MACHINE, "this processor lacks SSE 4.2; x86-64-v2 or newer is needed");
    const char *wish = getenv("TRIREME_ISA");
    int level = levels;
    if (wish && *wish) {
        bool known = strlen(wish) == 2 && wish[0] == 'v' && wish[1] >= '2' && wish[1] <= '4';
        if (!known) return trm_fail(TRM_USAGE, "TRIREME_ISA is \"%s\" and must be v2, v3 or v4", wish);
        level = wish[1] - '1';
        if (level > levels)
            return trm_fail(TRM_MACHINE, "TRIREME_ISA asks for %s, but this processor has %s",
                            tables[level - 1]->isa, tables[levels - 1]->isa);
    }
    *out = tables[level - 1];
    return TRM_OK;
}

/* ---- the device ------------------------------------------------------------------------- */

static void cpu_close(trm_device *d) {
    if (!d->state) return;
    trm_cpu_onednn_close(d);
    trm_free(d->state);
    d->state = NULL;
}

static trm_status cpu_open(trm_device *d) {
    trm_cpu *cpu = trm_alloc(sizeof *cpu, "the CPU device");
    if (!cpu) return TRM_MEMORY;
    d->state = cpu;
    omp_set_num_threads(d->threads);
    trm_status status = choose_table(&cpu->k);
    if (status == TRM_OK) status = trm_cpu_onednn_open(d);
    if (status != TRM_OK) {
        cpu_close(d);
        return status;
    }
    char library[32];
    snprintf(d->about, sizeof d->about, "float32, %s%s, %s, %d thread%s",
             trm_cpu_onednn_version(library, sizeof library), trm_dnn_has_bf16() ? " (bfloat16 too)" : "",
             cpu->k->isa, d->threads, d->threads == 1 ? "" : "s");
    return TRM_OK;
}

/* ---- ops -------------------------------------------------------------------------------- */

typedef trm_status (*plan_fn)(trm_device *d, trm_op *op);

static const plan_fn families[TRM_OP_COUNT] = {
    [TRM_OP_LOAD_X] = trm_cpu_plan_load,
    [TRM_OP_LOAD_Y] = trm_cpu_plan_load,
    [TRM_OP_LINEAR_FWD] = trm_cpu_plan_linear,
    [TRM_OP_LINEAR_BWD_X] = trm_cpu_plan_linear,
    [TRM_OP_LINEAR_BWD_W] = trm_cpu_plan_linear,
    [TRM_OP_CONV_FWD] = trm_cpu_plan_conv,
    [TRM_OP_CONV_BWD_X] = trm_cpu_plan_conv,
    [TRM_OP_CONV_BWD_W] = trm_cpu_plan_conv,
    [TRM_OP_POOL_FWD] = trm_cpu_plan_pool,
    [TRM_OP_POOL_BWD] = trm_cpu_plan_pool,
    [TRM_OP_BN_STATS] = trm_cpu_plan_batch_norm,
    [TRM_OP_BN_APPLY] = trm_cpu_plan_batch_norm,
    [TRM_OP_BN_RUN] = trm_cpu_plan_batch_norm,
    [TRM_OP_BN_GRAD_SUMS] = trm_cpu_plan_batch_norm,
    [TRM_OP_BN_GRAD_APPLY] = trm_cpu_plan_batch_norm,
    [TRM_OP_LN_FWD] = trm_cpu_plan_layer_norm,
    [TRM_OP_LN_BWD] = trm_cpu_plan_layer_norm,
    [TRM_OP_GN_FWD] = trm_cpu_plan_group_norm,
    [TRM_OP_GN_BWD] = trm_cpu_plan_group_norm,
    [TRM_OP_ACT_FWD] = trm_cpu_plan_elementwise,
    [TRM_OP_ACT_BWD] = trm_cpu_plan_elementwise,
    [TRM_OP_DROPOUT_FWD] = trm_cpu_plan_elementwise,
    [TRM_OP_DROPOUT_BWD] = trm_cpu_plan_elementwise,
    [TRM_OP_FLATTEN_FWD] = trm_cpu_plan_elementwise,
    [TRM_OP_FLATTEN_BWD] = trm_cpu_plan_elementwise,
    [TRM_OP_CONCAT_FWD] = trm_cpu_plan_elementwise,
    [TRM_OP_CONCAT_BWD] = trm_cpu_plan_elementwise,
    [TRM_OP_UNFLATTEN_FWD] = trm_cpu_plan_elementwise,
    [TRM_OP_UNFLATTEN_BWD] = trm_cpu_plan_elementwise,
    [TRM_OP_SOFTMAX_FWD] = trm_cpu_plan_elementwise,
    [TRM_OP_SOFTMAX_BWD] = trm_cpu_plan_elementwise,
    [TRM_OP_EMBED_FWD] = trm_cpu_plan_embedding,
    [TRM_OP_EMBED_BWD] = trm_cpu_plan_embedding,
    [TRM_OP_POSEMB_FWD] = trm_cpu_plan_embedding,
    [TRM_OP_POSEMB_BWD] = trm_cpu_plan_embedding,
    [TRM_OP_ATTN_FWD] = trm_cpu_plan_attention,
    [TRM_OP_ATTN_BWD] = trm_cpu_plan_attention,
    [TRM_OP_ADD_FWD] = trm_cpu_plan_elementwise,
    [TRM_OP_ADD_INTO] = trm_cpu_plan_elementwise,
    [TRM_OP_COPY] = trm_cpu_plan_elementwise,
    [TRM_OP_CAST] = trm_cpu_plan_elementwise,
    [TRM_OP_LOSS_CE] = trm_cpu_plan_loss,
    [TRM_OP_LOSS_MSE] = trm_cpu_plan_loss,
    [TRM_OP_LOSS_BCE] = trm_cpu_plan_loss,
    [TRM_OP_UPDATE] = trm_cpu_plan_update,
    [TRM_OP_SUMSQ] = trm_cpu_plan_update,
};

/* oneDNN can also imitate bfloat16, but slower than it computes in float32. */
static trm_status cpu_half(const trm_device *d) {
    (void)d;
    if (trm_dnn_has_bf16()) return TRM_OK;
    trm_fail(TRM_MACHINE, "this processor does not multiply in bfloat16 (avx512_bf16)");
    return TRM_MACHINE;
}

static bool cpu_half_pays(const trm_device *d, const trm_op_desc *forward) {
    if (forward->kind == TRM_OP_CONV_FWD) return trm_cpu_conv_half_pays(d, forward);
    return forward->kind == TRM_OP_LINEAR_FWD;
}

static void cpu_destroy(trm_op *op) {
    trm_cpu_state *state = op->state;
    if (!state) return;
    if (state->destroy) state->destroy(op);
    trm_free(state);
    op->state = NULL;
}

static trm_status cpu_plan(trm_device *d, trm_op *op) {
    plan_fn family = families[op->desc.kind];
    if (op->desc.half) TRM_TRY(cpu_half(d));
    if (!family) return trm_fail(TRM_MACHINE, "the cpu back end does not have this op");
    trm_status status = family(d, op);
    if (status != TRM_OK) cpu_destroy(op);
    return status;
}

static trm_status cpu_bind(trm_op *op) {
    trm_cpu_state *state = op->state;
    return state && state->bind ? state->bind(op) : TRM_OK;
}

const trm_backend trm_backend_cpu = {
    .name = "cpu",
    .about = "float32, oneDNN and own loops",
    .float_size = sizeof(float),
    .open = cpu_open,
    .close = cpu_close,
    .plan = cpu_plan,
    .bind = cpu_bind,
    .destroy = cpu_destroy,
    .half = cpu_half,
    .half_pays = cpu_half_pays,
};
