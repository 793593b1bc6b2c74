/* h5: HDF5 files opened and closed, and where a path in one leads.
 *
 * The files h5*.c tell facts and move bytes; whether a fact is good is judged elsewhere.  One lock serves the whole process: the
 * library has one itself where it is thread-safe at all.  Error printing is off and its plug-ins are never loaded. */
#include "h5_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIST_ENTRIES 1000

/* ---- the lock, the library, its complaints ---- */

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static bool started;

void trm_h5_enter(void) {
    pthread_mutex_lock(&lock);
    if (!started) {
        /* Everything is closed by hand; cleaning up at exit crashes 1.10 where a file could not be closed. */
        H5dont_atexit();
        H5open();
        H5PLset_loading_state(0);
        started = true;
    }
    /* The switch belongs to the thread. */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5Eclear2(H5E_DEFAULT);
}

trm_status trm_h5_leave(trm_status s) {
    pthread_mutex_unlock(&lock);
    return s;
}

const char *trm_h5_library(void) {
    static char text[32];
    unsigned major = 0, minor = 0, release = 0;
    trm_h5_enter();
    H5get_libversion(&major, &minor, &release);
    snprintf(text, sizeof text, "HDF5 %u.%u.%u", major, minor, release);
    (void)trm_h5_leave(TRM_OK);
    return text;
}

bool trm_h5_library_before(unsigned major, unsigned minor, unsigned release) {
    unsigned v[3] = {0}, than[3] = {major, minor, release};
    trm_h5_enter();
    H5get_libversion(&v[0], &v[1], &v[2]);
    (void)trm_h5_leave(TRM_OK);
    for (int i = 0; i < 3; i++)
        if (v[i] != than[i]) return v[i] < than[i];
    return false;
}

/* Keeps the innermost complaint: it is the one that names the cause. */
static herr_t innermost(unsigned n, const H5E_error2_t *e, void *ctx) {
    char *text = ctx;
    if (n > 0 || !e->desc) return 0;
    const char *cause = strstr(e->desc, "error message = '");
    if (cause) {
        snprintf(text, 160, "%s", cause + 17);
        char *end = strchr(text, '\'');
        if (end) *end = '\0';
    } else {
        snprintf(text, 160, "%s", e->desc);
    }
    return 0;
}

trm_status trm_h5_complain(const trm_h5 *f, trm_status s, const char *fmt, ...) {
    char said[160] = "", sentence[600];
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, said);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    if (said[0]) return trm_fail(s, "%s: %s (HDF5: %s)", f->path, sentence, said);
    return trm_fail(s, "%s: %s", f->path, sentence);
}

void trm_h5_allow(trm_h5 *f, unsigned allow) { f->allow = allow; }
unsigned trm_h5_allowed(const trm_h5 *f) { return f->allow; }

void trm_h5_allow_plugins(void) {
    trm_h5_enter();
    H5PLset_loading_state(H5PL_ALL_PLUGIN);
    (void)trm_h5_leave(TRM_OK);
}

const char *trm_h5_path(const trm_h5 *f) { return f->path; }
const trm_probe *trm_h5_probe(const trm_h5 *f) { return &f->probe; }
int64_t trm_h5_size(const trm_h5 *f) { return f->probe.size; }

/* ---- opening and closing ---- */

/* Small reads go straight to the file: its buffers slow scattered rows down, and what is written must not wait in one. */
static hid_t access_list(void) {
    hid_t p = H5Pcreate(H5P_FILE_ACCESS);
    if (p < 0) return p;
    H5Pset_sieve_buf_size(p, 0);
    H5Pset_cache(p, 0, 1, 0, 0.75);
    H5Pset_fclose_degree(p, H5F_CLOSE_STRONG);
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 12 && H5_VERS_RELEASE < 1)
    H5Pset_file_locking(p, false, true);
#endif
    return p;
}

void trm_h5_drop_set(trm_h5 *f) {
    if (f->set >= 0) H5Dclose(f->set);
    f->set = H5I_INVALID_HID;
    trm_free(f->set_name);
    f->set_name = NULL;
}

static void free_file(trm_h5 *f) {
    trm_h5_drop_set(f);
    if (f->id >= 0) H5Fclose(f->id);
    if (f->probe.fd >= 0) close(f->probe.fd);
    trm_free(f->path);
    trm_free(f);
}

static trm_status open_reading(trm_h5 *f) {
    TRM_TRY(trm_probe_file(f->path, &f->probe));
    hid_t access = access_list();
    f->id = H5Fopen(f->path, H5F_ACC_RDONLY, access);
    H5Pclose(access);
    if (f->id < 0) return trm_h5_complain(f, TRM_DATA, "cannot be opened: damaged or not readable");
    return TRM_OK;
}

