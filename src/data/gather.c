/* gather: the samples of a request, from memory or row by row. */
#include "read_impl.h"
#include <string.h>

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
    int i = trm_part_of(d->window_start, d->x.n_parts, sample);
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
    TRM_TRY(trm_reader_room(&p, &r->sorted_cap, (size_t)n * sizeof *r->sorted, "a request"));
    r->sorted = p;
    for (int64_t i = 0; i < n; i++) r->sorted[i] = i;
    sort_places(r->sorted, n, sample);
    return TRM_OK;
}

static trm_status room_for_places(trm_reader *r, int64_t n) {
    void *p = r->from;
    TRM_TRY(trm_reader_room(&p, &r->from_cap, (size_t)n * sizeof *r->from, "a request"));
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
    bool sorted = trm_in_bands(&d->x.part[0]), check = d->check_x;
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
