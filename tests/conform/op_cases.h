/* op_cases: what the conformance tests of ops run.  A family is the little program of ops that
 * belongs together (forward, then backward); a case is one description that goes through it.
 *
 * To add a case, add a line to op_cases.c.  To add an op, add it to a family there.  Every check
 * (finite differences, comparison of back ends, equal bits, slices) then runs it.
 */
#ifndef TRIREME_TESTS_OP_CASES_H
#define TRIREME_TESTS_OP_CASES_H

#include <trireme/backend.h>

#define OP_MAX_STAGES 5
#define OP_MAX_GRADS 4

/* Buffers are named as arguments are: argument X takes buffer X, unless `put` says otherwise. */
typedef struct op_put {
    trm_arg arg, buffer;
} op_put;
typedef struct op_stage {
    trm_op_kind kind;
    int puts;
    op_put put[2];
} op_stage;

/* `gradient` holds d(sum of R*Y)/d(input) after the last stage; R is what DY held before the first. */
typedef struct op_grad {
    trm_arg input, gradient;
} op_grad;

typedef struct op_family {
    const char *name;
    int stages, forward;            /* all stages; how many of them make Y */
    op_stage stage[OP_MAX_STAGES];  /* an ACT_BWD stage is left out where the case has no activation */
    bool loss;                      /* gradients are those of tail[LOSS] */
    int grads;
    op_grad grad[OP_MAX_GRADS];
    uint32_t uses;                  /* buffers, a mask of OP_BIT(arg) */
} op_family;
#define OP_BIT(arg) (UINT32_C(1) << (arg))

typedef struct op_case {
    const op_family *family;
    const char *name;
    trm_op_desc desc;               /* without kind and train; `out` left out: as `in` */
    bool eval;                      /* not train */
    uint32_t without;               /* optional buffers that are not bound */
    double spread;                  /* standard deviation of X where not 1 */
    double shift;                   /* mean of X */
    int steps;                      /* updates to run where not 1 */
    uint32_t half;                  /* buffers of bfloat16 numbers; they lie so on devices that have it, all but ref */
} op_case;

/* Small cases go through every check; large ones are only compared between back ends. */
extern const op_case op_small_cases[], op_large_cases[];
extern const int op_small_count, op_large_count;

#endif
