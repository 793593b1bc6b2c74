/* conv: cross-correlation in groups, as torch.nn.Conv2d:
 *   y[o,oy,ox] = b[o] + sum over i, ky, kx of w[o,i,ky,kx] x[g(o)*I + i, oy*sy + ky*dy - py, ox*sx + kx*dx - px]
 * with the dilation dy, dx (gap + 1), I = c/groups channels seen by each output and zero outside of the image. */
#include "ref/ref.h"

/* One product of the sum above: which input, weight and output it joins. */
typedef struct tap {
    int64_t x, w, y;
} tap;
typedef void (*tap_fn)(const tap *t, const double *a, const double *b, double *out);

static void each_tap_of_output(const trm_ref_window *s, tap t, int64_t oy, int64_t ox, tap_fn fn,
                               const double *a, const double *b, double *out) {
    int64_t per_group = s->c / s->groups, o = t.y % s->o, first = o / (s->o / s->groups) * per_group;
    int64_t image = t.x;
    for (int64_t i = 0; i < per_group; i++)
        for (int64_t ky = 0; ky < s->kernel[0]; ky++)
            for (int64_t kx = 0; kx < s->kernel[1]; kx++) {
                int64_t iy = oy * s->stride[0] + ky * (s->gap[0] + 1) - s->pad[0];
                int64_t ix = ox * s->stride[1] + kx * (s->gap[1] + 1) - s->pad[1];
                if (iy < 0 || iy >= s->h || ix < 0 || ix >= s->w) continue;
                t.x = image + (iy * s->w + ix) * s->c + first + i;
                t.w = ((o * per_group + i) * s->kernel[0] + ky) * s->kernel[1] + kx;
                fn(&t, a, b, out);
            }
}

/* Forward and both gradients are the same walk over the same products. */
static void each_tap(const trm_ref_window *s, tap_fn fn, const double *a, const double *b, double *out) {
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t oy = 0; oy < s->oh; oy++)
            for (int64_t ox = 0; ox < s->ow; ox++)
                for (int64_t o = 0; o < s->o; o++) {
                    tap t = {.x = n * s->h * s->w * s->c, .y = ((n * s->oh + oy) * s->ow + ox) * s->o + o};
                    each_tap_of_output(s, t, oy, ox, fn, a, b, out);
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

void trm_ref_conv_fwd(const trm_ref_window *s, const double *x, const double *w, const double *b, double *y) {
    for (int64_t i = 0; i < s->n * s->oh * s->ow * s->o; i++) y[i] = b ? b[i % s->o] : 0;
    each_tap(s, add_y, x, w, y);
}

void trm_ref_conv_bwd_x(const trm_ref_window *s, const double *dy, const double *w, bool acc, double *dx) {
    if (!acc) clear(dx, s->n * s->h * s->w * s->c);
    each_tap(s, add_dx, dy, w, dx);
}

void trm_ref_conv_bwd_w(const trm_ref_window *s, const double *dy, const double *x, bool acc, double *dw,
                        double *db) {
    if (!acc) clear(dw, s->o * (s->c / s->groups) * s->kernel[0] * s->kernel[1]);
    if (!acc && db) clear(db, s->o);
    each_tap(s, add_dw, dy, x, dw);
    for (int64_t i = 0; i < s->n * s->oh * s->ow * s->o && db; i++) db[i % s->o] += dy[i];
}
