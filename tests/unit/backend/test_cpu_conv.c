/* Convolutions: the library has a fast implementation for the shapes that matter, none of them a reference one,
 * and running it allocates nothing. */
#include <string.h>
#include <trireme/backend.h>

#include "support.h"

typedef struct conv_case {
    int64_t n, in, out, size, kernel, stride, pad, groups;
} conv_case;

static const conv_case cases[] = {
    {4, 3, 16, 32, 3, 1, 1, 1},  {4, 16, 16, 32, 3, 1, 1, 1}, {4, 16, 32, 32, 3, 2, 1, 1},
    {4, 16, 32, 32, 1, 2, 0, 1}, {4, 64, 64, 8, 3, 1, 1, 1},  {4, 1, 20, 28, 5, 1, 0, 1},
    {4, 20, 50, 12, 5, 1, 0, 1}, {1, 3, 64, 56, 7, 2, 3, 1},  {2, 32, 32, 14, 3, 1, 1, 32},
    {2, 32, 64, 14, 3, 1, 1, 4}, {2, 48, 48, 14, 3, 2, 1, 1}, {2, 64, 128, 14, 1, 1, 0, 1},
    {1, 7, 5, 9, 3, 1, 1, 1},
};

static trm_op_desc describe(const conv_case *c, trm_op_kind kind) {
    int64_t size = (c->size + 2 * c->pad - c->kernel) / c->stride + 1;
    return (trm_op_desc){.kind = kind,
                         .n = c->n,
                         .in = trm_shape_of(3, c->in, c->size, c->size),
                         .out = trm_shape_of(3, c->out, size, size),
                         .kernel = {c->kernel, c->kernel},
                         .stride = {c->stride, c->stride},
                         .pad = {c->pad, c->pad},
                         .groups = c->groups,
                         .bias = true,
                         .accumulate = kind != TRM_OP_CONV_FWD};
}

static void run_once(trm_op *op, size_t bytes) {
    void *args[TRM_ARG_COUNT],
        *scratch = op->scratch_bytes > 0 ? trm_alloc(op->scratch_bytes, "scratch") : NULL;
    for (int a = 0; a < TRM_ARG_COUNT; a++) assert_non_null(args[a] = trm_alloc(bytes, "an argument"));
    assert_ok(trm_op_bind(op, args, scratch));
    uint64_t before = trm_mem_count().allocations;
    assert_ok(trm_op_run(op, NULL));
    assert_int_equal(trm_mem_count().allocations, before);
    for (int a = 0; a < TRM_ARG_COUNT; a++) trm_free(args[a]);
    trm_free(scratch);
}

static void no_reference_implementation(void **state) {
    trm_device *d = *state;
    for (size_t i = 0; i < SUPPORT_COUNT(cases); i++) {
        for (int kind = TRM_OP_CONV_FWD; kind <= TRM_OP_CONV_BWD_W; kind++) {
            trm_op_desc desc = describe(&cases[i], (trm_op_kind)kind);
            trm_op *op;
            assert_ok(trm_op_plan(d, &desc, &op));
            if (strstr(op->impl, "ref") || strstr(op->impl, "simple"))
                fail_msg("case %zu, %s: %s", i, trm_op_name(desc.kind), op->impl);
            run_once(op, (size_t)1 << 20);
            trm_op_destroy(op);
        }
    }
}

static void planning_reports_lack_of_memory(void **state) {
    trm_device *d = *state;
    for (int kind = TRM_OP_CONV_FWD; kind <= TRM_OP_CONV_BWD_W; kind++) {
        trm_op_desc desc = describe(&cases[0], (trm_op_kind)kind);
        for (uint64_t n = 1; n <= 4; n++) { /* the op, its state, the convolution, the reorder */
            trm_op *op;
            uint64_t before = trm_mem_count().live_bytes;
            trm_mem_fail_after(n);
            assert_int_equal(trm_op_plan(d, &desc, &op), TRM_MEMORY);
            assert_int_equal(trm_mem_count().live_bytes, before);
        }
        trm_mem_fail_after(0);
    }
}

static int open_device(void **state) {
    return trm_device_open("cpu", 1, (trm_device **)state) == TRM_OK ? 0 : -1;
}

static int close_device(void **state) {
    trm_device_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_reference_implementation),
        cmocka_unit_test(planning_reports_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
