/* policy: judges a window of measured times and decides whether shares move.
 *
 * Shed fast, restore slowly: not to react to a rank that became s times slower costs far more than not to
 * return to one that recovered.  What a move promised is looked at one window later; a move that did not
 * bring half of it is undone. */
#include <math.h>
#include <string.h>
#include <trireme/balance.h>

#define POINTS 4          /* (units, seconds) that a rank's line is fitted through */
#define HORIZON_WINDOWS 4 /* a speed is believed to last so many windows */
#define COST_MARGIN 1.5   /* a move must gain so many times its cost within the horizon */
#define FLASH_WINDOWS 2   /* who is fast again within so many windows was slow for a moment only */
#define MOST_PATIENCE 2
#define SEVERE 0.4        /* a gain of so much is not waited for */
#define LEAST_JUDGED 0.05 /* a move that promised less is not undone */
#define NOISES 3          /* what a window may lie beside the truth, in its own noise */
#define CALM_WINDOWS 8    /* after so many windows without a rollback the threshold is what it was */
#define SPREAD 1.5        /* shares that a line is fitted through differ by so much */
#define MOST_FIXED 0.5    /* a fitted line that says more of a rank's time is fixed is not believed */

typedef struct rank_state {
    trm_series each;                       /* seconds per unit */
    double units[POINTS], seconds[POINTS]; /* newest last, of the present speed */
    int points;
    double fixed;           /* as measured */
    bool gave, gave_before; /* its last change of share was a loss; before the last decision */
    int idle;               /* windows without a unit */
} rank_state;

struct trm_policy {
    trm_policy_spec spec;
    int64_t *cap, *now, *before, *best; /* before: the shares that the last move left */
    int64_t *even;                      /* equal shares */
    trm_speed *speed;
    rank_state *rank;
    double threshold;     /* doubles with each rollback */
    int calm, since_move; /* windows since the last rollback, the last move */
    int votes;            /* windows in a row that would give work back */
    int shed_votes;       /* windows in a row that would take work from a slow rank */
    int patience;         /* so many of those it takes; rises when a rank was fast again at once */
    int since_shed;       /* windows since work was last taken from a slow rank */
    bool judge;           /* the next window shows what the last move brought */
    double promised, span_before, rest_before;
    double forecast; /* of the slowest rank's compute in the next window */
    bool changed;    /* a rank's speed changed in this window */
    bool worse;      /* the slowest rank took far longer than the last forecast: some rank became slow */
};

const char *trm_verdict_word(trm_verdict v) {
    static const char *const words[] = {
#define X(name, word) word,
        TRM_VERDICT_LIST(X)
#undef X
    };
    return words[v];
}

bool trm_verdict_moves(trm_verdict v) {
    return v == TRM_VERDICT_MOVE || v == TRM_VERDICT_ROLLBACK || v == TRM_VERDICT_REPROBE;
}

/* ---- open ------------------------------------------------------------------------------- */

static trm_status check_spec(const trm_policy_spec *s, const int64_t *counts) {
    int64_t sum = 0;
    if (s->ranks < 1 || s->total < 0 || !(s->threshold >= 0) || s->cooldown < 0 || s->reprobe < 0)
        return trm_fail(TRM_INTERNAL, "a policy for %d ranks and %lld units, threshold %g", s->ranks,
                        (long long)s->total, s->threshold);
    for (int r = 0; r < s->ranks; r++) sum += counts[r];
    if (sum == s->total) return TRM_OK;
    return trm_fail(TRM_INTERNAL, "a policy for %lld units starts with shares of %lld", (long long)s->total,
                    (long long)sum);
}

