/* data: HDF5 -> ordered samples -> ready micro-batches in slots.
 *
 * A data set is opened and checked once by rank 0; its plan (files, offsets, chunks, filters, shapes, types) is packed,
 * broadcast by the caller, and unpacked by the others, which then read with pread and decode themselves.
 * All of this is local; whoever owns ranks moves the packed plan.
 */
#ifndef TRIREME_DATA_H
#define TRIREME_DATA_H

#include <trireme/tensor.h>

/* ---- opening ------------------------------------------------------------------------ */

typedef enum trm_data_kind {
    TRM_DATA_AUTO,                  /* tokens where `window` is set, else samples */
    TRM_DATA_SAMPLES,               /* rows of `input`, rows of `target` */
    TRM_DATA_TOKEN_STREAM,          /* 1-D integers cut in windows of `window` tokens; target = the same, one later */
    TRM_DATA_TOKEN_ROWS,            /* 2-D integers (N,T+1): input = [0,T), target = [1,T+1); where `target` is given: (N,T) each */
} trm_data_kind;
typedef enum trm_on_bad { TRM_BAD_ERROR, TRM_BAD_SKIP } trm_on_bad;
enum {
    TRM_ALLOW_LINKS = 1,            /* soft links, and external links to files of the same folder and below */
    TRM_ALLOW_EXTERNAL = 2,         /* external raw storage in such files */
    TRM_ALLOW_PLUGINS = 4,          /* filters that HDF5 loads from HDF5_PLUGIN_PATH: other people's code */
};
typedef enum trm_data_cache {
    TRM_CACHE_AUTO,                 /* in memory where it fits, as NODE where ranks share some */
    TRM_CACHE_ON,                   /* in memory, as NODE */
    TRM_CACHE_OFF,
    TRM_CACHE_NODE,                 /* once on each node; where there is no room for that, as RANK */
    TRM_CACHE_RANK,                 /* on each rank */
} trm_data_cache;

/* How targets become classes. */
typedef enum trm_target_rows {
    TRM_TARGET_PLAIN,               /* one class number per sample */
    TRM_TARGET_ONEHOT,              /* rows of zeros and one 1: its place */
    TRM_TARGET_ARGMAX,              /* rows of numbers: the place of the largest */
} trm_target_rows;
typedef struct trm_label { int64_t from, to; } trm_label;       /* a class of the file, and what it is for the model */

/* What is done to an image on its way into the model; on raw elements, uint8 or float32. */
typedef enum trm_transform_kind {
    TRM_RESIZE, TRM_CENTER_CROP, TRM_PAD,           /* always the same */
    TRM_CROP, TRM_FLIP, TRM_ERASE,                  /* drawn for each sample of each epoch */
} trm_transform_kind;
typedef struct trm_transform {
    trm_transform_kind kind;
    int64_t size[2];                /* resize, crops: height and width; pad: pixels above and below, left and right */
    bool area_mean;                 /* resize: the mean of the pixels that a new one covers; else bilinear */
    bool vertical;                  /* flip: upside down; else left to right */
    double p;                       /* flip, erase: how likely */
    double value;                   /* pad, erase: what is put there, in stored numbers */
    double area[2], ratio[2];       /* erase: share of the image, and height / width, from and to */
} trm_transform;

/* What one sample is. */
typedef enum trm_data_sample {
    TRM_SAMPLE_ROWS,                /* a row of each data set */
    TRM_SAMPLE_FILE,                /* a whole file */
    TRM_SAMPLE_GROUP,               /* a whole group */
    TRM_SAMPLE_WINDOW,              /* so many steps of time */
    TRM_SAMPLE_TILE,                /* a part of a whole file or group */
    TRM_SAMPLE_RAGGED,              /* as many rows as the sample is long */
    TRM_SAMPLE_BYTES,               /* a coded picture, or a sequence of variable length */
    TRM_SAMPLE_COUNT
} trm_data_sample;
typedef enum trm_data_join { TRM_JOIN_AUTO, TRM_JOIN_CHANNEL, TRM_JOIN_LIST } trm_data_join;
typedef enum trm_data_complex { TRM_COMPLEX_REFUSE, TRM_COMPLEX_CHANNELS, TRM_COMPLEX_MAGNITUDE } trm_data_complex;

