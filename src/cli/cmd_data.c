/* data: looking at data sets, checking them, and their order. */
#include <string.h>
#include <unistd.h>

#include "job_file.h"

/* ---- data info ---- */

static trm_status run_info(const cli_call *call) {
    trm_str text = {0};
    trm_status status = trm_h5_describe(call->arg[0], &text);
    if (status == TRM_OK) ui_print(trm_str_get(&text));
    trm_str_free(&text);
    return status;
}

const cli_verb cli_data_info = {
    .name = "data info",
    .args = "FILE",
    .about = "what an HDF5 file holds, and how a job would read it",
    .min_args = 1,
    .max_args = 1,
    .run = run_info,
};

/* ---- data check ---- */

typedef struct check_settings {
    const char *input, *target;
    int64_t classes, window;
    bool floats, untrusted;
    int layout;
    cli_list set;
} check_settings;

static const char *const layouts[] = {"chw", "hwc", NULL};

static void say_good(const char *name, const trm_data_info *d) {
    trm_str text = {0};
    char x[80];
    trm_str_add(&text, "%s: %lld samples of shape %s, stored as %s", name, (long long)d->samples,
                trm_shape_text(&d->x, x, sizeof x), trm_dtype_name(d->x_type));
    if (d->y_is_class) trm_str_add(&text, ", %lld classes", (long long)d->classes);
    if (d->skipped > 0) trm_str_add(&text, ", %lld left out", (long long)d->skipped);
    trm_str_add(&text, ": good\n");
    ui_print(trm_str_get(&text));
    trm_str_free(&text);
}

static trm_status check_set(const char *name, const trm_data_spec *spec) {
    trm_dataset *set = NULL;
    TRM_TRY(trm_dataset_open(spec, &set));
    trm_status status = trm_dataset_check(set);
    if (status == TRM_OK) say_good(name, trm_dataset_info(set));
    trm_dataset_close(set);
    return status;
}

static trm_status check_job(const char *path, const check_settings *s) {
    trm_job *job = NULL;
    TRM_TRY(job_read(path, &s->set, &job));
    trm_data_spec train = trm_job_data_spec(job, false), valid = trm_job_data_spec(job, true);
    trm_status status = check_set("data.train", &train);
    if (status == TRM_OK && job->data.n_valid > 0) status = check_set("data.valid", &valid);
    trm_job_free(job);
    return status;
}

static trm_status has_no_use(const char *path, const char *option, const char *what) {
    return trm_fail(TRM_USAGE, "--%s is given with %s; it is allowed with %s only", option, path, what);
}

/* A job says itself how its data is read, and a file has no keys to be set. */
static trm_status check_fit(const char *path, bool job, const check_settings *s) {
    const char *option = s->input       ? "input"
                         : s->target    ? "target"
                         : s->classes   ? "classes"
                         : s->window    ? "window"
                         : s->floats    ? "float-target"
                         : s->layout    ? "layout"
                         : s->untrusted ? "untrusted"
                                        : NULL;
    if (!job) return s->set.n > 0 ? has_no_use(path, "set", "a job file (.yaml or .yml)") : TRM_OK;
    if (!option) return TRM_OK;
    has_no_use(path, option, "a data file");
    trm_hint("with a job, set the key: --set data.KEY=VALUE");
    return TRM_USAGE;
}

static trm_status run_check(const cli_call *call) {
    const check_settings *s = call->set;
    ui_begin(false);
    if (job_is_name(call->arg[0]) && call->args > 1)
        return trm_fail(TRM_USAGE, "'%.60s' stands behind a job file; allowed is one job", call->arg[1]);
    TRM_TRY(check_fit(call->arg[0], job_is_name(call->arg[0]), s));
    if (job_is_name(call->arg[0])) return check_job(call->arg[0], s);
    trm_data_spec spec = {.files = (const char *const *)call->arg,
                          .n_files = call->args,
                          .input = s->input,
                          .target = s->target,
                          .window = s->window,
                          .classes = s->classes,
                          .float_target = s->floats,
                          .hwc = s->layout == 1,
                          .untrusted = s->untrusted};
    trm_status status = check_set(call->arg[0], &spec);
    if (status != TRM_OK) job_hint_options();
    return status;
}

