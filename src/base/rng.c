/* rng: counter-based random numbers.  The packing is described in <trireme/base.h>.
 *
 * Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3", SC'11; the generator itself is Random123's. */
#include <Random123/philox.h>
#include <math.h>
#include <trireme/base.h>

/* The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA'14): a bijection of 64 bits. */
static uint64_t mix64(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

void trm_rng_pack(const trm_rng_key *key, uint64_t block, uint32_t philox_key[2], uint32_t counter[4]) {
    uint64_t k = key->seed ^ mix64((uint64_t)key->purpose << 32 | key->layer);
    uint64_t high =
        (block >> 32 & 0xFF) | (key->sample >> 32 & 0xFFFF) << 8 | (key->update >> 32 & 0xFF) << 24;
    philox_key[0] = (uint32_t)k;
    philox_key[1] = (uint32_t)(k >> 32);
    counter[0] = (uint32_t)block;
    counter[1] = (uint32_t)key->sample;
    counter[2] = (uint32_t)key->update;
    counter[3] = (uint32_t)high;
}

void trm_rng_block(const trm_rng_key *key, uint64_t block, uint32_t out[4]) {
    philox4x32_key_t kk;
    philox4x32_ctr_t cc;
    trm_rng_pack(key, block, kk.v, cc.v);
    philox4x32_ctr_t r = philox4x32(cc, kk);
    for (int i = 0; i < 4; i++) out[i] = r.v[i];
}

uint32_t trm_rng_u32(const trm_rng_key *key, uint64_t element) {
    uint32_t w[4];
    trm_rng_block(key, element / 4, w);
    return w[element % 4];
}

double trm_rng_uniform(const trm_rng_key *key, uint64_t element) {
    return trm_rng_u32(key, element) * 0x1p-32;
}

double trm_rng_normal(const trm_rng_key *key, uint64_t element) {
    uint32_t w[4];
    trm_rng_block(key, element / 4, w);
    uint32_t first = w[element % 4 & 2], second = w[(element % 4) | 1];
    double radius = sqrt(-2 * log((first + 1.0) * 0x1p-32)); /* of (0,1]: the logarithm is finite */
    double angle = 2 * M_PI * (second * 0x1p-32);
    return radius * (element % 2 == 0 ? cos(angle) : sin(angle));
}

uint64_t trm_rng_below(const trm_rng_key *key, uint64_t element, uint64_t n) {
    uint32_t w[4];
    trm_rng_block(key, element / 2, w);
    const uint32_t *pair = w + 2 * (element % 2);
    uint64_t bits = (uint64_t)pair[1] << 32 | pair[0];
    return (uint64_t)((unsigned __int128)bits * n >> 64);
}
