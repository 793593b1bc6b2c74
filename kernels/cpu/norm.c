/* Batch norm over rows of channels and layer norm over rows, float32.
 *
 * Sums are kept in float over a few hundred rows at most and then added to float64 totals. */
#include "bf16.h"
#include "kernels.h"
#include "lanes.h"

#include <math.h>

#define L TRM_LANES

/* Element i of a buffer that lies as float32 or as bfloat16; which one is a constant in every loop. */
TRM_INLINE trm_vf vget(const float *p, const uint16_t *h, int64_t i, const bool half) {
    return half ? vload_bf16(h + i) : vload(p + i);
}
TRM_INLINE float get(const float *p, const uint16_t *h, int64_t i, const bool half) {
    return half ? trm_bf16_value(h[i]) : p[i];
}
TRM_INLINE void vput(float *p, uint16_t *h, int64_t i, trm_vf v, const bool half) {
    if (half)
        vstore_bf16(h + i, v);
    else
        vstore(p + i, v);
}
TRM_INLINE void put(float *p, uint16_t *h, int64_t i, float v, const bool half) {
    if (half)
        h[i] = trm_bf16_of(v);
    else
        p[i] = v;
}

/* ---- batch norm: sums --------------------------------------------------------------- */

/* Rows that are summed in float before the sums go to float64: about 64 KiB of input. */
static int64_t rows_per_flush(int64_t width) {
    int64_t rows = 16384 / width;
    return rows < 16 ? 16 : rows > 256 ? 256 : rows;
}

TRM_INLINE void flush(trm_vf v, double *total) {
    for (int k = 0; k < L; k++) total[k] += (double)v[k];
}

/* nv vectors of columns over `rows` rows.  The numbers are taken relative to `mean`, so that the squares do
 * not lose the variance when the mean is large. */
TRM_INLINE void stats_block(const trm_bn *a, int64_t at, int64_t rows, int64_t width, int64_t j, double *sum,
                            double *sq, const bool half, const int nv) {
    trm_vf s[4], q[4], m[4];
    for (int i = 0; i < nv; i++) {
        s[i] = q[i] = (trm_vf){0};
        m[i] = vload(a->mean + j + i * L);
    }
    for (int64_t r = 0; r < rows; r++, at += width)
        for (int i = 0; i < nv; i++) {
            trm_vf d = vget(a->x, a->x16, at + i * L, half) - m[i];
            s[i] += d;
            q[i] += d * d;
        }
    for (int i = 0; i < nv; i++) {
        flush(s[i], sum + j + i * L);
        flush(q[i], sq + j + i * L);
    }
}

static void stats_column(const trm_bn *a, int64_t at, int64_t rows, int64_t width, int64_t j, double *sum,
                         double *sq) {
    float s = 0, q = 0;
    for (int64_t r = 0; r < rows; r++) {
        float d = get(a->x, a->x16, at + r * width, a->x16 != NULL) - a->mean[j];
        s += d;
        q += d * d;
    }
    sum[j] += (double)s;
    sq[j] += (double)q;
}

TRM_INLINE void stats_rows(const trm_bn *a, int64_t at, int64_t rows, int64_t width, double *sum, double *sq,
                           const bool half) {
    int64_t step = rows_per_flush(width);
    for (int64_t r = 0; r < rows; r += step, at += step * width) {
        int64_t m = rows - r < step ? rows - r : step, j = 0;
        for (; j + 4 * L <= width; j += 4 * L) stats_block(a, at + j, m, width, j, sum, sq, half, 4);
        for (; j + L <= width; j += L) stats_block(a, at + j, m, width, j, sum, sq, half, 1);
        for (; j < width; j++) stats_column(a, at + j, m, width, j, sum, sq);
    }
}

