/* export: the weights of a checkpoint as a file for other programs. */
#include <string.h>
#include <trireme/train.h>

#include "cli.h"

static const char *const formats[] = {"safetensors", "hdf5", NULL};
static const char *const suffix[] = {".safetensors", ".h5"};

typedef struct settings {
    int to;
    const char *out;
} settings;

/* "runs/x/checkpoints/step-00000120/" -> "step-00000120.safetensors" */
static void default_name(const char *path, int format, trm_str *out) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t begin = n;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    trm_str_addn(out, path + begin, n - begin);
    trm_str_add(out, "%s", suffix[format]);
}

static trm_status run(const cli_call *call) {
    const settings *s = call->set;
    trm_str name = {0};
    ui_begin(false);
    TRM_TRY(cli_check_checkpoint(call->arg[0]));
    if (s->out)
        trm_str_add(&name, "%s", s->out);
    else
        default_name(call->arg[0], s->to, &name);
    trm_status status =
        name.failed ? TRM_MEMORY : trm_checkpoint_export(call->arg[0], (trm_export_format)s->to, name.p);
    if (status == TRM_OK) {
        ui_print("wrote ");
        ui_print(name.p);
        ui_print("\n");
    }
    trm_str_free(&name);
    return status;
}

static const cli_option options[] = {
    {.name = "to",
     .kind = CLI_CHOICE,
     .at = offsetof(settings, to),
     .about = "format of the file",
     .choices = formats,
     .required = true},
    {.name = "out",
     .kind = CLI_TEXT,
     .at = offsetof(settings, out),
     .value = "FILE",
     .about = "name of the file (the checkpoint's name in this folder)"},
    {NULL},
};

const cli_verb cli_export = {
    .name = "export",
    .args = "CHECKPOINT",
    .about = "writes the weights of a checkpoint as safetensors or HDF5",
    .min_args = 1,
    .max_args = 1,
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
