/* import_images: a folder with a folder of pictures for each class.
 *
 * Classes and pictures go in the order of the bytes of their names.  The heads of all pictures are read first, so that sizes that
 * differ cost a sentence before the work and not after it. */
#include "make_impl.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_LIMIT (256 * TRM_MIB)
#define MOST_CLASSES 65536
#define BLOCK 256 /* most pictures that are written at once */

typedef struct entry {
    char *path;
    int32_t label;
} entry;

typedef struct folder {
    const trm_images_spec *spec;
    trm_names classes;
    entry *at;
    int64_t n, skipped;
    size_t cap;
    int64_t h, w;
    int c;
    char *bytes; /* of one file */
    size_t room, have;
    trm_picture picture, fitted;
} folder;

/* ---- what is in the folder ---- */

static trm_status list_fault(const char *path) {
    char why[128];
    return trm_fail(TRM_DATA, "%s: the folder cannot be listed: %s", path,
                    strerror_r(errno, why, sizeof why));
}

static trm_str join(const char *a, const char *b) {
    trm_str s = {0};
    trm_str_add(&s, "%s/%s", a, b);
    return s;
}

/* Names of the sub-folders (or of the files); hidden ones are nobody's pictures. */
static trm_status list_names(const char *path, bool folders, trm_names *out) {
    DIR *d = opendir(path);
    trm_status s = TRM_OK;
    if (!d) return list_fault(path);
    for (struct dirent *e = readdir(d); e && s == TRM_OK; e = readdir(d)) {
        struct stat st;
        if (e->d_name[0] == '.') continue;
        if (fstatat(dirfd(d), e->d_name, &st, 0) != 0)
            s = trm_fail(TRM_DATA, "%s/%s: leads nowhere", path, e->d_name);
        else if (S_ISDIR(st.st_mode) == folders)
            s = trm_names_add(out, e->d_name);
    }
    closedir(d);
    trm_names_sort(out);
    return s;
}

static trm_status add_picture(folder *f, const char *class_path, const char *name, int32_t label) {
    if ((size_t)f->n == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 256;
        void *more = trm_realloc(f->at, f->cap * sizeof *f->at, cap * sizeof *f->at, "a list of pictures");
        if (!more) return TRM_MEMORY;
        f->at = more;
        f->cap = cap;
    }
    trm_str path = join(class_path, name);
    if (path.failed) {
        trm_str_free(&path);
        return TRM_MEMORY;
    }
    f->at[f->n++] = (entry){path.p, label};
    return TRM_OK;
}

static trm_status add_class(folder *f, const char *class_path, int32_t label) {
    trm_names files = {0};
    trm_status s = list_names(class_path, false, &files);
    if (s == TRM_OK && files.n == 0)
        s = trm_fail(TRM_DATA, "%s: there is no picture in this class", class_path);
    for (int64_t i = 0; i < files.n && s == TRM_OK; i++) s = add_picture(f, class_path, files.name[i], label);
    trm_names_free(&files);
    return s;
}

static trm_status list_all(folder *f) {
    const char *root = f->spec->folder;
    struct stat st;
    if (stat(root, &st) != 0) return list_fault(root);
    if (!S_ISDIR(st.st_mode))
        return trm_fail(TRM_DATA, "%s: is no folder; a folder for each class expected", root);
    TRM_TRY(list_names(root, true, &f->classes));
    if (f->classes.n == 0)
        return trm_fail(TRM_DATA, "%s: there is no folder in it; a folder for each class expected", root);
    if (f->classes.n > MOST_CLASSES)
        return trm_fail(TRM_DATA, "%s: more than %d classes", root, MOST_CLASSES);
    trm_status s = TRM_OK;
    for (int64_t i = 0; i < f->classes.n && s == TRM_OK; i++) {
        trm_str path = join(root, f->classes.name[i]);
        s = path.failed ? TRM_MEMORY : add_class(f, path.p, (int32_t)i);
        trm_str_free(&path);
    }
    return s;
}

/* ---- one picture ---- */

static trm_status load(folder *f, const char *path) {
    int fd;
    int64_t size;
    TRM_TRY(trm_open_regular(path, &fd, &size));
    trm_status s =
        (size_t)size <= FILE_LIMIT ? TRM_OK : trm_fail(TRM_DATA, "%s: is larger than 256 MiB", path);
    if (s == TRM_OK && (size_t)size > f->room) {
        trm_free(f->bytes);
        f->room = 0;
        f->bytes = trm_alloc((size_t)size, "a picture");
        if (f->bytes)
            f->room = (size_t)size;
        else
            s = TRM_MEMORY;
    }
    if (s == TRM_OK) s = trm_pread_all(fd, path, f->bytes, (size_t)size, 0);
    f->have = (size_t)size;
    close(fd);
    return s;
}

static trm_status look(folder *f, const char *path) {
    TRM_TRY(load(f, path));
    trm_status s = trm_picture_look(f->bytes, f->have, &f->picture);
    return s == TRM_OK ? s : trm_prefix(s, "%s", path);
}

static trm_status decode(folder *f, const char *path) {
    TRM_TRY(load(f, path));
    trm_status s = trm_picture_decode(f->bytes, f->have, f->c, &f->picture);
    if (s == TRM_OK && f->h > 0) s = trm_picture_fit(&f->picture, f->h, f->w, &f->fitted);
    return s == TRM_OK ? s : trm_prefix(s, "%s", path);
}

