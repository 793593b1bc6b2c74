/* buffer: which memory a buffer gets, and so how its requests travel. */
#include "mpi_impl.h"

void trm_mpi_describe(trm_mpi *m) {
    const trm_comm *c = &m->base;
    const char *how = m->no_window          ? "messages"
                      : c->nodes == 1       ? "shared window"
                      : c->nodes == c->size ? "messages"
                                            : "shared windows and messages between nodes";
    snprintf(m->base.about, sizeof m->base.about, "mpi: %d rank%s on %d node%s, %s", c->size,
             c->size == 1 ? "" : "s", c->nodes, c->nodes == 1 ? "" : "s", how);
}

/* Each rank a node of its own: buffers without a window are exchanged by messages between all ranks. */
static trm_status need_flat(trm_mpi *m) {
    if (m->flat.nodes) return TRM_OK;
    int size = m->base.size;
    int *color = trm_alloc_array((size_t)size, sizeof *color, "the ranks");
    trm_status status = color ? TRM_OK : TRM_MEMORY;
    for (int k = 0; color && k < size; k++) color[k] = k;
    if (color) status = trm_mpi_topo_make(color, m->base.rank, size, &m->flat);
    trm_free(color);
    TRM_TRY(trm_comm_agree(&m->base, status));
    return trm_mpi_net_open(m, &m->flat);
}

/* What this rank's part of the window must hold: its buffer, and the leader's also the sum of the node. */
static size_t window_bytes(const trm_mpi *m, const trm_comm_buffer *b) {
    size_t mine = trm_round_up(b->bytes, TRM_ALIGN);
    return m->real.nodes > 1 && m->real.node_rank == 0 ? 2 * mine : mine;
}

static trm_status alloc_window(trm_mpi *m, trm_mpi_buffer *b) {
    b->topo = &m->real;
    b->in_window = true;
    TRM_TRY(trm_mpi_window_open(m, window_bytes(m, &b->base), &b->window));
    b->base.data = b->window.part[m->real.node_rank];
    b->shared = b->window.part[0] + trm_round_up(b->base.bytes, TRM_ALIGN);
    return TRM_OK;
}

/* Private memory: a node of one rank, or every rank by itself. */
static trm_status alloc_private(trm_mpi *m, trm_mpi_buffer *b, trm_mpi_topo *t) {
    b->topo = t;
    b->base.data = b->shared = trm_alloc(b->base.bytes, b->base.what);
    return trm_comm_agree(&m->base, b->base.data ? TRM_OK : TRM_MEMORY);
}

/* Said once.  Later buffers may fit again, but a rank that mixes both gains little. */
void trm_mpi_leave_windows(trm_mpi *m, const char *why) {
    m->no_window = true;
    trm_mpi_describe(m);
    if (m->base.rank == 0)
        trm_log(TRM_LOG_WARN, "/dev/shm %s: ranks of one node exchange messages instead, which is slower",
                why);
}

static void leave_windows_for(trm_mpi *m, const trm_comm_buffer *b) {
    char size[16], why[TRM_WHAT_BYTES + 64];
    snprintf(why, sizeof why, "has no room for %s of %s per rank", b->what,
             trm_human_bytes((double)b->bytes, size, sizeof size));
    trm_mpi_leave_windows(m, why);
}

trm_status trm_mpi_buffer_alloc(trm_comm *c, trm_comm_buffer *buffer) {
    trm_mpi *m = (trm_mpi *)c;
    trm_mpi_buffer *b = (trm_mpi_buffer *)buffer;
    TRM_TRY(trm_mpi_meet(m, b->base.what));
    if (c->size == 1) return alloc_private(m, b, &m->real);
    if (!m->no_window && m->real.nodes == c->size) return alloc_private(m, b, &m->real);
    if (!m->no_window) {
        bool fits;
        TRM_TRY(trm_mpi_window_fits(m, window_bytes(m, &b->base), &fits));
        if (fits) return alloc_window(m, b);
        leave_windows_for(m, &b->base);
    }
    TRM_TRY(need_flat(m));
    return alloc_private(m, b, &m->flat);
}

void trm_mpi_buffer_free(trm_comm *c, trm_comm_buffer *buffer) {
    trm_mpi *m = (trm_mpi *)c;
    trm_mpi_buffer *b = (trm_mpi_buffer *)buffer;
    if (m->failed || trm_mpi_meet(m, b->base.what) != TRM_OK) return;
    if (b->in_window)
        trm_mpi_window_close(&b->window);
    else
        trm_free(b->base.data);
}

/* ---- memory of a node ---- */

trm_status trm_mpi_shared_alloc(trm_comm *c, trm_comm_shared *shared) {
    trm_mpi *m = (trm_mpi *)c;
    trm_mpi_shared *s = (trm_mpi_shared *)shared;
    size_t mine = m->real.node_rank == 0 ? s->base.bytes : 0;
    bool fits;
    TRM_TRY(trm_mpi_meet(m, s->base.what));
    if (m->no_window) return TRM_OK;
    TRM_TRY(trm_mpi_window_fits(m, mine, &fits));
    if (!fits) return TRM_OK;
    TRM_TRY(trm_mpi_window_map(m, mine, &s->window));
    s->base.data = s->window.part[0];
    return TRM_OK;
}

void trm_mpi_shared_free(trm_comm *c, trm_comm_shared *shared) {
    trm_mpi *m = (trm_mpi *)c;
    trm_mpi_shared *s = (trm_mpi_shared *)shared;
    if (m->failed || trm_mpi_meet(m, s->base.what) != TRM_OK) return;
    trm_mpi_window_close(&s->window);
}
