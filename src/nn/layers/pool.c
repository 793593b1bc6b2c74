/* max_pool, avg_pool, global_pool over (C,H,W).  Averages do not count padding. */
#include "nn_impl.h"

static trm_status add_pool(trm_graph *g, trm_pool_mode mode, const int64_t kernel[2], const int64_t stride[2],
                           const int64_t pad[2], const char *name, const int *in, int *out) {
    const trm_shape x = g->nodes[in[0]].desc.out;
    if (!trm_shape_is_image(&x)) return trm_graph_wants_image("pooling", name, &x);
    for (int i = 0; i < 2; i++) {
        if (x.dim[1 + i] + 2 * pad[i] < kernel[i])
            return trm_fail(TRM_JOB,
                            "layer '%s': a window of %lld does not fit in %lld pixels with padding %lld",
                            name, (long long)kernel[i], (long long)x.dim[1 + i], (long long)pad[i]);
        if (2 * pad[i] > kernel[i])
            return trm_fail(TRM_JOB, "layer '%s': padding %lld is more than half of the window %lld", name,
                            (long long)pad[i], (long long)kernel[i]);
    }
    trm_node *n = trm_graph_new_node(g, TRM_NODE_POOL, name, 1, in);
    if (!n) return TRM_MEMORY;
    n->desc.pool = mode;
    for (int i = 0; i < 2; i++) {
        n->desc.kernel[i] = kernel[i];
        n->desc.stride[i] = stride[i];
        n->desc.pad[i] = pad[i];
        n->desc.out.dim[1 + i] = (x.dim[1 + i] + 2 * pad[i] - kernel[i]) / stride[i] + 1;
    }
    *out = trm_node_id(g, n);
    return TRM_OK;
}

/* stride 0 (not given) = the window. */
static trm_status add_windowed(trm_graph *g, trm_pool_mode mode, const trm_layer_attr *a, const char *name,
                               const int *in, int *out) {
    int64_t stride[2];
    for (int i = 0; i < 2; i++) stride[i] = a->stride[i] ? a->stride[i] : a->kernel[i];
    return add_pool(g, mode, a->kernel, stride, a->pad, name, in, out);
}

static trm_status build_max(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                            int *out) {
    return add_windowed(g, TRM_POOL_MAX, a, name, in, out);
}

static trm_status build_avg(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                            int *out) {
    return add_windowed(g, TRM_POOL_AVG, a, name, in, out);
}

static trm_status build_global(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in,
                               int *out) {
    (void)a;
    const trm_shape x = g->nodes[in[0]].desc.out;
    const int64_t kernel[2] = {x.rank == 3 ? x.dim[1] : 1, x.rank == 3 ? x.dim[2] : 1}, stride[2] = {1, 1},
                  pad[2] = {0, 0};
    return add_pool(g, TRM_POOL_AVG, kernel, stride, pad, name, in, out);
}

static const trm_attr_def attrs[] = {
    {"kernel", TRM_ATTR_PAIR, offsetof(trm_layer_attr, kernel), true, 0, 1, 1024,
     "window in pixels, one number or [height, width]"},
    {"stride", TRM_ATTR_PAIR, offsetof(trm_layer_attr, stride), false, 0, 1, 1024,
     "pixels; default: the window"},
    {"pad", TRM_ATTR_PAIR, offsetof(trm_layer_attr, pad), false, 0, 0, 512, "pixels on each side"},
    {0},
};
static const trm_attr_def none[] = {{0}};
const trm_layer_type trm_layer_max_pool = {"max_pool", "largest value of each window", attrs, 1, "kernel",
                                           build_max};
const trm_layer_type trm_layer_avg_pool = {
    "avg_pool", "mean of each window, padding not counted", attrs, 1, "kernel", build_avg};
const trm_layer_type trm_layer_global_pool = {
    "global_pool", "mean of each channel: (C,H,W) -> (C,1,1)", none, 1, NULL, build_global};
