/* backend: devices and the closed list of ops.
 *
 * Two tenses.  Plan: trm_op_plan checks a description, creates library primitives and says how
 * many bytes it wants to save (forward to backward) and to scratch.  Bind: fixes the addresses.
 * Run: trm_op_run replays it; no allocation, no look-up, no lock.
 *
 * A device computes in one float type: `cpu` in float32 (oneDNN and kernels/cpu), `ref` in float64
 * (kernels/ref, slow and obvious: the oracle of every test).  All "float" buffers below hold that
 * type.  Tokens and class labels are int32; statistics and loss sums are float64 on every device.
 *
 * bfloat16.  Where the device has it, arguments may lie in memory as bfloat16 (16 bits, uint16_t in C): desc.half names them.  LINEAR
 * and CONV whose factors (X, W and DY, as far as the pass reads them) lie so multiply in bfloat16 and add in float32.
 *
 * Layouts.  n samples lie one after the other.  A sample of three or more dimensions has its channels first: an image
 * (C,H,W) lies as (H,W,C), a volume (C,D,H,W) as (D,H,W,C); every other sample lies row-major in its canonical shape.
 * Parameters have PyTorch's canonical shape and order: linear (out,in), convolution (out,in/groups,k...), its transpose
 * (in,out/groups,k...), norms (C), embedding (vocab,C).
 * Everything here is local.
 */
#ifndef TRIREME_BACKEND_H
#define TRIREME_BACKEND_H

#include <trireme/tensor.h>

/* ---- the step block ----------------------------------------------------------------- */

/* What changes between two replays of the same program.  Written by the conductor before the
 * step; ops read it (and loss ops add to `tail`); instructions carry none of it. */
enum {
    TRM_TAIL_LOSS,                  /* sum of the losses of all units (samples or tokens) */
    TRM_TAIL_COUNT,                 /* number of units in that sum */
    TRM_TAIL_CORRECT,               /* correct answers among them (cross-entropy) */
    TRM_TAIL_FAULT,                 /* > 0: some rank raised the fault flag */
    TRM_TAIL_SUMSQ,                 /* sum of squares of the reduced gradient sums */
    TRM_TAIL_SIZE = 8
};
typedef struct trm_step {
    int64_t update;                 /* number of this update, from 1 */
    double lr;                      /* learning rate of this update */
    double inv_count;               /* 1 / global count: scales the gradient sums */
    double clip_factor;             /* 1 when nothing is clipped */
    const void *x_raw, *y_raw;      /* this rank's samples of the update, as the feed left them */
    const int64_t *sample;          /* global index of each of them (keys of random numbers) */
    double *tail;                   /* TRM_TAIL_SIZE sums of this update */
} trm_step;

/* ---- ops ---------------------------------------------------------------------------- */

typedef enum trm_act { TRM_ACT_NONE, TRM_ACT_RELU, TRM_ACT_GELU, TRM_ACT_GELU_TANH, TRM_ACT_TANH, TRM_ACT_SIGMOID, TRM_ACT_SILU, TRM_ACT_COUNT } trm_act;
/* Whether the slope of an activation needs its input; that of the others follows from the output. */
static inline bool trm_act_from_input(trm_act a) { return a == TRM_ACT_GELU || a == TRM_ACT_GELU_TANH || a == TRM_ACT_SILU; }

typedef enum trm_pool_mode { TRM_POOL_MAX, TRM_POOL_AVG } trm_pool_mode;   /* avg: padding is not counted */
typedef enum trm_optimizer_kind {
    TRM_OPT_SGD, TRM_OPT_ADAM, TRM_OPT_ADAMW, TRM_OPT_RMSPROP, TRM_OPT_LAMB, TRM_OPT_COUNT
} trm_optimizer_kind;
/* How many moments an optimizer keeps.  SGD: its momentum; RMSprop: the mean of squares, then its momentum; others: two. */
static inline int trm_optimizer_moments(trm_optimizer_kind k, double momentum) {
    if (k == TRM_OPT_SGD) return momentum != 0 ? 1 : 0;
    return k == TRM_OPT_RMSPROP && momentum == 0 ? 1 : 2;
}