/* How samples are put together where they are not plain rows of one data set.  All zero: they are. */
typedef struct trm_data_view {
    const char *const *input, *const *target;   /* paths "[csr:|whole:][FILE#]PATH[.member][columns]"; n 0: those of the spec */
    int n_input, n_target;
    trm_data_sample sample;
    trm_data_join join;
    const char *groups;             /* pattern of the groups that paths are taken from: "data/demo_?" */
    const char *group_list;         /* data set of texts that lists the groups to use */
    const char *split;              /* of the attribute `split` of the root */
    int64_t axis;                   /* of samples, of time for windows; -1: the last one */
    int64_t in_steps, out_steps;    /* of a window */
    trm_shape tile;
    const char *lengths;            /* data set of the lengths of packed samples */
    int64_t pad;                    /* longest sample; -1: as long as the longest; 0: none may differ */
    bool mask;                      /* one more input: where the first has data */
    trm_data_complex complex;
    bool decode;                    /* bytes are PNG or JPEG pictures; they are scaled and cut to the shape */
    bool bf16;                      /* inputs are bfloat16 in 16-bit values */
    bool allow_virtual;
    const char *folder;             /* from where the FILE of a path is taken; NULL: the current one */
} trm_data_view;

typedef struct trm_data_spec {
    const char *const *files;       /* names; "*.h5" patterns and "@list.txt" are expanded, in LC_ALL=C order */
    int n_files;
    const char *input, *target;     /* HDF5 paths; NULL: found by common names (data|x|images|tokens, label|labels|y|targets) */
    trm_data_kind kind;
    trm_shape shape;                /* asked per-sample shape (C,H,W) or (F) where the file is flat; rank 0 = as stored */
    bool hwc;                       /* images are stored (N,H,W,C) */
    int64_t window;                 /* tokens per window */
    int64_t classes;                /* class labels / token ids must lie in 0..classes-1; 0 = not known, found from the file */
    bool float_target;              /* targets are numbers to regress, not classes */
    trm_target_rows target_rows;
    const trm_label *label_map;     /* classes that it does not name are a fault */
    int n_labels;                   /* 0: classes stay as they are */
    bool no_target;                 /* only the input is read, in the order of the file: for inference. Files need no target; a stream is cut in
                                       N / window windows, and rows of tokens may be (N,T) or (N,T+1) */
    int64_t first, count;           /* rows [first, first+count) of the whole list; count 0 = to the end */
    trm_data_cache cache;
    size_t cache_limit;             /* bytes that `auto` may keep in memory; 0 = a quarter of what is free, less for many copies */
    int copies;                     /* ranks of this node that will each keep their own; 0 = 1 */
    unsigned allow;                 /* TRM_ALLOW_...: what is refused otherwise. No file outside of the naming file's folder is ever read */
    bool untrusted;                 /* files of strangers: a child process under limits opens and reads all of them first, by stricter rules */
    const char *guard;              /* the program that is started for that, as PROGRAM data guard; NULL: the running one */
    trm_on_bad on_bad;              /* SKIP: every row is read once at open; samples that cannot be decoded, are not finite or have a class out
                                       of range are left out, counted and named in one warning */
    bool share;                     /* ranks that share memory will call trm_dataset_share */
    bool by_blocks;                 /* it will be read in window order: compressed data is no reason to warn */
    bool ignores;                   /* targets of class `ignore` are none: they may lie outside of the classes */
    int64_t ignore;
    trm_data_view view;
} trm_data_spec;

typedef struct trm_dataset trm_dataset;
#define TRM_FEED_DEPTH 3            /* slots of a feed where its spec does not say: how far it runs ahead */

/* What a data set offers, fixed at open. */
typedef struct trm_data_info {
    int64_t samples;
    trm_data_kind kind;             /* never AUTO */
    trm_shape x, y;                 /* canonical per-sample shapes: images (C,H,W); tokens (T); classes: rank 0 */
    trm_dtype x_type, y_type;       /* stored types after byte swap and widening of half types to float32 */
    bool x_hwc;                     /* raw samples lie (H,W,C) */
    bool y_is_class;                /* int classes or tokens; else float targets */
    int64_t classes;                /* as asked, else 1 + the largest label or token seen */
    int64_t x_stride, y_stride;     /* bytes from one raw sample to the next in a slot (token windows share bytes: y = x + one token) */
    int64_t y_offset;               /* token kinds without a target: y_raw = x_raw + y_offset; else -1 and y has its own buffer */
    int64_t skipped;                /* samples that are left out: `samples` does not count them */
    bool no_target;                 /* opened so: y_stride is 0 and y is not read; its shape is known but for float targets, which say (1) */
    uint64_t fingerprint;           /* shapes, types, counts, labels, a sample of the data and what is left out; not names or paths */
} trm_data_info;

