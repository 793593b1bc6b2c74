/* nn: layers, the graph (a DAG from the start), the parameter table, the memory plan, the program of a step and
 * its runner.
 *
 * A model is built by adding layers to a graph; shapes are inferred and checked as it grows.  Strategies (room
 * `parallel`) rewrite the graph: they put communication nodes in.  The runner turns the graph into one short list of
 * instructions per rank and replays it; it never learns which strategy it runs, and talks only through the
 * table `trm_talk` that its owner fills.  Everything here is local.
 */
#ifndef TRIREME_NN_H
#define TRIREME_NN_H

#include <trireme/backend.h>

#define TRM_NAME_MAX 96
#define TRM_MAX_INPUTS 8            /* of a layer that reads several values */

typedef struct trm_graph trm_graph;

/* ---- layers ------------------------------------------------------------------------- */

#define TRM_INIT_LIST(X)                                                                    \
    X(DEFAULT, "default")                   /* the layer's own choice */                    \
    X(ZEROS, "zeros") X(ONES, "ones")                                                       \
    X(TORCH, "torch")                       /* U(-1/sqrt(fan_in), 1/sqrt(fan_in)), biases too: PyTorch's default */ \
    X(XAVIER_UNIFORM, "xavier_uniform") X(XAVIER_NORMAL, "xavier_normal")                   \
    X(KAIMING_UNIFORM, "kaiming_uniform") X(KAIMING_NORMAL, "kaiming_normal")   /* fan_in, gain sqrt 2 */ \
    X(NORMAL, "normal")                     /* mean 0, standard deviation `std` */
typedef enum trm_init {
#define X(name, text) TRM_INIT_##name,
    TRM_INIT_LIST(X)
#undef X
    TRM_INIT_COUNT
} trm_init;

/* Sizes along the axes of a value: n == 1 means at[0] for each axis, else there is one for each. */
typedef struct trm_sizes {
    int n;
    int64_t at[TRM_MAX_AXES];
} trm_sizes;
static inline trm_sizes trm_sizes_all(int64_t size) { return (trm_sizes){1, {size}}; }

/* All attributes that any layer knows; which ones a layer takes is in its table entry. */
typedef struct trm_layer_attr {
    int64_t out;                    /* linear: features; convolutions: channels */
    bool bias;
    trm_sizes kernel, stride, pad, dilation, output_pad;
    int64_t groups;
    trm_sizes size;                 /* adaptive pools: of the output */
    double eps, momentum, p;
    bool sync;                      /* batch_norm: statistics over all ranks */
    bool tanh;                      /* gelu: the tanh form */
    int64_t heads;
    bool causal;
    int64_t vocab, length, dim;
    int init;                       /* trm_init; biases are 0 unless it is TORCH */
    double std;
    double out_std;                 /* attention: `std` of its output projection; 0 = std */
    bool affine;                    /* group_norm: weight and bias per channel */
    trm_shape shape;                /* reshape */
    int64_t first;                  /* slice: first channel; `out` of them */
    int n_in;                       /* concat: values that it reads; set by who adds the layer */
    const char *tie;                /* name of the layer whose weight this one uses; NULL = own */
} trm_layer_attr;

typedef enum trm_attr_kind { TRM_ATTR_INT, TRM_ATTR_SIZES, TRM_ATTR_FLOAT, TRM_ATTR_BOOL, TRM_ATTR_INIT, TRM_ATTR_NAME, TRM_ATTR_SHAPE } trm_attr_kind;
/* One key of a layer in the job file.  SIZES: one integer, or one for each axis. */
typedef struct trm_attr_def {
    const char *key;
    trm_attr_kind kind;
    size_t offset;                  /* in trm_layer_attr */
    bool required;
    double def, min, max;           /* default and allowed range (INT, SIZES, FLOAT, BOOL) */
    const char *about;              /* "output features" */
} trm_attr_def;

