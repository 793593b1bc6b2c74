/* info: what was built and found, or what a checkpoint holds. */
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <trireme/train.h>

#include "cli.h"

/* ---- this program ---- */

static void back_ends(trm_str *t) {
    for (int i = 0; trm_backends()[i]; i++) {
        const trm_backend *b = trm_backends()[i];
        trm_device *d = NULL;
        bool works = trm_device_open(b->name, 1, &d) == TRM_OK;
        trm_str_add(t, "back end %-6s %s\n", b->name, works ? d->about : trm_error_text());
        trm_device_close(d);
    }
}

/* The files behind the libraries that were named at the build: their names carry the version. */
static int add_library(struct dl_phdr_info *info, size_t size, void *text) {
    static const char *const wanted[] = {"libdnnl", "libhdf5",  "libmpi.", "libjansson",
                                         "libyaml", "libhwloc", "libz.",   "libgomp"};
    const char *slash = strrchr(info->dlpi_name, '/'), *base = slash ? slash + 1 : info->dlpi_name;
    (void)size;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (strncmp(base, wanted[i], strlen(wanted[i])) != 0) continue;
        char file[PATH_MAX];
        trm_str_add(text, "library         %s\n", realpath(info->dlpi_name, file) ? file : info->dlpi_name);
    }
    return 0;
}

static void about_program(trm_str *t) {
    trm_str_add(t, "trireme         " TRM_VERSION "\n");
    back_ends(t);
    dl_iterate_phdr(add_library, t);
}

/* ---- the verb ---- */

static trm_status run(const cli_call *call) {
    trm_str text = {0};
    trm_status status = TRM_OK;
    ui_begin(false);
    if (call->args == 0)
        about_program(&text);
    else if ((status = cli_check_checkpoint(call->arg[0])) == TRM_OK)
        status = trm_checkpoint_info(call->arg[0], &text);
    if (status == TRM_OK) ui_print(trm_str_get(&text));
    trm_str_free(&text);
    return status;
}

const cli_verb cli_info = {
    .name = "info",
    .args = "[CHECKPOINT]",
    .about = "what was built and found, or what a checkpoint holds",
    .max_args = 1,
    .run = run,
};
