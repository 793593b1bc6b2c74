/* rebalance: measures what ranks take, lets rank 0 decide, and changes the split on all of them.
 *
 * Only rank 0 keeps times and a policy, so that ranks of unlike hardware cannot come to unlike decisions.  Its word goes
 * to all at a boundary between two updates; the change names an update that no feed has passed. */
#include <string.h>

#include "run_impl.h"

/* Updates behind a change of shares, or behind a validation, that are left out: cold caches. */
#define WARM_UP 2

static bool follows(const trm_run *r) {
    trm_balance_mode mode = r->engine.job->balance.mode;
    return r->engine.ranks > 1 && (mode == TRM_BALANCE_DYNAMIC || mode == TRM_BALANCE_HYBRID);
}

/* ---- caps ---- */

/* Slots are there from the start: so many times an equal share is the most that a rank may come to hold. */
#define MOST_SHARES 4

/* Half of what is free on the node, cut over its ranks, holds slots of the feed and activations. */
static int64_t own_cap(const trm_engine *e, int64_t total) {
    const trm_data_info *d = trm_engine_data(e);
    int64_t equal = total / e->ranks + 1, k = e->job->train.micro_batches;
    double room = (double)trm_mem_available() / 2 / trm_comm_node_size(e->comm);
    double slots = (double)((TRM_FEED_DEPTH + 1) * k * (d->x_stride + d->y_stride));
    double arena = (double)trm_runner_arena_bytes(e->runner) / (double)equal;
    double most = room / (slots + arena + 1);
    most = fmax(fmin(most, MOST_SHARES * (double)equal), (double)equal);
    return most < (double)total ? (int64_t)most : total;
}

/* Shares that are known to come have to fit, whatever they take. */
static trm_status find_caps(trm_run *r) {
    const trm_moves *m = &r->balance.replay;
    int n = r->engine.ranks;
    int64_t mine = own_cap(&r->engine, trm_splits_total(r));
    TRM_TRY(trm_comm_allgather(r->engine.comm, &mine, sizeof mine, r->caps));
    for (int i = 0; i < n; i++) {
        r->caps[i] = trm_max64(r->caps[i], trm_splits_now(r)->counts[i]);
        for (int64_t k = 0; k < m->n; k++) r->caps[i] = trm_max64(r->caps[i], m->counts[k * n + i]);
    }
    return TRM_OK;
}

/* ---- move: all ranks ---- */

static trm_status change(trm_run *r, int64_t first, const int64_t *counts) {
    double begun = trm_now();
    TRM_TRY(trm_splits_change(r, first, counts));
    r->balance.cost = trm_now() - begun;
    return TRM_OK;
}

static void record_shares(trm_record *m, const char *key, const int64_t *counts, int n) {
    trm_record_open(m, key, '[');
    for (int i = 0; i < n; i++) trm_record_int(m, NULL, counts[i]);
    trm_record_close(m, ']');
}

static void record_replay(trm_run *r) {
    trm_record *m = &r->record;
    const trm_split *s = trm_splits_now(r);
    if (r->engine.rank != 0) return;
    trm_record_begin(m, "balance");
    trm_record_int(m, "update", r->pos.update);
    trm_record_int(m, "epoch", r->epoch);
    trm_record_str(m, "verdict", "replay");
    trm_record_bool(m, "moved", true);
    trm_record_int(m, "first_update", s->first + 1);
    record_shares(m, "shares", s->counts, r->engine.ranks);
    trm_folder_metric(&r->folder, m);
}

/* A move is put in as soon as the one before it is in force. */
static trm_status replayed(trm_run *r) {
    trm_rebalance *b = &r->balance;
    const trm_moves *m = &b->replay;
    if (b->next >= m->n || trm_splits_pending(r)) return TRM_OK;
    int64_t i = b->next++;
    return m->first[i] < r->total ? change(r, m->first[i], m->counts + i * m->ranks) : TRM_OK;
}

/* ---- open ---- */

static trm_status open_policy(trm_run *r) {
    const trm_job *j = r->engine.job;
    trm_rebalance *b = &r->balance;
    trm_policy_spec spec = {.ranks = r->engine.ranks,
                            .total = trm_splits_total(r),
                            .cap = r->caps,
                            .threshold = j->balance.threshold,
                            .predictor = j->balance.predictor,
                            .cooldown = j->balance.cooldown,
                            .reprobe = j->balance.reprobe};
    if (r->engine.rank != 0) return TRM_OK;
    b->measure = trm_alloc_array((size_t)spec.ranks, sizeof *b->measure, "measures");
    b->noise = trm_alloc_array((size_t)spec.ranks, sizeof *b->noise, "measures");
    if (!b->measure || !b->noise) return TRM_MEMORY;
    TRM_TRY(trm_window_open(spec.ranks, &b->window));
    trm_window_reset(&b->window, WARM_UP);
    return trm_policy_open(&spec, trm_splits_now(r)->counts, &b->policy);
}

