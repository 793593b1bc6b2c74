/* advise: the lines of a job file for what is more than rows of one data set, as far as the file shows it. */
#include "view_impl.h"
#include <string.h>

/* The data sets of a file, in the order of names. */
typedef struct shelf {
    trm_h5 *f;
    char *const *path;
    size_t n;
    trm_str *out;
} shelf;

static void head(const shelf *s, const char *input) {
    trm_str_add(s->out, "\ndata:\n  train: %s\n  input: %s\n", trm_h5_path(s->f), input);
}

static void target(const shelf *s, const char *path, trm_dtype type) {
    trm_str_add(s->out, "  target: %s\n", path);
    if (trm_dtype_is_float(type)) trm_str_add(s->out, "  target_type: float\n");
}

static bool field(const shelf *s, const char *path, const char *member, trm_h5_facts *x) {
    trm_h5_field field;
    if (trm_h5_facts_of(s->f, path, x) != TRM_OK || x->layout == TRM_H5_VIRTUAL) return false;
    if (trm_h5_field_of(s->f, path, member, &field) != TRM_OK) return false;
    *x = field.facts;
    return true;
}

static double per_sample(const trm_h5_facts *x) {
    double n = 1;
    for (int i = 1; i < x->rank; i++) n *= (double)x->dim[i];
    return n;
}

/* The smallest other data set of numbers with so many rows; NULL: none. */
static const char *beside(const shelf *s, const char *input, int64_t rows, trm_dtype *type) {
    const char *best = NULL;
    double least = 0;
    trm_h5_facts x;
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->path[i], input) == 0 || !field(s, s->path[i], NULL, &x)) continue;
        if (x.cls != TRM_H5_NUMBER || x.rank < 1 || x.dim[0] != rows) continue;
        if (best && per_sample(&x) >= least) continue;
        best = s->path[i];
        least = per_sample(&x);
        *type = x.type;
    }
    return best;
}

static void target_beside(const shelf *s, const char *input, int64_t rows) {
    trm_dtype type = TRM_U8;
    const char *y = beside(s, input, rows, &type);
    if (y) target(s, y, type);
}

/* ---- bytes of variable length ---- */

static bool advise_bytes(const shelf *s) {
    trm_h5_field x;
    for (size_t i = 0; i < s->n; i++) {
        void *bytes = NULL;
        size_t cap = 0, n = 0;
        trm_picture p = {0};
        if (trm_h5_facts_of(s->f, s->path[i], &x.facts) != TRM_OK || x.facts.cls != TRM_H5_VLEN) continue;
        if (trm_h5_field_of(s->f, s->path[i], NULL, &x) != TRM_OK || !x.has_item || x.own_rank != 1) continue;
        head(s, s->path[i]);
        target_beside(s, s->path[i], x.facts.dim[0]);
        trm_str_add(s->out, "  sample: bytes\n");
        bool picture = x.item == TRM_U8 && x.facts.dim[0] > 0 &&
                       trm_h5_vlen_row(s->f, s->path[i], 0, TRM_U8, &bytes, &cap, &n) == TRM_OK &&
                       trm_picture_look(bytes, n, &p) == TRM_OK;
        if (picture)
            trm_str_add(s->out, "  decode: pictures\n  shape: [%d, %lld, %lld]\n", p.c, (long long)p.h,
                        (long long)p.w);
        else
            trm_str_add(s->out, "  pad: max\n");
        trm_picture_free(&p);
        trm_free(bytes);
        return true;
    }
    return false;
}

/* ---- sparse matrices ---- */

static bool advise_sparse(const shelf *s) {
    trm_h5_facts x;
    trm_h5_found found;
    char group[256], other[300];
    for (size_t i = 0; i < s->n; i++) {
        const char *end = strrchr(s->path[i], '/');
        if (!end || strcmp(end, "/indptr") != 0 || end - s->path[i] >= (int)sizeof group) continue;
        snprintf(group, sizeof group, "%.*s", (int)(end - s->path[i]), s->path[i]);
        snprintf(other, sizeof other, "%s/indices", group);
        if (trm_h5_look(s->f, other, &found) != TRM_OK || found.kind != TRM_H5_DATASET) continue;
        if (!field(s, s->path[i], NULL, &x) || x.rank != 1) continue;
        snprintf(other, sizeof other, "\"csr:/%s\"", group);
        head(s, other);
        target_beside(s, s->path[i], x.dim[0] - 1);
        return true;
    }
    return false;
}

