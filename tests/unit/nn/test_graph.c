/* Building a graph: shapes, names, ties, faults that name the layer; the table and its initial values. */
#include <math.h>

#include "nn_zoo.h"

/* One layer on an input of this shape; returns the status. */
static trm_status try_layer(trm_shape in, bool tokens, const char *type, const trm_layer_attr *a,
                            trm_shape *out) {
    trm_graph *g;
    trm_status s = trm_graph_create(&in, tokens, &g);
    if (s != TRM_OK) return s;
    int node = 0;
    trm_layer_attr def = nn_attr(type);
    s = trm_graph_add(g, trm_layer_find(type), a ? a : &def, "it", (int[]){0, 0}, &node);
    if (s == TRM_OK && out) *out = *trm_graph_shape(g, node);
    trm_graph_free(g);
    return s;
}

static void shapes_are_inferred(void **state) {
    (void)state;
    trm_shape out;
    trm_layer_attr a = nn_attr("conv2d");
    a.out = 8;
    a.kernel = (trm_sizes){2, {3, 5}};
    a.stride = (trm_sizes){2, {2, 1}};
    a.pad = (trm_sizes){2, {1, 0}};
    assert_ok(try_layer(trm_shape_of(3, 4LL, 9LL, 12LL), false, "conv2d", &a, &out));
    trm_shape want = trm_shape_of(3, 8LL, 5LL, 8LL);
    assert_true(trm_shape_equal(&out, &want));
    assert_ok(try_layer(trm_shape_of(3, 4LL, 9LL, 12LL), false, "global_pool", NULL, &out));
    want = trm_shape_of(3, 4LL, 1LL, 1LL);
    assert_true(trm_shape_equal(&out, &want));
    assert_ok(try_layer(trm_shape_of(3, 4LL, 9LL, 12LL), false, "flatten", NULL, &out));
    want = trm_shape_of(1, 432LL);
    assert_true(trm_shape_equal(&out, &want));
    a = nn_attr("linear");
    a.out = 7;
    assert_ok(try_layer(trm_shape_of(2, 6LL, 5LL), false, "linear", &a, &out));
    want = trm_shape_of(2, 6LL, 7LL);
    assert_true(trm_shape_equal(&out, &want));
    a = nn_attr("conv2d");
    a.out = 8;
    a.kernel = trm_sizes_all(3);
    a.dilation = (trm_sizes){2, {2, 4}};
    assert_ok(try_layer(trm_shape_of(3, 4LL, 9LL, 12LL), false, "conv2d", &a, &out));
    want = trm_shape_of(3, 8LL, 5LL, 4LL);
    assert_true(trm_shape_equal(&out, &want));
    a = nn_attr("reshape");
    a.shape = trm_shape_of(3, 6LL, 6LL, 12LL);
    assert_ok(try_layer(trm_shape_of(3, 4LL, 9LL, 12LL), false, "reshape", &a, &out));
    assert_true(trm_shape_equal(&out, &a.shape));
    a = nn_attr("concat");
    a.n_in = 2;
    assert_ok(try_layer(trm_shape_of(3, 4LL, 9LL, 12LL), false, "concat", &a, &out));
    want = trm_shape_of(3, 8LL, 9LL, 12LL);
    assert_true(trm_shape_equal(&out, &want));
    assert_ok(try_layer(trm_shape_of(2, 6LL, 5LL), false, "concat", &a, &out));
    want = trm_shape_of(2, 6LL, 10LL);
    assert_true(trm_shape_equal(&out, &want));
}

