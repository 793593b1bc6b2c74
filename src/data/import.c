/* import: other formats -> HDF5.  A file appears under its name only when it is whole. */
#include "data_impl.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define DEFLATE_MOST 1040 /* deflate cannot shrink more than 1032 times */
#define READ_STEP (TRM_MIB)

/* ---- written aside ---- */

trm_status trm_h5_replace(const char *path, trm_h5_fill fill, const void *ctx) {
    trm_str aside = {0};
    trm_h5_file *f = NULL;
    char why[128];
    static const trm_output_kind kind = {"HDF5", "\x89HDF\r\n\x1a\n", 0, 8};
    TRM_TRY(trm_output_check(path, &kind));
    trm_str_add(&aside, "%s.new-%ld", path, (long)getpid());
    if (aside.failed) return TRM_MEMORY;
    trm_status s = trm_h5_create(aside.p, &f);
    if (s == TRM_OK) {
        s = fill(f, ctx);
        trm_status closed = trm_h5_close(f);
        if (s == TRM_OK) s = closed;
    }
    if (s == TRM_OK && rename(aside.p, path) != 0)
        s = trm_fail(TRM_IO, "%s: cannot be replaced: %s", path, strerror_r(errno, why, sizeof why));
    if (s != TRM_OK) unlink(aside.p);
    trm_str_free(&aside);
    return s;
}

/* ---- IDX, the format of MNIST: magic 0 0 type rank, sizes in big-endian words, bytes ---- */

typedef struct idx {
    int rank;
    int64_t dim[3];
    unsigned char *bytes;
    size_t n;
} idx;

static trm_status gz_read(gzFile z, const char *path, void *dst, size_t n) {
    char *to = dst;
    for (size_t done = 0; done < n;) {
        size_t step = n - done < TRM_GIB ? n - done : TRM_GIB;
        int got = gzread(z, to + done, (unsigned)step), code;
        if (got < 0) return trm_fail(TRM_DATA, "%s: damaged: %s", path, gzerror(z, &code));
        if (got == 0) return trm_fail(TRM_DATA, "%s: ends %zu bytes early", path, n - done);
        done += (size_t)got;
    }
    return TRM_OK;
}

