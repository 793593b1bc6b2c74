/* save: checkpoints of a run.  All ranks take part, rank 0 writes; the outcome is agreed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint_impl.h"
#include "run_impl.h"

/* checkpoints/best is a link to the step folder of the lowest validation loss. */
static void best_link(const trm_run *r, char out[TRM_RUN_PATH + 32]) {
    snprintf(out, TRM_RUN_PATH + 32, "%s/best", r->folder.checkpoints);
}

int64_t trm_run_best_on_disk(const trm_run *r) {
    char link[TRM_RUN_PATH + 32], to[64] = "";
    int64_t update = -1;
    best_link(r, link);
    ssize_t n = readlink(link, to, sizeof to - 1);
    if (n > 5 && strncmp(to, "step-", 5) == 0 && trm_parse_int(to + 5, &update)) return update;
    return -1;
}

static void point_best(const trm_run *r) {
    char link[TRM_RUN_PATH + 32], aside[TRM_RUN_PATH + 48], to[64];
    best_link(r, link);
    snprintf(aside, sizeof aside, "%s.new", link);
    snprintf(to, sizeof to, "step-%08lld", (long long)r->best_update);
    unlink(aside);
    if (symlink(to, aside) != 0 || rename(aside, link) != 0)
        trm_log(TRM_LOG_WARN, "cannot write %s: %s", link, strerror(errno));
}

/* Rank 0's part. */
static trm_status write_one(trm_run *r) {
    trm_weights w;
    TRM_TRY(trm_host_create(&r->engine, true, true, &w));
    trm_status status = trm_checkpoint_write(r->folder.checkpoints, r->engine.graph, &w, &r->pos,
                                             &r->engine.optim, r->engine.job, r->checkpoint);
    trm_host_free(&w);
    TRM_TRY(status);
    if (r->best_update == r->pos.update) point_best(r);
    return trm_checkpoint_prune(r->folder.checkpoints, r->engine.job->checkpoint.keep, r->best_update);
}

trm_status trm_run_save(trm_run *r) {
    trm_engine *e = &r->engine;
    TRM_TRY(trm_engine_share_state(e));
    TRM_TRY(trm_engine_compare(e, r->pos.update));
    TRM_TRY(trm_root_says(e->comm, e->rank == 0 ? write_one(r) : TRM_OK));
    if (e->rank == 0) trm_log(TRM_LOG_DEBUG, "wrote %s", r->checkpoint);
    return TRM_OK;
}
