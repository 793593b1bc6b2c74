/* series: the recent values of one quantity, and what comes next. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <trireme/balance.h>

#define JUMP 1.5 /* one value so many times (or one such part of) the forecast is a change */
#define BAND 0.1 /* so is a second one in a row that is farther off than this, on one side */
#define NEWEST \
    0.65 /* weight of the newest value in the moving average: the best one on recorded step times */
#define MEDIAN_OF 5
#define TREND_OF 4

/* ---- forecasts from values[n], n > 0, oldest first ---- */

static double ema(const double *value, int n) {
    double f = value[0];
    for (int i = 1; i < n; i++) f += NEWEST * (value[i] - f);
    return f;
}

static double median(const double *value, int n) {
    double sorted[MEDIAN_OF] = {0};
    int k = n < MEDIAN_OF ? n : MEDIAN_OF;
    for (int i = 0; i < k; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > value[n - k + i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = value[n - k + i];
    }
    return (sorted[(k - 1) / 2] + sorted[k / 2]) / 2;
}

/* The next point of the least squares line. A line through few points can lead anywhere, so it is held near the last. */
static double trend(const double *value, int n) {
    int k = n < TREND_OF ? n : TREND_OF;
    double last = value[n - 1], middle = (k - 1) / 2.0, mean = 0, up = 0, across = 0;
    for (int i = 0; i < k; i++) mean += value[n - k + i] / k;
    for (int i = 0; i < k; i++) {
        up += (i - middle) * (value[n - k + i] - mean);
        across += (i - middle) * (i - middle);
    }
    double next = k > 1 ? mean + up / across * (k - middle) : last;
    return fmin(fmax(next, last / 2), last * 2);
}

static double forecast(const double *value, int n, trm_predictor p) {
    if (n == 0) return NAN;
    switch (p) {
    case TRM_PREDICT_EMA: return ema(value, n);
    case TRM_PREDICT_MEDIAN: return median(value, n);
    case TRM_PREDICT_TREND: return trend(value, n);
    case TRM_PREDICT_LAST: break;
    }
    return value[n - 1];
}

double trm_series_forecast(const trm_series *s, trm_predictor p) { return forecast(s->value, s->n, p); }

/* ---- changes ---- */

static void keep_newest(trm_series *s, int n) {
    memmove(s->value, s->value + s->n - n, (size_t)n * sizeof *s->value);
    s->n = n;
}

/* How many values, the new one included, make a new series; 0: it goes on. */
static int new_ones(trm_series *s, trm_predictor p, double value) {
    /* A value outside the band is held against the forecast, not part of it, until the next one tells whether it
     * was a hiccup.  Else a forecast that follows fast would hide the change that it follows. */
    double f = forecast(s->value, s->n - abs(s->off), p);
    int side = value > f * (1 + BAND) ? 1 : value < f * (1 - BAND) ? -1 : 0;
    bool again = side != 0 && side == s->off;
    s->off = side;
    if (value >= f * JUMP || value * JUMP <= f) return 1;
    return again ? 2 : 0;
}

void trm_series_add(trm_series *s, trm_predictor p, double value) {
    s->changed = false;
    if (!(value > 0) || isinf(value)) return; /* nothing was measured */
    int fresh = s->n > 0 ? new_ones(s, p, value) : 0;
    s->changed = fresh > 0;
    if (s->changed) {
        keep_newest(s, fresh - 1);
        s->off = 0;
    }
    if (s->n == TRM_SERIES) keep_newest(s, TRM_SERIES - 1);
    s->value[s->n++] = value;
}
