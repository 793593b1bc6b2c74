/* op_bench: the buffers of one case on one device, filled, planned and bound, ready to run.
 * Values are a pure function of (case, buffer, element), so every back end gets the same; all are
 * float32 numbers, so that float32 and float64 devices begin equal. */
#ifndef TRIREME_TESTS_OP_BENCH_H
#define TRIREME_TESTS_OP_BENCH_H

#include "op_cases.h"
#include "support.h"

typedef enum op_type { OP_FLOATS, OP_INTS, OP_DOUBLES, OP_BYTES, OP_HALVES } op_type;

typedef struct op_bench {
    const op_case *c;
    trm_device *device;
    int64_t n, offset;              /* this slice: n samples, the first of which is number `offset` of the case */
    int stages;
    op_stage stage[OP_MAX_STAGES];
    trm_op *op[OP_MAX_STAGES];
    void *buffer[TRM_ARG_COUNT];    /* NULL where the case has none */
    int64_t count[TRM_ARG_COUNT];   /* elements */
    op_type type[TRM_ARG_COUNT];
    size_t bytes[TRM_ARG_COUNT];
    void *scratch;
    size_t scratch_bytes;
    void *raw;
    int64_t sample[16];
    double tail[TRM_TAIL_SIZE];
    trm_step step;
} op_bench;

/* The whole case; or samples first .. first+n-1 of it, the gradients of parameters added to what
 * is there. */
void op_bench_open(op_bench *b, const op_case *c, trm_device *device);
void op_bench_open_slice(op_bench *b, const op_case *c, trm_device *device, int64_t first, int64_t n, bool add);
void op_bench_close(op_bench *b);

/* Puts the values of the case everywhere: inputs their numbers; outputs NaN, or numbers where the
 * case adds to them. */
void op_bench_fill(op_bench *b);
/* The values that change from update to update (gradients). */
void op_bench_begin_update(op_bench *b, int64_t update);
void op_bench_run(op_bench *b, int stage);
/* Fails where a buffer was written behind its end. */
void op_bench_check_ends(const op_bench *b);

/* What op_bench_fill puts at element i of a buffer. */
double op_bench_value(const op_bench *b, trm_arg a, int64_t i);
/* `v` as the buffer can hold it: a float32 or a bfloat16 number. */
double op_bench_number(const op_bench *b, trm_arg a, double v);
double op_bench_get(const op_bench *b, trm_arg a, int64_t i);
void op_bench_set(op_bench *b, trm_arg a, int64_t i, double value);
/* Elements that belong to one sample; 0 for a buffer that belongs to all of them. */
int64_t op_bench_per_sample(const op_bench *b, trm_arg a);

const char *op_arg_name(trm_arg a);

/* What a test gets as its state. */
typedef struct op_trial {
    const op_case *c;
    trm_device *device;
} op_trial;
/* The tests of a program: one list, since TAP wants one plan. */
typedef struct op_tests {
    struct CMUnitTest *list;
    size_t count;
} op_tests;
/* One test per case, named "<device> <check>: <family>, <case>". */
void op_tests_add(op_tests *t, const char *check, void (*run)(void **state), trm_device *device, const op_case *cases,
                  int count);
/* A test without a case. */
void op_tests_add_one(op_tests *t, const char *check, void (*run)(void **state), trm_device *device);
/* Runs and frees the list; what main returns. */
int op_tests_run(op_tests *t);
static inline const op_trial *op_trial_of(void **state) { return *state; }
/* Skips a case with bfloat16 buffers where the device has none. */
void op_skip_without_half(const op_trial *t);

/* Opens every back end, the oracle among them; ends the program with its sentence where one
 * cannot be opened. */
#define OP_MAX_DEVICES 8
extern trm_device *op_ref;
int op_devices_open(int threads, trm_device *devices[OP_MAX_DEVICES]);
void op_devices_close(trm_device *devices[OP_MAX_DEVICES], int count);

#endif
