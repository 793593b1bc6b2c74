/* The CPU's own loops where comparison with ref says too little: bits of random numbers, large means, equal
 * results for any number of threads, numbers that are not finite.  Every test runs with the loops of each
 * instruction set that this machine has, with one thread and with three. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <trireme/backend.h>

#include "support.h"

enum { MAX_DEVICES = 6 };
static trm_device *devices[MAX_DEVICES];
static int device_count;

static int open_devices(void **state) {
    (void)state;
    static const char *const isas[] = {"v2", "v3", "v4"};
    for (int i = 0; i < MAX_DEVICES; i++) {
        setenv("TRIREME_ISA", isas[i / 2], 1);
        if (trm_device_open("cpu", i % 2 ? 3 : 1, &devices[device_count]) == TRM_OK) device_count++;
    }
    unsetenv("TRIREME_ISA");
    return device_count > 0 ? 0 : -1;
}

static int close_devices(void **state) {
    (void)state;
    for (int i = 0; i < device_count; i++) trm_device_close(devices[i]);
    return 0;
}

#define EACH_DEVICE(d) for (trm_device **d = devices; d < devices + device_count; d++)

/* ---- running one op ----------------------------------------------------------------------- */

#define ARGS (void *[TRM_ARG_COUNT])
#define A(name) [TRM_ARG_##name]
#define OP(k) .kind = TRM_OP_##k

static float *floats(int64_t n) {
    float *p = trm_alloc_array((size_t)n, sizeof *p, "a test");
    assert_non_null(p);
    return p;
}

/* Numbers about `mean` with about this spread, different for each seed. */
static float *noise(int64_t n, double mean, double spread, uint64_t seed) {
    float *p = floats(n);
    trm_rng_key key = {.seed = seed, .purpose = TRM_RNG_SYNTH};
    for (int64_t i = 0; i < n; i++) p[i] = (float)(mean + spread * trm_rng_normal(&key, (uint64_t)i));
    return p;
}

/* Plans, binds and runs; what lies in the scratch before must not matter. */
static trm_status try_op(trm_device *d, const trm_op_desc *desc, void *const args[], const trm_step *step) {
    trm_op *op;
    assert_ok(trm_op_plan(d, desc, &op));
    void *scratch = trm_alloc(op->scratch_bytes + TRM_ALIGN, "scratch");
    assert_non_null(scratch);
    memset(scratch, 0xFF, op->scratch_bytes);
    assert_ok(trm_op_bind(op, args, scratch));
    trm_status s = trm_op_run(op, step);
    trm_op_destroy(op);
    trm_free(scratch);
    return s;
}

static void run_op(trm_device *d, const trm_op_desc *desc, void *const args[], const trm_step *step) {
    static const trm_step none;
    assert_ok(try_op(d, desc, args, step ? step : &none));
}

/* ---- dropout ------------------------------------------------------------------------------ */

/* Where element e of a (C,H,W) sample lies. */
static int64_t place(const trm_shape *s, int64_t e) {
    if (s->rank != 3) return e;
    int64_t pixels = s->dim[1] * s->dim[2];
    return e % pixels * s->dim[0] + e / pixels;
}

