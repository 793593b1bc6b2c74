/* progress: what a person sees of a run: a bar on a terminal, else a plain line now and then. */
#include <math.h>
#include <string.h>

#include "run_impl.h"

#define BAR_EVERY_S 0.2
#define BAR_CELLS 16

/* Seconds to the end at the speed of this session so far. */
static double seconds_left(const trm_run *r, double now) {
    int64_t done = r->pos.update - r->began_update;
    return done > 0 ? (now - r->began) / (double)done * (double)(r->total - r->pos.update) : NAN;
}

static double rate(int64_t samples, double seconds) { return seconds > 0 ? (double)samples / seconds : 0; }

static void bar(trm_run *r, const trm_step_result *s, double now) {
    char line[TRM_LINE], cells[BAR_CELLS + 1], left[24];
    if (now - r->bar_at < BAR_EVERY_S) return;
    int full = (int)(r->step * BAR_CELLS / r->per_epoch);
    memset(cells, '.', BAR_CELLS);
    memset(cells, '#', (size_t)full);
    cells[BAR_CELLS] = '\0';
    snprintf(line, sizeof line, "epoch %lld/%lld [%s] %3lld %%  loss %.4f  %.0f samples/s  %s left",
             (long long)r->epoch, (long long)r->epochs, cells, (long long)(100 * r->step / r->per_epoch),
             trm_no_sign(s->loss), rate(r->tally.samples, r->tally.seconds),
             trm_human_time(seconds_left(r, now), left, sizeof left));
    r->engine.opt->print(r->engine.opt->print_ctx, line, true);
    r->bar_at = now;
}

static void plain(trm_run *r, const trm_step_result *s, double lr, double now) {
    char left[24];
    if (r->pos.update % r->engine.job->run.log_every != 0) return;
    trm_run_say(&r->engine, "epoch %lld/%lld  update %lld/%lld  loss %.4f  lr %.4g  %.0f samples/s  %s left",
                (long long)r->epoch, (long long)r->epochs, (long long)r->pos.update, (long long)r->total,
                trm_no_sign(s->loss), lr, rate(r->samples - r->line_samples, r->seconds - r->line_s),
                trm_human_time(seconds_left(r, now), left, sizeof left));
    r->line_s = r->seconds;
    r->line_samples = r->samples;
}

void trm_progress_update(trm_run *r, const trm_step_result *s, double lr) {
    if (r->engine.rank != 0 || !r->engine.opt->print) return;
    if (r->engine.opt->progress)
        bar(r, s, trm_now());
    else
        plain(r, s, lr, trm_now());
}

void trm_progress_valid(trm_run *r) {
    char words[64];
    trm_exam_words(&r->engine, r->valid.loss, r->valid.accuracy, words, sizeof words);
    trm_run_say(&r->engine, "epoch %lld/%lld  update %lld/%lld  valid loss %.4f%s", (long long)r->epoch,
                (long long)r->epochs, (long long)r->pos.update, (long long)r->total, r->valid.loss, words);
}

static void say_epoch(trm_run *r) {
    const trm_tally *t = &r->tally;
    char train[64], valid[64], took[24], loss[40] = "";
    double mean = t->count > 0 ? t->loss / t->count : NAN;
    trm_exam_words(&r->engine, mean, t->count > 0 ? t->correct / t->count : NAN, train, sizeof train);
    trm_exam_words(&r->engine, r->valid.loss, r->valid.accuracy, valid, sizeof valid);
    if (r->valid_is_new) snprintf(loss, sizeof loss, "; valid loss %.4f", r->valid.loss);
    trm_run_say(&r->engine, "epoch %lld/%lld: train loss %.4f%s%s%s; %s, %.0f samples/s", (long long)r->epoch,
                (long long)r->epochs, mean, train, loss, r->valid_is_new ? valid : "",
                trm_human_time(t->seconds, took, sizeof took), rate(t->samples, t->seconds));
    if (t->skipped > 0)
        trm_run_say(&r->engine, "  %lld update%s left out: loss or gradient was not finite",
                    (long long)t->skipped, t->skipped > 1 ? "s were" : " was");
}

void trm_progress_epoch(trm_run *r) {
    trm_str text = {0};
    if (r->engine.rank != 0) return;
    say_epoch(r);
    trm_why_table(r->tally.rank, r->engine.ranks, r->tally.seconds, &text);
    trm_str_add(&text, "  ");
    trm_why_sentence(r->tally.rank, r->engine.ranks, r->tally.seconds, &text);
    trm_run_say_lines(&r->engine, trm_str_get(&text));
    trm_str_free(&text);
}