/* dy masked in place where y is not positive; sums of dy and of dy * (x - mean). */
TRM_INLINE void grad_block(const trm_bn *a, int64_t at, int64_t rows, int64_t width, int64_t j, double *sum,
                           double *sq, const bool relu, const bool x16, const bool y16, const int nv) {
    float *dy = a->dy + at;
    trm_vf s[4], q[4], m[4];
    for (int i = 0; i < nv; i++) {
        s[i] = q[i] = (trm_vf){0};
        m[i] = vload(a->mean + j + i * L);
    }
    for (int64_t r = 0; r < rows; r++, at += width, dy += width)
        for (int i = 0; i < nv; i++) {
            trm_vf g = vload(dy + i * L);
            if (relu) {
                g = vzero_where(vget(a->y, a->y16, at + i * L, y16) <= (trm_vf){0}, g);
                vstore(dy + i * L, g);
            }
            s[i] += g;
            q[i] += g * (vget(a->x, a->x16, at + i * L, x16) - m[i]);
        }
    for (int i = 0; i < nv; i++) {
        flush(s[i], sum + j + i * L);
        flush(q[i], sq + j + i * L);
    }
}

static void grad_column(const trm_bn *a, int64_t at, int64_t rows, int64_t width, int64_t j, double *sum,
                        double *sq) {
    float s = 0, q = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t i = at + r * width;
        if (a->relu && get(a->y, a->y16, i, a->y16 != NULL) <= 0) a->dy[i] = 0;
        s += a->dy[i];
        q += a->dy[i] * (get(a->x, a->x16, i, a->x16 != NULL) - a->mean[j]);
    }
    sum[j] += (double)s;
    sq[j] += (double)q;
}

TRM_INLINE void grad_rows(const trm_bn *a, int64_t at, int64_t rows, int64_t width, double *sum, double *sq,
                          const bool relu, const bool x16, const bool y16) {
    int64_t step = rows_per_flush(width);
    for (int64_t r = 0; r < rows; r += step, at += step * width) {
        int64_t m = rows - r < step ? rows - r : step, j = 0;
        for (; j + 4 * L <= width; j += 4 * L) grad_block(a, at + j, m, width, j, sum, sq, relu, x16, y16, 4);
        for (; j + L <= width; j += L) grad_block(a, at + j, m, width, j, sum, sq, relu, x16, y16, 1);
        for (; j < width; j++) grad_column(a, at + j, m, width, j, sum, sq);
    }
}

static void sums_of(const trm_bn *a, bool grad, int64_t at, int64_t rows, int64_t width, double *sum,
                    double *sq) {
    const int kind = (a->relu ? 1 : 0) | (a->x16 ? 2 : 0) | (a->relu && a->y16 ? 4 : 0);
#define STATS(k)                                    \
    case k:                                         \
        stats_rows(a, at, rows, width, sum, sq, k); \
        break;
#define GRAD(k) \
    case k: grad_rows(a, at, rows, width, sum, sq, k & 1, k & 2, k & 4); break;
    if (!grad) switch (a->x16 != NULL) {
            STATS(0) STATS(1)
        }
    else
        switch (kind) { GRAD(0) GRAD(1) GRAD(2) GRAD(3) GRAD(5) GRAD(7) }
}

/* Adds the `pack` copies of every thread's wide sums. */
static void fold(const trm_bn *a, int64_t parts) {
    memset(a->sum, 0, sizeof *a->sum * (size_t)(2 * a->c));
    for (int64_t p = 0; p < parts; p++)
        for (int64_t j = 0; j < a->c; j++) a->sum[p / a->pack % 2 * a->c + j] += a->work[p * a->c + j];
}

static void sums(const trm_bn *a, bool grad) {
    int64_t width = a->pack * a->c, wide_rows = a->rows / a->pack, rest = a->rows % a->pack;
    int threads = threads_for(a->rows * a->c, a->threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        double *sum = a->work + t * 2 * width;
        trm_span s = span_of(wide_rows, 1, threads, t);
        memset(sum, 0, sizeof *sum * (size_t)(2 * width));
        sums_of(a, grad, s.begin * width, s.end - s.begin, width, sum, sum + width);
        if (t == threads - 1) sums_of(a, grad, wide_rows * width, rest, a->c, sum, sum + width);
    }
    fold(a, threads * 2 * a->pack);
}

void TRM_K(bn_stats)(const trm_bn *a) { sums(a, false); }
void TRM_K(bn_grad_sums)(const trm_bn *a) { sums(a, true); }

/* ---- batch norm: apply -------------------------------------------------------------- */

