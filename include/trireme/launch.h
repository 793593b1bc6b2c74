/* launch: how the program `trireme` itself starts and ends MPI.  A program that owns MPI does not call this. */
#ifndef TRIREME_LAUNCH_H
#define TRIREME_LAUNCH_H

#include <trireme/comm.h>

/* Looks for a launcher (mpirun, srun --mpi=pmix) in the environment.  With one: MPI_Init_thread and the mpi transport over
 * all ranks; without: the self transport, and MPI is never touched.  A launcher that started several tasks which MPI sees as
 * one process each (srun without --mpi=pmix) is refused with a hint (TRM_MACHINE). Collective. */
TRM_API trm_status trm_launch_begin(trm_comm **out);
/* Closes the transport and MPI if trm_launch_begin opened it. Collective. */
TRM_API void trm_launch_end(trm_comm *c);
/* Rank of this process according to the launcher's environment, 0 without one; before trm_launch_begin. */
TRM_API int trm_launch_rank(void);

#endif
