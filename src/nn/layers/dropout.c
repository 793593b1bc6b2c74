/* dropout: zeroes elements with probability p and scales the rest by 1/(1-p) (Srivastava et al. 2014).  The mask is a pure
 * function of seed, layer, update, sample and canonical element. */
#include "nn_impl.h"

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    trm_node *n = trm_graph_new_node(g, TRM_NODE_DROPOUT, name, 1, in);
    if (!n) return TRM_MEMORY;
    n->desc.p = a->p;
    *out = trm_node_id(g, n);
    return TRM_OK;
}

static const trm_attr_def attrs[] = {
    {"p", TRM_ATTR_FLOAT, offsetof(trm_layer_attr, p), false, 0.5, 0, 0.999, "probability of a zero"},
    {0},
};
const trm_layer_type trm_layer_dropout = {
    "dropout", "zeroes elements with probability p while training", attrs, 1, "p", build};
