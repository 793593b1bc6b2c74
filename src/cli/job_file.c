/* job_file: reading a job for one process or for all ranks. */
#include "job_file.h"

#include <string.h>
#include <trireme/launch.h>

#define JOB_LIMIT ((size_t)16 << 20)

static trm_status read_text(const char *path, char **text, size_t *n) {
    trm_status status = trm_read_file(path, JOB_LIMIT, text, n);
    /* A job file that cannot be read is a wrong word on the command line, not a failed run. */
    return status == TRM_IO ? trm_prefix(TRM_USAGE, "job file") : status;
}

static trm_status parse(const char *path, const char *text, size_t n, const cli_list *set, trm_job **out) {
    return trm_job_parse(path, text, n, set->at, set->n, out);
}

trm_status job_read(const char *path, const cli_list *set, trm_job **out) {
    char *text = NULL;
    size_t n = 0;
    TRM_TRY(read_text(path, &text, &n));
    trm_status status = parse(path, text, n, set, out);
    trm_free(text);
    return status;
}

trm_status job_precheck(const char *path, const cli_list *set) {
    trm_job *job = NULL;
    trm_status status = job_read(path, set, &job);
    trm_job_free(job);
    return status == TRM_USAGE && trm_launch_rank() != 0 ? TRM_OK : status;
}

trm_status job_read_ranks(trm_comm *c, const char *path, const cli_list *set, trm_job **out) {
    char *text = NULL;
    size_t n = 0;
    trm_status status = trm_comm_rank(c) == 0 ? read_text(path, &text, &n) : TRM_OK;
    status = trm_comm_agree(c, status);
    if (status == TRM_OK) status = trm_comm_bcast_block(c, (void **)&text, &n, 0);
    if (status == TRM_OK) status = parse(path, text, n, set, out);
    trm_free(text);
    return trm_comm_agree(c, status);
}

/* ---- where a job or a data file may stand ---- */

bool job_is_name(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

void job_hint_options(void) {
    static const char *const word[][2] = {
        {"`data.input: ", "`--input "},    {"`data.target: ", "`--target "},
        {"`data.window: ", "`--window "},  {"`data.window`", "`--window`"},
        {"`data.classes`", "`--classes`"}, {"`data.target_type: float`", "`--float-target`"}};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        const char *hint = trm_error_hint(), *at = strstr(hint, word[i][0]);
        if (at) trm_hint("%.*s%s%s", (int)(at - hint), hint, word[i][1], at + strlen(word[i][0]));
    }
}
