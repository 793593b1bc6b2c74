/* embedding: token ids (T) -> rows (T,C) of a table; positional_embedding: adds row t of a table to position t. */
#include "nn_impl.h"

static trm_status add_table(trm_graph *g, int node, const trm_layer_attr *a, int64_t rows, int64_t dim) {
    const int init = a->init == TRM_INIT_DEFAULT ? TRM_INIT_NORMAL : a->init;
    trm_shape w = trm_shape_of(2, rows, dim);
    char name[TRM_NAME_MAX];
    snprintf(name, sizeof name, "%s", g->nodes[node].name);
    int p = trm_graph_new_param(g, name, "weight", TRM_PARAM, &w, true, init, a->std, dim, dim);
    if (p < 0) return TRM_JOB;
    g->nodes[node].weight = p;
    g->nodes[node].own_params = rows * dim;
    return TRM_OK;
}

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    const trm_node *x = &g->nodes[in[0]];
    char buf[80];
    if (!x->tokens || x->desc.out.rank != 1)
        return trm_fail(TRM_JOB,
                        "layer '%s': embedding reads token ids (T), its input has shape %s and is %s", name,
                        trm_shape_text(&x->desc.out, buf, sizeof buf), x->tokens ? "tokens" : "numbers");
    trm_node *n = trm_graph_new_node(g, TRM_NODE_EMBED, name, 1, in);
    if (!n) return TRM_MEMORY;
    n->desc.out = trm_shape_of(2, n->desc.in.dim[0], a->dim);
    n->desc.count = a->vocab;
    *out = trm_node_id(g, n);
    return add_table(g, *out, a, a->vocab, a->dim);
}

static trm_status build_positional(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                                   int *out) {
    const trm_shape x = g->nodes[in[0]].desc.out;
    char buf[80];
    if (x.rank != 2)
        return trm_fail(TRM_JOB, "layer '%s': positional_embedding reads (T,C), its input has shape %s", name,
                        trm_node_shape_text(&g->nodes[in[0]], buf));
    const int64_t length = a->length ? a->length : x.dim[0];
    if (x.dim[0] > length)
        return trm_fail(TRM_JOB, "layer '%s': the sequence has %lld positions, the table %lld", name,
                        (long long)x.dim[0], (long long)length);
    trm_node *n = trm_graph_new_node(g, TRM_NODE_POSEMB, name, 1, in);
    if (!n) return TRM_MEMORY;
    *out = trm_node_id(g, n);
    return add_table(g, *out, a, length, x.dim[1]);
}

static const trm_attr_def attrs[] = {
    {"vocab", TRM_ATTR_INT, offsetof(trm_layer_attr, vocab), true, 0, 1, 1e9, "number of token ids"},
    {"dim", TRM_ATTR_INT, offsetof(trm_layer_attr, dim), true, 0, 1, 1e6, "width of a row"},
    {"init", TRM_ATTR_INIT, offsetof(trm_layer_attr, init), false, TRM_INIT_DEFAULT, 0, 0,
     "initial table; default normal"},
    {"std", TRM_ATTR_FLOAT, offsetof(trm_layer_attr, std), false, 1, 0, 1e3,
     "standard deviation for init: normal"},
    {0},
};
static const trm_attr_def positional_attrs[] = {
    {"length", TRM_ATTR_INT, offsetof(trm_layer_attr, length), false, 0, 1, 1e9,
     "rows of the table; default: the sequence length"},
    {"init", TRM_ATTR_INIT, offsetof(trm_layer_attr, init), false, TRM_INIT_DEFAULT, 0, 0,
     "initial table; default normal"},
    {"std", TRM_ATTR_FLOAT, offsetof(trm_layer_attr, std), false, 1, 0, 1e3,
     "standard deviation for init: normal"},
    {0},
};
const trm_layer_type trm_layer_embedding = {
    "embedding", "token ids (T) -> rows (T,C) of a table", attrs, 1, NULL, build};
const trm_layer_type trm_layer_positional_embedding = {
    "positional_embedding", "adds a learned row to each position of (T,C)", positional_attrs, 1, "length",
    build_positional};
