/* blocks: a data set in stretches of samples that are read and decoded together.
 *
 * The blocks are part of the order of `shuffle: window`, so they follow from what is stored and from nothing else. */
#include "lanes.h"

#define GOOD_BLOCK (256u << 10) /* bytes: chunks below are taken together, rows without chunks are cut so */

/* ---- where the borders are ---- */

static trm_status begin(trm_blocks *b, int parts) {
    *b = (trm_blocks){0};
    b->part = trm_alloc_array((size_t)parts + 1, sizeof *b->part, "a list of blocks");
    return b->part ? TRM_OK : TRM_MEMORY;
}

static void add(trm_blocks *b, int64_t samples, int64_t skip, int64_t each) {
    b->part[b->n_parts++] = (trm_block_part){b->n, b->samples, skip, each};
    int64_t blocks = samples > 0 ? (samples + skip - 1) / each + 1 : 0;
    b->samples += samples;
    b->n += blocks;
    b->most = trm_max64(b->most, trm_min64(each, samples));
    b->part[b->n_parts] = (trm_block_part){b->n, b->samples, 0, 1};
}

trm_status trm_blocks_even(int64_t samples, int64_t each, trm_blocks *out) {
    TRM_TRY(begin(out, 1));
    add(out, samples, 0, each);
    return TRM_OK;
}

void trm_blocks_free(trm_blocks *b) {
    trm_free(b->part);
    *b = (trm_blocks){0};
}

/* Rows of a chunk, 1 where the rows lie free. */
static int64_t chunk_rows(const trm_stretch *p) {
    bool chunks = p->layout == TRM_LAY_CHUNKED || p->layout == TRM_LAY_CALLS ||
                  (p->layout == TRM_LAY_LIBRARY && p->chunk[0] < p->dim[0]);
    return chunks ? p->chunk[0] : 1;
}

static void add_part(trm_blocks *b, const trm_dataset *d, int i) {
    const trm_stretch *p = &d->x.part[i];
    int64_t chunk = chunk_rows(p), row = d->info.x_stride + (d->has_y ? d->info.y_stride : 0);
    if (d->info.kind == TRM_DATA_TOKEN_STREAM) {
        /* A window may begin anywhere in a chunk. */
        int64_t t = d->info.x.dim[0], each = trm_max64(GOOD_BLOCK / row, chunk / t);
        add(b, d->window_start[i + 1] - d->window_start[i], 0, trm_max64(each, 1));
        return;
    }
    int64_t each = chunk;
    if (chunk <= GOOD_BLOCK / row) each = chunk * trm_max64(GOOD_BLOCK / row / chunk, 1);
    add(b, p->rows, chunk > 1 ? p->first % each : 0, each);
}

trm_status trm_blocks_of(const trm_dataset *d, trm_blocks *out) {
    TRM_TRY(begin(out, d->x.n_parts));
    for (int i = 0; i < d->x.n_parts; i++) add_part(out, d, i);
    out->samples = d->info.samples;
    if (d->n_gaps > 0) out->set = d;
    return TRM_OK;
}

/* ---- finding ---- */

/* The part of block or sample `v`: the last one that begins at or before it and is not empty. */
static const trm_block_part *part_at(const trm_blocks *b, int64_t v, bool by_sample) {
    int low = 0, high = b->n_parts;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if ((by_sample ? b->part[middle].sample : b->part[middle].block) <= v)
            low = middle;
        else
            high = middle;
    }
    return &b->part[low];
}

/* How many samples lie before a place. */
static int64_t samples_before(const trm_blocks *b, int64_t place) {
    if (!b->set) return place;
    int64_t low = 0, high = b->set->n_gaps;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (b->set->gap[middle].from + b->set->gap[middle].skipped > place)
            high = middle;
        else
            low = middle + 1;
    }
    int64_t sample = low > 0 ? place - b->set->gap[low - 1].skipped : place;
    /* Inside of what is left out. */
    return low < b->set->n_gaps ? trm_min64(sample, b->set->gap[low].from) : sample;
}

void trm_block_range(const trm_blocks *b, int64_t i, int64_t *first, int64_t *count) {
    const trm_block_part *p = part_at(b, i, false);
    int64_t k = i - p->block, all = p[1].sample - p->sample;
    int64_t from = trm_max64(k * p->each - p->skip, 0), to = trm_min64((k + 1) * p->each - p->skip, all);
    *first = samples_before(b, p->sample + from);
    *count = samples_before(b, p->sample + to) - *first;
}

int64_t trm_block_with(const trm_blocks *b, int64_t sample) {
    int64_t place = b->set ? trm_dataset_place(b->set, sample) : sample;
    const trm_block_part *p = part_at(b, place, true);
    return p->block + (place - p->sample + p->skip) / p->each;
}

/* ---- lanes and window ---- */

/* What a decoded sample costs in memory: its bytes, and its place in the order. */
static size_t sample_cost(const trm_dataset *d) {
    return (size_t)(d->info.x_stride + (d->has_y ? d->info.y_stride : 0)) + sizeof(int64_t);
}

static uint64_t print(const trm_blocks *b, const trm_data_window *w) {
    int64_t head[] = {w->lanes, w->window, b->samples, b->n};
    uint64_t h = trm_hash(head, sizeof head, 0);
    for (int i = 0; i < b->n_parts; i++) {
        const int64_t part[] = {b->part[i].sample, b->part[i].skip, b->part[i].each};
        h = trm_hash(part, sizeof part, h);
    }
    return h;
}

void trm_window_settle(const trm_dataset *d, const trm_blocks *b, int64_t batch, int64_t memory,
                       trm_data_window *out) {
    size_t limit = (size_t)(memory > 0 ? memory : TRM_DATA_MEMORY), each = sample_cost(d);
    int64_t fit = (int64_t)(limit / each) / b->most;
    int64_t lanes = trm_min64(trm_min64(TRM_LANES, batch), trm_min64(b->n, trm_max64(fit, 1)));
    /* A ninth is for blocks that are read ahead. */
    int64_t window = trm_max64(fit * 8 / 9 / lanes, 1);
    *out = (trm_data_window){.blocks = b->n,
                             .block = b->most,
                             .lanes = (int)lanes,
                             .window = trm_min64(window, (b->n - 1) / lanes + 1)};
    out->print = print(b, out);
}

int64_t trm_window_room(const trm_dataset *d, const trm_data_window *w, int64_t memory) {
    size_t limit = (size_t)(memory > 0 ? memory : TRM_DATA_MEMORY);
    int64_t fit = (int64_t)(limit / sample_cost(d)) / w->block, all = w->lanes * w->window;
    return trm_max64(fit, all + all / 8 + 1);
}

trm_status trm_data_window_of(const trm_dataset *d, int64_t batch, int64_t memory, trm_data_window *out) {
    trm_blocks b;
    TRM_TRY(trm_blocks_of(d, &b));
    trm_window_settle(d, &b, batch, memory, out);
    trm_blocks_free(&b);
    return TRM_OK;
}
