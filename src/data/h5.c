/* h5: files, facts and rows of HDF5; with h5_box.c the only file that calls the library.
 *
 * It tells facts and moves bytes; whether a fact is good is judged elsewhere.  One lock serves the whole process: the
 * library has one itself where it is thread-safe at all.  Error printing is off and its plug-ins are never loaded. */
#include "h5_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIST_ENTRIES 1000

struct trm_h5 {
    char *path;
    hid_t id;
    trm_probe probe; /* reading: an fd for pread; writing: for fsync */
    bool writing, broken;
    unsigned allow; /* TRM_ALLOW_... */
    hid_t set;      /* the data set used last */
    char *set_name;
};

/* ---- the lock, the library, its complaints ---- */

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static bool started;

static void enter(void) {
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

static trm_status leave(trm_status s) {
    pthread_mutex_unlock(&lock);
    return s;
}

const char *trm_h5_library(void) {
    static char text[32];
    unsigned major = 0, minor = 0, release = 0;
    enter();
    H5get_libversion(&major, &minor, &release);
    snprintf(text, sizeof text, "HDF5 %u.%u.%u", major, minor, release);
    (void)leave(TRM_OK);
    return text;
}

bool trm_h5_library_before(unsigned major, unsigned minor, unsigned release) {
    unsigned v[3] = {0}, than[3] = {major, minor, release};
    enter();
    H5get_libversion(&v[0], &v[1], &v[2]);
    (void)leave(TRM_OK);
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

/* "PATH: sentence (HDF5: its complaint)" */
static trm_status fault(const trm_h5 *f, trm_status s, const char *fmt, ...) TRM_PRINTF(3, 4);
static trm_status fault(const trm_h5 *f, trm_status s, const char *fmt, ...) {
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
    enter();
    H5PLset_loading_state(H5PL_ALL_PLUGIN);
    (void)leave(TRM_OK);
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

static void drop_set(trm_h5 *f) {
    if (f->set >= 0) H5Dclose(f->set);
    f->set = H5I_INVALID_HID;
    trm_free(f->set_name);
    f->set_name = NULL;
}

static void free_file(trm_h5 *f) {
    drop_set(f);
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
    if (f->id < 0) return fault(f, TRM_DATA, "cannot be opened: damaged or not readable");
    return TRM_OK;
}

static trm_status open_writing(trm_h5 *f) {
    struct stat st;
    if (stat(f->path, &st) == 0 && !S_ISREG(st.st_mode))
        return trm_fail(TRM_IO, "%s: cannot be written: it is not a regular file", f->path);
    hid_t access = access_list();
    f->id = H5Fcreate(f->path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    if (f->id < 0) return fault(f, TRM_IO, "cannot be created");
    f->probe.fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (f->probe.fd < 0) return fault(f, TRM_IO, "cannot be opened again");
    return TRM_OK;
}

trm_status trm_h5_begin(const char *path, bool writing, trm_h5 **out) {
    trm_h5 *f = trm_alloc(sizeof *f, "an HDF5 file");
    if (!f) return TRM_MEMORY;
    f->id = f->set = H5I_INVALID_HID;
    f->probe.fd = -1;
    f->writing = writing;
    f->path = trm_strdup(path);
    enter();
    trm_status s = !f->path ? TRM_MEMORY : writing ? open_writing(f) : open_reading(f);
    if (s == TRM_OK)
        *out = f;
    else
        free_file(f);
    return leave(s);
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
    enter();
    *out = (trm_h5_found){0};
    /* The library does not open a data set twice in two ways. */
    if (f->allow & TRM_ALLOW_EXTERNAL) drop_set(f);
    out->kind = walk(f, name, out->at, sizeof out->at, &info);
    if (out->kind == TRM_H5_SOFT || out->kind == TRM_H5_EXTERNAL) read_target(f, out->at, &info, out);
    if (out->kind == TRM_H5_SOFT)
        out->target_exists = walk(f, out->target, at, sizeof at, &target) != TRM_H5_MISSING;
    return leave(TRM_OK);
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
    enter();
    while (*group == '/') group++;
    l.n = (size_t)snprintf(l.path, sizeof l.path, "%s", group);
    if (l.n >= sizeof l.path) l.n = sizeof l.path - 1;
    H5Literate_by_name(f->id, *group ? group : "/", H5_INDEX_NAME, H5_ITER_INC, NULL, list_one, &l,
                       H5P_DEFAULT);
    return leave(TRM_OK);
}

/* ---- types ---- */

/* Sign bit, exponent at and bits, fraction at and bits, bias of the float types. */
static const struct {
    trm_dtype type;
    size_t bytes, sign, e_at, e_bits, f_at, f_bits, bias;
} floats[] = {
    {TRM_F16, 2, 15, 10, 5, 0, 10, 15},
    {TRM_BF16, 2, 15, 7, 8, 0, 7, 127},
    {TRM_F32, 4, 31, 23, 8, 0, 23, 127},
    {TRM_F64, 8, 63, 52, 11, 0, 52, 1023},
};

static bool float_type(hid_t t, trm_dtype *out) {
    size_t sign, e_at, e_bits, f_at, f_bits;
    if (H5Tget_fields(t, &sign, &e_at, &e_bits, &f_at, &f_bits) < 0 || H5Tget_offset(t) != 0) return false;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        if (floats[i].bytes != H5Tget_size(t) || floats[i].sign != sign || floats[i].e_at != e_at ||
            floats[i].e_bits != e_bits || floats[i].f_at != f_at || floats[i].f_bits != f_bits ||
            floats[i].bias != H5Tget_ebias(t) || H5Tget_norm(t) != H5T_NORM_IMPLIED)
            continue;
        *out = floats[i].type;
        return true;
    }
    return false;
}

static bool int_type(hid_t t, trm_dtype *out) {
    size_t size = H5Tget_size(t);
    bool is_signed = H5Tget_sign(t) == H5T_SGN_2;
    if (H5Tget_precision(t) != 8 * size || H5Tget_offset(t) != 0) return false;
    for (int k = TRM_U8; k <= TRM_I64; k++) {
        bool k_signed = k == TRM_I8 || k == TRM_I16 || k == TRM_I32 || k == TRM_I64;
        if (trm_dtype_size((trm_dtype)k) != size || k_signed != is_signed) continue;
        *out = (trm_dtype)k;
        return true;
    }
    return false;
}

/* The number type of t, enumerations by their base. */
static bool number_type(hid_t t, trm_dtype *out, bool *swap) {
    H5T_class_t c = H5Tget_class(t);
    if (c == H5T_ENUM) {
        hid_t base = H5Tget_super(t);
        bool known = base >= 0 && H5Tget_class(base) == H5T_INTEGER && number_type(base, out, swap);
        if (base >= 0) H5Tclose(base);
        return known;
    }
    if (c == H5T_INTEGER ? !int_type(t, out) : c == H5T_FLOAT ? !float_type(t, out) : true) return false;
    H5T_order_t native = H5Tget_order(H5T_NATIVE_INT), order = H5Tget_order(t);
    bool one_byte = H5Tget_size(t) == 1;
    *swap = !one_byte && order != native;
    return one_byte || order == H5T_ORDER_LE || order == H5T_ORDER_BE;
}

static void type_text(hid_t t, int depth, trm_str *s);

static void add_member(hid_t t, unsigned i, int depth, trm_str *s) {
    char *name = H5Tget_member_name(t, i);
    hid_t m = H5Tget_member_type(t, i);
    trm_str_add(s, "%s%s ", i > 0 ? ", " : "", name ? name : "?");
    if (m >= 0) {
        type_text(m, depth + 1, s);
        H5Tclose(m);
    }
    H5free_memory(name);
}

static void add_super(hid_t t, int depth, trm_str *s) {
    hid_t base = H5Tget_super(t);
    if (base < 0) return;
    type_text(base, depth + 1, s);
    H5Tclose(base);
}

static void compound_text(hid_t t, int depth, trm_str *s) {
    int n = H5Tget_nmembers(t);
    trm_str_add(s, "compound {");
    for (int i = 0; i < n && i < 6 && depth < 3; i++) add_member(t, (unsigned)i, depth, s);
    trm_str_add(s, "%s}", n > 6 ? ", ..." : "");
}

static void array_text(hid_t t, int depth, trm_str *s) {
    hsize_t dim[TRM_H5_RANK];
    int rank = H5Tget_array_ndims(t);
    add_super(t, depth, s);
    if (rank < 0 || rank > TRM_H5_RANK || H5Tget_array_dims2(t, dim) < 0) return;
    for (int i = 0; i < rank; i++) trm_str_add(s, "%s%llu", i ? "," : "[", (unsigned long long)dim[i]);
    trm_str_add(s, "]");
}

static void type_text(hid_t t, int depth, trm_str *s) {
    trm_dtype number;
    bool swap = false;
    size_t size = H5Tget_size(t);
    if (number_type(t, &number, &swap)) {
        trm_str_add(s, "%s%s", swap ? "big-endian " : "", trm_dtype_name(number));
        return;
    }
    switch (H5Tget_class(t)) {
    case H5T_STRING:
        if (H5Tis_variable_str(t) > 0)
            trm_str_add(s, "variable-length strings");
        else
            trm_str_add(s, "%zu-byte strings", size);
        return;
    case H5T_VLEN:
        trm_str_add(s, "variable-length arrays of ");
        add_super(t, depth, s);
        return;
    case H5T_COMPOUND: compound_text(t, depth, s); return;
    case H5T_ARRAY: array_text(t, depth, s); return;
    case H5T_REFERENCE:
        trm_str_add(s, "%s references", size == sizeof(hobj_ref_t) ? "object" : "region");
        return;
    case H5T_OPAQUE: trm_str_add(s, "%zu-byte opaque values", size); return;
    case H5T_BITFIELD: trm_str_add(s, "%zu-byte bit fields", size); return;
    case H5T_TIME: trm_str_add(s, "time stamps"); return;
    default: trm_str_add(s, "%zu-byte numbers of an unusual kind", size); return;
    }
}

/* h5py stores complex numbers as a compound of two floats r and i. */
static bool is_complex(hid_t t) {
    if (H5Tget_nmembers(t) != 2) return false;
    char *a = H5Tget_member_name(t, 0), *b = H5Tget_member_name(t, 1);
    bool yes = a && b && strcmp(a, "r") == 0 && strcmp(b, "i") == 0;
    H5free_memory(a);
    H5free_memory(b);
    return yes;
}

static trm_h5_class class_of(hid_t t) {
    switch (H5Tget_class(t)) {
    case H5T_STRING: return H5Tis_variable_str(t) > 0 ? TRM_H5_VLEN_STRING : TRM_H5_STRING;
    case H5T_VLEN: return TRM_H5_VLEN;
    case H5T_COMPOUND: return is_complex(t) ? TRM_H5_COMPLEX : TRM_H5_COMPOUND;
    case H5T_REFERENCE: return TRM_H5_REFERENCE;
    case H5T_OPAQUE: return TRM_H5_OPAQUE;
    case H5T_BITFIELD: return TRM_H5_BITFIELD;
    case H5T_ARRAY: return TRM_H5_ARRAY;
    case H5T_TIME: return TRM_H5_TIME;
    default: return TRM_H5_ODD;
    }
}

static void type_facts(hid_t t, trm_h5_facts *out) {
    trm_str s = {0};
    out->type_bytes = H5Tget_size(t);
    out->cls = number_type(t, &out->type, &out->swap) ? TRM_H5_NUMBER : class_of(t);
    type_text(t, 0, &s);
    snprintf(out->type_text, sizeof out->type_text, "%s", trm_str_get(&s));
    trm_str_free(&s);
}

/* A type of ours, in the file (little-endian) or in memory (the machine's order). */
static hid_t own_type(trm_dtype type, bool in_file) {
    switch (type) {
    case TRM_U8: return H5Tcopy(H5T_STD_U8LE);
    case TRM_I8: return H5Tcopy(H5T_STD_I8LE);
    case TRM_U16: return H5Tcopy(in_file ? H5T_STD_U16LE : H5T_NATIVE_UINT16);
    case TRM_I16: return H5Tcopy(in_file ? H5T_STD_I16LE : H5T_NATIVE_INT16);
    case TRM_U32: return H5Tcopy(in_file ? H5T_STD_U32LE : H5T_NATIVE_UINT32);
    case TRM_I32: return H5Tcopy(in_file ? H5T_STD_I32LE : H5T_NATIVE_INT32);
    case TRM_U64: return H5Tcopy(in_file ? H5T_STD_U64LE : H5T_NATIVE_UINT64);
    case TRM_I64: return H5Tcopy(in_file ? H5T_STD_I64LE : H5T_NATIVE_INT64);
    case TRM_F32: return H5Tcopy(in_file ? H5T_IEEE_F32LE : H5T_NATIVE_FLOAT);
    case TRM_F64: return H5Tcopy(in_file ? H5T_IEEE_F64LE : H5T_NATIVE_DOUBLE);
    case TRM_F16:
    case TRM_BF16:
    case TRM_DTYPE_COUNT: break;
    }
    /* The library has no 16-bit float by name, but knows how to describe one. */
    size_t i = type == TRM_F16 ? 0 : 1;
    hid_t t = H5Tcopy(in_file ? H5T_IEEE_F32LE : H5T_NATIVE_FLOAT);
    if (H5Tset_fields(t, floats[i].sign, floats[i].e_at, floats[i].e_bits, floats[i].f_at, floats[i].f_bits) <
            0 ||
        H5Tset_size(t, 2) < 0 || H5Tset_ebias(t, floats[i].bias) < 0) {
        H5Tclose(t);
        return H5I_INVALID_HID;
    }
    return t;
}

/* ---- facts of a data set ---- */

/* Keeps one data set open: reading goes on in it, row after row. */
static trm_status use(trm_h5 *f, const char *name) {
    if (f->set >= 0 && strcmp(f->set_name, name) == 0) return TRM_OK;
    drop_set(f);
    hid_t access = H5P_DEFAULT;
    if (f->allow & TRM_ALLOW_EXTERNAL) {
        /* External raw storage is looked for beside the file. */
        access = H5Pcreate(H5P_DATASET_ACCESS);
        H5Pset_efile_prefix(access, "${ORIGIN}");
    }
    f->set = H5Dopen2(f->id, name, access);
    if (access != H5P_DEFAULT) H5Pclose(access);
    if (f->set < 0) return fault(f, TRM_DATA, "'%s' cannot be opened", name);
    f->set_name = trm_strdup(name);
    if (f->set_name) return TRM_OK;
    drop_set(f);
    return TRM_MEMORY;
}

static int64_t clamp(hsize_t v) { return v > INT64_MAX ? INT64_MAX : (int64_t)v; }

static trm_status space_facts(trm_h5 *f, const char *name, trm_h5_facts *out) {
    hsize_t dim[TRM_H5_RANK];
    hid_t space = H5Dget_space(f->set);
    if (space < 0) return fault(f, TRM_DATA, "'%s' has no readable shape", name);
    out->rank = H5Sget_simple_extent_type(space) == H5S_NULL ? -1 : H5Sget_simple_extent_ndims(space);
    bool good =
        out->rank <= TRM_H5_RANK && (out->rank <= 0 || H5Sget_simple_extent_dims(space, dim, NULL) >= 0);
    H5Sclose(space);
    if (!good) return fault(f, TRM_DATA, "'%s' has no readable shape", name);
    for (int i = 0; i < out->rank; i++) out->dim[i] = clamp(dim[i]);
    return TRM_OK;
}

static void filter_facts(hid_t list, trm_h5_facts *out) {
    int n = H5Pget_nfilters(list);
    for (int i = 0; i < n && i < TRM_H5_FILTERS; i++) {
        trm_h5_filter *to = &out->filter[out->n_filters++];
        unsigned value[8] = {0}, flags;
        size_t n_values = 8;
        to->id = H5Pget_filter2(list, (unsigned)i, &flags, &n_values, value, sizeof to->name, to->name, NULL);
        to->name[sizeof to->name - 1] = '\0';
        to->param = value[0];
        to->available = to->id >= 0 && H5Zfilter_avail(to->id) > 0;
    }
}

static void chunk_facts(hid_t set, hid_t list, trm_h5_facts *out) {
    hsize_t dim[TRM_H5_RANK] = {0}, n = 0;
    unsigned options = 0;
    int rank = H5Pget_chunk(list, TRM_H5_RANK, dim);
    for (int i = 0; i < rank && i < TRM_H5_RANK; i++) out->chunk[i] = clamp(dim[i]);
    hid_t space = H5Dget_space(set);
    if (space >= 0 && H5Dget_num_chunks(set, space, &n) >= 0) out->chunks_written = clamp(n);
    if (space >= 0) H5Sclose(space);
    if (H5Pget_chunk_opts(list, &options) >= 0)
        out->odd_edges = options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS;
    filter_facts(list, out);
}

/* Is a file there that a data set of this file names? From the file's own folder, without opening it. */
static bool is_there(const char *path, const char *name) {
    const char *slash = name[0] == '/' ? NULL : strrchr(path, '/');
    struct stat st;
    trm_str full = {0};
    if (slash) trm_str_addn(&full, path, (size_t)(slash + 1 - path));
    trm_str_add(&full, "%s", name);
    bool there = full.failed || stat(full.p, &st) == 0;
    trm_str_free(&full);
    return there;
}

#define MOST_SOURCES 1000

/* A file that a virtual data set reads: the first one that is missing, else the first of all. */
static void source_facts(const char *path, hid_t list, trm_h5_facts *out) {
    size_t n = 0;
    char name[sizeof out->external];
    if (H5Pget_virtual_count(list, &n) < 0) return;
    for (size_t i = 0; i < n && i < MOST_SOURCES && !out->source_missing; i++) {
        if (H5Pget_virtual_filename(list, i, name, sizeof name) < 0) continue;
        /* "." is the file itself; a % stands for a number. */
        out->source_missing = strcmp(name, ".") != 0 && !strchr(name, '%') && !is_there(path, name);
        if (i == 0 || out->source_missing) memcpy(out->external, name, sizeof name);
    }
}

static void storage_facts(const char *path, hid_t set, hid_t list, hid_t type, trm_h5_facts *out) {
    H5D_layout_t layout = H5Pget_layout(list);
    out->layout = layout == H5D_CHUNKED   ? TRM_H5_CHUNKED
                  : layout == H5D_COMPACT ? TRM_H5_COMPACT
                  : layout == H5D_VIRTUAL ? TRM_H5_VIRTUAL
                                          : TRM_H5_CONTIGUOUS;
    out->offset = TRM_NO_ADDRESS;
    if (layout == H5D_VIRTUAL) {
        source_facts(path, list, out);
        return;
    }
    out->stored = H5Dget_storage_size(set);
    if (layout == H5D_CHUNKED) chunk_facts(set, list, out);
    if (layout != H5D_CONTIGUOUS) {
        H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
        if (out->cls == TRM_H5_NUMBER && H5Pfill_value_defined(list, &defined) >= 0 &&
            defined != H5D_FILL_VALUE_UNDEFINED)
            H5Pget_fill_value(list, type, out->fill);
        return;
    }
    out->n_external = H5Pget_external_count(list);
    if (out->n_external > 0) H5Pget_external(list, 0, sizeof out->external - 1, out->external, NULL, NULL);
    haddr_t at = H5Dget_offset(set);
    if (at != HADDR_UNDEF) out->offset = at;
}

trm_status trm_h5_facts_of(trm_h5 *f, const char *name, trm_h5_facts *out) {
    enter();
    *out = (trm_h5_facts){0};
    trm_status s = use(f, name);
    if (s != TRM_OK) return leave(s);
    hid_t type = H5Dget_type(f->set), list = H5Dget_create_plist(f->set);
    if (type < 0 || list < 0) {
        s = fault(f, TRM_DATA, "'%s' has no readable type", name);
    } else {
        type_facts(type, out);
        storage_facts(f->path, f->set, list, type, out);
        /* To ask a virtual data set for its shape may open its sources, and wait for a pipe. */
        if (out->layout != TRM_H5_VIRTUAL) s = space_facts(f, name, out);
    }
    /* A creation list that is left open crashes 1.10.8 at exit where the data set is virtual. */
    if (list >= 0) H5Pclose(list);
    if (type >= 0) H5Tclose(type);
    return leave(s);
}

trm_status trm_h5_external(trm_h5 *f, const char *name, int i, char *file, size_t cap, uint64_t *offset,
                           uint64_t *bytes) {
    off_t at = 0;
    hsize_t n = 0;
    enter();
    trm_status s = use(f, name);
    hid_t list = s == TRM_OK ? H5Dget_create_plist(f->set) : H5I_INVALID_HID;
    memset(file, 0, cap);
    if (s == TRM_OK && (list < 0 || H5Pget_external(list, (unsigned)i, cap - 1, file, &at, &n) < 0 || at < 0))
        s = fault(f, TRM_DATA, "'%s': its list of external files cannot be read", name);
    if (list >= 0) H5Pclose(list);
    *offset = (uint64_t)at;
    *bytes = n == H5F_UNLIMITED ? 0 : n;
    return leave(s);
}

/* ---- stored bytes ---- */

/* HDF5 knows only ranks up to 32: arrays on the stack will do. */
static int to_hsize(const int64_t *from, int rank, hsize_t *to) {
    for (int i = 0; i < rank; i++) to[i] = (hsize_t)from[i];
    return rank;
}

static int set_rank(hid_t set) {
    hid_t space = H5Dget_space(set);
    int rank = H5Sget_simple_extent_ndims(space);
    H5Sclose(space);
    return rank;
}

trm_status trm_h5_chunk_table(trm_h5 *f, const char *name, const trm_h5_facts *facts, trm_chunk *table,
                              int64_t n) {
    enter();
    bool good = trm_h5_find_chunks(f->path, name, facts, table, n);
    return leave(good ? TRM_OK : fault(f, TRM_DATA, "'%s': its index of chunks cannot be read", name));
}

trm_status trm_h5_raw_chunk(trm_h5 *f, const char *name, const int64_t *corner, void **buf, size_t *cap,
                            size_t *bytes, uint32_t *mask) {
    hsize_t at[TRM_H5_RANK], n = 0;
    enter();
    *bytes = 0;
    trm_status s = use(f, name);
    if (s != TRM_OK) return leave(s);
    to_hsize(corner, set_rank(f->set), at);
    if (H5Dget_chunk_storage_size(f->set, at, &n) < 0) return leave(TRM_OK);
    if (n == 0) {
        haddr_t place = HADDR_UNDEF;
        if (H5Dget_chunk_info_by_coord(f->set, at, NULL, &place, NULL) < 0 || place == HADDR_UNDEF)
            return leave(TRM_OK);
        return leave(fault(f, TRM_DATA, "'%s': the chunk at row %lld has 0 bytes: its index is damaged", name,
                           (long long)corner[0]));
    }
    if (n > TRM_BAND_LIMIT || n > (hsize_t)f->probe.size)
        return leave(
            fault(f, TRM_DATA, "'%s': a chunk claims %llu stored bytes", name, (unsigned long long)n));
    if (n > *cap) {
        void *more = trm_realloc(*buf, 0, n, "a stored chunk");
        if (!more) return leave(TRM_MEMORY);
        *buf = more;
        *cap = n;
    }
    if (H5Dread_chunk(f->set, H5P_DEFAULT, at, mask, *buf) < 0)
        return leave(
            fault(f, TRM_DATA, "'%s': chunk at row %lld cannot be read", name, (long long)corner[0]));
    *bytes = n;
    return leave(TRM_OK);
}

/* Selects rows of the open data set: the file's space, and a memory space for them. */
static bool row_spaces(trm_h5 *f, int64_t first, int64_t count, hid_t *file, hid_t *memory) {
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

static void close_spaces(hid_t file, hid_t memory) {
    if (file >= 0) H5Sclose(file);
    if (memory >= 0) H5Sclose(memory);
}

/* memory_type < 0: as stored. */
static trm_status read_rows(trm_h5 *f, const char *name, int64_t first, int64_t count, hid_t memory_type,
                            void *dst) {
    hid_t file, memory;
    hid_t stored = H5Dget_type(f->set);
    bool good = stored >= 0 && row_spaces(f, first, count, &file, &memory) &&
                H5Dread(f->set, memory_type < 0 ? stored : memory_type, memory, file, H5P_DEFAULT, dst) >= 0;
    trm_status s = good ? TRM_OK
                        : fault(f, TRM_DATA, "'%s': rows %lld to %lld cannot be read", name, (long long)first,
                                (long long)(first + count - 1));
    if (stored >= 0) {
        close_spaces(file, memory);
        H5Tclose(stored);
    }
    return s;
}

trm_status trm_h5_rows(trm_h5 *f, const char *name, int64_t first, int64_t count, void *raw) {
    enter();
    trm_status s = use(f, name);
    if (s == TRM_OK) s = read_rows(f, name, first, count, H5I_INVALID_HID, raw);
    return leave(s);
}

trm_status trm_h5_rows_as(trm_h5 *f, const char *name, trm_dtype type, int64_t first, int64_t count,
                          void *dst) {
    enter();
    trm_status s = use(f, name);
    hid_t memory_type = own_type(type, false);
    if (s == TRM_OK) s = read_rows(f, name, first, count, memory_type, dst);
    if (memory_type >= 0) H5Tclose(memory_type);
    return leave(s);
}

/* ---- writing ---- */

static trm_status write_fault(trm_h5 *f, const char *name) {
    f->broken = true;
    return fault(f, TRM_IO, "'%s' cannot be written", name);
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
    to_hsize(dim, rank, chunk);
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
    to_hsize(size, rank, dim);
    memcpy(most, dim, sizeof most);
    if (growing) most[0] = H5S_UNLIMITED;
    return H5Screate_simple(rank, dim, most);
}

/* Makes a data set of type t in this space and closes what it is given. */
static trm_status create(trm_h5 *f, const char *name, hid_t t, hid_t space, hid_t how) {
    drop_set(f);
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
    enter();
    hid_t how = creation_list(shape->dim, shape->rank, &(trm_h5_store){chunk_rows, deflate, false});
    return leave(
        create(f, name, own_type(type, true), creation_space(shape->dim, shape->rank, growing), how));
}

trm_status trm_h5_new_texts(trm_h5 *f, const char *name, int64_t n, size_t width) {
    enter();
    hid_t t = H5Tcopy(H5T_C_S1);
    bool good = H5Tset_size(t, width) >= 0 && H5Tset_strpad(t, H5T_STR_NULLPAD) >= 0 &&
                H5Tset_cset(t, H5T_CSET_UTF8) >= 0;
    hid_t how = creation_list(&n, 1, &(trm_h5_store){0});
    return leave(create(f, name, good ? t : H5I_INVALID_HID, creation_space(&n, 1, false), how));
}

trm_status trm_h5_new_like(trm_h5 *f, const char *name, trm_h5 *from, const char *like, int64_t rows,
                           const trm_h5_store *how) {
    trm_h5_facts x;
    TRM_TRY(trm_h5_facts_of(from, like, &x));
    enter();
    if (x.rank > 0) x.dim[0] = rows;
    hid_t t = H5Dget_type(from->set), list = creation_list(x.dim, x.rank, how);
    /* What leads to memory elsewhere has to lead to nothing at first. */
    if (x.cls == TRM_H5_VLEN || x.cls == TRM_H5_VLEN_STRING) H5Pset_fill_time(list, H5D_FILL_TIME_IFSET);
    return leave(create(f, name, t, creation_space(x.dim, x.rank, false), list));
}

trm_status trm_h5_write_stored(trm_h5 *f, const char *name, int64_t first, int64_t rows, const void *bytes) {
    hid_t file = H5I_INVALID_HID, memory = H5I_INVALID_HID, t = H5I_INVALID_HID;
    enter();
    trm_status s = use(f, name);
    if (s == TRM_OK) t = H5Dget_type(f->set);
    if (s == TRM_OK && (!row_spaces(f, first, rows, &file, &memory) ||
                        H5Dwrite(f->set, t, memory, file, H5P_DEFAULT, bytes) < 0))
        s = write_fault(f, name);
    close_spaces(file, memory);
    if (t >= 0) H5Tclose(t);
    return leave(s);
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
    enter();
    *item = 1;
    if (use(f, name) != TRM_OK) return (void)leave(TRM_OK), TRM_H5_EVEN;
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
    (void)leave(TRM_OK);
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
    enter();
    if (use(f, name) == TRM_OK) t = H5Dget_type(f->set);
    if (t >= 0 && row_spaces(f, 0, rows, &file, &memory)) H5Dvlen_reclaim(t, memory, H5P_DEFAULT, elements);
    close_spaces(file, memory);
    if (t >= 0) H5Tclose(t);
    (void)leave(TRM_OK);
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
    enter();
    hid_t a = H5Oopen(from->id, like, H5P_DEFAULT);
    notes n = {H5Oopen(f->id, name, H5P_DEFAULT), false};
    if (a >= 0 && n.to >= 0) H5Aiterate2(a, H5_INDEX_NAME, H5_ITER_INC, NULL, copy_note, &n);
    trm_status s = a < 0 || n.to < 0 || n.failed ? write_fault(f, name) : TRM_OK;
    if (a >= 0) H5Oclose(a);
    if (n.to >= 0) H5Oclose(n.to);
    return leave(s);
}

trm_status trm_h5_write_rows(trm_h5 *f, const char *name, trm_dtype type, int64_t first, int64_t rows,
                             const void *bytes) {
    hid_t file = H5I_INVALID_HID, memory = H5I_INVALID_HID;
    enter();
    hid_t memory_type = own_type(type, false);
    trm_status s = use(f, name);
    if (s == TRM_OK && (!row_spaces(f, first, rows, &file, &memory) ||
                        H5Dwrite(f->set, memory_type, memory, file, H5P_DEFAULT, bytes) < 0))
        s = write_fault(f, name);
    close_spaces(file, memory);
    if (memory_type >= 0) H5Tclose(memory_type);
    return leave(s);
}

trm_status trm_h5_set_rows(trm_h5 *f, const char *name, int64_t rows) {
    hsize_t dim[TRM_H5_RANK];
    enter();
    trm_status s = use(f, name);
    if (s != TRM_OK) return leave(s);
    hid_t space = H5Dget_space(f->set);
    bool good = space >= 0 && H5Sget_simple_extent_dims(space, dim, NULL) > 0;
    if (space >= 0) H5Sclose(space);
    dim[0] = (hsize_t)rows;
    if (!good || H5Dset_extent(f->set, dim) < 0) s = write_fault(f, name);
    return leave(s);
}

/* ---- closing ---- */

static trm_status finish(trm_h5 *f) {
    drop_set(f);
    bool good = H5Fflush(f->id, H5F_SCOPE_GLOBAL) >= 0;
    good = H5Fclose(f->id) >= 0 && good;
    f->id = H5I_INVALID_HID;
    if (!good) return fault(f, TRM_IO, "cannot be closed");
    if (f->broken) return trm_fail(TRM_IO, "%s: was not written whole", f->path);
    if (fsync(f->probe.fd) != 0) {
        char why[128];
        return trm_fail(TRM_IO, "%s: cannot be synced: %s", f->path, strerror_r(errno, why, sizeof why));
    }
    return TRM_OK;
}

trm_status trm_h5_end(trm_h5 *f) {
    if (!f) return TRM_OK;
    enter();
    trm_status s = f->writing ? finish(f) : TRM_OK;
    free_file(f);
    return leave(s);
}

/* ---- for the other files that call the library ---- */

void trm_h5_enter(void) { enter(); }
trm_status trm_h5_leave(trm_status s) { return leave(s); }
hid_t trm_h5_id(const trm_h5 *f) { return f->id; }
hid_t trm_h5_memory_type(trm_dtype type) { return own_type(type, false); }
void trm_h5_type_facts(hid_t t, trm_h5_facts *out) { type_facts(t, out); }

trm_status trm_h5_use(trm_h5 *f, const char *name, hid_t *set) {
    TRM_TRY(use(f, name));
    *set = f->set;
    return TRM_OK;
}

trm_status trm_h5_fault(const trm_h5 *f, const char *name, const char *text) {
    return fault(f, TRM_DATA, "'%s' %s", name, text);
}

trm_status trm_h5_shape_facts(trm_h5 *f, const char *name, trm_h5_facts *out) {
    enter();
    trm_status s = use(f, name);
    return leave(s == TRM_OK ? space_facts(f, name, out) : s);
}
