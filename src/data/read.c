/* read: rows of a column, samples of a data set.
 *
 * A column that is kept in memory is copied from there.  Else a contiguous row is one pread; a chunked one comes from a
 * decoded band (all chunks that hold the same rows), of which a few are kept.  HDF5 is called only for what the plan
 * does not cover. */
#include "data_impl.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define MOST_FDS 24
#define SCRATCH_BYTES (4 * TRM_MIB)
#define MOST_BANDS 4096

/* A decoded band: rows [first, first + rows) of one part of one column. */
typedef struct band {
    const trm_stretch *part;
    int64_t at;          /* number of the band within its data set */
    unsigned char *rows; /* as the column gives them */
    size_t cap;
} band;

struct trm_reader {
    struct {
        int file, fd;
        int64_t used;
    } open[MOST_FDS];
    int n_open;
    int64_t turn;
    trm_decoder *decoder;
    trm_h5 *library; /* for what the plan does not cover */
    int library_file;
    void *scratch, *stored, *chunk; /* stored elements; a chunk as in the file; a decoded chunk */
    size_t scratch_cap, stored_cap, chunk_cap;
    band *band;
    int n_bands, next_band, hot_band;
    bool loaded;
    int64_t *sorted; /* the places of a request, by row */
    size_t sorted_cap;
    const unsigned char **from; /* where the samples of a request lie */
    size_t from_cap;
};

trm_status trm_reader_new(trm_dataset *d) {
    d->reader = trm_alloc(sizeof *d->reader, "the reader");
    if (!d->reader) return TRM_MEMORY;
    d->reader->library_file = -1;
    return trm_decoder_new(&d->reader->decoder);
}

void trm_reader_free(trm_dataset *d) {
    trm_reader *r = d->reader;
    if (!r) return;
    for (int i = 0; i < r->n_open; i++) close(r->open[i].fd);
    if (r->library) (void)!trm_h5_end(r->library);
    for (int i = 0; i < r->n_bands; i++) trm_free(r->band[i].rows);
    trm_free(r->band);
    trm_free(r->scratch);
    trm_free(r->stored);
    trm_free(r->chunk);
    trm_free(r->sorted);
    trm_free(r->from);
    trm_decoder_free(r->decoder);
    trm_free(r);
    d->reader = NULL;
}

static trm_status room(void **p, size_t *cap, size_t need, const char *what) {
    if (*cap >= need) return TRM_OK;
    void *more = trm_realloc(*p, 0, need, what);
    if (!more) return TRM_MEMORY;
    *p = more;
    *cap = need;
    return TRM_OK;
}

/* ---- files ---- */

static trm_status same_file(const trm_data_file *f, int64_t size, int64_t changed) {
    if (size != f->size)
        return trm_fail(TRM_DATA, "%s: has %lld bytes, had %lld when the run began: it was changed meanwhile",
                        f->path, (long long)size, (long long)f->size);
    if (changed == f->changed) return TRM_OK;
    return trm_fail(TRM_DATA, "%s: was written to or replaced since the run began", f->path);
}

/* The place for one more open file: that of the one that was used longest ago where all are taken. */
static int place_for_fd(trm_reader *r) {
    if (r->n_open < MOST_FDS) return r->n_open++;
    int oldest = 0;
    for (int i = 1; i < MOST_FDS; i++)
        if (r->open[i].used < r->open[oldest].used) oldest = i;
    close(r->open[oldest].fd);
    return oldest;
}

static trm_status fd_of(trm_dataset *d, int file, int *fd) {
    trm_reader *r = d->reader;
    int64_t size;
    r->turn++;
    for (int i = 0; i < r->n_open; i++) {
        if (r->open[i].file != file) continue;
        r->open[i].used = r->turn;
        *fd = r->open[i].fd;
        return TRM_OK;
    }
    TRM_TRY(trm_open_regular(d->file[file].path, fd, &size));
    trm_status s = same_file(&d->file[file], size, trm_time_of(*fd));
    if (s != TRM_OK) {
        close(*fd);
        return s;
    }
    if (d->scattered) (void)posix_fadvise(*fd, 0, 0, POSIX_FADV_RANDOM);
    int slot = place_for_fd(r);
    r->open[slot].file = file;
    r->open[slot].fd = *fd;
    r->open[slot].used = r->turn;
    return TRM_OK;
}