static trm_status alloc_policy(trm_policy *p) {
    size_t n = (size_t)p->spec.ranks;
    p->cap = p->spec.cap ? trm_alloc_array(n, sizeof *p->cap, "a policy") : NULL;
    p->now = trm_alloc_array(n, sizeof *p->now, "a policy");
    p->before = trm_alloc_array(n, sizeof *p->before, "a policy");
    p->best = trm_alloc_array(n, sizeof *p->best, "a policy");
    p->even = trm_alloc_array(n, sizeof *p->even, "a policy");
    p->speed = trm_alloc_array(n, sizeof *p->speed, "a policy");
    p->rank = trm_alloc_array(n, sizeof *p->rank, "a policy");
    if ((p->spec.cap && !p->cap) || !p->now || !p->before || !p->best || !p->even || !p->speed || !p->rank)
        return TRM_MEMORY;
    return TRM_OK;
}

trm_status trm_policy_open(const trm_policy_spec *spec, const int64_t *counts, trm_policy **out) {
    TRM_TRY(check_spec(spec, counts));
    trm_policy *p = trm_alloc(sizeof *p, "a policy");
    if (!p) return TRM_MEMORY;
    p->spec = *spec;
    if (alloc_policy(p) != TRM_OK) {
        trm_policy_free(p);
        return TRM_MEMORY;
    }
    for (int r = 0; r < spec->ranks; r++) {
        if (p->cap) p->cap[r] = spec->cap[r];
        p->now[r] = p->before[r] = counts[r];
        p->even[r] = trm_cut(spec->total, spec->ranks, r + 1) - trm_cut(spec->total, spec->ranks, r);
        p->speed[r].each = INFINITY;
    }
    p->spec.cap = p->cap;
    p->threshold = spec->threshold;
    p->since_move = spec->cooldown;
    p->since_shed = CALM_WINDOWS;
    p->patience = 1;
    p->forecast = NAN;
    *out = p;
    return TRM_OK;
}

void trm_policy_free(trm_policy *p) {
    if (!p) return;
    trm_free(p->cap);
    trm_free(p->now);
    trm_free(p->before);
    trm_free(p->best);
    trm_free(p->even);
    trm_free(p->speed);
    trm_free(p->rank);
    trm_free(p);
}

/* ---- learn ------------------------------------------------------------------------------ */

static void add_point(rank_state *s, double units, double seconds) {
    if (s->each.changed) s->points = 0;
    if (s->points == POINTS) {
        memmove(s->units, s->units + 1, (POINTS - 1) * sizeof *s->units);
        memmove(s->seconds, s->seconds + 1, (POINTS - 1) * sizeof *s->seconds);
        s->points--;
    }
    s->units[s->points] = units;
    s->seconds[s->points++] = seconds;
}

/* The fixed part of a rank's time: where its line runs through, once it was seen with shares that differ enough;
 * until then what its program says of itself. */
static double fixed_part(const rank_state *s) {
    double n = s->points, x = 0, y = 0, xx = 0, xy = 0, low = INFINITY, high = 0;
    for (int i = 0; i < s->points; i++) {
        x += s->units[i] / n;
        y += s->seconds[i] / n;
        low = fmin(low, s->units[i]);
        high = fmax(high, s->units[i]);
    }
    for (int i = 0; i < s->points; i++) {
        xx += (s->units[i] - x) * (s->units[i] - x);
        xy += (s->units[i] - x) * (s->seconds[i] - y);
    }
    if (s->points < 2 || high < SPREAD * low || xy <= 0) return s->fixed;
    double fixed = y - xy / xx * x;
    return fixed >= s->fixed && fixed <= MOST_FIXED * y ? fixed : s->fixed;
}

static void learn_rank(trm_policy *p, int r, const trm_measure *m) {
    rank_state *s = &p->rank[r];
    s->fixed = fmin(fmax(m->fixed, 0), m->compute);
    if (p->now[r] == 0) {
        s->idle++;
        s->each.changed = false;
        p->speed[r].fixed = m->compute;
        return;
    }
    double units = (double)p->now[r], fixed = fmin(fixed_part(s), 0.9 * m->compute);
    s->idle = 0;
    trm_series_add(&s->each, p->spec.predictor, fmax((m->compute - fixed) / units, 1e-12));
    add_point(s, units, m->compute);
    p->speed[r] = (trm_speed){fixed, trm_series_forecast(&s->each, p->spec.predictor)};
    p->changed = p->changed || s->each.changed;
}

