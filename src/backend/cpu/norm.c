/* Batch norm, phase by phase, layer norm and group norm.  Numbers per channel are computed here in double; the passes over
 * the data are in kernels/cpu/norm.c. */
#include "own.h"

#include <math.h>
#include <string.h>

/* ---- batch norm --------------------------------------------------------------------- */

typedef struct bn_state {
    trm_cpu_state base;
    trm_bn a;
    float *mean, *scale, *shift, *slope; /* a.mean and so on, writable, in scratch */
} bn_state;

/* The fewest rows whose floats fill whole vectors; 1 where that is too wide to stay in the cache. */
static int64_t pack_of(int64_t c) {
    for (int64_t pack = 1; pack * c <= 1024; pack++)
        if (pack * c >= 64 && pack * c % 16 == 0) return pack;
    return 1;
}

/* Lays out the scratch; `base` NULL only counts. */
static size_t bn_layout(bn_state *s, void *base) {
    size_t used = 0;
    int64_t wide = s->a.pack * s->a.c;
    s->a.mean = s->mean = trm_cpu_take(base, &used, wide, sizeof(float));
    s->a.scale = s->scale = trm_cpu_take(base, &used, wide, sizeof(float));
    s->a.shift = s->shift = trm_cpu_take(base, &used, wide, sizeof(float));
    s->a.slope = s->slope = trm_cpu_take(base, &used, wide, sizeof(float));
    s->a.sum = trm_cpu_take(base, &used, 2 * s->a.c, sizeof(double));
    s->a.work = trm_cpu_take(base, &used, s->a.threads * 2 * wide, sizeof(double));
    return used;
}

/* Repeats the first c numbers of v over the wide row. */
static void widen(const trm_bn *a, float *v) {
    for (int64_t p = 1; p < a->pack; p++) memcpy(v + p * a->c, v, sizeof *v * (size_t)a->c);
}

typedef struct moments {
    double mean, var; /* biased */
} moments;

static moments moments_of(const double *stat, int64_t c, int64_t j) {
    double m = stat[2 * c], mean = stat[j] / m, var = stat[c + j] / m - mean * mean;
    return (moments){mean, var < 0 ? 0 : var};
}

/* The sums are taken relative to the first row and moved back here, in double. */
static trm_status bn_stats_run(trm_op *op, const trm_step *step) {
    (void)step;
    bn_state *s = op->state;
    const trm_bn *a = &s->a;
    double *stat = op->arg[TRM_ARG_STAT], m = (double)a->rows;
    if (a->x16)
        trm_cpu_kernels(op->device)->from_bf16(a->x16, s->mean, a->c, 1);
    else
        memcpy(s->mean, a->x, sizeof(float) * (size_t)a->c);
    widen(a, s->mean);
    trm_cpu_kernels(op->device)->bn_stats(a);
    for (int64_t j = 0; j < a->c; j++) {
        double at = (double)s->mean[j], sum = a->sum[j];
        stat[j] = sum + m * at;
        stat[a->c + j] = a->sum[a->c + j] + at * (2 * sum + m * at);
    }
    stat[2 * a->c] = m;
    return TRM_OK;
}

/* Moves the running moments; the variance that they keep is unbiased. */
static void move_running(const trm_op *op, int64_t j, moments now, double m) {
    float *mean = op->arg[TRM_ARG_RUN_MEAN], *var = op->arg[TRM_ARG_RUN_VAR];
    double by = op->desc.momentum, unbiased = now.var * m / (m > 1 ? m - 1 : 1);
    mean[j] = (float)((1 - by) * (double)mean[j] + by * now.mean);
    var[j] = (float)((1 - by) * (double)var[j] + by * unbiased);
}

static trm_status bn_run_run(trm_op *op, const trm_step *step) {
    (void)step;
    const bn_state *s = op->state;
    const double *stat = op->arg[TRM_ARG_STAT];
    for (int64_t j = 0; j < s->a.c; j++) move_running(op, j, moments_of(stat, s->a.c, j), stat[2 * s->a.c]);
    return TRM_OK;
}

static trm_status bn_apply_run(trm_op *op, const trm_step *step) {
    (void)step;
    bn_state *s = op->state;
    const trm_bn *a = &s->a;
    const double *stat = op->arg[TRM_ARG_STAT];
    const float *w = op->arg[TRM_ARG_W], *b = op->arg[TRM_ARG_B];
    const float *run_mean = op->arg[TRM_ARG_RUN_MEAN], *run_var = op->arg[TRM_ARG_RUN_VAR];
    for (int64_t j = 0; j < a->c; j++) {
        moments now =
            op->desc.train ? moments_of(stat, a->c, j) : (moments){(double)run_mean[j], (double)run_var[j]};
        s->mean[j] = (float)now.mean;
        s->scale[j] = (float)((double)w[j] / sqrt(now.var + op->desc.eps));
        s->shift[j] = b[j];
    }
    widen(a, s->mean);
    widen(a, s->scale);
    widen(a, s->shift);
    trm_cpu_kernels(op->device)->bn_apply(a);
    return TRM_OK;
}

