/* balancer: the whole for an iterative program of your own.
 *
 * Iterations cost no talk: each rank stamps its own work into blocks of iterations.  A gather of these blocks
 * ends a window; all ranks then reckon the same decision from the same numbers, and a second, tiny gather makes
 * sure of that before a single item moves. */
#include <math.h>
#include <string.h>
#include <trireme/balance.h>

#define BLOCKS TRM_WINDOW_BLOCKS
#define EVERY 20
#define THRESHOLD 0.05
#define COOLDOWN 1
#define REPROBE 4
/* So long a window is certainly full, also where its blocks come out longer than they need to. */
#define WINDOW_S (8 * TRM_WINDOW_BLOCK)
/* How long a program lasts is not known: it is believed to last for so many windows more. */
#define WINDOWS_LEFT 10
/* With weights, a policy's unit is at most this share of what a rank has on average. */
#define UNITS_OF_A_RANK 1000

typedef enum misuse { MISUSE_NONE, MISUSE_TWICE, MISUSE_ALONE, MISUSE_INSIDE } misuse;

/* Sums over the iterations of a block. */
typedef struct block {
    double wall, compute, cpu, delay;
} block;

/* What a rank tells the others at the end of a window. */
typedef struct record {
    int64_t rank, iteration, items, misuse;
    uint64_t settings; /* hash of what has to be the same on all ranks */
    double cost;       /* seconds of its last move */
    block block[BLOCKS];
} record;

/* What a rank made of the records. */
typedef struct vote {
    int64_t status;
    uint64_t cut;
} vote;

struct trm_balancer {
    trm_balancer_spec spec;
    trm_policy *policy;
    trm_window window;
    double *weights, *before; /* [items], [items + 1]: of an item, of all in front of it; NULL: all equal */
    double *slow;             /* [ranks]: room for the cut */
    int64_t units, *counts, *offset, *next;
    record mine, *all;
    vote *votes;
    trm_measure *measure;
    double *noise;
    int64_t iteration, since, span; /* iterations: of all, since the last decision, of a window */
    int64_t skip;                   /* iterations to leave out: they warm up */
    int blocks;                     /* whole blocks of `mine` */
    int64_t block_iterations, open_iterations;
    block open, now; /* the block, the iteration that go on */
    double wall_from, delay_from, begin_wall, begin_cpu;
    bool inside;
    int64_t moves;
    trm_status failed; /* a balancer that failed once stays so, with its sentence */
    char why[512];
};

/* ---- open ------------------------------------------------------------------------------- */

static trm_status check_weights(const trm_balancer_spec *s) {
    for (int64_t i = 0; s->weights && i < s->items; i++)
        if (!isfinite(s->weights[i]) || s->weights[i] <= 0)
            return trm_fail(TRM_USAGE, "the weight of item %lld is %g; a weight is a finite number above 0",
                            (long long)i, s->weights[i]);
    return TRM_OK;
}

static trm_status check_spec(const trm_balancer_spec *s) {
    if (s->ranks < 1 || s->rank < 0 || s->rank >= s->ranks)
        return trm_fail(TRM_USAGE, "a balancer for rank %d of %d; ranks count from 0", s->rank, s->ranks);
    if (s->items < 1)
        return trm_fail(TRM_USAGE, "a balancer of %lld items; at least 1 is needed", (long long)s->items);
    if (!s->gather && s->ranks > 1)
        return trm_fail(TRM_USAGE, "a balancer of %d ranks has no way to gather", s->ranks);
    if (s->every < 0)
        return trm_fail(TRM_USAGE, "decisions every %lld iterations; at least 1 is needed, 0 is the default",
                        (long long)s->every);
    if (!(s->threshold >= 0 && s->threshold < 1))
        return trm_fail(TRM_USAGE,
                        "a threshold of %g; it is a share of an iteration's time, at least 0 and under 1",
                        s->threshold);
    if ((unsigned)s->predictor > TRM_PREDICT_TREND)
        return trm_fail(TRM_USAGE, "predictor %d; there are 0 to %d", (int)s->predictor,
                        (int)TRM_PREDICT_TREND);
    return check_weights(s);
}

