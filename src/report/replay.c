/* replay: runs through a history with other shares.
 *
 * A policy is led as a run leads it: it sees what was measured since its last decision, and what it decides holds from
 * there on.  What an update takes with any shares follows from the speeds of its stretch. */
#include <math.h>
#include <string.h>

#include "report_impl.h"

typedef struct replay {
    const trm_history *h;
    const trm_replay_spec *spec;
    int64_t *counts, *next;
    trm_policy *policy;
    trm_window window;
    trm_measure *measure;
    double *noise;
    int64_t since;   /* stretches since the last decision */
    int64_t updates; /* of these */
    trm_replay *out;
} replay;

/* ---- what is done in a stretch ---- */

static double seconds_of(const replay *p, int64_t i, const int64_t *counts) {
    const trm_stretch *s = &p->h->stretch[i];
    double span = trm_balance_makespan(p->h->ranks, trm_speeds_at(p->h, i), counts);
    return (double)s->updates * (span + s->rest);
}

static int64_t moved(int ranks, const int64_t *from, const int64_t *to) {
    int64_t n = 0;
    for (int r = 0; r < ranks; r++) n += trm_max64(to[r] - from[r], 0);
    return n;
}

/* From shares to others; `cost`: seconds. */
static void change(const replay *p, trm_course *c, int64_t *from, const int64_t *to, double cost) {
    int64_t n = moved(p->h->ranks, from, to);
    if (n == 0) return;
    c->moves++;
    c->moved += n;
    c->seconds += cost;
    memcpy(from, to, (size_t)p->h->ranks * sizeof *from);
}

static void set_equal(const replay *p, int64_t *counts) {
    int ranks = p->h->ranks;
    for (int r = 0; r < ranks; r++)
        counts[r] = trm_cut(p->h->total, ranks, r + 1) - trm_cut(p->h->total, ranks, r);
}

/* ---- without a policy ---- */

static void as_it_was(replay *p) {
    const trm_history *h = p->h;
    if (!h->windows) return;
    memcpy(p->counts, h->had, (size_t)h->ranks * sizeof *p->counts);
    for (int64_t i = 0; i < h->n; i++) {
        if (i > 0) change(p, &p->out->was, p->counts, trm_had_at(h, i), h->stretch[i - 1].cost);
        p->out->was.seconds += seconds_of(p, i, p->counts);
    }
}

static void equal(replay *p) {
    set_equal(p, p->counts);
    for (int64_t i = 0; i < p->h->n; i++) p->out->equal.seconds += seconds_of(p, i, p->counts);
}

static trm_status oracle(replay *p) {
    const trm_history *h = p->h;
    trm_course *c = &p->out->oracle;
    set_equal(p, p->counts);
    for (int64_t i = 0; i < h->n; i++) {
        TRM_TRY(trm_balance_shares(h->ranks, trm_speeds_at(h, i), NULL, h->total, p->counts, p->next));
        if (i == 0) memcpy(p->counts, p->next, (size_t)h->ranks * sizeof *p->counts);
        change(p, c, p->counts, p->next, 0);
        c->seconds += seconds_of(p, i, p->counts);
    }
    return TRM_OK;
}

/* What is done with `rate` units a second, each rank from where its fixed part ends: those that begin before `end`. */
static double span_until(const trm_speed *speed, int ranks, double total, double end) {
    double rate = 0, lost = 0;
    for (int r = 0; r < ranks; r++) {
        if (speed[r].fixed >= end) continue;
        rate += 1 / speed[r].each;
        lost += speed[r].fixed / speed[r].each;
    }
    return rate > 0 ? (total + lost) / rate : end;
}

/* The time by which all ranks together, each without a break, have done `total`.  Ranks that begin later than all is
 * done do not help: each round leaves some out, or is the last one. */
static double least_span(const trm_speed *speed, int ranks, double total) {
    double least = 0, span = INFINITY, before = 0;
    for (int r = 0; r < ranks; r++) least = fmax(least, speed[r].fixed);
    while (span != before) {
        before = span;
        span = fmin(span, span_until(speed, ranks, total, before));
    }
    return fmax(span, least);
}

static void ideal(replay *p) {
    const trm_history *h = p->h;
    for (int64_t i = 0; i < h->n; i++) {
        double span = least_span(trm_speeds_at(h, i), h->ranks, (double)h->total);
        p->out->ideal += (double)h->stretch[i].updates * (span + h->stretch[i].rest);
    }
}

/* ---- what a policy sees ---- */

static double measure_stretch(replay *p, int64_t i) {
    const trm_speed *speed = trm_speeds_at(p->h, i);
    double slowest = 0;
    for (int r = 0; r < p->h->ranks; r++) {
        double compute = speed[r].fixed + speed[r].each * (double)p->counts[r];
        p->measure[r] = (trm_measure){.compute = compute, .fixed = speed[r].fixed, .cpu = compute};
        slowest = fmax(slowest, compute);
    }
    return slowest + p->h->stretch[i].rest;
}