static trm_status library_of(trm_dataset *d, int file, trm_h5 **out) {
    trm_reader *r = d->reader;
    if (r->library_file != file) {
        if (r->library) (void)!trm_h5_end(r->library);
        r->library = NULL;
        r->library_file = -1;
        TRM_TRY(trm_h5_begin(d->file[file].path, false, &r->library));
        trm_h5_allow(r->library, d->allow);
        TRM_TRY(same_file(&d->file[file], trm_h5_size(r->library), trm_h5_probe(r->library)->changed));
        r->library_file = file;
    }
    *out = r->library;
    return TRM_OK;
}

/* ---- bands of chunks ---- */

/* Where one chunk lies in the grid and in its band. */
typedef struct place {
    int64_t index; /* in the table */
    int64_t corner[TRM_STRETCH_RANK], extent[TRM_STRETCH_RANK];
    bool whole; /* it holds whole samples */
} place;

static size_t chunk_bytes(const trm_stretch *p) {
    size_t n = trm_dtype_size(p->stored);
    for (int i = 0; i < p->rank; i++) n *= (size_t)p->chunk[i];
    return n;
}

static int64_t chunks_across(const trm_stretch *p) {
    return trm_stretch_grid(p) / ((p->dim[0] - 1) / p->chunk[0] + 1);
}

