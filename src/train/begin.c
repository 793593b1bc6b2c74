/* begin: all that is done once before the first update, and its end.  Every fault here is agreed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint_impl.h"
#include "run_impl.h"

/* ---- how many updates, of what size ---- */

static trm_status count_updates(trm_run *r) {
    const trm_job *j = r->engine.job;
    int64_t n = trm_dataset_info(r->engine.train)->samples, batch = j->train.batch;
    r->last_batch = j->train.drop_last ? 0 : n % batch;
    r->per_epoch = n / batch + (r->last_batch > 0);
    if (r->per_epoch > 0) return TRM_OK;
    trm_fail(TRM_JOB, "%s: train.drop_last leaves no update: the data has %lld samples, train.batch is %lld",
             j->path, (long long)n, (long long)batch);
    trm_hint("make train.batch smaller");
    return TRM_JOB;
}

#define MOST_UPDATES ((int64_t)1 << 53)

static int64_t updates_of(int64_t epochs, int64_t per_epoch) {
    return epochs > MOST_UPDATES / per_epoch ? MOST_UPDATES : epochs * per_epoch;
}

/* After a resume the batch, and so the updates of an epoch, may be others than before. */
static void count_total(trm_run *r) {
    const trm_job *j = r->engine.job;
    /* The last batch that was still to come may be dropped now. */
    if (r->pos.update_in_epoch >= r->per_epoch) {
        r->pos.epoch++;
        r->pos.update_in_epoch = r->pos.samples = 0;
    }
    r->total = j->train.updates > 0
                   ? j->train.updates
                   : r->pos.update - r->pos.update_in_epoch +
                         updates_of(trm_max64(j->train.epochs - r->pos.epoch, 0), r->per_epoch);
    int64_t left = trm_max64(r->total - r->pos.update, 0);
    r->epochs = j->train.updates > 0
                    ? r->pos.epoch + (r->pos.update_in_epoch + left + r->per_epoch - 1) / r->per_epoch
                    : j->train.epochs;
}

static trm_status prepare(trm_run *r) {
    trm_engine *e = &r->engine;
    size_t state = (size_t)trm_graph_state_space(e->graph) * trm_engine_float(e);
    r->tally.rank = trm_alloc_array((size_t)e->ranks, sizeof *r->tally.rank, "sums of the ranks");
    r->state_before = trm_alloc(state + 1, "running statistics");
    if (!r->tally.rank || !r->state_before) return TRM_MEMORY;
    for (int i = 0; i < e->ranks; i++) r->tally.rank[i].host = trm_comm_host(e->comm, i);
    TRM_TRY(trm_layers_open(e, &r->layers));
    TRM_TRY(count_updates(r));
    r->has_exam = e->valid != NULL && e->job->train.valid_every.unit != TRM_UNIT_NEVER;
    return r->has_exam ? trm_exam_open(e, e->valid, &r->exam) : TRM_OK;
}

/* ---- first weights ---- */

static trm_status refuse(const char *what, const char *have, const char *want, const char *hint) {
    trm_fail(TRM_JOB, "cannot resume: the checkpoint was written with %s %s, the job has %s", what, have,
             want);
    trm_hint("%s", hint);
    return TRM_JOB;
}

static trm_status refuse_number(const char *what, int64_t have, int64_t want, const char *hint) {
    char a[24], b[24];
    snprintf(a, sizeof a, "%lld", (long long)have);
    snprintf(b, sizeof b, "%lld", (long long)want);
    return refuse(what, a, b, hint);
}

static const char *shuffle_name(int s) {
    return s == TRM_SHUFFLE_NONE ? "none" : s == TRM_SHUFFLE_EXACT ? "exact" : "window";
}

/* Of this job and its data; zeros where the order is another. */
static trm_status window_of(const trm_run *r, trm_data_window *out) {
    const trm_job *j = r->engine.job;
    *out = (trm_data_window){0};
    if (j->data.shuffle != TRM_SHUFFLE_WINDOW) return TRM_OK;
    return trm_data_window_of(r->engine.train, j->train.batch, j->data.memory, out);
}

