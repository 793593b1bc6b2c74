/* reshape: the same elements in canonical order under another shape.  What has its channels first lies with them last, so
 * it is flattened first, and what becomes an image or volume is put in its order behind that; the rest moves nothing. */
#include "nn_impl.h"

static trm_status check(const trm_layer_attr *a, const char *name, const trm_node *x) {
    char from[80], to[80];
    if (a->shape.rank < 1 || a->shape.rank > 1 + TRM_MAX_AXES)
        return trm_fail(TRM_JOB, "layer '%s': reshape to %s; allowed are 1 to 4 dimensions", name,
                        trm_shape_text(&a->shape, to, sizeof to));
    if (trm_shape_count(&x->desc.out) != trm_shape_count(&a->shape))
        return trm_fail(TRM_JOB, "layer '%s': reshape from %s to %s changes the number of elements", name,
                        trm_node_shape_text(x, from), trm_shape_text(&a->shape, to, sizeof to));
    return TRM_OK;
}

static trm_status add_order(trm_graph *g, trm_node_kind kind, const char *name, const trm_shape *shape,
                            int in, int *out) {
    trm_node *n = trm_graph_new_node(g, kind, name, 1, &in);
    if (!n) return TRM_MEMORY;
    n->desc.out = *shape;
    n->signal = false;
    *out = trm_node_id(g, n);
    return TRM_OK;
}

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    const trm_shape x = g->nodes[in[0]].desc.out, flat = trm_shape_of(1, trm_shape_count(&x));
    char flat_name[TRM_NAME_MAX];
    int at = in[0];
    TRM_TRY(check(a, name, &g->nodes[at]));
    if (!trm_shape_channels_first(&a->shape)) return add_order(g, TRM_NODE_FLATTEN, name, &a->shape, at, out);
    snprintf(flat_name, sizeof flat_name, "%.80s.flat", name);
    if (trm_shape_channels_first(&x)) TRM_TRY(add_order(g, TRM_NODE_FLATTEN, flat_name, &flat, at, &at));
    return add_order(g, TRM_NODE_UNFLATTEN, name, &a->shape, at, out);
}

static const trm_attr_def attrs[] = {
    {"shape", TRM_ATTR_SHAPE, offsetof(trm_layer_attr, shape), true, 0, 1, 0,
     "shape of a sample: [F], [T, C] or [C, L], [C, H, W], [C, D, H, W]"},
    {0},
};
const trm_layer_type trm_layer_reshape = {
    "reshape", "the same elements in the same order under another shape, channels first", attrs, 1, "shape",
    build};
