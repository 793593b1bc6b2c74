/* Small models that between them use every layer, with data of the right shape. */
#ifndef TRIREME_TESTS_NN_ZOO_H
#define TRIREME_TESTS_NN_ZOO_H

#include "nn_model.h"

typedef struct nn_case {
    const char *name;
    trm_graph *(*make)(void);
    trm_loss_kind loss;
    bool tokens;
    int64_t y;                      /* elements of a target; 0 = scalar class */
    trm_ce_spec ce;
} nn_case;

static inline trm_graph *nn_new(int rank, int64_t a, int64_t b, int64_t c, bool tokens) {
    trm_shape s = {rank, {a, b, c}};
    trm_graph *g;
    assert_ok(trm_graph_create(&s, tokens, &g));
    return g;
}

static inline int nn_linear(trm_graph *g, int in, int64_t out) {
    trm_layer_attr a = nn_attr("linear");
    a.out = out;
    return nn_add(g, "linear", "", in, 0, &a);
}

static inline int nn_conv(trm_graph *g, int in, int64_t out, int64_t k, int64_t stride, int64_t pad, int64_t groups, bool bias) {
    trm_layer_attr a = nn_attr("conv2d");
    a.out = out;
    a.kernel = trm_sizes_all(k);
    a.stride = trm_sizes_all(stride);
    a.pad = trm_sizes_all(pad);
    a.groups = groups;
    a.bias = bias;
    return nn_add(g, "conv2d", "", in, 0, &a);
}

static inline trm_graph *nn_make_mlp(void) {
    trm_graph *g = nn_new(1, 7, 0, 0, false);
    int n = nn_add(g, "relu", "", nn_linear(g, 0, 9), 0, NULL);
    n = nn_add(g, "tanh", "", nn_linear(g, n, 8), 0, NULL);
    n = nn_add(g, "sigmoid", "", nn_linear(g, n, 6), 0, NULL);
    nn_linear(g, n, 4);
    return g;
}

static inline trm_graph *nn_make_regress(void) {
    trm_graph *g = nn_new(1, 7, 0, 0, false);
    int n = nn_add(g, "gelu", "", nn_linear(g, 0, 9), 0, NULL);
    int a = nn_linear(g, n, 9);
    n = nn_add(g, "add", "", a, n, NULL);       /* residual into the linear */
    n = nn_add(g, "add", "", n, n, NULL);       /* twice the same value */
    nn_linear(g, nn_add(g, "batch_norm", "", n, 0, NULL), 3);
    return g;
}

static inline trm_graph *nn_make_conv(void) {
    trm_graph *g = nn_new(3, 2, 9, 8, false);
    int n = nn_add(g, "relu", "", nn_conv(g, 0, 4, 3, 1, 1, 1, true), 0, NULL);
    trm_layer_attr p = nn_attr("max_pool");
    p.kernel = trm_sizes_all(2);
    n = nn_add(g, "max_pool", "", n, 0, &p);
    n = nn_add(g, "gelu", "", nn_conv(g, n, 6, 3, 1, 0, 2, true), 0, NULL);
    n = nn_add(g, "flatten", "", n, 0, NULL);
    trm_layer_attr d = nn_attr("dropout");
    d.p = 0.3;
    n = nn_add(g, "dropout", "", n, 0, &d);
    nn_linear(g, n, 4);
    return g;
}

