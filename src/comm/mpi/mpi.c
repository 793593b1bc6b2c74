/* mpi: opening, closing, and the small collectives outside a step. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "mpi_impl.h"

#define FLAG_BYTES (2u << 20)  /* plenty for the flags of all requests */
#define SPINS 200              /* some microseconds */
#define BCAST_BYTES (4u << 20) /* per call: no int overflow, no large temporaries in MPI */

trm_status trm_mpi_check(int rc, const char *call) {
    char text[MPI_MAX_ERROR_STRING];
    int len = 0;
    if (rc == MPI_SUCCESS) return TRM_OK;
    if (MPI_Error_string(rc, text, &len) != MPI_SUCCESS) len = 0;
    return trm_fail(TRM_COMM, "%s failed: %.*s (code %d)", call, len, text, rc);
}

trm_status trm_mpi_dup(MPI_Comm from, MPI_Comm *out) {
    TRM_TRY(trm_mpi_check(MPI_Comm_dup(from, out), "MPI_Comm_dup"));
    return trm_mpi_check(MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

/* ---- outside a step -------------------------------------------------------------------------- */

/* Waits with a deadline until all ranks are here, so that the blocking call that follows cannot hang on a missing one. */
trm_status trm_mpi_meet(trm_mpi *m, const char *what) {
    MPI_Request q;
    trm_mpi_patience p = {.spins = m->spins};
    uint64_t at = ++m->place[TRM_MPI_MEETINGS];
    if (m->failed) return trm_fail(TRM_COMM, "%s cannot be held after a communication fault", what);
    TRM_TRY(trm_mpi_check(MPI_Ibarrier(m->world, &q), "MPI_Ibarrier"));
    for (;;) {
        int done = 0;
        TRM_TRY(trm_mpi_check(MPI_Test(&q, &done, MPI_STATUS_IGNORE), "MPI_Test"));
        if (done) break;
        if (trm_mpi_help(m))
            trm_mpi_moved(&p);
        else
            trm_mpi_relax(&p);
        if (p.start == 0) continue;
        trm_status s = trm_mpi_trouble(m, what);
        if (s != TRM_OK) return trm_mpi_give_up(m, s);
        trm_mpi_answer(m, p.now);
        if (trm_mpi_late(m, &p))
            return trm_mpi_give_up(m, trm_mpi_roll_call(m, TRM_MPI_MEETINGS, at, what, p.now - p.start));
    }
    /* A rank that gave up has left its half of a meeting behind, which may have met this one. */
    trm_status s = trm_mpi_trouble(m, what);
    return s == TRM_OK ? TRM_OK : trm_mpi_give_up(m, s);
}

static trm_status mpi_barrier(trm_comm *c, const char *what) { return trm_mpi_meet((trm_mpi *)c, what); }

static trm_status mpi_bcast(trm_comm *c, void *bytes, size_t n, int root) {
    trm_mpi *m = (trm_mpi *)c;
    TRM_TRY(trm_mpi_meet(m, "a broadcast"));
    for (size_t done = 0; done < n; done += BCAST_BYTES) {
        size_t part = n - done < BCAST_BYTES ? n - done : BCAST_BYTES;
        TRM_TRY(
            trm_mpi_check(MPI_Bcast((char *)bytes + done, (int)part, MPI_BYTE, root, m->world), "MPI_Bcast"));
    }
    return TRM_OK;
}

static trm_status mpi_allgather(trm_comm *c, const void *mine, size_t bytes, void *all) {
    trm_mpi *m = (trm_mpi *)c;
    if (bytes > BCAST_BYTES)
        return trm_fail(TRM_INTERNAL, "an all-gather of %zu bytes per rank; at most %u", bytes, BCAST_BYTES);
    TRM_TRY(trm_mpi_meet(m, "an exchange of small data"));
    return trm_mpi_check(MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, m->world),
                         "MPI_Allgather");
}

static void mpi_abort(trm_comm *c, int exit_code) {
    trm_mpi *m = (trm_mpi *)c;
    int none = 0;
    if (m->head) atomic_compare_exchange_strong(&m->head->gave_up, &none, 1 + c->rank);
    MPI_Abort(m->world, exit_code);
    _Exit(exit_code);
}

/* ---- open and close -------------------------------------------------------------------------- */

static void free_comm(MPI_Comm *comm) {
    if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
}

static void free_collectively(trm_mpi *m) {
    trm_mpi_net_close(m->real.net);
    trm_mpi_net_close(m->flat.net);
    trm_mpi_slots_close(m);
    trm_mpi_topo_free(&m->real);
    trm_mpi_topo_free(&m->flat);
    free_comm(&m->node_comm);
    free_comm(&m->watch);
    free_comm(&m->world);
    trm_free(m->base.host);
}

/* After a fault peers may be gone and messages under way: what they might touch stays where it is. */
static void mpi_close(trm_comm *c) {
    trm_mpi *m = (trm_mpi *)c;
    bool finalize = m->ends_mpi && !m->failed;
    if (!m->failed && trm_mpi_meet(m, "the end") == TRM_OK) {
        free_collectively(m);
        trm_free(m);
    }
    if (finalize) MPI_Finalize();
}

static const trm_comm_ops mpi_ops = {
    .name = "mpi",
    .buffer_bytes = sizeof(trm_mpi_buffer),
    .request_bytes = sizeof(trm_mpi_request),
    .close = mpi_close,
    .shared_bytes = sizeof(trm_mpi_shared),
    .shared_alloc = trm_mpi_shared_alloc,
    .shared_free = trm_mpi_shared_free,
    .buffer_alloc = trm_mpi_buffer_alloc,
    .buffer_free = trm_mpi_buffer_free,
    .plan = trm_mpi_plan,
    .request_free = trm_mpi_request_free,
    .post = trm_mpi_post,
    .wait = trm_mpi_wait,
    .barrier = mpi_barrier,
    .bcast = mpi_bcast,
    .allgather = mpi_allgather,
    .abort = mpi_abort,
};

/* For tests and benchmarks.  Rank 0's environment counts for all.
 *   TRIREME_COMM=window|mpi     window: the usual; mpi: messages even where there is shared memory
 *   TRIREME_FAKE_NODES=N        deals the ranks of each host to N pretend nodes */
typedef struct wishes {
    int32_t messages_only, fake_nodes;
} wishes;

static trm_status read_wishes(trm_mpi *m, wishes *w) {
    const char *how = getenv("TRIREME_COMM"), *fake = getenv("TRIREME_FAKE_NODES");
    int64_t nodes = 0;
    trm_status status = TRM_OK;
    if (how && *how && strcmp(how, "window") != 0 && strcmp(how, "mpi") != 0)
        status = trm_fail(TRM_USAGE, "TRIREME_COMM is '%s'; it may be window or mpi", how);
    if (fake && *fake && (!trm_parse_int(fake, &nodes) || nodes < 0 || nodes > 4096))
        status = trm_fail(TRM_USAGE, "TRIREME_FAKE_NODES is '%s'; it may be 0 to 4096", fake);
    *w = (wishes){how && strcmp(how, "mpi") == 0, (int32_t)nodes};
    TRM_TRY(trm_comm_agree(&m->base, status));
    return trm_comm_bcast(&m->base, w, sizeof *w, 0);
}

static trm_status share_hosts(trm_mpi *m) {
    char name[TRM_HOST_BYTES] = "";
    if (gethostname(name, sizeof name - 1) != 0) snprintf(name, sizeof name, "an unknown host");
    return trm_comm_allgather(&m->base, name, sizeof name, m->base.host);
}

/* A rank that spins on a core which another rank needs only delays what it waits for. */
static trm_status choose_spins(trm_mpi *m) {
    cpu_set_t mine, *all = trm_alloc_array((size_t)m->base.size, sizeof *all, "the ranks' cores");
    if (!all) return TRM_MEMORY;
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) CPU_ZERO(&mine);
    trm_status status = trm_comm_allgather(&m->base, &mine, sizeof mine, all);
    cpu_set_t both, either = mine;
    int sharers = 0;
    for (int k = 0; status == TRM_OK && k < m->base.size; k++) {
        CPU_AND(&both, &mine, &all[k]);
        if (strcmp(m->base.host[k], m->base.host[m->base.rank]) != 0 || CPU_COUNT(&both) == 0) continue;
        CPU_OR(&either, &either, &all[k]);
        sharers++;
    }
    m->spins = sharers > CPU_COUNT(&either) ? 0 : SPINS;
    /* Naps come to nothing where Linux rounds them up by 50 us. */
    if (m->spins == 0) prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    trm_free(all);
    return status;
}

