/* conv2d: cross-correlation over (C,H,W); W (out, C/groups, kh, kw). */
#include "nn_impl.h"

#include <string.h>

/* Pixels that a kernel spans. */
static int64_t reach(const trm_layer_attr *a, int i) { return (a->kernel[i] - 1) * a->dilation[i] + 1; }

static trm_status check(const trm_layer_attr *a, const char *name, const trm_shape *x) {
    if (!trm_shape_is_image(x)) return trm_graph_wants_image("conv2d", name, x);
    if (x->dim[0] % a->groups || a->out % a->groups)
        return trm_fail(
            TRM_JOB, "layer '%s': groups is %lld, which must divide the %lld input and %lld output channels",
            name, (long long)a->groups, (long long)x->dim[0], (long long)a->out);
    for (int i = 0; i < 2; i++)
        if (x->dim[1 + i] + 2 * a->pad[i] < reach(a, i))
            return trm_fail(TRM_JOB,
                            "layer '%s': a kernel of %lld does not fit in %lld pixels with padding %lld",
                            name, (long long)reach(a, i), (long long)x->dim[1 + i], (long long)a->pad[i]);
    return TRM_OK;
}

static trm_status build(trm_graph *g, const trm_layer_attr *a, const char *name, const int *in, int *out) {
    const trm_shape x = g->nodes[in[0]].desc.out;
    TRM_TRY(check(a, name, &x));
    trm_node *n = trm_graph_new_node(g, TRM_NODE_CONV, name, 1, in);
    if (!n) return TRM_MEMORY;
    for (int i = 0; i < 2; i++) {
        n->desc.kernel[i] = a->kernel[i];
        n->desc.stride[i] = a->stride[i];
        n->desc.pad[i] = a->pad[i];
        n->desc.gap[i] = a->dilation[i] - 1;
        n->desc.out.dim[1 + i] = (x.dim[1 + i] + 2 * a->pad[i] - reach(a, i)) / a->stride[i] + 1;
    }
    n->desc.groups = a->groups;
    n->desc.out.dim[0] = a->out;
    *out = trm_node_id(g, n);
    const int64_t window = a->kernel[0] * a->kernel[1];
    trm_shape w = trm_shape_of(4, a->out, x.dim[0] / a->groups, a->kernel[0], a->kernel[1]);
    return trm_graph_weight_and_bias(g, *out, a, &w, x.dim[0] / a->groups * window,
                                     a->out / a->groups * window, a->out);
}

static const trm_attr_def attrs[] = {
    {"out", TRM_ATTR_INT, offsetof(trm_layer_attr, out), true, 0, 1, 1e6, "output channels"},
    {"kernel", TRM_ATTR_PAIR, offsetof(trm_layer_attr, kernel), true, 0, 1, 1024,
     "pixels, one number or [height, width]"},
    {"stride", TRM_ATTR_PAIR, offsetof(trm_layer_attr, stride), false, 1, 1, 1024, "pixels"},
    {"pad", TRM_ATTR_PAIR, offsetof(trm_layer_attr, pad), false, 0, 0, 1024, "zero pixels on each side"},
    {"dilation", TRM_ATTR_PAIR, offsetof(trm_layer_attr, dilation), false, 1, 1, 1024,
     "distance of the kernel's pixels; 1: side by side"},
    {"groups", TRM_ATTR_INT, offsetof(trm_layer_attr, groups), false, 1, 1, 1e6,
     "independent groups of channels"},
    {"bias", TRM_ATTR_BOOL, offsetof(trm_layer_attr, bias), false, 1, 0, 1, "adds a bias per channel"},
    {"init", TRM_ATTR_INIT, offsetof(trm_layer_attr, init), false, TRM_INIT_DEFAULT, 0, 0, "initial weights"},
    {"std", TRM_ATTR_FLOAT, offsetof(trm_layer_attr, std), false, 0.02, 0, 1e3,
     "standard deviation for init: normal"},
    {0},
};
const trm_layer_type trm_layer_conv2d = {"conv2d", "2-D convolution of images (C,H,W)", attrs, 1, "out",
                                         build};
