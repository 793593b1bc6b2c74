/* Shapes. */
#include <string.h>
#include <trireme/tensor.h>
#include "support.h"

static void built_and_counted(void **state) {
    (void)state;
    trm_shape s = trm_shape_of(3, 3, 32, (int64_t)32);
    assert_int_equal(s.rank, 3);
    assert_int_equal(trm_shape_count(&s), 3072);
    assert_int_equal(s.dim[3], 0);
    trm_shape scalar = trm_shape_of(0);
    assert_int_equal(trm_shape_count(&scalar), 1);
    assert_true(trm_shape_valid(&scalar));
    const int64_t dims[] = {2, 5};
    trm_shape from = trm_shape_from(2, dims), of = trm_shape_of(2, 2, 5);
    assert_true(trm_shape_equal(&from, &of));
}

static void validity(void **state) {
    (void)state;
    trm_shape s = trm_shape_of(5, 1, 2, 3, 4, 5);
    assert_true(trm_shape_valid(&s));
    s = trm_shape_of(2, 3, 0);
    assert_false(trm_shape_valid(&s));
    s = trm_shape_of(1, -4);
    assert_false(trm_shape_valid(&s));
    s = trm_shape_of(2, (int64_t)1 << 24, (int64_t)1 << 24);
    assert_true(trm_shape_valid(&s));
    s.dim[1]++;
    assert_false(trm_shape_valid(&s));
    s = trm_shape_of(4, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX);
    assert_false(trm_shape_valid(&s));
    s.rank = TRM_MAX_DIMS + 1;
    assert_false(trm_shape_valid(&s));
    s.rank = -1;
    assert_false(trm_shape_valid(&s));
}

static void equality(void **state) {
    (void)state;
    trm_shape a = trm_shape_of(2, 3, 4), b = trm_shape_of(2, 3, 5), c = trm_shape_of(3, 3, 4, 1);
    assert_true(trm_shape_equal(&a, &a));
    assert_false(trm_shape_equal(&a, &b));
    assert_false(trm_shape_equal(&a, &c));
    /* What lies behind the rank does not count. */
    trm_shape d = a;
    d.dim[4] = 77;
    assert_true(trm_shape_equal(&a, &d));
}

static void text(void **state) {
    (void)state;
    char buf[80], small[5];
    trm_shape s = trm_shape_of(3, 3, 32, 32), scalar = trm_shape_of(0);
    assert_string_equal(trm_shape_text(&s, buf, sizeof buf), "(3,32,32)");
    assert_string_equal(trm_shape_text(&scalar, buf, sizeof buf), "()");
    assert_string_equal(trm_shape_text(&s, small, sizeof small), "(3,3");
    trm_shape big = trm_shape_of(3, INT64_MAX, INT64_MAX, INT64_MIN);
    assert_int_equal(strlen(trm_shape_text(&big, buf, sizeof buf)), 62);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_and_counted),
        cmocka_unit_test(validity),
        cmocka_unit_test(equality),
        cmocka_unit_test(text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
