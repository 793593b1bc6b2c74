/* Private to train: the table of a job file's keys and what reads, writes and describes their values. */
#ifndef TRM_TRAIN_JOB_IMPL_H
#define TRM_TRAIN_JOB_IMPL_H

#include <math.h>
#include <trireme/train.h>

#include "yaml_tree.h"

/* How a value is written in the file and where it lands. */
typedef enum trm_job_kind {
    TRM_KEY_INT,                    /* int64_t */
    TRM_KEY_INT32,                  /* int */
    TRM_KEY_FLOAT,                  /* double */
    TRM_KEY_FLOAT2,                 /* double[2] */
    TRM_KEY_BOOL,                   /* bool */
    TRM_KEY_TEXT,                   /* char *, owned */
    TRM_KEY_CHOICE,                 /* an enum: index into `names` */
    TRM_KEY_CHOICE_BOOL,            /* bool: index into two names */
    TRM_KEY_CHOICE_TEXT,            /* char *, owned: one of `names` */
    TRM_KEY_FILES,                  /* char **, owned, and an int count */
    TRM_KEY_FLOATS,                 /* double *, owned, and an int count; where there are names also names[0]: count -1 */
    TRM_KEY_INTS,                   /* int64_t[8] and an int count */
    TRM_KEY_PAIR,                   /* int64_t[2]: one whole number for both, or a list of two */
    TRM_KEY_SIZES,                  /* trm_sizes: one whole number for all axes, or a list with one for each */
    TRM_KEY_SHAPE,                  /* trm_shape */
    TRM_KEY_ROWS,                   /* two int64_t: first row, number of rows (0 = to the end); "100:200" */
    TRM_KEY_EVERY,                  /* trm_every */
    TRM_KEY_BYTES,                  /* int64_t; "2 GiB" */
    TRM_KEY_TRANSFORMS,             /* trm_transform *, owned, and an int count; `names`: those that may stand here */
    TRM_KEY_LABELS,                 /* trm_label *, owned, and an int count: a map, or a list of what becomes 0, 1, ... */
    TRM_KEY_OR_WORD,                /* int64_t: a whole number, or -1 for the word names[0] */
    TRM_KEY_LAYERS,                 /* model.layers: a number for gpt (int64_t), else the list that model.c reads */
} trm_job_kind;

enum {
    TRM_KEY_REQUIRED = 1,           /* missing is a fault (where `only` fits) */
    TRM_KEY_ABOVE = 2,              /* min itself is not allowed */
    TRM_KEY_BELOW = 4,              /* max itself is not allowed */
    TRM_KEY_SHORT = 8,              /* `optimizer: sgd` means {type: sgd}: this key is the one meant */
    TRM_KEY_SOME = 16,              /* FILES: at least one */
    TRM_KEY_NAME = 32,              /* TEXT: letters, digits, '_', '-', '.' */
    TRM_KEY_PATH = 64,              /* TEXT, FILES: taken from the job file's folder where not found from the current one */
    TRM_KEY_SET = 128,              /* always has a value after parsing, though it has no default text */
    TRM_KEY_TIMES = 256,            /* EVERY: `never` is not allowed */
    TRM_KEY_LAYER = 512,            /* TEXT: the name of an earlier layer */
    TRM_KEY_PERCENT = 1024,         /* FLOAT: a share, also written "5%" */
    TRM_KEY_BY = 2048,              /* PAIR: also written "32x48" */
    TRM_KEY_INSIDE = 4096,          /* FILES: paths inside of files */
};

/* One key: this table parses, prints and documents. */
typedef struct trm_job_key {
    const char *path;               /* "train.optimizer.lr"; NULL ends the table */
    trm_job_kind kind;
    size_t at, count_at;            /* offsets in trm_job, or in what a layer's keys are read into */
    double min, max;                /* numbers; max 0 = no upper end */
    int flags;
    const char *def;                /* default as YAML; NULL = none */
    const char *def_text;           /* what is said of a default that is no text: "from the data" */
    const char *alt_for, *alt_def;  /* another default where the selector has this value */
    const char *const *names;       /* choices, NULL-terminated */
    const char *only_key, *only;    /* fits only where the choice `only_key` is one of `only` ("adam adamw") */
    const char *unit;
    const char *about;
} trm_job_key;

extern const trm_job_key trm_job_keys[];

const trm_job_key *trm_job_key_find(const char *path);
/* The last word of a key's path: "lr". */
const char *trm_job_key_word(const trm_job_key *k);
/* The value of a CHOICE key as text. */
const char *trm_job_choice(const trm_job *j, const char *path);
/* True where the key's `only` fits the job. */
bool trm_job_key_fits(const trm_job *j, const trm_job_key *k);
/* The default of a key in this job, or NULL. */
const char *trm_job_key_default(const trm_job *j, const trm_job_key *k);
/* True where the document gives this key. */
bool trm_job_key_given(const trm_job *j, const trm_job_key *k);

/* Reads a node into base + k->at: type and range. The sentence names the node's place. */
trm_status trm_job_value_read(const trm_job_key *k, const trm_yaml_node *n, void *base);
/* Reads a default's text likewise. */
trm_status trm_job_value_default(const trm_job_key *k, const char *text, void *base);
/* The value as YAML on one line. */
void trm_job_value_write(const trm_job_key *k, const void *base, trm_str *out);
/* "whole numbers from 1", "sgd, adam, adamw"; whole: also ends that no one would reach. */
void trm_job_value_allowed(const trm_job_key *k, bool whole, trm_str *out);
/* Frees what a value owns. */
void trm_job_value_free(const trm_job_key *k, void *base);

/* transforms.c: the lists of transforms. */
trm_status trm_job_transforms_read(const trm_job_key *k, const trm_yaml_node *n, void *base);
void trm_job_transforms_write(const trm_transform *t, int n, trm_str *out);
void trm_job_transforms_reference(trm_str *out);

/* The shortest decimal text that reads back the same; buf of >= 32 bytes. Returns buf. */
const char *trm_job_number(double v, char *buf);

/* Reads the model section without building it: layer types, keys, ranges, names and `from`. */
trm_status trm_job_model_check(const trm_job *j);
/* The layers and their keys as Markdown. */
void trm_job_model_reference(trm_str *out);
/* One row of a reference table; `skip` bytes of the path are left out. */
void trm_job_key_reference(const trm_job_key *k, size_t skip, trm_str *out);

#endif
