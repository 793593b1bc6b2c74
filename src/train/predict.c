/* predict: inference over a data set, in the order of its rows.  Each rank computes its slice of a pass, as in an
 * evaluation.  The slices go to rank 0 in pieces, which alone writes.  A fault of any rank is agreed on with the next pass,
 * so that all leave together and rank 0 takes away what it has begun. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run_impl.h"

#define BAR_EVERY_S 0.2
#define LINE_EVERY_S 10

typedef struct predict {
    trm_engine engine;
    trm_exam exam;
    trm_sink sink;    /* rank 0's */
    trm_status wrote; /* rank 0's: of the writing so far, told with the next pass */
    int64_t came,
        put; /* rank 0's: rows that came, and rows of the file, with those of samples that are left out */
    trm_shape shape;    /* of one row of output */
    int64_t row, piece; /* elements of a row; rows that are handed over at a time */
    int64_t channels;   /* of an output that lies with its channels last, else 0 */
    float *rows;        /* a piece */
    double began, said;
} predict;

/* ---- before the work, on rank 0 ---- */

/* The parts of a checkpoint are HDF5 files too; none is to be replaced. */
static trm_status check_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    trm_str folder = {0}, index = {0};
    trm_status status = TRM_OK;
    trm_str_addn(&folder, slash ? path : ".", slash ? trm_max64(slash - path, 1) : 1);
    trm_str_add(&index, "%s/index.json", trm_str_get(&folder));
    if (folder.failed || index.failed)
        status = TRM_MEMORY;
    else if (access(folder.p, W_OK | X_OK) != 0)
        status = trm_fail(TRM_USAGE, "cannot write %s: %s: %s", path, folder.p, strerror(errno));
    else if (access(index.p, F_OK) == 0)
        status = trm_fail(TRM_USAGE, "cannot write %s: %s is a checkpoint", path, folder.p);
    trm_str_free(&folder);
    trm_str_free(&index);
    return status;
}

static trm_status check_out(const trm_job *j, const trm_predict_spec *s) {
    static const trm_output_kind kind = {"HDF5", "\x89HDF\r\n\x1a\n", 0, 8};
    const char *read[] = {j->path, s->weights};
    struct stat st;
    TRM_TRY(trm_output_check(s->out, &kind));
    TRM_TRY(check_folder(s->out));
    TRM_TRY(trm_output_apart(s->out, read, 2));
    TRM_TRY(trm_output_apart(s->out, (const char *const *)j->data.train, j->data.n_train));
    if (s->replace || lstat(s->out, &st) != 0) return TRM_OK;
    trm_fail(TRM_USAGE, "will not replace %s: it is there already", s->out);
    trm_hint("--force replaces it; or give another name");
    return TRM_USAGE;
}

/* All that can be seen without opening data. */
static trm_status check_words(const trm_job *j, const trm_predict_spec *s) {
    struct stat st;
    if (j->data.n_valid == 0) {
        trm_fail(TRM_JOB, "%s: data.valid names no files to predict", j->path);
        trm_hint("give them with --input FILE");
        return TRM_JOB;
    }
    TRM_TRY(check_out(j, s));
    if (stat(s->weights, &st) == 0) return TRM_OK;
    return trm_fail(TRM_DATA, "cannot read the weights %s: %s", s->weights, strerror(errno));
}

static trm_status check_apart(const trm_engine *e, const char *out) {
    const char *file;
    for (int i = 0; (file = trm_dataset_file(e->valid, i)); i++) TRM_TRY(trm_output_apart(out, &file, 1));
    return TRM_OK;
}

/* ---- rows ---- */

/* Channels that come first lie last on the device, and first in files. */
static void turn(int64_t channels, int64_t pixels, const float *from, float *to) {
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < pixels; i++) to[c * pixels + i] = from[i * channels + c];
}

