/* decode: stored bytes -> elements.  Filters are undone by our own code into buffers of exactly the size that
 * the chunk must have: the library's version 1.10 does not check the size and hands out its own memory. */
#include "data_impl.h"
#include <float.h>
#include <libdeflate.h>
#include <math.h>
#include <string.h>

struct trm_decoder {
    struct libdeflate_decompressor *z;
    unsigned char *buf[2]; /* filters go back and forth between these */
    size_t cap[2];
};

trm_status trm_decoder_new(trm_decoder **out) {
    trm_decoder *d = trm_alloc(sizeof *d, "the decoder");
    if (!d) return TRM_MEMORY;
    d->z = libdeflate_alloc_decompressor();
    if (!d->z) {
        trm_free(d);
        return trm_fail(TRM_MEMORY, "no memory for the decoder");
    }
    *out = d;
    return TRM_OK;
}

void trm_decoder_free(trm_decoder *d) {
    if (!d) return;
    libdeflate_free_decompressor(d->z);
    trm_free(d->buf[0]);
    trm_free(d->buf[1]);
    trm_free(d);
}

/* ---- one filter back ---- */

static trm_status undo_deflate(trm_decoder *d, const unsigned char *src, size_t n, unsigned char *dst,
                               size_t want) {
    size_t got = 0;
    enum libdeflate_result r = libdeflate_zlib_decompress(d->z, src, n, dst, want, &got);
    if (r == LIBDEFLATE_SUCCESS && got == want) return TRM_OK;
    if (r == LIBDEFLATE_SUCCESS)
        return trm_fail(TRM_DATA, "gzip data damaged: it inflates to %zu of %zu bytes", got, want);
    return trm_fail(TRM_DATA, "gzip data damaged: %s",
                    r == LIBDEFLATE_INSUFFICIENT_SPACE ? "it inflates to too much"
                                                       : "it ends early, or bytes of it are wrong");
}

/* The format of liblzf: a byte below 32 starts a run of that many literals plus one; else its upper three bits
 * are a length (7: one more byte follows), its lower five the upper bits of a distance back. */
static trm_status undo_lzf(const unsigned char *src, size_t n, unsigned char *dst, size_t want) {
    const unsigned char *end = src + n;
    size_t at = 0;
    while (src < end) {
        size_t c = *src++;
        if (c < 32) {
            if ((size_t)(end - src) < c + 1 || want - at < c + 1) break;
            memcpy(dst + at, src, c + 1);
            at += c + 1;
            src += c + 1;
            continue;
        }
        size_t length = c >> 5;
        if (length == 7) {
            if (src == end) break;
            length += *src++;
        }
        if (src == end) break;
        size_t back = ((c & 31) << 8 | *src++) + 1;
        length += 2;
        if (back > at || length > want - at) break;
        for (; length > 0; length--, at++) dst[at] = dst[at - back];
    }
    if (src == end && at == want) return TRM_OK;
    return trm_fail(TRM_DATA, "LZF data damaged: it unpacks to %zu of %zu bytes", at, want);
}

static void undo_shuffle(const unsigned char *src, size_t n, size_t size, unsigned char *dst) {
    size_t count = size > 0 ? n / size : 0;
    for (size_t b = 0; b < size; b++)
        for (size_t i = 0; i < count; i++) dst[i * size + b] = src[b * count + i];
    memcpy(dst + count * size, src + count * size, n - count * size);
}

/* Fletcher's sum of big-endian 16-bit words, as HDF5 takes it. */
static uint32_t fletcher32(const unsigned char *p, size_t n) {
    uint32_t a = 0, b = 0;
    for (size_t words = n / 2; words > 0;) {
        size_t run = words < 360 ? words : 360;
        words -= run;
        for (; run > 0; run--, p += 2) {
            a += (uint32_t)p[0] << 8 | p[1];
            b += a;
        }
        a = (a & 0xFFFF) + (a >> 16);
        b = (b & 0xFFFF) + (b >> 16);
    }
    if (n % 2) {
        a += (uint32_t)*p << 8;
        b += a;
        a = (a & 0xFFFF) + (a >> 16);
        b = (b & 0xFFFF) + (b >> 16);
    }
    a = (a & 0xFFFF) + (a >> 16);
    b = (b & 0xFFFF) + (b >> 16);
    return b << 16 | a;
}

static trm_status undo_fletcher(const unsigned char *src, size_t n) {
    const unsigned char *s = src + n;
    uint32_t stored = (uint32_t)s[0] | (uint32_t)s[1] << 8 | (uint32_t)s[2] << 16 | (uint32_t)s[3] << 24;
    uint32_t sum = fletcher32(src, n);
    /* Before 1.6.3 the bytes of both halves were the other way round. */
    uint32_t old = (sum & 0x00FF00FFu) << 8 | (sum >> 8 & 0x00FF00FFu);
    if (stored == sum || stored == old) return TRM_OK;
    return trm_fail(TRM_DATA, "checksum wrong (Fletcher32): a disk or copy error");
}

/* ---- all filters back ---- */

static bool applies(int i, uint32_t mask) { return !(mask >> i & 1); }

/* Bytes behind filter i-1, that is, what undoing filter i has to give. The compressor's own output is the only
 * size that is not fixed; plans hold one compressor at most. */
static size_t size_before(const trm_filter *filter, int i, uint32_t mask, size_t chunk) {
    for (int k = 0; k < i; k++)
        if (applies(k, mask) && filter[k].id == TRM_FILTER_FLETCHER) chunk += 4;
    return chunk;
}

