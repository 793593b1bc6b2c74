/* run_impl: what the files of a run share.
 *
 * engine   everything that computes: data sets, graph, device, buffers, runner
 * exam     the validation set, cut over the ranks
 * sink     rank 0's file of predictions
 * splits   who computes which samples, from which update on
 * moves    the shares that a run had, from its records
 * rebalance  measures, decides, and changes the split
 * notes    what ranks say to each other after each update, one step late
 * folder   the run's folder, its lock and metrics.jsonl (rank 0)
 * layers   what each layer took on each rank
 * tally    sums of an epoch
 * why      where the time of an epoch went
 */
#ifndef TRIREME_TRAIN_RUN_IMPL_H
#define TRIREME_TRAIN_RUN_IMPL_H

#include <math.h>
#include <pthread.h>
#include <trireme/parallel.h>
#include <trireme/train.h>
#include <trireme/wire.h>

#define TRM_RUN_PATH 4096
#define TRM_LINE 512

/* ---- engine ---- */

typedef struct trm_run trm_run;
typedef struct trm_engine {
    const trm_job *job;             /* as it was given, or `settled` */
    trm_job *settled;               /* a copy that has numbers in the place of data.stats; NULL: there was none */
    trm_comm *comm;
    const trm_run_options *opt;
    int rank, ranks, threads;
    trm_optim_spec optim;
    trm_dataset *train, *valid;     /* NULL where not asked for */
    trm_comm_shared *shared[2];     /* what they keep once on each node */
    int n_shared;
    bool bare;                      /* inference: `valid` is read without targets, `form` is what the model is built for */
    trm_data_info form;
    trm_graph *graph;
    trm_device *device;
    int state_root;                 /* the rank whose running statistics count: it has samples in every micro-batch */
    void *weights, *m1, *m2, *state;        /* device floats */
    trm_comm_buffer *grads, *small;
    trm_parallel_talk *talk;
    trm_runner *runner;
} trm_engine;

/* training: opens the training set, plans gradients and moments; else only what evaluation needs.  weights: those that will
 * be evaluated, which may know the numbers of data.stats. Collective. */
trm_status trm_engine_create(const trm_job *j, trm_comm *c, const trm_run_options *o, bool training, const char *weights,
                             trm_engine *out);
/* For inference: opens data.valid without targets; the training set is only looked at where it must say what the model's output is.
 * Collective. */
trm_status trm_engine_create_bare(const trm_job *j, trm_comm *c, const trm_run_options *o, const char *weights,
                                  trm_engine *out);
void trm_engine_free(trm_engine *e);            /* collective */
/* Weights from a checkpoint or a file of them, read by rank 0, to all.  Collective. */
trm_status trm_engine_load_weights(trm_engine *e, const char *path);
/* Do the training set and the validation set have one form? */
trm_status trm_engine_check_pair(const trm_data_info *train, const trm_dataset *valid);
/* The set whose kind and classes the model is built for. */
const trm_data_info *trm_engine_data(const trm_engine *e);
size_t trm_engine_float(const trm_engine *e);   /* bytes of a device float */

/* The outcome of what rank 0 did alone (the others bring TRM_OK), with its sentence, to all.  Collective. */
trm_status trm_root_says(trm_comm *c, trm_status mine);
/* Lines to the user: only rank 0 prints. */
void trm_run_say(const trm_engine *e, const char *fmt, ...) TRM_PRINTF(2, 3);
void trm_run_say_lines(const trm_engine *e, const char *text);

/* Host float32 arrays of weights, moments, state; `read`: with the engine's values.  Free with trm_host_free. */
trm_status trm_host_create(const trm_engine *e, bool moments, bool read, trm_weights *out);
void trm_host_free(trm_weights *w);
/* From rank 0's host arrays to the device floats of all ranks.  Collective. */
trm_status trm_engine_spread(trm_engine *e, const trm_weights *w);
/* Running statistics of the state root to all. Collective. */
trm_status trm_engine_share_state(trm_engine *e);
/* The same weights and moments on all ranks?  TRM_NUMERIC with the ranks that differ, on all ranks alike. Collective. */
trm_status trm_engine_compare(trm_engine *e, int64_t update);

