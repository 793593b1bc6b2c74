/* h5_group: what stands around data sets in HDF5: groups, attributes, lists of texts, virtual sources. */
#include "h5_impl.h"
#include "view_impl.h"
#include <stdlib.h>
#include <string.h>

/* ---- groups ---- */

typedef struct walk {
    trm_h5_visit visit;
    void *ctx;
} walk;

static trm_h5_kind kind_of(hid_t group, const char *name, const H5L_info_t *info) {
    if (info->type != H5L_TYPE_HARD)
        return info->type == H5L_TYPE_SOFT       ? TRM_H5_SOFT
               : info->type == H5L_TYPE_EXTERNAL ? TRM_H5_EXTERNAL
                                                 : TRM_H5_USER;
    hid_t o = H5Oopen(group, name, H5P_DEFAULT);
    if (o < 0) return TRM_H5_BROKEN;
    H5I_type_t t = H5Iget_type(o);
    H5Oclose(o);
    return t == H5I_DATASET ? TRM_H5_DATASET : t == H5I_GROUP ? TRM_H5_GROUP : TRM_H5_TYPE;
}

static herr_t see_child(hid_t group, const char *name, const H5L_info_t *info, void *ctx) {
    walk *w = ctx;
    return w->visit(w->ctx, name, kind_of(group, name, info)) ? 0 : 1;
}

trm_status trm_h5_children(trm_h5 *f, const char *group, trm_h5_visit visit, void *ctx) {
    walk w = {visit, ctx};
    trm_h5_enter();
    herr_t r = H5Literate_by_name(trm_h5_id(f), *group ? group : "/", H5_INDEX_NAME, H5_ITER_INC, NULL,
                                  see_child, &w, H5P_DEFAULT);
    return trm_h5_leave(r < 0 ? trm_h5_fault(f, group, "cannot be listed") : TRM_OK);
}

/* ---- texts ---- */

/* All elements of a data set of texts, as they are stored; the caller frees or reclaims. */
static trm_status see_fixed(hid_t set, hid_t type, size_t n, trm_h5_text see, void *ctx) {
    size_t size = H5Tget_size(type), bytes;
    if (!trm_mul_size(n, size, &bytes)) return TRM_MEMORY;
    char *all = trm_alloc(bytes + 1, "a list of names"), *one = trm_alloc(size + 1, "a name");
    trm_status s = all && one ? TRM_OK : TRM_MEMORY;
    if (s == TRM_OK && H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, all) < 0) s = TRM_DATA;
    for (size_t i = 0; s == TRM_OK && i < n; i++) {
        memcpy(one, all + i * size, size);
        for (size_t k = strlen(one); k > 0 && one[k - 1] == ' '; k--) one[k - 1] = '\0';
        if (!see(ctx, one)) break;
    }
    trm_free(all);
    trm_free(one);
    return s;
}

static trm_status see_variable(hid_t set, hid_t type, hid_t space, size_t n, trm_h5_text see, void *ctx) {
    char **all = trm_alloc_array(n, sizeof *all, "a list of names");
    if (!all) return TRM_MEMORY;
    trm_status s = H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, all) < 0 ? TRM_DATA : TRM_OK;
    for (size_t i = 0; s == TRM_OK && i < n; i++)
        if (!see(ctx, all[i] ? all[i] : "")) break;
    if (s == TRM_OK) H5Dvlen_reclaim(type, space, H5P_DEFAULT, all);
    trm_free(all);
    return s;
}

trm_status trm_h5_texts(trm_h5 *f, const char *set, trm_h5_text see, void *ctx) {
    hid_t id;
    trm_h5_enter();
    trm_status s = trm_h5_use(f, set, &id);
    if (s != TRM_OK) return trm_h5_leave(s);
    hid_t type = H5Dget_type(id), space = H5Dget_space(id);
    hssize_t n = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    if (type < 0 || n < 0 || n > 10000000 || H5Tget_class(type) != H5T_STRING)
        s = trm_h5_fault(f, set, "is no list of names");
    else if (n > 0 && H5Tis_variable_str(type) > 0)
        s = see_variable(id, type, space, (size_t)n, see, ctx);
    else if (n > 0)
        s = see_fixed(id, type, (size_t)n, see, ctx);
    if (s == TRM_DATA) s = trm_h5_fault(f, set, "is no readable list of names");
    if (space >= 0) H5Sclose(space);
    if (type >= 0) H5Tclose(type);
    return trm_h5_leave(s);
}

