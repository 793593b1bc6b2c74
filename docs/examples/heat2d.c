/* heat2d: heat spreads over a square plate; rows of the plate are shared out over the ranks by their speed.
 *
 *     mpicc heat2d.c $(pkg-config --cflags --libs --static trireme) -o heat2d
 *     mpirun -n 4 ./heat2d --size 2000 --steps 2000
 *
 * Explicit scheme, u' = u + k (north + south + west + east - 4 u), with a fixed edge.  Each rank holds a block of rows and
 * a row of each neighbour (halo).  A cell's new value does not depend on who computes it: the result is equal to the
 * bit for any number of ranks and any parts. */
#include "example.h"

#define K 0.2

typedef struct plate {
    int rank, ranks;
    int64_t size;         /* inner rows and columns; a row has an edge cell at both ends */
    int64_t begin, count; /* this rank's rows */
    int64_t *offset;      /* [ranks + 1]: first row of each rank */
    double *now, *next;   /* row i lies at (i - begin + 1) * width, a halo row before and behind all */
} plate;

static int64_t width_of(const plate *p) { return p->size + 2; }
static double *row_of(const plate *p, double *u, int64_t row) {
    return u + (row - p->begin + 1) * width_of(p);
}

/* ---- the plate: cold, with a hot upper edge and a warm spot ---- */

static double start_value(int64_t size, int64_t row, int64_t column) {
    if (row < 0) return 1;
    bool spot = row > size / 4 && row < size / 2 && column > size / 4 && column < size / 2;
    return spot ? 0.5 : 0;
}

static double *new_rows(const plate *p, int64_t count) {
    return must_have(
        trm_alloc_array((size_t)(count + 2), (size_t)width_of(p) * sizeof(double), "a part of the plate"));
}

static void start_part(plate *p, int64_t begin, int64_t count) {
    p->begin = begin;
    p->count = count;
    p->now = new_rows(p, count);
    p->next = new_rows(p, count);
    for (int64_t i = begin - 1; i <= begin + count; i++)
        for (int64_t j = 0; j < width_of(p); j++)
            row_of(p, p->now, i)[j] = row_of(p, p->next, i)[j] = start_value(p->size, i, j);
}

static void free_part(plate *p) {
    trm_free(p->now);
    trm_free(p->next);
}

/* ---- one step ---- */

static void compute(plate *p) {
    int64_t w = width_of(p);
    for (int64_t i = 0; i < p->count; i++) {
        const double *u = p->now + (i + 1) * w;
        double *to = p->next + (i + 1) * w;
        for (int64_t j = 1; j <= p->size; j++)
            to[j] = u[j] + K * (u[j - w] + u[j + w] + u[j - 1] + u[j + 1] - 4 * u[j]);
    }
}

static void swap(plate *p) {
    double *t = p->now;
    p->now = p->next;
    p->next = t;
}

/* The nearest rank with rows, upwards (-1) or downwards (1). */
static int neighbour(const plate *p, int way) {
    int r = p->rank + way;
    while (r >= 0 && r < p->ranks && p->offset[r] == p->offset[r + 1]) r += way;
    return r >= 0 && r < p->ranks ? r : MPI_PROC_NULL;
}

/* The neighbours' edge rows come into the halo rows. */
static void exchange(plate *p) {
    MPI_Request request[4];
    int n = (int)width_of(p), up = neighbour(p, -1), down = neighbour(p, 1);
    if (p->count == 0) return;
    MPI_Irecv(row_of(p, p->now, p->begin - 1), n, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &request[0]);
    MPI_Irecv(row_of(p, p->now, p->begin + p->count), n, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &request[1]);
    MPI_Isend(row_of(p, p->now, p->begin), n, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &request[2]);
    MPI_Isend(row_of(p, p->now, p->begin + p->count - 1), n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD,
              &request[3]);
    wait_kindly(4, request);
}

/* ---- moving rows to their new owners ---- */

/* How many cells of the rows a .. a_end rank r has by `offset`, and where they lie behind a. */
static void overlap(const int64_t *offset, int r, int64_t a, int64_t a_end, int64_t width, int *cells,
                    int *at) {
    int64_t begin = trm_max64(a, offset[r]), end = trm_min64(a_end, offset[r + 1]);
    *cells = end > begin ? (int)((end - begin) * width) : 0;
    *at = end > begin ? (int)((begin - a) * width) : 0;
}

