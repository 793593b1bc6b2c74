/* attention: multi-head self-attention over (T,C) (Vaswani et al. 2017): a linear to q|k|v, the core, and an output projection. */
#include "nn_impl.h"

static trm_status add_linear(trm_graph *g, const trm_layer_attr *a, const char *name, const char *suffix,
                             int64_t features, double std, int in, int *out) {
    trm_layer_attr l;
    trm_layer_defaults(trm_layer_find("linear"), &l);
    l.out = features;
    l.bias = a->bias;
    l.init = a->init;
    l.std = std;
    char full[TRM_NAME_MAX];
    snprintf(full, sizeof full, "%.80s.%s", name, suffix);
    return trm_layer_find("linear")->build(g, &l, full, &in, out);
}

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    const trm_shape x = g->nodes[in[0]].desc.out;
    char buf[80];
    if (x.rank != 2)
        return trm_fail(TRM_JOB, "layer '%s': attention reads (T,C), its input has shape %s", name,
                        trm_node_shape_text(&g->nodes[in[0]], buf));
    if (x.dim[1] % a->heads)
        return trm_fail(TRM_JOB, "layer '%s': %lld heads do not divide the width %lld", name,
                        (long long)a->heads, (long long)x.dim[1]);
    int qkv;
    TRM_TRY(add_linear(g, a, name, "qkv", 3 * x.dim[1], a->std, in[0], &qkv));
    char core_name[TRM_NAME_MAX];
    snprintf(core_name, sizeof core_name, "%.80s.core", name);
    trm_node *n = trm_graph_new_node(g, TRM_NODE_ATTENTION, core_name, 1, &qkv);
    if (!n) return TRM_MEMORY;
    n->desc.out = x;
    n->desc.heads = a->heads;
    n->desc.causal = a->causal;
    return add_linear(g, a, name, "proj", x.dim[1], a->out_std > 0 ? a->out_std : a->std, trm_node_id(g, n),
                      out);
}

static const trm_attr_def attrs[] = {
    {"heads", TRM_ATTR_INT, offsetof(trm_layer_attr, heads), true, 0, 1, 4096,
     "heads; they divide the width"},
    {"causal", TRM_ATTR_BOOL, offsetof(trm_layer_attr, causal), false, 1, 0, 1,
     "a position sees itself and earlier ones only"},
    {"bias", TRM_ATTR_BOOL, offsetof(trm_layer_attr, bias), false, 1, 0, 1, "biases in both projections"},
    {"init", TRM_ATTR_INIT, offsetof(trm_layer_attr, init), false, TRM_INIT_DEFAULT, 0, 0, "initial weights"},
    {"std", TRM_ATTR_FLOAT, offsetof(trm_layer_attr, std), false, 0.02, 0, 1e3,
     "standard deviation for init: normal"},
    {"out_std", TRM_ATTR_FLOAT, offsetof(trm_layer_attr, out_std), false, 0, 0, 1e3,
     "the same for the output projection; 0 = std"},
    {0},
};
const trm_layer_type trm_layer_attention = {
    "attention", "multi-head self-attention over (T,C)", attrs, 1, "heads", build};
