/* step: post and wait.
 *
 * Round n of a request, on every rank:
 *   post      raise my flag posted = n: my buffer is ready
 *   sum       when all ranks of the node posted n: sum my part of the range over their buffers, in rank order, write it to
 *             all of them, raise summed = n
 *   wait      until all ranks of the node summed n
 * Then nobody reads or writes my buffer any more: each part was read by one rank only, before that rank's flag.  So a
 * request needs no third flag, and round n+1 cannot overtake: it needs my own post.
 *
 * With several nodes the parts are summed into a buffer of the node's own instead (`shared`); its leader exchanges that with
 * the other leaders and raises the node's flag, and every rank copies the result.  The next round may overwrite `shared` as
 * all ranks of the node must have posted by then, and they post after their copy.
 *
 * A gather is the same with my block in place of a sum. */
#include <sched.h>
#include <string.h>

#include "mpi_impl.h"

/* Elements between two looks at the flags: long enough to stream, short enough (some 10 us) not to hold up a small
 * request behind a large one.  Fixed, as it groups the sum of squares. */
#define PIECE (64 * 1024)

/* Shorter sums cost about as much as two looks at the clock, and are not timed. */
#define TIMED_ELEMENTS 4096

#define BYTES_PER_SPIN 512
/* A rank with a core of its own spins so long before it sleeps; one that shares its core sleeps at once.  Nobody yields: since
 * Linux 6.18 who yields forfeits its turn, and is late when its peers wait for it. */
#define SPIN_S 200e-6
#define PAUSES 16
#define NAP_S 30e-6

/* ---- plan ----------------------------------------------------------------------------------- */

static void set_ranges(trm_mpi *m, trm_mpi_request *r) {
    const trm_comm_call *k = &r->base.call;
    size_t size = trm_dtype_size(k->buffer->type);
    r->whole = (trm_comm_range){k->offset, k->count};
    if (k->kind == TRM_COMM_SUM) {
        r->part = trm_comm_cut(r->whole, size, r->topo->node_size, r->topo->node_rank);
        return;
    }
    r->whole.count *= m->base.size;
    r->part = (trm_comm_range){k->offset + m->base.rank * k->count, k->count};
}

/* Where my part is read: my own block, or the buffers of the contributing ranks of my node. */
static void set_sources(trm_mpi *m, trm_mpi_request *r, const trm_mpi_buffer *b) {
    const trm_mpi_topo *t = r->topo;
    if (r->base.call.kind == TRM_COMM_GATHER) {
        r->source[r->sources++] = b->base.data;
        return;
    }
    for (int k = 0; k < t->node_size; k++) {
        int rank = t->member[t->first[t->node] + k];
        if (r->base.contributes[rank])
            r->source[r->sources++] = rank == m->base.rank ? b->base.data : b->window.part[k];
    }
}

static void set_targets(trm_mpi_request *r, const trm_mpi_buffer *b) {
    if (r->topo->nodes > 1)
        r->target[r->targets++] = b->shared;
    else
        for (int k = 0; k < r->topo->node_size; k++) r->target[r->targets++] = b->window.part[k];
}

static trm_status plan_exchange(trm_mpi_request *r) {
    const trm_mpi_topo *t = r->topo;
    r->node_in = trm_alloc((size_t)t->nodes, "a request");
    if (!r->node_in) return TRM_MEMORY;
    for (int k = 0; k < t->first[t->nodes]; k++)
        if (r->base.contributes[k]) r->node_in[t->node_of[k]] = 1;
    return t->net ? trm_mpi_net_reserve(t->net, r->base.call.channel) : TRM_OK;
}

static trm_status take_lines(trm_mpi *m, trm_mpi_request *r, const trm_mpi_buffer *b) {
    r->slot = -1;
    if (b->in_window)
        TRM_TRY(trm_mpi_slot_take(m, &r->slot, &r->line));
    else if (!(r->line = trm_alloc(2 * sizeof *r->line, "a request")))
        return TRM_MEMORY;
    /* A slot used before goes on counting: every rank has seen the same rounds of it. */
    r->round = atomic_load(&r->line[r->topo->node_rank].posted);
    return TRM_OK;
}

