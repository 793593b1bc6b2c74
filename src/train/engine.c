/* engine: from a job and a comm to a runner that is ready.  Every fault here is agreed: all ranks
 * leave with the same status and one sentence. */
#include <string.h>

#include "run_impl.h"

/* ---- rank 0's word ---- */

/* Unlike trm_comm_agree the sentence needs no "rank 0: ": no other rank could have failed. */
trm_status trm_root_says(trm_comm *c, trm_status mine) {
    struct {
        trm_status status;
        char text[1024], hint[512];
    } word = {.status = mine};
    if (trm_comm_size(c) == 1) return mine;
    if (mine != TRM_OK) {
        snprintf(word.text, sizeof word.text, "%s", trm_error_text());
        snprintf(word.hint, sizeof word.hint, "%s", trm_error_hint());
    }
    TRM_TRY(trm_comm_bcast(c, &word, sizeof word, 0));
    if (word.status == TRM_OK || trm_comm_rank(c) == 0) return word.status;
    trm_fail(word.status, "%s", word.text);
    if (word.hint[0]) trm_hint("%s", word.hint);
    return word.status;
}

/* ---- lines ---- */

void trm_run_say(const trm_engine *e, const char *fmt, ...) {
    char line[TRM_LINE];
    va_list ap;
    if (e->rank != 0 || !e->opt->print) return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    e->opt->print(e->opt->print_ctx, line, false);
}

void trm_run_say_lines(const trm_engine *e, const char *text) {
    while (*text) {
        int n = (int)strcspn(text, "\n");
        trm_run_say(e, "%.*s", n, text);
        text += n + (text[n] == '\n');
    }
}

/* ---- data ---- */

static trm_status share_alloc(void *ctx, size_t bytes, const char *what, void **out) {
    trm_engine *e = ctx;
    trm_comm_shared *s = NULL;
    TRM_TRY(trm_comm_shared_alloc(e->comm, bytes, what, &s));
    if (!s) return TRM_OK;
    e->shared[e->n_shared++] = s;
    *out = trm_comm_shared_data(s);
    return TRM_OK;
}

static trm_status share_agree(void *ctx, trm_status mine) {
    const trm_engine *e = ctx;
    return trm_comm_agree(e->comm, mine);
}

/* Do some ranks have memory in common? */
static bool may_share(const trm_engine *e) { return trm_comm_size(e->comm) > trm_comm_nodes(e->comm); }

/* Loads what is kept once on each node. Collective. */
static trm_status share_set(trm_engine *e, trm_dataset *set) {
    trm_data_share share = {.rank = trm_comm_node_rank(e->comm),
                            .ranks = trm_comm_node_size(e->comm),
                            .alloc = share_alloc,
                            .agree = share_agree,
                            .ctx = e};
    return trm_dataset_share(set, &share);
}

static trm_status open_one(const trm_engine *e, bool valid, int64_t classes, trm_dataset **out) {
    trm_data_spec spec = trm_job_data_spec(e->job, valid);
    /* Labels of the validation set must be ones that the model knows. */
    if (spec.classes == 0) spec.classes = classes;
    spec.copies = trm_comm_node_size(e->comm);
    spec.share = may_share(e);
    TRM_TRY(trm_dataset_open(&spec, out));
    return trm_job_transform(e->job, *out);
}

trm_status trm_engine_check_pair(const trm_data_info *a, const trm_dataset *valid) {
    const trm_data_info *b = trm_dataset_info(valid);
    char x[80], y[80];
    TRM_TRY(trm_dataset_expect(valid, &a->x));
    if (!trm_shape_equal(&a->y, &b->y) || a->y_is_class != b->y_is_class)
        return trm_fail(TRM_DATA, "data.valid has targets of shape %s, data.train of shape %s",
                        trm_shape_text(&b->y, x, sizeof x), trm_shape_text(&a->y, y, sizeof y));
    if (a->x_type == b->x_type && a->y_type == b->y_type && a->x_hwc == b->x_hwc && a->kind == b->kind &&
        a->x_stride == b->x_stride && a->y_stride == b->y_stride && a->y_offset == b->y_offset)
        return TRM_OK;
    return trm_fail(TRM_DATA, "data.valid is stored as %s with targets %s, data.train as %s with targets %s",
                    trm_dtype_name(b->x_type), trm_dtype_name(b->y_type), trm_dtype_name(a->x_type),
                    trm_dtype_name(a->y_type));
}

