/* lanes: the order of `shuffle: window`, a pure function of seed, epoch, blocks, batch, lanes and window.
 *
 * The blocks of an epoch are permuted and dealt to lanes in turn.  A lane takes its blocks in windows of W, the first of
 * which is shorter from lane to lane, so that not all lanes need new blocks at once; within a window all samples are
 * permuted.  An update takes from each lane by what is left in it, so that all lanes end with the epoch, and lists the
 * samples lane by lane. */
#include "lanes.h"
#include <string.h>

/* Which numbers are drawn for what, behind the exact order's layer 0. */
enum { LAYER_BLOCKS = 1, LAYER_WINDOW = 2 };

/* ---- memory ---- */

void trm_lanes_free(trm_lanes *x) {
    if (!x) return;
    for (int l = 0; x->lane && l < x->is.lanes; l++) trm_free(x->lane[l].order);
    trm_free(x->lane);
    trm_free(x->deal);
    trm_free(x->next_deal);
    trm_free(x);
}

trm_status trm_lanes_new(const trm_blocks *b, const trm_lanes_spec *spec, trm_lanes **out) {
    if (spec->lanes < 1 || spec->lanes > b->n || spec->window < 1 || spec->batch < 1)
        return trm_fail(TRM_INTERNAL, "%d lanes with windows of %lld blocks of %lld", spec->lanes,
                        (long long)spec->window, (long long)b->n);
    trm_lanes *x = trm_alloc(sizeof *x, "the order of samples");
    if (!x) return TRM_MEMORY;
    *x = (trm_lanes){.blocks = b, .is = *spec, .epoch = -1, .next_epoch = -1};
    x->deal = trm_alloc_array((size_t)b->n, sizeof *x->deal, "the order of blocks");
    x->next_deal = trm_alloc_array((size_t)b->n, sizeof *x->next_deal, "the order of blocks");
    x->lane = trm_alloc_array((size_t)spec->lanes, sizeof *x->lane, "the order of samples");
    if (x->deal && x->next_deal && x->lane) {
        *out = x;
        return TRM_OK;
    }
    trm_lanes_free(x);
    return TRM_MEMORY;
}

/* ---- the blocks of an epoch ---- */

static void deal_blocks(const trm_lanes *x, int64_t epoch, int64_t *out) {
    trm_rng_key key = {
        .seed = x->is.seed, .purpose = TRM_RNG_ORDER, .layer = LAYER_BLOCKS, .update = (uint64_t)epoch};
    trm_order_start(x->blocks->n, out);
    trm_order_draw_key(&key, x->blocks->n, out, 0, x->blocks->n - 1);
}

int64_t trm_lane_next_block(trm_lanes *x, int l, int64_t j) {
    if (x->next_epoch != x->epoch + 1) {
        deal_blocks(x, x->epoch + 1, x->next_deal);
        x->next_epoch = x->epoch + 1;
    }
    return x->next_deal[j * x->is.lanes + l];
}

/* ---- windows ---- */

static int64_t samples_in(const trm_lanes *x, int l, int64_t begin, int64_t end) {
    int64_t sum = 0, first, count;
    for (int64_t j = begin; j < end; j++) {
        trm_block_range(x->blocks, trm_lane_block(x, l, j), &first, &count);
        sum += count;
    }
    return sum;
}

trm_lane_window trm_lane_first(const trm_lanes *x, int l) {
    trm_lane_window w = {.end = trm_min64(x->is.window - x->is.window * l / x->is.lanes, x->lane[l].blocks)};
    w.size = samples_in(x, l, 0, w.end);
    return w;
}

trm_lane_window trm_lane_after(const trm_lanes *x, int l, const trm_lane_window *w) {
    trm_lane_window next = {.begin = w->end,
                            .end = trm_min64(w->end + x->is.window, x->lane[l].blocks),
                            .from = w->from + w->size};
    next.size = samples_in(x, l, next.begin, next.end);
    return next;
}

