/* store: blocks of samples that are decoded by a few threads and held until they are dropped.
 *
 * The caller asks for blocks in advance and gets them when it needs them; whoever has nothing else to do, a helper or the
 * caller itself, reads the next one that was asked for.  Each thread reads through a view of the data set that has a
 * reader of its own.  A block that a helper could not read is forgotten: the caller reads it again and meets the fault.
 *
 * Where blocks come from a disk the kernel is told of those that were asked for, and so reads several at a time; where a
 * block proves to be in memory already, that ends. */
#include "lanes.h"
#include <pthread.h>
#include <sys/resource.h>

typedef enum buffer_state { BUFFER_FREE, BUFFER_WANTED, BUFFER_BUSY, BUFFER_READY } buffer_state;

typedef struct buffer {
    buffer_state state;
    int64_t block, epoch; /* the last epoch that it was asked for in */
    bool dropped;         /* while it is read */
    bool got;             /* the caller may be looking at it */
    int before, after;    /* in the list of free ones, or of wanted ones; -1: none */
    unsigned char *x, *y;
} buffer;

typedef struct list {
    int first, last;
} list;

/* A thread that reads. */
typedef struct hand {
    trm_store *store;
    trm_dataset view;
    pthread_t thread;
    bool running;
} hand;

struct trm_store {
    const trm_dataset *data;
    const trm_blocks *blocks;
    size_t x_bytes, y_bytes; /* of a block */
    int64_t room, used;
    int n, made; /* buffers, and those that ever had memory */
    buffer *at;
    int32_t *where; /* per block: its buffer, -1: none */
    list idle, wanted;
    pthread_mutex_t lock;
    pthread_cond_t to_helpers, to_caller;
    bool stop, disk; /* disk: blocks come from there */
    int hands;
    hand *hand; /* the first is the caller's */
};

/* ---- lists ---- */

static void append(trm_store *s, list *l, int i) {
    buffer *b = &s->at[i];
    b->before = l->last;
    b->after = -1;
    if (l->last >= 0)
        s->at[l->last].after = i;
    else
        l->first = i;
    l->last = i;
}

static void unlink_buffer(trm_store *s, list *l, int i) {
    buffer *b = &s->at[i];
    if (b->before >= 0)
        s->at[b->before].after = b->after;
    else
        l->first = b->after;
    if (b->after >= 0)
        s->at[b->after].before = b->before;
    else
        l->last = b->before;
}

/* ---- reading one block ---- */

/* What this thread had read from disks so far. */
static long disk_reads(void) {
    struct rusage use;
    return getrusage(RUSAGE_THREAD, &use) == 0 ? use.ru_inblock : 0;
}

/* In one piece where no sample is left out. */
static trm_status read_block(trm_dataset *view, const trm_blocks *blocks, const buffer *b) {
    int64_t first, count, row, rows, n;
    trm_block_range(blocks, b->block, &first, &count);
    for (int64_t at = 0; at < count; at += n) {
        unsigned char *x = b->x + (size_t)at * (size_t)trm_dataset_step(view);
        n = trm_sample_rows(view, first + at, count - at, &row, &rows);
        TRM_TRY(trm_column_rows(view, &view->x, row, rows, x));
        if (view->check_x) TRM_TRY(trm_check_x_rows(view, row, x, rows));
        if (b->y)
            TRM_TRY(trm_column_rows(view, &view->y, row, n, b->y + (size_t)at * trm_row_bytes(&view->y)));
    }
    return TRM_OK;
}

static void give_back(trm_store *s, int i) {
    buffer *b = &s->at[i];
    s->where[b->block] = -1;
    b->state = BUFFER_FREE;
    s->used--;
    append(s, &s->idle, i);
}

/* Under the lock, which is given up meanwhile.  The buffer is in no list. */
static trm_status fill(trm_store *s, hand *h, int i) {
    buffer *b = &s->at[i];
    b->state = BUFFER_BUSY;
    pthread_mutex_unlock(&s->lock);
    long before = disk_reads();
    trm_status status = read_block(&h->view, s->blocks, b);
    bool disk = disk_reads() > before;
    pthread_mutex_lock(&s->lock);
    s->disk = s->disk || disk;
    b->state = BUFFER_READY;
    if (status != TRM_OK || b->dropped) give_back(s, i);
    pthread_cond_broadcast(&s->to_caller);
    return status;
}

static bool fill_wanted(trm_store *s, hand *h) {
    int i = s->wanted.first;
    if (i < 0) return false;
    unlink_buffer(s, &s->wanted, i);
    (void)!fill(s, h, i);
    return true;
}

