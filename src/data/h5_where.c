/* h5_where: where the chunks of a data set lie.
 *
 * Up to 1.14 the library lists chunks by counting from the first one for each, which takes time with the square of their
 * number.  Reading a stored chunk by its coordinates is quick, and goes to a file driver in the end.  So the file is opened
 * once more with a driver of ours, which reads everything but the chunks: of these it notes where they were to be read. */
#define H5_USE_110_API 1
#include "data_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <string.h>
#include <unistd.h>

#if H5_VERSION_GE(1, 14, 0)

/* ---- by the library's list ---- */

typedef struct listing {
    const trm_h5_facts *facts;
    trm_chunk *table;
    int64_t n;
} listing;

static int64_t place_of(const trm_h5_facts *facts, const hsize_t *corner) {
    int64_t place = 0;
    for (int i = 0; i < facts->rank; i++) {
        if (corner[i] >= (hsize_t)facts->dim[i] || corner[i] % (hsize_t)facts->chunk[i] != 0) return -1;
        place = place * ((facts->dim[i] - 1) / facts->chunk[i] + 1) + (int64_t)corner[i] / facts->chunk[i];
    }
    return place;
}

static int note(const hsize_t *corner, unsigned mask, haddr_t at, hsize_t bytes, void *ctx) {
    const listing *l = ctx;
    int64_t place = place_of(l->facts, corner);
    if (place < 0 || place >= l->n || bytes > UINT32_MAX) return -1;
    l->table[place] = (trm_chunk){at == HADDR_UNDEF ? TRM_NO_ADDRESS : at, (uint32_t)bytes, mask};
    return 0;
}

bool trm_h5_find_chunks(const char *path, const char *name, const trm_h5_facts *facts, trm_chunk *table,
                        int64_t n) {
    listing l = {facts, table, n};
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_file_locking(access, false, true);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access),
          set = file < 0 ? file : H5Dopen2(file, name, H5P_DEFAULT);
    bool good = set >= 0 && H5Dchunk_iter(set, H5P_DEFAULT, note, &l) >= 0;
    if (set >= 0) H5Dclose(set);
    if (file >= 0) H5Fclose(file);
    H5Pclose(access);
    return good;
}

#else

/* ---- a driver that notes where it was to read ---- */

typedef struct noted {
    haddr_t at;
    size_t bytes;
} noted;

typedef struct driver_file {
    H5FD_t base;
    int fd;
    haddr_t end_of_space, end_of_file;
    noted *last; /* the chunk that was asked for last */
} driver_file;

static H5FD_t *file_open(const char *path, unsigned flags, hid_t access, haddr_t most) {
    noted *const *last = H5Pget_driver_info(access);
    (void)most;
    if (!last || flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT)) return NULL;
    driver_file *f = trm_alloc(sizeof *f, "a file");
    if (!f) return NULL;
    f->last = *last;
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = f->fd < 0 ? -1 : lseek(f->fd, 0, SEEK_END);
    if (size >= 0) {
        f->end_of_file = (haddr_t)size;
        return &f->base;
    }
    if (f->fd >= 0) close(f->fd);
    trm_free(f);
    return NULL;
}

static herr_t file_close(H5FD_t *file) {
    driver_file *f = (driver_file *)file;
    close(f->fd);
    trm_free(f);
    return 0;
}

static herr_t file_query(const H5FD_t *file, unsigned long *flags) {
    (void)file;
    *flags = 0;
    return 0;
}

static haddr_t get_space(const H5FD_t *file, H5FD_mem_t type) {
    (void)type;
    return ((const driver_file *)file)->end_of_space;
}

static herr_t set_space(H5FD_t *file, H5FD_mem_t type, haddr_t end) {
    (void)type;
    ((driver_file *)file)->end_of_space = end;
    return 0;
}

static haddr_t get_end(const H5FD_t *file, H5FD_mem_t type) {
    (void)type;
    return ((const driver_file *)file)->end_of_file;
}

static herr_t file_read(H5FD_t *file, H5FD_mem_t type, hid_t how, haddr_t at, size_t bytes, void *to) {
    driver_file *f = (driver_file *)file;
    (void)how;
    if (type == H5FD_MEM_DRAW) {
        *f->last = (noted){at, bytes};
        return 0;
    }
    /* Behind its end a file reads as zeros: the library looks there for what may be missing. */
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(f->fd, (char *)to + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) memset((char *)to + done, 0, bytes - done);
        done += n == 0 ? bytes - done : (size_t)n;
    }
    return 0;
}

static herr_t file_write(H5FD_t *file, H5FD_mem_t type, hid_t how, haddr_t at, size_t bytes,
                         const void *from) {
    (void)file, (void)type, (void)how, (void)at, (void)bytes, (void)from;
    return -1;
}

static const H5FD_class_t driver = {.name = "trireme",
                                    .maxaddr = INT64_MAX,
                                    .fc_degree = H5F_CLOSE_STRONG,
                                    .fapl_size = sizeof(noted *),
                                    .open = file_open,
                                    .close = file_close,
                                    .query = file_query,
                                    .get_eoa = get_space,
                                    .set_eoa = set_space,
                                    .get_eof = get_end,
                                    .read = file_read,
                                    .write = file_write,
                                    .fl_map = H5FD_FLMAP_DICHOTOMY};

/* ---- asking for each chunk ---- */

static void corner_at(const trm_h5_facts *facts, int64_t place, hsize_t *corner) {
    for (int i = facts->rank - 1; i >= 0; i--) {
        int64_t across = (facts->dim[i] - 1) / facts->chunk[i] + 1;
        corner[i] = (hsize_t)(place % across * facts->chunk[i]);
        place /= across;
    }
}

static bool find_one(hid_t set, const hsize_t *corner, bool all_there, noted *last, trm_chunk *out) {
    hsize_t bytes = 0;
    uint32_t mask = 0;
    char nothing;
    *out = (trm_chunk){.offset = TRM_NO_ADDRESS};
    if (!all_there && (H5Dget_chunk_storage_size(set, corner, &bytes) < 0 || bytes == 0)) return true;
    *last = (noted){HADDR_UNDEF, 0};
    if (H5Dread_chunk(set, H5P_DEFAULT, corner, &mask, &nothing) < 0 || last->at == HADDR_UNDEF ||
        last->bytes > UINT32_MAX)
        return false;
    *out = (trm_chunk){last->at, (uint32_t)last->bytes, mask};
    return true;
}

static bool find_all(hid_t set, const trm_h5_facts *facts, noted *last, trm_chunk *table, int64_t n) {
    hsize_t corner[TRM_H5_RANK];
    for (int64_t i = 0; i < n; i++) {
        corner_at(facts, i, corner);
        if (!find_one(set, corner, facts->chunks_written >= n, last, &table[i])) return false;
    }
    return true;
}

bool trm_h5_find_chunks(const char *path, const char *name, const trm_h5_facts *facts, trm_chunk *table,
                        int64_t n) {
    noted last, *to = &last;
    bool good = false;
    hid_t id = H5FDregister(&driver), access = H5Pcreate(H5P_FILE_ACCESS);
    if (id >= 0 && access >= 0 && H5Pset_driver(access, id, &to) >= 0) {
        hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
        hid_t set = file < 0 ? file : H5Dopen2(file, name, H5P_DEFAULT);
        good = set >= 0 && find_all(set, facts, &last, table, n);
        if (set >= 0) H5Dclose(set);
        if (file >= 0) H5Fclose(file);
    }
    if (access >= 0) H5Pclose(access);
    if (id >= 0) H5FDunregister(id);
    return good;
}

#endif
