/* Lowering: graph -> the ops of one micro-batch, forward and backward, with the regions of the arena that they use.
 *
 * The backward pass goes through the nodes in reverse.  A value's gradient lives in one region; the first op that
 * contributes to it overwrites, later ones add, and where a gradient passes through unchanged (residual, position, view) the
 * region is handed on instead of copied. */
#include <string.h>

#include "fuse.h"

/* What lowering knows of a node's value; all by rep. */
typedef struct value {
    int y, pre, saved; /* regions, -1 = none */
    int half;          /* region of Y as bfloat16, -1 = nobody wants it so far; y itself where it lies so */
    bool grad_half;    /* the gradient lies as bfloat16 */
    int grad;          /* region of its gradient, -1 = not written yet */
    bool needs_grad;
} value;

typedef struct lower {
    const trm_runner_spec *r;
    const trm_graph *g;
    const trm_pass_spec *s;
    trm_pass *p;
    trm_fusion *f;
    trm_form *form;
    value *v;
    bool *written; /* per parameter: its gradient has been written in this update */
} lower;

#define EMIT(expr) TRM_TRY(expr)

/* ---- regions and instructions -------------------------------------------------------- */

static trm_status new_region(lower *l, int64_t bytes, int *out) {
    trm_pass *p = l->p;
    if (p->n_regions == p->cap_regions) {
        int cap = p->cap_regions ? 2 * p->cap_regions : 64;
        trm_region *q = trm_realloc(p->regions, (size_t)p->cap_regions * sizeof *q, (size_t)cap * sizeof *q,
                                    "memory plan");
        if (!q) return TRM_MEMORY;
        p->regions = q;
        p->cap_regions = cap;
    }
    p->regions[p->n_regions] = (trm_region){.bytes = bytes, .first = -1, .last = -1};
    *out = p->n_regions++;
    return TRM_OK;
}

static trm_status new_value_region(lower *l, int node, int *out) {
    const trm_node *n = &l->g->nodes[node];
    const size_t size = n->tokens ? sizeof(int32_t) : l->r->device->backend->float_size;
    return new_region(l, l->s->n * trm_shape_count(&n->desc.out) * (int64_t)size, out);
}

/* In the shape of the node's value, as bfloat16. */
static trm_status new_half_region(lower *l, int node, int *out) {
    const int64_t count = l->s->n * trm_shape_count(&l->g->nodes[node].desc.out);
    return new_region(l, count * (int64_t)sizeof(uint16_t), out);
}

/* Of Y: as it lies. */
static trm_status new_y_region(lower *l, int node, int *out) {
    return l->form[node].y_half ? new_half_region(l, node, out) : new_value_region(l, node, out);
}

static trm_lowered *new_lowered(lower *l, trm_lowered_kind kind, trm_phase phase, int node) {
    trm_pass *p = l->p;
    if (p->n_list == p->cap_list) {
        int cap = p->cap_list ? 2 * p->cap_list : 64;
        trm_lowered *q =
            trm_realloc(p->list, (size_t)p->cap_list * sizeof *q, (size_t)cap * sizeof *q, "program");
        if (!q) return NULL;
        p->list = q;
        p->cap_list = cap;
    }
    trm_lowered *o = &p->list[p->n_list++];
    memset(o, 0, sizeof *o);
    o->kind = kind;
    o->phase = phase;
    o->node = node;
    for (int a = 0; a < TRM_ARG_COUNT; a++) o->region[a] = -1;
    return o;
}

/* Appends the op; its arguments are set by use/fix right after. */
static trm_status emit(lower *l, trm_phase phase, int node, const trm_op_desc *desc, trm_lowered **out) {
    trm_lowered *o = new_lowered(l, TRM_LOWERED_OP, phase, node);
    if (!o) return TRM_MEMORY;
    trm_status s = trm_op_plan(l->r->device, desc, &o->op);
    if (s != TRM_OK) return trm_prefix(s, "layer '%s'", l->g->nodes[node].name);
    l->p->scratch_bytes = trm_max64(l->p->scratch_bytes, (int64_t)o->op->scratch_bytes);
    *out = o;
    return TRM_OK;
}

