/* comm: talk between ranks, one const table per transport (self, mpi; later nccl).
 *
 * In a step: requests are planned once (trm_comm_plan), then posted and waited for many times.  A post
 * never blocks the caller; requests of one channel are posted in one order that is equal on all ranks.
 * The transport allocates what it reduces, so that one node can sum in a shared-memory window.
 *
 * Outside a step: plain blocking collectives on small host data.
 *
 * Every wait has a deadline; when it passes, the sentence names the missing rank and what was waited for.
 */
#ifndef TRIREME_COMM_H
#define TRIREME_COMM_H

#include <trireme/backend.h>

typedef enum trm_group { TRM_GROUP_WORLD, TRM_GROUP_DATA, TRM_GROUP_TENSOR, TRM_GROUP_PIPELINE, TRM_GROUP_COUNT } trm_group;
/* A channel is a communicator of its own. */
typedef enum trm_channel {
    TRM_CHANNEL_STEP,               /* collectives inside the step (batch norm) */
    TRM_CHANNEL_GRAD,               /* gradient buckets and the tail of sums */
    TRM_CHANNEL_NOTE,               /* step notes */
    TRM_CHANNEL_COUNT
} trm_channel;

typedef struct trm_comm trm_comm;
typedef struct trm_comm_buffer trm_comm_buffer;
typedef struct trm_comm_request trm_comm_request;

typedef enum trm_comm_kind {
    TRM_COMM_SUM,                   /* every rank ends with the sum over the contributing ranks, in a fixed order */
    TRM_COMM_GATHER,                /* `count` elements at offset + rank*count of each rank to all (notes) */
} trm_comm_kind;

typedef struct trm_comm_call {
    trm_comm_kind kind;
    trm_group group;                /* for now DATA == WORLD; the others have one rank */
    trm_channel channel;
    trm_comm_buffer *buffer;
    int64_t offset, count;          /* elements of the buffer's type */
    const uint8_t *contributes;     /* one flag per rank of the group, NULL = all; copied.  A rank that does not
                                       contribute takes part, its values are ignored and overwritten by the sum */
    double *sumsq;                  /* SUM of a float buffer: if not NULL, *sumsq += the sum of squares of that part of the result which this
                                       rank summed; over all ranks these parts cover the range once.  NULL = not wanted */
    const char *what;               /* "gradient bucket 3": static text for sentences */
} trm_comm_call;

/* Counters of one rank since the comm was opened; they only grow. */
typedef struct trm_comm_counts {
    double wait_s;                  /* time inside trm_comm_wait: exposed communication, waiting for others included */
    double sum_s;                   /* of that: own summing and copying */
    uint64_t posts;
    uint64_t bytes;                 /* payload of all posted requests */
} trm_comm_counts;

/* ---- open --------------------------------------------------------------------------- */

/* One process, no library: the smallest complete transport.  See <trireme/mpi.h> for the other. Local. */
TRM_API trm_status trm_comm_self(trm_comm **out);
/* Collective.  Accepts NULL. */
TRM_API void trm_comm_close(trm_comm *c);

TRM_API int trm_comm_rank(const trm_comm *c);
TRM_API int trm_comm_size(const trm_comm *c);
TRM_API int trm_comm_node(const trm_comm *c);           /* index of this rank's node */
TRM_API int trm_comm_nodes(const trm_comm *c);
TRM_API int trm_comm_node_rank(const trm_comm *c);      /* rank among the ranks of this node */
TRM_API int trm_comm_node_size(const trm_comm *c);
TRM_API const char *trm_comm_host(const trm_comm *c, int rank);
TRM_API const char *trm_comm_about(const trm_comm *c);  /* "mpi: 2 ranks on 1 node, shared window" */
TRM_API int trm_comm_group_size(const trm_comm *c, trm_group g);
TRM_API int trm_comm_group_rank(const trm_comm *c, trm_group g);
/* Is the last TRM_COMM of this rank the echo of another rank's, which has a better sentence? Local. */
TRM_API bool trm_comm_is_echo(const trm_comm *c);
/* Seconds until a wait gives up (default 300). Local. */
TRM_API void trm_comm_set_deadline(trm_comm *c, double seconds);

/* ---- in a step ---------------------------------------------------------------------- */

/* Zeroed memory of `count` elements (F32 or F64; U8 for notes) that requests may name.  Collective, plan time. */
TRM_API trm_status trm_comm_buffer_alloc(trm_comm *c, trm_dtype type, int64_t count, const char *what, trm_comm_buffer **out);
TRM_API void *trm_comm_buffer_data(const trm_comm_buffer *b);       /* this rank's copy, 64-byte aligned */
TRM_API void trm_comm_buffer_free(trm_comm *c, trm_comm_buffer *b); /* collective; accepts NULL */

/* Collective in effect: all ranks plan equal requests in one order. */
TRM_API trm_status trm_comm_plan(trm_comm *c, const trm_comm_call *call, trm_comm_request **out);
/* In one order on all ranks, before its buffer's free.  A posted request is waited for.  Accepts NULL. */
TRM_API void trm_comm_request_free(trm_comm *c, trm_comm_request *r);
/* Starts it; the caller must not touch the range until the wait. Never blocks. */
TRM_API trm_status trm_comm_post(trm_comm *c, trm_comm_request *r);
/* Returns when the result is in this rank's copy (it may be read and overwritten from then on).  Spins
 * briefly where the core is its own, then sleeps in naps. */
TRM_API trm_status trm_comm_wait(trm_comm *c, trm_comm_request *r);
TRM_API trm_comm_counts trm_comm_count(const trm_comm *c);

/* ---- memory of a node ---------------------------------------------------------------- */

typedef struct trm_comm_shared trm_comm_shared;
/* `bytes`, equal on all ranks, that all ranks of a node see, not zeroed: what one writes another reads behind a barrier.  *out is NULL
 * on all ranks where some node has no room. Collective. */
TRM_API trm_status trm_comm_shared_alloc(trm_comm *c, size_t bytes, const char *what, trm_comm_shared **out);
TRM_API void *trm_comm_shared_data(const trm_comm_shared *s);
TRM_API void trm_comm_shared_free(trm_comm *c, trm_comm_shared *s); /* collective; accepts NULL */

/* ---- outside a step: blocking, small, collective ------------------------------------- */

TRM_API trm_status trm_comm_barrier(trm_comm *c, const char *what);
TRM_API trm_status trm_comm_bcast(trm_comm *c, void *bytes, size_t n, int root);
/* Rank root's block of *n bytes to all; others get a new block (trm_free) in *bytes. */
TRM_API trm_status trm_comm_bcast_block(trm_comm *c, void **bytes, size_t *n, int root);
TRM_API trm_status trm_comm_allgather(trm_comm *c, const void *mine, size_t bytes, void *all);
TRM_API trm_status trm_comm_sum_f64(trm_comm *c, double *values, int n);
TRM_API trm_status trm_comm_max_f64(trm_comm *c, double *values, int n);
/* Every rank brings its status (with its recorded sentence); all leave with the worst one, and its sentence, prefixed
 * "ranks 0-3: " where not all ranks failed alike, as their own recorded sentence: faults of planning are agreed. */
TRM_API trm_status trm_comm_agree(trm_comm *c, trm_status mine);
/* Ends all ranks at once with this exit code; does not return.  Only `cli` calls it, after printing. */
TRM_API void trm_comm_abort(trm_comm *c, int exit_code);

#endif
