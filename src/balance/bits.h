/* Private to balance: doubles >= 0 as integers in the same order.  A bisection over these ends after 63 steps at the very
 * number, whatever its size, and needs no tolerance. */
#ifndef TRM_BALANCE_BITS_H
#define TRM_BALANCE_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint64_t trm_bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double trm_of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