/* Cores that each of the ranks that share this rank's cores may use; >= 1. Collective. */
trm_status trm_cores_each(trm_comm *c, int *out);
/* norm.c: the numbers of data.stats, where it is given; from a checkpoint where one is named. Collective, agreed. */
trm_status trm_engine_settle(trm_engine *e, const char *weights);
void trm_engine_unsettle(trm_engine *e);
bool trm_job_stats_auto(const trm_job *j);
/* Does the file of data.stats fit the data? */
trm_status trm_job_stats_check(const trm_job *j, const trm_data_info *d);
/* The load part of the runner: how raw samples become numbers. */
trm_load_spec trm_engine_load(const trm_job *j, const trm_data_info *d);
/* data.scale as it is used with this data set. */
double trm_job_scale(const trm_job *j, const trm_data_info *d);
/* Shape of the target; where none is at hand, the one that the model's output asks for. */
trm_shape trm_model_target(const trm_data_info *data, const trm_graph *g, int out);

/* printf shows the sign of a number that is none. */
static inline double trm_no_sign(double x) { return isnan(x) ? (double)NAN : x; }

/* ---- exam ---- */

typedef struct trm_exam_result { double loss, accuracy, count; int64_t samples; double seconds; } trm_exam_result;
typedef struct trm_exam {
    trm_dataset *set;
    int64_t samples, pass;          /* samples of a pass over all ranks */
    int64_t most;                   /* of this rank in a pass */
    int program[3];                 /* for `most`, `most` - 1, and the last pass's samples */
    int64_t program_n[3];
    int programs;
    void *x, *y;
    int64_t *index;
} trm_exam;
/* Plans the passes over the set. Local; all ranks call it in one order. */
trm_status trm_exam_open(trm_engine *e, trm_dataset *set, trm_exam *out);
void trm_exam_close(trm_exam *x);
/* Samples of a rank in a pass of m, and the first of them within it. */
int64_t trm_exam_slice(const trm_engine *e, int rank, int64_t m, int64_t *begin);
/* This rank's samples of the pass of m that begins at `first`: their sums go to `tail`. */
trm_status trm_exam_pass(trm_engine *e, trm_exam *x, int64_t first, int64_t m, double tail[TRM_TAIL_SIZE]);
/* Evaluates the present weights. Collective; a fault is this rank's alone. */
trm_status trm_exam_run(trm_engine *e, trm_exam *x, trm_exam_result *out);
/* Adds "accuracy 97.1 %" or "perplexity 12.3" where the loss has one. */
void trm_exam_words(const trm_engine *e, double loss, double accuracy, char *buf, size_t cap);
void trm_exam_record(trm_record *r, const trm_engine *e, const char *prefix, double loss, double accuracy);

/* ---- sink: rank 0's file of predictions ---- */

typedef struct trm_sink {
    trm_h5_file *file;
    char *path, *aside;             /* written aside, renamed when it is whole */
    trm_shape shape;                /* of one row of output */
    int64_t channels;               /* where they come first, else 0 */
    int64_t rows, written;          /* of the whole file, and those that are in it */
    int64_t cap, n;                 /* rows that are held back, so that no write is tiny */
    int64_t row, row_labels;        /* elements of a row; 0 labels: there are none */
    int64_t bad;                    /* rows with numbers that are not finite */
    float *output;
    int64_t *label;
} trm_sink;
/* Rows of this shape that a rank hands over at a time. */
int64_t trm_sink_piece(const trm_shape *row);
/* channels: 0, or how many come first.  labels: the largest of the channels, else of the last dimension. */
trm_status trm_sink_open(const char *path, const trm_shape *row, int64_t channels, int64_t rows, bool labels, trm_sink *out);
/* The next n rows, n <= trm_sink_piece. */
trm_status trm_sink_put(trm_sink *s, const float *rows, int64_t n);
/* n rows of NaN, with label -1: their samples were left out. */
trm_status trm_sink_put_none(trm_sink *s, int64_t n);
/* Proves the file and gives it its name. */
trm_status trm_sink_finish(trm_sink *s);
/* Removes what has no name yet. */
void trm_sink_close(trm_sink *s);

/* ---- notes ---- */

typedef struct trm_notes {
    trm_comm_buffer *buffer;
    trm_comm_request *request[2];
    int ranks, rank, pending;
    int64_t posted;
} trm_notes;
trm_status trm_notes_open(trm_comm *c, trm_notes *n);               /* collective */
void trm_notes_close(trm_comm *c, trm_notes *n);
trm_status trm_notes_post(trm_comm *c, trm_notes *n, const trm_note *mine);
/* The oldest notes that are under way, one per rank; there must be some. Valid until the next post. */
trm_status trm_notes_wait(trm_comm *c, trm_notes *n, const trm_note **all);

