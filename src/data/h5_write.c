/* h5_write: new data sets, their rows and attributes. */
#include "h5_impl.h"
#include <string.h>

/* ---- writing ---- */

static trm_status write_fault(trm_h5 *f, const char *name) {
    f->broken = true;
    return trm_h5_complain(f, TRM_IO, "'%s' cannot be written", name);
}

/* How the new data set is stored. */
static hid_t creation_list(const int64_t *dim, int rank, const trm_h5_store *how) {
    hsize_t chunk[TRM_H5_RANK];
    hid_t p = H5Pcreate(H5P_DATASET_CREATE);
    if (p < 0) return p;
    /* Equal contents make equal files. */
    H5Pset_obj_track_times(p, false);
    if (how->chunk_rows <= 0) {
        H5Pset_fill_time(p, H5D_FILL_TIME_NEVER);
        return p;
    }
    trm_h5_sizes(dim, rank, chunk);
    chunk[0] = (hsize_t)how->chunk_rows;
    if (H5Pset_chunk(p, rank, chunk) < 0 || (how->shuffle && H5Pset_shuffle(p) < 0) ||
        (how->deflate > 0 && H5Pset_deflate(p, (unsigned)how->deflate) < 0)) {
        H5Pclose(p);
        return H5I_INVALID_HID;
    }
    return p;
}

static hid_t creation_space(const int64_t *size, int rank, bool growing) {
    hsize_t dim[TRM_H5_RANK], most[TRM_H5_RANK];
    if (rank == 0) return H5Screate(H5S_SCALAR);
    trm_h5_sizes(size, rank, dim);
    memcpy(most, dim, sizeof most);
    if (growing) most[0] = H5S_UNLIMITED;
    return H5Screate_simple(rank, dim, most);
}

/* Makes a data set of type t in this space and closes what it is given. */
static trm_status create(trm_h5 *f, const char *name, hid_t t, hid_t space, hid_t how) {
    trm_h5_drop_set(f);
    hid_t links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    f->set = H5Dcreate2(f->id, name, t, space, links, how, H5P_DEFAULT);
    trm_status s = f->set < 0 ? write_fault(f, name) : TRM_OK;
    if (s == TRM_OK && !(f->set_name = trm_strdup(name))) s = TRM_MEMORY;
    H5Pclose(links);
    if (how >= 0) H5Pclose(how);
    if (space >= 0) H5Sclose(space);
    if (t >= 0) H5Tclose(t);
    return s;
}

trm_status trm_h5_new_set(trm_h5 *f, const char *name, trm_dtype type, const trm_shape *shape,
                          int64_t chunk_rows, int deflate, bool growing) {
    trm_h5_enter();
    hid_t how = creation_list(shape->dim, shape->rank, &(trm_h5_store){chunk_rows, deflate, false});
    return trm_h5_leave(
        create(f, name, trm_h5_own_type(type, true), creation_space(shape->dim, shape->rank, growing), how));
}

trm_status trm_h5_new_texts(trm_h5 *f, const char *name, int64_t n, size_t width) {
    trm_h5_enter();
    hid_t t = H5Tcopy(H5T_C_S1);
    bool good = H5Tset_size(t, width) >= 0 && H5Tset_strpad(t, H5T_STR_NULLPAD) >= 0 &&
                H5Tset_cset(t, H5T_CSET_UTF8) >= 0;
    hid_t how = creation_list(&n, 1, &(trm_h5_store){0});
    return trm_h5_leave(create(f, name, good ? t : H5I_INVALID_HID, creation_space(&n, 1, false), how));
}

trm_status trm_h5_new_like(trm_h5 *f, const char *name, trm_h5 *from, const char *like, int64_t rows,
                           const trm_h5_store *how) {
    trm_h5_facts x;
    TRM_TRY(trm_h5_facts_of(from, like, &x));
    trm_h5_enter();
    if (x.rank > 0) x.dim[0] = rows;
    hid_t t = H5Dget_type(from->set), list = creation_list(x.dim, x.rank, how);
    /* What leads to memory elsewhere has to lead to nothing at first. */
    if (x.cls == TRM_H5_VLEN || x.cls == TRM_H5_VLEN_STRING) H5Pset_fill_time(list, H5D_FILL_TIME_IFSET);
    return trm_h5_leave(create(f, name, t, creation_space(x.dim, x.rank, false), list));
}