/* Two residual blocks, one with a projected shortcut, the shape of a ResNet. */
static inline trm_graph *nn_make_resnet(void) {
    trm_graph *g = nn_new(3, 2, 6, 6, false);
    int n = nn_add(g, "batch_norm", "", nn_conv(g, 0, 4, 3, 1, 1, 1, false), 0, NULL);
    int in = n = nn_add(g, "relu", "", n, 0, NULL);
    n = nn_add(g, "relu", "", nn_add(g, "batch_norm", "", nn_conv(g, n, 4, 3, 1, 1, 1, false), 0, NULL), 0, NULL);
    n = nn_add(g, "batch_norm", "", nn_conv(g, n, 4, 3, 1, 1, 1, false), 0, NULL);
    in = n = nn_add(g, "relu", "", nn_add(g, "add", "", n, in, NULL), 0, NULL);
    n = nn_add(g, "relu", "", nn_add(g, "batch_norm", "", nn_conv(g, n, 6, 3, 2, 1, 1, false), 0, NULL), 0, NULL);
    n = nn_add(g, "batch_norm", "", nn_conv(g, n, 6, 3, 1, 1, 1, false), 0, NULL);
    int s = nn_add(g, "batch_norm", "", nn_conv(g, in, 6, 1, 2, 0, 1, false), 0, NULL);
    n = nn_add(g, "relu", "", nn_add(g, "add", "", n, s, NULL), 0, NULL);
    n = nn_add(g, "flatten", "", nn_add(g, "global_pool", "", n, 0, NULL), 0, NULL);
    nn_linear(g, n, 4);
    return g;
}

/* Values with several readers, additions that cannot be fused, average pooling. */
static inline trm_graph *nn_make_web(void) {
    trm_graph *g = nn_new(3, 2, 6, 6, false);
    int a = nn_conv(g, 0, 4, 3, 1, 1, 1, true);
    int r = nn_add(g, "relu", "", a, 0, NULL);
    int s = nn_add(g, "add", "", a, r, NULL);
    int t = nn_add(g, "relu", "", nn_add(g, "add", "", s, a, NULL), 0, NULL);
    trm_layer_attr p = nn_attr("avg_pool");
    p.kernel = trm_sizes_all(3);
    p.stride = trm_sizes_all(2);
    p.pad = trm_sizes_all(1);
    int u = nn_add(g, "avg_pool", "", t, 0, &p);
    int v = nn_add(g, "flatten", "", u, 0, NULL);
    int w = nn_add(g, "layer_norm", "", v, 0, NULL);
    nn_linear(g, nn_add(g, "add", "", w, v, NULL), 4);
    return g;
}

static inline trm_graph *nn_make_gpt(void) {
    trm_graph *g = nn_new(1, 6, 0, 0, true);
    trm_layer_attr e = nn_attr("embedding"), at = nn_attr("attention"), l = nn_attr("linear"), ge = nn_attr("gelu");
    e.vocab = 11;
    e.dim = 8;
    at.heads = 2;
    ge.tanh = true;
    int x = nn_add(g, "positional_embedding", "wpe", nn_add(g, "embedding", "wte", 0, 0, &e), 0, NULL);
    for (int k = 0; k < 2; k++) {
        int h = nn_add(g, "attention", "", nn_add(g, "layer_norm", "", x, 0, NULL), 0, &at);
        x = nn_add(g, "add", "", x, h, NULL);
        h = nn_add(g, "gelu", "", nn_linear(g, nn_add(g, "layer_norm", "", x, 0, NULL), 16), 0, &ge);
        x = nn_add(g, "add", "", x, nn_linear(g, h, 8), NULL);
    }
    l.out = 11;
    l.bias = false;
    l.tie = "wte";
    nn_add(g, "linear", "head", nn_add(g, "layer_norm", "", x, 0, NULL), 0, &l);
    return g;
}

static inline int nn_concat(trm_graph *g, int n, const int *in) {
    trm_layer_attr a = nn_attr("concat");
    int out = -1;
    a.n_in = n;
    assert_ok(trm_graph_add(g, trm_layer_find("concat"), &a, "", in, &out));
    return out;
}

static inline int nn_reshape(trm_graph *g, int in, trm_shape shape) {
    trm_layer_attr a = nn_attr("reshape");
    a.shape = shape;
    return nn_add(g, "reshape", "", in, 0, &a);
}

static inline int nn_group_norm(trm_graph *g, int in, int64_t groups, bool affine) {
    trm_layer_attr a = nn_attr("group_norm");
    a.groups = groups;
    a.affine = affine;
    return nn_add(g, "group_norm", "", in, 0, &a);
}

