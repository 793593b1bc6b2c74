/* What measuring and deciding cost a rank, in microseconds: what an update adds, and what a decision takes. */
#include <stdio.h>
#include <stdlib.h>
#include <trireme/balance.h>

enum { TIMES = 200000, DECISIONS = 2000, MOST = 64 };

static void need(trm_status s) {
    if (s == TRM_OK) return;
    fprintf(stderr, "measure: %s\n", trm_error_text());
    exit(1);
}

/* Clock, CPU time and delay at both ends of an update, and rank 0's window. */
static double of_update(int ranks) {
    trm_window w;
    trm_measure m[MOST];
    double sum = 0;
    for (int r = 0; r < ranks; r++) m[r] = (trm_measure){0.005, 0.0001, 0.005, 0};
    need(trm_window_open(ranks, &w));
    double begun = trm_now();
    for (int i = 0; i < TIMES; i++) {
        sum += trm_now() + trm_thread_cpu() + trm_thread_delay();
        trm_window_add(&w, 0.005, m);
        sum -= trm_now() + trm_thread_cpu() + trm_thread_delay();
    }
    double took = trm_now() - begun;
    trm_window_free(&w);
    return sum > 1e30 ? 0 : 1e6 * took / TIMES;
}

static double of_decision(int ranks) {
    trm_policy *p;
    trm_decision d;
    trm_measure m[MOST];
    int64_t counts[MOST];
    trm_policy_spec spec = {
        .ranks = ranks, .total = 64 * ranks, .threshold = 0.05, .predictor = TRM_PREDICT_EMA, .cooldown = 1};
    for (int r = 0; r < ranks; r++) counts[r] = 64;
    need(trm_policy_open(&spec, counts, &p));
    double begun = trm_now();
    for (int i = 0; i < DECISIONS; i++) {
        for (int r = 0; r < ranks; r++) m[r] = (trm_measure){0.005 + 0.001 * (r + i % 7), 0.0001, 0.005, 0};
        need(trm_policy_decide(p, &(trm_policy_seen){.step = 0.02, .rank = m, .updates = 100, .left = 1000},
                               &d));
    }
    double took = trm_now() - begun;
    trm_policy_free(p);
    return 1e6 * took / DECISIONS;
}

int main(void) {
    for (int ranks = 2; ranks <= MOST; ranks *= 4)
        printf("%2d ranks: %.2f us an update, %.1f us a decision\n", ranks, of_update(ranks),
               of_decision(ranks));
    printf("{\"update_us\":%.3f,\"decision_us\":%.3f}\n", of_update(2), of_decision(2));
    return 0;
}