/* The layer table: one const entry per file of nn/layers. */
typedef struct trm_layer_type {
    const char *name;               /* "conv2d" */
    const char *about;
    const trm_attr_def *attrs;      /* ends with key NULL */
    int inputs;                     /* 1 or 2; 0: two or more, attr.n_in of them */
    const char *main_attr;          /* key meant by the short form `linear: 512`; NULL = none */
    /* Adds the layer's node(s) to the graph; `name` is unique; *out gets the id of the node whose value is the layer's. */
    trm_status (*build)(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out);
} trm_layer_type;

TRM_API const trm_layer_type *const *trm_layer_types(void);         /* NULL-terminated */
TRM_API const trm_layer_type *trm_layer_find(const char *name);     /* NULL when unknown */
TRM_API void trm_layer_defaults(const trm_layer_type *t, trm_layer_attr *a);
TRM_API const char *trm_init_name(int init);
TRM_API const char *const *trm_init_names(void);                    /* NULL-terminated, for messages */

/* ---- graph -------------------------------------------------------------------------- */

typedef enum trm_loss_kind { TRM_LOSS_CROSS_ENTROPY, TRM_LOSS_MSE, TRM_LOSS_BCE } trm_loss_kind;
/* What cross-entropy takes besides; zero is the plain form. */
typedef struct trm_ce_spec {
    double smoothing;               /* share of the target that all classes have alike */
    bool ignores;                   /* targets of class `ignore` count neither in the loss nor in its count */
    int64_t ignore;
} trm_ce_spec;

/* input: canonical per-sample shape; tokens: int32 ids (T). */
TRM_API trm_status trm_graph_create(const trm_shape *input, bool tokens, trm_graph **out);
TRM_API void trm_graph_free(trm_graph *g);
TRM_API int trm_graph_input(const trm_graph *g);                    /* node id of the input, 0 */
TRM_API int trm_graph_output(const trm_graph *g);                   /* node id of the value that goes to the loss */
/* Adds a layer.  name: unique, "" = type and number ("linear2").  in: `t->inputs` node ids (a->n_in where that is 0).  A fault of attributes or shapes is
 * TRM_JOB with the layer's name, what was seen, what is allowed. */
TRM_API trm_status trm_graph_add(trm_graph *g, const trm_layer_type *t, const trm_layer_attr *a, const char *name, const int *in, int *out);
/* Marks the node whose value goes to the loss. The target's shape must fit: checked by trm_graph_check_loss. */
TRM_API trm_status trm_graph_set_output(trm_graph *g, int node);
TRM_API trm_status trm_graph_check_loss(const trm_graph *g, trm_loss_kind loss, const trm_shape *target, bool target_is_class, int64_t classes);

TRM_API int trm_graph_nodes(const trm_graph *g);
TRM_API const trm_shape *trm_graph_shape(const trm_graph *g, int node);
/* Channels of a value that lies in memory with its channels last though its shape has them first; 0 where memory follows the
 * shape.  (C,L) may be either: what 1-D layers make is the former. */
TRM_API int64_t trm_graph_channels_first(const trm_graph *g, int node);
TRM_API int trm_graph_find(const trm_graph *g, const char *name);   /* node id or -1 */

/* What `trireme check` prints of a node; FLOPs of one sample (a multiply and an add are two). */
typedef struct trm_node_info {
    const char *name, *kind;
    trm_shape out;
    int64_t params;                 /* own parameters; a tied one counts where it was made */
    double forward_flops, backward_flops;
    int64_t activation_bytes;       /* of its output, one sample, float32 */
    bool comm;                      /* a communication node */
} trm_node_info;
TRM_API trm_node_info trm_graph_node(const trm_graph *g, int node);

/* ---- parameter table ----------------------------------------------------------------- */

typedef enum trm_param_kind { TRM_PARAM, TRM_STATE } trm_param_kind;
/* Offsets and counts are elements of the flat index space of its kind: parameters (weights, gradients, moments share it) or state
 * (running statistics).  Each entry starts at a multiple of 16 elements. */
