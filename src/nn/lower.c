/* Lowering: graph -> the ops of one micro-batch, forward and backward, with the regions of the arena that they use.
 *
 * The backward pass goes through the nodes in reverse.  A value's gradient lives in one region; the first op that
 * contributes to it overwrites, later ones add, and where a gradient passes through unchanged (residual, position, view) the
 * region is handed on instead of copied. */
#include "lower_impl.h"
#include <string.h>

/* ---- loads and loss ------------------------------------------------------------------- */

static trm_status lower_load_x(trm_lower *l) {
    const trm_load_spec *ld = &l->r->load;
    trm_op_desc d = trm_lower_desc_of(l, 0, TRM_OP_LOAD_X);
    d.raw_type = ld->x_type;
    d.raw_hwc = ld->x_hwc;
    d.raw_stride = ld->x_stride;
    d.out_tokens = l->g->nodes[0].tokens;
    d.scale = ld->scale;
    d.mean = ld->mean;
    d.std = ld->std;
    d.norm_count = ld->norm_count;
    trm_lowered *o;
    TRM_TRY(trm_lower_value_region(l, 0, &l->v[0].y));
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_LOAD, 0, &d, &o));
    trm_lower_use(l, o, TRM_ARG_Y, l->v[0].y);
    return TRM_OK;
}

/* Float targets lie as the output does, element for element in canonical order. */
static trm_status lower_load_y(trm_lower *l, int *target) {
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
    TRM_TRY(trm_lower_region(l, l->s->n * trm_shape_count(&ld->y) * (int64_t)size, target));
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_LOAD, 0, &d, &o));
    trm_lower_use(l, o, TRM_ARG_Y, *target);
    return TRM_OK;
}

static trm_op_kind loss_op(trm_loss_kind k) {
    return k == TRM_LOSS_MSE ? TRM_OP_LOSS_MSE : k == TRM_LOSS_BCE ? TRM_OP_LOSS_BCE : TRM_OP_LOSS_CE;
}

static trm_status lower_loss(trm_lower *l, int target) {
    const int out = l->g->output, rep = l->f[out].rep;
    trm_op_desc d = trm_lower_desc_of(l, out, loss_op(l->r->loss));
    d.in = d.out = l->g->nodes[out].desc.out;
    d.act = TRM_ACT_NONE;
    d.bias = false;
    d.smoothing = l->r->ce.smoothing;
    d.ignores = l->r->ce.ignores;
    d.ignore = l->r->ce.ignore;
    trm_lowered *o;
    if (l->s->train) TRM_TRY(trm_lower_value_region(l, rep, &l->v[rep].grad));
    TRM_TRY(trm_lower_emit(l, TRM_PHASE_FORWARD, out, &d, &o));
    trm_lower_use(l, o, TRM_ARG_X, l->v[rep].y);
    trm_lower_use(l, o, TRM_ARG_T, target);
    if (l->s->train) trm_lower_use(l, o, TRM_ARG_DX, l->v[rep].grad);
    return TRM_OK;
}

/* ---- the pass ------------------------------------------------------------------------- */

static void find_needs_grad(trm_lower *l) {
    for (int i = 0; i < l->g->n_nodes; i++) {
        const trm_node *n = &l->g->nodes[i];
        bool needs = n->weight >= 0;
        for (int k = 0; k < n->n_in; k++) needs = needs || l->v[l->f[n->in[k]].rep].needs_grad;
        trm_value *v = &l->v[l->f[i].rep];
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

static trm_status lower_all(trm_lower *l) {
    const int n = l->g->n_nodes;
    int target;
    trm_fuse(l->g, l->s->train, l->f);
    trm_half_forms(l->g, l->s->half, l->f, l->form);
    for (int i = 0; i < n; i++)
        l->v[i] = (trm_value){.y = -1, .pre = -1, .saved = -1, .half = -1, .grad = -1};
    find_needs_grad(l);
    for (int i = 0; i < l->g->n_params; i++) {
        l->written[i] = l->s->accumulate;
        l->p->last_write[i] = -1;
    }
    TRM_TRY(lower_load_x(l));
    TRM_TRY(lower_load_y(l, &target));
    for (int i = 0; i < n; i++) TRM_TRY(trm_lower_node_forward(l, i));
    TRM_TRY(lower_loss(l, target));
    for (int i = n - 1; i >= 0 && l->s->train; i--) TRM_TRY(trm_lower_node_backward(l, i));
    l->p->output_region = l->v[l->f[l->g->output].rep].y;
    return place(l->p);
}

trm_status trm_pass_lower(const trm_runner_spec *r, const trm_pass_spec *s, trm_pass **out) {
    const trm_graph *g = r->graph;
    trm_status status = TRM_MEMORY;
    trm_lower l = {.r = r, .g = g, .s = s, .p = trm_alloc(sizeof *l.p, "program")};
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
