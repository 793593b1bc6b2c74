/* data_impl: what the files of this room share.
 *
 *   files.c    names, patterns and lists -> paths          h5*.c     call HDF5: h5_facts.c, h5_rows.c, h5_box.c,
 *                                                                    h5_group.c, h5_where.c (of chunks), h5_write.c
 *   probe.c    a path before HDF5 sees it                  judge.c   facts -> the sentence that says why not
 *   layout.c   facts -> how ranks read without HDF5        h5_file.c files of our own, written with proof
 *   open.c     spec -> data set, checks of the values      plan.c    the plan as bytes, and its rules
 *   decode.c   filters, byte order, widening               read.c    rows by pread (bands.c: of chunks)
 *   bytes.c    words and texts of a plan as bytes, and back  keep.c, gather.c  columns in memory; requests
 *   order.c    order of an epoch                           feed.c    ring of ready slots
 *   target.c   one-hot rows and maps of labels -> classes
 *   augment.c  what is done to images behind the reading   moments.c mean, deviation, range of the inputs
 *   lanes.h    what `shuffle: window` needs besides
 *   view_*.c   samples that are no plain rows (view_impl.h)
 *   dump.c     samples as plain rows                       advise.c   lines of a job for such files
 *   describe.c what is in a file                           synth.c    made-up data sets
 *   make_impl.h, import_*.c ...  other formats -> HDF5, data sets out of data sets
 *   picture.c  PNG and JPEG -> pixels, scaled and cropped
 *   bad.c      samples that are left out                  guard.c   files of strangers, in a process of their own
 *   links.c    where a name leads, if links are allowed
 */
#ifndef TRIREME_DATA_IMPL_H
#define TRIREME_DATA_IMPL_H

#include <trireme/data.h>

#define TRM_MIB ((size_t)1 << 20)
#define TRM_GIB ((size_t)1 << 30)
#define TRM_DEFLATE_MOST 1040       /* deflate cannot shrink more than 1032 times */

/* ---- files.c -------------------------------------------------------------------------- */

typedef struct trm_path {
    char *path;
    char *origin;                   /* "list.txt line 4", NULL where the name was given directly */
} trm_path;
typedef struct trm_paths {
    trm_path *at;
    int n, cap;
} trm_paths;
/* Warns of files that are named twice; _read does not. */
trm_status trm_paths_expand(const char *const *names, int n, trm_paths *out);
trm_status trm_paths_read(const char *const *names, int n, trm_paths *out);
void trm_paths_free(trm_paths *p);

/* ---- probe.c: no call of HDF5 --------------------------------------------------------- */

typedef struct trm_probe {
    int fd;                         /* open for reading */
    int64_t size, changed;          /* bytes; time of the last change, ns */
    int64_t user_block;             /* where the signature stands */
} trm_probe;
/* Opens a regular file that starts like an HDF5 file and is not cut short; never blocks. */
trm_status trm_probe_file(const char *path, trm_probe *out);
/* Opens a regular file; never blocks on a pipe or device. TRM_DATA sentence. */
trm_status trm_open_regular(const char *path, int *fd, int64_t *size);
/* Time of the last change of an open file, ns; 0 where it cannot be told. */
int64_t trm_time_of(int fd);
/* Exactly n bytes at `offset`; `path` is for the sentence. */
trm_status trm_pread_all(int fd, const char *path, void *dst, size_t n, uint64_t offset);

/* ---- h5.c: facts, without judgement ---------------------------------------------------- */

#define TRM_H5_RANK 32
#define TRM_H5_FILTERS 16
#define TRM_NO_ADDRESS UINT64_MAX
/* Chunks of one data set whose places are kept: 16 MiB of them. */
#define TRM_H5_TABLE_LIMIT ((int64_t)1 << 20)