/* Rows [first, first + n) of what this rank computed last. */
static void take_rows(predict *p, int64_t first, int64_t n) {
    const trm_engine *e = &p->engine;
    const char *all = trm_runner_output(e->runner);
    trm_dtype type = trm_engine_float(e) == 8 ? TRM_F64 : TRM_F32;
    for (int64_t i = 0; i < n; i++) {
        const char *from = all + (size_t)((first + i) * p->row) * trm_engine_float(e);
        float *to = p->rows + i * p->row;
        if (p->channels == 0) {
            trm_convert_f32(from, type, p->row, to);
        } else {
            trm_convert_f32(from, type, p->row, p->rows + p->piece * p->row);
            turn(p->channels, p->row / p->channels, p->rows + p->piece * p->row, to);
        }
    }
}

/* Rows of the file up to the place of the next one that comes: their samples were left out. */
static trm_status put_gap(predict *p, int64_t place) {
    int64_t n = place - p->put;
    p->put = place;
    return n > 0 ? trm_sink_put_none(&p->sink, n) : TRM_OK;
}

/* Rows lie in the file where their samples lie in theirs. */
static trm_status put_rows(predict *p, int64_t n) {
    const trm_dataset *set = p->engine.valid;
    if (trm_dataset_info(set)->skipped == 0) return trm_sink_put(&p->sink, p->rows, n);
    for (int64_t i = 0; i < n; i++) {
        TRM_TRY(put_gap(p, trm_dataset_place(set, p->came++)));
        TRM_TRY(trm_sink_put(&p->sink, p->rows + i * p->row, 1));
        p->put++;
    }
    return TRM_OK;
}

/* One rank's slice of a pass of m to rank 0, which puts it into the file. Collective. */
static trm_status hand_over(predict *p, int rank, int64_t m) {
    const trm_engine *e = &p->engine;
    int64_t begin, n = trm_exam_slice(e, rank, m, &begin);
    for (int64_t at = 0; at < n; at += p->piece) {
        int64_t k = trm_min64(p->piece, n - at);
        if (e->rank == rank) take_rows(p, at, k);
        if (rank != 0)
            TRM_TRY(trm_comm_bcast(e->comm, p->rows, (size_t)(k * p->row) * sizeof *p->rows, rank));
        if (e->rank == 0 && p->wrote == TRM_OK) p->wrote = put_rows(p, k);
    }
    return TRM_OK;
}

static trm_status compute(predict *p, int64_t first, int64_t m) {
    double tail[TRM_TAIL_SIZE] = {0};
    if (p->wrote != TRM_OK) return p->wrote;
    if (trm_signals_seen() > 0)
        return trm_fail(TRM_RUN, "stopped by a signal at row %lld of %lld; no file was written",
                        (long long)first, (long long)p->exam.samples);
    return trm_exam_pass(&p->engine, &p->exam, first, m, tail);
}

/* ---- what the user sees ---- */

static void say_progress(predict *p, int64_t done) {
    const trm_engine *e = &p->engine;
    char line[TRM_LINE], left[24];
    double now = trm_now(), seconds = now - p->began;
    if (e->rank != 0 || !e->opt->print) return;
    if (now - p->said < (e->opt->progress ? BAR_EVERY_S : LINE_EVERY_S) || seconds <= 0) return;
    double rate = (double)done / seconds;
    snprintf(line, sizeof line, "%lld of %lld rows  %3lld %%  %.0f rows/s  %s left", (long long)done,
             (long long)p->exam.samples, (long long)(100 * done / p->exam.samples), rate,
             trm_human_time((double)(p->exam.samples - done) / rate, left, sizeof left));
    e->opt->print(e->opt->print_ctx, line, e->opt->progress);
    p->said = now;
}

static void say_start(const predict *p) {
    char x[80], y[80];
    trm_run_say(&p->engine, "%lld rows of shape %s -> %s", (long long)p->exam.samples,
                trm_shape_text(&trm_dataset_info(p->engine.valid)->x, x, sizeof x),
                trm_shape_text(&p->shape, y, sizeof y));
}

static void say_end(const predict *p, const char *out) {
    char took[24];
    double seconds = trm_now() - p->began;
    if (p->sink.bad > 0)
        trm_log(TRM_LOG_WARN, "%lld of %lld rows of output hold NaN or infinity", (long long)p->sink.bad,
                (long long)p->exam.samples);
    trm_run_say(&p->engine, "wrote %s: %lld rows in %s (%.0f rows/s)", out, (long long)p->exam.samples,
                trm_human_time(seconds, took, sizeof took),
                seconds > 0 ? (double)p->exam.samples / seconds : 0);
}

