/* conv1d, conv2d, conv3d: cross-correlation over signals, images and volumes; W (out, C/groups, kernel).
 * conv_transpose1d, ...: their transposes, which enlarge (Zeiler et al. 2010); W (C, out/groups, kernel). */
#include "nn_impl.h"

/* One layer as its attributes ask for it; sizes are of the axes that people see. */
typedef struct conv {
    const char *type;
    int axes;
    bool transposed;
    int64_t out, groups;
    int64_t kernel[TRM_MAX_AXES], stride[TRM_MAX_AXES], pad[TRM_MAX_AXES], dilation[TRM_MAX_AXES];
    int64_t more
        [TRM_MAX_AXES]; /* transposed: of the sizes whose convolution has the input's size, how far above the least */
} conv;

static trm_status read_sizes(const trm_layer_attr *a, const char *name, conv *c) {
    TRM_TRY(trm_sizes_for(name, "kernel", &a->kernel, c->axes, c->kernel));
    TRM_TRY(trm_sizes_for(name, "stride", &a->stride, c->axes, c->stride));
    TRM_TRY(trm_sizes_for(name, "pad", &a->pad, c->axes, c->pad));
    TRM_TRY(trm_sizes_for(name, "dilation", &a->dilation, c->axes, c->dilation));
    return c->transposed ? trm_sizes_for(name, "output_pad", &a->output_pad, c->axes, c->more) : TRM_OK;
}

/* Pixels that a kernel spans. */
static int64_t reach(const conv *c, int i) { return (c->kernel[i] - 1) * c->dilation[i] + 1; }

static trm_status size_of_conv(const conv *c, const char *name, int i, int64_t in, int64_t *out) {
    if (in + 2 * c->pad[i] < reach(c, i))
        return trm_fail(TRM_JOB, "layer '%s': a kernel of %lld does not fit in %lld pixels with padding %lld",
                        name, (long long)reach(c, i), (long long)in, (long long)c->pad[i]);
    *out = (in + 2 * c->pad[i] - reach(c, i)) / c->stride[i] + 1;
    return TRM_OK;
}

static trm_status size_of_transpose(const conv *c, const char *name, int i, int64_t in, int64_t *out) {
    if (c->more[i] >= c->stride[i])
        return trm_fail(TRM_JOB, "layer '%s': output_pad is %lld, which must be below the stride, %lld", name,
                        (long long)c->more[i], (long long)c->stride[i]);
    *out = (in - 1) * c->stride[i] - 2 * c->pad[i] + reach(c, i) + c->more[i];
    if (*out >= 1) return TRM_OK;
    return trm_fail(TRM_JOB,
                    "layer '%s': a kernel of %lld with stride %lld over %lld pixels leaves none of them with "
                    "padding %lld",
                    name, (long long)reach(c, i), (long long)c->stride[i], (long long)in,
                    (long long)c->pad[i]);
}

/* Groups divide the channels, and on each axis something is left. */
static trm_status infer(const conv *c, const char *name, const trm_node *x, trm_shape *out) {
    const trm_shape *in = &x->desc.out;
    const int first = in->rank - c->axes;
    char buf[80];
    if (in->dim[0] % c->groups || c->out % c->groups)
        return trm_fail(
            TRM_JOB, "layer '%s': groups is %lld, which must divide the %lld input and %lld output channels",
            name, (long long)c->groups, (long long)in->dim[0], (long long)c->out);
    *out = *in;
    out->dim[0] = c->out;
    for (int i = 0; i < c->axes; i++)
        TRM_TRY((c->transposed ? size_of_transpose : size_of_conv)(c, name, i, in->dim[first + i],
                                                                   &out->dim[first + i]));
    if (trm_shape_valid(out)) return TRM_OK;
    return trm_fail(TRM_JOB, "layer '%s': an output of shape %s is too large", name,
                    trm_shape_text(out, buf, sizeof buf));
}

static void describe(const conv *c, const trm_shape *out, trm_op_desc *d) {
    const int axes = out->rank - 1, first = axes - c->axes;
    for (int i = 0; i < first; i++) d->kernel[i] = d->stride[i] = 1; /* the height of a signal */
    for (int i = 0; i < c->axes; i++) {
        d->kernel[first + i] = c->kernel[i];
        d->stride[first + i] = c->stride[i];
        d->pad[first + i] = c->pad[i];
        d->gap[first + i] = c->dilation[i] - 1;
    }
    d->groups = c->groups;
    d->transposed = c->transposed;
    d->out = *out;
}