/* ---- members of a table ---- */

static bool advise_members(const shelf *s) {
    trm_h5_facts x;
    for (size_t i = 0; i < s->n; i++) {
        char **name = NULL, path[512];
        const char *input = NULL, *y = NULL;
        double most = 0, least = 0;
        trm_dtype y_type = TRM_U8;
        if (trm_h5_facts_of(s->f, s->path[i], &x) != TRM_OK || x.cls != TRM_H5_COMPOUND) continue;
        if (trm_h5_members(s->f, s->path[i], &name) != TRM_OK) continue;
        for (int k = 0; name[k]; k++) {
            if (strcmp(name[k], "index") == 0 || !field(s, s->path[i], name[k], &x) || x.cls != TRM_H5_NUMBER)
                continue;
            if (!input || per_sample(&x) > most) input = name[k], most = per_sample(&x);
        }
        for (int k = 0; name[k]; k++) {
            if (name[k] == input || strcmp(name[k], "index") == 0 || !field(s, s->path[i], name[k], &x))
                continue;
            if (x.cls != TRM_H5_NUMBER || (y && per_sample(&x) >= least)) continue;
            y = name[k], least = per_sample(&x), y_type = x.type;
        }
        if (input) {
            snprintf(path, sizeof path, "/%s.%s", s->path[i], input);
            head(s, path);
            /* Of several whole numbers one may be a class. */
            bool one = y && least > 1 && !trm_dtype_is_float(y_type);
            if (y) snprintf(path, sizeof path, one ? "\"/%s.%s[0]\"" : "/%s.%s", s->path[i], y);
            if (y) target(s, path, y_type);
        }
        trm_free(name);
        if (input) return true;
    }
    return false;
}

/* ---- splits ---- */

static bool advise_split(const shelf *s) {
    trm_str names = {0};
    trm_h5_facts x;
    int64_t first, count;
    const char *input = NULL;
    double most = 0;
    trm_h5_fuel_names(s->f, &names);
    char split[80];
    snprintf(split, sizeof split, "%.*s", (int)strcspn(trm_str_get(&names), ","), trm_str_get(&names));
    for (size_t i = 0; i < s->n && names.len > 0; i++) {
        if (trm_h5_fuel_split(s->f, split, s->path[i], &first, &count) != TRM_OK) continue;
        if (!field(s, s->path[i], NULL, &x) || (input && per_sample(&x) <= most)) continue;
        input = s->path[i];
        most = per_sample(&x);
    }
    if (input && field(s, input, NULL, &x)) {
        head(s, input);
        target_beside(s, input, x.dim[0]);
        trm_str_add(s->out, "  train_split: %s    # there are: %s\n", split, trm_str_get(&names));
    }
    trm_str_free(&names);
    return input != NULL;
}

/* ---- packed sequences ---- */

static bool sums_to(const shelf *s, const char *path, int64_t n, int64_t rows) {
    int64_t sum = 0, *v = trm_alloc_array((size_t)n, sizeof *v, "lengths");
    bool read = v && trm_h5_rows_as(s->f, path, TRM_I64, 0, n, v) == TRM_OK;
    for (int64_t i = 0; read && i < n; i++) sum += v[i] > 0 && v[i] <= rows ? v[i] : rows + 1;
    trm_free(v);
    return read && sum == rows;
}

/* A list of lengths whose sum is the number of rows of another data set. */
static bool advise_packed(const shelf *s) {
    trm_h5_facts lengths, x;
    for (size_t i = 0; i < s->n; i++) {
        if (!field(s, s->path[i], NULL, &lengths) || lengths.cls != TRM_H5_NUMBER || lengths.rank != 1)
            continue;
        if (trm_dtype_is_float(lengths.type) || lengths.dim[0] < 2 || lengths.dim[0] > 1000000) continue;
        for (size_t k = 0; k < s->n; k++) {
            if (k == i || !field(s, s->path[k], NULL, &x) || x.cls != TRM_H5_NUMBER || x.rank != 2) continue;
            if (x.dim[0] <= lengths.dim[0] || !sums_to(s, s->path[i], lengths.dim[0], x.dim[0])) continue;
            head(s, s->path[k]);
            target_beside(s, s->path[k], x.dim[0]);
            trm_str_add(s->out, "  sample: ragged\n  lengths: %s\n  pad: max\n", s->path[i]);
            return true;
        }
    }
    return false;
}

