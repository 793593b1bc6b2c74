/* why: where the time of an epoch went.  Compute is measured before any collective, so that the
 * slow rank shows: in wall time all ranks are equally slow. */
#include "run_impl.h"

#define ROWS 16
/* Below this share of the time nothing is worth a sentence. */
#define WORTH 0.05

/* Times that are shorter say nothing of one rank against another. */
#define LEAST_S 0.005

static double percent(double part, double whole) {
    return whole <= 0 ? 0 : part >= whole ? 100 : 100 * part / whole;
}

/* The time of the epoch as this rank saw it: its own parts are never more than the whole. */
static double span_of(const trm_why_rank *r, double wall_s) {
    double own = r->compute_s + r->wait_s + r->data_s;
    return own > wall_s ? own : wall_s;
}

static void row(const trm_why_rank *r, int rank, double wall_s, trm_str *out) {
    double span = span_of(r, wall_s);
    trm_str_add(out, "  %4d  %-16.16s %7lld %9.2f s %3.0f %% %9.2f s %3.0f %% %9.2f s %3.0f %% %9lld\n", rank,
                r->host ? r->host : "?", (long long)r->share, r->compute_s, percent(r->compute_s, span),
                r->wait_s, percent(r->wait_s, span), r->data_s, percent(r->data_s, span),
                (long long)r->memory_mib);
}

void trm_why_table(const trm_why_rank *r, int n, double wall_s, trm_str *out) {
    trm_str_add(out, "  %4s  %-16s %7s %17s %17s %17s %9s\n", "rank", "host", "share", "compute",
                "exposed comm.", "data wait", "MiB");
    int shown = n < ROWS ? n : ROWS;
    for (int i = 0; i < shown; i++) row(&r[i], i, wall_s, out);
    if (n > shown) trm_str_add(out, "  and %d more ranks: see metrics.jsonl\n", n - shown);
}

/* ---- the sentence ---- */

typedef struct extremes {
    int slow;        /* most compute */
    int waits, data; /* most exposed communication, most data wait */
} extremes;

static extremes find(const trm_why_rank *r, int n) {
    extremes x = {0};
    for (int i = 1; i < n; i++) {
        if (r[i].compute_s > r[x.slow].compute_s) x.slow = i;
        if (r[i].wait_s > r[x.waits].wait_s) x.waits = i;
        if (r[i].data_s > r[x.data].data_s) x.data = i;
    }
    return x;
}

static void say_data(const trm_why_rank *r, int rank, double wall_s, trm_str *out) {
    trm_str_add(
        out,
        "rank %d waited %.0f %% of the time for data: reading is slower than computing (data.cache: on "
        "keeps the data in memory)",
        rank, percent(r[rank].data_s, span_of(&r[rank], wall_s)));
}

/* Robbed of its core: the thread ran for less time than the clock shows. */
static bool robbed(const trm_why_rank *r) { return r->cpu_s > 0 && r->cpu_s < 0.8 * r->compute_s; }

static void say_robbed(const trm_why_rank *r, int rank, trm_str *out) {
    trm_str_add(
        out,
        "rank %d had its core for %.0f %% of its compute time: other programs or too many threads run there",
        rank, percent(r[rank].cpu_s, r[rank].compute_s));
}

static void say_wait(const trm_why_rank *r, extremes x, double wall_s, trm_str *out) {
    double own = r[x.waits].compute_s, most = r[x.slow].compute_s,
           share = percent(r[x.waits].wait_s, span_of(&r[x.waits], wall_s));
    if (r[x.waits].share == 0)
        trm_str_add(out, "rank %d has no samples and waited %.0f %% for the others", x.waits, share);
    else if (own < LEAST_S || most < LEAST_S)
        trm_str_add(out, "rank %d waited %.0f %% in communication: too short an epoch to compare the ranks",
                    x.waits, share);
    else if (most >= 1.1 * own)
        trm_str_add(out, "rank %d waited %.0f %% for the others: rank %d computed %.1fx longer%s", x.waits,
                    share, x.slow, most / own,
                    robbed(&r[x.slow]) ? " (it did not have its core for itself)" : "");
    else
        trm_str_add(
            out,
            "rank %d waited %.0f %% in communication although all ranks computed alike: the exchange of "
            "gradients is slow, or the ranks were slow in turn",
            x.waits, share);
}

void trm_why_sentence(const trm_why_rank *r, int n, double wall_s, trm_str *out) {
    extremes x = find(r, n);
    double data = r[x.data].data_s, wait = r[x.waits].wait_s;
    if (data >= WORTH * wall_s && data >= wait)
        say_data(r, x.data, wall_s, out);
    else if (wait >= WORTH * wall_s)
        say_wait(r, x, wall_s, out);
    else if (robbed(&r[x.slow]))
        say_robbed(r, x.slow, out);
    else
        trm_str_add(out, "%s computed %.0f %% of the time: no large loss", n > 1 ? "every rank" : "the rank",
                    percent(r[x.slow].compute_s, wall_s));
}
