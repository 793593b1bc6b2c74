/* resnet: the residual networks for small images (He et al. 2016, section 4.2) of depth 6n+2: three groups of n basic
 * blocks with 16, 32 and 64 channels.  Where a block changes the shape, its shortcut is a 1x1 convolution with batch norm
 * (option B of the paper).  Names follow torchvision: layer1.0.conv1, layer2.0.downsample.0, fc. */
#include "zoo.h"

static trm_status conv(trm_graph *g, int64_t channels, int64_t kernel, int64_t stride, const char *name,
                       int *at) {
    trm_layer_attr a = trm_zoo_attr("conv2d");
    a.out = channels;
    a.kernel = trm_sizes_all(kernel);
    a.stride = trm_sizes_all(stride);
    a.pad = trm_sizes_all(kernel / 2);
    a.bias = false;
    a.init = TRM_INIT_KAIMING_NORMAL;
    return trm_zoo_layer(g, "conv2d", &a, name, at);
}

static trm_status norm(trm_graph *g, bool sync, const char *name, int *at) {
    trm_layer_attr a = trm_zoo_attr("batch_norm");
    a.sync = sync;
    return trm_zoo_layer(g, "batch_norm", &a, name, at);
}

static trm_status shortcut(trm_graph *g, bool sync, int64_t channels, int64_t stride, const char *block,
                           int *at) {
    char name[TRM_NAME_MAX];
    if (trm_graph_shape(g, *at)->dim[0] == channels && stride == 1) return TRM_OK;
    TRM_TRY(conv(g, channels, 1, stride, trm_zoo_name(name, block, "downsample.0"), at));
    return norm(g, sync, trm_zoo_name(name, block, "downsample.1"), at);
}

/* relu(bn(conv(relu(bn(conv(x))))) + shortcut(x)) */
static trm_status basic_block(trm_graph *g, bool sync, int64_t channels, int64_t stride, const char *block,
                              int *at) {
    char name[TRM_NAME_MAX];
    int side = *at, sum;
    TRM_TRY(conv(g, channels, 3, stride, trm_zoo_name(name, block, "conv1"), at));
    TRM_TRY(norm(g, sync, trm_zoo_name(name, block, "bn1"), at));
    TRM_TRY(trm_zoo_layer(g, "relu", NULL, trm_zoo_name(name, block, "relu1"), at));
    TRM_TRY(conv(g, channels, 3, 1, trm_zoo_name(name, block, "conv2"), at));
    TRM_TRY(norm(g, sync, trm_zoo_name(name, block, "bn2"), at));
    TRM_TRY(shortcut(g, sync, channels, stride, block, &side));
    trm_layer_attr add = trm_zoo_attr("add");
    TRM_TRY(trm_graph_add(g, trm_layer_find("add"), &add, trm_zoo_name(name, block, "add"),
                          (const int[]){*at, side}, &sum));
    *at = sum;
    return trm_zoo_layer(g, "relu", NULL, trm_zoo_name(name, block, "relu2"), at);
}

trm_status trm_zoo_resnet(trm_graph *g, const trm_zoo_spec *s, int in, int *out) {
    char name[TRM_NAME_MAX];
    int at = in;
    if (s->depth < 8 || (s->depth - 2) % 6)
        return trm_fail(TRM_JOB, "a resnet of depth %lld is not possible; allowed are 6n+2: 8, 14, 20, ...",
                        (long long)s->depth);
    int blocks = (int)((s->depth - 2) / 6);
    TRM_TRY(conv(g, 16, 3, 1, "conv1", &at));
    TRM_TRY(norm(g, s->sync, "bn1", &at));
    TRM_TRY(trm_zoo_layer(g, "relu", NULL, "relu", &at));
    for (int group = 0; group < 3; group++) {
        for (int b = 0; b < blocks; b++) {
            int64_t stride = group > 0 && b == 0 ? 2 : 1;
            snprintf(name, sizeof name, "layer%d.%d", group + 1, b);
            TRM_TRY(basic_block(g, s->sync, 16 << group, stride, name, &at));
        }
    }
    TRM_TRY(trm_zoo_layer(g, "global_pool", NULL, "avgpool", &at));
    TRM_TRY(trm_zoo_layer(g, "flatten", NULL, "flatten", &at));
    TRM_TRY(trm_zoo_linear(g, s->classes, "fc", &at));
    *out = at;
    return TRM_OK;
}
