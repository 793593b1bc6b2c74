/* h5_box: boxes of an HDF5 data set, also of one member of compound elements, converted to a type of ours. */
#include "h5_impl.h"
#include "view_impl.h"
#include <string.h>

/* ---- members ---- */

/* The type of "a.b" in t, or of t itself; the caller closes it. */
static hid_t member_type(hid_t t, const char *member) {
    hid_t at = H5Tcopy(t);
    while (member && *member && at >= 0) {
        char name[128];
        size_t n = strcspn(member, ".");
        int index = -1;
        if (n < sizeof name && H5Tget_class(at) == H5T_COMPOUND) {
            memcpy(name, member, n);
            name[n] = '\0';
            index = H5Tget_member_index(at, name);
        }
        hid_t below = index < 0 ? H5I_INVALID_HID : H5Tget_member_type(at, (unsigned)index);
        H5Tclose(at);
        at = below;
        member += n + (member[n] == '.');
    }
    return at;
}

/* An element that is an array of an array too. */
static hid_t element_type(hid_t t, hsize_t *dim, int *rank) {
    hid_t at = H5Tcopy(t);
    *rank = 0;
    while (at >= 0 && H5Tget_class(at) == H5T_ARRAY) {
        int more = H5Tget_array_ndims(at);
        hid_t below = H5I_INVALID_HID;
        if (more > 0 && *rank + more <= TRM_VIEW_AXES && H5Tget_array_dims2(at, dim + *rank) >= 0) {
            *rank += more;
            below = H5Tget_super(at);
        }
        H5Tclose(at);
        at = below;
    }
    return at;
}

/* Sets the facts of the element, and puts the dims of an array behind those of the data set. */
static trm_status element_facts(trm_h5 *f, const char *set, const char *member, hid_t stored,
                                trm_h5_field *out) {
    hsize_t dim[TRM_VIEW_AXES];
    int more = 0;
    hid_t t = member_type(stored, member);
    if (t < 0) return trm_h5_fault(f, set, "has no such member");
    hid_t element = element_type(t, dim, &more);
    H5Tclose(t);
    if (element < 0) return trm_h5_fault(f, set, "has elements of too many dimensions");
    trm_h5_facts was = out->facts;
    trm_h5_type_facts(element, &out->facts);
    if (H5Tget_class(element) == H5T_VLEN) {
        trm_h5_facts item = {0};
        hid_t base = H5Tget_super(element);
        if (base >= 0) {
            trm_h5_type_facts(base, &item);
            H5Tclose(base);
        }
        out->has_item = base >= 0 && item.cls == TRM_H5_NUMBER;
        out->item = item.type;
    }
    H5Tclose(element);
    out->own_rank = was.rank;
    if (more > 0 && was.rank + more > TRM_VIEW_AXES) return trm_h5_fault(f, set, "has too many dimensions");
    for (int i = 0; i < more; i++) out->facts.dim[out->facts.rank++] = (int64_t)dim[i];
    return TRM_OK;
}

trm_status trm_h5_field_of(trm_h5 *f, const char *set, const char *member, trm_h5_field *out) {
    hid_t id;
    trm_h5_enter();
    *out = (trm_h5_field){0};
    trm_status s = trm_h5_facts_of(f, set, &out->facts);
    if (s == TRM_OK && out->facts.layout == TRM_H5_VIRTUAL) {
        s = trm_h5_virtual_check(f, set);
        if (s == TRM_OK) s = trm_h5_shape_facts(f, set, &out->facts);
    }
    if (s == TRM_OK) s = trm_h5_use(f, set, &id);
    if (s == TRM_OK && out->facts.rank >= 0) {
        hid_t stored = H5Dget_type(id);
        s = element_facts(f, set, member, stored, out);
        if (stored >= 0) H5Tclose(stored);
    }
    return trm_h5_leave(s);
}

trm_status trm_h5_dims(trm_h5 *f, const char *set, int64_t dim[TRM_H5_RANK], int *rank) {
    hsize_t now[TRM_H5_RANK];
    hid_t id;
    trm_h5_enter();
    trm_status s = trm_h5_use(f, set, &id);
    hid_t space = s == TRM_OK ? H5Dget_space(id) : H5I_INVALID_HID;
    *rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    if (s == TRM_OK && (*rank < 0 || *rank > TRM_H5_RANK || H5Sget_simple_extent_dims(space, now, NULL) < 0))
        s = trm_h5_fault(f, set, "has no readable shape");
    for (int i = 0; s == TRM_OK && i < *rank; i++) dim[i] = (int64_t)now[i];
    if (space >= 0) H5Sclose(space);
    return trm_h5_leave(s);
}

