/* lower_forward: the forward ops of each node. */
#include "lower_impl.h"
#include <string.h>

static trm_op_kind forward_kind(trm_node_kind k) {
    switch (k) {
    case TRM_NODE_LINEAR: return TRM_OP_LINEAR_FWD;
    case TRM_NODE_CONV: return TRM_OP_CONV_FWD;
    case TRM_NODE_POOL: return TRM_OP_POOL_FWD;
    case TRM_NODE_BN_STATS: return TRM_OP_BN_STATS;
    case TRM_NODE_BN_APPLY: return TRM_OP_BN_APPLY;
    case TRM_NODE_LAYER_NORM: return TRM_OP_LN_FWD;
    case TRM_NODE_GROUP_NORM: return TRM_OP_GN_FWD;
    case TRM_NODE_SOFTMAX: return TRM_OP_SOFTMAX_FWD;
    case TRM_NODE_UNFLATTEN: return TRM_OP_UNFLATTEN_FWD;
    case TRM_NODE_ACT: return TRM_OP_ACT_FWD;
    case TRM_NODE_DROPOUT: return TRM_OP_DROPOUT_FWD;
    case TRM_NODE_FLATTEN: return TRM_OP_FLATTEN_FWD;
    case TRM_NODE_EMBED: return TRM_OP_EMBED_FWD;
    case TRM_NODE_POSEMB: return TRM_OP_POSEMB_FWD;
    case TRM_NODE_ATTENTION: return TRM_OP_ATTN_FWD;
    default: return TRM_OP_ADD_FWD;
    }
}

/* Statistics exist while training only; with a reduction behind them where a strategy asked for it. */
static trm_status lower_stats(trm_lower *l, int node) {
    if (!l->s->train) return TRM_OK;
    const trm_node *n = &l->g->nodes[node];
    trm_op_desc d = trm_lower_desc_of(l, node, TRM_OP_BN_STATS);
    d.half = trm_lower_half_bit(l, trm_lower_input_rep(l, node), TRM_ARG_X);
    trm_lowered *o;
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_FORWARD, node, &d, &o));
    trm_lower_use(l, o, TRM_ARG_X, trm_lower_input_value(l, node, 0)->y);
    trm_lower_fix(o, TRM_ARG_STAT, l->r->small + n->stat);
    return TRM_OK;
}

static trm_status lower_sum_stats(trm_lower *l, int node) {
    if (!l->s->train) return TRM_OK;
    const trm_node *n = &l->g->nodes[node], *s = &l->g->nodes[n->in[0]];
    return trm_lower_emit_sum(l, TRM_PHASE_WAIT, n, s->stat, 2 * s->desc.in.dim[0] + 1);
}

/* The running statistics move once per micro-batch on every rank that knows the sums. */
static trm_status lower_running(trm_lower *l, int node) {
    const trm_node *n = &l->g->nodes[node], *sum, *s = trm_lower_stats_node(l, node, &sum);
    trm_op_desc d = trm_lower_desc_of(l, node, TRM_OP_BN_RUN);
    trm_lowered *o;
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_FORWARD, node, &d, &o));
    trm_lower_fix(o, TRM_ARG_STAT, l->r->small + s->stat);
    trm_lower_fix(o, TRM_ARG_RUN_MEAN, trm_lower_at_param(l, l->r->state, n->run_mean));
    trm_lower_fix(o, TRM_ARG_RUN_VAR, trm_lower_at_param(l, l->r->state, n->run_var));
    return TRM_OK;
}

static void fix_batch_norm(const trm_lower *l, trm_lowered *o, int node) {
    const trm_node *n = &l->g->nodes[node], *sum, *s = trm_lower_stats_node(l, node, &sum);
    trm_lower_fix(o, TRM_ARG_STAT, l->r->small + s->stat);
    trm_lower_fix(o, TRM_ARG_RUN_MEAN, trm_lower_at_param(l, l->r->state, n->run_mean));
    trm_lower_fix(o, TRM_ARG_RUN_VAR, trm_lower_at_param(l, l->r->state, n->run_var));
}

