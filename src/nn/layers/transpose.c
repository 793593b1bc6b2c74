/* transpose: (T,C) <-> (C,L).  A sequence's rows are a signal's channels last, so nothing moves in memory. */
#include "nn_impl.h"

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    (void)a;
    const trm_shape x = trm_node_shape(&g->nodes[in[0]]);
    char buf[80];
    if (x.rank != 2)
        return trm_fail(TRM_JOB, "layer '%s': transpose reads (T,C) or (C,L), its input has shape %s", name,
                        trm_node_shape_text(&g->nodes[in[0]], buf));
    trm_node *n = trm_graph_new_node(g, TRM_NODE_TRANSPOSE, name, 1, in);
    if (!n) return TRM_MEMORY;
    n->signal = !n->signal;
    n->desc.out = n->signal ? trm_shape_of(3, x.dim[1], 1, x.dim[0]) : trm_shape_of(2, x.dim[1], x.dim[0]);
    *out = trm_node_id(g, n);
    return TRM_OK;
}

static const trm_attr_def none[] = {{0}};
const trm_layer_type trm_layer_transpose = {
    "transpose", "(T,C) becomes the signal (C,T), and (C,L) the sequence (L,C)", none, 1, NULL, build};