static void release(trm_mpi *m, trm_mpi_request *r) {
    if (r->slot >= 0)
        trm_mpi_slot_give(m, r->slot);
    else
        trm_free(r->line);
    trm_free(r->source);
    trm_free(r->target);
    trm_free(r->node_in);
}

trm_status trm_mpi_plan(trm_comm *c, trm_comm_request *request) {
    trm_mpi *m = (trm_mpi *)c;
    trm_mpi_request *r = (trm_mpi_request *)request;
    const trm_mpi_buffer *b = (const trm_mpi_buffer *)r->base.call.buffer;
    r->topo = b->topo;
    r->shared = b->shared;
    TRM_TRY(take_lines(m, r, b));
    size_t room = 2 * (size_t)r->topo->node_size;
    r->source = trm_alloc_array(room, sizeof *r->source, "a request");
    r->target = trm_alloc_array(room, sizeof *r->target, "a request");
    trm_status status = r->source && r->target ? TRM_OK : TRM_MEMORY;
    if (status == TRM_OK && r->topo->nodes > 1) status = plan_exchange(r);
    if (status != TRM_OK) {
        release(m, r);
        return status;
    }
    set_ranges(m, r);
    set_sources(m, r, b);
    set_targets(r, b);
    return TRM_OK;
}

/* Takes a request out of the list of posted ones. */
static void unlink_posted(trm_mpi *m, trm_mpi_request *r) {
    trm_mpi_request *before = NULL;
    for (trm_mpi_request *q = m->first; q != r; q = q->later) {
        if (!q) return;
        before = q;
    }
    if (before)
        before->later = r->later;
    else
        m->first = r->later;
    if (m->last == r) m->last = before;
    r->later = NULL;
}

void trm_mpi_request_free(trm_comm *c, trm_comm_request *r) {
    trm_mpi *m = (trm_mpi *)c;
    /* After a fault MPI, or a peer, may still hold addresses within it. */
    if (m->failed) return;
    unlink_posted(m, (trm_mpi_request *)r);
    release(m, (trm_mpi_request *)r);
}

/* ---- the sum -------------------------------------------------------------------------------- */

static void *element(const trm_mpi_request *r, void *base, int64_t index) {
    return (char *)base + (size_t)index * trm_dtype_size(r->base.call.buffer->type);
}

/* Addresses of one element in all buffers, in the list's second half. */
static void **addresses(const trm_mpi_request *r, void **base, int n, int64_t index) {
    void **at = base + r->topo->node_size;
    for (int k = 0; k < n; k++) at[k] = element(r, base[k], index);
    return at;
}

static void sum_piece(trm_mpi_request *r) {
    const trm_comm_call *k = &r->base.call;
    int64_t left = r->part.begin + r->part.count - r->next, n = trm_min64(PIECE, left);
    const void *const *from = (const void *const *)addresses(r, r->source, r->sources, r->next);
    void *const *to = addresses(r, r->target, r->targets, r->next);
    /* With several nodes this is not the result yet. */
    bool want_sumsq = k->sumsq && r->topo->nodes == 1;
    r->sumsq += trm_comm_add_up(k->buffer->type, from, r->sources, to, r->targets, n, want_sumsq);
    r->next += n;
}

/* Whether all ranks of the node raised this flag. */
static bool all_raised(trm_mpi_request *r, bool summed) {
    for (; r->seen < r->topo->node_size; r->seen++) {
        trm_mpi_line *l = &r->line[r->seen];
        if (atomic_load_explicit(summed ? &l->summed : &l->posted, memory_order_acquire) < r->round)
            return false;
    }
    return true;
}

static void enter(trm_mpi_request *r, trm_mpi_stage stage) {
    r->stage = stage;
    r->seen = 0;
    r->next = r->part.begin;
}

/* At most one piece of summing; true when something was done. */
static bool advance_sum(trm_mpi *m, trm_mpi_request *r) {
    if (r->stage == TRM_MPI_GATHERING) {
        if (!all_raised(r, false)) return false;
        enter(r, TRM_MPI_SUMMING);
    }
    if (r->stage != TRM_MPI_SUMMING) return false;
    bool timed = m->waiting && r->part.count >= TIMED_ELEMENTS;
    double start = timed ? trm_now() : 0;
    sum_piece(r);
    if (timed) m->base.counts.sum_s += trm_now() - start;
    if (r->next < r->part.begin + r->part.count) return true;
    enter(r, TRM_MPI_AWAITING);
    atomic_store_explicit(&r->line[r->topo->node_rank].summed, r->round, memory_order_release);
    return true;
}

