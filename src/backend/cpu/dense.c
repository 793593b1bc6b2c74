/* dense: fully connected layers, Y = act(X W^T + B + RES), as matrix products of plain row-major matrices
 * with one fused pass over the result.
 *
 * Strides.  Where a product walks down the rows of a matrix whose row length is a multiple of 512 bytes, its
 * cache lines compete for a few places of the caches, and the product runs up to 2.5 times slower.
 * Such a matrix is copied to scratch memory first, with rows that are 128 bytes longer; gradients of weights do
 * that in blocks of rows, and the copy of DY sums the gradient of the biases on its way. */
#include <string.h>

#include "own.h"

enum { PAD = 32, BLOCK_ROWS = 512 };

typedef struct dense_state {
    trm_cpu_state base;
    int64_t rows, in, out;
    trm_bias_act_fn bias_act;  /* FWD; NULL for none */
    bool pad_w, pad_x, pad_dy; /* copied to scratch */
    size_t x_at;               /* BWD_W: X lies behind DY there */
} dense_state;

/* Whether walking down `rows` rows of `cols` floats is slow, and the product large enough to pay for a copy. */
static bool slow_stride(int64_t rows, int64_t cols, int64_t other) {
    return cols > 128 && cols % 128 == 0 && rows >= 32 && other >= 64;
}

/* ---- run ------------------------------------------------------------------------------ */

static trm_status run_fwd(trm_op *op, const trm_step *step) {
    (void)step;
    const dense_state *s = op->state;
    const trm_kernels *k = trm_cpu_kernels(op->device);
    const float *b = op->arg[TRM_ARG_B], *res = op->arg[TRM_ARG_RES];
    float *y = op->arg[TRM_ARG_Y], *z = op->arg[TRM_ARG_PRE] ? op->arg[TRM_ARG_PRE] : y;
    bool fill = !s->bias_act && (b || res);
    if (fill) k->fill_rows(y, b, res, s->rows, s->out, op->device->threads);
    TRM_TRY(trm_cpu_sgemm('N', 'T', s->rows, s->out, s->in, 1, op->arg[TRM_ARG_X], s->in, op->arg[TRM_ARG_W],
                          s->in, fill ? 1 : 0, z, s->out));
    if (s->bias_act) s->bias_act(y, z, b, s->rows, s->out, op->device->threads);
    return TRM_OK;
}

static trm_status run_bwd_x(trm_op *op, const trm_step *step) {
    (void)step;
    const dense_state *s = op->state;
    const float *w = op->arg[TRM_ARG_W];
    int64_t ld = s->in;
    if (s->pad_w) {
        ld += PAD;
        trm_cpu_kernels(op->device)->pad_rows(op->scratch, ld, w, s->out, s->in, NULL, op->device->threads);
        w = op->scratch;
    }
    return trm_cpu_sgemm('N', 'N', s->rows, s->in, s->out, 1, op->arg[TRM_ARG_DY], s->out, w, ld,
                         op->desc.accumulate ? 1 : 0, op->arg[TRM_ARG_DX], s->in);
}

/* Rows first .. first+rows of DY and X, copied where that pays, add to DW (and DB). */
static trm_status weights_block(const trm_op *op, const dense_state *s, int64_t first, int64_t rows,
                                bool add) {
    const trm_kernels *k = trm_cpu_kernels(op->device);
    const float *dy = (const float *)op->arg[TRM_ARG_DY] + first * s->out;
    const float *x = (const float *)op->arg[TRM_ARG_X] + first * s->in;
    float *dy_copy = op->scratch, *x_copy = (float *)((char *)op->scratch + s->x_at);
    int64_t ldy = s->out, ldx = s->in;
    if (s->pad_dy) {
        ldy += PAD;
        k->pad_rows(dy_copy, ldy, dy, rows, s->out, op->arg[TRM_ARG_DB], op->device->threads);
        dy = dy_copy;
    }
    if (s->pad_x) {
        ldx += PAD;
        k->pad_rows(x_copy, ldx, x, rows, s->in, NULL, op->device->threads);
        x = x_copy;
    }
    return trm_cpu_sgemm('T', 'N', s->out, s->in, rows, 1, dy, ldy, x, ldx, add ? 1 : 0, op->arg[TRM_ARG_DW],
                         s->in);
}

