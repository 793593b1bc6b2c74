/* probe: a path before HDF5 sees it.  Only a regular file that starts like an HDF5 file, whose superblock is
 * known and that is not cut short gets further; each look-alike gets a sentence of its own. */
#include "data_impl.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};

/* ---- opening ---- */

static trm_status cannot_open(const char *path) {
    int e = errno;
    char why[128];
    if (e == ENOENT) return trm_fail(TRM_DATA, "%s: no such file", path);
    return trm_fail(TRM_DATA, "%s: cannot open: %s", path, strerror_r(e, why, sizeof why));
}

static trm_status not_regular(const char *path, mode_t mode) {
    const char *what = S_ISDIR(mode)    ? "a directory"
                       : S_ISFIFO(mode) ? "a pipe"
                       : S_ISCHR(mode)  ? "a device"
                       : S_ISBLK(mode)  ? "a disk"
                       : S_ISSOCK(mode) ? "a socket"
                                        : "something else";
    trm_status s = trm_fail(TRM_DATA, "%s: is %s, not a file", path, what);
    if (S_ISDIR(mode)) trm_hint("name its files with a pattern: %s/*.h5", path);
    return s;
}

trm_status trm_open_regular(const char *path, int *fd, int64_t *size) {
    struct stat st;
    if (stat(path, &st) != 0) return cannot_open(path);
    if (!S_ISREG(st.st_mode)) return not_regular(path, st.st_mode);
    /* O_NONBLOCK: between the two calls the name may have become a pipe. */
    *fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (*fd < 0) return cannot_open(path);
    if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(*fd);
        *fd = -1;
        return not_regular(path, st.st_mode);
    }
    *size = st.st_size;
    return TRM_OK;
}

