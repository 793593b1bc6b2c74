/* linear: y = x W^T + b and its two gradients, as torch.nn.Linear. */
#include "ref/ref.h"

/* y[r,o] = sum_i x[r,i] w[o,i] + b[o] + res[r,o] */
void trm_ref_linear_fwd(const trm_ref_dense *s, const double *x, const double *w, const double *b,
                        const double *res, double *y) {
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t o = 0; o < s->out; o++) {
            double sum = b ? b[o] : 0;
            for (int64_t i = 0; i < s->in; i++) sum += x[r * s->in + i] * w[o * s->in + i];
            y[r * s->out + o] = res ? sum + res[r * s->out + o] : sum;
        }
}

/* dx[r,i] = sum_o dy[r,o] w[o,i]; o outside i only to walk w in order. */
void trm_ref_linear_bwd_x(const trm_ref_dense *s, const double *dy, const double *w, bool acc, double *dx) {
    for (int64_t r = 0; r < s->rows; r++) {
        double *row = dx + r * s->in;
        for (int64_t i = 0; i < s->in && !acc; i++) row[i] = 0;
        for (int64_t o = 0; o < s->out; o++)
            for (int64_t i = 0; i < s->in; i++) row[i] += dy[r * s->out + o] * w[o * s->in + i];
    }
}

/* dw[o,i] = sum_r dy[r,o] x[r,i], db[o] = sum_r dy[r,o] */
void trm_ref_linear_bwd_w(const trm_ref_dense *s, const double *dy, const double *x, bool acc, double *dw,
                          double *db) {
    for (int64_t o = 0; o < s->out; o++) {
        double *row = dw + o * s->in, sum = 0;
        for (int64_t i = 0; i < s->in && !acc; i++) row[i] = 0;
        for (int64_t r = 0; r < s->rows; r++) {
            double g = dy[r * s->out + o];
            for (int64_t i = 0; i < s->in; i++) row[i] += g * x[r * s->in + i];
            sum += g;
        }
        if (db) db[o] = acc ? db[o] + sum : sum;
    }
}