/* ---- splits ---- */

typedef struct trm_split {
    int64_t first;                  /* holds from this update on (counted from 0: updates done before it) */
    trm_shares shares;
    int64_t *counts;                /* [ranks]: samples of a full micro-batch */
    /* This rank's slice of the micro-batch sizes that occur, so that the feed's thread need not compute or allocate. */
    struct { int64_t m, begin, count; } cut[4];
    int cuts;
    int program, program_last;      /* of a whole batch, of the last, smaller one; -1: there is none */
} trm_split;
typedef struct trm_splits {
    pthread_mutex_t lock;           /* the feed's thread looks while the next one is put in */
    trm_split at[2];
    int now;
    bool has_next, open;
} trm_splits;
/* Samples of a full micro-batch: what the shares share out. */
int64_t trm_splits_total(const trm_run *r);
/* The first split, by weights (NULL: equal). Local, the same on all ranks. */
trm_status trm_splits_open(trm_run *r, const double *weights);
void trm_splits_close(trm_splits *x);
const trm_split *trm_splits_now(const trm_run *r);
/* Is a change under way? */
bool trm_splits_pending(const trm_run *r);
/* Plans other shares, counts[ranks] of a full micro-batch, from update `first` on. Collective, agreed. */
trm_status trm_splits_change(trm_run *r, int64_t first, const int64_t *counts);
/* Between two updates: does the split that was planned come into force with the next one? Collective in effect. */
bool trm_splits_reach(trm_run *r);
/* The feed's `cut`; ctx: trm_splits. */
void trm_splits_cut(void *ctx, int64_t update, int64_t m, int64_t *begin, int64_t *count);

/* ---- moves ---- */

typedef struct trm_moves {
    int ranks, micro_batches;
    int64_t batch;
    int64_t n;
    int64_t *first;                 /* [n] rising: update (from 0) from which the shares hold */
    int64_t *counts;                /* [n][ranks]: samples of a full micro-batch */
} trm_moves;
/* From FOLDER/metrics.jsonl.  TRM_DATA where it is not there or makes no sense. Rank 0. */
trm_status trm_moves_read(const char *folder, trm_moves *out);
void trm_moves_free(trm_moves *m);
/* Rank 0's to all.  Collective. */
trm_status trm_moves_spread(trm_comm *c, trm_moves *m);
/* The shares in force at an update, NULL where nothing is known. */
const int64_t *trm_moves_at(const trm_moves *m, int64_t update);

/* ---- rebalance ---- */

#define TRM_UNDER_WAY 4             /* more than the updates whose notes are under way */
typedef struct trm_rebalance {
    trm_policy *policy;             /* rank 0, where shares follow measurement; else NULL */
    trm_window window;              /* rank 0 */
    bool measures;                  /* on all ranks: decisions are due */
    double wall[TRM_UNDER_WAY];     /* of the updates done last, by number */
    double cost;                    /* seconds of the last change of shares, or of the first planning */
    trm_measure *measure;           /* [ranks] */
    double *noise;                  /* [ranks] */
    int64_t *word;                  /* [1 + ranks]: rank 0's decision on its way to all */
    trm_moves replay;
    int64_t next;                   /* of replay */
} trm_rebalance;
/* First shares, by mode, measurement and records; opens splits.  `from`: the checkpoint folder that is gone on with, or NULL.
 * Collective, agreed. */
trm_status trm_rebalance_open(trm_run *r, const char *from);
void trm_rebalance_close(trm_rebalance *b);
/* All ranks' notes of one update. */
void trm_rebalance_note(trm_run *r, const trm_note *all);
/* Between two updates.  ends: an epoch (or the run) ends here.  Collective. */
trm_status trm_rebalance_boundary(trm_run *r, bool ends);
/* Relative speed of each rank with this job's own layers, by two seconds of training on empty samples. Collective, agreed. */
trm_status trm_probe_speeds(trm_engine *e, int64_t samples, double *speed);
/* Do the ranks compute on the same hardware, with as many threads? Collective. */
trm_status trm_probe_alike(const trm_engine *e, bool *alike);

/* ---- layers ---- */

typedef struct trm_layer_times {
    int nodes;
    double *before, *mine, *all;    /* [2 * nodes], [2 * nodes], [ranks][2 * nodes]: forward of each node, then backward */
} trm_layer_times;
trm_status trm_layers_open(const trm_engine *e, trm_layer_times *t);
void trm_layers_close(trm_layer_times *t);
/* Gathers and records what layers took since the last call. Collective. */
trm_status trm_layers_epoch(trm_run *r);

