/* pool: the largest or mean value of windows of images and volumes with their channels last.  Vectors run over the channels. */
#include "cpu/kernels.h"
#include "cpu/lanes.h"

enum { CHUNK = 64 }; /* channels whose results stay in the first-level cache */

/* The part of an output's window that lies in the image, on each axis: where the whole window begins, and which of its
 * pixels are inside. */
typedef struct window {
    int64_t corner[3], first[3], end[3];
} window;

static void set_axis(const trm_pool *a, int d, int64_t o, window *w) {
    if (a->adaptive) {
        w->corner[d] = o * a->in[d] / a->out[d];
        w->first[d] = 0;
        w->end[d] = ((o + 1) * a->in[d] + a->out[d] - 1) / a->out[d] - w->corner[d];
        return;
    }
    int64_t corner = o * a->stride[d] - a->pad[d];
    w->corner[d] = corner;
    w->first[d] = corner < 0 ? -corner : 0;
    w->end[d] = corner + a->kernel[d] > a->in[d] ? a->in[d] - corner : a->kernel[d];
}

/* The windows of a row of the output, which differ on the last axis only. */
static window row_window(const trm_pool *a, int64_t row) {
    window w;
    set_axis(a, 0, row / a->out[1], &w);
    set_axis(a, 1, row % a->out[1], &w);
    return w;
}

static int64_t inside(const window *w, int d) { return w->end[d] - w->first[d]; }

/* The rows of a window, one behind the other. */
typedef struct line {
    int64_t z, y;
} line;

static line first_line(const window *w) { return (line){w->first[0], w->first[1]}; }
static bool inside_lines(const window *w, const line *l) { return l->z < w->end[0]; }
static void next_line(const window *w, line *l) {
    if (++l->y < w->end[1]) return;
    l->y = w->first[1];
    l->z++;
}

/* The number of the first pixel of a row in the whole window. */
static int32_t place_of(const trm_pool *a, const window *w, const line *l) {
    return (int32_t)((l->z * a->kernel[1] + l->y) * a->kernel[2] + w->first[2]);
}

/* Elements from the image's begin to the first channel of the first pixel of a row of the window. */
static int64_t offset(const trm_pool *a, const window *w, const line *l) {
    int64_t row = (w->corner[0] + l->z) * a->in[1] + w->corner[1] + l->y;
    return (row * a->in[2] + w->corner[2] + w->first[2]) * a->c;
}

static int64_t image(const trm_pool *a) { return a->in[0] * a->in[1] * a->in[2] * a->c; }

/* Rows of the output of one image. */
static int64_t rows_of(const trm_pool *a) { return a->out[0] * a->out[1]; }

/* Every input belongs to exactly one window: gradients are stored, not added up. */
static bool tiled(const trm_pool *a) {
    for (int d = 0; d < 3; d++) {
        bool whole = a->adaptive ? a->in[d] % a->out[d] == 0
                                 : a->stride[d] == a->kernel[d] && a->pad[d] == 0 &&
                                       a->in[d] == a->out[d] * a->kernel[d];
        if (!whole) return false;
    }
    return true;
}

/* ---- max ------------------------------------------------------------------------------ */

/* NaN counts as largest, as in the definition by comparison that keeps the first of equals. */
static inline int larger(float v, float high) { return (v > high) | (v != v); }

