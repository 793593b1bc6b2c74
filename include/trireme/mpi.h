/* mpi: the door of the MPI transport, the only public header that needs <mpi.h>. */
#ifndef TRIREME_MPI_H
#define TRIREME_MPI_H

#include <mpi.h>

#include <trireme/comm.h>

/* Wraps (and duplicates) a communicator of a program that has called MPI_Init_thread.  Collective over `comm`. Ranks of
 * one node reduce in a shared-memory window; several nodes: sums in the windows, then between node leaders on a
 * communication thread (needs MPI_THREAD_MULTIPLE, else the exchange runs inside the wait). */
TRM_API trm_status trm_comm_from_mpi(MPI_Comm comm, trm_comm **out);

#endif
