/* attention: softmax(Q K^T / sqrt(C/heads)) V per sample and head, in blocks of query rows.
 *
 * A block sees all keys up to its last row (all keys where it is not causal), so a softmax row is complete and
 * memory is linear in T.  q, k and v are used in place, strided.  Forward keeps only the logarithm of each
 * row's sum; backward computes the probabilities again from it. */
#include <math.h>
#include <omp.h>

#include "own.h"

/* Rows of a block: less of the diagonal is computed in vain with few, the products run faster with many. */
static int64_t block_rows(int64_t t, bool causal) { return causal && t <= 128 ? 32 : 64; }

typedef struct attention_state {
    trm_cpu_state base;
    int64_t t, c, heads, width, tasks; /* width of a head; tasks = samples * heads */
    int64_t block, ld;                 /* a block of scores: its rows, and from one to the next */
    bool causal;
    float scale;
} attention_state;

/* One sample's head: its corner in each matrix. */
typedef struct head {
    const float *q, *k, *v, *dy;
    float *y, *dq, *dk, *dv, *lse;
} head;

/* A block of query rows and the keys that it sees. */
typedef struct block {
    int64_t first, rows, keys, seen, step;
} block;

static block block_at(const attention_state *s, int64_t first) {
    int64_t rows = trm_min64(s->block, s->t - first);
    if (s->causal) return (block){first, rows, first + rows, first + 1, 1};
    return (block){first, rows, s->t, s->t, 0};
}

static void *shift(void *base, int64_t floats) { return base ? (float *)base + floats : NULL; }

static head head_at(const trm_op *op, const attention_state *s, int64_t task) {
    int64_t rows = task / s->heads * s->t, col = task % s->heads * s->width;
    float *x = shift(op->arg[TRM_ARG_X], rows * 3 * s->c + col),
          *dx = shift(op->arg[TRM_ARG_DX], rows * 3 * s->c + col);
    return (head){.q = x,
                  .k = x + s->c,
                  .v = x + 2 * s->c,
                  .dy = shift(op->arg[TRM_ARG_DY], rows * s->c + col),
                  .y = shift(op->arg[TRM_ARG_Y], rows * s->c + col),
                  .dq = dx,
                  .dk = shift(dx, s->c),
                  .dv = shift(dx, 2 * s->c),
                  .lse = shift(op->arg[TRM_ARG_SAVED], task * s->t)};
}

/* scores = scale * Q K^T of the block */
static trm_status scores(const attention_state *s, const head *h, const block *b, float *out) {
    return trm_cpu_sgemm('N', 'T', b->rows, b->keys, s->width, s->scale, h->q + b->first * 3 * s->c, 3 * s->c,
                         h->k, 3 * s->c, 0, out, s->ld);
}

/* ---- forward --------------------------------------------------------------------------- */

static trm_status fwd_head(const trm_kernels *k, const attention_state *s, const head *h, float *p) {
    for (int64_t first = 0; first < s->t; first += s->block) {
        block b = block_at(s, first);
        TRM_TRY(scores(s, h, &b, p));
        k->softmax_rows(p, s->ld, b.rows, b.keys, b.seen, b.step, h->lse + first);
        TRM_TRY(trm_cpu_sgemm('N', 'N', b.rows, s->width, b.keys, 1, p, s->ld, h->v, 3 * s->c, 0,
                              h->y + first * s->c, s->c));
    }
    return TRM_OK;
}

/* ---- backward -------------------------------------------------------------------------- */

/* OUT[keys] (+)= M^T IN[rows], for the gradients of keys and values */
static trm_status to_keys(const attention_state *s, const block *b, const float *m, const float *in,
                          int64_t ld_in, bool add, float *out) {
    return trm_cpu_sgemm('T', 'N', b->keys, s->width, b->rows, 1, m, s->ld, in, ld_in, add ? 1 : 0, out,
                         3 * s->c);
}