static void faults_name_the_layer(void **state) {
    (void)state;
    const trm_shape image = trm_shape_of(3, 4LL, 9LL, 12LL), row = trm_shape_of(1, 10LL),
                    seq = trm_shape_of(2, 6LL, 10LL);
    trm_layer_attr a = nn_attr("linear");
    a.out = 3;
    assert_fault(try_layer(image, false, "linear", &a, NULL), TRM_JOB, "put a flatten before it");
    assert_fault(try_layer(row, true, "linear", &a, NULL), TRM_JOB, "token ids");
    a.tie = "nobody";
    a.bias = false;
    assert_fault(try_layer(row, false, "linear", &a, NULL), TRM_JOB, "tied to 'nobody'");
    a = nn_attr("conv2d");
    a.out = 6;
    a.kernel = trm_sizes_all(3);
    assert_fault(try_layer(row, false, "conv2d", &a, NULL), TRM_JOB, "reads images");
    a.groups = 3;
    assert_fault(try_layer(image, false, "conv2d", &a, NULL), TRM_JOB, "must divide");
    a.groups = 1;
    a.kernel = (trm_sizes){2, {10, 3}};
    assert_fault(try_layer(image, false, "conv2d", &a, NULL), TRM_JOB, "does not fit in 9 pixels");
    a = nn_attr("attention");
    a.heads = 3;
    assert_fault(try_layer(seq, false, "attention", &a, NULL), TRM_JOB, "3 heads do not divide the width 10");
    a = nn_attr("embedding");
    a.vocab = a.dim = 4;
    assert_fault(try_layer(row, false, "embedding", &a, NULL), TRM_JOB, "reads token ids");
    a = nn_attr("positional_embedding");
    a.length = 5;
    assert_fault(try_layer(seq, false, "positional_embedding", &a, NULL), TRM_JOB,
                 "6 positions, the table 5");
    a = nn_attr("max_pool");
    a.kernel = trm_sizes_all(3);
    a.pad = trm_sizes_all(2);
    assert_fault(try_layer(image, false, "max_pool", &a, NULL), TRM_JOB, "more than half");
    a = nn_attr("conv2d");
    a.kernel = trm_sizes_all(3);
    a.dilation = trm_sizes_all(5);
    assert_fault(try_layer(image, false, "conv2d", &a, NULL), TRM_JOB,
                 "a kernel of 11 does not fit in 9 pixels");
    a = nn_attr("group_norm");
    a.groups = 3;
    assert_fault(try_layer(image, false, "group_norm", &a, NULL), TRM_JOB, "must divide the 4 channels");
    a = nn_attr("reshape");
    a.shape = trm_shape_of(2, 4LL, 3LL);
    assert_fault(try_layer(row, false, "reshape", &a, NULL), TRM_JOB,
                 "from (10) to (4,3) changes the number");
    a.shape = trm_shape_of(5, 1LL, 1LL, 1LL, 1LL, 10LL);
    assert_fault(try_layer(row, false, "reshape", &a, NULL), TRM_JOB, "allowed are 1 to 4 dimensions");
    a = nn_attr("concat");
    assert_fault(try_layer(row, false, "concat", &a, NULL), TRM_JOB, "concat reads 2 to 8 values, not 0");
    assert_fault(try_layer(trm_shape_of(1, 0LL), false, "relu", NULL, NULL), TRM_JOB, "not possible");
}

/* Layers with windows: shape in, what they are given, and the shape out or the fault. */
typedef struct window_case {
    const char *type;
    trm_shape in;
    trm_layer_attr a; /* sizes of n == 0 and groups 0 stay as they are by default */
    trm_shape out;
    const char *fault;
} window_case;

#define S(...)                                                              \
    {                                                                       \
        sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), { __VA_ARGS__ } \
    }