static void set_defaults(trm_balancer_spec *s) {
    if (s->every == 0) s->every = EVERY;
    if (s->threshold == 0) s->threshold = THRESHOLD;
    s->cooldown = s->cooldown == 0 ? COOLDOWN : s->cooldown < 0 ? 0 : s->cooldown;
}

/* A unit is an item; with weights it is finer, so that shares are not coarser than the items.  Where items are
 * fewer than ranks it stays as large as an item: no more ranks can have work than there are items. */
static int64_t units_of(const trm_balancer_spec *s) {
    if (!s->weights || s->items < s->ranks) return s->items;
    int64_t fine = (int64_t)UNITS_OF_A_RANK * s->ranks;
    return s->items * ((fine + s->items - 1) / s->items);
}

static trm_status copy_weights(trm_balancer *b) {
    if (!b->spec.weights) return TRM_OK;
    size_t n = (size_t)b->spec.items;
    b->weights = trm_alloc_array(n, sizeof *b->weights, "the weights of a balancer");
    b->before = trm_alloc_array(n + 1, sizeof *b->before, "the weights of a balancer");
    if (!b->weights || !b->before) return TRM_MEMORY;
    memcpy(b->weights, b->spec.weights, n * sizeof *b->weights);
    for (size_t i = 0; i < n; i++) b->before[i + 1] = b->before[i] + b->weights[i];
    return TRM_OK;
}

static trm_status alloc_arrays(trm_balancer *b) {
    size_t n = (size_t)b->spec.ranks;
    b->slow = trm_alloc_array(n, sizeof *b->slow, "a balancer");
    b->counts = trm_alloc_array(n, sizeof *b->counts, "a balancer");
    b->offset = trm_alloc_array(n + 1, sizeof *b->offset, "a balancer");
    b->next = trm_alloc_array(n + 1, sizeof *b->next, "a balancer");
    b->all = trm_alloc_array(n, sizeof *b->all, "a balancer");
    b->votes = trm_alloc_array(n, sizeof *b->votes, "a balancer");
    b->measure = trm_alloc_array(n, sizeof *b->measure, "a balancer");
    b->noise = trm_alloc_array(n, sizeof *b->noise, "a balancer");
    bool all = b->slow && b->counts && b->offset && b->next && b->all && b->votes && b->measure && b->noise;
    return all ? TRM_OK : TRM_MEMORY;
}

/* ---- cuts ------------------------------------------------------------------------------- */

/* Each rank that the policy gives work has an item, also where an item is more than its share.  There are
 * enough items: see units_of. */
static void fill_gaps(const trm_balancer *b, const int64_t *counts, int64_t *offset) {
    int ranks = b->spec.ranks;
    for (int r = 0; r < ranks; r++) offset[r + 1] = trm_max64(offset[r + 1], offset[r] + (counts[r] > 0));
    offset[ranks] = b->spec.items;
    for (int r = ranks - 1; r > 0; r--) offset[r] = trm_min64(offset[r], offset[r + 1] - (counts[r] > 0));
}

/* The policy's units become items: those of the row whose weights come nearest. */
static trm_status cut(trm_balancer *b, const int64_t *counts, int64_t *offset) {
    int ranks = b->spec.ranks;
    if (!b->weights) {
        for (int r = 0; r < ranks; r++) offset[r + 1] = offset[r] + counts[r];
        return TRM_OK;
    }
    for (int r = 0; r < ranks; r++) b->slow[r] = counts[r] > 0 ? 1 / (double)counts[r] : INFINITY;
    trm_chain chain = {
        .items = b->spec.items, .stages = ranks, .work = b->weights, .slow = b->slow, .may_be_empty = true};
    TRM_TRY(trm_balance_chain(&chain, offset, NULL));
    fill_gaps(b, counts, offset);
    return TRM_OK;
}

/* What a rank's items are in units of the policy. */
static double units_in(const trm_balancer *b, const int64_t *offset, int r) {
    if (!b->before) return (double)(offset[r + 1] - offset[r]);
    double weight = b->before[offset[r + 1]] - b->before[offset[r]];
    return weight / b->before[b->spec.items] * (double)b->units;
}

/* ---- open, free ------------------------------------------------------------------------- */

