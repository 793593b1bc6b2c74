/* rows: copies rows of all data sets of some files, as they are stored, to a new file.
 *
 * Rows may go in any order.  The new file is written from its beginning; a window of it lies in memory and is filled by
 * going once through the old files, so that a compressed chunk is unpacked once for each window and not once for each row. */
#include "make_impl.h"
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (4 * TRM_MIB)  /* that are read at once */
#define BAND_BYTES (64 * TRM_MIB)  /* at most, where a chunk is larger */
#define WRITE_BYTES (16 * TRM_MIB) /* the pieces of h5_file.c */
#define WHOLE_BYTES (64 * TRM_MIB) /* of a data set that has no rows */

/* ---- what is in the files ---- */

typedef struct gathering {
    trm_names *names;
    trm_status status;
} gathering;

static bool gather_name(void *ctx, const char *path, trm_h5_kind kind) {
    gathering *g = ctx;
    if (kind == TRM_H5_DATASET) g->status = trm_names_add(g->names, path);
    return g->status == TRM_OK;
}

static bool can_copy(trm_h5 *f, const char *name, const trm_h5_facts *x) {
    size_t item;
    bool plain = x->cls == TRM_H5_NUMBER || x->cls == TRM_H5_STRING || x->cls == TRM_H5_COMPLEX ||
                 x->cls == TRM_H5_OPAQUE || x->cls == TRM_H5_BITFIELD || x->cls == TRM_H5_ODD ||
                 x->cls == TRM_H5_VLEN || x->cls == TRM_H5_VLEN_STRING;
    return plain && x->rank >= 0 && x->layout != TRM_H5_VIRTUAL && x->n_external == 0 &&
           trm_h5_ragged_of(f, name, &item) != TRM_H5_NESTED;
}

static bool row_bytes(const trm_h5_facts *x, size_t *bytes) {
    *bytes = x->type_bytes;
    for (int i = 1; i < x->rank; i++)
        if (!trm_mul_size(*bytes, (size_t)x->dim[i], bytes)) return false;
    return *bytes > 0 && *bytes <= TRM_GIB;
}

static trm_status check_set(trm_h5 *f, const char *name, const trm_h5_facts *x) {
    size_t bytes;
    if (can_copy(f, name, x) && row_bytes(x, &bytes)) return TRM_OK;
    trm_str text = {0};
    trm_facts_text(x, &text);
    trm_fail(TRM_DATA,
             "%s: '%s' (%s) cannot be copied; allowed are numbers, texts and sequences of numbers in the "
             "file itself",
             trm_h5_path(f), name, trm_str_get(&text));
    trm_str_free(&text);
    trm_hint("`--only PATH` names the data sets that are to be copied");
    return TRM_DATA;
}

/* The name as h5_list gives it: no slash in front. */
static const char *bare(const char *name) { return name + (*name == '/'); }

static bool is_asked(const trm_set_spec *s, const char *name) {
    for (int i = 0; i < s->n_only; i++)
        if (strcmp(bare(s->only[i]), name) == 0) return true;
    return s->n_only == 0;
}

/* The names of classes are no samples, even where there are as many. */
static bool has_rows(const trm_h5_facts *x, const char *name, int64_t rows) {
    return x->rank > 0 && x->dim[0] == rows && strcmp(name, "label_names") != 0;
}

/* Sorts the data sets of the first file into those with rows and those without. */
static trm_status sort_sets(trm_rowset *r, trm_h5 *f, const trm_names *all) {
    for (int64_t i = 0; i < all->n; i++) {
        trm_h5_facts x;
        const char *name = all->name[i];
        TRM_TRY(trm_h5_facts_of(f, name, &x));
        if (has_rows(&x, name, r->facts.dim[0])) {
            if (!is_asked(r->spec, name) && strcmp(name, bare(r->input)) != 0) continue;
            TRM_TRY(check_set(f, name, &x));
            TRM_TRY(trm_names_add(&r->sets, name));
        } else if (can_copy(f, name, &x) && row_bytes(&x, &(size_t){0}) && x.stored <= WHOLE_BYTES &&
                   r->spec->n_only == 0) {
            TRM_TRY(trm_names_add(&r->whole, name));
        }
    }
    return TRM_OK;
}

