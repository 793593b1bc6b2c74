/* stats: mean, spread and range of each channel, and how many samples each class has. */
#include <string.h>
#include <trireme/make.h>

#include "job_file.h"
#include "made.h"

#define MOST_LINES 16 /* of channels, and of classes, that are shown */

typedef struct settings {
    const char *input, *target, *out;
    int layout;
    bool floats, no_target, untrusted;
    cli_list set;
} settings;

static const char *const layouts[] = {"chw", "hwc", NULL};

typedef struct numbers {
    trm_data_stats of;
    int64_t samples, classes, *class_count;
} numbers;

static void add_channels(const trm_data_stats *s, trm_str *text) {
    trm_str_add(text, "  channel         mean          std          min          max\n");
    for (int64_t k = 0; k < s->channels && k < MOST_LINES; k++)
        trm_str_add(text, "  %7lld %12.6g %12.6g %12.6g %12.6g\n", (long long)k, s->mean[k], s->std[k],
                    s->min[k], s->max[k]);
    if (s->channels > MOST_LINES)
        trm_str_add(text, "  ... and %lld more\n", (long long)(s->channels - MOST_LINES));
}

static void add_classes(const numbers *s, trm_str *text) {
    if (s->classes == 0) return;
    int64_t least = 0, most = 0;
    for (int64_t k = 1; k < s->classes; k++) {
        if (s->class_count[k] < s->class_count[least]) least = k;
        if (s->class_count[k] > s->class_count[most]) most = k;
    }
    trm_str_add(text, "  samples of %lld classes:", (long long)s->classes);
    for (int64_t k = 0; k < s->classes && k < MOST_LINES; k++)
        trm_str_add(text, " %lld", (long long)s->class_count[k]);
    trm_str_add(text, "%s; fewest %lld (class %lld), most %lld (class %lld)\n",
                s->classes > MOST_LINES ? " ..." : "", (long long)s->class_count[least], (long long)least,
                (long long)s->class_count[most], (long long)most);
}

static void say(const char *name, const numbers *s, const char *out) {
    trm_str text = {0};
    trm_str_add(&text, "%s: %lld samples, %lld values a channel\n", name, (long long)s->samples,
                (long long)s->of.count);
    add_channels(&s->of, &text);
    add_classes(s, &text);
    if (out) {
        trm_str_add(&text, "wrote %s: mean, std, min, max of %lld channels\n  data: {stats: ", out,
                    (long long)s->of.channels);
        made_yaml(out, &text);
        trm_str_add(&text, "}\n");
    }
    ui_print(trm_str_get(&text));
    trm_str_free(&text);
}

static trm_status count(const trm_data_spec *spec, numbers *s) {
    trm_dataset *d = NULL;
    TRM_TRY(trm_dataset_open(spec, &d));
    s->samples = trm_dataset_info(d)->samples;
    trm_status status = trm_dataset_stats(d, NULL, NULL, &s->of);
    if (status == TRM_OK) status = trm_class_counts(d, &s->class_count, &s->classes);
    trm_dataset_close(d);
    return status;
}

static trm_status take(const char *name, const trm_data_spec *spec, const char *out) {
    numbers s = {0};
    if (out) TRM_TRY(trm_output_apart(out, spec->files, spec->n_files));
    trm_status status = count(spec, &s);
    if (status == TRM_OK && out) status = trm_stats_write(&s.of, s.class_count, s.classes, out);
    if (status == TRM_OK) say(name, &s, out);
    trm_data_stats_free(&s.of);
    trm_free(s.class_count);
    return status;
}

static trm_status of_job(const cli_call *call, const settings *s) {
    trm_job *job = NULL;
    if (call->args > 1)
        return trm_fail(TRM_USAGE, "'%.60s' stands behind a job file; allowed is one job", call->arg[1]);
    if (s->input || s->target || s->floats || s->no_target || s->layout || s->untrusted) {
        trm_fail(TRM_USAGE, "options that say how a file is read are given with a job, which says it itself");
        trm_hint("set the key: --set data.KEY=VALUE");
        return TRM_USAGE;
    }
    TRM_TRY(job_read(call->arg[0], &s->set, &job));
    trm_data_spec spec = trm_job_data_spec(job, false);
    trm_status status = take("data.train", &spec, s->out);
    trm_job_free(job);
    return status;
}

static trm_status run(const cli_call *call) {
    const settings *s = call->set;
    ui_begin(false);
    if (job_is_name(call->arg[0])) return of_job(call, s);
    if (s->set.n > 0)
        return trm_fail(TRM_USAGE,
                        "--set is given with %s; it is allowed with a job file (.yaml or .yml) only",
                        call->arg[0]);
    trm_data_spec spec = {.files = (const char *const *)call->arg,
                          .n_files = call->args,
                          .input = s->input,
                          .target = s->target,
                          .hwc = s->layout == 1,
                          .float_target = s->floats,
                          .no_target = s->no_target,
                          .untrusted = s->untrusted};
    trm_status status = take(call->arg[0], &spec, s->out);
    if (status != TRM_OK) job_hint_options();
    return status;
}

static const cli_option options[] = {
    {.name = "out",
     .kind = CLI_TEXT,
     .at = offsetof(settings, out),
     .value = "FILE",
     .about = "HDF5 file to write: mean, std, min, max (float64, (C)), count, class_count (none)"},
    {.name = "input",
     .kind = CLI_TEXT,
     .at = offsetof(settings, input),
     .value = "PATH",
     .about = "path of the inputs inside the file (found by common names)"},
    {.name = "target",
     .kind = CLI_TEXT,
     .at = offsetof(settings, target),
     .value = "PATH",
     .about = "path of the targets inside the file (likewise)"},
    {.name = "layout",
     .kind = CLI_CHOICE,
     .at = offsetof(settings, layout),
     .about = "images are stored (N,C,H,W) or (N,H,W,C) (chw)",
     .choices = layouts},
    {.name = "float-target",
     .kind = CLI_FLAG,
     .at = offsetof(settings, floats),
     .about = "targets are numbers to regress, not classes"},
    {.name = "no-target",
     .kind = CLI_FLAG,
     .at = offsetof(settings, no_target),
     .about = "looks at the inputs alone"},
    {.name = "untrusted",
     .kind = CLI_FLAG,
     .at = offsetof(settings, untrusted),
     .about = "the file comes from a stranger: see data.untrusted of a job"},
    {.name = "set",
     .kind = CLI_LIST,
     .at = offsetof(settings, set),
     .value = "KEY=VALUE",
     .about = "with a job: sets a key of it"},
    {NULL},
};

const cli_verb cli_data_stats = {
    .name = "data stats",
    .args = "FILE...|JOB",
    .about = "mean, std, min and max of each channel, and samples of each class",
    .more =
        "Channels are C of (C,H,W), and the last dim of (F) and (T,C).  Numbers are those of the file: bytes "
        "are\n"
        "0 to 255.  std is that of all values, divided by their number.  Of a job, data.train is taken.\n",
    .min_args = 1,
    .max_args = -1,
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
