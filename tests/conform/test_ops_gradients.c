/* The oracle on trial: the backward of each op of `ref` against central finite differences of its
 * forward, in float64.  Everything else is compared with `ref`, see test_ops_backends.c. */
#include <math.h>

#include "op_bench.h"

#define STEP 2e-5
#define BOUND 1e-6
#define MOST_PROBES 60 /* elements of a tensor that are tried */

/* The scalar whose gradient the backward ops give: the loss, or sum of R*Y with R = first DY. */
static double scalar(op_bench *b) {
    double sum = 0;
    b->tail[TRM_TAIL_LOSS] = 0;
    for (int s = 0; s < b->c->family->forward; s++) op_bench_run(b, s);
    if (b->c->family->loss) return b->tail[TRM_TAIL_LOSS];
    for (int64_t i = 0; i < b->count[TRM_ARG_Y]; i++)
        sum += op_bench_value(b, TRM_ARG_DY, i) * op_bench_get(b, TRM_ARG_Y, i);
    return sum;
}

static double difference(op_bench *b, trm_arg input, int64_t i) {
    double x = op_bench_get(b, input, i);
    op_bench_set(b, input, i, x + STEP);
    double above = scalar(b);
    op_bench_set(b, input, i, x - STEP);
    double below = scalar(b);
    op_bench_set(b, input, i, x);
    return (above - below) / (2 * STEP);
}

/* What the backward stages added: the buffer less what it held before, where they add. */
static double gradient(const op_bench *after, trm_arg a, int64_t i) {
    double before = op_bench_value(after, a, i);
    return op_bench_get(after, a, i) - (a == TRM_ARG_DY || isnan(before) ? 0 : before);
}

static void check_pair(const op_bench *after, op_bench *b, op_grad g) {
    int64_t n = b->count[g.input], probes = n < MOST_PROBES ? n : MOST_PROBES;
    double wrong = 0, norm = 0;
    if (!b->buffer[g.input] || !b->buffer[g.gradient]) return;
    for (int64_t k = 0; k < probes; k++) {
        int64_t i = trm_cut(n, probes, k);
        double want = difference(b, g.input, i), got = gradient(after, g.gradient, i);
        wrong += (got - want) * (got - want);
        norm += want * want;
    }
    double error = sqrt(wrong / (norm > 0 ? norm : 1));
    if (!(error <= BOUND))
        fail_msg("d/d%s of ref differs from finite differences by %.3g, at most %.0e is allowed",
                 op_arg_name(g.input), error, BOUND);
}

static void test_gradient(void **state) {
    const op_trial *t = op_trial_of(state);
    op_bench after, b;
    op_bench_open(&after, t->c, t->device);
    op_bench_open(&b, t->c, t->device);
    for (int s = 0; s < after.stages; s++) op_bench_run(&after, s);
    for (int g = 0; g < t->c->family->grads; g++) check_pair(&after, &b, t->c->family->grad[g]);
    op_bench_check_ends(&after);
    op_bench_close(&after);
    op_bench_close(&b);
}

int main(void) {
    trm_device *devices[OP_MAX_DEVICES];
    op_tests tests = {0};
    int count = op_devices_open(1, devices);
    op_tests_add(&tests, "gradient", test_gradient, op_ref, op_small_cases, op_small_count);
    int failed = op_tests_run(&tests);
    op_devices_close(devices, count);
    return failed;
}
