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
    a.kernel[0] = 3, a.kernel[1] = 5;
    a.stride[0] = 2, a.stride[1] = 1;
    a.pad[0] = 1, a.pad[1] = 0;
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
    a.kernel[0] = a.kernel[1] = 3;
    a.dilation[0] = 2, a.dilation[1] = 4;
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
    a.kernel[0] = a.kernel[1] = 3;
    assert_fault(try_layer(row, false, "conv2d", &a, NULL), TRM_JOB, "reads images");
    a.groups = 3;
    assert_fault(try_layer(image, false, "conv2d", &a, NULL), TRM_JOB, "must divide");
    a.groups = 1;
    a.kernel[0] = 10;
    assert_fault(try_layer(image, false, "conv2d", &a, NULL), TRM_JOB, "does not fit in 9 pixels");
    assert_fault(try_layer(seq, false, "batch_norm", NULL, NULL), TRM_JOB, "'it': batch_norm reads");
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
    a.kernel[0] = a.kernel[1] = 3;
    a.pad[0] = 2;
    assert_fault(try_layer(image, false, "max_pool", &a, NULL), TRM_JOB, "more than half");
    a = nn_attr("conv2d");
    a.kernel[0] = a.kernel[1] = 3;
    a.dilation[0] = a.dilation[1] = 5;
    assert_fault(try_layer(image, false, "conv2d", &a, NULL), TRM_JOB,
                 "a kernel of 11 does not fit in 9 pixels");
    a = nn_attr("group_norm");
    a.groups = 3;
    assert_fault(try_layer(image, false, "group_norm", &a, NULL), TRM_JOB, "must divide the 4 channels");
    assert_fault(try_layer(seq, false, "group_norm", &a, NULL), TRM_JOB, "'it': group_norm reads");
    a = nn_attr("reshape");
    a.shape = trm_shape_of(2, 4LL, 3LL);
    assert_fault(try_layer(row, false, "reshape", &a, NULL), TRM_JOB,
                 "from (10) to (4,3) changes the number");
    a.shape = trm_shape_of(4, 1LL, 1LL, 1LL, 10LL);
    assert_fault(try_layer(row, false, "reshape", &a, NULL), TRM_JOB, "allowed are (F), (T,C) and (C,H,W)");
    a = nn_attr("concat");
    assert_fault(try_layer(row, false, "concat", &a, NULL), TRM_JOB, "concat reads 2 to 8 values, not 0");
    assert_fault(try_layer(trm_shape_of(1, 0LL), false, "relu", NULL, NULL), TRM_JOB, "not possible");
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
        cmocka_unit_test(concat_refuses_other_shapes),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(loss_must_fit),
        cmocka_unit_test(a_tied_weight_counts_once),
        cmocka_unit_test(initial_values),
        cmocka_unit_test(rewrites),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