static trm_status bn_grad_sums_run(trm_op *op, const trm_step *step) {
    (void)step;
    bn_state *s = op->state;
    const trm_bn *a = &s->a;
    const double *stat = op->arg[TRM_ARG_STAT];
    double *gstat = op->arg[TRM_ARG_GSTAT];
    float *dw = op->arg[TRM_ARG_DW], *db = op->arg[TRM_ARG_DB];
    for (int64_t j = 0; j < a->c; j++) s->mean[j] = (float)moments_of(stat, a->c, j).mean;
    widen(a, s->mean);
    trm_cpu_kernels(op->device)->bn_grad_sums(a);
    for (int64_t j = 0; j < a->c; j++) {
        gstat[j] = a->sum[j];
        gstat[a->c + j] = a->sum[a->c + j] / sqrt(moments_of(stat, a->c, j).var + op->desc.eps);
        dw[j] = (float)((op->desc.accumulate ? (double)dw[j] : 0) + gstat[a->c + j]);
        db[j] = (float)((op->desc.accumulate ? (double)db[j] : 0) + gstat[j]);
    }
    return TRM_OK;
}

static trm_status bn_grad_apply_run(trm_op *op, const trm_step *step) {
    (void)step;
    bn_state *s = op->state;
    const trm_bn *a = &s->a;
    const double *stat = op->arg[TRM_ARG_STAT], *gstat = op->arg[TRM_ARG_GSTAT];
    const float *w = op->arg[TRM_ARG_W];
    double m = stat[2 * a->c];
    for (int64_t j = 0; j < a->c; j++) {
        moments now = moments_of(stat, a->c, j);
        double inv_sd = 1 / sqrt(now.var + op->desc.eps), scale = (double)w[j] * inv_sd;
        s->mean[j] = (float)now.mean;
        s->scale[j] = (float)scale;
        s->shift[j] = (float)(-scale * gstat[j] / m);
        s->slope[j] = (float)(-scale * inv_sd * gstat[a->c + j] / m);
    }
    widen(a, s->mean);
    widen(a, s->scale);
    widen(a, s->shift);
    widen(a, s->slope);
    trm_cpu_kernels(op->device)->bn_grad_apply(a);
    return TRM_OK;
}

/* The argument as it lies: one of the two, the other is NULL. */
static const float *as_float(const trm_op *op, trm_arg a) {
    return op->desc.half & TRM_HALF(a) ? NULL : op->arg[a];
}
static const uint16_t *as_half(const trm_op *op, trm_arg a) {
    return op->desc.half & TRM_HALF(a) ? op->arg[a] : NULL;
}

static trm_status bn_bind(trm_op *op) {
    bn_state *s = op->state;
    const trm_arg out = op->desc.kind == TRM_OP_BN_APPLY ? TRM_ARG_Y : TRM_ARG_DX;
    bn_layout(s, op->scratch);
    s->a.x = as_float(op, TRM_ARG_X);
    s->a.x16 = as_half(op, TRM_ARG_X);
    s->a.y = as_float(op, TRM_ARG_Y);
    s->a.y16 = as_half(op, TRM_ARG_Y);
    s->a.res = op->desc.residual ? as_float(op, TRM_ARG_RES) : NULL;
    s->a.res16 = op->desc.residual ? as_half(op, TRM_ARG_RES) : NULL;
    s->a.dy = op->arg[TRM_ARG_DY];
    const bool half = op->desc.half & TRM_HALF(out);
    s->a.out = half ? NULL : op->arg[out];
    s->a.out16 = half ? op->arg[out] : NULL;
    return TRM_OK;
}

