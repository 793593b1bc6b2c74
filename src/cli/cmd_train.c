/* train: the one verb that all ranks run together; eval is its little sister. */
#include <stdlib.h>
#include <string.h>
#include <trireme/launch.h>

#include "job_file.h"
#include "ranks.h"

typedef struct settings {
    cli_list set;
    const char *resume, *dump_losses;
    bool quiet;
} settings;

static trm_status train(trm_comm *c, const trm_job *job, const cli_call *call) {
    const settings *s = call->set;
    trm_run_options o = ranks_options(c);
    o.resume = s->resume;
    o.dump_losses = s->dump_losses;
    o.progress = ui_is_terminal() && !s->quiet;
    return trm_run_train(job, c, &o);
}

static trm_status run(const cli_call *call) {
    const settings *s = call->set;
    /* Before MPI starts, which takes a while: a signal then is not lost either. */
    trm_signals_install();
    TRM_TRY(cli_check_log(s->dump_losses, call->arg[0]));
    return ranks_run(call, call->arg[0], &s->set, s->quiet, train);
}

static const cli_option options[] = {
    {.name = "set",
     .kind = CLI_LIST,
     .at = offsetof(settings, set),
     .value = "KEY=VALUE",
     .about = "sets a key of the job file: train.epochs=3"},
    {.name = "resume",
     .kind = CLI_MAYBE,
     .at = offsetof(settings, resume),
     .value = "PATH",
     .about = "goes on from the newest checkpoint of this run, or from PATH: a run folder or a checkpoint"},
    {.name = "quiet",
     .kind = CLI_FLAG,
     .at = offsetof(settings, quiet),
     .about = "prints only faults and warnings; log.txt has all lines"},
    {.name = "dump-losses",
     .kind = CLI_TEXT,
     .at = offsetof(settings, dump_losses),
     .value = "FILE",
     .about = "writes update, loss and gradient norm of each update as hexadecimal floats: for tests of "
              "exactness"},
    {NULL},
};

const cli_verb cli_train = {
    .name = "train",
    .args = "JOB",
    .about = "trains what a job file says, on all ranks of the launcher",
    .more = "The first SIGINT, SIGTERM, SIGUSR1 or SIGHUP ends the run at the next update with a checkpoint\n"
            "(exit code 75), the second one at once.  mpirun gives its ranks one second after SIGINT or\n"
            "SIGTERM and then has a code of its own: send it SIGUSR1.\n",
    .min_args = 1,
    .max_args = 1,
    .options = options,
    .size = sizeof(settings),
    .ranks = true,
    .run = run,
};
