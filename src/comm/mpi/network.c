/* network: the exchange between the leaders of nodes.
 *
 * A leader's engine takes requests whose node has summed its parts (step.c) and makes `shared` the sum over all nodes.  A
 * range is cut into chunks and a chunk into one slice per node:
 *   scatter   slice k of every node goes to node k, which adds them up in node order
 *   spread    node k sends its slice of the result to all
 * A slice's sum is made in one place and copied, so all ranks end with the same bits; each byte crosses a link twice, as in a
 * ring, but in 2 steps where a ring of L nodes takes 2 (L - 1).  A small range, or any on two nodes, skips the second step:
 * every node gets the whole of it from all and adds in the same order.  A gather sends packed blocks, once.
 *
 * The engine is a state machine without waits.  Its thread polls it and sleeps in between, so that the computing thread
 * keeps its core; a rank that waits polls it itself, as a change of threads costs more than a small message.  One
 * request per channel is under way, the step's channel looked at first.  Without MPI_THREAD_MULTIPLE there is no
 * thread, and messages move only inside waits. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mpi_impl.h"

#define LANES 2                 /* chunks under way per request */
#define SMALL_BYTES (64 * 1024) /* of all copies of a range: up to here one step is cheaper than two */
#define SLICE_MAX (1024 * 1024) /* MPI's own temporaries grow with the message */
#define SLICE_MIN (64 * 1024)
#define SCRATCH_BYTES (4 * 1024 * 1024) /* aim for all slices of a chunk */

typedef enum step { IDLE, SCATTER, SPREAD } step;

typedef struct lane {
    step at;
    trm_comm_range chunk;
    int messages;
    MPI_Request *message; /* 2 per node */
    unsigned char *scratch;
} lane;

typedef struct channel {
    MPI_Comm comm;                 /* leaders, in node order */
    trm_mpi_request *first, *last; /* the first is under way */
    bool started, whole;           /* whole: a small range, or a gather: one step */
    int64_t next, done, chunks;    /* chunks begun, finished, in all */
    int64_t chunk_count;           /* elements per chunk (of each block for a gather) */
    lane lane[LANES];
} channel;

struct trm_mpi_net {
    const trm_mpi_topo *topo;
    size_t slice_bytes, lane_bytes;
    channel channel[TRM_CHANNEL_COUNT];
    _Atomic(trm_mpi_request *) incoming; /* stack of posted requests, newest first */
    const void **source;                 /* per node */
    /* the thread */
    bool has_thread;
    pthread_t thread;
    sem_t wake;
    atomic_bool stop, failed;
    atomic_bool attended; /* the rank waits, and moves the engine itself */
    atomic_flag held;     /* whoever moves the engine */
    bool urgent;          /* the thread's own */
    trm_status status;    /* set before `failed` */
    char text[512];
};

/* ---- layout --------------------------------------------------------------------------------- */

static size_t size_of(const trm_mpi_request *r) { return trm_dtype_size(r->base.call.buffer->type); }
static bool is_sum(const trm_mpi_request *r) { return r->base.call.kind == TRM_COMM_SUM; }

static unsigned char *shared_at(const trm_mpi_request *r, int64_t element) {
    return r->shared + (size_t)element * size_of(r);
}

/* The part of a chunk that node k adds up. */
static trm_comm_range slice(const trm_mpi_net *n, const channel *ch, const lane *l, int k) {
    return ch->whole ? l->chunk : trm_comm_cut(l->chunk, size_of(ch->first), n->topo->nodes, k);
}

/* Where a slice from node k arrives; a slice may be a cache line longer than planned, as cuts fall on lines. */
static unsigned char *arrival(const trm_mpi_net *n, const lane *l, int k) {
    return l->scratch + (size_t)k * (n->lane_bytes / (size_t)n->topo->nodes / TRM_ALIGN * TRM_ALIGN);
}

/* Elements per chunk of a sum.  Several chunks even of a moderate range: one travels while another is added. */
static int64_t sum_chunk(const trm_mpi_net *n, const channel *ch, int64_t count) {
    int64_t line = TRM_ALIGN / (int64_t)size_of(ch->first), slices = ch->whole ? 1 : n->topo->nodes;
    int64_t most = slices * (int64_t)n->slice_bytes / TRM_ALIGN, least = slices * SLICE_MIN / TRM_ALIGN;
    int64_t even = (count / line + 2 * LANES) / (2 * LANES);
    return line * trm_min64(most, trm_max64(least, even));
}

