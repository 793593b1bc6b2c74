/* h5_impl: what the files that call HDF5 share.  Only they include this header. */
#ifndef TRIREME_DATA_H5_IMPL_H
#define TRIREME_DATA_H5_IMPL_H

#define H5_USE_110_API 1
#include "data_impl.h"
#include <hdf5.h>

/* Every call of the library stands between the two; they may be nested. */
void trm_h5_enter(void);
trm_status trm_h5_leave(trm_status s);
/* The file, and the data set `name`, which stays open until another one is asked for. */
hid_t trm_h5_id(const trm_h5 *f);
trm_status trm_h5_use(trm_h5 *f, const char *name, hid_t *set);
/* "PATH: 'NAME' TEXT (HDF5: its complaint)" */
trm_status trm_h5_fault(const trm_h5 *f, const char *name, const char *text);
/* A type of ours in memory; the caller closes it. */
hid_t trm_h5_memory_type(trm_dtype type);
/* Class, type and text of a type. */
void trm_h5_type_facts(hid_t t, trm_h5_facts *out);
/* The shape of a virtual data set whose sources have been looked at. */
trm_status trm_h5_shape_facts(trm_h5 *f, const char *name, trm_h5_facts *out);

#endif
