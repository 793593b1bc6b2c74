/* view_impl: a view is a column whose samples are put together from boxes of one or several HDF5 data sets.
 *
 *   view_path.c   the paths of a job file -> sources     view_shape.c   facts -> shape of a sample, places in it
 *   view_open.c   files and groups -> units and samples  view_read.c    samples through the library
 *   view_plan.c   a view as bytes                        view_units.c   files, groups and lists of them
 */
#ifndef TRIREME_DATA_VIEW_IMPL_H
#define TRIREME_DATA_VIEW_IMPL_H

#include "data_impl.h"
#include <pthread.h>

#define TRM_VIEW_AXES 8

/* ---- h5_box.c ---- */

/* What a data set holds, or one member of its elements: `facts` are those of the data set, with the class and type of
 * the element, and with the dims of an element that is an array behind its own. */
typedef struct trm_h5_field {
    trm_h5_facts facts;
    int own_rank;                   /* dims of the data set itself */
    bool has_item;                  /* variable-length elements of numbers of type `item` */
    trm_dtype item;
} trm_h5_field;
/* member: "a" or "a.b" inside of compound elements, or NULL. */
trm_status trm_h5_field_of(trm_h5 *f, const char *set, const char *member, trm_h5_field *out);
/* The dims as they are now. */
trm_status trm_h5_dims(trm_h5 *f, const char *set, int64_t dim[TRM_H5_RANK], int *rank);

typedef enum trm_box_form {
    TRM_BOX_NUMBERS,
    TRM_BOX_PAIRS,                  /* complex numbers: pairs of two numbers */
    TRM_BOX_RAW16,                  /* the 16 bits of each element as they are */
} trm_box_form;
/* Reads elements [start, start + count) of each dim of the data set, converted to `type`; arrays and members whole. */
trm_status trm_h5_box(trm_h5 *f, const char *set, const char *member, const int64_t *start, const int64_t *count,
                      trm_dtype type, trm_box_form form, void *dst);
/* Row `row` of a data set of variable-length numbers: *n elements of `type`. */
trm_status trm_h5_vlen_row(trm_h5 *f, const char *set, int64_t row, trm_dtype type, void **buf, size_t *cap, size_t *n);

/* Each thing that lies directly in a group, in the order of names; false stops. */
trm_status trm_h5_children(trm_h5 *f, const char *group, trm_h5_visit visit, void *ctx);
/* The members of compound elements, NULL-terminated, as one block (trm_free). */
trm_status trm_h5_members(trm_h5 *f, const char *set, char ***names);
/* Each text of a data set of texts; false stops. */
typedef bool (*trm_h5_text)(void *ctx, const char *text);
trm_status trm_h5_texts(trm_h5 *f, const char *set, trm_h5_text see, void *ctx);
/* Whole numbers of an attribute of an object: how many there are, -1 where there is no such attribute. */
int trm_h5_attr_ints(trm_h5 *f, const char *object, const char *name, int64_t *out, int max);
bool trm_h5_attr_text(trm_h5 *f, const char *object, const char *name, char *buf, size_t cap);
/* The rows of `source` in a split of the root's attribute `split`, as Fuel writes it. */
trm_status trm_h5_fuel_split(trm_h5 *f, const char *split, const char *source, int64_t *first, int64_t *count);
/* Splits of that attribute: "train, test"; "" where there is none. */
void trm_h5_fuel_names(trm_h5 *f, trm_str *out);
/* A virtual data set reads fill values without a word where a source is missing: each is looked at before. */
trm_status trm_h5_virtual_check(trm_h5 *f, const char *set);

/* ---- a view ---- */

typedef enum trm_source_kind {
    TRM_SOURCE_BOX,
    TRM_SOURCE_CSR,                 /* rows of a sparse matrix, as dense ones */
    TRM_SOURCE_PICTURE,             /* a coded picture of each sample */
    TRM_SOURCE_VLEN,                /* a sequence of numbers of each sample */
    TRM_SOURCE_MASK,                /* 1 where the first source has data, 0 where it was padded */
    TRM_SOURCE_KINDS
} trm_source_kind;

typedef enum trm_source_form {
    TRM_FORM_NUMBERS,
    TRM_FORM_COMPLEX,               /* real part, imaginary part: `part` elements apart */
    TRM_FORM_MAGNITUDE,
    TRM_FORM_BF16,
    TRM_FORM_COUNT
} trm_source_form;

typedef enum trm_axis_role {
    TRM_AXIS_PIECE,                 /* all of it belongs to each sample */
    TRM_AXIS_SAMPLE,                /* one entry a sample */
    TRM_AXIS_TIME,                  /* a window of it */
    TRM_AXIS_LENGTH,                /* as many rows as the sample is long */
    TRM_AXIS_ROLES
} trm_axis_role;

