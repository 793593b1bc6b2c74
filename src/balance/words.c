/* words: a decision as one sentence. */
#include <math.h>
#include <trireme/balance.h>

static double percent(double share) { return isfinite(share) ? 100 * share : 0; }

static void who(const trm_decision *d, const char *host, trm_str *out) {
    trm_str_add(out, "rank %d", d->rank);
    if (host) trm_str_add(out, " (%s)", host);
}

static void amount(int64_t n, const char *unit, trm_str *out) {
    trm_str_add(out, "%lld %s%s", (long long)n, unit, n == 1 ? "" : "s");
}

/* "is 1.31x slower", with the sign "×"; of a rank that gets work back, how it is now. */
static void pace(const trm_decision *d, trm_str *out) {
    const char *now = d->gives_back ? " now" : "";
    if (!isfinite(d->slower))
        trm_str_add(out, "is the slowest");
    else if (d->slower >= 1)
        trm_str_add(out, "is %s%.2f\303\227 slower%s", d->gives_back ? "only " : "", d->slower, now);
    else
        trm_str_add(out, "is %.2f\303\227 faster%s", 1 / d->slower, now);
}

static const char *goes(const trm_decision *d, bool done) {
    if (!d->gives_back) return done ? " moved" : " move";
    return done && d->moved == 1 ? " goes back to it" : " go back to it";
}

/* What a move would do, or did. */
static void shift(const trm_decision *d, const char *host, const char *unit, bool done, trm_str *out) {
    who(d, host, out);
    trm_str_add(out, " ");
    pace(d, out);
    trm_str_add(out, "; ");
    amount(d->moved, unit, out);
    trm_str_add(out, "%s%s", done ? "" : " would", goes(d, done));
    trm_str_add(out, ", %s %.0f %%", done ? "saves" : "saving", percent(d->gain));
    if (done && !d->gives_back && d->counts[d->rank] == 0) trm_str_add(out, "; it is idle now");
}

void trm_decision_words(const trm_decision *d, const char *host, const char *unit, trm_str *out) {
    switch (d->verdict) {
    case TRM_VERDICT_STAY: trm_str_add(out, "the shares fit the speeds"); return;
    case TRM_VERDICT_MOVE: shift(d, host, unit, !d->dry, out); return;
    case TRM_VERDICT_ROLLBACK:
        trm_str_add(out, "the last move promised %.0f %% and brought %.0f %%: %sundone", percent(d->promised),
                    percent(d->brought), d->dry ? "it would be " : "");
        return;
    case TRM_VERDICT_REPROBE:
        who(d, host, out);
        trm_str_add(out, " is idle; it %s one %s, to be measured again", d->dry ? "would get" : "gets", unit);
        return;
    case TRM_VERDICT_SMALL:
    case TRM_VERDICT_SHORT:
    case TRM_VERDICT_CONFIRM:
    case TRM_VERDICT_COOLDOWN: break;
    }
    shift(d, host, unit, false, out);
    static const char *const why[] = {[TRM_VERDICT_SMALL] = "too little to move",
                                      [TRM_VERDICT_SHORT] = "less than a move costs in the time left",
                                      [TRM_VERDICT_CONFIRM] = "if the next windows say so too",
                                      [TRM_VERDICT_COOLDOWN] = "too soon behind the last move"};
    trm_str_add(out, ": %s",
                d->dry && d->verdict == TRM_VERDICT_COOLDOWN ? "too soon behind the last such line"
                                                             : why[d->verdict]);
}
