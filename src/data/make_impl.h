/* make_impl: what the files that make data sets share.
 *
 *   source.c   bytes of a file, packed or not              csv.c      records of fields
 *   names.c    texts as numbers                            bpe.c      texts as tokens of a vocabulary
 *   import_*.c other formats -> HDF5                       rows.c     copies rows as they are stored
 *   split.c, repack.c, stats.c   data sets out of data sets, and numbers about them
 */
#ifndef TRIREME_MAKE_IMPL_H
#define TRIREME_MAKE_IMPL_H

#include <trireme/make.h>

#include "data_impl.h"

/* ---- source.c: a file from its beginning, packed by gzip or not -------------------------- */

typedef struct trm_source {
    const char *path;               /* the caller's */
    void *z;
    int64_t size;                   /* on the disk */
    bool packed;
} trm_source;
trm_status trm_source_open(const char *path, trm_source *out);
/* The next n bytes, less only at the end of the file; a packed file that has no end is told. */
trm_status trm_source_some(trm_source *s, void *dst, size_t n, size_t *got);
/* Exactly n bytes. */
trm_status trm_source_take(trm_source *s, void *dst, size_t n);
/* Can the file hold so many bytes?  Asked before memory or disk is taken for them. */
bool trm_source_may_hold(const trm_source *s, size_t bytes);
void trm_source_close(trm_source *s);

/* ---- csv.c: records of fields ---------------------------------------------------------- */

typedef struct trm_csv {
    trm_source from;
    char delimiter;
    char *buf;                      /* what was read and is not used yet: at .. have */
    size_t at, have;
    trm_status status;
    int64_t line, next_line;        /* where the record begins, from 1 */
    char *text;                     /* its fields, each with a zero behind it */
    size_t len, cap;
    size_t *field;                  /* where they begin */
    int fields, cap_fields;
} trm_csv;
/* Close it even where this fails. */
trm_status trm_csv_open(const char *path, char delimiter, trm_csv *out);
/* The delimiter of the first line. */
char trm_csv_guess(const trm_csv *r);
/* The next record that is not blank. */
trm_status trm_csv_next(trm_csv *r, bool *some);
static inline const char *trm_csv_field(const trm_csv *r, int i) { return r->text + r->field[i]; }
void trm_csv_close(trm_csv *r);

/* ---- names.c: texts as numbers ---------------------------------------------------------- */

typedef struct trm_names {
    char **name;
    int64_t n;
    size_t cap;
    int32_t *slot;                  /* hash table: number + 1, 0 where free */
    size_t slots;
} trm_names;
trm_status trm_names_add(trm_names *s, const char *text);
/* From here on a name's number is its place in the order of bytes. */
void trm_names_sort(trm_names *s);
int64_t trm_names_find(const trm_names *s, const char *text);       /* -1: unknown */
trm_status trm_names_write(const trm_names *s, trm_h5_file *f, const char *set);
void trm_names_free(trm_names *s);

/* ---- bpe.c: texts as tokens of a vocabulary ---------------------------------------------- */

typedef struct trm_bpe trm_bpe;
trm_status trm_bpe_open(const char *vocabulary, const char *merges, trm_bpe **out);
void trm_bpe_close(trm_bpe *b);                                     /* accepts NULL */
int64_t trm_bpe_tokens(const trm_bpe *b);                           /* 1 + the largest number of a token */
int32_t trm_bpe_find(const trm_bpe *b, const char *token);          /* as the vocabulary writes it; -1: not there */
typedef trm_status (*trm_bpe_put)(void *ctx, const int32_t *token, size_t n);
/* The tokens of n bytes of whole UTF-8.  Where they are not the last ones of a text, *used of them are done: those whose
 * words cannot go on behind the end. */
trm_status trm_bpe_encode(trm_bpe *b, const char *text, size_t n, bool last, trm_bpe_put put, void *ctx, size_t *used);
/* How many bytes are whole characters; false: behind them is what is none. */
bool trm_utf8_whole(const char *text, size_t n, size_t *whole);

/* ---- rows.c: rows of all data sets of some files, copied as they are stored --------------- */

typedef struct trm_rowset {
    const trm_set_spec *spec;
    trm_paths paths;
    int64_t *start;                 /* of each file's rows; one more than files */
    char *input;                    /* its length is the number of rows */
    trm_h5_facts facts;             /* of the inputs in the first file */
    trm_names sets, whole;          /* data sets with rows, and those that are copied as they are */
    trm_h5 *open;                   /* one file at a time */
    int open_at;
} trm_rowset;
/* Close it even where this fails. */
trm_status trm_rowset_open(const trm_set_spec *spec, trm_rowset *r);
void trm_rowset_close(trm_rowset *r);
static inline int64_t trm_rowset_count(const trm_rowset *r) { return r->start[r->paths.n]; }
/* USAGE sentence where `out` cannot be written or is one of the files. */
trm_status trm_rowset_apart(const trm_rowset *r, const char *out);
/* The classes of all rows, freed by the caller. */
trm_status trm_rowset_labels(trm_rowset *r, const char *target, int64_t **out);
/* Rows pick[0..n), any order, no matter how often (NULL: the first n), of every data set. how NULL: contiguous. */
trm_status trm_rowset_copy(trm_rowset *r, trm_h5_file *to, const int64_t *pick, int64_t n, const trm_h5_store *how);
void trm_rowset_made(const trm_rowset *r, int64_t n, trm_made *made);

static inline void trm_tell_now(const trm_tell *t, int64_t done, int64_t all) {
    if (t && t->fn) t->fn(t->ctx, done, all);
}

#endif