/* ---- attributes ---- */

static hid_t open_attr(trm_h5 *f, const char *object, const char *name) {
    const char *at = *object ? object : "/";
    if (H5Aexists_by_name(trm_h5_id(f), at, name, H5P_DEFAULT) <= 0) return H5I_INVALID_HID;
    return H5Aopen_by_name(trm_h5_id(f), at, name, H5P_DEFAULT, H5P_DEFAULT);
}

static hssize_t attr_points(hid_t a) {
    hid_t space = H5Aget_space(a);
    hssize_t n = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    if (space >= 0) H5Sclose(space);
    return n;
}

int trm_h5_attr_ints(trm_h5 *f, const char *object, const char *name, int64_t *out, int max) {
    trm_h5_enter();
    hid_t a = open_attr(f, object, name), t = a < 0 ? a : H5Aget_type(a);
    hssize_t n = a < 0 ? -1 : attr_points(a);
    bool good = t >= 0 && n >= 0 && n <= max && H5Tget_class(t) == H5T_INTEGER;
    if (good && n > 0) good = H5Aread(a, H5T_NATIVE_INT64, out) >= 0;
    if (t >= 0) H5Tclose(t);
    if (a >= 0) H5Aclose(a);
    (void)trm_h5_leave(TRM_OK);
    return good ? (int)n : -1;
}

bool trm_h5_attr_text(trm_h5 *f, const char *object, const char *name, char *buf, size_t cap) {
    bool good = false;
    trm_h5_enter();
    hid_t a = open_attr(f, object, name), t = a < 0 ? a : H5Aget_type(a);
    if (t >= 0 && H5Tget_class(t) == H5T_STRING && attr_points(a) == 1) {
        char *text = NULL, fixed[256] = "";
        if (H5Tis_variable_str(t) > 0) {
            good = H5Aread(a, t, &text) >= 0 && text;
            if (good) snprintf(buf, cap, "%s", text);
            H5free_memory(text);
        } else if (H5Tget_size(t) < sizeof fixed) {
            good = H5Aread(a, t, fixed) >= 0;
            if (good) snprintf(buf, cap, "%s", fixed);
        }
    }
    if (t >= 0) H5Tclose(t);
    if (a >= 0) H5Aclose(a);
    (void)trm_h5_leave(TRM_OK);
    return good;
}

/* ---- the split of Fuel: a table {split, source, start, stop, ...} as an attribute of the root ---- */

#define FUEL_NAME 64

typedef struct fuel_row {
    char split[FUEL_NAME], source[FUEL_NAME];
    int64_t start, stop;
} fuel_row;

static hid_t fuel_type(hid_t name) {
    hid_t t = H5Tcreate(H5T_COMPOUND, sizeof(fuel_row));
    if (t < 0) return t;
    if (H5Tinsert(t, "split", offsetof(fuel_row, split), name) >= 0 &&
        H5Tinsert(t, "source", offsetof(fuel_row, source), name) >= 0 &&
        H5Tinsert(t, "start", offsetof(fuel_row, start), H5T_NATIVE_INT64) >= 0 &&
        H5Tinsert(t, "stop", offsetof(fuel_row, stop), H5T_NATIVE_INT64) >= 0)
        return t;
    H5Tclose(t);
    return H5I_INVALID_HID;
}

/* The table, or NULL where there is none that can be read: names of fixed length, as h5py's documentation writes it. */
static fuel_row *fuel_table(trm_h5 *f, size_t *n) {
    fuel_row *rows = NULL;
    hid_t a = open_attr(f, "/", "split"), stored = a < 0 ? a : H5Aget_type(a);
    hssize_t points = stored >= 0 && H5Tget_class(stored) == H5T_COMPOUND ? attr_points(a) : 0;
    hid_t name = H5Tcopy(H5T_C_S1);
    H5Tset_size(name, FUEL_NAME);
    hid_t t = fuel_type(name);
    if (t >= 0 && points > 0 && points <= 100000) {
        rows = trm_alloc_array((size_t)points, sizeof *rows, "a table of splits");
        if (rows && H5Aread(a, t, rows) < 0) {
            trm_free(rows);
            rows = NULL;
        }
    }
    *n = (size_t)(points > 0 ? points : 0);
    if (t >= 0) H5Tclose(t);
    H5Tclose(name);
    if (stored >= 0) H5Tclose(stored);
    if (a >= 0) H5Aclose(a);
    for (size_t i = 0; rows && i < *n; i++)
        rows[i].split[FUEL_NAME - 1] = rows[i].source[FUEL_NAME - 1] = '\0';
    return rows;
}