static trm_status check_replay(const trm_run *r, const trm_moves *m) {
    const trm_job *j = r->engine.job;
    const char *from = j->balance.from;
    if (m->ranks != r->engine.ranks)
        return trm_fail(TRM_JOB, "balance.from: %s had %d ranks, this run has %d", from, m->ranks,
                        r->engine.ranks);
    if (m->batch != j->train.batch || m->micro_batches != j->train.micro_batches)
        return trm_fail(
            TRM_JOB, "balance.from: %s had batches of %lld in %d micro-batches, this run has %lld in %d",
            from, (long long)m->batch, m->micro_batches, (long long)j->train.batch, j->train.micro_batches);
    for (int64_t i = 1; i < m->n; i++)
        if (m->first[i] - m->first[i - 1] <= TRM_FEED_DEPTH)
            return trm_fail(TRM_DATA,
                            "balance.from: %s moves at update %lld and at %lld: nearer than %d updates", from,
                            (long long)m->first[i - 1] + 1, (long long)m->first[i] + 1, TRM_FEED_DEPTH + 1);
    for (int64_t i = 0; i < m->n; i++) {
        int64_t sum = 0;
        for (int k = 0; k < m->ranks; k++) sum += m->counts[i * m->ranks + k];
        if (sum != trm_splits_total(r))
            return trm_fail(TRM_DATA,
                            "balance.from: the shares of %s at update %lld add up to %lld, not to the %lld "
                            "samples of a micro-batch",
                            from, (long long)m->first[i] + 1, (long long)sum, (long long)trm_splits_total(r));
    }
    return TRM_OK;
}

static trm_status read_replay(trm_run *r) {
    trm_moves *m = &r->balance.replay;
    const trm_engine *e = &r->engine;
    trm_status status = TRM_OK;
    if (e->rank == 0) status = trm_moves_read(e->job->balance.from, m);
    if (status != TRM_OK) trm_prefix(status, "balance.from");
    if (e->rank == 0 && status == TRM_OK) status = check_replay(r, m);
    TRM_TRY(trm_root_says(e->comm, status));
    TRM_TRY(trm_moves_spread(e->comm, m));
    while (r->balance.next < m->n && m->first[r->balance.next] <= r->pos.update) r->balance.next++;
    return TRM_OK;
}

/* A run that goes on in its folder goes on with the shares that it had. */
static trm_status read_own(trm_run *r, const char *from, trm_moves *m) {
    char folder[TRM_RUN_PATH];
    const trm_engine *e = &r->engine;
    if (!from) return TRM_OK;
    snprintf(folder, sizeof folder, "%s", from);
    char *end = NULL;
    for (char *at = strstr(folder, "/checkpoints"); at; at = strstr(at + 1, "/checkpoints")) end = at;
    if (end) *end = '\0';
    if (e->rank == 0 && trm_moves_read(folder, m) == TRM_OK &&
        (m->ranks != e->ranks || m->batch != e->job->train.batch ||
         m->micro_batches != e->job->train.micro_batches))
        trm_moves_free(m);
    return trm_moves_spread(e->comm, m);
}

static trm_status probe(trm_run *r, double *weights, bool *known) {
    trm_engine *e = &r->engine;
    const trm_job *j = e->job;
    bool wanted = j->balance.mode == TRM_BALANCE_STATIC && j->balance.n_weights < 0, alike = true;
    *known = false;
    if (e->ranks == 1) return TRM_OK;
    if (j->balance.mode == TRM_BALANCE_HYBRID) {
        TRM_TRY(trm_probe_alike(e, &alike));
        wanted = !alike;
    }
    if (!wanted) return TRM_OK;
    TRM_TRY(trm_probe_speeds(e, trm_splits_total(r), weights));
    *known = true;
    return TRM_OK;
}

static void say_probe(const trm_run *r) {
    trm_str line = {0};
    const int64_t *counts = trm_splits_now(r)->counts;
    for (int i = 0; i < r->engine.ranks && i < 32; i++)
        trm_str_add(&line, i ? ":%lld" : "%lld", (long long)counts[i]);
    trm_run_say(&r->engine, "balance: probed; samples of the ranks %s%s", trm_str_get(&line),
                r->engine.ranks > 32 ? ":..." : "");
    trm_str_free(&line);
}

