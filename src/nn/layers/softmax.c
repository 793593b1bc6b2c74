/* softmax over the last dimension; where channels come first, over those of each pixel. */
#include "nn_impl.h"

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    (void)a;
    trm_node *n = trm_graph_new_node(g, TRM_NODE_SOFTMAX, name, 1, in);
    if (!n) return TRM_MEMORY;
    *out = trm_node_id(g, n);
    return TRM_OK;
}

static const trm_attr_def none[] = {{0}};
const trm_layer_type trm_layer_softmax = {
    "softmax",
    "exp(x) / sum of exp(x) over the last dimension, of signals, images and volumes over their channels",
    none,
    1,
    NULL,
    build};
