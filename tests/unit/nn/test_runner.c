/* Whole models: gradients against finite differences, back ends against ref, cuts of the batch against each other. */
#include <math.h>

#include "nn_zoo.h"

static const trm_optim_spec no_momentum = {.kind = TRM_OPT_SGD};

/* Gradient of the mean loss, element i of the flat space. */
static double gradient(const nn_model *m, const trm_step_result *r, int64_t i) {
    return nn_get(m, m->spec.grads, i) / r->count;
}

static bool in_parameter(const trm_graph *g, int64_t i) {
    for (int k = 0; k < trm_graph_params(g); k++) {
        const trm_param *p = trm_graph_param(g, k);
        if (p->kind == TRM_PARAM && i >= p->offset && i < p->offset + p->count) return true;
    }
    return false;
}

/* Central difference of the loss in one weight; running statistics do not enter a training loss. */
static double difference(nn_model *m, const int64_t *n, const void *x, const void *y, int64_t i, double h) {
    const double w = nn_get(m, m->spec.weights, i);
    nn_set(m, m->spec.weights, i, w + h);
    const double up = nn_step(m, 1, n, x, y, 0, 5, NULL);
    nn_set(m, m->spec.weights, i, w - h);
    const double down = nn_step(m, 1, n, x, y, 0, 5, NULL);
    nn_set(m, m->spec.weights, i, w);
    return (up - down) / (2 * h);
}

static void check_gradients(const nn_case *c) {
    nn_model m;
    void *x, *y;
    const int64_t n = 5;
    nn_open_case(&m, c, "ref", no_momentum);
    nn_data(&m, c, n, &x, &y);
    trm_step_result res;
    nn_step(&m, 1, &n, x, y, 0, 5, &res);
    double *g = trm_alloc_array((size_t)m.space, 8, "test"), norm = 0;
    for (int64_t i = 0; i < m.space; i++) {
        g[i] = gradient(&m, &res, i);
        norm += g[i] * g[i];
    }
    assert_true(norm > 0);
    assert_bound(fabs(sqrt(norm) - res.grad_norm) / res.grad_norm, 1e-12);
    double worst = 0;
    int checked = 0;
    for (int64_t i = 0; i < m.space; i += 1 + m.space / 160) {
        if (!in_parameter(m.g, i)) continue;
        const double want = difference(&m, &n, x, y, i, 1e-5);
        worst = fmax(worst, fabs(want - g[i]) / sqrt(norm));
        checked++;
    }
    print_message("# %s: %d weights, worst difference %.1e of the norm\n", c->name, checked, worst);
    assert_true(checked > 50);
    assert_bound(worst, 1e-6);
    trm_free(g);
    trm_free(x);
    trm_free(y);
    nn_close(&m);
}

static void gradients_equal_differences(void **state) {
    (void)state;
    for (int i = 0; i < NN_CASES; i++) check_gradients(&nn_cases[i]);
}

/* Gradients of every other back end agree with ref per parameter. */
static void check_backend(const nn_case *c, const char *backend) {
    nn_model ref, m;
    void *x, *y;
    const int64_t n = 6;
    nn_open_case(&ref, c, "ref", no_momentum);
    nn_open_case(&m, c, backend, no_momentum);
    nn_data(&ref, c, n, &x, &y);
    const double want_loss = nn_step(&ref, 1, &n, x, y, 0, 1, NULL),
                 loss = nn_step(&m, 1, &n, x, y, 0, 1, NULL);
    assert_bound(fabs(loss - want_loss) / want_loss, 1e-5);
    for (int k = 0; k < trm_graph_params(ref.g); k++) {
        const trm_param *p = trm_graph_param(ref.g, k);
        if (p->kind != TRM_PARAM) continue;
        double d = 0, w = 0;
        for (int64_t i = p->offset; i < p->offset + p->count; i++) {
            const double a = nn_get(&ref, ref.spec.grads, i), b = nn_get(&m, m.spec.grads, i);
            d += (a - b) * (a - b);
            w += a * a;
        }
        /* A bias before a batch norm has no gradient but rounding. */
        const double error = w > 1e-10 ? sqrt(d / w) : sqrt(d);
        if (error > 1e-5)
            print_message("# %s %s %s: error %.2e, norm %.2e\n", backend, c->name, p->name, error, sqrt(w));
        assert_bound(error, 2e-5);
    }
    trm_free(x);
    trm_free(y);
    nn_close(&ref);
    nn_close(&m);
}

