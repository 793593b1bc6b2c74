/* linear: y = x W^T + b over the last dimension; W (out,in). */
#include "nn_impl.h"

#include <string.h>

static trm_status use_tied_weight(trm_graph *g, int node, const char *tie, int64_t out, int64_t in) {
    char name[TRM_NAME_MAX + 8], buf[80];
    snprintf(name, sizeof name, "%s.weight", tie);
    int w = trm_graph_param_find(g, name);
    if (w < 0)
        return trm_fail(TRM_JOB, "layer '%s' is tied to '%s', which is no earlier layer with a weight",
                        g->nodes[node].name, tie);
    const trm_shape *s = &g->params[w].shape;
    if (s->rank != 2 || s->dim[0] != out || s->dim[1] != in)
        return trm_fail(TRM_JOB, "layer '%s' needs a weight of shape (%lld,%lld), '%s' has %s",
                        g->nodes[node].name, (long long)out, (long long)in, name,
                        trm_shape_text(s, buf, sizeof buf));
    /* One flag says whether weight and bias gradients are added to; with a bias the owner's two would differ. */
    char bias[TRM_NAME_MAX + 8];
    snprintf(bias, sizeof bias, "%s.bias", tie);
    if (trm_graph_param_find(g, bias) >= 0)
        return trm_fail(
            TRM_JOB, "layer '%s' is tied to '%s', which has a bias; only a weight without one can be shared",
            g->nodes[node].name, tie);
    g->nodes[node].weight = w;
    return TRM_OK;
}

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    const trm_shape x = g->nodes[in[0]].desc.out;
    char buf[80];
    if (trm_shape_channels_first(&x))
        return trm_fail(TRM_JOB, "layer '%s': linear cannot read %s of shape %s; put a flatten before it",
                        name,
                        trm_node_axes(&g->nodes[in[0]]) == 1   ? "a signal"
                        : trm_node_axes(&g->nodes[in[0]]) == 2 ? "an image"
                                                               : "a volume",
                        trm_node_shape_text(&g->nodes[in[0]], buf));
    trm_node *n = trm_graph_new_node(g, TRM_NODE_LINEAR, name, 1, in);
    if (!n) return TRM_MEMORY;
    const int64_t features = trm_shape_last(&x);
    n->desc.out.dim[x.rank - 1] = a->out;
    *out = trm_node_id(g, n);
    trm_shape w = trm_shape_of(2, a->out, features);
    if (!a->tie) return trm_graph_weight_and_bias(g, *out, a, &w, features, a->out, a->out);
    if (a->bias)
        return trm_fail(TRM_JOB, "layer '%s': a tied linear has no bias of its own; set bias: false", name);
    return use_tied_weight(g, *out, a->tie, a->out, features);
}

static const trm_attr_def attrs[] = {
    {"out", TRM_ATTR_INT, offsetof(trm_layer_attr, out), true, 0, 1, 1e9, "output features"},
    {"bias", TRM_ATTR_BOOL, offsetof(trm_layer_attr, bias), false, 1, 0, 1, "adds a bias"},
    {"tie", TRM_ATTR_NAME, offsetof(trm_layer_attr, tie), false, 0, 0, 0, "layer whose weight is used"},
    {"init", TRM_ATTR_INIT, offsetof(trm_layer_attr, init), false, TRM_INIT_DEFAULT, 0, 0, "initial weights"},
    {"std", TRM_ATTR_FLOAT, offsetof(trm_layer_attr, std), false, 0.02, 0, 1e3,
     "standard deviation for init: normal"},
    {0},
};
const trm_layer_type trm_layer_linear = {"linear", "y = x W^T + b over the last dimension", attrs, 1, "out",
                                         build};
