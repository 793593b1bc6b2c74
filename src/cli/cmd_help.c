/* help: the verbs, one verb, or the keys of a job file. */
#include <string.h>
#include <trireme/train.h>

#include "cli.h"

void cli_overview(trm_str *out) {
    trm_str_add(out, "trireme " TRM_VERSION ": trains neural networks on many processors with MPI\n\n"
                     "usage: trireme VERB [options]\n"
                     "       mpirun -n RANKS trireme train JOB\n\n");
    for (int i = 0; cli_verbs[i]; i++) {
        char head[80];
        snprintf(head, sizeof head, "%s %s", cli_verbs[i]->name, cli_verbs[i]->args);
        trm_str_add(out, "  %-32s %s\n", head, cli_verbs[i]->about);
    }
    trm_str_add(out, "\ntrireme VERB --help explains a verb, trireme help job the keys of a job file.\n"
                     "Exit codes: 0 done, 1 the run failed, 2 wrong usage, job or data, 3 the machine lacks\n"
                     "something, 75 stopped on purpose with a checkpoint.\n");
}

static trm_status run(const cli_call *call) {
    trm_str text = {0};
    int words;
    const cli_verb *v = call->args ? cli_verb_find(call->args, call->arg, &words) : NULL;
    trm_status status = TRM_OK;
    if (call->args == 0)
        cli_overview(&text);
    else if (strcmp(call->arg[0], "job") == 0)
        trm_job_reference(&text);
    else if (v)
        cli_verb_help(v, &text);
    else
        status = cli_unknown_verb(call->args, call->arg);
    if (text.failed) status = TRM_MEMORY;
    if (status == TRM_OK) ui_print(trm_str_get(&text));
    trm_str_free(&text);
    return status;
}

const cli_verb cli_help = {
    .name = "help",
    .args = "[VERB|job]",
    .about = "explains a verb, or the keys of a job file",
    .max_args = 3,
    .run = run,
};