static void use(lower *l, trm_lowered *o, trm_arg arg, int region) {
    if (region < 0) return;
    const int at = (int)(o - l->p->list);
    trm_region *r = &l->p->regions[region];
    o->region[arg] = region;
    if (r->first < 0) r->first = at;
    r->last = at;
}

static void fix(trm_lowered *o, trm_arg arg, void *at) { o->fixed[arg] = at; }

static trm_status emit_sum(lower *l, trm_phase phase, const trm_node *comm, int64_t offset, int64_t count) {
    trm_lowered *o = new_lowered(l, TRM_LOWERED_SUM, phase, trm_node_id(l->g, comm));
    if (!o) return TRM_MEMORY;
    o->group = comm->group;
    o->offset = offset;
    o->count = count;
    return TRM_OK;
}

/* ---- fixed memory --------------------------------------------------------------------- */

static void *at_param(const lower *l, void *space, int param) {
    if (param < 0 || !space) return NULL;
    return (char *)space + (size_t)l->g->params[param].offset * l->r->device->backend->float_size;
}

static bool is_half(const lower *l, const trm_node *n) { return trm_half_product(l->s->half, n); }

/* The bit of `arg` where the value of rep lies as bfloat16. */
static uint32_t half_bit(const lower *l, int rep, trm_arg arg) {
    return l->form[rep].y_half ? TRM_HALF(arg) : 0;
}

static void fix_weight(const lower *l, trm_lowered *o, const trm_node *n) {
    if (is_half(l, n))
        fix(o, TRM_ARG_W, l->s->half->copy + l->s->half->at[n->weight]);
    else
        fix(o, TRM_ARG_W, at_param(l, l->r->weights, n->weight));
}

static void fix_weights(const lower *l, trm_lowered *o, const trm_node *n) {
    fix_weight(l, o, n);
    fix(o, TRM_ARG_B, at_param(l, l->r->weights, n->bias));
}

/* Gradient of a parameter: the instruction writes it last so far. */
static void fix_gradients(lower *l, trm_lowered *o, const trm_node *n) {
    const int at = (int)(o - l->p->list), param[2] = {n->weight, n->bias};
    fix(o, TRM_ARG_DW, at_param(l, l->r->grads, n->weight));
    fix(o, TRM_ARG_DB, at_param(l, l->r->grads, n->bias));
    for (int i = 0; i < 2; i++) {
        if (param[i] < 0) continue;
        l->written[param[i]] = true;
        l->p->last_write[param[i]] = at;
    }
}

static bool gradient_written(const lower *l, const trm_node *n) {
    return n->weight >= 0 && l->written[n->weight];
}

static trm_op_desc desc_of(const lower *l, int node, trm_op_kind kind) {
    trm_op_desc d = l->g->nodes[node].desc;
    d.kind = kind;
    d.n = l->s->n;
    d.first = l->s->first;
    d.train = l->s->train;
    d.seed = l->r->seed;
    return d;
}

static int input_rep(const lower *l, int node) { return l->f[l->g->nodes[node].in[0]].rep; }

static value *input_value(const lower *l, int node, int k) {
    return &l->v[l->f[l->g->nodes[node].in[k]].rep];
}

static const trm_node *stats_node(const lower *l, int apply, const trm_node **sum) {
    const trm_node *s = &l->g->nodes[l->g->nodes[apply].in[1]];
    *sum = NULL;
    if (s->kind == TRM_NODE_SUM_STATS) {
        *sum = s;
        s = &l->g->nodes[s->in[0]];
    }
    return s;
}

/* ---- bfloat16 --------------------------------------------------------------------------- */

/* `region`, of the shape of rep's value, as bfloat16 in a region of its own. */
static trm_status to_half(lower *l, trm_phase phase, int node, int rep, int region, int *out) {
    trm_op_desc d = {.kind = TRM_OP_CAST, .n = l->s->n, .half = TRM_HALF(TRM_ARG_Y)};
    d.in = d.out = l->g->nodes[rep].desc.out;
    trm_lowered *o;
    EMIT(new_half_region(l, rep, out));
    EMIT(emit(l, phase, node, &d, &o));
    use(l, o, TRM_ARG_X, region);
    use(l, o, TRM_ARG_Y, *out);
    return TRM_OK;
}

