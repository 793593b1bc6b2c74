/* h5_impl: what the files that call HDF5 share.  Only they include this header. */
#ifndef TRIREME_DATA_H5_IMPL_H
#define TRIREME_DATA_H5_IMPL_H

#define H5_USE_110_API 1
#include "data_impl.h"
#include <hdf5.h>

struct trm_h5 {
    char *path;
    hid_t id;
    trm_probe probe; /* reading: an fd for pread; writing: for fsync */
    bool writing, broken;
    unsigned allow; /* TRM_ALLOW_... */
    hid_t set;      /* the data set used last */
    char *set_name;
};

/* Every call of the library stands between the two; they may be nested. */
void trm_h5_enter(void);
trm_status trm_h5_leave(trm_status s);
/* The file, and the data set `name`, which stays open until another one is asked for. */
hid_t trm_h5_id(const trm_h5 *f);
trm_status trm_h5_use(trm_h5 *f, const char *name, hid_t *set);
/* The same, kept in f->set: reading goes on in it, row after row. */
trm_status trm_h5_open_set(trm_h5 *f, const char *name);
void trm_h5_drop_set(trm_h5 *f);
/* "PATH: sentence (HDF5: its complaint)" */
trm_status trm_h5_complain(const trm_h5 *f, trm_status s, const char *fmt, ...) TRM_PRINTF(3, 4);
/* "PATH: 'NAME' TEXT (HDF5: its complaint)" */
trm_status trm_h5_fault(const trm_h5 *f, const char *name, const char *text);
/* A type of ours, in the file (little-endian) or in memory (the machine's order); the caller closes it. */
hid_t trm_h5_own_type(trm_dtype type, bool in_file);
/* Class, type and text of a type. */
void trm_h5_type_facts(hid_t t, trm_h5_facts *out);
/* The shape of a virtual data set whose sources have been looked at. */
trm_status trm_h5_shape_facts(trm_h5 *f, const char *name, trm_h5_facts *out);
/* Rows of the data set in use: the file's space with them selected, and a memory space for them. */
bool trm_h5_row_spaces(trm_h5 *f, int64_t first, int64_t count, hid_t *file, hid_t *memory);
void trm_h5_close_spaces(hid_t file, hid_t memory);
/* Sizes as the library takes them; `rank`.  It knows only ranks up to 32: arrays on the stack will do. */
int trm_h5_sizes(const int64_t *from, int rank, hsize_t *to);

#endif
