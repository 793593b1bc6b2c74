/* lanes: the order of `shuffle: window`, the blocks that it is made of, and how they are read.
 *
 *   blocks.c  a data set in blocks      lanes.c   the order: pure
 *   store.c   blocks that are decoded by a few threads and held       window.c  samples out of a store, in the order of the lanes
 */
#ifndef TRIREME_DATA_LANES_H
#define TRIREME_DATA_LANES_H

#include "data_impl.h"

/* ---- blocks.c -------------------------------------------------------------------------- */

/* One file's samples from place `sample` on, in blocks from number `block` on.  Borders lie at multiples of `each`; the first block lacks
 * the `skip` samples that are not used. */
typedef struct trm_block_part {
    int64_t block, sample, skip, each;
} trm_block_part;

/* A data set in blocks of neighbouring samples, none of which lies in two files.  Borders are places in the files; a sample that is left out
 * has a place but no number, so a block may have fewer samples, or none. */
typedef struct trm_blocks {
    int64_t samples, n, most;       /* samples that are not left out; blocks; places of the largest */
    const trm_dataset *set;         /* which samples are left out; NULL: none */
    int n_parts;
    trm_block_part *part;           /* n_parts + 1; the last one tells the ends */
} trm_blocks;

/* n samples in blocks of `each`. */
trm_status trm_blocks_even(int64_t samples, int64_t each, trm_blocks *out);
/* Chunks as they are stored, small ones together; a quarter of a MiB of samples where there are none. */
trm_status trm_blocks_of(const trm_dataset *d, trm_blocks *out);
void trm_blocks_free(trm_blocks *b);
/* The samples of block i. */
void trm_block_range(const trm_blocks *b, int64_t i, int64_t *first, int64_t *count);
int64_t trm_block_with(const trm_blocks *b, int64_t sample);
/* Lanes and window for this data set, batch and memory. */
void trm_window_settle(const trm_dataset *d, const trm_blocks *b, int64_t batch, int64_t memory, trm_data_window *out);
/* Blocks that may be held at a time. */
int64_t trm_window_room(const trm_dataset *d, const trm_data_window *w, int64_t memory);

/* ---- lanes.c --------------------------------------------------------------------------- */

#define TRM_LANES 64

/* Blocks [begin, end) of a lane, whose samples [from, from + size) are shuffled among themselves. */
typedef struct trm_lane_window {
    int64_t begin, end, from, size;
} trm_lane_window;

typedef struct trm_lane {
    int64_t blocks;                 /* in this epoch */
    int64_t left, given;            /* samples that are still to come, that were given before this update */
    int64_t at, take;               /* this update's: the first place in its list, and how many */
    trm_lane_window drawn;          /* whose order is in `order` */
    trm_lane_window held;           /* the reader's */
    int64_t *order;
    size_t order_cap;
    bool ordered;
} trm_lane;

typedef struct trm_lanes_spec {
    uint64_t seed;
    int64_t batch;
    int lanes;                      /* at most blocks */
    int64_t window;                 /* blocks */
} trm_lanes_spec;

typedef struct trm_lanes {
    const trm_blocks *blocks;
    trm_lanes_spec is;
    int64_t epoch, update;          /* that `take` tells of; epoch -1: none */
    int64_t left;                   /* samples of all lanes from this update on */
    int64_t *deal, *next_deal;      /* the blocks in the order in which they are dealt: number k goes to lane k % lanes */
    int64_t next_epoch;             /* of next_deal, -1: none */
    trm_lane *lane;
} trm_lanes;

/* The blocks must outlive the lanes. */
trm_status trm_lanes_new(const trm_blocks *b, const trm_lanes_spec *spec, trm_lanes **out);
void trm_lanes_free(trm_lanes *x);      /* accepts NULL */
/* Goes to an update of an epoch, both from 0: reads nothing, allocates nothing. */
void trm_lanes_go(trm_lanes *x, int64_t epoch, int64_t update);
/* Samples of the present update. */
int64_t trm_lanes_batch(const trm_lanes *x);
/* The samples at places [begin, begin + n) of the present update's list. */
trm_status trm_lanes_list(trm_lanes *x, int64_t begin, int64_t n, int64_t *out);
/* The block at place j of a lane in this epoch. */
static inline int64_t trm_lane_block(const trm_lanes *x, int l, int64_t j) { return x->deal[j * x->is.lanes + l]; }
/* The same in the next epoch. */
int64_t trm_lane_next_block(trm_lanes *x, int l, int64_t j);
/* A lane's first window, in this epoch, and the one behind w; empty behind the last. */
trm_lane_window trm_lane_first(const trm_lanes *x, int l);
trm_lane_window trm_lane_after(const trm_lanes *x, int l, const trm_lane_window *w);

/* ---- store.c --------------------------------------------------------------------------- */

/* Decoded blocks, read by the caller's thread and by helpers. One caller. */
typedef struct trm_store trm_store;
/* Where the samples of a block lie: sample i of it at x + i * trm_dataset_step, and the stored target at y + i rows where
 * targets are not kept in memory. */
typedef struct trm_block_rows {
    const unsigned char *x, *y;
    int64_t first;                  /* sample */
} trm_block_rows;

/* `room`: blocks that are held at a time, when more are asked for in advance.  Both must outlive the store. */
trm_status trm_store_new(const trm_dataset *d, const trm_blocks *b, int64_t room, int threads, trm_store **out);
void trm_store_free(trm_store *s);      /* accepts NULL */
/* Asks for a block in advance; false where there is no room. */
bool trm_store_want(trm_store *s, int64_t block, int64_t epoch);
/* The block: waits for it or reads it.  It stays until it is dropped. */
trm_status trm_store_get(trm_store *s, int64_t block, int64_t epoch, trm_block_rows *out);
/* Done with a block, unless it was asked for in a later epoch. */
void trm_store_drop(trm_store *s, int64_t block, int64_t epoch);
void trm_store_drop_all(trm_store *s);
/* Reads one of the blocks that were asked for; false where all are there. */
bool trm_store_work(trm_store *s);

/* ---- window.c -------------------------------------------------------------------------- */

typedef struct trm_window_reader trm_window_reader;
trm_status trm_window_reader_new(trm_dataset *d, const trm_feed_spec *spec, trm_window_reader **out);
void trm_window_reader_free(trm_window_reader *w);      /* accepts NULL */
/* Goes to an update, then lists slices of it, reads what was listed, and leaves it: `last` of the epoch. */
void trm_window_reader_go(trm_window_reader *w, int64_t epoch, int64_t update);
trm_status trm_window_reader_list(trm_window_reader *w, int64_t begin, int64_t n, int64_t *sample);
trm_status trm_window_reader_read(trm_window_reader *w, const int64_t *sample, int64_t n, void *x, void *y);
void trm_window_reader_leave(trm_window_reader *w, bool last);
/* Reads something ahead; false where there is nothing to do. */
bool trm_window_reader_work(trm_window_reader *w);

#endif