/* The input of a product in the form that it multiplies; made once for all that read it. */
static trm_status factor(lower *l, int node, int *region) {
    const trm_node *n = &l->g->nodes[node];
    const int rep = l->f[n->in[0]].rep;
    value *x = &l->v[rep];
    *region = x->y;
    if (!is_half(l, n)) return TRM_OK;
    if (l->form[rep].y_half) x->half = x->y;
    if (x->half < 0) EMIT(to_half(l, TRM_PHASE_FORWARD, node, rep, x->y, &x->half));
    *region = x->half;
    return TRM_OK;
}

/* ---- loads and loss ------------------------------------------------------------------- */

static trm_status lower_load_x(lower *l) {
    const trm_load_spec *ld = &l->r->load;
    trm_op_desc d = desc_of(l, 0, TRM_OP_LOAD_X);
    d.raw_type = ld->x_type;
    d.raw_hwc = ld->x_hwc;
    d.raw_stride = ld->x_stride;
    d.out_tokens = l->g->nodes[0].tokens;
    d.scale = ld->scale;
    d.mean = ld->mean;
    d.std = ld->std;
    d.norm_count = ld->norm_count;
    trm_lowered *o;
    EMIT(new_value_region(l, 0, &l->v[0].y));
    EMIT(emit(l, TRM_PHASE_LOAD, 0, &d, &o));
    use(l, o, TRM_ARG_Y, l->v[0].y);
    return TRM_OK;
}

/* Float targets lie as the output does, element for element in canonical order. */
static trm_status lower_load_y(lower *l, int *target) {
    const trm_load_spec *ld = &l->r->load;
    trm_op_desc d = {.kind = TRM_OP_LOAD_Y, .n = l->s->n, .first = l->s->first};
    d.in = d.out = ld->y_is_class ? ld->y : l->g->nodes[l->g->output].desc.out;
    d.raw_type = ld->y_type;
    d.raw_stride = ld->y_stride;
    d.out_tokens = ld->y_is_class;
    d.scale = ld->y_scale != 0 ? ld->y_scale : 1;
    d.mean = &ld->y_mean;
    d.norm_count = ld->y_mean != 0;
    const size_t size = ld->y_is_class ? sizeof(int32_t) : l->r->device->backend->float_size;
    trm_lowered *o;
    EMIT(new_region(l, l->s->n * trm_shape_count(&ld->y) * (int64_t)size, target));
    EMIT(emit(l, TRM_PHASE_LOAD, 0, &d, &o));
    use(l, o, TRM_ARG_Y, *target);
    return TRM_OK;
}

static trm_op_kind loss_op(trm_loss_kind k) {
    return k == TRM_LOSS_MSE ? TRM_OP_LOSS_MSE : k == TRM_LOSS_BCE ? TRM_OP_LOSS_BCE : TRM_OP_LOSS_CE;
}

static trm_status lower_loss(lower *l, int target) {
    const int out = l->g->output, rep = l->f[out].rep;
    trm_op_desc d = desc_of(l, out, loss_op(l->r->loss));
    d.in = d.out = l->g->nodes[out].desc.out;
    d.act = TRM_ACT_NONE;
    d.bias = false;
    d.smoothing = l->r->ce.smoothing;
    d.ignores = l->r->ce.ignores;
    d.ignore = l->r->ce.ignore;
    trm_lowered *o;
    if (l->s->train) EMIT(new_value_region(l, rep, &l->v[rep].grad));
    EMIT(emit(l, TRM_PHASE_FORWARD, out, &d, &o));
    use(l, o, TRM_ARG_X, l->v[rep].y);
    use(l, o, TRM_ARG_T, target);
    if (l->s->train) use(l, o, TRM_ARG_DX, l->v[rep].grad);
    return TRM_OK;
}

/* ---- forward -------------------------------------------------------------------------- */

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
static trm_status lower_stats(lower *l, int node) {
    if (!l->s->train) return TRM_OK;
    const trm_node *n = &l->g->nodes[node];
    trm_op_desc d = desc_of(l, node, TRM_OP_BN_STATS);
    d.half = half_bit(l, input_rep(l, node), TRM_ARG_X);
    trm_lowered *o;
    EMIT(emit(l, TRM_PHASE_FORWARD, node, &d, &o));
    use(l, o, TRM_ARG_X, input_value(l, node, 0)->y);
    fix(o, TRM_ARG_STAT, l->r->small + n->stat);
    return TRM_OK;
}

