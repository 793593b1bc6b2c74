/* Pools over signals (C,L), images (C,H,W) and volumes (C,D,H,W).  max_pool, avg_pool: windows of one size, averages do not
 * count padding.  adaptive_max_pool, adaptive_avg_pool: outputs of one size.  global_pool: the mean of all. */
#include "nn_impl.h"

static trm_status new_pool(trm_graph *g, trm_pool_mode mode, const char *name, const int *in, int *out) {
    int from;
    TRM_TRY(trm_graph_as_space(g, "pooling", name, in[0], 1, TRM_MAX_AXES, &from));
    trm_node *n = trm_graph_new_node(g, TRM_NODE_POOL, name, 1, &from);
    if (!n) return TRM_MEMORY;
    n->desc.pool = mode;
    *out = trm_node_id(g, n);
    return TRM_OK;
}

/* ---- windows of one size ---- */

typedef struct windows {
    int64_t kernel[TRM_MAX_AXES], stride[TRM_MAX_AXES], pad[TRM_MAX_AXES];
} windows;

static trm_status check_window(const char *name, int64_t in, int64_t kernel, int64_t pad) {
    if (in + 2 * pad < kernel)
        return trm_fail(TRM_JOB, "layer '%s': a window of %lld does not fit in %lld pixels with padding %lld",
                        name, (long long)kernel, (long long)in, (long long)pad);
    if (2 * pad > kernel)
        return trm_fail(TRM_JOB, "layer '%s': padding %lld is more than half of the window %lld", name,
                        (long long)pad, (long long)kernel);
    return TRM_OK;
}

/* A stride that is not given is the window. */
static trm_status read_windows(const trm_layer_attr *a, const char *name, int axes, windows *w) {
    const trm_sizes *stride = a->stride.at[0] ? &a->stride : &a->kernel;
    TRM_TRY(trm_sizes_for(name, "kernel", &a->kernel, axes, w->kernel));
    TRM_TRY(trm_sizes_for(name, "stride", stride, axes, w->stride));
    return trm_sizes_for(name, "pad", &a->pad, axes, w->pad);
}

static trm_status add_windowed(trm_graph *g, trm_pool_mode mode, const trm_layer_attr *a, const char *name,
                               const int *in, int *out) {
    windows w;
    TRM_TRY(new_pool(g, mode, name, in, out));
    trm_node *n = &g->nodes[*out];
    trm_op_desc *d = &n->desc;
    const int axes = trm_node_axes(n), first = d->in.rank - 1 - axes;
    TRM_TRY(read_windows(a, name, axes, &w));
    for (int i = 0; i < first; i++) d->kernel[i] = d->stride[i] = 1; /* the height of a signal */
    for (int i = 0; i < axes; i++) {
        const int64_t size = d->in.dim[1 + first + i];
        TRM_TRY(check_window(name, size, w.kernel[i], w.pad[i]));
        d->kernel[first + i] = w.kernel[i];
        d->stride[first + i] = w.stride[i];
        d->pad[first + i] = w.pad[i];
        d->out.dim[1 + first + i] = (size + 2 * w.pad[i] - w.kernel[i]) / w.stride[i] + 1;
    }
    return TRM_OK;
}

static trm_status build_max(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                            int *out) {
    return add_windowed(g, TRM_POOL_MAX, a, name, in, out);
}

static trm_status build_avg(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                            int *out) {
    return add_windowed(g, TRM_POOL_AVG, a, name, in, out);
}

/* ---- outputs of one size ---- */

static trm_status add_adaptive(trm_graph *g, trm_pool_mode mode, const trm_sizes *size, const char *name,
                               const int *in, int *out) {
    int64_t to[TRM_MAX_AXES];
    char buf[80];
    TRM_TRY(new_pool(g, mode, name, in, out));
    trm_node *n = &g->nodes[*out];
    const int axes = trm_node_axes(n), first = n->desc.in.rank - axes;
    TRM_TRY(trm_sizes_for(name, "size", size, axes, to));
    for (int i = 0; i < axes; i++) n->desc.out.dim[first + i] = to[i];
    n->desc.adaptive = true;
    if (trm_shape_valid(&n->desc.out)) return TRM_OK;
    return trm_fail(TRM_JOB, "layer '%s': an output of shape %s is too large", name,
                    trm_shape_text(&n->desc.out, buf, sizeof buf));
}

static trm_status build_adaptive_max(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                                     int *out) {
    return add_adaptive(g, TRM_POOL_MAX, &a->size, name, in, out);
}

static trm_status build_adaptive_avg(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                                     int *out) {
    return add_adaptive(g, TRM_POOL_AVG, &a->size, name, in, out);
}

static trm_status build_global(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                               int *out) {
    (void)a;
    const trm_sizes one = trm_sizes_all(1);
    return add_adaptive(g, TRM_POOL_AVG, &one, name, in, out);
}

static const trm_attr_def attrs[] = {
    {"kernel", TRM_ATTR_SIZES, offsetof(trm_layer_attr, kernel), true, 0, 1, 1024,
     "window in pixels, one number or one for each axis (depth, height, width)"},
    {"stride", TRM_ATTR_SIZES, offsetof(trm_layer_attr, stride), false, 0, 1, 1024,
     "pixels; default: the window"},
    {"pad", TRM_ATTR_SIZES, offsetof(trm_layer_attr, pad), false, 0, 0, 512, "pixels on each side"},
    {0},
};
static const trm_attr_def adaptive_attrs[] = {
    {"size", TRM_ATTR_SIZES, offsetof(trm_layer_attr, size), true, 0, 1, 65536,
     "size of the output, one number or one for each axis (depth, height, width)"},
    {0},
};
static const trm_attr_def none[] = {{0}};
const trm_layer_type trm_layer_max_pool = {"max_pool", "largest value of each window", attrs, 1, "kernel",
                                           build_max};
const trm_layer_type trm_layer_avg_pool = {
    "avg_pool", "mean of each window, padding not counted", attrs, 1, "kernel", build_avg};
const trm_layer_type trm_layer_adaptive_max_pool = {
    "adaptive_max_pool",
    "largest value of each of `size` windows that divide the input",
    adaptive_attrs,
    1,
    "size",
    build_adaptive_max};
const trm_layer_type trm_layer_adaptive_avg_pool = {
    "adaptive_avg_pool", "mean of each of `size` windows that divide the input", adaptive_attrs, 1, "size",
    build_adaptive_avg};
const trm_layer_type trm_layer_global_pool = {
    "global_pool", "mean of each channel: (C,H,W) -> (C,1,1)", none, 1, NULL, build_global};
