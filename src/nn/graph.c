/* The graph: nodes in an order in which each comes after its inputs. */
#include "nn_impl.h"

#include <string.h>

trm_status trm_graph_create(const trm_shape *input, bool tokens, trm_graph **out) {
    char buf[80];
    if (!trm_shape_valid(input) || input->rank < 1)
        return trm_fail(TRM_JOB, "an input of shape %s is not possible",
                        trm_shape_text(input, buf, sizeof buf));
    trm_graph *g = trm_alloc(sizeof *g, "graph");
    if (!g) return TRM_MEMORY;
    g->small_space = TRM_TAIL_SIZE;
    trm_node *n = trm_graph_new_node(g, TRM_NODE_INPUT, "input", 0, NULL);
    if (!n) {
        trm_graph_free(g);
        return TRM_MEMORY;
    }
    n->tokens = tokens;
    n->desc.in = n->desc.out = n->shown = *input;
    *out = g;
    return TRM_OK;
}

void trm_graph_free(trm_graph *g) {
    if (!g) return;
    trm_free(g->nodes);
    trm_free(g->params);
    trm_free(g);
}

trm_node *trm_graph_new_node(trm_graph *g, trm_node_kind kind, const char *name, int n_in, const int *in) {
    if (g->n_nodes == g->cap_nodes) {
        int cap = g->cap_nodes ? 2 * g->cap_nodes : 32;
        trm_node *p =
            trm_realloc(g->nodes, (size_t)g->cap_nodes * sizeof *p, (size_t)cap * sizeof *p, "graph");
        if (!p) return NULL;
        g->nodes = p;
        g->cap_nodes = cap;
    }
    trm_node *n = &g->nodes[g->n_nodes++];
    memset(n, 0, sizeof *n);
    n->kind = kind;
    snprintf(n->name, sizeof n->name, "%s", name);
    n->n_in = n_in;
    for (int i = 0; i < n_in; i++) n->in[i] = in[i];
    n->weight = n->bias = n->run_mean = n->run_var = -1;
    n->desc.groups = 1;
    if (n_in) {
        n->desc.in = n->desc.out = g->nodes[in[0]].desc.out;
        n->signal = g->nodes[in[0]].signal;
    }
    n->desc.layer = g->layers;
    return n;
}

int64_t trm_graph_new_small(trm_graph *g, int64_t count) {
    int64_t at = g->small_space;
    g->small_space += (int64_t)trm_round_up((size_t)count, TRM_ALIGN / sizeof(double));
    return at;
}

int trm_graph_input(const trm_graph *g) {
    (void)g;
    return 0;
}

int trm_graph_output(const trm_graph *g) { return g->output; }

int trm_graph_find(const trm_graph *g, const char *name) {
    for (int i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i].name, name)) return i;
    /* An attention layer's value is that of its output projection. */
    char proj[TRM_NAME_MAX + 8];
    snprintf(proj, sizeof proj, "%s.proj", name);
    for (int i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i].name, proj)) return i;
    return -1;
}

/* "linear2": the second layer of its type without a name of its own. */
static void make_name(const trm_graph *g, const trm_layer_type *t, char *name, size_t cap) {
    for (int k = 1;; k++) {
        snprintf(name, cap, "%s%d", t->name, k);
        bool taken = trm_graph_find(g, name) >= 0;
        char prefix[TRM_NAME_MAX + 1];
        snprintf(prefix, sizeof prefix, "%s.", name);
        for (int i = 0; i < g->n_nodes && !taken; i++)
            taken = !strncmp(g->nodes[i].name, prefix, strlen(prefix));
        if (!taken) return;
    }
}

static trm_status check_name(const trm_graph *g, const char *name) {
    if (strlen(name) >= TRM_NAME_MAX - 16)
        return trm_fail(TRM_JOB, "layer name '%.40s...' has %zu bytes; allowed are %d", name, strlen(name),
                        TRM_NAME_MAX - 17);
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == '/' || *p == '"' || *p == '\\' || (unsigned char)*p >= 127)
            return trm_fail(TRM_JOB,
                            "layer name '%s' holds a character other than letters, digits, '_', '-' and '.'",
                            name);
    char weight[TRM_NAME_MAX + 8];
    snprintf(weight, sizeof weight, "%s.weight", name);
    if (trm_graph_find(g, name) >= 0 || trm_graph_param_find(g, weight) >= 0)
        return trm_fail(TRM_JOB, "two layers are named '%s'; names must be unique", name);
    return TRM_OK;
}

