/* train: the run.  A job file becomes a frozen trm_job; a job becomes a model, a runner, a feed; the loop conducts them. */
#ifndef TRIREME_TRAIN_H
#define TRIREME_TRAIN_H

#include <trireme/balance.h>
#include <trireme/comm.h>
#include <trireme/data.h>
#include <trireme/nn.h>

/* ---- job ---------------------------------------------------------------------------- */

typedef enum trm_unit { TRM_UNIT_EPOCHS, TRM_UNIT_UPDATES, TRM_UNIT_NEVER } trm_unit;
typedef struct trm_every { trm_unit unit; int64_t n; } trm_every;   /* `epoch`, `2 epochs`, `50` = updates, `never` */

typedef enum trm_schedule_kind { TRM_LR_CONSTANT, TRM_LR_STEP, TRM_LR_LINEAR, TRM_LR_COSINE, TRM_LR_WSD } trm_schedule_kind;
typedef struct trm_schedule_spec {
    trm_schedule_kind kind;
    double lr;                      /* peak */
    double min_ratio;               /* linear, cosine, wsd: end at lr * min_ratio */
    int64_t warmup;                 /* updates, linear from lr/warmup to lr */
    int64_t decay;                  /* wsd: updates of the final linear decay; 0 = a tenth of the run */
    trm_every every; double gamma;  /* step: times gamma every so many updates or epochs */
} trm_schedule_spec;

typedef enum trm_preset { TRM_PRESET_NONE, TRM_PRESET_MLP, TRM_PRESET_LENET, TRM_PRESET_RESNET, TRM_PRESET_GPT } trm_preset;

typedef enum trm_nonfinite { TRM_NONFINITE_STOP, TRM_NONFINITE_SKIP } trm_nonfinite;
typedef enum trm_balance_mode {
    TRM_BALANCE_OFF, TRM_BALANCE_STATIC, TRM_BALANCE_DYNAMIC, TRM_BALANCE_HYBRID, TRM_BALANCE_REPLAY,
} trm_balance_mode;

typedef enum trm_target_type { TRM_TYPE_CLASS, TRM_TYPE_FLOAT, TRM_TYPE_ONEHOT, TRM_TYPE_ARGMAX } trm_target_type;
typedef enum trm_norm_kind { TRM_NORM_MEAN_STD, TRM_NORM_MIN_MAX } trm_norm_kind;

typedef struct trm_job_data {
    char **train, **valid;          /* file names; n may be 0 for valid */
    int n_train, n_valid;
    char **input, **target, **valid_input, **valid_target;  /* HDF5 paths; n 0 = found by common names, those of valid as of train */
    int n_input, n_target, n_valid_input, n_valid_target;
    trm_shape shape;                /* rank 0 = as stored */
    bool hwc;
    int64_t window, classes;
    trm_target_type target_type;
    trm_label *label_map; int n_labels;
    double target_scale, target_bias;       /* of float targets */
    int64_t train_first, train_count, valid_first, valid_count; /* row ranges */
    int sample, join, complex;      /* trm_data_sample, ..: how samples are put together */
    char *groups, *train_groups, *valid_groups, *train_split, *valid_split, *lengths;
    int64_t axis, in_steps, out_steps, pad; /* axis, pad: -1 = last, max */
    trm_shape tile;
    bool decode, mask, bf16, allow_virtual;
    char *folder;                   /* of the job file, with its last '/'; NULL = the current one */
    trm_data_cache cache;
    int64_t cache_limit;            /* bytes */
    trm_on_bad on_bad;
    bool untrusted, allow_links, allow_external, allow_plugins;
    trm_shuffle shuffle;
    int64_t memory;                 /* bytes of decoded blocks; 0 = TRM_DATA_MEMORY */
    int threads;                    /* that read and decode them */
    double scale;                   /* default 1/255 for uint8 images, else 1; set when the data is known if scale_given is false */
    bool scale_given;
    double *mean, *std; int norm_count;
    double *min, *max; int n_min, n_max;    /* the other way to say it: mean and std are made of them */
    char *stats;                    /* "auto" or a file; NULL: none */
    trm_norm_kind normalize;        /* which numbers of `stats` */
    bool settled;                   /* mean and std are those of `stats` and take its place */
    trm_transform *transform, *augment; int n_transform, n_augment; /* for every set; for what is trained on */
} trm_job_data;

