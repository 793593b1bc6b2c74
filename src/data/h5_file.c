/* h5_file: HDF5 files of our own, written with proof.
 *
 * Version 1.10 of HDF5 reports a full disk in H5Dwrite only, and then flushes, closes, opens and reads without a word.
 * So nothing is cached while writing, each piece leaves its sum, and trm_h5_close syncs the file, opens it again and
 * compares the sums. */
#include "data_impl.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES (16 * TRM_MIB)

/* A piece that was written, and what it was. */
typedef struct piece {
    char *name;
    trm_dtype type;
    bool stored; /* in the type of the file, whatever that is */
    int64_t first, rows;
    size_t bytes;
    uint64_t sum;
} piece;

struct trm_h5_file {
    trm_h5 *h;
    bool writing;
    piece *piece;
    size_t n_pieces, cap_pieces;
};

/* ---- opening ---- */

static trm_status begin(const char *path, bool writing, trm_h5_file **out) {
    trm_h5_file *f = trm_alloc(sizeof *f, "an HDF5 file");
    if (!f) return TRM_MEMORY;
    f->writing = writing;
    trm_status s = trm_h5_begin(path, writing, &f->h);
    if (s == TRM_OK)
        *out = f;
    else
        trm_free(f);
    return s;
}

trm_status trm_h5_create(const char *path, trm_h5_file **out) { return begin(path, true, out); }
trm_status trm_h5_open(const char *path, trm_h5_file **out) { return begin(path, false, out); }

/* ---- reading ---- */

/* Only what lies in this very file, in plain storage. */
static trm_status plain_facts(trm_h5 *h, const char *name, trm_h5_facts *facts) {
    trm_h5_found found;
    const char *path = trm_h5_path(h);
    TRM_TRY(trm_h5_look(h, name, &found));
    if (found.kind != TRM_H5_DATASET) return trm_fail(TRM_DATA, "%s: no data set '%s'", path, name);
    TRM_TRY(trm_h5_facts_of(h, name, facts));
    if (facts->cls != TRM_H5_NUMBER)
        return trm_fail(TRM_DATA, "%s: '%s' holds %s, numbers expected", path, name, facts->type_text);
    if (facts->rank < 0 || facts->rank > TRM_MAX_DIMS)
        return trm_fail(TRM_DATA, "%s: '%s' has %d dimensions, 0 to %d expected", path, name, facts->rank,
                        TRM_MAX_DIMS);
    if (facts->n_external > 0 || facts->layout == TRM_H5_VIRTUAL)
        return trm_fail(TRM_DATA, "%s: '%s' keeps its bytes in another file", path, name);
    return TRM_OK;
}

trm_status trm_h5_stat(trm_h5_file *f, const char *name, trm_dtype *type, trm_shape *shape) {
    trm_h5_facts facts;
    TRM_TRY(plain_facts(f->h, name, &facts));
    *type = facts.type;
    *shape = trm_shape_from(facts.rank, facts.dim);
    return TRM_OK;
}

trm_status trm_h5_read(trm_h5_file *f, const char *name, trm_dtype type, int64_t count, void *bytes) {
    trm_h5_facts facts;
    char text[80];
    TRM_TRY(plain_facts(f->h, name, &facts));
    trm_shape shape = trm_shape_from(facts.rank, facts.dim);
    if (!trm_shape_valid(&shape) || trm_shape_count(&shape) != count)
        return trm_fail(TRM_DATA, "%s: '%s' has shape %s, %lld elements expected", trm_h5_path(f->h), name,
                        trm_shape_text(&shape, text, sizeof text), (long long)count);
    return trm_h5_rows_as(f->h, name, type, 0, facts.rank > 0 ? facts.dim[0] : 1, bytes);
}

/* ---- writing ---- */

trm_status trm_h5_make(trm_h5_file *f, const char *name, trm_dtype type, const trm_shape *shape,
                       int64_t chunk_rows, int deflate, bool growing) {
    char text[80];
    if (!f->writing) return trm_fail(TRM_INTERNAL, "%s: is open for reading only", trm_h5_path(f->h));
    if (!trm_shape_valid(shape) || (shape->rank == 0 && chunk_rows > 0) || trm_dtype_size(type) == 0)
        return trm_fail(TRM_INTERNAL, "%s: '%s' of shape %s cannot be written", trm_h5_path(f->h), name,
                        trm_shape_text(shape, text, sizeof text));
    return trm_h5_new_set(f->h, name, type, shape, chunk_rows, deflate, growing);
}

