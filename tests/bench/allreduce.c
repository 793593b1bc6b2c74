/* Sums of float32 over ranks: ours, MPI_Allreduce, and a bare loop over a shared window.
 *
 *   build/bench/allreduce           starts itself on 2 ranks
 *   mpirun -n N build/bench/allreduce         on several nodes without the bare loop
 *
 * Every sample starts with freshly written buffers and ends when the slowest rank has its result; the three take turns, so
 * that a busy machine is busy for all.  The time is the median of the slowest rank's; "x" is the other's time over ours
 * (above 1: ours is faster). */
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trireme/mpi.h>
#include <unistd.h>

#define MAX_BYTES (16 << 20)
#define MAX_SAMPLES 400
#define MAX_RANKS 16

static int rank, ranks;

static void need(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "allreduce: rank %d: %s: %s\n", rank, what, trm_error_text());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- the bare loop: what the machine can do ---------------------------------------------- */

typedef struct bare {
    MPI_Win win;
    float *part[MAX_RANKS];
    atomic_int *arrived;
    int meetings;
} bare;

static void bare_open(bare *b) {
    char *mine;
    MPI_Win_allocate_shared(MAX_BYTES + 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &b->win);
    memset(mine, 0, MAX_BYTES + 4096);
    for (int k = 0; k < ranks; k++) {
        MPI_Aint size;
        int unit;
        char *base;
        MPI_Win_shared_query(b->win, k, &size, &unit, &base);
        b->part[k] = (float *)(base + 4096);
        if (k == 0) b->arrived = (atomic_int *)base;
    }
    b->meetings = 0;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bare_meet(bare *b) {
    int all = ++b->meetings * ranks;
    atomic_fetch_add_explicit(b->arrived, 1, memory_order_acq_rel);
    while (atomic_load_explicit(b->arrived, memory_order_acquire) < all) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

static void bare_sum(bare *b, int64_t n) {
    int64_t from = n * rank / ranks, to = n * (rank + 1) / ranks;
    bare_meet(b);
    if (ranks == 2) {
        float *restrict x = b->part[0], *restrict y = b->part[1];
#pragma omp simd
        for (int64_t i = from; i < to; i++) x[i] = y[i] = x[i] + y[i];
    } else {
        for (int64_t i = from; i < to; i++) {
            float sum = 0;
            for (int k = 0; k < ranks; k++) sum += b->part[k][i];
            for (int k = 0; k < ranks; k++) b->part[k][i] = sum;
        }
    }
    bare_meet(b);
}

/* ---- samples ------------------------------------------------------------------------------ */

enum { OURS, MPI, BARE, WAYS };

typedef struct bench {
    trm_comm *comm;
    trm_comm_buffer *buffer;
    trm_comm_request *request;
    float *plain;
    bare bare;
    int ways; /* BARE: without the last */
} bench;

static float *data_of(bench *b, int way) {
    return way == OURS ? trm_comm_buffer_data(b->buffer) : way == MPI ? b->plain : b->bare.part[rank];
}

static void run(bench *b, int way, int64_t n) {
    if (way == BARE) {
        bare_sum(&b->bare, n);
    } else if (way == MPI) {
        MPI_Allreduce(MPI_IN_PLACE, b->plain, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else {
        need(trm_comm_post(b->comm, b->request) == TRM_OK, "post");
        need(trm_comm_wait(b->comm, b->request) == TRM_OK, "wait");
    }
}

static double sample(bench *b, int way, int64_t n) {
    float *x = data_of(b, way);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(rank + 1);
    /* The tightest start for all three. */
    if (b->ways > BARE)
        bare_meet(&b->bare);
    else
        MPI_Barrier(MPI_COMM_WORLD);
    double t = trm_now();
    run(b, way, n);
    t = trm_now() - t;
    float want = (float)(ranks * (ranks + 1) / 2);
    need(n == 0 || (x[0] == want && x[n - 1] == want), "a wrong sum");
    return t;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of_slowest(double *t, int n) {
    static double slowest[MAX_SAMPLES];
    MPI_Allreduce(t, slowest, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    qsort(slowest, (size_t)n, sizeof *slowest, by_value);
    return slowest[n / 2];
}

static void measure(bench *b, int64_t bytes) {
    static double t[WAYS][MAX_SAMPLES];
    int64_t n = bytes / (int64_t)sizeof(float);
    int samples = bytes <= 65536 ? MAX_SAMPLES : bytes <= 1 << 20 ? 100 : 25;
    trm_comm_call call = {.buffer = b->buffer, .count = n, .channel = TRM_CHANNEL_GRAD, .what = "a sum"};
    need(trm_comm_plan(b->comm, &call, &b->request) == TRM_OK, "plan");
    for (int i = -3; i < samples; i++)
        for (int way = 0; way < b->ways; way++) {
            double once = sample(b, way, n);
            if (i >= 0) t[way][i] = once;
        }
    trm_comm_request_free(b->comm, b->request);
    double ours = median_of_slowest(t[OURS], samples), mpi = median_of_slowest(t[MPI], samples);
    double bare_time = b->ways > BARE ? median_of_slowest(t[BARE], samples) : 0;
    if (rank != 0) return;
    printf("%9lld  %10.1f  %10.1f %6.2f x", (long long)bytes, ours * 1e6, mpi * 1e6, mpi / ours);
    if (b->ways > BARE) printf("  %10.1f %6.2f x", bare_time * 1e6, bare_time / ours);
    printf("\n");
}

/* ---- start -------------------------------------------------------------------------------- */

/* Run by itself it starts itself again under mpirun; as root that needs to be told to Open MPI. */
static void start_ranks(char **argv) {
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK")) return;
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    execlp("mpirun", "mpirun", "-n", "2", argv[0], (char *)NULL);
    perror("allreduce: mpirun");
    exit(3);
}

int main(int argc, char **argv) {
    static bench b;
    int level;
    start_ranks(argv);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    need(ranks <= MAX_RANKS, "too many ranks");
    need(trm_comm_from_mpi(MPI_COMM_WORLD, &b.comm) == TRM_OK, "open");
    need(trm_comm_buffer_alloc(b.comm, TRM_F32, MAX_BYTES / 4, "sums", &b.buffer) == TRM_OK, "a buffer");
    b.plain = trm_alloc(MAX_BYTES, "sums");
    need(b.plain != NULL, "memory");
    b.ways = trm_comm_nodes(b.comm) == 1 ? WAYS : BARE;
    if (b.ways > BARE) bare_open(&b.bare);
    if (rank == 0)
        printf("%s\n%9s  %10s  %10s %8s  %10s %8s\n", trm_comm_about(b.comm), "bytes", "ours/us", "MPI/us",
               "", "bare/us", "");
    for (int64_t bytes = 4096; bytes <= MAX_BYTES; bytes *= 4) measure(&b, bytes);
    trm_comm_buffer_free(b.comm, b.buffer);
    trm_free(b.plain);
    if (b.ways > BARE) MPI_Win_free(&b.bare.win);
    trm_comm_close(b.comm);
    return MPI_Finalize();
}
