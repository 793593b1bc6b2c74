/* lenet: LeNet as Caffe trains it (LeCun et al. 1998, with max pooling and relu): two convolutions, two linear layers. */
#include "zoo.h"

/* Convolution 5x5, relu, max pooling 2x2. */
static trm_status stage(trm_graph *g, int number, int64_t channels, int *at) {
    char name[TRM_NAME_MAX];
    trm_layer_attr conv = trm_zoo_attr("conv2d"), pool = trm_zoo_attr("max_pool");
    conv.out = channels;
    conv.kernel = trm_sizes_all(5);
    pool.kernel = trm_sizes_all(2);
    snprintf(name, sizeof name, "conv%d", number);
    TRM_TRY(trm_zoo_layer(g, "conv2d", &conv, name, at));
    snprintf(name, sizeof name, "relu%d", number);
    TRM_TRY(trm_zoo_layer(g, "relu", NULL, name, at));
    snprintf(name, sizeof name, "pool%d", number);
    return trm_zoo_layer(g, "max_pool", &pool, name, at);
}

trm_status trm_zoo_lenet(trm_graph *g, const trm_zoo_spec *s, int in, int *out) {
    int at = in;
    TRM_TRY(stage(g, 1, 20, &at));
    TRM_TRY(stage(g, 2, 50, &at));
    TRM_TRY(trm_zoo_layer(g, "flatten", NULL, "flatten", &at));
    TRM_TRY(trm_zoo_linear(g, 500, "fc1", &at));
    TRM_TRY(trm_zoo_layer(g, "relu", NULL, "relu3", &at));
    TRM_TRY(trm_zoo_linear(g, s->classes, "fc2", &at));
    *out = at;
    return TRM_OK;
}