static void *help(void *ctx) {
    hand *h = ctx;
    trm_store *s = h->store;
    pthread_mutex_lock(&s->lock);
    while (!s->stop)
        if (!fill_wanted(s, h)) pthread_cond_wait(&s->to_helpers, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- buffers ---- */

/* A block that was read ahead and that nobody has looked at makes room for one that is needed. */
static int evict(trm_store *s) {
    for (int i = 0; i < s->made; i++) {
        buffer *b = &s->at[i];
        if (b->got || (b->state != BUFFER_READY && b->state != BUFFER_WANTED)) continue;
        if (b->state == BUFFER_WANTED) unlink_buffer(s, &s->wanted, i);
        give_back(s, i);
        return i;
    }
    return -1;
}

static trm_status add_buffer(trm_store *s) {
    buffer *b = &s->at[s->made];
    *b = (buffer){.x = trm_alloc(s->x_bytes, "decoded samples"),
                  .y = s->y_bytes > 0 ? trm_alloc(s->y_bytes, "decoded targets") : NULL};
    if (!b->x || (s->y_bytes > 0 && !b->y)) {
        trm_free(b->x);
        trm_free(b->y);
        return TRM_MEMORY;
    }
    append(s, &s->idle, s->made++);
    return TRM_OK;
}

/* A buffer for `block`, taken out of its list. */
static trm_status take_buffer(trm_store *s, int64_t block, int64_t epoch, int *out) {
    if (s->idle.first < 0 && s->used >= s->room) (void)evict(s);
    if (s->idle.first < 0)
        TRM_TRY(s->made < s->n ? add_buffer(s) : trm_fail(TRM_INTERNAL, "too many blocks"));
    int i = s->idle.first;
    unlink_buffer(s, &s->idle, i);
    buffer *b = &s->at[i];
    b->block = block;
    b->epoch = epoch;
    b->got = b->dropped = false;
    b->state = BUFFER_WANTED;
    s->where[block] = i;
    s->used++;
    *out = i;
    return TRM_OK;
}

/* ---- the caller's side ---- */

/* Through the caller's own view; whether anything is to be read from a disk. */
static bool tell_kernel(trm_store *s, int64_t block) {
    trm_dataset *view = &s->hand[0].view;
    int64_t first, count, row, rows, n;
    long before = disk_reads();
    trm_block_range(s->blocks, block, &first, &count);
    for (int64_t at = 0; at < count; at += n) {
        n = trm_sample_rows(view, first + at, count - at, &row, &rows);
        trm_column_ahead(view, &view->x, row, rows);
    }
    return disk_reads() > before;
}

bool trm_store_want(trm_store *s, int64_t block, int64_t epoch) {
    int i;
    pthread_mutex_lock(&s->lock);
    int at = s->where[block];
    bool there = at >= 0, room = s->used < s->room, tell = false;
    if (there) {
        s->at[at].dropped = false;
        s->at[at].epoch = trm_max64(s->at[at].epoch, epoch);
    } else if (room && take_buffer(s, block, epoch, &i) == TRM_OK) {
        append(s, &s->wanted, i);
        pthread_cond_signal(&s->to_helpers);
        there = true;
        tell = s->disk;
    }
    pthread_mutex_unlock(&s->lock);
    if (!tell || tell_kernel(s, block)) return there;
    pthread_mutex_lock(&s->lock);
    s->disk = false;
    pthread_mutex_unlock(&s->lock);
    return there;
}

static trm_status get(trm_store *s, int64_t block, int64_t epoch, int *out) {
    while (s->where[block] >= 0) {
        int i = s->where[block];
        buffer *b = &s->at[i];
        b->dropped = false;
        b->epoch = trm_max64(b->epoch, epoch);
        *out = i;
        if (b->state == BUFFER_READY) return TRM_OK;
        if (b->state == BUFFER_WANTED) {
            unlink_buffer(s, &s->wanted, i);
            return fill(s, &s->hand[0], i);
        }
        pthread_cond_wait(&s->to_caller, &s->lock);
    }
    TRM_TRY(take_buffer(s, block, epoch, out));
    return fill(s, &s->hand[0], *out);
}

trm_status trm_store_get(trm_store *s, int64_t block, int64_t epoch, trm_block_rows *out) {
    int i = -1;
    int64_t count;
    pthread_mutex_lock(&s->lock);
    trm_status status = get(s, block, epoch, &i);
    if (status == TRM_OK) {
        s->at[i].got = true;
        *out = (trm_block_rows){.x = s->at[i].x, .y = s->at[i].y};
        trm_block_range(s->blocks, block, &out->first, &count);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void drop(trm_store *s, int i) {
    buffer *b = &s->at[i];
    b->got = false;
    if (b->state == BUFFER_BUSY) {
        b->dropped = true;
        return;
    }
    if (b->state == BUFFER_WANTED) unlink_buffer(s, &s->wanted, i);
    give_back(s, i);
}

void trm_store_drop(trm_store *s, int64_t block, int64_t epoch) {
    pthread_mutex_lock(&s->lock);
    int i = s->where[block];
    if (i >= 0 && s->at[i].epoch <= epoch)
        drop(s, i);
    else if (i >= 0)
        s->at[i].got = false;
    pthread_mutex_unlock(&s->lock);
}

void trm_store_drop_all(trm_store *s) {
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->made; i++)
        if (s->at[i].state != BUFFER_FREE) drop(s, i);
    pthread_mutex_unlock(&s->lock);
}

bool trm_store_work(trm_store *s) {
    pthread_mutex_lock(&s->lock);
    bool any = fill_wanted(s, &s->hand[0]);
    pthread_mutex_unlock(&s->lock);
    return any;
}

/* ---- opening and closing ---- */

static trm_status sizes(trm_store *s) {
    const trm_dataset *d = s->data;
    size_t most = (size_t)s->blocks->most, more = 0;
    /* The windows of a stream share tokens; the last one needs its target. */
    if (d->info.kind == TRM_DATA_TOKEN_STREAM) more = trm_row_bytes(&d->x);
    if (!trm_mul_size(most, (size_t)trm_dataset_step(d), &s->x_bytes) || s->x_bytes > SIZE_MAX / 2 ||
        (d->has_y && !trm_mul_size(most, trm_row_bytes(&d->y), &s->y_bytes)))
        return trm_fail(TRM_MEMORY, "blocks of %lld samples", (long long)s->blocks->most);
    s->x_bytes += more;
    if (d->y.cache) s->y_bytes = 0;
    return TRM_OK;
}

/* A view decodes whole blocks into their places: it keeps nothing by itself. */
static trm_status open_hand(trm_store *s, hand *h) {
    h->store = s;
    h->view = *s->data;
    h->view.reader = NULL;
    h->view.budget = 0;
    h->view.scattered = true;
    trm_status status = trm_reader_new(&h->view);
    if (status != TRM_OK) trm_reader_free(&h->view);
    return status;
}

static trm_status open(trm_store *s, int threads) {
    TRM_TRY(sizes(s));
    s->where = trm_alloc_array((size_t)s->blocks->n, sizeof *s->where, "an index of blocks");
    s->at = trm_alloc_array((size_t)s->n, sizeof *s->at, "a list of blocks");
    s->hand = trm_alloc_array((size_t)threads, sizeof *s->hand, "the readers");
    if (!s->where || !s->at || !s->hand) return TRM_MEMORY;
    for (int64_t i = 0; i < s->blocks->n; i++) s->where[i] = -1;
    for (; s->hands < threads; s->hands++) {
        hand *h = &s->hand[s->hands];
        TRM_TRY(open_hand(s, h));
        if (s->hands > 0 && pthread_create(&h->thread, NULL, help, h) != 0) {
            trm_reader_free(&h->view);
            return trm_fail(TRM_MACHINE, "a thread that reads data cannot be started");
        }
        h->running = s->hands > 0;
    }
    return TRM_OK;
}

trm_status trm_store_new(const trm_dataset *d, const trm_blocks *b, int64_t room, int threads,
                         trm_store **out) {
    trm_store *s = trm_alloc(sizeof *s, "decoded samples");
    if (!s) return TRM_MEMORY;
    s->data = d;
    s->blocks = b;
    s->room = trm_min64(room, b->n);
    /* Within an update a lane may need its next window while it still has the last one. */
    s->n = (int)trm_min64(trm_min64(2 * room + threads, b->n), INT32_MAX);
    s->idle = s->wanted = (list){-1, -1};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->to_helpers, NULL);
    pthread_cond_init(&s->to_caller, NULL);
    trm_status status = open(s, threads);
    if (status == TRM_OK)
        *out = s;
    else
        trm_store_free(s);
    return status;
}

static void stop_helpers(trm_store *s) {
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->to_helpers);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->hands; i++)
        if (s->hand[i].running) pthread_join(s->hand[i].thread, NULL);
}

void trm_store_free(trm_store *s) {
    if (!s) return;
    stop_helpers(s);
    for (int i = 0; i < s->hands; i++) trm_reader_free(&s->hand[i].view);
    for (int i = 0; i < s->made; i++) {
        trm_free(s->at[i].x);
        trm_free(s->at[i].y);
    }
    trm_free(s->hand);
    trm_free(s->at);
    trm_free(s->where);
    pthread_cond_destroy(&s->to_helpers);
    pthread_cond_destroy(&s->to_caller);
    pthread_mutex_destroy(&s->lock);
    trm_free(s);
}