trm_status trm_h5_write_stored(trm_h5 *f, const char *name, int64_t first, int64_t rows, const void *bytes) {
    hid_t file = H5I_INVALID_HID, memory = H5I_INVALID_HID, t = H5I_INVALID_HID;
    trm_h5_enter();
    trm_status s = trm_h5_open_set(f, name);
    if (s == TRM_OK) t = H5Dget_type(f->set);
    if (s == TRM_OK && (!trm_h5_row_spaces(f, first, rows, &file, &memory) ||
                        H5Dwrite(f->set, t, memory, file, H5P_DEFAULT, bytes) < 0))
        s = write_fault(f, name);
    trm_h5_close_spaces(file, memory);
    if (t >= 0) H5Tclose(t);
    return trm_h5_leave(s);
}

trm_status trm_h5_write_rows(trm_h5 *f, const char *name, trm_dtype type, int64_t first, int64_t rows,
                             const void *bytes) {
    hid_t file = H5I_INVALID_HID, memory = H5I_INVALID_HID;
    trm_h5_enter();
    hid_t memory_type = trm_h5_own_type(type, false);
    trm_status s = trm_h5_open_set(f, name);
    if (s == TRM_OK && (!trm_h5_row_spaces(f, first, rows, &file, &memory) ||
                        H5Dwrite(f->set, memory_type, memory, file, H5P_DEFAULT, bytes) < 0))
        s = write_fault(f, name);
    trm_h5_close_spaces(file, memory);
    if (memory_type >= 0) H5Tclose(memory_type);
    return trm_h5_leave(s);
}

trm_status trm_h5_set_rows(trm_h5 *f, const char *name, int64_t rows) {
    hsize_t dim[TRM_H5_RANK];
    trm_h5_enter();
    trm_status s = trm_h5_open_set(f, name);
    if (s != TRM_OK) return trm_h5_leave(s);
    hid_t space = H5Dget_space(f->set);
    bool good = space >= 0 && H5Sget_simple_extent_dims(space, dim, NULL) > 0;
    if (space >= 0) H5Sclose(space);
    dim[0] = (hsize_t)rows;
    if (!good || H5Dset_extent(f->set, dim) < 0) s = write_fault(f, name);
    return trm_h5_leave(s);
}

/* ---- attributes ---- */

#define NOTE_LIMIT (64 * TRM_MIB)

typedef struct notes {
    hid_t to;
    bool failed;
} notes;

static void copy_value(hid_t a, const char *name, hid_t t, hid_t space, notes *n) {
    hsize_t bytes = (hsize_t)H5Sget_simple_extent_npoints(space) * H5Tget_size(t);
    if (bytes > NOTE_LIMIT) return;
    void *value = trm_alloc(bytes > 0 ? bytes : 1, "an attribute");
    hid_t b = H5I_INVALID_HID;
    bool read = value && H5Aread(a, t, value) >= 0;
    if (read) b = H5Acreate2(n->to, name, t, space, H5P_DEFAULT, H5P_DEFAULT);
    if (!read || b < 0 || H5Awrite(b, t, value) < 0) n->failed = true;
    if (b >= 0) H5Aclose(b);
    if (read) H5Dvlen_reclaim(t, space, H5P_DEFAULT, value);
    trm_free(value);
}

/* A reference leads to a place in its own file: it would lead astray in another. */
static herr_t copy_note(hid_t from, const char *name, const H5A_info_t *info, void *ctx) {
    notes *n = ctx;
    (void)info;
    hid_t a = H5Aopen(from, name, H5P_DEFAULT);
    if (a < 0) return 0;
    hid_t t = H5Aget_type(a), space = H5Aget_space(a);
    if (t >= 0 && space >= 0 && H5Tdetect_class(t, H5T_REFERENCE) <= 0) copy_value(a, name, t, space, n);
    if (space >= 0) H5Sclose(space);
    if (t >= 0) H5Tclose(t);
    H5Aclose(a);
    return n->failed ? 1 : 0;
}

trm_status trm_h5_copy_notes(trm_h5 *f, const char *name, trm_h5 *from, const char *like) {
    trm_h5_enter();
    hid_t a = H5Oopen(from->id, like, H5P_DEFAULT);
    notes n = {H5Oopen(f->id, name, H5P_DEFAULT), false};
    if (a >= 0 && n.to >= 0) H5Aiterate2(a, H5_INDEX_NAME, H5_ITER_INC, NULL, copy_note, &n);
    trm_status s = a < 0 || n.to < 0 || n.failed ? write_fault(f, name) : TRM_OK;
    if (a >= 0) H5Oclose(a);
    if (n.to >= 0) H5Oclose(n.to);
    return trm_h5_leave(s);
}
