/* comm: the checks, the counters, requests that need no peer, and the small collectives that are built from the
 * transport's three (barrier, broadcast, all-gather). */
#include <string.h>

#include "comm_impl.h"

#define DEADLINE_S 300

trm_status trm_comm_init(trm_comm *c, const trm_comm_ops *ops, int rank, int size) {
    c->ops = ops;
    c->rank = rank;
    c->size = c->node_size = size;
    c->nodes = 1;
    c->deadline_s = DEADLINE_S;
    c->host = trm_alloc_array((size_t)size, TRM_HOST_BYTES, "host names");
    return c->host ? TRM_OK : TRM_MEMORY;
}

void trm_comm_close(trm_comm *c) {
    if (c) c->ops->close(c);
}

/* ---- who is where ---------------------------------------------------------------------- */

int trm_comm_rank(const trm_comm *c) { return c->rank; }
bool trm_comm_is_echo(const trm_comm *c) { return c->is_echo; }
int trm_comm_size(const trm_comm *c) { return c->size; }
int trm_comm_node(const trm_comm *c) { return c->node; }
int trm_comm_nodes(const trm_comm *c) { return c->nodes; }
int trm_comm_node_rank(const trm_comm *c) { return c->node_rank; }
int trm_comm_node_size(const trm_comm *c) { return c->node_size; }
const char *trm_comm_about(const trm_comm *c) { return c->about; }
void trm_comm_set_deadline(trm_comm *c, double seconds) { c->deadline_s = seconds; }
trm_comm_counts trm_comm_count(const trm_comm *c) { return c->counts; }

const char *trm_comm_host(const trm_comm *c, int rank) {
    return rank >= 0 && rank < c->size ? c->host[rank] : "an unknown host";
}

static bool is_whole(trm_group g) { return g == TRM_GROUP_WORLD || g == TRM_GROUP_DATA; }
int trm_comm_group_size(const trm_comm *c, trm_group g) { return is_whole(g) ? c->size : 1; }
int trm_comm_group_rank(const trm_comm *c, trm_group g) { return is_whole(g) ? c->rank : 0; }

/* ---- buffers --------------------------------------------------------------------------- */

trm_status trm_comm_buffer_alloc(trm_comm *c, trm_dtype type, int64_t count, const char *what,
                                 trm_comm_buffer **out) {
    size_t bytes;
    if (!what) what = "a buffer";
    if (type != TRM_F32 && type != TRM_F64 && type != TRM_U8)
        return trm_fail(TRM_INTERNAL,
                        "buffer '%s' has type %s; float32, float64 and uint8 can be communicated", what,
                        trm_dtype_name(type));
    if (count < 0 || !trm_mul_size((size_t)count, trm_dtype_size(type), &bytes) || bytes > SIZE_MAX / 4)
        return trm_fail(TRM_INTERNAL, "buffer '%s' cannot have %lld elements", what, (long long)count);
    trm_comm_buffer *b = trm_alloc(c->ops->buffer_bytes, "a communication buffer");
    if (!b) return TRM_MEMORY;
    b->type = type;
    b->count = count;
    b->bytes = bytes;
    snprintf(b->what, sizeof b->what, "%s", what);
    trm_status status = c->ops->buffer_alloc(c, b);
    if (status != TRM_OK)
        trm_free(b);
    else
        *out = b;
    return status;
}

void *trm_comm_buffer_data(const trm_comm_buffer *b) { return b->data; }

void trm_comm_buffer_free(trm_comm *c, trm_comm_buffer *b) {
    if (!b) return;
    c->ops->buffer_free(c, b);
    trm_free(b);
}

/* ---- memory of a node ------------------------------------------------------------------ */