typedef struct name_list {
    trm_str text;
    int n;
} name_list;

static void add_names(hid_t t, const char *prefix, name_list *list) {
    int n = H5Tget_class(t) == H5T_COMPOUND ? H5Tget_nmembers(t) : 0;
    for (int i = 0; i < n && list->n < 256; i++) {
        char full[256];
        char *name = H5Tget_member_name(t, (unsigned)i);
        snprintf(full, sizeof full, "%s%s%s", prefix, prefix[0] ? "." : "", name ? name : "?");
        H5free_memory(name);
        trm_str_addn(&list->text, full, strlen(full) + 1);
        list->n++;
        hid_t below = prefix[0] ? H5I_INVALID_HID : H5Tget_member_type(t, (unsigned)i);
        if (below < 0) continue;
        add_names(below, full, list);
        H5Tclose(below);
    }
}

trm_status trm_h5_members(trm_h5 *f, const char *set, char ***names) {
    name_list list = {0};
    hid_t id;
    trm_h5_enter();
    trm_status s = trm_h5_use(f, set, &id);
    hid_t t = s == TRM_OK ? H5Dget_type(id) : H5I_INVALID_HID;
    if (t >= 0) {
        add_names(t, "", &list);
        H5Tclose(t);
    }
    (void)trm_h5_leave(s);
    size_t head = ((size_t)list.n + 1) * sizeof(char *);
    char **out = s == TRM_OK && !list.text.failed ? trm_alloc(head + list.text.len + 1, "names") : NULL;
    if (out) {
        char *at = (char *)out + head;
        if (list.text.len > 0) memcpy(at, list.text.p, list.text.len);
        for (int i = 0; i < list.n; i++, at += strlen(at) + 1) out[i] = at;
    }
    trm_str_free(&list.text);
    *names = out;
    return s != TRM_OK ? s : out ? TRM_OK : TRM_MEMORY;
}

/* ---- reading ---- */

static hid_t pair_type(hid_t number) {
    size_t size = H5Tget_size(number);
    hid_t t = H5Tcreate(H5T_COMPOUND, 2 * size);
    if (t < 0) return t;
    if (H5Tinsert(t, "r", 0, number) >= 0 && H5Tinsert(t, "i", size, number) >= 0) return t;
    H5Tclose(t);
    return H5I_INVALID_HID;
}

/* What one number of the element becomes in memory. */
static hid_t base_type(hid_t element, trm_dtype type, trm_box_form form) {
    if (form == TRM_BOX_RAW16)
        return H5Tget_class(element) == H5T_OPAQUE ? H5Tcopy(element) : trm_h5_own_type(TRM_U16, false);
    hid_t number = trm_h5_own_type(type, false);
    if (form == TRM_BOX_NUMBERS || number < 0) return number;
    hid_t pair = pair_type(number);
    H5Tclose(number);
    return pair;
}

/* `inner` as member "a.b": compounds of one member each, which the library fills by name. */
static hid_t wrap(hid_t inner, const char *member) {
    const char *end = member + strlen(member);
    while (inner >= 0 && end > member) {
        const char *from = end;
        char name[128];
        while (from > member && from[-1] != '.') from--;
        snprintf(name, sizeof name, "%.*s", (int)(end - from), from);
        hid_t outer = H5Tcreate(H5T_COMPOUND, H5Tget_size(inner));
        bool good = outer >= 0 && H5Tinsert(outer, name, 0, inner) >= 0;
        H5Tclose(inner);
        if (!good && outer >= 0) H5Tclose(outer);
        inner = good ? outer : H5I_INVALID_HID;
        end = from > member ? from - 1 : member;
    }
    return inner;
}

static hid_t box_type(hid_t stored, const char *member, trm_dtype type, trm_box_form form) {
    hsize_t dim[TRM_VIEW_AXES];
    int rank = 0;
    hid_t t = member_type(stored, member), element = t < 0 ? t : element_type(t, dim, &rank);
    hid_t made = element < 0 ? H5I_INVALID_HID : base_type(element, type, form);
    if (t >= 0) H5Tclose(t);
    if (element >= 0) H5Tclose(element);
    if (rank > 0 && made >= 0) {
        hid_t array = H5Tarray_create2(made, (unsigned)rank, dim);
        H5Tclose(made);
        made = array;
    }
    return member ? wrap(made, member) : made;
}