/* Rank 0's part. */
static trm_status open_sets(trm_engine *e, bool want_train, bool want_valid) {
    int64_t classes = 0;
    if (want_train) {
        TRM_TRY(open_one(e, false, 0, &e->train));
        classes = trm_dataset_info(e->train)->classes;
    }
    if (want_valid) TRM_TRY(open_one(e, true, classes, &e->valid));
    if (!e->train || !e->valid) return TRM_OK;
    return trm_engine_check_pair(trm_dataset_info(e->train), e->valid);
}

/* Rank 0's set to all. Collective. */
static trm_status spread_set(trm_engine *e, trm_dataset **set) {
    void *bytes = NULL;
    size_t n = 0;
    trm_status status = e->rank == 0 ? trm_dataset_pack(*set, &bytes, &n) : TRM_OK;
    status = trm_root_says(e->comm, status);
    if (status == TRM_OK) status = trm_comm_bcast_block(e->comm, &bytes, &n, 0);
    if (status == TRM_OK && e->rank != 0) status = trm_dataset_unpack(bytes, n, set);
    if (status == TRM_OK && e->rank != 0) status = trm_job_transform(e->job, *set);
    trm_free(bytes);
    return trm_comm_agree(e->comm, status);
}

static trm_status prepare_data(trm_engine *e, bool training) {
    bool want_valid = e->job->data.n_valid > 0;
    /* Without a training set the number of classes must come from the job. */
    bool want_train = training || e->job->data.classes == 0;
    TRM_TRY(trm_root_says(e->comm, e->rank == 0 ? open_sets(e, want_train, want_valid) : TRM_OK));
    if (e->ranks == 1) return TRM_OK;
    if (want_train) TRM_TRY(spread_set(e, &e->train));
    if (want_valid) TRM_TRY(spread_set(e, &e->valid));
    /* An evaluation asks the training set for its classes only. */
    if (training) TRM_TRY(share_set(e, e->train));
    return want_valid ? share_set(e, e->valid) : TRM_OK;
}

/* ---- data without targets ---- */

/* What the job leaves open: how many outputs a preset has is for the training set to say. */
static bool needs_train(const trm_job *j) {
    if (j->model.preset == TRM_PRESET_NONE) return false;
    if (j->data.target_type == TRM_TYPE_FLOAT) return true;
    if (j->model.preset == TRM_PRESET_GPT && j->model.zoo.vocab > 0) return false;
    return j->data.classes == 0;
}

static trm_status look_at_train(const trm_engine *e, trm_data_info *out) {
    trm_dataset *set = NULL;
    trm_data_spec spec = trm_job_data_spec(e->job, false);
    spec.cache = TRM_CACHE_OFF;
    trm_status status = trm_dataset_open(&spec, &set);
    if (status == TRM_DATA && e->job->data.target_type != TRM_TYPE_FLOAT)
        trm_hint(
            "the training set says how many outputs the model has; `--set data.classes=N` makes it needless");
    TRM_TRY(status);
    status = trm_job_transform(e->job, set);
    *out = *trm_dataset_info(set);
    trm_dataset_close(set);
    return status;
}

static trm_status check_like_train(const trm_engine *e, const trm_data_info *train) {
    const trm_data_info *x = trm_dataset_info(e->valid);
    TRM_TRY(trm_dataset_expect(e->valid, &train->x));
    if (trm_job_scale(e->job, x) == trm_job_scale(e->job, train)) return TRM_OK;
    trm_fail(TRM_DATA, "%s: the input is stored as %s, data.train as %s, which is read with another scale",
             trm_dataset_file(e->valid, 0), trm_dtype_name(x->x_type), trm_dtype_name(train->x_type));
    trm_hint("`data.scale` says by what stored numbers are multiplied: give it in the job, or with --set");
    return TRM_DATA;
}

/* Rank 0's part.  Every row is read once and in order: keeping them would be of no use. */
static trm_status open_bare(trm_engine *e) {
    trm_data_spec spec = trm_job_data_spec(e->job, true);
    trm_data_info train = {0};
    bool look = needs_train(e->job);
    if (look) TRM_TRY(look_at_train(e, &train));
    spec.no_target = true;
    if (spec.classes == 0) spec.classes = train.classes;
    if (spec.cache == TRM_CACHE_AUTO) spec.cache = TRM_CACHE_OFF;
    spec.copies = trm_comm_node_size(e->comm);
    spec.share = may_share(e);
    TRM_TRY(trm_dataset_open(&spec, &e->valid));
    TRM_TRY(trm_job_transform(e->job, e->valid));
    e->form = *trm_dataset_info(e->valid);
    if (!look) return TRM_OK;
    TRM_TRY(check_like_train(e, &train));
    e->form.no_target = false;
    e->form.y = train.y;
    e->form.classes = train.classes;
    return TRM_OK;
}

