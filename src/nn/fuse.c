/* Which nodes become one op: an activation into its producer, an addition into the producer of its later operand, and
 * nodes that change nothing in memory into their input.  Decided before lowering, on the graph alone. */
#include "fuse.h"

static void count_uses(const trm_graph *g, trm_fusion *f) {
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++) f[g->nodes[i].in[k]].uses++;
    f[g->output].uses++;
}

/* A flatten moves nothing where there is one channel or one pixel, or channels do not come first. */
static bool flatten_is_view(const trm_shape *x) {
    return !trm_shape_channels_first(x) || x->dim[0] == 1 || x->dim[0] == trm_shape_count(x);
}

static bool is_view(const trm_node *n, bool train) {
    if (n->kind == TRM_NODE_DROPOUT) return !train || n->desc.p == 0;
    if (n->kind == TRM_NODE_FLATTEN) return flatten_is_view(&n->desc.in);
    if (n->kind == TRM_NODE_UNFLATTEN) return flatten_is_view(&n->desc.out);
    return n->kind == TRM_NODE_SUM_STATS || n->kind == TRM_NODE_TRANSPOSE;
}

/* May the op of node c also apply `act`? */
static bool takes_act(const trm_node *c, const trm_fusion *f, trm_act act) {
    if (f->act != TRM_ACT_NONE) return false;
    switch (c->kind) {
    case TRM_NODE_LINEAR: return f->res < 0;
    case TRM_NODE_CONV:
    case TRM_NODE_BN_APPLY:
    case TRM_NODE_ADD: return act == TRM_ACT_RELU;
    default: return false;
    }
}

static void fuse_act(const trm_graph *g, trm_fusion *f, int i) {
    const int x = g->nodes[i].in[0], c = f[x].rep;
    const bool whole = x == c || g->nodes[x].kind == TRM_NODE_ADD; /* x is c's own value, not a view of it */
    if (!whole || f[x].uses != 1 || !takes_act(&g->nodes[c], &f[c], g->nodes[i].desc.act)) return;
    f[c].act = g->nodes[i].desc.act;
    f[i].rep = c;
}

static bool takes_residual(const trm_graph *g, const trm_fusion *f, int x, int other) {
    const trm_node_kind k = g->nodes[x].kind;
    return (k == TRM_NODE_LINEAR || k == TRM_NODE_BN_APPLY) && f[x].rep == x && f[x].uses == 1 &&
           f[x].act == TRM_ACT_NONE && f[x].res < 0 && f[other].rep < x;
}

static void fuse_add(const trm_graph *g, trm_fusion *f, int i) {
    const int a = g->nodes[i].in[0], b = g->nodes[i].in[1];
    for (int k = 0; k < 2; k++) {
        const int x = k ? a : b, other = k ? b : a;
        if (!takes_residual(g, f, x, other)) continue;
        f[x].res = f[other].rep;
        f[i].rep = x;
        return;
    }
}

void trm_fuse(const trm_graph *g, bool train, trm_fusion *f) {
    for (int i = 0; i < g->n_nodes; i++) f[i] = (trm_fusion){.rep = i, .res = -1};
    count_uses(g, f);
    for (int i = 0; i < g->n_nodes; i++) {
        const trm_node *n = &g->nodes[i];
        if (is_view(n, train))
            f[i].rep = f[n->in[0]].rep;
        else if (n->kind == TRM_NODE_ACT)
            fuse_act(g, f, i);
        else if (n->kind == TRM_NODE_ADD)
            fuse_add(g, f, i);
    }
}
