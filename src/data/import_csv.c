/* import_csv: tables of numbers as text.  Read twice: first the rows are counted and the names of classes gathered, then
 * the numbers are written, so that the file needs no chunks and memory holds one block. */
#include "make_impl.h"
#include <math.h>
#include <string.h>

#define BLOCK_BYTES TRM_MIB

typedef enum role { FEATURE, TARGET, DROPPED } role;

typedef struct table {
    const trm_csv_spec *spec;
    const trm_paths *files;
    char delimiter;
    bool header;
    int columns;
    char **name; /* of the columns; without a header "1", "2", ... */
    role *role;
    int features, targets;
    float missing;
    trm_names names;
    int64_t rows, most_label;
} table;

/* ---- columns ---- */

static bool is_missing(const char *field) {
    static const char *const word[] = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        if (strcmp(field, word[i]) == 0) return true;
    return false;
}

static bool is_number(const char *field) {
    float v;
    return trm_parse_float(field, &v);
}

/* "column 3 ('age')" or "column 3" */
static const char *column_text(const table *t, int i, char *buf, size_t cap) {
    if (t->header)
        snprintf(buf, cap, "column %d ('%.60s')", i + 1, t->name[i]);
    else
        snprintf(buf, cap, "column %d", i + 1);
    return buf;
}

static trm_status find_column(const table *t, const char *option, const char *asked, int *out) {
    int64_t number;
    int found = -1;
    for (int i = 0; i < t->columns && t->header; i++) {
        if (strcmp(t->name[i], asked) != 0) continue;
        if (found >= 0)
            return trm_fail(TRM_USAGE,
                            "--%s %s: two columns have this name; allowed is a number from 1 to %d", option,
                            asked, t->columns);
        found = i;
    }
    if (found < 0 && trm_parse_int(asked, &number) && number >= 1 && number <= t->columns)
        found = (int)number - 1;
    if (found >= 0) {
        *out = found;
        return TRM_OK;
    }
    trm_fail(TRM_USAGE, "--%s %.60s: no such column in %s; allowed are %snumbers from 1 to %d", option, asked,
             t->files->at[0].path, t->header ? "its names and " : "", t->columns);
    const char *near = t->header ? trm_nearest(asked, (const char *const *)t->name) : NULL;
    if (near) trm_hint("did you mean '%s'?", near);
    return TRM_USAGE;
}

static trm_status set_roles(table *t, const char *option, const char *const *asked, int n, role as) {
    for (int i = 0; i < n; i++) {
        int at = 0;
        TRM_TRY(find_column(t, option, asked[i], &at));
        if (t->role[at] != FEATURE)
            return trm_fail(TRM_USAGE, "--%s %.60s: this column has been named before", option, asked[i]);
        t->role[at] = as;
    }
    return TRM_OK;
}

static trm_status plan_columns(table *t) {
    const trm_csv_spec *s = t->spec;
    TRM_TRY(set_roles(t, "target", s->target, s->n_target, TARGET));
    TRM_TRY(set_roles(t, "drop", s->drop, s->n_drop, DROPPED));
    for (int i = 0; i < t->columns; i++) {
        t->features += t->role[i] == FEATURE;
        t->targets += t->role[i] == TARGET;
    }
    if (t->features == 0)
        return trm_fail(TRM_USAGE, "%s has %d columns and all are targets or dropped; one input is needed",
                        t->files->at[0].path, t->columns);
    return TRM_OK;
}

static trm_status keep_names(table *t, const trm_csv *r) {
    t->columns = r->fields;
    t->name = trm_alloc_array((size_t)t->columns + 1, sizeof *t->name, "columns");
    t->role = trm_alloc_array((size_t)t->columns, sizeof *t->role, "columns");
    if (!t->name || !t->role) return TRM_MEMORY;
    for (int i = 0; i < t->columns; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i + 1);
        if (!(t->name[i] = trm_strdup(t->header ? trm_csv_field(r, i) : number))) return TRM_MEMORY;
        trm_one_line(t->name[i]);
    }
    return TRM_OK;
}

