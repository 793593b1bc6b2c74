/* The program of a rank: one short list of instructions for a whole update. */
#include <string.h>

#include "runner_impl.h"

/* ---- lists ---------------------------------------------------------------------------- */

static trm_status add_instr(trm_program *p, trm_instr in) {
    if (p->n_list == p->cap_list) {
        int cap = p->cap_list ? 2 * p->cap_list : 128;
        trm_instr *q =
            trm_realloc(p->list, (size_t)p->cap_list * sizeof *q, (size_t)cap * sizeof *q, "program");
        if (!q) return TRM_MEMORY;
        p->list = q;
        p->cap_list = cap;
    }
    p->list[p->n_list++] = in;
    return TRM_OK;
}

static trm_status add_request(trm_runner *r, trm_program *p, const trm_talk_call *call, void **out) {
    if (p->n_requests == p->cap_requests) {
        int cap = p->cap_requests ? 2 * p->cap_requests : 32;
        void **q =
            trm_realloc(p->requests, (size_t)p->cap_requests * sizeof *q, (size_t)cap * sizeof *q, "program");
        if (!q) return TRM_MEMORY;
        p->requests = q;
        p->cap_requests = cap;
    }
    TRM_TRY(r->spec.talk->plan(r->spec.talk->ctx, call, out));
    p->requests[p->n_requests++] = *out;
    return TRM_OK;
}

/* ---- who contributes ------------------------------------------------------------------- */

/* Flags of the ranks with samples in micro-batch k, or, k < 0, in any. */
static void contributors(const trm_program *p, int ranks, int k, uint8_t *flags) {
    for (int rank = 0; rank < ranks; rank++) {
        flags[rank] = 0;
        for (int m = 0; m < p->micro_batches; m++)
            if ((k < 0 || m == k) && p->counts[rank * p->micro_batches + m] > 0) flags[rank] = 1;
    }
}

enum { BUFFER_GRADS, BUFFER_SMALL, CHANNEL_STEP = 0, CHANNEL_GRAD = 1 };

/* ---- buckets: posted in one order, each as soon as its last gradient is written --------- */

typedef struct buckets {
    int first_node; /* SUM_GRADS nodes lie one after the other */
    int count, next;
    void **request;
} buckets;

static trm_status plan_buckets(trm_runner *r, trm_program *p, uint8_t *flags, buckets *b) {
    const trm_graph *g = r->spec.graph;
    memset(b, 0, sizeof *b);
    b->first_node = -1;
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i].kind != TRM_NODE_SUM_GRADS) continue;
        if (b->first_node < 0) b->first_node = i;
        b->count++;
    }
    b->request = trm_alloc_array((size_t)b->count + 1, sizeof(void *), "program");
    if (!b->request) return TRM_MEMORY;
    contributors(p, r->spec.ranks, -1, flags);
    for (int i = 0; i < b->count; i++) {
        const trm_node *n = &g->nodes[b->first_node + i];
        trm_talk_call call = {n->group,
                              CHANNEL_GRAD,
                              BUFFER_GRADS,
                              n->begin,
                              n->end - n->begin,
                              flags,
                              &r->spec.small[TRM_TAIL_SUMSQ],
                              n->name};
        TRM_TRY(add_request(r, p, &call, &b->request[i]));
    }
    return TRM_OK;
}

/* Last instruction of the pass that writes a gradient inside the bucket; -1 = none does. */
static int bucket_ready_at(const trm_graph *g, const trm_pass *pass, const trm_node *bucket) {
    int at = -1;
    for (int i = 0; i < g->n_params; i++) {
        const trm_param *q = &g->params[i];
        if (q->kind == TRM_PARAM && q->offset >= bucket->begin && q->offset < bucket->end &&
            pass->last_write[i] > at)
            at = pass->last_write[i];
    }
    return at;
}

static trm_status post_ready(const trm_runner *r, trm_program *p, buckets *b, const trm_pass *pass,
                             int done) {
    const trm_graph *g = r->spec.graph;
    while (b->next < b->count) {
        const int node = b->first_node + b->next;
        if (pass && bucket_ready_at(g, pass, &g->nodes[node]) > done) break;
        trm_instr in = {TRM_INSTR_POST, TRM_PHASE_WAIT, node, NULL, b->request[b->next++]};
        TRM_TRY(add_instr(p, in));
    }
    return TRM_OK;
}