static void learn(trm_policy *p, const trm_policy_seen *seen) {
    p->changed = false;
    for (int r = 0; r < p->spec.ranks; r++) learn_rank(p, r, &seen->rank[r]);
    p->since_move++;
    /* What stays slow was worth a move: the next one need not be thought over as long. */
    if (++p->since_shed == CALM_WINDOWS && p->patience > 1) p->patience--;
    if (++p->calm >= CALM_WINDOWS || p->changed) p->threshold = p->spec.threshold;
}

static double slowest(const trm_policy *p, const trm_policy_seen *seen) {
    double most = 0;
    for (int r = 0; r < p->spec.ranks; r++) most = fmax(most, seen->rank[r].compute);
    return most;
}

/* ---- weigh ------------------------------------------------------------------------------ */

static int64_t count_moved(const trm_policy *p, const int64_t *from, const int64_t *to) {
    int64_t moved = 0;
    for (int r = 0; r < p->spec.ranks; r++) moved += trm_max64(to[r] - from[r], 0);
    return moved;
}

/* The rank that loses the most, or, `gain`, gets the most. */
static int most_moved(const trm_policy *p, const int64_t *from, const int64_t *to, bool gain) {
    int best = -1;
    int64_t most = 0;
    for (int r = 0; r < p->spec.ranks; r++) {
        int64_t d = gain ? to[r] - from[r] : from[r] - to[r];
        if (d <= most) continue;
        most = d;
        best = r;
    }
    return best;
}

/* Would work go back to a rank that gave it away? */
static bool gives_back(const trm_policy *p) {
    int r = most_moved(p, p->now, p->best, true);
    return r >= 0 && p->rank[r].gave;
}

static double noise_of(const trm_policy *p, const trm_policy_seen *seen) {
    double most = 0;
    for (int r = 0; seen->noise && r < p->spec.ranks; r++)
        if (p->now[r] > 0) most = fmax(most, seen->noise[r]);
    return most;
}

static bool pays(const trm_policy_seen *seen, double saved) {
    double horizon = (double)trm_min64(seen->left, seen->updates * HORIZON_WINDOWS);
    return saved * horizon >= COST_MARGIN * seen->cost;
}

/* Beyond what noise explains.  A smaller promise drowns in what one window differs from the next. */
static bool failed(const trm_policy *p, const trm_policy_seen *seen, const trm_decision *d) {
    return p->judge && !p->changed && d->promised >= LEAST_JUDGED &&
           d->brought + NOISES * noise_of(p, seen) < d->promised / 2;
}

/* Noise raises the threshold, but not beyond twice: a move that was none of a gain is undone. */
static double gate(const trm_policy *p, const trm_policy_seen *seen) {
    return fmin(fmax(p->threshold, noise_of(p, seen)), 2 * p->threshold);
}

/* One window tells a rank's speed to a few percent only.  Ranks that are alike within the threshold get equal shares, which
 * no error of measuring can skew, where that is worth a move. */
static void prefer_even(trm_policy *p, const trm_policy_seen *seen, double rest) {
    for (int r = 0; p->cap && r < p->spec.ranks; r++)
        if (p->even[r] > p->cap[r]) return;
    double now = trm_balance_makespan(p->spec.ranks, p->speed, p->now), least = gate(p, seen) * (now + rest);
    double even = trm_balance_makespan(p->spec.ranks, p->speed, p->even);
    double best = trm_balance_makespan(p->spec.ranks, p->speed, p->best);
    if (even - best < least && now - even >= least)
        memcpy(p->best, p->even, (size_t)p->spec.ranks * sizeof *p->best);
}

/* A rank from which work was just taken is fast again: it had been slow for a moment only. */
static bool was_a_flash(const trm_policy *p, const trm_decision *d) {
    return d->gives_back && p->changed && p->since_shed <= FLASH_WINDOWS;
}

