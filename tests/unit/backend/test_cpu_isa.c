/* The loops around products, in attention, in pooling and over rows of channels give the same on every instruction set that this
 * machine has, for shapes that fill vectors and for those that do not, on one thread and on three. */
#include <math.h>
#include <string.h>

#include "cpu/kernels.h"
#include "support.h"

enum { CAP = 1 << 16 };
static float x[CAP], dy[CAP], res[CAP], b[CAP];

/* What the loops of one table give; every loop has its own buffer. */
enum { OUTPUTS = 10 };
typedef struct results {
    float out[OUTPUTS][CAP];
    int32_t place[CAP];
} results;
static results base, other;

static void fill_inputs(void) {
    trm_rng_key key = {.seed = 3, .purpose = TRM_RNG_SYNTH};
    for (uint64_t i = 0; i < CAP; i++) {
        x[i] = (float)(trm_rng_uniform(&key, i) - 0.5);
        dy[i] = (float)(trm_rng_uniform(&key, i + CAP) - 0.5);
        res[i] = (float)(trm_rng_uniform(&key, i + 2 * CAP) - 0.5);
        b[i] = (float)(trm_rng_uniform(&key, i + 3 * CAP) - 0.5);
    }
}

static void run_dense(const trm_kernels *k, results *r, int64_t rows, int64_t cols, int threads) {
    memset(r, 0, sizeof *r);
    k->fill_rows(r->out[0], b, res, rows, cols, threads);
    k->fill_rows(r->out[1], b, NULL, rows, cols, threads);
    k->fill_rows(r->out[2], NULL, res, rows, cols, threads);
    k->column_sums(r->out[3], x, rows, cols, false, threads);
    k->column_sums(r->out[3], dy, rows, cols, true, threads);
    k->pad_rows(r->out[4], cols + 3, x, rows, cols, NULL, threads);
    k->pad_rows(r->out[5], cols + 3, x, rows, cols, r->out[6], threads);
    memcpy(r->out[7], x, sizeof x);
    k->add_into(r->out[7], dy, rows * cols, threads);
    memcpy(r->out[8], x, sizeof x);
    k->bias_relu(r->out[8], r->out[8], b, rows, cols, threads);
    memcpy(r->out[9], x, sizeof x);
    k->bias_gelu(r->out[0] + rows * cols, r->out[9], b, rows, cols, threads);
}

static void run_softmax(const trm_kernels *k, results *r, int64_t rows, int64_t cols, int64_t seen,
                        int64_t step) {
    int64_t ld = (cols + 15) / 16 * 16;
    memset(r, 0, sizeof *r);
    memcpy(r->out[0], x, sizeof x);
    memcpy(r->out[1], x, sizeof x);
    memcpy(r->out[2], dy, sizeof dy);
    k->softmax_rows(r->out[0], ld, rows, cols, seen, step, r->out[3]);
    k->softmax_again(r->out[1], ld, rows, cols, seen, step, r->out[3]);
    k->softmax_grad(r->out[2], r->out[0], ld, rows, cols, seen, step, 0.125f);
}

static void run_pool(const trm_kernels *k, results *r, trm_pool a, bool add) {
    memset(r, 0, sizeof *r);
    a.x = x;
    a.dy = dy;
    a.place = r->place;
    a.accumulate = add;
    a.y = r->out[0];
    k->pool_max(&a);
    a.y = r->out[1];
    k->pool_avg(&a);
    for (int o = 2; o < 4; o++) memcpy(r->out[o], res, sizeof res);
    a.dx = r->out[2];
    k->pool_max_grad(&a);
    a.dx = r->out[3];
    k->pool_avg_grad(&a);
}

