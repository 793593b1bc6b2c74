/* pool: the largest or mean value of windows of (H,W,C) images.  Vectors run over the channels. */
#include "cpu/kernels.h"
#include "cpu/lanes.h"

enum { CHUNK = 64 }; /* channels whose results stay in the first-level cache */

/* The part of an output's window that lies in the image. */
typedef struct window {
    int64_t row, col;                 /* of the unclipped window's corner */
    int64_t top, bottom, left, right; /* rows and columns of the window that are inside */
} window;

static int64_t first_inside(int64_t corner) { return corner < 0 ? -corner : 0; }
static int64_t end_inside(int64_t corner, int64_t kernel, int64_t size) {
    return corner + kernel > size ? size - corner : kernel;
}

static window window_at(const trm_pool *a, int64_t i, int64_t j) {
    int64_t row = i * a->stride[0] - a->pad[0], col = j * a->stride[1] - a->pad[1];
    return (window){row,
                    col,
                    first_inside(row),
                    end_inside(row, a->kernel[0], a->in[0]),
                    first_inside(col),
                    end_inside(col, a->kernel[1], a->in[1])};
}

/* Elements from the image's begin to the first channel of the window's (r,s). */
static int64_t offset(const trm_pool *a, const window *w, int64_t r, int64_t s) {
    return ((w->row + r) * a->in[1] + w->col + s) * a->c;
}

static int64_t image(const trm_pool *a) { return a->in[0] * a->in[1] * a->c; }

/* Every input belongs to exactly one window: gradients are stored, not added up. */
static bool tiled(const trm_pool *a) {
    for (int d = 0; d < 2; d++)
        if (a->stride[d] != a->kernel[d] || a->pad[d] != 0 || a->in[d] != a->out[d] * a->kernel[d])
            return false;
    return true;
}

/* ---- max ------------------------------------------------------------------------------ */

/* NaN counts as largest, as in the definition by comparison that keeps the first of equals. */
static inline int larger(float v, float high) { return (v > high) | (v != v); }

static void max_chunk(const trm_pool *a, const window *w, const float *x, float *y, int32_t *place,
                      int64_t c) {
    float high[CHUNK];
    int32_t where[CHUNK];
    int32_t first = (int32_t)(w->top * a->kernel[1] + w->left);
    const float *p = x + offset(a, w, w->top, w->left);
    for (int64_t k = 0; k < c; k++) {
        high[k] = p[k];
        where[k] = first;
    }
    for (int64_t r = w->top; r < w->bottom; r++) {
        for (int64_t s = w->left; s < w->right; s++) {
            int32_t here = (int32_t)(r * a->kernel[1] + s);
            p = x + offset(a, w, r, s);
#pragma omp simd
            for (int64_t k = 0; k < c; k++) {
                int take = larger(p[k], high[k]);
                high[k] = take ? p[k] : high[k];
                where[k] = take ? here : where[k];
            }
        }
    }
#pragma omp simd
    for (int64_t k = 0; k < c; k++) {
        y[k] = high[k];
        place[k] = where[k];
    }
}

/* The common window of 2 x 2, wholly inside: everything in registers.  p and q are its two rows. */
TRM_INLINE void max_2x2(const float *restrict p, const float *restrict q, float *restrict y,
                        int32_t *restrict place, int64_t c, int64_t width) {
#pragma omp simd
    for (int64_t k = 0; k < width; k++) {
        float high = p[k];
        int32_t where = 0;
        int take = larger(p[c + k], high);
        high = take ? p[c + k] : high;
        where = take ? 1 : where;
        take = larger(q[k], high);
        high = take ? q[k] : high;
        where = take ? 2 : where;
        take = larger(q[c + k], high);
        high = take ? q[c + k] : high;
        where = take ? 3 : where;
        y[k] = high;
        place[k] = where;
    }
}

/* Whole vectors; the last one may overlap the one before, which does no harm. */
static void max_2x2_vectors(const float *p, const float *q, float *y, int32_t *place, int64_t c) {
    for (int64_t k = 0; k < c; k += TRM_LANES) {
        int64_t at = k + TRM_LANES <= c ? k : c - TRM_LANES;
        max_2x2(p + at, q + at, y + at, place + at, c, TRM_LANES);
    }
}

static bool is_2x2(const trm_pool *a, const window *w) {
    return a->kernel[0] == 2 && a->kernel[1] == 2 && w->top == 0 && w->left == 0 && w->bottom == 2 &&
           w->right == 2;
}

static void max_window(const trm_pool *a, const window *w, const float *x, float *y, int32_t *place) {
    if (is_2x2(a, w) && a->c >= TRM_LANES) {
        const float *p = x + offset(a, w, 0, 0);
        max_2x2_vectors(p, p + a->in[1] * a->c, y, place, a->c);
        return;
    }
    for (int64_t k = 0; k < a->c; k += CHUNK)
        max_chunk(a, w, x + k, y + k, place + k, a->c - k < CHUNK ? a->c - k : CHUNK);
}

static void max_row(const trm_pool *a, int64_t i, const float *x, float *y, int32_t *place) {
    for (int64_t j = 0; j < a->out[1]; j++, y += a->c, place += a->c) {
        window w = window_at(a, i, j);
        max_window(a, &w, x, y, place);
    }
}