/* ---- why ---- */

typedef struct trm_why_rank {
    const char *host;
    int64_t share;                  /* samples of a full batch */
    double compute_s, wait_s, data_s, cpu_s, delay_s;
    int64_t memory_mib;
} trm_why_rank;
/* Where the time went: a table, and one sentence on the largest loss of time.  Pure. */
void trm_why_table(const trm_why_rank *r, int n, double wall_s, trm_str *out);
void trm_why_sentence(const trm_why_rank *r, int n, double wall_s, trm_str *out);

/* ---- folder: rank 0 ---- */

typedef struct trm_run_folder {
    char path[TRM_RUN_PATH], checkpoints[TRM_RUN_PATH + 16];
    int lock, metrics, losses;      /* file descriptors, -1 = none */
    bool metrics_failed;
    bool resumed;                   /* goes on in the folder of an earlier run */
} trm_run_folder;
/* Finds the checkpoint to resume from ("" = this run's newest) and whether its folder is gone on with. */
trm_status trm_folder_find(const trm_job *j, const char *resume, char from[TRM_RUN_PATH], bool *same_folder);
/* Makes (or goes on in) the run's folder, locks it, writes job.yaml, opens metrics.jsonl.  `from`: the run folder to go on in, or NULL. */
trm_status trm_folder_open(const trm_job *j, const char *from, int64_t update, const char *losses, trm_run_folder *out);
void trm_folder_close(trm_run_folder *f);
/* One line to metrics.jsonl; the first failure is a warning, later ones are silent: numbers are not worth a run. */
void trm_folder_metric(trm_run_folder *f, trm_record *r);

/* ---- the run ---- */

/* Sums since the epoch (or the resume within it) began.  seconds: of its updates, without validation and checkpoints. */
typedef struct trm_tally {
    double loss, count, correct, seconds;
    int64_t samples, updates, skipped;
    trm_why_rank *rank;             /* one per rank */
} trm_tally;

struct trm_run {
    trm_engine engine;
    trm_exam exam;
    bool has_exam;
    trm_splits splits;
    trm_rebalance balance;
    trm_layer_times layers;
    int64_t *caps;                  /* [ranks]: most samples of a full micro-batch that a rank can hold */
    trm_feed *feed;
    trm_notes notes;
    trm_run_folder folder;
    trm_record record;
    trm_tally tally;
    trm_position pos;               /* the next update to do */
    int64_t epoch, step;            /* of the last update done, from 1 */
    int64_t per_epoch, epochs, total, last_batch;
    void *state_before;             /* a step that is not applied must not leave its running statistics */
    bool stop;                      /* some rank saw a signal: all stop at this update */
    bool alone;                     /* the fault is this rank's own: the others do not know of it */
    int64_t left_out;               /* updates of this session that were not applied */
    int64_t best_update;
    char checkpoint[TRM_RUN_PATH];  /* the newest one written or read; "" = none */
    trm_exam_result valid;
    bool valid_is_new;              /* `valid` is of this update */
    /* for progress */
    double began, line_s, bar_at, seconds;      /* seconds: of all updates of this session */
    int64_t began_update, line_samples, samples;
    double memory_at;
    uint32_t memory_mib;
};

trm_status trm_run_begin(trm_run *r);           /* all that is done before the first update */
void trm_run_end(trm_run *r);
/* Writes a checkpoint: shares state, compares replicas, writes on rank 0, removes old ones. Collective, agreed. */
trm_status trm_run_save(trm_run *r);
int64_t trm_run_best_on_disk(const trm_run *r);

/* Marks a fault as this rank's own. */
static inline trm_status trm_run_alone(trm_run *r, trm_status s) {
    if (s != TRM_OK) r->alone = true;
    return s;
}

/* metrics */
void trm_metric_start(trm_run *r);
void trm_metric_update(trm_run *r, const trm_step_result *s, int64_t samples, double lr, double seconds);
void trm_metric_valid(trm_run *r);
void trm_metric_epoch(trm_run *r);
void trm_metric_end(trm_run *r, trm_status s);
void trm_tally_note(trm_run *r, const trm_note *all);
void trm_tally_reset(trm_run *r);
/* lines and the progress bar */
void trm_progress_update(trm_run *r, const trm_step_result *s, double lr);
void trm_progress_epoch(trm_run *r);
void trm_progress_valid(trm_run *r);            /* of a validation within an epoch */

#endif
