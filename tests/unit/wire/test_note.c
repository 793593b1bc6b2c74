/* note: what the notes of one step say together. */
#include <trireme/wire.h>

#include "support.h"

static void folds(void **state) {
    (void)state;
    trm_note n[3] = {
        {.update = 7}, {.update = 7, .orders = TRM_ORDER_STOP}, {.update = 7, .status = TRM_DATA}};
    trm_note_sum s = trm_note_fold(n, 3);
    assert_int_equal(s.update, 7);
    assert_true(s.same_update);
    assert_int_equal(s.orders, TRM_ORDER_STOP);
    assert_int_equal(s.worst, TRM_DATA);
    assert_int_equal(s.worst_rank, 2);
}

static void all_well(void **state) {
    (void)state;
    trm_note n[2] = {{.update = 1}, {.update = 1}};
    trm_note_sum s = trm_note_fold(n, 2);
    assert_int_equal(s.orders, 0);
    assert_int_equal(s.worst, TRM_OK);
    assert_int_equal(s.worst_rank, -1);
}

static void lost_step_is_seen(void **state) {
    (void)state;
    trm_note n[2] = {{.update = 4}, {.update = 5}};
    assert_false(trm_note_fold(n, 2).same_update);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folds),
        cmocka_unit_test(all_well),
        cmocka_unit_test(lost_step_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
