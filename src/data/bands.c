/* bands: rows of chunks, decoded together; a few bands are kept. */
#include "read_impl.h"
#include <string.h>

#define MOST_BANDS 4096

/* Where one chunk lies in the grid and in its band. */
typedef struct place {
    int64_t index; /* in the table */
    int64_t corner[TRM_STRETCH_RANK], extent[TRM_STRETCH_RANK];
    bool whole; /* it holds whole samples */
} place;

/* Without filters the rows of a chunk of whole samples lie open: one of them needs no other. */
static bool rows_lie_open(const trm_stretch *p) {
    if (p->layout != TRM_LAY_CHUNKED || p->n_filters > 0) return false;
    for (int i = 1; i < p->rank; i++)
        if (p->chunk[i] != p->dim[i]) return false;
    return true;
}

bool trm_in_bands(const trm_stretch *p) {
    return (p->layout == TRM_LAY_CHUNKED && !rows_lie_open(p)) || p->layout == TRM_LAY_CALLS;
}

int64_t trm_chunks_across(const trm_stretch *p) {
    return trm_stretch_grid(p) / ((p->dim[0] - 1) / p->chunk[0] + 1);
}

static size_t chunk_bytes(const trm_stretch *p) {
    size_t n = trm_dtype_size(p->stored);
    for (int i = 0; i < p->rank; i++) n *= (size_t)p->chunk[i];
    return n;
}

static place place_of(const trm_stretch *p, int64_t band_at, int64_t k) {
    place at = {.index = band_at * trm_chunks_across(p) + k, .whole = true};
    for (int i = p->rank - 1; i > 0; i--) {
        int64_t across = (p->dim[i] - 1) / p->chunk[i] + 1;
        at.corner[i] = k % across * p->chunk[i];
        at.extent[i] = trm_min64(p->chunk[i], p->dim[i] - at.corner[i]);
        at.whole = at.whole && p->chunk[i] == p->dim[i];
        k /= across;
    }
    at.corner[0] = band_at * p->chunk[0];
    at.extent[0] = trm_min64(p->chunk[0], p->dim[0] - at.corner[0]);
    return at;
}

/* Copies the part of a decoded chunk that lies inside the data set to its place in the band. */
static void scatter(const trm_stretch *p, const place *at, const unsigned char *chunk, unsigned char *rows) {
    size_t item = trm_dtype_size(p->stored);
    int last = p->rank - 1;
    int64_t index[TRM_STRETCH_RANK] = {0};
    for (;;) {
        int64_t from = 0, to = 0;
        for (int i = 0; i < p->rank; i++) {
            from = from * p->chunk[i] + index[i];
            to = to * (i == 0 ? p->chunk[0] : p->dim[i]) + index[i] + (i == 0 ? 0 : at->corner[i]);
        }
        memcpy(rows + (size_t)to * item, chunk + (size_t)from * item,
               (size_t)(last == 0 ? 1 : at->extent[last]) * item);
        int i = last == 0 ? 0 : last - 1;
        while (i >= 0 && ++index[i] == at->extent[i]) index[i--] = 0;
        if (i < 0) return;
    }
}

void trm_fill_chunk(const trm_stretch *p, unsigned char *chunk, size_t bytes) {
    size_t item = trm_dtype_size(p->stored);
    for (size_t i = 0; i < bytes; i += item) memcpy(chunk + i, p->fill, item);
}

/* The chunk as the file holds it; *bytes = 0 where it was never written. */
static trm_status stored_chunk(trm_dataset *d, const trm_column *c, const trm_stretch *p, const place *at,
                               size_t *bytes, uint32_t *mask) {
    trm_reader *r = d->reader;
    int fd;
    if (p->layout == TRM_LAY_CALLS) {
        trm_h5 *f;
        TRM_TRY(trm_reader_library(d, p->file, &f));
        return trm_h5_raw_chunk(f, trm_set_name(c, p), at->corner, &r->stored, &r->stored_cap, bytes, mask);
    }
    const trm_chunk *entry = &p->table[at->index];
    *bytes = 0;
    if (entry->offset == TRM_NO_ADDRESS) return TRM_OK;
    TRM_TRY(trm_reader_fd(d, p->file, &fd));
    TRM_TRY(trm_reader_room(&r->stored, &r->stored_cap, entry->bytes, "a stored chunk"));
    *bytes = entry->bytes;
    *mask = entry->mask;
    return trm_pread_all(fd, d->file[p->file].path, r->stored, entry->bytes, entry->offset);
}

static trm_status read_chunk(trm_dataset *d, const trm_column *c, const trm_stretch *p, const place *at,
                             void *dst) {
    trm_reader *r = d->reader;
    size_t bytes, want = chunk_bytes(p);
    uint32_t mask = 0;
    TRM_TRY(stored_chunk(d, c, p, at, &bytes, &mask));
    if (bytes == 0) {
        trm_fill_chunk(p, dst, want);
        return TRM_OK;
    }
    trm_status s = trm_decode_chunk(r->decoder, p->filter, p->n_filters, mask, r->stored, bytes, dst, want);
    if (s != TRM_DATA) return s;
    char byte[40] = "";
    if (p->layout == TRM_LAY_CHUNKED)
        snprintf(byte, sizeof byte, " at byte %llu", (unsigned long long)p->table[at->index].offset);
    trm_prefix(s, "%s: '%s' chunk at sample %lld (%lld samples%s)", d->file[p->file].path, c->name,
               (long long)at->corner[0], (long long)at->extent[0], byte);
    trm_hint("`data.on_bad_sample: skip` leaves its samples out");
    return s;
}