static place place_of(const trm_stretch *p, int64_t band_at, int64_t k) {
    place at = {.index = band_at * chunks_across(p) + k, .whole = true};
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

static void fill_chunk(const trm_stretch *p, unsigned char *chunk, size_t bytes) {
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
        TRM_TRY(library_of(d, p->file, &f));
        return trm_h5_raw_chunk(f, trm_set_name(c, p), at->corner, &r->stored, &r->stored_cap, bytes, mask);
    }
    const trm_chunk *entry = &p->table[at->index];
    *bytes = 0;
    if (entry->offset == TRM_NO_ADDRESS) return TRM_OK;
    TRM_TRY(fd_of(d, p->file, &fd));
    TRM_TRY(room(&r->stored, &r->stored_cap, entry->bytes, "a stored chunk"));
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
        fill_chunk(p, dst, want);
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
    TRM_TRY(room(&r->scratch, &r->scratch_cap, bytes, "decoded samples"));
    int64_t n = chunks_across(p);
    for (int64_t k = 0; k < n; k++) {
        place here = place_of(p, at, k);
        if (here.whole) return read_chunk(d, c, p, &here, r->scratch);
        TRM_TRY(room(&r->chunk, &r->chunk_cap, chunk_bytes(p), "a decoded chunk"));
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
    band *b = &r->band[r->next_band];
    r->hot_band = r->next_band;
    r->next_band = (r->next_band + 1) % r->n_bands;
    b->part = NULL;
    void *space = b->rows;
    TRM_TRY(decode_band(d, c, p, at));
    TRM_TRY(room(&space, &b->cap, band_size(c, p), "decoded samples"));
    b->rows = space;
    int64_t n = trm_min64(p->chunk[0], p->dim[0] - at * p->chunk[0]);
    trm_to_column(p, c->type, r->scratch, n * c->row_elems, b->rows);
    b->part = p;
    b->at = at;
    *rows = b->rows;
    return TRM_OK;
}

/* ---- rows of one part ---- */

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

static trm_status chunked_rows(trm_dataset *d, const trm_column *c, const trm_stretch *p, int64_t first,
                               int64_t n, char *dst) {
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

/* Without filters the rows of a chunk of whole samples lie open: one of them needs no other. */
static bool rows_lie_open(const trm_stretch *p) {
    if (p->layout != TRM_LAY_CHUNKED || p->n_filters > 0) return false;
    for (int i = 1; i < p->rank; i++)
        if (p->chunk[i] != p->dim[i]) return false;
    return true;
}

/* Only whole bands of it can be had. */
static bool in_bands(const trm_stretch *p) {
    return (p->layout == TRM_LAY_CHUNKED && !rows_lie_open(p)) || p->layout == TRM_LAY_CALLS;
}

static trm_status open_rows(trm_dataset *d, const trm_column *c, const trm_stretch *p, int fd, int64_t first,
                            int64_t n, char *dst) {
    size_t row = trm_stored_row_bytes(c, p);
    while (n > 0) {
        int64_t inside = first % p->chunk[0], take = trm_min64(n, p->chunk[0] - inside);
        const trm_chunk *entry = &p->table[first / p->chunk[0]];
        size_t bytes = (size_t)take * row, skip = (size_t)inside * row;
        if (entry->offset == TRM_NO_ADDRESS)
            fill_chunk(p, (unsigned char *)dst, bytes);
        else if (entry->bytes < skip + bytes)
            return trm_fail(TRM_DATA, "%s: '%s' chunk at sample %lld has only %u bytes",
                            d->file[p->file].path, c->name, (long long)(first - inside), entry->bytes);
        else
            TRM_TRY(trm_pread_all(fd, d->file[p->file].path, dst, bytes, entry->offset + skip));
        dst += bytes;
        first += take;
        n -= take;
    }
    return TRM_OK;
}

static trm_status stored_rows(trm_dataset *d, const trm_column *c, const trm_stretch *p, int64_t first,
                              int64_t n, void *dst) {
    size_t row = trm_stored_row_bytes(c, p);
    int fd;
    if (p->layout == TRM_LAY_VIEW) return trm_view_rows(d, c, first, n, dst);
    if (p->layout == TRM_LAY_LIBRARY) {
        trm_h5 *f;
        TRM_TRY(library_of(d, p->file, &f));
        return trm_h5_rows(f, trm_set_name(c, p), first, n, dst);
    }
    TRM_TRY(fd_of(d, p->file, &fd));
    if (p->layout == TRM_LAY_CHUNKED) return open_rows(d, c, p, fd, first, n, dst);
    return trm_pread_all(fd, d->file[p->file].path, dst, (size_t)n * row, p->offset + (uint64_t)first * row);
}

static trm_status plain_rows(trm_dataset *d, const trm_column *c, const trm_stretch *p, int64_t first,
                             int64_t n, char *dst) {
    trm_reader *r = d->reader;
    size_t row = trm_stored_row_bytes(c, p);
    if (p->stored == c->type) {
        TRM_TRY(stored_rows(d, c, p, first, n, dst));
        if (p->swap) trm_swap_elements(dst, n * c->row_elems, trm_dtype_size(c->type));
        return TRM_OK;
    }
    int64_t most = trm_max64((int64_t)(SCRATCH_BYTES / row), 1);
    TRM_TRY(room(&r->scratch, &r->scratch_cap, (size_t)trm_min64(most, n) * row, "stored samples"));
    for (int64_t done = 0; done < n; done += most) {
        int64_t take = trm_min64(most, n - done);
        TRM_TRY(stored_rows(d, c, p, first + done, take, r->scratch));
        trm_to_column(p, c->type, r->scratch, take * c->row_elems, dst + (size_t)done * trm_row_bytes(c));
    }
    return TRM_OK;
}

static trm_status stretch_rows(trm_dataset *d, const trm_column *c, const trm_stretch *p, int64_t first,
                               int64_t n, char *dst) {
    if (in_bands(p)) return chunked_rows(d, c, p, first, n, dst);
    return plain_rows(d, c, p, first, n, dst);
}

/* ---- rows of a column ---- */

/* The part i with start[i] <= row < start[i + 1]. */
static int part_of(const int64_t *start, int n, int64_t row) {
    int low = 0, high = n;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (start[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void trm_row_place(const trm_dataset *d, const trm_column *c, int64_t row, const char **path,
                   int64_t *in_file) {
    int i = part_of(c->start, c->n_parts, row);
    if (c->view) {
        trm_view_place(d, c->view, row + c->part[i].first, path, in_file);
        return;
    }
    *path = d->file[c->part[i].file].path;
    *in_file = row - c->start[i] + c->part[i].first;
}

trm_status trm_column_rows(trm_dataset *d, trm_column *c, int64_t first, int64_t n, void *dst) {
    size_t row = trm_row_bytes(c);
    char *to = dst;
    if (c->cache) {
        memcpy(dst, c->cache + (size_t)first * row, (size_t)n * row);
        return TRM_OK;
    }
    for (int i = part_of(c->start, c->n_parts, first); n > 0; i++) {
        const trm_stretch *p = &c->part[i];
        int64_t inside = first - c->start[i], take = trm_min64(n, p->rows - inside);
        TRM_TRY(stretch_rows(d, c, p, p->first + inside, take, to));
        to += (size_t)take * row;
        first += take;
        n -= take;
    }
    return TRM_OK;
}

/* ---- asking in advance ---- */

static void stretch_ahead(trm_dataset *d, const trm_column *c, const trm_stretch *p, int64_t first,
                          int64_t n) {
    int fd;
    size_t row = trm_stored_row_bytes(c, p);
    if ((p->layout != TRM_LAY_CONTIGUOUS && p->layout != TRM_LAY_CHUNKED) || fd_of(d, p->file, &fd) != TRM_OK)
        return;
    if (p->layout == TRM_LAY_CONTIGUOUS) {
        (void)posix_fadvise(fd, (off_t)(p->offset + (uint64_t)first * row), (off_t)((size_t)n * row),
                            POSIX_FADV_WILLNEED);
        return;
    }
    int64_t across = chunks_across(p), end = ((first + n - 1) / p->chunk[0] + 1) * across;
    for (int64_t i = first / p->chunk[0] * across; i < end; i++)
        if (p->table[i].offset != TRM_NO_ADDRESS)
            (void)posix_fadvise(fd, (off_t)p->table[i].offset, p->table[i].bytes, POSIX_FADV_WILLNEED);
}

void trm_column_ahead(trm_dataset *d, const trm_column *c, int64_t first, int64_t n) {
    for (int i = part_of(c->start, c->n_parts, first); n > 0; i++) {
        const trm_stretch *p = &c->part[i];
        int64_t inside = first - c->start[i], take = trm_min64(n, p->rows - inside);
        stretch_ahead(d, c, p, p->first + inside, take);
        first += take;
        n -= take;
    }
}

/* ---- keeping columns ---- */

/* Another rank of this node may have filled the memory since the run was planned. */
static bool fits_now(const trm_dataset *d, const trm_column *c) {
    size_t bytes;
    if (d->must_keep) return true;
    if (trm_mul_size((size_t)trm_rows(c), trm_row_bytes(c), &bytes) && bytes <= trm_mem_available())
        return true;
    trm_log(TRM_LOG_WARN, "'%s' no longer fits in memory here: it is read from the file each time", c->name);
    return false;
}

/* How many rows from `at` on, at most `most` where that is possible, are read together: none of a second file, and whole
 * bands where rows come in bands. */
static int64_t piece_at(const trm_column *c, int64_t at, int64_t most) {
    int i = part_of(c->start, c->n_parts, at);
    const trm_stretch *p = &c->part[i];
    int64_t row = p->first + at - c->start[i], left = p->rows - (at - c->start[i]);
    if (!in_bands(p) || most >= left) return trm_min64(most, left);
    int64_t end = trm_max64((row + most) / p->chunk[0], row / p->chunk[0] + 1) * p->chunk[0];
    return trm_min64(end - row, left);
}

/* Piece by piece, so that a large column is checked while its rows are warm. */
static trm_status load_rows(trm_dataset *d, trm_column *c, int64_t begin, int64_t end, unsigned char *to,
                            bool check) {
    size_t row = trm_row_bytes(c);
    int64_t step = trm_max64((int64_t)(SCRATCH_BYTES / row), 1);
    for (int64_t at = begin, take, bad; at < end; at += bad + take) {
        take = trm_good_rows(d, at, trm_min64(piece_at(c, at, step), end - at), &bad);
        if (take == 0) continue;
        unsigned char *dst = to + (size_t)(at + bad) * row;
        TRM_TRY(trm_column_rows(d, c, at + bad, take, dst));
        if (check) TRM_TRY(trm_check_x_rows(d, at + bad, dst, take));
    }
    return TRM_OK;
}

static trm_status load_column(trm_dataset *d, trm_column *c, bool check) {
    if (c->cache) return TRM_OK;
    unsigned char *all = trm_alloc_array((size_t)trm_rows(c), trm_row_bytes(c), "the data set in memory");
    if (!all) return d->must_keep ? TRM_MEMORY : TRM_OK;
    trm_status s = load_rows(d, c, 0, trm_rows(c), all, check);
    if (s == TRM_OK)
        c->cache = all;
    else
        trm_free(all);
    return s;
}

trm_status trm_dataset_load(trm_dataset *d) {
    trm_reader *r = d->reader;
    if (r->loaded) return TRM_OK;
    if (d->has_y && d->keep_y && fits_now(d, &d->y)) TRM_TRY(load_column(d, &d->y, false));
    /* What the node is to share waits for that, be it only while it is opened. */
    if (d->keep_x && d->share) return TRM_OK;
    if (d->keep_x && fits_now(d, &d->x)) TRM_TRY(load_column(d, &d->x, d->check_x));
    r->loaded = true;
    return TRM_OK;
}

/* This rank's part of the rows, of which the ranks of its node make one whole. */
static trm_status load_part(trm_dataset *d, const trm_data_share *s, unsigned char *all) {
    int64_t n = trm_rows(&d->x), begin = trm_cut(n, s->ranks, s->rank),
            end = trm_cut(n, s->ranks, s->rank + 1);
    trm_status status = load_rows(d, &d->x, begin, end, all, d->check_x);
    return status == TRM_OK ? status : trm_count_bad(d, status);
}

static void say_no_room(const trm_dataset *d, const trm_data_share *s, size_t bytes) {
    char size[16];
    if (s->rank == 0)
        trm_log(TRM_LOG_WARN,
                "'%s' (%s) does not fit into the memory that ranks share (/dev/shm): each rank keeps its own",
                d->x.name, trm_human_bytes((double)bytes, size, sizeof size));
}

trm_status trm_dataset_share(trm_dataset *d, const trm_data_share *s) {
    void *all = NULL;
    size_t bytes;
    if (!d->share || !d->keep_x || d->x.cache) return TRM_OK;
    if (!trm_mul_size((size_t)trm_rows(&d->x), trm_row_bytes(&d->x), &bytes))
        return trm_fail(TRM_MEMORY, "'%s' is too large to be kept in memory", d->x.name);
    TRM_TRY(s->alloc(s->ctx, bytes, "the data set in memory", &all));
    d->share = false;
    if (!all) {
        say_no_room(d, s, bytes);
        return TRM_OK;
    }
    TRM_TRY(s->agree(s->ctx, load_part(d, s, all)));
    d->x.cache = all;
    d->x.borrowed = true;
    return TRM_OK;
}

/* ---- samples ---- */

static trm_status check_indices(const trm_dataset *d, const int64_t *sample, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (sample[i] < 0 || sample[i] >= d->info.samples)
            return trm_fail(TRM_INTERNAL, "sample %lld of %lld was asked for", (long long)sample[i],
                            (long long)d->info.samples);
    return TRM_OK;
}

/* First row of a sample, and how many. */
static int64_t rows_of(const trm_dataset *d, int64_t sample, int64_t *n) {
    *n = 1;
    sample = trm_dataset_place(d, sample);
    if (d->info.kind != TRM_DATA_TOKEN_STREAM) return sample;
    int64_t t = d->info.x.dim[0];
    int i = part_of(d->window_start, d->x.n_parts, sample);
    /* Files too short for one window have none. */
    *n = t + !d->info.no_target;
    return d->x.start[i] + (sample - d->window_start[i]) * t;
}

/* The windows of a stream share their ends, where none is left out. */
static bool overlap(const trm_dataset *d) { return d->info.kind == TRM_DATA_TOKEN_STREAM && d->n_gaps == 0; }

int64_t trm_sample_rows(const trm_dataset *d, int64_t first, int64_t most, int64_t *row, int64_t *rows) {
    int64_t bad;
    *row = rows_of(d, first, rows);
    if (d->info.kind != TRM_DATA_TOKEN_STREAM) return *rows = trm_good_rows(d, *row, most, &bad);
    if (!overlap(d)) return 1;
    *rows += (most - 1) * d->info.x.dim[0];
    return most;
}

int64_t trm_dataset_step(const trm_dataset *d) {
    return overlap(d) ? d->info.x.dim[0] * (int64_t)trm_row_bytes(&d->x) : d->info.x_stride;
}

/* ---- copying ---- */

#define AHEAD 2    /* pieces that are fetched before they are copied */
#define FETCH 4096 /* bytes of them; the machine finds out about the rest */

static void fetch(const unsigned char *p, size_t bytes) {
    for (size_t at = 0; at < bytes && at < FETCH; at += 64) __builtin_prefetch(p + at);
}

void trm_gather(void *dst, size_t stride, const unsigned char *const *from, int64_t n, size_t bytes) {
    unsigned char *to = dst;
    for (int64_t i = 0; i < n;) {
        size_t run = 1;
        if (i + AHEAD < n) fetch(from[i + AHEAD], bytes);
        /* Neighbours go together. */
        while (stride == bytes && i + (int64_t)run < n && from[i + (int64_t)run] == from[i] + run * bytes)
            run++;
        memcpy(to + (size_t)i * stride, from[i], run * bytes);
        i += (int64_t)run;
    }
}

/* ---- requests ---- */

/* Places by sample (heap sort: in place, no worst case): a band is then decoded once for a request. */
static void sort_places(int64_t *at, int64_t n, const int64_t *key) {
    for (int64_t start = n / 2, end = n; end > 1;) {
        if (start > 0) {
            start--;
        } else {
            int64_t held = at[--end];
            at[end] = at[0];
            at[0] = held;
        }
        for (int64_t root = start, child; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && key[at[child]] < key[at[child + 1]]) child++;
            if (key[at[root]] >= key[at[child]]) break;
            int64_t held = at[root];
            at[root] = at[child];
            at[child] = held;
        }
    }
}

static trm_status order_request(trm_reader *r, const int64_t *sample, int64_t n) {
    void *p = r->sorted;
    TRM_TRY(room(&p, &r->sorted_cap, (size_t)n * sizeof *r->sorted, "a request"));
    r->sorted = p;
    for (int64_t i = 0; i < n; i++) r->sorted[i] = i;
    sort_places(r->sorted, n, sample);
    return TRM_OK;
}

static trm_status room_for_places(trm_reader *r, int64_t n) {
    void *p = r->from;
    TRM_TRY(room(&p, &r->from_cap, (size_t)n * sizeof *r->from, "a request"));
    r->from = p;
    return TRM_OK;
}

static trm_status gather_x(trm_dataset *d, const int64_t *sample, int64_t n, char *x) {
    const unsigned char **from = d->reader->from;
    size_t row = trm_row_bytes(&d->x), bytes = (size_t)d->info.x_stride;
    bool stream = d->info.kind == TRM_DATA_TOKEN_STREAM;
    for (int64_t i = 0; i < n; i++) {
        int64_t rows, first = stream ? rows_of(d, sample[i], &rows) : trm_dataset_place(d, sample[i]);
        from[i] = d->x.cache + (size_t)first * row;
    }
    trm_gather(x, bytes, from, n, bytes);
    return TRM_OK;
}

static void gather_y(trm_dataset *d, const int64_t *sample, int64_t n, char *y) {
    const unsigned char **from = d->reader->from;
    size_t row = trm_row_bytes(&d->y);
    for (int64_t i = 0; i < n; i++) from[i] = d->y.cache + (size_t)trm_dataset_place(d, sample[i]) * row;
    trm_gather(y, row, from, n, row);
}

static trm_status read_x(trm_dataset *d, const int64_t *sample, int64_t n, char *x) {
    trm_reader *r = d->reader;
    if (d->x.cache) return gather_x(d, sample, n, x);
    bool sorted = in_bands(&d->x.part[0]), check = d->check_x;
    if (sorted) TRM_TRY(order_request(r, sample, n));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = sorted ? r->sorted[i] : i, rows;
        int64_t first = rows_of(d, sample[at], &rows);
        char *to = x + at * d->info.x_stride;
        TRM_TRY(trm_column_rows(d, &d->x, first, rows, to));
        if (check) TRM_TRY(trm_check_x_rows(d, first, to, rows));
    }
    return TRM_OK;
}

static trm_status read_y(trm_dataset *d, int64_t row, char *y) {
    return trm_maps_target(d) ? trm_target_read(d, row, (int64_t *)y) : trm_column_rows(d, &d->y, row, 1, y);
}

trm_status trm_dataset_read_y(trm_dataset *d, const int64_t *sample, int64_t n, void *y) {
    TRM_TRY(room_for_places(d->reader, n));
    if (d->y.cache && !trm_maps_target(d)) {
        gather_y(d, sample, n, y);
        return TRM_OK;
    }
    for (int64_t i = 0; i < n; i++)
        TRM_TRY(read_y(d, trm_dataset_place(d, sample[i]), (char *)y + i * d->info.y_stride));
    return TRM_OK;
}

trm_status trm_dataset_read_raw(trm_dataset *d, const int64_t *sample, int64_t n, void *x, void *y) {
    TRM_TRY(check_indices(d, sample, n));
    TRM_TRY(trm_dataset_load(d));
    TRM_TRY(room_for_places(d->reader, n));
    TRM_TRY(read_x(d, sample, n, x));
    return d->has_y ? trm_dataset_read_y(d, sample, n, y) : TRM_OK;
}
