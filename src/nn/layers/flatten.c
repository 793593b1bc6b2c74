/* flatten: any shape -> (F) in canonical order: an image as C*H*W, a volume as C*D*H*W. */
#include "nn_impl.h"

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    (void)a;
    const trm_shape x = g->nodes[in[0]].desc.out;
    trm_node *n = trm_graph_new_node(g, TRM_NODE_FLATTEN, name, 1, in);
    if (!n) return TRM_MEMORY;
    n->desc.out = trm_shape_of(1, trm_shape_count(&x));
    n->signal = false;
    *out = trm_node_id(g, n);
    return TRM_OK;
}

static const trm_attr_def none[] = {{0}};
const trm_layer_type trm_layer_flatten = {
    "flatten", "any shape -> (F) in the order of the shape, channels first", none, 1, NULL, build};
