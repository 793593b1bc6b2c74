/* emit: regions of the arena, instructions, and the memory that they are fixed to. */
#include "lower_impl.h"
#include <string.h>

/* ---- regions and instructions -------------------------------------------------------- */

trm_status trm_lower_region(trm_lower *l, int64_t bytes, int *out) {
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

trm_status trm_lower_value_region(trm_lower *l, int node, int *out) {
    const trm_node *n = &l->g->nodes[node];
    const size_t size = n->tokens ? sizeof(int32_t) : l->r->device->backend->float_size;
    return trm_lower_region(l, l->s->n * trm_shape_count(&n->desc.out) * (int64_t)size, out);
}

trm_status trm_lower_half_region(trm_lower *l, int node, int *out) {
    const int64_t count = l->s->n * trm_shape_count(&l->g->nodes[node].desc.out);
    return trm_lower_region(l, count * (int64_t)sizeof(uint16_t), out);
}

trm_status trm_lower_y_region(trm_lower *l, int node, int *out) {
    return l->form[node].y_half ? trm_lower_half_region(l, node, out) : trm_lower_value_region(l, node, out);
}

static trm_lowered *new_lowered(trm_lower *l, trm_lowered_kind kind, trm_phase phase, int node) {
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

trm_status trm_lower_emit(trm_lower *l, trm_phase phase, int node, const trm_op_desc *desc,
                          trm_lowered **out) {
    trm_lowered *o = new_lowered(l, TRM_LOWERED_OP, phase, node);
    if (!o) return TRM_MEMORY;
    trm_status s = trm_op_plan(l->r->device, desc, &o->op);
    if (s != TRM_OK) return trm_prefix(s, "layer '%s'", l->g->nodes[node].name);
    l->p->scratch_bytes = trm_max64(l->p->scratch_bytes, (int64_t)o->op->scratch_bytes);
    *out = o;
    return TRM_OK;
}

void trm_lower_use(trm_lower *l, trm_lowered *o, trm_arg arg, int region) {
    if (region < 0) return;
    const int at = (int)(o - l->p->list);
    trm_region *r = &l->p->regions[region];
    o->region[arg] = region;
    if (r->first < 0) r->first = at;
    r->last = at;
}

void trm_lower_fix(trm_lowered *o, trm_arg arg, void *at) { o->fixed[arg] = at; }

trm_status trm_lower_emit_sum(trm_lower *l, trm_phase phase, const trm_node *comm, int64_t offset,
                              int64_t count) {
    trm_lowered *o = new_lowered(l, TRM_LOWERED_SUM, phase, trm_node_id(l->g, comm));
    if (!o) return TRM_MEMORY;
    o->group = comm->group;
    o->offset = offset;
    o->count = count;
    return TRM_OK;
}

/* ---- fixed memory --------------------------------------------------------------------- */

void *trm_lower_at_param(const trm_lower *l, void *space, int param) {
    if (param < 0 || !space) return NULL;
    return (char *)space + (size_t)l->g->params[param].offset * l->r->device->backend->float_size;
}

bool trm_lower_is_half(const trm_lower *l, const trm_node *n) { return trm_half_product(l->s->half, n); }

uint32_t trm_lower_half_bit(const trm_lower *l, int rep, trm_arg arg) {
    return l->form[rep].y_half ? TRM_HALF(arg) : 0;
}

void trm_lower_fix_weight(const trm_lower *l, trm_lowered *o, const trm_node *n) {
    if (trm_lower_is_half(l, n))
        trm_lower_fix(o, TRM_ARG_W, l->s->half->copy + l->s->half->at[n->weight]);
    else
        trm_lower_fix(o, TRM_ARG_W, trm_lower_at_param(l, l->r->weights, n->weight));
}

void trm_lower_fix_weights(const trm_lower *l, trm_lowered *o, const trm_node *n) {
    trm_lower_fix_weight(l, o, n);
    trm_lower_fix(o, TRM_ARG_B, trm_lower_at_param(l, l->r->weights, n->bias));
}

void trm_lower_fix_gradients(trm_lower *l, trm_lowered *o, const trm_node *n) {
    const int at = (int)(o - l->p->list), param[2] = {n->weight, n->bias};
    trm_lower_fix(o, TRM_ARG_DW, trm_lower_at_param(l, l->r->grads, n->weight));
    trm_lower_fix(o, TRM_ARG_DB, trm_lower_at_param(l, l->r->grads, n->bias));
    for (int i = 0; i < 2; i++) {
        if (param[i] < 0) continue;
        l->written[param[i]] = true;
        l->p->last_write[param[i]] = at;
    }
}

bool trm_lower_gradient_written(const trm_lower *l, const trm_node *n) {
    return n->weight >= 0 && l->written[n->weight];
}

trm_op_desc trm_lower_desc_of(const trm_lower *l, int node, trm_op_kind kind) {
    trm_op_desc d = l->g->nodes[node].desc;
    d.kind = kind;
    d.n = l->s->n;
    d.first = l->s->first;
    d.train = l->s->train;
    d.seed = l->r->seed;
    return d;
}

int trm_lower_input_rep(const trm_lower *l, int node) { return l->f[l->g->nodes[node].in[0]].rep; }

trm_value *trm_lower_input_value(const trm_lower *l, int node, int k) {
    return &l->v[l->f[l->g->nodes[node].in[k]].rep];
}

const trm_node *trm_lower_stats_node(const trm_lower *l, int apply, const trm_node **sum) {
    const trm_node *s = &l->g->nodes[l->g->nodes[apply].in[1]];
    *sum = NULL;
    if (s->kind == TRM_NODE_SUM_STATS) {
        *sum = s;
        s = &l->g->nodes[s->in[0]];
    }
    return s;
}

/* ---- bfloat16 --------------------------------------------------------------------------- */

trm_status trm_lower_to_half(trm_lower *l, trm_phase phase, int node, int rep, int region, int *out) {
    trm_op_desc d = {.kind = TRM_OP_CAST, .n = l->s->n, .half = TRM_HALF(TRM_ARG_Y)};
    d.in = d.out = l->g->nodes[rep].desc.out;
    trm_lowered *o;
    TRM_TRY(trm_lower_half_region(l, rep, out));
    TRM_TRY(trm_lower_emit(l, phase, node, &d, &o));
    trm_lower_use(l, o, TRM_ARG_X, region);
    trm_lower_use(l, o, TRM_ARG_Y, *out);
    return TRM_OK;
}

trm_status trm_lower_factor(trm_lower *l, int node, int *region) {
    const trm_node *n = &l->g->nodes[node];
    const int rep = l->f[n->in[0]].rep;
    trm_value *x = &l->v[rep];
    *region = x->y;
    if (!trm_lower_is_half(l, n)) return TRM_OK;
    if (l->form[rep].y_half) x->half = x->y;
    if (x->half < 0) TRM_TRY(trm_lower_to_half(l, TRM_PHASE_FORWARD, node, rep, x->y, &x->half));
    *region = x->half;
    return TRM_OK;
}
