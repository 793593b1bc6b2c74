/* splits: who computes which samples, from which update on.
 *
 * The feed's thread cuts updates that are still to come, so a new split names its first update, one that no rank's feed
 * has passed: a feed is at most TRM_FEED_DEPTH updates ahead of the update that is done. */
#include <string.h>

#include "run_impl.h"

/* ---- one split ---- */

static void free_split(trm_split *s) {
    trm_shares_free(&s->shares);
    trm_free(s->counts);
    memset(s, 0, sizeof *s);
}

/* The micro-batches of a batch have one of two sizes. */
static trm_status add_cuts(const trm_run *r, trm_split *s, int64_t batch) {
    int64_t k = r->engine.job->train.micro_batches, sizes[2] = {batch / k, batch / k + 1};
    for (int i = 0; i < 2 && batch > 0; i++) {
        int64_t begin, count;
        TRM_TRY(trm_shares_slice(&s->shares, sizes[i], r->engine.rank, &begin, &count));
        s->cut[s->cuts].m = sizes[i];
        s->cut[s->cuts].begin = begin;
        s->cut[s->cuts++].count = count;
    }
    return TRM_OK;
}

static trm_status plan_one(trm_run *r, trm_split *s, int64_t batch, int64_t *counts, int *program) {
    int k = r->engine.job->train.micro_batches;
    if (batch == 0) return TRM_OK;
    TRM_TRY(add_cuts(r, s, batch));
    TRM_TRY(trm_shares_counts(&s->shares, batch, k, counts));
    return trm_runner_plan(r->engine.runner, k, counts, program);
}

/* Programs for a whole batch and for the last, smaller one; both now, so that no epoch ends in a fault of planning. */
static trm_status plan_programs(trm_run *r, trm_split *s) {
    const trm_engine *e = &r->engine;
    int k = e->job->train.micro_batches;
    int64_t *counts = trm_alloc_array((size_t)e->ranks * (size_t)k, sizeof *counts, "counts of samples");
    trm_status status = counts ? TRM_OK : TRM_MEMORY;
    bool whole = trm_dataset_info(e->train)->samples >= e->job->train.batch;
    if (status == TRM_OK && whole) status = plan_one(r, s, e->job->train.batch, counts, &s->program);
    if (status == TRM_OK) status = plan_one(r, s, r->last_batch, counts, &s->program_last);
    trm_free(counts);
    return status;
}

static trm_status make_split(trm_run *r, int64_t first, const double *weights, trm_split *s) {
    int ranks = r->engine.ranks;
    *s = (trm_split){.first = first, .program = -1, .program_last = -1};
    TRM_TRY(trm_shares_create(ranks, weights, &s->shares));
    s->counts = trm_alloc_array((size_t)ranks, sizeof *s->counts, "shares");
    if (!s->counts) return TRM_MEMORY;
    TRM_TRY(trm_shares_counts(&s->shares, trm_splits_total(r), 1, s->counts));
    return plan_programs(r, s);
}

/* ---- which one ---- */

int64_t trm_splits_total(const trm_run *r) {
    const trm_job *j = r->engine.job;
    int64_t batch = trm_min64(j->train.batch, trm_dataset_info(r->engine.train)->samples);
    return trm_cut(batch, j->train.micro_batches, 1);
}

static void settle(trm_run *r) {
    const trm_split *s = trm_splits_now(r);
    int64_t k = r->engine.job->train.micro_batches;
    for (int rank = 0; rank < r->engine.ranks; rank++) r->tally.rank[rank].share = s->counts[rank] * k;
    /* Running statistics count where there are samples in every micro-batch: the first sample of each goes to the
     * first of the largest shares. */
    r->engine.state_root = 0;
    for (int rank = 1; rank < r->engine.ranks; rank++)
        if (s->shares.weights[rank] > s->shares.weights[r->engine.state_root]) r->engine.state_root = rank;
}

trm_status trm_splits_open(trm_run *r, const double *weights) {
    trm_splits *x = &r->splits;
    TRM_TRY(make_split(r, 0, weights, &x->at[0]));
    pthread_mutex_init(&x->lock, NULL);
    x->open = true;
    settle(r);
    return TRM_OK;
}

void trm_splits_close(trm_splits *x) {
    if (x->open) pthread_mutex_destroy(&x->lock);
    free_split(&x->at[0]);
    free_split(&x->at[1]);
    x->open = false;
}

const trm_split *trm_splits_now(const trm_run *r) { return &r->splits.at[r->splits.now]; }

bool trm_splits_pending(const trm_run *r) { return r->splits.has_next; }

trm_status trm_splits_change(trm_run *r, int64_t first, const int64_t *counts) {
    trm_splits *x = &r->splits;
    trm_split next = {0};
    int ranks = r->engine.ranks;
    int64_t passed = r->pos.update + (r->feed ? TRM_FEED_DEPTH : 0);
    if (x->has_next || first <= passed)
        return trm_fail(TRM_INTERNAL, "shares were to change at update %lld, which the feed may have passed",
                        (long long)first + 1);
    double *weights = trm_alloc_array((size_t)ranks, sizeof *weights, "shares");
    trm_status status = weights ? TRM_OK : TRM_MEMORY;
    for (int i = 0; i < ranks && weights; i++) weights[i] = (double)counts[i];
    if (status == TRM_OK) status = make_split(r, first, weights, &next);
    trm_free(weights);
    status = trm_comm_agree(r->engine.comm, status);
    if (status != TRM_OK) {
        free_split(&next);
        return status;
    }
    pthread_mutex_lock(&x->lock);
    free_split(&x->at[1 - x->now]);
    x->at[1 - x->now] = next;
    x->has_next = true;
    pthread_mutex_unlock(&x->lock);
    return TRM_OK;
}

/* A program that the new split does not use either will not run again. */
static void forget(trm_run *r, int program, const trm_split *s) {
    if (program >= 0 && program != s->program && program != s->program_last)
        trm_runner_forget(r->engine.runner, program);
}

bool trm_splits_reach(trm_run *r) {
    trm_splits *x = &r->splits;
    if (!x->has_next || r->pos.update < x->at[1 - x->now].first) return false;
    pthread_mutex_lock(&x->lock);
    x->now = 1 - x->now;
    x->has_next = false;
    pthread_mutex_unlock(&x->lock);
    trm_split *old = &x->at[1 - x->now];
    forget(r, old->program, trm_splits_now(r));
    if (old->program_last != old->program) forget(r, old->program_last, trm_splits_now(r));
    old->program = old->program_last = -1;
    settle(r);
    return true;
}

/* ---- for the feed's thread: no computing, no memory ---- */

void trm_splits_cut(void *ctx, int64_t update, int64_t m, int64_t *begin, int64_t *count) {
    trm_splits *x = ctx;
    *begin = *count = 0;
    pthread_mutex_lock(&x->lock);
    const trm_split *s = &x->at[x->now], *next = &x->at[1 - x->now];
    if (x->has_next && update >= next->first) s = next;
    for (int i = 0; i < s->cuts; i++) {
        if (s->cut[i].m != m) continue;
        *begin = s->cut[i].begin;
        *count = s->cut[i].count;
    }
    pthread_mutex_unlock(&x->lock);
}