static trm_status prepare_bare(trm_engine *e) {
    TRM_TRY(trm_root_says(e->comm, e->rank == 0 ? open_bare(e) : TRM_OK));
    if (e->ranks == 1) return TRM_OK;
    TRM_TRY(trm_comm_bcast(e->comm, &e->form, sizeof e->form, 0));
    TRM_TRY(spread_set(e, &e->valid));
    return share_set(e, e->valid);
}

/* The loss of a pass, which nobody asks for here, is taken against zeros. */
static void settle_targets(trm_engine *e) {
    e->form.y = trm_model_target(&e->form, e->graph, trm_graph_output(e->graph));
    e->form.y_stride = trm_shape_count(&e->form.y) * (int64_t)trm_dtype_size(e->form.y_type);
}

const trm_data_info *trm_engine_data(const trm_engine *e) {
    return e->bare ? &e->form : trm_dataset_info(e->train ? e->train : e->valid);
}

double trm_job_scale(const trm_job *j, const trm_data_info *d) {
    if (j->data.scale_given) return j->data.scale;
    if (j->data.stats) return 1; /* they are of the stored numbers */
    return d->x_type == TRM_U8 && d->kind == TRM_DATA_SAMPLES && d->x.rank == 3 ? 1.0 / 255 : 1;
}

trm_load_spec trm_engine_load(const trm_job *j, const trm_data_info *d) {
    return (trm_load_spec){.x_type = d->x_type,
                           .y_type = d->y_type,
                           .x_hwc = d->x_hwc,
                           .x_stride = d->x_stride,
                           .y_stride = d->y_stride,
                           .y = d->y,
                           .y_is_class = d->y_is_class,
                           .scale = trm_job_scale(j, d),
                           .mean = j->data.mean,
                           .std = j->data.std,
                           .norm_count = j->data.norm_count,
                           .y_scale = j->data.target_scale,
                           .y_mean = -j->data.target_bias};
}

/* ---- model, device, memory ---- */

static trm_status check_weights(const trm_engine *e) {
    int n = e->job->balance.n_weights;
    double sum = 0;
    if (e->job->balance.mode != TRM_BALANCE_STATIC || n < 0) return TRM_OK;
    if (n != e->ranks) {
        trm_fail(TRM_JOB, "%s: balance.weights has %d numbers, but the run has %d ranks", e->job->path, n,
                 e->ranks);
        trm_hint("give one number for each rank");
        return TRM_JOB;
    }
    for (int r = 0; r < n; r++) sum += e->job->balance.weights[r];
    if (sum > 0) return TRM_OK;
    return trm_fail(TRM_JOB, "%s: balance.weights are all 0; at least one rank must compute", e->job->path);
}

/* Never float32 instead: a job says what is computed, whoever computes it. */
static trm_status check_precision(const trm_engine *e) {
    if (!e->job->train.bf16) return TRM_OK;
    trm_status status = trm_device_half(e->device);
    if (status == TRM_OK) return status;
    trm_prefix(status, "%s: train.precision is bf16", e->job->path);
    trm_hint("with `--set train.precision=fp32` the job runs here, in float32");
    return status;
}

static trm_status prepare_model(trm_engine *e) {
    const char *backend = e->job->device.backend ? e->job->device.backend : "cpu";
    TRM_TRY(trm_job_model(e->job, trm_engine_data(e), &e->graph));
    if (e->bare) settle_targets(e);
    if (e->ranks > 1) TRM_TRY(trm_parallel_data(e->graph, e->comm));
    TRM_TRY(trm_device_open(backend, e->threads, &e->device));
    return check_precision(e);
}

size_t trm_engine_float(const trm_engine *e) { return e->device->backend->float_size; }

static trm_status alloc_floats(const trm_engine *e, int64_t count, const char *what, void **out) {
    *out = trm_alloc_array((size_t)trm_max64(count, 1), trm_engine_float(e), what);
    return *out ? TRM_OK : TRM_MEMORY;
}