trm_status trm_comm_shared_alloc(trm_comm *c, size_t bytes, const char *what, trm_comm_shared **out) {
    *out = NULL;
    trm_comm_shared *s = trm_alloc(c->ops->shared_bytes, "shared memory");
    trm_status status = trm_comm_agree(c, s ? TRM_OK : TRM_MEMORY);
    if (status == TRM_OK) {
        s->bytes = bytes;
        snprintf(s->what, sizeof s->what, "%s", what ? what : "shared memory");
        status = c->ops->shared_alloc(c, s);
    }
    if (status == TRM_OK && s->data)
        *out = s;
    else
        trm_free(s);
    return status;
}

void *trm_comm_shared_data(const trm_comm_shared *s) { return s->data; }

void trm_comm_shared_free(trm_comm *c, trm_comm_shared *s) {
    if (!s) return;
    c->ops->shared_free(c, s);
    trm_free(s);
}

/* ---- requests -------------------------------------------------------------------------- */

static trm_status check_call(const trm_comm *c, const trm_comm_call *call, const char *what) {
    const trm_comm_buffer *b = call->buffer;
    if (!b) return trm_fail(TRM_INTERNAL, "request '%s' names no buffer", what);
    if ((unsigned)call->group >= TRM_GROUP_COUNT || (unsigned)call->channel >= TRM_CHANNEL_COUNT)
        return trm_fail(TRM_INTERNAL, "request '%s' names group %d, channel %d", what, (int)call->group,
                        (int)call->channel);
    bool sum = call->kind == TRM_COMM_SUM;
    if (sum && b->type != TRM_F32 && b->type != TRM_F64)
        return trm_fail(TRM_INTERNAL, "request '%s' sums a %s buffer; only float32 and float64 can be summed",
                        what, trm_dtype_name(b->type));
    if (!sum && call->sumsq)
        return trm_fail(TRM_INTERNAL, "request '%s' wants a sum of squares of a gather", what);
    int64_t blocks = sum ? 1 : trm_comm_group_size(c, call->group);
    if (call->offset < 0 || call->count < 0 || call->offset > b->count ||
        call->count > (b->count - call->offset) / blocks)
        return trm_fail(
            TRM_INTERNAL, "request '%s': %lld x %lld elements from %lld leave buffer '%s' of %lld", what,
            (long long)blocks, (long long)call->count, (long long)call->offset, b->what, (long long)b->count);
    return TRM_OK;
}

trm_status trm_comm_plan(trm_comm *c, const trm_comm_call *call, trm_comm_request **out) {
    const char *what = call->what ? call->what : "a request";
    int ranks = trm_comm_group_size(c, call->group);
    TRM_TRY(check_call(c, call, what));
    trm_comm_request *r = trm_alloc(c->ops->request_bytes, "a request");
    if (!r) return TRM_MEMORY;
    r->call = *call;
    r->call.what = what;
    trm_status status = TRM_MEMORY;
    r->contributes = trm_alloc((size_t)ranks, "a request");
    if (!r->contributes) goto out;
    for (int k = 0; k < ranks; k++) r->contributes[k] = !call->contributes || call->contributes[k];
    r->call.contributes = r->contributes;
    status = ranks > 1 ? c->ops->plan(c, r) : TRM_OK;
    if (status != TRM_OK) goto out;
    *out = r;
    return TRM_OK;
out:
    trm_free(r->contributes);
    trm_free(r);
    return status;
}

void trm_comm_request_free(trm_comm *c, trm_comm_request *r) {
    if (!r) return;
    /* Peers, or messages under way, may need it yet.  A fault here was, or will be, some wait's fault. */
    if (r->posted) (void)!trm_comm_wait(c, r);
    if (trm_comm_group_size(c, r->call.group) > 1) c->ops->request_free(c, r);
    trm_free(r->contributes);
    trm_free(r);
}