/* ---- where an epoch stands ---- */

static void start_epoch(trm_lanes *x, int64_t epoch) {
    if (x->next_epoch == epoch) {
        int64_t *spare = x->deal;
        x->deal = x->next_deal;
        x->next_deal = spare;
    } else {
        deal_blocks(x, epoch, x->deal);
    }
    x->next_epoch = -1;
    x->epoch = epoch;
    x->update = 0;
    x->left = x->blocks->samples;
    for (int l = 0; l < x->is.lanes; l++) {
        trm_lane *lane = &x->lane[l];
        lane->blocks = (x->blocks->n - 1 - l) / x->is.lanes + 1;
        lane->left = samples_in(x, l, 0, lane->blocks);
        lane->given = 0;
        lane->drawn = lane->held = trm_lane_first(x, l);
        lane->ordered = false;
    }
}

int64_t trm_lanes_batch(const trm_lanes *x) { return trm_min64(x->is.batch, x->left); }

/* Lane l gets the whole numbers that lie between its ends of the line of what is left, shrunk to the batch.  The line
 * begins at another fraction in each update, so that no lane is favoured for long. */
static void share_out(trm_lanes *x) {
    uint64_t left = (uint64_t)x->left, batch = (uint64_t)trm_lanes_batch(x), at = 0;
    uint32_t turn = (uint32_t)x->update * 2654435769u;
    unsigned __int128 sum = (unsigned __int128)left * turn >> 32;
    for (int l = 0; l < x->is.lanes && left > 0; l++) {
        sum += (unsigned __int128)(uint64_t)x->lane[l].left * batch;
        uint64_t end = (uint64_t)(sum / left);
        x->lane[l].at = (int64_t)at;
        x->lane[l].take = (int64_t)(end - at);
        at = end;
    }
}

static void step(trm_lanes *x) {
    x->left -= trm_lanes_batch(x);
    for (int l = 0; l < x->is.lanes; l++) {
        x->lane[l].left -= x->lane[l].take;
        x->lane[l].given += x->lane[l].take;
    }
    x->update++;
    share_out(x);
}

void trm_lanes_go(trm_lanes *x, int64_t epoch, int64_t update) {
    if (x->epoch != epoch || update < x->update) {
        start_epoch(x, epoch);
        share_out(x);
    }
    while (x->update < update && x->left > 0) step(x);
}

/* ---- the samples of an update ---- */

static trm_status room_for(trm_lane *lane, int64_t n) {
    if (lane->order_cap >= (size_t)n) return TRM_OK;
    int64_t *more = trm_alloc_array((size_t)n, sizeof *more, "the order of a window");
    if (!more) return TRM_MEMORY;
    trm_free(lane->order);
    lane->order = more;
    lane->order_cap = (size_t)n;
    return TRM_OK;
}

static trm_status draw_window(trm_lanes *x, int l) {
    trm_lane *lane = &x->lane[l];
    int64_t at = 0, first, count;
    /* Room for any window: later ones need no memory. */
    TRM_TRY(room_for(lane, x->is.window * x->blocks->most));
    for (int64_t j = lane->drawn.begin; j < lane->drawn.end; j++) {
        trm_block_range(x->blocks, trm_lane_block(x, l, j), &first, &count);
        for (int64_t i = 0; i < count; i++) lane->order[at++] = first + i;
    }
    trm_rng_key key = {.seed = x->is.seed,
                       .purpose = TRM_RNG_ORDER,
                       .layer = LAYER_WINDOW,
                       .update = (uint64_t)x->epoch,
                       .sample = (uint64_t)(lane->drawn.begin * x->is.lanes + l)};
    trm_order_draw_key(&key, at, lane->order, 0, at - 1);
    lane->ordered = true;
    return TRM_OK;
}

