/* window: a rank's samples in the order of the lanes.
 *
 * Where the data set is kept in memory only the order counts.  Else this rank holds the blocks of those lanes that its
 * slices touch: those of the present window, and towards its end those of the next one, be it in the next epoch. */
#include "lanes.h"
#include <string.h>

#define TOUCHED 8 /* updates for which a lane counts as this rank's */
#define SOON 8    /* a window's last part of so many: the next one is asked for */

/* What was asked for in advance of a lane. */
typedef struct asked {
    int64_t touched; /* when this rank last took of it */
    bool now, next;
} asked;

struct trm_window_reader {
    trm_dataset *data;
    trm_feed_spec spec;
    trm_blocks blocks;
    trm_data_window is;
    trm_lanes *lanes;
    bool loaded;
    trm_store *store;     /* NULL where the data set is kept in memory */
    trm_block_rows *held; /* per block; x NULL: not at hand */
    asked *lane;
    int64_t turn; /* updates so far */
    const unsigned char **x, **y;
};

/* ---- opening and closing ---- */

static trm_status open_reader(trm_window_reader *w) {
    trm_lanes_spec spec = {.seed = w->spec.seed, .batch = w->spec.batch};
    size_t most = (size_t)trm_max64(w->spec.max_samples, 1);
    TRM_TRY(trm_blocks_of(w->data, &w->blocks));
    trm_window_settle(w->data, &w->blocks, w->spec.batch, w->spec.memory, &w->is);
    spec.lanes = w->is.lanes;
    spec.window = w->is.window;
    TRM_TRY(trm_lanes_new(&w->blocks, &spec, &w->lanes));
    w->lane = trm_alloc_array((size_t)spec.lanes, sizeof *w->lane, "the lanes");
    w->x = trm_alloc_array(most, sizeof *w->x, "a request");
    w->y = trm_alloc_array(most, sizeof *w->y, "a request");
    return w->lane && w->x && w->y ? TRM_OK : TRM_MEMORY;
}

trm_status trm_window_reader_new(trm_dataset *d, const trm_feed_spec *spec, trm_window_reader **out) {
    trm_window_reader *w = trm_alloc(sizeof *w, "the reader of windows");
    if (!w) return TRM_MEMORY;
    w->data = d;
    w->spec = *spec;
    trm_status s = open_reader(w);
    if (s == TRM_OK)
        *out = w;
    else
        trm_window_reader_free(w);
    return s;
}

void trm_window_reader_free(trm_window_reader *w) {
    if (!w) return;
    trm_store_free(w->store);
    trm_lanes_free(w->lanes);
    trm_blocks_free(&w->blocks);
    trm_free(w->held);
    trm_free(w->lane);
    trm_free(w->x);
    trm_free(w->y);
    trm_free(w);
}

/* What is kept in memory is known when it is loaded. */
static trm_status load(trm_window_reader *w) {
    if (w->loaded) return TRM_OK;
    TRM_TRY(trm_dataset_load(w->data));
    w->loaded = true;
    if (w->data->x.cache) return TRM_OK;
    w->held = trm_alloc_array((size_t)w->blocks.n, sizeof *w->held, "an index of blocks");
    if (!w->held) return TRM_MEMORY;
    return trm_store_new(w->data, &w->blocks, trm_window_room(w->data, &w->is, w->spec.memory),
                         w->spec.threads > 1 ? w->spec.threads : 1, &w->store);
}

/* ---- where it stands ---- */

static bool follows(const trm_lanes *x, int64_t epoch, int64_t update) {
    return epoch == x->epoch ? update == x->update + 1 : epoch == x->epoch + 1 && update == 0;
}

void trm_window_reader_go(trm_window_reader *w, int64_t epoch, int64_t update) {
    bool next = follows(w->lanes, epoch, update);
    if (!next && w->store) {
        trm_store_drop_all(w->store);
        memset(w->held, 0, (size_t)w->blocks.n * sizeof *w->held);
    }
    if (!next || update == 0)
        for (int l = 0; l < w->is.lanes; l++) w->lane[l].now = w->lane[l].next = false;
    trm_lanes_go(w->lanes, epoch, update);
    w->turn++;
}

trm_status trm_window_reader_list(trm_window_reader *w, int64_t begin, int64_t n, int64_t *sample) {
    for (int l = 0; l < w->is.lanes; l++) {
        const trm_lane *lane = &w->lanes->lane[l];
        if (n > 0 && lane->at < begin + n && lane->at + lane->take > begin) w->lane[l].touched = w->turn;
    }
    return trm_lanes_list(w->lanes, begin, n, sample);
}