static void backends_agree(void **state) {
    (void)state;
    for (const trm_backend *const *b = trm_backends(); *b; b++)
        for (int i = 0; i < NN_CASES; i++)
            if (strcmp((*b)->name, "ref")) check_backend(&nn_cases[i], (*b)->name);
}

static bool has_batch_norm(const trm_graph *g) { return trm_graph_state_space(g) > 0; }

/* Without batch norm the number of micro-batches changes nothing. */
static void check_micro_batches(const nn_case *c) {
    nn_model m;
    void *x, *y;
    nn_open_case(&m, c, "ref", no_momentum);
    if (!has_batch_norm(m.g)) {
        nn_data(&m, c, 7, &x, &y);
        trm_step_result one, many;
        double *g = trm_alloc_array((size_t)m.space, 8, "test");
        nn_step(&m, 1, (int64_t[]){7}, x, y, 0, 1, &one);
        memcpy(g, m.spec.grads, (size_t)m.space * 8);
        const int64_t cuts[][4] = {{4, 3, 0, 0}, {0, 5, 0, 2}, {2, 2, 2, 1}};
        for (int k = 0; k < 3; k++) {
            nn_step(&m, 4, cuts[k], x, y, 0, 1, &many);
            assert_bound(fabs(one.loss - many.loss), 1e-12);
            assert_true(one.count == many.count && one.correct == many.correct);
            assert_bound(support_error_f64(m.spec.grads, g, m.space), 1e-12);
        }
        trm_free(g);
        trm_free(x);
        trm_free(y);
    }
    nn_close(&m);
}

static void micro_batches_add_up(void **state) {
    (void)state;
    for (int i = 0; i < NN_CASES; i++) check_micro_batches(&nn_cases[i]);
}

/* Two equal runs are equal to the bit and learn; a step allocates nothing. */
static void check_training(const nn_case *c, const char *backend, trm_optim_spec o) {
    double loss[2][12];
    for (int run = 0; run < 2; run++) {
        nn_model m;
        void *x, *y;
        const int64_t n = 8;
        nn_open_case(&m, c, backend, o);
        nn_data(&m, c, n, &x, &y);
        int program;
        assert_ok(trm_runner_plan(m.r, 1, &n, &program));
        const uint64_t before = trm_mem_count().allocations;
        for (int u = 0; u < 12; u++) loss[run][u] = nn_step(&m, 1, &n, x, y, 0.01, u + 1, NULL);
        assert_true(trm_mem_count().allocations == before);
        trm_free(x);
        trm_free(y);
        nn_close(&m);
    }
    assert_memory_equal(loss[0], loss[1], sizeof loss[0]);
    if (loss[0][11] >= loss[0][0])
        print_message("# %s %s: %g -> %g\n", backend, c->name, loss[0][0], loss[0][11]);
    assert_true(loss[0][11] < loss[0][0]);
}

static void runs_repeat_and_learn(void **state) {
    (void)state;
    const trm_optim_spec adamw = {
        .kind = TRM_OPT_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01, .clip = 1};
    trm_optim_spec lamb = adamw;
    lamb.kind = TRM_OPT_LAMB;
    for (const trm_backend *const *b = trm_backends(); *b; b++)
        for (int i = 0; i < NN_CASES; i++) {
            check_training(&nn_cases[i], (*b)->name, adamw);
            check_training(&nn_cases[i], (*b)->name, lamb);
        }
}

static void rmsprop_repeats_and_learns(void **state) {
    (void)state;
    const trm_optim_spec o = {.kind = TRM_OPT_RMSPROP, .momentum = 0.5, .alpha = 0.9, .eps = 1e-8};
    for (const trm_backend *const *b = trm_backends(); *b; b++) check_training(&nn_cases[0], (*b)->name, o);
}