/* ---- micro-batches ---------------------------------------------------------------------- */

static trm_status add_sum(trm_runner *r, trm_program *p, const trm_lowered *o, const uint8_t *flags) {
    const trm_node *n = &r->spec.graph->nodes[o->node];
    trm_talk_call call = {o->group, CHANNEL_STEP, BUFFER_SMALL, o->offset, o->count, flags, NULL, n->name};
    void *request;
    TRM_TRY(add_request(r, p, &call, &request));
    TRM_TRY(add_instr(p, (trm_instr){TRM_INSTR_POST, TRM_PHASE_WAIT, o->node, NULL, request}));
    return add_instr(p, (trm_instr){TRM_INSTR_WAIT, TRM_PHASE_WAIT, o->node, NULL, request});
}

static trm_status add_pass(trm_runner *r, trm_program *p, const trm_pass *pass, uint8_t *flags,
                           buckets *last) {
    for (int i = 0; i < pass->n_list; i++) {
        const trm_lowered *o = &pass->list[i];
        if (o->kind == TRM_LOWERED_SUM) {
            TRM_TRY(add_sum(r, p, o, flags));
            continue;
        }
        TRM_TRY(add_instr(p, (trm_instr){TRM_INSTR_OP, o->phase, o->node, o->op, NULL}));
        if (last && o->phase == TRM_PHASE_BACKWARD) TRM_TRY(post_ready(r, p, last, pass, i));
    }
    return TRM_OK;
}

static bool follows_a_sum(const trm_graph *g, const trm_lowered *o) {
    return o->op->desc.kind == TRM_OP_BN_RUN && g->nodes[g->nodes[o->node].in[1]].kind == TRM_NODE_SUM_STATS;
}

/* A rank without samples of a micro-batch computes nothing, but joins its reductions in the order in which the others come
 * to them, and moves the running statistics that they sum, so that its state stays the same as theirs.  `pass` is that
 * of one sample: only its reductions and running statistics are taken. */
static trm_status join_sums(trm_runner *r, trm_program *p, const trm_pass *pass, const uint8_t *flags) {
    for (int i = 0; i < pass->n_list; i++) {
        const trm_lowered *o = &pass->list[i];
        if (o->kind == TRM_LOWERED_SUM)
            TRM_TRY(add_sum(r, p, o, flags));
        else if (follows_a_sum(r->spec.graph, o))
            TRM_TRY(add_instr(p, (trm_instr){TRM_INSTR_OP, o->phase, o->node, o->op, NULL}));
    }
    return TRM_OK;
}

static const trm_half_weights *half_of(const trm_runner *r) { return r->half.n_casts > 0 ? &r->half : NULL; }

/* Weights may have changed since the last program ran: by an update, or by whoever owns them. */
static trm_status add_casts(const trm_runner *r, trm_program *p) {
    for (int i = 0; i < r->half.n_casts; i++)
        TRM_TRY(add_instr(
            p, (trm_instr){TRM_INSTR_OP, TRM_PHASE_FORWARD, r->half.nodes[i], r->half.casts[i], NULL}));
    return TRM_OK;
}

static trm_status add_micro_batches(trm_runner *r, trm_program *p, uint8_t *flags, buckets *b) {
    const int64_t *mine = p->counts + (int64_t)r->spec.rank * p->micro_batches;
    int64_t first = 0;
    int last = -1;
    for (int k = 0; k < p->micro_batches; k++)
        if (mine[k] > 0) last = k;
    if (last >= 0) TRM_TRY(add_casts(r, p));
    for (int k = 0; k < p->micro_batches; k++) {
        contributors(p, r->spec.ranks, k, flags);
        trm_pass_spec s = {.n = trm_max64(mine[k], 1),
                           .first = first,
                           .train = true,
                           .accumulate = first > 0,
                           .half = half_of(r)};
        TRM_TRY(trm_pass_lower(&r->spec, &s, &p->passes[k]));
        if (mine[k] > 0)
            TRM_TRY(add_pass(r, p, p->passes[k], flags, k == last ? b : NULL));
        else
            TRM_TRY(join_sums(r, p, p->passes[k], flags));
        first += mine[k];
    }
    return TRM_OK;
}

/* ---- the end of an update ---------------------------------------------------------------- */

