/* ranks: what the verbs on many ranks share. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>
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

/* ---- the same words everywhere ---- */

/* A rank may have threads of its own. */
static bool is_local(const char *setting) {
    return strncmp(setting, "device.", 7) == 0 || strncmp(setting, "device=", 7) == 0;
}

/* The words of a call, each with a 0 behind it, but for what a rank may choose. */
static void join_words(const cli_call *call, trm_str *out) {
    for (int i = 0; i < call->words; i++) {
        const char *w = call->word[i];
        if (strcmp(w, "--set") == 0 && i + 1 < call->words && is_local(call->word[i + 1]))
            i++;
        else if (strncmp(w, "--set=", 6) != 0 || !is_local(w + 6))
            trm_str_addn(out, w, strlen(w) + 1);
    }
}

static trm_status compare_words(const trm_comm *c, const trm_str *mine, const char *first, size_t n) {
    const char *a = trm_str_get(mine), *b = first;
    if (mine->len == n && memcmp(a, b, n) == 0) return TRM_OK;
    while (a < mine->p + mine->len && b < first + n && strcmp(a, b) == 0)
        a += strlen(a) + 1, b += strlen(b) + 1;
    trm_status s = trm_fail(TRM_USAGE, "rank %d was started with '%.200s' where rank 0 has '%.200s'",
                            trm_comm_rank(c), a < mine->p + mine->len ? a : "", b < first + n ? b : "");
    trm_hint("all ranks take the same words; only settings of `device` may differ");
    return s;
}

/* Ranks that were told different things would wait for each other, or compute something that nobody asked for. Collective. */
static trm_status same_words(trm_comm *c, const cli_call *call) {
    trm_str mine = {0};
    void *first = NULL;
    join_words(call, &mine);
    size_t n = mine.len;
    trm_status status = trm_comm_agree(c, mine.failed ? TRM_MEMORY : TRM_OK);
    if (trm_comm_rank(c) == 0) first = mine.p;
    if (status == TRM_OK) status = trm_comm_bcast_block(c, &first, &n, 0);
    if (status == TRM_OK) status = trm_comm_agree(c, compare_words(c, &mine, first, n));
    if (trm_comm_rank(c) != 0) trm_free(first);
    trm_str_free(&mine);
    return status;
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
    trm_status status = same_words(c, call);
    if (status == TRM_OK) status = with_job(c, call, job, set, work);
    trm_launch_end(c);
    return status;
}