/* clang-format off */
static const window_case windows[] = {
    {"conv1d", S(3, 20), {.out = 5, .kernel = S(4), .stride = S(3), .pad = S(1)}, S(5, 7), NULL},
    {"conv1d", S(4, 9), {.out = 6, .kernel = S(3), .dilation = S(4), .groups = 2}, S(6, 1), NULL},
    {"conv1d", S(3, 8), {.out = 5, .kernel = S(9)}, {0}, "a kernel of 9 does not fit in 8 pixels with padding 0"},
    {"conv1d", S(3, 8), {.out = 4, .kernel = S(3), .groups = 2}, {0}, "groups is 2, which must divide the 3 input and 4 output"},
    {"conv1d", S(3, 8), {.out = 4, .kernel = S(3, 3)}, {0}, "'it': kernel has 2 numbers; signals (C,L) allow one"},
    {"conv1d", S(24), {.out = 4, .kernel = S(3)}, {0}, "conv1d reads signals (C,L), its input has shape (24)"},
    {"conv1d", S(3, 4, 5), {.out = 4, .kernel = S(3)}, {0}, "conv1d reads signals (C,L), its input has shape (3,4,5)"},
    {"conv2d", S(3, 8), {.out = 4, .kernel = S(3)}, {0}, "conv2d reads images (C,H,W), its input has shape (3,8)"},
    {"conv2d", S(3, 8, 8), {.out = 4, .kernel = S(3), .stride = S(1, 2, 3)}, {0}, "stride has 3 numbers; images (C,H,W) allow one, or two"},
    {"conv2d", S(2, 4, 8, 8), {.out = 4, .kernel = S(3)}, {0}, "conv2d reads images (C,H,W), its input has shape (2,4,8,8)"},
    {"conv3d", S(2, 6, 7, 8), {.out = 4, .kernel = S(3, 1, 2), .stride = S(1, 2, 3), .pad = S(1, 0, 0)}, S(4, 6, 4, 3), NULL},
    {"conv3d", S(2, 6, 7, 8), {.out = 4, .kernel = S(2), .dilation = S(3)}, S(4, 3, 4, 5), NULL},
    {"conv3d", S(2, 2, 7, 8), {.out = 4, .kernel = S(3)}, {0}, "a kernel of 3 does not fit in 2 pixels"},
    {"conv3d", S(2, 6, 7, 8), {.out = 4, .kernel = S(3), .pad = S(1, 1)}, {0}, "pad has 2 numbers; volumes (C,D,H,W) allow one, or three"},
    {"conv3d", S(2, 7, 8), {.out = 4, .kernel = S(3)}, {0}, "conv3d reads volumes (C,D,H,W), its input has shape (2,7,8)"},
    {"conv_transpose1d", S(3, 7), {.out = 5, .kernel = S(4), .stride = S(3), .pad = S(1), .output_pad = S(2)}, S(5, 22), NULL},
    {"conv_transpose2d", S(4, 3, 5), {.out = 6, .kernel = S(3, 2), .stride = S(2, 1), .dilation = S(1, 3), .groups = 2}, S(6, 7, 8), NULL},
    {"conv_transpose3d", S(4, 2, 3, 4), {.out = 2, .kernel = S(2), .stride = S(2)}, S(2, 4, 6, 8), NULL},
    {"conv_transpose2d", S(4, 3, 5), {.out = 6, .kernel = S(3), .stride = S(2), .output_pad = S(2)}, {0}, "output_pad is 2, which must be below the stride, 2"},
    {"conv_transpose2d", S(4, 1, 5), {.out = 6, .kernel = S(2), .pad = S(1)}, {0}, "over 1 pixels leaves none of them with padding 1"},
    {"conv_transpose2d", S(4, 3, 5), {.out = 6, .kernel = S(3), .groups = 4}, {0}, "groups is 4, which must divide the 4 input and 6 output"},
    {"conv_transpose3d", S(4, 3, 5), {.out = 6, .kernel = S(3)}, {0}, "conv_transpose3d reads volumes (C,D,H,W), its input has shape (4,3,5)"},
    {"conv_transpose1d", S(1, INT64_C(1) << 40), {.out = 1000, .kernel = S(3), .stride = S(1000)}, {0}, "is too large"},
    {"max_pool", S(3, 9), {.kernel = S(2)}, S(3, 4), NULL},
    {"max_pool", S(3, 9, 8), {.kernel = S(2, 3), .stride = S(3, 1)}, S(3, 3, 6), NULL},
    {"avg_pool", S(3, 4, 9, 8), {.kernel = S(2), .pad = S(1, 0, 0)}, S(3, 3, 4, 4), NULL},
    {"max_pool", S(3, 9), {.kernel = S(10)}, {0}, "a window of 10 does not fit in 9 pixels"},
    {"max_pool", S(3, 9), {.kernel = S(2, 2)}, {0}, "kernel has 2 numbers; signals (C,L) allow one"},
    {"max_pool", S(9), {.kernel = S(2)}, {0}, "reads signals (C,L), images (C,H,W) or volumes (C,D,H,W), its input has shape (9)"},
    {"adaptive_avg_pool", S(3, 9), {.size = S(4)}, S(3, 4), NULL},
    {"adaptive_max_pool", S(3, 9, 8), {.size = S(2, 3)}, S(3, 2, 3), NULL},
    {"adaptive_avg_pool", S(3, 2, 2, 2), {.size = S(5)}, S(3, 5, 5, 5), NULL},
    {"adaptive_avg_pool", S(3, 9, 8), {.size = S(2, 3, 4)}, {0}, "size has 3 numbers"},
    {"global_pool", S(3, 9), {0}, S(3, 1), NULL},
    {"global_pool", S(3, 2, 4, 9), {0}, S(3, 1, 1, 1), NULL},
    {"transpose", S(3, 9), {0}, S(9, 3), NULL},
    {"transpose", S(3, 9, 4), {0}, {0}, "transpose reads (T,C) or (C,L), its input has shape (3,9,4)"},
    {"batch_norm", S(3, 9), {.eps = 1e-5}, S(3, 9), NULL},
    {"batch_norm", S(3, 2, 4, 9), {.eps = 1e-5}, S(3, 2, 4, 9), NULL},
    {"group_norm", S(4, 9), {.eps = 1e-5, .groups = 2}, S(4, 9), NULL},
    {"flatten", S(3, 2, 4, 9), {0}, S(216), NULL},
};
/* clang-format on */