typedef struct trm_view_axis {
    trm_axis_role role;
    int64_t stride;                 /* in the sample, elements */
    int64_t extent;                 /* of the file; the largest of all files where they differ */
    int64_t tile;                   /* PIECE: cut into tiles of so many; 0 = not cut */
    bool varies;                    /* files differ: the file is asked */
} trm_view_axis;

typedef struct trm_view_source {
    char *path;                     /* below the group of a unit, or from '/' */
    char *member;                   /* or NULL */
    int file;                       /* -1: the unit's */
    trm_source_kind kind;
    trm_source_form form;
    bool whole;                     /* every sample of a unit has all of it */
    int rank, own_rank;             /* with and without the dims of an element that is an array */
    trm_view_axis axis[TRM_VIEW_AXES];
    int pick_axis, n_pick;          /* chosen entries of one axis; n_pick 0: all */
    int64_t *pick;
    int64_t offset;                 /* of its first element in a sample */
    int64_t part;                   /* COMPLEX: from the real to the imaginary part */
    int64_t shift, steps;           /* TIME: first step, from the start of a window, and how many */
    int64_t width;                  /* CSR: columns; VLEN: longest */
    int64_t picture[3];             /* channels, height, width */
} trm_view_source;

typedef struct trm_view_unit {
    int file;
    char *group;                    /* "" = the root */
    int64_t samples;
    int64_t first;                  /* rows before the first one that is used */
    int64_t each;                   /* windows: so many for each row */
} trm_view_unit;

struct trm_view {
    int n_units, cap_units, n_sources;
    trm_view_unit *unit;
    trm_view_source *source;
    int64_t row_elems;
    trm_dtype type;
    bool pads;                      /* samples are filled before they are written */
    int64_t fill;                   /* with this number */
    int64_t grid[TRM_VIEW_AXES];    /* tiles along the cut axes, the first axis first */
    int n_grid;
    int64_t n_lengths;              /* LENGTH: of every sample its first row and how many */
    int64_t *row, *length;
    /* Not part of the plan: */
    int64_t *start;                 /* running sums of samples, n_units + 1 */
    pthread_mutex_t lock;
    bool ready;                     /* the lock is */
    trm_h5 *open;
    int open_file;
    void *box, *extra;
    size_t box_cap, extra_cap;
    trm_picture picture, fitted;
};

/* Columns of a path: "[0:14,-1]". */
typedef struct trm_view_path {
    char *file, *set, *member, *columns; /* file, member, columns: NULL where not given */
    bool csr, whole;
} trm_view_path;
/* "[csr:|whole:][FILE#]PATH[.member][columns]" cut at its marks; whether a dot belongs to the name is seen later. */
trm_status trm_view_path_read(const char *text, trm_view_path *out);
void trm_view_path_free(trm_view_path *p);
/* The entries of "0:14,-1" of an axis of n. */
trm_status trm_view_columns(const char *key, const char *columns, int64_t n, int64_t **pick, int *n_pick);

void trm_view_source_free(trm_view_source *s);
trm_status trm_view_index(struct trm_view *v);
/* Where sample i lies: its unit, and which of the unit's it is. */
int trm_view_unit_of(const struct trm_view *v, int64_t sample, int64_t *inside);
/* Name of a source's data set in a unit. */
void trm_view_set_name(const trm_view_source *s, const trm_view_unit *u, char *buf, size_t cap);

/* ---- view_shape.c ---- */

/* What the job says of the shape of samples. */
typedef struct trm_view_form {
    trm_data_join join;
    bool hwc;
    trm_shape shape, tile;
    bool lengths, mask, is_class;
    const char *key;                /* "input" */
    const char *path;               /* of the first file, for sentences */
} trm_view_form;
/* Roles and extents are known: sets strides, offsets, row_elems; *shape is the canonical shape of a sample. */
trm_status trm_view_shape(struct trm_view *v, const trm_view_form *form, trm_shape *shape);

/* ---- view_units.c ---- */

/* Files of the job and the units in them; x_plain: the files are in d already. Sets file, group and nothing else of a unit. */
trm_status trm_view_units(trm_dataset *d, const trm_data_spec *spec, bool x_plain, struct trm_view *v);
/* Opens a file of d, with what the job allows, and notes what it is. */
trm_status trm_view_begin(trm_dataset *d, int file, trm_h5 **out);
/* The number of a file that is named in a path; it is added to the files of d. */
trm_status trm_view_file(trm_dataset *d, const trm_data_spec *spec, const char *name, int *out);

/* ---- view_plan.c ---- */

trm_status trm_view_new(struct trm_view **out);
bool trm_view_holds(const struct trm_view *v, const trm_dataset *d);
void trm_view_pack(const struct trm_view *v, trm_str *s);
trm_status trm_view_unpack(const void *bytes, size_t n, struct trm_view **out);

#endif