/* ---- the run ---- */

static trm_status open_rows(predict *p) {
    trm_engine *e = &p->engine;
    p->shape = *trm_graph_shape(e->graph, trm_graph_output(e->graph));
    p->row = trm_shape_count(&p->shape);
    p->channels = trm_graph_channels_first(e->graph, trm_graph_output(e->graph));
    p->piece = trm_sink_piece(&p->shape);
    /* One more, to turn what has its channels first. */
    p->rows = trm_alloc_array((size_t)((p->piece + 1) * p->row), sizeof *p->rows, "predictions");
    TRM_TRY(p->rows ? TRM_OK : TRM_MEMORY);
    return trm_exam_open(e, e->valid, &p->exam);
}

static int64_t rows_of_file(const predict *p) {
    return p->exam.samples + trm_dataset_info(p->engine.valid)->skipped;
}

static trm_status open_sink(predict *p, const trm_predict_spec *s) {
    const trm_engine *e = &p->engine;
    TRM_TRY(check_apart(e, s->out));
    return trm_sink_open(s->out, &p->shape, p->channels, rows_of_file(p),
                         e->job->train.loss == TRM_LOSS_CROSS_ENTROPY, &p->sink);
}

static trm_status run_passes(predict *p) {
    trm_engine *e = &p->engine;
    for (int64_t first = 0; first < p->exam.samples; first += p->exam.pass) {
        int64_t m = trm_min64(p->exam.pass, p->exam.samples - first);
        TRM_TRY(trm_comm_agree(e->comm, compute(p, first, m)));
        for (int r = 0; r < e->ranks; r++) TRM_TRY(hand_over(p, r, m));
        say_progress(p, first + m);
    }
    return TRM_OK;
}

static trm_status finish(predict *p) {
    if (p->wrote == TRM_OK && p->came > 0) p->wrote = put_gap(p, rows_of_file(p));
    return p->wrote != TRM_OK ? p->wrote : trm_sink_finish(&p->sink);
}

static trm_status work(predict *p, const trm_predict_spec *s) {
    trm_engine *e = &p->engine;
    TRM_TRY(trm_comm_agree(e->comm, open_rows(p)));
    TRM_TRY(trm_engine_load_weights(e, s->weights));
    TRM_TRY(trm_root_says(e->comm, e->rank == 0 ? open_sink(p, s) : TRM_OK));
    say_start(p);
    p->began = p->said = trm_now();
    TRM_TRY(run_passes(p));
    TRM_TRY(trm_root_says(e->comm, e->rank == 0 ? finish(p) : TRM_OK));
    say_end(p, s->out);
    return TRM_OK;
}

/* The job with other files to read. */
static trm_job with_input(const trm_job *j, const trm_predict_spec *s) {
    trm_job job = *j;
    if (s->n_input == 0) return job;
    job.data.valid = (char **)s->input;
    job.data.n_valid = s->n_input;
    job.data.valid_first = job.data.valid_count = 0;
    return job;
}

trm_status trm_run_predict(const trm_job *j, trm_comm *c, const trm_predict_spec *s,
                           const trm_run_options *o) {
    trm_job job = with_input(j, s);
    predict p = {0};
    TRM_TRY(trm_root_says(c, trm_comm_rank(c) == 0 ? check_words(&job, s) : TRM_OK));
    trm_status status = trm_engine_create_bare(&job, c, o, s->weights, &p.engine);
    if (status == TRM_OK) status = work(&p, s);
    /* Before the others are told: what was begun is taken away, however this ends. */
    trm_sink_close(&p.sink);
    if (status == TRM_COMM && p.engine.ranks > 1 && o->alone) o->alone(o->print_ctx, status);
    trm_exam_close(&p.exam);
    trm_free(p.rows);
    trm_engine_free(&p.engine);
    return status;
}