/* One window of the run is seen as it was measured then. */
static double see_window(replay *p, int64_t i) {
    memcpy(p->noise, trm_noise_at(p->h, i), (size_t)p->h->ranks * sizeof *p->noise);
    return measure_stretch(p, i);
}

/* Several stretches become one window, each a block of it: the unit of a trace's times is not known, and that of a
 * window's is an update, so they are stretched until the shortest makes a block. */
static double see_many(replay *p, int64_t from, int64_t end) {
    double least = INFINITY;
    for (int64_t i = from; i < end; i++) least = fmin(least, measure_stretch(p, i));
    trm_window_reset(&p->window, 0);
    for (int64_t i = from; i < end; i++) {
        double step = measure_stretch(p, i);
        trm_window_add(&p->window, step / least * TRM_WINDOW_BLOCK, p->measure);
    }
    for (int r = 0; r < p->h->ranks; r++) p->measure[r] = trm_window_rank(&p->window, r, &p->noise[r]);
    return trm_window_step(&p->window) * least / TRM_WINDOW_BLOCK;
}

/* ---- with a policy ---- */

static trm_status decide(replay *p, int64_t i) {
    int64_t from = i + 1 - p->since;
    trm_decision d;
    double step = p->h->windows && p->since == 1 ? see_window(p, i) : see_many(p, from, i + 1);
    if (!p->h->windows && !trm_window_is_full(&p->window)) return TRM_OK;
    trm_policy_seen seen = {.step = step,
                            .rank = p->measure,
                            .noise = p->noise,
                            .updates = p->updates,
                            .left = p->h->stretch[i].left,
                            .cost = p->h->stretch[i].cost};
    TRM_TRY(trm_policy_decide(p->policy, &seen, &d));
    p->since = p->updates = 0;
    p->out->decisions++;
    if (p->spec->tell) p->spec->tell(p->spec->ctx, p->h->stretch[i].update, &d);
    if (trm_verdict_moves(d.verdict)) change(p, &p->out->policy, p->counts, d.counts, seen.cost);
    return TRM_OK;
}

/* Behind the last stretch nothing is left to decide on. */
static trm_status with_policy(replay *p) {
    const trm_history *h = p->h;
    for (int64_t i = 0; i < h->n; i++) {
        p->out->updates += h->stretch[i].updates;
        p->out->policy.seconds += seconds_of(p, i, p->counts);
        p->since++;
        p->updates += h->stretch[i].updates;
        if (!p->spec->off && (i + 1) % p->spec->every == 0 && i + 1 < h->n) TRM_TRY(decide(p, i));
    }
    return TRM_OK;
}

/* It begins as the run did. */
static trm_status open_policy(replay *p) {
    const trm_history *h = p->h;
    trm_policy_spec spec = {.ranks = h->ranks,
                            .total = h->total,
                            .threshold = p->spec->threshold,
                            .predictor = p->spec->predictor,
                            .cooldown = p->spec->cooldown,
                            .reprobe = p->spec->reprobe};
    if (h->windows)
        memcpy(p->counts, h->had, (size_t)h->ranks * sizeof *p->counts);
    else
        set_equal(p, p->counts);
    return trm_policy_open(&spec, p->counts, &p->policy);
}

/* ---- all of them ---- */

static trm_status alloc_replay(replay *p) {
    size_t n = (size_t)p->h->ranks;
    p->counts = trm_alloc_array(n, sizeof *p->counts, "a replay");
    p->next = trm_alloc_array(n, sizeof *p->next, "a replay");
    p->measure = trm_alloc_array(n, sizeof *p->measure, "a replay");
    p->noise = trm_alloc_array(n, sizeof *p->noise, "a replay");
    if (!p->counts || !p->next || !p->measure || !p->noise) return TRM_MEMORY;
    return trm_window_open(p->h->ranks, &p->window);
}

static trm_status run_all(replay *p) {
    TRM_TRY(alloc_replay(p));
    as_it_was(p);
    equal(p);
    ideal(p);
    TRM_TRY(oracle(p));
    TRM_TRY(open_policy(p));
    return with_policy(p);
}

trm_status trm_replay_run(const trm_history *h, const trm_replay_spec *spec, trm_replay *out) {
    if (h->n < 1 || spec->every < 1)
        return trm_fail(TRM_INTERNAL, "a replay of %lld stretches, decisions every %lld", (long long)h->n,
                        (long long)spec->every);
    replay p = {.h = h, .spec = spec, .out = out};
    *out = (trm_replay){0};
    trm_status status = run_all(&p);
    trm_policy_free(p.policy);
    trm_window_free(&p.window);
    trm_free(p.counts);
    trm_free(p.next);
    trm_free(p.measure);
    trm_free(p.noise);
    return status;
}
