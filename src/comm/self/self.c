/* self: one process, no library.  The smallest complete transport: whatever one rank says, all ranks have heard. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm_impl.h"

static trm_status self_buffer_alloc(trm_comm *c, trm_comm_buffer *b) {
    (void)c;
    b->data = trm_alloc(b->bytes, b->what);
    return b->data ? TRM_OK : TRM_MEMORY;
}

static void self_buffer_free(trm_comm *c, trm_comm_buffer *b) {
    (void)c;
    trm_free(b->data);
}

static trm_status self_shared_alloc(trm_comm *c, trm_comm_shared *s) {
    (void)c;
    s->data = trm_alloc(s->bytes, s->what);
    return s->data ? TRM_OK : TRM_MEMORY;
}

static void self_shared_free(trm_comm *c, trm_comm_shared *s) {
    (void)c;
    trm_free(s->data);
}

static trm_status self_barrier(trm_comm *c, const char *what) {
    (void)c, (void)what;
    return TRM_OK;
}

static trm_status self_bcast(trm_comm *c, void *bytes, size_t n, int root) {
    (void)c, (void)bytes, (void)n, (void)root;
    return TRM_OK;
}

static trm_status self_allgather(trm_comm *c, const void *mine, size_t bytes, void *all) {
    (void)c;
    if (bytes) memmove(all, mine, bytes);
    return TRM_OK;
}

static void self_abort(trm_comm *c, int exit_code) {
    (void)c;
    _Exit(exit_code);
}

static void self_close(trm_comm *c) {
    trm_free(c->host);
    trm_free(c);
}

/* No plan, post, wait: a group of one rank never reaches the transport. */
static const trm_comm_ops self_ops = {
    .name = "self",
    .buffer_bytes = sizeof(trm_comm_buffer),
    .request_bytes = sizeof(trm_comm_request),
    .shared_bytes = sizeof(trm_comm_shared),
    .close = self_close,
    .buffer_alloc = self_buffer_alloc,
    .buffer_free = self_buffer_free,
    .shared_alloc = self_shared_alloc,
    .shared_free = self_shared_free,
    .barrier = self_barrier,
    .bcast = self_bcast,
    .allgather = self_allgather,
    .abort = self_abort,
};

trm_status trm_comm_self(trm_comm **out) {
    trm_comm *c = trm_alloc(sizeof *c, "the transport");
    if (!c) return TRM_MEMORY;
    trm_status status = trm_comm_init(c, &self_ops, 0, 1);
    if (status != TRM_OK) {
        trm_free(c);
        return status;
    }
    if (gethostname(c->host[0], TRM_HOST_BYTES - 1) != 0) snprintf(c->host[0], TRM_HOST_BYTES, "this host");
    snprintf(c->about, sizeof c->about, "self: 1 rank");
    *out = c;
    return TRM_OK;
}