/* The closed list.  Arguments in [brackets] may be NULL.  "acc" = desc.accumulate: the op adds to its
 * gradient outputs instead of overwriting them (the plan marks the first writer).
 * Gradients are sums over samples; nobody divides by a count before UPDATE.
 *
 * LOAD_X        step.x_raw + desc.first samples -> Y.  Float target: y = (raw*scale - mean[c]) / std[c], in one
 *               pass, from desc.raw_type, raw sample order desc.raw_hwc ? channels last : canonical.  Token target
 *               (desc.out_tokens): int32 ids.
 * LOAD_Y        step.y_raw likewise -> Y: int32 classes/tokens (desc.out_tokens) or float targets.
 * LINEAR_FWD    Y = act(X W^T + [B] + [RES]); rows = n * (in count / last dim).  act GELU*, SILU: PRE receives the
 *               pre-activation (always bound then).  RES and act exclude each other except that RES is added before NONE.
 *               in = (...,I) with last dim I, out = (...,O).
 * LINEAR_BWD_X  DX (acc)= DY W.  The backward of LINEAR and CONV ignores desc.act: an ACT_BWD before it has applied it to DY.
 * LINEAR_BWD_W  DW (acc)= DY^T X, [DB] (acc)= column sums of DY
 * CONV_FWD      Y = act(conv(X, W) + [B]), act NONE or RELU.  in (C,H,W), out (O,H',W'), or (C,D,H,W) and (O,D',H',W').
 *               desc.transposed: the transpose of the convolution that goes from out to in; W (C,O/groups,k...)
 * CONV_BWD_X    DX (acc)= ...;  CONV_BWD_W  DW, [DB] (acc)= ...
 * POOL_FWD      Y, SAVED <- X, an image or volume;  POOL_BWD  DX (acc) <- DY, SAVED, (X, Y are also bound).  desc.adaptive: output i of
 *               an axis sees inputs floor(i in/out) to ceil((i+1) in/out) - 1, and kernel, stride and pad are not read
 * BN_STATS      STAT <- X: 2C+1 doubles: sums, sums of squares, count of rows
 * BN_APPLY      Y = act(w * (x-mean)/sqrt(var+eps) + b + [RES]), act NONE or RELU; train: mean and biased variance from
 *               STAT (after its reduction); else from RUN_MEAN, RUN_VAR: C device floats
 * BN_RUN        RUN_MEAN, RUN_VAR move by desc.momentum towards STAT's mean and variance (unbiased, as PyTorch).  An op of its own, since
 *               a rank without samples runs it too
 * BN_GRAD_SUMS  DY (masked in place by Y > 0 where act is RELU: dy becomes the gradient before the relu) ->
 *               GSTAT: 2C doubles: sums of dy, of dy*xhat; DW, DB (acc)= those local sums.  Needs X, STAT, Y.
 * BN_GRAD_APPLY DX (acc)= w/sd * (dy - sum_dy/m - xhat*sum_dyx/m), m = STAT's count.  Needs X, STAT, DY, GSTAT, W.
 * LN_FWD        Y = layer norm of X over the last dim, [W], [B]; SAVED keeps mean and 1/sd per row
 * LN_BWD        DX (acc), [DW], [DB] <- DY, X, W, SAVED.  desc.accumulate is for DX, desc.accumulate_w for DW, DB.
 * GN_FWD        Y = group norm of X: channels in desc.groups groups, each normalised over its pixels and channels of one sample; [W], [B]
 *               per channel; SAVED keeps mean and 1/sd per sample and group.  X has its channels first, or is features (F)
 * GN_BWD        DX (acc), [DW], [DB] <- DY, X, W, SAVED.  desc.accumulate is for DX, desc.accumulate_w for DW, DB.
 * SOFTMAX_FWD   Y = exp(X) / sum of exp(X), over the channels where they come first, else over the last dim;  SOFTMAX_BWD  DX (acc) <- DY, Y
 * ACT_FWD       Y = act(X);  ACT_BWD  DX (acc)= DY * act'(…): RELU, TANH, SIGMOID from Y; GELU*, SILU from X.
 *               DX may be DY itself (in place) when not acc.
 * DROPOUT_FWD   Y = X * mask / (1-p), mask from Philox(seed, DROPOUT, layer, update, sample, canonical element);
 *               DROPOUT_BWD  DX (acc)= DY * same mask.  X may be Y, DX may be DY.  eval: the plan leaves it out.
 * FLATTEN_FWD   Y (canonical order) <- X (channels last in memory);  FLATTEN_BWD  DX (acc) <- DY.  (shape change only)
 * UNFLATTEN_FWD Y (channels last in memory) <- X (canonical order);  UNFLATTEN_BWD  DX (acc) <- DY
 * CONCAT_FWD    channels desc.at and following of Y = X; the others stay as they are.  Channels are the first dim of three or
 *               more, else the last dim; in and out agree in all other dims.  CONCAT_BWD  DX (acc)= those channels of DY
 * EMBED_FWD     Y[t] = W[X[t]] (X int32 (T), out (T,C), W has desc.count rows: the vocabulary);  EMBED_BWD  DW (acc)= ...
 *               (not acc: all desc.count rows are written).  A token outside [0, count) fails EMBED_FWD with TRM_DATA.
 * POSEMB_FWD    Y = X + W[0..T) ; X, out (T,C);  POSEMB_BWD  DW (acc)= sum over samples of DY  (dx = dy: no op)
 * ATTN_FWD      Y (T,C), SAVED <- X (T,3C) = q|k|v, heads in each third side by side; scale 1/sqrt(C/heads);
 *               memory linear in T.   ATTN_BWD  DX (acc) <- DY, X, Y, SAVED
 * ADD_FWD       Y = act(X + X2), act NONE or RELU.  X may be Y.
 * ADD_INTO      DX += DY  (sums gradients of a value with several readers)
 * COPY          DX = DY
 * CAST          Y = X, where X or Y may lie as bfloat16: rounded to the nearest, ties to even
 * LOSS_CE       X logits (...,C) as rows (channels first: a row per place in space), T int32 per row -> tail; train: DX = softmax - onehot (sum, not mean).
 *               Equal largest logits: the first is the answer.  A class outside [0, C) fails the run with TRM_DATA.
 *               desc.smoothing e: the target is 1 - e for the class and e/C for all.  desc.ignores: a row whose class is desc.ignore
 *               counts nowhere and has no gradient.
 * LOSS_MSE      X predictions, T float of the same shape -> tail: loss of a sample = mean over its elements of the
 *               squared difference, count = samples; train: DX = 2 (x-t) / elements.
 * LOSS_BCE      X logits, T float of the same shape, each in [0, 1] -> tail: loss of a sample = mean over its elements of
 *               log(1 + exp(x)) - x t, count = samples; train: DX = (sigmoid(x) - t) / elements.
 * UPDATE        W, G, [M1], [M2] over desc.count elements with desc.optimizer, step.lr, inv_count, clip_factor.  LAMB takes the
 *               elements as one tensor: its step has the norm of W
 * SUMSQ         step.tail[TRM_TAIL_SUMSQ] += sum of squares of G over desc.count elements (float64 accumulation)
 */