/* Is the first record a header?  Where a field of it is no number and the one below is, it is. */
static trm_status find_header(table *t, trm_csv *r, bool *header) {
    bool some, *text = trm_alloc_array((size_t)r->fields, sizeof *text, "columns");
    int n = r->fields;
    if (!text) return TRM_MEMORY;
    for (int i = 0; i < n; i++) text[i] = !is_number(trm_csv_field(r, i)) && !is_missing(trm_csv_field(r, i));
    trm_status s = trm_csv_next(r, &some);
    *header = t->spec->header == TRM_CSV_HEADER;
    for (int i = 0; s == TRM_OK && some && t->spec->header == TRM_CSV_AUTO && i < n && i < r->fields; i++)
        if (text[i] && is_number(trm_csv_field(r, i))) *header = true;
    trm_free(text);
    return s;
}

/* The first file says what the columns are. */
static trm_status look_at_first(table *t) {
    const char *path = t->files->at[0].path;
    trm_csv r;
    bool some = false;
    trm_status s = trm_csv_open(path, t->spec->delimiter, &r);
    if (s == TRM_OK) {
        if (!r.delimiter) r.delimiter = trm_csv_guess(&r);
        t->delimiter = r.delimiter;
        s = trm_csv_next(&r, &some);
    }
    if (s == TRM_OK && !some) s = trm_fail(TRM_DATA, "%s: there is no record in it", path);
    if (s == TRM_OK) s = find_header(t, &r, &t->header);
    trm_csv_close(&r);
    /* Once more from the beginning, for the names. */
    if (s == TRM_OK) {
        s = trm_csv_open(path, t->delimiter, &r);
        if (s == TRM_OK) s = trm_csv_next(&r, &some);
        if (s == TRM_OK) s = keep_names(t, &r);
        trm_csv_close(&r);
    }
    return s == TRM_OK ? plan_columns(t) : s;
}

/* ---- going over all records ---- */

typedef trm_status (*row_fn)(table *t, const trm_csv *r, void *ctx);

static trm_status check_header(const table *t, const trm_csv *r) {
    if (r->fields != t->columns)
        return trm_fail(TRM_DATA, "%s line %lld: has %d fields, %d expected", r->from.path,
                        (long long)r->line, r->fields, t->columns);
    for (int i = 0; i < t->columns; i++) {
        char *name = trm_strdup(trm_csv_field(r, i));
        if (!name) return TRM_MEMORY;
        trm_one_line(name);
        bool same = strcmp(name, t->name[i]) == 0;
        trm_free(name);
        if (!same)
            return trm_fail(TRM_DATA, "%s: its column %d is '%.60s', but '%.60s' in %s", r->from.path, i + 1,
                            trm_csv_field(r, i), t->name[i], t->files->at[0].path);
    }
    return TRM_OK;
}

static trm_status walk_file(table *t, const char *path, row_fn row, void *ctx) {
    trm_csv r;
    bool some = true, first = true;
    trm_status s = trm_csv_open(path, t->delimiter, &r);
    while (s == TRM_OK && (s = trm_csv_next(&r, &some)) == TRM_OK && some) {
        if (first && t->header)
            s = check_header(t, &r);
        else if (r.fields != t->columns)
            s = trm_fail(TRM_DATA, "%s line %lld: has %d fields, %d expected", path, (long long)r.line,
                         r.fields, t->columns);
        else
            s = row(t, &r, ctx);
        first = false;
    }
    trm_csv_close(&r);
    return s;
}

static trm_status walk(table *t, row_fn row, void *ctx) {
    for (int i = 0; i < t->files->n; i++) TRM_TRY(walk_file(t, t->files->at[i].path, row, ctx));
    return TRM_OK;
}

static trm_status bad_field(const table *t, const trm_csv *r, int i, const char *allowed) {
    char column[96];
    return trm_fail(TRM_DATA, "%s line %lld: %s is '%.40s'; allowed are %s", r->from.path, (long long)r->line,
                    column_text(t, i, column, sizeof column), trm_csv_field(r, i), allowed);
}