/* Values side by side, of which one does not learn and one has several readers; shapes in every direction. */
static inline trm_graph *nn_make_mix(void) {
    trm_graph *g = nn_new(3, 2, 6, 6, false);
    trm_layer_attr c = nn_attr("conv2d");
    c.out = 4;
    c.kernel = trm_sizes_all(3);
    c.pad = c.dilation = trm_sizes_all(2);
    int a = nn_add(g, "conv2d", "", 0, 0, &c);
    int n = nn_add(g, "silu", "", nn_group_norm(g, a, 2, true), 0, NULL);
    n = nn_conv(g, nn_concat(g, 3, (int[]){0, n, a}), 4, 3, 1, 1, 2, true);
    n = nn_linear(g, nn_reshape(g, n, trm_shape_of(2, 8LL, 18LL)), 6);
    n = nn_add(g, "silu", "", n, 0, NULL);
    n = nn_concat(g, 2, (int[]){nn_add(g, "softmax", "", n, 0, NULL), n});
    n = nn_group_norm(g, nn_reshape(g, n, trm_shape_of(3, 6LL, 4LL, 4LL)), 3, false);
    n = nn_add(g, "softmax", "", nn_reshape(g, n, trm_shape_of(3, 3LL, 8LL, 4LL)), 0, NULL);
    n = nn_group_norm(g, nn_add(g, "flatten", "", n, 0, NULL), 8, true);
    nn_linear(g, n, 4);
    return g;
}

/* A layer with a window; sizes of 0 stay as they are by default. */
static inline int nn_window(trm_graph *g, const char *type, int in, int64_t out, trm_sizes kernel, trm_sizes stride, trm_sizes pad) {
    trm_layer_attr a = nn_attr(type);
    a.out = out;
    a.kernel = kernel;
    if (stride.n) a.stride = stride;
    if (pad.n) a.pad = pad;
    return nn_add(g, type, "", in, 0, &a);
}

static const trm_sizes nn_default = {0, {0}};

static inline int nn_adaptive(trm_graph *g, const char *type, int in, trm_sizes size) {
    trm_layer_attr a = nn_attr(type);
    a.size = size;
    return nn_add(g, type, "", in, 0, &a);
}

static inline int nn_dropout(trm_graph *g, int in, double p) {
    trm_layer_attr a = nn_attr("dropout");
    a.p = p;
    return nn_add(g, "dropout", "", in, 0, &a);
}

/* Signals out of (C,L): every 1-D layer, a residual from the input, sequences and back. */
static inline trm_graph *nn_make_signal(void) {
    trm_graph *g = nn_new(2, 3, 10, 0, false);
    trm_layer_attr t = nn_attr("conv_transpose1d"), c = nn_attr("conv1d");
    int n = nn_add(g, "add", "", nn_window(g, "conv1d", 0, 3, trm_sizes_all(3), nn_default, trm_sizes_all(1)), 0, NULL);
    c.out = 4;
    c.kernel = trm_sizes_all(3);
    c.dilation = c.pad = trm_sizes_all(2);
    c.bias = false;
    n = nn_add(g, "relu", "", nn_add(g, "batch_norm", "", nn_add(g, "conv1d", "", n, 0, &c), 0, NULL), 0, NULL);
    n = nn_window(g, "max_pool", n, 0, trm_sizes_all(3), trm_sizes_all(2), trm_sizes_all(1));
    t.out = 6;
    t.kernel = trm_sizes_all(3);
    t.stride = trm_sizes_all(2);
    t.pad = t.output_pad = trm_sizes_all(1);
    t.groups = 2;
    int wide = nn_add(g, "relu", "", nn_add(g, "conv_transpose1d", "", n, 0, &t), 0, NULL);
    n = nn_dropout(g, nn_group_norm(g, wide, 3, true), 0.2);
    n = nn_concat(g, 3, (int[]){n, 0, wide});
    n = nn_linear(g, nn_add(g, "transpose", "", n, 0, NULL), 5);
    n = nn_add(g, "silu", "", nn_add(g, "transpose", "", n, 0, NULL), 0, NULL);
    n = nn_window(g, "avg_pool", n, 0, trm_sizes_all(2), nn_default, nn_default);
    int wave = nn_adaptive(g, "adaptive_max_pool", n, trm_sizes_all(3));
    n = nn_concat(g, 2, (int[]){nn_add(g, "flatten", "", wave, 0, NULL), nn_add(g, "flatten", "", nn_add(g, "global_pool", "", n, 0, NULL), 0, NULL)});
    nn_linear(g, n, 4);
    return g;
}