/* Each parameter has a step of its own length: that of its weights times lr (times 1 where they are 0). */
static void lamb_steps_by_parameter(void **state) {
    (void)state;
    const trm_optim_spec o = {.kind = TRM_OPT_LAMB, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    const int64_t n = 8;
    nn_model m;
    void *x, *y;
    nn_open_case(&m, &nn_cases[0], "ref", o);
    nn_data(&m, &nn_cases[0], n, &x, &y);
    double *before = trm_alloc_array((size_t)m.space, 8, "test");
    memcpy(before, m.spec.weights, (size_t)m.space * 8);
    nn_step(&m, 1, &n, x, y, 0.01, 1, NULL);
    for (int k = 0; k < trm_graph_params(m.g); k++) {
        const trm_param *p = trm_graph_param(m.g, k);
        double length = 0, step = 0;
        for (int64_t i = p->offset; i < p->offset + p->count; i++) {
            const double w = before[i], d = nn_get(&m, m.spec.weights, i) - w;
            length += w * w;
            step += d * d;
        }
        assert_bound(fabs(sqrt(step / length) - 0.01), 1e-12);
    }
    trm_free(before);
    trm_free(x);
    trm_free(y);
    nn_close(&m);
}

/* A non-finite input stops the update: weights stay as they were. */
static void non_finite_is_not_applied(void **state) {
    (void)state;
    nn_model m;
    void *x, *y;
    const int64_t n = 4;
    const nn_case *c = &nn_cases[0];
    nn_open_case(&m, c, "ref", no_momentum);
    nn_data(&m, c, n, &x, &y);
    double *w = trm_alloc_array((size_t)m.space, 8, "test");
    memcpy(w, m.spec.weights, (size_t)m.space * 8);
    ((double *)x)[9] = NAN;
    trm_step_result res;
    nn_step(&m, 1, &n, x, y, 0.1, 1, &res);
    assert_false(res.finite || res.applied);
    assert_memory_equal(w, m.spec.weights, (size_t)m.space * 8);
    ((double *)x)[9] = 0;
    nn_step(&m, 1, &n, x, y, 0.1, 2, &res);
    assert_true(res.finite && res.applied);
    trm_free(w);
    trm_free(x);
    trm_free(y);
    nn_close(&m);
}

/* Evaluation of all samples at once and in parts gives the same sums; dropout and batch statistics are off. */
static void evaluation_adds_up(void **state) {
    (void)state;
    for (int i = 0; i < NN_CASES; i++) {
        nn_model m;
        void *x, *y;
        nn_open_case(&m, &nn_cases[i], "ref", no_momentum);
        nn_data(&m, &nn_cases[i], 5, &x, &y);
        double whole[TRM_TAIL_SIZE] = {0}, parts[TRM_TAIL_SIZE] = {0};
        trm_step s = {.x_raw = x, .y_raw = y, .tail = whole};
        int p;
        assert_ok(trm_runner_plan_eval(m.r, 5, &p));
        assert_ok(trm_runner_eval(m.r, p, &s));
        s.tail = parts;
        for (int64_t at = 0; at < 5; at++) {
            assert_ok(trm_runner_plan_eval(m.r, 1, &p));
            s.x_raw = (char *)x + at * m.spec.load.x_stride;
            s.y_raw = (char *)y + at * m.spec.load.y_stride;
            assert_ok(trm_runner_eval(m.r, p, &s));
        }
        assert_bound(fabs(whole[TRM_TAIL_LOSS] - parts[TRM_TAIL_LOSS]) / whole[TRM_TAIL_LOSS], 1e-12);
        assert_true(whole[TRM_TAIL_COUNT] == parts[TRM_TAIL_COUNT] &&
                    whole[TRM_TAIL_CORRECT] == parts[TRM_TAIL_CORRECT]);
        trm_free(x);
        trm_free(y);
        nn_close(&m);
    }
}

/* An output of images is compared in the order of its shape, whatever shape the targets are stored in. */
static void targets_have_the_order_of_the_output(void **state) {
    (void)state;
    static const char *const backends[] = {"ref", "cpu"};
    for (size_t b = 0; b < SUPPORT_COUNT(backends); b++) {
        nn_model m;
        trm_graph *g = nn_new(3, 2, 1, 3, false);
        const double x[6] = {1, 2, 3, 10, 20, 30};
        const int64_t one = 1;
        nn_conv(g, 0, 2, 1, 1, 0, 1, false);
        nn_open(&m, g, backends[b], TRM_LOSS_MSE, trm_shape_of(1, 6), false, no_momentum,
                (trm_ce_spec){.smoothing = 0});
        for (int i = 0; i < 4; i++) nn_set(&m, m.spec.weights, i, i % 3 == 0); /* the same image */
        assert_bound(nn_step(&m, 1, &one, x, x, 0, 1, NULL), 0);
        nn_close(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_equal_differences),
        cmocka_unit_test(backends_agree),
        cmocka_unit_test(micro_batches_add_up),
        cmocka_unit_test(runs_repeat_and_learn),
        cmocka_unit_test(rmsprop_repeats_and_learns),
        cmocka_unit_test(lamb_steps_by_parameter),
        cmocka_unit_test(non_finite_is_not_applied),
        cmocka_unit_test(evaluation_adds_up),
        cmocka_unit_test(targets_have_the_order_of_the_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
