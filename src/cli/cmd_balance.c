/* balance: a run once more under another policy, reckoned from its records. */
#include <math.h>
#include <string.h>
#include <trireme/report.h>
#include <trireme/wire.h>

#include "cli.h"

#define EVERY_OF_TRACE 25

static const char *const policies[] = {"dynamic", "off", NULL};
static const char *const predictors[] = {"last", "ema", "median", "trend", NULL};

typedef struct settings {
    const char *trace, *threshold;
    int64_t units, every, cooldown, reprobe;
    int policy, predictor;
    bool decisions, json;
} settings;

static const settings defaults = {
    .threshold = "5%", .cooldown = 1, .reprobe = 4, .predictor = TRM_PREDICT_EMA};

/* What one replay is of, and what it makes. */
typedef struct show {
    const settings *set;
    const char *name; /* the run, or the file */
    trm_history history;
    trm_replay_spec spec;
    trm_replay out;
    trm_str lines; /* of decisions */
    trm_record json;
    bool broken;
} show;

/* ---- settings ---- */

/* "5%", "5 %" or 0.05. */
static trm_status read_share(const char *text, double *out) {
    char number[32];
    size_t n = strlen(text), digits = n > 0 && text[n - 1] == '%' ? n - 1 : n;
    bool percent = digits < n, read = false;
    if (percent && digits > 0 && text[digits - 1] == ' ') digits--;
    if (digits > 0 && digits < sizeof number) {
        memcpy(number, text, digits);
        number[digits] = '\0';
        read = trm_parse_double(number, out);
    }
    if (read && percent) *out /= 100;
    if (read && *out >= 0 && *out <= 1) return TRM_OK;
    return trm_fail(TRM_USAGE, "--threshold is '%.60s'; allowed are percent or numbers from 0 to 1", text);
}

static trm_status check_source(const settings *s, int args) {
    if (s->trace && args > 0)
        return trm_fail(TRM_USAGE, "a run and --trace are given; allowed is one of them");
    if (!s->trace && args == 0) {
        (void)trm_fail(TRM_USAGE, "'trireme balance' needs RUN, or --trace FILE");
        trm_hint("see trireme balance --help");
        return TRM_USAGE;
    }
    if (s->units > 0 && !s->trace)
        return trm_fail(TRM_USAGE, "--units is given without --trace; a run's records tell its units");
    return TRM_OK;
}

static trm_status read_history(show *w) {
    const settings *s = w->set;
    w->spec = (trm_replay_spec){.off = s->policy == 1,
                                .predictor = (trm_predictor)s->predictor,
                                .cooldown = (int)s->cooldown,
                                .reprobe = (int)s->reprobe,
                                .every = s->every   ? s->every
                                         : s->trace ? EVERY_OF_TRACE
                                                    : 1};
    TRM_TRY(read_share(s->threshold, &w->spec.threshold));
    return s->trace ? trm_history_trace(w->name, s->units, &w->history)
                    : trm_history_read(w->name, &w->history);
}

/* ---- words ---- */

static const char *unit_of(const show *w) { return w->set->trace ? "unit" : "sample"; }

/* What is not as it is by default: what the sentence is about. */
static void add_settings(const show *w, trm_str *t) {
    const settings *s = w->set;
    size_t before = t->len;
    if (w->spec.off) {
        trm_str_add(t, " --policy off");
        return;
    }
    if (strcmp(s->threshold, defaults.threshold) != 0) trm_str_add(t, " --threshold %s", s->threshold);
    if (s->predictor != defaults.predictor) trm_str_add(t, " --predictor %s", predictors[s->predictor]);
    if (s->cooldown != defaults.cooldown) trm_str_add(t, " --cooldown %lld", (long long)s->cooldown);
    if (s->reprobe != defaults.reprobe) trm_str_add(t, " --reprobe %lld", (long long)s->reprobe);
    if (s->every) trm_str_add(t, " --every %lld", (long long)s->every);
    if (t->len == before) trm_str_add(t, " the default policy");
}

/* What the policy is held against: what was, or equal shares where that is not known. */
static const trm_course *other(const show *w) { return w->set->trace ? &w->out.equal : &w->out.was; }
static double longer(const show *w) { return w->out.policy.seconds / other(w)->seconds - 1; }

static void add_sentence(const show *w, trm_str *t) {
    double percent = 100 * fabs(longer(w));
    trm_str_add(t, "with");
    add_settings(w, t);
    trm_str_add(t, w->set->trace ? " the trace takes " : " the run would have taken ");
    if (percent < 0.05)
        trm_str_add(t, "as long");
    else
        trm_str_add(t, percent < 9.95 ? "%.1f %% %s" : "%.0f %% %s", percent,
                    longer(w) > 0 ? "longer" : "less");
    trm_str_add(t, w->set->trace ? " %s with equal shares" : "%.0s", percent < 0.05 ? "as" : "than");
}