static trm_layer_attr attr_of(const window_case *c) {
    trm_layer_attr a = c->a, def = nn_attr(c->type);
    trm_sizes *to[] = {&a.stride, &a.pad, &a.dilation, &a.output_pad};
    const trm_sizes *from[] = {&def.stride, &def.pad, &def.dilation, &def.output_pad};
    for (size_t i = 0; i < SUPPORT_COUNT(to); i++)
        if (to[i]->n == 0) *to[i] = *from[i];
    a.groups = a.groups ? a.groups : 1;
    return a;
}

static void windows_in_every_space(void **state) {
    (void)state;
    for (size_t i = 0; i < SUPPORT_COUNT(windows); i++) {
        const window_case *c = &windows[i];
        const trm_layer_attr a = attr_of(c);
        trm_shape out = {0};
        char got[80], want[80];
        if (c->fault) {
            assert_fault(try_layer(c->in, false, c->type, &a, NULL), TRM_JOB, c->fault);
            continue;
        }
        assert_ok(try_layer(c->in, false, c->type, &a, &out));
        assert_string_equal(trm_shape_text(&out, got, sizeof got),
                            trm_shape_text(&c->out, want, sizeof want));
    }
}

/* PyTorch's shapes, and twice the products of one sample. */
static void weights_and_flops(void **state) {
    (void)state;
    static const struct {
        const char *type;
        trm_shape in, weight;
        int64_t groups;
        double flops;
    } want[] = {
        {"conv1d", S(4, 9), S(6, 2, 3), 2, 2.0 * 6 * 7 * 2 * 3},
        {"conv2d", S(4, 9, 8), S(6, 2, 3, 3), 2, 2.0 * 6 * 7 * 6 * 2 * 9},
        {"conv3d", S(4, 5, 9, 8), S(6, 4, 3, 3, 3), 1, 2.0 * 6 * 3 * 7 * 6 * 4 * 27},
        {"conv_transpose1d", S(4, 9), S(4, 3, 3), 2, 2.0 * 4 * 9 * 3 * 3},
        {"conv_transpose2d", S(4, 9, 8), S(4, 6, 3, 3), 1, 2.0 * 4 * 72 * 6 * 9},
        {"conv_transpose3d", S(4, 5, 9, 8), S(4, 3, 3, 3, 3), 2, 2.0 * 4 * 360 * 3 * 27},
    };
    for (size_t i = 0; i < SUPPORT_COUNT(want); i++) {
        trm_graph *g;
        trm_layer_attr a = nn_attr(want[i].type);
        char text[80], expected[80];
        a.out = 6;
        a.kernel = trm_sizes_all(3);
        a.groups = want[i].groups;
        assert_ok(trm_graph_create(&want[i].in, false, &g));
        int node = nn_add(g, want[i].type, "it", 0, 0, &a);
        const trm_param *w = trm_graph_param(g, trm_graph_param_find(g, "it.weight"));
        assert_string_equal(trm_shape_text(&w->shape, text, sizeof text),
                            trm_shape_text(&want[i].weight, expected, sizeof expected));
        assert_int_equal(trm_graph_param(g, trm_graph_param_find(g, "it.bias"))->count, 6);
        assert_int_equal(w->fan_in, w->count / want[i].weight.dim[0]);
        const trm_node_info info = trm_graph_node(g, node);
        assert_string_equal(info.kind, want[i].type);
        assert_bound(fabs(info.forward_flops - want[i].flops), 0);
        assert_int_equal(info.activation_bytes, 4 * trm_shape_count(&info.out));
        trm_graph_free(g);
    }
}

