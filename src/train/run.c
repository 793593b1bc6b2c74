/* run: the conductor.  One update after the other; between two of them, at the boundary, whatever
 * is due: validation, the end of an epoch, a checkpoint, a stop. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "run_impl.h"

/* ---- one update ---- */

static int program_of(const trm_run *r, const trm_slot *slot) {
    const trm_split *s = trm_splits_now(r);
    return slot->batch == r->engine.job->train.batch ? s->program : s->program_last;
}

static void keep_state(trm_run *r) {
    memcpy(r->state_before, r->engine.state,
           (size_t)trm_graph_state_space(r->engine.graph) * trm_engine_float(&r->engine));
}

static void restore_state(trm_run *r) {
    memcpy(r->engine.state, r->state_before,
           (size_t)trm_graph_state_space(r->engine.graph) * trm_engine_float(&r->engine));
}

/* Is the loss of this rank's own samples finite? Asked after a fault only: it plans. */
static bool own_loss_is_finite(trm_run *r, const trm_slot *slot) {
    double tail[TRM_TAIL_SIZE] = {0};
    int program;
    trm_step step = {.update = r->pos.update,
                     .x_raw = slot->x_raw,
                     .y_raw = slot->y_raw,
                     .sample = slot->sample,
                     .tail = tail};
    if (slot->n == 0) return true;
    if (trm_runner_plan_eval(r->engine.runner, slot->n, &program) != TRM_OK) return true;
    return trm_runner_eval(r->engine.runner, program, &step) == TRM_OK && isfinite(tail[TRM_TAIL_LOSS]);
}

/* The first rank whose own samples give no finite loss; -1 where it shows on none. */
static trm_status first_bad_rank(trm_run *r, const trm_slot *slot, int *out) {
    double first = own_loss_is_finite(r, slot) ? r->engine.ranks : r->engine.rank;
    first = -first;
    TRM_TRY(trm_comm_max_f64(r->engine.comm, &first, 1));
    *out = -first < r->engine.ranks ? (int)-first : -1;
    return TRM_OK;
}

/* Every rank knows of it: the flag came with the sums of this very update. */
static trm_status not_finite(trm_run *r, const trm_slot *slot, const trm_step_result *s) {
    const char *what = isfinite(s->loss) ? "the norm of the gradient" : "loss";
    char where[48] = "";
    int rank;
    restore_state(r);
    if (r->engine.job->train.on_nonfinite == TRM_NONFINITE_SKIP) return TRM_OK;
    TRM_TRY(first_bad_rank(r, slot, &rank));
    if (rank >= 0) snprintf(where, sizeof where, " (first seen by rank %d)", rank);
    trm_fail(TRM_NUMERIC, "update %lld: %s is not finite%s; last good checkpoint: %s",
             (long long)r->pos.update, what, where, r->checkpoint[0] ? r->checkpoint : "none");
    trm_hint(
        "a lower learning rate or train.clip may help; train.on_nonfinite: skip leaves such updates out");
    return TRM_NUMERIC;
}

/* Hexadecimal, so that a test can compare to the bit. */
static void dump_losses(const trm_run *r, const trm_step_result *s) {
    char line[128];
    if (r->folder.losses < 0 || r->engine.rank != 0) return;
    int n = snprintf(line, sizeof line, "%lld %a %a\n", (long long)r->pos.update, s->loss, s->grad_norm);
    (void)!write(r->folder.losses, line, (size_t)n);
}

static void advance(trm_run *r, const trm_slot *slot) {
    trm_position *p = &r->pos;
    p->update++;
    p->epoch = slot->epoch;
    p->update_in_epoch = slot->update + 1;
    p->samples += slot->batch;
    r->samples += slot->batch;
    r->epoch = slot->epoch + 1;
    r->step = slot->update + 1;
    if (p->update_in_epoch < r->per_epoch) return;
    p->epoch++;
    p->update_in_epoch = p->samples = 0;
}

/* Reading it costs as much as a small update. */
static uint32_t memory_mib(trm_run *r) {
    double now = trm_now();
    if (now - r->memory_at < 0.25) return r->memory_mib;
    r->memory_at = now;
    return r->memory_mib = (uint32_t)(trm_mem_resident() >> 20);
}

static trm_note note_of(trm_run *r, const trm_runner_times *a, const trm_runner_times *b, double data_s,
                        double cpu_s, double delay_s) {
    double compute =
        b->load - a->load + b->forward - a->forward + b->backward - a->backward + b->update - a->update;
    return (trm_note){.update = r->pos.update,
                      .compute_s = (float)compute,
                      .wait_s = (float)(b->wait - a->wait),
                      .data_s = (float)data_s,
                      .cpu_s = (float)cpu_s,
                      .delay_s = (float)delay_s,
                      .fixed_s = (float)(b->update - a->update),
                      .memory_mib = memory_mib(r),
                      .orders = trm_signals_seen() > 0 ? TRM_ORDER_STOP : 0};
}