static void check_dropout(trm_device *d, const trm_shape *shape, double p, bool add) {
    enum { N = 3, FIRST = 2 };
    static const int64_t sample[FIRST + N] = {-1, -1, 7, INT64_C(0x123456789A), 0};
    int64_t count = trm_shape_count(shape);
    float *x = noise(N * count, 0, 1, 1), *y = noise(N * count, 0, 1, 2), *before = noise(N * count, 0, 1, 2);
    trm_op_desc desc = {OP(DROPOUT_BWD), .n = N,     .in = *shape,   .p = p,
                        .seed = 99,      .layer = 5, .first = FIRST, .accumulate = add};
    trm_step step = {.update = INT64_C(0x500000003), .sample = sample};
    run_op(d, &desc, ARGS{A(DY) = x, A(DX) = y}, &step);
    for (int64_t i = 0; i < N; i++)
        for (int64_t e = 0; e < count; e++) {
            trm_rng_key key = {99, TRM_RNG_DROPOUT, 5, (uint64_t)step.update, (uint64_t)sample[FIRST + i]};
            bool keep = trm_rng_uniform(&key, (uint64_t)e) >= p;
            int64_t at = i * count + place(shape, e);
            float want = (keep ? x[at] * (float)(1 / (1 - p)) : 0) + (add ? before[at] : 0);
            assert_true(fabsf(y[at] - want) <= 2e-7f * fabsf(want) + (add ? 2e-7f : 0));
            if (!add) assert_int_equal(y[at] != 0, keep && x[at] != 0);
        }
    trm_free(x);
    trm_free(y);
    trm_free(before);
}

static void dropout_draws_the_numbers_of_base(void **state) {
    (void)state;
    const trm_shape shapes[] = {{1, {1}},       {1, {7}},       {2, {33, 31}},   {1, {20000}},
                                {3, {5, 7, 3}}, {3, {1, 9, 9}}, {3, {40, 1, 1}}, {3, {33, 10, 13}}};
    EACH_DEVICE(d)
    for (size_t i = 0; i < SUPPORT_COUNT(shapes); i++)
        for (int k = 0; k < 4; k++)
            check_dropout(*d, &shapes[i], (const double[]){0, 0.1, 0.5, 0.999}[k], k == 1);
}

/* ---- batch norm --------------------------------------------------------------------------- */

/* Moments of column j, in two passes. */
static void moments(const float *x, int64_t rows, int64_t c, int64_t j, double *mean, double *var) {
    *mean = *var = 0;
    for (int64_t r = 0; r < rows; r++) *mean += (double)x[r * c + j] / (double)rows;
    for (int64_t r = 0; r < rows; r++) *var += pow((double)x[r * c + j] - *mean, 2) / (double)rows;
}

static double get_variance(const double *stat, int64_t c, int64_t j) {
    double mean = stat[j] / stat[2 * c];
    return stat[c + j] / stat[2 * c] - mean * mean;
}

/* With a mean of 300 standard deviations a float sum of squares would lose the variance. */
static void check_stats(trm_device *d, int64_t rows, int64_t c) {
    float *x = noise(rows * c, 300, 1, (uint64_t)c);
    double *stat = (double *)floats(4 * c + 2);
    trm_op_desc desc = {OP(BN_STATS), .n = rows, .in = {1, {c}}};
    run_op(d, &desc, ARGS{A(X) = x, A(STAT) = stat}, NULL);
    assert_true(stat[2 * c] == (double)rows);
    for (int64_t j = 0; j < c; j++) {
        double mean, var;
        moments(x, rows, c, j, &mean, &var);
        assert_bound(fabs(stat[j] / (double)rows - mean), 1e-6);
        assert_bound(fabs(get_variance(stat, c, j) - var), 1e-5 * (var + 1e-3));
    }
    trm_free(x);
    trm_free(stat);
}

static void batch_norm_keeps_the_variance_of_large_numbers(void **state) {
    (void)state;
    const int64_t channels[] = {1, 3, 16, 20, 50, 64, 65, 127, 1025};
    const int64_t rows[] = {1, 2, 63, 700};
    EACH_DEVICE(d)
    for (size_t i = 0; i < SUPPORT_COUNT(channels); i++)
        for (size_t k = 0; k < SUPPORT_COUNT(rows); k++) check_stats(*d, rows[k], channels[i]);
}

