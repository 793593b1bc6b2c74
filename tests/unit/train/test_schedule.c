/* The learning rate at the ends and in the middle of each schedule. */
#include <math.h>
#include <trireme/train.h>

#include "support.h"

static double lr(trm_schedule_spec s, int64_t u) { return trm_schedule_lr(&s, u, 100, 10); }

static void assert_near(double got, double want) { assert_bound(fabs(got - want), 1e-15); }

static void test_constant(void **state) {
    (void)state;
    trm_schedule_spec s = {.kind = TRM_LR_CONSTANT, .lr = 0.5};
    assert_near(lr(s, 1), 0.5);
    assert_near(lr(s, 100), 0.5);
    assert_near(lr(s, 1000), 0.5);
}

/* From lr/warmup at the first update to lr at the last of the warm-up, for every kind. */
static void test_warmup(void **state) {
    (void)state;
    for (int kind = TRM_LR_CONSTANT; kind <= TRM_LR_WSD; kind++) {
        trm_schedule_spec s = {
            .kind = kind, .lr = 0.4, .warmup = 4, .every = {TRM_UNIT_UPDATES, 50}, .gamma = 0.1};
        assert_near(lr(s, 1), 0.1);
        assert_near(lr(s, 2), 0.2);
        assert_near(lr(s, 3), 0.3);
        assert_near(lr(s, 4), 0.4);
    }
}

static void test_linear(void **state) {
    (void)state;
    trm_schedule_spec s = {.kind = TRM_LR_LINEAR, .lr = 1, .min_ratio = 0.1};
    assert_near(lr(s, 1), 1);
    assert_near(trm_schedule_lr(&s, 51, 101, 10), 0.55);
    assert_near(lr(s, 100), 0.1);
    assert_near(lr(s, 500), 0.1);
    s.warmup = 20;
    assert_near(lr(s, 20), 1);
    assert_near(lr(s, 60), 0.55);
    assert_near(lr(s, 100), 0.1);
}

/* The same values as PyTorch's CosineAnnealingLR(T_max=99, eta_min=0.1) before update u: its epoch is u - 1. */
static void test_cosine(void **state) {
    (void)state;
    trm_schedule_spec s = {.kind = TRM_LR_COSINE, .lr = 1, .min_ratio = 0.1};
    assert_near(lr(s, 1), 1);
    assert_near(lr(s, 34), 0.1 + 0.9 * (1 + cos(acos(-1) / 3)) / 2);
    assert_near(lr(s, 100), 0.1);
    assert_near(lr(s, 101), 0.1);
    s.warmup = 50;
    s.min_ratio = 0;
    assert_near(lr(s, 50), 1);
    assert_near(lr(s, 75), 0.5);
    assert_near(lr(s, 100), 0);
}

/* PyTorch's StepLR(step_size=2 epochs): epochs 0 and 1 at lr, 2 and 3 at lr * gamma. */
static void test_step(void **state) {
    (void)state;
    trm_schedule_spec s = {.kind = TRM_LR_STEP, .lr = 1, .every = {TRM_UNIT_EPOCHS, 2}, .gamma = 0.5};
    assert_near(lr(s, 1), 1);
    assert_near(lr(s, 20), 1);
    assert_near(lr(s, 21), 0.5);
    assert_near(lr(s, 40), 0.5);
    assert_near(lr(s, 41), 0.25);
    s.every = (trm_every){TRM_UNIT_UPDATES, 30};
    assert_near(lr(s, 30), 1);
    assert_near(lr(s, 31), 0.5);
    assert_near(lr(s, 91), 0.125);
}

static void test_wsd(void **state) {
    (void)state;
    trm_schedule_spec s = {.kind = TRM_LR_WSD, .lr = 1, .min_ratio = 0.2, .decay = 20, .warmup = 10};
    assert_near(lr(s, 10), 1);
    assert_near(lr(s, 80), 1);
    assert_near(lr(s, 90), 0.6);
    assert_near(lr(s, 100), 0.2);
    s.decay = 0;
    assert_near(lr(s, 90), 1);
    assert_near(lr(s, 95), 0.6);
    assert_near(lr(s, 100), 0.2);
}

/* Runs of one update, or shorter than their warm-up. */
static void test_short_runs(void **state) {
    (void)state;
    for (int kind = TRM_LR_CONSTANT; kind <= TRM_LR_WSD; kind++) {
        trm_schedule_spec s = {.kind = kind, .lr = 1, .every = {TRM_UNIT_EPOCHS, 1}, .gamma = 0.1};
        assert_near(trm_schedule_lr(&s, 1, 1, 1), 1);
        assert_near(trm_schedule_lr(&s, 1, 1, 0), 1);
        s.warmup = 10;
        assert_near(trm_schedule_lr(&s, 1, 5, 5), 0.1);
        assert_near(trm_schedule_lr(&s, 5, 5, 5), 0.5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant),   cmocka_unit_test(test_warmup), cmocka_unit_test(test_linear),
        cmocka_unit_test(test_cosine),     cmocka_unit_test(test_step),   cmocka_unit_test(test_wsd),
        cmocka_unit_test(test_short_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