static void plan_chunks(const trm_mpi_net *n, channel *ch) {
    const trm_mpi_request *r = ch->first;
    int64_t nodes = n->topo->nodes, size = (int64_t)size_of(r), ranks = n->topo->first[nodes];
    int64_t count = r->base.call.count;
    /* Two nodes send as much either way, and save a step for some more additions. */
    ch->whole = !is_sum(r) || nodes == 2 || count * size * nodes <= SMALL_BYTES;
    ch->chunk_count =
        is_sum(r) ? sum_chunk(n, ch, count) : trm_max64(1, (int64_t)n->lane_bytes / (ranks * size));
    ch->chunks = (count + ch->chunk_count - 1) / ch->chunk_count;
    ch->next = ch->done = 0;
}

/* ---- messages ------------------------------------------------------------------------------- */

static trm_status send(channel *ch, lane *l, const void *bytes, size_t n, int node) {
    int tag = (int)(l - ch->lane) * 4 + (int)l->at;
    if (n == 0) return TRM_OK;
    return trm_mpi_check(MPI_Isend(bytes, (int)n, MPI_BYTE, node, tag, ch->comm, &l->message[l->messages++]),
                         "MPI_Isend");
}

static trm_status receive(channel *ch, lane *l, void *bytes, size_t n, int node) {
    int tag = (int)(l - ch->lane) * 4 + (int)l->at;
    if (n == 0) return TRM_OK;
    return trm_mpi_check(MPI_Irecv(bytes, (int)n, MPI_BYTE, node, tag, ch->comm, &l->message[l->messages++]),
                         "MPI_Irecv");
}

/* The nodes from the next one round to the one before: not all senders aim at one node at a time. */
static int other(const trm_mpi_net *n, int k) { return (n->topo->node + k) % n->topo->nodes; }

static trm_status scatter_sum(trm_mpi_net *n, channel *ch, lane *l) {
    const trm_mpi_request *r = ch->first;
    trm_comm_range mine = slice(n, ch, l, n->topo->node);
    for (int k = 1; k < n->topo->nodes; k++) {
        int from = other(n, n->topo->nodes - k);
        if (r->node_in[from])
            TRM_TRY(receive(ch, l, arrival(n, l, from), (size_t)mine.count * size_of(r), from));
    }
    for (int k = 1; r->node_in[n->topo->node] && k < n->topo->nodes; k++) {
        trm_comm_range s = slice(n, ch, l, other(n, k));
        TRM_TRY(send(ch, l, shared_at(r, s.begin), (size_t)s.count * size_of(r), other(n, k)));
    }
    return TRM_OK;
}

static void add_slice(trm_mpi_net *n, channel *ch, lane *l) {
    const trm_mpi_request *r = ch->first;
    trm_comm_range mine = slice(n, ch, l, n->topo->node);
    void *to = shared_at(r, mine.begin);
    int sources = 0;
    for (int k = 0; k < n->topo->nodes; k++)
        if (r->node_in[k]) n->source[sources++] = k == n->topo->node ? to : arrival(n, l, k);
    trm_comm_add_up(r->base.call.buffer->type, n->source, sources, &to, 1, mine.count, false);
}

static trm_status spread(trm_mpi_net *n, channel *ch, lane *l) {
    const trm_mpi_request *r = ch->first;
    trm_comm_range mine = slice(n, ch, l, n->topo->node);
    for (int k = 1; k < n->topo->nodes; k++) {
        int from = other(n, n->topo->nodes - k);
        trm_comm_range s = slice(n, ch, l, from);
        TRM_TRY(receive(ch, l, shared_at(r, s.begin), (size_t)s.count * size_of(r), from));
    }
    for (int k = 1; k < n->topo->nodes; k++)
        TRM_TRY(send(ch, l, shared_at(r, mine.begin), (size_t)mine.count * size_of(r), other(n, k)));
    return TRM_OK;
}

/* Copies the chunk of each block of node k between `shared` and the packed form. */
static void pack(const trm_mpi_net *n, const trm_mpi_request *r, const lane *l, int k, bool in) {
    size_t bytes = (size_t)l->chunk.count * size_of(r);
    for (int i = n->topo->first[k]; i < n->topo->first[k + 1]; i++) {
        unsigned char *packed = l->scratch + (size_t)i * bytes;
        unsigned char *block =
            shared_at(r, r->whole.begin + n->topo->member[i] * r->base.call.count + l->chunk.begin);
        memcpy(in ? packed : block, in ? block : packed, bytes);
    }
}