/* Opens and checks every file: regular file, signature, links, types, shapes, lengths, label range, filters.  One sentence on a
 * fault (TRM_DATA) that names file and data set.  Rank 0's work. */
TRM_API trm_status trm_dataset_open(const trm_data_spec *spec, trm_dataset **out);
/* What PROGRAM data guard does: it limits its process, reads a question from the socket fd and answers there. */
TRM_API trm_status trm_dataset_guard(int fd);
/* The plan as plain bytes (trm_free), and back.  Unpack opens nothing but file descriptors, lazily. */
TRM_API trm_status trm_dataset_pack(const trm_dataset *d, void **bytes, size_t *n);
TRM_API trm_status trm_dataset_unpack(const void *bytes, size_t n, trm_dataset **out);
TRM_API void trm_dataset_close(trm_dataset *d);
/* Samples are read through these from now on: info shows their shape and stride behind them.  `fixed` is for every set; `random`, which
 * follows it, is drawn for by a feed only, and else takes its middle: a crop the centre, and nothing is flipped or erased.  A draw depends on
 * (seed, epoch, sample, place in `random`).  TRM_DATA where they do not fit the samples.  Local; not packed: each rank says it again. */
TRM_API trm_status trm_dataset_transform(trm_dataset *d, const trm_transform *fixed, int n_fixed, const trm_transform *random, int n_random);
TRM_API const char *trm_transform_name(trm_transform_kind k);   /* "center_crop" */

/* What the ranks of a node have in common, for a data set that is kept once on each of them. */
typedef struct trm_data_share {
    int rank, ranks;                /* of this node */
    /* Memory that all ranks of a node see, which outlives the data set; *out NULL on all ranks where there is no room.  Collective. */
    trm_status (*alloc)(void *ctx, size_t bytes, const char *what, void **out);
    /* All ranks leave with the worst status and its sentence. Collective. */
    trm_status (*agree)(void *ctx, trm_status mine);
    void *ctx;
} trm_data_share;
/* After opening and unpacking: ranks of a node decode and check disjoint parts of the input.  Does nothing where the plan does not ask
 * for it. Collective. */
TRM_API trm_status trm_dataset_share(trm_dataset *d, const trm_data_share *share);
TRM_API const trm_data_info *trm_dataset_info(const trm_dataset *d);
/* Path of its i-th file; NULL behind the last. */
TRM_API const char *trm_dataset_file(const trm_dataset *d, int i);
/* The number that a sample has where those that are left out count too. */
TRM_API int64_t trm_dataset_place(const trm_dataset *d, int64_t sample);
/* The first of those that are left out: "3, 17, 40 to 47, ..." */
TRM_API void trm_dataset_skipped(const trm_dataset *d, trm_str *out);
/* TRM_DATA, with the hint that helps, where samples do not have the shape that the model expects. */
TRM_API trm_status trm_dataset_expect(const trm_dataset *d, const trm_shape *input);
/* Raw bytes of the samples with these indices, behind the transforms if there are any, one after the other at x_stride / y_stride. Thread-safe for one caller a time. */
TRM_API trm_status trm_dataset_read(trm_dataset *d, const int64_t *sample, int64_t n, void *x, void *y);
/* Reads every byte: damaged chunks, non-finite values; the sentence names the sample. */
TRM_API trm_status trm_dataset_check(trm_dataset *d);

/* ---- statistics of the inputs ---------------------------------------------------------- */

