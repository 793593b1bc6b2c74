/* inputs: files named on the command line, looked at before the work. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <trireme/launch.h>

#include "cli.h"

trm_status cli_check_checkpoint(const char *path) {
    struct stat st;
    char why[128];
    if (stat(path, &st) != 0)
        return trm_fail(TRM_USAGE, "cannot read the checkpoint %s: %s", path,
                        strerror_r(errno, why, sizeof why));
    if (S_ISDIR(st.st_mode)) return TRM_OK;
    return trm_fail(TRM_USAGE, "%s is no checkpoint: it is no folder", path);
}

trm_status cli_check_log(const char *path, const char *job) {
    /* Rank 0 alone writes it; others may not see its folder. */
    if (!path || trm_launch_rank() != 0) return TRM_OK;
    TRM_TRY(trm_output_check(path, NULL));
    return trm_output_apart(path, &job, 1);
}
