/* mpi_support: tests on several ranks. */
#include "mpi_support.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int world_rank = -1, world_size;
/* What the launcher shows of this rank, kept while CMocka's own lines go nowhere. */
static int loud = STDERR_FILENO;

int support_rank(void) { return world_rank; }
int support_ranks(void) { return world_size; }

/* One plan and one line per test have to reach prove: those of rank 0. */
static void silence(void) {
    int nowhere = open("/dev/null", O_WRONLY);
    loud = dup(STDERR_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
}

int support_mpi_main(int *argc, char ***argv, const struct CMUnitTest *tests, size_t n) {
    int level;
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (world_rank > 0) silence();
    int failed = _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
    MPI_Finalize();
    return failed;
}

int support_agree(int ok) {
    int all = 0, mine = ok != 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

void support_assert_agreed(int ok, const char *what, const char *file, int line) {
    if (!ok) dprintf(loud, "# rank %d: %s:%d: not %s\n", world_rank, file, line, what);
    if (!support_agree(ok)) _fail(file, line);
}

void support_assert_agreed_ok(trm_status s, const char *what, const char *file, int line) {
    if (s != TRM_OK)
        dprintf(loud, "# rank %d: %s:%d: %s is %s: %s\n", world_rank, file, line, what, trm_status_name(s),
                trm_error_text());
    if (!support_agree(s == TRM_OK)) _fail(file, line);
}

const char *support_shared_path(const char *name) {
    static char path[8][512];
    static unsigned turn;
    char *p = path[turn++ % 8];
    if (world_rank == 0) snprintf(p, sizeof path[0], "%s", support_path(name));
    MPI_Bcast(p, (int)sizeof path[0], MPI_CHAR, 0, MPI_COMM_WORLD);
    return p;
}
