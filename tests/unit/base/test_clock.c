/* Time. */
#include <math.h>
#include "support.h"

static void time_goes_on(void **state) {
    (void)state;
    double a = trm_now();
    trm_sleep(0.02);
    double passed = trm_now() - a;
    assert_true(passed >= 0.0199 && passed < 5);
}

static void odd_sleeps_return_at_once(void **state) {
    (void)state;
    double a = trm_now();
    trm_sleep(0);
    trm_sleep(-1);
    trm_sleep(NAN);
    assert_true(trm_now() - a < 1);
}

static void cpu_time_is_not_wall_time(void **state) {
    (void)state;
    double cpu = trm_thread_cpu();
    trm_sleep(0.05);
    assert_true(trm_thread_cpu() - cpu < 0.04);
    double start = trm_thread_cpu();
    volatile double x = 0;
    while (trm_thread_cpu() - start < 0.01) x += 1;
    assert_true(x > 0);
}

static void a_fake_clock_stands_still(void **state) {
    (void)state;
    support_clock_start(100);
    assert_true(trm_now() == 100);
    support_clock_advance(0.5);
    assert_true(trm_now() == 100.5);
    support_clock_stop();
    assert_true(trm_now() != 100.5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_goes_on),
        cmocka_unit_test(odd_sleeps_return_at_once),
        cmocka_unit_test(cpu_time_is_not_wall_time),
        cmocka_unit_test(a_fake_clock_stands_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
