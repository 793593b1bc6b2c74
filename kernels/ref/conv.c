/* conv: cross-correlation in groups, as torch.nn.Conv3d; where there are fewer axes, the first ones have one pixel:
 *   y[o,oz,oy,ox] = b[o] + sum over i, kz, ky, kx of
 *                   w[o,i,kz,ky,kx] x[g(o)*I + i, oz*sz + kz*dz - pz, oy*sy + ky*dy - py, ox*sx + kx*dx - px]
 * with the dilation d (gap + 1), I = c/groups channels seen by each output and zero outside of the image.
 * Its transpose (torch.nn.ConvTranspose3d) sends every product the other way: forward is the gradient by x. */
#include "ref/ref.h"

/* One product of the sum above: which input, weight and output it joins. */
typedef struct tap {
    int64_t x, w, y;
} tap;
typedef void (*tap_fn)(const tap *t, const double *a, const double *b, double *out);

/* A place on three axes. */
typedef struct place {
    int64_t at[3];
} place;

/* The place of number i in row-major order. */
static place place_of(const int64_t size[3], int64_t i) {
    return (place){{i / size[2] / size[1], i / size[2] % size[1], i % size[2]}};
}

/* The pixel of x under pixel k of the kernel at output o, or -1 where that is outside. */
static int64_t pixel_under(const trm_ref_window *s, const place *o, const place *k) {
    int64_t pixel = 0;
    for (int a = 0; a < 3; a++) {
        int64_t i = o->at[a] * s->stride[a] + k->at[a] * (s->gap[a] + 1) - s->pad[a];
        if (i < 0 || i >= s->in[a]) return -1;
        pixel = pixel * s->in[a] + i;
    }
    return pixel;
}

static int64_t volume(const int64_t size[3]) { return size[0] * size[1] * size[2]; }

static void each_tap_of_output(const trm_ref_window *s, tap t, const place *at, tap_fn fn, const double *a,
                               const double *b, double *out) {
    int64_t per_group = s->c / s->groups, o = t.y % s->o, first = o / (s->o / s->groups) * per_group;
    int64_t image = t.x, window = volume(s->kernel);
    for (int64_t k = 0; k < window; k++) {
        place in_kernel = place_of(s->kernel, k);
        int64_t pixel = pixel_under(s, at, &in_kernel);
        for (int64_t i = 0; i < per_group && pixel >= 0; i++) {
            t.x = image + pixel * s->c + first + i;
            t.w = (o * per_group + i) * window + k;
            fn(&t, a, b, out);
        }
    }
}

/* Forward and both gradients are the same walk over the same products. */
static void each_tap(const trm_ref_window *s, tap_fn fn, const double *a, const double *b, double *out) {
    int64_t pixels = volume(s->out);
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t p = 0; p < pixels; p++)
            for (int64_t o = 0; o < s->o; o++) {
                place at = place_of(s->out, p);
                tap t = {.x = n * volume(s->in) * s->c, .y = (n * pixels + p) * s->o + o};
                each_tap_of_output(s, t, &at, fn, a, b, out);
            }
}

static void add_y(const tap *t, const double *x, const double *w, double *y) { y[t->y] += x[t->x] * w[t->w]; }
static void add_dx(const tap *t, const double *dy, const double *w, double *dx) {
    dx[t->x] += dy[t->y] * w[t->w];
}
static void add_dw(const tap *t, const double *dy, const double *x, double *dw) {
    dw[t->w] += dy[t->y] * x[t->x];
}

static void clear(double *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) p[i] = 0;
}

/* p = b for each of `rows` rows of c channels; 0 without b. */
static void begin_rows(double *p, int64_t rows, int64_t c, const double *b) {
    for (int64_t i = 0; i < rows * c; i++) p[i] = b ? b[i % c] : 0;
}

static void add_rows(const double *p, int64_t rows, int64_t c, bool acc, double *sum) {
    if (!acc) clear(sum, c);
    for (int64_t i = 0; i < rows * c; i++) sum[i % c] += p[i];
}

static int64_t weights(const trm_ref_window *s) { return s->o * (s->c / s->groups) * volume(s->kernel); }

void trm_ref_conv_fwd(const trm_ref_window *s, const double *x, const double *w, const double *b, double *y) {
    begin_rows(y, s->n * volume(s->out), s->o, b);
    each_tap(s, add_y, x, w, y);
}

void trm_ref_conv_bwd_x(const trm_ref_window *s, const double *dy, const double *w, bool acc, double *dx) {
    if (!acc) clear(dx, s->n * volume(s->in) * s->c);
    each_tap(s, add_dx, dy, w, dx);
}

void trm_ref_conv_bwd_w(const trm_ref_window *s, const double *dy, const double *x, bool acc, double *dw,
                        double *db) {
    if (!acc) clear(dw, weights(s));
    each_tap(s, add_dw, dy, x, dw);
    if (db) add_rows(dy, s->n * volume(s->out), s->o, acc, db);
}

void trm_ref_conv_transposed_fwd(const trm_ref_window *s, const double *x, const double *w, const double *b,
                                 double *y) {
    begin_rows(y, s->n * volume(s->in), s->c, b);
    each_tap(s, add_dx, x, w, y);
}

void trm_ref_conv_transposed_bwd_x(const trm_ref_window *s, const double *dy, const double *w, bool acc,
                                   double *dx) {
    if (!acc) clear(dx, s->n * volume(s->out) * s->o);
    each_tap(s, add_y, dy, w, dx);
}

void trm_ref_conv_transposed_bwd_w(const trm_ref_window *s, const double *dy, const double *x, bool acc,
                                   double *dw, double *db) {
    if (!acc) clear(dw, weights(s));
    each_tap(s, add_dw, x, dy, dw);
    if (db) add_rows(dy, s->n * volume(s->in), s->c, acc, db);
}
