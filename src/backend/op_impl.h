/* Private to backend: what op.c and op_check.c share. */
#ifndef TRM_BACKEND_OP_IMPL_H
#define TRM_BACKEND_OP_IMPL_H

#include <trireme/backend.h>

/* Everything that is known about an op kind but how to compute it.  Sets of arguments and of
 * activations are bit masks. */
typedef struct trm_op_rule {
    const char *name;
    trm_status (*check)(const trm_op_desc *d);  /* the rules of its family */
    unsigned acts;                  /* which desc.act it accepts */
    bool residual;                  /* accepts desc.residual */
    uint32_t need;                  /* always bound */
    uint32_t when;                  /* bound where the description asks for it, see wanted() in op.c */
    uint32_t may;                   /* optional: the op looks whether it is there */
} trm_op_rule;

/* NULL where the kind is none of the list. */
const trm_op_rule *trm_op_rule_of(trm_op_kind k);
/* The description against the rule of its kind; the sentence begins with the op's name. */
trm_status trm_op_check(const trm_op_desc *d);

#endif