/* Softmax, and values side by side. */
static void run_rows(const trm_kernels *k, results *r, int64_t rows, int64_t cols, int threads) {
    memset(r, 0, sizeof *r);
    k->softmax(x, r->out[0], rows, cols, threads);
    k->softmax_back(r->out[0], dy, r->out[1], rows, cols, false, threads);
    memcpy(r->out[2], res, sizeof res);
    k->softmax_back(r->out[0], dy, r->out[2], rows, cols, true, threads);
    k->columns(x, cols, r->out[3] + 1, cols + 3, rows, cols, false, threads);
    k->columns(r->out[3] + 1, cols + 3, r->out[4], cols, rows, cols, false, threads);
    memcpy(r->out[5], res, sizeof res);
    k->columns(r->out[3] + 1, cols + 3, r->out[5], cols, rows, cols, true, threads);
}

static void check_equal(void) {
    for (int o = 0; o < OUTPUTS; o++)
        for (int64_t i = 0; i < CAP; i++)
            if (!(fabsf(base.out[o][i] - other.out[o][i]) <= 2e-6f * fmaxf(1, fabsf(base.out[o][i]))))
                fail_msg("output %d, element %lld: %g, not %g", o, (long long)i, (double)other.out[o][i],
                         (double)base.out[o][i]);
    assert_memory_equal(base.place, other.place, sizeof base.place);
}

/* ---- the sets ----------------------------------------------------------------------------- */

static const trm_kernels *sets[3];
static int set_count;

static int find_sets(void **state) {
    (void)state;
    fill_inputs();
    __builtin_cpu_init();
    sets[set_count++] = &trm_kernels_v2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets[set_count++] = &trm_kernels_v3;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        sets[set_count++] = &trm_kernels_v4;
    return 0;
}

static void dense_loops(void **state) {
    (void)state;
    const int64_t shapes[][2] = {{1, 1}, {5, 7}, {3, 16}, {4, 33}, {17, 300}, {600, 20}};
    for (size_t i = 0; i < SUPPORT_COUNT(shapes); i++) {
        run_dense(sets[0], &base, shapes[i][0], shapes[i][1], 1);
        for (int s = 0; s < set_count; s++) {
            for (int threads = 1; threads <= 3; threads += 2) {
                run_dense(sets[s], &other, shapes[i][0], shapes[i][1], threads);
                check_equal();
            }
        }
    }
}

static void check_sum(const float *row, int64_t seen, int64_t cols) {
    double sum = 0;
    for (int64_t j = 0; j < cols; j++) sum += row[j];
    assert_bound(fabs(sum - 1), 1e-6);
    for (int64_t j = seen; j < cols; j++) assert_true(row[j] == 0);
}

static void softmax_loops(void **state) {
    (void)state;
    const int64_t shapes[][4] = {{1, 1, 1, 1}, {5, 5, 1, 1}, {5, 40, 36, 1}, {7, 19, 19, 0}, {32, 64, 33, 1}};
    for (size_t i = 0; i < SUPPORT_COUNT(shapes); i++) {
        const int64_t *s = shapes[i];
        run_softmax(sets[0], &base, s[0], s[1], s[2], s[3]);
        for (int64_t row = 0; row < s[0]; row++)
            check_sum(base.out[0] + row * ((s[1] + 15) / 16 * 16), s[2] + row * s[3], s[1]);
        for (int k = 1; k < set_count; k++) {
            run_softmax(sets[k], &other, s[0], s[1], s[2], s[3]);
            check_equal();
        }
    }
}

static void row_loops(void **state) {
    (void)state;
    const int64_t shapes[][2] = {{1, 1}, {5, 7}, {3, 16}, {40, 33}, {7, 2100}, {2000, 10}};
    for (size_t i = 0; i < SUPPORT_COUNT(shapes); i++) {
        const int64_t rows = shapes[i][0], cols = shapes[i][1];
        run_rows(sets[0], &base, rows, cols, 1);
        for (int64_t row = 0; row < rows; row++) check_sum(base.out[0] + row * cols, cols, cols);
        assert_memory_equal(base.out[4], x, (size_t)(rows * cols) * sizeof *x);
        for (int s = 0; s < set_count; s++) {
            for (int threads = 1; threads <= 3; threads += 2) {
                run_rows(sets[s], &other, rows, cols, threads);
                check_equal();
            }
        }
    }
}