static trm_status find_topo(trm_mpi *m, int fake_nodes) {
    int *color = trm_alloc_array((size_t)m->base.size, sizeof *color, "the nodes");
    TRM_TRY(trm_comm_agree(&m->base, color ? TRM_OK : TRM_MEMORY));
    trm_status status = trm_mpi_find_nodes(m->world, fake_nodes, color, &m->node_comm);
    if (status == TRM_OK)
        status = trm_comm_agree(&m->base, trm_mpi_topo_make(color, m->base.rank, m->base.size, &m->real));
    trm_free(color);
    if (status != TRM_OK) return status;
    m->base.node = m->real.node;
    m->base.nodes = m->real.nodes;
    m->base.node_rank = m->real.node_rank;
    m->base.node_size = m->real.node_size;
    return TRM_OK;
}

static trm_status open_flags(trm_mpi *m) {
    bool fits;
    TRM_TRY(trm_mpi_window_fits(m, FLAG_BYTES, &fits));
    if (fits) return trm_mpi_slots_open(m);
    trm_mpi_leave_windows(m, "is full");
    return TRM_OK;
}

static trm_status open_parts(trm_mpi *m) {
    wishes w;
    TRM_TRY(share_hosts(m));
    TRM_TRY(read_wishes(m, &w));
    TRM_TRY(choose_spins(m));
    TRM_TRY(find_topo(m, w.fake_nodes));
    m->no_window = w.messages_only;
    if (!m->no_window) TRM_TRY(open_flags(m));
    if (!m->no_window && m->real.nodes > 1) TRM_TRY(trm_mpi_net_open(m, &m->real));
    trm_mpi_describe(m);
    return TRM_OK;
}

