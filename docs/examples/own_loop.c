/* own_loop: training inside a program that already owns MPI and its loop.
 *
 *   mpirun -n 2 build/examples/own_loop digits.h5 [EPOCHS] [BATCH]
 *
 * What `trireme train` does, by hand and in the open: rank 0 opens the data set, all build the same model, a rewrite makes it
 * data-parallel, a runner replays planned programs, a feed brings samples.  The sums, and so the numbers, are those of
 * the job file
 *
 *   model: lenet
 *   train: {epochs: 2, batch: 64, optimizer: {type: sgd, lr: 0.02, momentum: 0.9}}
 *   balance: off
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <trireme/mpi.h>
#include <trireme/parallel.h>
#include <trireme/data.h>

typedef struct loop {
    trm_comm *comm;
    int rank, ranks;
    int64_t epochs, batch, samples;
    trm_dataset *data;
    trm_graph *graph;
    trm_device *device;
    trm_shares shares;
    void *weights, *moments, *state; /* device floats */
    trm_comm_buffer *grads, *small;
    trm_parallel_talk *talk;
    trm_runner *runner;
    trm_feed *feed;
    int program, last; /* of a whole batch, of what is left at the end of an epoch */
} loop;

/* Every fault is a sentence of the rank that met it; here it ends all ranks. */
static void must(trm_status s) {
    if (s == TRM_OK) return;
    fprintf(stderr, "own_loop: %s\n", trm_error_text());
    if (trm_error_hint()[0]) fprintf(stderr, "hint: %s\n", trm_error_hint());
    MPI_Abort(MPI_COMM_WORLD, trm_status_exit_code(s));
}

/* ---- data: opened and checked once, known to all ---------------------------------------- */

static void open_data(loop *l, const char *path) {
    const char *files[] = {path};
    trm_data_spec spec = {.files = files, .n_files = 1, .copies = trm_comm_node_size(l->comm)};
    void *plan = NULL;
    size_t bytes = 0;
    if (l->rank == 0) {
        must(trm_dataset_open(&spec, &l->data));
        must(trm_dataset_pack(l->data, &plan, &bytes));
    }
    must(trm_comm_bcast_block(l->comm, &plan, &bytes, 0));
    if (l->rank != 0) must(trm_dataset_unpack(plan, bytes, &l->data));
    trm_free(plan);
    l->samples = trm_dataset_info(l->data)->samples;
}

/* ---- model: layers, then the strategy as a rewrite --------------------------------------- */

static void build_model(loop *l) {
    const trm_data_info *d = trm_dataset_info(l->data);
    trm_zoo_spec lenet = {.classes = d->classes};
    int out;
    must(trm_graph_create(&d->x, false, &l->graph));
    must(trm_zoo_lenet(l->graph, &lenet, trm_graph_input(l->graph), &out));
    must(trm_graph_set_output(l->graph, out));
    must(trm_graph_check_loss(l->graph, TRM_LOSS_CROSS_ENTROPY, &d->y, d->y_is_class, d->classes));
    must(trm_parallel_data(l->graph, l->comm));
}

/* ---- memory: parameters, moments and state are flat; gradients lie where ranks can sum them -- */

static void *floats(int64_t count, const char *what) {
    void *p = trm_alloc_array((size_t)count + 1, sizeof(float), what);
    if (!p) must(TRM_MEMORY);
    return p;
}

static void allocate(loop *l) {
    int64_t space = trm_graph_param_space(l->graph);
    must(trm_device_open("cpu", 1, &l->device));
    l->weights = floats(space, "weights");
    l->moments = floats(space, "moments");
    l->state = floats(trm_graph_state_space(l->graph), "running statistics");
    trm_graph_init(l->graph, 1, l->weights, l->state);
    must(trm_comm_buffer_alloc(l->comm, TRM_F32, space, "gradients", &l->grads));
    must(trm_comm_buffer_alloc(l->comm, TRM_F64, trm_graph_small_space(l->graph), "sums", &l->small));
    must(trm_parallel_talk_create(l->comm, l->grads, l->small, &l->talk));
}

/* ---- plan: everything that can fail for a reason fails here ------------------------------- */

static int plan_batch(loop *l, int64_t batch) {
    int64_t counts[1024];
    int program = -1;
    must(trm_shares_counts(&l->shares, batch, 1, counts));
    must(trm_runner_plan(l->runner, 1, counts, &program));
    return program;
}