trm_status trm_cpu_plan_batch_norm(trm_device *d, trm_op *op) {
    trm_cpu_run_fn run = op->desc.kind == TRM_OP_BN_STATS       ? bn_stats_run
                         : op->desc.kind == TRM_OP_BN_APPLY     ? bn_apply_run
                         : op->desc.kind == TRM_OP_BN_RUN       ? bn_run_run
                         : op->desc.kind == TRM_OP_BN_GRAD_SUMS ? bn_grad_sums_run
                                                                : bn_grad_apply_run;
    TRM_TRY(trm_cpu_own(op, sizeof(bn_state), bn_bind, run));
    bn_state *s = op->state;
    s->a.c = trm_shape_channels(&op->desc.in);
    s->a.rows = op->desc.n * (trm_shape_count(&op->desc.in) / s->a.c);
    s->a.pack = pack_of(s->a.c);
    s->a.threads = d->threads;
    s->a.relu = op->desc.act == TRM_ACT_RELU;
    s->a.accumulate = op->desc.accumulate;
    op->scratch_bytes = bn_layout(s, NULL);
    return TRM_OK;
}

/* ---- layer norm --------------------------------------------------------------------- */

typedef struct ln_state {
    trm_cpu_state base;
    trm_ln a;
    float *ones, *zeros; /* stand in for a missing weight or bias */
} ln_state;

static size_t ln_layout(ln_state *s, void *base) {
    size_t used = 0;
    s->ones = trm_cpu_take(base, &used, s->a.c, sizeof(float));
    s->zeros = trm_cpu_take(base, &used, s->a.c, sizeof(float));
    s->a.dw = trm_cpu_take(base, &used, s->a.c, sizeof(double));
    s->a.db = trm_cpu_take(base, &used, s->a.c, sizeof(double));
    s->a.work = trm_cpu_take(base, &used, s->a.threads * 3 * s->a.c, sizeof(double));
    return used;
}

/* Scratch is shared with other ops, so the stand-ins are written on each run. */
static void ln_stand_ins(const ln_state *s) {
    for (int64_t j = 0; s->a.w == s->ones && j < s->a.c; j++) s->ones[j] = 1;
    if (s->a.b == s->zeros) memset(s->zeros, 0, sizeof(float) * (size_t)s->a.c);
}

static trm_status ln_fwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const ln_state *s = op->state;
    ln_stand_ins(s);
    trm_cpu_kernels(op->device)->ln_fwd(&s->a);
    return TRM_OK;
}

/* to (+)= sum; `to` may be missing. */
static void put_sums(float *to, const double *sum, int64_t n, bool accumulate) {
    for (int64_t j = 0; to && j < n; j++) to[j] = (float)((accumulate ? (double)to[j] : 0) + sum[j]);
}

static trm_status ln_bwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const ln_state *s = op->state;
    ln_stand_ins(s);
    trm_cpu_kernels(op->device)->ln_bwd(&s->a);
    put_sums(op->arg[TRM_ARG_DW], s->a.dw, s->a.c, op->desc.accumulate_w);
    put_sums(op->arg[TRM_ARG_DB], s->a.db, s->a.c, op->desc.accumulate_w);
    return TRM_OK;
}

static trm_status ln_bind(trm_op *op) {
    ln_state *s = op->state;
    ln_layout(s, op->scratch);
    s->a.x = op->arg[TRM_ARG_X];
    s->a.w = op->arg[TRM_ARG_W] ? op->arg[TRM_ARG_W] : s->ones;
    s->a.b = op->arg[TRM_ARG_B] ? op->arg[TRM_ARG_B] : s->zeros;
    s->a.dy = op->arg[TRM_ARG_DY];
    const bool half = op->desc.half & TRM_HALF(TRM_ARG_Y);
    s->a.out = half ? NULL : op->arg[op->desc.kind == TRM_OP_LN_FWD ? TRM_ARG_Y : TRM_ARG_DX];
    s->a.out16 = half ? op->arg[TRM_ARG_Y] : NULL;
    s->a.saved = op->arg[TRM_ARG_SAVED];
    return TRM_OK;
}

trm_status trm_cpu_plan_layer_norm(trm_device *d, trm_op *op) {
    TRM_TRY(
        trm_cpu_own(op, sizeof(ln_state), ln_bind, op->desc.kind == TRM_OP_LN_FWD ? ln_fwd_run : ln_bwd_run));
    ln_state *s = op->state;
    s->a.c = op->desc.in.rank > 0 ? op->desc.in.dim[op->desc.in.rank - 1] : 1;
    s->a.rows = op->desc.n * (trm_shape_count(&op->desc.in) / s->a.c);
    s->a.threads = d->threads;
    s->a.eps = (float)op->desc.eps;
    s->a.accumulate = op->desc.accumulate;
    op->saved_bytes = (size_t)s->a.rows * 2 * sizeof(float);
    op->scratch_bytes = ln_layout(s, NULL);
    return TRM_OK;
}

/* ---- group norm ---------------------------------------------------------------------- */