/* A file open for reading or writing. */
typedef struct trm_h5 trm_h5;
trm_status trm_h5_begin(const char *path, bool writing, trm_h5 **out);
/* Flushes, syncs and closes; reports what could not be written. Accepts NULL. */
trm_status trm_h5_end(trm_h5 *f);
const char *trm_h5_path(const trm_h5 *f);
const trm_probe *trm_h5_probe(const trm_h5 *f);
int64_t trm_h5_size(const trm_h5 *f);
const char *trm_h5_library(void);   /* "HDF5 1.10.8" */
bool trm_h5_library_before(unsigned major, unsigned minor, unsigned release);
/* TRM_ALLOW_... that the job gives this file; 0 where nobody said. */
void trm_h5_allow(trm_h5 *f, unsigned allow);
unsigned trm_h5_allowed(const trm_h5 *f);
/* From now on, for the whole process: the library knows no less. */
void trm_h5_allow_plugins(void);

typedef enum trm_h5_kind {
    TRM_H5_MISSING,
    TRM_H5_DATASET,
    TRM_H5_GROUP,
    TRM_H5_TYPE,                    /* a committed data type */
    TRM_H5_BROKEN,                  /* a plain link to what cannot be opened */
    TRM_H5_SOFT,
    TRM_H5_EXTERNAL,
    TRM_H5_USER
} trm_h5_kind;

/* Where a path leads, walked part by part without following any link that is not hard. */
typedef struct trm_h5_found {
    trm_h5_kind kind;
    char at[256];                   /* the part of the path that was reached */
    char target[512];               /* of a soft or external link ("file:/path") */
    size_t target_file;             /* external: bytes of the file's name in `target` */
    bool target_exists;             /* soft links only */
} trm_h5_found;

typedef enum trm_h5_class {
    TRM_H5_NUMBER,
    TRM_H5_STRING,
    TRM_H5_VLEN_STRING,
    TRM_H5_VLEN,
    TRM_H5_COMPOUND,
    TRM_H5_COMPLEX,
    TRM_H5_REFERENCE,
    TRM_H5_OPAQUE,
    TRM_H5_BITFIELD,
    TRM_H5_ARRAY,
    TRM_H5_TIME,
    TRM_H5_ODD                      /* a number that is none of trm_dtype's */
} trm_h5_class;

typedef enum trm_h5_layout {
    TRM_H5_CONTIGUOUS,
    TRM_H5_CHUNKED,
    TRM_H5_COMPACT,
    TRM_H5_VIRTUAL
} trm_h5_layout;

typedef struct trm_h5_filter {
    int id;
    char name[64];
    uint32_t param;                 /* the first value of the filter: shuffle's element size */
    bool available;
} trm_h5_filter;

typedef struct trm_h5_facts {
    trm_h5_class cls;
    char type_text[200];            /* "float32", "3-byte strings", "compound {x float32[3], e float64}" */
    trm_dtype type;                 /* of a NUMBER */
    size_t type_bytes;
    bool swap;                      /* stored in the other byte order */
    int rank;                       /* -1: no dataspace ("null"), 0: scalar */
    int64_t dim[TRM_H5_RANK];
    trm_h5_layout layout;
    int n_external;
    char external[256];             /* the first file of external raw storage, or of the sources of a virtual data set */
    bool source_missing;            /* ... that is not there */
    uint64_t offset;                /* contiguous: where the bytes lie, TRM_NO_ADDRESS where nowhere */
    uint64_t stored;                /* bytes that the data set occupies */
    int64_t chunk[TRM_H5_RANK];
    int64_t chunks_written;
    bool odd_edges;                 /* edge chunks are stored without the filters */
    int n_filters;
    trm_h5_filter filter[TRM_H5_FILTERS];
    unsigned char fill[8];          /* one element, as stored */
} trm_h5_facts;