static void max_chunk(const trm_pool *a, const window *w, const float *x, float *y, int32_t *place,
                      int64_t c) {
    float high[CHUNK];
    int32_t where[CHUNK];
    line l = first_line(w);
    int32_t first = place_of(a, w, &l);
    const float *p = x + offset(a, w, &l);
    for (int64_t k = 0; k < c; k++) {
        high[k] = p[k];
        where[k] = first;
    }
    for (; inside_lines(w, &l); next_line(w, &l)) {
        int32_t here = place_of(a, w, &l);
        p = x + offset(a, w, &l);
        for (int64_t s = inside(w, 2); s > 0; s--, here++, p += a->c) {
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
    return a->kernel[0] == 1 && a->kernel[1] == 2 && a->kernel[2] == 2 && inside(w, 1) == 2 &&
           inside(w, 2) == 2;
}

static void max_window(const trm_pool *a, const window *w, const float *x, float *y, int32_t *place) {
    if (is_2x2(a, w) && a->c >= TRM_LANES) {
        line l = first_line(w);
        const float *p = x + offset(a, w, &l);
        max_2x2_vectors(p, p + a->in[2] * a->c, y, place, a->c);
        return;
    }
    for (int64_t k = 0; k < a->c; k += CHUNK)
        max_chunk(a, w, x + k, y + k, place + k, a->c - k < CHUNK ? a->c - k : CHUNK);
}

static void max_row(const trm_pool *a, int64_t row, const float *x, float *y, int32_t *place) {
    window w = row_window(a, row);
    for (int64_t j = 0; j < a->out[2]; j++, y += a->c, place += a->c) {
        set_axis(a, 2, j, &w);
        max_window(a, &w, x, y, place);
    }
}

void TRM_K(pool_max)(const trm_pool *a) {
    int64_t rows = rows_of(a), row = a->out[2] * a->c;
#pragma omp parallel for if (a->threads > 1) num_threads(a->threads)
    for (int64_t i = 0; i < a->n * rows; i++)
        max_row(a, i % rows, a->x + i / rows * image(a), a->y + i * row, a->place + i * row);
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
    for (line l = first_line(w); inside_lines(w, &l); next_line(w, &l)) {
        int32_t here = place_of(a, w, &l);
        float *p = dx + offset(a, w, &l);
        for (int64_t s = inside(w, 2); s > 0; s--, p += a->c) max_grad_at(p, dy, place, here++, a->c, store);
    }
}

/* ---- mean ----------------------------------------------------------------------------- */

static float share(const window *w) { return 1.0f / (float)(inside(w, 0) * inside(w, 1) * inside(w, 2)); }

static void mean_chunk(const trm_pool *a, const window *w, const float *x, float *y, int64_t c) {
    float sum[CHUNK] = {0};
    for (line l = first_line(w); inside_lines(w, &l); next_line(w, &l)) {
        const float *p = x + offset(a, w, &l);
        for (int64_t s = inside(w, 2); s > 0; s--, p += a->c) {
#pragma omp simd
            for (int64_t k = 0; k < c; k++) sum[k] += p[k];
        }
    }
    float scale = share(w);
#pragma omp simd
    for (int64_t k = 0; k < c; k++) y[k] = sum[k] * scale;
}

static void mean_row(const trm_pool *a, int64_t row, const float *x, float *y) {
    window w = row_window(a, row);
    for (int64_t j = 0; j < a->out[2]; j++, y += a->c) {
        set_axis(a, 2, j, &w);
        for (int64_t k = 0; k < a->c; k += CHUNK)
            mean_chunk(a, &w, x + k, y + k, a->c - k < CHUNK ? a->c - k : CHUNK);
    }
}

void TRM_K(pool_avg)(const trm_pool *a) {
    int64_t rows = rows_of(a);
#pragma omp parallel for if (a->threads > 1) num_threads(a->threads)
    for (int64_t i = 0; i < a->n * rows; i++)
        mean_row(a, i % rows, a->x + i / rows * image(a), a->y + i * a->out[2] * a->c);
}

static void mean_grad_window(const trm_pool *a, const window *w, float *dx, const float *dy, bool store) {
    float scale = share(w);
    for (line l = first_line(w); inside_lines(w, &l); next_line(w, &l)) {
        float *restrict p = dx + offset(a, w, &l);
        for (int64_t s = inside(w, 2); s > 0; s--, p += a->c) {
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

static void grad_row(const trm_pool *a, int64_t row, int64_t at, float *dx, bool max, bool store) {
    window w = row_window(a, row);
    for (int64_t j = 0; j < a->out[2]; j++, at += a->c) {
        set_axis(a, 2, j, &w);
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
    for (int64_t i = 0; i < rows_of(a); i++)
        grad_row(a, i, (n * rows_of(a) + i) * a->out[2] * a->c, dx, max, store);
}

void TRM_K(pool_max_grad)(const trm_pool *a) {
#pragma omp parallel for if (a->threads > 1) num_threads(a->threads)
    for (int64_t i = 0; i < a->n; i++) grad_image(a, i, true);
}

void TRM_K(pool_avg_grad)(const trm_pool *a) {
#pragma omp parallel for if (a->threads > 1) num_threads(a->threads)
    for (int64_t i = 0; i < a->n; i++) grad_image(a, i, false);
}