static trm_status open_policy(trm_balancer *b) {
    trm_policy_spec p = {.ranks = b->spec.ranks,
                         .total = b->units,
                         .threshold = b->spec.threshold,
                         .predictor = b->spec.predictor,
                         .cooldown = b->spec.cooldown,
                         .reprobe = REPROBE};
    for (int r = 0; r < b->spec.ranks; r++)
        b->counts[r] = trm_cut(b->units, b->spec.ranks, r + 1) - trm_cut(b->units, b->spec.ranks, r);
    TRM_TRY(trm_policy_open(&p, b->counts, &b->policy));
    return cut(b, b->counts, b->offset);
}

/* A new window.  The iteration behind a move is left out, it warms up. */
static void open_window(trm_balancer *b, int64_t skip) {
    b->since = 0;
    b->skip = skip;
    b->blocks = 0;
    b->block_iterations = 1;
    b->open_iterations = 0;
    b->open = (block){0};
}

static trm_status open_parts(trm_balancer *b) {
    set_defaults(&b->spec);
    b->units = units_of(&b->spec);
    TRM_TRY(copy_weights(b));
    TRM_TRY(alloc_arrays(b));
    TRM_TRY(trm_window_open(b->spec.ranks, &b->window));
    TRM_TRY(open_policy(b));
    b->span = b->spec.every;
    open_window(b, 1);
    b->wall_from = trm_now();
    b->delay_from = trm_thread_delay();
    return TRM_OK;
}

trm_status trm_balancer_open(const trm_balancer_spec *spec, trm_balancer **out) {
    if (!spec || !out) return trm_fail(TRM_USAGE, "a balancer needs a spec, and a place for what is opened");
    TRM_TRY(check_spec(spec));
    trm_balancer *b = trm_alloc(sizeof *b, "a balancer");
    if (!b) return TRM_MEMORY;
    b->spec = *spec;
    trm_status status = open_parts(b);
    if (status == TRM_OK)
        *out = b;
    else
        trm_balancer_free(b);
    return status;
}

void trm_balancer_free(trm_balancer *b) {
    if (!b) return;
    trm_free(b->weights);
    trm_free(b->before);
    trm_policy_free(b->policy);
    trm_window_free(&b->window);
    trm_free(b->slow);
    trm_free(b->counts);
    trm_free(b->offset);
    trm_free(b->next);
    trm_free(b->all);
    trm_free(b->votes);
    trm_free(b->measure);
    trm_free(b->noise);
    trm_free(b);
}

/* ---- stamps ------------------------------------------------------------------------------ */

void trm_balancer_part(const trm_balancer *b, int64_t *begin, int64_t *count) {
    *begin = b->offset[b->spec.rank];
    *count = b->offset[b->spec.rank + 1] - *begin;
}

const int64_t *trm_balancer_offsets(const trm_balancer *b) { return b->offset; }
int64_t trm_balancer_moves(const trm_balancer *b) { return b->moves; }

void trm_balancer_begin(trm_balancer *b) {
    if (b->inside) b->mine.misuse = MISUSE_TWICE;
    b->inside = true;
    b->begin_wall = trm_now();
    b->begin_cpu = trm_thread_cpu();
}

void trm_balancer_end(trm_balancer *b) {
    if (!b->inside) {
        b->mine.misuse = MISUSE_ALONE;
        return;
    }
    b->inside = false;
    b->now.compute += trm_now() - b->begin_wall;
    b->now.cpu += trm_thread_cpu() - b->begin_cpu;
}

static void add_block(block *to, const block *from) {
    to->wall += from->wall;
    to->compute += from->compute;
    to->cpu += from->cpu;
    to->delay += from->delay;
}

/* Two neighbours become one: a window of any length is told in few blocks.  It happens in the same iteration on
 * all ranks. */
static void merge_blocks(trm_balancer *b) {
    block *v = b->mine.block;
    for (int i = 0; i < b->blocks / 2; i++) {
        v[i] = v[2 * i];
        add_block(&v[i], &v[2 * i + 1]);
    }
    b->blocks /= 2;
    b->block_iterations *= 2;
}

static void close_block(trm_balancer *b) {
    b->mine.block[b->blocks++] = b->open;
    b->open = (block){0};
    b->open_iterations = 0;
    if (b->blocks == BLOCKS) merge_blocks(b);
}