static trm_status check_asked(const trm_rowset *r) {
    for (int i = 0; i < r->spec->n_only; i++)
        if (trm_names_find(&r->sets, bare(r->spec->only[i])) < 0)
            return trm_fail(TRM_DATA, "%s: no data set '%s' with as many rows as '%s'", r->paths.at[0].path,
                            r->spec->only[i], r->input);
    return TRM_OK;
}

static trm_status look_at_first(trm_rowset *r, trm_h5 *f) {
    trm_names all = {0};
    gathering g = {&all, TRM_OK};
    TRM_TRY(trm_judge_find(f, "input", r->spec->input, NULL, trm_input_names, &r->input, &r->facts));
    if (r->facts.rank < 1 || r->facts.dim[0] < 1 || r->facts.cls != TRM_H5_NUMBER)
        return trm_fail(TRM_DATA, "%s: '%s' has no rows of numbers", trm_h5_path(f), r->input);
    TRM_TRY(trm_h5_list(f, "/", 16, gather_name, &g));
    trm_status s = g.status;
    trm_names_sort(&all);
    if (s == TRM_OK) s = sort_sets(r, f, &all);
    trm_names_free(&all);
    trm_names_sort(&r->sets);
    trm_names_sort(&r->whole);
    return s == TRM_OK ? check_asked(r) : s;
}

/* Every file has the same data sets with rows of one kind. */
static trm_status look_at_next(trm_rowset *r, trm_h5 *f, const trm_h5_facts *first, int64_t *rows) {
    *rows = -1;
    for (int64_t i = 0; i < r->sets.n; i++) {
        trm_h5_found found;
        trm_h5_facts x;
        trm_str a = {0}, b = {0};
        const char *name = r->sets.name[i], *path = trm_h5_path(f);
        TRM_TRY(trm_h5_look(f, name, &found));
        if (found.kind != TRM_H5_DATASET)
            return trm_fail(TRM_DATA, "%s: no data set '%s', as %s has it", path, name, r->paths.at[0].path);
        TRM_TRY(trm_h5_facts_of(f, name, &x));
        TRM_TRY(check_set(f, name, &x));
        if (*rows < 0 && x.rank > 0) *rows = x.dim[0];
        bool same = x.rank == first[i].rank && strcmp(x.type_text, first[i].type_text) == 0 &&
                    x.type_bytes == first[i].type_bytes && x.rank > 0 && x.dim[0] == *rows;
        for (int k = 1; k < x.rank && same; k++) same = x.dim[k] == first[i].dim[k];
        if (same) continue;
        trm_facts_text(&x, &a);
        trm_facts_text(&first[i], &b);
        trm_fail(TRM_DATA, "%s: '%s' is %s, but %s in %s", path, name, trm_str_get(&a), trm_str_get(&b),
                 r->paths.at[0].path);
        trm_str_free(&a);
        trm_str_free(&b);
        return TRM_DATA;
    }
    return TRM_OK;
}

/* Keeps one file open. */
static trm_status use_file(trm_rowset *r, int i) {
    if (r->open && r->open_at == i) return TRM_OK;
    (void)!trm_h5_end(r->open);
    r->open = NULL;
    TRM_TRY(trm_h5_begin(r->paths.at[i].path, false, &r->open));
    r->open_at = i;
    return TRM_OK;
}

static trm_status facts_of_first(trm_rowset *r, trm_h5_facts **out) {
    *out = trm_alloc_array((size_t)r->sets.n, sizeof **out, "data sets");
    if (!*out) return TRM_MEMORY;
    for (int64_t i = 0; i < r->sets.n; i++) TRM_TRY(trm_h5_facts_of(r->open, r->sets.name[i], &(*out)[i]));
    return TRM_OK;
}

static trm_status look_at_all(trm_rowset *r) {
    trm_h5_facts *first = NULL;
    TRM_TRY(use_file(r, 0));
    TRM_TRY(look_at_first(r, r->open));
    trm_status s = facts_of_first(r, &first);
    r->start[1] = r->facts.dim[0];
    for (int i = 1; i < r->paths.n && s == TRM_OK; i++) {
        int64_t rows = 0;
        s = use_file(r, i);
        if (s == TRM_OK) s = look_at_next(r, r->open, first, &rows);
        r->start[i + 1] = r->start[i] + rows;
    }
    trm_free(first);
    return s;
}