static void to_weights(const int64_t *counts, int n, double *weights) {
    for (int i = 0; i < n; i++) weights[i] = (double)counts[i];
}

/* Where first shares come from: records, the job file, a probe; else they are equal. */
static trm_status first_shares(trm_run *r, const char *from, double *weights, bool *known, bool *probed) {
    const trm_job *j = r->engine.job;
    int n = r->engine.ranks;
    trm_moves own = {0};
    if (j->balance.mode == TRM_BALANCE_REPLAY) {
        TRM_TRY(read_replay(r));
        const int64_t *at = trm_moves_at(&r->balance.replay, r->pos.update);
        *known = at != NULL;
        if (at) to_weights(at, n, weights);
        return TRM_OK;
    }
    if (j->balance.mode == TRM_BALANCE_STATIC && j->balance.n_weights > 0) {
        for (int i = 0; i < n; i++) weights[i] = j->balance.weights[i];
        *known = true;
        return TRM_OK;
    }
    if (follows(r)) {
        TRM_TRY(read_own(r, from, &own));
        const int64_t *at = trm_moves_at(&own, r->pos.update);
        *known = at != NULL;
        if (at) to_weights(at, n, weights);
        trm_moves_free(&own);
    }
    if (*known) return TRM_OK;
    TRM_TRY(probe(r, weights, known));
    *probed = *known;
    return TRM_OK;
}

static trm_status alloc_open(trm_run *r, double **weights) {
    size_t n = (size_t)r->engine.ranks;
    *weights = trm_alloc_array(n, sizeof **weights, "shares");
    r->balance.word = trm_alloc_array(n + 1, sizeof *r->balance.word, "shares");
    r->caps = trm_alloc_array(n, sizeof *r->caps, "shares");
    return *weights && r->balance.word && r->caps ? TRM_OK : TRM_MEMORY;
}

static trm_status open_all(trm_run *r, const char *from, double *weights) {
    trm_rebalance *b = &r->balance;
    bool known = false, probed = false;
    TRM_TRY(first_shares(r, from, weights, &known, &probed));
    double begun = trm_now();
    TRM_TRY(trm_comm_agree(r->engine.comm, trm_splits_open(r, known ? weights : NULL)));
    b->cost = trm_now() - begun;
    TRM_TRY(find_caps(r));
    b->measures = follows(r);
    if (b->measures) TRM_TRY(trm_comm_agree(r->engine.comm, open_policy(r)));
    if (probed) say_probe(r);
    /* The record may move before the first boundary. */
    return r->pos.update < r->total ? replayed(r) : TRM_OK;
}

trm_status trm_rebalance_open(trm_run *r, const char *from) {
    double *weights = NULL;
    trm_status status = trm_comm_agree(r->engine.comm, alloc_open(r, &weights));
    if (status == TRM_OK) status = open_all(r, from, weights);
    trm_free(weights);
    return status;
}

void trm_rebalance_close(trm_rebalance *b) {
    trm_policy_free(b->policy);
    trm_window_free(&b->window);
    trm_moves_free(&b->replay);
    trm_free(b->measure);
    trm_free(b->noise);
    trm_free(b->word);
}

/* ---- measure ---- */

void trm_rebalance_note(trm_run *r, const trm_note *all) {
    trm_rebalance *b = &r->balance;
    if (!b->policy) return;
    for (int i = 0; i < r->engine.ranks; i++)
        b->measure[i] = (trm_measure){all[i].compute_s, all[i].fixed_s, all[i].cpu_s, all[i].delay_s};
    trm_window_add(&b->window, b->wall[all[0].update % TRM_UNDER_WAY], b->measure);
}

/* ---- decide: rank 0 ---- */

static void record_ranks(trm_run *r, const trm_decision *d) {
    trm_record *m = &r->record;
    trm_record_open(m, "ranks", '[');
    for (int i = 0; i < r->engine.ranks; i++) {
        trm_record_open(m, NULL, '{');
        trm_record_num(m, "compute_s", r->balance.measure[i].compute);
        trm_record_num(m, "cpu_s", r->balance.measure[i].cpu);
        trm_record_num(m, "delay_s", r->balance.measure[i].delay);
        trm_record_num(m, "noise", r->balance.noise[i]);
        trm_record_num(m, "fixed_s", d->speed[i].fixed);
        trm_record_num(m, "each_s", d->speed[i].each);
        trm_record_close(m, '}');
    }
    trm_record_close(m, ']');
}

