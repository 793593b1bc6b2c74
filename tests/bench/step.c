/* The step alone: samples per second of the four models on as many ranks as mpirun starts, data in memory, no files, no records.
 *
 *   mpirun -n 2 --bind-to core build/bench/step mlp|lenet|resnet20|resnet20-sync|gpt [seconds] [fp32|bf16] [describe]
 *
 * One JSON line from rank 0: medians of 7 blocks, and where the time went.  cpu_ms is the processor time of a step on one thread, the least
 * of the blocks: where others use the machine too, it says more than the clock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <trireme/launch.h>
#include <trireme/parallel.h>

typedef struct bench {
    trm_comm *comm;
    trm_graph *g;
    trm_device *d;
    trm_runner *r;
    trm_runner_spec spec;
    int64_t per_rank, n;
    int program;
    void *x, *y;
    int64_t *sample;
} bench;

static void must(trm_status s) {
    if (s == TRM_OK) return;
    fprintf(stderr, "step: %s\n", trm_error_text());
    exit(1);
}

static void *need(size_t bytes) {
    void *p = trm_alloc(bytes, "bench");
    if (!p) must(TRM_MEMORY);
    return p;
}

/* The peer's four models. */
static void make_model(bench *b, const char *model) {
    int out;
    trm_zoo_spec z = {.classes = 10,
                      .hidden = {512, 512},
                      .n_hidden = 2,
                      .depth = 20,
                      .sync = !strcmp(model, "resnet20-sync"),
                      .layers = 4,
                      .dim = 256,
                      .heads = 4,
                      .vocab = 256,
                      .context = 128};
    b->per_rank = 64;
    if (!strcmp(model, "mlp")) {
        trm_shape s = {1, {784}};
        b->per_rank = 128;
        must(trm_graph_create(&s, false, &b->g));
        must(trm_zoo_mlp(b->g, &z, 0, &out));
    } else if (!strcmp(model, "lenet")) {
        trm_shape s = {3, {1, 28, 28}};
        must(trm_graph_create(&s, false, &b->g));
        must(trm_zoo_lenet(b->g, &z, 0, &out));
    } else if (!strncmp(model, "resnet20", 8)) {
        trm_shape s = {3, {3, 32, 32}};
        must(trm_graph_create(&s, false, &b->g));
        must(trm_zoo_resnet(b->g, &z, 0, &out));
    } else {
        trm_shape s = {1, {128}};
        b->per_rank = 16;
        must(trm_graph_create(&s, true, &b->g));
        must(trm_zoo_gpt(b->g, &z, 0, &out));
    }
}

static void make_data(bench *b, bool tokens) {
    const int64_t x = trm_shape_count(trm_graph_shape(b->g, 0)), y = tokens ? x : 1;
    trm_rng_key k = {.seed = 1 + (uint64_t)trm_comm_rank(b->comm), .purpose = TRM_RNG_SYNTH};
    b->x = need((size_t)(b->per_rank * x) * 4);
    b->y = need((size_t)(b->per_rank * y) * 4);
    b->sample = need((size_t)b->per_rank * 8);
    for (int64_t i = 0; i < b->per_rank * x; i++) {
        if (tokens)
            ((int32_t *)b->x)[i] = (int32_t)trm_rng_below(&k, (uint64_t)i, 256);
        else
            ((uint8_t *)b->x)[i] = (uint8_t)trm_rng_below(&k, (uint64_t)i, 256);
    }
    for (int64_t i = 0; i < b->per_rank * y; i++)
        ((int32_t *)b->y)[i] = (int32_t)trm_rng_below(&k, (uint64_t)i, tokens ? 256 : 10);
    b->spec.load = (trm_load_spec){.x_type = tokens ? TRM_I32 : TRM_U8,
                                   .y_type = TRM_I32,
                                   .x_stride = x * (tokens ? 4 : 1),
                                   .y_stride = 4 * y,
                                   .y_is_class = true,
                                   .scale = tokens ? 1 : 1.0 / 255};
    if (tokens) b->spec.load.y = trm_shape_of(1, x);
}

