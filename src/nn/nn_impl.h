/* Private to nn: nodes of the graph and what the files of this room share. */
#ifndef TRM_NN_IMPL_H
#define TRM_NN_IMPL_H

#include <trireme/nn.h>

/* A layer of the job file becomes one or more nodes; batch norm, for one, is a statistic and its use,
 * so that a strategy can put a reduction between them. */
typedef enum trm_node_kind {
    TRM_NODE_INPUT,
    TRM_NODE_LINEAR,
    TRM_NODE_CONV,
    TRM_NODE_POOL,
    TRM_NODE_BN_STATS,
    TRM_NODE_BN_APPLY,
    TRM_NODE_LAYER_NORM,
    TRM_NODE_GROUP_NORM,
    TRM_NODE_ACT,
    TRM_NODE_SOFTMAX,
    TRM_NODE_DROPOUT,
    TRM_NODE_FLATTEN,
    TRM_NODE_UNFLATTEN,
    TRM_NODE_TRANSPOSE,             /* (C,L) and back: the same memory, seen the other way */
    TRM_NODE_EMBED,
    TRM_NODE_POSEMB,
    TRM_NODE_ATTENTION,
    TRM_NODE_ADD,
    TRM_NODE_CONCAT,
    TRM_NODE_SLICE,                 /* of the input: it has no backward */
    /* communication: put in by rewrites only */
    TRM_NODE_SUM_STATS,             /* sums a batch-norm statistic (and, backward, its gradient sums) over a group */
    TRM_NODE_SUM_GRADS,             /* sums the gradients of [begin, end) over a group */
    TRM_NODE_SUM_TAIL,              /* sums the tail over a group */
    TRM_NODE_KIND_COUNT
} trm_node_kind;

typedef struct trm_node {
    trm_node_kind kind;
    char name[TRM_NAME_MAX];
    int n_in, in[TRM_MAX_INPUTS];   /* ids of earlier nodes */
    trm_op_desc desc;               /* shapes and attributes; kind, n and the flags of a phase are filled when it is lowered */
    bool tokens;                    /* the value is int32 ids */
    bool signal;                    /* desc.out is (C,1,L), which people see as (C,L) */
    trm_shape shown;                /* the value's shape as people see it */
    int weight, bias;               /* entries of the parameter table, -1 = none */
    int run_mean, run_var;          /* batch norm: state entries */
    int64_t own_params;
    bool sync;                      /* BN_STATS: wants its statistic over all ranks */
    int64_t stat, gstat;            /* BN_STATS: offsets of its sums and gradient sums in the small buffer */
    int group;                      /* communication nodes */
    int64_t begin, end;             /* SUM_GRADS: range of the parameter space */
} trm_node;

struct trm_graph {
    trm_node *nodes;
    int n_nodes, cap_nodes;
    trm_param *params;
    int n_params, cap_params;
    int64_t param_space, state_space, small_space;
    uint32_t layers;                /* layer ids handed out: keys of random numbers, stable under rewrites */
    int output;
};

/* A new node with its name, input ids and `in` shape set; NULL (recorded) when out of memory. */
trm_node *trm_graph_new_node(trm_graph *g, trm_node_kind kind, const char *name, int n_in, const int *in);
/* Adds "<node>.<suffix>" to the table; returns its index or -1 (recorded). */
int trm_graph_new_param(trm_graph *g, const char *node, const char *suffix, trm_param_kind kind, const trm_shape *shape,
                        bool decay, int init, double std, int64_t fan_in, int64_t fan_out);
/* Room in the small buffer (float64), padded; returns its offset. */
int64_t trm_graph_new_small(trm_graph *g, int64_t count);
/* Weight and bias of a node that multiplies: the default init is PyTorch's. */
trm_status trm_graph_weight_and_bias(trm_graph *g, int node, const trm_layer_attr *a, const trm_shape *weight, int64_t fan_in,
                                     int64_t fan_out, int64_t biases);
/* ---- space.c: values whose channels come first ---- */

