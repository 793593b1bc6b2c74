/* check: layers, shapes, parameters, cost of a job, without training it. */
#include "job_file.h"

typedef struct settings {
    cli_list set;
} settings;

static trm_status run(const cli_call *call) {
    const settings *s = call->set;
    trm_job *job = NULL;
    trm_str text = {0};
    ui_begin(false);
    TRM_TRY(job_read(call->arg[0], &s->set, &job));
    trm_status status = trm_run_check(job, &text);
    if (status == TRM_OK) ui_print(trm_str_get(&text));
    trm_str_free(&text);
    trm_job_free(job);
    return status;
}

static const cli_option options[] = {
    {.name = "set",
     .kind = CLI_LIST,
     .at = offsetof(settings, set),
     .value = "KEY=VALUE",
     .about = "sets a key of the job file: train.batch=256"},
    {NULL},
};

const cli_verb cli_check = {
    .name = "check",
    .args = "JOB",
    .about = "checks a job and its data: layers, shapes, parameters, FLOPs, memory",
    .min_args = 1,
    .max_args = 1,
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
