/* ranks: what the verbs on many ranks share. */
#include "ranks.h"

#include <stdlib.h>
#include <trireme/launch.h>

#include "job_file.h"

static void print(void *ctx, const char *line, bool transient) {
    (void)ctx;
    ui_line(line, transient);
}

static void folder(void *ctx, const char *path) {
    (void)ctx;
    ui_log_folder(path);
}

/* Talk that failed is often only the echo of another rank's fault: that rank has the launcher end
 * us, and its sentence is to stay the only one.  False: it came so. */
static bool is_cause(const trm_comm *c) {
    const int rank = trm_comm_rank(c), before = trm_signals_seen();
    /* Known echoes wait longer than any rank that has a sentence of its own. */
    const int tenths = trm_comm_is_echo(c) ? 80 : 20 + 2 * (rank < 10 ? rank : 10);
    for (int i = 0; i < tenths; i++) {
        trm_sleep(0.1);
        if (trm_signals_seen() > before) return false;
    }
    return true;
}

/* The others wait for this rank in some sum: they cannot be told in order. */
static void alone(void *ctx, trm_status s) {
    trm_comm *c = ctx;
    if (s == TRM_COMM && !is_cause(c)) exit(trm_status_exit_code(s));
    trm_prefix(s, "rank %d on %s", trm_comm_rank(c), trm_comm_host(c, trm_comm_rank(c)));
    ui_fault(s);
    int code = ui_end(trm_status_exit_code(s));
    trm_comm_abort(c, code);
    exit(code);
}

trm_run_options ranks_options(trm_comm *c) {
    return (trm_run_options){.print = print, .folder = folder, .alone = alone, .print_ctx = c};
}

static trm_status with_job(trm_comm *c, const cli_call *call, const char *path, const cli_list *set,
                           trm_status (*work)(trm_comm *c, const trm_job *job, const cli_call *call)) {
    trm_job *job = NULL;
    trm_status status = job_read_ranks(c, path, set, &job);
    if (status == TRM_OK) status = work(c, job, call);
    trm_job_free(job);
    return status;
}

trm_status ranks_run(const cli_call *call, const char *job, const cli_list *set, bool quiet,
                     trm_status (*work)(trm_comm *c, const trm_job *job, const cli_call *call)) {
    trm_comm *c = NULL;
    TRM_TRY(job_precheck(job, set));
    TRM_TRY(trm_launch_begin(&c));
    if (trm_comm_rank(c) == 0) ui_begin(quiet);
    trm_status status = with_job(c, call, job, set, work);
    trm_launch_end(c);
    return status;
}
