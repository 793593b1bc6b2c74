/* comm_impl: what a transport provides.  A new transport is a folder with one const table; `self` is the smallest
 * complete one.
 *
 * comm.c checks arguments, keeps the counters, does what needs no peer, and builds the small collectives; a
 * transport embeds the three structs below as the first member of its own. */
#ifndef TRIREME_COMM_IMPL_H
#define TRIREME_COMM_IMPL_H

#include <trireme/comm.h>

#define TRM_HOST_BYTES 64
#define TRM_WHAT_BYTES 64

typedef struct trm_comm_ops {
    const char *name;
    size_t buffer_bytes, request_bytes, shared_bytes; /* sizes of the transport's own structs */
    /* Frees the transport's part and the struct itself. */
    void (*close)(trm_comm *c);
    /* Sets b->data: zeroed, aligned; type, count, bytes and what are filled in.  Collective. */
    trm_status (*buffer_alloc)(trm_comm *c, trm_comm_buffer *b);
    void (*buffer_free)(trm_comm *c, trm_comm_buffer *b);
    /* Sets s->data, or leaves it NULL on all ranks where a node has no room; bytes and what are filled in.  Collective. */
    trm_status (*shared_alloc)(trm_comm *c, trm_comm_shared *s);
    void (*shared_free)(trm_comm *c, trm_comm_shared *s);
    /* r->call is checked and complete; the group has more than one rank.  NULL where that cannot be. */
    trm_status (*plan)(trm_comm *c, trm_comm_request *r);
    void (*request_free)(trm_comm *c, trm_comm_request *r);
    trm_status (*post)(trm_comm *c, trm_comm_request *r);
    trm_status (*wait)(trm_comm *c, trm_comm_request *r);
    /* Outside a step; blocking and collective; n and bytes may be 0. */
    trm_status (*barrier)(trm_comm *c, const char *what);
    trm_status (*bcast)(trm_comm *c, void *bytes, size_t n, int root);
    trm_status (*allgather)(trm_comm *c, const void *mine, size_t bytes, void *all);
    void (*abort)(trm_comm *c, int exit_code);
} trm_comm_ops;

struct trm_comm {
    const trm_comm_ops *ops;
    int rank, size;
    int node, nodes, node_rank, node_size;
    char (*host)[TRM_HOST_BYTES];       /* one name per rank */
    char about[128];
    double deadline_s;
    bool is_echo;                       /* the last fault is another rank's, heard of by its flag */
    trm_comm_counts counts;             /* the transport adds to sum_s, comm.c to the others */
};

struct trm_comm_buffer {
    trm_dtype type;
    int64_t count;
    size_t bytes;
    void *data;
    char what[TRM_WHAT_BYTES];
};

struct trm_comm_shared {
    size_t bytes;
    void *data;
    char what[TRM_WHAT_BYTES];
};

struct trm_comm_request {
    trm_comm_call call;
    uint8_t *contributes;               /* one flag per rank of the group */
    bool posted;
};

/* Fills what every transport has: deadline and the host names' room.  The struct is zeroed before. */
trm_status trm_comm_init(trm_comm *c, const trm_comm_ops *ops, int rank, int size);

/* ---- sum.c ---------------------------------------------------------------------------- */

/* Sums src[0..n) in that order, `count` elements each, and writes the result to dst[0..m), which may be among the
 * sources.  n = 0 writes zeros; with n <= 1 any type will do, else F32 or F64.  Returns the sum of squares of the
 * result where wanted, else 0.  The grouping of additions does not depend on n, m or the instruction set. */
double trm_comm_add_up(trm_dtype type, const void *const *src, int n, void *const *dst, int m, int64_t count,
                       bool want_sumsq);
/* Sum of squares alone, in the same grouping. */
double trm_comm_sumsq(trm_dtype type, const void *x, int64_t count);

/* The k-th of `parts` cuts of the elements begin .. begin+count, at cache lines of the buffer (so that no two ranks
 * write to one line). */
typedef struct trm_comm_range {
    int64_t begin, count;
} trm_comm_range;
trm_comm_range trm_comm_cut(trm_comm_range whole, size_t element_bytes, int parts, int k);

/* ---- agree.c -------------------------------------------------------------------------- */

/* "rank 1", "ranks 0-2, 5": those with a set flag.  Returns buf. */
const char *trm_comm_ranks_text(const uint8_t *flag, int size, char *buf, size_t cap);
/* The same with hosts: "rank 1 on h1, ranks 2-3 on h2". */
const char *trm_comm_missing_text(const trm_comm *c, const uint8_t *flag, char *buf, size_t cap);

#endif