/* A sample is a batch norm of its own whose channels share moments in groups, so the loops are those of batch
 * norm over the sample's pixels.  Threads take samples; with fewer samples than threads, pixels. */
typedef struct gn_state {
    trm_cpu_state base;
    trm_bn a; /* of one sample, without pointers */
    int64_t n, pixels, groups;
    int teams;
} gn_state;

/* What a thread works in. */
typedef struct gn_team {
    trm_bn a;
    float *mean, *scale, *shift, *slope;
    double *dw, *db; /* sums over its samples */
} gn_team;

/* The scratch of team t; `base` NULL only counts. */
static gn_team gn_team_of(const gn_state *s, void *base, int t, size_t *used) {
    gn_team g = {.a = s->a};
    int64_t wide = s->a.pack * s->a.c;
    for (int k = 0; k <= t; k++) {
        g.a.mean = g.mean = trm_cpu_take(base, used, wide, sizeof(float));
        g.a.scale = g.scale = trm_cpu_take(base, used, wide, sizeof(float));
        g.a.shift = g.shift = trm_cpu_take(base, used, wide, sizeof(float));
        g.a.slope = g.slope = trm_cpu_take(base, used, wide, sizeof(float));
        g.a.sum = trm_cpu_take(base, used, 2 * s->a.c, sizeof(double));
        g.a.work = trm_cpu_take(base, used, s->a.threads * 2 * wide, sizeof(double));
        g.dw = trm_cpu_take(base, used, s->a.c, sizeof(double));
        g.db = trm_cpu_take(base, used, s->a.c, sizeof(double));
    }
    return g;
}

static gn_team gn_begin(const trm_op *op, int t) {
    size_t used = 0;
    return gn_team_of(op->state, op->scratch, t, &used);
}

/* Samples of team t: begin to end. */
static int64_t gn_edge(const gn_state *s, int t) { return trm_cut(s->n, s->teams, t); }

/* The sums of the channels are relative to `at`, their first pixels; those of the group are put together in double. */
static moments gn_moments(const gn_state *s, const trm_bn *a, const float *at, int64_t group) {
    int64_t c = a->c / s->groups, first = group * c;
    double pixels = (double)s->pixels, m = pixels * (double)c, mean = 0, var = 0;
    for (int64_t j = first; j < first + c; j++) mean += a->sum[j] + pixels * (double)at[j];
    mean /= m;
    for (int64_t j = first; j < first + c; j++) {
        double d = (double)at[j] - mean;
        var += a->sum[a->c + j] + d * (2 * a->sum[j] + pixels * d);
    }
    var /= m;
    return (moments){mean, var < 0 ? 0 : var};
}

static void gn_fwd_sample(const trm_op *op, const gn_state *s, gn_team *g, int64_t i) {
    const trm_kernels *k = trm_cpu_kernels(op->device);
    const float *w = op->arg[TRM_ARG_W], *b = op->arg[TRM_ARG_B];
    float *saved = (float *)op->arg[TRM_ARG_SAVED] + 2 * s->groups * i;
    trm_bn *a = &g->a;
    a->x = (const float *)op->arg[TRM_ARG_X] + i * s->pixels * a->c;
    a->out = (float *)op->arg[TRM_ARG_Y] + i * s->pixels * a->c;
    memcpy(g->mean, a->x, sizeof(float) * (size_t)a->c);
    widen(a, g->mean);
    k->bn_stats(a);
    for (int64_t group = 0; group < s->groups; group++) {
        moments now = gn_moments(s, a, a->x, group);
        saved[2 * group] = (float)now.mean;
        saved[2 * group + 1] = (float)(1 / sqrt(now.var + op->desc.eps));
    }
    for (int64_t j = 0; j < a->c; j++) {
        const float *of = saved + 2 * (j / (a->c / s->groups));
        g->mean[j] = of[0];
        g->scale[j] = w ? w[j] * of[1] : of[1];
        g->shift[j] = b ? b[j] : 0;
    }
    widen(a, g->mean);
    widen(a, g->scale);
    widen(a, g->shift);
    k->bn_apply(a);
}

static trm_status gn_fwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const gn_state *s = op->state;
#pragma omp parallel for num_threads(s->teams) if (s->teams > 1) schedule(static)
    for (int t = 0; t < s->teams; t++) {
        gn_team g = gn_begin(op, t);
        for (int64_t i = gn_edge(s, t); i < gn_edge(s, t + 1); i++) gn_fwd_sample(op, s, &g, i);
    }
    return TRM_OK;
}

