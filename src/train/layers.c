/* layers: what each layer took on each rank in an epoch, from the program's own stamps. */
#include <string.h>

#include "run_impl.h"

trm_status trm_layers_open(const trm_engine *e, trm_layer_times *t) {
    size_t n = (size_t)trm_graph_nodes(e->graph);
    *t = (trm_layer_times){.nodes = trm_graph_nodes(e->graph)};
    t->before = trm_alloc_array(2 * n, sizeof *t->before, "times of layers");
    t->mine = trm_alloc_array(2 * n, sizeof *t->mine, "times of layers");
    t->all = trm_alloc_array(2 * n * (size_t)e->ranks, sizeof *t->all, "times of layers");
    return t->before && t->mine && t->all ? TRM_OK : TRM_MEMORY;
}

void trm_layers_close(trm_layer_times *t) {
    trm_free(t->before);
    trm_free(t->mine);
    trm_free(t->all);
    *t = (trm_layer_times){0};
}

/* Forward of all nodes, then backward, since the last call. */
static void collect(const trm_engine *e, trm_layer_times *t) {
    trm_runner_times now = trm_runner_time(e->runner);
    for (int i = 0; i < 2 * t->nodes; i++) {
        double total = i < t->nodes ? now.node_forward[i] : now.node_backward[i - t->nodes];
        t->mine[i] = total - t->before[i];
        t->before[i] = total;
    }
}

/* Nodes that no rank spent time on are left out: inputs, reshapes, sums. */
static bool took_time(const trm_layer_times *t, int ranks, int node) {
    for (int r = 0; r < ranks; r++) {
        const double *p = t->all + (size_t)r * 2 * (size_t)t->nodes;
        if (p[node] > 0 || p[t->nodes + node] > 0) return true;
    }
    return false;
}

static void record_times(trm_record *m, const trm_layer_times *t, int ranks, const char *key, int from) {
    trm_record_open(m, key, '[');
    for (int r = 0; r < ranks; r++) {
        const double *p = t->all + (size_t)r * 2 * (size_t)t->nodes + from;
        trm_record_open(m, NULL, '[');
        for (int i = 0; i < t->nodes; i++)
            if (took_time(t, ranks, i)) trm_record_num(m, NULL, p[i]);
        trm_record_close(m, ']');
    }
    trm_record_close(m, ']');
}

static void record(trm_run *r) {
    const trm_engine *e = &r->engine;
    const trm_layer_times *t = &r->layers;
    trm_record *m = &r->record;
    trm_record_begin(m, "layers");
    trm_record_int(m, "epoch", r->epoch);
    trm_record_int(m, "update", r->pos.update);
    trm_record_open(m, "names", '[');
    for (int i = 0; i < t->nodes; i++)
        if (took_time(t, e->ranks, i)) trm_record_str(m, NULL, trm_graph_node(e->graph, i).name);
    trm_record_close(m, ']');
    record_times(m, t, e->ranks, "forward_s", 0);
    record_times(m, t, e->ranks, "backward_s", t->nodes);
    trm_folder_metric(&r->folder, m);
}

trm_status trm_layers_epoch(trm_run *r) {
    trm_layer_times *t = &r->layers;
    size_t bytes = 2 * (size_t)t->nodes * sizeof *t->mine;
    collect(&r->engine, t);
    if (r->engine.ranks > 1)
        TRM_TRY(trm_comm_allgather(r->engine.comm, t->mine, bytes, t->all));
    else
        memcpy(t->all, t->mine, bytes);
    if (r->engine.rank == 0) record(r);
    return TRM_OK;
}