/* had: the shares that were measured. */
static void record(trm_run *r, const trm_policy_seen *seen, const trm_decision *d, const int64_t *had,
                   int64_t first, const char *words) {
    trm_record *m = &r->record;
    bool moved = trm_verdict_moves(d->verdict) && !r->engine.job->balance.dry_run;
    trm_record_begin(m, "balance");
    trm_record_int(m, "update", r->pos.update);
    trm_record_int(m, "epoch", r->epoch);
    trm_record_int(m, "updates", seen->updates);
    trm_record_num(m, "step_s", seen->step);
    record_shares(m, "had", had, r->engine.ranks);
    record_ranks(r, d);
    trm_record_num(m, "now_s", d->now);
    trm_record_num(m, "best_s", d->best);
    trm_record_num(m, "gain", d->gain);
    trm_record_num(m, "cost_s", seen->cost);
    trm_record_int(m, "left", seen->left);
    trm_record_num(m, "forecast_error", d->error);
    if (isfinite(d->brought)) {
        trm_record_num(m, "last_promised", d->promised);
        trm_record_num(m, "last_brought", d->brought);
    }
    trm_record_str(m, "verdict", trm_verdict_word(d->verdict));
    trm_record_bool(m, "moved", moved);
    if (moved) {
        trm_record_int(m, "first_update", first + 1);
        record_shares(m, "shares", d->counts, r->engine.ranks);
    }
    trm_record_str(m, "words", words);
    trm_folder_metric(&r->folder, m);
}

static void tell(trm_run *r, const trm_decision *d, bool ends, const char *words) {
    bool dry = r->engine.job->balance.dry_run;
    if (!dry && !trm_verdict_moves(d->verdict)) return;
    trm_run_say(&r->engine, "%s %lld: %s%s", ends ? "epoch" : "update",
                (long long)(ends ? r->epoch : r->pos.update), dry ? "balance (dry run): " : "", words);
}

/* Fills the word to all: whether shares change, and to what. */
static trm_status decide(trm_run *r, bool ends, int64_t first) {
    trm_rebalance *b = &r->balance;
    const trm_split *now = trm_splits_now(r);
    bool dry = r->engine.job->balance.dry_run;
    trm_decision d;
    trm_str words = {0};
    b->word[0] = 0;
    if (!trm_window_is_full(&b->window)) return TRM_OK;
    for (int i = 0; i < r->engine.ranks; i++) b->measure[i] = trm_window_rank(&b->window, i, &b->noise[i]);
    trm_policy_seen seen = {.step = trm_window_step(&b->window),
                            .rank = b->measure,
                            .noise = b->noise,
                            .updates = b->window.updates,
                            .left = r->total - first,
                            .cost = b->cost};
    TRM_TRY(trm_policy_decide(b->policy, &seen, &d));
    const char *host = d.rank >= 0 ? trm_comm_host(r->engine.comm, d.rank) : NULL;
    d.dry = dry;
    trm_decision_words(&d, host, "sample", &words);
    tell(r, &d, ends, trm_str_get(&words));
    record(r, &seen, &d, now->counts, first, trm_str_get(&words));
    trm_str_free(&words);
    bool moves = trm_verdict_moves(d.verdict);
    if (moves && dry) trm_policy_keep(b->policy);
    b->word[0] = moves && !dry;
    for (int i = 0; b->word[0] && i < r->engine.ranks; i++) b->word[1 + i] = d.counts[i];
    /* Updates up to `first` still have the old shares. */
    trm_window_reset(&b->window, WARM_UP + (b->word[0] ? first - r->pos.update + 1 : 0));
    return TRM_OK;
}

static bool is_due(const trm_run *r, bool ends) {
    trm_every every = r->engine.job->balance.every;
    if (every.unit == TRM_UNIT_UPDATES) return r->pos.update % every.n == 0;
    return ends && r->pos.epoch % every.n == 0;
}

static trm_status measured(trm_run *r, bool ends) {
    trm_rebalance *b = &r->balance;
    int64_t first = r->pos.update + TRM_FEED_DEPTH + 1;
    if (trm_splits_pending(r) || !is_due(r, ends) || first >= r->total) return TRM_OK;
    TRM_TRY(trm_root_says(r->engine.comm, r->engine.rank == 0 ? decide(r, ends, first) : TRM_OK));
    TRM_TRY(trm_comm_bcast(r->engine.comm, b->word, (size_t)(1 + r->engine.ranks) * sizeof *b->word, 0));
    return b->word[0] ? change(r, first, b->word + 1) : TRM_OK;
}

trm_status trm_rebalance_boundary(trm_run *r, bool ends) {
    bool reached = trm_splits_reach(r);
    if (reached && r->balance.replay.n > 0) record_replay(r);
    if (r->balance.measures) return measured(r, ends);
    return r->balance.replay.n > 0 ? replayed(r) : TRM_OK;
}