static trm_status scatter_gather(trm_mpi_net *n, channel *ch, lane *l) {
    const trm_mpi_request *r = ch->first;
    const int *first = n->topo->first;
    int me = n->topo->node;
    size_t bytes = (size_t)l->chunk.count * size_of(r);
    pack(n, r, l, me, true);
    for (int k = 0; k < n->topo->nodes; k++)
        if (k != me)
            TRM_TRY(receive(ch, l, l->scratch + (size_t)first[k] * bytes,
                            (size_t)(first[k + 1] - first[k]) * bytes, k));
    for (int k = 1; k < n->topo->nodes; k++)
        TRM_TRY(send(ch, l, l->scratch + (size_t)first[me] * bytes,
                     (size_t)(first[me + 1] - first[me]) * bytes, other(n, k)));
    return TRM_OK;
}

/* ---- the state machine ---------------------------------------------------------------------- */

static trm_status begin_chunk(trm_mpi_net *n, channel *ch, lane *l) {
    const trm_mpi_request *r = ch->first;
    int64_t begin = ch->next++ * ch->chunk_count;
    l->chunk = (trm_comm_range){begin, trm_min64(ch->chunk_count, r->base.call.count - begin)};
    l->at = SCATTER;
    if (!is_sum(r)) return scatter_gather(n, ch, l);
    l->chunk.begin += r->whole.begin;
    return scatter_sum(n, ch, l);
}

/* All messages of a step have come and gone. */
static trm_status end_step(trm_mpi_net *n, channel *ch, lane *l) {
    l->messages = 0;
    if (l->at == SCATTER && is_sum(ch->first)) {
        add_slice(n, ch, l);
        if (!ch->whole) {
            l->at = SPREAD;
            return spread(n, ch, l);
        }
    }
    for (int k = 0; !is_sum(ch->first) && k < n->topo->nodes; k++)
        if (k != n->topo->node) pack(n, ch->first, l, k, false);
    l->at = IDLE;
    ch->done++;
    return TRM_OK;
}

/* Chunk c uses lane c mod LANES on all leaders, so that messages meet. */
static trm_status poll_lane(trm_mpi_net *n, channel *ch, lane *l, bool *moved) {
    if (l->at == IDLE) {
        if (ch->next >= ch->chunks || ch->next % LANES != l - ch->lane) return TRM_OK;
        *moved = true;
        TRM_TRY(begin_chunk(n, ch, l));
    }
    int done = 0;
    TRM_TRY(trm_mpi_check(MPI_Testall(l->messages, l->message, &done, MPI_STATUSES_IGNORE), "MPI_Testall"));
    if (!done) return TRM_OK;
    *moved = true;
    return end_step(n, ch, l);
}

/* The node's ranks have all summed their parts. */
static bool node_ready(const trm_mpi_net *n, const trm_mpi_request *r) {
    for (int k = 0; k < n->topo->node_size; k++)
        if (atomic_load_explicit(&r->line[k].summed, memory_order_acquire) < r->round) return false;
    return true;
}

/* The flag is the engine's last touch: from then on the request may be posted again, or freed. */
static void end_request(const trm_mpi_net *n, channel *ch) {
    trm_mpi_request *r = ch->first;
    trm_mpi_line *node = &r->line[n->topo->node_size];
    uint64_t round = r->round;
    ch->first = r->queued;
    if (!ch->first) ch->last = NULL;
    ch->started = false;
    atomic_store_explicit(&node->posted, round, memory_order_release);
}

static trm_status poll_channel(trm_mpi_net *n, channel *ch, bool *moved) {
    if (!ch->first) return TRM_OK;
    if (!ch->started) {
        if (!node_ready(n, ch->first)) return TRM_OK;
        plan_chunks(n, ch);
        ch->started = *moved = true;
    }
    for (int k = 0; k < LANES; k++) TRM_TRY(poll_lane(n, ch, &ch->lane[k], moved));
    if (ch->done == ch->chunks) end_request(n, ch);
    return TRM_OK;
}

static void append_request(trm_mpi_net *n, trm_mpi_request *r) {
    channel *ch = &n->channel[r->base.call.channel];
    r->queued = NULL;
    if (ch->last)
        ch->last->queued = r;
    else
        ch->first = r;
    ch->last = r;
}

/* The stack gives the newest first: turn it round. */
static void take_incoming(trm_mpi_net *n) {
    if (!atomic_load_explicit(&n->incoming, memory_order_relaxed)) return;
    trm_mpi_request *newest = atomic_exchange_explicit(&n->incoming, NULL, memory_order_acquire),
                    *oldest = NULL;
    while (newest) {
        trm_mpi_request *next = newest->queued;
        newest->queued = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest) {
        trm_mpi_request *next = oldest->queued;
        append_request(n, oldest);
        oldest = next;
    }
}

