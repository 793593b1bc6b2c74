/* notes: 64 bytes of each rank to all after each update.  Two gathers take turns: the one of update
 * s is posted, then the one of s-1 is waited for, which has had a whole update to arrive. */
#include "run_impl.h"

static trm_status plan(trm_comm *c, trm_notes *n, int half) {
    trm_comm_call call = {.kind = TRM_COMM_GATHER,
                          .group = TRM_GROUP_WORLD,
                          .channel = TRM_CHANNEL_NOTE,
                          .buffer = n->buffer,
                          .offset = (int64_t)half * n->ranks * (int64_t)sizeof(trm_note),
                          .count = sizeof(trm_note),
                          .what = "the notes of the ranks"};
    return trm_comm_plan(c, &call, &n->request[half]);
}

trm_status trm_notes_open(trm_comm *c, trm_notes *n) {
    *n = (trm_notes){.ranks = trm_comm_size(c), .rank = trm_comm_rank(c)};
    int64_t bytes = 2 * n->ranks * (int64_t)sizeof(trm_note);
    TRM_TRY(trm_comm_buffer_alloc(c, TRM_U8, bytes, "notes", &n->buffer));
    trm_status status = plan(c, n, 0);
    if (status == TRM_OK) status = plan(c, n, 1);
    return trm_comm_agree(c, status);
}

void trm_notes_close(trm_comm *c, trm_notes *n) {
    for (int i = 0; i < 2; i++)
        if (n->request[i]) trm_comm_request_free(c, n->request[i]);
    trm_comm_buffer_free(c, n->buffer);
    *n = (trm_notes){0};
}

static trm_note *half_of(const trm_notes *n, int64_t turn) {
    return (trm_note *)trm_comm_buffer_data(n->buffer) + turn % 2 * n->ranks;
}

trm_status trm_notes_post(trm_comm *c, trm_notes *n, const trm_note *mine) {
    half_of(n, n->posted)[n->rank] = *mine;
    TRM_TRY(trm_comm_post(c, n->request[n->posted % 2]));
    n->posted++;
    n->pending++;
    return TRM_OK;
}

trm_status trm_notes_wait(trm_comm *c, trm_notes *n, const trm_note **all) {
    int64_t turn = n->posted - n->pending;
    TRM_TRY(trm_comm_wait(c, n->request[turn % 2]));
    n->pending--;
    *all = half_of(n, turn);
    return TRM_OK;
}