/* Selects the box in the file's space; *memory holds as many elements. */
static bool box_spaces(hid_t set, const int64_t *start, const int64_t *count, hid_t *file, hid_t *memory) {
    hsize_t dim[TRM_H5_RANK], from[TRM_H5_RANK], n[TRM_H5_RANK];
    *memory = H5I_INVALID_HID;
    *file = H5Dget_space(set);
    int rank = *file < 0 ? -1 : H5Sget_simple_extent_ndims(*file);
    if (rank == 0) {
        *memory = H5Screate(H5S_SCALAR);
        return *memory >= 0;
    }
    if (rank < 0 || rank > TRM_H5_RANK || H5Sget_simple_extent_dims(*file, dim, NULL) < 0) return false;
    for (int i = 0; i < rank; i++) {
        if (start[i] < 0 || count[i] < 1 || (hsize_t)count[i] > dim[i] ||
            (hsize_t)start[i] > dim[i] - (hsize_t)count[i])
            return false;
        from[i] = (hsize_t)start[i];
        n[i] = (hsize_t)count[i];
    }
    *memory = H5Screate_simple(rank, n, NULL);
    return *memory >= 0 && H5Sselect_hyperslab(*file, H5S_SELECT_SET, from, NULL, n, NULL) >= 0;
}

trm_status trm_h5_box(trm_h5 *f, const char *set, const char *member, const int64_t *start,
                      const int64_t *count, trm_dtype type, trm_box_form form, void *dst) {
    hid_t id, file = H5I_INVALID_HID, memory = H5I_INVALID_HID;
    trm_h5_enter();
    trm_status s = trm_h5_use(f, set, &id);
    if (s != TRM_OK) return trm_h5_leave(s);
    hid_t stored = H5Dget_type(id), to = stored < 0 ? stored : box_type(stored, member, type, form);
    if (to < 0 || !box_spaces(id, start, count, &file, &memory) ||
        H5Dread(id, to, memory, file, H5P_DEFAULT, dst) < 0)
        s = trm_h5_fault(f, set, "cannot be read");
    if (file >= 0) H5Sclose(file);
    if (memory >= 0) H5Sclose(memory);
    if (to >= 0) H5Tclose(to);
    if (stored >= 0) H5Tclose(stored);
    return trm_h5_leave(s);
}

/* ---- sequences of numbers, one for each row ---- */

/* Takes over what the library allocated. */
static trm_status take_sequence(trm_h5 *f, const char *set, const hvl_t *v, trm_dtype type, void **buf,
                                size_t *cap, size_t *n) {
    size_t bytes;
    if (!trm_mul_size(v->len, trm_dtype_size(type), &bytes) || bytes / trm_dtype_size(type) != v->len ||
        v->len > (size_t)trm_h5_size(f) * 1100)
        return trm_h5_fault(f, set, "has a sequence longer than its file");
    if (bytes + 1 > *cap) {
        void *more = trm_realloc(*buf, 0, bytes + 1, "a sequence");
        if (!more) return TRM_MEMORY;
        *buf = more;
        *cap = bytes + 1;
    }
    if (bytes > 0) memcpy(*buf, v->p, bytes);
    *n = v->len;
    return TRM_OK;
}

trm_status trm_h5_vlen_row(trm_h5 *f, const char *set, int64_t row, trm_dtype type, void **buf, size_t *cap,
                           size_t *n) {
    hid_t id, file = H5I_INVALID_HID, memory = H5I_INVALID_HID;
    int64_t one = 1;
    hvl_t v = {0};
    trm_h5_enter();
    trm_status s = trm_h5_use(f, set, &id);
    if (s != TRM_OK) return trm_h5_leave(s);
    hid_t number = trm_h5_own_type(type, false), to = H5Tvlen_create(number);
    bool read = to >= 0 && box_spaces(id, &row, &one, &file, &memory) &&
                H5Dread(id, to, memory, file, H5P_DEFAULT, &v) >= 0;
    s = read ? take_sequence(f, set, &v, type, buf, cap, n) : trm_h5_fault(f, set, "cannot be read");
    if (read) H5Dvlen_reclaim(to, memory, H5P_DEFAULT, &v);
    if (file >= 0) H5Sclose(file);
    if (memory >= 0) H5Sclose(memory);
    if (to >= 0) H5Tclose(to);
    H5Tclose(number);
    return trm_h5_leave(s);
}
