/* make: data sets out of other formats, and out of data sets.
 *
 * Every function writes its file aside, proves it by reading it back, and only then gives it its name.  Memory is bounded: pieces,
 * never the whole set, unless a comment says otherwise.  One sentence a fault (TRM_DATA), as in <trireme/data.h>.
 */
#ifndef TRIREME_MAKE_H
#define TRIREME_MAKE_H

#include <trireme/data.h>

/* ---- what all have in common ---------------------------------------------------------- */

/* Hears now and then how far the work is: `done` of `all` (0: not known) samples, rows or bytes. */
typedef struct trm_tell {
    void (*fn)(void *ctx, int64_t done, int64_t all);
    void *ctx;
} trm_tell;

/* What was made, for the closing sentence and the lines of a job file. */
typedef struct trm_made {
    int64_t samples;                /* or tokens */
    trm_shape x;                    /* of one sample; rank 0: a stream of tokens */
    trm_dtype type;
    int64_t classes;                /* 0: none, or not known */
    bool target, floats;            /* there are targets; they are numbers to regress */
    int64_t skipped;                /* left out as asked: broken pictures, lines with a hole */
} trm_made;

/* ---- import --------------------------------------------------------------------------- */

/* The binary version of CIFAR-10 and CIFAR-100 -> data u8 (N,3,32,32), label u8. */
typedef enum trm_cifar_labels { TRM_CIFAR_10, TRM_CIFAR_FINE, TRM_CIFAR_COARSE } trm_cifar_labels;
TRM_API trm_status trm_import_cifar(const char *const *files, int n_files, trm_cifar_labels labels, const trm_tell *tell, const char *out,
                                    trm_made *made);

typedef enum trm_csv_header { TRM_CSV_AUTO, TRM_CSV_HEADER, TRM_CSV_NO_HEADER } trm_csv_header;
typedef struct trm_csv_spec {
    const char *const *files;       /* each may be packed by gzip; all with the same columns */
    int n_files;
    char delimiter;                 /* 0: the one of , ; tab that the first line has most of */
    trm_csv_header header;          /* AUTO: the first line is one where a field of it is no number, but the second line has one there */
    const char *const *target;      /* columns, by name or by number from 1 */
    int n_target;
    const char *const *drop;
    int n_drop;
    bool classes;                   /* the target is a text: numbered in the order of bytes, names go to `label_names` */
    bool float_target;              /* the targets are numbers to regress */
    const char *missing;            /* the number that stands for an empty field; NULL: such a field is a fault */
    trm_tell tell;
} trm_csv_spec;
/* -> data f32 (N,F); label i32 (N), or targets f32 (N,T). */
TRM_API trm_status trm_import_csv(const trm_csv_spec *spec, const char *out, trm_made *made);

/* numpy's arrays: x and, where y is not NULL, y -> data, and label (integers, (N) or (N,1)) or targets (floats, or by the caller's word).
 * Types stay; a vector of integers without y is a stream: tokens. */
TRM_API trm_status trm_import_npy(const char *x, const char *y, bool float_target, const trm_tell *tell, const char *out, trm_made *made);
/* The same from an archive; input, target: names of arrays, NULL: found by common names. */
TRM_API trm_status trm_import_npz(const char *path, const char *input, const char *target, bool float_target, const trm_tell *tell,
                                  const char *out, trm_made *made);

/* Texts in UTF-8 as tokens of a vocabulary, by the byte-level BPE of GPT-2 -> tokens u16 or u32.  vocabulary: JSON, token -> number;
 * merges: two tokens a line, the first line counts most; behind: a token put behind each file, or NULL. */
typedef struct trm_bpe_spec {
    const char *vocabulary, *merges, *behind;
    const char *const *files;
    int n_files;
    trm_tell tell;                  /* bytes */
} trm_bpe_spec;
TRM_API trm_status trm_import_bpe(const trm_bpe_spec *spec, const char *out, trm_made *made);

/* A folder with a folder of PNG and JPEG pictures for each class -> data u8 (N,C,H,W), label u16, label_names: all in the order of bytes. */
typedef struct trm_images_spec {
    const char *folder;
    int64_t h, w;                   /* all are scaled and cropped to this size; 0: they must have one */
    int c;                          /* 1 grey, 3 red, green, blue */
    bool skip_bad;                  /* pictures that cannot be read are left out, not a fault */
    trm_tell tell;                  /* pictures, twice: looked at, written */
} trm_images_spec;
TRM_API trm_status trm_import_images(const trm_images_spec *spec, const char *out, trm_made *made);

/* ---- data sets out of data sets -------------------------------------------------------- */

/* Files whose rows are copied, one file behind the other: of every data set with as many rows as the inputs, in the type that it is
 * stored in, attributes too.  Data sets without rows (`label_names`) come from the first file. */
typedef struct trm_set_spec {
    const char *const *files;       /* names, patterns, lists */
    int n_files;
    const char *input;              /* the data set that says how many rows there are; NULL: found by common names */
    const char *const *only;        /* no data sets but the inputs and these; n_only 0: all */
    int n_only;
    size_t memory;                  /* bytes for rows that are put in order; 0: a quarter of what is free, 1 GiB at most */
    trm_tell tell;                  /* rows */
} trm_set_spec;

#define TRM_MOST_PARTS 16
typedef enum trm_split_rows {
    TRM_SPLIT_KEPT,                 /* the first rows, the next ones, ... */
    TRM_SPLIT_DRAWN,                /* at random, in the order of the file */
    TRM_SPLIT_STRATIFIED,           /* likewise, every class cut alike */
} trm_split_rows;
typedef struct trm_split_part {
    double fraction;                /* of all rows; used where rows is 0 */
    int64_t rows;
    const char *out;
} trm_split_part;
/* made: one for each part. */
TRM_API trm_status trm_split(const trm_set_spec *spec, trm_split_rows how, const char *target, uint64_t seed, const trm_split_part *part,
                             int n_parts, trm_made *made);
/* All rows, in random order. */
TRM_API trm_status trm_shuffle_rows(const trm_set_spec *spec, uint64_t seed, const char *out, trm_made *made);

/* The same rows, stored in another way. */
typedef struct trm_repack_spec {
    int64_t chunk_rows;             /* rows of the inputs in a chunk; other data sets get chunks of about as many bytes; -1: as many as make
                                       256 KiB, 0: no chunks */
    int deflate;                    /* level of gzip, 0: none; needs chunks */
    bool shuffle;                   /* bytes of equal weight lie together before they are packed; needs deflate */
} trm_repack_spec;
typedef struct trm_repack_gain {
    int64_t bytes_before, bytes_after;  /* of all files */
    double before, after;           /* inputs per second in random order, without a cache; 0: not read, as their shape is none that a job takes */
    int64_t chunk_rows;             /* as chosen */
} trm_repack_gain;
TRM_API trm_status trm_repack(const trm_set_spec *spec, const trm_repack_spec *how, const char *out, trm_made *made, trm_repack_gain *gain);

/* ---- numbers about a data set ---------------------------------------------------------- */

/* Samples of each class, freed by the caller; *classes is 0 where targets are no classes. */
TRM_API trm_status trm_class_counts(trm_dataset *d, int64_t **count, int64_t *classes);
/* -> mean, std, min, max f64 (C), count i64, and where classes > 0 class_count i64 (K): what data.stats of a job reads. */
TRM_API trm_status trm_stats_write(const trm_data_stats *s, const int64_t *class_count, int64_t classes, const char *out);

#endif
