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

#endif