trm_status trm_h5_look(trm_h5 *f, const char *name, trm_h5_found *out);
/* The i-th file of external raw storage: its name, and the bytes [*offset, *offset + *bytes) of it. */
trm_status trm_h5_external(trm_h5 *f, const char *name, int i, char *file, size_t cap, uint64_t *offset,
                           uint64_t *bytes);
/* The facts of the data set `name`, which trm_h5_look has found. */
trm_status trm_h5_facts_of(trm_h5 *f, const char *name, trm_h5_facts *out);
/* Visits what lies below `group` ("/" = all), in the order of names; false stops. */
typedef bool (*trm_h5_visit)(void *ctx, const char *path, trm_h5_kind kind);
trm_status trm_h5_list(trm_h5 *f, const char *group, int depth, trm_h5_visit visit, void *ctx);

typedef struct trm_chunk {
    uint64_t offset;                /* in the file; TRM_NO_ADDRESS: never written */
    uint32_t bytes, mask;           /* stored bytes; filters that were skipped */
} trm_chunk;
/* Fills the table of a chunked data set, in row-major order of the grid of n chunks, as the library tells it. */
trm_status trm_h5_chunk_table(trm_h5 *f, const char *name, const trm_h5_facts *facts, trm_chunk *table, int64_t n);
/* The same without the lock (h5_where.c). */
bool trm_h5_find_chunks(const char *path, const char *name, const trm_h5_facts *facts, trm_chunk *table, int64_t n);
/* The stored bytes of the chunk whose first element is `corner`; *bytes = 0 where it was never written.
 * *buf of *cap bytes grows where it is too small. */
trm_status trm_h5_raw_chunk(trm_h5 *f, const char *name, const int64_t *corner, void **buf, size_t *cap,
                            size_t *bytes, uint32_t *mask);
/* Rows [first, first + count) as stored, decoded by the library. */
trm_status trm_h5_rows(trm_h5 *f, const char *name, int64_t first, int64_t count, void *raw);

/* The same, converted by the library to a type of ours. */
trm_status trm_h5_rows_as(trm_h5 *f, const char *name, trm_dtype type, int64_t first, int64_t count, void *dst);

/* A new data set; chunk_rows 0: contiguous; growing: rows may be added. */
trm_status trm_h5_new_set(trm_h5 *f, const char *name, trm_dtype type, const trm_shape *shape, int64_t chunk_rows,
                          int deflate, bool growing);
/* How a copy is stored; all zero: contiguous. */
typedef struct trm_h5_store {
    int64_t chunk_rows;             /* 0: no chunks */
    int deflate;                    /* level, 0: none */
    bool shuffle;
} trm_h5_store;
/* A new data set with the type of `like` in `from` and its shape, but for `rows`. */
trm_status trm_h5_new_like(trm_h5 *f, const char *name, trm_h5 *from, const char *like, int64_t rows,
                           const trm_h5_store *how);
/* A new data set of n texts of `width` bytes, filled up with zeros. */
trm_status trm_h5_new_texts(trm_h5 *f, const char *name, int64_t n, size_t width);
/* Rows in the type that the file stores. */
trm_status trm_h5_write_stored(trm_h5 *f, const char *name, int64_t first, int64_t rows, const void *bytes);
/* Rows of sequences and texts of any length: what trm_h5_rows reads of them leads to memory of the library. */
typedef enum trm_h5_ragged { TRM_H5_EVEN, TRM_H5_SEQUENCES, TRM_H5_TEXTS, TRM_H5_NESTED } trm_h5_ragged;
/* item: bytes of a number of a sequence. */
trm_h5_ragged trm_h5_ragged_of(trm_h5 *f, const char *name, size_t *item);
/* A sum of what the elements hold, wherever it lies. */
uint64_t trm_h5_ragged_sum(trm_h5_ragged kind, size_t item, const void *elements, size_t bytes);
/* Gives that memory back. */
void trm_h5_ragged_free(trm_h5 *f, const char *name, int64_t rows, void *elements);
/* The attributes of a data set, or of the file ("/"), but for references. */
trm_status trm_h5_copy_notes(trm_h5 *f, const char *name, trm_h5 *from, const char *like);
trm_status trm_h5_set_rows(trm_h5 *f, const char *name, int64_t rows);
trm_status trm_h5_write_rows(trm_h5 *f, const char *name, trm_dtype type, int64_t first, int64_t rows, const void *bytes);