/* The balancer calls this on all ranks. */
static trm_status move_rows(void *ctx, int ranks, const int64_t *from, const int64_t *to) {
    plate *p = ctx, old = *p;
    int *n = trm_alloc_array((size_t)ranks * 4, sizeof *n, "the sizes of a move");
    if (!n) return TRM_MEMORY;
    start_part(p, to[p->rank], to[p->rank + 1] - to[p->rank]);
    for (int r = 0; r < ranks; r++) {
        overlap(to, r, old.begin, old.begin + old.count, width_of(p), &n[r], &n[ranks + r]);
        overlap(from, r, p->begin, p->begin + p->count, width_of(p), &n[2 * ranks + r], &n[3 * ranks + r]);
    }
    MPI_Request request;
    MPI_Ialltoallv(row_of(&old, old.now, old.begin), n, n + ranks, MPI_DOUBLE, row_of(p, p->now, p->begin),
                   n + 2 * ranks, n + 3 * ranks, MPI_DOUBLE, MPI_COMM_WORLD, &request);
    wait_kindly(1, &request);
    memcpy(p->offset, to, (size_t)(ranks + 1) * sizeof *to);
    trm_free(n);
    free_part(&old);
    return TRM_OK;
}

/* ---- the program ---- */

static void work(plate *p, int64_t times) {
    for (int64_t k = 0; k < times; k++) compute(p);
    swap(p);
}

/* Only tests do this: new parts at random, whatever the speeds. */
static void force_move(plate *p, int64_t step) {
    int64_t *to = must_have(trm_alloc_array((size_t)p->ranks + 1, sizeof *to, "parts"));
    random_parts(step, p->ranks, p->size, to);
    must(move_rows(p, p->ranks, p->offset, to));
    trm_free(to);
}

/* Returns how often rows moved. */
static int64_t run(plate *p, int64_t steps, const common *c) {
    trm_balancer *b;
    int64_t begin, count, moves = 0;
    trm_balancer_spec spec = {.ranks = p->ranks,
                              .rank = p->rank,
                              .gather = gather_kindly,
                              .items = p->size,
                              .every = c->every,
                              .off = c->off || c->force,
                              .move = move_rows,
                              .tell = c->json ? NULL : say,
                              .ctx = p};
    must(trm_balancer_open(&spec, &b));
    trm_balancer_part(b, &begin, &count);
    memcpy(p->offset, trm_balancer_offsets(b), (size_t)(p->ranks + 1) * sizeof *p->offset);
    start_part(p, begin, count);
    for (int64_t step = 1; step <= steps; step++) {
        exchange(p);
        trm_balancer_begin(b);
        work(p, times_of(c, p->rank));
        trm_balancer_end(b);
        must(trm_balancer_step(b));
        if (!c->force || step % c->every != 0) continue;
        force_move(p, step);
        moves++;
    }
    moves += trm_balancer_moves(b);
    trm_balancer_free(b);
    return moves;
}

/* Rank 0 gathers the rows, computes all alone, and compares. */
static bool is_equal(const plate *p, int64_t steps) {
    plate alone = {.ranks = 1, .size = p->size}, all = alone;
    MPI_Request request;
    int *n = must_have(trm_alloc_array((size_t)p->ranks * 2, sizeof *n, "the sizes of parts"));
    for (int r = 0; r < p->ranks; r++)
        overlap(p->offset, r, 0, p->size, width_of(p), &n[r], &n[p->ranks + r]);
    if (p->rank == 0) start_part(&all, 0, p->size);
    MPI_Igatherv(row_of(p, p->now, p->begin), n[p->rank], MPI_DOUBLE,
                 p->rank == 0 ? row_of(&all, all.now, 0) : NULL, n, n + p->ranks, MPI_DOUBLE, 0,
                 MPI_COMM_WORLD, &request);
    wait_kindly(1, &request);
    trm_free(n);
    if (p->rank > 0) return true;
    start_part(&alone, 0, p->size);
    for (int64_t step = 0; step < steps; step++) {
        compute(&alone);
        swap(&alone);
    }
    bool equal = memcmp(all.now, alone.now, (size_t)((p->size + 2) * width_of(p)) * sizeof(double)) == 0;
    free_part(&alone);
    free_part(&all);
    return equal;
}

static int heat(plate *p, int64_t steps, const common *c) {
    p->offset = must_have(trm_alloc_array((size_t)p->ranks + 1, sizeof *p->offset, "parts"));
    double from = trm_now();
    int64_t moves = run(p, steps, c);
    double seconds = trm_now() - from;
    bool equal = !c->check || is_equal(p, steps);
    const char *verdict = !c->check ? "" : equal ? "equal to the bit" : "DIFFERENT";
    if (p->rank == 0) report(c, p->ranks, p->offset, seconds, moves, verdict);
    free_part(p);
    trm_free(p->offset);
    return equal ? 0 : 1;
}

int main(int argc, char **argv) {
    common c = COMMON_START;
    plate p = {.size = 512};
    int64_t steps = 500;
    const option options[] = {
        {"--size", "N", "rows and columns of the plate (512)", .number = &p.size, .least = 1, .most = 40000},
        {"--steps", "S", "steps of time (500)", .number = &steps, .least = 0},
        COMMON_OPTIONS(&c),
        {0}};
    program = "heat2d";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p.ranks);
    int status = read_options(
        argc, argv, "heat2d: heat spreads over a plate; its rows are shared out by speed", options, p.rank);
    if (status < 0) status = heat(&p, steps, &c);
    MPI_Finalize();
    return status;
}