static void close_iteration(trm_balancer *b) {
    if (b->inside) b->mine.misuse = MISUSE_INSIDE;
    b->now.wall = trm_now() - b->wall_from;
    b->now.delay = trm_thread_delay() - b->delay_from;
    b->iteration++;
    b->since++;
    if (b->skip > 0) {
        b->skip--;
    } else {
        add_block(&b->open, &b->now);
        if (++b->open_iterations == b->block_iterations) close_block(b);
    }
    b->now = (block){0};
}

/* ---- gather ------------------------------------------------------------------------------ */

static trm_status gather(const trm_balancer *b, const void *mine, size_t bytes, void *all) {
    /* What is said where the caller's function gives no sentence of its own. */
    (void)trm_fail(TRM_OK, "the ranks could not gather their times");
    return b->spec.gather(b->spec.ctx, mine, bytes, all);
}

static trm_status check_misuse(int r, misuse m) {
    static const char *const what[] = {
        [MISUSE_TWICE] = "called trm_balancer_begin twice without trm_balancer_end between",
        [MISUSE_ALONE] = "called trm_balancer_end without trm_balancer_begin",
        [MISUSE_INSIDE] = "called trm_balancer_step between trm_balancer_begin and trm_balancer_end"};
    return m == MISUSE_NONE ? TRM_OK : trm_fail(TRM_USAGE, "rank %d %s", r, what[m]);
}

/* What one rank did wrong all ranks see, so that all fail. */
static trm_status check_records(const trm_balancer *b) {
    const record *first = &b->all[0];
    for (int r = 0; r < b->spec.ranks; r++) {
        const record *own = &b->all[r];
        TRM_TRY(check_misuse(r, (misuse)own->misuse));
        if (own->rank != r)
            return trm_fail(
                TRM_USAGE,
                "what rank %d gathered comes from a balancer opened for rank %lld: each opens its own", r,
                (long long)own->rank);
        if (own->items != first->items)
            return trm_fail(TRM_USAGE, "rank %d balances %lld items, rank 0 %lld; it is one row on all ranks",
                            r, (long long)own->items, (long long)first->items);
        if (own->iteration != first->iteration)
            return trm_fail(TRM_USAGE,
                            "rank %d compares times in iteration %lld, rank 0 in %lld; all ranks call "
                            "trm_balancer_step once an iteration and decide equally often",
                            r, (long long)own->iteration, (long long)first->iteration);
        if (own->settings != first->settings)
            return trm_fail(TRM_USAGE,
                            "rank %d has other settings than rank 0: threshold, predictor, cooldown, "
                            "dry_run, weights and "
                            "whether there is a `move` are the same on all ranks",
                            r);
    }
    return TRM_OK;
}

static uint64_t hash_settings(const trm_balancer *b) {
    const trm_balancer_spec *s = &b->spec;
    const double number[] = {s->threshold, s->predictor, (double)s->cooldown, s->dry_run, s->move != NULL};
    uint64_t h = trm_hash(number, sizeof number, 0);
    return b->weights ? trm_hash(b->weights, (size_t)s->items * sizeof *b->weights, h) : h;
}

static trm_status gather_records(trm_balancer *b) {
    b->mine.rank = b->spec.rank;
    b->mine.settings = hash_settings(b);
    b->mine.iteration = b->iteration;
    b->mine.items = b->spec.items;
    TRM_TRY(gather(b, &b->mine, sizeof b->mine, b->all));
    return check_records(b);
}

/* ---- decide ------------------------------------------------------------------------------ */

/* All ranks' blocks go into the window; a block is to it what an update is elsewhere. */
static void fill_window(trm_balancer *b) {
    trm_window_reset(&b->window, 0);
    for (int i = 0; i < b->blocks; i++) {
        double wall = 0;
        for (int r = 0; r < b->spec.ranks; r++) {
            const block *one = &b->all[r].block[i];
            wall += one->wall / b->spec.ranks;
            b->measure[r] = (trm_measure){.compute = one->compute, .cpu = one->cpu, .delay = one->delay};
        }
        trm_window_add(&b->window, wall, b->measure);
    }
}

static trm_status check_measured(const trm_balancer *b, int r) {
    if (b->offset[r] == b->offset[r + 1] || b->measure[r].compute > 0) return TRM_OK;
    return trm_fail(
        TRM_USAGE,
        "rank %d has items but no measured work: trm_balancer_begin and trm_balancer_end belong round it", r);
}