static trm_status keep_piece(trm_h5_file *f, const piece *p) {
    if (f->n_pieces == f->cap_pieces) {
        size_t cap = f->cap_pieces ? 2 * f->cap_pieces : 32;
        void *more = trm_realloc(f->piece, f->n_pieces * sizeof *p, cap * sizeof *p, "a list of pieces");
        if (!more) return TRM_MEMORY;
        f->piece = more;
        f->cap_pieces = cap;
    }
    char *name = trm_strdup(p->name);
    if (!name) return TRM_MEMORY;
    f->piece[f->n_pieces] = *p;
    f->piece[f->n_pieces++].name = name;
    return TRM_OK;
}

/* Of what the rows hold, also where they only lead to it. */
static uint64_t sum_of(trm_h5 *h, const piece *p, const void *rows) {
    size_t item;
    trm_h5_ragged kind = p->stored ? trm_h5_ragged_of(h, p->name, &item) : TRM_H5_EVEN;
    return kind == TRM_H5_EVEN ? trm_sum64(rows, p->bytes) : trm_h5_ragged_sum(kind, item, rows, p->bytes);
}

/* Rows [like->first, + like->rows) in pieces. */
static trm_status put(trm_h5_file *f, const piece *like, size_t row_bytes, const void *bytes) {
    int64_t most = trm_max64((int64_t)(PIECE_BYTES / row_bytes), 1);
    for (int64_t done = 0; done < like->rows; done += most) {
        const char *from = (const char *)bytes + (size_t)done * row_bytes;
        piece p = *like;
        p.first += done;
        p.rows = trm_min64(most, like->rows - done);
        p.bytes = (size_t)p.rows * row_bytes;
        p.sum = sum_of(f->h, &p, from);
        TRM_TRY(p.stored ? trm_h5_write_stored(f->h, p.name, p.first, p.rows, from)
                         : trm_h5_write_rows(f->h, p.name, p.type, p.first, p.rows, from));
        TRM_TRY(keep_piece(f, &p));
    }
    return TRM_OK;
}

trm_status trm_h5_put(trm_h5_file *f, const char *name, trm_dtype type, int64_t first, int64_t rows,
                      size_t row_bytes, const void *bytes) {
    return put(f, &(piece){.name = (char *)name, .type = type, .first = first, .rows = rows}, row_bytes,
               bytes);
}

trm_status trm_h5_put_stored(trm_h5_file *f, const char *name, int64_t first, int64_t rows, size_t row_bytes,
                             const void *bytes) {
    return put(f, &(piece){.name = (char *)name, .stored = true, .first = first, .rows = rows}, row_bytes,
               bytes);
}

trm_status trm_h5_make_like(trm_h5_file *f, const char *name, trm_h5 *from, const char *like, int64_t rows,
                            const trm_h5_store *how) {
    return trm_h5_new_like(f->h, name, from, like, rows, how);
}

trm_status trm_h5_make_texts(trm_h5_file *f, const char *name, int64_t n, size_t width) {
    return trm_h5_new_texts(f->h, name, n, width);
}

trm_status trm_h5_note_like(trm_h5_file *f, const char *name, trm_h5 *from, const char *like) {
    return trm_h5_copy_notes(f->h, name, from, like);
}

static int64_t rows_of(const trm_shape *shape) { return shape->rank > 0 ? shape->dim[0] : 1; }

static size_t row_bytes_of(const trm_shape *shape, trm_dtype type) {
    return (size_t)(trm_shape_count(shape) / rows_of(shape)) * trm_dtype_size(type);
}

trm_status trm_h5_write(trm_h5_file *f, const char *name, trm_dtype type, const trm_shape *shape,
                        const void *bytes) {
    TRM_TRY(trm_h5_make(f, name, type, shape, 0, 0, false));
    return trm_h5_put(f, name, type, 0, rows_of(shape), row_bytes_of(shape, type), bytes);
}

/* Makes room for more rows; *first is where they go. */
static trm_status grow(trm_h5_file *f, const char *name, trm_dtype type, const trm_shape *shape,
                       int64_t *first) {
    trm_dtype there;
    trm_shape old;
    TRM_TRY(trm_h5_stat(f, name, &there, &old));
    *first = old.dim[0];
    old.dim[0] = shape->dim[0];
    if (there != type || !trm_shape_equal(&old, shape))
        return trm_fail(TRM_INTERNAL, "%s: rows of another shape or type cannot be appended to '%s'",
                        trm_h5_path(f->h), name);
    return trm_h5_set_rows(f->h, name, *first + shape->dim[0]);
}

