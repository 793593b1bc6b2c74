/* Who computes never changes what is computed: five samples in one slice give what slices of two and
 * three give, gradients of parameters added up, statistics summed as a reduction would sum them.
 * Random numbers depend on the sample, not on the slice. */
#include <math.h>
#include <string.h>

#include "op_bench.h"

#define WHOLE 5
#define LEFT 2
#define BOUND 1e-6

typedef struct slices {
    op_bench whole, left, right;
} slices;

static void copy_buffer(const op_bench *from, op_bench *to, trm_arg a) {
    if (to->buffer[a]) memcpy(to->buffer[a], from->buffer[a], to->bytes[a]);
}

/* What a reduction between the stages does. */
static void sum_buffer(slices *s, trm_arg a) {
    if (!s->left.buffer[a]) return;
    for (int64_t i = 0; i < s->left.count[a]; i++)
        op_bench_set(&s->left, a, i, op_bench_get(&s->left, a, i) + op_bench_get(&s->right, a, i));
    copy_buffer(&s->left, &s->right, a);
}

/* The right slice goes on where the left one ended: its gradients of parameters and its sums. */
static void run_stage(slices *s, int stage) {
    trm_op_kind kind = s->whole.stage[stage].kind;
    op_bench_run(&s->whole, stage);
    op_bench_run(&s->left, stage);
    copy_buffer(&s->left, &s->right, TRM_ARG_DW);
    copy_buffer(&s->left, &s->right, TRM_ARG_DB);
    memcpy(s->right.tail, s->left.tail, sizeof s->right.tail);
    op_bench_run(&s->right, stage);
    copy_buffer(&s->right, &s->left, TRM_ARG_DW);
    copy_buffer(&s->right, &s->left, TRM_ARG_DB);
    if (kind == TRM_OP_BN_STATS) sum_buffer(s, TRM_ARG_STAT);
    if (kind == TRM_OP_BN_GRAD_SUMS) sum_buffer(s, TRM_ARG_GSTAT);
}

/* Element i of the whole in its slice; what has no samples is complete in the right one. */
static double in_slices(const slices *s, trm_arg a, int64_t i) {
    int64_t left = LEFT * op_bench_per_sample(&s->whole, a);
    return i < left ? op_bench_get(&s->left, a, i) : op_bench_get(&s->right, a, i - left);
}

static void check_buffer(const slices *s, trm_arg a) {
    double wrong = 0, norm = 0;
    for (int64_t i = 0; i < s->whole.count[a]; i++) {
        double want = op_bench_get(&s->whole, a, i), got = in_slices(s, a, i);
        wrong += (got - want) * (got - want);
        norm += want * want;
    }
    double error = sqrt(norm > 0 ? wrong / norm : wrong);
    if (!(error <= BOUND))
        fail_msg("%s of two slices differs from that of one by %.3g, at most %.0e is allowed", op_arg_name(a),
                 error, BOUND);
}

static void test_slices(void **state) {
    const op_trial *t = op_trial_of(state);
    op_skip_without_half(t);
    slices s;
    op_bench_open(&s.whole, t->c, t->device);
    op_bench_open_slice(&s.left, t->c, t->device, 0, LEFT, false);
    op_bench_open_slice(&s.right, t->c, t->device, LEFT, WHOLE - LEFT, true);
    for (int stage = 0; stage < s.whole.stages; stage++) run_stage(&s, stage);
    for (int a = 0; a < TRM_ARG_COUNT; a++)
        if (s.whole.buffer[a] && s.whole.type[a] != OP_BYTES) check_buffer(&s, (trm_arg)a);
    for (int i = 0; i < TRM_TAIL_SIZE; i++)
        assert_bound(fabs(s.right.tail[i] - s.whole.tail[i]), BOUND * fabs(s.whole.tail[i]));
    op_bench_close(&s.whole);
    op_bench_close(&s.left);
    op_bench_close(&s.right);
}

static void add_cases(op_tests *t, trm_device *d, const op_case *cases, int count) {
    for (int i = 0; i < count; i++)
        if (cases[i].desc.n == WHOLE) op_tests_add(t, "in slices", test_slices, d, &cases[i], 1);
}

int main(void) {
    trm_device *devices[OP_MAX_DEVICES];
    op_tests tests = {0};
    int count = op_devices_open(1, devices);
    for (int i = 0; i < count; i++) {
        add_cases(&tests, devices[i], op_small_cases, op_small_count);
        add_cases(&tests, devices[i], op_large_cases, op_large_count);
    }
    int failed = op_tests_run(&tests);
    op_devices_close(devices, count);
    return failed;
}
