/* job_file: reading a job for one process or for all ranks. */
#ifndef TRIREME_CLI_JOB_FILE_H
#define TRIREME_CLI_JOB_FILE_H

#include <trireme/train.h>

#include "cli.h"

/* Reads and parses here. */
trm_status job_read(const char *path, const cli_list *set, trm_job **out);
/* Before MPI is started: a bad job ends all ranks at once.  A rank that cannot see the file says nothing. */
trm_status job_precheck(const char *path, const cli_list *set);
/* Rank 0 reads, all parse the same bytes. Collective. */
trm_status job_read_ranks(trm_comm *c, const char *path, const cli_list *set, trm_job **out);

/* A name that ends like one of a job file. */
bool job_is_name(const char *path);
/* Hints speak of a job's keys: for verbs that have options in their place, they speak of these. */
void job_hint_options(void);

#endif
