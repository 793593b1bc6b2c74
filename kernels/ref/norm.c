/* norm: batch normalisation in four steps (Ioffe, Szegedy 2015; running estimates as
 * torch.nn.BatchNorm2d) and layer normalisation (Ba, Kiros, Hinton 2016; torch.nn.LayerNorm).
 * Both are written over rows of c channels. */
#include <math.h>

#include "ref/ref.h"

/* stat = { sum_r x[r,c] }, { sum_r x[r,c]^2 }, rows: sums, so that ranks can add theirs. */
void trm_ref_bn_stats(int64_t rows, int64_t c, const double *x, double *stat) {
    for (int64_t i = 0; i < 2 * c; i++) stat[i] = 0;
    for (int64_t i = 0; i < rows * c; i++) {
        stat[i % c] += x[i];
        stat[c + i % c] += x[i] * x[i];
    }
    stat[2 * c] = (double)rows;
}

/* mean = S1/m, var = S2/m - mean^2; rounding must not make a variance negative. */
void trm_ref_bn_moments(int64_t c, const double *stat, double *mean, double *var) {
    double m = stat[2 * c];
    for (int64_t i = 0; i < c; i++) {
        mean[i] = stat[i] / m;
        var[i] = fmax(stat[c + i] / m - mean[i] * mean[i], 0);
    }
}

/* The unbiased variance is var * m/(m-1); a single row has none, so its biased one (0) is taken. */
void trm_ref_bn_running(int64_t c, const double *stat, double momentum, double *run_mean, double *run_var) {
    double m = stat[2 * c], unbias = m > 1 ? m / (m - 1) : 1;
    for (int64_t i = 0; i < c; i++) {
        double mean = stat[i] / m, var = fmax(stat[c + i] / m - mean * mean, 0);
        run_mean[i] = (1 - momentum) * run_mean[i] + momentum * mean;
        run_var[i] = (1 - momentum) * run_var[i] + momentum * var * unbias;
    }
}

static double xhat(const trm_ref_bn *s, const double *x, int64_t i) {
    return (x[i] - s->mean[i % s->c]) / sqrt(s->var[i % s->c] + s->eps);
}

void trm_ref_bn_apply(const trm_ref_bn *s, const double *x, const double *w, const double *b,
                      const double *res, double *y) {
    for (int64_t i = 0; i < s->rows * s->c; i++)
        y[i] = w[i % s->c] * xhat(s, x, i) + b[i % s->c] + (res ? res[i] : 0);
}

void trm_ref_bn_grad_sums(const trm_ref_bn *s, const double *x, const double *dy, double *gstat) {
    for (int64_t i = 0; i < 2 * s->c; i++) gstat[i] = 0;
    for (int64_t i = 0; i < s->rows * s->c; i++) {
        gstat[i % s->c] += dy[i];
        gstat[s->c + i % s->c] += dy[i] * xhat(s, x, i);
    }
}

/* dx = w/sd (dy - sum(dy)/m - xhat sum(dy xhat)/m); mean and variance are functions of x too. */
void trm_ref_bn_grad_apply(const trm_ref_bn *s, const trm_ref_bn_grad *g, const double *x, const double *dy,
                           double *dx) {
    for (int64_t i = 0; i < s->rows * s->c; i++) {
        int64_t c = i % s->c;
        double inner = dy[i] - g->gstat[c] / g->m - xhat(s, x, i) * g->gstat[s->c + c] / g->m;
        double d = g->w[c] / sqrt(s->var[c] + s->eps) * inner;
        dx[i] = g->acc ? dx[i] + d : d;
    }
}

/* y = w (x - mean)/sqrt(var + eps) + b with mean and biased variance of the row. */
void trm_ref_ln_fwd(const trm_ref_ln *s, const double *x, const double *w, const double *b, double *y,
                    double *saved) {
    for (int64_t r = 0; r < s->rows; r++) {
        const double *row = x + r * s->c;
        double mean = 0, var = 0;
        for (int64_t i = 0; i < s->c; i++) mean += row[i] / (double)s->c;
        for (int64_t i = 0; i < s->c; i++) var += (row[i] - mean) * (row[i] - mean) / (double)s->c;
        double rstd = 1 / sqrt(var + s->eps);
        for (int64_t i = 0; i < s->c; i++)
            y[r * s->c + i] = (row[i] - mean) * rstd * (w ? w[i] : 1) + (b ? b[i] : 0);
        saved[2 * r] = mean;
        saved[2 * r + 1] = rstd;
    }
}

/* With g = dy w: dx = 1/sd (g - mean(g) - xhat mean(g xhat)) */
void trm_ref_ln_bwd_x(const trm_ref_ln *s, const double *x, const double *dy, const double *w,
                      const double *saved, bool acc, double *dx) {
    for (int64_t r = 0; r < s->rows; r++) {
        const double *xr = x + r * s->c, *dyr = dy + r * s->c;
        double mean = saved[2 * r], rstd = saved[2 * r + 1], mean_g = 0, mean_gx = 0;
        for (int64_t i = 0; i < s->c; i++) {
            double g = dyr[i] * (w ? w[i] : 1);
            mean_g += g / (double)s->c;
            mean_gx += g * (xr[i] - mean) * rstd / (double)s->c;
        }
        for (int64_t i = 0; i < s->c; i++) {
            double g = dyr[i] * (w ? w[i] : 1), d = rstd * (g - mean_g - (xr[i] - mean) * rstd * mean_gx);
            dx[r * s->c + i] = acc ? dx[r * s->c + i] + d : d;
        }
    }
}

/* dw = sum over rows of dy xhat, db = sum over rows of dy */
void trm_ref_ln_bwd_w(const trm_ref_ln *s, const double *x, const double *dy, const double *saved, bool acc,
                      double *dw, double *db) {
    for (int64_t i = 0; i < s->c; i++) {
        double sum_w = 0, sum_b = 0;
        for (int64_t r = 0; r < s->rows; r++) {
            sum_w += dy[r * s->c + i] * (x[r * s->c + i] - saved[2 * r]) * saved[2 * r + 1];
            sum_b += dy[r * s->c + i];
        }
        if (dw) dw[i] = acc ? dw[i] + sum_w : sum_w;
        if (db) db[i] = acc ? db[i] + sum_b : sum_b;
    }
}