int64_t trm_time_of(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 ? (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec : 0;
}

trm_status trm_pread_all(int fd, const char *path, void *dst, size_t n, uint64_t offset) {
    char *at = dst, why[128];
    while (n > 0) {
        if (offset > INT64_MAX) return trm_fail(TRM_DATA, "%s: an address lies outside of every file", path);
        ssize_t got = pread(fd, at, n < TRM_GIB ? n : TRM_GIB, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return trm_fail(TRM_IO, "%s: cannot read at byte %llu: %s", path, (unsigned long long)offset,
                            strerror_r(errno, why, sizeof why));
        if (got == 0)
            return trm_fail(TRM_DATA, "%s: ends at byte %llu, %zu bytes early", path,
                            (unsigned long long)offset, n);
        at += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return TRM_OK;
}

/* ---- look-alikes ---- */

static const struct {
    const char *start;
    size_t n;
    const char *what, *hint;
} alike[] = {
    {"version https://git-lfs", 23, "this is a Git LFS pointer, not the data", "run `git lfs pull`"},
    {"PK\003\004", 4, "looks like a zip or npz archive",
     "arrays of numpy: `trireme data import npz`; else unpack it"},
    {"PK\005\006", 4, "looks like an empty zip archive", ""},
    {"\x1F\x8B", 2, "looks gzip-compressed",
     "run `gunzip` first; packed tables and IDX files: `trireme data import csv` or `mnist`"},
    {"BZh", 3, "looks bzip2-compressed", "run `bunzip2` first"},
    {"\xFD"
     "7zXZ",
     5, "looks xz-compressed", "run `unxz` first"},
    {"\x28\xB5\x2F\xFD", 4, "looks zstd-compressed", "run `unzstd` first"},
    {"\x93NUMPY", 6, "is a numpy .npy array", "convert it: `trireme data import npy`"},
    {"\x89PNG", 4, "is a PNG image", "a folder of such files: `trireme data import images`"},
    {"\xFF\xD8\xFF", 3, "is a JPEG image", "a folder of such files: `trireme data import images`"},
    {"MATLAB 5.0", 10, "is a MATLAB file before v7.3", "save it in MATLAB with '-v7.3'"},
    {"CDF\001", 4, "is a classic netCDF file", "convert it: `nccopy -k nc4`"},
    {"CDF\002", 4, "is a classic netCDF file", "convert it: `nccopy -k nc4`"},
    {"\016\003\023\001", 4, "is an HDF4 file", "convert it: `h4toh5`"},
    {"PAR1", 4, "is a Parquet file", ""},
    {"SQLite format 3", 15, "is an SQLite data base", ""},
    {"%PDF", 4, "is a PDF document", ""},
    {"\x7F"
     "ELF",
     4, "is a program", ""},
    {"\x80\002", 2, "looks like a Python pickle", ""},
    {"\x80\003", 2, "looks like a Python pickle", ""},
    {"\x80\004", 2, "looks like a Python pickle", ""},
    {"\x80\005", 2, "looks like a Python pickle", ""},
    {"\0\0\010", 3, "looks like an IDX file (MNIST)", "convert it: `trireme data import mnist`"},
};

static bool is_html(const char *head) {
    while (isspace((unsigned char)*head)) head++;
    return strncasecmp(head, "<!doctype html", 14) == 0 || strncasecmp(head, "<html", 5) == 0 ||
           strncasecmp(head, "<?xml", 5) == 0;
}

/* The first printable characters, for a sentence. */
static size_t text_start(const char *head, size_t n, char *out, size_t cap) {
    size_t k = 0;
    while (k < n && k + 1 < cap && isprint((unsigned char)head[k])) {
        out[k] = head[k];
        k++;
    }
    out[k] = '\0';
    return k;
}

static trm_status not_hdf5(const char *path, const char *head, size_t n) {
    char start[24];
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        if (n < alike[i].n || memcmp(head, alike[i].start, alike[i].n) != 0) continue;
        trm_status s = trm_fail(TRM_DATA, "%s: not an HDF5 file: %s", path, alike[i].what);
        const char *size = strstr(head, "\nsize ");
        if (i == 0 && size && text_start(size + 6, strlen(size + 6), start, sizeof start) > 0)
            s = trm_fail(TRM_DATA, "%s: not an HDF5 file: %s (the real size is %s bytes)", path,
                         alike[i].what, start);
        if (alike[i].hint[0]) trm_hint("%s", alike[i].hint);
        return s;
    }
    if (is_html(head)) {
        trm_status s =
            trm_fail(TRM_DATA, "%s: not an HDF5 file: it is a web page, perhaps an error page", path);
        trm_hint("the download went wrong: look at the file and fetch it again");
        return s;
    }
    bool zero = true;
    for (size_t i = 0; i < n; i++) zero = zero && head[i] == 0;
    if (zero) return trm_fail(TRM_DATA, "%s: not an HDF5 file: it starts with %zu zero bytes", path, n);
    if (text_start(head, n, start, sizeof start) >= 4) {
        trm_status s =
            trm_fail(TRM_DATA, "%s: not an HDF5 file: it starts with '%s', not with \\x89HDF", path, start);
        trm_hint("tables: `trireme data import csv`; text: `trireme data import text`");
        return s;
    }
    return trm_fail(TRM_DATA, "%s: not an HDF5 file: it starts with bytes %02x %02x, not with \\x89HDF", path,
                    (unsigned char)head[0], n > 1 ? (unsigned char)head[1] : 0u);
}

/* ---- superblock ---- */

static uint64_t little(const unsigned char *p, int n) {
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

/* HDF5 looks for its signature at 0, 512, 1024, 2048, ... */
static trm_status find_signature(const char *path, trm_probe *p, const char *head, size_t head_n) {
    unsigned char here[8];
    for (int64_t at = 0; at <= p->size - 8; at = at ? at * 2 : 512) {
        TRM_TRY(trm_pread_all(p->fd, path, here, sizeof here, (uint64_t)at));
        if (memcmp(here, signature, sizeof here) != 0) continue;
        p->user_block = at;
        return TRM_OK;
    }
    return not_hdf5(path, head, head_n);
}

static trm_status check_end(const char *path, const trm_probe *p, uint64_t end) {
    if (end <= (uint64_t)p->size) return TRM_OK;
    trm_status s = trm_fail(
        TRM_DATA, "%s: truncated: the file is %lld bytes, its header says %llu: %llu missing at the end",
        path, (long long)p->size, (unsigned long long)end, (unsigned long long)(end - (uint64_t)p->size));
    trm_hint("an incomplete copy or download: fetch the file again");
    return s;
}

/* Version 1.10 reads from an address that is none, and crashes. */
static trm_status check_address(const char *path, const trm_probe *p, const char *what, uint64_t at,
                                uint64_t end) {
    uint64_t size = (uint64_t)(p->size - p->user_block);
    if (size >= 16 && at <= size - 16 && at + 16 <= end) return TRM_OK;
    return trm_fail(TRM_DATA, "%s: damaged HDF5 header: %s lies at byte %llu, the file ends at %llu", path,
                    what, (unsigned long long)at, (unsigned long long)(end < size ? end : size));
}

/* The root group's object header, where it is one of the first version: the index of its links. */
static trm_status check_root(const char *path, const trm_probe *p, uint64_t root, int size, uint64_t end) {
    enum { header = 16, message = 8, links = 0x11 };
    unsigned char b[header + message + 16] = {0};
    int64_t left = p->size - p->user_block - (int64_t)root;
    TRM_TRY(trm_pread_all(p->fd, path, b, left < (int64_t)sizeof b ? (size_t)left : sizeof b,
                          (uint64_t)p->user_block + root));
    if (b[0] != 1 || little(b + header, 2) != links) return TRM_OK;
    TRM_TRY(check_address(path, p, "the index of its root group", little(b + header + message, size), end));
    return check_address(path, p, "the heap of its root group", little(b + header + message + size, size),
                         end);
}

static trm_status check_superblock(const char *path, const trm_probe *p) {
    unsigned char b[96] = {0};
    int64_t left = p->size - p->user_block;
    TRM_TRY(trm_pread_all(p->fd, path, b, left < 96 ? (size_t)left : 96, (uint64_t)p->user_block));
    int version = b[8], size = version < 2 ? b[13] : b[9];
    if (version > 3)
        return trm_fail(TRM_DATA, "%s: HDF5 superblock version %d is not known to this library (%s)", path,
                        version, trm_h5_library());
    if (size != 2 && size != 4 && size != 8)
        return trm_fail(TRM_DATA, "%s: damaged HDF5 header: addresses of %d bytes", path, size);
    /* The end of the file is the third address of versions 0 and 1, the third of 2 and 3 as well. */
    int at = (version == 0 ? 24 : version == 1 ? 28 : 12) + 2 * size;
    uint64_t end = little(b + at, size), root = little(b + at + (version < 2 ? 3 : 1) * size, size);
    TRM_TRY(check_end(path, p, end));
    if (version == 3 && b[11] & 1) {
        trm_status s =
            trm_fail(TRM_DATA, "%s: is marked open for writing: a writer is at work, or died", path);
        trm_hint("wait for the writer, or run `h5clear -s` on a copy");
        return s;
    }
    TRM_TRY(check_address(path, p, "its root group", root, end));
    return version < 2 ? check_root(path, p, root, size, end) : TRM_OK;
}

trm_status trm_probe_file(const char *path, trm_probe *out) {
    char head[512] = {0};
    trm_probe p = {.fd = -1};
    TRM_TRY(trm_open_regular(path, &p.fd, &p.size));
    p.changed = trm_time_of(p.fd);
    size_t n = p.size < (int64_t)sizeof head - 1 ? (size_t)p.size : sizeof head - 1;
    trm_status status = trm_pread_all(p.fd, path, head, n, 0);
    if (status == TRM_OK && p.size == 0)
        status = trm_fail(TRM_DATA, "%s: empty file (0 bytes), not HDF5", path);
    if (status == TRM_OK) status = find_signature(path, &p, head, n);
    if (status == TRM_OK) status = check_superblock(path, &p);
    if (status != TRM_OK) {
        close(p.fd);
        return status;
    }
    *out = p;
    return TRM_OK;
}