void TRM_K(pool_max)(const trm_pool *a) {
    int64_t rows = a->n * a->out[0], row = a->out[1] * a->c;
#pragma omp parallel for if (a->threads > 1) num_threads(a->threads)
    for (int64_t i = 0; i < rows; i++)
        max_row(a, i % a->out[0], a->x + i / a->out[0] * image(a), a->y + i * row, a->place + i * row);
}

/* The gradient is read whether or not it is wanted: a conditional load would be slow or not a vector's. */
TRM_INLINE void max_grad_store(float *restrict dx, const float *restrict dy, const int32_t *restrict place,
                               int32_t here, int64_t c) {
#pragma omp simd
    for (int64_t k = 0; k < c; k++) {
        float d = dy[k];
        dx[k] = place[k] == here ? d : 0.0f;
    }
}

static void max_grad_at(float *restrict dx, const float *restrict dy, const int32_t *restrict place,
                        int32_t here, int64_t c, bool store) {
    if (store && c >= TRM_LANES) {
        for (int64_t k = 0; k < c; k += TRM_LANES) {
            int64_t at = k + TRM_LANES <= c ? k : c - TRM_LANES;
            max_grad_store(dx + at, dy + at, place + at, here, TRM_LANES);
        }
    } else if (store) {
        max_grad_store(dx, dy, place, here, c);
    } else {
#pragma omp simd
        for (int64_t k = 0; k < c; k++) {
            float d = dy[k];
            dx[k] += place[k] == here ? d : 0.0f;
        }
    }
}

static void max_grad_window(const trm_pool *a, const window *w, float *dx, const float *dy,
                            const int32_t *place, bool store) {
    for (int64_t r = w->top; r < w->bottom; r++)
        for (int64_t s = w->left; s < w->right; s++)
            max_grad_at(dx + offset(a, w, r, s), dy, place, (int32_t)(r * a->kernel[1] + s), a->c, store);
}

/* ---- mean ----------------------------------------------------------------------------- */

static float share(const window *w) { return 1.0f / (float)((w->bottom - w->top) * (w->right - w->left)); }

static void mean_chunk(const trm_pool *a, const window *w, const float *x, float *y, int64_t c) {
    float sum[CHUNK] = {0};
    for (int64_t r = w->top; r < w->bottom; r++) {
        for (int64_t s = w->left; s < w->right; s++) {
            const float *p = x + offset(a, w, r, s);
#pragma omp simd
            for (int64_t k = 0; k < c; k++) sum[k] += p[k];
        }
    }
    float scale = share(w);
#pragma omp simd
    for (int64_t k = 0; k < c; k++) y[k] = sum[k] * scale;
}

static void mean_row(const trm_pool *a, int64_t i, const float *x, float *y) {
    for (int64_t j = 0; j < a->out[1]; j++, y += a->c) {
        window w = window_at(a, i, j);
        for (int64_t k = 0; k < a->c; k += CHUNK)
            mean_chunk(a, &w, x + k, y + k, a->c - k < CHUNK ? a->c - k : CHUNK);
    }
}

void TRM_K(pool_avg)(const trm_pool *a) {
    int64_t rows = a->n * a->out[0];
#pragma omp parallel for if (a->threads > 1) num_threads(a->threads)
    for (int64_t i = 0; i < rows; i++)
        mean_row(a, i % a->out[0], a->x + i / a->out[0] * image(a), a->y + i * a->out[1] * a->c);
}

static void mean_grad_window(const trm_pool *a, const window *w, float *dx, const float *dy, bool store) {
    float scale = share(w);
    for (int64_t r = w->top; r < w->bottom; r++) {
        for (int64_t s = w->left; s < w->right; s++) {
            float *restrict p = dx + offset(a, w, r, s);
            if (store) {
#pragma omp simd
                for (int64_t k = 0; k < a->c; k++) p[k] = dy[k] * scale;
            } else {
#pragma omp simd
                for (int64_t k = 0; k < a->c; k++) p[k] += dy[k] * scale;
            }
        }
    }
}

/* ---- both gradients: an image is one thread's --------------------------------------------- */

static void grad_row(const trm_pool *a, int64_t i, int64_t at, float *dx, bool max, bool store) {
    for (int64_t j = 0; j < a->out[1]; j++, at += a->c) {
        window w = window_at(a, i, j);
        if (max)
            max_grad_window(a, &w, dx, a->dy + at, a->place + at, store);
        else
            mean_grad_window(a, &w, dx, a->dy + at, store);
    }
}

static void grad_image(const trm_pool *a, int64_t n, bool max) {
    float *dx = a->dx + n * image(a);
    bool store = !a->accumulate && tiled(a);
    if (!a->accumulate && !store) memset(dx, 0, (size_t)image(a) * sizeof *dx);
    for (int64_t i = 0; i < a->out[0]; i++)
        grad_row(a, i, (n * a->out[0] + i) * a->out[1] * a->c, dx, max, store);
}

void TRM_K(pool_max_grad)(const trm_pool *a) {
#pragma omp parallel for if (a->threads > 1) num_threads(a->threads)
    for (int64_t i = 0; i < a->n; i++) grad_image(a, i, true);
}

void TRM_K(pool_avg_grad)(const trm_pool *a) {
#pragma omp parallel for if (a->threads > 1) num_threads(a->threads)
    for (int64_t i = 0; i < a->n; i++) grad_image(a, i, false);
}