/* ---- as text ---- */

static void add_row(const show *w, const char *name, const trm_course *c, trm_str *t) {
    trm_str_add(t, "%-14s %12.6g %9.1f %% %8lld %14lld\n", name, c->seconds, 100 * w->out.ideal / c->seconds,
                (long long)c->moves, (long long)c->moved);
}

static void add_head(const show *w, trm_str *t) {
    const trm_history *h = &w->history;
    trm_str_add(t, "%s: %lld updates on %d ranks, %lld %ss; decisions every %lld %s\n", w->name,
                (long long)w->out.updates, h->ranks, (long long)h->total, unit_of(w),
                (long long)w->spec.every,
                w->set->trace        ? "steps"
                : w->spec.every == 1 ? "window"
                                     : "windows");
    if (h->left_out > 0)
        trm_str_add(t, "left out: %lld %s\n", (long long)h->left_out,
                    h->windows ? "of the windows, from before ranks or batch changed"
                               : "of the steps, not known of all workers");
}

static void add_text(const show *w, trm_str *t) {
    const trm_replay *o = &w->out;
    add_head(w, t);
    trm_str_add(t, "\n%-14s %12s %11s %8s %14s\n", "", w->set->trace ? "time" : "seconds", "of ideal",
                "moves", w->set->trace ? "units moved" : "samples moved");
    if (!w->set->trace) add_row(w, "as it was", &o->was, t);
    add_row(w, "equal shares", &o->equal, t);
    add_row(w, "this policy", &o->policy, t);
    add_row(w, "oracle", &o->oracle, t);
    trm_str_add(t, "%-14s %12.6g %9.1f %%\n\n", "ideal", o->ideal, 100.0);
    add_sentence(w, t);
    trm_str_add(t, "\n");
}

/* ---- as JSON ---- */

static void json_course(show *w, const char *name, const trm_course *c) {
    trm_record *m = &w->json;
    trm_record_open(m, name, '{');
    trm_record_num(m, "seconds", c->seconds);
    trm_record_num(m, "of_ideal", w->out.ideal / c->seconds);
    trm_record_int(m, "moves", c->moves);
    trm_record_int(m, "moved", c->moved);
    trm_record_close(m, '}');
}

static void json_head(show *w) {
    trm_record *m = &w->json;
    const settings *s = w->set;
    trm_record_str(m, s->trace ? "trace" : "run", w->name);
    trm_record_int(m, "ranks", w->history.ranks);
    trm_record_int(m, "units", w->history.total);
    trm_record_int(m, "left_out", w->history.left_out);
    trm_record_str(m, "policy", policies[s->policy]);
    trm_record_num(m, "threshold", w->spec.threshold);
    trm_record_str(m, "predictor", predictors[s->predictor]);
    trm_record_int(m, "cooldown", s->cooldown);
    trm_record_int(m, "reprobe", s->reprobe);
    trm_record_int(m, "every", w->spec.every);
}

/* Behind the decisions, which are written as they fall. */
static void json_results(show *w) {
    trm_record *m = &w->json;
    trm_str words = {0};
    add_sentence(w, &words);
    trm_record_int(m, "updates", w->out.updates);
    if (!w->set->trace) json_course(w, "was", &w->out.was);
    json_course(w, "equal", &w->out.equal);
    json_course(w, "replay", &w->out.policy);
    json_course(w, "oracle", &w->out.oracle);
    trm_record_num(m, "ideal_s", w->out.ideal);
    trm_record_num(m, "longer", longer(w));
    trm_record_str(m, "words", trm_str_get(&words));
    w->broken = w->broken || words.failed;
    trm_str_free(&words);
}

/* ---- decisions ---- */

static void json_decision(show *w, int64_t update, const trm_decision *d, const char *words) {
    trm_record *m = &w->json;
    trm_record_open(m, NULL, '{');
    trm_record_int(m, "update", update);
    trm_record_str(m, "verdict", trm_verdict_word(d->verdict));
    trm_record_num(m, "gain", d->gain);
    trm_record_open(m, "shares", '[');
    for (int r = 0; r < w->history.ranks; r++) trm_record_int(m, NULL, d->counts[r]);
    trm_record_close(m, ']');
    trm_record_str(m, "words", words);
    trm_record_close(m, '}');
}

static void tell(void *ctx, int64_t update, const trm_decision *d) {
    show *w = ctx;
    trm_str words = {0};
    trm_decision_words(d, NULL, unit_of(w), &words);
    if (w->set->json)
        json_decision(w, update, d, trm_str_get(&words));
    else
        trm_str_add(&w->lines, "update %lld: %s\n", (long long)update, trm_str_get(&words));
    w->broken = w->broken || words.failed;
    trm_str_free(&words);
}