/* ---- h5_file.c: files of our own, written with proof ------------------------------------- */

/* Writes a file aside, proves it and puts it under its name. */
typedef trm_status (*trm_h5_fill)(trm_h5_file *f, const void *ctx);
trm_status trm_h5_replace(const char *path, trm_h5_fill fill, const void *ctx);
/* USAGE sentence where it could not: asked before long work. */
trm_status trm_h5_output(const char *path);
/* As trm_h5_new_like and trm_h5_new_texts; rows for them, as they are stored. */
trm_status trm_h5_make_like(trm_h5_file *f, const char *name, trm_h5 *from, const char *like, int64_t rows,
                            const trm_h5_store *how);
trm_status trm_h5_make_texts(trm_h5_file *f, const char *name, int64_t n, size_t width);
trm_status trm_h5_put_stored(trm_h5_file *f, const char *name, int64_t first, int64_t rows, size_t row_bytes,
                             const void *bytes);
trm_status trm_h5_note_like(trm_h5_file *f, const char *name, trm_h5 *from, const char *like);

/* ---- plan.c --------------------------------------------------------------------------- */

#define TRM_STRETCH_RANK (TRM_MAX_DIMS + 1)
#define TRM_STRETCH_FILTERS 8
#define TRM_BAND_LIMIT TRM_GIB      /* most bytes of one chunk, and of one band of chunks */

enum { TRM_FILTER_DEFLATE = 1, TRM_FILTER_SHUFFLE = 2, TRM_FILTER_FLETCHER = 3, TRM_FILTER_LZF = 32000 };

typedef enum trm_layout {
    TRM_LAY_CONTIGUOUS,             /* pread at `offset` */
    TRM_LAY_CHUNKED,                /* pread through the table, own decoding */
    TRM_LAY_CALLS,                  /* the library hands out stored chunks, own decoding */
    TRM_LAY_LIBRARY,                /* the library reads rows */
    TRM_LAY_VIEW,                   /* samples of a view, put together from boxes */
    TRM_LAY_COUNT
} trm_layout;

typedef struct trm_filter {
    int32_t id;
    uint32_t param;
} trm_filter;

/* One HDF5 data set of one file: a stretch of a column. */
typedef struct trm_stretch {
    int file;
    char *name;                     /* where links led; NULL: the column's */
    trm_layout layout;
    trm_dtype stored;
    bool swap;
    int rank;
    int64_t dim[TRM_STRETCH_RANK], chunk[TRM_STRETCH_RANK];
    uint64_t offset;
    int n_filters;
    trm_filter filter[TRM_STRETCH_FILTERS];
    unsigned char fill[8];
    int64_t n_chunks;
    trm_chunk *table;               /* TRM_LAY_CHUNKED only */
    int64_t first, rows;            /* the rows that are used */
} trm_stretch;

/* x or y: the parts of all files, one after the other. */
typedef struct trm_column {
    char *name;
    trm_dtype type;                 /* what readers get: half types widened, float classes as int64 */
    int64_t row_elems;
    int n_parts, cap_parts;
    trm_stretch *part;
    int64_t *start;                 /* n_parts + 1 running sums of rows */
    unsigned char *cache;           /* all rows, decoded; or NULL */
    bool borrowed;                  /* ... in memory that is not ours */
    struct trm_view *view;          /* TRM_LAY_VIEW: what its one part is made of; else NULL */
} trm_column;

typedef struct trm_data_file {
    char *path;
    int64_t size, changed;          /* bytes, and time of the last change in ns, when it was opened: others later are another file */
} trm_data_file;