static trm_status grow(trm_decoder *d, int which, size_t n) {
    if (d->cap[which] >= n) return TRM_OK;
    void *more = trm_realloc(d->buf[which], 0, n, "a decoded chunk");
    if (!more) return TRM_MEMORY;
    d->buf[which] = more;
    d->cap[which] = n;
    return TRM_OK;
}

/* *src, *n: what is there, then what is behind this filter; it may lie in dst, of `want` bytes. */
static trm_status undo(trm_decoder *d, const trm_filter *f, const unsigned char **src, size_t *n,
                       unsigned char *dst, size_t want) {
    trm_status s = TRM_OK;
    switch (f->id) {
    case TRM_FILTER_FLETCHER:
        if (*n < 4) return trm_fail(TRM_DATA, "a chunk of %zu bytes has no room for its checksum", *n);
        *n -= 4;
        return undo_fletcher(*src, *n);
    case TRM_FILTER_SHUFFLE:
        if (*n > want) return trm_fail(TRM_DATA, "a chunk has %zu bytes too many", *n - want);
        undo_shuffle(*src, *n, f->param, dst);
        *src = dst;
        return TRM_OK;
    case TRM_FILTER_DEFLATE: s = undo_deflate(d, *src, *n, dst, want); break;
    case TRM_FILTER_LZF: s = undo_lzf(*src, *n, dst, want); break;
    default: return trm_fail(TRM_INTERNAL, "filter %d in a plan", (int)f->id);
    }
    *src = dst;
    *n = want;
    return s;
}

/* No filter in front of filter i was applied: undoing it gives the chunk. */
static bool is_first(int i, uint32_t mask) {
    for (int k = 0; k < i; k++)
        if (applies(k, mask)) return false;
    return true;
}

trm_status trm_decode_chunk(trm_decoder *d, const trm_filter *filter, int n_filters, uint32_t mask,
                            const void *stored, size_t bytes, void *dst, size_t want) {
    const unsigned char *at = stored;
    int turn = 0;
    for (int i = n_filters - 1; i >= 0; i--) {
        if (!applies(i, mask)) continue;
        size_t behind = size_before(filter, i, mask, want);
        if (!is_first(i, mask)) TRM_TRY(grow(d, turn, behind));
        TRM_TRY(undo(d, &filter[i], &at, &bytes, is_first(i, mask) ? dst : d->buf[turn], behind));
        if (at == d->buf[turn]) turn = !turn;
    }
    if (bytes != want) return trm_fail(TRM_DATA, "a chunk has %zu bytes, %zu expected", bytes, want);
    if (at != dst) memcpy(dst, at, want);
    return TRM_OK;
}

/* ---- elements ---- */

void trm_swap_elements(void *p, int64_t n, size_t size) {
    unsigned char *c = p;
    for (int64_t i = 0; i < n; i++, c += size) {
        uint64_t v = 0;
        if (size == 2) {
            uint16_t w;
            memcpy(&w, c, 2);
            w = __builtin_bswap16(w);
            memcpy(c, &w, 2);
        } else if (size == 4) {
            uint32_t w;
            memcpy(&w, c, 4);
            w = __builtin_bswap32(w);
            memcpy(c, &w, 4);
        } else if (size == 8) {
            memcpy(&v, c, 8);
            v = __builtin_bswap64(v);
            memcpy(c, &v, 8);
        }
    }
}

void trm_to_column(const trm_stretch *p, trm_dtype type, void *src, int64_t n, void *dst) {
    size_t size = trm_dtype_size(p->stored);
    if (p->swap) trm_swap_elements(src, n, size);
    if (p->stored == type) {
        if (src != dst) memcpy(dst, src, (size_t)n * size);
    } else if (type == TRM_F32) {
        trm_convert_f32(src, p->stored, n, dst);
    } else {
        trm_convert_i64(src, p->stored, n, dst);
    }
}

/* The exponent of a number that is not finite has every bit set. */
static int64_t nonfinite_f32(const void *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t v;
        memcpy(&v, (const char *)p + 4 * i, sizeof v);
        if ((v & 0x7F800000u) == 0x7F800000u) return i;
    }
    return -1;
}

static int64_t nonfinite_f64(const void *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double v;
        memcpy(&v, (const char *)p + 8 * i, sizeof v);
        /* Beyond float32 it would be infinite where it is used. */
        if (!(fabs(v) <= (double)FLT_MAX)) return i;
    }
    return -1;
}

int64_t trm_first_nonfinite(const void *p, trm_dtype type, int64_t n) {
    if (type == TRM_F32) return nonfinite_f32(p, n);
    if (type == TRM_F64) return nonfinite_f64(p, n);
    return -1;
}

/* Four lanes of 8 bytes, each mixed by a multiplication that is a bijection of 64 bits. */
uint64_t trm_sum64(const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    uint64_t lane[4] = {1, 2, 3, 4}, w[4];
    uint64_t tail[4] = {0};
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        memcpy(w, p + i, 32);
        for (int k = 0; k < 4; k++) lane[k] = (lane[k] ^ w[k]) * 0x9E3779B97F4A7C15u + (lane[k] >> 29);
    }
    if (i < n) memcpy(tail, p + i, n - i);
    for (int k = 0; k < 4; k++) lane[k] = (lane[k] ^ tail[k]) * 0xBF58476D1CE4E5B9u;
    uint64_t h = n;
    for (int k = 0; k < 4; k++) h = (h ^ lane[k] ^ lane[k] >> 32) * 0x94D049BB133111EBu;
    return h ^ h >> 31;
}
