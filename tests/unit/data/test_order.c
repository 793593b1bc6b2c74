/* The order of an epoch: a known answer, every sample once, no pattern. */
#include "data_support.h"
#include <math.h>

/* Written down from the definition: Fisher-Yates from the end on Philox4x32-10. */
static void known_answer(void **state) {
    (void)state;
    int64_t got[12];
    trm_rng_key key = {.seed = 42, .purpose = TRM_RNG_ORDER, .update = 3};
    int64_t want[12];
    for (int64_t i = 0; i < 12; i++) want[i] = i;
    for (int64_t k = 0; k < 11; k++) {
        int64_t last = 11 - k, j = (int64_t)trm_rng_below(&key, (uint64_t)k, (uint64_t)last + 1);
        int64_t held = want[last];
        want[last] = want[j];
        want[j] = held;
    }
    trm_order_fill(TRM_SHUFFLE_EXACT, 42, 3, 12, got);
    for (int i = 0; i < 12; i++) assert_int_equal(got[i], want[i]);
    static const int64_t fixed[12] = {5, 1, 3, 4, 9, 0, 8, 6, 2, 11, 7, 10};
    for (int i = 0; i < 12; i++) assert_int_equal(got[i], fixed[i]);
}

static void every_sample_once(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 1000, 1000000};
    for (size_t s = 0; s < SUPPORT_COUNT(sizes); s++) {
        int64_t n = sizes[s], *order = malloc((size_t)n * sizeof *order);
        unsigned char *seen = calloc((size_t)n, 1);
        trm_order_fill(TRM_SHUFFLE_EXACT, 7, 0, n, order);
        for (int64_t i = 0; i < n; i++) {
            assert_in_range(order[i], 0, n - 1);
            seen[order[i]]++;
        }
        for (int64_t i = 0; i < n; i++) assert_int_equal(seen[i], 1);
        free(order);
        free(seen);
    }
}

static void none_is_the_files_order(void **state) {
    (void)state;
    int64_t order[5];
    trm_order_fill(TRM_SHUFFLE_NONE, 1, 2, 5, order);
    for (int i = 0; i < 5; i++) assert_int_equal(order[i], i);
}

static int64_t differences(uint64_t seed_a, int64_t epoch_a, uint64_t seed_b, int64_t epoch_b) {
    int64_t a[1000], b[1000], n = 0;
    trm_order_fill(TRM_SHUFFLE_EXACT, seed_a, epoch_a, 1000, a);
    trm_order_fill(TRM_SHUFFLE_EXACT, seed_b, epoch_b, 1000, b);
    for (int i = 0; i < 1000; i++) n += a[i] != b[i];
    return n;
}

static void seeds_and_epochs_differ(void **state) {
    (void)state;
    assert_int_equal(differences(1, 0, 1, 0), 0);
    assert_true(differences(1, 0, 2, 0) > 980);
    assert_true(differences(1, 0, 1, 1) > 980);
}

/* Each sample lands in each place about equally often: chi-square of a 6 x 6 table over 6000 epochs. */
static void no_place_is_favoured(void **state) {
    (void)state;
    enum { N = 6, EPOCHS = 6000 };
    int count[N][N] = {{0}};
    for (int e = 0; e < EPOCHS; e++) {
        int64_t order[N];
        trm_order_fill(TRM_SHUFFLE_EXACT, 5, e, N, order);
        for (int i = 0; i < N; i++) count[i][order[i]]++;
    }
    double chi = 0, want = EPOCHS / (double)N;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) chi += (count[i][j] - want) * (count[i][j] - want) / want;
    /* 25 degrees of freedom: above 60 happens once in 10,000. */
    assert_true(chi < 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answer),
        cmocka_unit_test(every_sample_once),
        cmocka_unit_test(none_is_the_files_order),
        cmocka_unit_test(seeds_and_epochs_differ),
        cmocka_unit_test(no_place_is_favoured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