/* One entry for each channel, of the numbers as they are stored. */
typedef struct trm_data_stats {
    int64_t channels, count;        /* count: elements of a channel that were seen; 0 = not known */
    double *mean, *std, *min, *max; /* std: of all of them, divided by their number */
} trm_data_stats;
/* What has a mean of its own: the channels of an image or volume, the last dimension of a vector or a sequence. */
static inline int64_t trm_data_channels(const trm_shape *x) { return trm_shape_channels(x); }
/* Is told now and then how many rows are read; a fault ends the reading. */
typedef trm_status (*trm_stats_fn)(void *ctx, int64_t done, int64_t rows);
/* Reads all rows, without transforms.  The same on any rank and from any layout of the file.  tell may be NULL. */
TRM_API trm_status trm_dataset_stats(trm_dataset *d, trm_stats_fn tell, void *ctx, trm_data_stats *out);
/* From an HDF5 file with mean, std, min, max of one length. */
TRM_API trm_status trm_data_stats_read(const char *path, trm_data_stats *out);
TRM_API void trm_data_stats_free(trm_data_stats *s);

/* Writes all samples as rows of a plain file: `input` (channels first) and `target`. */
TRM_API trm_status trm_dataset_dump(trm_dataset *d, const char *out);

/* ---- order -------------------------------------------------------------------------- */

#define TRM_ORDER_VERSION 1
#define TRM_DATA_MEMORY ((int64_t)128 << 20)    /* bytes of decoded blocks where `memory` is 0 */
typedef enum trm_shuffle {
    TRM_SHUFFLE_NONE,               /* as stored */
    TRM_SHUFFLE_EXACT,              /* one permutation of all */
    TRM_SHUFFLE_WINDOW,             /* blocks permuted and dealt to lanes, each of which permutes the samples of a few blocks at a time */
} trm_shuffle;
/* The order of an epoch (from 0) where it is none or exact: a pure function of (seed, epoch, n), Fisher-Yates on trm_rng_below.
 * out: n entries. */
TRM_API void trm_order_fill(trm_shuffle shuffle, uint64_t seed, int64_t epoch, int64_t n, int64_t *out);

/* What the window order of a data set is made of: a function of what is stored, of the batch and of `memory` (bytes of decoded blocks that
 * a rank may hold which computes everything; 0 = TRM_DATA_MEMORY), and never of what is free or of the ranks. */
typedef struct trm_data_window {
    int64_t blocks, block;          /* how many there are; samples of the largest */
    int lanes;
    int64_t window;                 /* blocks of a lane whose samples are permuted together */
    uint64_t print;                 /* of all this: equal prints, equal orders */
} trm_data_window;
TRM_API trm_status trm_data_window_of(const trm_dataset *d, int64_t batch, int64_t memory, trm_data_window *out);
/* The whole window order of `samples` in even blocks.  out: `samples` entries; update s has [s*batch, (s+1)*batch). */
TRM_API trm_status trm_order_window(int64_t samples, int64_t block, int64_t window, uint64_t seed, int64_t epoch, int64_t batch, int64_t *out);
/* The whole order of an epoch of this data set. */
TRM_API trm_status trm_dataset_order(const trm_dataset *d, trm_shuffle shuffle, uint64_t seed, int64_t epoch, int64_t batch, int64_t memory,
                                     int64_t *out);

/* ---- feed: a ring of ready slots ----------------------------------------------------- */

/* A rank's samples of one update: its slice of micro-batch 0, then of micro-batch 1, ... */
typedef struct trm_slot {
    int64_t epoch, update;          /* update within the epoch, from 0 */
    int64_t batch;                  /* global samples of this update (smaller for the last one) */
    int64_t n;                      /* this rank's samples */
    const int64_t *sample;          /* their global indices */
    const void *x_raw, *y_raw;
    double read_s;                  /* the reader's time for this slot */
    int index;                      /* the ring's */
} trm_slot;

/* Which part of a micro-batch of m samples this rank computes, for update `update` (within the run, from 0): pure. */
typedef void (*trm_cut_fn)(void *ctx, int64_t update, int64_t m, int64_t *begin, int64_t *count);

typedef struct trm_feed_spec {
    trm_shuffle shuffle;
    uint64_t seed;
    int64_t batch;                  /* global samples per update */
    int micro_batches;
    bool drop_last;
    int depth;                      /* slots in the ring, >= 2; 0 = 3 */
    int64_t max_samples;            /* most samples of one rank in one update; 0 = batch */
    trm_cut_fn cut;
    void *cut_ctx;
    int64_t memory;                 /* WINDOW: as trm_data_window_of */
    int threads;                    /* WINDOW: that read and decode; 0 = 1 */
} trm_feed_spec;
typedef struct trm_feed trm_feed;

