/* Partitions: the fast rule against the rule as it is written, one thing at a time. */
#include <math.h>
#include <string.h>
#include "support.h"

/* The rule of <trireme/base.h>, literally. */
static void one_at_a_time(int owners, const double *w, int64_t n, int64_t *count) {
    memset(count, 0, (size_t)owners * sizeof *count);
    for (int64_t i = 0; i < n; i++) {
        int best = -1;
        for (int p = 0; p < owners; p++) {
            if (w[p] <= 0) continue;
            if (best < 0 || (double)(count[p] + 1) / w[p] < (double)(count[best] + 1) / w[best]) best = p;
        }
        count[best]++;
    }
}

static void check_against_rule(int owners, const double *w, int64_t n) {
    trm_part part;
    int64_t want[64];
    one_at_a_time(owners, w, n, want);
    assert_ok(trm_part_by_weights(owners, w, n, &part));
    assert_int_equal(part.owners, owners);
    assert_int_equal(part.offset[0], 0);
    assert_int_equal(part.offset[owners], n);
    for (int p = 0; p < owners; p++) {
        assert_int_equal(trm_part_count(&part, p), want[p]);
        assert_int_equal(trm_part_begin(&part, p), part.offset[p]);
    }
    trm_part_free(&part);
    assert_null(part.offset);
}

static void equal_cuts(void **state) {
    (void)state;
    trm_part part;
    assert_ok(trm_part_by_weights(3, NULL, 10, &part));
    const int64_t want[] = {0, 4, 7, 10};
    assert_memory_equal(part.offset, want, sizeof want);
    trm_part_free(&part);
    assert_ok(trm_part_by_weights(4, NULL, 0, &part));
    assert_int_equal(part.offset[4], 0);
    trm_part_free(&part);
    const double ones[] = {1, 1, 1, 1, 1, 1, 1};
    for (int64_t n = 0; n < 30; n++) check_against_rule(7, ones, n);
}

static void ties_go_to_the_lower_owner(void **state) {
    (void)state;
    const double w[] = {2, 1, 3};
    for (int64_t n = 0; n < 200; n++) check_against_rule(3, w, n);
}

static void random_weights(void **state) {
    (void)state;
    trm_rng_key key = {.seed = 5, .purpose = TRM_RNG_SYNTH};
    uint64_t e = 0;
    for (int round = 0; round < 400; round++) {
        double w[20];
        int owners = 1 + (int)trm_rng_below(&key, e++, 20);
        int64_t n = (int64_t)trm_rng_below(&key, e++, 2000);
        for (int p = 0; p < owners; p++) {
            double u = trm_rng_uniform(&key, 4 * e++);
            w[p] = round % 3 == 0 ? floor(u * 5) : u < 0.1 ? 0 : exp(20 * (u - 0.5));
        }
        w[0] = w[0] > 0 ? w[0] : 1;
        check_against_rule(owners, w, n);
    }
}

/* No other cut finishes earlier: all cuts of a small case are tried. */
static void is_minimax(void **state) {
    (void)state;
    const double w[] = {1.0, 2.7, 0.4};
    for (int64_t n = 0; n <= 25; n++) {
        trm_part part;
        double best = INFINITY, got = 0;
        for (int64_t a = 0; a <= n; a++)
            for (int64_t b = 0; a + b <= n; b++)
                best = fmin(best, fmax(fmax((double)a / w[0], (double)b / w[1]), (double)(n - a - b) / w[2]));
        assert_ok(trm_part_by_weights(3, w, n, &part));
        for (int p = 0; p < 3; p++) got = fmax(got, (double)trm_part_count(&part, p) / w[p]);
        assert_true(got <= best);
        trm_part_free(&part);
    }
}

static void extreme_weights(void **state) {
    (void)state;
    const double huge[] = {1e308, 1e308, 0, 1e308}, tiny[] = {5e-324, 5e-324}, mixed[] = {1e300, 1e-300};
    trm_part part;
    check_against_rule(4, huge, 10);
    assert_ok(trm_part_by_weights(2, tiny, 11, &part));
    assert_int_equal(trm_part_count(&part, 0), 6);
    trm_part_free(&part);
    assert_ok(trm_part_by_weights(2, mixed, 1000, &part));
    assert_int_equal(trm_part_count(&part, 0), 1000);
    trm_part_free(&part);
}

static void large_counts_are_quick(void **state) {
    (void)state;
    enum { OWNERS = 1024 };
    double w[OWNERS];
    trm_part part;
    for (int p = 0; p < OWNERS; p++) w[p] = 1 + p % 7;
    assert_ok(trm_part_by_weights(OWNERS, w, (int64_t)1 << 40, &part));
    assert_true(part.offset[OWNERS] == (int64_t)1 << 40);
    for (int p = 0; p < OWNERS; p++) {
        double ideal = 0x1p40 * w[p] / (146 * 28 + 1 + 2);
        assert_bound(fabs((double)trm_part_count(&part, p) - ideal), 2);
    }
    trm_part_free(&part);
}

static void faults_are_sentences(void **state) {
    (void)state;
    trm_part part = {0};
    const double zero[] = {0, 0}, negative[] = {1, -1}, nan_[] = {1, NAN}, inf[] = {1, INFINITY};
    assert_fault(trm_part_by_weights(0, NULL, 1, &part), TRM_INTERNAL, "0 owners");
    assert_fault(trm_part_by_weights(2, NULL, -1, &part), TRM_INTERNAL, "-1 things");
    assert_fault(trm_part_by_weights(2, zero, 1, &part), TRM_JOB, "all 2 weights are 0");
    assert_fault(trm_part_by_weights(2, negative, 1, &part), TRM_JOB, "weight -1 of owner 1");
    assert_fault(trm_part_by_weights(2, nan_, 1, &part), TRM_JOB, "of owner 1");
    assert_fault(trm_part_by_weights(2, inf, 1, &part), TRM_JOB, "weight inf of owner 1");
    for (uint64_t n = 1; n <= 2; n++) {
        trm_mem_fail_after(n);
        assert_int_equal(trm_part_by_weights(2, NULL, 1, &part), TRM_MEMORY);
    }
    assert_null(part.offset);
    assert_ok(trm_part_by_weights(2, zero, 0, &part));
    trm_part_free(&part);
    trm_part_free(NULL);
}

static void small_helpers(void **state) {
    (void)state;
    for (int64_t n = 0; n < 20; n++)
        for (int64_t parts = 1; parts < 8; parts++) {
            assert_int_equal(trm_cut(n, parts, 0), 0);
            assert_int_equal(trm_cut(n, parts, parts), n);
            for (int64_t k = 0; k < parts; k++) {
                int64_t size = trm_cut(n, parts, k + 1) - trm_cut(n, parts, k);
                assert_int_equal(size, n / parts + (k < n % parts));
            }
        }
    assert_int_equal(trm_round_up(0, 64), 0);
    assert_int_equal(trm_round_up(1, 64), 64);
    assert_int_equal(trm_round_up(64, 64), 64);
    assert_int_equal(trm_min64(-1, 2), -1);
    assert_int_equal(trm_max64(-1, 2), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_cuts),           cmocka_unit_test(ties_go_to_the_lower_owner),
        cmocka_unit_test(random_weights),       cmocka_unit_test(is_minimax),
        cmocka_unit_test(extreme_weights),      cmocka_unit_test(large_counts_are_quick),
        cmocka_unit_test(faults_are_sentences), cmocka_unit_test(small_helpers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