static trm_status check_inputs(const trm_graph *g, const trm_layer_type *t, const trm_layer_attr *a,
                               const char *name, const int *in) {
    const int inputs = t->inputs ? t->inputs : a->n_in;
    if (!t->inputs && (inputs < 2 || inputs > TRM_MAX_INPUTS))
        return trm_fail(TRM_JOB, "layer '%s': %s reads 2 to %d values, not %d", name, t->name, TRM_MAX_INPUTS,
                        inputs);
    for (int i = 0; i < inputs; i++) {
        if (in[i] < 0 || in[i] >= g->n_nodes)
            return trm_fail(TRM_INTERNAL, "layer '%s' reads node %d of %d", name, in[i], g->n_nodes);
        if (g->nodes[in[i]].tokens && strcmp(t->name, "embedding"))
            return trm_fail(TRM_JOB, "layer '%s': %s cannot read token ids; put an embedding before it", name,
                            t->name);
    }
    return TRM_OK;
}

trm_status trm_graph_add(trm_graph *g, const trm_layer_type *t, const trm_layer_attr *a, const char *name,
                         const int *in, int *out) {
    char made[TRM_NAME_MAX];
    if (!name || !name[0]) {
        make_name(g, t, made, sizeof made);
        name = made;
    }
    TRM_TRY(check_name(g, name));
    TRM_TRY(check_inputs(g, t, a, name, in));
    const int first = g->n_nodes;
    g->layers++;
    TRM_TRY(t->build(g, a, name, in, out));
    for (int i = first; i < g->n_nodes; i++) g->nodes[i].shown = trm_node_shape(&g->nodes[i]);
    if (g->n_nodes > 100000) return trm_fail(TRM_JOB, "the model has more than 100000 layers");
    g->output = *out;
    return TRM_OK;
}

trm_status trm_graph_set_output(trm_graph *g, int node) {
    if (node <= 0 || node >= g->n_nodes) return trm_fail(TRM_JOB, "the model has no layers");
    g->output = node;
    return TRM_OK;
}

/* Has the target the space of the node's value, and no channels, or one? */
static bool is_map_of(const trm_node *n, const trm_shape *target) {
    const trm_shape s = trm_node_shape(n);
    const int from = target->rank == s.rank && target->dim[0] == 1 ? 1 : 0;
    const trm_shape space = trm_shape_from(s.rank - 1, s.dim + 1);
    const trm_shape map = trm_shape_from(target->rank - from, target->dim + from);
    return trm_shape_equal(&space, &map);
}

static trm_status check_cross_entropy(const trm_graph *g, const trm_shape *target, bool target_is_class,
                                      int64_t classes) {
    const trm_node *out = &g->nodes[g->output];
    const trm_shape *y = &out->desc.out;
    char a[80], b[80];
    if (!target_is_class)
        return trm_fail(TRM_JOB,
                        "cross_entropy needs class labels, the data has float targets; use loss: mse or bce");
    /* One class for each place in space: the channels are the classes. */
    const int64_t outputs = y->dim[trm_shape_channel_dim(y)], rows = trm_shape_count(y) / outputs;
    if (rows != trm_shape_count(target) || (trm_shape_channels_first(y) && !is_map_of(out, target)))
        return trm_fail(TRM_JOB, "the model's output %s does not fit targets of shape %s",
                        trm_node_shape_text(out, a), trm_shape_text(target, b, sizeof b));
    if (classes > outputs)
        return trm_fail(TRM_JOB, "the model has %lld outputs but the labels reach %lld (%lld classes)",
                        (long long)outputs, (long long)classes - 1, (long long)classes);
    return TRM_OK;
}

trm_status trm_graph_check_loss(const trm_graph *g, trm_loss_kind loss, const trm_shape *target,
                                bool target_is_class, int64_t classes) {
    char a[80], b[80];
    if (g->output <= 0) return trm_fail(TRM_JOB, "the model has no layers");
    if (!g->param_space)
        return trm_fail(TRM_JOB, "the model has no parameters, so there is nothing to train");
    if (g->nodes[g->output].tokens)
        return trm_fail(TRM_JOB, "the model's output is token ids; it must be numbers");
    if (loss == TRM_LOSS_CROSS_ENTROPY) return check_cross_entropy(g, target, target_is_class, classes);
    const trm_node *y = &g->nodes[g->output];
    if (target_is_class)
        return trm_fail(TRM_JOB,
                        "%s needs float targets, the data has class labels; use loss: cross_entropy or "
                        "data.target_type: float",
                        loss == TRM_LOSS_MSE ? "mse" : "bce");
    if (trm_shape_count(&y->desc.out) != trm_shape_count(target))
        return trm_fail(TRM_JOB, "the model's output %s does not fit targets of shape %s",
                        trm_node_shape_text(y, a), trm_shape_text(target, b, sizeof b));
    return TRM_OK;
}

