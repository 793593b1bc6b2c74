/* slice: some channels of the model's input; of (F) and (T,C) some entries of the last dimension.  For data sets whose
 * inputs are joined: each part gets its own layers.  The input has no gradient, so there is nothing to do backward. */
#include "nn_impl.h"

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    const trm_node *x = &g->nodes[in[0]];
    char buf[80];
    trm_shape part = x->desc.out;
    const int c = trm_shape_channel_dim(&part);
    if (in[0] != trm_graph_input(g) || x->tokens)
        return trm_fail(
            TRM_JOB,
            "layer '%s': slice cuts the model's input, numbers that are no tokens; here it reads '%s'", name,
            x->tokens ? "tokens" : x->name);
    if (part.rank == 0 || a->first + a->out > part.dim[c])
        return trm_fail(TRM_JOB,
                        "layer '%s': slice takes %lld channels from channel %lld on, its input has shape %s",
                        name, (long long)a->out, (long long)a->first, trm_node_shape_text(x, buf));
    part.dim[c] = a->out;
    trm_node *n = trm_graph_new_node(g, TRM_NODE_SLICE, name, 1, in);
    if (!n) return TRM_MEMORY;
    n->desc.at = a->first;
    n->desc.out = part;
    *out = trm_node_id(g, n);
    return TRM_OK;
}

static const trm_attr_def attrs[] = {
    {"first", TRM_ATTR_INT, offsetof(trm_layer_attr, first), false, 0, 0, 1e9, "first channel, from 0"},
    {"count", TRM_ATTR_INT, offsetof(trm_layer_attr, out), true, 0, 1, 1e9, "number of channels"},
    {0}};
const trm_layer_type trm_layer_slice = {
    "slice", "some channels of the model's input, of (F) and (T,C) some entries of the last dimension",
    attrs,   1,
    "count", build};
