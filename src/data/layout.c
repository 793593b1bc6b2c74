/* layout: where the bytes of an HDF5 data set lie -> how ranks read them without HDF5.  What the library tells is
 * held against what it reads before it is believed: 1.10 leaves the user block out of chunk addresses. */
#include "data_impl.h"
#include <stdlib.h>
#include <string.h>

#define BIG_CHUNK (64 * TRM_MIB)

/* ---- are the addresses right? ---- */

static void corner_of(const trm_stretch *p, int64_t place, int64_t *corner) {
    for (int i = p->rank - 1; i >= 0; i--) {
        int64_t across = (p->dim[i] - 1) / p->chunk[i] + 1;
        corner[i] = place % across * p->chunk[i];
        place /= across;
    }
}

/* Does the entry lead to the bytes that the library reads? */
static bool entry_holds(trm_h5 *f, const char *name, const trm_stretch *p, int64_t place, int64_t shift) {
    int64_t corner[TRM_STRETCH_RANK];
    void *theirs = NULL;
    size_t cap = 0, bytes = 0;
    uint32_t mask = 0;
    const trm_chunk *c = &p->table[place];
    corner_of(p, place, corner);
    bool same = trm_h5_raw_chunk(f, name, corner, &theirs, &cap, &bytes, &mask) == TRM_OK &&
                bytes == c->bytes && mask == c->mask;
    void *ours = same ? trm_alloc(bytes, "a chunk") : NULL;
    same = ours &&
           trm_pread_all(trm_h5_probe(f)->fd, name, ours, bytes, c->offset + (uint64_t)shift) == TRM_OK &&
           memcmp(ours, theirs, bytes) == 0;
    trm_free(ours);
    trm_free(theirs);
    return same;
}

/* The shift that makes the first and the last chunk right, or -1. */
static int64_t find_shift(trm_h5 *f, const char *name, const trm_stretch *p) {
    int64_t first = 0, last = p->n_chunks - 1;
    while (first < p->n_chunks && p->table[first].offset == TRM_NO_ADDRESS) first++;
    while (last > first && p->table[last].offset == TRM_NO_ADDRESS) last--;
    if (first == p->n_chunks) return -1;
    for (int k = 0; k < 2; k++) {
        int64_t shift = k * trm_h5_probe(f)->user_block;
        if (entry_holds(f, name, p, first, shift) && entry_holds(f, name, p, last, shift)) return shift;
    }
    return -1;
}

static bool row_holds(trm_h5 *f, const char *name, uint64_t offset, int64_t row, size_t bytes) {
    char *theirs = trm_alloc(2 * bytes, "a row");
    bool same = theirs && trm_h5_rows(f, name, row, 1, theirs) == TRM_OK &&
                trm_pread_all(trm_h5_probe(f)->fd, name, theirs + bytes, bytes,
                              offset + (uint64_t)row * bytes) == TRM_OK &&
                memcmp(theirs, theirs + bytes, bytes) == 0;
    trm_free(theirs);
    return same;
}

/* The first and the last row at the offset equal what the library reads. */
static bool offset_holds(trm_h5 *f, const char *name, const trm_h5_facts *x) {
    size_t bytes = x->type_bytes;
    for (int i = 1; i < x->rank; i++) bytes *= (size_t)x->dim[i];
    if (bytes > TRM_BAND_LIMIT / 4) return false;
    return row_holds(f, name, x->offset, 0, bytes) && row_holds(f, name, x->offset, x->dim[0] - 1, bytes);
}

/* ---- chunks ---- */

/* Filters that we undo ourselves, one compressor at most. */
static bool own_filters(const trm_h5_facts *x, trm_stretch *out) {
    int compressors = 0;
    if (x->odd_edges || x->n_filters > TRM_STRETCH_FILTERS) return false;
    for (int i = 0; i < x->n_filters; i++) {
        int id = x->filter[i].id;
        bool compressor = id == TRM_FILTER_DEFLATE || id == TRM_FILTER_LZF;
        if (!compressor && id != TRM_FILTER_SHUFFLE && id != TRM_FILTER_FLETCHER) return false;
        if (id == TRM_FILTER_SHUFFLE && (x->filter[i].param == 0 || x->filter[i].param > 4096)) return false;
        compressors += compressor;
        out->filter[i] = (trm_filter){id, x->filter[i].param};
    }
    out->n_filters = x->n_filters;
    return compressors <= 1;
}