/* ---- notes ---- */

/* All ranks see the same notes, so all come to the same decision. */
static trm_status read_notes(trm_run *r) {
    const trm_note *all;
    TRM_TRY(trm_run_alone(r, trm_notes_wait(r->engine.comm, &r->notes, &all)));
    trm_note_sum sum = trm_note_fold(all, r->engine.ranks);
    if (!sum.same_update) return trm_fail(TRM_INTERNAL, "the ranks are not at the same update");
    trm_tally_note(r, all);
    trm_rebalance_note(r, all);
    if (sum.orders & TRM_ORDER_STOP) r->stop = true;
    return TRM_OK;
}

static trm_status exchange_notes(trm_run *r, const trm_note *mine) {
    TRM_TRY(trm_run_alone(r, trm_notes_post(r->engine.comm, &r->notes, mine)));
    return r->notes.pending > 1 ? read_notes(r) : TRM_OK;
}

static trm_status flush_notes(trm_run *r) {
    while (r->notes.pending > 0) TRM_TRY(read_notes(r));
    return TRM_OK;
}

static void add_time(trm_run *r, double seconds) {
    r->tally.seconds += seconds;
    r->seconds += seconds;
}

static trm_status one_update(trm_run *r) {
    trm_slot slot;
    trm_step_result s;
    double began = trm_now(), cpu = trm_thread_cpu(), delay = trm_thread_delay(), data_s = 0;
    trm_runner_times before = trm_runner_time(r->engine.runner);
    TRM_TRY(trm_run_alone(r, trm_feed_next(r->feed, &slot, &data_s)));
    trm_step step = {
        .update = r->pos.update + 1, .x_raw = slot.x_raw, .y_raw = slot.y_raw, .sample = slot.sample};
    step.lr = trm_schedule_lr(&r->engine.job->train.schedule, step.update, r->total, r->per_epoch);
    keep_state(r);
    TRM_TRY(trm_run_alone(r, trm_runner_step(r->engine.runner, program_of(r, &slot), &step, false, &s)));
    advance(r, &slot);
    if (!s.applied) r->left_out++;
    dump_losses(r, &s);
    add_time(r, trm_now() - began);
    r->balance.wall[r->pos.update % TRM_UNDER_WAY] = trm_now() - began;
    trm_metric_update(r, &s, slot.batch, step.lr, trm_now() - began);
    trm_progress_update(r, &s, step.lr);
    if (!s.finite) TRM_TRY(not_finite(r, &slot, &s));
    trm_feed_release(r->feed, &slot);
    trm_runner_times after = trm_runner_time(r->engine.runner);
    trm_note note = note_of(r, &before, &after, data_s, trm_thread_cpu() - cpu, trm_thread_delay() - delay);
    return exchange_notes(r, &note);
}

/* ---- the boundary ---- */

/* Early stop: have validations brought nothing for long enough? The same on all ranks, as their loss is. */
static bool is_stale(const trm_run *r) {
    const int64_t patience = r->engine.job->train.early_stop.patience;
    return patience > 0 && r->pos.stale >= patience;
}

static bool is_done(const trm_run *r) { return r->pos.update >= r->total; }
static bool is_over(const trm_run *r) { return is_done(r) || is_stale(r); }
static bool epoch_ends(const trm_run *r) { return r->pos.update_in_epoch == 0; }

static bool is_due(const trm_run *r, trm_every every) {
    switch (every.unit) {
    case TRM_UNIT_UPDATES: return r->pos.update % every.n == 0 || is_over(r);
    case TRM_UNIT_EPOCHS: return (epoch_ends(r) && r->pos.epoch % every.n == 0) || is_over(r);
    case TRM_UNIT_NEVER: return false;
    }
    return false;
}

static void count_stale(trm_run *r) {
    trm_position *p = &r->pos;
    if (r->valid.loss < p->stop_best - r->engine.job->train.early_stop.min_delta) {
        p->stop_best = r->valid.loss;
        p->stale = 0;
    } else {
        p->stale++;
    }
}

static trm_status validate(trm_run *r, bool *is_best) {
    const trm_job *j = r->engine.job;
    TRM_TRY(trm_engine_share_state(&r->engine));
    TRM_TRY(trm_run_alone(r, trm_exam_run(&r->engine, &r->exam, &r->valid)));
    r->valid_is_new = true;
    count_stale(r);
    *is_best = r->valid.loss < r->pos.best_valid;
    if (*is_best) r->pos.best_valid = r->valid.loss;
    *is_best = *is_best && j->checkpoint.best && j->checkpoint.every.unit != TRM_UNIT_NEVER;
    if (*is_best) r->best_update = r->pos.update;
    trm_metric_valid(r);
    return TRM_OK;
}