#define TRM_OP_LIST(X)                                                                      \
    X(LOAD_X) X(LOAD_Y)                                                                     \
    X(LINEAR_FWD) X(LINEAR_BWD_X) X(LINEAR_BWD_W)                                           \
    X(CONV_FWD) X(CONV_BWD_X) X(CONV_BWD_W)                                                 \
    X(POOL_FWD) X(POOL_BWD)                                                                 \
    X(BN_STATS) X(BN_APPLY) X(BN_RUN) X(BN_GRAD_SUMS) X(BN_GRAD_APPLY)                           \
    X(LN_FWD) X(LN_BWD) X(GN_FWD) X(GN_BWD) X(SOFTMAX_FWD) X(SOFTMAX_BWD)                   \
    X(ACT_FWD) X(ACT_BWD) X(DROPOUT_FWD) X(DROPOUT_BWD)                 \
    X(FLATTEN_FWD) X(FLATTEN_BWD) X(UNFLATTEN_FWD) X(UNFLATTEN_BWD)                        \
    X(CONCAT_FWD) X(CONCAT_BWD) X(EMBED_FWD) X(EMBED_BWD) X(POSEMB_FWD) X(POSEMB_BWD)     \
    X(ATTN_FWD) X(ATTN_BWD) X(ADD_FWD) X(ADD_INTO) X(COPY) X(CAST)                                  \
    X(LOSS_CE) X(LOSS_MSE) X(LOSS_BCE) X(UPDATE) X(SUMSQ)
