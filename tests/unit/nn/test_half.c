/* Products in bfloat16: gradients near those of float32, weights copied anew for every program, equal runs equal to the
 * bit, and a refusal where the device has no bfloat16. */
#include <math.h>

#include "nn_zoo.h"

/* A factor is rounded by at most 2^-9 of itself; errors of many factors mostly cancel, those of a few layers add up. */
#define BOUND 0.05

static const trm_optim_spec sgd = {.kind = TRM_OPT_SGD, .momentum = 0.9};

static bool cpu_has_half(void) {
    trm_device *d;
    assert_ok(trm_device_open("cpu", 1, &d));
    const bool has = trm_device_half(d) == TRM_OK;
    if (!has) print_message("# %s\n", trm_error_text());
    trm_device_close(d);
    return has;
}

static void open_half(nn_model *m, const nn_case *c) {
    nn_open_case(m, c, "cpu", sgd);
    trm_runner_free(m->r);
    m->spec.half = true;
    assert_ok(trm_runner_create(&m->spec, &m->r));
}

/* |a - b| / |b| over all gradients. */
static double difference(const nn_model *a, const nn_model *b) {
    double wrong = 0, norm = 0;
    for (int64_t i = 0; i < a->space; i++) {
        const double u = nn_get(a, a->spec.grads, i), v = nn_get(b, b->spec.grads, i);
        wrong += (u - v) * (u - v);
        norm += v * v;
    }
    return sqrt(wrong / norm);
}

static void check_case(const nn_case *c) {
    nn_model one, half;
    void *x, *y;
    const int64_t counts[2] = {5, 4};
    nn_open_case(&one, c, "cpu", sgd);
    open_half(&half, c);
    nn_data(&one, c, 9, &x, &y);
    const double want = nn_step(&one, 2, counts, x, y, 0, 1, NULL),
                 loss = nn_step(&half, 2, counts, x, y, 0, 1, NULL);
    const double apart = difference(&half, &one);
    print_message("# %s: gradients %.1e apart\n", c->name, apart);
    assert_bound(fabs(loss - want) / want, BOUND);
    assert_true(apart > 1e-5); /* else nothing was computed in bfloat16 */
    assert_bound(apart, !strcmp(c->name, "resnet") ? 0.25 : BOUND); /* batch norm over few rows enlarges it */
    trm_free(x);
    trm_free(y);
    nn_close(&one);
    nn_close(&half);
}

static void near_float32(void **state) {
    (void)state;
    if (!cpu_has_half()) skip();
    for (int i = 0; i < NN_CASES; i++) check_case(&nn_cases[i]);
}

/* Whoever writes the weights, the next program multiplies by what they are then. */
static void copies_follow_the_weights(void **state) {
    (void)state;
    if (!cpu_has_half()) skip();
    nn_model m, fresh;
    void *x, *y;
    const int64_t n = 6;
    open_half(&m, &nn_cases[0]);
    nn_data(&m, &nn_cases[0], n, &x, &y);
    nn_step(&m, 1, &n, x, y, 0.1, 1, NULL);
    for (int64_t i = 0; i < m.space; i++) nn_set(&m, m.spec.weights, i, 2 * nn_get(&m, m.spec.weights, i));
    open_half(&fresh, &nn_cases[0]);
    memcpy(fresh.spec.weights, m.spec.weights, (size_t)m.space * m.size);
    assert_true(nn_step(&m, 1, &n, x, y, 0, 2, NULL) == nn_step(&fresh, 1, &n, x, y, 0, 2, NULL));
    trm_free(x);
    trm_free(y);
    nn_close(&m);
    nn_close(&fresh);
}

static void equal_runs_are_equal_to_the_bit(void **state) {
    (void)state;
    if (!cpu_has_half()) skip();
    for (int i = 0; i < NN_CASES; i++) {
        uint64_t hash[2];
        for (int run = 0; run < 2; run++) {
            nn_model m;
            void *x, *y;
            const int64_t counts[2] = {5, 4};
            open_half(&m, &nn_cases[i]);
            nn_data(&m, &nn_cases[i], 9, &x, &y);
            for (int u = 1; u <= 4; u++) nn_step(&m, 2, counts, x, y, 0.02, u, NULL);
            hash[run] = trm_hash(m.spec.weights, (size_t)m.space * m.size, 0);
            trm_free(x);
            trm_free(y);
            nn_close(&m);
        }
        assert_true(hash[0] == hash[1]);
    }
}

/* What a program says of itself: one cast for each weight, and products that name bfloat16. */
static void a_program_shows_it(void **state) {
    (void)state;
    if (!cpu_has_half()) skip();
    nn_model m;
    trm_str text = {0};
    const int64_t n = 3;
    int program, products = 0;
    open_half(&m, &nn_cases[0]);
    assert_ok(trm_runner_plan(m.r, 1, &n, &program));
    trm_runner_describe(m.r, program, &text);
    for (const char *p = trm_str_get(&text); (p = strstr(p, "bf16 ")); p++) products++;
    assert_int_equal(products, 3 * 4 - 1); /* four layers, of which the first has no gradient to hand on */
    trm_str_free(&text);
    nn_close(&m);
}

static void refused_without_it(void **state) {
    (void)state;
    nn_model m;
    trm_runner *r;
    nn_open_case(&m, &nn_cases[0], "ref", sgd);
    m.spec.half = true;
    assert_int_equal(trm_runner_create(&m.spec, &r), TRM_MACHINE);
    assert_string_equal(trm_error_text(), "back end ref has no bfloat16: it computes in float64");
    nn_close(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_float32),
        cmocka_unit_test(copies_follow_the_weights),
        cmocka_unit_test(equal_runs_are_equal_to_the_bit),
        cmocka_unit_test(a_program_shows_it),
        cmocka_unit_test(refused_without_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
