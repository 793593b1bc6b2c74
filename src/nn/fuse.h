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

#endif
