/* Series: forecasts against sums written out, and what counts as a change. */
#include <math.h>
#include <trireme/balance.h>
#include "support.h"

static const trm_predictor ALL[] = {TRM_PREDICT_LAST, TRM_PREDICT_EMA, TRM_PREDICT_MEDIAN, TRM_PREDICT_TREND};
#define EACH(p) for (const trm_predictor *p = ALL; p < ALL + SUPPORT_COUNT(ALL); p++)

static trm_series with(int n, const double *value) {
    trm_series s = {.n = n};
    for (int i = 0; i < n; i++) s.value[i] = value[i];
    return s;
}
#define WITH(...) with((int)SUPPORT_COUNT(((double[]){__VA_ARGS__})), (double[]){__VA_ARGS__})

static void assert_next(trm_series s, trm_predictor p, double want) {
    assert_bound(fabs(trm_series_forecast(&s, p) - want), 1e-12 * want);
}

static void assert_values(const trm_series *s, int n, const double *want) {
    assert_int_equal(s->n, n);
    for (int i = 0; i < n; i++) assert_true(s->value[i] == want[i]);
}
#define VALUES(s, ...) \
    assert_values(s, (int)SUPPORT_COUNT(((double[]){__VA_ARGS__})), (double[]){__VA_ARGS__})

static void add_all(trm_series *s, trm_predictor p, int n, const double *value) {
    for (int i = 0; i < n; i++) trm_series_add(s, p, value[i]);
}
#define ADD(s, p, ...) add_all(s, p, (int)SUPPORT_COUNT(((double[]){__VA_ARGS__})), (double[]){__VA_ARGS__})

/* ---- forecasts ---- */

static void none_without_values(void **state) {
    (void)state;
    const trm_series none = {0}, one = WITH(3);
    EACH(p) assert_true(isnan(trm_series_forecast(&none, *p)));
    EACH(p) assert_next(one, *p, 3);
}

static void last_and_ema(void **state) {
    (void)state;
    assert_next(WITH(5, 1, 2), TRM_PREDICT_LAST, 2);
    assert_next(WITH(4, 2), TRM_PREDICT_EMA, 2.7); /* the newest counts 0.65 */
    assert_next(WITH(4, 2, 7), TRM_PREDICT_EMA, 0.35 * 2.7 + 0.65 * 7);
    assert_next(WITH(8, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5), TRM_PREDICT_EMA, 0.5 + 7.5 * pow(0.35, 7));
}

static void median_of_five(void **state) {
    (void)state;
    assert_next(WITH(4, 2), TRM_PREDICT_MEDIAN, 3);
    assert_next(WITH(9, 2, 3), TRM_PREDICT_MEDIAN, 3);
    assert_next(WITH(1, 9, 2, 4), TRM_PREDICT_MEDIAN, 3);
    assert_next(WITH(5, 4, 3, 2, 1), TRM_PREDICT_MEDIAN, 3);
    assert_next(WITH(100, 100, 100, 7, 9, 8, 1, 8.5), TRM_PREDICT_MEDIAN,
                8); /* the older ones do not count */
}

/* The line by its normal equations, which is another way to it. */
static double line(const double *v, int k) {
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int x = 0; x < k; x++) sx += x, sy += v[x], sxx += (double)x * x, sxy += x * v[x];
    double slope = (k * sxy - sx * sy) / (k * sxx - sx * sx);
    return (sy - slope * sx) / k + slope * k;
}

