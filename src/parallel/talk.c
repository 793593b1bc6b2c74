/* The talk between a runner, which knows no transport, and a comm, which knows no graph. */
#include <stdlib.h>
#include <string.h>
#include <trireme/parallel.h>

struct trm_parallel_talk {
    trm_comm *comm;
    bool serial; /* start exchanges only when they are waited for: to measure what overlap hides */
    trm_comm_buffer *buffer[2]; /* gradients, small */
    trm_talk table;
};

static trm_status plan(void *ctx, const trm_talk_call *call, void **request) {
    trm_parallel_talk *t = ctx;
    trm_comm_call c = {
        .kind = TRM_COMM_SUM,
        .group = (trm_group)call->group,
        .channel = (trm_channel)call->channel,
        .buffer = t->buffer[call->buffer],
        .offset = call->offset,
        .count = call->count,
        .contributes = call->contributes,
        .sumsq = call->sumsq,
        .what = call->what,
    };
    trm_comm_request *r;
    TRM_TRY(trm_comm_plan(t->comm, &c, &r));
    *request = r;
    return TRM_OK;
}

static trm_status post(void *ctx, void *request) {
    trm_parallel_talk *t = ctx;
    return t->serial ? TRM_OK : trm_comm_post(t->comm, request);
}

static trm_status wait_for(void *ctx, void *request) {
    trm_parallel_talk *t = ctx;
    if (t->serial) TRM_TRY(trm_comm_post(t->comm, request));
    return trm_comm_wait(t->comm, request);
}

static void release(void *ctx, void *request) {
    trm_comm_request_free(((trm_parallel_talk *)ctx)->comm, request);
}

trm_status trm_parallel_talk_create(trm_comm *c, trm_comm_buffer *grads, trm_comm_buffer *small,
                                    trm_parallel_talk **out) {
    trm_parallel_talk *t = trm_alloc(sizeof *t, "talk");
    if (!t) return TRM_MEMORY;
    t->comm = c;
    const char *overlap = getenv("TRIREME_OVERLAP");
    t->serial = overlap && !strcmp(overlap, "0");
    t->buffer[0] = grads;
    t->buffer[1] = small;
    t->table = (trm_talk){t, plan, post, wait_for, release};
    *out = t;
    return TRM_OK;
}

const trm_talk *trm_parallel_talk_table(const trm_parallel_talk *t) { return &t->table; }
void trm_parallel_talk_free(trm_parallel_talk *t) { trm_free(t); }
