/* help: the verbs, one verb, or the keys of a job file. */
#include <string.h>
#include <trireme/train.h>

#include "cli.h"

static void verb_line(const cli_verb *v, trm_str *out) {
    char head[80];
    snprintf(head, sizeof head, "%s %s", v->name, v->args);
    trm_str_add(out, "  %-32s %s\n", head, v->about);
}

void cli_overview(trm_str *out) {
    trm_str_add(out, "trireme " TRM_VERSION ": trains neural networks on many processors with MPI\n\n"
                     "usage: trireme VERB [options]\n"
                     "       mpirun -n RANKS trireme train JOB\n\n");
    for (int i = 0; cli_verbs[i]; i++)
        if (!cli_verbs[i]->hidden) verb_line(cli_verbs[i], out);
    trm_str_add(out, "\ntrireme VERB --help explains a verb, trireme help job the keys of a job file.\n"
                     "Exit codes: 0 done, 1 the run failed, 2 wrong usage, job or data, 3 the machine lacks\n"
                     "something, 75 stopped on purpose with a checkpoint.\n");
}

/* True where the words begin the verb's name: "data" of "data import mnist". */
static bool begins(const cli_verb *v, int words, char **word) {
    const char *name = v->name;
    for (int i = 0; i < words; i++) {
        size_t n = strlen(word[i]);
        if (strncmp(name, word[i], n) != 0 || name[n] != ' ') return false;
        name += n + 1;
    }
    return words > 0;
}

bool cli_group_help(int words, char **word, trm_str *out) {
    bool some = false;
    for (int i = 0; cli_verbs[i]; i++) {
        if (cli_verbs[i]->hidden || !begins(cli_verbs[i], words, word)) continue;
        if (!some) trm_str_add(out, "usage: trireme VERB [options]\n\n");
        verb_line(cli_verbs[i], out);
        some = true;
    }
    if (some) trm_str_add(out, "\ntrireme VERB --help explains one of them.\n");
    return some;
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
    else if (strcmp(call->arg[0], "man") == 0)
        cli_manual(&text);
    else if (v)
        cli_verb_help(v, &text);
    else if (!cli_group_help(call->args, call->arg, &text))
        status = cli_unknown_verb(call->args, call->arg);
    if (text.failed) status = TRM_MEMORY;
    if (status == TRM_OK) ui_print(trm_str_get(&text));
    trm_str_free(&text);
    return status;
}

const cli_verb cli_help = {
    .name = "help",
    .args = "[VERB|job|man]",
    .about = "explains a verb, or the keys of a job file; man: all of it as a manual page",
    .max_args = 3,
    .run = run,
};