trm_status trm_h5_write_chunked(trm_h5_file *f, const char *name, trm_dtype type, const trm_shape *shape,
                                const void *bytes, int64_t chunk_rows, int deflate) {
    int64_t first = 0;
    trm_h5_found found;
    TRM_TRY(trm_h5_look(f->h, name, &found));
    if (found.kind == TRM_H5_DATASET)
        TRM_TRY(grow(f, name, type, shape, &first));
    else
        TRM_TRY(trm_h5_make(f, name, type, shape, trm_max64(chunk_rows, 1), deflate, true));
    return trm_h5_put(f, name, type, first, rows_of(shape), row_bytes_of(shape, type), bytes);
}

/* ---- closing: the proof ---- */

static trm_status compare_piece(trm_h5 *h, const piece *p, void *buf) {
    size_t item;
    trm_status s = p->stored ? trm_h5_rows(h, p->name, p->first, p->rows, buf)
                             : trm_h5_rows_as(h, p->name, p->type, p->first, p->rows, buf);
    bool same = s == TRM_OK && sum_of(h, p, buf) == p->sum;
    if (s == TRM_OK && p->stored && trm_h5_ragged_of(h, p->name, &item) != TRM_H5_EVEN)
        trm_h5_ragged_free(h, p->name, p->rows, buf);
    if (s == TRM_MEMORY || same) return s;
    return trm_fail(
        TRM_IO,
        "%s: '%s' reads back other than it was written (rows %lld to %lld): is the disk full or failing?",
        trm_h5_path(h), p->name, (long long)p->first, (long long)(p->first + p->rows - 1));
}

static trm_status compare_pieces(const trm_h5_file *f, const char *path) {
    size_t most = 1;
    trm_h5 *h = NULL;
    for (size_t i = 0; i < f->n_pieces; i++)
        if (f->piece[i].bytes > most) most = f->piece[i].bytes;
    void *buf = trm_alloc(most, "reading back");
    if (!buf) return TRM_MEMORY;
    trm_status s = trm_h5_begin(path, false, &h);
    for (size_t i = 0; i < f->n_pieces && s == TRM_OK; i++) s = compare_piece(h, &f->piece[i], buf);
    (void)!trm_h5_end(h);
    trm_free(buf);
    return s == TRM_DATA ? TRM_IO : s;
}

static trm_status finish(trm_h5_file *f) {
    char *path = trm_strdup(trm_h5_path(f->h));
    trm_status s = trm_h5_end(f->h);
    if (s == TRM_OK) s = path ? compare_pieces(f, path) : TRM_MEMORY;
    trm_free(path);
    return s;
}

static void free_pieces(trm_h5_file *f) {
    for (size_t i = 0; i < f->n_pieces; i++) trm_free(f->piece[i].name);
    trm_free(f->piece);
    trm_free(f);
}

trm_status trm_h5_close(trm_h5_file *f) {
    if (!f) return TRM_OK;
    trm_status s = f->writing ? finish(f) : trm_h5_end(f->h);
    free_pieces(f);
    return s;
}

void trm_h5_drop(trm_h5_file *f) {
    if (!f) return;
    (void)!trm_h5_end(f->h);
    free_pieces(f);
}

/* ---- a file that appears under its name only when it is whole ---- */

trm_status trm_h5_output(const char *path) {
    static const trm_output_kind kind = {"HDF5", "\x89HDF\r\n\x1a\n", 0, 8};
    return trm_output_check(path, &kind);
}

/* What went wrong first is what the user has to hear, not that the file was not written whole. */
static void drop_after(trm_h5_file *f, trm_status s) {
    char text[2048], hint[1024];
    snprintf(text, sizeof text, "%s", trm_error_text());
    snprintf(hint, sizeof hint, "%s", trm_error_hint());
    trm_h5_drop(f);
    trm_fail(s, "%s", text);
    if (hint[0]) trm_hint("%s", hint);
}

trm_status trm_h5_replace(const char *path, trm_h5_fill fill, const void *ctx) {
    trm_str aside = {0};
    trm_h5_file *f = NULL;
    char why[128];
    TRM_TRY(trm_h5_output(path));
    trm_str_add(&aside, "%s.new-%ld", path, (long)getpid());
    if (aside.failed) return TRM_MEMORY;
    trm_status s = trm_h5_create(aside.p, &f);
    if (s == TRM_OK && (s = fill(f, ctx)) != TRM_OK)
        drop_after(f, s);
    else if (s == TRM_OK)
        s = trm_h5_close(f);
    if (s == TRM_OK && rename(aside.p, path) != 0)
        s = trm_fail(TRM_IO, "%s: cannot be replaced: %s", path, strerror_r(errno, why, sizeof why));
    if (s != TRM_OK) unlink(aside.p);
    trm_str_free(&aside);
    return s;
}
