/* mpi_impl: the MPI transport's own structs.
 *
 *   mpi.c       opening, closing, small collectives
 *   buffer.c    which memory a buffer gets
 *   topo.c      who sits on which node
 *   window.c    shared-memory windows, and slots of flags in them
 *   step.c      post and wait: the sum within a node
 *   network.c   the exchange between nodes
 *   rollcall.c  who is missing when a deadline passes
 *   launch.c    how the program starts and ends MPI
 */
#ifndef TRIREME_MPI_IMPL_H
#define TRIREME_MPI_IMPL_H

#include <mpi.h>
#include <stdatomic.h>
#include <trireme/mpi.h>

#include "comm_impl.h"

typedef struct trm_mpi trm_mpi;
typedef struct trm_mpi_net trm_mpi_net;
typedef struct trm_mpi_request trm_mpi_request;

/* TRM_OK, or a COMM sentence that keeps MPI's own text. */
trm_status trm_mpi_check(int rc, const char *call);
/* A duplicate whose errors come back as codes. */
trm_status trm_mpi_dup(MPI_Comm from, MPI_Comm *out);

/* Waits until all ranks are here, helping requests under way; has the deadline of a wait.  Goes before each blocking call of
 * MPI, which then cannot hang on a missing rank.  Collective. */
trm_status trm_mpi_meet(trm_mpi *m, const char *what);

/* ---- buffer.c -------------------------------------------------------------------------- */

trm_status trm_mpi_buffer_alloc(trm_comm *c, trm_comm_buffer *b);
trm_status trm_mpi_shared_alloc(trm_comm *c, trm_comm_shared *s);
void trm_mpi_shared_free(trm_comm *c, trm_comm_shared *s);
void trm_mpi_buffer_free(trm_comm *c, trm_comm_buffer *b);
/* From now on buffers are private and ranks exchange messages; `why` completes "/dev/shm ...". */
void trm_mpi_leave_windows(trm_mpi *m, const char *why);
/* Writes base.about. */
void trm_mpi_describe(trm_mpi *m);

/* ---- topo.c: one view of who sits together --------------------------------------------- */

typedef struct trm_mpi_topo {
    int nodes, node;                    /* nodes are numbered by their lowest rank, which is the node's leader */
    int node_rank, node_size;
    int *node_of;                       /* per rank */
    int *first;                         /* node k owns member[first[k]] .. member[first[k+1]-1] */
    int *member;                        /* ranks, node after node, ascending within a node */
    trm_mpi_net *net;                   /* the exchange between leaders; NULL on other ranks and with one node */
} trm_mpi_topo;

/* From one node number per rank, any numbers. */
trm_status trm_mpi_topo_make(const int *color, int rank, int size, trm_mpi_topo *t);
void trm_mpi_topo_free(trm_mpi_topo *t);
/* Ranks that share memory get the same color; *node_comm holds them, in rank order.  fake_nodes > 0 deals the ranks of each
 * host to that many pretend nodes. */
trm_status trm_mpi_find_nodes(MPI_Comm world, int fake_nodes, int *color, MPI_Comm *node_comm);

/* ---- window.c ---------------------------------------------------------------------------- */

typedef struct trm_mpi_window {
    MPI_Win win;
    unsigned char **part;               /* per rank of the node: its part, 64-byte aligned */
} trm_mpi_window;

/* Whether /dev/shm has room for `bytes` more on this rank's part, on every node: equal on all ranks. Collective. */
trm_status trm_mpi_window_fits(trm_mpi *m, size_t bytes, bool *fits);
/* Collective over the node. */
trm_status trm_mpi_window_open(trm_mpi *m, size_t bytes, trm_mpi_window *w);
/* The same, not zeroed. */
trm_status trm_mpi_window_map(trm_mpi *m, size_t bytes, trm_mpi_window *w);
void trm_mpi_window_close(trm_mpi_window *w);

/* The flags that one rank raises for one request; numbers only grow.  One cache line each, one writer each. */
typedef struct trm_mpi_line {
    _Alignas(TRM_ALIGN) atomic_uint_fast64_t posted;    /* my buffer is ready for round n */
    atomic_uint_fast64_t summed;                        /* my part of round n is summed and written */
} trm_mpi_line;

/* What a node shares besides: one per node. */
typedef struct trm_mpi_head {
    atomic_int gave_up;                 /* 1 + rank of the first rank that failed, 0 = none */
} trm_mpi_head;

/* A slot is node_size lines and one for the node (posted: the exchange of round n is done).  Collective in effect: equal
 * order on all ranks, which therefore all get the same slot. */
trm_status trm_mpi_slots_open(trm_mpi *m);
void trm_mpi_slots_close(trm_mpi *m);
trm_status trm_mpi_slot_take(trm_mpi *m, int *slot, trm_mpi_line **line);
void trm_mpi_slot_give(trm_mpi *m, int slot);

/* ---- the transport ------------------------------------------------------------------------ */

typedef struct trm_mpi_slots {
    trm_mpi_window *page;
    int pages, page_room;
    int *unused;                        /* stack of slot numbers */
    int unused_count;
} trm_mpi_slots;

/* What a rank has reached, for roll calls: posts per channel, and meetings outside a step. */
enum { TRM_MPI_MEETINGS = TRM_CHANNEL_COUNT, TRM_MPI_PLACES };
#define TRM_MPI_SAID 64