/* What is seen as (C,L) and lies so, and what lies with its channels last. */
static void signals_and_sequences(void **state) {
    (void)state;
    trm_graph *g = nn_new(2, 3, 8, 0, false);
    char buf[80];
    assert_int_equal(trm_graph_channels_first(g, 0), 0);
    int a = nn_window(g, "conv1d", 0, 5, trm_sizes_all(3), nn_default, nn_default);
    assert_int_equal(trm_graph_channels_first(g, a), 5);
    assert_string_equal(trm_shape_text(trm_graph_shape(g, a), buf, sizeof buf), "(5,6)");
    int t = nn_add(g, "transpose", "", a, 0, NULL);
    assert_int_equal(trm_graph_channels_first(g, t), 0);
    assert_string_equal(trm_shape_text(trm_graph_shape(g, t), buf, sizeof buf), "(6,5)");
    trm_layer_attr l = nn_attr("linear");
    int out;
    l.out = 2;
    assert_fault(trm_graph_add(g, trm_layer_find("linear"), &l, "l", (int[]){a, 0}, &out), TRM_JOB,
                 "linear cannot read a signal of shape (5,6); put a flatten before it");
    assert_ok(trm_graph_add(g, trm_layer_find("linear"), &l, "l", (int[]){t, 0}, &out));
    l = nn_attr("conv2d");
    l.out = 2;
    l.kernel = trm_sizes_all(1);
    assert_fault(trm_graph_add(g, trm_layer_find("conv2d"), &l, "c", (int[]){a, 0}, &out), TRM_JOB,
                 "conv2d reads images (C,H,W), its input has shape (5,6)");
    assert_fault(trm_graph_add(g, trm_layer_find("add"), &l, "s", (int[]){a, 0}, &out), TRM_JOB,
                 "adds values of shapes (5,6) ('conv1d1') and (3,8) ('input')");
    trm_graph_free(g);
}

static void concat_refuses_other_shapes(void **state) {
    (void)state;
    trm_graph *g = nn_new(2, 4, 6, 0, false);
    trm_layer_attr a = nn_attr("concat");
    int out, flat = nn_add(g, "flatten", "flat", 0, 0, NULL), wide = nn_linear(g, 0, 9);
    a.n_in = 2;
    assert_fault(trm_graph_add(g, trm_layer_find("concat"), &a, "c", (int[]){0, flat}, &out), TRM_JOB,
                 "shapes (4,6) ('input') and (24) ('flat')");
    assert_ok(trm_graph_add(g, trm_layer_find("concat"), &a, "c", (int[]){0, wide}, &out));
    assert_int_equal(trm_graph_shape(g, out)->dim[1], 15);
    trm_graph_free(g);
}

static void names_are_unique(void **state) {
    (void)state;
    trm_graph *g = nn_new(1, 4, 0, 0, false);
    int a = nn_linear(g, 0, 4), b = nn_linear(g, a, 4), out;
    assert_string_equal(trm_graph_node(g, a).name, "linear1");
    assert_string_equal(trm_graph_node(g, b).name, "linear2");
    assert_int_equal(trm_graph_find(g, "linear2"), b);
    assert_int_equal(trm_graph_find(g, "linear3"), -1);
    trm_layer_attr at = nn_attr("relu");
    assert_fault(trm_graph_add(g, trm_layer_find("relu"), &at, "linear1", (int[]){b, 0}, &out), TRM_JOB,
                 "must be unique");
    assert_fault(trm_graph_add(g, trm_layer_find("relu"), &at, "a b", (int[]){b, 0}, &out), TRM_JOB,
                 "character");
    assert_int_equal(trm_graph_param_count(g), 40);
    assert_true(trm_graph_param_find(g, "linear2.bias") >= 0);
    trm_graph_free(g);
}

static void loss_must_fit(void **state) {
    (void)state;
    trm_graph *g = nn_new(1, 4, 0, 0, false);
    const trm_shape scalar = {0}, three = trm_shape_of(1, 3LL);
    assert_fault(trm_graph_check_loss(g, TRM_LOSS_CROSS_ENTROPY, &scalar, true, 3), TRM_JOB, "no layers");
    nn_add(g, "relu", "", 0, 0, NULL);
    assert_fault(trm_graph_check_loss(g, TRM_LOSS_CROSS_ENTROPY, &scalar, true, 3), TRM_JOB,
                 "nothing to train");
    nn_linear(g, 1, 3);
    assert_ok(trm_graph_check_loss(g, TRM_LOSS_CROSS_ENTROPY, &scalar, true, 3));
    assert_fault(trm_graph_check_loss(g, TRM_LOSS_CROSS_ENTROPY, &scalar, true, 4), TRM_JOB, "3 outputs");
    assert_fault(trm_graph_check_loss(g, TRM_LOSS_CROSS_ENTROPY, &three, true, 3), TRM_JOB, "does not fit");
    assert_fault(trm_graph_check_loss(g, TRM_LOSS_CROSS_ENTROPY, &scalar, false, 0), TRM_JOB, "class labels");
    assert_ok(trm_graph_check_loss(g, TRM_LOSS_MSE, &three, false, 0));
    assert_fault(trm_graph_check_loss(g, TRM_LOSS_MSE, &scalar, true, 3), TRM_JOB, "mse needs float targets");
    assert_ok(trm_graph_check_loss(g, TRM_LOSS_BCE, &three, false, 0));
    assert_fault(trm_graph_check_loss(g, TRM_LOSS_BCE, &scalar, true, 3), TRM_JOB, "bce needs float targets");
    assert_fault(trm_graph_check_loss(g, TRM_LOSS_BCE, &scalar, false, 0), TRM_JOB, "does not fit");
    trm_graph_free(g);
}

