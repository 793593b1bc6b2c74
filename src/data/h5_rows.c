/* h5_rows: stored chunks, and rows of any length. */
#include "h5_impl.h"
#include <string.h>

/* HDF5 knows only ranks up to 32: arrays on the stack will do. */
int trm_h5_sizes(const int64_t *from, int rank, hsize_t *to) {
    for (int i = 0; i < rank; i++) to[i] = (hsize_t)from[i];
    return rank;
}

/* ---- stored bytes ---- */

static int set_rank(hid_t set) {
    hid_t space = H5Dget_space(set);
    int rank = H5Sget_simple_extent_ndims(space);
    H5Sclose(space);
    return rank;
}

trm_status trm_h5_chunk_table(trm_h5 *f, const char *name, const trm_h5_facts *facts, trm_chunk *table,
                              int64_t n) {
    trm_h5_enter();
    bool good = trm_h5_find_chunks(f->path, name, facts, table, n);
    return trm_h5_leave(
        good ? TRM_OK : trm_h5_complain(f, TRM_DATA, "'%s': its index of chunks cannot be read", name));
}

trm_status trm_h5_raw_chunk(trm_h5 *f, const char *name, const int64_t *corner, void **buf, size_t *cap,
                            size_t *bytes, uint32_t *mask) {
    hsize_t at[TRM_H5_RANK], n = 0;
    trm_h5_enter();
    *bytes = 0;
    trm_status s = trm_h5_open_set(f, name);
    if (s != TRM_OK) return trm_h5_leave(s);
    trm_h5_sizes(corner, set_rank(f->set), at);
    if (H5Dget_chunk_storage_size(f->set, at, &n) < 0) return trm_h5_leave(TRM_OK);
    if (n == 0) {
        haddr_t place = HADDR_UNDEF;
        if (H5Dget_chunk_info_by_coord(f->set, at, NULL, &place, NULL) < 0 || place == HADDR_UNDEF)
            return trm_h5_leave(TRM_OK);
        return trm_h5_leave(trm_h5_complain(f, TRM_DATA,
                                            "'%s': the chunk at row %lld has 0 bytes: its index is damaged",
                                            name, (long long)corner[0]));
    }
    if (n > TRM_BAND_LIMIT || n > (hsize_t)f->probe.size)
        return trm_h5_leave(trm_h5_complain(f, TRM_DATA, "'%s': a chunk claims %llu stored bytes", name,
                                            (unsigned long long)n));
    if (n > *cap) {
        void *more = trm_realloc(*buf, 0, n, "a stored chunk");
        if (!more) return trm_h5_leave(TRM_MEMORY);
        *buf = more;
        *cap = n;
    }
    if (H5Dread_chunk(f->set, H5P_DEFAULT, at, mask, *buf) < 0)
        return trm_h5_leave(trm_h5_complain(f, TRM_DATA, "'%s': chunk at row %lld cannot be read", name,
                                            (long long)corner[0]));
    *bytes = n;
    return trm_h5_leave(TRM_OK);
}

/* Selects rows of the open data set: the file's space, and a memory space for them. */
bool trm_h5_row_spaces(trm_h5 *f, int64_t first, int64_t count, hid_t *file, hid_t *memory) {
    hsize_t dim[TRM_H5_RANK], start[TRM_H5_RANK] = {0};
    *memory = H5I_INVALID_HID;
    *file = H5Dget_space(f->set);
    int rank = *file < 0 ? -1 : H5Sget_simple_extent_ndims(*file);
    if (rank == 0) {
        *memory = H5Screate(H5S_SCALAR);
        return first == 0 && count == 1 && *memory >= 0;
    }
    if (rank < 0 || rank > TRM_H5_RANK || H5Sget_simple_extent_dims(*file, dim, NULL) < 0) return false;
    if (first < 0 || count < 1 || (hsize_t)count > dim[0] || (hsize_t)first > dim[0] - (hsize_t)count)
        return false;
    start[0] = (hsize_t)first;
    dim[0] = (hsize_t)count;
    *memory = H5Screate_simple(rank, dim, NULL);
    return *memory >= 0 && H5Sselect_hyperslab(*file, H5S_SELECT_SET, start, NULL, dim, NULL) >= 0;
}

void trm_h5_close_spaces(hid_t file, hid_t memory) {
    if (file >= 0) H5Sclose(file);
    if (memory >= 0) H5Sclose(memory);
}

