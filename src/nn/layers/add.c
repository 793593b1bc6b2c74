/* add: the sum of two values of one shape (residual connections). */
#include "nn_impl.h"

static trm_status build(trm_graph *g, const trm_layer_attr *attr, const char *name, const int *in, int *out) {
    (void)attr;
    char abuf[80], bbuf[80];
    int of[2] = {in[0], in[1]};
    TRM_TRY(trm_graph_alike(g, name, 2, of));
    const trm_shape a = trm_node_shape(&g->nodes[of[0]]), b = trm_node_shape(&g->nodes[of[1]]);
    if (!trm_shape_equal(&a, &b))
        return trm_fail(TRM_JOB,
                        "layer '%s' adds values of shapes %s ('%s') and %s ('%s'); they must be equal", name,
                        trm_node_shape_text(&g->nodes[in[0]], abuf), g->nodes[in[0]].name,
                        trm_node_shape_text(&g->nodes[in[1]], bbuf), g->nodes[in[1]].name);
    trm_node *n = trm_graph_new_node(g, TRM_NODE_ADD, name, 2, of);
    if (!n) return TRM_MEMORY;
    *out = trm_node_id(g, n);
    return TRM_OK;
}

static const trm_attr_def none[] = {{0}};
const trm_layer_type trm_layer_add = {"add", "the sum of two values", none, 2, NULL, build};