static trm_status empty_field(const table *t, const trm_csv *r, int i) {
    char column[96];
    return trm_fail(TRM_DATA, "%s line %lld: %s has no value ('%.8s')", r->from.path, (long long)r->line,
                    column_text(t, i, column, sizeof column), trm_csv_field(r, i));
}

/* ---- the first time: rows and names ---- */

static trm_status count_row(table *t, const trm_csv *r, void *ctx) {
    (void)ctx;
    t->rows++;
    if (!t->spec->classes) return TRM_OK;
    for (int i = 0; i < t->columns; i++) {
        if (t->role[i] != TARGET) continue;
        const char *text = trm_csv_field(r, i);
        if (*text == '\0') return empty_field(t, r, i);
        TRM_TRY(trm_names_add(&t->names, text));
    }
    return TRM_OK;
}

/* ---- the second time: numbers ---- */

typedef struct block {
    trm_h5_file *f;
    float *x, *y;
    int32_t *label;
    int64_t at, n, most;
} block;

static trm_status number(const table *t, const trm_csv *r, int i, float *out) {
    const char *text = trm_csv_field(r, i);
    if (trm_parse_float(text, out)) return TRM_OK;
    if (is_missing(text)) {
        *out = t->missing;
        if (t->spec->missing) return TRM_OK;
        empty_field(t, r, i);
        trm_hint("`--missing 0` puts a number in such places, `--drop %s` leaves the column out", t->name[i]);
        return TRM_DATA;
    }
    bad_field(t, r, i, "finite numbers in the range of float32, like -1.5e3");
    if (t->rows > 0 && r->line == 1)
        trm_hint("is this a header? `--header yes`");
    else
        trm_hint("`--drop %s` leaves the column out", t->name[i]);
    return TRM_DATA;
}

static trm_status label(table *t, const trm_csv *r, int i, int32_t *out) {
    const char *text = trm_csv_field(r, i);
    double v;
    if (t->spec->classes) {
        int64_t at = trm_names_find(&t->names, text);
        if (at < 0) return trm_fail(TRM_DATA, "%s: was changed while it was read", r->from.path);
        *out = (int32_t)at;
        return TRM_OK;
    }
    if (is_missing(text)) return empty_field(t, r, i);
    if (!trm_parse_double(text, &v) || v < 0 || v > INT32_MAX || v != floor(v)) {
        bad_field(t, r, i, "classes, whole numbers from 0");
        trm_hint("`--classes` numbers the classes of a text, `--float-target` takes numbers to regress");
        return TRM_DATA;
    }
    *out = (int32_t)v;
    t->most_label = trm_max64(t->most_label, *out);
    return TRM_OK;
}

static trm_status flush(const table *t, block *b) {
    size_t f = sizeof(float);
    if (b->n == 0) return TRM_OK;
    TRM_TRY(trm_h5_put(b->f, "data", TRM_F32, b->at, b->n, (size_t)t->features * f, b->x));
    if (t->targets > 0)
        TRM_TRY(t->spec->float_target
                    ? trm_h5_put(b->f, "targets", TRM_F32, b->at, b->n, (size_t)t->targets * f, b->y)
                    : trm_h5_put(b->f, "label", TRM_I32, b->at, b->n, sizeof *b->label, b->label));
    b->at += b->n;
    b->n = 0;
    trm_tell_now(&t->spec->tell, b->at, t->rows);
    return TRM_OK;
}

static trm_status put_row(table *t, const trm_csv *r, void *ctx) {
    block *b = ctx;
    float *x = b->x + b->n * t->features, *y = b->y + b->n * t->targets;
    if (b->at + b->n == t->rows) return trm_fail(TRM_DATA, "%s: was changed while it was read", r->from.path);
    for (int i = 0; i < t->columns; i++) {
        if (t->role[i] == FEATURE) TRM_TRY(number(t, r, i, x++));
        if (t->role[i] == TARGET)
            TRM_TRY(t->spec->float_target ? number(t, r, i, y++) : label(t, r, i, &b->label[b->n]));
    }
    return ++b->n == b->most ? flush(t, b) : TRM_OK;
}

