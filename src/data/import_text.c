/* import_text: the bytes of text files, one after the other: one token a byte. */
#include "data_impl.h"
#include <unistd.h>

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
    for (int64_t done = 0; done < size && s == TRM_OK; done += (int64_t)TRM_MIB) {
        int64_t n = trm_min64((int64_t)TRM_MIB, size - done);
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
    char *buf = trm_alloc(TRM_MIB, "a text");
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