int trm_graph_nodes(const trm_graph *g) { return g->n_nodes; }
const trm_shape *trm_graph_shape(const trm_graph *g, int node) { return &g->nodes[node].shown; }

int64_t trm_graph_channels_first(const trm_graph *g, int node) {
    const trm_shape *s = &g->nodes[node].desc.out;
    return trm_shape_channels_first(s) ? s->dim[0] : 0;
}

static const char *const kind_names[TRM_NODE_KIND_COUNT] = {
    "input",
    "linear",
    "conv",
    "pool",
    "batch_norm_stats",
    "batch_norm",
    "layer_norm",
    "group_norm",
    "act",
    "softmax",
    "dropout",
    "flatten",
    "unflatten",
    "transpose",
    "embedding",
    "positional_embedding",
    "attention",
    "add",
    "concat",
    "slice",
    "sum_stats",
    "sum_gradients",
    "sum_tail",
};

static const char *kind_name(const trm_node *n) {
    static const char *const convs[2][1 + TRM_MAX_AXES] = {
        {"conv", "conv1d", "conv2d", "conv3d"},
        {"conv", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"},
    };
    if (n->kind == TRM_NODE_ACT) return trm_act_name(n->desc.act);
    return n->kind == TRM_NODE_CONV ? convs[n->desc.transposed][trm_node_axes(n)] : kind_names[n->kind];
}

/* Pixels under a window. */
static double window(const trm_op_desc *d) {
    double pixels = 1;
    for (int a = 0; a < d->in.rank - 1; a++) pixels *= (double)d->kernel[a];
    return pixels;
}

/* Each pixel on the side that a convolution's kernel is laid around meets its weights once. */
static double conv_flops(const trm_op_desc *d) {
    const trm_shape *from = d->transposed ? &d->out : &d->in, *to = d->transposed ? &d->in : &d->out;
    return 2 * (double)trm_shape_count(to) * (double)(from->dim[0] / d->groups) * window(d);
}

double trm_node_flops(const trm_node *n) {
    const double in = (double)trm_shape_count(&n->desc.in), out = (double)trm_shape_count(&n->desc.out);
    switch (n->kind) {
    case TRM_NODE_LINEAR: return 2 * out * (double)trm_shape_last(&n->desc.in);
    case TRM_NODE_CONV: return conv_flops(&n->desc);
    case TRM_NODE_ATTENTION: return 4 * (double)n->desc.in.dim[0] * out;
    case TRM_NODE_POOL: return n->desc.adaptive ? in : out * window(&n->desc);
    case TRM_NODE_BN_STATS: return 3 * in;
    case TRM_NODE_BN_APPLY: return 2 * out;
    case TRM_NODE_LAYER_NORM:
    case TRM_NODE_GROUP_NORM: return 8 * out;
    case TRM_NODE_SOFTMAX: return 10 * out;
    case TRM_NODE_ACT: return n->desc.act == TRM_ACT_RELU ? out : 10 * out;
    case TRM_NODE_DROPOUT:
    case TRM_NODE_POSEMB:
    case TRM_NODE_ADD: return out;
    default: return 0;
    }
}

/* Whether a value is the input, if under another shape. */
static bool is_input(const trm_graph *g, int node) {
    const trm_node *n = &g->nodes[node];
    while (n->kind == TRM_NODE_FLATTEN || n->kind == TRM_NODE_UNFLATTEN || n->kind == TRM_NODE_TRANSPOSE)
        n = &g->nodes[n->in[0]];
    return n->kind == TRM_NODE_INPUT;
}

/* A product's two gradients cost as much as two forward products; the first layer's input needs none. */
static double backward_flops(const trm_graph *g, const trm_node *n) {
    const double f = trm_node_flops(n);
    const bool product = n->kind == TRM_NODE_LINEAR || n->kind == TRM_NODE_CONV;
    if (product) return is_input(g, n->in[0]) ? f : 2 * f;
    return n->kind == TRM_NODE_ATTENTION ? 2.5 * f : f;
}

trm_node_info trm_graph_node(const trm_graph *g, int node) {
    const trm_node *n = &g->nodes[node];
    const bool value = n->kind != TRM_NODE_BN_STATS && !trm_node_is_comm(n);
    return (trm_node_info){
        .name = n->name,
        .kind = kind_name(n),
        .out = n->shown,
        .params = n->own_params,
        .forward_flops = trm_node_flops(n),
        .backward_flops = backward_flops(g, n),
        .activation_bytes = value ? 4 * trm_shape_count(&n->desc.out) : 0,
        .comm = trm_node_is_comm(n),
    };
}
