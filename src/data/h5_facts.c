/* h5_facts: types, shapes and storage of data sets, without judgement. */
#include "h5_impl.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

void trm_h5_type_facts(hid_t t, trm_h5_facts *out) {
    trm_str s = {0};
    out->type_bytes = H5Tget_size(t);
    out->cls = number_type(t, &out->type, &out->swap) ? TRM_H5_NUMBER : class_of(t);
    type_text(t, 0, &s);
    snprintf(out->type_text, sizeof out->type_text, "%s", trm_str_get(&s));
    trm_str_free(&s);
}

/* A type of ours, in the file (little-endian) or in memory (the machine's order). */
hid_t trm_h5_own_type(trm_dtype type, bool in_file) {
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

static int64_t clamp(hsize_t v) { return v > INT64_MAX ? INT64_MAX : (int64_t)v; }

static trm_status space_facts(trm_h5 *f, const char *name, trm_h5_facts *out) {
    hsize_t dim[TRM_H5_RANK];
    hid_t space = H5Dget_space(f->set);
    if (space < 0) return trm_h5_complain(f, TRM_DATA, "'%s' has no readable shape", name);
    out->rank = H5Sget_simple_extent_type(space) == H5S_NULL ? -1 : H5Sget_simple_extent_ndims(space);
    bool good =
        out->rank <= TRM_H5_RANK && (out->rank <= 0 || H5Sget_simple_extent_dims(space, dim, NULL) >= 0);
    H5Sclose(space);
    if (!good) return trm_h5_complain(f, TRM_DATA, "'%s' has no readable shape", name);
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
    trm_h5_enter();
    *out = (trm_h5_facts){0};
    trm_status s = trm_h5_open_set(f, name);
    if (s != TRM_OK) return trm_h5_leave(s);
    hid_t type = H5Dget_type(f->set), list = H5Dget_create_plist(f->set);
    if (type < 0 || list < 0) {
        s = trm_h5_complain(f, TRM_DATA, "'%s' has no readable type", name);
    } else {
        trm_h5_type_facts(type, out);
        storage_facts(f->path, f->set, list, type, out);
        /* To ask a virtual data set for its shape may open its sources, and wait for a pipe. */
        if (out->layout != TRM_H5_VIRTUAL) s = space_facts(f, name, out);
    }
    /* A creation list that is left open crashes 1.10.8 at exit where the data set is virtual. */
    if (list >= 0) H5Pclose(list);
    if (type >= 0) H5Tclose(type);
    return trm_h5_leave(s);
}

trm_status trm_h5_external(trm_h5 *f, const char *name, int i, char *file, size_t cap, uint64_t *offset,
                           uint64_t *bytes) {
    off_t at = 0;
    hsize_t n = 0;
    trm_h5_enter();
    trm_status s = trm_h5_open_set(f, name);
    hid_t list = s == TRM_OK ? H5Dget_create_plist(f->set) : H5I_INVALID_HID;
    memset(file, 0, cap);
    if (s == TRM_OK && (list < 0 || H5Pget_external(list, (unsigned)i, cap - 1, file, &at, &n) < 0 || at < 0))
        s = trm_h5_complain(f, TRM_DATA, "'%s': its list of external files cannot be read", name);
    if (list >= 0) H5Pclose(list);
    *offset = (uint64_t)at;
    *bytes = n == H5F_UNLIMITED ? 0 : n;
    return trm_h5_leave(s);
}

trm_status trm_h5_shape_facts(trm_h5 *f, const char *name, trm_h5_facts *out) {
    trm_h5_enter();
    trm_status s = trm_h5_open_set(f, name);
    return trm_h5_leave(s == TRM_OK ? space_facts(f, name, out) : s);
}