static bool poll_all(trm_mpi_net *n) {
    bool moved = false;
    trm_status s = TRM_OK;
    take_incoming(n);
    for (int k = 0; s == TRM_OK && k < TRM_CHANNEL_COUNT; k++) s = poll_channel(n, &n->channel[k], &moved);
    if (s != TRM_OK) {
        n->status = s;
        snprintf(n->text, sizeof n->text, "%s", trm_error_text());
        atomic_store_explicit(&n->failed, true, memory_order_release);
    }
    return moved;
}

/* ---- the thread ------------------------------------------------------------------------------ */

#define NAP_MIN_S 20e-6
#define NAP_MAX_S 200e-6
#define SLICE_NS 100000

static bool is_busy(trm_mpi_net *n) {
    for (int k = 0; k < TRM_CHANNEL_COUNT; k++)
        if (n->channel[k].first) return true;
    return atomic_load_explicit(&n->incoming, memory_order_relaxed) != NULL;
}

/* The rank computes, so the thread naps, the longer the less happens. */
static void nap(trm_mpi_net *n, double *quiet_since) {
    double now = trm_now();
    if (*quiet_since == 0) *quiet_since = now;
    double length = (now - *quiet_since) / 8;
    if (length < NAP_MIN_S || n->urgent) length = NAP_MIN_S;
    trm_sleep(length < NAP_MAX_S ? length : NAP_MAX_S);
}

/* One holder at a time moves the engine; the other does not wait for it. */
static bool take(trm_mpi_net *n) {
    return !atomic_flag_test_and_set_explicit(&n->held, memory_order_acquire);
}
static void give(trm_mpi_net *n) { atomic_flag_clear_explicit(&n->held, memory_order_release); }