static trm_status make_sets(const table *t, trm_h5_file *f) {
    trm_shape x = trm_shape_of(2, t->rows, t->features), y = trm_shape_of(2, t->rows, t->targets),
              label_shape = trm_shape_of(1, t->rows);
    TRM_TRY(trm_h5_make(f, "data", TRM_F32, &x, 0, 0, false));
    if (t->targets == 0) return TRM_OK;
    TRM_TRY(t->spec->float_target ? trm_h5_make(f, "targets", TRM_F32, &y, 0, 0, false)
                                  : trm_h5_make(f, "label", TRM_I32, &label_shape, 0, 0, false));
    return t->spec->classes ? trm_names_write(&t->names, f, "label_names") : TRM_OK;
}

static trm_status write_csv(trm_h5_file *f, const void *ctx) {
    table *t = (table *)ctx;
    size_t row = (size_t)t->columns * sizeof(float);
    block b = {.f = f, .most = trm_max64((int64_t)(BLOCK_BYTES / row), 1)};
    TRM_TRY(make_sets(t, f));
    b.x = trm_alloc_array((size_t)b.most, row, "rows");
    b.y = trm_alloc_array((size_t)b.most, row, "rows");
    b.label = trm_alloc_array((size_t)b.most, sizeof *b.label, "rows");
    trm_status s = b.x && b.y && b.label ? walk(t, put_row, &b) : TRM_MEMORY;
    if (s == TRM_OK) s = flush(t, &b);
    if (s == TRM_OK && b.at != t->rows)
        s = trm_fail(TRM_DATA, "%s: was changed while it was read", t->files->at[0].path);
    trm_free(b.x);
    trm_free(b.y);
    trm_free(b.label);
    return s;
}

/* ---- all ---- */

static trm_status check_spec(const trm_csv_spec *s, table *t) {
    if (s->missing && !trm_parse_float(s->missing, &t->missing))
        return trm_fail(TRM_USAGE, "--missing is '%.40s'; allowed are finite numbers", s->missing);
    if (s->classes && s->float_target)
        return trm_fail(TRM_USAGE, "--classes and --float-target are given; allowed is one of them");
    if ((s->classes || s->float_target) && s->n_target == 0)
        return trm_fail(TRM_USAGE, "--%s is given without --target", s->classes ? "classes" : "float-target");
    if (s->n_target > 1 && !s->float_target)
        return trm_fail(TRM_USAGE, "%d targets are given; allowed is one class, or with --float-target many",
                        s->n_target);
    return TRM_OK;
}

static trm_status import(table *t, const char *out) {
    for (int i = 0; i < t->files->n; i++)
        TRM_TRY(trm_output_apart(out, (const char *const[]){t->files->at[i].path}, 1));
    TRM_TRY(look_at_first(t));
    TRM_TRY(walk(t, count_row, NULL));
    trm_shape x = trm_shape_of(2, t->rows, t->features);
    if (t->rows == 0)
        return trm_fail(TRM_DATA, "%s: there is no record behind the header", t->files->at[0].path);
    if (!trm_shape_valid(&x)) return trm_fail(TRM_DATA, "%s: too many numbers", t->files->at[0].path);
    trm_names_sort(&t->names);
    return trm_h5_replace(out, write_csv, t);
}

trm_status trm_import_csv(const trm_csv_spec *spec, const char *out, trm_made *made) {
    trm_paths paths = {0};
    table t = {.spec = spec, .files = &paths};
    TRM_TRY(check_spec(spec, &t));
    TRM_TRY(trm_paths_expand(spec->files, spec->n_files, &paths));
    trm_status s = import(&t, out);
    *made = (trm_made){.samples = t.rows,
                       .x = trm_shape_of(1, t.features),
                       .type = TRM_F32,
                       .classes = spec->classes                      ? t.names.n
                                  : t.targets && !spec->float_target ? t.most_label + 1
                                                                     : 0,
                       .target = t.targets > 0,
                       .floats = spec->float_target};
    for (int i = 0; i < t.columns && t.name; i++) trm_free(t.name[i]);
    trm_free(t.name);
    trm_free(t.role);
    trm_names_free(&t.names);
    trm_paths_free(&paths);
    return s;
}
