/* Counted memory. */
#include <stdint.h>
#include <string.h>
#include "support.h"

static void blocks_are_zero_and_aligned(void **state) {
    (void)state;
    for (size_t n = 0; n < 300; n += 7) {
        unsigned char *p = trm_alloc(n, "a test");
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % TRM_ALIGN, 0);
        for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
        memset(p, 0xFF, n);
        trm_free(p);
    }
}

static void counts_follow(void **state) {
    (void)state;
    trm_mem_counts a = trm_mem_count();
    void *p = trm_alloc(1000, "a test"), *q = trm_alloc(500, "a test");
    trm_mem_counts b = trm_mem_count();
    assert_int_equal(b.allocations - a.allocations, 2);
    assert_int_equal(b.live_bytes - a.live_bytes, 1500);
    assert_true(b.peak_bytes >= b.live_bytes);
    trm_free(p);
    trm_free(q);
    trm_free(NULL);
    trm_mem_counts c = trm_mem_count();
    assert_int_equal(c.live_bytes, a.live_bytes);
    assert_int_equal(c.peak_bytes, b.peak_bytes);
    assert_int_equal(c.allocations, b.allocations);
}

static void overflow_is_a_sentence(void **state) {
    (void)state;
    size_t out = 7;
    assert_false(trm_mul_size(SIZE_MAX / 2, 3, &out));
    assert_true(trm_mul_size(SIZE_MAX, 1, &out));
    assert_int_equal(out, SIZE_MAX);
    assert_null(trm_alloc_array(SIZE_MAX / 2, 3, "activations"));
    assert_non_null(strstr(trm_error_text(), "activations"));
    assert_non_null(strstr(trm_error_text(), "overflows"));
    assert_null(trm_alloc(SIZE_MAX - 8, "weights"));
    assert_non_null(strstr(trm_error_text(), "weights"));
    assert_null(trm_alloc((size_t)1 << 62, NULL));
}

static void hook_fails_the_nth_once(void **state) {
    (void)state;
    for (uint64_t n = 1; n <= 3; n++) {
        trm_mem_fail_after(n);
        for (uint64_t i = 1; i <= 4; i++) {
            void *p = trm_alloc(8, "a test");
            assert_int_equal(p == NULL, i == n);
            trm_free(p);
        }
    }
    trm_mem_fail_after(1);
    trm_mem_fail_after(0);
    void *p = trm_alloc(8, "a test");
    assert_non_null(p);
    trm_free(p);
}

static void realloc_keeps_and_zeroes(void **state) {
    (void)state;
    unsigned char *p = trm_realloc(NULL, 0, 10, "a test");
    assert_non_null(p);
    memset(p, 0xAB, 10);
    p = trm_realloc(p, 10, 1000, "a test");
    for (int i = 0; i < 10; i++) assert_int_equal(p[i], 0xAB);
    for (int i = 10; i < 1000; i++) assert_int_equal(p[i], 0);
    trm_mem_fail_after(1);
    assert_null(trm_realloc(p, 1000, 2000, "a test"));
    assert_int_equal(p[9], 0xAB);
    p = trm_realloc(p, 1000, 5, "a test");
    assert_int_equal(p[4], 0xAB);
    trm_free(p);
}

static void strdup_copies_or_fails(void **state) {
    (void)state;
    char *s = trm_strdup("oars");
    assert_string_equal(s, "oars");
    trm_free(s);
    trm_mem_fail_after(1);
    assert_null(trm_strdup("oars"));
}

static void resident_set_grows(void **state) {
    (void)state;
    size_t before = trm_mem_resident();
    assert_true(before > 100000);
    void *p = trm_alloc((size_t)64 << 20, "a test");
    assert_true(trm_mem_resident() > before + ((size_t)48 << 20));
    trm_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zero_and_aligned), cmocka_unit_test(counts_follow),
        cmocka_unit_test(overflow_is_a_sentence),      cmocka_unit_test(hook_fails_the_nth_once),
        cmocka_unit_test(realloc_keeps_and_zeroes),    cmocka_unit_test(strdup_copies_or_fails),
        cmocka_unit_test(resident_set_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