/* Entries [first, first + count) of a list; spans are in order and do not touch. */
typedef struct trm_span {
    int64_t first, count;
} trm_span;
typedef struct trm_spans {
    trm_span *at;
    int64_t n, cap;
} trm_spans;

/* From the sample `from` on, `skipped` that are left out lie in front. */
typedef struct trm_gap {
    int64_t from, skipped;
} trm_gap;

/* read.c's */
typedef struct trm_reader trm_reader;
/* augment.c's */
typedef struct trm_augment trm_augment;

struct trm_dataset {
    trm_data_info info;
    int n_files, cap_files;         /* cap 0: there is room for n_files */
    trm_data_file *file;
    trm_column x, y;
    bool has_y, view_y;             /* view_y: y is a view */
    bool ignores;                   /* targets of class `ignore` are none; not part of the plan */
    int64_t ignore;
    trm_target_rows y_rows;         /* what is stored as y; readers get class numbers */
    trm_label *label;               /* in the order of `from` */
    int n_labels;
    unsigned char *y_row;           /* room for one stored row where it has to be turned into a class */
    bool keep_x, keep_y;            /* the column is to be kept in memory */
    bool must_keep;                 /* ... by the user's word, whatever is free */
    bool share;                     /* x is to be kept once on each node: trm_dataset_share is still to come */
    bool check_x;                   /* values of x are checked while they are read */
    unsigned allow;                 /* TRM_ALLOW_... */
    bool strict;                    /* the files are of strangers: guard.c's rules hold */
    int report;                     /* strict: where to say which file is opened next */
    int64_t *window_start;          /* token streams: running sums of samples, n_parts + 1 */
    trm_spans bad;                  /* rows of both columns that are left out */
    trm_gap *gap;                   /* the same in samples */
    int64_t n_gaps;
    size_t budget;                  /* bytes for decoded bands where a column is not kept */
    bool scattered;                 /* whole blocks are read, one here and one there: the kernel is not to read on behind them */
    trm_reader *reader;
    trm_augment *augment;           /* NULL: samples stay as they are read */
};

static inline const char *trm_set_name(const trm_column *c, const trm_stretch *p) { return p->name ? p->name : c->name; }
static inline int64_t trm_rows(const trm_column *c) { return c->start[c->n_parts]; }
static inline size_t trm_row_bytes(const trm_column *c) { return (size_t)c->row_elems * trm_dtype_size(c->type); }
static inline size_t trm_stored_row_bytes(const trm_column *c, const trm_stretch *p) {
    return (size_t)c->row_elems * trm_dtype_size(p->stored);
}
int64_t trm_stretch_grid(const trm_stretch *p);                       /* number of chunks of the whole grid */
/* Bytes of one band: all chunks of one row of the grid, whole. false on overflow or above the limit. */
bool trm_stretch_band_bytes(const trm_stretch *p, size_t *bytes);
/* Running sums, window_start and the counts that follow from them. */
trm_status trm_plan_index(trm_dataset *d);
/* Every rule that a plan keeps, whoever made it. */
trm_status trm_plan_check(const trm_dataset *d);
void trm_column_free(trm_column *c);
void trm_stretch_free(trm_stretch *p);

/* ---- decode.c -------------------------------------------------------------------------- */

typedef struct trm_decoder trm_decoder;
trm_status trm_decoder_new(trm_decoder **out);
void trm_decoder_free(trm_decoder *z);
/* The stored bytes of one chunk through its filters backwards into exactly `want` bytes.  The sentence says
 * what is damaged; the caller says where. */
trm_status trm_decode_chunk(trm_decoder *z, const trm_filter *filter, int n_filters, uint32_t mask,
                            const void *stored, size_t bytes, void *dst, size_t want);