static trm_status close_epoch(trm_run *r) {
    trm_metric_epoch(r);
    trm_progress_epoch(r);
    trm_tally_reset(r);
    return trm_layers_epoch(r);
}

static trm_status stopped(trm_run *r) {
    trm_fail(TRM_STOPPED, "stopped at update %lld; resume with --resume", (long long)r->pos.update);
    return TRM_STOPPED;
}

/* `stop` and all that is due are the same on all ranks. */
static trm_status boundary(trm_run *r) {
    bool ends = epoch_ends(r) || is_over(r), is_best = false;
    r->valid_is_new = false;
    if (ends) TRM_TRY(flush_notes(r));
    if (r->has_exam && is_due(r, r->engine.job->train.valid_every)) TRM_TRY(validate(r, &is_best));
    if (!ends && is_over(r)) {
        ends = true;
        TRM_TRY(flush_notes(r));
    }
    if (r->valid_is_new && !ends) trm_progress_valid(r);
    if (ends) TRM_TRY(close_epoch(r));
    bool stop = r->stop && !is_over(r);
    if (!stop && !is_over(r)) TRM_TRY(trm_rebalance_boundary(r, epoch_ends(r)));
    if (is_best || stop || is_due(r, r->engine.job->checkpoint.every)) TRM_TRY(trm_run_save(r));
    return stop ? stopped(r) : TRM_OK;
}

/* ---- the whole ---- */

static trm_status loop(trm_run *r) {
    while (!is_over(r)) {
        TRM_TRY(one_update(r));
        TRM_TRY(boundary(r));
    }
    return TRM_OK;
}

/* A run that learned nothing is not done. All ranks counted alike. */
static trm_status check_applied(const trm_run *r) {
    int64_t n = r->pos.update - r->began_update;
    if (n == 0 || r->left_out < n) return TRM_OK;
    trm_fail(TRM_NUMERIC, "all %lld updates were left out: loss or gradient was never finite", (long long)n);
    trm_hint("a lower learning rate may help; look for numbers in the data that are not finite");
    return TRM_NUMERIC;
}

static void say_nothing_to_do(const trm_run *r) {
    if (is_done(r))
        trm_run_say(&r->engine, "nothing to do: all %lld updates are done", (long long)r->pos.update);
    else
        trm_run_say(&r->engine, "nothing to do: the run was ended by train.early_stop at update %lld",
                    (long long)r->pos.update);
}

static void say_early_stop(const trm_run *r) {
    const trm_position *p = &r->pos;
    trm_run_say(&r->engine, "early stop at update %lld: %lld validation%s brought no loss below %.6g",
                (long long)p->update, (long long)p->stale, p->stale == 1 ? "" : "s",
                p->stop_best - r->engine.job->train.early_stop.min_delta);
}

static trm_status train(trm_run *r) {
    if (is_over(r)) {
        say_nothing_to_do(r);
        return TRM_OK;
    }
    trm_status status = loop(r);
    if (status == TRM_OK && !is_done(r)) say_early_stop(r);
    if (status == TRM_OK) status = check_applied(r);
    trm_metric_end(r, status);
    /* What all know of ends in order: nothing stays under way. */
    if (!r->alone && status != TRM_COMM) (void)!flush_notes(r);
    if (status == TRM_OK && r->checkpoint[0]) trm_run_say(&r->engine, "done; weights: %s", r->checkpoint);
    return status;
}

/* A rank that met a fault alone cannot leave in order: the others wait for it. */
static trm_status leave(trm_run *r, trm_status status) {
    const trm_run_options *o = r->engine.opt;
    bool alone = r->alone || status == TRM_COMM;
    if (status != TRM_OK && alone && r->engine.ranks > 1 && o->alone) o->alone(o->print_ctx, status);
    return status;
}

trm_status trm_run_train(const trm_job *j, trm_comm *c, const trm_run_options *o) {
    trm_run *r = trm_alloc(sizeof *r, "a run");
    trm_status status = trm_comm_agree(c, r ? TRM_OK : TRM_MEMORY);
    if (status != TRM_OK || !r) {
        trm_free(r);
        return status;
    }
    r->folder = (trm_run_folder){.lock = -1, .metrics = -1, .losses = -1};
    status = trm_engine_create(j, c, o, true, NULL, &r->engine);
    if (status == TRM_OK) status = trm_run_begin(r);
    if (status == TRM_OK) status = train(r);
    leave(r, status);
    trm_run_end(r);
    trm_free(r);
    return status;
}
