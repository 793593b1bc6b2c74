/* concat: several values side by side, along the channels where they come first, else along the last dimension. */
#include "nn_impl.h"

static trm_status wrong_shape(const trm_graph *g, const char *name, int first, int other) {
    char a[80], b[80];
    return trm_fail(TRM_JOB,
                    "layer '%s': concat joins values of shapes %s ('%s') and %s ('%s'); they may differ in "
                    "their channels only",
                    name, trm_node_shape_text(&g->nodes[first], a), g->nodes[first].name,
                    trm_node_shape_text(&g->nodes[other], b), g->nodes[other].name);
}

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    int of[TRM_MAX_INPUTS];
    for (int i = 0; i < a->n_in; i++) of[i] = in[i];
    TRM_TRY(trm_graph_alike(g, name, a->n_in, of));
    trm_shape all = g->nodes[of[0]].desc.out;
    const int c = trm_shape_channel_dim(&all);
    for (int i = 1; i < a->n_in; i++) {
        trm_shape x = g->nodes[of[i]].desc.out, same = x;
        if (x.rank == all.rank) same.dim[c] = all.dim[c];
        if (!trm_shape_equal(&same, &all) || g->nodes[of[i]].signal != g->nodes[of[0]].signal)
            return wrong_shape(g, name, in[0], in[i]);
        all.dim[c] += x.dim[c];
    }
    trm_node *n = trm_graph_new_node(g, TRM_NODE_CONCAT, name, a->n_in, of);
    if (!n) return TRM_MEMORY;
    n->desc.out = all;
    *out = trm_node_id(g, n);
    return TRM_OK;
}

static const trm_attr_def none[] = {{0}};
const trm_layer_type trm_layer_concat = {
    "concat", "values side by side along their channels, those of (F) and (T,C) along the last dimension",
    none,     0,
    NULL,     build};