/* p and ds: blocks of probabilities and of their gradients. */
static trm_status bwd_block(const trm_kernels *k, const attention_state *s, const head *h, const block *b,
                            bool add, bool add_keys, float *p, float *ds) {
    int64_t ld = 3 * s->c;
    const float *q = h->q + b->first * ld, *dy = h->dy + b->first * s->c;
    TRM_TRY(scores(s, h, b, p));
    k->softmax_again(p, s->ld, b->rows, b->keys, b->seen, b->step, h->lse + b->first);
    TRM_TRY(to_keys(s, b, p, dy, s->c, add_keys, h->dv));
    TRM_TRY(trm_cpu_sgemm('N', 'T', b->rows, b->keys, s->width, 1, dy, s->c, h->v, ld, 0, ds, s->ld));
    k->softmax_grad(ds, p, s->ld, b->rows, b->keys, b->seen, b->step, s->scale);
    TRM_TRY(to_keys(s, b, ds, q, ld, add_keys, h->dk));
    return trm_cpu_sgemm('N', 'N', b->rows, s->width, b->keys, 1, ds, s->ld, h->k, ld, add ? 1 : 0,
                         h->dq + b->first * ld, ld);
}

/* From the last block, which sees all keys and so is the first writer of their gradients. */
static trm_status bwd_head(const trm_kernels *k, const attention_state *s, const head *h, bool add,
                           float *p) {
    float *ds = p + s->block * s->ld;
    int64_t last = (s->t - 1) / s->block * s->block;
    for (int64_t first = last; first >= 0; first -= s->block) {
        block b = block_at(s, first);
        TRM_TRY(bwd_block(k, s, h, &b, add, add || first < last, p, ds));
    }
    return TRM_OK;
}

/* ---- run: heads of samples are shared out to the threads ------------------------------------ */

static trm_status run_task(const trm_op *op, const attention_state *s, int64_t task, float *scratch) {
    head h = head_at(op, s, task);
    const trm_kernels *k = trm_cpu_kernels(op->device);
    if (op->desc.kind == TRM_OP_ATTN_FWD) return fwd_head(k, s, &h, scratch);
    return bwd_head(k, s, &h, op->desc.accumulate, scratch);
}

static int64_t scratch_floats(const trm_op *op, const attention_state *s) {
    return (op->desc.kind == TRM_OP_ATTN_FWD ? 1 : 2) * s->block * s->ld;
}

static trm_status run_attention(trm_op *op, const trm_step *step) {
    (void)step;
    const attention_state *s = op->state;
    int threads = op->device->threads, failures = 0;
    int64_t each = scratch_floats(op, s);
#pragma omp parallel for if (threads > 1) num_threads(threads) reduction(+ : failures)
    for (int64_t task = 0; task < s->tasks; task++) {
        float *scratch = (float *)op->scratch + omp_get_thread_num() * each;
        failures += run_task(op, s, task, scratch) != TRM_OK;
    }
    if (failures == 0) return TRM_OK;
    return trm_fail(TRM_INTERNAL, "attention: %d of %lld heads failed in a matrix product", failures,
                    (long long)s->tasks);
}

trm_status trm_cpu_plan_attention(trm_device *d, trm_op *op) {
    const trm_op_desc *o = &op->desc;
    TRM_TRY(trm_cpu_own(op, sizeof(attention_state), NULL, run_attention));
    attention_state *s = op->state;
    s->t = o->in.dim[0];
    s->c = o->out.dim[1];
    s->heads = o->heads;
    s->width = s->c / s->heads;
    s->tasks = o->n * s->heads;
    s->block = block_rows(s->t, o->causal);
    s->ld = (int64_t)trm_round_up((size_t)s->t, 16);
    s->causal = o->causal;
    s->scale = 1.0f / sqrtf((float)s->width);
    op->saved_bytes = (size_t)(s->tasks * s->t) * sizeof(float);
    op->scratch_bytes = (size_t)(d->threads * scratch_floats(op, s)) * sizeof(float);
    snprintf(op->impl, sizeof op->impl, "sgemm, blocks of %lld", (long long)s->block);
    return TRM_OK;
}
