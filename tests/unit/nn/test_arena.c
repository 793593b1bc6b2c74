/* The memory plan: regions that live at the same time never overlap, and space is reused. */
#include "nn_impl.h"
#include "support.h"

static bool overlap(const trm_region *a, const trm_region *b) {
    return a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static void random_lifetimes(void **state) {
    (void)state;
    trm_region r[60];
    for (uint64_t round = 0; round < 300; round++) {
        trm_rng_key k = {.seed = round, .purpose = TRM_RNG_SYNTH};
        const int n = 1 + (int)trm_rng_below(&k, 0, 60);
        int64_t sum = 0, peak = 0;
        for (int i = 0; i < n; i++) {
            const int first = (int)trm_rng_below(&k, (uint64_t)(3 * i + 1), 40);
            const int length = (int)trm_rng_below(&k, (uint64_t)(3 * i + 2), 20);
            r[i] = (trm_region){.bytes = (int64_t)trm_rng_below(&k, (uint64_t)(3 * i + 3), 5000),
                                .first = first,
                                .last = first + length};
            sum += (int64_t)trm_round_up((size_t)r[i].bytes, TRM_ALIGN);
        }
        const int64_t total = trm_arena_place(r, n);
        for (int t = 0; t < 60; t++) {
            int64_t live = 0;
            for (int i = 0; i < n; i++)
                if (r[i].first <= t && t <= r[i].last) live += r[i].bytes;
            if (live > peak) peak = live;
        }
        assert_true(total >= peak && total <= sum);
        for (int i = 0; i < n; i++) {
            assert_true(r[i].offset % TRM_ALIGN == 0 && r[i].offset >= 0 &&
                        r[i].offset + r[i].bytes <= total);
            for (int j = 0; j < i; j++) assert_false(overlap(&r[i], &r[j]));
        }
    }
}

static void a_chain_needs_two(void **state) {
    (void)state;
    trm_region r[10];
    for (int i = 0; i < 10; i++) r[i] = (trm_region){.bytes = 1024, .first = i, .last = i + 1};
    assert_int_equal(trm_arena_place(r, 10), 2048);
    assert_int_equal(trm_arena_place(r, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_lifetimes),
                                       cmocka_unit_test(a_chain_needs_two)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