static void trend_is_the_line(void **state) {
    (void)state;
    const trm_rng_key key = {.seed = 3, .purpose = TRM_RNG_SYNTH};
    assert_next(WITH(1, 1.5), TRM_PREDICT_TREND, 2);
    assert_next(WITH(9, 9, 4, 3, 2.5, 2), TRM_PREDICT_TREND, line((double[]){4, 3, 2.5, 2}, 4));
    assert_next(WITH(1, 100), TRM_PREDICT_TREND, 199); /* just below twice the last */
    assert_next(WITH(1, 1, 1, 8), TRM_PREDICT_TREND, 8);
    assert_next(WITH(8, 8, 8, 1), TRM_PREDICT_TREND, 1);
    assert_next(WITH(100, 1, 1, 10), TRM_PREDICT_TREND, 5); /* below half of it */
    assert_next(WITH(1, 30, 30, 1), TRM_PREDICT_TREND, 2);  /* above twice */
    assert_next(WITH(20, 1, 30, 10), TRM_PREDICT_TREND, line((double[]){20, 1, 30, 10}, 4));
    assert_next(WITH(0.1, 0.1, 0.1, 0.1), TRM_PREDICT_TREND, 0.1);
    for (uint64_t round = 0; round < 1000; round++) {
        trm_series s = {.n = 2 + (int)(round % 7)};
        for (int i = 0; i < s.n; i++) s.value[i] = 10 + trm_rng_uniform(&key, round * 8 + (uint64_t)i);
        int k = s.n < 4 ? s.n : 4;
        assert_next(s, TRM_PREDICT_TREND, line(s.value + s.n - k, k));
    }
}

/* ---- changes ---- */

static void the_oldest_goes(void **state) {
    (void)state;
    EACH(p) {
        trm_series s = {0};
        ADD(&s, *p, 1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07);
        assert_int_equal(s.n, TRM_SERIES);
        ADD(&s, *p, 1.08);
        VALUES(&s, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08);
        assert_false(s.changed);
    }
}

static void a_jump_begins_anew(void **state) {
    (void)state;
    EACH(p) {
        trm_series s = {0};
        ADD(&s, *p, 2);
        assert_false(s.changed);
        ADD(&s, *p, 2, 2, 3);
        assert_true(s.changed);
        VALUES(&s, 3);
        ADD(&s, *p, 2);
        assert_true(s.changed);
        VALUES(&s, 2);
        ADD(&s, *p, 2);
        assert_false(s.changed);
        VALUES(&s, 2, 2);
        ADD(&s, *p, 2.99);
        assert_false(s.changed);
        assert_int_equal(s.off, 1);
    }
}

static void two_on_one_side_begin_anew(void **state) {
    (void)state;
    EACH(p) {
        trm_series s = {0};
        ADD(&s, *p, 1, 1, 1, 1.2);
        assert_false(s.changed);
        assert_int_equal(s.off, 1);
        ADD(&s, *p, 1.2);
        assert_true(s.changed);
        assert_int_equal(s.off, 0);
        VALUES(&s, 1.2, 1.2);
        ADD(&s, *p, 1.2, 1.0);
        assert_int_equal(s.off, -1);
        ADD(&s, *p, 0.95);
        assert_true(s.changed);
        VALUES(&s, 1.0, 0.95);
    }
}

static void a_hiccup_is_no_change(void **state) {
    (void)state;
    EACH(p) {
        trm_series s = {0};
        ADD(&s, *p, 1, 1, 1, 1, 1.2, 1);
        assert_false(s.changed);
        assert_int_equal(s.off, 0);
        assert_int_equal(s.n, 6);
        ADD(&s, *p, 1, 1, 1, 1, 1, 1, 1, 1, 1.2, 0.8); /* one on each side */
        assert_false(s.changed);
        assert_int_equal(s.off, -1);
        assert_int_equal(s.n, TRM_SERIES);
    }
}

static void what_is_no_time_is_left_out(void **state) {
    (void)state;
    EACH(p) {
        trm_series s = {0};
        ADD(&s, *p, 1, 1, 5);
        assert_true(s.changed);
        ADD(&s, *p, 0, -1, NAN, INFINITY);
        assert_false(s.changed);
        VALUES(&s, 5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_without_values),
        cmocka_unit_test(last_and_ema),
        cmocka_unit_test(median_of_five),
        cmocka_unit_test(trend_is_the_line),
        cmocka_unit_test(the_oldest_goes),
        cmocka_unit_test(a_jump_begins_anew),
        cmocka_unit_test(two_on_one_side_begin_anew),
        cmocka_unit_test(a_hiccup_is_no_change),
        cmocka_unit_test(what_is_no_time_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