static trm_status judge_chunk_size(const char *path, const char *name, const trm_stretch *p) {
    size_t band;
    char text[16];
    for (int i = 0; i < p->rank; i++)
        if (p->chunk[i] < 1) return trm_fail(TRM_DATA, "%s: '%s' has damaged chunk sizes", path, name);
    if (!trm_stretch_band_bytes(p, &band)) {
        trm_status s = trm_fail(
            TRM_DATA, "%s: '%s' has chunks of %lld samples: more than %s have to be decoded at once", path,
            name, (long long)p->chunk[0], trm_human_bytes((double)TRM_BAND_LIMIT, text, sizeof text));
        trm_hint("h5repack -l %s:CHUNK=... with chunks of 64 KiB to 1 MiB that hold whole samples", name);
        return s;
    }
    if (band > BIG_CHUNK)
        trm_log(TRM_LOG_WARN,
                "%s: '%s': chunks of %lld samples (%s) are slow to read in random order; 64 KiB to 1 MiB are "
                "good",
                path, name, (long long)p->chunk[0], trm_human_bytes((double)band, text, sizeof text));
    return TRM_OK;
}

/* The first stretch of samples that no chunk was written for. */
static void warn_of_holes(const char *path, const char *name, const trm_h5_facts *x, const trm_stretch *p) {
    int64_t grid = trm_stretch_grid(p), across = grid / ((p->dim[0] - 1) / p->chunk[0] + 1), first = -1,
            last = -1;
    if (x->chunks_written >= grid) return;
    for (int64_t i = 0; p->table && i < grid; i++) {
        if (p->table[i].offset != TRM_NO_ADDRESS) {
            if (first >= 0) break;
            continue;
        }
        if (first < 0) first = i / across * p->chunk[0];
        last = trm_min64((i / across + 1) * p->chunk[0], p->dim[0]) - 1;
    }
    if (first >= 0)
        trm_log(TRM_LOG_WARN,
                "%s: '%s': only %lld of %lld chunks were ever written; samples %lld to %lld read as the fill "
                "value",
                path, name, (long long)x->chunks_written, (long long)grid, (long long)first, (long long)last);
    else
        trm_log(TRM_LOG_WARN,
                "%s: '%s': only %lld of %lld chunks were ever written; the others read as the fill value",
                path, name, (long long)x->chunks_written, (long long)grid);
}

static int by_offset(const void *a, const void *b) {
    const trm_chunk *x = *(const trm_chunk *const *)a, *y = *(const trm_chunk *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x > y) - (x < y);
}

/* Samples of two chunks that share bytes would be one another's without a word. */
static trm_status check_overlap(trm_h5 *f, const char *name, const trm_stretch *p) {
    const trm_chunk **sorted = trm_alloc_array((size_t)p->n_chunks, sizeof *sorted, "a table of chunks");
    int64_t n = 0;
    if (!sorted) return TRM_MEMORY;
    for (int64_t i = 0; i < p->n_chunks; i++)
        if (p->table[i].offset != TRM_NO_ADDRESS) sorted[n++] = &p->table[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_offset);
    trm_status s = TRM_OK;
    for (int64_t i = 1; i < n && s == TRM_OK; i++) {
        const trm_chunk *a = sorted[i - 1], *b = sorted[i];
        if (b->offset - a->offset >= a->bytes) continue;
        s = trm_fail(TRM_DATA, "%s: '%s': chunks %lld and %lld overlap: its index is damaged", trm_h5_path(f),
                     name, (long long)(a - p->table), (long long)(b - p->table));
    }
    trm_free(sorted);
    return s;
}

static trm_status check_addresses(trm_h5 *f, const char *name, const trm_stretch *p) {
    uint64_t size = (uint64_t)trm_h5_size(f);
    for (int64_t i = 0; i < p->n_chunks; i++) {
        const trm_chunk *c = &p->table[i];
        if (c->offset == TRM_NO_ADDRESS) continue;
        /* It would be taken for one that was never written. */
        if (c->bytes == 0)
            return trm_fail(TRM_DATA, "%s: '%s': chunk %lld has 0 bytes: its index is damaged",
                            trm_h5_path(f), name, (long long)i);
        if (c->offset <= size && c->bytes <= size - c->offset) continue;
        return trm_fail(TRM_DATA, "%s: '%s': chunk %lld lies outside of the file (byte %llu of %llu)",
                        trm_h5_path(f), name, (long long)i, (unsigned long long)c->offset,
                        (unsigned long long)size);
    }
    return check_overlap(f, name, p);
}