/* Weights of the convolution; a transpose has those of the one that goes the other way. */
static trm_status add_weights(trm_graph *g, int node, const conv *c, const trm_layer_attr *a) {
    const int64_t in = g->nodes[node].desc.in.dim[0];
    const int64_t from = c->transposed ? c->out : in, to = c->transposed ? in : c->out;
    trm_shape w = {2 + c->axes, {to, from / c->groups}};
    int64_t window = 1;
    for (int i = 0; i < c->axes; i++) {
        w.dim[2 + i] = c->kernel[i];
        window *= c->kernel[i];
    }
    return trm_graph_weight_and_bias(g, node, a, &w, from / c->groups * window, to / c->groups * window,
                                     c->out);
}

static trm_status add_conv(trm_graph *g, conv *c, const trm_layer_attr *a, const char *name, const int *in,
                           int *out) {
    trm_shape shape;
    int from;
    c->out = a->out;
    c->groups = a->groups;
    TRM_TRY(trm_graph_as_space(g, c->type, name, in[0], c->axes, c->axes, &from));
    TRM_TRY(read_sizes(a, name, c));
    TRM_TRY(infer(c, name, &g->nodes[from], &shape));
    trm_node *n = trm_graph_new_node(g, TRM_NODE_CONV, name, 1, &from);
    if (!n) return TRM_MEMORY;
    describe(c, &shape, &n->desc);
    *out = trm_node_id(g, n);
    return add_weights(g, *out, c, a);
}

/* clang-format off */
#define COMMON \
    {"out", TRM_ATTR_INT, offsetof(trm_layer_attr, out), true, 0, 1, 1e6, "output channels"}, \
    {"kernel", TRM_ATTR_SIZES, offsetof(trm_layer_attr, kernel), true, 0, 1, 1024, \
     "pixels, one number or one for each axis (depth, height, width)"}, \
    {"stride", TRM_ATTR_SIZES, offsetof(trm_layer_attr, stride), false, 1, 1, 1024, "pixels"}, \
    {"pad", TRM_ATTR_SIZES, offsetof(trm_layer_attr, pad), false, 0, 0, 1024, PADDING}, \
    {"dilation", TRM_ATTR_SIZES, offsetof(trm_layer_attr, dilation), false, 1, 1, 1024, \
     "distance of the kernel's pixels; 1: side by side"}, \
    {"groups", TRM_ATTR_INT, offsetof(trm_layer_attr, groups), false, 1, 1, 1e6, "independent groups of channels"}, \
    {"bias", TRM_ATTR_BOOL, offsetof(trm_layer_attr, bias), false, 1, 0, 1, "adds a bias per channel"}, \
    {"init", TRM_ATTR_INIT, offsetof(trm_layer_attr, init), false, TRM_INIT_DEFAULT, 0, 0, "initial weights"}, \
    {"std", TRM_ATTR_FLOAT, offsetof(trm_layer_attr, std), false, 0.02, 0, 1e3, "standard deviation for init: normal"}

#define PADDING "zero pixels on each side"
static const trm_attr_def attrs[] = {COMMON, {0}};
#undef PADDING
#define PADDING "pixels that are cut off on each side of the output"
static const trm_attr_def transposed_attrs[] = {
    COMMON,
    {"output_pad", TRM_ATTR_SIZES, offsetof(trm_layer_attr, output_pad), false, 0, 0, 1023,
     "pixels more at the end of each axis of the output; below the stride"},
    {0},
};

#define CONV(n, what) \
    static trm_status build_##n##d(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) { \
        conv c = {.type = "conv" #n "d", .axes = n}; \
        return add_conv(g, &c, a, name, in, out); \
    } \
    static trm_status build_transpose##n##d(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) { \
        conv c = {.type = "conv_transpose" #n "d", .axes = n, .transposed = true}; \
        return add_conv(g, &c, a, name, in, out); \
    } \
    const trm_layer_type trm_layer_conv##n##d = { \
        "conv" #n "d", #n "-D convolution of " what, attrs, 1, "out", build_##n##d}; \
    const trm_layer_type trm_layer_conv_transpose##n##d = { \
        "conv_transpose" #n "d", "transpose of a " #n "-D convolution, which enlarges " what, transposed_attrs, 1, "out", \
        build_transpose##n##d};
CONV(1, "signals (C,L)")
CONV(2, "images (C,H,W)")
CONV(3, "volumes (C,D,H,W)")
/* clang-format on */