static int votes_needed(const trm_policy *p, const trm_decision *d) {
    if (!d->gives_back) return d->gain >= SEVERE || p->spec.cooldown == 0 ? 1 : p->patience;
    return p->worse || was_a_flash(p, d) ? 1 : 1 + p->spec.cooldown;
}

static void vote(trm_policy *p, const trm_decision *d, bool worth) {
    p->votes = d->gives_back ? p->votes + 1 : 0;
    p->shed_votes = worth && !d->gives_back ? p->shed_votes + 1 : 0;
}

/* A rank that became slow is relieved at once, and a flash undone at once, whatever came before. */
static trm_verdict weigh(trm_policy *p, const trm_policy_seen *seen, const trm_decision *d) {
    bool worth = d->moved > 0 && d->gain >= gate(p, seen), urgent = p->worse || was_a_flash(p, d);
    vote(p, d, worth);
    if (failed(p, seen, d)) return TRM_VERDICT_ROLLBACK;
    if (d->moved == 0) return TRM_VERDICT_STAY;
    if (p->since_move <= p->spec.cooldown && !urgent) return TRM_VERDICT_COOLDOWN;
    if (!worth) return TRM_VERDICT_SMALL;
    if (!pays(seen, d->now - d->best)) return TRM_VERDICT_SHORT;
    int votes = d->gives_back ? p->votes : p->shed_votes;
    return votes < votes_needed(p, d) ? TRM_VERDICT_CONFIRM : TRM_VERDICT_MOVE;
}

/* ---- act -------------------------------------------------------------------------------- */

/* back: who loses units now only had them in keeping, and gave away nothing of its own. */
static void take(trm_policy *p, const int64_t *counts, bool back) {
    size_t bytes = (size_t)p->spec.ranks * sizeof *counts;
    for (int r = 0; r < p->spec.ranks; r++) {
        p->rank[r].gave_before = p->rank[r].gave;
        if (counts[r] > p->now[r]) p->rank[r].gave = false;
        if (counts[r] < p->now[r] && !back) p->rank[r].gave = true;
    }
    memcpy(p->before, p->now, bytes);
    memcpy(p->now, counts, bytes);
    p->since_move = 0;
    p->votes = 0;
}

/* An idle rank whose turn has come gets one unit of the rank that has the most: only so can it show that it
 * is fast again. */
static bool reprobe(trm_policy *p) {
    int idle = -1, rich = 0;
    if (p->spec.reprobe == 0) return false;
    for (int r = 0; r < p->spec.ranks; r++) {
        if (p->now[r] > p->now[rich]) rich = r;
        if (idle < 0 && p->now[r] == 0 && p->rank[r].idle >= p->spec.reprobe && (!p->cap || p->cap[r] > 0))
            idle = r;
    }
    if (idle < 0 || p->now[rich] < 2) return false;
    memcpy(p->best, p->now, (size_t)p->spec.ranks * sizeof *p->best);
    p->best[rich]--;
    p->best[idle]++;
    p->rank[idle].each.n = p->rank[idle].points = 0; /* what it was is no news */
    return true;
}

/* What a move teaches about the next one. */
static void remember(trm_policy *p, const trm_decision *d) {
    if (d->verdict != TRM_VERDICT_MOVE) return;
    if (was_a_flash(p, d)) {
        if (p->since_shed == 1 && p->patience < MOST_PATIENCE) p->patience++;
        p->since_shed = CALM_WINDOWS; /* what was undone proves nothing later */
    }
    if (!d->gives_back) p->since_shed = 0;
    p->shed_votes = 0;
}

