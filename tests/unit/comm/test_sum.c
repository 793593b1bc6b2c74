/* The loops that add up buffers, and how a range is cut. */
#include <math.h>
#include <string.h>

#include "comm_impl.h"
#include "support.h"

static void cuts_cover_a_range_once_at_cache_lines(void **state) {
    (void)state;
    for (int parts = 1; parts <= 9; parts++)
        for (int64_t begin = 0; begin < 40; begin += 7)
            for (int64_t count = 0; count < 400; count += 13) {
                int64_t next = begin;
                for (int k = 0; k < parts; k++) {
                    trm_comm_range r = trm_comm_cut((trm_comm_range){begin, count}, 4, parts, k);
                    if (r.count == 0) continue;
                    assert_int_equal(r.begin, next);
                    next = r.begin + r.count;
                    assert_true(next % 16 == 0 || next == begin + count);
                }
                assert_int_equal(next, begin + count);
            }
}

enum { RANKS = 4, MAX = 5000 };
static _Alignas(64) float f32[RANKS][MAX];
static _Alignas(64) double f64[RANKS][MAX];

static void fill(void) {
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < MAX; i++) {
            f64[r][i] = sin(1.0 + i * 0.37 + r) * pow(10, (i + r) % 7 - 3);
            f32[r][i] = (float)f64[r][i];
        }
}

/* All numbers of sources and targets, in and out of place. */
static void sums_are_in_the_order_of_the_sources(void **state) {
    (void)state;
    static float want[MAX];
    for (int n = 0; n <= RANKS; n++)
        for (int m = 1; m <= RANKS; m++)
            for (int count = 0; count <= MAX; count += 1249) {
                const void *src[RANKS];
                void *dst[RANKS];
                fill();
                for (int k = 0; k < RANKS; k++) src[k] = dst[k] = f32[k];
                for (int i = 0; i < count; i++) {
                    want[i] = n ? f32[0][i] : 0;
                    for (int k = 1; k < n; k++) want[i] += f32[k][i];
                }
                trm_comm_add_up(TRM_F32, src, n, dst, m, count, false);
                for (int k = 0; k < m; k++) assert_memory_equal(f32[k], want, (size_t)count * sizeof(float));
            }
}

static void doubles_are_summed_as_doubles(void **state) {
    (void)state;
    double want[100];
    fill();
    for (int i = 0; i < 100; i++) want[i] = f64[0][i] + f64[1][i];
    const void *src[] = {f64[0], f64[1]};
    void *dst[] = {f64[0], f64[1]};
    trm_comm_add_up(TRM_F64, src, 2, dst, 2, 100, false);
    assert_memory_equal(f64[0], want, sizeof want);
    assert_memory_equal(f64[1], want, sizeof want);
}

static void sums_of_squares_are_of_the_result(void **state) {
    (void)state;
    for (int count = 0; count <= MAX; count += 619) {
        const void *src[] = {f32[0], f32[1], f32[2]};
        void *dst[] = {f32[0], f32[1]};
        double want = 0;
        fill();
        double got = trm_comm_add_up(TRM_F32, src, 3, dst, 2, count, true);
        for (int i = 0; i < count; i++) want += (double)f32[0][i] * (double)f32[0][i];
        assert_bound(fabs(got - want), 1e-12 * want);
        /* One grouping, however the sum was made. */
        assert_true(got == trm_comm_sumsq(TRM_F32, f32[1], count));
        got = trm_comm_sumsq(TRM_F64, f64[3], count);
        want = 0;
        for (int i = 0; i < count; i++) want += f64[3][i] * f64[3][i];
        assert_bound(fabs(got - want), 1e-12 * want);
    }
}

static void bytes_are_copied(void **state) {
    (void)state;
    char from[] = "note", a[5], b[5];
    const void *src[] = {from};
    void *dst[] = {a, from, b};
    trm_comm_add_up(TRM_U8, src, 1, dst, 3, 5, false);
    assert_string_equal(a, "note");
    assert_string_equal(b, "note");
    trm_comm_add_up(TRM_U8, src, 0, dst, 1, 5, false);
    assert_string_equal(a, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_cover_a_range_once_at_cache_lines),
        cmocka_unit_test(sums_are_in_the_order_of_the_sources),
        cmocka_unit_test(doubles_are_summed_as_doubles),
        cmocka_unit_test(sums_of_squares_are_of_the_result),
        cmocka_unit_test(bytes_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
