/* onednn: what the CPU back end asks of oneDNN, behind calls that hide its version.  onednn.c alone includes
 * <dnnl.h> and knows how the APIs of 2.x and 3.x differ. */
#ifndef TRM_CPU_ONEDNN_H
#define TRM_CPU_ONEDNN_H

#include "cpu_impl.h"

/* The buffers of a primitive.  In a backward pass the name of its output stands for the gradient:
 * CONV_BWD_X reads DST (the gradient of Y) and WEIGHTS and writes SRC (the gradient of X);
 * CONV_BWD_W reads SRC (X) and DST and writes WEIGHTS; it leaves out the biases.  A reorder goes from SRC to DST. */
typedef enum trm_dnn_slot {
    TRM_DNN_SRC,
    TRM_DNN_WEIGHTS,
    TRM_DNN_BIAS,
    TRM_DNN_DST,
    TRM_DNN_SCRATCH,
    TRM_DNN_SLOTS
} trm_dnn_slot;

typedef struct trm_dnn trm_dnn;         /* one primitive and its buffers */

/* The convolution of a description (its kind names the pass): images or volumes with their channels last, weights as the library likes them. */
trm_status trm_dnn_conv(const trm_device *d, const trm_op_desc *desc, trm_dnn **out);
/* The pass from plain weights (O,I/groups,k...), in the type that the convolution takes, into the convolution's (pack), or back (!pack), where `add` adds to
 * what is there.  *out is NULL where the convolution takes them plain and nothing is to be added. */
trm_status trm_dnn_conv_weights(const trm_device *d, const trm_op_desc *desc, const trm_dnn *conv, bool pack, bool add,
                                trm_dnn **out);

/* C[m,n] (+)= op(A) op(B) of plain row-major matrices, A and B in bfloat16, C in float32; ta: A lies as (k,m), tb: B as (n,k).
 * SRC is A, WEIGHTS is B, DST is C. */
typedef struct trm_dnn_product_spec {
    int64_t m, n, k;
    bool ta, tb, add;
} trm_dnn_product_spec;
trm_status trm_dnn_product(const trm_device *d, const trm_dnn_product_spec *s, trm_dnn **out);
/* Whether the processor multiplies bfloat16 itself. */
bool trm_dnn_has_bf16(void);

size_t trm_dnn_bytes(const trm_dnn *p, trm_dnn_slot slot);      /* 0 where there is no such buffer */
const char *trm_dnn_impl(const trm_dnn *p);                     /* "jit:avx2" */
void trm_dnn_bind(trm_dnn *p, trm_dnn_slot slot, void *buffer);
trm_status trm_dnn_run(const trm_dnn *p);
void trm_dnn_destroy(trm_dnn *p);                               /* accepts NULL */

#endif