static void add_names(const fuel_row *rows, size_t n, trm_str *out) {
    for (size_t i = 0; i < n; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) seen = strcmp(rows[k].split, rows[i].split) == 0;
        if (!seen) trm_str_add(out, "%s%s", out->len > 0 ? ", " : "", rows[i].split);
    }
}

void trm_h5_fuel_names(trm_h5 *f, trm_str *out) {
    size_t n;
    trm_h5_enter();
    fuel_row *rows = fuel_table(f, &n);
    if (rows) add_names(rows, n, out);
    trm_free(rows);
    (void)trm_h5_leave(TRM_OK);
}

static trm_status no_split(trm_h5 *f, const char *split, const char *source, const fuel_row *rows, size_t n) {
    trm_str names = {0};
    if (!rows)
        return trm_fail(TRM_DATA,
                        "%s: no table of splits (attribute `split` of the root), split '%s' is asked for",
                        trm_h5_path(f), split);
    add_names(rows, n, &names);
    trm_status s = trm_fail(TRM_DATA, "%s: no split '%s' of '%s'; its splits are: %s", trm_h5_path(f), split,
                            source, trm_str_get(&names));
    trm_str_free(&names);
    return s;
}

trm_status trm_h5_fuel_split(trm_h5 *f, const char *split, const char *source, int64_t *first,
                             int64_t *count) {
    size_t n, at = 0;
    while (*source == '/') source++;
    trm_h5_enter();
    fuel_row *rows = fuel_table(f, &n);
    while (rows && at < n && (strcmp(rows[at].split, split) != 0 || strcmp(rows[at].source, source) != 0))
        at++;
    trm_status s = rows && at < n ? TRM_OK : no_split(f, split, source, rows, n);
    if (s == TRM_OK && (rows[at].start < 0 || rows[at].stop <= rows[at].start))
        s = trm_fail(TRM_DATA, "%s: split '%s' of '%s' has rows %lld to %lld", trm_h5_path(f), split, source,
                     (long long)rows[at].start, (long long)rows[at].stop - 1);
    if (s == TRM_OK) {
        *first = rows[at].start;
        *count = rows[at].stop - rows[at].start;
    }
    trm_free(rows);
    return trm_h5_leave(s);
}

/* ---- virtual data sets ---- */

/* The source as a path beside the file, or a sentence: only plain names below its folder are followed. */
static trm_status source_path(trm_h5 *f, const char *set, const char *name, trm_str *out) {
    const char *path = trm_h5_path(f), *slash = strrchr(path, '/');
    if (name[0] == '/' || strstr(name, "..") || strchr(name, '%'))
        return trm_fail(
            TRM_DATA, "%s: '%s' has the virtual source %s: only files below the folder of the data are read",
            path, set, name);
    if (slash) trm_str_addn(out, path, (size_t)(slash + 1 - path));
    trm_str_add(out, "%s", name);
    return out->failed ? TRM_MEMORY : TRM_OK;
}

/* The file keeps what is selected of a source, and not always its shape. */
static bool source_fits(hid_t mapped, hssize_t n, const trm_h5_facts *x) {
    hsize_t low[TRM_H5_RANK], high[TRM_H5_RANK];
    int64_t count = 1;
    if (x->rank < 1 || x->stored == 0) return false;
    for (int i = 0; i < x->rank; i++)
        if (__builtin_mul_overflow(count, x->dim[i], &count)) return false;
    if (H5Sget_select_type(mapped) == H5S_SEL_ALL) return count == n;
    if (H5Sget_simple_extent_ndims(mapped) != x->rank || H5Sget_select_bounds(mapped, low, high) < 0)
        return false;
    for (int i = 0; i < x->rank; i++)
        if ((int64_t)high[i] >= x->dim[i]) return false;
    return H5Sget_select_npoints(mapped) == n;
}

