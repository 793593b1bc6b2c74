/* schedule: the learning rate as a pure function of the update. */
#include <math.h>
#include <trireme/train.h>

/* Steps of the `step` schedule that lie before update u. */
static int64_t steps_before(const trm_schedule_spec *s, int64_t u, int64_t per_epoch) {
    int64_t done = u - 1;
    if (s->every.n < 1 || s->every.unit == TRM_UNIT_NEVER) return 0;
    if (s->every.unit == TRM_UNIT_EPOCHS) done /= trm_max64(per_epoch, 1);
    return done / s->every.n;
}

/* How far u lies between `from` (0) and `to` (1). */
static double share(int64_t u, int64_t from, int64_t to) {
    if (u >= to) return 1;
    return u <= from ? 0 : (double)(u - from) / (double)(to - from);
}

/* The factor at share s of a straight way from 1 to `end`; exact at both ends. */
static double straight(double s, double end) { return (1 - s) + end * s; }

static double wsd_factor(const trm_schedule_spec *s, int64_t u, int64_t peak, int64_t total) {
    int64_t decay = s->decay > 0 ? s->decay : trm_max64(total / 10, 1);
    return straight(share(u, trm_max64(peak, total - decay), total), s->min_ratio);
}

double trm_schedule_lr(const trm_schedule_spec *s, int64_t u, int64_t total, int64_t per_epoch) {
    const double pi = 3.14159265358979323846;
    if (u < 1) u = 1;
    if (u < s->warmup) return s->lr * (double)u / (double)s->warmup;
    int64_t peak = trm_max64(s->warmup, 1);
    if (u == peak && s->kind != TRM_LR_STEP) return s->lr;
    double way = share(u, peak, total);
    switch (s->kind) {
    case TRM_LR_CONSTANT: break;
    case TRM_LR_STEP: return s->lr * pow(s->gamma, (double)steps_before(s, u, per_epoch));
    case TRM_LR_LINEAR: return s->lr * straight(way, s->min_ratio);
    case TRM_LR_COSINE: return s->lr * (s->min_ratio + (1 - s->min_ratio) * (1 + cos(pi * way)) / 2);
    case TRM_LR_WSD: return s->lr * wsd_factor(s, u, peak, total);
    }
    return s->lr;
}