/* A group of one rank: the sum is the rank's own values, or zero. */
static void finish_alone(trm_comm *c, const trm_comm_request *r) {
    const trm_comm_call *k = &r->call;
    if (k->kind != TRM_COMM_SUM) return;
    double start = trm_now();
    size_t size = trm_dtype_size(k->buffer->type);
    void *data = (char *)k->buffer->data + (size_t)k->offset * size;
    if (!r->contributes[0]) memset(data, 0, (size_t)k->count * size);
    if (k->sumsq) *k->sumsq += trm_comm_sumsq(k->buffer->type, data, k->count);
    c->counts.sum_s += trm_now() - start;
}

trm_status trm_comm_post(trm_comm *c, trm_comm_request *r) {
    const trm_comm_call *k = &r->call;
    if (r->posted) return trm_fail(TRM_INTERNAL, "%s was posted twice without a wait", k->what);
    r->posted = true;
    c->counts.posts++;
    c->counts.bytes += (uint64_t)k->count * trm_dtype_size(k->buffer->type);
    return trm_comm_group_size(c, k->group) > 1 ? c->ops->post(c, r) : TRM_OK;
}

trm_status trm_comm_wait(trm_comm *c, trm_comm_request *r) {
    if (!r->posted) return trm_fail(TRM_INTERNAL, "%s was waited for without a post", r->call.what);
    double start = trm_now();
    trm_status status = TRM_OK;
    if (trm_comm_group_size(c, r->call.group) > 1)
        status = c->ops->wait(c, r);
    else
        finish_alone(c, r);
    r->posted = false;
    c->counts.wait_s += trm_now() - start;
    return status;
}

/* ---- outside a step -------------------------------------------------------------------- */

trm_status trm_comm_barrier(trm_comm *c, const char *what) {
    return c->ops->barrier(c, what ? what : "a barrier");
}

trm_status trm_comm_bcast(trm_comm *c, void *bytes, size_t n, int root) {
    return c->ops->bcast(c, bytes, n, root);
}

trm_status trm_comm_bcast_block(trm_comm *c, void **bytes, size_t *n, int root) {
    uint64_t size = *n;
    void *block = *bytes;
    TRM_TRY(trm_comm_bcast(c, &size, sizeof size, root));
    trm_status have = TRM_OK;
    if (c->rank != root && !(block = trm_alloc((size_t)size, "a block from another rank"))) have = TRM_MEMORY;
    trm_status status = trm_comm_agree(c, have);
    if (status == TRM_OK) status = trm_comm_bcast(c, block, (size_t)size, root);
    if (status != TRM_OK) {
        if (c->rank != root) trm_free(block);
        return status;
    }
    *bytes = block;
    *n = (size_t)size;
    return TRM_OK;
}

trm_status trm_comm_allgather(trm_comm *c, const void *mine, size_t bytes, void *all) {
    return c->ops->allgather(c, mine, bytes, all);
}

/* Everybody folds the same numbers in the same order: equal bits on all ranks. */
static trm_status fold_f64(trm_comm *c, double *values, int n, bool max) {
    double *all = trm_alloc_array((size_t)c->size * (size_t)n, sizeof *all, "a small sum");
    if (!all) return TRM_MEMORY;
    trm_status status = trm_comm_allgather(c, values, (size_t)n * sizeof *all, all);
    for (int i = 0; status == TRM_OK && i < n; i++) {
        double x = all[i];
        for (int k = 1; k < c->size; k++) {
            double y = all[(size_t)k * (size_t)n + (size_t)i];
            /* A NaN wins: it must not get lost in a maximum. */
            if (!max)
                x += y;
            else if (y > x || y != y)
                x = y;
        }
        values[i] = x;
    }
    trm_free(all);
    return status;
}

trm_status trm_comm_sum_f64(trm_comm *c, double *values, int n) { return fold_f64(c, values, n, false); }
trm_status trm_comm_max_f64(trm_comm *c, double *values, int n) { return fold_f64(c, values, n, true); }

void trm_comm_abort(trm_comm *c, int exit_code) { c->ops->abort(c, exit_code); }
