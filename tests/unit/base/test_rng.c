/* Random numbers: known answers of the generator, the packing, and the distributions. */
#include <math.h>
#include <string.h>
#include "support.h"

/* Undoes mix64, so that a key can be chosen: seed = wanted key ^ mix64(purpose, layer). */
static uint64_t mix64(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* A key whose Philox key is `k` and whose counter is c, of the four words. */
static trm_rng_key key_of(uint64_t k, const uint32_t c[4], uint64_t *block) {
    trm_rng_key key = {.purpose = TRM_RNG_DROPOUT, .layer = 5};
    key.seed = k ^ mix64((uint64_t)key.purpose << 32 | key.layer);
    *block = c[0] | (uint64_t)(c[3] & 0xFF) << 32;
    key.sample = c[1] | (uint64_t)(c[3] >> 8 & 0xFFFF) << 32;
    key.update = c[2] | (uint64_t)(c[3] >> 24) << 32;
    return key;
}

/* philox4x32-10 of the known-answer file (kat_vectors) of Random123. */
static void known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t want[4];
    } kat[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, ~(uint64_t)0, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         0x299f31d0a4093822u,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof kat / sizeof *kat; i++) {
        uint64_t block;
        uint32_t got[4];
        trm_rng_key key = key_of(kat[i].key, kat[i].counter, &block);
        trm_rng_block(&key, block, got);
        assert_memory_equal(got, kat[i].want, sizeof got);
    }
}

/* These numbers decide initial weights and orders: they must never change.  The second key has a
 * value in every field of the counter; both were computed by an independent program. */
static void our_own_numbers_stay(void **state) {
    (void)state;
    static const struct {
        trm_rng_key key;
        uint64_t block;
        uint32_t want[4];
    } kept[] = {
        {{.seed = 42, .purpose = TRM_RNG_INIT, .layer = 3},
         0,
         {0x040da2de, 0xf79ba1cf, 0xa81e9e4b, 0xb1066edc}},
        {{0x123456789abcdef0, TRM_RNG_DROPOUT, 7, 0xab00000001, 0xcdef00000002},
         0x1200000003,
         {0x05581596, 0x3bc752a1, 0xd7e9eed4, 0x63a2f349}},
    };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        uint32_t got[4];
        trm_rng_block(&kept[i].key, kept[i].block, got);
        assert_memory_equal(got, kept[i].want, sizeof got);
    }
}

static void words_and_elements_agree(void **state) {
    (void)state;
    trm_rng_key key = {.seed = 1, .purpose = TRM_RNG_SYNTH, .layer = 0, .update = 2, .sample = 3};
    for (uint64_t e = 0; e < 16; e++) {
        uint32_t w[4];
        trm_rng_block(&key, e / 4, w);
        assert_int_equal(trm_rng_u32(&key, e), w[e % 4]);
        assert_true(trm_rng_uniform(&key, e) == w[e % 4] / 4294967296.0);
        trm_rng_block(&key, e / 2, w);
        uint64_t bits = (uint64_t)w[2 * (e % 2) + 1] << 32 | w[2 * (e % 2)];
        assert_true(trm_rng_below(&key, e, (uint64_t)1 << 63) == bits >> 1);
    }
}

static bool same_block(const trm_rng_key *a, uint64_t ba, const trm_rng_key *b, uint64_t bb) {
    uint32_t x[4], y[4];
    trm_rng_block(a, ba, x);
    trm_rng_block(b, bb, y);
    return memcmp(x, y, sizeof x) == 0;
}

static void every_part_of_the_key_counts(void **state) {
    (void)state;
    const trm_rng_key key = {.seed = 9, .purpose = 1, .layer = 2, .update = 3, .sample = 4};
    for (int bit = 0; bit < 64; bit++) {
        uint64_t flip = (uint64_t)1 << bit;
        trm_rng_key k = key;
        k.seed ^= flip;
        assert_false(same_block(&key, 5, &k, 5));
        if (bit < 40) {
            assert_false(same_block(&key, 5, &key, 5 ^ flip));
            k = key, k.update ^= flip;
            assert_false(same_block(&key, 5, &k, 5));
        }
        if (bit < 48) {
            k = key, k.sample ^= flip;
            assert_false(same_block(&key, 5, &k, 5));
        }
        if (bit < 32) {
            k = key, k.layer ^= (uint32_t)flip;
            assert_false(same_block(&key, 5, &k, 5));
            k = key, k.purpose ^= (uint32_t)flip;
            assert_false(same_block(&key, 5, &k, 5));
        }
    }
}

static void uniform_is_uniform(void **state) {
    (void)state;
    trm_rng_key key = {.seed = 7, .purpose = TRM_RNG_DROPOUT};
    enum { N = 200000, BINS = 20 };
    int bin[BINS] = {0};
    double sum = 0;
    for (uint64_t e = 0; e < N; e++) {
        double u = trm_rng_uniform(&key, e);
        assert_true(u >= 0 && u < 1);
        bin[(int)(u * BINS)]++;
        sum += u;
    }
    assert_bound(fabs(sum / N - 0.5), 4 * sqrt(1.0 / 12 / N));
    double chi2 = 0, want = (double)N / BINS;
    for (int b = 0; b < BINS; b++) chi2 += (bin[b] - want) * (bin[b] - want) / want;
    assert_bound(chi2, 43.8); /* 19 degrees of freedom, p = 0.001 */
}

static void normal_is_normal(void **state) {
    (void)state;
    trm_rng_key key = {.seed = 8, .purpose = TRM_RNG_INIT};
    enum { N = 200000 };
    double sum = 0, squares = 0, cubes = 0, fourth = 0, neighbours = 0, before = 0;
    for (uint64_t e = 0; e < N; e++) {
        double z = trm_rng_normal(&key, e);
        assert_true(isfinite(z) && fabs(z) < 7);
        sum += z;
        squares += z * z;
        cubes += z * z * z;
        fourth += z * z * z * z;
        neighbours += z * before;
        before = z;
    }
    assert_bound(fabs(sum / N), 4 / sqrt(N));
    assert_bound(fabs(squares / N - 1), 4 * sqrt(2.0 / N));
    assert_bound(fabs(cubes / N), 4 * sqrt(15.0 / N));
    assert_bound(fabs(fourth / N - 3), 4 * sqrt(96.0 / N));
    assert_bound(fabs(neighbours / N), 4 / sqrt(N));
}

static void below_stays_below(void **state) {
    (void)state;
    trm_rng_key key = {.seed = 3, .purpose = TRM_RNG_ORDER};
    int seen[7] = {0};
    for (uint64_t e = 0; e < 70000; e++) {
        uint64_t v = trm_rng_below(&key, e, 7);
        assert_true(v < 7);
        seen[v]++;
        assert_int_equal(trm_rng_below(&key, e, 1), 0);
        assert_true(trm_rng_below(&key, e, (uint64_t)1 << 63) < (uint64_t)1 << 63);
    }
    for (int i = 0; i < 7; i++) assert_in_range(seen[i], 9600, 10400);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(our_own_numbers_stay),
        cmocka_unit_test(words_and_elements_agree),
        cmocka_unit_test(every_part_of_the_key_counts),
        cmocka_unit_test(uniform_is_uniform),
        cmocka_unit_test(normal_is_normal),
        cmocka_unit_test(below_stays_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
