/* lower_backward: the backward ops of each node, from the last one back. */
#include "lower_impl.h"
#include <string.h>

/* Region for the gradient of input k and whether the op must add to it. */
static trm_status gradient_target(trm_lower *l, int node, int k, int *region, bool *accumulate) {
    const int rep = l->f[l->g->nodes[node].in[k]].rep;
    trm_value *v = &l->v[rep];
    *accumulate = v->grad >= 0;
    if (v->grad < 0) TRM_TRY(trm_lower_value_region(l, rep, &v->grad));
    *region = v->grad;
    return TRM_OK;
}

/* Gradient region `from` flows unchanged into value `rep`: hand it on, copy it, or add it. */
static trm_status pass_on(trm_lower *l, int node, int rep, int from, bool hand_on) {
    trm_value *v = &l->v[rep];
    if (!v->needs_grad) return TRM_OK;
    if (v->grad < 0 && hand_on) {
        v->grad = from;
        return TRM_OK;
    }
    trm_op_desc d = {.kind = v->grad < 0 ? TRM_OP_COPY : TRM_OP_ADD_INTO, .n = l->s->n};
    d.in = d.out = l->g->nodes[rep].desc.out;
    if (v->grad < 0) TRM_TRY(trm_lower_value_region(l, rep, &v->grad));
    trm_lowered *o;
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    trm_lower_use(l, o, TRM_ARG_DX, v->grad);
    trm_lower_use(l, o, TRM_ARG_DY, from);
    return TRM_OK;
}

/* The gradient behind a fused activation becomes, in place, the one before it; of a product in bfloat16, in the form that it
 * multiplies. */
static trm_status lower_fused_act(trm_lower *l, int node) {
    const trm_act act = l->f[node].act;
    trm_value *v = &l->v[node];
    if (act == TRM_ACT_NONE) return TRM_OK;
    trm_op_desc d = {.kind = TRM_OP_ACT_BWD, .n = l->s->n, .act = act};
    d.in = d.out = l->g->nodes[node].desc.out;
    const int dy = v->grad;
    if (trm_lower_is_half(l, &l->g->nodes[node])) {
        d.half = TRM_HALF(TRM_ARG_DX);
        v->grad_half = true;
        TRM_TRY(trm_lower_half_region(l, node, &v->grad));
    }
    trm_lowered *o;
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    if (trm_act_from_input(act))
        trm_lower_use(l, o, TRM_ARG_X, v->pre);
    else
        trm_lower_use(l, o, TRM_ARG_Y, v->y);
    trm_lower_use(l, o, TRM_ARG_DY, dy);
    trm_lower_use(l, o, TRM_ARG_DX, v->grad);
    return TRM_OK;
}

/* linear and convolutions: weight gradient, then input gradient. */
static trm_status lower_product_backward(trm_lower *l, int node, trm_op_kind bwd_x, trm_op_kind bwd_w) {
    const trm_node *n = &l->g->nodes[node];
    const trm_value *x = trm_lower_input_value(l, node, 0), *v = &l->v[node];
    const bool half = trm_lower_is_half(l, n);
    TRM_TRY(lower_fused_act(l, node));
    int dy = v->grad;
    if (half && !v->grad_half) TRM_TRY(trm_lower_to_half(l, TRM_PHASE_BACKWARD, node, node, v->grad, &dy));
    trm_op_desc d = trm_lower_desc_of(l, node, bwd_w);
    d.accumulate = trm_lower_gradient_written(l, n);
    if (half) d.half = TRM_HALF(TRM_ARG_X) | TRM_HALF(TRM_ARG_DY);
    trm_lowered *o;
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    trm_lower_use(l, o, TRM_ARG_X, half ? x->half : x->y);
    trm_lower_use(l, o, TRM_ARG_DY, dy);
    trm_lower_fix_gradients(l, o, n);
    if (!x->needs_grad) return TRM_OK;
    int dx;
    d.kind = bwd_x;
    d.bias = false;
    if (half) d.half = TRM_HALF(TRM_ARG_W) | TRM_HALF(TRM_ARG_DY);
    TRM_TRY(gradient_target(l, node, 0, &dx, &d.accumulate));
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    trm_lower_use(l, o, TRM_ARG_DY, dy);
    trm_lower_use(l, o, TRM_ARG_DX, dx);
    trm_lower_fix_weight(l, o, n);
    return TRM_OK;
}