trm_status trm_rowset_open(const trm_set_spec *spec, trm_rowset *r) {
    *r = (trm_rowset){.spec = spec};
    TRM_TRY(trm_paths_expand(spec->files, spec->n_files, &r->paths));
    r->start = trm_alloc_array((size_t)r->paths.n + 1, sizeof *r->start, "files");
    return r->start ? look_at_all(r) : TRM_MEMORY;
}

void trm_rowset_close(trm_rowset *r) {
    (void)!trm_h5_end(r->open);
    trm_paths_free(&r->paths);
    trm_names_free(&r->sets);
    trm_names_free(&r->whole);
    trm_free(r->input);
    trm_free(r->start);
    *r = (trm_rowset){0};
}

trm_status trm_rowset_apart(const trm_rowset *r, const char *out) {
    for (int i = 0; i < r->paths.n; i++)
        TRM_TRY(trm_output_apart(out, (const char *const[]){r->paths.at[i].path}, 1));
    return trm_h5_output(out);
}

trm_status trm_rowset_labels(trm_rowset *r, const char *target, int64_t **out) {
    char *name = NULL;
    trm_h5_facts x;
    TRM_TRY(use_file(r, 0));
    TRM_TRY(trm_judge_find(r->open, "target", target, r->input, trm_target_names, &name, &x));
    bool one = x.cls == TRM_H5_NUMBER && (x.rank == 1 || (x.rank == 2 && x.dim[1] == 1)) &&
               !trm_dtype_is_float(x.type);
    trm_status s = one ? TRM_OK
                       : trm_fail(TRM_DATA, "%s: '%s' holds no classes, one whole number a row",
                                  r->paths.at[0].path, name);
    if (s == TRM_OK && trm_names_find(&r->sets, bare(name)) < 0)
        s = trm_fail(TRM_DATA, "%s: '%s' has not as many rows as '%s'", r->paths.at[0].path, name, r->input);
    int64_t *label =
        s == TRM_OK ? trm_alloc_array((size_t)trm_rowset_count(r), sizeof *label, "labels") : NULL;
    if (s == TRM_OK && !label) s = TRM_MEMORY;
    for (int i = 0; i < r->paths.n && s == TRM_OK; i++) {
        s = use_file(r, i);
        if (s == TRM_OK)
            s = trm_h5_rows_as(r->open, name, TRM_I64, 0, r->start[i + 1] - r->start[i], label + r->start[i]);
    }
    trm_free(name);
    if (s == TRM_OK)
        *out = label;
    else
        trm_free(label);
    return s;
}

/* ---- gathering rows ---- */

/* A row of the old files and its place in the window. */
typedef struct wanted {
    int64_t row, place;
} wanted;

typedef struct copier {
    trm_rowset *r;
    const char *name;
    size_t row;            /* bytes */
    int64_t piece, window; /* rows that are read at once, and that are in memory */
    bool packed;           /* one row costs its whole chunk */
    char *buf, *scratch;
    wanted *want;
} copier;

