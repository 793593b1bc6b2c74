/* Rewrites graph -> graph that put communication nodes in. */
#include <string.h>

#include "nn_impl.h"

/* Inserts a copy of `node` before position `at`; ids from there on grow by one. */
static trm_status insert_node(trm_graph *g, int at, const trm_node *node) {
    const trm_node copy = *node;
    if (!trm_graph_new_node(g, copy.kind, "", 0, NULL)) return TRM_MEMORY;
    memmove(&g->nodes[at + 1], &g->nodes[at], (size_t)(g->n_nodes - 1 - at) * sizeof *g->nodes);
    g->nodes[at] = copy;
    for (int i = at + 1; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++)
            if (g->nodes[i].in[k] >= at) g->nodes[i].in[k]++;
    if (g->output >= at) g->output++;
    return TRM_OK;
}

static trm_status sum_behind(trm_graph *g, int stats, int group) {
    trm_node n = g->nodes[stats];
    n.kind = TRM_NODE_SUM_STATS;
    snprintf(n.name, sizeof n.name, "%.90s.sum", g->nodes[stats].name);
    n.n_in = 1;
    n.in[0] = stats;
    n.group = group;
    TRM_TRY(insert_node(g, stats + 1, &n));
    for (int i = stats + 2; i < g->n_nodes; i++)
        if (g->nodes[i].kind == TRM_NODE_BN_APPLY && g->nodes[i].in[1] == stats)
            g->nodes[i].in[1] = stats + 1;
    return TRM_OK;
}

trm_status trm_graph_reduce_stats(trm_graph *g, int group) {
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].kind == TRM_NODE_BN_STATS && g->nodes[i].sync) TRM_TRY(sum_behind(g, i, group));
    return TRM_OK;
}

static trm_status add_bucket(trm_graph *g, int group, int number, int64_t begin, int64_t end) {
    char name[TRM_NAME_MAX];
    snprintf(name, sizeof name, "gradient bucket %d", number);
    trm_node *n = trm_graph_new_node(g, TRM_NODE_SUM_GRADS, name, 0, NULL);
    if (!n) return TRM_MEMORY;
    n->group = group;
    n->begin = begin;
    n->end = end;
    return TRM_OK;
}

/* The backward pass finishes parameters from the end of the space to its start. */
trm_status trm_graph_reduce_gradients(trm_graph *g, int group, int64_t bucket_bytes) {
    int64_t end = g->param_space;
    int number = 0;
    for (int i = g->n_params - 1; i >= 0; i--) {
        const trm_param *p = &g->params[i];
        if (p->kind != TRM_PARAM || ((end - p->offset) * 4 < bucket_bytes && p->offset > 0)) continue;
        TRM_TRY(add_bucket(g, group, number++, p->offset, end));
        end = p->offset;
    }
    trm_node *tail = trm_graph_new_node(g, TRM_NODE_SUM_TAIL, "sums of the update", 0, NULL);
    if (!tail) return TRM_MEMORY;
    tail->group = group;
    return TRM_OK;
}
