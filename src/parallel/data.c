/* Data parallelism as a rewrite: every rank computes its slice of each micro-batch; sums meet in reductions. */
#include <trireme/parallel.h>

/* Large enough that a reduction's fixed cost does not show, small enough that the first one starts early. */
#define TRM_BUCKET_BYTES (1 << 20)

trm_status trm_parallel_data(trm_graph *g, const trm_comm *c) {
    if (trm_comm_group_size(c, TRM_GROUP_DATA) == 1) return TRM_OK;
    TRM_TRY(trm_graph_reduce_stats(g, TRM_GROUP_DATA));
    return trm_graph_reduce_gradients(g, TRM_GROUP_DATA, TRM_BUCKET_BYTES);
}