static int by_row(const void *a, const void *b) {
    const wanted *x = a, *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

static int file_of(const trm_rowset *r, int64_t row) {
    int low = 0, high = r->paths.n;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (r->start[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* How many of the wanted rows from w on lie in one piece of one file, and close together unless a chunk is unpacked. */
static int64_t in_one_piece(const copier *c, const wanted *w, int64_t n, int64_t start, int64_t end) {
    int64_t first = (w[0].row - start) / c->piece, k = 1;
    while (k < n && w[k].row < end && (w[k].row - start) / c->piece == first &&
           (c->packed || w[k].row - w[k - 1].row <= 8))
        k++;
    return k;
}

static trm_status fetch(copier *c, int64_t n) {
    trm_rowset *r = c->r;
    for (int64_t i = 0, k; i < n; i += k) {
        const wanted *w = c->want + i;
        int file = file_of(r, w[0].row);
        int64_t start = r->start[file];
        k = in_one_piece(c, w, n - i, start, r->start[file + 1]);
        TRM_TRY(use_file(r, file));
        TRM_TRY(trm_h5_rows(r->open, c->name, w[0].row - start, w[k - 1].row - w[0].row + 1, c->scratch));
        for (int64_t j = 0; j < k; j++)
            memcpy(c->buf + (size_t)w[j].place * c->row, c->scratch + (size_t)(w[j].row - w[0].row) * c->row,
                   c->row);
    }
    return TRM_OK;
}

/* ---- one data set ---- */

static size_t window_bytes(const trm_rowset *r) {
    if (r->spec->memory) return r->spec->memory;
    size_t most = trm_mem_available() / 4;
    return most < TRM_GIB ? most : TRM_GIB;
}

static trm_status make_copier(trm_rowset *r, const char *name, int64_t n, int64_t multiple, copier *c) {
    trm_h5_facts x;
    TRM_TRY(use_file(r, 0));
    TRM_TRY(trm_h5_facts_of(r->open, name, &x));
    *c = (copier){.r = r, .name = name};
    (void)!row_bytes(&x, &c->row);
    c->packed = x.layout == TRM_H5_CHUNKED && x.n_filters > 0;
    int64_t band = x.layout == TRM_H5_CHUNKED ? trm_min64(x.chunk[0], x.dim[0]) : 1;
    band = trm_min64(band, trm_max64((int64_t)(BAND_BYTES / c->row), 1));
    c->piece = trm_max64((int64_t)(PIECE_BYTES / c->row) / band * band, band);
    c->window = trm_max64((int64_t)(window_bytes(r) / (c->row + sizeof(wanted))), 1);
    if (c->window >= multiple) c->window -= c->window % multiple; /* whole new chunks */
    if (c->window > n) c->window = n;
    c->buf = trm_alloc_array((size_t)c->window, c->row, "rows");
    c->scratch = trm_alloc_array((size_t)c->piece, c->row, "rows");
    c->want = trm_alloc_array((size_t)c->window, sizeof *c->want, "rows");
    return c->buf && c->scratch && c->want ? TRM_OK : TRM_MEMORY;
}

static void free_copier(copier *c) {
    trm_free(c->buf);
    trm_free(c->scratch);
    trm_free(c->want);
}

/* In pieces of whole new chunks: a compressed one is not written twice. */
static trm_status put_window(const copier *c, trm_h5_file *to, int64_t first, int64_t n, int64_t multiple) {
    int64_t step = trm_max64((int64_t)(WRITE_BYTES / c->row) / multiple * multiple, multiple);
    for (int64_t at = 0; at < n; at += step)
        TRM_TRY(trm_h5_put_stored(to, c->name, first + at, trm_min64(step, n - at), c->row,
                                  c->buf + (size_t)at * c->row));
    return TRM_OK;
}

static trm_status copy_windows(copier *c, trm_h5_file *to, const int64_t *pick, int64_t n, int64_t multiple,
                               int64_t done, int64_t all) {
    for (int64_t first = 0; first < n; first += c->window) {
        int64_t rows = trm_min64(c->window, n - first);
        for (int64_t i = 0; i < rows; i++) c->want[i] = (wanted){pick ? pick[first + i] : first + i, i};
        if (pick) qsort(c->want, (size_t)rows, sizeof *c->want, by_row);
        TRM_TRY(fetch(c, rows));
        TRM_TRY(put_window(c, to, first, rows, multiple));
        trm_tell_now(&c->r->spec->tell, done + first + rows, all);
    }
    return TRM_OK;
}

/* Rows of a chunk are said for the inputs; chunks of the others get about as many bytes. */
static trm_h5_store store_of(const trm_rowset *r, const trm_h5_facts *x, int64_t n, const trm_h5_store *how) {
    trm_h5_store s = how ? *how : (trm_h5_store){0};
    size_t row = 1, input = 1;
    (void)!row_bytes(x, &row);
    (void)!row_bytes(&r->facts, &input);
    if (x->rank == 0 || s.chunk_rows == 0) return (trm_h5_store){0};
    if (row != input) s.chunk_rows = trm_max64(s.chunk_rows * (int64_t)input / (int64_t)row, 1);
    if (s.chunk_rows > n) s.chunk_rows = n;
    return s;
}

#define RAGGED_ROWS 64

/* Gives back what was read for n rows; those that were not read yet are zeros. */
static void free_ragged(trm_rowset *r, const char *name, size_t row, char *buf, int64_t n) {
    for (int64_t i = 0; i < n && r->open; i++) trm_h5_ragged_free(r->open, name, 1, buf + (size_t)i * row);
    memset(buf, 0, (size_t)n * row);
}

/* Rows of any length go one by one: their bytes lie apart from each other anyway. */
static trm_status copy_ragged(trm_rowset *r, const char *name, size_t row, trm_h5_file *to,
                              const int64_t *pick, int64_t n) {
    char *buf = trm_alloc_array(RAGGED_ROWS, row, "rows");
    trm_status s = buf ? TRM_OK : TRM_MEMORY;
    for (int64_t first = 0; first < n && s == TRM_OK; first += RAGGED_ROWS) {
        int64_t count = trm_min64(RAGGED_ROWS, n - first);
        for (int64_t i = 0; i < count && s == TRM_OK; i++) {
            int64_t at = pick ? pick[first + i] : first + i;
            int file = file_of(r, at);
            s = use_file(r, file);
            if (s == TRM_OK) s = trm_h5_rows(r->open, name, at - r->start[file], 1, buf + (size_t)i * row);
        }
        if (s == TRM_OK) s = trm_h5_put_stored(to, name, first, count, row, buf);
        free_ragged(r, name, row, buf, count);
    }
    trm_free(buf);
    return s;
}

static trm_status copy_set(trm_rowset *r, const char *name, trm_h5_file *to, const int64_t *pick, int64_t n,
                           const trm_h5_store *how, int64_t done, int64_t all) {
    copier c = {0};
    trm_h5_facts x;
    TRM_TRY(use_file(r, 0));
    TRM_TRY(trm_h5_facts_of(r->open, name, &x));
    trm_h5_store store = store_of(r, &x, n, how);
    int64_t multiple = trm_max64(store.chunk_rows, 1);
    TRM_TRY(trm_h5_make_like(to, name, r->open, name, n, &store));
    TRM_TRY(trm_h5_note_like(to, name, r->open, name));
    size_t row = 0, item;
    if (trm_h5_ragged_of(r->open, name, &item) != TRM_H5_EVEN)
        return row_bytes(&x, &row) ? copy_ragged(r, name, row, to, pick, n) : TRM_INTERNAL;
    trm_status s = make_copier(r, name, n, multiple, &c);
    if (s == TRM_OK) s = copy_windows(&c, to, pick, n, multiple, done, all);
    free_copier(&c);
    return s;
}

/* ---- all ---- */

static trm_status copy_whole(trm_rowset *r, const char *name, trm_h5_file *to) {
    trm_h5_facts x;
    size_t row;
    TRM_TRY(trm_h5_facts_of(r->open, name, &x));
    int64_t rows = x.rank > 0 ? x.dim[0] : 1;
    (void)!row_bytes(&x, &row);
    TRM_TRY(trm_h5_make_like(to, name, r->open, name, rows, &(trm_h5_store){0}));
    TRM_TRY(trm_h5_note_like(to, name, r->open, name));
    void *all = trm_alloc_array((size_t)rows, row, "a data set");
    if (!all) return TRM_MEMORY;
    trm_status s = trm_h5_rows(r->open, name, 0, rows, all);
    if (s == TRM_OK) s = trm_h5_put_stored(to, name, 0, rows, row, all);
    if (trm_h5_ragged_of(r->open, name, &(size_t){0}) != TRM_H5_EVEN)
        trm_h5_ragged_free(r->open, name, rows, all);
    trm_free(all);
    return s;
}

trm_status trm_rowset_copy(trm_rowset *r, trm_h5_file *to, const int64_t *pick, int64_t n,
                           const trm_h5_store *how) {
    TRM_TRY(use_file(r, 0));
    TRM_TRY(trm_h5_note_like(to, "/", r->open, "/"));
    for (int64_t i = 0; i < r->whole.n; i++) TRM_TRY(copy_whole(r, r->whole.name[i], to));
    for (int64_t i = 0; i < r->sets.n; i++)
        TRM_TRY(copy_set(r, r->sets.name[i], to, pick, n, how, i * n, r->sets.n * n));
    return TRM_OK;
}

void trm_rowset_made(const trm_rowset *r, int64_t n, trm_made *made) {
    *made =
        (trm_made){.samples = n,
                   .x = trm_shape_from(r->facts.rank - 1 < TRM_MAX_DIMS ? r->facts.rank - 1 : TRM_MAX_DIMS,
                                       r->facts.dim + 1),
                   .type = r->facts.type};
    for (int i = 0; trm_target_names[i]; i++)
        made->target = made->target || trm_names_find(&r->sets, trm_target_names[i]) >= 0;
    made->floats = trm_names_find(&r->sets, "targets") >= 0;
}