/* Starts the reader thread.  The data set must outlive the feed. */
TRM_API trm_status trm_feed_open(trm_dataset *d, const trm_feed_spec *spec, trm_feed **out);
TRM_API void trm_feed_close(trm_feed *f);               /* stops the thread at once; accepts NULL */
TRM_API int64_t trm_feed_updates_per_epoch(const trm_feed *f);
/* Makes the reader go on at (epoch, update within it), for the run's update number run_update; drops what is in the ring. */
TRM_API trm_status trm_feed_seek(trm_feed *f, int64_t epoch, int64_t update, int64_t run_update);
/* The next slot in order; epochs follow each other without end.  Waits for the reader; wait_s gets the waiting time.  A fault of
 * the reader comes out here, with its sentence. */
TRM_API trm_status trm_feed_next(trm_feed *f, trm_slot *slot, double *wait_s);
TRM_API void trm_feed_release(trm_feed *f, const trm_slot *slot);
/* Updates that are read or being read: a change of shares may take effect only after them. */
TRM_API int64_t trm_feed_horizon(const trm_feed *f);

/* ---- HDF5 files of our own: checkpoints, imports, exports ----------------------------- */

typedef struct trm_h5_file trm_h5_file;
TRM_API trm_status trm_h5_create(const char *path, trm_h5_file **out);
TRM_API trm_status trm_h5_open(const char *path, trm_h5_file **out);
/* A whole data set; name may hold '/' (groups are made).  Every library code is checked. */
TRM_API trm_status trm_h5_write(trm_h5_file *f, const char *name, trm_dtype type, const trm_shape *shape, const void *bytes);
/* As above with rows appended later: chunked on dim 0, deflate level 0..9. */
TRM_API trm_status trm_h5_write_chunked(trm_h5_file *f, const char *name, trm_dtype type, const trm_shape *shape, const void *bytes,
                                int64_t chunk_rows, int deflate);
/* A data set that is filled in pieces, none of which need hold all of it: chunk_rows 0 = contiguous; growing: rows may be added. */
TRM_API trm_status trm_h5_make(trm_h5_file *f, const char *name, trm_dtype type, const trm_shape *shape, int64_t chunk_rows, int deflate,
                               bool growing);
TRM_API trm_status trm_h5_put(trm_h5_file *f, const char *name, trm_dtype type, int64_t first, int64_t rows, size_t row_bytes, const void *bytes);
/* Shape (rank <= TRM_MAX_DIMS) and type; TRM_DATA when there is none. */
TRM_API trm_status trm_h5_stat(trm_h5_file *f, const char *name, trm_dtype *type, trm_shape *shape);
/* Reads and converts a whole data set to `type`; its element count must be `count`. */
TRM_API trm_status trm_h5_read(trm_h5_file *f, const char *name, trm_dtype type, int64_t count, void *bytes);
TRM_API trm_status trm_h5_close(trm_h5_file *f);        /* reports what could not be written; the file is then not to be used */
TRM_API void trm_h5_drop(trm_h5_file *f);               /* closes without proof: of a file that nobody wants any more. Accepts NULL */
/* Text of what is in a file, one line per data set, and the job-file lines that would read it. */
TRM_API trm_status trm_h5_describe(const char *path, trm_str *out);

/* ---- import and synth: write HDF5 data sets ------------------------------------------- */

TRM_API trm_status trm_import_mnist(const char *images, const char *labels, const char *out, int64_t *samples);  /* IDX or IDX.gz -> data u8 (N,1,28,28), label */
TRM_API trm_status trm_import_text(const char *const *files, int n_files, const char *out, int64_t *tokens);     /* bytes -> tokens u8 (N) */
typedef enum trm_synth_kind { TRM_SYNTH_DIGITS, TRM_SYNTH_IMAGES, TRM_SYNTH_TOKENS, TRM_SYNTH_VECTORS } trm_synth_kind;
typedef struct trm_synth_spec {
    trm_synth_kind kind;            /* DIGITS: 1x28x28 learnable 10-class figures; IMAGES: 3x32x32 learnable 10-class; TOKENS: a learnable stream; VECTORS: regression */
    int64_t samples;
    uint64_t seed;
    int64_t chunk;                  /* rows per chunk, 0 = contiguous */
    int deflate;
} trm_synth_spec;
TRM_API trm_status trm_synth(const trm_synth_spec *spec, const char *out);

#endif