/* Of one iteration, and of the units that the policy thinks the rank has: items of unlike weight seldom make up
 * exactly these. */
static trm_status measure_rank(trm_balancer *b, int r) {
    double an_iteration = 1 / (double)b->block_iterations, units = units_in(b, b->offset, r);
    b->measure[r] = trm_window_rank(&b->window, r, &b->noise[r]);
    TRM_TRY(check_measured(b, r));
    double scale = units > 0 ? (double)b->counts[r] / units * an_iteration : an_iteration;
    b->measure[r].compute *= scale;
    b->measure[r].cpu *= scale;
    return TRM_OK;
}

static double step_of(const trm_balancer *b) {
    return trm_window_step(&b->window) / (double)b->block_iterations;
}

static double dearest_move(const trm_balancer *b) {
    double most = 0;
    for (int r = 0; r < b->spec.ranks; r++) most = fmax(most, b->all[r].cost);
    return most;
}

static trm_status ask_policy(trm_balancer *b, trm_decision *d) {
    int64_t updates = b->window.updates * b->block_iterations;
    for (int r = 0; r < b->spec.ranks; r++) TRM_TRY(measure_rank(b, r));
    trm_policy_seen seen = {.step = step_of(b),
                            .rank = b->measure,
                            .noise = b->noise,
                            .updates = updates,
                            .left = updates * WINDOWS_LEFT,
                            .cost = dearest_move(b)};
    return trm_policy_decide(b->policy, &seen, d);
}

/* The slowest rank's time with these parts, as far as it depends on them. */
static double forecast(const trm_balancer *b, const trm_speed *speed, const int64_t *offset) {
    double most = 0;
    for (int r = 0; r < b->spec.ranks; r++) {
        double units = units_in(b, offset, r);
        if (units > 0) most = fmax(most, speed[r].fixed + speed[r].each * units);
    }
    return most;
}

static int64_t overlap(int64_t a, int64_t a_end, int64_t b, int64_t b_end) {
    return trm_max64(trm_min64(a_end, b_end) - trm_max64(a, b), 0);
}

/* Items that get another owner. */
static int64_t count_moved(const trm_balancer *b) {
    int64_t stay = 0;
    for (int r = 0; r < b->spec.ranks; r++)
        stay += overlap(b->offset[r], b->offset[r + 1], b->next[r], b->next[r + 1]);
    return b->spec.items - stay;
}

/* A move that pays in units may be none in items, or bring too little. */
static bool is_worth_it(const trm_balancer *b, const trm_decision *d) {
    if (d->moved == 0) return false;
    if (!b->before || d->verdict != TRM_VERDICT_MOVE) return true;
    double now = forecast(b, d->speed, b->offset), then = forecast(b, d->speed, b->next);
    return then <= now * (1 - b->spec.threshold);
}

/* Into `next`, and *moves: whether the parts change (in a dry run: would). */
static trm_status decide(trm_balancer *b, trm_decision *d, bool *moves) {
    TRM_TRY(ask_policy(b, d));
    *moves = trm_verdict_moves(d->verdict);
    if (!*moves) return TRM_OK;
    TRM_TRY(cut(b, d->counts, b->next));
    d->moved = count_moved(b);
    *moves = is_worth_it(b, d);
    return TRM_OK;
}

/* The ranks' votes; this rank's own fault keeps its sentence, whatever the gather says meanwhile. */
static trm_status gather_votes(trm_balancer *b, trm_status own, uint64_t cut_hash) {
    vote mine = {.status = own, .cut = cut_hash};
    trm_str text = {0};
    if (own != TRM_OK) trm_str_add(&text, "%s", trm_error_text());
    trm_status status = gather(b, &mine, sizeof mine, b->votes);
    if (status == TRM_OK && own != TRM_OK) status = trm_fail(own, "%s", trm_str_get(&text));
    trm_str_free(&text);
    return status;
}