static trm_status run_bwd_w(trm_op *op, const trm_step *step) {
    (void)step;
    const dense_state *s = op->state;
    float *db = op->arg[TRM_ARG_DB];
    bool add = op->desc.accumulate;
    if (db && !s->pad_dy)
        trm_cpu_kernels(op->device)
            ->column_sums(db, op->arg[TRM_ARG_DY], s->rows, s->out, add, op->device->threads);
    else if (db && !add)
        memset(db, 0, (size_t)s->out * sizeof *db);
    int64_t block = s->pad_dy || s->pad_x ? BLOCK_ROWS : s->rows;
    for (int64_t i = 0; i < s->rows; i += block)
        TRM_TRY(weights_block(op, s, i, trm_min64(block, s->rows - i), add || i > 0));
    return TRM_OK;
}

/* ---- plan ----------------------------------------------------------------------------- */

trm_bias_act_fn trm_cpu_bias_act(const trm_kernels *k, trm_act act) {
    switch (act) {
    case TRM_ACT_RELU: return k->bias_relu;
    case TRM_ACT_GELU: return k->bias_gelu;
    case TRM_ACT_GELU_TANH: return k->bias_gelu_tanh;
    case TRM_ACT_TANH: return k->bias_tanh;
    case TRM_ACT_SIGMOID: return k->bias_sigmoid;
    case TRM_ACT_SILU: return k->bias_silu;
    default: return NULL;
    }
}

static void plan_scratch(trm_op *op, dense_state *s) {
    size_t rows = (size_t)trm_min64(s->rows, BLOCK_ROWS), in = (size_t)(s->in + PAD),
           out = (size_t)(s->out + PAD);
    if (op->desc.kind == TRM_OP_LINEAR_BWD_X) {
        s->pad_w = slow_stride(s->out, s->in, s->rows);
        op->scratch_bytes = s->pad_w ? (size_t)s->out * in * sizeof(float) : 0;
    }
    if (op->desc.kind == TRM_OP_LINEAR_BWD_W) {
        s->pad_dy = slow_stride(s->rows, s->out, s->in);
        s->pad_x = slow_stride(s->rows, s->in, s->out);
        s->x_at = s->pad_dy ? trm_round_up(rows * out * sizeof(float), TRM_ALIGN) : 0;
        op->scratch_bytes = s->x_at + (s->pad_x ? rows * in * sizeof(float) : 0);
    }
}

trm_status trm_cpu_plan_linear(trm_device *d, trm_op *op) {
    const trm_op_desc *o = &op->desc;
    if (o->half) return trm_cpu_plan_linear_bf16(d, op);
    trm_cpu_run_fn run = o->kind == TRM_OP_LINEAR_FWD     ? run_fwd
                         : o->kind == TRM_OP_LINEAR_BWD_X ? run_bwd_x
                                                          : run_bwd_w;
    TRM_TRY(trm_cpu_own(op, sizeof(dense_state), NULL, run));
    dense_state *s = op->state;
    s->in = o->in.dim[o->in.rank - 1];
    s->out = o->out.dim[o->out.rank - 1];
    s->rows = o->n * (trm_shape_count(&o->in) / s->in);
    s->bias_act = trm_cpu_bias_act(trm_cpu_kernels(d), o->act);
    plan_scratch(op, s);
    snprintf(op->impl, sizeof op->impl, "sgemm%s", s->pad_w || s->pad_x || s->pad_dy ? "+pad" : "");
    return TRM_OK;
}