static void act(trm_policy *p, trm_decision *d, double span, double rest) {
    remember(p, d);
    p->judge = d->verdict == TRM_VERDICT_MOVE;
    if (p->judge) {
        p->promised = d->gain;
        p->span_before = span;
        p->rest_before = rest;
    }
    if (d->verdict == TRM_VERDICT_ROLLBACK) {
        p->threshold = fmax(2 * p->threshold, 0.01);
        p->calm = 0;
        memcpy(p->best, p->before, (size_t)p->spec.ranks * sizeof *p->best);
    }
    if (trm_verdict_moves(d->verdict)) take(p, p->best, d->gives_back && d->verdict == TRM_VERDICT_MOVE);
    if (d->verdict == TRM_VERDICT_REPROBE) {
        p->since_move = p->spec.cooldown; /* what it shows may be acted on at once */
        for (int r = 0; r < p->spec.ranks; r++) p->rank[r].gave = p->rank[r].gave_before && p->before[r] > 0;
    }
}

/* Seconds for a unit at the mean speed of the other ranks. */
static double each_of_others(const trm_policy *p, int but) {
    double speed = 0;
    int n = 0;
    for (int r = 0; r < p->spec.ranks; r++) {
        if (r == but || !isfinite(p->speed[r].each)) continue;
        speed += 1 / p->speed[r].each;
        n++;
    }
    return n ? n / speed : NAN;
}

/* Who the decision is about. */
static void name_ranks(const trm_policy *p, const int64_t *from, const int64_t *to, trm_decision *d) {
    int gains = most_moved(p, from, to, true), loses = most_moved(p, from, to, false);
    d->moved = count_moved(p, from, to);
    d->rank = d->gives_back || d->verdict == TRM_VERDICT_REPROBE ? gains : loses;
    d->slower = d->rank >= 0 ? p->speed[d->rank].each / each_of_others(p, d->rank) : NAN;
}

/* What the last move brought: against the window before it, or against the old shares at present speeds, for it is not
 * to blame for what became slow since. */
static double brought(const trm_policy *p, double span) {
    double old = trm_balance_makespan(p->spec.ranks, p->speed, p->before);
    return (fmax(p->span_before, isfinite(old) ? old : 0) - span) / (p->span_before + p->rest_before);
}

trm_status trm_policy_decide(trm_policy *p, const trm_policy_seen *seen, trm_decision *out) {
    double span = slowest(p, seen), rest = fmax(seen->step - span, 0);
    p->worse = span > 1.1 * p->forecast; /* never, where there is none */
    learn(p, seen);
    TRM_TRY(trm_balance_shares(p->spec.ranks, p->speed, p->cap, p->spec.total, p->now, p->best));
    prefer_even(p, seen, rest);
    *out = (trm_decision){.counts = p->now, .speed = p->speed, .promised = NAN, .brought = NAN};
    out->error = p->forecast / span - 1;
    out->now = trm_balance_makespan(p->spec.ranks, p->speed, p->now);
    out->best = trm_balance_makespan(p->spec.ranks, p->speed, p->best);
    out->gain = out->now + rest > 0 ? (out->now - out->best) / (out->now + rest) : 0;
    out->moved = count_moved(p, p->now, p->best);
    out->gives_back = gives_back(p);
    if (p->judge) {
        out->promised = p->promised;
        out->brought = brought(p, span);
    }
    out->verdict = weigh(p, seen, out);
    if (!trm_verdict_moves(out->verdict) && reprobe(p)) out->verdict = TRM_VERDICT_REPROBE;
    act(p, out, span, rest);
    bool moves = trm_verdict_moves(out->verdict);
    name_ranks(p, moves ? p->before : p->now, moves ? p->now : p->best, out);
    p->forecast = trm_balance_makespan(p->spec.ranks, p->speed, p->now);
    return TRM_OK;
}

void trm_policy_keep(trm_policy *p) {
    memcpy(p->now, p->before, (size_t)p->spec.ranks * sizeof *p->now);
    for (int r = 0; r < p->spec.ranks; r++) p->rank[r].gave = p->rank[r].gave_before;
    p->forecast = trm_balance_makespan(p->spec.ranks, p->speed, p->now);
    p->judge = false;
}