/* Fails on all ranks where one could not do what is asked, or came to other parts (its arithmetic is another). */
static trm_status agree(trm_balancer *b, trm_status own, bool moves, const char *what) {
    size_t bytes = ((size_t)b->spec.ranks + 1) * sizeof *b->next;
    TRM_TRY(gather_votes(b, own, moves ? trm_hash(b->next, bytes, 0) : 0));
    for (int r = 0; r < b->spec.ranks; r++) {
        trm_status s = (trm_status)b->votes[r].status;
        if (s != TRM_OK) return trm_fail(s, "rank %d could not %s: %s", r, what, trm_status_text(s));
    }
    for (int r = 1; r < b->spec.ranks; r++)
        if (b->votes[r].cut != b->votes[0].cut)
            return trm_fail(
                TRM_RUN,
                "ranks 0 and %d decided differently from the same times; they have to run one build of "
                "the library with the same settings and weights",
                r);
    return TRM_OK;
}

/* ---- act --------------------------------------------------------------------------------- */

static void tell(const trm_balancer *b, const trm_decision *d) {
    trm_str line = {0};
    if (!b->spec.tell || b->spec.rank != 0) return;
    if (b->spec.dry_run) trm_str_add(&line, "dry run: ");
    trm_decision said = *d;
    said.dry = b->spec.dry_run;
    trm_decision_words(&said, NULL, "item", &line);
    if (!line.failed) b->spec.tell(b->spec.ctx, trm_str_get(&line));
    trm_str_free(&line);
}

static trm_status call_move(trm_balancer *b) {
    if (!b->spec.move) return TRM_OK;
    (void)trm_fail(TRM_OK, "its program gave no reason");
    trm_status status = b->spec.move(b->spec.ctx, b->spec.ranks, b->offset, b->next);
    return status == TRM_OK ? status : trm_prefix(status, "rank %d could not move its items", b->spec.rank);
}

static trm_status move_items(trm_balancer *b) {
    double from = trm_now();
    trm_status own = call_move(b);
    b->mine.cost = trm_now() - from;
    TRM_TRY(agree(b, own, true, "move its items"));
    memcpy(b->offset, b->next, ((size_t)b->spec.ranks + 1) * sizeof *b->offset);
    b->moves++;
    return TRM_OK;
}

static trm_status act(trm_balancer *b, const trm_decision *d, bool moves) {
    if (moves) tell(b, d);
    if (!moves || b->spec.dry_run) {
        if (trm_verdict_moves(d->verdict)) trm_policy_keep(b->policy);
        open_window(b, 0);
        return TRM_OK;
    }
    memcpy(b->counts, d->counts, (size_t)b->spec.ranks * sizeof *b->counts);
    TRM_TRY(move_items(b));
    open_window(b, 1);
    return TRM_OK;
}

/* So many iterations fill the next window; a multiple of `every`. */
static int64_t span_for(const trm_balancer *b, double step) {
    double windows = step > 0 ? ceil(WINDOW_S / step / (double)b->spec.every) : 1;
    return b->spec.every * (int64_t)fmin(fmax(windows, 1), 1e9);
}

static trm_status end_window(trm_balancer *b) {
    TRM_TRY(gather_records(b));
    fill_window(b);
    if (!trm_window_is_full(&b->window)) {
        b->span *= 2; /* too short to decide on: it goes on */
        return TRM_OK;
    }
    b->span = span_for(b, step_of(b));
    trm_decision d = {0};
    bool moves = false;
    trm_status own = decide(b, &d, &moves);
    TRM_TRY(agree(b, own, moves, "decide who gets which items"));
    return act(b, &d, moves);
}

/* The ranks may have parts that do not fit together: nothing goes on from there. */
static trm_status keep_fault(trm_balancer *b, trm_status s) {
    if (s == TRM_OK) return s;
    b->failed = s;
    snprintf(b->why, sizeof b->why, "%s", trm_error_text());
    return s;
}

trm_status trm_balancer_step(trm_balancer *b) {
    if (b->failed != TRM_OK) return trm_fail(b->failed, "the balancer has failed before: %s", b->why);
    close_iteration(b);
    trm_status status = TRM_OK;
    if (b->spec.ranks == 1)
        status = check_misuse(0, (misuse)b->mine.misuse);
    else if (!b->spec.off && b->since >= b->span)
        status = end_window(b);
    b->wall_from = trm_now();
    b->delay_from = trm_thread_delay(); /* what a decision takes is no part of an iteration */
    return keep_fault(b, status);
}