/* Axes beside the channels: 1 for signals, 2 for images, 3 for volumes, 0 for all else. */
int trm_node_axes(const trm_node *n);
/* The shape of a value as people see it, and its text. */
trm_shape trm_node_shape(const trm_node *n);
const char *trm_node_shape_text(const trm_node *n, char buf[80]);
/* Adds what turns (C,L), as it lies in a file, into a signal. */
trm_status trm_graph_as_signal(trm_graph *g, const char *name, int in, int *out);
/* Where one of the values is a signal, those of two dimensions become signals too. */
trm_status trm_graph_alike(trm_graph *g, const char *name, int count, int *in);
/* The value with low to high axes, turned into a signal where that makes it one; else the sentence that says what `type` reads. */
trm_status trm_graph_as_space(trm_graph *g, const char *type, const char *name, int in, int low, int high, int *out);
/* One size for each of the axes. */
trm_status trm_sizes_for(const char *name, const char *key, const trm_sizes *s, int axes, int64_t out[TRM_MAX_AXES]);

static inline int trm_node_id(const trm_graph *g, const trm_node *n) { return (int)(n - g->nodes); }
static inline bool trm_node_is_comm(const trm_node *n) { return n->kind >= TRM_NODE_SUM_STATS; }
static inline int64_t trm_shape_last(const trm_shape *s) { return s->rank ? s->dim[s->rank - 1] : 1; }

/* FLOPs of one sample, forward; backward without the first layer's input gradient is at most twice that. */
double trm_node_flops(const trm_node *n);

/* ---- lowering: graph -> the ops of a pass over n samples --------------------------------- */

/* bfloat16 copies of the weights that products read, made again from the float32 ones at the start of every program. */
typedef struct trm_half_weights {
    int64_t *at;                    /* per parameter: where its copy begins in `copy`, -1 = it has none */
    uint16_t *copy;
    trm_op **casts;
    int *nodes;                     /* of each cast: the first node that reads the copy */
    int n_casts;
} trm_half_weights;

/* Where an argument lies: fixed memory, or a region of the arena that the memory plan places. */
typedef struct trm_region {
    int64_t bytes;
    int first, last;                /* instructions that write it first and read it last */
    int64_t offset;                 /* set by the memory plan */
} trm_region;

typedef enum trm_phase { TRM_PHASE_LOAD, TRM_PHASE_FORWARD, TRM_PHASE_BACKWARD, TRM_PHASE_UPDATE, TRM_PHASE_WAIT, TRM_PHASE_COUNT } trm_phase;

typedef enum trm_lowered_kind { TRM_LOWERED_OP, TRM_LOWERED_SUM } trm_lowered_kind;
typedef struct trm_lowered {
    trm_lowered_kind kind;
    trm_phase phase;
    int node;
    trm_op *op;
    int region[TRM_ARG_COUNT];      /* index of a region, or -1 */
    void *fixed[TRM_ARG_COUNT];     /* used where region is -1 */
    /* SUM: a statistic in the small buffer, summed over a group */
    int group;
    int64_t offset, count;
} trm_lowered;

/* The ops of one micro-batch in order. */
typedef struct trm_pass {
    int64_t n;
    trm_lowered *list;
    int n_list, cap_list;
    trm_region *regions;
    int n_regions, cap_regions;
    int *last_write;                /* per parameter: last instruction that writes its gradient, -1 = none */
    int output_region;
    int64_t arena_bytes, scratch_bytes;
} trm_pass;

typedef struct trm_pass_spec {
    int64_t n, first;               /* samples, and the first one's place among the rank's samples of the update */
    bool train;
    bool accumulate;                /* gradients of an earlier micro-batch are there already */
    const trm_half_weights *half;   /* NULL: everything in float32 */
} trm_pass_spec;

trm_status trm_pass_lower(const trm_runner_spec *r, const trm_pass_spec *s, trm_pass **out);
trm_status trm_pass_bind(trm_pass *p, char *arena, void *scratch);
void trm_pass_free(trm_pass *p);

/* Places regions so that those alive at the same time do not overlap; returns the bytes needed. Pure. */
int64_t trm_arena_place(trm_region *regions, int n);

#endif
