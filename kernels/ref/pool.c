/* pool: maximum and average over windows, as torch.nn.MaxPool3d and torch.nn.AvgPool3d(count_include_pad=False); where
 * there are fewer axes, the first ones have one pixel.  What lies outside of the image takes no part.  Adaptive windows
 * (torch.nn.AdaptiveAvgPool3d) divide the input among the outputs, and overlap where that leaves a rest. */
#include <math.h>

#include "ref/ref.h"

/* Pixels begin .. end-1 of one axis. */
typedef struct range {
    int64_t begin, end;
} range;

static range under(const trm_ref_window *s, int a, int64_t o) {
    if (s->adaptive)
        return (range){o * s->in[a] / s->out[a], ((o + 1) * s->in[a] + s->out[a] - 1) / s->out[a]};
    int64_t begin = o * s->stride[a] - s->pad[a], end = begin + s->kernel[a];
    return (range){trm_max64(begin, 0), trm_min64(end, s->in[a])};
}

/* The window of one output: its pixels on each axis, and where pixel 0 of its channel of its image lies. */
typedef struct cell {
    range on[3];
    int64_t base;
} cell;

static cell cell_of(const trm_ref_window *s, int64_t y_index) {
    int64_t c = y_index % s->c, o = y_index / s->c;
    cell k;
    for (int a = 2; a >= 0; a--) {
        k.on[a] = under(s, a, o % s->out[a]);
        o /= s->out[a];
    }
    k.base = o * s->in[0] * s->in[1] * s->in[2] * s->c + c;
    return k;
}

static int64_t size(const cell *k, int a) { return k->on[a].end - k->on[a].begin; }
static int64_t elements(const cell *k) { return size(k, 0) * size(k, 1) * size(k, 2); }

/* Where element i of the window lies, in row-major order of its pixels. */
static int64_t at(const trm_ref_window *s, const cell *k, int64_t i) {
    int64_t x = k->on[2].begin + i % size(k, 2), y = k->on[1].begin + i / size(k, 2) % size(k, 1);
    int64_t z = k->on[0].begin + i / size(k, 2) / size(k, 1);
    return k->base + ((z * s->in[1] + y) * s->in[2] + x) * s->c;
}

static int64_t outputs(const trm_ref_window *s) { return s->n * s->out[0] * s->out[1] * s->out[2] * s->c; }
static int64_t inputs(const trm_ref_window *s) { return s->n * s->in[0] * s->in[1] * s->in[2] * s->c; }

/* The first largest element wins (row-major); a NaN wins over all, so that it is seen. */
static int64_t largest(const trm_ref_window *s, const cell *k, const double *x) {
    int64_t best = at(s, k, 0);
    for (int64_t i = 1; i < elements(k); i++) {
        int64_t e = at(s, k, i);
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

void trm_ref_pool_avg_fwd(const trm_ref_window *s, const double *x, double *y) {
    for (int64_t i = 0; i < outputs(s); i++) {
        cell k = cell_of(s, i);
        double sum = 0;
        for (int64_t e = 0; e < elements(&k); e++) sum += x[at(s, &k, e)];
        y[i] = sum / (double)elements(&k);
    }
}

void trm_ref_pool_avg_bwd(const trm_ref_window *s, const double *dy, bool acc, double *dx) {
    for (int64_t i = 0; i < inputs(s) && !acc; i++) dx[i] = 0;
    for (int64_t i = 0; i < outputs(s); i++) {
        cell k = cell_of(s, i);
        for (int64_t e = 0; e < elements(&k); e++) dx[at(s, &k, e)] += dy[i] / (double)elements(&k);
    }
}