static trm_status alloc_own(trm_engine *e) {
    int64_t space = trm_graph_param_space(e->graph);
    int moments = trm_optim_moments(&e->optim);
    TRM_TRY(alloc_floats(e, space, "the weights", &e->weights));
    if (moments > 0) TRM_TRY(alloc_floats(e, space, "the optimizer's first moments", &e->m1));
    if (moments > 1) TRM_TRY(alloc_floats(e, space, "the optimizer's second moments", &e->m2));
    return alloc_floats(e, trm_graph_state_space(e->graph), "running statistics", &e->state);
}

static trm_status alloc_shared(trm_engine *e) {
    trm_dtype type = trm_engine_float(e) == 8 ? TRM_F64 : TRM_F32;
    int64_t small = trm_graph_small_space(e->graph);
    TRM_TRY(trm_comm_buffer_alloc(e->comm, type, trm_graph_param_space(e->graph), "gradients", &e->grads));
    return trm_comm_buffer_alloc(e->comm, TRM_F64, small, "sums", &e->small);
}

static trm_status make_runner(trm_engine *e) {
    TRM_TRY(trm_parallel_talk_create(e->comm, e->grads, e->small, &e->talk));
    trm_runner_spec spec = {.graph = e->graph,
                            .device = e->device,
                            .ranks = e->ranks,
                            .rank = e->rank,
                            .talk = trm_parallel_talk_table(e->talk),
                            .loss = e->job->train.loss,
                            .ce = e->job->train.ce,
                            .load = trm_engine_load(e->job, trm_engine_data(e)),
                            .optim = e->optim,
                            .seed = (uint64_t)e->job->run.seed,
                            .half = e->job->train.bf16,
                            .weights = e->weights,
                            .grads = trm_comm_buffer_data(e->grads),
                            .m1 = e->m1,
                            .m2 = e->m2,
                            .state = e->state,
                            .small = trm_comm_buffer_data(e->small)};
    return trm_runner_create(&spec, &e->runner);
}

static trm_status create(trm_engine *e, bool training, const char *weights) {
    if (training) TRM_TRY(check_weights(e));
    TRM_TRY(e->bare ? prepare_bare(e) : prepare_data(e, training));
    TRM_TRY(trm_engine_settle(e, weights));
    e->threads = e->job->device.threads;
    if (e->threads == 0) TRM_TRY(trm_cores_each(e->comm, &e->threads));
    TRM_TRY(trm_comm_agree(e->comm, prepare_model(e)));
    TRM_TRY(trm_comm_agree(e->comm, alloc_own(e)));
    TRM_TRY(alloc_shared(e));
    return trm_comm_agree(e->comm, make_runner(e));
}

trm_status trm_engine_create(const trm_job *j, trm_comm *c, const trm_run_options *o, bool training,
                             const char *weights, trm_engine *out) {
    *out = (trm_engine){.job = j, .comm = c, .opt = o, .rank = trm_comm_rank(c), .ranks = trm_comm_size(c)};
    out->optim = j->train.optim;
    /* Evaluation needs no moments. */
    if (!training) out->optim = (trm_optim_spec){.kind = TRM_OPT_SGD};
    return create(out, training, weights);
}

trm_status trm_engine_create_bare(const trm_job *j, trm_comm *c, const trm_run_options *o,
                                  const char *weights, trm_engine *out) {
    *out = (trm_engine){.job = j, .comm = c, .opt = o, .rank = trm_comm_rank(c), .ranks = trm_comm_size(c)};
    out->optim = (trm_optim_spec){.kind = TRM_OPT_SGD};
    out->bare = true;
    return create(out, false, weights);
}

void trm_engine_free(trm_engine *e) {
    trm_runner_free(e->runner);
    trm_parallel_talk_free(e->talk);
    trm_comm_buffer_free(e->comm, e->small);
    trm_comm_buffer_free(e->comm, e->grads);
    trm_free(e->state);
    trm_free(e->m2);
    trm_free(e->m1);
    trm_free(e->weights);
    trm_device_close(e->device);
    trm_graph_free(e->graph);
    trm_dataset_close(e->valid);
    trm_dataset_close(e->train);
    trm_engine_unsettle(e);
    for (int i = e->n_shared - 1; i >= 0; i--) trm_comm_shared_free(e->comm, e->shared[i]);
}