/* Of the kernel's interface (sched_setattr(2)): C libraries do not declare it. */
struct sched_settings {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/* The thread works for microseconds at a time and has to do so at once, though its rank computes on the only core.  With a
 * short slice it may interrupt (Linux 6.12 and later; before, this changes nothing). */
static void ask_for_short_slices(void) {
    struct sched_settings s = {.size = sizeof s, .policy = SCHED_OTHER, .runtime = SLICE_NS};
    syscall(SYS_sched_setattr, 0, &s, 0);
}

static void *run(void *arg) {
    trm_mpi_net *n = arg;
    double quiet_since = 0;
    /* Linux rounds sleeps up by 50 us unless told otherwise. */
    prctl(PR_SET_TIMERSLACK, 1000UL);
    ask_for_short_slices();
    while (!atomic_load(&n->stop) && !atomic_load(&n->failed)) {
        bool moved = false, busy = false;
        if (!atomic_load(&n->attended) && take(n)) {
            moved = poll_all(n);
            busy = is_busy(n);
            n->urgent = n->channel[TRM_CHANNEL_STEP].first != NULL;
            give(n);
        }
        if (!busy) sem_wait(&n->wake);
        if (moved || !busy)
            quiet_since = 0;
        else
            nap(n, &quiet_since);
    }
    return NULL;
}

static trm_status start_thread(trm_mpi_net *n) {
    sigset_t all, before;
    if (sem_init(&n->wake, 0, 0) != 0) return trm_fail(TRM_MACHINE, "cannot make a semaphore");
    /* Signals are for other threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&n->thread, NULL, run, n);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) return trm_fail(TRM_MACHINE, "cannot start the communication thread: error %d", rc);
    n->has_thread = true;
    return TRM_OK;
}

/* ---- called by the rank ---------------------------------------------------------------------- */

void trm_mpi_net_post(trm_mpi_net *n, trm_mpi_request *r) {
    trm_mpi_request *top = atomic_load_explicit(&n->incoming, memory_order_relaxed);
    do r->queued = top;
    while (!atomic_compare_exchange_weak_explicit(&n->incoming, &top, r, memory_order_release,
                                                  memory_order_relaxed));
    /* A collective inside the step is waited for at once: the rank will attend to it. */
    if (n->has_thread && r->base.call.channel != TRM_CHANNEL_STEP) sem_post(&n->wake);
}

bool trm_mpi_net_poll(trm_mpi_net *n) {
    if (atomic_load_explicit(&n->failed, memory_order_relaxed) || !take(n)) return false;
    bool moved = poll_all(n);
    give(n);
    return moved;
}

void trm_mpi_net_attend(trm_mpi_net *n, bool on) {
    atomic_store(&n->attended, on);
    if (on || !n->has_thread) return;
    bool idle = false;
    if (take(n)) {
        idle = !is_busy(n);
        give(n);
    }
    if (!idle) sem_post(&n->wake);
}

trm_status trm_mpi_net_status(trm_mpi_net *n) {
    if (!atomic_load_explicit(&n->failed, memory_order_acquire)) return TRM_OK;
    return trm_fail(n->status, "%s", n->text);
}

trm_status trm_mpi_net_reserve(trm_mpi_net *n, trm_channel which) {
    channel *ch = &n->channel[which];
    if (ch->lane[0].scratch) return TRM_OK;
    for (int k = 0; k < LANES; k++) {
        ch->lane[k].message =
            trm_alloc_array(2 * (size_t)n->topo->nodes, sizeof(MPI_Request), "messages between nodes");
        ch->lane[k].scratch = trm_alloc(n->lane_bytes, "messages between nodes");
        if (!ch->lane[k].message || !ch->lane[k].scratch) return TRM_MEMORY;
    }
    return TRM_OK;
}

static void set_sizes(trm_mpi_net *n) {
    size_t nodes = (size_t)n->topo->nodes, ranks = (size_t)n->topo->first[nodes];
    size_t slice_bytes = SCRATCH_BYTES / nodes / TRM_ALIGN * TRM_ALIGN;
    if (slice_bytes > SLICE_MAX) slice_bytes = SLICE_MAX;
    if (slice_bytes < SLICE_MIN) slice_bytes = SLICE_MIN;
    n->slice_bytes = slice_bytes;
    n->lane_bytes = nodes * (slice_bytes + TRM_ALIGN);
    if (n->lane_bytes < ranks * sizeof(double))
        n->lane_bytes = trm_round_up(ranks * sizeof(double), TRM_ALIGN * nodes);
}

static trm_status make_engine(const trm_mpi_topo *t, trm_mpi_net **out) {
    trm_mpi_net *n = trm_alloc(sizeof *n, "the exchange between nodes");
    if (!n) return TRM_MEMORY;
    n->topo = t;
    n->source = trm_alloc_array((size_t)t->nodes, sizeof *n->source, "the exchange between nodes");
    if (!n->source) {
        trm_free(n);
        return TRM_MEMORY;
    }
    set_sizes(n);
    for (int k = 0; k < TRM_CHANNEL_COUNT; k++) n->channel[k].comm = MPI_COMM_NULL;
    *out = n;
    return TRM_OK;
}

trm_status trm_mpi_net_open(trm_mpi *m, trm_mpi_topo *t) {
    trm_mpi_net *n = NULL;
    bool leads = t->node_rank == 0;
    if (!m->threads && m->base.rank == 0)
        trm_log(TRM_LOG_WARN, "MPI was started without MPI_THREAD_MULTIPLE: messages move only inside waits");
    TRM_TRY(trm_comm_agree(&m->base, leads ? make_engine(t, &n) : TRM_OK));
    t->net = n;
    for (int k = 0; k < TRM_CHANNEL_COUNT; k++) {
        MPI_Comm comm;
        TRM_TRY(trm_mpi_check(MPI_Comm_split(m->world, leads ? 0 : MPI_UNDEFINED, t->node, &comm),
                              "MPI_Comm_split"));
        if (n) n->channel[k].comm = comm;
    }
    return trm_comm_agree(&m->base, n && m->threads ? start_thread(n) : TRM_OK);
}

void trm_mpi_net_stop(trm_mpi_net *n) {
    if (!n || !n->has_thread) return;
    atomic_store(&n->stop, true);
    sem_post(&n->wake);
    pthread_join(n->thread, NULL);
    sem_destroy(&n->wake);
    n->has_thread = false;
    atomic_store(&n->failed, true);
    n->status = TRM_COMM;
}

void trm_mpi_net_close(trm_mpi_net *n) {
    if (!n) return;
    trm_mpi_net_stop(n);
    for (int k = 0; k < TRM_CHANNEL_COUNT; k++) {
        channel *ch = &n->channel[k];
        if (ch->comm != MPI_COMM_NULL) MPI_Comm_free(&ch->comm);
        for (int i = 0; i < LANES; i++) {
            trm_free(ch->lane[i].message);
            trm_free(ch->lane[i].scratch);
        }
    }
    trm_free(n->source);
    trm_free(n);
}
