/* dump: the samples of a job as rows of a plain file. */
#include "job_file.h"

typedef struct dump_settings {
    const char *out;
    bool valid, force;
    cli_list set;
} dump_settings;

static trm_status check_out(const trm_job *job, const char *path, const dump_settings *s) {
    FILE *there;
    TRM_TRY(trm_output_apart(s->out, &path, 1));
    TRM_TRY(trm_output_apart(s->out, (const char *const *)job->data.train, job->data.n_train));
    TRM_TRY(trm_output_apart(s->out, (const char *const *)job->data.valid, job->data.n_valid));
    if (s->force || !(there = fopen(s->out, "rb"))) return TRM_OK;
    fclose(there);
    trm_fail(TRM_USAGE, "will not replace %s: it is there already", s->out);
    trm_hint("--force replaces it; or give another name");
    return TRM_USAGE;
}

static trm_status apart_from_files(const trm_dataset *set, const char *out) {
    const char *file;
    for (int i = 0; (file = trm_dataset_file(set, i)); i++) TRM_TRY(trm_output_apart(out, &file, 1));
    return TRM_OK;
}

static trm_status dump_set(const trm_job *job, const dump_settings *s) {
    trm_dataset *set = NULL;
    trm_str text = {0};
    char x[80];
    trm_data_spec spec = trm_job_data_spec(job, s->valid);
    if (s->valid && job->data.n_valid == 0)
        return trm_fail(TRM_JOB, "%s: data.valid names no files", job->path);
    TRM_TRY(trm_dataset_open(&spec, &set));
    trm_status status = apart_from_files(set, s->out);
    if (status == TRM_OK) status = trm_dataset_dump(set, s->out);
    const trm_data_info *d = trm_dataset_info(set);
    trm_str_add(&text, "wrote %s: %lld samples of shape %s\n", s->out, (long long)d->samples,
                trm_shape_text(&d->x, x, sizeof x));
    if (status == TRM_OK) ui_print(trm_str_get(&text));
    trm_str_free(&text);
    trm_dataset_close(set);
    return status;
}

static trm_status run_dump(const cli_call *call) {
    const dump_settings *s = call->set;
    trm_job *job = NULL;
    ui_begin(false);
    TRM_TRY(job_read(call->arg[0], &s->set, &job));
    trm_status status = check_out(job, call->arg[0], s);
    if (status == TRM_OK) status = dump_set(job, s);
    trm_job_free(job);
    return status;
}

static const cli_option dump_options[] = {
    {.name = "out",
     .kind = CLI_TEXT,
     .at = offsetof(dump_settings, out),
     .value = "FILE",
     .about = "HDF5 file to write: `input` and `target`, one row a sample",
     .required = true},
    {.name = "valid",
     .kind = CLI_FLAG,
     .at = offsetof(dump_settings, valid),
     .about = "the validation files"},
    {.name = "force",
     .kind = CLI_FLAG,
     .at = offsetof(dump_settings, force),
     .about = "replaces a file that is there"},
    {.name = "set",
     .kind = CLI_LIST,
     .at = offsetof(dump_settings, set),
     .value = "KEY=VALUE",
     .about = "sets a key of the job"},
    {NULL},
};

const cli_verb cli_data_dump = {
    .name = "data dump",
    .args = "JOB",
    .about = "writes the samples of a job as plain rows",
    .min_args = 1,
    .max_args = 1,
    .options = dump_options,
    .size = sizeof(dump_settings),
    .run = run_dump,
};