void trm_swap_elements(void *p, int64_t n, size_t size);
/* Stored elements -> elements of the column. src is swapped in place where the file's order is the other;
 * dst may be src where both types are one. */
void trm_to_column(const trm_stretch *p, trm_dtype type, void *src, int64_t n, void *dst);
/* Index of the first element that is not finite, or -1. */
int64_t trm_first_nonfinite(const void *p, trm_dtype type, int64_t n);

/* ---- read.c ---------------------------------------------------------------------------- */

trm_status trm_reader_new(trm_dataset *d);
void trm_reader_free(trm_dataset *d);
/* Decoded rows [first, first + n) of a column, from memory where it is kept. */
trm_status trm_column_rows(trm_dataset *d, trm_column *c, int64_t first, int64_t n, void *dst);
/* The targets alone. */
trm_status trm_dataset_read_y(trm_dataset *d, const int64_t *sample, int64_t n, void *y);
/* Loads the columns that are to be kept; checks x where check_x. Does nothing the second time. */
trm_status trm_dataset_load(trm_dataset *d);
/* As trm_dataset_read, without the transforms: samples at info.x_stride of the dataset itself. */
trm_status trm_dataset_read_raw(trm_dataset *d, const int64_t *sample, int64_t n, void *x, void *y);
/* How many of the samples [first, first + most), which lie in one file, are read together, and the rows of x that hold them. */
int64_t trm_sample_rows(const trm_dataset *d, int64_t first, int64_t most, int64_t *row, int64_t *rows);
/* Bytes from one sample to the next where they are read so, one behind the other. */
int64_t trm_dataset_step(const trm_dataset *d);
/* Asks the kernel for the bytes of rows that will be read soon.  What goes wrong is met when they are read. */
void trm_column_ahead(trm_dataset *d, const trm_column *c, int64_t first, int64_t n);
/* Copies n pieces from anywhere, each to its place. */
void trm_gather(void *dst, size_t stride, const unsigned char *const *from, int64_t n, size_t bytes);
/* The file and row of a row of a column. */
void trm_row_place(const trm_dataset *d, const trm_column *c, int64_t row, const char **path, int64_t *in_file);

/* The names that are looked for where none is given (open.c). */
extern const char *const trm_input_names[], *const trm_target_names[];

/* ---- open.c / judge.c ------------------------------------------------------------------- */

/* Looks `name` up (or the first of `common` where name is NULL) and hands out its facts and name.  A hint never names
 * `taken`, the other column (NULL: none). */
trm_status trm_judge_find(trm_h5 *f, const char *key, const char *name, const char *taken, const char *const *common,
                          char **found, trm_h5_facts *facts);
/* The name among the common ones that is there. */
const char *trm_judge_pick(trm_h5 *f, const char *const *common);
/* Looks `name` up likewise, whatever its type; *found is its name. */
trm_status trm_judge_look(trm_h5 *f, const char *key, const char *name, const char *taken, const char *const *common,
                          char **found);
/* Refuses storage that cannot be read: external, damaged, with a filter that is not there. */
trm_status trm_judge_storage(trm_h5 *f, const char *name, const trm_h5_facts *facts);
/* Refuses types and storage that no column may have. */
trm_status trm_judge_set(trm_h5 *f, const char *name, const char *key, const trm_h5_facts *facts);
/* layout.c: facts -> part with its layout and table; warns of chunks that were never written. */
trm_status trm_layout_stretch(trm_h5 *f, const char *name, const trm_h5_facts *facts, int file, trm_stretch *out);
/* "(40,3,8,8)" of the facts' dims from `from` on; buf of >= 128 bytes. */
const char *trm_dims_text(const int64_t *dim, int rank, int from, char *buf, size_t cap);
/* "gzip" */
const char *trm_filter_text(const trm_h5_filter *f);
/* "uint8 (40,3,8,8)" */
void trm_facts_text(const trm_h5_facts *facts, trm_str *out);

/* ---- links.c ---------------------------------------------------------------------------- */

