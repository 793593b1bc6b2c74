/* read: rows of a column, samples of a data set.
 *
 * A column that is kept in memory is copied from there.  Else a contiguous row is one pread; a chunked one comes from a
 * decoded band (all chunks that hold the same rows), of which a few are kept.  HDF5 is called only for what the plan
 * does not cover. */
#include "read_impl.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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

trm_status trm_reader_room(void **p, size_t *cap, size_t need, const char *what) {
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
    if (r->n_open < TRM_READER_FDS) return r->n_open++;
    int oldest = 0;
    for (int i = 1; i < TRM_READER_FDS; i++)
        if (r->open[i].used < r->open[oldest].used) oldest = i;
    close(r->open[oldest].fd);
    return oldest;
}

trm_status trm_reader_fd(trm_dataset *d, int file, int *fd) {
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

trm_status trm_reader_library(trm_dataset *d, int file, trm_h5 **out) {
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

/* ---- rows of one part ---- */

static trm_status open_rows(trm_dataset *d, const trm_column *c, const trm_stretch *p, int fd, int64_t first,
                            int64_t n, char *dst) {
    size_t row = trm_stored_row_bytes(c, p);
    while (n > 0) {
        int64_t inside = first % p->chunk[0], take = trm_min64(n, p->chunk[0] - inside);
        const trm_chunk *entry = &p->table[first / p->chunk[0]];
        size_t bytes = (size_t)take * row, skip = (size_t)inside * row;
        if (entry->offset == TRM_NO_ADDRESS)
            trm_fill_chunk(p, (unsigned char *)dst, bytes);
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
        TRM_TRY(trm_reader_library(d, p->file, &f));
        return trm_h5_rows(f, trm_set_name(c, p), first, n, dst);
    }
    TRM_TRY(trm_reader_fd(d, p->file, &fd));
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
    int64_t most = trm_max64((int64_t)(TRM_SCRATCH_BYTES / row), 1);
    TRM_TRY(
        trm_reader_room(&r->scratch, &r->scratch_cap, (size_t)trm_min64(most, n) * row, "stored samples"));
    for (int64_t done = 0; done < n; done += most) {
        int64_t take = trm_min64(most, n - done);
        TRM_TRY(stored_rows(d, c, p, first + done, take, r->scratch));
        trm_to_column(p, c->type, r->scratch, take * c->row_elems, dst + (size_t)done * trm_row_bytes(c));
    }
    return TRM_OK;
}

static trm_status stretch_rows(trm_dataset *d, const trm_column *c, const trm_stretch *p, int64_t first,
                               int64_t n, char *dst) {
    if (trm_in_bands(p)) return trm_band_rows(d, c, p, first, n, dst);
    return plain_rows(d, c, p, first, n, dst);
}

/* ---- rows of a column ---- */

int trm_part_of(const int64_t *start, int n, int64_t row) {
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
    int i = trm_part_of(c->start, c->n_parts, row);
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
    for (int i = trm_part_of(c->start, c->n_parts, first); n > 0; i++) {
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
    if ((p->layout != TRM_LAY_CONTIGUOUS && p->layout != TRM_LAY_CHUNKED) ||
        trm_reader_fd(d, p->file, &fd) != TRM_OK)
        return;
    if (p->layout == TRM_LAY_CONTIGUOUS) {
        (void)posix_fadvise(fd, (off_t)(p->offset + (uint64_t)first * row), (off_t)((size_t)n * row),
                            POSIX_FADV_WILLNEED);
        return;
    }
    int64_t across = trm_chunks_across(p), end = ((first + n - 1) / p->chunk[0] + 1) * across;
    for (int64_t i = first / p->chunk[0] * across; i < end; i++)
        if (p->table[i].offset != TRM_NO_ADDRESS)
            (void)posix_fadvise(fd, (off_t)p->table[i].offset, p->table[i].bytes, POSIX_FADV_WILLNEED);
}

void trm_column_ahead(trm_dataset *d, const trm_column *c, int64_t first, int64_t n) {
    for (int i = trm_part_of(c->start, c->n_parts, first); n > 0; i++) {
        const trm_stretch *p = &c->part[i];
        int64_t inside = first - c->start[i], take = trm_min64(n, p->rows - inside);
        stretch_ahead(d, c, p, p->first + inside, take);
        first += take;
        n -= take;
    }
}