static trm_status lower_batch_norm_backward(trm_lower *l, int node) {
    const trm_node *n = &l->g->nodes[node], *sum, *s = trm_lower_stats_node(l, node, &sum);
    const trm_value *x = trm_lower_input_value(l, node, 0), *v = &l->v[node];
    trm_op_desc d = trm_lower_desc_of(l, node, TRM_OP_BN_GRAD_SUMS);
    const int rep = trm_lower_input_rep(l, node);
    d.act = l->f[node].act;
    d.accumulate = trm_lower_gradient_written(l, n);
    d.half = trm_lower_half_bit(l, rep, TRM_ARG_X) | trm_lower_half_bit(l, node, TRM_ARG_Y);
    trm_lowered *o;
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    trm_lower_use(l, o, TRM_ARG_X, x->y);
    trm_lower_use(l, o, TRM_ARG_Y, v->y);
    trm_lower_use(l, o, TRM_ARG_DY, v->grad);
    trm_lower_fix(o, TRM_ARG_STAT, l->r->small + s->stat);
    trm_lower_fix(o, TRM_ARG_GSTAT, l->r->small + s->gstat);
    trm_lower_fix_gradients(l, o, n);
    if (!x->needs_grad) return TRM_OK;
    if (sum) TRM_TRY(trm_lower_emit_sum(l, TRM_PHASE_WAIT, sum, s->gstat, 2 * s->desc.in.dim[0]));
    int dx;
    d = trm_lower_desc_of(l, node, TRM_OP_BN_GRAD_APPLY);
    d.half = trm_lower_half_bit(l, rep, TRM_ARG_X);
    if (l->form[rep].grad_half) {
        d.half |= TRM_HALF(TRM_ARG_DX);
        l->v[rep].grad_half = true;
        TRM_TRY(trm_lower_half_region(l, rep, &l->v[rep].grad));
        dx = l->v[rep].grad;
    } else {
        TRM_TRY(gradient_target(l, node, 0, &dx, &d.accumulate));
    }
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    trm_lower_use(l, o, TRM_ARG_X, x->y);
    trm_lower_use(l, o, TRM_ARG_DY, v->grad);
    trm_lower_use(l, o, TRM_ARG_DX, dx);
    trm_lower_fix(o, TRM_ARG_STAT, l->r->small + s->stat);
    trm_lower_fix(o, TRM_ARG_GSTAT, l->r->small + s->gstat);
    trm_lower_fix(o, TRM_ARG_W, trm_lower_at_param(l, l->r->weights, n->weight));
    return TRM_OK;
}

static bool reads_x(trm_op_kind k) {
    return k != TRM_OP_FLATTEN_BWD && k != TRM_OP_UNFLATTEN_BWD && k != TRM_OP_SOFTMAX_BWD;
}
static bool reads_y(trm_op_kind k) {
    return k == TRM_OP_POOL_BWD || k == TRM_OP_ATTN_BWD || k == TRM_OP_SOFTMAX_BWD;
}

/* Ops that read DY (and X, Y, SAVED) and write DX, with weights where they have them. */
static trm_status lower_plain_backward(trm_lower *l, int node, trm_op_kind kind) {
    const trm_node *n = &l->g->nodes[node];
    const trm_value *x = trm_lower_input_value(l, node, 0), *v = &l->v[node];
    trm_op_desc d = trm_lower_desc_of(l, node, kind);
    d.accumulate_w = trm_lower_gradient_written(l, n);
    int dx;
    TRM_TRY(gradient_target(l, node, 0, &dx, &d.accumulate));
    trm_lowered *o;
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    trm_lower_use(l, o, TRM_ARG_DY, v->grad);
    trm_lower_use(l, o, TRM_ARG_DX, dx);
    if (reads_x(kind)) trm_lower_use(l, o, TRM_ARG_X, x->y);
    if (reads_y(kind)) trm_lower_use(l, o, TRM_ARG_Y, v->y);
    trm_lower_use(l, o, TRM_ARG_SAVED, v->saved);
    trm_lower_fix(o, TRM_ARG_W, trm_lower_at_param(l, l->r->weights, n->weight));
    if (n->weight >= 0) trm_lower_fix_gradients(l, o, n);
    return TRM_OK;
}

/* Element-wise ops work in place on the gradient where nothing was written to their input's yet. */
static trm_status lower_elementwise_backward(trm_lower *l, int node, trm_op_kind kind) {
    const int rep = l->f[l->g->nodes[node].in[0]].rep;
    trm_value *x = &l->v[rep], *v = &l->v[node];
    trm_op_desc d = trm_lower_desc_of(l, node, kind);
    d.accumulate = x->grad >= 0;
    if (x->grad < 0) x->grad = v->grad;
    trm_lowered *o;
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    trm_lower_use(l, o, TRM_ARG_DY, v->grad);
    trm_lower_use(l, o, TRM_ARG_DX, x->grad);
    if (kind != TRM_OP_ACT_BWD) return TRM_OK;
    if (trm_act_from_input(d.act))
        trm_lower_use(l, o, TRM_ARG_X, x->y);
    else
        trm_lower_use(l, o, TRM_ARG_Y, v->y);
    return TRM_OK;
}

