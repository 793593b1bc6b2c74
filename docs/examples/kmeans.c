/* kmeans: clusters the rows of an HDF5 data set; the rows are shared out over the ranks by their speed.
 *
 *     mpicc kmeans.c $(pkg-config --cflags hdf5) $(pkg-config --cflags --libs --static trireme) -o kmeans
 *     ./kmeans --make 100000 --file points.h5
 *     mpirun -n 4 ./kmeans --file points.h5 --clusters 16
 *
 * Lloyd's algorithm (1982): every row goes to the nearest centre, every centre to the mean of its rows.  A rank reads its own
 * rows, with the serial HDF5 library; sums of rows are added up over the ranks.  Other parts add in another order: centres agree to
 * rounding. */
#include <math.h>

#include "example.h"
#include "points.h"

typedef struct clusters {
    int64_t k, columns;
    double *centre; /* [k * columns] */
    double *sum;    /* [k * (columns + 1)]: sums of the rows, then their numbers */
} clusters;

typedef struct points {
    const char *file;
    int rank, ranks;
    int64_t rows, columns; /* of the whole file */
    int64_t *offset;       /* [ranks + 1]: first row of each rank */
    int64_t count;         /* this rank's rows */
    double *x;             /* [count * columns] */
    int *nearest;          /* [count] */
} points;

/* ---- Lloyd's algorithm ---- */

/* The first k rows are the first centres. */
static void start_centres(const points *p, int64_t k, clusters *c) {
    *c = (clusters){.k = k, .columns = p->columns};
    c->centre = must_have(trm_alloc_array((size_t)k, (size_t)p->columns * sizeof *c->centre, "centres"));
    c->sum = must_have(trm_alloc_array((size_t)k, (size_t)(p->columns + 1) * sizeof *c->sum, "sums"));
    must(read_rows(p->file, 0, k, p->columns, c->centre));
}

static void free_centres(clusters *c) {
    trm_free(c->centre);
    trm_free(c->sum);
}

static int nearest_centre(const clusters *c, const double *x) {
    int best = 0;
    double least = INFINITY;
    for (int k = 0; k < c->k; k++) {
        double d = 0;
        for (int64_t j = 0; j < c->columns; j++)
            d += (x[j] - c->centre[k * c->columns + j]) * (x[j] - c->centre[k * c->columns + j]);
        if (d >= least) continue;
        least = d;
        best = k;
    }
    return best;
}

/* A rank's own work: nothing in here waits for another rank. */
static void assign(points *p, clusters *c) {
    memset(c->sum, 0, (size_t)(c->k * (c->columns + 1)) * sizeof *c->sum);
    for (int64_t i = 0; i < p->count; i++) {
        const double *x = p->x + i * c->columns;
        int k = p->nearest[i] = nearest_centre(c, x);
        for (int64_t j = 0; j < c->columns; j++) c->sum[k * c->columns + j] += x[j];
        c->sum[c->k * c->columns + k]++;
    }
}

static void add_up(clusters *c) {
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, c->sum, (int)(c->k * (c->columns + 1)), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                   &request);
    wait_kindly(1, &request);
}

/* A centre without rows stays where it is. */
static void move_centres(clusters *c) {
    for (int64_t k = 0; k < c->k; k++) {
        double n = c->sum[c->k * c->columns + k];
        for (int64_t j = 0; n > 0 && j < c->columns; j++)
            c->centre[k * c->columns + j] = c->sum[k * c->columns + j] / n;
    }
}

/* ---- the program ---- */

static void free_rows(points *p) {
    trm_free(p->x);
    trm_free(p->nearest);
}

/* The balancer calls this on all ranks: rows that come are read from the file. */
static trm_status take_rows(void *ctx, int ranks, const int64_t *from, const int64_t *to) {
    points *p = ctx;
    (void)from;
    memmove(p->offset, to, (size_t)(ranks + 1) * sizeof *to);
    p->count = to[p->rank + 1] - to[p->rank];
    free_rows(p);
    p->x = trm_alloc_array((size_t)p->count + 1, (size_t)p->columns * sizeof *p->x, "rows");
    p->nearest = trm_alloc_array((size_t)p->count + 1, sizeof *p->nearest, "rows");
    return p->x && p->nearest ? read_rows(p->file, to[p->rank], p->count, p->columns, p->x) : TRM_MEMORY;
}

/* Only tests do this: new parts at random, whatever the speeds. */
static void force_move(points *p, int64_t iteration) {
    random_parts(iteration, p->ranks, p->rows, p->offset);
    must(take_rows(p, p->ranks, NULL, p->offset));
}