static void make_runner(bench *b, bool adamw) {
    trm_runner_spec *s = &b->spec;
    trm_comm_buffer *grads, *small;
    trm_parallel_talk *talk;
    must(trm_parallel_data(b->g, b->comm));
    const int64_t space = trm_graph_param_space(b->g);
    must(trm_comm_buffer_alloc(b->comm, TRM_F32, space, "gradients", &grads));
    must(trm_comm_buffer_alloc(b->comm, TRM_F64, trm_graph_small_space(b->g), "sums", &small));
    must(trm_parallel_talk_create(b->comm, grads, small, &talk));
    s->graph = b->g;
    s->device = b->d;
    s->ranks = trm_comm_size(b->comm);
    s->rank = trm_comm_rank(b->comm);
    s->talk = trm_parallel_talk_table(talk);
    s->optim = adamw ? (trm_optim_spec){.kind = TRM_OPT_ADAMW,
                                        .beta1 = 0.9,
                                        .beta2 = 0.999,
                                        .eps = 1e-8,
                                        .weight_decay = 0.1}
                     : (trm_optim_spec){.kind = TRM_OPT_SGD, .momentum = 0.9};
    s->weights = need((size_t)space * 4);
    s->grads = trm_comm_buffer_data(grads);
    s->small = trm_comm_buffer_data(small);
    s->m1 = need((size_t)space * 4);
    s->m2 = need((size_t)space * 4);
    s->state = need((size_t)trm_graph_state_space(b->g) * 4 + 4);
    trm_graph_init(b->g, 1, s->weights, s->state);
    must(trm_runner_create(s, &b->r));
    int64_t *counts = need((size_t)s->ranks * 8);
    for (int i = 0; i < s->ranks; i++) counts[i] = b->per_rank;
    must(trm_runner_plan(b->r, 1, counts, &b->program));
    trm_free(counts);
}

static double run_steps(bench *b, int steps, double lr, double *loss) {
    const double t = trm_now();
    for (int i = 0; i < steps; i++) {
        trm_step step = {.update = ++b->n, .lr = lr, .x_raw = b->x, .y_raw = b->y, .sample = b->sample};
        trm_step_result res;
        must(trm_runner_step(b->r, b->program, &step, false, &res));
        *loss = res.loss;
    }
    return (trm_now() - t) / steps;
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    bench b = {0};
    const char *model = argc > 1 ? argv[1] : "mlp";
    const double seconds = argc > 2 ? atof(argv[2]) : 3;
    const bool gpt = !strcmp(model, "gpt");
    double loss = 0, block[7], steps, cpu = 1e9;
    must(trm_launch_begin(&b.comm));
    const char *threads = getenv("OMP_NUM_THREADS");
    must(trm_device_open("cpu", threads ? atoi(threads) : 1, &b.d));
    make_model(&b, model);
    make_data(&b, gpt);
    b.spec.half = argc > 3 && !strcmp(argv[3], "bf16");
    make_runner(&b, gpt);
    if (argc > 4 && trm_comm_rank(b.comm) == 0) {
        trm_str text = {0};
        trm_runner_describe(b.r, b.program, &text);
        fputs(trm_str_get(&text), stderr);
        trm_str_free(&text);
    }
    run_steps(&b, 5, gpt ? 3e-4 : 0.01, &loss);
    steps = seconds / 7 / run_steps(&b, 3, gpt ? 3e-4 : 0.01, &loss);
    must(trm_comm_max_f64(b.comm, &steps, 1));
    trm_runner_time_reset(b.r);
    for (int i = 0; i < 7; i++) {
        must(trm_comm_barrier(b.comm, "block"));
        const int n = steps < 2 ? 2 : (int)steps;
        const double from = cpu_seconds();
        block[i] = run_steps(&b, n, gpt ? 3e-4 : 0.01, &loss);
        const double took = (cpu_seconds() - from) / n;
        cpu = took < cpu ? took : cpu;
    }
    qsort(block, 7, sizeof *block, by_value);
    const trm_runner_times t = trm_runner_time(b.r);
    const double ms = 1e3 / (double)t.steps;
    if (trm_comm_rank(b.comm) == 0)
        printf("{\"peer\":\"trireme\",\"model\":\"%s\",\"precision\":\"%s\",\"ranks\":%d,\"samples_per_s\":%."
               "1f,\"step_ms\":%.3f,"
               "\"step_ms_min\":%.3f,\"cpu_ms\":%.3f,"
               "\"phases_ms\":{\"load\":%.3f,\"fwd\":%.3f,\"bwd\":%.3f,\"update\":%.3f,\"wait\":%.3f,\"bwd_"
               "behind\":%.3f},\"exposed\":%.4f,\"loss\":%.4f}\n",
               model, b.spec.half ? "bf16" : "fp32", trm_comm_size(b.comm),
               (double)(b.per_rank * trm_comm_size(b.comm)) / block[3], block[3] * 1e3, block[0] * 1e3,
               cpu * 1e3, t.load * ms, t.forward * ms, t.backward * ms, t.update * ms, t.wait * ms,
               t.backward_behind * ms, t.wait * ms / 1e3 / block[3], loss);
    trm_launch_end(b.comm);
    return 0;
}
