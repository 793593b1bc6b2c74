/* read_impl: what the files that read rows share. */
#ifndef TRIREME_DATA_READ_IMPL_H
#define TRIREME_DATA_READ_IMPL_H

#include "data_impl.h"

#define TRM_READER_FDS 24
#define TRM_SCRATCH_BYTES (4 * TRM_MIB)

/* A decoded band: rows [first, first + rows) of one part of one column. */
typedef struct trm_band {
    const trm_stretch *part;
    int64_t at;          /* number of the band within its data set */
    unsigned char *rows; /* as the column gives them */
    size_t cap;
} trm_band;

struct trm_reader {
    struct {
        int file, fd;
        int64_t used;
    } open[TRM_READER_FDS];
    int n_open;
    int64_t turn;
    trm_decoder *decoder;
    trm_h5 *library; /* for what the plan does not cover */
    int library_file;
    void *scratch, *stored, *chunk; /* stored elements; a chunk as in the file; a decoded chunk */
    size_t scratch_cap, stored_cap, chunk_cap;
    trm_band *band;
    int n_bands, next_band, hot_band;
    bool loaded;
    int64_t *sorted; /* the places of a request, by row */
    size_t sorted_cap;
    const unsigned char **from; /* where the samples of a request lie */
    size_t from_cap;
};

/* *p of *cap bytes grows where it is too small. */
trm_status trm_reader_room(void **p, size_t *cap, size_t need, const char *what);
/* A file of the plan, open for pread, or for the library; the reader's. */
trm_status trm_reader_fd(trm_dataset *d, int file, int *fd);
trm_status trm_reader_library(trm_dataset *d, int file, trm_h5 **out);
/* The part i with start[i] <= row < start[i + 1]. */
int trm_part_of(const int64_t *start, int n, int64_t row);

/* ---- bands.c: a band is all chunks that hold the same rows ---- */

/* Only whole bands of it can be had. */
bool trm_in_bands(const trm_stretch *p);
int64_t trm_chunks_across(const trm_stretch *p);
void trm_fill_chunk(const trm_stretch *p, unsigned char *chunk, size_t bytes);
trm_status trm_band_rows(trm_dataset *d, const trm_column *c, const trm_stretch *p, int64_t first, int64_t n, char *dst);

#endif