static void pool_loops(void **state) {
    (void)state;
    const trm_pool shapes[] = {
        {.n = 2, .c = 20, .in = {1, 8, 8}, .out = {1, 4, 4}, .kernel = {1, 2, 2}, .stride = {1, 2, 2}},
        {.n = 3, .c = 3, .in = {1, 7, 6}, .out = {1, 3, 3}, .kernel = {1, 2, 2}, .stride = {1, 2, 2}},
        {.n = 2,
         .c = 70,
         .in = {1, 6, 6},
         .out = {1, 6, 6},
         .kernel = {1, 3, 3},
         .stride = {1, 1, 1},
         .pad = {0, 1, 1}},
        {.n = 2, .c = 17, .in = {1, 9, 5}, .out = {1, 3, 2}, .kernel = {1, 3, 2}, .stride = {1, 3, 3}},
        {.n = 4, .c = 64, .in = {1, 8, 8}, .out = {1, 1, 1}, .kernel = {1, 8, 8}, .stride = {1, 8, 8}},
        {.n = 2,
         .c = 17,
         .in = {4, 5, 3},
         .out = {2, 2, 2},
         .kernel = {3, 3, 2},
         .stride = {2, 2, 2},
         .pad = {1, 0, 1}},
        {.n = 2, .c = 5, .in = {5, 7, 6}, .out = {2, 3, 6}, .kernel = {4, 4, 1}, .adaptive = true},
    };
    for (size_t i = 0; i < SUPPORT_COUNT(shapes); i++) {
        for (int add = 0; add < 2; add++) {
            trm_pool a = shapes[i];
            a.threads = 1;
            run_pool(sets[0], &base, a, add);
            for (int s = 0; s < set_count; s++) {
                for (a.threads = 1; a.threads <= 3; a.threads += 2) {
                    run_pool(sets[s], &other, a, add);
                    check_equal();
                }
            }
        }
    }
}

/* Half an ulp, ties, both ends of the range, and NaN whose payload lies in the lower half, as bits of float32 and of bfloat16. */
static void bfloat16_is_rounded_to_the_nearest_even(void **state) {
    (void)state;
    enum { N = 16, LONG = 8 * N + 5 };
    static const uint32_t from[N] = {0x3F800000, 0x3F808000, 0x3F808001, 0x3F818000, 0x3F817FFF, 0xBF808000,
                                     0x00000000, 0x80000000, 0x00000001, 0x00018000, 0x7F7F7FFF, 0x7F7FFFFF,
                                     0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF};
    static const uint16_t to[N] = {0x3F80, 0x3F80, 0x3F81, 0x3F82, 0x3F81, 0xBF80, 0x0000, 0x8000,
                                   0x0000, 0x0002, 0x7F7F, 0x7F80, 0x7F80, 0xFF80, 0x7FC0, 0xFFFF};
    float in[LONG], back[LONG];
    uint16_t out[LONG];
    for (int i = 0; i < LONG; i++) memcpy(&in[i], &from[i % N], sizeof *in);
    for (int s = 0; s < set_count; s++) {
        sets[s]->to_bf16(in, out, LONG, 1);
        sets[s]->from_bf16(out, back, LONG, 1);
        for (int i = 0; i < LONG; i++) {
            uint32_t bits;
            memcpy(&bits, &back[i], sizeof bits);
            if (out[i] != to[i % N] || bits != (uint32_t)to[i % N] << 16)
                fail_msg("%s: %08x becomes %04x and %08x, not %04x", sets[s]->isa, from[i % N], out[i], bits,
                         to[i % N]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_loops),
        cmocka_unit_test(softmax_loops),
        cmocka_unit_test(pool_loops),
        cmocka_unit_test(row_loops),
        cmocka_unit_test(bfloat16_is_rounded_to_the_nearest_even),
    };
    return cmocka_run_group_tests(tests, find_sets, NULL);
}