/* ---- reading ---- */

static trm_status find(trm_window_reader *w, int64_t sample, int64_t i) {
    int64_t block = trm_block_with(&w->blocks, sample);
    trm_block_rows *at = &w->held[block];
    if (!at->x) TRM_TRY(trm_store_get(w->store, block, w->lanes->epoch, at));
    w->x[i] = at->x + (size_t)(sample - at->first) * (size_t)trm_dataset_step(w->data);
    if (at->y) w->y[i] = at->y + (size_t)(sample - at->first) * trm_row_bytes(&w->data->y);
    return TRM_OK;
}

/* The targets of the samples that were found. */
static trm_status read_y(trm_window_reader *w, const int64_t *sample, int64_t n, int64_t *y) {
    const trm_dataset *d = w->data;
    if (d->y.cache) return trm_dataset_read_y(w->data, sample, n, y);
    if (!trm_maps_target(d)) {
        trm_gather(y, (size_t)d->info.y_stride, w->y, n, (size_t)d->info.y_stride);
        return TRM_OK;
    }
    for (int64_t i = 0; i < n; i++)
        TRM_TRY(trm_target_class(d, trm_dataset_place(d, sample[i]), w->y[i], &y[i]));
    return TRM_OK;
}

trm_status trm_window_reader_read(trm_window_reader *w, const int64_t *sample, int64_t n, void *x, void *y) {
    const trm_dataset *d = w->data;
    TRM_TRY(load(w));
    if (!w->store) return trm_dataset_read_raw(w->data, sample, n, x, y);
    for (int64_t i = 0; i < n; i++) TRM_TRY(find(w, sample[i], i));
    trm_gather(x, (size_t)d->info.x_stride, w->x, n, (size_t)d->info.x_stride);
    return d->has_y ? read_y(w, sample, n, y) : TRM_OK;
}

/* ---- what is not needed any more, and what soon will be ---- */

static void drop(trm_window_reader *w, int l, int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j++) {
        int64_t block = trm_lane_block(w->lanes, l, j);
        w->held[block].x = NULL;
        trm_store_drop(w->store, block, w->lanes->epoch);
    }
}

/* Moves on to the window that the next update takes of. */
static void drop_windows(trm_window_reader *w, int l) {
    trm_lane *lane = &w->lanes->lane[l];
    while (lane->held.begin < lane->blocks && lane->held.from + lane->held.size <= lane->given + lane->take) {
        drop(w, l, lane->held.begin, lane->held.end);
        lane->held = trm_lane_after(w->lanes, l, &lane->held);
        w->lane[l].now = w->lane[l].next;
        w->lane[l].next = false;
    }
}

static bool want(trm_window_reader *w, int l, const trm_lane_window *win) {
    for (int64_t j = win->begin; j < win->end; j++)
        if (!trm_store_want(w->store, trm_lane_block(w->lanes, l, j), w->lanes->epoch)) return false;
    return true;
}

static bool want_next_epoch(trm_window_reader *w, int l) {
    trm_lane_window first = trm_lane_first(w->lanes, l);
    for (int64_t j = 0; j < first.end; j++)
        if (!trm_store_want(w->store, trm_lane_next_block(w->lanes, l, j), w->lanes->epoch + 1)) return false;
    return true;
}

static void look_ahead(trm_window_reader *w, int l) {
    const trm_lane *lane = &w->lanes->lane[l];
    asked *a = &w->lane[l];
    if (a->touched == 0 || w->turn - a->touched > TOUCHED) return;
    if (!a->now) a->now = want(w, l, &lane->held);
    int64_t left = lane->held.from + lane->held.size - lane->given - lane->take;
    if (!a->now || a->next || left > lane->held.size / SOON) return;
    trm_lane_window next = trm_lane_after(w->lanes, l, &lane->held);
    a->next = next.end > next.begin ? want(w, l, &next) : want_next_epoch(w, l);
}

void trm_window_reader_leave(trm_window_reader *w, bool last) {
    if (!w->store) return;
    for (int l = 0; l < w->is.lanes; l++) {
        const trm_lane *lane = &w->lanes->lane[l];
        drop_windows(w, l);
        if (last)
            drop(w, l, lane->held.begin, lane->blocks);
        else
            look_ahead(w, l);
    }
}

bool trm_window_reader_work(trm_window_reader *w) { return w->store && trm_store_work(w->store); }
