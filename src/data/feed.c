/* feed: a ring of slots that one thread fills ahead of the step.
 *
 * Update s of an epoch takes order[s*B .. (s+1)*B), cut into K micro-batches, each of which `cut` cuts for this rank.
 * The thread waits where the ring is full and uses the time to draw the next epoch's order, or to decode blocks that
 * will be needed.  Memory for samples is taken when the feed is opened, that for blocks when they are first needed. */
#include "lanes.h"
#include <pthread.h>
#include <string.h>

#define DRAW_STEP 65536 /* exchanges between two looks at the ring */
#define MOST_THREADS 64

typedef enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_TAKEN } slot_state;

typedef struct ring_slot {
    slot_state state;
    trm_slot is;
    int64_t *sample;
    char *x, *y;
    char *raw, *scratch; /* for transforms */
} ring_slot;

/* The order of one epoch, perhaps only partly drawn. */
typedef struct order {
    int64_t epoch, drawn; /* epoch -1: nothing */
    int64_t *at;
} order;

struct trm_feed {
    trm_dataset *data;
    trm_feed_spec spec;
    int64_t samples, updates; /* of an epoch */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t to_reader, to_user;
    /* under the lock */
    bool stop, seeking;
    int64_t epoch, update, run_update; /* what the reader takes next */
    int fill, take;                    /* ring places of reader and user */
    trm_status fault;
    char text[1024], hint[512];
    ring_slot *ring;
    /* the reader's own */
    order now, next;
    trm_window_reader *window; /* `shuffle: window` only */
};

/* ---- order ---- */

static void begin_order(const trm_feed *f, order *o, int64_t epoch) {
    o->epoch = epoch;
    o->drawn = 0;
    trm_order_start(f->samples, o->at);
}

/* Draws on; true when all is drawn. */
static bool draw_some(const trm_feed *f, order *o) {
    int64_t all = f->samples - 1, to = trm_min64(o->drawn + DRAW_STEP, all);
    trm_order_draw(f->spec.seed, o->epoch, f->samples, o->at, o->drawn, to);
    o->drawn = to;
    return to >= all;
}

static bool stopped(trm_feed *f) {
    pthread_mutex_lock(&f->lock);
    bool stop = f->stop;
    pthread_mutex_unlock(&f->lock);
    return stop;
}

/* The order of `epoch`, NULL where it is not one list. */
static const int64_t *order_of(trm_feed *f, int64_t epoch) {
    if (f->spec.shuffle != TRM_SHUFFLE_EXACT) return NULL;
    if (f->now.epoch != epoch) {
        order spare = f->now;
        f->now = f->next;
        f->next = spare;
        f->next.epoch = -1;
    }
    if (f->now.epoch != epoch) begin_order(f, &f->now, epoch);
    while (!draw_some(f, &f->now) && !stopped(f)) {}
    return f->now.at;
}

/* ---- filling a slot ---- */

/* Places [begin, begin + n) of the slot's update. */
static trm_status list_samples(trm_feed *f, const ring_slot *s, const int64_t *at, int64_t begin, int64_t n,
                               int64_t *sample) {
    if (f->window) return trm_window_reader_list(f->window, begin, n, sample);
    int64_t from = s->is.update * f->spec.batch + begin;
    for (int64_t i = 0; i < n; i++) sample[i] = at ? at[from + i] : from + i;
    return TRM_OK;
}

/* This rank's samples of the micro-batch of m from place `first` on go behind the others. */
static trm_status add_micro_batch(trm_feed *f, ring_slot *s, const int64_t *at, int64_t first, int64_t m,
                                  int64_t run_update) {
    int64_t begin = 0, count = m;
    if (f->spec.cut) f->spec.cut(f->spec.cut_ctx, run_update, m, &begin, &count);
    if (begin < 0 || count < 0 || count > m || begin > m - count)
        return trm_fail(TRM_INTERNAL, "a share of samples %lld to %lld of a micro-batch of %lld",
                        (long long)begin, (long long)(begin + count - 1), (long long)m);
    if (count > f->spec.max_samples - s->is.n)
        return trm_fail(TRM_INTERNAL, "a share of %lld samples, the slots hold %lld",
                        (long long)(s->is.n + count), (long long)f->spec.max_samples);
    TRM_TRY(list_samples(f, s, at, first + begin, count, s->sample + s->is.n));
    s->is.n += count;
    return TRM_OK;
}