static trm_status open_writing(trm_h5 *f) {
    struct stat st;
    if (stat(f->path, &st) == 0 && !S_ISREG(st.st_mode))
        return trm_fail(TRM_IO, "%s: cannot be written: it is not a regular file", f->path);
    hid_t access = access_list();
    f->id = H5Fcreate(f->path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    if (f->id < 0) return trm_h5_complain(f, TRM_IO, "cannot be created");
    f->probe.fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (f->probe.fd < 0) return trm_h5_complain(f, TRM_IO, "cannot be opened again");
    return TRM_OK;
}

trm_status trm_h5_begin(const char *path, bool writing, trm_h5 **out) {
    trm_h5 *f = trm_alloc(sizeof *f, "an HDF5 file");
    if (!f) return TRM_MEMORY;
    f->id = f->set = H5I_INVALID_HID;
    f->probe.fd = -1;
    f->writing = writing;
    f->path = trm_strdup(path);
    trm_h5_enter();
    trm_status s = !f->path ? TRM_MEMORY : writing ? open_writing(f) : open_reading(f);
    if (s == TRM_OK)
        *out = f;
    else
        free_file(f);
    return trm_h5_leave(s);
}

/* ---- where a path leads ---- */

static trm_h5_kind kind_of_object(hid_t at, const char *path) {
    hid_t o = H5Oopen(at, path, H5P_DEFAULT);
    if (o < 0) return TRM_H5_BROKEN;
    H5I_type_t t = H5Iget_type(o);
    H5Oclose(o);
    return t == H5I_DATASET ? TRM_H5_DATASET : t == H5I_GROUP ? TRM_H5_GROUP : TRM_H5_TYPE;
}

static trm_h5_kind kind_of_link(H5L_type_t t) {
    return t == H5L_TYPE_SOFT ? TRM_H5_SOFT : t == H5L_TYPE_EXTERNAL ? TRM_H5_EXTERNAL : TRM_H5_USER;
}

/* The kind of what `path` names, whose parents are groups. */
static trm_h5_kind kind_at(hid_t at, const char *path, H5L_info_t *info) {
    if (H5Lexists(at, path, H5P_DEFAULT) <= 0 || H5Lget_info(at, path, info, H5P_DEFAULT) < 0)
        return TRM_H5_MISSING;
    return info->type == H5L_TYPE_HARD ? kind_of_object(at, path) : kind_of_link(info->type);
}

static void read_target(trm_h5 *f, const char *path, const H5L_info_t *info, trm_h5_found *found) {
    char value[480] = "";
    const char *file = NULL, *object = NULL;
    size_t n = info->u.val_size < sizeof value - 1 ? info->u.val_size : sizeof value - 1;
    if (H5Lget_val(f->id, path, value, n, H5P_DEFAULT) < 0) return;
    if (info->type == H5L_TYPE_SOFT)
        snprintf(found->target, sizeof found->target, "%s", value);
    else if (info->u.val_size < sizeof value &&
             H5Lunpack_elink_val(value, info->u.val_size, NULL, &file, &object) >= 0) {
        snprintf(found->target, sizeof found->target, "%s:%s", file, object);
        found->target_file = strlen(file);
    }
}

/* Goes on as long as the parts of the path are groups. */
static trm_h5_kind walk(trm_h5 *f, const char *name, char *at, size_t cap, H5L_info_t *info) {
    size_t n = 0;
    trm_h5_kind kind = TRM_H5_GROUP;
    at[0] = '\0';
    while (*name == '/') name++;
    if (*name == '\0') snprintf(at, cap, "/");
    while (*name && kind == TRM_H5_GROUP) {
        size_t part = strcspn(name, "/");
        if (n + part + 2 > cap) return TRM_H5_MISSING;
        if (n > 0) at[n++] = '/';
        memcpy(at + n, name, part);
        at[n += part] = '\0';
        name += part + strspn(name + part, "/");
        kind = kind_at(f->id, at, info);
    }
    /* A data set has nothing below it. */
    return *name && (kind == TRM_H5_DATASET || kind == TRM_H5_TYPE) ? TRM_H5_MISSING : kind;
}

trm_status trm_h5_look(trm_h5 *f, const char *name, trm_h5_found *out) {
    H5L_info_t info = {0}, target = {0};
    char at[256];
    trm_h5_enter();
    *out = (trm_h5_found){0};
    /* The library does not open a data set twice in two ways. */
    if (f->allow & TRM_ALLOW_EXTERNAL) trm_h5_drop_set(f);
    out->kind = walk(f, name, out->at, sizeof out->at, &info);
    if (out->kind == TRM_H5_SOFT || out->kind == TRM_H5_EXTERNAL) read_target(f, out->at, &info, out);
    if (out->kind == TRM_H5_SOFT)
        out->target_exists = walk(f, out->target, at, sizeof at, &target) != TRM_H5_MISSING;
    return trm_h5_leave(TRM_OK);
}

typedef struct listing {
    trm_h5_visit visit;
    void *ctx;
    char path[512];
    size_t n;
    int depth, left;
} listing;

static herr_t list_one(hid_t group, const char *name, const H5L_info_t *info, void *ctx) {
    listing *l = ctx;
    size_t before = l->n, length = strlen(name);
    herr_t r = 0;
    if (l->left-- <= 0) return 1;
    if (l->n + length + 2 > sizeof l->path) return 0;
    if (l->n > 0) l->path[l->n++] = '/';
    memcpy(l->path + l->n, name, length + 1);
    l->n += length;
    trm_h5_kind kind = info->type == H5L_TYPE_HARD ? kind_of_object(group, name) : kind_of_link(info->type);
    if (!l->visit(l->ctx, l->path, kind)) r = 1;
    if (r == 0 && kind == TRM_H5_GROUP && l->depth > 0) {
        l->depth--;
        r = H5Literate_by_name(group, name, H5_INDEX_NAME, H5_ITER_INC, NULL, list_one, l, H5P_DEFAULT);
        l->depth++;
    }
    l->n = before;
    l->path[l->n] = '\0';
    return r < 0 ? 0 : r;
}

trm_status trm_h5_list(trm_h5 *f, const char *group, int depth, trm_h5_visit visit, void *ctx) {
    listing l = {.visit = visit, .ctx = ctx, .depth = depth, .left = LIST_ENTRIES};
    trm_h5_enter();
    while (*group == '/') group++;
    l.n = (size_t)snprintf(l.path, sizeof l.path, "%s", group);
    if (l.n >= sizeof l.path) l.n = sizeof l.path - 1;
    H5Literate_by_name(f->id, *group ? group : "/", H5_INDEX_NAME, H5_ITER_INC, NULL, list_one, &l,
                       H5P_DEFAULT);
    return trm_h5_leave(TRM_OK);
}

/* ---- the data set in use ---- */

trm_status trm_h5_open_set(trm_h5 *f, const char *name) {
    if (f->set >= 0 && strcmp(f->set_name, name) == 0) return TRM_OK;
    trm_h5_drop_set(f);
    hid_t access = H5P_DEFAULT;
    if (f->allow & TRM_ALLOW_EXTERNAL) {
        /* External raw storage is looked for beside the file. */
        access = H5Pcreate(H5P_DATASET_ACCESS);
        H5Pset_efile_prefix(access, "${ORIGIN}");
    }
    f->set = H5Dopen2(f->id, name, access);
    if (access != H5P_DEFAULT) H5Pclose(access);
    if (f->set < 0) return trm_h5_complain(f, TRM_DATA, "'%s' cannot be opened", name);
    f->set_name = trm_strdup(name);
    if (f->set_name) return TRM_OK;
    trm_h5_drop_set(f);
    return TRM_MEMORY;
}

/* ---- closing ---- */

static trm_status finish(trm_h5 *f) {
    trm_h5_drop_set(f);
    bool good = H5Fflush(f->id, H5F_SCOPE_GLOBAL) >= 0;
    good = H5Fclose(f->id) >= 0 && good;
    f->id = H5I_INVALID_HID;
    if (!good) return trm_h5_complain(f, TRM_IO, "cannot be closed");
    if (f->broken) return trm_fail(TRM_IO, "%s: was not written whole", f->path);
    if (fsync(f->probe.fd) != 0) {
        char why[128];
        return trm_fail(TRM_IO, "%s: cannot be synced: %s", f->path, strerror_r(errno, why, sizeof why));
    }
    return TRM_OK;
}

trm_status trm_h5_end(trm_h5 *f) {
    if (!f) return TRM_OK;
    trm_h5_enter();
    trm_status s = f->writing ? finish(f) : TRM_OK;
    free_file(f);
    return trm_h5_leave(s);
}

/* ---- for the other files that call the library ---- */

hid_t trm_h5_id(const trm_h5 *f) { return f->id; }

trm_status trm_h5_use(trm_h5 *f, const char *name, hid_t *set) {
    TRM_TRY(trm_h5_open_set(f, name));
    *set = f->set;
    return TRM_OK;
}

trm_status trm_h5_fault(const trm_h5 *f, const char *name, const char *text) {
    return trm_h5_complain(f, TRM_DATA, "'%s' %s", name, text);
}