static trm_status lower_sum_stats(lower *l, int node) {
    if (!l->s->train) return TRM_OK;
    const trm_node *n = &l->g->nodes[node], *s = &l->g->nodes[n->in[0]];
    return emit_sum(l, TRM_PHASE_WAIT, n, s->stat, 2 * s->desc.in.dim[0] + 1);
}

/* The running statistics move once per micro-batch on every rank that knows the sums. */
static trm_status lower_running(lower *l, int node) {
    const trm_node *n = &l->g->nodes[node], *sum, *s = stats_node(l, node, &sum);
    trm_op_desc d = desc_of(l, node, TRM_OP_BN_RUN);
    trm_lowered *o;
    EMIT(emit(l, TRM_PHASE_FORWARD, node, &d, &o));
    fix(o, TRM_ARG_STAT, l->r->small + s->stat);
    fix(o, TRM_ARG_RUN_MEAN, at_param(l, l->r->state, n->run_mean));
    fix(o, TRM_ARG_RUN_VAR, at_param(l, l->r->state, n->run_var));
    return TRM_OK;
}

static void fix_batch_norm(const lower *l, trm_lowered *o, int node) {
    const trm_node *n = &l->g->nodes[node], *sum, *s = stats_node(l, node, &sum);
    fix(o, TRM_ARG_STAT, l->r->small + s->stat);
    fix(o, TRM_ARG_RUN_MEAN, at_param(l, l->r->state, n->run_mean));
    fix(o, TRM_ARG_RUN_VAR, at_param(l, l->r->state, n->run_var));
}

static trm_status lower_forward(lower *l, int node) {
    const trm_node *n = &l->g->nodes[node];
    const trm_fusion *f = &l->f[node];
    value *v = &l->v[node];
    trm_op_desc d = desc_of(l, node, forward_kind(n->kind));
    if (n->kind != TRM_NODE_ACT) d.act = f->act;
    d.residual = f->res >= 0;
    d.half = half_bit(l, node, TRM_ARG_Y);
    if (is_half(l, n)) d.half |= TRM_HALF(TRM_ARG_X) | TRM_HALF(TRM_ARG_W);
    if (n->kind == TRM_NODE_BN_APPLY) d.half |= half_bit(l, input_rep(l, node), TRM_ARG_X);
    if (f->res >= 0) d.half |= half_bit(l, f->res, TRM_ARG_RES);
    trm_lowered *o;
    int x;
    EMIT(factor(l, node, &x));
    EMIT(new_y_region(l, node, &v->y));
    EMIT(emit(l, TRM_PHASE_FORWARD, node, &d, &o));
    if (o->op->saved_bytes && v->saved < 0) EMIT(new_region(l, (int64_t)o->op->saved_bytes, &v->saved));
    if (n->kind == TRM_NODE_LINEAR && trm_act_from_input(f->act)) EMIT(new_value_region(l, node, &v->pre));
    use(l, o, TRM_ARG_X, x);
    if (n->kind == TRM_NODE_ADD) use(l, o, TRM_ARG_X2, input_value(l, node, 1)->y);
    use(l, o, TRM_ARG_Y, v->y);
    use(l, o, TRM_ARG_PRE, v->pre);
    use(l, o, TRM_ARG_SAVED, v->saved);
    if (f->res >= 0) use(l, o, TRM_ARG_RES, l->v[f->res].y);
    fix_weights(l, o, n);
    if (n->kind != TRM_NODE_BN_APPLY) return TRM_OK;
    fix_batch_norm(l, o, node);
    return l->s->train ? lower_running(l, node) : TRM_OK;
}

/* Input k of a concat and its place among the channels, as the description of an op. */
static trm_op_desc concat_part(const lower *l, int node, trm_op_kind kind, int k) {
    const trm_node *n = &l->g->nodes[node];
    trm_op_desc d = desc_of(l, node, kind);
    d.in = l->g->nodes[n->in[k]].desc.out;
    for (int i = 0; i < k; i++) {
        const trm_shape *x = &l->g->nodes[n->in[i]].desc.out;
        d.at += x->dim[trm_shape_channel_dim(x)];
    }
    return d;
}