/* embedding and positional embedding: a weight gradient only. */
static trm_status lower_table_backward(trm_lower *l, int node, trm_op_kind kind) {
    const trm_node *n = &l->g->nodes[node];
    trm_op_desc d = trm_lower_desc_of(l, node, kind);
    d.accumulate = trm_lower_gradient_written(l, n);
    trm_lowered *o;
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    trm_lower_use(l, o, TRM_ARG_DY, l->v[node].grad);
    if (kind == TRM_OP_EMBED_BWD) trm_lower_use(l, o, TRM_ARG_X, trm_lower_input_value(l, node, 0)->y);
    trm_lower_fix_gradients(l, o, n);
    if (kind == TRM_OP_EMBED_BWD) return TRM_OK;
    return pass_on(l, node, l->f[n->in[0]].rep, l->v[node].grad, true);
}

static trm_status lower_add_backward(trm_lower *l, int node) {
    const trm_node *n = &l->g->nodes[node];
    const int a = l->f[n->in[0]].rep, b = l->f[n->in[1]].rep, dy = l->v[node].grad;
    TRM_TRY(lower_fused_act(l, node));
    /* The second operand first: it copies or adds; then the first may take the region itself. */
    TRM_TRY(pass_on(l, node, b, dy, false));
    return pass_on(l, node, a, dy, a != b);
}

static trm_status lower_concat_backward(trm_lower *l, int node) {
    for (int k = 0; k < l->g->nodes[node].n_in; k++) {
        if (!trm_lower_input_value(l, node, k)->needs_grad) continue;
        trm_op_desc d = trm_lower_concat_part(l, node, TRM_OP_CONCAT_BWD, k);
        trm_lowered *o;
        int dx;
        TRM_TRY(gradient_target(l, node, k, &dx, &d.accumulate));
        TRM_TRY(trm_lower_emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
        trm_lower_use(l, o, TRM_ARG_DY, l->v[node].grad);
        trm_lower_use(l, o, TRM_ARG_DX, dx);
    }
    return TRM_OK;
}

static trm_status lower_op_backward(trm_lower *l, int node) {
    switch (l->g->nodes[node].kind) {
    case TRM_NODE_LINEAR: return lower_product_backward(l, node, TRM_OP_LINEAR_BWD_X, TRM_OP_LINEAR_BWD_W);
    case TRM_NODE_CONV: return lower_product_backward(l, node, TRM_OP_CONV_BWD_X, TRM_OP_CONV_BWD_W);
    case TRM_NODE_BN_APPLY: return lower_batch_norm_backward(l, node);
    case TRM_NODE_POOL: return lower_plain_backward(l, node, TRM_OP_POOL_BWD);
    case TRM_NODE_LAYER_NORM: return lower_plain_backward(l, node, TRM_OP_LN_BWD);
    case TRM_NODE_GROUP_NORM: return lower_plain_backward(l, node, TRM_OP_GN_BWD);
    case TRM_NODE_SOFTMAX: return lower_plain_backward(l, node, TRM_OP_SOFTMAX_BWD);
    case TRM_NODE_ATTENTION: return lower_plain_backward(l, node, TRM_OP_ATTN_BWD);
    case TRM_NODE_FLATTEN: return lower_plain_backward(l, node, TRM_OP_FLATTEN_BWD);
    case TRM_NODE_UNFLATTEN: return lower_plain_backward(l, node, TRM_OP_UNFLATTEN_BWD);
    case TRM_NODE_ACT: return lower_elementwise_backward(l, node, TRM_OP_ACT_BWD);
    case TRM_NODE_DROPOUT: return lower_elementwise_backward(l, node, TRM_OP_DROPOUT_BWD);
    case TRM_NODE_EMBED: return lower_table_backward(l, node, TRM_OP_EMBED_BWD);
    case TRM_NODE_POSEMB: return lower_table_backward(l, node, TRM_OP_POSEMB_BWD);
    case TRM_NODE_ADD: return lower_add_backward(l, node);
    case TRM_NODE_CONCAT: return lower_concat_backward(l, node);
    default: return TRM_OK;
    }
}

trm_status trm_lower_node_backward(trm_lower *l, int node) {
    const trm_value *v = &l->v[node];
    if (l->f[node].rep != node || v->grad < 0 || !v->needs_grad) return TRM_OK;
    TRM_TRY(lower_op_backward(l, node));
    /* The residual's gradient is the one before the activation; every op of this node has read it by now. */
    return l->f[node].res >= 0 ? pass_on(l, node, l->f[node].res, v->grad, true) : TRM_OK;
}
