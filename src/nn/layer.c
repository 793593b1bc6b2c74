/* The layer table: the only list of layer types. */
#include "nn_impl.h"

#include <string.h>

extern const trm_layer_type trm_layer_linear, trm_layer_conv1d, trm_layer_conv2d, trm_layer_conv3d,
    trm_layer_conv_transpose1d, trm_layer_conv_transpose2d, trm_layer_conv_transpose3d, trm_layer_max_pool,
    trm_layer_avg_pool, trm_layer_adaptive_max_pool, trm_layer_adaptive_avg_pool, trm_layer_global_pool,
    trm_layer_batch_norm, trm_layer_layer_norm, trm_layer_relu, trm_layer_gelu, trm_layer_tanh,
    trm_layer_sigmoid, trm_layer_dropout, trm_layer_flatten, trm_layer_embedding,
    trm_layer_positional_embedding, trm_layer_attention, trm_layer_add, trm_layer_silu, trm_layer_softmax,
    trm_layer_group_norm, trm_layer_reshape, trm_layer_transpose, trm_layer_concat, trm_layer_slice;

static const trm_layer_type *const types[] = {
    &trm_layer_linear,
    &trm_layer_conv1d,
    &trm_layer_conv2d,
    &trm_layer_conv3d,
    &trm_layer_conv_transpose1d,
    &trm_layer_conv_transpose2d,
    &trm_layer_conv_transpose3d,
    &trm_layer_max_pool,
    &trm_layer_avg_pool,
    &trm_layer_adaptive_max_pool,
    &trm_layer_adaptive_avg_pool,
    &trm_layer_global_pool,
    &trm_layer_batch_norm,
    &trm_layer_layer_norm,
    &trm_layer_group_norm,
    &trm_layer_relu,
    &trm_layer_gelu,
    &trm_layer_silu,
    &trm_layer_tanh,
    &trm_layer_sigmoid,
    &trm_layer_softmax,
    &trm_layer_dropout,
    &trm_layer_flatten,
    &trm_layer_reshape,
    &trm_layer_transpose,
    &trm_layer_embedding,
    &trm_layer_positional_embedding,
    &trm_layer_attention,
    &trm_layer_add,
    &trm_layer_concat,
    &trm_layer_slice,
    NULL,
};

const trm_layer_type *const *trm_layer_types(void) { return types; }

const trm_layer_type *trm_layer_find(const char *name) {
    for (int i = 0; types[i]; i++)
        if (!strcmp(types[i]->name, name)) return types[i];
    return NULL;
}

static void set_default(const trm_attr_def *d, trm_layer_attr *a) {
    char *at = (char *)a + d->offset;
    switch (d->kind) {
    case TRM_ATTR_INT: *(int64_t *)at = (int64_t)d->def; break;
    case TRM_ATTR_SIZES: *(trm_sizes *)at = trm_sizes_all((int64_t)d->def); break;
    case TRM_ATTR_FLOAT: *(double *)at = d->def; break;
    case TRM_ATTR_BOOL: *(bool *)at = d->def != 0; break;
    case TRM_ATTR_INIT: *(int *)at = (int)d->def; break;
    case TRM_ATTR_NAME: *(const char **)at = NULL; break;
    case TRM_ATTR_SHAPE: *(trm_shape *)at = (trm_shape){0}; break;
    }
}

void trm_layer_defaults(const trm_layer_type *t, trm_layer_attr *a) {
    memset(a, 0, sizeof *a);
    a->groups = 1;
    a->stride = a->dilation = trm_sizes_all(1);
    for (const trm_attr_def *d = t->attrs; d->key; d++) set_default(d, a);
}

static const char *const init_names[] = {
#define X(name, text) text,
    TRM_INIT_LIST(X)
#undef X
        NULL,
};

const char *trm_init_name(int init) { return init >= 0 && init < TRM_INIT_COUNT ? init_names[init] : "?"; }
const char *const *trm_init_names(void) { return init_names; }