static trm_status idx_head(gzFile z, const char *path, int rank, idx *out) {
    unsigned char head[16] = {0};
    TRM_TRY(gz_read(z, path, head, 4));
    if (head[0] != 0 || head[1] != 0)
        return trm_fail(TRM_DATA, "%s: not an IDX file: it starts with bytes %02x %02x, not with zeros", path,
                        head[0], head[1]);
    if (head[2] != 8)
        return trm_fail(TRM_DATA, "%s: holds elements of IDX type %d, unsigned bytes (8) expected", path,
                        head[2]);
    if (head[3] != rank)
        return trm_fail(TRM_DATA, "%s: has %d dimensions, %d expected%s", path, head[3], rank,
                        head[3] == (rank == 3 ? 1 : 3) ? " (images and labels exchanged?)" : "");
    TRM_TRY(gz_read(z, path, head + 4, 4 * (size_t)rank));
    out->rank = rank;
    out->n = 1;
    for (int i = 0; i < rank; i++) {
        const unsigned char *p = head + 4 + 4 * i;
        out->dim[i] = (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
        if (out->dim[i] < 1) return trm_fail(TRM_DATA, "%s: dimension %d is 0", path, i);
        if (!trm_mul_size(out->n, (size_t)out->dim[i], &out->n))
            return trm_fail(TRM_DATA, "%s: claims an impossible size", path);
    }
    return TRM_OK;
}

static trm_status idx_body(gzFile z, const char *path, int64_t file_bytes, idx *out) {
    char more, size[16];
    /* Before memory is taken for it: can the file hold what it claims? */
    if (out->n / DEFLATE_MOST > (size_t)file_bytes || (gzdirect(z) && out->n > (size_t)file_bytes))
        return trm_fail(TRM_DATA, "%s: claims %s but has only %lld bytes", path,
                        trm_human_bytes((double)out->n, size, sizeof size), (long long)file_bytes);
    out->bytes = trm_alloc(out->n, "an IDX file");
    if (!out->bytes) return TRM_MEMORY;
    TRM_TRY(gz_read(z, path, out->bytes, out->n));
    int got = gzread(z, &more, 1), code;
    if (got < 0) return trm_fail(TRM_DATA, "%s: damaged: %s", path, gzerror(z, &code));
    /* Where the compressed bytes stop before their check sum, zlib says so only here. */
    gzerror(z, &code);
    if (code == Z_BUF_ERROR || (got == 0 && !gzeof(z)))
        return trm_fail(TRM_DATA, "%s: truncated: the compressed data has no end", path);
    return got == 0 ? TRM_OK
                    : trm_fail(TRM_DATA, "%s: goes on behind the %zu bytes that it claims", path, out->n);
}

static trm_status idx_read(const char *path, int rank, idx *out) {
    int fd;
    int64_t size;
    TRM_TRY(trm_open_regular(path, &fd, &size));
    gzFile z = gzdopen(fd, "rb");
    if (!z) {
        close(fd);
        return trm_fail(TRM_MEMORY, "zlib cannot be started");
    }
    gzbuffer(z, READ_STEP);
    trm_status s = idx_head(z, path, rank, out);
    if (s == TRM_OK) s = idx_body(z, path, size, out);
    gzclose(z);
    return s;
}

typedef struct mnist {
    idx images, labels;
} mnist;

static trm_status write_mnist(trm_h5_file *f, const void *ctx) {
    const mnist *m = ctx;
    const int64_t *dim = m->images.dim;
    trm_shape data = trm_shape_of(4, dim[0], 1, dim[1], dim[2]), label = trm_shape_of(1, dim[0]);
    TRM_TRY(trm_h5_write(f, "data", TRM_U8, &data, m->images.bytes));
    return trm_h5_write(f, "label", TRM_U8, &label, m->labels.bytes);
}

trm_status trm_import_mnist(const char *images, const char *labels, const char *out, int64_t *samples) {
    mnist m = {0};
    TRM_TRY(trm_output_apart(out, (const char *const[]){images, labels}, 2));
    trm_status s = idx_read(images, 3, &m.images);
    if (s == TRM_OK) s = idx_read(labels, 1, &m.labels);
    if (s == TRM_OK && m.images.dim[0] != m.labels.dim[0])
        s = trm_fail(TRM_DATA, "%s: has %lld images but %s has %lld labels", images,
                     (long long)m.images.dim[0], labels, (long long)m.labels.dim[0]);
    if (s == TRM_OK) s = trm_h5_replace(out, write_mnist, &m);
    if (s == TRM_OK && samples) *samples = m.images.dim[0];
    trm_free(m.images.bytes);
    trm_free(m.labels.bytes);
    return s;
}

/* ---- text: the bytes of files, one after the other ---- */

typedef struct text {
    const char *const *files;
    int n_files;
    int64_t bytes;
} text;

static trm_status text_size(const text *t, int64_t *bytes) {
    *bytes = 0;
    for (int i = 0; i < t->n_files; i++) {
        int fd;
        int64_t size;
        TRM_TRY(trm_open_regular(t->files[i], &fd, &size));
        close(fd);
        *bytes += size;
    }
    return *bytes > 0 ? TRM_OK
                      : trm_fail(TRM_DATA, "%s: there is no text to import",
                                 t->n_files > 0 ? t->files[0] : "no file is named");
}

static trm_status put_text(trm_h5_file *f, const char *path, int64_t *at, char *buf) {
    int fd;
    int64_t size;
    TRM_TRY(trm_open_regular(path, &fd, &size));
    trm_status s = TRM_OK;
    for (int64_t done = 0; done < size && s == TRM_OK; done += READ_STEP) {
        int64_t n = trm_min64(READ_STEP, size - done);
        s = trm_pread_all(fd, path, buf, (size_t)n, (uint64_t)done);
        if (s == TRM_OK) s = trm_h5_put(f, "tokens", TRM_U8, *at, n, 1, buf);
        *at += n;
    }
    close(fd);
    return s;
}

static trm_status write_text(trm_h5_file *f, const void *ctx) {
    const text *t = ctx;
    trm_shape shape = trm_shape_of(1, t->bytes);
    int64_t at = 0;
    TRM_TRY(trm_h5_make(f, "tokens", TRM_U8, &shape, 0, 0, false));
    char *buf = trm_alloc(READ_STEP, "a text");
    trm_status s = buf ? TRM_OK : TRM_MEMORY;
    for (int i = 0; i < t->n_files && s == TRM_OK; i++) s = put_text(f, t->files[i], &at, buf);
    trm_free(buf);
    if (s == TRM_OK && at != t->bytes)
        s = trm_fail(TRM_DATA, "%s: was changed while it was read", t->files[0]);
    return s;
}

trm_status trm_import_text(const char *const *files, int n_files, const char *out, int64_t *tokens) {
    text t = {files, n_files, 0};
    TRM_TRY(trm_output_apart(out, files, n_files));
    TRM_TRY(text_size(&t, &t.bytes));
    TRM_TRY(trm_h5_replace(out, write_text, &t));
    if (tokens) *tokens = t.bytes;
    return TRM_OK;
}