TRM_INLINE void apply_row(const trm_bn *a, int64_t at, int64_t width, const bool relu, const bool res,
                          const bool x16, const bool res16, const bool out16) {
    const float *x = a->x, *r = a->res, *mean = a->mean, *scale = a->scale, *shift = a->shift;
    const uint16_t *xh = a->x16, *rh = a->res16;
    float *y = a->out;
    uint16_t *yh = a->out16;
#pragma omp simd
    for (int64_t j = 0; j < width; j++) {
        float v = (get(x, xh, at + j, x16) - mean[j]) * scale[j] + shift[j];
        if (res) v += get(r, rh, at + j, res16);
        put(y, yh, at + j, relu && v < 0 ? 0 : v, out16);
    }
}

TRM_INLINE void grad_apply_row(const trm_bn *a, int64_t at, int64_t width, const bool accumulate,
                               const bool x16, const bool out16) {
    const float *x = a->x, *dy = a->dy + at;
    const uint16_t *xh = a->x16;
    const float *mean = a->mean, *scale = a->scale, *shift = a->shift, *slope = a->slope;
    float *dx = a->out;
    uint16_t *dxh = a->out16;
#pragma omp simd
    for (int64_t j = 0; j < width; j++) {
        float v = dy[j] * scale[j] + ((get(x, xh, at + j, x16) - mean[j]) * slope[j] + shift[j]);
        put(dx, dxh, at + j, accumulate ? dx[at + j] + v : v, out16);
    }
}

static void apply_rows(const trm_bn *a, int64_t at, int64_t rows, int64_t width) {
    const int kind = (a->relu ? 1 : 0) | (a->res || a->res16 ? 2 : 0) | (a->x16 ? 4 : 0) |
                     (a->out16 ? 8 : 0) | (a->res16 ? 16 : 0);
#define APPLY(k)                                                         \
    case k:                                                              \
        for (int64_t r = 0; r < rows; r++, at += width)                  \
            apply_row(a, at, width, (k)&1, (k)&2, (k)&4, (k)&16, (k)&8); \
        break;
#define APPLY4(k) APPLY(k) APPLY((k) + 1) APPLY((k) + 2) APPLY((k) + 3)
#define APPLY2(k) APPLY((k) + 2) APPLY((k) + 3)
    switch (kind) { APPLY4(0) APPLY4(4) APPLY4(8) APPLY4(12) APPLY2(16) APPLY2(20) APPLY2(24) APPLY2(28) }
}

/* What is added to lies as float32. */
static void grad_apply_rows(const trm_bn *a, int64_t at, int64_t rows, int64_t width) {
    const int kind = (a->accumulate ? 1 : 0) | (a->x16 ? 2 : 0) | (a->out16 ? 4 : 0);
#define GRAD_APPLY(k)                                                                                      \
    case k:                                                                                                \
        for (int64_t r = 0; r < rows; r++, at += width) grad_apply_row(a, at, width, (k)&1, (k)&2, (k)&4); \
        break;
    switch (kind) { GRAD_APPLY(0) GRAD_APPLY(1) GRAD_APPLY(2) GRAD_APPLY(3) GRAD_APPLY(4) GRAD_APPLY(6) }
}

static void rowwise(const trm_bn *a, void (*rows_fn)(const trm_bn *, int64_t, int64_t, int64_t)) {
    int64_t width = a->pack * a->c, wide_rows = a->rows / a->pack, rest = a->rows % a->pack;
    int threads = threads_for(a->rows * a->c, a->threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(wide_rows, 1, threads, t);
        rows_fn(a, s.begin * width, s.end - s.begin, width);
        if (t == threads - 1) rows_fn(a, wide_rows * width, rest, a->c);
    }
}

void TRM_K(bn_apply)(const trm_bn *a) { rowwise(a, apply_rows); }
void TRM_K(bn_grad_apply)(const trm_bn *a) { rowwise(a, grad_apply_rows); }

/* ---- layer norm --------------------------------------------------------------------- */

/* Four rows at a time: enough independent sums to hide the latency of an addition, one load of w for four
 * rows, and dw, db are touched once for four rows.  What lies behind the last whole vector of a row is left to
 * functions of its own, so that it costs nothing where there is none. */
#define R 4
#define EACH_ROW _Pragma("GCC unroll 4") for (int i = 0; i < n; i++)
#define NOT_INLINE static __attribute__((noinline))

NOT_INLINE float end_sum(const float *x, int64_t n) {
    float s = 0;
    for (int64_t j = 0; j < n; j++) s += x[j];
    return s;
}

