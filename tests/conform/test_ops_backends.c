/* Every back end against `ref` on the same inputs, op by op: each output within 1e-5 of the norm of
 * its tensor, nothing else touched, no allocation, equal bits in two runs. */
/* timeout: 300 */
#include <math.h>
#include <string.h>

#include "op_bench.h"

#define BOUND 1e-5
#define HALF_BOUND 0x1p-8 /* of what lies as bfloat16: each number is rounded by 2^-9 of it at most */
#define THREADS 2

/* ---- op by op against ref -------------------------------------------------------------------- */

/* |got - want| / |want|; what neither has written yet (NaN in both) is equal. */
static double error_of(const op_bench *got, const op_bench *want, trm_arg a) {
    double wrong = 0, norm = 0;
    for (int64_t i = 0; i < want->count[a]; i++) {
        double w = op_bench_get(want, a, i), g = op_bench_get(got, a, i);
        if (isnan(w) && isnan(g)) continue;
        wrong += (g - w) * (g - w);
        norm += w * w;
    }
    return sqrt(norm > 0 ? wrong / norm : wrong);
}

/* All buffers, so that an input that was written to is seen as well. */
static void check_buffers(const op_bench *got, const op_bench *want, const char *op) {
    for (int a = 0; a < TRM_ARG_COUNT; a++) {
        if (!want->buffer[a] || want->type[a] == OP_BYTES) continue;
        double error = error_of(got, want, (trm_arg)a);
        double bound = want->c->half & OP_BIT(a) ? HALF_BOUND : BOUND;
        if (!(error <= bound))
            fail_msg("%s after %s differs from ref by %.3g, at most %.0e is allowed", op_arg_name((trm_arg)a),
                     op, error, bound);
    }
}

static void check_tail(const op_bench *got, const op_bench *want, const char *op) {
    static const char *const names[TRM_TAIL_SIZE] = {"loss", "count", "correct", "fault", "sum of squares"};
    for (int i = 0; i < TRM_TAIL_SIZE; i++) {
        bool exact = i == TRM_TAIL_COUNT || i == TRM_TAIL_CORRECT;
        double allowed = exact ? 0 : BOUND * fabs(want->tail[i]);
        if (!(fabs(got->tail[i] - want->tail[i]) <= allowed))
            fail_msg("the %s after %s is %.9g, ref has %.9g", names[i] ? names[i] : "rest of the tail", op,
                     got->tail[i], want->tail[i]);
    }
}

/* A variance is the small difference of two sums: it is what has to be right, not they. */
static void check_variances(const op_bench *got, const op_bench *want) {
    int64_t c = got->count[TRM_ARG_STAT] / 2;
    for (int64_t i = 0; i < c; i++) {
        double var[2];
        const op_bench *of[] = {got, want};
        for (int k = 0; k < 2; k++) {
            double m = op_bench_get(of[k], TRM_ARG_STAT, 2 * c),
                   mean = op_bench_get(of[k], TRM_ARG_STAT, i) / m;
            var[k] = op_bench_get(of[k], TRM_ARG_STAT, c + i) / m - mean * mean;
        }
        if (!(fabs(var[0] - var[1]) <= BOUND * var[1]))
            fail_msg("the variance of channel %lld out of bn_stats is %.9g, ref has %.9g", (long long)i,
                     var[0], var[1]);
    }
}

/* Both go on from the numbers of ref, rounded to float32: the next op gets equal inputs, and a
 * rounding cannot turn into another branch of a relu. */
static void make_equal(op_bench *b, op_bench *want) {
    for (int a = 0; a < TRM_ARG_COUNT; a++) {
        if (!want->buffer[a] || want->type[a] == OP_BYTES) continue;
        for (int64_t i = 0; i < want->count[a]; i++) {
            double v = op_bench_get(want, (trm_arg)a, i);
            if (want->type[a] == OP_FLOATS) v = op_bench_number(want, (trm_arg)a, v);
            op_bench_set(want, (trm_arg)a, i, v);
            op_bench_set(b, (trm_arg)a, i, v);
        }
    }
    memcpy(b->tail, want->tail, sizeof b->tail);
}

static void run_stage(op_bench *b, op_bench *want, int s) {
    const char *op = trm_op_name(b->stage[s].kind);
    uint64_t allocations = trm_mem_count().allocations;
    op_bench_run(b, s);
    if (trm_mem_count().allocations != allocations) fail_msg("%s allocates while it runs", op);
    op_bench_run(want, s);
    check_buffers(b, want, op);
    check_tail(b, want, op);
    if (b->stage[s].kind == TRM_OP_BN_STATS) check_variances(b, want);
    make_equal(b, want);
}

/* Every output was written in the end. */
static void check_complete(const op_bench *b) {
    for (int a = 0; a < TRM_ARG_COUNT; a++)
        for (int64_t i = 0; i < b->count[a] && b->buffer[a] && b->type[a] != OP_BYTES; i++)
            if (isnan(op_bench_get(b, (trm_arg)a, i)))
                fail_msg("element %lld of %s is not a number", (long long)i, op_arg_name((trm_arg)a));
}