static const cli_option check_options[] = {
    {.name = "input",
     .kind = CLI_TEXT,
     .at = offsetof(check_settings, input),
     .value = "PATH",
     .about = "path of the inputs inside the file (found by common names)"},
    {.name = "target",
     .kind = CLI_TEXT,
     .at = offsetof(check_settings, target),
     .value = "PATH",
     .about = "path of the targets inside the file (likewise)"},
    {.name = "classes",
     .kind = CLI_INT,
     .at = offsetof(check_settings, classes),
     .value = "N",
     .about = "labels must lie in 0..N-1 (from the data)",
     .min = 1,
     .max = INT32_MAX},
    {.name = "window",
     .kind = CLI_INT,
     .at = offsetof(check_settings, window),
     .value = "TOKENS",
     .about = "a stream of tokens, cut into samples of this length",
     .min = 1,
     .max = INT32_MAX},
    {.name = "float-target",
     .kind = CLI_FLAG,
     .at = offsetof(check_settings, floats),
     .about = "targets are numbers to regress, not classes"},
    {.name = "layout",
     .kind = CLI_CHOICE,
     .at = offsetof(check_settings, layout),
     .about = "images are stored (N,C,H,W) or (N,H,W,C) (chw)",
     .choices = layouts},
    {.name = "untrusted",
     .kind = CLI_FLAG,
     .at = offsetof(check_settings, untrusted),
     .about = "the file comes from a stranger: see data.untrusted of a job"},
    {.name = "set",
     .kind = CLI_LIST,
     .at = offsetof(check_settings, set),
     .value = "KEY=VALUE",
     .about = "with a job: sets a key of it"},
    {NULL},
};

const cli_verb cli_data_check = {
    .name = "data check",
    .args = "FILE...|JOB",
    .about = "reads every byte of a data set and checks it",
    .min_args = 1,
    .max_args = -1,
    .options = check_options,
    .size = sizeof(check_settings),
    .run = run_check,
};

/* ---- data guard ---- */

static trm_status run_guard(const cli_call *call) {
    (void)call;
    return trm_dataset_guard(STDIN_FILENO);
}

const cli_verb cli_data_guard = {
    .name = "data guard",
    .args = "",
    .about = "opens untrusted files for the process that started it",
    .hidden = true,
    .run = run_guard,
};

/* ---- data order ---- */

typedef struct order_settings {
    int64_t samples, seed, epoch, head, batch, block, window;
    int shuffle;
    cli_list set;
} order_settings;

static const char *const order_shuffles[] = {"none", "exact", "window", NULL};
static const order_settings order_defaults = {
    .seed = 1, .epoch = 1, .batch = 64, .block = 256, .window = 1, .shuffle = TRM_SHUFFLE_EXACT};