/* Volumes (C,D,H,W) through every 3-D layer. */
static inline trm_graph *nn_make_volume(void) {
    trm_shape s = {4, {2, 4, 5, 6}};
    trm_graph *g;
    assert_ok(trm_graph_create(&s, false, &g));
    trm_layer_attr c = nn_attr("conv3d"), t = nn_attr("conv_transpose3d");
    c.out = 4;
    c.kernel = (trm_sizes){3, {3, 2, 3}};
    c.stride = (trm_sizes){3, {1, 2, 1}};
    c.pad = trm_sizes_all(1);
    c.bias = false;
    int n = nn_add(g, "relu", "", nn_add(g, "batch_norm", "", nn_add(g, "conv3d", "", 0, 0, &c), 0, NULL), 0, NULL);
    int side = n;
    n = nn_add(g, "add", "", nn_group_norm(g, nn_window(g, "conv3d", n, 4, trm_sizes_all(1), nn_default, nn_default), 2, true), side, NULL);
    n = nn_window(g, "max_pool", n, 0, trm_sizes_all(2), nn_default, nn_default);
    t.out = 6;
    t.kernel = trm_sizes_all(2);
    t.stride = trm_sizes_all(2);
    t.groups = 2;
    n = nn_add(g, "silu", "", nn_add(g, "conv_transpose3d", "", n, 0, &t), 0, NULL);
    n = nn_concat(g, 2, (int[]){nn_dropout(g, n, 0.3), n});
    n = nn_add(g, "softmax", "", nn_window(g, "avg_pool", n, 0, trm_sizes_all(3), trm_sizes_all(2), trm_sizes_all(1)), 0, NULL);
    n = nn_adaptive(g, "adaptive_avg_pool", n, (trm_sizes){3, {2, 1, 2}});
    n = nn_reshape(g, nn_add(g, "flatten", "", n, 0, NULL), trm_shape_of(4, 6LL, 2LL, 2LL, 2LL));
    n = nn_add(g, "flatten", "", nn_add(g, "global_pool", "", n, 0, NULL), 0, NULL);
    nn_linear(g, n, 4);
    return g;
}

/* An image made smaller and as large again, against an image. */
static inline trm_graph *nn_make_enlarge(void) {
    trm_graph *g = nn_new(3, 2, 5, 4, false);
    trm_layer_attr t = nn_attr("conv_transpose2d");
    int n = nn_add(g, "relu", "", nn_window(g, "conv2d", 0, 6, trm_sizes_all(3), trm_sizes_all(2), trm_sizes_all(1)), 0, NULL);
    t.out = 3;
    t.kernel = trm_sizes_all(3);
    t.stride = trm_sizes_all(2);
    t.pad = trm_sizes_all(1);
    t.output_pad = (trm_sizes){2, {0, 1}};
    int wide = nn_add(g, "conv_transpose2d", "", n, 0, &t);
    n = nn_add(g, "add", "", nn_add(g, "relu", "", wide, 0, NULL), wide, NULL);
    t = nn_attr("conv_transpose2d");
    t.out = 2;
    t.kernel = trm_sizes_all(2);
    t.pad = (trm_sizes){2, {1, 0}};
    t.dilation = (trm_sizes){2, {2, 1}};
    t.bias = false;
    n = nn_adaptive(g, "adaptive_avg_pool", nn_add(g, "conv_transpose2d", "", n, 0, &t), (trm_sizes){2, {5, 4}});
    nn_add(g, "add", "", n, 0, NULL);
    return g;
}

