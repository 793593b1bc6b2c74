/* np: 1 2 3 4 */
/* Who computes never changes what is computed: models that between them use every layer, on every back end, with even,
 * uneven and empty shares, batches that do not divide, and micro-batches, against the same model on one rank. */
#include <math.h>

#include <trireme/mpi.h>
#include <trireme/parallel.h>

#include "mpi_support.h"
#include "nn_zoo.h"

static trm_comm *comm;
static bool half; /* products in bfloat16 */

/* nn_model's parallel twin: same graph rewritten, gradients and sums in the transport's buffers. */
typedef struct twin {
    nn_model m;
    trm_comm_buffer *grads, *small;
    trm_parallel_talk *talk;
} twin;

static void open_twin(twin *t, const nn_case *c, const char *backend, trm_optim_spec o) {
    nn_open_case(&t->m, c, backend, o);
    trm_runner_free(t->m.r);
    t->m.spec.half = half;
    trm_free(t->m.spec.grads);
    trm_free(t->m.spec.small);
    assert_agreed_ok(trm_parallel_data(t->m.g, comm));
    assert_agreed_ok(
        trm_comm_buffer_alloc(comm, t->m.size == 8 ? TRM_F64 : TRM_F32, t->m.space, "gradients", &t->grads));
    assert_agreed_ok(trm_comm_buffer_alloc(comm, TRM_F64, trm_graph_small_space(t->m.g), "sums", &t->small));
    assert_agreed_ok(trm_parallel_talk_create(comm, t->grads, t->small, &t->talk));
    t->m.spec.grads = trm_comm_buffer_data(t->grads);
    t->m.spec.small = trm_comm_buffer_data(t->small);
    t->m.spec.ranks = trm_comm_size(comm);
    t->m.spec.rank = trm_comm_rank(comm);
    t->m.spec.talk = trm_parallel_talk_table(t->talk);
    assert_agreed_ok(trm_runner_create(&t->m.spec, &t->m.r));
}

static void close_twin(twin *t) {
    trm_runner_free(t->m.r);
    t->m.r = NULL;
    trm_parallel_talk_free(t->talk);
    trm_comm_buffer_free(comm, t->grads);
    trm_comm_buffer_free(comm, t->small);
    t->m.spec.grads = NULL;
    t->m.spec.small = NULL;
    nn_close(&t->m);
}

/* This rank's rows of the raw batch, micro-batch by micro-batch, and their global numbers. */
static void take_slices(const twin *t, const int64_t *counts, int k, const void *x, const void *y, char *mx,
                        char *my, int64_t *sample) {
    const int64_t sx = t->m.spec.load.x_stride, sy = t->m.spec.load.y_stride;
    int64_t at = 0, n = 0;
    for (int micro = 0; micro < k; micro++)
        for (int r = 0; r < t->m.spec.ranks; r++) {
            const int64_t c = counts[r * k + micro];
            if (r == t->m.spec.rank) {
                memcpy(mx + n * sx, (const char *)x + at * sx, (size_t)(c * sx));
                memcpy(my + n * sy, (const char *)y + at * sy, (size_t)(c * sy));
                for (int64_t i = 0; i < c; i++) sample[n + i] = 1000 + at + i;
                n += c;
            }
            at += c;
        }
}

typedef struct setting {
    int64_t batch;
    int micro_batches;
    double weights[4]; /* of ranks 0.. ; 0,0,0,0 = equal */
} setting;

static const setting settings[] = {
    {8, 1, {0}},           {7, 1, {1, 3, 1, 2}}, {9, 2, {0, 1, 2, 0}}, {2, 1, {0}},
    {11, 4, {3, 1, 0, 2}}, {1, 1, {0, 1, 1, 1}}, {3, 2, {1, 0, 0, 0}},
};

/* Ranks with a weight of zero only would leave nobody: the first then gets all. */
static void shares_of(const setting *s, trm_shares *out) {
    double sum = 0;
    for (int r = 0; r < trm_comm_size(comm); r++) sum += s->weights[r];
    const double first[4] = {1, 0, 0, 0};
    const bool equal = s->weights[0] + s->weights[1] + s->weights[2] + s->weights[3] == 0;
    assert_agreed_ok(trm_shares_create(trm_comm_size(comm),
                                       equal     ? NULL
                                       : sum > 0 ? s->weights
                                                 : first,
                                       out));
}