static void print_order(const int64_t *order, int64_t samples, int64_t head) {
    int64_t n = head > 0 ? trm_min64(head, samples) : samples;
    for (int64_t i = 0; i < n;) {
        char text[8192];
        size_t at = 0;
        for (; i < n && at < sizeof text - 24; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%lld\n", (long long)order[i]);
        ui_print(text);
    }
}

static trm_status order_of_numbers(const order_settings *s) {
    if (s->samples == 0)
        return trm_fail(TRM_USAGE, "data order needs --samples N, or a job whose training set says how many");
    int64_t *order = trm_alloc_array((size_t)s->samples, sizeof *order, "an order");
    trm_status status = order ? TRM_OK : TRM_MEMORY;
    if (order && s->shuffle == TRM_SHUFFLE_WINDOW)
        status = trm_order_window(s->samples, s->block, s->window, (uint64_t)s->seed, s->epoch - 1, s->batch,
                                  order);
    else if (order)
        trm_order_fill((trm_shuffle)s->shuffle, (uint64_t)s->seed, s->epoch - 1, s->samples, order);
    if (status == TRM_OK) print_order(order, s->samples, s->head);
    trm_free(order);
    return status;
}

static trm_status order_of_set(const trm_job *job, const order_settings *s) {
    trm_dataset *set = NULL;
    trm_data_spec spec = trm_job_data_spec(job, false);
    spec.cache = TRM_CACHE_OFF;
    TRM_TRY(trm_dataset_open(&spec, &set));
    int64_t n = trm_dataset_info(set)->samples,
            *order = trm_alloc_array((size_t)n, sizeof *order, "an order");
    trm_status status = order ? trm_dataset_order(set, job->data.shuffle, (uint64_t)job->run.seed,
                                                  s->epoch - 1, job->train.batch, job->data.memory, order)
                              : TRM_MEMORY;
    if (status == TRM_OK) print_order(order, n, s->head);
    trm_free(order);
    trm_dataset_close(set);
    return status;
}

static trm_status order_of_job(const char *path, const order_settings *s) {
    trm_job *job = NULL;
    if (s->samples > 0) return has_no_use(path, "samples", "no job");
    ui_begin(false);
    TRM_TRY(job_read(path, &s->set, &job));
    trm_status status = order_of_set(job, s);
    trm_job_free(job);
    return status;
}

static trm_status run_order(const cli_call *call) {
    const order_settings *s = call->set;
    if (call->args > 0) return order_of_job(call->arg[0], s);
    return order_of_numbers(s);
}

static const cli_option order_options[] = {
    {.name = "samples",
     .kind = CLI_INT,
     .at = offsetof(order_settings, samples),
     .value = "N",
     .about = "without a job: samples of the data set",
     .min = 1,
     .max = (int64_t)1 << 40},
    {.name = "shuffle",
     .kind = CLI_CHOICE,
     .at = offsetof(order_settings, shuffle),
     .value = "HOW",
     .about = "without a job: data.shuffle (exact)",
     .choices = order_shuffles},
    {.name = "seed",
     .kind = CLI_INT,
     .at = offsetof(order_settings, seed),
     .value = "S",
     .about = "without a job: run.seed (1)",
     .min = INT64_MIN + 1},
    {.name = "batch",
     .kind = CLI_INT,
     .at = offsetof(order_settings, batch),
     .value = "B",
     .about = "of a window order: train.batch (64)",
     .min = 1,
     .max = INT32_MAX},
    {.name = "block",
     .kind = CLI_INT,
     .at = offsetof(order_settings, block),
     .value = "ROWS",
     .about = "of a window order: samples of a chunk (256)",
     .min = 1,
     .max = (int64_t)1 << 40},
    {.name = "window",
     .kind = CLI_INT,
     .at = offsetof(order_settings, window),
     .value = "W",
     .about = "of a window order: blocks that a lane shuffles at a time (1)",
     .min = 1,
     .max = INT32_MAX},
    {.name = "epoch",
     .kind = CLI_INT,
     .at = offsetof(order_settings, epoch),
     .value = "E",
     .about = "epoch, from 1 (1)",
     .min = 1},
    {.name = "head",
     .kind = CLI_INT,
     .at = offsetof(order_settings, head),
     .value = "K",
     .about = "only the first K (all)",
     .min = 1},
    {.name = "set",
     .kind = CLI_LIST,
     .at = offsetof(order_settings, set),
     .value = "KEY=VALUE",
     .about = "with a job: sets a key of it"},
    {NULL},
};

const cli_verb cli_data_order = {
    .name = "data order",
    .args = "[JOB]",
    .about = "the order of samples in an epoch, one index a line",
    .max_args = 1,
    .options = order_options,
    .size = sizeof(order_settings),
    .defaults = &order_defaults,
    .run = run_order,
};