typedef enum trm_op_kind {
#define X(name) TRM_OP_##name,
    TRM_OP_LIST(X)
#undef X
    TRM_OP_COUNT
} trm_op_kind;

/* Arguments by name. */
#define TRM_ARG_LIST(X)                                                                     \
    X(X) X(X2) X(Y) X(W) X(B) X(RES) X(PRE) X(T) X(DX) X(DY) X(DW) X(DB) X(G) X(M1) X(M2)   \
    X(STAT) X(GSTAT) X(RUN_MEAN) X(RUN_VAR) X(SAVED)
typedef enum trm_arg {
#define X(name) TRM_ARG_##name,
    TRM_ARG_LIST(X)
#undef X
    TRM_ARG_COUNT
} trm_arg;
#define TRM_HALF(arg) (UINT32_C(1) << (arg))

/* Everything that a plan of an op depends on; unused fields are zero. */
typedef struct trm_op_desc {
    trm_op_kind kind;
    uint32_t half;                  /* arguments that lie as bfloat16, a mask of TRM_HALF(arg); see "bfloat16" above */
    int64_t n;                      /* samples in this slice, >= 1 */
    trm_shape in, out;              /* canonical per-sample shapes of X and Y */
    trm_act act;
    bool accumulate;                /* add to DX / DW / DB */
    bool accumulate_w;              /* LN_BWD, GN_BWD: add to DW, DB */
    bool train;
    bool bias;                      /* B (or DB) is there */
    bool residual;                  /* RES is there */
    int64_t kernel[TRM_MAX_AXES], stride[TRM_MAX_AXES], pad[TRM_MAX_AXES], groups;  /* axis a is dimension a + 1 */
    int64_t gap[TRM_MAX_AXES];      /* CONV: pixels left out between two of the kernel; PyTorch's dilation - 1 */
    bool transposed;                /* CONV */
    bool adaptive;                  /* POOL */
    int64_t at;                     /* CONCAT: first channel */
    trm_pool_mode pool;
    int64_t heads;
    bool causal;
    double eps, momentum, p;
    double smoothing;               /* LOSS_CE */
    bool ignores;
    int64_t ignore;
    uint64_t seed;
    uint32_t layer;                 /* global layer id, keys random numbers */
    /* loads */
    trm_dtype raw_type;
    bool raw_hwc, out_tokens;
    int64_t first;                  /* first sample of the slice within the rank's samples of the update */
    int64_t raw_stride;             /* bytes from one raw sample to the next */
    double scale;
    const double *mean, *std;       /* per channel (dim 0 where channels come first, else one number); NULL = 0 and 1; the caller's, alive as long as the op */
    int64_t norm_count;             /* entries in mean and std: 0, 1 or C */
    /* updates */
    int64_t count;                  /* elements; EMBED: rows of W */
    trm_optimizer_kind optimizer;
    double beta1, beta2, weight_decay;   /* beta1 is SGD's and RMSprop's momentum, beta2 RMSprop's alpha; weight_decay 0 where a range does not decay */
    bool nesterov;
} trm_op_desc;

