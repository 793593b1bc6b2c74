/* concat: several values side by side, along the channels of images, else along the last dimension. */
#include "nn_impl.h"

static trm_status wrong_shape(const trm_graph *g, const char *name, int first, int other) {
    char a[80], b[80];
    return trm_fail(TRM_JOB,
                    "layer '%s': concat joins values of shapes %s ('%s') and %s ('%s'); they may differ in "
                    "their channels only",
                    name, trm_shape_text(&g->nodes[first].desc.out, a, sizeof a), g->nodes[first].name,
                    trm_shape_text(&g->nodes[other].desc.out, b, sizeof b), g->nodes[other].name);
}

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    trm_shape all = g->nodes[in[0]].desc.out;
    const int c = trm_shape_channel_dim(&all);
    for (int i = 1; i < a->n_in; i++) {
        trm_shape x = g->nodes[in[i]].desc.out, same = x;
        if (x.rank == all.rank) same.dim[c] = all.dim[c];
        if (!trm_shape_equal(&same, &all)) return wrong_shape(g, name, in[0], in[i]);
        all.dim[c] += x.dim[c];
    }
    trm_node *n = trm_graph_new_node(g, TRM_NODE_CONCAT, name, a->n_in, in);
    if (!n) return TRM_MEMORY;
    n->desc.out = all;
    *out = trm_node_id(g, n);
    return TRM_OK;
}

static const trm_attr_def none[] = {{0}};
const trm_layer_type trm_layer_concat = {
    "concat", "values side by side, images along their channels, else along the last dimension",
    none,     0,
    NULL,     build};