/* The rest of an epoch in window order needs the same blocks in the same lanes. */
static trm_status check_window(const trm_run *r, const trm_position *p) {
    trm_data_window w;
    TRM_TRY(window_of(r, &w));
    if (p->window == w.window && p->window_print == w.print) return TRM_OK;
    if (p->window != w.window)
        return refuse_number("a shuffle window of blocks", p->window, w.window,
                             "data.memory and the chunks of the files must stay within an epoch");
    trm_fail(TRM_JOB, "cannot resume: the window order of this epoch was made of other lanes or blocks");
    trm_hint("data.memory and the chunks of the files must stay within an epoch; at its end they may change");
    return TRM_JOB;
}

/* What is left of an epoch means the same only with the same order and the same cuts. */
static trm_status check_position(const trm_run *r, const trm_position *p, const trm_optim_spec *o) {
    const trm_job *j = r->engine.job;
    const char *fresh = "model.init starts a new run from these weights";
    const char *mid =
        "within an epoch batch, micro_batches, seed, shuffle and drop_last must stay; at its end they may "
        "change";
    if (p->fingerprint != trm_dataset_info(r->engine.train)->fingerprint) {
        trm_fail(TRM_DATA, "cannot resume: the training data is not that of the checkpoint");
        trm_hint("%s", fresh);
        return TRM_DATA;
    }
    if (o->kind != j->train.optim.kind)
        return refuse("the optimizer", trm_ckpt_optimizer_name(o->kind),
                      trm_ckpt_optimizer_name(j->train.optim.kind), fresh);
    if (p->update_in_epoch == 0) return TRM_OK;
    if (p->order_version != TRM_ORDER_VERSION)
        return refuse_number("order version", p->order_version, TRM_ORDER_VERSION, fresh);
    if (p->batch != j->train.batch) return refuse_number("train.batch", p->batch, j->train.batch, mid);
    if (p->micro_batches != j->train.micro_batches)
        return refuse_number("train.micro_batches", p->micro_batches, j->train.micro_batches, mid);
    if (p->seed != j->run.seed) return refuse_number("run.seed", p->seed, j->run.seed, mid);
    if (p->shuffle >= 0 && p->shuffle != (int)j->data.shuffle)
        return refuse("data.shuffle", shuffle_name(p->shuffle), shuffle_name((int)j->data.shuffle), mid);
    if (p->drop_last >= 0 && p->drop_last != j->train.drop_last)
        return refuse("train.drop_last", p->drop_last ? "true" : "false",
                      j->train.drop_last ? "true" : "false", mid);
    return check_window(r, p);
}

/* Rank 0 reads. */
static trm_status read_resumed(trm_run *r, const char *from, trm_weights *w) {
    trm_ckpt *c = NULL;
    TRM_TRY(trm_ckpt_open(from, &c));
    r->pos = c->index.position;
    trm_status status = check_position(r, &r->pos, &c->index.optim);
    if (status == TRM_OK) status = trm_ckpt_load(c, r->engine.graph, w);
    trm_ckpt_close(c);
    return status;
}

static trm_status fresh_position(trm_run *r) {
    const trm_job *j = r->engine.job;
    trm_data_window w;
    TRM_TRY(window_of(r, &w));
    r->pos.window = w.window;
    r->pos.window_print = w.print;
    r->pos.batch = j->train.batch;
    r->pos.micro_batches = j->train.micro_batches;
    r->pos.seed = j->run.seed;
    r->pos.shuffle = (int)j->data.shuffle;
    r->pos.drop_last = j->train.drop_last;
    r->pos.order_version = TRM_ORDER_VERSION;
    r->pos.fingerprint = trm_dataset_info(r->engine.train)->fingerprint;
    return TRM_OK;
}

static trm_status read_weights(trm_run *r, const char *from, trm_weights *w) {
    const trm_engine *e = &r->engine;
    TRM_TRY(trm_host_create(e, true, false, w));
    trm_graph_init(e->graph, (uint64_t)e->job->run.seed, w->weights, w->state);
    r->pos.best_valid = r->pos.stop_best = INFINITY;
    if (from) return read_resumed(r, from, w);
    return e->job->model_init ? trm_weights_read(e->job->model_init, e->graph, w) : TRM_OK;
}