static trm_status add_tail(trm_runner *r, trm_program *p) {
    const trm_graph *g = r->spec.graph;
    for (int i = 0; i < g->n_nodes; i++) {
        const trm_node *n = &g->nodes[i];
        if (n->kind != TRM_NODE_SUM_TAIL) continue;
        trm_talk_call call = {n->group, CHANNEL_GRAD, BUFFER_SMALL, 0, TRM_TAIL_SIZE, NULL, NULL, n->name};
        void *request;
        TRM_TRY(add_request(r, p, &call, &request));
        TRM_TRY(add_instr(p, (trm_instr){TRM_INSTR_POST, TRM_PHASE_WAIT, i, NULL, request}));
        TRM_TRY(add_instr(p, (trm_instr){TRM_INSTR_WAIT, TRM_PHASE_WAIT, i, NULL, request}));
    }
    return TRM_OK;
}

static trm_status add_update(trm_runner *r, trm_program *p, buckets *b) {
    TRM_TRY(post_ready(r, p, b, NULL, 0));
    for (int i = 0; i < b->count; i++)
        TRM_TRY(add_instr(
            p, (trm_instr){TRM_INSTR_WAIT, TRM_PHASE_WAIT, b->first_node + i, NULL, b->request[i]}));
    if (r->sumsq.op) TRM_TRY(add_instr(p, (trm_instr){TRM_INSTR_OP, TRM_PHASE_UPDATE, 0, r->sumsq.op, NULL}));
    TRM_TRY(add_tail(r, p));
    TRM_TRY(add_instr(p, (trm_instr){TRM_INSTR_FINISH, TRM_PHASE_UPDATE, 0, NULL, NULL}));
    for (int i = 0; i < r->n_updates; i++)
        TRM_TRY(add_instr(p, (trm_instr){TRM_INSTR_OP, TRM_PHASE_UPDATE, 0, r->updates[i].op, NULL}));
    return TRM_OK;
}

static trm_program *new_program(int micro_batches, const int64_t *counts, int64_t n_counts) {
    trm_program *p = trm_alloc(sizeof *p, "program");
    if (!p) return NULL;
    p->micro_batches = micro_batches;
    p->counts = trm_alloc_array((size_t)n_counts, sizeof *counts, "program");
    p->passes = trm_alloc_array((size_t)micro_batches, sizeof *p->passes, "program");
    if (!p->counts || !p->passes) {
        trm_free(p->counts);
        trm_free(p->passes);
        trm_free(p);
        return NULL;
    }
    memcpy(p->counts, counts, (size_t)n_counts * sizeof *counts);
    return p;
}

trm_status trm_program_build(trm_runner *r, int micro_batches, const int64_t *counts, trm_program **out) {
    trm_status status = TRM_MEMORY;
    buckets b = {0};
    uint8_t *flags = trm_alloc((size_t)r->spec.ranks, "program");
    trm_program *p = new_program(micro_batches, counts, (int64_t)r->spec.ranks * micro_batches);
    if (!flags || !p) goto out;
    TRM_GOTO(plan_buckets(r, p, flags, &b));
    TRM_GOTO(add_micro_batches(r, p, flags, &b));
    TRM_GOTO(add_update(r, p, &b));
out:
    trm_free(flags);
    trm_free(b.request);
    if (status == TRM_OK)
        *out = p;
    else
        trm_program_free(r, p);
    return status;
}

trm_status trm_program_build_eval(trm_runner *r, int64_t n, trm_program **out) {
    trm_program *p = new_program(1, &n, 1);
    if (!p) return TRM_MEMORY;
    p->eval = true;
    trm_pass_spec s = {.n = n, .half = half_of(r)};
    trm_status status;
    TRM_GOTO(add_casts(r, p));
    TRM_GOTO(trm_pass_lower(&r->spec, &s, &p->passes[0]));
    TRM_GOTO(add_pass(r, p, p->passes[0], NULL, NULL));
out:
    if (status == TRM_OK)
        *out = p;
    else
        trm_program_free(r, p);
    return status;
}

void trm_program_free(trm_runner *r, trm_program *p) {
    if (!p) return;
    for (int k = 0; k < p->micro_batches; k++) trm_pass_free(p->passes[k]);
    for (int i = 0; i < p->n_requests; i++) r->spec.talk->release(r->spec.talk->ctx, p->requests[i]);
    trm_free(p->requests);
    trm_free(p->passes);
    trm_free(p->counts);
    trm_free(p->list);
    trm_free(p);
}