/* Without filters a chunk is stored as large as it is; the library would read on behind a shorter one. */
static trm_status check_plain_sizes(trm_h5 *f, const char *name, const trm_stretch *p) {
    size_t want = trm_dtype_size(p->stored);
    for (int i = 0; i < p->rank; i++) want *= (size_t)p->chunk[i];
    for (int64_t i = 0; i < p->n_chunks && p->n_filters == 0; i++)
        if (p->table[i].offset != TRM_NO_ADDRESS && p->table[i].bytes != want)
            return trm_fail(TRM_DATA, "%s: '%s': chunk %lld has %u bytes, %zu expected", trm_h5_path(f), name,
                            (long long)i, p->table[i].bytes, want);
    return TRM_OK;
}

/* Fills the table; false where it cannot be trusted. */
static trm_status fill_table(trm_h5 *f, const char *name, const trm_h5_facts *x, trm_stretch *p) {
    TRM_TRY(trm_h5_chunk_table(f, name, x, p->table, p->n_chunks));
    TRM_TRY(check_plain_sizes(f, name, p));
    int64_t shift = find_shift(f, name, p);
    if (shift < 0) {
        trm_free(p->table);
        p->table = NULL;
        p->n_chunks = 0;
        return TRM_OK;
    }
    for (int64_t i = 0; i < p->n_chunks; i++)
        if (p->table[i].offset != TRM_NO_ADDRESS) p->table[i].offset += (uint64_t)shift;
    p->layout = TRM_LAY_CHUNKED;
    return check_addresses(f, name, p);
}

static trm_status place_chunks(trm_h5 *f, const char *name, const trm_h5_facts *x, trm_stretch *p) {
    int64_t grid = trm_stretch_grid(p);
    p->layout = own_filters(x, p) ? TRM_LAY_CALLS : TRM_LAY_LIBRARY;
    if (p->layout == TRM_LAY_LIBRARY || grid > TRM_H5_TABLE_LIMIT) return TRM_OK;
    p->table = trm_alloc_array((size_t)grid, sizeof *p->table, "a table of chunks");
    if (!p->table) return TRM_MEMORY;
    p->n_chunks = grid;
    return fill_table(f, name, x, p);
}

static trm_status place_contiguous(trm_h5 *f, const char *name, const trm_h5_facts *x, trm_stretch *p) {
    uint64_t claim = x->type_bytes, size = (uint64_t)trm_h5_size(f);
    p->layout = TRM_LAY_LIBRARY;
    if (x->layout == TRM_H5_COMPACT || x->offset == TRM_NO_ADDRESS) return TRM_OK;
    for (int i = 0; i < x->rank; i++) claim *= (uint64_t)x->dim[i];
    if (x->stored < claim || x->offset > size || claim > size - x->offset)
        return trm_fail(TRM_DATA, "%s: '%s' needs %llu bytes at byte %llu, the file has %llu", trm_h5_path(f),
                        name, (unsigned long long)claim, (unsigned long long)x->offset,
                        (unsigned long long)size);
    if (!offset_holds(f, name, x)) return TRM_OK;
    p->layout = TRM_LAY_CONTIGUOUS;
    p->offset = x->offset;
    return TRM_OK;
}

trm_status trm_layout_stretch(trm_h5 *f, const char *name, const trm_h5_facts *x, int file,
                              trm_stretch *out) {
    *out =
        (trm_stretch){.file = file, .stored = x->type, .swap = x->swap, .rank = x->rank, .rows = x->dim[0]};
    memcpy(out->fill, x->fill, sizeof out->fill);
    for (int i = 0; i < x->rank; i++) out->dim[i] = out->chunk[i] = x->dim[i];
    if (x->layout != TRM_H5_CHUNKED) return place_contiguous(f, name, x, out);
    for (int i = 0; i < x->rank; i++) out->chunk[i] = x->chunk[i];
    TRM_TRY(judge_chunk_size(trm_h5_path(f), name, out));
    TRM_TRY(place_chunks(f, name, x, out));
    warn_of_holes(trm_h5_path(f), name, x, out);
    return TRM_OK;
}
