/* norm: batch normalisation in four steps (Ioffe, Szegedy 2015; running estimates as
 * torch.nn.BatchNorm2d), layer normalisation (Ba, Kiros, Hinton 2016; torch.nn.LayerNorm) and group
 * normalisation (Wu, He 2018; torch.nn.GroupNorm).  All are written over rows of c channels. */
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

/* ---- group norm: one sample and group after the other ---- */

typedef struct gn_group {
    int64_t sample, first, channels; /* first element of the sample; first channel and number of them */
    double mean, rstd;
} gn_group;

static gn_group gn_group_of(const trm_ref_gn *s, int64_t sample, int64_t group) {
    int64_t channels = s->c / s->groups;
    return (gn_group){.sample = sample * s->pixels * s->c, .first = group * channels, .channels = channels};
}

/* Element j of the group's pixels * channels. */
static int64_t gn_at(const trm_ref_gn *s, const gn_group *g, int64_t j) {
    return g->sample + j / g->channels * s->c + g->first + j % g->channels;
}

/* Mean and biased variance of the group's pixels and channels. */
static void gn_moments(const trm_ref_gn *s, gn_group *g, const double *x) {
    int64_t m = s->pixels * g->channels;
    double var = 0;
    g->mean = 0;
    for (int64_t j = 0; j < m; j++) g->mean += x[gn_at(s, g, j)] / (double)m;
    for (int64_t j = 0; j < m; j++) {
        double d = x[gn_at(s, g, j)] - g->mean;
        var += d * d / (double)m;
    }
    g->rstd = 1 / sqrt(var + s->eps);
}

/* y = w (x - mean)/sqrt(var + eps) + b, w and b per channel. */
void trm_ref_gn_fwd(const trm_ref_gn *s, const double *x, const double *w, const double *b, double *y,
                    double *saved) {
    for (int64_t k = 0; k < s->n * s->groups; k++) {
        gn_group g = gn_group_of(s, k / s->groups, k % s->groups);
        gn_moments(s, &g, x);
        for (int64_t j = 0; j < s->pixels * g.channels; j++) {
            int64_t i = gn_at(s, &g, j), c = i % s->c;
            y[i] = (x[i] - g.mean) * g.rstd * (w ? w[c] : 1) + (b ? b[c] : 0);
        }
        saved[2 * k] = g.mean;
        saved[2 * k + 1] = g.rstd;
    }
}

/* With g = dy w: dx = 1/sd (g - mean(g) - xhat mean(g xhat)), means over the group. */
void trm_ref_gn_bwd_x(const trm_ref_gn *s, const double *x, const double *dy, const double *w,
                      const double *saved, bool acc, double *dx) {
    for (int64_t k = 0; k < s->n * s->groups; k++) {
        gn_group g = gn_group_of(s, k / s->groups, k % s->groups);
        int64_t m = s->pixels * g.channels;
        double mean = saved[2 * k], rstd = saved[2 * k + 1], mean_g = 0, mean_gx = 0;
        for (int64_t j = 0; j < m; j++) {
            int64_t i = gn_at(s, &g, j);
            double v = dy[i] * (w ? w[i % s->c] : 1);
            mean_g += v / (double)m;
            mean_gx += v * (x[i] - mean) * rstd / (double)m;
        }
        for (int64_t j = 0; j < m; j++) {
            int64_t i = gn_at(s, &g, j);
            double v = dy[i] * (w ? w[i % s->c] : 1),
                   d = rstd * (v - mean_g - (x[i] - mean) * rstd * mean_gx);
            dx[i] = acc ? dx[i] + d : d;
        }
    }
}

/* dw = sum over samples and pixels of dy xhat, db = that of dy */
void trm_ref_gn_bwd_w(const trm_ref_gn *s, const double *x, const double *dy, const double *saved, bool acc,
                      double *dw, double *db) {
    for (int64_t c = 0; c < s->c; c++) {
        double sum_w = 0, sum_b = 0;
        for (int64_t r = 0; r < s->n * s->pixels; r++) {
            const double *of = saved + 2 * (r / s->pixels * s->groups + c / (s->c / s->groups));
            sum_w += dy[r * s->c + c] * (x[r * s->c + c] - of[0]) * of[1];
            sum_b += dy[r * s->c + c];
        }
        if (dw) dw[c] = acc ? dw[c] + sum_w : sum_w;
        if (db) db[c] = acc ? db[c] + sum_b : sum_b;
    }
}
