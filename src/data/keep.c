/* keep: columns that stay in memory, of a rank or of its node. */
#include "read_impl.h"

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
    int i = trm_part_of(c->start, c->n_parts, at);
    const trm_stretch *p = &c->part[i];
    int64_t row = p->first + at - c->start[i], left = p->rows - (at - c->start[i]);
    if (!trm_in_bands(p) || most >= left) return trm_min64(most, left);
    int64_t end = trm_max64((row + most) / p->chunk[0], row / p->chunk[0] + 1) * p->chunk[0];
    return trm_min64(end - row, left);
}

/* Piece by piece, so that a large column is checked while its rows are warm. */
static trm_status load_rows(trm_dataset *d, trm_column *c, int64_t begin, int64_t end, unsigned char *to,
                            bool check) {
    size_t row = trm_row_bytes(c);
    int64_t step = trm_max64((int64_t)(TRM_SCRATCH_BYTES / row), 1);
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
