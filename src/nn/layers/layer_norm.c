/* layer_norm over the last dimension: Ba et al. 2016. */
#include "nn_impl.h"

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    const trm_shape x = g->nodes[in[0]].desc.out;
    char buf[80];
    if (trm_shape_channels_first(&x))
        return trm_fail(TRM_JOB,
                        "layer '%s': layer_norm reads (F) or (T,C), its input has its channels first: %s",
                        name, trm_node_shape_text(&g->nodes[in[0]], buf));
    trm_node *n = trm_graph_new_node(g, TRM_NODE_LAYER_NORM, name, 1, in);
    if (!n) return TRM_MEMORY;
    n->desc.eps = a->eps;
    n->desc.bias = true;
    *out = trm_node_id(g, n);
    trm_shape c = trm_shape_of(1, trm_shape_last(&x));
    int w = trm_graph_new_param(g, name, "weight", TRM_PARAM, &c, false, TRM_INIT_ONES, 0, 1, 1);
    if (w < 0) return TRM_JOB;
    int b = trm_graph_new_param(g, name, "bias", TRM_PARAM, &c, false, TRM_INIT_ZEROS, 0, 1, 1);
    if (b < 0) return TRM_JOB;
    g->nodes[*out].weight = w;
    g->nodes[*out].bias = b;
    g->nodes[*out].own_params = 2 * c.dim[0];
    return TRM_OK;
}

static const trm_attr_def attrs[] = {
    {"eps", TRM_ATTR_FLOAT, offsetof(trm_layer_attr, eps), false, 1e-5, 1e-12, 1, "added to the variance"},
    {0},
};
const trm_layer_type trm_layer_layer_norm = {
    "layer_norm", "normalises each row over its last dimension", attrs, 1, NULL, build};