static const nn_case nn_cases[] = {
    {"mlp", nn_make_mlp, TRM_LOSS_CROSS_ENTROPY, false, 0, {.smoothing = 0}},
    {"regress", nn_make_regress, TRM_LOSS_MSE, false, 3, {.smoothing = 0}},
    {"conv", nn_make_conv, TRM_LOSS_CROSS_ENTROPY, false, 0, {.smoothing = 0}},
    {"resnet", nn_make_resnet, TRM_LOSS_CROSS_ENTROPY, false, 0, {.smoothing = 0}},
    {"web", nn_make_web, TRM_LOSS_CROSS_ENTROPY, false, 0, {.smoothing = 0}},
    {"mix", nn_make_mix, TRM_LOSS_CROSS_ENTROPY, false, 0, {.smoothing = 0}},
    {"signal", nn_make_signal, TRM_LOSS_CROSS_ENTROPY, false, 0, {.smoothing = 0}},
    {"volume", nn_make_volume, TRM_LOSS_CROSS_ENTROPY, false, 0, {.smoothing = 0}},
    {"enlarge", nn_make_enlarge, TRM_LOSS_MSE, false, 40, {.smoothing = 0}},
    {"gpt", nn_make_gpt, TRM_LOSS_CROSS_ENTROPY, true, 6, {.smoothing = 0}},
    {"smoothed", nn_make_mlp, TRM_LOSS_CROSS_ENTROPY, false, 0, {.smoothing = 0.2}},
    {"padded", nn_make_gpt, TRM_LOSS_CROSS_ENTROPY, true, 6, {.smoothing = 0.1, .ignores = true, .ignore = 3}},
    {"some", nn_make_mlp, TRM_LOSS_CROSS_ENTROPY, false, 0, {.ignores = true, .ignore = 2}},
    {"labels", nn_make_mlp, TRM_LOSS_BCE, false, 4, {.smoothing = 0}},
};
#define NN_CASES ((int)(sizeof nn_cases / sizeof *nn_cases))

static inline void nn_open_case(nn_model *m, const nn_case *c, const char *backend, trm_optim_spec o) {
    trm_shape y = c->y ? trm_shape_of(1, c->y) : (trm_shape){0};
    nn_open(m, c->make(), backend, c->loss, y, c->tokens, o, c->ce);
}

/* Raw inputs and targets for n samples; both blocks are the caller's (trm_free). */
static inline void nn_data(const nn_model *m, const nn_case *c, int64_t n, void **x, void **y) {
    const int64_t nx = n * trm_shape_count(trm_graph_shape(m->g, 0)), ny = n * trm_shape_count(&m->y);
    trm_rng_key k = {.seed = 11, .purpose = TRM_RNG_SYNTH};
    *x = trm_alloc_array((size_t)nx, 8, "test");
    *y = trm_alloc_array((size_t)ny, 8, "test");
    for (int64_t i = 0; i < nx; i++) {
        if (c->tokens)
            ((int32_t *)*x)[i] = (int32_t)trm_rng_below(&k, (uint64_t)i, 11);
        else
            ((double *)*x)[i] = trm_rng_normal(&k, (uint64_t)i);
    }
    k.seed = 12;
    for (int64_t i = 0; i < ny; i++) {
        if (m->y_is_class)
            ((int32_t *)*y)[i] = (int32_t)trm_rng_below(&k, (uint64_t)i, c->tokens ? 11 : 4);
        else
            ((double *)*y)[i] = c->loss == TRM_LOSS_BCE ? trm_rng_uniform(&k, (uint64_t)i) : trm_rng_normal(&k, (uint64_t)i);
    }
}

#endif