/* Two ranks that add up their statistics get those of all rows. */
static void batch_norm_sums_add_up(void **state) {
    (void)state;
    enum { ROWS = 500, C = 20 };
    float *x = noise(ROWS * C, 1, 2, 4), *rest = floats((ROWS - 123) * C);
    memcpy(rest, x + 123 * C, sizeof *x * (ROWS - 123) * C);
    EACH_DEVICE(d) {
        double *stat[3];
        const float *from[3] = {x, x, rest};
        const int64_t rows[3] = {ROWS, 123, ROWS - 123};
        for (int k = 0; k < 3; k++) {
            stat[k] = (double *)floats(4 * C + 2);
            trm_op_desc desc = {OP(BN_STATS), .n = rows[k], .in = {1, {C}}};
            run_op(*d, &desc, ARGS{A(X) = (void *)(uintptr_t)from[k], A(STAT) = stat[k]}, NULL);
        }
        for (int j = 0; j <= 2 * C; j++)
            assert_bound(fabs(stat[1][j] + stat[2][j] - stat[0][j]), 1e-5 * (1 + fabs(stat[0][j])));
        for (int k = 0; k < 3; k++) trm_free(stat[k]);
    }
    trm_free(x);
    trm_free(rest);
}

/* ---- threads ------------------------------------------------------------------------------- */

/* The sum of a column of embedding gradients has one writer: equal bits for any number of threads. */
static void embedding_gradient_is_the_same_for_any_threads(void **state) {
    (void)state;
    enum { N = 8, T = 64, C = 100, VOCAB = 11 };
    float *dy = noise(N * T * C, 0, 1, 3), *want = floats(VOCAB * C);
    int32_t *id = (int32_t *)floats(N * T);
    for (int i = 0; i < N * T; i++) id[i] = i * i % VOCAB;
    for (int i = 0; i < N * T * C; i++) want[id[i / C] * C + i % C] += dy[i];
    EACH_DEVICE(d) {
        float *dw = noise(VOCAB * C, 0, 1, 5);
        trm_op_desc desc = {OP(EMBED_BWD), .n = N, .in = {1, {T}}, .out = {2, {T, C}}, .count = VOCAB};
        run_op(*d, &desc, ARGS{A(X) = id, A(DY) = dy, A(DW) = dw}, NULL);
        assert_memory_equal(dw, want, sizeof *dw * VOCAB * C);
        trm_free(dw);
    }
    trm_free(dy);
    trm_free(want);
    trm_free(id);
}

/* Ops without sums give equal bits with one thread and with three, and sums nearly so. */
static void layer_norm_hardly_depends_on_threads(void **state) {
    (void)state;
    enum { N = 7, T = 33, C = 130 };
    int64_t size = N * T * C;
    float *x = noise(size, 3, 2, 6), *dy = noise(size, 0, 1, 7), *w = noise(C, 1, 1, 8),
          *b = noise(C, 0, 1, 9);
    float *out[2][4], *saved = floats(2 * N * T);
    for (int i = 0; i + 1 < device_count; i += 2) {
        for (int k = 0; k < 2; k++) {
            for (int a = 0; a < 4; a++) out[k][a] = floats(a < 2 ? size : C);
            trm_op_desc fwd = {OP(LN_FWD), .n = N, .in = {2, {T, C}}, .eps = 1e-5, .bias = true}, bwd = fwd;
            bwd.kind = TRM_OP_LN_BWD;
            run_op(devices[i + k], &fwd,
                   ARGS{A(X) = x, A(W) = w, A(B) = b, A(Y) = out[k][0], A(SAVED) = saved}, NULL);
            run_op(devices[i + k], &bwd,
                   ARGS{A(X) = x, A(W) = w, A(DY) = dy, A(SAVED) = saved, A(DX) = out[k][1],
                        A(DW) = out[k][2], A(DB) = out[k][3]},
                   NULL);
        }
        for (int a = 0; a < 2; a++) assert_memory_equal(out[0][a], out[1][a], sizeof(float) * (size_t)size);
        for (int a = 2; a < 4; a++)
            for (int j = 0; j < C; j++) assert_bound(fabs((double)out[0][a][j] - (double)out[1][a][j]), 1e-4);
        for (int k = 0; k < 8; k++) trm_free(out[k / 4][k % 4]);
    }
    void *all[] = {x, dy, w, b, saved};
    for (size_t i = 0; i < SUPPORT_COUNT(all); i++) trm_free(all[i]);
}

