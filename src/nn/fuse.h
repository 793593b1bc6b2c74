/* Private to nn: which nodes share one op. */
#ifndef TRM_NN_FUSE_H
#define TRM_NN_FUSE_H

#include "nn_impl.h"

typedef struct trm_fusion {
    int rep;                        /* node whose op makes this node's value; itself where it has its own */
    int uses;                       /* readers of the value, the loss included */
    trm_act act;                    /* of a rep: activation fused into it */
    int res;                        /* of a rep: rep whose value is added by it, -1 = none */
} trm_fusion;

/* f: one entry per node. */
void trm_fuse(const trm_graph *g, bool train, trm_fusion *f);

/* Of a rep: how its value and its gradient lie. */
typedef struct trm_form {
    bool y_half;                    /* as bfloat16 only */
    bool grad_half;                 /* its one writer leaves it as bfloat16 */
    /* while it is decided: */
    bool multiplied;                /* a product in bfloat16 reads it */
    bool norm_reads;                /* a batch norm does */
    int readers;                    /* who adds to its gradient */
} trm_form;

/* form: one entry per node.  half.c. */
void trm_half_forms(const trm_graph *g, const trm_half_weights *h, const trm_fusion *f, trm_form *form);
/* Whether the node multiplies in bfloat16. */
bool trm_half_product(const trm_half_weights *h, const trm_node *n);

#endif