static void augment(const trm_feed *f, ring_slot *s) {
    trm_draw draw = {.seed = f->spec.seed, .epoch = s->is.epoch};
    trm_augment_run(f->data->augment, &draw, s->sample, s->is.n, s->raw ? s->raw : s->x, s->x, s->scratch);
}

static trm_status read_samples(trm_feed *f, ring_slot *s) {
    char *x = s->raw ? s->raw : s->x;
    if (!f->window) return trm_dataset_read_raw(f->data, s->sample, s->is.n, x, s->y);
    TRM_TRY(trm_window_reader_read(f->window, s->sample, s->is.n, x, s->y));
    trm_window_reader_leave(f->window, s->is.update + 1 == f->updates);
    return TRM_OK;
}

static trm_status fill_slot(trm_feed *f, ring_slot *s, int64_t run_update) {
    double begun = trm_now();
    const int64_t *at = order_of(f, s->is.epoch);
    int64_t b = trm_min64(f->spec.batch, f->samples - s->is.update * f->spec.batch);
    if (f->window) trm_window_reader_go(f->window, s->is.epoch, s->is.update);
    s->is.batch = b;
    s->is.n = 0;
    for (int k = 0; k < f->spec.micro_batches; k++) {
        int64_t first = trm_cut(b, f->spec.micro_batches, k), end = trm_cut(b, f->spec.micro_batches, k + 1);
        if (end > first) TRM_TRY(add_micro_batch(f, s, at, first, end - first, run_update));
    }
    TRM_TRY(read_samples(f, s));
    if (f->data->augment) augment(f, s);
    s->is.read_s = trm_now() - begun;
    return TRM_OK;
}

/* ---- the reader ---- */

/* Some of what will be needed, `epoch` being the next one whose order is; false where there is nothing to do. */
static bool work_ahead(trm_feed *f, int64_t epoch) {
    if (f->window) return trm_window_reader_work(f->window);
    if (f->spec.shuffle != TRM_SHUFFLE_EXACT) return false;
    if (f->next.epoch != epoch) begin_order(f, &f->next, epoch);
    return f->next.drawn < f->samples - 1 && (draw_some(f, &f->next), true);
}

/* Waits for a free slot; false where the feed is to stop. Under the lock. */
static bool wait_for_slot(trm_feed *f) {
    bool idle = false;
    while (!f->stop && (f->seeking || f->fault != TRM_OK || f->ring[f->fill].state != SLOT_FREE)) {
        int64_t epoch = f->now.epoch == f->epoch ? f->epoch + 1 : f->epoch;
        if (idle || f->fault != TRM_OK || f->seeking) {
            pthread_cond_wait(&f->to_reader, &f->lock);
            idle = false;
            continue;
        }
        pthread_mutex_unlock(&f->lock);
        idle = !work_ahead(f, epoch);
        pthread_mutex_lock(&f->lock);
    }
    return !f->stop;
}

static void keep_fault(trm_feed *f, trm_status s) {
    f->fault = s;
    snprintf(f->text, sizeof f->text, "%s", trm_error_text());
    snprintf(f->hint, sizeof f->hint, "%s", trm_error_hint());
}

static void step_on(trm_feed *f) {
    f->fill = (f->fill + 1) % f->spec.depth;
    f->run_update++;
    if (++f->update < f->updates) return;
    f->update = 0;
    f->epoch++;
}

