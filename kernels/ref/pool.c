/* pool: maximum and average over a sliding window, as torch.nn.MaxPool2d and
 * torch.nn.AvgPool2d(count_include_pad=False).  What lies outside of the image takes no part. */
#include <math.h>

#include "ref/ref.h"

/* Rows (axis 0) or columns (axis 1) begin .. end-1 of the image under output position o. */
typedef struct range {
    int64_t begin, end;
} range;

static range under(const trm_ref_window *s, int axis, int64_t o) {
    int64_t begin = o * s->stride[axis] - s->pad[axis], end = begin + s->kernel[axis];
    return (range){trm_max64(begin, 0), trm_min64(end, axis == 0 ? s->h : s->w)};
}

/* The window of one output: its channel of its image, first element included. */
typedef struct cell {
    range rows, cols;
    int64_t base; /* where (0,0) of this channel of this image lies */
} cell;

static cell cell_of(const trm_ref_window *s, int64_t y_index) {
    int64_t c = y_index % s->c, ox = y_index / s->c % s->ow, oy = y_index / (s->c * s->ow) % s->oh;
    int64_t n = y_index / (s->c * s->ow * s->oh);
    return (cell){under(s, 0, oy), under(s, 1, ox), n * s->h * s->w * s->c + c};
}

static int64_t at(const trm_ref_window *s, const cell *k, int64_t y, int64_t x) {
    return k->base + (y * s->w + x) * s->c;
}

static int64_t outputs(const trm_ref_window *s) { return s->n * s->oh * s->ow * s->c; }
static int64_t inputs(const trm_ref_window *s) { return s->n * s->h * s->w * s->c; }

/* The first largest element wins (row-major); a NaN wins over all, so that it is seen. */
static int64_t largest(const trm_ref_window *s, const cell *k, const double *x) {
    int64_t best = at(s, k, k->rows.begin, k->cols.begin);
    for (int64_t iy = k->rows.begin; iy < k->rows.end; iy++)
        for (int64_t ix = k->cols.begin; ix < k->cols.end; ix++) {
            int64_t e = at(s, k, iy, ix);
            if (x[e] > x[best] || (isnan(x[e]) && !isnan(x[best]))) best = e;
        }
    return best;
}

void trm_ref_pool_max_fwd(const trm_ref_window *s, const double *x, double *y) {
    for (int64_t i = 0; i < outputs(s); i++) {
        cell k = cell_of(s, i);
        y[i] = x[largest(s, &k, x)];
    }
}

/* The gradient of an output goes to the one element that it took. */
void trm_ref_pool_max_bwd(const trm_ref_window *s, const double *x, const double *dy, bool acc, double *dx) {
    for (int64_t i = 0; i < inputs(s) && !acc; i++) dx[i] = 0;
    for (int64_t i = 0; i < outputs(s); i++) {
        cell k = cell_of(s, i);
        dx[largest(s, &k, x)] += dy[i];
    }
}

static double elements(const cell *k) {
    return (double)((k->rows.end - k->rows.begin) * (k->cols.end - k->cols.begin));
}

void trm_ref_pool_avg_fwd(const trm_ref_window *s, const double *x, double *y) {
    for (int64_t i = 0; i < outputs(s); i++) {
        cell k = cell_of(s, i);
        double sum = 0;
        for (int64_t iy = k.rows.begin; iy < k.rows.end; iy++)
            for (int64_t ix = k.cols.begin; ix < k.cols.end; ix++) sum += x[at(s, &k, iy, ix)];
        y[i] = sum / elements(&k);
    }
}

void trm_ref_pool_avg_bwd(const trm_ref_window *s, const double *dy, bool acc, double *dx) {
    for (int64_t i = 0; i < inputs(s) && !acc; i++) dx[i] = 0;
    for (int64_t i = 0; i < outputs(s); i++) {
        cell k = cell_of(s, i);
        for (int64_t iy = k.rows.begin; iy < k.rows.end; iy++)
            for (int64_t ix = k.cols.begin; ix < k.cols.end; ix++)
                dx[at(s, &k, iy, ix)] += dy[i] / elements(&k);
    }
}