static trm_status make(MPI_Comm comm, trm_mpi **out) {
    int rank, size, level;
    TRM_TRY(trm_mpi_check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank"));
    TRM_TRY(trm_mpi_check(MPI_Comm_size(comm, &size), "MPI_Comm_size"));
    TRM_TRY(trm_mpi_check(MPI_Query_thread(&level), "MPI_Query_thread"));
    trm_mpi *m = trm_alloc(sizeof *m, "the transport");
    if (!m) return TRM_MEMORY;
    m->world = m->watch = m->node_comm = MPI_COMM_NULL;
    m->threads = level == MPI_THREAD_MULTIPLE;
    trm_status status = trm_comm_init(&m->base, &mpi_ops, rank, size);
    if (status == TRM_OK) status = trm_mpi_dup(comm, &m->world);
    if (status == TRM_OK) status = trm_mpi_dup(m->world, &m->watch);
    if (status != TRM_OK) {
        trm_free(m->base.host);
        trm_free(m);
        return status;
    }
    *out = m;
    return TRM_OK;
}

trm_status trm_comm_from_mpi(MPI_Comm comm, trm_comm **out) {
    trm_mpi *m;
    TRM_TRY(make(comm, &m));
    trm_status status = trm_comm_agree(&m->base, open_parts(m));
    if (status != TRM_OK) {
        /* Who got how far differs: give nothing back collectively. */
        m->failed = true;
        mpi_close(&m->base);
        return status;
    }
    *out = &m->base;
    return TRM_OK;
}