/* Makes `drawn` the window with place `at` of the lane. */
static trm_status window_at(trm_lanes *x, int l, int64_t at) {
    trm_lane *lane = &x->lane[l];
    if (at < lane->drawn.from) {
        lane->drawn = trm_lane_first(x, l);
        lane->ordered = false;
    }
    while (at >= lane->drawn.from + lane->drawn.size) {
        lane->drawn = trm_lane_after(x, l, &lane->drawn);
        lane->ordered = false;
    }
    return lane->ordered ? TRM_OK : draw_window(x, l);
}

/* Places [at, at + n) of a lane. */
static trm_status list_lane(trm_lanes *x, int l, int64_t at, int64_t n, int64_t *out) {
    trm_lane *lane = &x->lane[l];
    while (n > 0) {
        TRM_TRY(window_at(x, l, at));
        int64_t inside = at - lane->drawn.from, most = trm_min64(n, lane->drawn.size - inside);
        memcpy(out, lane->order + inside, (size_t)most * sizeof *out);
        out += most;
        at += most;
        n -= most;
    }
    return TRM_OK;
}

trm_status trm_lanes_list(trm_lanes *x, int64_t begin, int64_t n, int64_t *out) {
    if (begin < 0 || n < 0 || n > trm_lanes_batch(x) - begin)
        return trm_fail(TRM_INTERNAL, "samples %lld to %lld of an update of %lld", (long long)begin,
                        (long long)(begin + n - 1), (long long)trm_lanes_batch(x));
    for (int l = 0; l < x->is.lanes && n > 0; l++) {
        const trm_lane *lane = &x->lane[l];
        int64_t skip = begin - lane->at, most = trm_min64(n, lane->take - skip);
        if (skip < 0 || most <= 0) continue;
        TRM_TRY(list_lane(x, l, lane->given + skip, most, out));
        out += most;
        begin += most;
        n -= most;
    }
    return TRM_OK;
}

/* ---- a whole epoch, for people and tests ---- */

static trm_status list_epoch(trm_lanes *x, int64_t epoch, int64_t *out) {
    trm_lanes_go(x, epoch, 0);
    while (x->left > 0) {
        int64_t n = trm_lanes_batch(x);
        TRM_TRY(trm_lanes_list(x, 0, n, out));
        out += n;
        trm_lanes_go(x, epoch, x->update + 1);
    }
    return TRM_OK;
}

static trm_status fill(const trm_blocks *b, const trm_data_window *w, uint64_t seed, int64_t epoch,
                       int64_t batch, int64_t *out) {
    trm_lanes *x = NULL;
    trm_lanes_spec spec = {.seed = seed, .batch = batch, .lanes = w->lanes, .window = w->window};
    TRM_TRY(trm_lanes_new(b, &spec, &x));
    trm_status s = list_epoch(x, epoch, out);
    trm_lanes_free(x);
    return s;
}

trm_status trm_order_window(int64_t samples, int64_t block, int64_t window, uint64_t seed, int64_t epoch,
                            int64_t batch, int64_t *out) {
    trm_blocks b;
    TRM_TRY(trm_blocks_even(samples, block, &b));
    trm_data_window w = {.lanes = (int)trm_min64(trm_min64(TRM_LANES, batch), b.n), .window = window};
    trm_status s = fill(&b, &w, seed, epoch, batch, out);
    trm_blocks_free(&b);
    return s;
}

trm_status trm_dataset_order(const trm_dataset *d, trm_shuffle shuffle, uint64_t seed, int64_t epoch,
                             int64_t batch, int64_t memory, int64_t *out) {
    trm_blocks b;
    trm_data_window w;
    if (shuffle != TRM_SHUFFLE_WINDOW) {
        trm_order_fill(shuffle, seed, epoch, d->info.samples, out);
        return TRM_OK;
    }
    TRM_TRY(trm_blocks_of(d, &b));
    trm_window_settle(d, &b, batch, memory, &w);
    trm_status s = fill(&b, &w, seed, epoch, batch, out);
    trm_blocks_free(&b);
    return s;
}