/* Decodes a whole band into r->scratch, as stored. */
static trm_status decode_band(trm_dataset *d, const trm_column *c, const trm_stretch *p, int64_t at) {
    trm_reader *r = d->reader;
    size_t bytes;
    if (!trm_stretch_band_bytes(p, &bytes)) return trm_fail(TRM_INTERNAL, "a plan has too large chunks");
    TRM_TRY(trm_reader_room(&r->scratch, &r->scratch_cap, bytes, "decoded samples"));
    int64_t n = trm_chunks_across(p);
    for (int64_t k = 0; k < n; k++) {
        place here = place_of(p, at, k);
        if (here.whole) return read_chunk(d, c, p, &here, r->scratch);
        TRM_TRY(trm_reader_room(&r->chunk, &r->chunk_cap, chunk_bytes(p), "a decoded chunk"));
        TRM_TRY(read_chunk(d, c, p, &here, r->chunk));
        scatter(p, &here, r->chunk, r->scratch);
    }
    return TRM_OK;
}

static size_t band_size(const trm_column *c, const trm_stretch *p) {
    return (size_t)p->chunk[0] * trm_row_bytes(c);
}

/* As many bands as the budget holds, each allocated at its first use. */
static trm_status make_bands(trm_dataset *d, const trm_column *c, const trm_stretch *p) {
    trm_reader *r = d->reader;
    if (r->band) return TRM_OK;
    size_t n = d->budget / band_size(c, p);
    r->n_bands = n < 2 ? 2 : n > MOST_BANDS ? MOST_BANDS : (int)n;
    r->band = trm_alloc_array((size_t)r->n_bands, sizeof *r->band, "a list of bands");
    return r->band ? TRM_OK : TRM_MEMORY;
}

static trm_status band_of(trm_dataset *d, const trm_column *c, const trm_stretch *p, int64_t at,
                          const unsigned char **rows) {
    trm_reader *r = d->reader;
    TRM_TRY(make_bands(d, c, p));
    /* Requests are sorted: mostly it is the same one again. */
    for (int k = 0; k < r->n_bands; k++) {
        int i = (r->hot_band + k) % r->n_bands;
        if (r->band[i].part != p || r->band[i].at != at) continue;
        r->hot_band = i;
        *rows = r->band[i].rows;
        return TRM_OK;
    }
    trm_band *b = &r->band[r->next_band];
    r->hot_band = r->next_band;
    r->next_band = (r->next_band + 1) % r->n_bands;
    b->part = NULL;
    void *space = b->rows;
    TRM_TRY(decode_band(d, c, p, at));
    TRM_TRY(trm_reader_room(&space, &b->cap, band_size(c, p), "decoded samples"));
    b->rows = space;
    int64_t n = trm_min64(p->chunk[0], p->dim[0] - at * p->chunk[0]);
    trm_to_column(p, c->type, r->scratch, n * c->row_elems, b->rows);
    b->part = p;
    b->at = at;
    *rows = b->rows;
    return TRM_OK;
}

/* All rows of a band, of which there are n: they are wanted once, so nothing is kept.  A chunk of whole samples that
 * need no widening is decoded in its place. */
static trm_status whole_band(trm_dataset *d, const trm_column *c, const trm_stretch *p, int64_t at, int64_t n,
                             void *dst) {
    place here = place_of(p, at, 0);
    if (n == p->chunk[0] && here.whole && p->stored == c->type) {
        TRM_TRY(read_chunk(d, c, p, &here, dst));
        if (p->swap) trm_swap_elements(dst, n * c->row_elems, trm_dtype_size(c->type));
        return TRM_OK;
    }
    TRM_TRY(decode_band(d, c, p, at));
    trm_to_column(p, c->type, d->reader->scratch, n * c->row_elems, dst);
    return TRM_OK;
}

trm_status trm_band_rows(trm_dataset *d, const trm_column *c, const trm_stretch *p, int64_t first, int64_t n,
                         char *dst) {
    size_t row = trm_row_bytes(c);
    const unsigned char *rows = NULL;
    while (n > 0) {
        int64_t at = first / p->chunk[0], inside = first % p->chunk[0];
        int64_t take = trm_min64(n, p->chunk[0] - inside);
        if (inside == 0 && take == trm_min64(p->chunk[0], p->dim[0] - first)) {
            TRM_TRY(whole_band(d, c, p, at, take, dst));
        } else {
            TRM_TRY(band_of(d, c, p, at, &rows));
            memcpy(dst, rows + (size_t)inside * row, (size_t)take * row);
        }
        dst += (size_t)take * row;
        first += take;
        n -= take;
    }
    return TRM_OK;
}
