/* Private to backend/cpu: what the files of the CPU back end share. */
#ifndef TRM_CPU_IMPL_H
#define TRM_CPU_IMPL_H

#include <trireme/backend.h>

#include "cpu/kernels.h"            /* kernels/cpu/kernels.h: trm_kernels, one table per instruction set */

/* d->state of a "cpu" device. */
typedef struct trm_cpu {
    const trm_kernels *k;           /* the loops for this machine's instruction set */
    void *onednn;                   /* engine and stream; only onednn*.c looks inside */
} trm_cpu;

static inline const trm_kernels *trm_cpu_kernels(const trm_device *d) { return ((const trm_cpu *)d->state)->k; }

/* One function per family plans all phases of its ops: sets op->run, op->state, op->saved_bytes, op->scratch_bytes, op->impl.
 * `bind` and `destroy` hooks of a family live in its op state's first field (see cpu.c). */
trm_status trm_cpu_plan_linear(trm_device *d, trm_op *op);      /* dense.c: dnnl_sgemm + fused loops */
trm_status trm_cpu_plan_linear_bf16(trm_device *d, trm_op *op); /* dense_bf16.c: oneDNN */
trm_status trm_cpu_plan_conv(trm_device *d, trm_op *op);        /* conv.c: oneDNN */
trm_status trm_cpu_plan_pool(trm_device *d, trm_op *op);        /* pool.c: own loops */
trm_status trm_cpu_plan_attention(trm_device *d, trm_op *op);   /* attention.c: blocked, dnnl_sgemm + fused softmax loops */
trm_status trm_cpu_plan_batch_norm(trm_device *d, trm_op *op);  /* norm.c */
trm_status trm_cpu_plan_layer_norm(trm_device *d, trm_op *op);  /* norm.c */
trm_status trm_cpu_plan_group_norm(trm_device *d, trm_op *op);  /* norm.c */
trm_status trm_cpu_plan_elementwise(trm_device *d, trm_op *op); /* elementwise.c: ACT, SOFTMAX, DROPOUT, ADD, ADD_INTO, COPY, CAST, FLATTEN, CONCAT */
trm_status trm_cpu_plan_embedding(trm_device *d, trm_op *op);   /* embedding.c: EMBED, POSEMB */
trm_status trm_cpu_plan_loss(trm_device *d, trm_op *op);        /* loss.c */
trm_status trm_cpu_plan_load(trm_device *d, trm_op *op);        /* load.c */
trm_status trm_cpu_plan_update(trm_device *d, trm_op *op);      /* update.c: UPDATE, SUMSQ */

/* Every state that a family allocates begins with this. */
typedef struct trm_cpu_state {
    trm_status (*bind)(trm_op *op);     /* may be NULL */
    void (*destroy)(trm_op *op);        /* may be NULL; releases what the state holds, cpu.c frees the state */
} trm_cpu_state;

/* The loop of a fused activation: z += b, y = act(z); NULL for none.  dense.c. */
typedef void (*trm_bias_act_fn)(float *y, float *z, const float *b, int64_t rows, int64_t cols, int threads);
trm_bias_act_fn trm_cpu_bias_act(const trm_kernels *k, trm_act act);
/* Whether a layer gains by bfloat16 factors.  conv.c. */
bool trm_cpu_conv_half_pays(const trm_device *d, const trm_op_desc *forward);

/* sgemm on row-major matrices, C[m,n] = alpha op(A) op(B) + beta C; ta/tb 'N' or 'T'.  onednn.c.  Inside a
 * parallel region it uses the calling thread only. */
trm_status trm_cpu_sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                         const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
trm_status trm_cpu_onednn_open(trm_device *d);
void trm_cpu_onednn_close(trm_device *d);
const char *trm_cpu_onednn_version(char *buf, size_t cap);      /* "oneDNN 2.6.3" */

#endif