/* ---- before the work: all sizes, and where broken ones are to be left out all pixels ---- */

static trm_status check_size(folder *f, const char *first, const char *path) {
    const trm_picture *p = &f->picture;
    if (f->spec->h > 0 || (p->h == f->h && p->w == f->w)) return TRM_OK;
    trm_fail(TRM_DATA, "%s: has %lld x %lld pixels but %s has %lld x %lld", path, (long long)p->h,
             (long long)p->w, first, (long long)f->h, (long long)f->w);
    trm_hint("`--size %lldx%lld` scales and crops all to one size", (long long)f->h, (long long)f->w);
    return TRM_DATA;
}

/* A picture that is left out is told: of the first few by name. */
static void leave_out(folder *f, entry *e) {
    if (++f->skipped <= 8) trm_log(TRM_LOG_WARN, "left out: %s", trm_error_text());
    trm_free(e->path);
    e->path = NULL;
}

static trm_status examine(folder *f, const char *path) {
    TRM_TRY(look(f, path));
    return f->spec->skip_bad ? decode(f, path) : TRM_OK;
}

static trm_status survey(folder *f) {
    int64_t kept = 0;
    f->h = f->spec->h;
    f->w = f->spec->w;
    f->c = f->spec->c;
    for (int64_t i = 0; i < f->n; i++) {
        entry e = f->at[i];
        trm_status s = examine(f, e.path);
        if (s == TRM_DATA && f->spec->skip_bad) {
            leave_out(f, &f->at[i]);
            continue;
        }
        TRM_TRY(s);
        f->at[i].path = NULL;
        f->at[kept++] = e;
        if (kept == 1 && f->spec->h == 0) {
            f->h = f->picture.h;
            f->w = f->picture.w;
        }
        TRM_TRY(check_size(f, f->at[0].path, e.path));
        trm_tell_now(&f->spec->tell, i + 1, f->n);
    }
    f->n = kept;
    return kept > 0 ? TRM_OK : trm_fail(TRM_DATA, "%s: no picture can be read", f->spec->folder);
}

/* ---- writing ---- */

/* Pictures [first, first + n), which fit in `rows`. */
static trm_status put_block(folder *f, trm_h5_file *h, int64_t first, int64_t n, unsigned char *rows,
                            size_t bytes) {
    uint16_t label[BLOCK];
    for (int64_t i = 0; i < n; i++) {
        const entry *e = &f->at[first + i];
        TRM_TRY(decode(f, e->path));
        if (f->spec->h == 0 && (f->picture.h != f->h || f->picture.w != f->w))
            return trm_fail(TRM_DATA, "%s: was changed while it was read", e->path);
        trm_picture_planes(&f->fitted, rows + (size_t)i * bytes);
        label[i] = (uint16_t)e->label;
    }
    TRM_TRY(trm_h5_put(h, "data", TRM_U8, first, n, bytes, rows));
    TRM_TRY(trm_h5_put(h, "label", TRM_U16, first, n, sizeof *label, label));
    trm_tell_now(&f->spec->tell, first + n, f->n);
    return TRM_OK;
}

static trm_status write_images(trm_h5_file *h, const void *ctx) {
    folder *f = (folder *)ctx;
    trm_shape data = trm_shape_of(4, f->n, f->c, f->h, f->w), label = trm_shape_of(1, f->n);
    size_t bytes = (size_t)(f->c * f->h * f->w);
    int64_t step = trm_min64(trm_max64((int64_t)(4 * TRM_MIB / bytes), 1), BLOCK);
    TRM_TRY(trm_h5_make(h, "data", TRM_U8, &data, 0, 0, false));
    TRM_TRY(trm_h5_make(h, "label", TRM_U16, &label, 0, 0, false));
    TRM_TRY(trm_names_write(&f->classes, h, "label_names"));
    unsigned char *rows = trm_alloc_array((size_t)step, bytes, "pictures");
    trm_status s = rows ? TRM_OK : TRM_MEMORY;
    for (int64_t at = 0; at < f->n && s == TRM_OK; at += step)
        s = put_block(f, h, at, trm_min64(step, f->n - at), rows, bytes);
    trm_free(rows);
    return s;
}

static trm_status import(folder *f, const char *out) {
    TRM_TRY(trm_h5_output(out));
    TRM_TRY(list_all(f));
    TRM_TRY(survey(f));
    trm_shape data = trm_shape_of(4, f->n, f->c, f->h, f->w);
    if (!trm_shape_valid(&data)) return trm_fail(TRM_DATA, "%s: too many pixels", f->spec->folder);
    return trm_h5_replace(out, write_images, f);
}

trm_status trm_import_images(const trm_images_spec *spec, const char *out, trm_made *made) {
    folder f = {.spec = spec};
    trm_status s = import(&f, out);
    if (s == TRM_OK)
        *made = (trm_made){.samples = f.n,
                           .x = trm_shape_of(3, f.c, f.h, f.w),
                           .type = TRM_U8,
                           .classes = f.classes.n,
                           .target = true,
                           .skipped = f.skipped};
    for (size_t i = 0; i < f.cap; i++) trm_free(f.at[i].path);
    trm_free(f.at);
    trm_free(f.bytes);
    trm_names_free(&f.classes);
    trm_picture_free(&f.picture);
    trm_picture_free(&f.fitted);
    return s;
}