static double step_twin(twin *t, const trm_shares *sh, const setting *s, const void *x, const void *y,
                        double lr, int64_t update, trm_step_result *res) {
    int64_t counts[4 * 4], sample[64];
    char *mx = trm_alloc((size_t)(s->batch * t->m.spec.load.x_stride), "test");
    char *my = trm_alloc((size_t)(s->batch * t->m.spec.load.y_stride), "test");
    assert_agreed_ok(trm_shares_counts(sh, s->batch, s->micro_batches, counts));
    take_slices(t, counts, s->micro_batches, x, y, mx, my, sample);
    int program;
    assert_agreed_ok(trm_runner_plan(t->m.r, s->micro_batches, counts, &program));
    trm_step step = {.update = update, .lr = lr, .x_raw = mx, .y_raw = my, .sample = sample};
    assert_agreed_ok(trm_runner_step(t->m.r, program, &step, false, res));
    trm_free(mx);
    trm_free(my);
    return res->loss;
}

/* Worst relative difference of a parameter's gradient. */
static double worst_gradient(const nn_model *a, const nn_model *b) {
    double worst = 0, all = 0;
    for (int k = 0; k < trm_graph_params(a->g); k++) {
        const trm_param *p = trm_graph_param(a->g, k);
        if (p->kind != TRM_PARAM) continue;
        double d = 0, w = 0;
        for (int64_t i = p->offset; i < p->offset + p->count; i++) {
            const double u = nn_get(a, a->spec.grads, i), v = nn_get(b, b->spec.grads, i);
            d += (u - v) * (u - v);
            w += u * u;
        }
        all += w;
        /* What is zero but for rounding (a bias before a batch norm) is held against the whole. */
        worst = fmax(worst, w > 1e-8 * all ? sqrt(d / w) : sqrt(d / all));
    }
    return worst;
}

static void check(const nn_case *c, const char *backend, const setting *s, trm_optim_spec o, double bound,
                  double loss_bound) {
    nn_model one;
    twin t;
    void *x, *y;
    int64_t counts[4];
    trm_shares shares;
    trm_step_result ra, rb;
    nn_open_case(&one, c, backend, o);
    if (half) {
        trm_runner_free(one.r);
        one.spec.half = true;
        assert_agreed_ok(trm_runner_create(&one.spec, &one.r));
    }
    open_twin(&t, c, backend, o);
    nn_data(&one, c, s->batch, &x, &y);
    shares_of(s, &shares);
    for (int k = 0; k < s->micro_batches; k++)
        counts[k] = trm_cut(s->batch, s->micro_batches, k + 1) - trm_cut(s->batch, s->micro_batches, k);
    double worst = 0, drift = 0;
    for (int u = 1; u <= 6; u++) {
        nn_step(&one, s->micro_batches, counts, x, y, 0.02, u, &ra);
        step_twin(&t, &shares, s, x, y, 0.02, u, &rb);
        if (u == 1) worst = worst_gradient(&one, &t.m);
        drift = fmax(drift, fabs(ra.loss - rb.loss) / fabs(ra.loss));
        assert_agreed(ra.count == rb.count);
    }
    if (worst > bound || drift > loss_bound)
        print_message("# %s %s batch %d K %d: gradient %.1e, losses %.1e\n", backend, c->name, (int)s->batch,
                      s->micro_batches, worst, drift);
    assert_agreed(worst <= bound);
    assert_agreed(drift <= loss_bound);
    trm_free(x);
    trm_free(y);
    trm_shares_free(&shares);
    nn_close(&one);
    close_twin(&t);
}

static const trm_optim_spec sgd = {.kind = TRM_OPT_SGD, .momentum = 0.9};
static const trm_optim_spec adamw = {
    .kind = TRM_OPT_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .clip = 1};

static const trm_optim_spec rmsprop = {
    .kind = TRM_OPT_RMSPROP, .momentum = 0.9, .alpha = 0.99, .eps = 1e-8, .weight_decay = 0.1};
static const trm_optim_spec lamb = {
    .kind = TRM_OPT_LAMB, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6, .weight_decay = 0.1, .clip = 1};

static void equal_on_ref(void **state) {
    (void)state;
    for (int i = 0; i < NN_CASES; i++)
        for (size_t k = 0; k < sizeof settings / sizeof *settings; k++)
            check(&nn_cases[i], "ref", &settings[k], sgd, 1e-9, 1e-8);
}

/* Optimizers whose first steps do not depend on the size of a gradient: models without gradients that are rounding only. */
static void equal_with_other_optimizers(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        check(&nn_cases[0], "ref", &settings[k], rmsprop, 1e-9, 1e-8);
        check(&nn_cases[0], "ref", &settings[k], lamb, 1e-9, 1e-8);
        check(&nn_cases[0], "cpu", &settings[k], rmsprop, 1e-5, 1e-4);
        check(&nn_cases[0], "cpu", &settings[k], lamb, 1e-5, 5e-5);
    }
}

