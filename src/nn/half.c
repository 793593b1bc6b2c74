/* Which layers multiply in bfloat16, the copies of their weights, and which values lie in no other form. */
#include <string.h>

#include "fuse.h"
#include "runner_impl.h"

/* ---- who ------------------------------------------------------------------------------ */

static bool gains(const trm_runner_spec *s, const trm_node *n) {
    trm_op_desc d = n->desc;
    if (n->kind != TRM_NODE_LINEAR && n->kind != TRM_NODE_CONV) return false;
    d.kind = n->kind == TRM_NODE_LINEAR ? TRM_OP_LINEAR_FWD : TRM_OP_CONV_FWD;
    d.n = 1;
    return trm_op_half_pays(s->device, &d);
}

/* Gives each weight of such a layer its place; tied ones share it. Returns the elements of all. */
static int64_t place(const trm_runner_spec *s, trm_half_weights *h) {
    const trm_graph *g = s->graph;
    int64_t used = 0;
    for (int i = 0; i < g->n_params; i++) h->at[i] = -1;
    for (int i = 0; i < g->n_nodes; i++) {
        const trm_node *n = &g->nodes[i];
        if (n->weight < 0 || h->at[n->weight] >= 0 || !gains(s, n)) continue;
        h->at[n->weight] = used;
        h->nodes[h->n_casts++] = i;
        used += (int64_t)trm_round_up((size_t)g->params[n->weight].count, TRM_ALIGN / sizeof *h->copy);
    }
    return used;
}

/* ---- the copies -------------------------------------------------------------------------- */

static trm_status plan_cast(const trm_runner_spec *s, const trm_half_weights *h, int node, trm_op **out) {
    const int weight = s->graph->nodes[node].weight;
    const trm_param *p = &s->graph->params[weight];
    trm_op_desc d = {.kind = TRM_OP_CAST, .n = 1, .half = TRM_HALF(TRM_ARG_Y)};
    d.in = d.out = trm_shape_of(1, p->count);
    TRM_TRY(trm_op_plan(s->device, &d, out));
    void *args[TRM_ARG_COUNT] = {0};
    args[TRM_ARG_X] = (float *)s->weights + p->offset;
    args[TRM_ARG_Y] = h->copy + h->at[weight];
    return trm_op_bind(*out, args, NULL);
}

trm_status trm_half_create(const trm_runner_spec *s, trm_half_weights *h) {
    const trm_graph *g = s->graph;
    h->at = trm_alloc_array((size_t)g->n_params + 1, sizeof *h->at, "weights in bfloat16");
    h->nodes = trm_alloc_array((size_t)g->n_params + 1, sizeof *h->nodes, "weights in bfloat16");
    h->casts = trm_alloc_array((size_t)g->n_params + 1, sizeof *h->casts, "weights in bfloat16");
    if (!h->at || !h->nodes || !h->casts) return TRM_MEMORY;
    const int64_t count = place(s, h);
    h->copy = trm_alloc_array((size_t)count + 1, sizeof *h->copy, "weights in bfloat16");
    if (!h->copy) return TRM_MEMORY;
    for (int i = 0; i < h->n_casts; i++) TRM_TRY(plan_cast(s, h, h->nodes[i], &h->casts[i]));
    return TRM_OK;
}

void trm_half_free(trm_half_weights *h) {
    for (int i = 0; h->casts && i < h->n_casts; i++) trm_op_destroy(h->casts[i]);
    trm_free(h->at);
    trm_free(h->nodes);
    trm_free(h->casts);
    trm_free(h->copy);
    memset(h, 0, sizeof *h);
}

bool trm_half_product(const trm_half_weights *h, const trm_node *n) {
    return h && (n->kind == TRM_NODE_LINEAR || n->kind == TRM_NODE_CONV) && h->at[n->weight] >= 0;
}

/* ---- values that lie as bfloat16 ------------------------------------------------------------ */

/* A value lies as bfloat16 only where who makes it can write it so and all who read it, forward and backward, take it so; then
 * nothing is cast, and memory-bound ops move half as much. */
typedef struct forms {
    const trm_graph *g;
    const trm_half_weights *h;
    const trm_fusion *f;
    trm_form *form;
} forms;

static bool writes_half(const forms *s, int rep) {
    const trm_node *n = &s->g->nodes[rep];
    const trm_fusion *f = &s->f[rep];
    switch (n->kind) {
    case TRM_NODE_LAYER_NORM:
    case TRM_NODE_BN_APPLY: return true;
    case TRM_NODE_CONV:
        return trm_half_product(s->h, n) && f->act == TRM_ACT_NONE; /* else Y is read for its slope */
    case TRM_NODE_LINEAR: return trm_half_product(s->h, n) && trm_act_from_input(f->act);
    default: return false;
    }
}

/* Input k of node i. */
static bool reads_half(const forms *s, int i, int k) {
    const trm_node *n = &s->g->nodes[i];
    if (n->kind == TRM_NODE_ADD && s->f[i].rep != i)
        return s->g->nodes[s->f[i].rep].kind == TRM_NODE_BN_APPLY;
    if (n->kind == TRM_NODE_BN_STATS) return true;
    return (n->kind == TRM_NODE_BN_APPLY && k == 0) || trm_half_product(s->h, n);
}

/* Input k of node i as a reader of its value; a node that shares its input's memory does not read it. */
static void look_at_reader(const forms *s, int i, int k) {
    const trm_node *n = &s->g->nodes[i];
    const int rep = s->f[n->in[k]].rep;
    trm_form *form = &s->form[rep];
    if (s->f[i].rep == rep) return;
    if (!reads_half(s, i, k)) form->y_half = false;
    if (trm_half_product(s->h, n)) form->multiplied = true;
    if (n->kind == TRM_NODE_BN_STATS) return; /* its gradient comes with BN_APPLY's */
    form->readers++;
    form->norm_reads = n->kind == TRM_NODE_BN_APPLY;
}

static void settle(const forms *s, int rep) {
    const trm_fusion *f = &s->f[rep];
    const bool product = trm_half_product(s->h, &s->g->nodes[rep]);
    trm_form *form = &s->form[rep];
    form->y_half = form->y_half && (product || form->multiplied);
    form->grad_half =
        product && f->act == TRM_ACT_NONE && f->res < 0 && form->readers == 1 && form->norm_reads;
}

void trm_half_forms(const trm_graph *g, const trm_half_weights *h, const trm_fusion *f, trm_form *form) {
    const forms s = {g, h, f, form};
    memset(form, 0, (size_t)g->n_nodes * sizeof *form);
    if (!h) return;
    for (int i = 0; i < g->n_nodes; i++) form[i].y_half = f[i].rep == i && writes_half(&s, i);
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++) look_at_reader(&s, i, k);
    for (int i = 0; i < g->n_nodes; i++) settle(&s, i);
    trm_form *out = &form[f[g->output].rep];
    out->y_half = out->grad_half = false; /* the loss reads it and writes its gradient */
}