typedef struct trm_job {
    char *path;                     /* the job file; messages name it */
    struct { char *name, *dir; int64_t seed; int64_t log_every; } run;  /* dir: folder of runs, default "runs" */
    trm_job_data data;
    struct { char *backend; int threads; } device;  /* backend NULL = cpu; threads 0 = cores / ranks of the node */
    char *model_init;               /* model.init: FILE, or NULL */
    struct { trm_preset preset; trm_zoo_spec zoo; } model;  /* model.preset and its keys; 0 = from the data */
    struct {
        int64_t epochs, updates;    /* exactly one of them > 0 */
        int64_t batch;
        int micro_batches;
        bool drop_last;
        trm_every valid_every;
        struct { int64_t patience; double min_delta; } early_stop;  /* patience 0: none */
        bool bf16;                  /* precision */
        trm_loss_kind loss;
        trm_ce_spec ce;
        trm_optim_spec optim;
        trm_schedule_spec schedule;
        trm_nonfinite on_nonfinite;
    } train;
    struct { trm_every every; int64_t keep; bool best; } checkpoint;    /* keep: newest kept; best: keep the best by valid loss too */
    struct {
        trm_balance_mode mode;
        double *weights; int n_weights; /* -1: probed at the start; 0: equal */
        trm_every every;
        double threshold;           /* share of the step's time */
        trm_predictor predictor;
        int cooldown, reprobe;      /* decisions */
        bool dry_run;
        char *from;                 /* replay: a run's folder */
    } balance;
    struct trm_yaml *tree;          /* the document after overrides: the model section is read from it */
} trm_job;

/* Reads a job file's text (its own name for messages) and overrides ("train.epochs=3"); checks keys, types and ranges.  Faults are
 * TRM_JOB: "job.yaml:12:5: train.epochs is -1; allowed are whole numbers from 1" with the nearest known key in the hint.  File names that
 * are not found from the current folder are taken from the job file's folder; no file is opened. Local. */
TRM_API trm_status trm_job_parse(const char *path, const char *text, size_t n, const char *const *overrides, int n_overrides, trm_job **out);
TRM_API void trm_job_free(trm_job *j);
/* The resolved settings, defaults included: as YAML that trm_job_parse reads back, and as a table. */
TRM_API trm_status trm_job_write(const trm_job *j, trm_str *yaml);
TRM_API void trm_job_table(const trm_job *j, trm_str *text);
/* Reference of all keys, from the same table that parses: for docs/job-file.md and `trireme help job`. */
TRM_API void trm_job_reference(trm_str *markdown);
/* Builds the model section for this data set; output and loss are checked against it. Faults name line and column. */
TRM_API trm_status trm_job_model(const trm_job *j, const trm_data_info *data, trm_graph **out);
/* What the data section asks of one list of files. The spec points into the job. */
TRM_API trm_data_spec trm_job_data_spec(const trm_job *j, bool valid);
/* Puts the job's transforms on a data set that was opened by this spec, or unpacked from one that was. Local. */
TRM_API trm_status trm_job_transform(const trm_job *j, trm_dataset *d);

/* Learning rate of update u (from 1) of `total` updates, `per_epoch` updates per epoch: pure.
 * Warm-up: lr * u / warmup for u <= warmup. Then, with p = max(warmup, 1) and s = (u - p) / (total - p), which runs from 0 to 1:
 *   constant  lr
 *   linear    lr * (1 - (1 - min_ratio) * s)
 *   cosine    lr * (min_ratio + (1 - min_ratio) * (1 + cos(pi * s)) / 2)
 *   step      lr * gamma^k, k = whole steps of `every` before this update, counted from the run's start (as PyTorch's StepLR)
 *   wsd       lr, and over the last `decay` updates linearly down to lr * min_ratio
 * So linear, cosine and wsd reach lr * min_ratio at the last update, u = total, and stay there. */
TRM_API double trm_schedule_lr(const trm_schedule_spec *s, int64_t u, int64_t total, int64_t per_epoch);

/* ---- checkpoints --------------------------------------------------------------------- */

/* Everything that a resume needs besides weights. */
typedef struct trm_position {
    int64_t update;                 /* updates done in the run */
    int64_t epoch, update_in_epoch; /* next update to do */
    int64_t samples;                /* samples seen in this epoch */
    int64_t batch, micro_batches;
    int64_t seed;
    int order_version;
    int shuffle, drop_last;         /* trm_shuffle, bool; -1: not known */
    int64_t window;                 /* of the window order, and its print; 0 where the order is another */
    uint64_t window_print;
    uint64_t fingerprint;           /* of the training set */
    double best_valid;              /* best valid loss so far, or +inf */
    double stop_best;               /* early stop: the last loss that was less by min_delta, or +inf */
    int64_t stale;                  /* validations since then */
} trm_position;