/* memory_type < 0: as stored. */
static trm_status read_rows(trm_h5 *f, const char *name, int64_t first, int64_t count, hid_t memory_type,
                            void *dst) {
    hid_t file, memory;
    hid_t stored = H5Dget_type(f->set);
    bool good = stored >= 0 && trm_h5_row_spaces(f, first, count, &file, &memory) &&
                H5Dread(f->set, memory_type < 0 ? stored : memory_type, memory, file, H5P_DEFAULT, dst) >= 0;
    trm_status s = good ? TRM_OK
                        : trm_h5_complain(f, TRM_DATA, "'%s': rows %lld to %lld cannot be read", name,
                                          (long long)first, (long long)(first + count - 1));
    if (stored >= 0) {
        trm_h5_close_spaces(file, memory);
        H5Tclose(stored);
    }
    return s;
}

trm_status trm_h5_rows(trm_h5 *f, const char *name, int64_t first, int64_t count, void *raw) {
    trm_h5_enter();
    trm_status s = trm_h5_open_set(f, name);
    if (s == TRM_OK) s = read_rows(f, name, first, count, H5I_INVALID_HID, raw);
    return trm_h5_leave(s);
}

trm_status trm_h5_rows_as(trm_h5 *f, const char *name, trm_dtype type, int64_t first, int64_t count,
                          void *dst) {
    trm_h5_enter();
    trm_status s = trm_h5_open_set(f, name);
    hid_t memory_type = trm_h5_own_type(type, false);
    if (s == TRM_OK) s = read_rows(f, name, first, count, memory_type, dst);
    if (memory_type >= 0) H5Tclose(memory_type);
    return trm_h5_leave(s);
}

/* ---- rows whose length differs ---- */

/* One element of a row in memory: the library's sequence, or a text with a zero behind it. */
typedef union ragged_element {
    hvl_t sequence;
    char *text;
} ragged_element;

/* Sequences of numbers and texts of any length; sequences of anything else lead to memory of their own again. */
trm_h5_ragged trm_h5_ragged_of(trm_h5 *f, const char *name, size_t *item) {
    trm_h5_ragged kind = TRM_H5_EVEN;
    trm_h5_enter();
    *item = 1;
    if (trm_h5_open_set(f, name) != TRM_OK) return (void)trm_h5_leave(TRM_OK), TRM_H5_EVEN;
    hid_t t = H5Dget_type(f->set);
    if (t >= 0 && H5Tget_class(t) == H5T_VLEN) {
        hid_t base = H5Tget_super(t);
        H5T_class_t c = base >= 0 ? H5Tget_class(base) : H5T_NO_CLASS;
        kind = c == H5T_INTEGER || c == H5T_FLOAT || c == H5T_ENUM ? TRM_H5_SEQUENCES : TRM_H5_NESTED;
        if (base >= 0) *item = H5Tget_size(base);
        if (base >= 0) H5Tclose(base);
    } else if (t >= 0 && H5Tis_variable_str(t) > 0) {
        kind = TRM_H5_TEXTS;
    }
    if (t >= 0) H5Tclose(t);
    (void)trm_h5_leave(TRM_OK);
    return kind;
}

uint64_t trm_h5_ragged_sum(trm_h5_ragged kind, size_t item, const void *elements, size_t bytes) {
    uint64_t sum = 0;
    size_t size = kind == TRM_H5_TEXTS ? sizeof(char *) : sizeof(hvl_t);
    for (size_t at = 0; at + size <= bytes; at += size) {
        ragged_element e = {0};
        memcpy(&e, (const char *)elements + at, size);
        const void *p = kind == TRM_H5_TEXTS ? (const void *)e.text : e.sequence.p;
        size_t n = kind == TRM_H5_TEXTS ? (e.text ? strlen(e.text) : 0) : e.sequence.len * item;
        sum = sum * 0x9E3779B97F4A7C15u + (n > 0 ? trm_sum64(p, n) : 0) + n;
    }
    return sum;
}

void trm_h5_ragged_free(trm_h5 *f, const char *name, int64_t rows, void *elements) {
    hid_t file = H5I_INVALID_HID, memory = H5I_INVALID_HID, t = H5I_INVALID_HID;
    trm_h5_enter();
    if (trm_h5_open_set(f, name) == TRM_OK) t = H5Dget_type(f->set);
    if (t >= 0 && trm_h5_row_spaces(f, 0, rows, &file, &memory))
        H5Dvlen_reclaim(t, memory, H5P_DEFAULT, elements);
    trm_h5_close_spaces(file, memory);
    if (t >= 0) H5Tclose(t);
    (void)trm_h5_leave(TRM_OK);
}
