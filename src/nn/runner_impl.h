/* Private to nn: programs and the runner. */
#ifndef TRM_NN_RUNNER_IMPL_H
#define TRM_NN_RUNNER_IMPL_H

#include "nn_impl.h"

/* load, forward, loss, backward and update are ops; talk is posted and waited for; `finish` turns the reduced
 * sums into loss, norm, clip factor, and decides whether the update is applied. */
typedef enum trm_instr_kind { TRM_INSTR_OP, TRM_INSTR_POST, TRM_INSTR_WAIT, TRM_INSTR_FINISH } trm_instr_kind;
typedef struct trm_instr {
    trm_instr_kind kind;
    trm_phase phase;
    int node;
    trm_op *op;
    void *request;
} trm_instr;

typedef struct trm_program {
    bool eval;
    int micro_batches;
    int64_t *counts;                /* ranks * micro_batches; eval: one number */
    trm_pass **passes;              /* per micro-batch */
    trm_instr *list;
    int n_list, cap_list;
    void **requests;
    int n_requests, cap_requests;
} trm_program;

/* An op over a range of the parameter space. */
typedef struct trm_range_op {
    trm_op *op;
    int64_t begin;
} trm_range_op;

struct trm_runner {
    trm_runner_spec spec;
    trm_program **programs;
    int n_programs, cap_programs;
    trm_range_op *updates;          /* one per run of equal decay */
    int n_updates;
    trm_half_weights half;          /* without casts: none */
    trm_range_op sumsq;             /* no op where the reductions sum squares on their way */
    char *arena, *scratch;
    int64_t arena_bytes, scratch_bytes;
    const void *output;             /* of the pass that ran last */
    double *node_forward, *node_backward, phase[TRM_PHASE_COUNT], backward_behind;
    bool posted;                    /* in this step: a gradient bucket is on its way */
    int64_t steps;
};

/* half.c */
trm_status trm_half_create(const trm_runner_spec *s, trm_half_weights *h);
void trm_half_free(trm_half_weights *h);

trm_status trm_program_build(trm_runner *r, int micro_batches, const int64_t *counts, trm_program **out);
trm_status trm_program_build_eval(trm_runner *r, int64_t n, trm_program **out);
void trm_program_free(trm_runner *r, trm_program *p);
/* Makes arena and scratch large enough for p; binds p, and everything else again where they moved. */
trm_status trm_runner_settle(trm_runner *r, trm_program *p);

#endif
