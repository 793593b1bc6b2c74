/* parallel: strategies.  Plain functions graph -> graph, the grid of ranks, and the talk between a runner and a comm. */
#ifndef TRIREME_PARALLEL_H
#define TRIREME_PARALLEL_H

#include <trireme/comm.h>
#include <trireme/nn.h>

/* Data parallelism: batch-norm statistics and gradients are summed over the data group. Local, the same on all ranks. */
TRM_API trm_status trm_parallel_data(trm_graph *g, const trm_comm *c);

/* The table through which a runner talks over `c`; grads and small are buffers that its requests name. Local. */
typedef struct trm_parallel_talk trm_parallel_talk;
TRM_API trm_status trm_parallel_talk_create(trm_comm *c, trm_comm_buffer *grads, trm_comm_buffer *small, trm_parallel_talk **out);
TRM_API const trm_talk *trm_parallel_talk_table(const trm_parallel_talk *t);
TRM_API void trm_parallel_talk_free(trm_parallel_talk *t);

/* Shares: who computes which part of a micro-batch.  weights per rank (NULL = equal), cut by trm_part_by_weights; the same on all ranks. */
typedef struct trm_shares { int ranks; double *weights; } trm_shares;
TRM_API trm_status trm_shares_create(int ranks, const double *weights, trm_shares *out);
TRM_API void trm_shares_free(trm_shares *s);
/* counts[rank * micro_batches + k] for an update of `batch` samples: trm_cut into micro-batches, each cut by the shares. */
TRM_API trm_status trm_shares_counts(const trm_shares *s, int64_t batch, int micro_batches, int64_t *counts);
/* Begin and count of `rank`'s slice of a micro-batch of m samples. */
TRM_API trm_status trm_shares_slice(const trm_shares *s, int64_t m, int rank, int64_t *begin, int64_t *count);

#endif