/* float32 host arrays in the flat spaces of the graph's table; m1, m2 may be NULL. */
typedef struct trm_weights {
    float *weights, *m1, *m2, *state;
} trm_weights;

/* Writes FOLDER/step-%08d aside (part-0.h5 with one data set per entry: /param/NAME, /m1/NAME, /m2/NAME, /state/NAME; index.json with
 * names, shapes, slices, position, optimizer, checksums), reads it back, syncs, renames. Rank 0's work. */
TRM_API trm_status trm_checkpoint_write(const char *folder, const trm_graph *g, const trm_weights *w, const trm_position *p,
                                        const trm_optim_spec *o, const trm_job *job, char path[4096]);
/* Reads and verifies; `path` is a step folder, or a folder of them (the newest whole one).  Entries are matched by name and shape. */
TRM_API trm_status trm_checkpoint_read(const char *path, const trm_graph *g, trm_weights *w, trm_position *p, trm_optim_spec *o);
/* Weights and state by name from a checkpoint, .safetensors or HDF5 file: every parameter must be there (TRM_DATA lists what is missing). */
TRM_API trm_status trm_weights_read(const char *path, const trm_graph *g, trm_weights *w);
TRM_API trm_status trm_checkpoint_info(const char *path, trm_str *text);
typedef enum trm_export_format { TRM_EXPORT_SAFETENSORS, TRM_EXPORT_HDF5 } trm_export_format;
TRM_API trm_status trm_checkpoint_export(const char *path, trm_export_format format, const char *out);
/* Removes all but the `keep` newest step folders (and `best_update`'s when >= 0); 0 = keep all. */
TRM_API trm_status trm_checkpoint_prune(const char *folder, int64_t keep, int64_t best_update);

/* ---- the run ------------------------------------------------------------------------- */

typedef struct trm_run_options {
    const char *resume;             /* checkpoint or run folder; "" = newest of this run; NULL = start anew */
    bool progress;                  /* a progress bar may be drawn (rank 0 on a terminal) */
    /* Lines for the user, on rank 0. transient: a progress bar's state, overwritten by the next line. */
    void (*print)(void *ctx, const char *line, bool transient);
    /* Rank 0: the run's folder is made; a log file may be opened in it.  May be NULL. */
    void (*folder)(void *ctx, const char *path);
    /* Any rank: it met a fault that the others do not know of, and the sentence is recorded.  Prints it and ends all ranks; does not
     * return. NULL: the run returns, and the others wait until their deadline. */
    void (*alone)(void *ctx, trm_status s);
    void *print_ctx;                /* for these three */
    const char *dump_losses;        /* tests: file for "update loss grad_norm" in hexadecimal floats per update, or NULL */
} trm_run_options;

/* Trains. All ranks call it with the same job; collective. TRM_STOPPED when a signal ended it with a checkpoint. */
TRM_API trm_status trm_run_train(const trm_job *j, trm_comm *c, const trm_run_options *o);
/* Evaluates weights (checkpoint, safetensors) on the valid files (or on `files`). Collective. */
TRM_API trm_status trm_run_eval(const trm_job *j, trm_comm *c, const char *weights, const trm_run_options *o);
/* Inference over a data set, in the order of its rows, to an HDF5 file: `output` float32 (N, output shape) and, where the loss is
 * cross-entropy, `label` int64, the index of the largest of the channels where they come first, else of the last dimension. */
typedef struct trm_predict_spec {
    const char *weights;            /* checkpoint, safetensors or HDF5 */
    const char *const *input;       /* files; n_input 0: data.valid */
    int n_input;
    const char *out;
    bool replace;                   /* an HDF5 file that has this name already */
} trm_predict_spec;
/* The file gets its name when it is whole.  Collective. */
TRM_API trm_status trm_run_predict(const trm_job *j, trm_comm *c, const trm_predict_spec *s, const trm_run_options *o);
/* Layers, shapes, parameters, FLOPs, memory, without training. Local. */
TRM_API trm_status trm_run_check(const trm_job *j, trm_str *text);

/* Signals asked to stop so far: 0, 1 (at the next update, with a checkpoint), 2 (at once). `cli` installs the handlers. */
TRM_API void trm_signals_install(void);
TRM_API int trm_signals_seen(void);

#endif