static void test_against_ref(void **state) {
    const op_trial *t = op_trial_of(state);
    op_skip_without_half(t);
    op_bench b, want;
    op_bench_open(&b, t->c, t->device);
    op_bench_open(&want, t->c, op_ref);
    for (int64_t update = 1; update <= (t->c->steps > 0 ? t->c->steps : 1); update++) {
        op_bench_begin_update(&b, update);
        op_bench_begin_update(&want, update);
        for (int s = 0; s < b.stages; s++) run_stage(&b, &want, s);
    }
    check_complete(&b);
    op_bench_check_ends(&b);
    op_bench_close(&b);
    op_bench_close(&want);
}

/* ---- equal bits ---------------------------------------------------------------------------------- */

static void test_bits(void **state) {
    const op_trial *t = op_trial_of(state);
    op_skip_without_half(t);
    op_bench one, two;
    op_bench_open(&one, t->c, t->device);
    op_bench_open(&two, t->c, t->device);
    op_bench_begin_update(&one, 1);
    op_bench_begin_update(&two, 1);
    for (int s = 0; s < one.stages; s++) op_bench_run(&one, s);
    for (int s = 0; s < two.stages; s++) op_bench_run(&two, s);
    for (int a = 0; a < TRM_ARG_COUNT; a++)
        if (one.buffer[a] && one.type[a] != OP_BYTES &&
            memcmp(one.buffer[a], two.buffer[a], one.bytes[a]) != 0)
            fail_msg("%s differs between two equal runs", op_arg_name((trm_arg)a));
    assert_memory_equal(one.tail, two.tail, sizeof one.tail);
    op_bench_close(&one);
    op_bench_close(&two);
}

/* ---- memory of attention ---------------------------------------------------------------------------- */

static size_t attention_bytes(trm_device *device, trm_op_kind kind, int64_t t) {
    trm_op_desc d = {.kind = kind,
                     .n = 1,
                     .in = {2, {t, 768}},
                     .out = {2, {t, 256}},
                     .heads = 4,
                     .causal = true,
                     .train = true};
    trm_op *op;
    assert_ok(trm_op_plan(device, &d, &op));
    size_t bytes = op->saved_bytes + op->scratch_bytes;
    trm_op_destroy(op);
    return bytes;
}

/* Linear: twice the length takes at most twice the bytes. */
static void test_attention_memory(void **state) {
    trm_device *d = op_trial_of(state)->device;
    static const trm_op_kind kinds[] = {TRM_OP_ATTN_FWD, TRM_OP_ATTN_BWD};
    for (int k = 0; k < 2; k++)
        for (int64_t t = 512; t < 4096; t *= 2) {
            size_t once = attention_bytes(d, kinds[k], t), twice = attention_bytes(d, kinds[k], 2 * t);
            if (twice > 2 * once)
                fail_msg("%s wants %zu bytes for %lld positions, but %zu for %lld", trm_op_name(kinds[k]),
                         once, (long long)t, twice, (long long)(2 * t));
        }
}

/* ---- the table reaches every op ------------------------------------------------------------------------ */

static void mark(const op_case *cases, int count, bool seen[TRM_OP_COUNT]) {
    for (int i = 0; i < count; i++)
        for (int s = 0; s < cases[i].family->stages; s++) seen[cases[i].family->stage[s].kind] = true;
}

static void test_every_op_has_a_case(void **state) {
    (void)state;
    bool seen[TRM_OP_COUNT] = {false};
    mark(op_small_cases, op_small_count, seen);
    mark(op_large_cases, op_large_count, seen);
    for (int k = 0; k < TRM_OP_COUNT; k++)
        if (!seen[k]) fail_msg("%s has no case in op_cases.c", trm_op_name((trm_op_kind)k));
}

/* ---- all back ends --------------------------------------------------------------------------------------- */

/* Of ref itself the small cases show that it writes what it has to, and nothing else. */
static void add_backend(op_tests *t, trm_device *d) {
    op_tests_add(t, "against ref", test_against_ref, d, op_small_cases, op_small_count);
    op_tests_add_one(t, "attention's memory is linear", test_attention_memory, d);
    if (d == op_ref) return;
    op_tests_add(t, "against ref", test_against_ref, d, op_large_cases, op_large_count);
    op_tests_add(t, "equal bits", test_bits, d, op_small_cases, op_small_count);
    op_tests_add(t, "equal bits", test_bits, d, op_large_cases, op_large_count);
}

int main(void) {
    trm_device *devices[OP_MAX_DEVICES];
    op_tests tests = {0};
    int count = op_devices_open(THREADS, devices);
    op_tests_add_one(&tests, "has a case for every op", test_every_op_has_a_case, op_ref);
    for (int i = 0; i < count; i++) add_backend(&tests, devices[i]);
    int failed = op_tests_run(&tests);
    op_devices_close(devices, count);
    return failed;
}