/* Returns how often rows moved. */
static int64_t run(points *p, clusters *c, int64_t iterations, const common *given) {
    trm_balancer *b;
    int64_t moves = 0;
    trm_balancer_spec spec = {.ranks = p->ranks,
                              .rank = p->rank,
                              .gather = gather_kindly,
                              .items = p->rows,
                              .every = given->every,
                              .off = given->off || given->force,
                              .move = take_rows,
                              .tell = given->json ? NULL : say,
                              .ctx = p};
    must(trm_balancer_open(&spec, &b));
    must(take_rows(p, p->ranks, NULL, trm_balancer_offsets(b)));
    for (int64_t i = 1; i <= iterations; i++) {
        trm_balancer_begin(b);
        for (int64_t k = 0; k < times_of(given, p->rank); k++) assign(p, c);
        trm_balancer_end(b);
        add_up(c);
        move_centres(c);
        must(trm_balancer_step(b));
        if (!given->force || i % given->every != 0) continue;
        force_move(p, i);
        moves++;
    }
    assign(p, c); /* which row is where in the end */
    moves += trm_balancer_moves(b);
    trm_balancer_free(b);
    return moves;
}

/* ---- the check: rank 0 does all alone ---- */

static int *gather_nearest(const points *p) {
    MPI_Request request;
    int *n = must_have(trm_alloc_array((size_t)p->ranks * 2, sizeof *n, "parts")), *all = NULL;
    for (int r = 0; r < p->ranks; r++) {
        n[r] = (int)(p->offset[r + 1] - p->offset[r]);
        n[p->ranks + r] = (int)p->offset[r];
    }
    if (p->rank == 0) all = must_have(trm_alloc_array((size_t)p->rows, sizeof *all, "assignments"));
    MPI_Igatherv(p->nearest, (int)p->count, MPI_INT, all, n, n + p->ranks, MPI_INT, 0, MPI_COMM_WORLD,
                 &request);
    wait_kindly(1, &request);
    trm_free(n);
    return all;
}

static double difference(const clusters *a, const clusters *b) {
    double most = 0, largest = 0;
    for (int64_t i = 0; i < a->k * a->columns; i++) {
        most = fmax(most, fabs(a->centre[i] - b->centre[i]));
        largest = fmax(largest, fabs(b->centre[i]));
    }
    return most / largest;
}

/* Are the assignments equal?  *error: largest difference of a coordinate over the largest coordinate. */
static bool is_equal(const points *p, const clusters *c, int64_t iterations, double *error) {
    int64_t whole[2] = {0, p->rows}, part[2];
    points alone = {.file = p->file, .ranks = 1, .rows = p->rows, .columns = p->columns, .offset = part};
    clusters own;
    int *all = gather_nearest(p);
    if (p->rank > 0) return true;
    start_centres(p, c->k, &own);
    must(take_rows(&alone, 1, NULL, whole));
    for (int64_t i = 0; i < iterations; i++) {
        assign(&alone, &own);
        move_centres(&own);
    }
    assign(&alone, &own);
    bool equal = memcmp(all, alone.nearest, (size_t)p->rows * sizeof *all) == 0;
    *error = difference(c, &own);
    free_centres(&own);
    trm_free(all);
    free_rows(&alone);
    return equal;
}

static int cluster(points *p, int64_t k, int64_t iterations, const common *given) {
    clusters c;
    double error = 0;
    char verdict[80] = "";
    must(read_size(p->file, &p->rows, &p->columns));
    if (k > p->rows)
        must(trm_fail(TRM_USAGE, "--clusters is %lld, but there are %lld rows", (long long)k,
                      (long long)p->rows));
    p->offset = must_have(trm_alloc_array((size_t)p->ranks + 1, sizeof *p->offset, "parts"));
    start_centres(p, k, &c);
    double from = trm_now();
    int64_t moves = run(p, &c, iterations, given);
    double seconds = trm_now() - from;
    bool equal = !given->check || is_equal(p, &c, iterations, &error);
    if (given->check)
        snprintf(verdict, sizeof verdict, "assignments %s, centres within %.1e",
                 equal ? "equal" : "DIFFERENT", error);
    if (p->rank == 0) report(given, p->ranks, p->offset, seconds, moves, verdict);
    free_centres(&c);
    free_rows(p);
    trm_free(p->offset);
    return equal && error <= 1e-6 ? 0 : 1;
}

int main(int argc, char **argv) {
    common c = COMMON_START;
    points p = {.file = "points.h5"};
    int64_t make = 0, k = 16, iterations = 100;
    const option options[] = {
        {"--file", "PATH", "HDF5 file with a data set 'x' of rows and columns (points.h5)", .text = &p.file},
        {"--make", "ROWS", "makes the file, with so many rows of 16 columns, and ends", .number = &make,
         .least = 1},
        {"--clusters", "K", "clusters (16)", .number = &k, .least = 1},
        {"--iterations", "N", "iterations (100)", .number = &iterations, .least = 0},
        COMMON_OPTIONS(&c),
        {0}};
    program = "kmeans";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p.ranks);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* faults are told by this program */
    int status = read_options(
        argc, argv, "kmeans: clusters rows of an HDF5 file that are shared out by speed", options, p.rank);
    if (status < 0 && make > 0) {
        if (p.rank == 0) must(make_file(p.file, make));
        status = 0;
    }
    if (status < 0) status = cluster(&p, k, iterations, &c);
    MPI_Finalize();
    return status;
}
