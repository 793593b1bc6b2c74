/* predict: what a model says to each row of a data set. */
#include "ranks.h"

typedef struct settings {
    cli_list set, input;
    const char *weights, *out;
    bool force;
} settings;

static trm_status predict(trm_comm *c, const trm_job *job, const cli_call *call) {
    const settings *s = call->set;
    trm_run_options o = ranks_options(c);
    trm_predict_spec spec = {.weights = s->weights,
                             .input = s->input.at,
                             .n_input = s->input.n,
                             .out = s->out,
                             .replace = s->force};
    o.progress = ui_is_terminal();
    return trm_run_predict(job, c, &spec, &o);
}

static trm_status run(const cli_call *call) {
    const settings *s = call->set;
    trm_signals_install();
    return ranks_run(call, call->arg[0], &s->set, false, predict);
}

static const cli_option options[] = {
    {.name = "weights",
     .kind = CLI_TEXT,
     .at = offsetof(settings, weights),
     .value = "PATH",
     .about = "run folder, checkpoint, or file of weights (safetensors, HDF5)",
     .required = true},
    {.name = "out",
     .kind = CLI_TEXT,
     .at = offsetof(settings, out),
     .value = "FILE",
     .about = "HDF5 file to write",
     .required = true},
    {.name = "input",
     .kind = CLI_LIST,
     .at = offsetof(settings, input),
     .value = "FILE",
     .about = "HDF5 file with the rows to read (data.valid of the job); needs no targets"},
    {.name = "force",
     .kind = CLI_FLAG,
     .at = offsetof(settings, force),
     .about = "replaces an HDF5 file that is there already"},
    {.name = "set",
     .kind = CLI_LIST,
     .at = offsetof(settings, set),
     .value = "KEY=VALUE",
     .about = "sets a key of the job file: train.batch=256"},
    {NULL},
};

const cli_verb cli_predict = {
    .name = "predict",
    .args = "JOB",
    .about = "writes what a model says to each row of a data set",
    .more =
        "The file holds, in the order of the rows, `output` (float32: the model's raw output) and, where\n"
        "train.loss is cross_entropy, `label` (int64: index of the largest).  A pass has as many rows\n"
        "as a micro-batch (train.batch / train.micro_batches), cut over the ranks.\n",
    .min_args = 1,
    .max_args = 1,
    .options = options,
    .size = sizeof(settings),
    .ranks = true,
    .run = run,
};