static void *reader(void *ctx) {
    trm_feed *f = ctx;
    pthread_mutex_lock(&f->lock);
    while (wait_for_slot(f)) {
        ring_slot *s = &f->ring[f->fill];
        int64_t run_update = f->run_update;
        s->state = SLOT_FILLING;
        s->is.epoch = f->epoch;
        s->is.update = f->update;
        step_on(f);
        pthread_mutex_unlock(&f->lock);
        trm_status status = fill_slot(f, s, run_update);
        pthread_mutex_lock(&f->lock);
        s->state = status == TRM_OK ? SLOT_READY : SLOT_FREE;
        if (status != TRM_OK) keep_fault(f, status);
        /* Whoever wakes up must not find the lock taken. */
        pthread_mutex_unlock(&f->lock);
        pthread_cond_broadcast(&f->to_user);
        pthread_mutex_lock(&f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* ---- the user's side ---- */

static bool reader_busy(const trm_feed *f) {
    for (int i = 0; i < f->spec.depth; i++)
        if (f->ring[i].state == SLOT_FILLING) return true;
    return false;
}

trm_status trm_feed_seek(trm_feed *f, int64_t epoch, int64_t update, int64_t run_update) {
    if (epoch < 0 || update < 0 || update >= f->updates || run_update < 0)
        return trm_fail(TRM_INTERNAL, "a feed of %lld updates was sent to update %lld of epoch %lld",
                        (long long)f->updates, (long long)update, (long long)epoch);
    pthread_mutex_lock(&f->lock);
    f->seeking = true;
    while (reader_busy(f)) pthread_cond_wait(&f->to_user, &f->lock);
    f->seeking = false;
    for (int i = 0; i < f->spec.depth; i++)
        if (f->ring[i].state == SLOT_READY) f->ring[i].state = SLOT_FREE;
    /* Slots that the user still holds come back later: go on with one that is free. */
    for (int i = 0; i < f->spec.depth && f->ring[f->fill].state != SLOT_FREE; i++)
        f->fill = (f->fill + 1) % f->spec.depth;
    f->epoch = epoch;
    f->update = update;
    f->run_update = run_update;
    f->take = f->fill;
    f->fault = TRM_OK;
    pthread_cond_broadcast(&f->to_reader);
    pthread_mutex_unlock(&f->lock);
    return TRM_OK;
}

static trm_status hand_over_fault(const trm_feed *f) {
    trm_status s = trm_fail(f->fault, "%s", f->text);
    if (f->hint[0]) trm_hint("%s", f->hint);
    return s;
}

trm_status trm_feed_next(trm_feed *f, trm_slot *slot, double *wait_s) {
    double begun = trm_now();
    trm_status status = TRM_OK;
    pthread_mutex_lock(&f->lock);
    ring_slot *s = &f->ring[f->take];
    /* Slots that were ready before a fault still come out.  A slot that the user holds may be given back by another thread. */
    while (s->state != SLOT_READY && f->fault == TRM_OK) pthread_cond_wait(&f->to_user, &f->lock);
    if (s->state == SLOT_READY) {
        s->state = SLOT_TAKEN;
        *slot = s->is;
        f->take = (f->take + 1) % f->spec.depth;
    } else {
        status = hand_over_fault(f);
    }
    pthread_mutex_unlock(&f->lock);
    if (wait_s) *wait_s = trm_now() - begun;
    return status;
}

void trm_feed_release(trm_feed *f, const trm_slot *slot) {
    pthread_mutex_lock(&f->lock);
    if (f->ring[slot->index].state == SLOT_TAKEN) f->ring[slot->index].state = SLOT_FREE;
    pthread_cond_signal(&f->to_reader);
    pthread_mutex_unlock(&f->lock);
}

int64_t trm_feed_horizon(const trm_feed *f) {
    trm_feed *open = (trm_feed *)f;
    pthread_mutex_lock(&open->lock);
    int64_t next = f->run_update;
    pthread_mutex_unlock(&open->lock);
    return next;
}

int64_t trm_feed_updates_per_epoch(const trm_feed *f) { return f->updates; }

/* ---- opening and closing ---- */

static trm_status settle_spec(trm_feed *f) {
    trm_feed_spec *s = &f->spec;
    f->samples = f->data->info.samples;
    if (s->depth == 0) s->depth = TRM_FEED_DEPTH;
    if (s->max_samples == 0) s->max_samples = s->batch;
    if (s->batch < 1 || s->micro_batches < 1 || s->depth < 2 || s->max_samples < 0 || s->threads < 0 ||
        s->threads > MOST_THREADS)
        return trm_fail(TRM_INTERNAL, "a feed of batch %lld, %d micro-batches, %d slots", (long long)s->batch,
                        s->micro_batches, s->depth);
    s->max_samples = trm_min64(s->max_samples, trm_min64(s->batch, f->samples));
    f->updates = f->samples / s->batch + (!s->drop_last && f->samples % s->batch > 0);
    if (f->updates > 0) return TRM_OK;
    trm_status r =
        trm_fail(TRM_DATA, "%lld samples make no batch of %lld", (long long)f->samples, (long long)s->batch);
    trm_hint("a smaller batch, or `drop_last: false`");
    return r;
}

static trm_status make_scratch(const trm_feed *f, size_t most, ring_slot *s) {
    const trm_augment *a = f->data->augment;
    if (!a) return TRM_OK;
    bool apart = !trm_augment_in_place(a);
    s->scratch = trm_alloc(trm_augment_scratch(a), "transforms of a sample");
    if (apart) s->raw = trm_alloc_array(most, trm_augment_raw(a), "a slot");
    return s->scratch && (s->raw || !apart) ? TRM_OK : TRM_MEMORY;
}

static trm_status make_slot(trm_feed *f, int i) {
    const trm_data_info *info = trm_dataset_info(f->data);
    size_t most = (size_t)trm_max64(f->spec.max_samples, 1);
    ring_slot *s = &f->ring[i];
    s->sample = trm_alloc_array(most, sizeof *s->sample, "a slot");
    s->x = trm_alloc_array(most, (size_t)info->x_stride, "a slot");
    if (info->y_offset < 0) s->y = trm_alloc_array(most, (size_t)info->y_stride, "a slot");
    if (!s->sample || !s->x || (info->y_offset < 0 && !s->y)) return TRM_MEMORY;
    TRM_TRY(make_scratch(f, most, s));
    s->is = (trm_slot){
        .sample = s->sample, .x_raw = s->x, .y_raw = s->y ? s->y : s->x + info->y_offset, .index = i};
    return TRM_OK;
}

static trm_status make_ring(trm_feed *f) {
    f->ring = trm_alloc_array((size_t)f->spec.depth, sizeof *f->ring, "a ring of slots");
    if (!f->ring) return TRM_MEMORY;
    for (int i = 0; i < f->spec.depth; i++) TRM_TRY(make_slot(f, i));
    f->now.epoch = f->next.epoch = -1;
    if (f->spec.shuffle == TRM_SHUFFLE_NONE) return TRM_OK;
    if (f->spec.shuffle == TRM_SHUFFLE_WINDOW) return trm_window_reader_new(f->data, &f->spec, &f->window);
    f->now.at = trm_alloc_array((size_t)f->samples, sizeof(int64_t), "the order of an epoch");
    f->next.at = trm_alloc_array((size_t)f->samples, sizeof(int64_t), "the order of an epoch");
    return f->now.at && f->next.at ? TRM_OK : TRM_MEMORY;
}

static trm_status start(trm_feed *f) {
    TRM_TRY(settle_spec(f));
    TRM_TRY(make_ring(f));
    if (pthread_create(&f->thread, NULL, reader, f) != 0)
        return trm_fail(TRM_MACHINE, "the reader thread cannot be started");
    f->running = true;
    return TRM_OK;
}

trm_status trm_feed_open(trm_dataset *d, const trm_feed_spec *spec, trm_feed **out) {
    trm_feed *f = trm_alloc(sizeof *f, "the feed");
    if (!f) return TRM_MEMORY;
    f->data = d;
    f->spec = *spec;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->to_reader, NULL);
    pthread_cond_init(&f->to_user, NULL);
    trm_status s = start(f);
    if (s == TRM_OK)
        *out = f;
    else
        trm_feed_close(f);
    return s;
}

static void stop_reader(trm_feed *f) {
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_broadcast(&f->to_reader);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
}

void trm_feed_close(trm_feed *f) {
    if (!f) return;
    if (f->running) stop_reader(f);
    for (int i = 0; f->ring && i < f->spec.depth; i++) {
        trm_free(f->ring[i].sample);
        trm_free(f->ring[i].x);
        trm_free(f->ring[i].y);
        trm_free(f->ring[i].raw);
        trm_free(f->ring[i].scratch);
    }
    trm_free(f->ring);
    trm_window_reader_free(f->window);
    trm_free(f->now.at);
    trm_free(f->next.at);
    pthread_cond_destroy(&f->to_reader);
    pthread_cond_destroy(&f->to_user);
    pthread_mutex_destroy(&f->lock);
    trm_free(f);
}
