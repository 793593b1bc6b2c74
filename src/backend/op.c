/* op: plan and bind.  What holds on every device is checked here, once, so that a back end may
 * trust the description and the addresses it gets. */
#include <string.h>

#include "op_impl.h"

const char *trm_op_name(trm_op_kind k) {
    const trm_op_rule *r = trm_op_rule_of(k);
    return r ? r->name : "unknown op";
}

const char *trm_act_name(trm_act a) {
    static const char *const names[] = {
        [TRM_ACT_NONE] = "none",           [TRM_ACT_RELU] = "relu", [TRM_ACT_GELU] = "gelu",
        [TRM_ACT_GELU_TANH] = "gelu_tanh", [TRM_ACT_TANH] = "tanh", [TRM_ACT_SIGMOID] = "sigmoid",
        [TRM_ACT_SILU] = "silu",
    };
    return (size_t)a < sizeof names / sizeof *names ? names[a] : "unknown act";
}

static const char *arg_name(int a) {
    static const char *const names[] = {
#define X(name) #name,
        TRM_ARG_LIST(X)
#undef X
    };
    return names[a];
}

/* ---- plan --------------------------------------------------------------------------- */

static trm_status ask_backend(trm_device *d, trm_op *op) {
    const char *name = trm_op_name(op->desc.kind);
    if (!d->backend->plan) return trm_fail(TRM_MACHINE, "back end %s has no ops", d->backend->name);
    trm_status s = d->backend->plan(d, op);
    if (s != TRM_OK) return trm_prefix(s, "%s on %s", name, d->backend->name);
    if (!op->run)
        return trm_fail(TRM_INTERNAL, "back end %s planned %s but not how to run it", d->backend->name, name);
    return TRM_OK;
}

trm_status trm_op_plan(trm_device *d, const trm_op_desc *desc, trm_op **out) {
    TRM_TRY(trm_op_check(desc));
    trm_op *op = trm_alloc(sizeof *op, "an op");
    if (!op) return TRM_MEMORY;
    op->device = d;
    op->desc = *desc;
    trm_status s = ask_backend(d, op);
    if (s != TRM_OK) {
        trm_free(op);
        return s;
    }
    *out = op;
    return TRM_OK;
}

void trm_op_destroy(trm_op *op) {
    if (!op) return;
    if (op->device->backend->destroy) op->device->backend->destroy(op);
    trm_free(op);
}

/* ---- bind --------------------------------------------------------------------------- */

/* Whether the description asks for an argument of the rule's `when` set. */
static bool wanted(const trm_op *op, int arg) {
    const trm_op_desc *d = &op->desc;
    switch (arg) {
    case TRM_ARG_B:
    case TRM_ARG_DB: return d->bias;
    case TRM_ARG_RES: return d->residual;
    case TRM_ARG_PRE:                                  /* LINEAR_FWD */
    case TRM_ARG_X: return trm_act_from_input(d->act); /* ACT_BWD */
    case TRM_ARG_Y: return d->kind == TRM_OP_ACT_BWD ? !trm_act_from_input(d->act) : d->act == TRM_ACT_RELU;
    case TRM_ARG_SAVED: return op->saved_bytes > 0;
    case TRM_ARG_STAT:                /* BN_APPLY */
    case TRM_ARG_DX: return d->train; /* losses */
    case TRM_ARG_RUN_MEAN:            /* BN_APPLY */
    case TRM_ARG_RUN_VAR: return !d->train;
    case TRM_ARG_M1: return trm_optimizer_moments(d->optimizer, d->beta1) > 0;
    case TRM_ARG_M2: return trm_optimizer_moments(d->optimizer, d->beta1) > 1;
    default: return false;
    }
}

static trm_status check_address(const trm_op *op, const void *p, const char *what) {
    if ((uintptr_t)p % TRM_ALIGN == 0) return TRM_OK;
    return trm_fail(TRM_INTERNAL, "%s: %s lies at %p, which is no multiple of %d", trm_op_name(op->desc.kind),
                    what, p, TRM_ALIGN);
}

/* An op sees only the arguments that its rule names, so that a back end cannot come to depend on another. */
static trm_status bind_arg(trm_op *op, const trm_op_rule *r, int a, void *p) {
    uint32_t bit = UINT32_C(1) << a;
    bool need = (r->need & bit) || ((r->when & bit) && wanted(op, a));
    op->arg[a] = need || (r->may & bit) ? p : NULL;
    if (need && !p) return trm_fail(TRM_INTERNAL, "%s: argument %s is not bound", r->name, arg_name(a));
    return check_address(op, op->arg[a], arg_name(a));
}

trm_status trm_op_bind(trm_op *op, void *const args[TRM_ARG_COUNT], void *scratch) {
    const trm_op_rule *r = trm_op_rule_of(op->desc.kind);
    for (int a = 0; a < TRM_ARG_COUNT; a++) TRM_TRY(bind_arg(op, r, a, args[a]));
    if (op->scratch_bytes > 0 && !scratch)
        return trm_fail(TRM_INTERNAL, "%s: %zu bytes of scratch are not bound", r->name, op->scratch_bytes);
    TRM_TRY(check_address(op, scratch, "scratch"));
    op->scratch = scratch;
    trm_status s = op->device->backend->bind ? op->device->backend->bind(op) : TRM_OK;
    return s == TRM_OK ? s : trm_prefix(s, "%s on %s", r->name, op->device->backend->name);
}