/* Everyone starts from rank 0's weights and position. Collective. */
static trm_status first_weights(trm_run *r, const char *from) {
    trm_engine *e = &r->engine;
    trm_weights w = {0};
    trm_status status = trm_root_says(e->comm, e->rank == 0 ? read_weights(r, from, &w) : TRM_OK);
    if (status == TRM_OK) status = trm_comm_bcast(e->comm, &r->pos, sizeof r->pos, 0);
    if (status == TRM_OK) status = trm_engine_spread(e, &w);
    trm_host_free(&w);
    if (status == TRM_OK) status = trm_comm_agree(e->comm, fresh_position(r));
    count_total(r);
    return status;
}

/* ---- feed ---- */

/* What this rank may come to hold: a share that cannot change needs no more than it is. */
static int64_t most_samples(const trm_run *r) {
    int64_t k = r->engine.job->train.micro_batches, cap = r->caps[r->engine.rank];
    if (r->balance.measures || r->balance.replay.n > 0) return trm_max64(k * cap, 1);
    const trm_split *s = trm_splits_now(r);
    int64_t most = 1;
    for (int i = 0; i < s->cuts; i++) most = trm_max64(most, s->cut[i].count);
    return k * most;
}

static trm_status open_feed(trm_run *r) {
    const trm_job *j = r->engine.job;
    trm_feed_spec spec = {.shuffle = j->data.shuffle,
                          .seed = (uint64_t)j->run.seed,
                          .batch = j->train.batch,
                          .micro_batches = j->train.micro_batches,
                          .drop_last = j->train.drop_last,
                          .max_samples = most_samples(r),
                          .cut = trm_splits_cut,
                          .cut_ctx = &r->splits,
                          .memory = j->data.memory,
                          .threads = j->data.threads};
    TRM_TRY(trm_feed_open(r->engine.train, &spec, &r->feed));
    if (r->pos.update == 0) return TRM_OK;
    return trm_feed_seek(r->feed, r->pos.epoch, r->pos.update_in_epoch, r->pos.update);
}

/* ---- folder ---- */

static void say_folder(const trm_run *r, const char *from, bool same) {
    const trm_run_folder *f = &r->folder;
    const trm_job *j = r->engine.job;
    char plain[TRM_RUN_PATH];
    snprintf(plain, sizeof plain, "%s/%s", j->run.dir, j->run.name);
    if (from) trm_run_say(&r->engine, "resumed from %s at update %lld", from, (long long)r->pos.update);
    if (!same && strcmp(plain, f->path) != 0)
        trm_run_say(&r->engine, "run folder: %s (%s holds an earlier run)", f->path, plain);
    else
        trm_run_say(&r->engine, "run folder: %s", f->path);
}

/* Rank 0's part. */
static trm_status open_folder(trm_run *r, const char *from, bool same) {
    const trm_run_options *o = r->engine.opt;
    TRM_TRY(trm_folder_open(r->engine.job, same ? from : NULL, r->pos.update, o->dump_losses, &r->folder));
    if (o->folder) o->folder(o->print_ctx, r->folder.path);
    r->best_update = same ? trm_run_best_on_disk(r) : -1;
    if (from && same) (void)!trm_ckpt_step_path(r->folder.checkpoints, r->pos.update, r->checkpoint);
    say_folder(r, from, same);
    return TRM_OK;
}

/* ---- begin and end ---- */

/* A rate that the run does not come to is seldom meant. */
static void warn_of_schedule(const trm_run *r) {
    const trm_schedule_spec *s = &r->engine.job->train.schedule;
    if (s->warmup > r->total)
        trm_log(TRM_LOG_WARN,
                "train.schedule.warmup is %lld updates, the run has %lld: the rate never comes to lr",
                (long long)s->warmup, (long long)r->total);
    else if (s->kind == TRM_LR_WSD && s->decay > r->total - s->warmup)
        trm_log(TRM_LOG_WARN,
                "train.schedule.decay is %lld updates, behind the warm-up are %lld: the decay begins with it",
                (long long)s->decay, (long long)(r->total - s->warmup));
}

