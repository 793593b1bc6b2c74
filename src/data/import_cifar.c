/* import_cifar: the binary version of CIFAR: records of one or two labels and 3 x 32 x 32 bytes, planes of red, green, blue. */
#include "make_impl.h"
#include <string.h>
#include <unistd.h>

#define PIXELS 3072
#define BLOCK 256

typedef struct cifar {
    const trm_paths *files;
    trm_cifar_labels labels;
    const trm_tell *tell;
    size_t record, label_at;
    int classes;
    int64_t samples;
} cifar;

static trm_status file_samples(const cifar *c, const char *path, int64_t *n) {
    int fd;
    int64_t size, record = (int64_t)c->record, other = 2 * PIXELS + 3 - record;
    TRM_TRY(trm_open_regular(path, &fd, &size));
    close(fd);
    *n = size / record;
    if (size > 0 && size % record == 0) return TRM_OK;
    trm_fail(TRM_DATA, "%s: has %lld bytes; expected are records of %lld, one or more", path, (long long)size,
             (long long)record);
    if (size > 0 && size % other == 0)
        trm_hint(c->labels == TRM_CIFAR_10
                     ? "records of CIFAR-100 have two labels: `--labels fine` or `--labels coarse`"
                     : "records of CIFAR-10 have one label: leave `--labels` away");
    return TRM_DATA;
}

static trm_status put_block(const cifar *c, trm_h5_file *f, const char *path, int64_t in_file, int64_t at,
                            int64_t n, const unsigned char *record, unsigned char *rows) {
    unsigned char label[BLOCK];
    for (int64_t i = 0; i < n; i++, record += c->record) {
        label[i] = record[c->label_at];
        if (label[i] >= c->classes)
            return trm_fail(TRM_DATA, "%s: label %d of sample %lld is outside 0..%d: not a file of CIFAR-%d?",
                            path, label[i], (long long)(in_file + i), c->classes - 1,
                            c->labels == TRM_CIFAR_10 ? 10 : 100);
        memcpy(rows + i * PIXELS, record + c->record - PIXELS, PIXELS);
    }
    TRM_TRY(trm_h5_put(f, "data", TRM_U8, at, n, PIXELS, rows));
    return trm_h5_put(f, "label", TRM_U8, at, n, 1, label);
}

static trm_status put_file(const cifar *c, trm_h5_file *f, const char *path, int64_t *at,
                           unsigned char *buf) {
    int fd;
    int64_t size, done = 0;
    TRM_TRY(trm_open_regular(path, &fd, &size));
    trm_status s = TRM_OK;
    for (int64_t n, all = size / (int64_t)c->record; done < all && s == TRM_OK; done += n, *at += n) {
        n = trm_min64(BLOCK, all - done);
        s = trm_pread_all(fd, path, buf, (size_t)n * c->record, (uint64_t)done * c->record);
        if (s == TRM_OK && *at + n > c->samples)
            s = trm_fail(TRM_DATA, "%s: was changed while it was read", path);
        if (s == TRM_OK) s = put_block(c, f, path, done, *at, n, buf, buf + BLOCK * c->record);
        if (s == TRM_OK) trm_tell_now(c->tell, *at + n, c->samples);
    }
    close(fd);
    return s;
}

static trm_status write_cifar(trm_h5_file *f, const void *ctx) {
    const cifar *c = ctx;
    int64_t at = 0;
    trm_shape data = trm_shape_of(4, c->samples, 3, 32, 32), label = trm_shape_of(1, c->samples);
    TRM_TRY(trm_h5_make(f, "data", TRM_U8, &data, 0, 0, false));
    TRM_TRY(trm_h5_make(f, "label", TRM_U8, &label, 0, 0, false));
    unsigned char *buf = trm_alloc(BLOCK * (c->record + PIXELS), "pictures");
    trm_status s = buf ? TRM_OK : TRM_MEMORY;
    for (int i = 0; i < c->files->n && s == TRM_OK; i++) s = put_file(c, f, c->files->at[i].path, &at, buf);
    trm_free(buf);
    if (s == TRM_OK && at != c->samples)
        s = trm_fail(TRM_DATA, "%s: was changed while it was read", c->files->at[0].path);
    return s;
}

static trm_status import(cifar *c, const char *out) {
    for (int i = 0; i < c->files->n; i++) {
        int64_t n;
        const char *path = c->files->at[i].path;
        TRM_TRY(trm_output_apart(out, &path, 1));
        TRM_TRY(file_samples(c, path, &n));
        c->samples += n;
    }
    return trm_h5_replace(out, write_cifar, c);
}

trm_status trm_import_cifar(const char *const *files, int n_files, trm_cifar_labels labels,
                            const trm_tell *tell, const char *out, trm_made *made) {
    trm_paths paths = {0};
    TRM_TRY(trm_paths_expand(files, n_files, &paths));
    cifar c = {.files = &paths,
               .labels = labels,
               .tell = tell,
               .record = PIXELS + (labels == TRM_CIFAR_10 ? 1 : 2),
               .label_at = labels == TRM_CIFAR_FINE,
               .classes = labels == TRM_CIFAR_10     ? 10
                          : labels == TRM_CIFAR_FINE ? 100
                                                     : 20};
    trm_status s = import(&c, out);
    *made = (trm_made){.samples = c.samples,
                       .x = trm_shape_of(3, 3, 32, 32),
                       .type = TRM_U8,
                       .classes = c.classes,
                       .target = true};
    trm_paths_free(&paths);
    return s;
}
