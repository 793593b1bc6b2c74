/* batch_norm over channels (C,L), (C,H,W), (C,D,H,W) or features (F): Ioffe and Szegedy 2015.  Two nodes, the statistic and its use, so that a
 * strategy can sum the statistic over ranks in between. */
#include "nn_impl.h"

static int add_state(trm_graph *g, const char *name, const char *suffix, const trm_shape *c, int init) {
    return trm_graph_new_param(g, name, suffix, TRM_STATE, c, false, init, 0, 1, 1);
}

static trm_status add_params(trm_graph *g, int node, const char *name, int64_t channels) {
    trm_shape c = trm_shape_of(1, channels);
    int w = trm_graph_new_param(g, name, "weight", TRM_PARAM, &c, false, TRM_INIT_ONES, 0, 1, 1);
    if (w < 0) return TRM_JOB;
    int b = trm_graph_new_param(g, name, "bias", TRM_PARAM, &c, false, TRM_INIT_ZEROS, 0, 1, 1);
    if (b < 0) return TRM_JOB;
    int mean = add_state(g, name, "running_mean", &c, TRM_INIT_ZEROS);
    if (mean < 0) return TRM_JOB;
    int var = add_state(g, name, "running_var", &c, TRM_INIT_ONES);
    if (var < 0) return TRM_JOB;
    trm_node *n = &g->nodes[node];
    n->weight = w;
    n->bias = b;
    n->run_mean = mean;
    n->run_var = var;
    n->own_params = 2 * channels;
    return TRM_OK;
}

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    char stats_name[TRM_NAME_MAX];
    int from = in[0];
    if (g->nodes[from].desc.out.rank != 1)
        TRM_TRY(trm_graph_as_space(g, "batch_norm", name, from, 1, TRM_MAX_AXES, &from));
    const trm_shape x = g->nodes[from].desc.out;
    snprintf(stats_name, sizeof stats_name, "%.80s.stats", name);
    trm_node *s = trm_graph_new_node(g, TRM_NODE_BN_STATS, stats_name, 1, &from);
    if (!s) return TRM_MEMORY;
    const int stats = trm_node_id(g, s);
    s->sync = a->sync;
    s->desc.eps = a->eps;
    s->desc.momentum = a->momentum;
    s->stat = trm_graph_new_small(g, 2 * x.dim[0] + 1);
    s->gstat = trm_graph_new_small(g, 2 * x.dim[0]);
    trm_node *n = trm_graph_new_node(g, TRM_NODE_BN_APPLY, name, 2, (int[]){from, stats});
    if (!n) return TRM_MEMORY;
    n->desc.eps = a->eps;
    n->desc.momentum = a->momentum;
    n->desc.bias = true;
    *out = trm_node_id(g, n);
    return add_params(g, *out, name, x.dim[0]);
}

static const trm_attr_def attrs[] = {
    {"eps", TRM_ATTR_FLOAT, offsetof(trm_layer_attr, eps), false, 1e-5, 1e-12, 1, "added to the variance"},
    {"momentum", TRM_ATTR_FLOAT, offsetof(trm_layer_attr, momentum), false, 0.1, 0, 1,
     "step of the running statistics"},
    {"sync", TRM_ATTR_BOOL, offsetof(trm_layer_attr, sync), false, 1, 0, 1,
     "statistics of the whole micro-batch over all ranks"},
    {0},
};
const trm_layer_type trm_layer_batch_norm = {
    "batch_norm", "normalises each channel by the batch's mean and variance", attrs, 1, NULL, build};
