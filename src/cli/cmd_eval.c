/* eval: the validation loss of weights. */
#include "ranks.h"

typedef struct settings {
    cli_list set;
} settings;

static trm_status evaluate(trm_comm *c, const trm_job *job, const cli_call *call) {
    trm_run_options o = ranks_options(c);
    return trm_run_eval(job, c, call->arg[1], &o);
}

static trm_status run(const cli_call *call) {
    const settings *s = call->set;
    return ranks_run(call, call->arg[0], &s->set, false, evaluate);
}

static const cli_option options[] = {
    {.name = "set",
     .kind = CLI_LIST,
     .at = offsetof(settings, set),
     .value = "KEY=VALUE",
     .about = "sets a key of the job file: data.valid=other.h5"},
    {NULL},
};

const cli_verb cli_eval = {
    .name = "eval",
    .args = "JOB WEIGHTS",
    .about = "evaluates weights (checkpoint, safetensors, HDF5) on the validation set",
    .min_args = 2,
    .max_args = 2,
    .options = options,
    .size = sizeof(settings),
    .ranks = true,
    .run = run,
};
