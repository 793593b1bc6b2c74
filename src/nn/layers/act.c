/* relu, gelu (exact or tanh form: Hendrycks and Gimpel 2016), tanh, sigmoid, silu (Elfwing et al. 2018): element by element. */
#include "nn_impl.h"

static trm_status add_act(trm_graph *g, trm_act act, const char *name, const int *in, int *out) {
    trm_node *n = trm_graph_new_node(g, TRM_NODE_ACT, name, 1, in);
    if (!n) return TRM_MEMORY;
    n->desc.act = act;
    *out = trm_node_id(g, n);
    return TRM_OK;
}

static trm_status build_relu(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                             int *out) {
    (void)a;
    return add_act(g, TRM_ACT_RELU, name, in, out);
}

static trm_status build_gelu(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                             int *out) {
    return add_act(g, a->tanh ? TRM_ACT_GELU_TANH : TRM_ACT_GELU, name, in, out);
}

static trm_status build_tanh(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                             int *out) {
    (void)a;
    return add_act(g, TRM_ACT_TANH, name, in, out);
}

static trm_status build_sigmoid(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                                int *out) {
    (void)a;
    return add_act(g, TRM_ACT_SIGMOID, name, in, out);
}

static trm_status build_silu(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                             int *out) {
    (void)a;
    return add_act(g, TRM_ACT_SILU, name, in, out);
}

static const trm_attr_def none[] = {{0}};
static const trm_attr_def gelu_attrs[] = {
    {"tanh", TRM_ATTR_BOOL, offsetof(trm_layer_attr, tanh), false, 0, 0, 1,
     "the tanh form instead of the exact one"},
    {0},
};
const trm_layer_type trm_layer_relu = {"relu", "max(x, 0)", none, 1, NULL, build_relu};
const trm_layer_type trm_layer_gelu = {"gelu", "x * Phi(x)", gelu_attrs, 1, NULL, build_gelu};
const trm_layer_type trm_layer_tanh = {"tanh", "hyperbolic tangent", none, 1, NULL, build_tanh};
const trm_layer_type trm_layer_sigmoid = {"sigmoid", "1 / (1 + exp(-x))", none, 1, NULL, build_sigmoid};
const trm_layer_type trm_layer_silu = {"silu", "x / (1 + exp(-x))", none, 1, NULL, build_silu};
