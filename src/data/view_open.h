/* view_open: what the files that build a view share. */
#ifndef TRIREME_DATA_VIEW_OPEN_H
#define TRIREME_DATA_VIEW_OPEN_H

#include "view_impl.h"

#define TRM_VIEW_MOST_SOURCES (TRM_VIEW_AXES * 8)

/* One column while it is built. */
typedef struct trm_view_side {
    trm_dataset *d;
    const trm_data_spec *spec;
    bool target, same; /* same: the target of a window is what the input goes on as */
    struct trm_view *v;
    const struct trm_view *given; /* counts samples where no data set of this column does */
    trm_h5_facts first;           /* of the first data set */
    trm_dtype type[TRM_VIEW_MOST_SOURCES];
    int n_types;
    bool checked; /* the first unit has been seen */
} trm_view_side;

static inline const char *trm_view_key(const trm_view_side *x) { return x->target ? "target" : "input"; }

/* ---- view_want.c: the paths that a job gives for a column ---- */

const char *const *trm_view_paths(const trm_data_spec *spec, bool target, int *n);

/* ---- view_source.c ---- */

trm_status trm_view_add_source(struct trm_view *v, trm_view_source **out);
/* The path of a job, as a source of x; what it says of columns goes into `columns`. */
trm_status trm_view_make_source(trm_view_side *x, const char *path, trm_str *columns);
/* Opens the file in which a source lies in this unit; the caller closes it. */
trm_status trm_view_open_for(trm_view_side *x, const trm_view_source *s, const trm_view_unit *u, trm_h5 **out);
/* Refuses a member that the records of `name` have not. */
trm_status trm_view_check_member(trm_h5 *f, const char *name, const char *member, const char *key);
/* That sentence, with the nearest name. */
trm_status trm_view_no_member(trm_h5 *f, const char *name, const char *member, const char *key);

/* ---- view_scan.c ---- */

/* Looks at the data sets of every unit of x: shapes, types, samples, lengths. */
trm_status trm_view_scan_units(trm_view_side *x);

#endif