NOT_INLINE float end_squares(const float *x, int64_t n, float mean) {
    float s = 0;
    for (int64_t j = 0; j < n; j++) s += (x[j] - mean) * (x[j] - mean);
    return s;
}

TRM_INLINE void ln_moments(const float *x, int64_t c, float eps, float *mean, float *scale, const int n) {
    int64_t full = c - c % L;
    float inv_c = 1 / (float)c;
    trm_vf s[R], m[R];
    EACH_ROW s[i] = (trm_vf){0};
    for (int64_t j = 0; j < full; j += L) EACH_ROW s[i] += vload(x + i * c + j);
    EACH_ROW mean[i] = vsum(s[i]);
    if (full < c) EACH_ROW mean[i] += end_sum(x + i * c + full, c - full);
    EACH_ROW mean[i] *= inv_c;
    EACH_ROW m[i] = vset(mean[i]);
    EACH_ROW s[i] = (trm_vf){0};
    for (int64_t j = 0; j < full; j += L) EACH_ROW {
            trm_vf d = vload(x + i * c + j) - m[i];
            s[i] += d * d;
        }
    EACH_ROW scale[i] = vsum(s[i]);
    if (full < c) EACH_ROW scale[i] += end_squares(x + i * c + full, c - full, mean[i]);
    EACH_ROW scale[i] = 1 / sqrtf(scale[i] * inv_c + eps);
}

NOT_INLINE void ln_end(const trm_ln *a, int64_t at, float mean, float scale) {
    for (int64_t j = a->c - a->c % L; j < a->c; j++)
        put(a->out, a->out16, at + j, (a->x[at + j] - mean) * scale * a->w[j] + a->b[j], a->out16 != NULL);
}

TRM_INLINE void ln_rows(const trm_ln *a, int64_t r, const bool half, const int n) {
    int64_t c = a->c, full = c - c % L;
    const float *x = a->x + r * c, *w = a->w, *b = a->b;
    float mean[R], scale[R];
    ln_moments(x, c, a->eps, mean, scale, n);
    trm_vf m[R], k[R];
    EACH_ROW m[i] = vset(mean[i]);
    EACH_ROW k[i] = vset(scale[i]);
    for (int64_t j = 0; j < full; j += L) {
        trm_vf wj = vload(w + j), bj = vload(b + j);
        EACH_ROW vput(a->out, a->out16, (r + i) * c + j, (vload(x + i * c + j) - m[i]) * k[i] * wj + bj,
                      half);
    }
    if (full < c) EACH_ROW ln_end(a, (r + i) * c, mean[i], scale[i]);
    EACH_ROW a->saved[2 * (r + i)] = mean[i];
    EACH_ROW a->saved[2 * (r + i) + 1] = scale[i];
}

TRM_INLINE void ln_span(const trm_ln *a, trm_span s, const bool half) {
    int64_t r = s.begin;
    for (; r + R <= s.end; r += R) ln_rows(a, r, half, R);
    for (; r < s.end; r++) ln_rows(a, r, half, 1);
}

void TRM_K(ln_fwd)(const trm_ln *a) {
    int threads = threads_for(a->rows * a->c, a->threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(a->rows, R, threads, t);
        if (a->out16)
            ln_span(a, s, true);
        else
            ln_span(a, s, false);
    }
}

/* One row of the backward pass: what it needs besides vectors of the row. */
typedef struct ln_row {
    float mean, scale;     /* of x */
    float mean_g, mean_gx; /* over the row, of g = dy * w and of g * xhat */
} ln_row;

NOT_INLINE void ln_means_end(const trm_ln *a, const float *x, const float *dy, ln_row *row) {
    for (int64_t j = a->c - a->c % L; j < a->c; j++) {
        row->mean_g += dy[j] * a->w[j];
        row->mean_gx += dy[j] * a->w[j] * (x[j] - row->mean);
    }
}