typedef struct trm_param {
    char name[TRM_NAME_MAX];        /* "conv1.weight" */
    trm_param_kind kind;
    trm_shape shape;                /* global, canonical */
    int64_t offset, count;
    bool decay;                     /* weight decay applies (not to norms and biases) */
    int init;
    double std;
    int64_t fan_in, fan_out;
} trm_param;
TRM_API int trm_graph_params(const trm_graph *g);
TRM_API const trm_param *trm_graph_param(const trm_graph *g, int i);
TRM_API int trm_graph_param_find(const trm_graph *g, const char *name);     /* index or -1 */
TRM_API int64_t trm_graph_param_space(const trm_graph *g);          /* elements of the flat parameter space (padded) */
TRM_API int64_t trm_graph_state_space(const trm_graph *g);
TRM_API int64_t trm_graph_param_count(const trm_graph *g);          /* true number of parameters */
/* Initial values on the host, float32, a pure function of (seed, table). weights: param_space, state: state_space elements. */
TRM_API void trm_graph_init(const trm_graph *g, uint64_t seed, float *weights, float *state);

/* ---- zoo: presets as short graph descriptions ------------------------------------------ */

typedef struct trm_zoo_spec {
    int64_t classes;                /* mlp, lenet, resnet: outputs */
    int64_t hidden[8]; int n_hidden;/* mlp: {512,512} */
    int64_t depth;                  /* resnet: 6n+2 */
    bool sync;                      /* resnet: batch norm over all ranks */
    int64_t layers, dim, heads, vocab, context;     /* gpt */
    double dropout;                 /* gpt */
} trm_zoo_spec;
TRM_API trm_status trm_zoo_mlp(trm_graph *g, const trm_zoo_spec *s, int in, int *out);
TRM_API trm_status trm_zoo_lenet(trm_graph *g, const trm_zoo_spec *s, int in, int *out);
TRM_API trm_status trm_zoo_resnet(trm_graph *g, const trm_zoo_spec *s, int in, int *out);
TRM_API trm_status trm_zoo_gpt(trm_graph *g, const trm_zoo_spec *s, int in, int *out);
/* One transformer block (pre-norm): ln, attention, add, ln, linear 4x, gelu tanh, linear, add; names "<name>.ln_1", ... */
typedef struct trm_block_spec { int64_t heads, expand; bool causal, tanh; double dropout; int init; double std, residual_std; } trm_block_spec;
TRM_API trm_status trm_zoo_transformer(trm_graph *g, const trm_block_spec *s, const char *name, int in, int *out);

/* ---- rewrites (used by room `parallel`) ------------------------------------------------ */

/* Inserts an all-reduce of `group` behind every batch-norm statistic that asks for sync. */
TRM_API trm_status trm_graph_reduce_stats(trm_graph *g, int group);
/* Cuts the gradient space in buckets of about `bucket_bytes` (float32), ready in the order of the backward pass, each with a node
 * that sums it over `group`; one more node sums the tail. */
TRM_API trm_status trm_graph_reduce_gradients(trm_graph *g, int group, int64_t bucket_bytes);

/* ---- program and runner ----------------------------------------------------------------- */

/* The runner's only way to talk.  buffer: 0 gradients (device float), 1 small (float64). */
typedef struct trm_talk_call {
    int group, channel, buffer;
    int64_t offset, count;
    const uint8_t *contributes;     /* per rank of the group */
    double *sumsq;
    const char *what;
} trm_talk_call;
typedef struct trm_talk {
    void *ctx;
    trm_status (*plan)(void *ctx, const trm_talk_call *call, void **request);
    trm_status (*post)(void *ctx, void *request);
    trm_status (*wait)(void *ctx, void *request);
    void (*release)(void *ctx, void *request);
} trm_talk;

/* How raw samples become the input and the target. */
typedef struct trm_load_spec {
    trm_dtype x_type, y_type;
    bool x_hwc;
    int64_t x_stride, y_stride;     /* bytes */
    trm_shape y;                    /* per-sample shape of the target */
    bool y_is_class;
    double scale;                   /* x = (raw*scale - mean) / std */
    const double *mean, *std;
    int64_t norm_count;
    double y_scale, y_mean;         /* float targets: y = raw*y_scale - y_mean; scale 0 = 1 */
} trm_load_spec;