/* Each input writes its channels. */
static trm_status lower_concat(lower *l, int node) {
    value *v = &l->v[node];
    EMIT(new_value_region(l, node, &v->y));
    for (int k = 0; k < l->g->nodes[node].n_in; k++) {
        const trm_op_desc d = concat_part(l, node, TRM_OP_CONCAT_FWD, k);
        trm_lowered *o;
        EMIT(emit(l, TRM_PHASE_FORWARD, node, &d, &o));
        use(l, o, TRM_ARG_X, input_value(l, node, k)->y);
        use(l, o, TRM_ARG_Y, v->y);
    }
    return TRM_OK;
}

/* What concat does backward: channels of the whole become those of the part. */
static trm_status lower_slice(lower *l, int node) {
    const trm_node *n = &l->g->nodes[node];
    trm_op_desc d = desc_of(l, node, TRM_OP_CONCAT_BWD);
    trm_lowered *o;
    d.in = n->desc.out;
    d.out = l->g->nodes[n->in[0]].desc.out;
    EMIT(new_value_region(l, node, &l->v[node].y));
    EMIT(emit(l, TRM_PHASE_FORWARD, node, &d, &o));
    use(l, o, TRM_ARG_DY, input_value(l, node, 0)->y);
    use(l, o, TRM_ARG_DX, l->v[node].y);
    return TRM_OK;
}