typedef struct trm_device trm_device;
typedef struct trm_op trm_op;

/* What a back end provides.  One const table per device kind; the registry in backend.c is the
 * only list of them.  A NULL entry of `plan` results in a sentence at plan time; NULL `open`, `close`, `bind` or `destroy`: nothing
 * to do.  A failed `open` or `plan` has released what it took: `close` or `destroy` is not called then. */
typedef struct trm_backend {
    const char *name;               /* "cpu" */
    const char *about;              /* "float32, oneDNN 2.6.3, AVX-512" may be refined at open */
    size_t float_size;              /* 4 or 8: size of the device's float */
    trm_status (*open)(trm_device *d);          /* fills d->state */
    void (*close)(trm_device *d);
    trm_status (*plan)(trm_device *d, trm_op *op);  /* reads op->desc; sets state, saved_bytes, scratch_bytes, impl */
    trm_status (*bind)(trm_op *op);             /* reads op->arg, op->scratch */
    trm_status (*run)(trm_op *op, const trm_step *step);
    void (*destroy)(trm_op *op);
    /* bfloat16; both NULL where the device has none.  Whether this machine multiplies in it, else a sentence why not; and whether a
     * layer gains by it: a pure function of the layer's shape and the machine, never of n. */
    trm_status (*half)(const trm_device *d);
    bool (*half_pays)(const trm_device *d, const trm_op_desc *forward);
} trm_backend;

struct trm_device {
    const trm_backend *backend;
    int threads;
    char about[128];                /* for `trireme info` and the run's log */
    void *state;
};
struct trm_op {
    trm_device *device;
    trm_op_desc desc;
    void *arg[TRM_ARG_COUNT];
    void *scratch;
    size_t saved_bytes;             /* wanted in SAVED (the same for the FWD and BWD of equal descriptions) */
    size_t scratch_bytes;           /* wanted while it runs; shared by all ops of a program */
    char impl[64];                  /* which implementation was chosen, e.g. "brgconv:avx512_core" */
    void *state;                    /* the back end's */
    trm_status (*run)(trm_op *op, const trm_step *step);    /* set by plan: the hot path is one call */
};

/* Opens a device by back end name.  threads >= 1: OpenMP threads of this rank. */
TRM_API trm_status trm_device_open(const char *backend, int threads, trm_device **out);
TRM_API void trm_device_close(trm_device *d);
TRM_API const trm_backend *const *trm_backends(void);   /* NULL-terminated */
/* TRM_OK where the device multiplies in bfloat16, else TRM_MACHINE. */
TRM_API trm_status trm_device_half(const trm_device *d);
/* Whether a layer, given by its LINEAR_FWD or CONV_FWD, is better computed with bfloat16 factors; all its passes take them then. */
TRM_API bool trm_op_half_pays(const trm_device *d, const trm_op_desc *forward);

/* Checks the description against the op's rules (shapes, n, act), then asks the back end. */
TRM_API trm_status trm_op_plan(trm_device *d, const trm_op_desc *desc, trm_op **out);
/* Fixes addresses; args has TRM_ARG_COUNT entries, those that the op needs must not be NULL.  Buffers must
 * outlive the op; all are aligned to 64 bytes.  scratch: scratch_bytes, may be shared. */
TRM_API trm_status trm_op_bind(trm_op *op, void *const args[TRM_ARG_COUNT], void *scratch);
static inline trm_status trm_op_run(trm_op *op, const trm_step *step) { return op->run(op, step); }
TRM_API void trm_op_destroy(trm_op *op);
TRM_API const char *trm_op_name(trm_op_kind k);         /* "linear_fwd" */
TRM_API const char *trm_act_name(trm_act a);

#endif