TRM_INLINE void ln_grad_means(const trm_ln *a, const float *x, const float *dy, ln_row *row, const int n) {
    int64_t c = a->c, full = c - c % L;
    float inv_c = 1 / (float)c;
    trm_vf s[R], q[R], m[R];
    EACH_ROW s[i] = q[i] = (trm_vf){0};
    EACH_ROW m[i] = vset(row[i].mean);
    for (int64_t j = 0; j < full; j += L) {
        trm_vf w = vload(a->w + j);
        EACH_ROW {
            trm_vf g = vload(dy + i * c + j) * w;
            s[i] += g;
            q[i] += g * (vload(x + i * c + j) - m[i]);
        }
    }
    EACH_ROW row[i].mean_g = vsum(s[i]);
    EACH_ROW row[i].mean_gx = vsum(q[i]);
    if (full < c) EACH_ROW ln_means_end(a, x + i * c, dy + i * c, &row[i]);
    EACH_ROW row[i].mean_g *= inv_c;
    EACH_ROW row[i].mean_gx *= row[i].scale * inv_c;
}

NOT_INLINE void ln_grad_end(const trm_ln *a, int64_t at, const ln_row *row, float *dw, float *db) {
    for (int64_t j = a->c - a->c % L; j < a->c; j++) {
        float g = a->dy[at + j], xhat = (a->x[at + j] - row->mean) * row->scale;
        float d = (g * a->w[j] - row->mean_g - xhat * row->mean_gx) * row->scale;
        dw[j] += g * xhat;
        db[j] += g;
        a->out[at + j] = a->accumulate ? a->out[at + j] + d : d;
    }
}

/* dx = (g - mean(g) - xhat * mean(g * xhat)) / sd; dw, db grow by dy * xhat and dy. */
TRM_INLINE void ln_grad_rows(const trm_ln *a, int64_t r, float *dw, float *db, const bool accumulate,
                             const int n) {
    int64_t c = a->c, full = c - c % L;
    const float *x = a->x + r * c, *dy = a->dy + r * c;
    float *dx = a->out + r * c;
    ln_row row[R];
    EACH_ROW row[i].mean = a->saved[2 * (r + i)];
    EACH_ROW row[i].scale = a->saved[2 * (r + i) + 1];
    ln_grad_means(a, x, dy, row, n);
    for (int64_t j = 0; j < full; j += L) {
        trm_vf w = vload(a->w + j), sw = vload(dw + j), sb = vload(db + j);
        EACH_ROW {
            trm_vf g = vload(dy + i * c + j), xhat = (vload(x + i * c + j) - row[i].mean) * row[i].scale;
            trm_vf d = (g * w - row[i].mean_g - xhat * row[i].mean_gx) * row[i].scale;
            sw += g * xhat;
            sb += g;
            vstore(dx + i * c + j, accumulate ? vload(dx + i * c + j) + d : d);
        }
        vstore(dw + j, sw);
        vstore(db + j, sb);
    }
    if (full < c) EACH_ROW ln_grad_end(a, (r + i) * c, &row[i], dw, db);
}

TRM_INLINE void ln_grad_span(const trm_ln *a, trm_span s, float *part, const bool accumulate) {
    int64_t r = s.begin;
    for (; r + R <= s.end; r += R) ln_grad_rows(a, r, part, part + a->c, accumulate, R);
    for (; r < s.end; r++) ln_grad_rows(a, r, part, part + a->c, accumulate, 1);
}

/* One thread's rows; its sums go to total[2c], by way of float sums of at most 64 rows. */
static void ln_grad_thread(const trm_ln *a, trm_span s, double *total, float *part) {
    memset(total, 0, sizeof *total * (size_t)(2 * a->c));
    for (int64_t r = s.begin; r < s.end; r += 64) {
        trm_span rows = {r, r + 64 < s.end ? r + 64 : s.end};
        memset(part, 0, sizeof *part * (size_t)(2 * a->c));
        if (a->accumulate)
            ln_grad_span(a, rows, part, true);
        else
            ln_grad_span(a, rows, part, false);
        for (int64_t j = 0; j < 2 * a->c; j++) total[j] += (double)part[j];
    }
}

void TRM_K(ln_bwd)(const trm_ln *a) {
    int threads = threads_for(a->rows * a->c, a->threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        double *total = a->work + t * 3 * a->c;
        ln_grad_thread(a, span_of(a->rows, R, threads, t), total, (float *)(total + 2 * a->c));
    }
    for (int64_t j = 0; j < a->c; j++) {
        a->dw[j] = a->db[j] = 0;
        for (int t = 0; t < threads; t++) {
            a->dw[j] += a->work[t * 3 * a->c + j];
            a->db[j] += a->work[t * 3 * a->c + a->c + j];
        }
    }
}