static void plan(loop *l) {
    const trm_data_info *d = trm_dataset_info(l->data);
    trm_runner_spec spec = {.graph = l->graph,
                            .device = l->device,
                            .ranks = l->ranks,
                            .rank = l->rank,
                            .talk = trm_parallel_talk_table(l->talk),
                            .loss = TRM_LOSS_CROSS_ENTROPY,
                            .load = {.x_type = d->x_type,
                                     .y_type = d->y_type,
                                     .x_hwc = d->x_hwc,
                                     .x_stride = d->x_stride,
                                     .y_stride = d->y_stride,
                                     .y = d->y,
                                     .y_is_class = true,
                                     .scale = 1.0 / 255},
                            .optim = {.kind = TRM_OPT_SGD, .momentum = 0.9},
                            .seed = 1,
                            .weights = l->weights,
                            .grads = trm_comm_buffer_data(l->grads),
                            .m1 = l->moments,
                            .state = l->state,
                            .small = trm_comm_buffer_data(l->small)};
    must(trm_runner_create(&spec, &l->runner));
    must(trm_shares_create(l->ranks, NULL, &l->shares));
    if (l->samples >= l->batch) l->program = plan_batch(l, l->batch);
    if (l->samples % l->batch) l->last = plan_batch(l, l->samples % l->batch);
}

/* The feed's thread asks which part of a batch is this rank's. */
static void cut(void *ctx, int64_t update, int64_t m, int64_t *begin, int64_t *count) {
    const loop *l = ctx;
    (void)update;
    *begin = trm_cut(m, l->ranks, l->rank);
    *count = trm_cut(m, l->ranks, l->rank + 1) - *begin;
}

/* ---- the loop is yours ---------------------------------------------------------------------- */

static void train(loop *l) {
    trm_feed_spec spec = {.shuffle = TRM_SHUFFLE_EXACT,
                          .seed = 1,
                          .batch = l->batch,
                          .micro_batches = 1,
                          .cut = cut,
                          .cut_ctx = l};
    must(trm_feed_open(l->data, &spec, &l->feed));
    int64_t per_epoch = trm_feed_updates_per_epoch(l->feed), update = 0;
    for (int64_t epoch = 0; epoch < l->epochs; epoch++) {
        double loss = 0, count = 0, correct = 0;
        for (int64_t i = 0; i < per_epoch; i++) {
            trm_slot slot;
            trm_step_result result;
            must(trm_feed_next(l->feed, &slot, NULL));
            trm_step step = {.update = ++update,
                             .lr = 0.02,
                             .x_raw = slot.x_raw,
                             .y_raw = slot.y_raw,
                             .sample = slot.sample};
            must(trm_runner_step(l->runner, slot.batch == l->batch ? l->program : l->last, &step, false,
                                 &result));
            trm_feed_release(l->feed, &slot);
            loss += result.loss * result.count;
            count += result.count;
            correct += result.correct;
        }
        if (l->rank == 0)
            printf("epoch %lld: loss %.6f, accuracy %.2f %%\n", (long long)epoch + 1, loss / count,
                   100 * correct / count);
    }
}

static void close_all(loop *l) {
    trm_feed_close(l->feed);
    trm_runner_free(l->runner);
    trm_parallel_talk_free(l->talk);
    trm_comm_buffer_free(l->comm, l->small);
    trm_comm_buffer_free(l->comm, l->grads);
    trm_free(l->state);
    trm_free(l->moments);
    trm_free(l->weights);
    trm_shares_free(&l->shares);
    trm_device_close(l->device);
    trm_graph_free(l->graph);
    trm_dataset_close(l->data);
    trm_comm_close(l->comm);
}

int main(int argc, char **argv) {
    loop l = {.epochs = argc > 2 ? atoll(argv[2]) : 2,
              .batch = argc > 3 ? atoll(argv[3]) : 64,
              .program = -1,
              .last = -1};
    int level;
    if (argc < 2 || argc > 4 || l.epochs < 1 || l.batch < 1) {
        fprintf(stderr, "usage: own_loop FILE.h5 [EPOCHS (2)] [BATCH (64)]\n");
        return 2;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    must(trm_comm_from_mpi(MPI_COMM_WORLD, &l.comm));
    l.rank = trm_comm_rank(l.comm);
    l.ranks = trm_comm_size(l.comm);
    if (l.ranks > 1024) must(trm_fail(TRM_USAGE, "at most 1024 ranks here"));
    open_data(&l, argv[1]);
    build_model(&l);
    allocate(&l);
    plan(&l);
    train(&l);
    close_all(&l);
    MPI_Finalize();
    return 0;
}