/* ---- losses -------------------------------------------------------------------------------- */

static void cross_entropy_survives_large_logits(void **state) {
    (void)state;
    const int64_t classes[] = {1, 2, 10, 64, 65, 1025, 3000};
    EACH_DEVICE(d)
    for (size_t i = 0; i < SUPPORT_COUNT(classes); i++) {
        int64_t c = classes[i];
        double tail[TRM_TAIL_SIZE] = {0};
        float *x = noise(2 * c, 1e4, 3e3, 10), *dx = noise(2 * c, 0, 1, 1);
        int32_t *t = (int32_t *)floats(16);
        t[1] = (int32_t)(c - 1);
        x[0] = 3e38f;                         /* row 0: one class has all the weight */
        x[2 * c - 1] = c > 1 ? -INFINITY : 5; /* row 1: the true class has none */
        trm_op_desc desc = {OP(LOSS_CE), .n = 2, .in = {1, {c}}, .train = true};
        run_op(*d, &desc, ARGS{A(X) = x, A(T) = t, A(DX) = dx}, &(trm_step){.tail = tail});
        assert_true(c > 1 ? isinf(tail[TRM_TAIL_LOSS]) && tail[TRM_TAIL_LOSS] > 0 : tail[TRM_TAIL_LOSS] == 0);
        assert_true(tail[TRM_TAIL_CORRECT] == (c > 1 ? 1 : 2));
        for (int64_t j = 0; j < c; j++) assert_true(dx[j] == 0);
        assert_true(dx[2 * c - 1] == (c > 1 ? -1 : 0));
        trm_free(x);
        trm_free(dx);
        trm_free(t);
    }
}

/* The first of equal logits is the answer, as with argmax. */
static void the_first_largest_logit_is_the_answer(void **state) {
    (void)state;
    int64_t classes[] = {2, 70};
    EACH_DEVICE(d)
    for (int i = 0; i < 2; i++) {
        double tail[TRM_TAIL_SIZE] = {0};
        float *x = floats(3 * classes[i]);
        int32_t *t = (int32_t *)floats(16);
        t[1] = 1;
        t[2] = (int32_t)classes[i] - 1;
        trm_op_desc desc = {OP(LOSS_CE), .n = 3, .in = {1, {classes[i]}}};
        run_op(*d, &desc, ARGS{A(X) = x, A(T) = t}, &(trm_step){.tail = tail});
        assert_true(tail[TRM_TAIL_CORRECT] == 1 && tail[TRM_TAIL_COUNT] == 3);
        assert_bound(fabs(tail[TRM_TAIL_LOSS] - 3 * log((double)classes[i])), 1e-6);
        trm_free(x);
        trm_free(t);
    }
}

static void a_row_that_is_not_finite_is_not_correct(void **state) {
    (void)state;
    const int64_t classes[] = {2, 70};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    EACH_DEVICE(d)
    for (int i = 0; i < 6; i++) {
        int64_t c = classes[i % 2];
        double tail[TRM_TAIL_SIZE] = {0};
        float *x = floats(2 * c);
        int32_t *t = (int32_t *)floats(16);
        for (int64_t j = 0; j < c; j++) x[j] = bad[i / 2];
        trm_op_desc desc = {OP(LOSS_CE), .n = 2, .in = {1, {c}}};
        run_op(*d, &desc, ARGS{A(X) = x, A(T) = t}, &(trm_step){.tail = tail});
        assert_true(tail[TRM_TAIL_CORRECT] == 1 && tail[TRM_TAIL_COUNT] == 2);
        assert_false(isfinite(tail[TRM_TAIL_LOSS]));
        trm_free(x);
        trm_free(t);
    }
}