bool trm_mpi_help(trm_mpi *m) {
    bool moved = false;
    bool attend = m->waiting || !m->threads;
    if (attend && m->real.net) moved |= trm_mpi_net_poll(m->real.net);
    if (attend && m->flat.net) moved |= trm_mpi_net_poll(m->flat.net);
    for (trm_mpi_request *r = m->first; r; r = r->later) moved |= advance_sum(m, r);
    return moved;
}

static bool result_there(trm_mpi_request *r) {
    if (r->stage != TRM_MPI_AWAITING) return false;
    if (r->topo->nodes == 1) return all_raised(r, true);
    return atomic_load_explicit(&r->line[r->topo->node_size].posted, memory_order_acquire) >= r->round;
}

/* The world's cuts, so that the parts of all ranks cover the range once. */
static void add_exchanged_sumsq(const trm_mpi *m, trm_mpi_request *r) {
    const trm_comm_buffer *b = r->base.call.buffer;
    trm_comm_range cut = trm_comm_cut(r->whole, trm_dtype_size(b->type), m->base.size, m->base.rank);
    r->sumsq += trm_comm_sumsq(b->type, element(r, b->data, cut.begin), cut.count);
}

/* Several nodes: the node's sum to my buffer. */
static void take_exchanged(trm_mpi *m, trm_mpi_request *r) {
    const trm_comm_call *k = &r->base.call;
    double start = trm_now();
    size_t bytes = (size_t)r->whole.count * trm_dtype_size(k->buffer->type);
    if (r->shared != k->buffer->data)
        memcpy(element(r, k->buffer->data, r->whole.begin), element(r, r->shared, r->whole.begin), bytes);
    if (k->sumsq) add_exchanged_sumsq(m, r);
    m->base.counts.sum_s += trm_now() - start;
}

static void finish(trm_mpi *m, trm_mpi_request *r) {
    if (r->topo->nodes > 1) take_exchanged(m, r);
    /* Here and not where a piece is summed: the caller's additions then have one order. */
    if (r->base.call.sumsq) *r->base.call.sumsq += r->sumsq;
    r->stage = TRM_MPI_FREE;
    unlink_posted(m, r);
}

/* ---- post ----------------------------------------------------------------------------------- */

trm_status trm_mpi_post(trm_comm *c, trm_comm_request *request) {
    trm_mpi *m = (trm_mpi *)c;
    trm_mpi_request *r = (trm_mpi_request *)request;
    trm_channel channel = r->base.call.channel;
    if (m->failed)
        return trm_fail(TRM_COMM, "%s cannot be posted after a communication fault", r->base.call.what);
    r->round++;
    r->place = ++m->place[channel];
    r->sumsq = 0;
    enter(r, TRM_MPI_GATHERING);
    atomic_store_explicit(&r->line[r->topo->node_rank].posted, r->round, memory_order_release);
    if (m->last)
        m->last->later = r;
    else
        m->first = r;
    m->last = r;
    if (r->topo->net) trm_mpi_net_post(r->topo->net, r);
    /* A collective inside the step is waited for at once, and its peers with it. */
    if (channel != TRM_CHANNEL_STEP)
        while (trm_mpi_help(m)) {}
    return TRM_OK;
}

/* ---- wait ----------------------------------------------------------------------------------- */

