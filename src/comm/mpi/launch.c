/* launch: how the program itself starts and ends MPI. */
#include <stdlib.h>
#include <string.h>
#include <trireme/launch.h>

#include "mpi_impl.h"

/* Who sets what:
 *   OMPI_COMM_WORLD_*  Open MPI's mpirun
 *   PMIX_RANK          mpirun of Open MPI >= 4, srun --mpi=pmix
 *   PMI_RANK           MPICH's and Intel's mpiexec, srun --mpi=pmi2
 *   SLURM_STEP_NUM_TASKS, SLURM_PROCID  every srun, whether the tasks can find each other or not */
static const char *const rank_words[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", NULL};

static bool number(const char *name, int64_t *out) {
    const char *text = getenv(name);
    return text && trm_parse_int(text, out);
}

static bool launcher_rank(int64_t *rank) {
    for (int k = 0; rank_words[k]; k++)
        if (number(rank_words[k], rank)) return true;
    return false;
}

/* Tasks that this srun started; 1 without srun. */
static int64_t srun_tasks(void) {
    int64_t tasks;
    return getenv("SLURM_STEP_ID") && number("SLURM_STEP_NUM_TASKS", &tasks) ? tasks : 1;
}

int trm_launch_rank(void) {
    int64_t rank;
    if (launcher_rank(&rank)) return (int)rank;
    return srun_tasks() > 1 && number("SLURM_PROCID", &rank) ? (int)rank : 0;
}

static trm_status refuse(int64_t tasks) {
    trm_status s =
        trm_fail(TRM_MACHINE, "srun started %lld tasks, but MPI sees each of them as a process of its own",
                 (long long)tasks);
    trm_hint("start it with srun --mpi=pmix");
    return s;
}

/* Settings of Open MPI that are read when it starts; a value that the user gave stays.  Other libraries ignore them. */
static void tune_open_mpi(void) {
    static const struct {
        const char *name, *value;
    } settings[] = {
        /* Copies between processes through the kernel fail in many containers, and were half as fast where they work. */
        {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
        /* Larger pieces through shared memory: a third faster for messages of 1 MiB. */
        {"OMPI_MCA_btl_vader_max_send_size", "262144"},
        /* Ranks may share a core: with busy waiting a small sum then takes milliseconds in place of microseconds. */
        {"OMPI_MCA_mpi_yield_when_idle", "1"},
    };
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++)
        setenv(settings[k].name, settings[k].value, 0);
}

static trm_status start_mpi(void) {
    int level, size;
    tune_open_mpi();
    TRM_TRY(trm_mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread"));
    TRM_TRY(trm_mpi_check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size"));
    /* An mpirun inside a step of srun is not meant: there the size is mpirun's word. */
    if (size == 1 && srun_tasks() > 1 && !getenv("OMPI_COMM_WORLD_SIZE")) {
        MPI_Finalize();
        return refuse(srun_tasks());
    }
    return TRM_OK;
}

trm_status trm_launch_begin(trm_comm **out) {
    int64_t rank;
    if (!launcher_rank(&rank)) {
        /* Open MPI would end the program here with a text of its own. */
        if (srun_tasks() > 1) return refuse(srun_tasks());
        return trm_comm_self(out);
    }
    TRM_TRY(start_mpi());
    trm_status status = trm_comm_from_mpi(MPI_COMM_WORLD, out);
    if (status == TRM_OK)
        ((trm_mpi *)*out)->ends_mpi = true;
    else if (status != TRM_COMM)
        MPI_Finalize();
    return status;
}

void trm_launch_end(trm_comm *c) { trm_comm_close(c); }