static void ids_out_of_range_get_a_sentence(void **state) {
    (void)state;
    float *x = floats(64), *y = floats(64);
    int32_t *id = (int32_t *)floats(16);
    double tail[TRM_TAIL_SIZE] = {0};
    trm_op_desc embed = {OP(EMBED_FWD), .n = 2, .in = {1, {4}}, .out = {2, {4, 3}}, .count = 5};
    trm_op_desc ce = {OP(LOSS_CE), .n = 2, .in = {2, {4, 5}}, .train = true};
    trm_step step = {.tail = tail};
    EACH_DEVICE(d)
    for (int k = 0; k < 2; k++) {
        id[6] = k ? 5 : -1;
        assert_fault(try_op(*d, &embed, ARGS{A(X) = id, A(W) = x, A(Y) = y}, &step), TRM_DATA,
                     k ? "token 5 at position 6" : "token -1 at position 6");
        assert_fault(try_op(*d, &ce, ARGS{A(X) = x, A(T) = id, A(DX) = y}, &step), TRM_DATA,
                     k ? "class 5 of row 6" : "class -1 of row 6");
    }
    trm_free(x);
    trm_free(y);
    trm_free(id);
}

/* ---- numbers that are not finite -------------------------------------------------------------- */

/* What is put in, how many elements of Y are then no numbers, for each op with one input. */
static int64_t count_nan(const float *p, int64_t n) {
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) found += isnan(p[i]);
    return found;
}

static void activations_keep_nan(void **state) {
    (void)state;
    enum { N = 37 };
    float *x = noise(N, 0, 1, 1), *dy = noise(N, 0, 1, 2), *y = floats(N), *dx = floats(N);
    x[5] = NAN;
    x[33] = -NAN;
    x[6] = INFINITY;
    x[7] = -INFINITY;
    EACH_DEVICE(d)
    for (trm_act act = TRM_ACT_RELU; act < TRM_ACT_COUNT; act++) {
        bool input = trm_act_from_input(act);
        trm_op_desc fwd = {OP(ACT_FWD), .n = 1, .in = {1, {N}}, .act = act}, bwd = fwd;
        bwd.kind = TRM_OP_ACT_BWD;
        run_op(*d, &fwd, ARGS{A(X) = x, A(Y) = y}, NULL);
        run_op(*d, &bwd, ARGS{A(X) = input ? x : NULL, A(Y) = input ? NULL : y, A(DY) = dy, A(DX) = dx},
               NULL);
        assert_true(isnan(y[5]) && isnan(y[33]));
        assert_true(act == TRM_ACT_RELU || (isnan(dx[5]) && isnan(dx[33])));
        assert_int_equal(count_nan(y, N) - (isnan(y[7]) ? 1 : 0), 2);
        assert_true(y[6] == (act == TRM_ACT_TANH || act == TRM_ACT_SIGMOID ? 1 : INFINITY));
    }
    trm_free(x);
    trm_free(dy);
    trm_free(y);
    trm_free(dx);
}

static void norms_keep_nan_where_it_is(void **state) {
    (void)state;
    enum { ROWS = 100, C = 20 };
    EACH_DEVICE(d) {
        float *x = noise(ROWS * C, 0, 1, 1), *y = floats(ROWS * C), *w = noise(C, 1, 0.1, 2), *b = floats(C);
        float *mean = floats(C), *var = floats(C), *saved = floats(2 * ROWS);
        double *stat = (double *)floats(4 * C + 2);
        x[42 * C + 3] = NAN;
        trm_op_desc bn[3], ln = {OP(LN_FWD), .n = ROWS, .in = {1, {C}}, .eps = 1e-5};
        for (int k = 0; k < 3; k++)
            bn[k] = (trm_op_desc){.kind = (trm_op_kind[]){TRM_OP_BN_STATS, TRM_OP_BN_APPLY, TRM_OP_BN_RUN}[k],
                                  .n = ROWS,
                                  .in = {1, {C}},
                                  .eps = 1e-5,
                                  .momentum = 0.1,
                                  .train = true};
        run_op(*d, &bn[0], ARGS{A(X) = x, A(STAT) = stat}, NULL);
        run_op(*d, &bn[1], ARGS{A(X) = x, A(W) = w, A(B) = b, A(Y) = y, A(STAT) = stat}, NULL);
        run_op(*d, &bn[2], ARGS{A(STAT) = stat, A(RUN_MEAN) = mean, A(RUN_VAR) = var}, NULL);
        assert_int_equal(count_nan(y, ROWS * C), ROWS);
        assert_true(isnan(y[3]) && isnan(mean[3]) && isnan(var[3]) && !isnan(mean[4]));
        run_op(*d, &ln, ARGS{A(X) = x, A(Y) = y, A(SAVED) = saved}, NULL);
        assert_int_equal(count_nan(y, ROWS * C), C);
        assert_true(isnan(y[42 * C]));
        void *all[] = {x, y, w, b, mean, var, saved, stat};
        for (size_t i = 0; i < SUPPORT_COUNT(all); i++) trm_free(all[i]);
    }
}

