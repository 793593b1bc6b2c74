/* group_norm over groups of channels of each sample: Wu and He 2018.  Ranks share nothing. */
#include "nn_impl.h"

static trm_status add_params(trm_graph *g, int node, const char *name, int64_t channels) {
    trm_shape c = trm_shape_of(1, channels);
    int w = trm_graph_new_param(g, name, "weight", TRM_PARAM, &c, false, TRM_INIT_ONES, 0, 1, 1);
    if (w < 0) return TRM_JOB;
    int b = trm_graph_new_param(g, name, "bias", TRM_PARAM, &c, false, TRM_INIT_ZEROS, 0, 1, 1);
    if (b < 0) return TRM_JOB;
    g->nodes[node].weight = w;
    g->nodes[node].bias = b;
    g->nodes[node].desc.bias = true;
    g->nodes[node].own_params = 2 * channels;
    return TRM_OK;
}

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    int from = in[0];
    if (g->nodes[from].desc.out.rank != 1)
        TRM_TRY(trm_graph_as_space(g, "group_norm", name, from, 1, TRM_MAX_AXES, &from));
    const trm_shape x = g->nodes[from].desc.out;
    if (x.dim[0] % a->groups)
        return trm_fail(TRM_JOB, "layer '%s': groups is %lld, which must divide the %lld channels", name,
                        (long long)a->groups, (long long)x.dim[0]);
    trm_node *n = trm_graph_new_node(g, TRM_NODE_GROUP_NORM, name, 1, &from);
    if (!n) return TRM_MEMORY;
    n->desc.groups = a->groups;
    n->desc.eps = a->eps;
    *out = trm_node_id(g, n);
    return a->affine ? add_params(g, *out, name, x.dim[0]) : TRM_OK;
}

static const trm_attr_def attrs[] = {
    {"groups", TRM_ATTR_INT, offsetof(trm_layer_attr, groups), true, 0, 1, 1e6,
     "groups of channels; they divide the channels"},
    {"affine", TRM_ATTR_BOOL, offsetof(trm_layer_attr, affine), false, 1, 0, 1,
     "weight and bias for each channel"},
    {"eps", TRM_ATTR_FLOAT, offsetof(trm_layer_attr, eps), false, 1e-5, 1e-12, 1, "added to the variance"},
    {0},
};
const trm_layer_type trm_layer_group_norm = {
    "group_norm", "normalises groups of channels of each sample", attrs, 1, "groups", build};
