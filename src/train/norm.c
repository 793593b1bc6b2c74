/* norm: `data.stats` becomes numbers, once: from a file, from the training set, or from the checkpoint of the run that has
 * taken them.  From then on the run's job has `mean` and `std` in the place of `stats`, in its job.yaml and its
 * checkpoints too, so whoever goes on with the run uses the same ones. */
#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint_impl.h"
#include "run_impl.h"

#define TELL_EVERY_S 30

/* x = (raw - mean) / std */
typedef struct norm {
    int n;
    double *mean, *std;
} norm;

static void free_norm(norm *x) {
    trm_free(x->mean);
    trm_free(x->std);
    *x = (norm){0};
}

static trm_status make_norm(int n, norm *out) {
    *out = (norm){.n = n,
                  .mean = trm_alloc_array((size_t)n, sizeof(double), "statistics"),
                  .std = trm_alloc_array((size_t)n, sizeof(double), "statistics")};
    if (out->mean && out->std) return TRM_OK;
    free_norm(out);
    return TRM_MEMORY;
}

bool trm_job_stats_auto(const trm_job *j) { return j->data.stats && !strcmp(j->data.stats, "auto"); }

/* ---- out of statistics ---- */

/* What never changes has no width: it becomes 0. */
static double width(double w) { return w >= (double)FLT_MIN && w <= (double)FLT_MAX ? w : 1; }

static trm_status from_stats(const trm_job *j, const trm_data_stats *s, norm *out) {
    bool range = j->data.normalize == TRM_NORM_MIN_MAX;
    TRM_TRY(make_norm((int)s->channels, out));
    for (int c = 0; c < out->n; c++) {
        double middle = range ? s->min[c] : s->mean[c];
        out->mean[c] = fabs(middle) < (double)FLT_MIN ? 0 : middle;
        out->std[c] = width(range ? s->max[c] - s->min[c] : s->std[c]);
    }
    return TRM_OK;
}

static trm_status check_channels(const trm_job *j, const trm_data_stats *s, const trm_data_info *d) {
    int64_t channels = trm_data_channels(&d->x);
    char shape[80];
    if (s->channels == channels || s->channels == 1) return TRM_OK;
    return trm_fail(TRM_DATA, "%s holds statistics of %lld channels; inputs of shape %s have %lld",
                    j->data.stats, (long long)s->channels, trm_shape_text(&d->x, shape, sizeof shape),
                    (long long)channels);
}

static trm_status from_file(const trm_job *j, const trm_data_info *d, norm *out) {
    trm_data_stats s = {0};
    TRM_TRY(trm_data_stats_read(j->data.stats, &s));
    trm_status status = check_channels(j, &s, d);
    if (status == TRM_OK) status = from_stats(j, &s, out);
    trm_data_stats_free(&s);
    return status;
}

/* Rank 0 reads the training set, which may take longer than any wait may last: the others hear of it now and then. */
typedef struct reading {
    trm_engine *engine;
    double told;
} reading;

static trm_status tell(void *ctx, int64_t done, int64_t rows) {
    reading *r = ctx;
    int more = 1;
    if (trm_now() - r->told < TELL_EVERY_S) return TRM_OK;
    r->told = trm_now();
    trm_run_say(r->engine, "data.stats: %lld %% of the training set is read", (long long)(100 * done / rows));
    return trm_comm_bcast(r->engine->comm, &more, sizeof more, 0);
}

static trm_status take_stats(trm_engine *e, norm *out) {
    reading r = {e, trm_now()};
    trm_data_stats s = {0};
    TRM_TRY(trm_dataset_stats(e->train, tell, &r, &s));
    trm_status status = from_stats(e->job, &s, out);
    trm_data_stats_free(&s);
    return status;
}

/* Collective; rank 0 gets the numbers, or has the fault. */
static trm_status from_data(trm_engine *e, norm *out) {
    int more = e->rank != 0;
    trm_status status = e->rank == 0 ? take_stats(e, out) : TRM_OK;
    if (status == TRM_COMM) return status;
    do TRM_TRY(trm_comm_bcast(e->comm, &more, sizeof more, 0));
    while (more);
    return status;
}

trm_status trm_job_stats_check(const trm_job *j, const trm_data_info *d) {
    norm x = {0};
    if (!j->data.stats || trm_job_stats_auto(j)) return TRM_OK;
    trm_status status = from_file(j, d, &x);
    free_norm(&x);
    return status;
}

/* ---- out of a checkpoint ---- */

static trm_status no_numbers(const char *weights) {
    trm_fail(TRM_DATA, "data.stats is auto, but %s does not say what the inputs were trained with", weights);
    trm_hint("use the job.yaml of the run's folder: it has the numbers; or name a file of statistics");
    return TRM_DATA;
}