static void losses_and_updates_keep_nan(void **state) {
    (void)state;
    enum { N = 100 };
    EACH_DEVICE(d) {
        float *x = noise(N, 0, 1, 1), *t = noise(N, 0, 1, 2), *dx = floats(N), *m1 = floats(N),
              *m2 = floats(N);
        int32_t *id = (int32_t *)floats(16);
        double tail[TRM_TAIL_SIZE] = {0}, other[TRM_TAIL_SIZE] = {0};
        trm_step step = {.update = 1, .lr = 0.1, .inv_count = 1, .clip_factor = 1, .tail = tail};
        x[57] = NAN;
        trm_op_desc mse = {OP(LOSS_MSE), .n = 1, .in = {1, {N}}, .train = true},
                    ce = {OP(LOSS_CE), .n = 4, .in = {1, {N / 4}}, .train = true};
        run_op(*d, &mse, ARGS{A(X) = x, A(T) = t, A(DX) = dx}, &step);
        assert_true(isnan(tail[TRM_TAIL_LOSS]) && isnan(dx[57]) && count_nan(dx, N) == 1);
        step.tail = other;
        run_op(*d, &ce, ARGS{A(X) = x, A(T) = id, A(DX) = dx}, &step);
        assert_true(isnan(other[TRM_TAIL_LOSS]) && count_nan(dx, N) == N / 4);
        trm_op_desc sumsq = {OP(SUMSQ), .count = N},
                    adam = {OP(UPDATE),   .count = N,    .optimizer = TRM_OPT_ADAM,
                            .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
        run_op(*d, &sumsq, ARGS{A(G) = x}, &step);
        assert_true(isnan(other[TRM_TAIL_SUMSQ]));
        run_op(*d, &adam, ARGS{A(W) = t, A(G) = x, A(M1) = m1, A(M2) = m2}, &step);
        assert_true(isnan(t[57]) && count_nan(t, N) == 1);
        void *all[] = {x, t, dx, m1, m2, id};
        for (size_t i = 0; i < SUPPORT_COUNT(all); i++) trm_free(all[i]);
    }
}

/* ---- loads ------------------------------------------------------------------------------------ */

/* All 65536 half precision numbers of each kind, from an odd address. */
static void every_half_precision_number_loads(void **state) {
    (void)state;
    enum { N = 65536 };
    const trm_dtype types[] = {TRM_F16, TRM_BF16};
    unsigned char *raw = trm_alloc(2 * N + 64, "raw");
    float *y = floats(N), *want = floats(N);
    for (int i = 0; i < N; i++) memcpy(raw + 1 + 2 * i, &(uint16_t){(uint16_t)i}, 2);
    EACH_DEVICE(d)
    for (int k = 0; k < 2; k++) {
        uint16_t *aligned = trm_alloc(2 * N, "aligned");
        memcpy(aligned, raw + 1, 2 * N);
        trm_convert_f32(aligned, types[k], N, want);
        trm_op_desc desc = {OP(LOAD_X),          .n = 4,    .out = {1, {N / 4}}, .raw_type = types[k],
                            .raw_stride = N / 2, .scale = 1};
        run_op(*d, &desc, ARGS{A(Y) = y}, &(trm_step){.x_raw = raw + 1});
        for (int i = 0; i < N; i++) assert_true(y[i] == want[i] || (isnan(y[i]) && isnan(want[i])));
        trm_free(aligned);
    }
    trm_free(raw);
    trm_free(y);
    trm_free(want);
}

/* ---- updates ---------------------------------------------------------------------------------- */

static void plain_sgd(const trm_op_desc *d, const trm_step *s, double g, double *w, double *m) {
    g = g * s->inv_count * s->clip_factor + d->weight_decay * *w;
    *m = d->beta1 * *m + g;
    *w -= s->lr * (d->nesterov ? g + d->beta1 * *m : d->beta1 > 0 ? *m : g);
}

static void plain_adam(const trm_op_desc *d, const trm_step *s, double g, double *w, double m[2]) {
    bool decoupled = d->optimizer == TRM_OPT_ADAMW;
    g = g * s->inv_count * s->clip_factor + (decoupled ? 0 : d->weight_decay * *w);
    if (decoupled) *w *= 1 - s->lr * d->weight_decay;
    m[0] = d->beta1 * m[0] + (1 - d->beta1) * g;
    m[1] = d->beta2 * m[1] + (1 - d->beta2) * g * g;
    double t = (double)s->update, root = sqrt(m[1]) / sqrt(1 - pow(d->beta2, t));
    *w -= s->lr / (1 - pow(d->beta1, t)) * m[0] / (root + d->eps);
}

static void plain_rmsprop(const trm_op_desc *d, const trm_step *s, double g, double *w, double m[2]) {
    g = g * s->inv_count * s->clip_factor + d->weight_decay * *w;
    m[0] = d->beta2 * m[0] + (1 - d->beta2) * g * g;
    m[1] = d->beta1 * m[1] + g / (sqrt(m[0]) + d->eps);
    *w -= s->lr * m[1];
}

/* All n weights together: their norm scales the step. */
static void plain_lamb(const trm_op_desc *d, const trm_step *s, const float *g, double *w, double (*m)[2],
                       int n) {
    double t = (double)s->update, r[32], ww = 0, rr = 0;
    for (int i = 0; i < n; i++) {
        double grad = (double)g[i] * s->inv_count * s->clip_factor;
        m[i][0] = d->beta1 * m[i][0] + (1 - d->beta1) * grad;
        m[i][1] = d->beta2 * m[i][1] + (1 - d->beta2) * grad * grad;
        r[i] = m[i][0] / (1 - pow(d->beta1, t)) / (sqrt(m[i][1] / (1 - pow(d->beta2, t))) + d->eps) +
               d->weight_decay * w[i];
        ww += w[i] * w[i];
        rr += r[i] * r[i];
    }
    for (int i = 0; i < n; i++) w[i] -= s->lr * sqrt(ww / rr) * r[i];
}

static void plain_update(const trm_op_desc *d, const trm_step *s, const float *g, double *w, double (*m)[2],
                         int n) {
    if (d->optimizer == TRM_OPT_LAMB) plain_lamb(d, s, g, w, m, n);
    for (int i = 0; i < n && d->optimizer != TRM_OPT_LAMB; i++)
        if (d->optimizer == TRM_OPT_SGD)
            plain_sgd(d, s, (double)g[i], &w[i], m[i]);
        else if (d->optimizer == TRM_OPT_RMSPROP)
            plain_rmsprop(d, s, (double)g[i], &w[i], m[i]);
        else
            plain_adam(d, s, (double)g[i], &w[i], m[i]);
}

/* Thirty updates of a few weights against the same in double. */
static void check_update(trm_device *d, const trm_op_desc *desc) {
    enum { N = 19 };
    float *w = noise(N, 0, 1, 1), *m1 = floats(N), *m2 = floats(N);
    double want[N], moment[N][2] = {{0}};
    for (int i = 0; i < N; i++) want[i] = (double)w[i];
    for (int64_t update = 1; update <= 30; update++) {
        float *g = noise(N, 0.1, 10, 100 + (uint64_t)update);
        trm_step step = {.update = update, .lr = 0.01, .inv_count = 1.0 / 64, .clip_factor = 0.7};
        run_op(d, desc, ARGS{A(W) = w, A(G) = g, A(M1) = m1, A(M2) = m2}, &step);
        plain_update(desc, &step, g, want, moment, N);
        trm_free(g);
    }
    assert_bound(support_error_f32(w, want, N), 1e-6);
    trm_free(w);
    trm_free(m1);
    trm_free(m2);
}

static void updates_follow_their_formulas(void **state) {
    (void)state;
    const trm_op_desc descs[] = {
        {.optimizer = TRM_OPT_SGD},
        {.optimizer = TRM_OPT_SGD, .weight_decay = 0.1},
        {.optimizer = TRM_OPT_SGD, .beta1 = 0.9, .weight_decay = 0.01},
        {.optimizer = TRM_OPT_SGD, .beta1 = 0.9, .nesterov = true},
        {.optimizer = TRM_OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1},
        {.optimizer = TRM_OPT_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1},
        {.optimizer = TRM_OPT_RMSPROP, .beta2 = 0.99, .eps = 1e-8},
        {.optimizer = TRM_OPT_RMSPROP, .beta1 = 0.9, .beta2 = 0.9, .eps = 1e-6, .weight_decay = 0.1},
        {.optimizer = TRM_OPT_LAMB, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6},
        {.optimizer = TRM_OPT_LAMB, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1},
    };
    EACH_DEVICE(d)
    for (size_t i = 0; i < SUPPORT_COUNT(descs); i++) {
        trm_op_desc desc = descs[i];
        desc.kind = TRM_OP_UPDATE;
        desc.count = 19;
        check_update(*d, &desc);
    }
}

/* Squares of large gradients are no infinities. */
static void sum_of_squares_is_taken_in_double(void **state) {
    (void)state;
    const int64_t counts[] = {1, 7, 64, 100001};
    EACH_DEVICE(d)
    for (size_t i = 0; i < SUPPORT_COUNT(counts); i++) {
        double tail[TRM_TAIL_SIZE] = {[TRM_TAIL_SUMSQ] = 1e50}, want = 1e50;
        float *g = noise(counts[i], 0, 1e30, 3);
        for (int64_t k = 0; k < counts[i]; k++) want += (double)g[k] * (double)g[k];
        trm_op_desc desc = {OP(SUMSQ), .count = counts[i]};
        run_op(*d, &desc, ARGS{A(G) = g}, &(trm_step){.tail = tail});
        assert_bound(fabs(tail[TRM_TAIL_SUMSQ] / want - 1), 1e-12);
        trm_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropout_draws_the_numbers_of_base),
        cmocka_unit_test(batch_norm_keeps_the_variance_of_large_numbers),
        cmocka_unit_test(batch_norm_sums_add_up),
        cmocka_unit_test(embedding_gradient_is_the_same_for_any_threads),
        cmocka_unit_test(layer_norm_hardly_depends_on_threads),
        cmocka_unit_test(cross_entropy_survives_large_logits),
        cmocka_unit_test(the_first_largest_logit_is_the_answer),
        cmocka_unit_test(a_row_that_is_not_finite_is_not_correct),
        cmocka_unit_test(ids_out_of_range_get_a_sentence),
        cmocka_unit_test(activations_keep_nan),
        cmocka_unit_test(norms_keep_nan_where_it_is),
        cmocka_unit_test(losses_and_updates_keep_nan),
        cmocka_unit_test(every_half_precision_number_loads),
        cmocka_unit_test(updates_follow_their_formulas),
        cmocka_unit_test(sum_of_squares_is_taken_in_double),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