/* ---- the verb ---- */

static trm_status replay(show *w) {
    const settings *s = w->set;
    if (s->decisions) w->spec.tell = tell, w->spec.ctx = w;
    if (!s->json) return trm_replay_run(&w->history, &w->spec, &w->out);
    trm_record_begin(&w->json, "replay");
    json_head(w);
    if (s->decisions) trm_record_open(&w->json, "decisions", '[');
    trm_status status = trm_replay_run(&w->history, &w->spec, &w->out);
    if (s->decisions) trm_record_close(&w->json, ']');
    if (status == TRM_OK) json_results(w);
    return status;
}

static trm_status print(show *w) {
    trm_str text = {0};
    if (w->set->json)
        trm_str_add(&text, "%s\n", trm_record_end(&w->json));
    else
        add_text(w, &text);
    bool good = !text.failed && !w->lines.failed && !w->json.text.failed && !w->broken;
    if (good && !w->set->json) ui_print(trm_str_get(&w->lines));
    if (good) ui_print(trm_str_get(&text));
    trm_str_free(&text);
    return good ? TRM_OK : TRM_MEMORY;
}

static trm_status run(const cli_call *call) {
    const settings *s = call->set;
    ui_begin(false);
    TRM_TRY(check_source(s, call->args));
    show w = {.set = s, .name = s->trace ? s->trace : call->arg[0]};
    trm_status status = read_history(&w);
    if (status == TRM_OK) status = replay(&w);
    if (status == TRM_OK) status = print(&w);
    trm_history_free(&w.history);
    trm_record_free(&w.json);
    trm_str_free(&w.lines);
    return status;
}

static const cli_option options[] = {
    {.name = "policy",
     .kind = CLI_CHOICE,
     .at = offsetof(settings, policy),
     .about = "shares follow measured speed, or stay as they were first (dynamic)",
     .choices = policies},
    {.name = "threshold",
     .kind = CLI_TEXT,
     .at = offsetof(settings, threshold),
     .value = "SHARE",
     .about = "least gain for which work moves, of the time of an update (5%)"},
    {.name = "predictor",
     .kind = CLI_CHOICE,
     .at = offsetof(settings, predictor),
     .about = "how the next speed follows from the last ones (ema)",
     .choices = predictors},
    {.name = "cooldown",
     .kind = CLI_INT,
     .at = offsetof(settings, cooldown),
     .value = "N",
     .about = "decisions behind a move in which no other is made (1)",
     .max = 1000},
    {.name = "reprobe",
     .kind = CLI_INT,
     .at = offsetof(settings, reprobe),
     .value = "N",
     .about = "decisions until an idle rank gets one unit, to be measured; 0: never (4)",
     .max = 1000000000},
    {.name = "every",
     .kind = CLI_INT,
     .at = offsetof(settings, every),
     .value = "N",
     .about = "windows of the run, or steps of the trace, between decisions (1, 25)",
     .min = 1,
     .max = 1000000000},
    {.name = "decisions",
     .kind = CLI_FLAG,
     .at = offsetof(settings, decisions),
     .about = "prints a line for each decision"},
    {.name = "json", .kind = CLI_FLAG, .at = offsetof(settings, json), .about = "prints one JSON object"},
    {.name = "trace",
     .kind = CLI_TEXT,
     .at = offsetof(settings, trace),
     .value = "FILE",
     .about = "replays a CSV file of times instead of a run"},
    {.name = "units",
     .kind = CLI_INT,
     .at = offsetof(settings, units),
     .value = "N",
     .about = "units of work that the ranks of a trace share (64 for each rank)",
     .min = 1,
     .max = 1000000000000},
    {NULL},
};

const cli_verb cli_balance = {
    .name = "balance",
    .args = "[RUN]",
    .about = "what a run would have taken under another policy of balancing, from its records",
    .more =
        "RUN is the folder of a run, finished or not, whose balance.mode is dynamic or hybrid. Only the "
        "updates\n"
        "that it measured count. Lines of the table:\n"
        "  as it was       the shares that the run had\n"
        "  equal shares    equal ones that never move\n"
        "  this policy     as the options say; a decision knows only what lies before it\n"
        "  oracle          the best whole shares at any time, known beforehand\n"
        "  ideal           as if work could be cut at will: nothing is faster\n"
        "A trace has one line a step and one column a rank, or a first line that names the columns worker,\n"
        "time (number of the step) and batch_time_norm. Its times are those of equal shares, in any unit.\n",
    .max_args = 1,
    .options = options,
    .size = sizeof(settings),
    .defaults = &defaults,
    .run = run,
};