static trm_status source_shape(trm_h5 *f, const char *set, const char *path, const char *inside, hid_t mapped,
                               hssize_t n) {
    trm_h5 *other = NULL;
    trm_h5_found found;
    trm_h5_facts facts = {0};
    TRM_TRY(trm_h5_begin(path, false, &other));
    trm_status s = trm_h5_look(other, inside, &found);
    if (s == TRM_OK && found.kind != TRM_H5_DATASET)
        s = trm_fail(TRM_DATA, "%s: no data set '%s'", path, inside);
    if (s == TRM_OK) s = trm_h5_facts_of(other, found.at, &facts);
    if (s == TRM_OK && (facts.layout == TRM_H5_VIRTUAL || facts.n_external > 0))
        s = trm_fail(TRM_DATA, "%s: '%s' is virtual or external itself", path, inside);
    (void)!trm_h5_end(other);
    if (s != TRM_OK) return trm_prefix(s, "%s: '%s': a source", trm_h5_path(f), set);
    if (source_fits(mapped, n, &facts)) return TRM_OK;
    char text[128];
    return trm_fail(TRM_DATA, "%s: '%s' expects another shape of its source %s '%s', which has %s",
                    trm_h5_path(f), set, path, inside,
                    trm_dims_text(facts.dim, facts.rank, 0, text, sizeof text));
}

/* One source; adds the elements that it fills. */
static trm_status check_source(trm_h5 *f, const char *set, hid_t list, size_t i, hssize_t *filled) {
    char name[1024] = "", inside[512] = "";
    trm_str path = {0};
    hid_t mapped = H5Pget_virtual_srcspace(list, i), space = H5Pget_virtual_vspace(list, i);
    bool known = mapped >= 0 && space >= 0 && H5Pget_virtual_filename(list, i, name, sizeof name) > 0 &&
                 H5Pget_virtual_dsetname(list, i, inside, sizeof inside) > 0;
    hssize_t n = known ? H5Sget_select_npoints(space) : -1;
    trm_status s = known && n > 0 ? TRM_OK : trm_h5_fault(f, set, "has a virtual source that cannot be read");
    bool here = strcmp(name, ".") == 0;
    if (s == TRM_OK && here) s = trm_h5_fault(f, set, "is a virtual data set over its own file");
    if (s == TRM_OK) s = source_path(f, set, name, &path);
    if (s == TRM_OK) s = source_shape(f, set, path.p, inside, mapped, n);
    *filled += n > 0 ? n : 0;
    trm_str_free(&path);
    if (mapped >= 0) H5Sclose(mapped);
    if (space >= 0) H5Sclose(space);
    return s;
}

static trm_status check_sources(trm_h5 *f, const char *set, hid_t list) {
    size_t n = 0;
    hssize_t filled = 0;
    hsize_t whole = 1, dim[TRM_H5_RANK];
    if (H5Pget_virtual_count(list, &n) < 0 || n == 0)
        return trm_h5_fault(f, set, "is virtual and has no source");
    for (size_t i = 0; i < n; i++) TRM_TRY(check_source(f, set, list, i, &filled));
    hid_t space = H5Pget_virtual_vspace(list, 0);
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    bool known = rank > 0 && rank <= TRM_H5_RANK && H5Sget_simple_extent_dims(space, dim, NULL) >= 0;
    for (int i = 0; known && i < rank; i++) whole *= dim[i];
    if (space >= 0) H5Sclose(space);
    if (known && (hsize_t)filled == whole) return TRM_OK;
    return trm_fail(TRM_DATA, "%s: '%s' has %llu elements, its sources fill %lld", trm_h5_path(f), set,
                    (unsigned long long)whole, (long long)filled);
}

trm_status trm_h5_virtual_check(trm_h5 *f, const char *set) {
    hid_t id;
    trm_h5_enter();
    /* The environment may lead the library elsewhere. */
    trm_status s =
        getenv("HDF5_VDS_PREFIX")
            ? trm_fail(TRM_DATA, "%s: '%s' is virtual, and HDF5_VDS_PREFIX is set", trm_h5_path(f), set)
            : trm_h5_use(f, set, &id);
    hid_t list = s == TRM_OK ? H5Dget_create_plist(id) : H5I_INVALID_HID;
    if (s == TRM_OK)
        s = list < 0 ? trm_h5_fault(f, set, "has no readable storage") : check_sources(f, set, list);
    if (list >= 0) H5Pclose(list);
    return trm_h5_leave(s);
}
