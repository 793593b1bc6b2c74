/* lower_impl: what the files that lower a graph share. */
#ifndef TRIREME_NN_LOWER_IMPL_H
#define TRIREME_NN_LOWER_IMPL_H

#include "fuse.h"

/* What lowering knows of a node's value; all by rep. */
typedef struct trm_value {
    int y, pre, saved; /* regions, -1 = none */
    int half;          /* region of Y as bfloat16, -1 = nobody wants it so far; y itself where it lies so */
    bool grad_half;    /* the gradient lies as bfloat16 */
    int grad;          /* region of its gradient, -1 = not written yet */
    bool needs_grad;
} trm_value;

typedef struct trm_lower {
    const trm_runner_spec *r;
    const trm_graph *g;
    const trm_pass_spec *s;
    trm_pass *p;
    trm_fusion *f;
    trm_form *form;
    trm_value *v;
    bool *written; /* per parameter: its gradient has been written in this update */
} trm_lower;

/* ---- emit.c: regions of the arena, and instructions on them ---- */

/* A new region of so many bytes; for the node's value, also as bfloat16, or as Y lies. */
trm_status trm_lower_region(trm_lower *l, int64_t bytes, int *out);
trm_status trm_lower_value_region(trm_lower *l, int node, int *out);
trm_status trm_lower_half_region(trm_lower *l, int node, int *out);
trm_status trm_lower_y_region(trm_lower *l, int node, int *out);
/* Appends the op; its arguments are set by use and fix right after. */
trm_status trm_lower_emit(trm_lower *l, trm_phase phase, int node, const trm_op_desc *desc, trm_lowered **out);
void trm_lower_use(trm_lower *l, trm_lowered *o, trm_arg arg, int region);
void trm_lower_fix(trm_lowered *o, trm_arg arg, void *at);
trm_status trm_lower_emit_sum(trm_lower *l, trm_phase phase, const trm_node *comm, int64_t offset, int64_t count);
/* Where a parameter lies in weights or gradients; NULL: it has none. */
void *trm_lower_at_param(const trm_lower *l, void *space, int param);
bool trm_lower_is_half(const trm_lower *l, const trm_node *n);
/* The bit of `arg` where the value of rep lies as bfloat16. */
uint32_t trm_lower_half_bit(const trm_lower *l, int rep, trm_arg arg);
void trm_lower_fix_weight(const trm_lower *l, trm_lowered *o, const trm_node *n);
void trm_lower_fix_weights(const trm_lower *l, trm_lowered *o, const trm_node *n);
/* Gradient of a parameter: the instruction writes it last so far. */
void trm_lower_fix_gradients(trm_lower *l, trm_lowered *o, const trm_node *n);
bool trm_lower_gradient_written(const trm_lower *l, const trm_node *n);
trm_op_desc trm_lower_desc_of(const trm_lower *l, int node, trm_op_kind kind);
int trm_lower_input_rep(const trm_lower *l, int node);
trm_value *trm_lower_input_value(const trm_lower *l, int node, int k);
const trm_node *trm_lower_stats_node(const trm_lower *l, int apply, const trm_node **sum);
/* `region`, of the shape of rep's value, as bfloat16 in a region of its own. */
trm_status trm_lower_to_half(trm_lower *l, trm_phase phase, int node, int rep, int region, int *out);
/* The input of a product in the form that it multiplies; made once for all that read it. */
trm_status trm_lower_factor(trm_lower *l, int node, int *region);

/* ---- lower_forward.c, lower_backward.c: the ops of one node ---- */

trm_status trm_lower_node_forward(trm_lower *l, int node);
trm_op_desc trm_lower_concat_part(const trm_lower *l, int node, trm_op_kind kind, int k);
trm_status trm_lower_node_backward(trm_lower *l, int node);

#endif