static void pause_core(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

void trm_mpi_relax(trm_mpi_patience *p) {
    if (p->polls++ < p->spins) {
        pause_core();
        return;
    }
    p->now = trm_now();
    if (p->start == 0) p->start = p->now;
    if (p->quiet == 0) p->quiet = p->now;
    if (p->spins > 0 && p->now - p->quiet < SPIN_S)
        for (int i = 0; i < PAUSES; i++) pause_core();
    else
        trm_sleep(NAP_S);
}

void trm_mpi_moved(trm_mpi_patience *p) {
    p->polls = 0;
    p->quiet = 0;
}

bool trm_mpi_late(const trm_mpi *m, const trm_mpi_patience *p) {
    return p->start != 0 && p->now - p->start > m->base.deadline_s;
}

trm_status trm_mpi_trouble(trm_mpi *m, const char *what) {
    int gone = m->head ? atomic_load_explicit(&m->head->gave_up, memory_order_relaxed) : 0;
    m->base.is_echo = gone > 0;
    if (gone)
        return trm_fail(TRM_COMM, "rank %d on %s gave up while this rank waited for %s", gone - 1,
                        trm_comm_host(&m->base, gone - 1), what);
    if (m->real.net) TRM_TRY(trm_mpi_net_status(m->real.net));
    return m->flat.net ? trm_mpi_net_status(m->flat.net) : TRM_OK;
}

trm_status trm_mpi_give_up(trm_mpi *m, trm_status s) {
    int none = 0;
    m->failed = true;
    trm_mpi_net_stop(m->real.net);
    trm_mpi_net_stop(m->flat.net);
    if (m->head) atomic_compare_exchange_strong(&m->head->gave_up, &none, 1 + m->base.rank);
    return s;
}

/* Ranks of this node whose flag is not up, by name; those that did not post before those that did not sum. */
static trm_status name_missing(trm_mpi *m, trm_mpi_request *r, double waited) {
    const trm_mpi_topo *t = r->topo;
    char text[512];
    uint8_t *missing = trm_alloc((size_t)m->base.size, "a text");
    if (!missing) return TRM_MEMORY;
    int count = 0;
    for (int summed = 0; summed < 2 && count == 0; summed++)
        for (int k = 0; k < t->node_size; k++) {
            trm_mpi_line *l = &r->line[k];
            bool up = atomic_load(summed ? &l->summed : &l->posted) >= r->round;
            missing[t->member[t->first[t->node] + k]] = !up;
            count += !up;
        }
    trm_status s = trm_fail(TRM_COMM, "waited %.3g s for %s, but no word from %s", waited, r->base.call.what,
                            trm_comm_missing_text(&m->base, missing, text, sizeof text));
    trm_free(missing);
    return s;
}

static trm_status be_late(trm_mpi *m, trm_mpi_request *r, const trm_mpi_patience *p) {
    double waited = p->now - p->start;
    trm_status s = r->topo->nodes == 1
                       ? name_missing(m, r, waited)
                       : trm_mpi_roll_call(m, r->base.call.channel, r->place, r->base.call.what, waited);
    return trm_mpi_give_up(m, s);
}

/* Own part first, then what others wait for. */
static void work(trm_mpi *m, trm_mpi_request *r, trm_mpi_patience *p) {
    bool moved = false;
    while (advance_sum(m, r)) moved = true;
    if (!result_there(r)) moved |= trm_mpi_help(m);
    if (moved)
        trm_mpi_moved(p);
    else
        trm_mpi_relax(p);
}

/* About as long as the sum itself takes: peers that began together end about together. */
static int spins_for(const trm_mpi *m, const trm_mpi_request *r) {
    int64_t bytes = r->part.count * (int64_t)trm_dtype_size(r->base.call.buffer->type);
    return m->spins ? m->spins + (int)trm_min64(bytes / BYTES_PER_SPIN, 20000) : 0;
}

static trm_status await_result(trm_mpi *m, trm_mpi_request *r) {
    trm_mpi_patience p = {.spins = spins_for(m, r)};
    while (!result_there(r)) {
        work(m, r, &p);
        if (p.start == 0) continue;
        trm_status s = trm_mpi_trouble(m, r->base.call.what);
        if (s != TRM_OK) return trm_mpi_give_up(m, s);
        if (r->topo->nodes > 1) trm_mpi_answer(m, p.now);
        if (trm_mpi_late(m, &p)) return be_late(m, r, &p);
    }
    return TRM_OK;
}

trm_status trm_mpi_wait(trm_comm *c, trm_comm_request *request) {
    trm_mpi *m = (trm_mpi *)c;
    trm_mpi_request *r = (trm_mpi_request *)request;
    trm_mpi_net *net = r->topo->net;
    if (m->failed) return trm_fail(TRM_COMM, "%s cannot end after a communication fault", r->base.call.what);
    if (net) trm_mpi_net_attend(net, true);
    m->waiting = true;
    trm_status status = await_result(m, r);
    m->waiting = false;
    if (net) trm_mpi_net_attend(net, false);
    if (status == TRM_OK) finish(m, r);
    return status;
}