static void equal_on_cpu(void **state) {
    (void)state;
    for (int i = 0; i < NN_CASES; i++)
        for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
            /* Batch norm over one or two rows amplifies rounding without bound: that is the model, not the split. */
            if (settings[k].batch < 3 && trm_layer_find("batch_norm") &&
                (!strcmp(nn_cases[i].name, "regress") || !strcmp(nn_cases[i].name, "resnet")))
                continue;
            check(&nn_cases[i], "cpu", &settings[k], sgd, 1e-5, 1e-5);
            check(&nn_cases[i], "cpu", &settings[k], adamw, 1e-5, 5e-5);
        }
}

/* A sample is rounded alike on every rank; what differs is the order of sums inside a product, which may turn a rounding. Batch norm over few
 * rows enlarges that. */
static void equal_in_bf16(void **state) {
    (void)state;
    trm_device *d;
    assert_agreed_ok(trm_device_open("cpu", 1, &d));
    half = trm_device_half(d) == TRM_OK;
    trm_device_close(d);
    if (!half) skip();
    for (int i = 0; i < NN_CASES; i++)
        for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
            const bool norm = !strcmp(nn_cases[i].name, "regress") || !strcmp(nn_cases[i].name, "resnet");
            if (settings[k].batch < 3 && norm) continue;
            check(&nn_cases[i], "cpu", &settings[k], sgd, norm ? 1e-2 : 1e-3, norm ? 3e-3 : 1e-3);
        }
    half = false;
}

/* Replicas hold the same bits after some updates, and a second run the same as the first. */
static void replicas_and_runs_are_equal_to_the_bit(void **state) {
    (void)state;
    for (int i = 0; i < NN_CASES; i++) {
        uint64_t hash[2];
        for (int run = 0; run < 2; run++) {
            twin t;
            void *x, *y;
            trm_shares shares;
            trm_step_result res;
            open_twin(&t, &nn_cases[i], "cpu", adamw);
            nn_data(&t.m, &nn_cases[i], 9, &x, &y);
            shares_of(&settings[2], &shares);
            for (int u = 1; u <= 5; u++) step_twin(&t, &shares, &settings[2], x, y, 0.02, u, &res);
            hash[run] = trm_hash(t.m.spec.weights, (size_t)t.m.space * t.m.size, 0);
            hash[run] = trm_hash(t.m.spec.state, (size_t)trm_graph_state_space(t.m.g) * t.m.size, hash[run]);
            uint64_t all[4];
            assert_agreed_ok(trm_comm_allgather(comm, &hash[run], sizeof hash[run], all));
            bool same = true;
            for (int r = 0; r < trm_comm_size(comm); r++) same = same && all[r] == all[0];
            assert_agreed(same);
            trm_free(x);
            trm_free(y);
            trm_shares_free(&shares);
            close_twin(&t);
        }
        assert_agreed(hash[0] == hash[1]);
    }
}

/* One rank's bad number stops the update on all. */
static void a_fault_stops_all(void **state) {
    (void)state;
    twin t;
    void *x, *y;
    trm_shares shares;
    trm_step_result res;
    open_twin(&t, &nn_cases[0], "cpu", sgd);
    nn_data(&t.m, &nn_cases[0], 8, &x, &y);
    shares_of(&settings[0], &shares);
    ((double *)x)[8 * 7 - 1] = NAN; /* in the last rank's slice */
    step_twin(&t, &shares, &settings[0], x, y, 0.02, 1, &res);
    assert_agreed(!res.finite && !res.applied);
    ((double *)x)[8 * 7 - 1] = 0;
    step_twin(&t, &shares, &settings[0], x, y, 0.02, 2, &res);
    assert_agreed(res.finite && res.applied);
    trm_free(x);
    trm_free(y);
    trm_shares_free(&shares);
    close_twin(&t);
}

static int open_comm(void **state) {
    (void)state;
    return trm_comm_from_mpi(MPI_COMM_WORLD, &comm) != TRM_OK;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(equal_on_ref, open_comm),
        cmocka_unit_test(equal_with_other_optimizers),
        cmocka_unit_test(equal_on_cpu),
        cmocka_unit_test(equal_in_bf16),
        cmocka_unit_test(replicas_and_runs_are_equal_to_the_bit),
        cmocka_unit_test(a_fault_stops_all),
    };
    return support_mpi_main(&argc, &argv, tests, SUPPORT_COUNT(tests));
}