/* ---- groups alike ---- */

/* Does `path` end in what stands behind the group of `of`, in another group beside it? at: where the group's name begins. */
static bool is_twin(const char *of, size_t at, const char *path) {
    size_t group = strcspn(of + at, "/");
    return strncmp(of, path, at) == 0 && strlen(path) > at &&
           strcmp(of + at + group, path + at + strcspn(path + at, "/")) == 0 &&
           strncmp(of + at, path + at, group + 1) != 0;
}

/* Where the name of the group begins that has a twin with the same data set; -1: nowhere. */
static int group_at(const shelf *s, const char *path) {
    for (size_t at = 0; strchr(path + at, '/'); at += strcspn(path + at, "/") + 1)
        for (size_t i = 0; i < s->n; i++)
            if (is_twin(path, at, s->path[i])) return (int)at;
    return -1;
}

static bool same_group(const char *a, const char *b, size_t at) {
    return strncmp(a, b, at + strcspn(a + at, "/") + 1) == 0;
}

static bool advise_groups(const shelf *s) {
    trm_h5_facts x, y = {0};
    const char *input = NULL, *other = NULL;
    int at = s->n > 0 ? group_at(s, s->path[0]) : -1;
    if (at < 0) return false;
    const char *of = s->path[0];
    trm_h5_facts best = {0};
    for (size_t i = 0; i < s->n; i++)
        if (same_group(of, s->path[i], (size_t)at) && field(s, s->path[i], NULL, &x) &&
            x.cls == TRM_H5_NUMBER && (!input || per_sample(&x) > per_sample(&best)))
            input = s->path[i], best = x;
    for (size_t i = 0; i < s->n && input; i++)
        if (s->path[i] != input && same_group(of, s->path[i], (size_t)at) && field(s, s->path[i], NULL, &x) &&
            x.cls == TRM_H5_NUMBER && (best.rank == 0 || (x.rank > 0 && x.dim[0] == best.dim[0])) &&
            (!other || per_sample(&x) < per_sample(&y)))
            other = s->path[i], y = x;
    if (!input) return false;
    size_t rest = (size_t)at + strcspn(of + at, "/") + 1;
    trm_str_add(s->out, "\ndata:\n  train: %s\n  groups: \"/%.*s*\"\n  input: %s\n", trm_h5_path(s->f), at,
                of, input + rest);
    if (other) target(s, other + rest, y.type);
    if (best.rank == 0 || !other) trm_str_add(s->out, "  sample: group\n");
    return true;
}

/* ---- one data set of an unusual kind ---- */

static bool advise_kind(const shelf *s) {
    trm_h5_facts x;
    char note[64] = "";
    for (size_t i = 0; i < s->n; i++) {
        if (trm_h5_facts_of(s->f, s->path[i], &x) != TRM_OK) continue;
        bool bf16 = x.cls == TRM_H5_OPAQUE && x.type_bytes == 2;
        if (x.cls == TRM_H5_NUMBER && x.type == TRM_U16)
            bf16 = trm_h5_attr_text(s->f, s->path[i], "dtype", note, sizeof note) &&
                   strcmp(note, "bfloat16") == 0;
        if (x.layout != TRM_H5_VIRTUAL && x.cls != TRM_H5_COMPLEX && !bf16) continue;
        head(s, s->path[i]);
        if (x.layout == TRM_H5_VIRTUAL)
            trm_str_add(s->out, "  allow_virtual: true\n");
        else
            target_beside(s, s->path[i], x.rank > 0 ? x.dim[0] : 0);
        if (x.cls == TRM_H5_COMPLEX) trm_str_add(s->out, "  complex: channels\n");
        if (bf16) trm_str_add(s->out, "  input_type: bfloat16\n");
        return true;
    }
    return false;
}

bool trm_advise(trm_h5 *f, char *const *path, size_t n, trm_str *out) {
    shelf s = {f, path, n, out};
    return advise_split(&s) || advise_bytes(&s) || advise_sparse(&s) || advise_members(&s) ||
           advise_packed(&s) || advise_groups(&s) || advise_kind(&s);
}