static trm_status from_settings(const char *weights, const char *text, norm *out) {
    trm_job *j = NULL;
    if (trm_job_parse("the checkpoint's job", text, strlen(text), NULL, 0, &j) != TRM_OK)
        return no_numbers(weights);
    int n = j->data.norm_count;
    trm_status status =
        n > 0 && j->data.scale_given && j->data.scale == 1 ? make_norm(n, out) : no_numbers(weights);
    if (status == TRM_OK) {
        memcpy(out->mean, j->data.mean, (size_t)n * sizeof *out->mean);
        memcpy(out->std, j->data.std, (size_t)n * sizeof *out->std);
    }
    trm_job_free(j);
    return status;
}

static trm_status from_checkpoint(const char *weights, norm *out) {
    struct stat st;
    trm_ckpt *c = NULL;
    if (stat(weights, &st) == 0 && !S_ISDIR(st.st_mode)) return no_numbers(weights);
    TRM_TRY(trm_ckpt_open(weights, &c));
    trm_status status = c->index.job ? from_settings(weights, c->index.job, out) : no_numbers(weights);
    trm_ckpt_close(c);
    return status;
}

/* Training that goes on looks for its checkpoint; rank 0. */
static trm_status from_resumed(const trm_engine *e, norm *out) {
    char *from = trm_alloc(TRM_RUN_PATH, "a path");
    bool same;
    if (!from) return TRM_MEMORY;
    trm_status status = trm_folder_find(e->job, e->opt->resume, from, &same);
    if (status == TRM_OK) status = from_checkpoint(from, out);
    trm_free(from);
    return status;
}

/* ---- to all ranks ---- */

static void say_norm(const trm_engine *e, const norm *x) {
    if (x->n == 1)
        trm_run_say(e, "data.stats: inputs become (x - %.6g) / %.6g", x->mean[0], x->std[0]);
    else
        trm_run_say(e,
                    "data.stats: inputs become (x - mean) / std of %d channels; the first: (x - %.6g) / %.6g",
                    x->n, x->mean[0], x->std[0]);
}

/* Rank 0's part, where one rank is enough. */
static trm_status look_up(trm_engine *e, const char *weights, norm *out) {
    if (e->rank != 0) return TRM_OK;
    if (!trm_job_stats_auto(e->job)) return from_file(e->job, trm_engine_data(e), out);
    return weights ? from_checkpoint(weights, out) : from_resumed(e, out);
}

/* Rank 0 gets the numbers; a fault is agreed.  Collective. */
static trm_status find_norm(trm_engine *e, const char *weights, norm *out) {
    bool fresh = trm_job_stats_auto(e->job) && !weights && !e->opt->resume;
    return trm_root_says(e->comm, fresh ? from_data(e, out) : look_up(e, weights, out));
}

/* Rank 0's numbers to all.  Collective. */
static trm_status spread_norm(trm_engine *e, norm *x) {
    TRM_TRY(trm_comm_bcast(e->comm, &x->n, sizeof x->n, 0));
    trm_status status = e->rank == 0 ? TRM_OK : make_norm(x->n, x);
    TRM_TRY(trm_comm_agree(e->comm, status));
    TRM_TRY(trm_comm_bcast(e->comm, x->mean, (size_t)x->n * sizeof *x->mean, 0));
    return trm_comm_bcast(e->comm, x->std, (size_t)x->n * sizeof *x->std, 0);
}

/* The engine's job is from now on one that has these numbers. */
static trm_status settle(trm_engine *e, norm *x) {
    trm_job *j = trm_alloc(sizeof *j, "the job");
    if (!j) return TRM_MEMORY;
    *j = *e->job;
    j->data.mean = x->mean;
    j->data.std = x->std;
    j->data.norm_count = x->n;
    j->data.scale = 1;
    j->data.scale_given = j->data.settled = true;
    *x = (norm){0};
    e->job = e->settled = j;
    return TRM_OK;
}

trm_status trm_engine_settle(trm_engine *e, const char *weights) {
    norm x = {0};
    if (!e->job->data.stats) return TRM_OK;
    trm_status status = find_norm(e, weights, &x);
    if (status == TRM_OK) status = spread_norm(e, &x);
    if (status == TRM_OK) say_norm(e, &x);
    if (status == TRM_OK) status = trm_comm_agree(e->comm, settle(e, &x));
    free_norm(&x);
    return status;
}

void trm_engine_unsettle(trm_engine *e) {
    if (!e->settled) return;
    trm_free(e->settled->data.mean);
    trm_free(e->settled->data.std);
    trm_free(e->settled);
    e->settled = NULL;
}