/* Where `name` leads when links are followed: *out in *other, or in f itself where that is NULL. */
trm_status trm_follow(trm_h5 *f, const char *name, trm_h5 **other, char **out);
/* The plain file `name` in the folder of `from` or below, reached without a link or a step up. */
trm_status trm_beneath(const char *from, const char *name, char **out, int64_t *size);
/* Are all files of external raw storage such, and long enough? */
trm_status trm_judge_external(trm_h5 *f, const char *name, const trm_h5_facts *facts);

/* ---- bad.c ------------------------------------------------------------------------------ */

/* Finds what is bad in a set whose index is made, warns of it and makes the index anew. */
trm_status trm_bad_find(trm_dataset *d);
/* info.samples counts all of them: from here on only those that are left. */
trm_status trm_bad_index(trm_dataset *d);
/* Of rows [row, row + n): *bad that are left out, then as many good ones as it returns. */
int64_t trm_good_rows(const trm_dataset *d, int64_t row, int64_t n, int64_t *bad);
void trm_spans_free(trm_spans *s);

/* ---- guard.c ---------------------------------------------------------------------------- */

/* The set that a child process opened and read through; see there. */
trm_status trm_guard_open(const trm_data_spec *spec, trm_dataset **out);
/* In the child: opens by the stricter rules, and says on `report` what it opens. */
trm_status trm_dataset_open_strictly(const trm_data_spec *spec, int report, trm_dataset **out);
void trm_guard_opening(int report, const char *path);
/* The stricter rules: before the library is asked where the bytes lie, and after. */
trm_status trm_guard_facts(const char *path, const char *name, const trm_h5_facts *facts);
trm_status trm_guard_layout(const char *path, const char *name, const trm_stretch *part);

/* ---- view_open.c, view_read.c: samples that are no plain rows ------------------------------ */

/* Whether the input or the target asks for more than rows of one data set. */
trm_status trm_view_wanted(const trm_data_spec *spec, bool *x, bool *y);
/* The sentence where a spec asks for that. */
trm_status trm_view_refuse(const trm_data_spec *spec);
/* Opens the columns that are views; x_plain: x has been opened as rows already. */
trm_status trm_view_open(trm_dataset *d, const trm_data_spec *spec, bool x_plain);
/* Samples [first, first + n) of a column that is a view. */
trm_status trm_view_rows(const trm_dataset *d, const trm_column *c, int64_t first, int64_t n, void *dst);
void trm_view_place(const trm_dataset *d, const struct trm_view *v, int64_t sample, const char **path, int64_t *in_file);
int64_t trm_view_samples(const struct trm_view *v);
void trm_view_free(struct trm_view *v);
/* May a target of shape y be one class for each position of samples of shape x? */
bool trm_is_class_map(const trm_shape *x, const trm_shape *y);
trm_status trm_settle_map(trm_dataset *d, const trm_shape *y);
/* The path of the first target or input that the spec names, or NULL. */
const char *trm_spec_path(const trm_data_spec *spec, bool target);

/* ---- advise.c --------------------------------------------------------------------------- */

/* Job-file lines for samples that are put together; false where the file shows none. */
bool trm_advise(trm_h5 *f, char *const *path, size_t n, trm_str *out);

/* ---- check.c: the values ----------------------------------------------------------------- */

/* Labels, float targets; sets info.classes where it is 0 and the target says it. */
trm_status trm_check_y(trm_dataset *d);
/* Float labels are whole numbers: the column still has its float type. */
trm_status trm_check_whole(trm_dataset *d);
/* Sets info.classes from all tokens. */
trm_status trm_count_tokens(trm_dataset *d);
/* All rows of x: finite, tokens below info.classes. */
trm_status trm_check_x(trm_dataset *d);
/* The same for n rows from `row` on that are in memory. */
trm_status trm_check_x_rows(const trm_dataset *d, int64_t row, const void *rows, int64_t n);
/* Adds to the sentence how many samples are bad. */
trm_status trm_count_bad(trm_dataset *d, trm_status s);
trm_status trm_fingerprint(trm_dataset *d);

