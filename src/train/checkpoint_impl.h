/* checkpoint_impl: what the files of checkpoints, weights and exports share.
 *
 * A checkpoint is a folder step-00000120/ of an index.json and HDF5 parts.  The index lists every
 * entry by kind, name and shape, with a checksum per entry and per part; its own checksum covers
 * the rest of its text.  A folder with this name is whole: it is written under another one, read
 * back and synced before it gets it.
 */
#ifndef TRIREME_TRAIN_CHECKPOINT_IMPL_H
#define TRIREME_TRAIN_CHECKPOINT_IMPL_H

#include <trireme/train.h>

#define TRM_CKPT_PATH 4096
#define TRM_CKPT_INDEX_LIMIT ((size_t)64 << 20)
#define TRM_CKPT_MAX_ENTRIES 400000
#define TRM_CKPT_MAX_PARTS 1024

typedef enum trm_ckpt_kind { TRM_CKPT_PARAM, TRM_CKPT_M1, TRM_CKPT_M2, TRM_CKPT_STATE, TRM_CKPT_KINDS } trm_ckpt_kind;
const char *trm_ckpt_kind_name(trm_ckpt_kind k);        /* "param": also the HDF5 group */
const char *trm_ckpt_optimizer_name(trm_optimizer_kind k);

typedef struct trm_ckpt_entry {
    trm_ckpt_kind kind;
    char name[TRM_NAME_MAX];
    trm_shape shape;
    int part;
    uint64_t hash;                  /* of its float32 values */
} trm_ckpt_entry;

typedef struct trm_ckpt_part {
    int64_t bytes;
    uint64_t hash;                  /* of the whole file part-N.h5 */
} trm_ckpt_part;

typedef struct trm_ckpt_index {
    trm_position position;
    trm_optim_spec optim;
    char *job;                      /* resolved settings as YAML; NULL where there are none */
    trm_ckpt_entry *entry;
    trm_ckpt_part *part;
    int entries, parts;
} trm_ckpt_index;

trm_status trm_ckpt_index_write(const trm_ckpt_index *x, trm_str *text);
/* Checks everything that the text claims; `path` is for messages. */
trm_status trm_ckpt_index_parse(const char *text, size_t n, const char *path, trm_ckpt_index *out);
void trm_ckpt_index_free(trm_ckpt_index *x);

/* An opened checkpoint: index and parts verified. */
typedef struct trm_ckpt {
    char path[TRM_CKPT_PATH];
    trm_ckpt_index index;
    trm_h5_file *file;              /* of part `open_part` */
    int open_part;
} trm_ckpt;

/* `path`: a step folder, a folder of them, or a run folder.  In the latter two the newest whole one is
 * taken; a damaged one is passed over with a warning. */
trm_status trm_ckpt_open(const char *path, trm_ckpt **out);
/* One step folder, no fallback. */
trm_status trm_ckpt_open_step(const char *path, trm_ckpt **out);
void trm_ckpt_close(trm_ckpt *c);
const trm_ckpt_entry *trm_ckpt_find(const trm_ckpt *c, trm_ckpt_kind kind, const char *name);
/* Into trm_shape_count(shape) floats; the checksum must hold. */
trm_status trm_ckpt_read_entry(trm_ckpt *c, const trm_ckpt_entry *e, float *out);
/* Weights, moments and state into the flat spaces of a graph; what is NULL in w is left out. */
trm_status trm_ckpt_load(trm_ckpt *c, const trm_graph *g, const trm_weights *w);

/* Updates of the step folders in `folder`, ascending; trm_free(*update). */
trm_status trm_ckpt_list(const char *folder, int64_t **update, int *n);
/* The folder that holds the step folders: `path` itself or path/checkpoints. */
void trm_ckpt_folder(const char *path, char out[TRM_CKPT_PATH]);
trm_status trm_ckpt_step_path(const char *folder, int64_t update, char out[TRM_CKPT_PATH]);
/* Removes what a killed writer left in `folder`. The caller holds the run's lock. */
trm_status trm_ckpt_sweep(const char *folder);

/* Syncs a file or folder to the disk. */
trm_status trm_sync_path(const char *path);
trm_status trm_hash_file(const char *path, int64_t *bytes, uint64_t *hash);

/* ---- matching names and shapes ---- */

/* Collects what does not fit, for one sentence. */
typedef struct trm_match {
    trm_str text;
    int wanted, faults;
} trm_match;
void trm_match_missing(trm_match *m, const char *name);
/* false, and noted, where the shapes differ. */
bool trm_match_shape(trm_match *m, const char *name, const trm_shape *have, const trm_shape *want);
/* TRM_DATA with the list where there were faults. Frees. */
trm_status trm_match_end(trm_match *m, const char *path);

#endif