static void a_tied_weight_counts_once(void **state) {
    (void)state;
    trm_graph *g = nn_make_gpt();
    int entries = 0;
    for (int i = 0; i < trm_graph_params(g); i++) entries += trm_graph_param(g, i)->shape.dim[0] == 11;
    assert_int_equal(entries, 1);
    trm_graph_free(g);
}

/* Mean and variance of initial values; entries are 64-byte aligned; equal seeds give equal bits. */
static void initial_values(void **state) {
    (void)state;
    static const struct {
        int init;
        double variance;
    } want[] = {
        {TRM_INIT_TORCH, 1.0 / 3 / 300},      {TRM_INIT_XAVIER_UNIFORM, 2.0 / 700},
        {TRM_INIT_XAVIER_NORMAL, 2.0 / 700},  {TRM_INIT_KAIMING_UNIFORM, 2.0 / 300},
        {TRM_INIT_KAIMING_NORMAL, 2.0 / 300}, {TRM_INIT_NORMAL, 0.25},
    };
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        trm_graph *g = nn_new(1, 300, 0, 0, false);
        trm_layer_attr a = nn_attr("linear");
        a.out = 400;
        a.init = want[k].init;
        a.std = 0.5;
        nn_add(g, "linear", "", 0, 0, &a);
        const int64_t n = trm_graph_param_space(g), count = trm_graph_param(g, 0)->count;
        float *w = trm_alloc_array((size_t)n, 4, "test"), *again = trm_alloc_array((size_t)n, 4, "test");
        trm_graph_init(g, 5, w, NULL);
        trm_graph_init(g, 5, again, NULL);
        assert_memory_equal(w, again, (size_t)n * 4);
        trm_graph_init(g, 6, again, NULL);
        assert_memory_not_equal(w, again, (size_t)n * 4);
        double mean = 0, square = 0;
        for (int64_t i = 0; i < count; i++) mean += w[i], square += (double)w[i] * w[i];
        mean /= (double)count, square /= (double)count;
        assert_bound(fabs(mean) / sqrt(want[k].variance), 0.015);
        assert_bound(fabs(square / want[k].variance - 1), 0.02);
        assert_int_equal(trm_graph_param(g, 1)->offset % 16, 0);
        const bool zero = w[trm_graph_param(g, 1)->offset] == 0;
        assert_true(zero == (want[k].init != TRM_INIT_TORCH));
        trm_free(w);
        trm_free(again);
        trm_graph_free(g);
    }
}

/* Rewrites: buckets cover the space once, from its end; a statistic is summed before its use. */
static void rewrites(void **state) {
    (void)state;
    trm_graph *g = nn_make_resnet();
    const int before = trm_graph_nodes(g);
    assert_ok(trm_graph_reduce_stats(g, 1));
    assert_int_equal(trm_graph_nodes(g), before + 6);
    assert_ok(trm_graph_reduce_gradients(g, 1, 256));
    int comm = 0;
    for (int i = 0; i < trm_graph_nodes(g); i++) comm += trm_graph_node(g, i).comm;
    assert_true(comm > 6 + 3);
    assert_string_equal(trm_graph_node(g, trm_graph_nodes(g) - 1).kind, "sum_tail");
    trm_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_inferred),
        cmocka_unit_test(faults_name_the_layer),
        cmocka_unit_test(windows_in_every_space),
        cmocka_unit_test(weights_and_flops),
        cmocka_unit_test(signals_and_sequences),
        cmocka_unit_test(concat_refuses_other_shapes),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(loss_must_fit),
        cmocka_unit_test(a_tied_weight_counts_once),
        cmocka_unit_test(initial_values),
        cmocka_unit_test(rewrites),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