/* dx = (g - mean(g) - xhat * mean(g * xhat)) / sd with g = dy * w, as numbers per channel. */
static void gn_grad_group(const gn_state *s, gn_team *g, const float *w, const float *of, int64_t group) {
    const trm_bn *a = &g->a;
    int64_t c = a->c / s->groups, first = group * c;
    double m = (double)(s->pixels * c), rstd = (double)of[1], mean_g = 0, mean_gx = 0;
    for (int64_t j = first; j < first + c; j++) {
        double wj = w ? (double)w[j] : 1;
        mean_g += wj * a->sum[j] / m;
        mean_gx += wj * a->sum[a->c + j] * rstd / m;
        g->db[j] += a->sum[j];
        g->dw[j] += a->sum[a->c + j] * rstd;
    }
    for (int64_t j = first; j < first + c; j++) {
        g->scale[j] = w ? w[j] * of[1] : of[1];
        g->shift[j] = (float)(-rstd * mean_g);
        g->slope[j] = (float)(-rstd * rstd * mean_gx);
    }
}

static void gn_bwd_sample(const trm_op *op, const gn_state *s, gn_team *g, int64_t i) {
    const trm_kernels *k = trm_cpu_kernels(op->device);
    const float *saved = (const float *)op->arg[TRM_ARG_SAVED] + 2 * s->groups * i;
    trm_bn *a = &g->a;
    a->x = (const float *)op->arg[TRM_ARG_X] + i * s->pixels * a->c;
    a->dy = (float *)op->arg[TRM_ARG_DY] + i * s->pixels * a->c;
    a->out = (float *)op->arg[TRM_ARG_DX] + i * s->pixels * a->c;
    for (int64_t j = 0; j < a->c; j++) g->mean[j] = saved[2 * (j / (a->c / s->groups))];
    widen(a, g->mean);
    k->bn_grad_sums(a);
    for (int64_t group = 0; group < s->groups; group++)
        gn_grad_group(s, g, op->arg[TRM_ARG_W], saved + 2 * group, group);
    widen(a, g->scale);
    widen(a, g->shift);
    widen(a, g->slope);
    k->bn_grad_apply(a);
}

/* The sums of all teams, in their order, to the first. */
static void gn_fold(const trm_op *op, const gn_state *s, gn_team *first) {
    for (int t = 1; t < s->teams; t++) {
        gn_team g = gn_begin(op, t);
        for (int64_t j = 0; j < s->a.c; j++) {
            first->dw[j] += g.dw[j];
            first->db[j] += g.db[j];
        }
    }
}

static trm_status gn_bwd_run(trm_op *op, const trm_step *step) {
    (void)step;
    const gn_state *s = op->state;
#pragma omp parallel for num_threads(s->teams) if (s->teams > 1) schedule(static)
    for (int t = 0; t < s->teams; t++) {
        gn_team g = gn_begin(op, t);
        memset(g.dw, 0, sizeof(double) * (size_t)s->a.c);
        memset(g.db, 0, sizeof(double) * (size_t)s->a.c);
        for (int64_t i = gn_edge(s, t); i < gn_edge(s, t + 1); i++) gn_bwd_sample(op, s, &g, i);
    }
    gn_team first = gn_begin(op, 0);
    gn_fold(op, s, &first);
    put_sums(op->arg[TRM_ARG_DW], first.dw, s->a.c, op->desc.accumulate_w);
    put_sums(op->arg[TRM_ARG_DB], first.db, s->a.c, op->desc.accumulate_w);
    return TRM_OK;
}

trm_status trm_cpu_plan_group_norm(trm_device *d, trm_op *op) {
    TRM_TRY(
        trm_cpu_own(op, sizeof(gn_state), NULL, op->desc.kind == TRM_OP_GN_FWD ? gn_fwd_run : gn_bwd_run));
    gn_state *s = op->state;
    int64_t count = trm_shape_count(&op->desc.in);
    s->n = op->desc.n;
    s->groups = op->desc.groups;
    s->a.c = op->desc.in.dim[0];
    s->a.rows = s->pixels = count / s->a.c;
    s->a.pack = trm_min64(pack_of(s->a.c), s->pixels);
    s->a.accumulate = op->desc.accumulate;
    /* Waking threads pays for some ten thousand numbers. */
    s->teams = s->n >= d->threads && s->n * count >= 16384 ? d->threads : 1;
    s->a.threads = s->teams > 1 ? 1 : d->threads;
    op->saved_bytes = (size_t)(2 * s->n * s->groups) * sizeof(float);
    gn_team_of(s, NULL, s->teams - 1, &op->scratch_bytes);
    return TRM_OK;
}