/* What the window order gives up: the class counts of batches of a file that is sorted by class vary so many times as much. */
static void say_window(const trm_run *r) {
    trm_data_window w;
    if (r->engine.job->data.shuffle != TRM_SHUFFLE_WINDOW || window_of(r, &w) != TRM_OK) return;
    double batch = (double)r->engine.job->train.batch;
    trm_run_say(&r->engine,
                "      %lld blocks of %lld, shuffled in %d lanes of %lld blocks; sorted files vary %.2f "
                "times as exact",
                (long long)w.blocks, (long long)w.block, w.lanes, (long long)w.window,
                1 + (batch - w.lanes) / ((double)w.lanes * (double)w.window));
}

static void say_start(const trm_run *r) {
    const trm_engine *e = &r->engine;
    const trm_data_info *d = trm_dataset_info(e->train);
    trm_str table = {0};
    char x[80];
    if (e->rank != 0) return;
    warn_of_schedule(r);
    trm_job_table(e->job, &table);
    trm_run_say_lines(e, trm_str_get(&table));
    trm_str_free(&table);
    trm_run_say(e, "data: %lld training samples of shape %s%s", (long long)d->samples,
                trm_shape_text(&d->x, x, sizeof x), e->valid ? "" : ", no validation set");
    say_window(r);
    if (e->valid)
        trm_run_say(e, "      %lld validation samples", (long long)trm_dataset_info(e->valid)->samples);
    trm_run_say(e, "model: %lld parameters", (long long)trm_graph_param_count(e->graph));
    trm_run_say(e, "device: %s, %d thread%s a rank", e->device->about, e->threads, e->threads > 1 ? "s" : "");
    trm_run_say(e, "ranks: %s", trm_comm_about(e->comm));
    trm_run_say(e, "%lld update%s of %lld sample%s, %lld an epoch", (long long)r->total,
                r->total == 1 ? "" : "s", (long long)e->job->train.batch, e->job->train.batch == 1 ? "" : "s",
                (long long)r->per_epoch);
}

static trm_status begin(trm_run *r, char from[TRM_RUN_PATH]) {
    trm_engine *e = &r->engine;
    const char *resume = e->opt->resume;
    bool same = false;
    if (resume) {
        TRM_TRY(trm_root_says(e->comm, e->rank == 0 ? trm_folder_find(e->job, resume, from, &same) : TRM_OK));
        /* What follows depends on it, on every rank. */
        TRM_TRY(trm_comm_bcast(e->comm, &same, sizeof same, 0));
    }
    TRM_TRY(trm_comm_agree(e->comm, prepare(r)));
    TRM_TRY(first_weights(r, resume ? from : NULL));
    TRM_TRY(trm_rebalance_open(r, same ? from : NULL));
    TRM_TRY(trm_notes_open(e->comm, &r->notes));
    TRM_TRY(trm_comm_agree(e->comm, open_feed(r)));
    /* A new folder for nothing to do is not made. */
    if (r->pos.update >= r->total && !same) return TRM_OK;
    return trm_root_says(e->comm, e->rank == 0 ? open_folder(r, resume ? from : NULL, same) : TRM_OK);
}

trm_status trm_run_begin(trm_run *r) {
    char *from = trm_alloc(TRM_RUN_PATH, "a path");
    r->best_update = -1;
    trm_status status = trm_comm_agree(r->engine.comm, from ? TRM_OK : TRM_MEMORY);
    if (status == TRM_OK) status = begin(r, from);
    trm_free(from);
    TRM_TRY(status);
    TRM_TRY(trm_comm_bcast(r->engine.comm, &r->best_update, sizeof r->best_update, 0));
    /* In a new folder the best one so far is not at hand. */
    if (r->best_update < 0) r->pos.best_valid = INFINITY;
    say_start(r);
    trm_tally_reset(r);
    r->began = trm_now();
    r->began_update = r->pos.update;
    trm_metric_start(r);
    return TRM_OK;
}

void trm_run_end(trm_run *r) {
    trm_feed_close(r->feed);
    trm_splits_close(&r->splits);
    trm_rebalance_close(&r->balance);
    trm_layers_close(&r->layers);
    trm_free(r->caps);
    trm_notes_close(r->engine.comm, &r->notes);
    trm_folder_close(&r->folder);
    trm_record_free(&r->record);
    trm_exam_close(&r->exam);
    trm_free(r->tally.rank);
    trm_free(r->state_before);
    trm_engine_free(&r->engine);
}
