/* order: in which order an epoch takes the samples, where it is one permutation of all.
 *
 * Fisher-Yates from the end: draw k (from 0) exchanges place n-1-k with a place in [0, n-1-k].  Draw k is
 * trm_rng_below(key, k, n - k); two draws share one block of random words. */
#include "data_impl.h"

void trm_order_start(int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = i;
}

static void exchange(int64_t *out, int64_t last, uint64_t bits) {
    int64_t place = (int64_t)((unsigned __int128)bits * (uint64_t)(last + 1) >> 64);
    int64_t held = out[last];
    out[last] = out[place];
    out[place] = held;
}

void trm_order_draw_key(const trm_rng_key *key, int64_t n, int64_t *out, int64_t from, int64_t to) {
    uint32_t word[4] = {0};
    for (int64_t k = from; k < to; k++) {
        if (k == from || k % 2 == 0) trm_rng_block(key, (uint64_t)k / 2, word);
        const uint32_t *pair = word + 2 * (k % 2);
        exchange(out, n - 1 - k, (uint64_t)pair[1] << 32 | pair[0]);
    }
}

void trm_order_draw(uint64_t seed, int64_t epoch, int64_t n, int64_t *out, int64_t from, int64_t to) {
    trm_rng_key key = {.seed = seed, .purpose = TRM_RNG_ORDER, .update = (uint64_t)epoch};
    trm_order_draw_key(&key, n, out, from, to);
}

void trm_order_fill(trm_shuffle shuffle, uint64_t seed, int64_t epoch, int64_t n, int64_t *out) {
    trm_order_start(n, out);
    if (shuffle == TRM_SHUFFLE_EXACT) trm_order_draw(seed, epoch, n, out, 0, n - 1);
}