/* 64-bit sum of bytes, fast; not for fingerprints that are kept. */
uint64_t trm_sum64(const void *bytes, size_t n);

/* ---- picture.c: PNG and JPEG ----------------------------------------------------------- */

/* A picture in memory, rows of pixels (H,W,C), 8 bits a value.  Starts as {0}; its buffer grows and is used again. */
typedef struct trm_picture {
    int64_t h, w;
    int c;                          /* 1 grey; 3 red, green, blue */
    unsigned char *bytes;
    size_t cap;
    void *jpeg;                     /* the decoder, once it was needed */
} trm_picture;
/* h, w, c from the head of a file's bytes; no pixels.  All sentences: TRM_DATA, without a name before them. */
trm_status trm_picture_look(const void *bytes, size_t n, trm_picture *out);
/* The pixels with want_c channels, 1 or 3; 0: as stored.  Alpha is left out. */
trm_status trm_picture_decode(const void *bytes, size_t n, int want_c, trm_picture *out);
/* The largest part of the shape h x w, from the middle, scaled to it (bilinear, averaged where it gets smaller). */
trm_status trm_picture_fit(const trm_picture *p, int64_t h, int64_t w, trm_picture *out);
/* (H,W,C) -> (C,H,W) */
void trm_picture_planes(const trm_picture *p, unsigned char *dst);
void trm_picture_free(trm_picture *p);

/* ---- target.c --------------------------------------------------------------------------- */

/* Are stored targets something else than the classes that readers get? */
static inline bool trm_maps_target(const trm_dataset *d) { return d->y_rows != TRM_TARGET_PLAIN || d->n_labels > 0; }
trm_status trm_target_spec(trm_dataset *d, const trm_data_spec *spec);
/* Memory for reading; once the columns are known. */
trm_status trm_target_room(trm_dataset *d);
/* The rules of a plan. */
bool trm_target_holds(const trm_dataset *d);
/* The class of a stored row of y. */
trm_status trm_target_class(const trm_dataset *d, int64_t row, const void *raw, int64_t *out);
trm_status trm_target_read(trm_dataset *d, int64_t row, int64_t *out);

/* ---- augment.c -------------------------------------------------------------------------- */

/* What draws depend on, besides the sample and the transform. */
typedef struct trm_draw {
    uint64_t seed;
    int64_t epoch;
} trm_draw;
/* n raw samples, one behind the other, become samples at the stride of trm_augment_info.  draw NULL: the middle.  `raw` is worked on; where
 * trm_augment_in_place it may be x.  No memory is taken: scratch has trm_augment_scratch bytes, aligned as by trm_alloc. */
void trm_augment_run(const trm_augment *a, const trm_draw *draw, const int64_t *sample, int64_t n, char *raw, char *x, char *scratch);
size_t trm_augment_scratch(const trm_augment *a);
size_t trm_augment_raw(const trm_augment *a);   /* bytes of a raw sample */
bool trm_augment_in_place(const trm_augment *a);
const trm_data_info *trm_augment_info(const trm_augment *a);
void trm_augment_free(trm_augment *a);          /* accepts NULL */

/* ---- order.c --------------------------------------------------------------------------- */

/* trm_order_fill in steps: draws [from, to) of the n - 1 exchanges, after trm_order_start. */
void trm_order_start(int64_t n, int64_t *out);
void trm_order_draw(uint64_t seed, int64_t epoch, int64_t n, int64_t *out, int64_t from, int64_t to);
/* The same exchanges of any n entries, by a key of one's own. */
void trm_order_draw_key(const trm_rng_key *key, int64_t n, int64_t *out, int64_t from, int64_t to);

#endif