typedef struct trm_optim_spec {
    trm_optimizer_kind kind;
    double momentum;                /* SGD, RMSprop */
    bool nesterov;
    double beta1, beta2, eps;       /* Adam's kin; eps: RMSprop too */
    double alpha;                   /* RMSprop: decay of the mean of squares */
    double weight_decay;
    bool decay_all;                 /* also norms and biases */
    double clip;                    /* global norm, 0 = none */
} trm_optim_spec;

typedef struct trm_runner_spec {
    const trm_graph *graph;         /* rewritten; must outlive the runner */
    trm_device *device;
    int ranks, rank;                /* of the data group */
    const trm_talk *talk;           /* NULL where the graph holds no communication nodes */
    trm_loss_kind loss;
    trm_ce_spec ce;
    trm_load_spec load;
    trm_optim_spec optim;
    bool half;                      /* products in bfloat16 where a layer gains by it; the device must have it (trm_device_half) */
    uint64_t seed;
    /* device floats, owned by the caller, 64-byte aligned: */
    void *weights, *grads, *m1, *m2;    /* param_space elements each; m1, m2 NULL where the optimizer has none */
    void *state;                        /* state_space elements */
    double *small;                      /* trm_graph_small_space doubles; the tail is at its start */
} trm_runner_spec;
typedef struct trm_runner trm_runner;

/* Doubles that the small buffer needs. */
TRM_API int64_t trm_graph_small_space(const trm_graph *g);
/* 0 none, 1 m1, 2 m1 and m2. */
TRM_API int trm_optim_moments(const trm_optim_spec *o);

TRM_API trm_status trm_runner_create(const trm_runner_spec *spec, trm_runner **out);
TRM_API void trm_runner_free(trm_runner *r);
/* Plans (or finds) the program of an update: counts[rank * micro_batches + k] samples of each rank in each micro-batch. Plan time.
 * Collective in effect: all ranks plan equal tables in one order. */
TRM_API trm_status trm_runner_plan(trm_runner *r, int micro_batches, const int64_t *counts, int *program);
/* Frees a program that will not run again; its number may be given to another. Collective in effect, as the plan is. */
TRM_API void trm_runner_forget(trm_runner *r, int program);
/* Plans a forward pass over n samples for evaluation. */
TRM_API trm_status trm_runner_plan_eval(trm_runner *r, int64_t n, int *program);

typedef struct trm_step_result {
    double loss;                    /* mean over the units of the global batch */
    double count, correct;
    double grad_norm;               /* of the mean gradient, before clipping */
    bool finite;                    /* loss and norm are finite and no rank raised the fault flag */
    bool applied;
} trm_step_result;
/* Replays an update: load, forward, loss, backward, reductions, clip, update.  step: caller fills update, lr, x_raw, y_raw, sample.
 * Where the result is not finite the update is not applied, on any rank.  fault: this rank raises the fault flag. */
TRM_API trm_status trm_runner_step(trm_runner *r, int program, trm_step *step, bool fault, trm_step_result *result);
/* Replays a forward pass; adds this rank's sums to step->tail (caller's). */
TRM_API trm_status trm_runner_eval(trm_runner *r, int program, trm_step *step);
/* Output of the last pass, n samples of the output node's shape, device floats. */
TRM_API const void *trm_runner_output(const trm_runner *r);

/* Seconds since the last reset, from the program's own stamps. */
typedef struct trm_runner_times {
    double load, forward, backward, update, wait;   /* wait: exposed communication */
    double backward_behind;         /* of backward: behind the first posted bucket, where its exchange can hide */
    int64_t steps;
    const double *node_forward, *node_backward;     /* per graph node */
} trm_runner_times;
TRM_API trm_runner_times trm_runner_time(const trm_runner *r);
TRM_API void trm_runner_time_reset(trm_runner *r);
TRM_API int64_t trm_runner_arena_bytes(const trm_runner *r);        /* activations, saved and scratch memory */
/* Text of a program, one instruction per line. */
TRM_API void trm_runner_describe(const trm_runner *r, int program, trm_str *out);

#endif
