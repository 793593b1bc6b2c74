/* ranks: what the verbs on many ranks share: MPI, the job, the printer. */
#ifndef TRIREME_CLI_RANKS_H
#define TRIREME_CLI_RANKS_H

#include <trireme/train.h>

#include "cli.h"

/* Starts MPI where there is a launcher, reads the job on all ranks, calls `work`, ends MPI. */
trm_status ranks_run(const cli_call *call, const char *job, const cli_list *set, bool quiet,
                     trm_status (*work)(trm_comm *c, const trm_job *job, const cli_call *call));
/* Options that print through ui. */
trm_run_options ranks_options(trm_comm *c);

#endif