static trm_status lower_node_forward(lower *l, int node) {
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

/* ---- backward ------------------------------------------------------------------------- */

/* Region for the gradient of input k and whether the op must add to it. */
static trm_status gradient_target(lower *l, int node, int k, int *region, bool *accumulate) {
    const int rep = l->f[l->g->nodes[node].in[k]].rep;
    value *v = &l->v[rep];
    *accumulate = v->grad >= 0;
    if (v->grad < 0) EMIT(new_value_region(l, rep, &v->grad));
    *region = v->grad;
    return TRM_OK;
}

/* Gradient region `from` flows unchanged into value `rep`: hand it on, copy it, or add it. */
static trm_status pass_on(lower *l, int node, int rep, int from, bool hand_on) {
    value *v = &l->v[rep];
    if (!v->needs_grad) return TRM_OK;
    if (v->grad < 0 && hand_on) {
        v->grad = from;
        return TRM_OK;
    }
    trm_op_desc d = {.kind = v->grad < 0 ? TRM_OP_COPY : TRM_OP_ADD_INTO, .n = l->s->n};
    d.in = d.out = l->g->nodes[rep].desc.out;
    if (v->grad < 0) EMIT(new_value_region(l, rep, &v->grad));
    trm_lowered *o;
    EMIT(emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    use(l, o, TRM_ARG_DX, v->grad);
    use(l, o, TRM_ARG_DY, from);
    return TRM_OK;
}

/* The gradient behind a fused activation becomes, in place, the one before it; of a product in bfloat16, in the form that it
 * multiplies. */
static trm_status lower_fused_act(lower *l, int node) {
    const trm_act act = l->f[node].act;
    value *v = &l->v[node];
    if (act == TRM_ACT_NONE) return TRM_OK;
    trm_op_desc d = {.kind = TRM_OP_ACT_BWD, .n = l->s->n, .act = act};
    d.in = d.out = l->g->nodes[node].desc.out;
    const int dy = v->grad;
    if (is_half(l, &l->g->nodes[node])) {
        d.half = TRM_HALF(TRM_ARG_DX);
        v->grad_half = true;
        EMIT(new_half_region(l, node, &v->grad));
    }
    trm_lowered *o;
    EMIT(emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    if (trm_act_from_input(act))
        use(l, o, TRM_ARG_X, v->pre);
    else
        use(l, o, TRM_ARG_Y, v->y);
    use(l, o, TRM_ARG_DY, dy);
    use(l, o, TRM_ARG_DX, v->grad);
    return TRM_OK;
}

/* linear and convolutions: weight gradient, then input gradient. */
static trm_status lower_product_backward(lower *l, int node, trm_op_kind bwd_x, trm_op_kind bwd_w) {
    const trm_node *n = &l->g->nodes[node];
    const value *x = input_value(l, node, 0), *v = &l->v[node];
    const bool half = is_half(l, n);
    EMIT(lower_fused_act(l, node));
    int dy = v->grad;
    if (half && !v->grad_half) EMIT(to_half(l, TRM_PHASE_BACKWARD, node, node, v->grad, &dy));
    trm_op_desc d = desc_of(l, node, bwd_w);
    d.accumulate = gradient_written(l, n);
    if (half) d.half = TRM_HALF(TRM_ARG_X) | TRM_HALF(TRM_ARG_DY);
    trm_lowered *o;
    EMIT(emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    use(l, o, TRM_ARG_X, half ? x->half : x->y);
    use(l, o, TRM_ARG_DY, dy);
    fix_gradients(l, o, n);
    if (!x->needs_grad) return TRM_OK;
    int dx;
    d.kind = bwd_x;
    d.bias = false;
    if (half) d.half = TRM_HALF(TRM_ARG_W) | TRM_HALF(TRM_ARG_DY);
    EMIT(gradient_target(l, node, 0, &dx, &d.accumulate));
    EMIT(emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    use(l, o, TRM_ARG_DY, dy);
    use(l, o, TRM_ARG_DX, dx);
    fix_weight(l, o, n);
    return TRM_OK;
}

static trm_status lower_batch_norm_backward(lower *l, int node) {
    const trm_node *n = &l->g->nodes[node], *sum, *s = stats_node(l, node, &sum);
    const value *x = input_value(l, node, 0), *v = &l->v[node];
    trm_op_desc d = desc_of(l, node, TRM_OP_BN_GRAD_SUMS);
    const int rep = input_rep(l, node);
    d.act = l->f[node].act;
    d.accumulate = gradient_written(l, n);
    d.half = half_bit(l, rep, TRM_ARG_X) | half_bit(l, node, TRM_ARG_Y);
    trm_lowered *o;
    EMIT(emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    use(l, o, TRM_ARG_X, x->y);
    use(l, o, TRM_ARG_Y, v->y);
    use(l, o, TRM_ARG_DY, v->grad);
    fix(o, TRM_ARG_STAT, l->r->small + s->stat);
    fix(o, TRM_ARG_GSTAT, l->r->small + s->gstat);
    fix_gradients(l, o, n);
    if (!x->needs_grad) return TRM_OK;
    if (sum) EMIT(emit_sum(l, TRM_PHASE_WAIT, sum, s->gstat, 2 * s->desc.in.dim[0]));
    int dx;
    d = desc_of(l, node, TRM_OP_BN_GRAD_APPLY);
    d.half = half_bit(l, rep, TRM_ARG_X);
    if (l->form[rep].grad_half) {
        d.half |= TRM_HALF(TRM_ARG_DX);
        l->v[rep].grad_half = true;
        EMIT(new_half_region(l, rep, &l->v[rep].grad));
        dx = l->v[rep].grad;
    } else {
        EMIT(gradient_target(l, node, 0, &dx, &d.accumulate));
    }
    EMIT(emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    use(l, o, TRM_ARG_X, x->y);
    use(l, o, TRM_ARG_DY, v->grad);
    use(l, o, TRM_ARG_DX, dx);
    fix(o, TRM_ARG_STAT, l->r->small + s->stat);
    fix(o, TRM_ARG_GSTAT, l->r->small + s->gstat);
    fix(o, TRM_ARG_W, at_param(l, l->r->weights, n->weight));
    return TRM_OK;
}

static bool reads_x(trm_op_kind k) {
    return k != TRM_OP_FLATTEN_BWD && k != TRM_OP_UNFLATTEN_BWD && k != TRM_OP_SOFTMAX_BWD;
}
static bool reads_y(trm_op_kind k) {
    return k == TRM_OP_POOL_BWD || k == TRM_OP_ATTN_BWD || k == TRM_OP_SOFTMAX_BWD;
}

/* Ops that read DY (and X, Y, SAVED) and write DX, with weights where they have them. */
static trm_status lower_plain_backward(lower *l, int node, trm_op_kind kind) {
    const trm_node *n = &l->g->nodes[node];
    const value *x = input_value(l, node, 0), *v = &l->v[node];
    trm_op_desc d = desc_of(l, node, kind);
    d.accumulate_w = gradient_written(l, n);
    int dx;
    EMIT(gradient_target(l, node, 0, &dx, &d.accumulate));
    trm_lowered *o;
    EMIT(emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    use(l, o, TRM_ARG_DY, v->grad);
    use(l, o, TRM_ARG_DX, dx);
    if (reads_x(kind)) use(l, o, TRM_ARG_X, x->y);
    if (reads_y(kind)) use(l, o, TRM_ARG_Y, v->y);
    use(l, o, TRM_ARG_SAVED, v->saved);
    fix(o, TRM_ARG_W, at_param(l, l->r->weights, n->weight));
    if (n->weight >= 0) fix_gradients(l, o, n);
    return TRM_OK;
}

/* Element-wise ops work in place on the gradient where nothing was written to their input's yet. */
static trm_status lower_elementwise_backward(lower *l, int node, trm_op_kind kind) {
    const int rep = l->f[l->g->nodes[node].in[0]].rep;
    value *x = &l->v[rep], *v = &l->v[node];
    trm_op_desc d = desc_of(l, node, kind);
    d.accumulate = x->grad >= 0;
    if (x->grad < 0) x->grad = v->grad;
    trm_lowered *o;
    EMIT(emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    use(l, o, TRM_ARG_DY, v->grad);
    use(l, o, TRM_ARG_DX, x->grad);
    if (kind != TRM_OP_ACT_BWD) return TRM_OK;
    if (trm_act_from_input(d.act))
        use(l, o, TRM_ARG_X, x->y);
    else
        use(l, o, TRM_ARG_Y, v->y);
    return TRM_OK;
}

/* embedding and positional embedding: a weight gradient only. */
static trm_status lower_table_backward(lower *l, int node, trm_op_kind kind) {
    const trm_node *n = &l->g->nodes[node];
    trm_op_desc d = desc_of(l, node, kind);
    d.accumulate = gradient_written(l, n);
    trm_lowered *o;
    EMIT(emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
    use(l, o, TRM_ARG_DY, l->v[node].grad);
    if (kind == TRM_OP_EMBED_BWD) use(l, o, TRM_ARG_X, input_value(l, node, 0)->y);
    fix_gradients(l, o, n);
    if (kind == TRM_OP_EMBED_BWD) return TRM_OK;
    return pass_on(l, node, l->f[n->in[0]].rep, l->v[node].grad, true);
}

static trm_status lower_add_backward(lower *l, int node) {
    const trm_node *n = &l->g->nodes[node];
    const int a = l->f[n->in[0]].rep, b = l->f[n->in[1]].rep, dy = l->v[node].grad;
    EMIT(lower_fused_act(l, node));
    /* The second operand first: it copies or adds; then the first may take the region itself. */
    EMIT(pass_on(l, node, b, dy, false));
    return pass_on(l, node, a, dy, a != b);
}

static trm_status lower_concat_backward(lower *l, int node) {
    for (int k = 0; k < l->g->nodes[node].n_in; k++) {
        if (!input_value(l, node, k)->needs_grad) continue;
        trm_op_desc d = concat_part(l, node, TRM_OP_CONCAT_BWD, k);
        trm_lowered *o;
        int dx;
        EMIT(gradient_target(l, node, k, &dx, &d.accumulate));
        EMIT(emit(l, TRM_PHASE_BACKWARD, node, &d, &o));
        use(l, o, TRM_ARG_DY, l->v[node].grad);
        use(l, o, TRM_ARG_DX, dx);
    }
    return TRM_OK;
}

static trm_status lower_op_backward(lower *l, int node) {
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

static trm_status lower_node_backward(lower *l, int node) {
    const value *v = &l->v[node];
    if (l->f[node].rep != node || v->grad < 0 || !v->needs_grad) return TRM_OK;
    EMIT(lower_op_backward(l, node));
    /* The residual's gradient is the one before the activation; every op of this node has read it by now. */
    return l->f[node].res >= 0 ? pass_on(l, node, l->f[node].res, v->grad, true) : TRM_OK;
}

/* ---- the pass ------------------------------------------------------------------------- */

static void find_needs_grad(lower *l) {
    for (int i = 0; i < l->g->n_nodes; i++) {
        const trm_node *n = &l->g->nodes[i];
        bool needs = n->weight >= 0;
        for (int k = 0; k < n->n_in; k++) needs = needs || l->v[l->f[n->in[k]].rep].needs_grad;
        value *v = &l->v[l->f[i].rep];
        v->needs_grad = v->needs_grad || needs;
    }
}

/* Values that nobody reads would have empty lifetimes; give them the instruction that writes them. */
static trm_status place(trm_pass *p) {
    for (int i = 0; i < p->n_regions; i++)
        if (p->regions[i].first < 0) p->regions[i].first = p->regions[i].last = 0;
    p->regions[p->output_region].last = p->n_list; /* may be read after the pass */
    p->arena_bytes = trm_arena_place(p->regions, p->n_regions);
    return p->arena_bytes < 0 ? TRM_MEMORY : TRM_OK;
}

static trm_status lower_all(lower *l) {
    const int n = l->g->n_nodes;
    int target;
    trm_fuse(l->g, l->s->train, l->f);
    trm_half_forms(l->g, l->s->half, l->f, l->form);
    for (int i = 0; i < n; i++) l->v[i] = (value){.y = -1, .pre = -1, .saved = -1, .half = -1, .grad = -1};
    find_needs_grad(l);
    for (int i = 0; i < l->g->n_params; i++) {
        l->written[i] = l->s->accumulate;
        l->p->last_write[i] = -1;
    }
    EMIT(lower_load_x(l));
    EMIT(lower_load_y(l, &target));
    for (int i = 0; i < n; i++) EMIT(lower_node_forward(l, i));
    EMIT(lower_loss(l, target));
    for (int i = n - 1; i >= 0 && l->s->train; i--) EMIT(lower_node_backward(l, i));
    l->p->output_region = l->v[l->f[l->g->output].rep].y;
    return place(l->p);
}

trm_status trm_pass_lower(const trm_runner_spec *r, const trm_pass_spec *s, trm_pass **out) {
    const trm_graph *g = r->graph;
    trm_status status = TRM_MEMORY;
    lower l = {.r = r, .g = g, .s = s, .p = trm_alloc(sizeof *l.p, "program")};
    l.f = trm_alloc_array((size_t)g->n_nodes, sizeof *l.f, "program");
    l.v = trm_alloc_array((size_t)g->n_nodes, sizeof *l.v, "program");
    l.form = trm_alloc_array((size_t)g->n_nodes, sizeof *l.form, "program");
    l.written = trm_alloc_array((size_t)g->n_params + 1, sizeof *l.written, "program");
    if (!l.p || !l.f || !l.v || !l.form || !l.written) goto out;
    l.p->n = s->n;
    l.p->last_write = trm_alloc_array((size_t)g->n_params + 1, sizeof(int), "program");
    if (l.p->last_write) status = lower_all(&l);
out:
    trm_free(l.f);
    trm_free(l.v);
    trm_free(l.form);
    trm_free(l.written);
    if (status == TRM_OK)
        *out = l.p;
    else
        trm_pass_free(l.p);
    return status;
}

trm_status trm_pass_bind(trm_pass *p, char *arena, void *scratch) {
    for (int i = 0; i < p->n_list; i++) {
        trm_lowered *o = &p->list[i];
        if (o->kind != TRM_LOWERED_OP) continue;
        void *args[TRM_ARG_COUNT];
        for (int a = 0; a < TRM_ARG_COUNT; a++)
            args[a] = o->region[a] >= 0 ? arena + p->regions[o->region[a]].offset : o->fixed[a];
        TRM_TRY(trm_op_bind(o->op, args, scratch));
    }
    return TRM_OK;
}

void trm_pass_free(trm_pass *p) {
    if (!p) return;
    for (int i = 0; i < p->n_list; i++) trm_op_destroy(p->list[i].op);
    trm_free(p->list);
    trm_free(p->regions);
    trm_free(p->last_write);
    trm_free(p);
}
