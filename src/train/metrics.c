/* metrics: what goes into metrics.jsonl, and the sums of an epoch behind it. */
#include <math.h>
#include <string.h>

#include "run_impl.h"

/* ---- the tally ---- */

void trm_tally_reset(trm_run *r) {
    trm_tally *t = &r->tally;
    trm_why_rank *rank = t->rank;
    for (int i = 0; i < r->engine.ranks; i++)
        rank[i] = (trm_why_rank){.host = rank[i].host, .share = rank[i].share};
    *t = (trm_tally){.rank = rank};
}

void trm_tally_note(trm_run *r, const trm_note *all) {
    for (int i = 0; i < r->engine.ranks; i++) {
        trm_why_rank *w = &r->tally.rank[i];
        w->compute_s += all[i].compute_s;
        w->wait_s += all[i].wait_s;
        w->data_s += all[i].data_s;
        w->cpu_s += all[i].cpu_s;
        w->delay_s += all[i].delay_s;
        w->memory_mib = trm_max64(w->memory_mib, all[i].memory_mib);
    }
}

static void count(trm_tally *t, const trm_step_result *s, int64_t samples) {
    t->samples += samples;
    t->updates++;
    if (!s->applied) t->skipped++;
    if (!s->finite) return;
    t->loss += s->loss * s->count;
    t->count += s->count;
    t->correct += s->correct;
}

static double mean_loss(const trm_tally *t) { return t->count > 0 ? t->loss / t->count : NAN; }
static double mean_correct(const trm_tally *t) { return t->count > 0 ? t->correct / t->count : NAN; }

/* ---- records ---- */

static void send(trm_run *r) { trm_folder_metric(&r->folder, &r->record); }

/* How many samples of a set are left out, and the first of them. */
static void left_out(trm_record *m, const char *prefix, const trm_dataset *d) {
    char count[32], which[32];
    trm_str text = {0};
    if (!d || trm_dataset_info(d)->skipped == 0) return;
    snprintf(count, sizeof count, "%sleft_out", prefix);
    snprintf(which, sizeof which, "%sleft_out_first", prefix);
    trm_dataset_skipped(d, &text);
    trm_record_int(m, count, trm_dataset_info(d)->skipped);
    trm_record_str(m, which, trm_str_get(&text));
    trm_str_free(&text);
}

void trm_metric_start(trm_run *r) {
    const trm_engine *e = &r->engine;
    trm_record *m = &r->record;
    if (e->rank != 0) return;
    trm_record_begin(m, "run");
    trm_record_str(m, "name", e->job->run.name);
    trm_record_bool(m, "resumed", r->pos.update > 0);
    trm_record_int(m, "update", r->pos.update);
    trm_record_int(m, "updates", r->total);
    trm_record_int(m, "updates_per_epoch", r->per_epoch);
    trm_record_int(m, "batch", e->job->train.batch);
    trm_record_int(m, "micro_batches", e->job->train.micro_batches);
    trm_record_int(m, "samples", trm_dataset_info(e->train)->samples);
    left_out(m, "", e->train);
    left_out(m, "valid_", e->valid);
    trm_record_int(m, "parameters", trm_graph_param_count(e->graph));
    trm_record_int(m, "ranks", e->ranks);
    trm_record_int(m, "threads", e->threads);
    if (e->ranks > 1) {
        trm_record_open(m, "shares", '[');
        for (int i = 0; i < e->ranks; i++) trm_record_int(m, NULL, trm_splits_now(r)->counts[i]);
        trm_record_close(m, ']');
    }
    trm_record_str(m, "device", e->device->about);
    trm_record_str(m, "comm", trm_comm_about(e->comm));
    send(r);
}

void trm_metric_update(trm_run *r, const trm_step_result *s, int64_t samples, double lr, double seconds) {
    trm_record *m = &r->record;
    count(&r->tally, s, samples);
    if (r->engine.rank != 0) return;
    trm_record_begin(m, "update");
    trm_record_int(m, "update", r->pos.update);
    trm_record_int(m, "epoch", r->epoch);
    trm_record_int(m, "step", r->step);
    trm_record_num(m, "loss", s->loss);
    trm_record_num(m, "lr", lr);
    trm_record_num(m, "grad_norm", s->grad_norm);
    trm_record_int(m, "samples", samples);
    trm_record_num(m, "seconds", seconds);
    trm_record_num(m, "samples_per_s", seconds > 0 ? (double)samples / seconds : 0);
    if (!s->applied) trm_record_bool(m, "applied", false);
    send(r);
}

void trm_metric_valid(trm_run *r) {
    if (r->engine.rank != 0) return;
    trm_record_begin(&r->record, "valid");
    trm_record_int(&r->record, "update", r->pos.update);
    trm_exam_record(&r->record, &r->engine, "", r->valid.loss, r->valid.accuracy);
    trm_record_int(&r->record, "samples", r->valid.samples);
    trm_record_num(&r->record, "seconds", r->valid.seconds);
    trm_record_bool(&r->record, "best", r->best_update == r->pos.update);
    send(r);
}

static void ranks_record(trm_record *m, const trm_why_rank *rank, int n) {
    trm_record_open(m, "ranks", '[');
    for (int i = 0; i < n; i++) {
        trm_record_open(m, NULL, '{');
        trm_record_int(m, "rank", i);
        trm_record_str(m, "host", rank[i].host);
        trm_record_int(m, "share", rank[i].share);
        trm_record_num(m, "compute_s", rank[i].compute_s);
        trm_record_num(m, "wait_s", rank[i].wait_s);
        trm_record_num(m, "data_s", rank[i].data_s);
        trm_record_num(m, "cpu_s", rank[i].cpu_s);
        trm_record_num(m, "delay_s", rank[i].delay_s);
        trm_record_int(m, "memory_mib", rank[i].memory_mib);
        trm_record_close(m, '}');
    }
    trm_record_close(m, ']');
}

void trm_metric_epoch(trm_run *r) {
    const trm_tally *t = &r->tally;
    trm_record *m = &r->record;
    if (r->engine.rank != 0) return;
    trm_record_begin(m, "epoch");
    trm_record_int(m, "epoch", r->epoch);
    trm_record_int(m, "update", r->pos.update);
    trm_record_int(m, "updates", t->updates);
    trm_record_int(m, "skipped", t->skipped);
    trm_exam_record(m, &r->engine, "train_", mean_loss(t), mean_correct(t));
    if (r->valid_is_new) trm_exam_record(m, &r->engine, "valid_", r->valid.loss, r->valid.accuracy);
    trm_record_int(m, "samples", t->samples);
    trm_record_num(m, "seconds", t->seconds);
    trm_record_num(m, "samples_per_s", t->seconds > 0 ? (double)t->samples / t->seconds : 0);
    ranks_record(m, t->rank, r->engine.ranks);
    send(r);
}

void trm_metric_end(trm_run *r, trm_status s) {
    if (r->engine.rank != 0) return;
    trm_record_begin(&r->record, "end");
    trm_record_int(&r->record, "update", r->pos.update);
    trm_record_str(&r->record, "status", trm_status_name(s));
    if (s != TRM_OK) trm_record_str(&r->record, "text", trm_error_text());
    send(r);
}