static trm_status lower_forward(trm_lower *l, int node) {
    const trm_node *n = &l->g->nodes[node];
    const trm_fusion *f = &l->f[node];
    trm_value *v = &l->v[node];
    trm_op_desc d = trm_lower_desc_of(l, node, forward_kind(n->kind));
    if (n->kind != TRM_NODE_ACT) d.act = f->act;
    d.residual = f->res >= 0;
    d.half = trm_lower_half_bit(l, node, TRM_ARG_Y);
    if (trm_lower_is_half(l, n)) d.half |= TRM_HALF(TRM_ARG_X) | TRM_HALF(TRM_ARG_W);
    if (n->kind == TRM_NODE_BN_APPLY)
        d.half |= trm_lower_half_bit(l, trm_lower_input_rep(l, node), TRM_ARG_X);
    if (f->res >= 0) d.half |= trm_lower_half_bit(l, f->res, TRM_ARG_RES);
    trm_lowered *o;
    int x;
    TRM_TRY(trm_lower_factor(l, node, &x));
    TRM_TRY(trm_lower_y_region(l, node, &v->y));
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_FORWARD, node, &d, &o));
    if (o->op->saved_bytes && v->saved < 0)
        TRM_TRY(trm_lower_region(l, (int64_t)o->op->saved_bytes, &v->saved));
    if (n->kind == TRM_NODE_LINEAR && trm_act_from_input(f->act))
        TRM_TRY(trm_lower_value_region(l, node, &v->pre));
    trm_lower_use(l, o, TRM_ARG_X, x);
    if (n->kind == TRM_NODE_ADD) trm_lower_use(l, o, TRM_ARG_X2, trm_lower_input_value(l, node, 1)->y);
    trm_lower_use(l, o, TRM_ARG_Y, v->y);
    trm_lower_use(l, o, TRM_ARG_PRE, v->pre);
    trm_lower_use(l, o, TRM_ARG_SAVED, v->saved);
    if (f->res >= 0) trm_lower_use(l, o, TRM_ARG_RES, l->v[f->res].y);
    trm_lower_fix_weights(l, o, n);
    if (n->kind != TRM_NODE_BN_APPLY) return TRM_OK;
    fix_batch_norm(l, o, node);
    return l->s->train ? lower_running(l, node) : TRM_OK;
}

/* Input k of a concat and its place among the channels, as the description of an op. */
trm_op_desc trm_lower_concat_part(const trm_lower *l, int node, trm_op_kind kind, int k) {
    const trm_node *n = &l->g->nodes[node];
    trm_op_desc d = trm_lower_desc_of(l, node, kind);
    d.in = l->g->nodes[n->in[k]].desc.out;
    for (int i = 0; i < k; i++) {
        const trm_shape *x = &l->g->nodes[n->in[i]].desc.out;
        d.at += x->dim[trm_shape_channel_dim(x)];
    }
    return d;
}

/* Each input writes its channels. */
static trm_status lower_concat(trm_lower *l, int node) {
    trm_value *v = &l->v[node];
    TRM_TRY(trm_lower_value_region(l, node, &v->y));
    for (int k = 0; k < l->g->nodes[node].n_in; k++) {
        const trm_op_desc d = trm_lower_concat_part(l, node, TRM_OP_CONCAT_FWD, k);
        trm_lowered *o;
        TRM_TRY(trm_lower_emit(l, TRM_PHASE_FORWARD, node, &d, &o));
        trm_lower_use(l, o, TRM_ARG_X, trm_lower_input_value(l, node, k)->y);
        trm_lower_use(l, o, TRM_ARG_Y, v->y);
    }
    return TRM_OK;
}

/* What concat does backward: channels of the whole become those of the part. */
static trm_status lower_slice(trm_lower *l, int node) {
    const trm_node *n = &l->g->nodes[node];
    trm_op_desc d = trm_lower_desc_of(l, node, TRM_OP_CONCAT_BWD);
    trm_lowered *o;
    d.in = n->desc.out;
    d.out = l->g->nodes[n->in[0]].desc.out;
    TRM_TRY(trm_lower_value_region(l, node, &l->v[node].y));
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_FORWARD, node, &d, &o));
    trm_lower_use(l, o, TRM_ARG_DY, trm_lower_input_value(l, node, 0)->y);
    trm_lower_use(l, o, TRM_ARG_DX, l->v[node].y);
    return TRM_OK;
}

trm_status trm_lower_node_forward(trm_lower *l, int node) {
    const trm_node *n = &l->g->nodes[node];
    if (n->kind == TRM_NODE_INPUT || n->kind == TRM_NODE_SUM_GRADS || n->kind == TRM_NODE_SUM_TAIL)
        return TRM_OK;
    if (n->kind == TRM_NODE_BN_STATS) return lower_stats(l, node);
    if (n->kind == TRM_NODE_SUM_STATS) return lower_sum_stats(l, node);
    if (l->f[node].rep != node) return TRM_OK;
    if (n->kind == TRM_NODE_CONCAT) return lower_concat(l, node);
    if (n->kind == TRM_NODE_SLICE) return lower_slice(l, node);
    return lower_forward(l, node);
}