struct trm_mpi {
    trm_comm base;
    MPI_Comm world, watch, node_comm;   /* watch: roll calls */
    bool ends_mpi;                      /* close also finalizes (launch.c) */
    bool threads;                       /* MPI_THREAD_MULTIPLE */
    bool failed;                        /* a wait gave up: peers may be gone, so close frees nothing collectively */
    trm_mpi_topo real;
    trm_mpi_topo flat;                  /* every rank its own node: where there is no window; made when first needed */
    bool no_window;                     /* no buffer goes to a window */
    int spins;                          /* polls before a wait looks at the clock; 0: the core is shared, do not spin */
    trm_mpi_head *head;                 /* NULL without a window */
    trm_mpi_slots slots;
    trm_mpi_request *first, *last;      /* posted requests, in order */
    bool waiting;                       /* inside a wait: sums count as exposed */
    uint64_t place[TRM_MPI_PLACES];
    double answered;                    /* when roll calls were looked for last */
    uint64_t said[TRM_MPI_SAID][TRM_MPI_PLACES];        /* answers under way */
    unsigned said_count;
};

typedef struct trm_mpi_buffer {
    trm_comm_buffer base;
    trm_mpi_topo *topo;
    bool in_window;
    trm_mpi_window window;              /* where in_window */
    unsigned char *shared;              /* several nodes: the node's sum; base.data where the node has one rank */
} trm_mpi_buffer;

typedef struct trm_mpi_shared {
    trm_comm_shared base;
    trm_mpi_window window;              /* the first rank of the node owns it all */
} trm_mpi_shared;

/* FREE -> post -> GATHERING peers -> SUMMING my part -> AWAITING the others' parts or nodes -> FREE */
typedef enum trm_mpi_stage { TRM_MPI_FREE, TRM_MPI_GATHERING, TRM_MPI_SUMMING, TRM_MPI_AWAITING } trm_mpi_stage;

struct trm_mpi_request {
    trm_comm_request base;
    const trm_mpi_topo *topo;
    unsigned char *shared;              /* base of the node's sum */
    trm_mpi_line *line;                 /* node_size + 1 */
    int slot;                           /* -1: the lines are the request's own */
    uint64_t round;
    uint64_t place;                     /* its number among the posts of its channel */
    trm_mpi_stage stage;
    int seen;                           /* ranks of the node whose flag was seen */
    trm_comm_range part, whole;         /* elements that this rank sums; that the request covers */
    int64_t next;                       /* first element of `part` not yet summed */
    double sumsq;                       /* of this round so far */
    int sources, targets;
    void **source, **target;            /* buffers; the second halves are room for addresses within them */
    trm_mpi_request *later;             /* posted after this one */
    /* Between nodes, the leader's engine's: */
    uint8_t *node_in;                   /* nodes with a contributing rank */
    trm_mpi_request *queued;
};

/* ---- step.c -------------------------------------------------------------------------------- */

trm_status trm_mpi_plan(trm_comm *c, trm_comm_request *r);
void trm_mpi_request_free(trm_comm *c, trm_comm_request *r);
trm_status trm_mpi_post(trm_comm *c, trm_comm_request *r);
trm_status trm_mpi_wait(trm_comm *c, trm_comm_request *r);
/* Sums what peers wait for, as far as possible without waiting, at most one piece of each request. */
bool trm_mpi_help(trm_mpi *m);

/* Patience of a waiting rank: spin, then sleep in naps; anew after each thing that moved. */
typedef struct trm_mpi_patience {
    int spins, polls;
    double start, quiet, now;           /* since it waits, since nothing moves; 0: not looked at yet */
} trm_mpi_patience;
void trm_mpi_moved(trm_mpi_patience *p);
/* Lets some time pass; p->start stays 0 while it spins. */
void trm_mpi_relax(trm_mpi_patience *p);
/* A peer's or the engine's fault. */
trm_status trm_mpi_trouble(trm_mpi *m, const char *what);
bool trm_mpi_late(const trm_mpi *m, const trm_mpi_patience *p);
/* Marks this rank as failed for all to see; returns s. */
trm_status trm_mpi_give_up(trm_mpi *m, trm_status s);

/* ---- network.c ----------------------------------------------------------------------------- */

/* Collective over `world`. Leaders get an engine and, where MPI allows it, its thread. */
trm_status trm_mpi_net_open(trm_mpi *m, trm_mpi_topo *t);
void trm_mpi_net_close(trm_mpi_net *n);
/* Room for the messages of a channel; plan time. */
trm_status trm_mpi_net_reserve(trm_mpi_net *n, trm_channel channel);
/* Hands a request to the engine, which raises the node's flag of this round when the result is in `shared`. */
void trm_mpi_net_post(trm_mpi_net *n, trm_mpi_request *r);
/* Moves messages on, unless the thread is at it; whether any moved. */
bool trm_mpi_net_poll(trm_mpi_net *n);
/* Ends the thread: no request moves from then on.  Accepts NULL; a second call does nothing. */
void trm_mpi_net_stop(trm_mpi_net *n);
/* The rank waits and will poll: the thread leaves it to that. */
void trm_mpi_net_attend(trm_mpi_net *n, bool on);
trm_status trm_mpi_net_status(trm_mpi_net *n);

/* ---- rollcall.c ---------------------------------------------------------------------------- */

/* Answers other ranks' calls, now and then. */
void trm_mpi_answer(trm_mpi *m, double now);
/* Asks all ranks how far they are; those that do not say within a second that they reached number `at` of this place are
 * named in the recorded sentence, which is returned. */
trm_status trm_mpi_roll_call(trm_mpi *m, int place, uint64_t at, const char *what, double waited);

#endif
