/* folder: the run's folder.  Only rank 0 writes.  A lock that dies with its process keeps two runs
 * out of one folder; a new run never writes into the folder of another. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_impl.h"
#include "run_impl.h"
#include "yaml_tree.h"

#define MOST_RUNS 9999
#define METRICS_LIMIT ((size_t)4 << 30)
#define LOCK ".lock"

/* ---- names ---- */

/* runs/NAME, runs/NAME-2, ... */
static trm_status numbered(const trm_job *j, int k, char out[TRM_RUN_PATH]) {
    int n = k == 1 ? snprintf(out, TRM_RUN_PATH, "%s/%s", j->run.dir, j->run.name)
                   : snprintf(out, TRM_RUN_PATH, "%s/%s-%d", j->run.dir, j->run.name, k);
    if (n < TRM_RUN_PATH - 64) return TRM_OK;
    return trm_fail(TRM_JOB, "run.dir and run.name make a path that is too long");
}

/* Is there anything in it but a lock? */
static bool is_used(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0) return false;
    DIR *d = opendir(path);
    if (!d) return true;
    bool used = false;
    for (struct dirent *e = readdir(d); e && !used; e = readdir(d))
        used = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && strcmp(e->d_name, LOCK) != 0;
    closedir(d);
    return used;
}

static bool has_checkpoints(const char *path) {
    char folder[TRM_RUN_PATH + 16];
    int64_t *update = NULL;
    int n = 0;
    snprintf(folder, sizeof folder, "%s/checkpoints", path);
    if (trm_ckpt_list(folder, &update, &n) != TRM_OK) return false;
    trm_free(update);
    return n > 0;
}

/* ---- the lock ---- */

/* *fd stays -1 where another run holds it. */
static trm_status take_lock(const char *path, int *fd) {
    char name[TRM_RUN_PATH + 16], text[64];
    snprintf(name, sizeof name, "%s/" LOCK, path);
    int f = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (f < 0) return trm_fail(TRM_IO, "cannot open %s: %s", name, strerror(errno));
    if (flock(f, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            close(f);
            return TRM_OK;
        }
        /* File systems without locks: better no lock than no run. */
        trm_log(TRM_LOG_WARN, "cannot lock %s: %s", name, strerror(errno));
    }
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(f, 0) == 0) (void)!write(f, text, (size_t)n);
    *fd = f;
    return TRM_OK;
}

static trm_status refuse_locked(const char *path) {
    char name[TRM_RUN_PATH + 16], *pid = NULL;
    snprintf(name, sizeof name, "%s/" LOCK, path);
    if (trm_read_file(name, 64, &pid, NULL) != TRM_OK) pid = NULL;
    trm_fail(TRM_RUN, "the run folder %s is in use by process %.*s", path, pid ? (int)strcspn(pid, "\n") : 1,
             pid && *pid ? pid : "?");
    trm_hint("wait until it ends, or give this run another run.name");
    trm_free(pid);
    return TRM_RUN;
}

/* ---- finding what to resume ---- */

#define JOB_LIMIT ((size_t)64 << 20)

/* What run.name is in a job.yaml? One that cannot be read tells nothing against it. */
static bool has_name(const char *text, size_t n, const char *name) {
    trm_yaml *tree = NULL;
    if (trm_yaml_parse("job.yaml", text, n, &tree) != TRM_OK) return true;
    const trm_yaml_pair *p = trm_yaml_find(tree->root, "run.name");
    bool same = !p || p->value->kind != TRM_YAML_TEXT || strcmp(p->value->text, name) == 0;
    trm_yaml_free(tree);
    return same;
}

/* The second folder of run a and the first one of run a-2 have one name: the settings tell which it is. */
static bool is_of_run(const char *path, const char *name) {
    char job[TRM_RUN_PATH + 16], *text = NULL;
    size_t n = 0;
    snprintf(job, sizeof job, "%s/job.yaml", path);
    if (trm_read_file(job, JOB_LIMIT, &text, &n) != TRM_OK) return true;
    bool same = has_name(text, n, name);
    trm_free(text);
    return same;
}

/* The highest-numbered folder of this run that holds checkpoints. */
static trm_status newest_of_run(const trm_job *j, char out[TRM_RUN_PATH]) {
    char path[TRM_RUN_PATH];
    struct stat st;
    bool found = false;
    for (int k = 1; k <= MOST_RUNS; k++) {
        TRM_TRY(numbered(j, k, path));
        if (stat(path, &st) != 0) break;
        if (!has_checkpoints(path) || !is_of_run(path, j->run.name)) continue;
        memcpy(out, path, sizeof path);
        found = true;
    }
    if (found) return TRM_OK;
    trm_fail(TRM_USAGE, "there is no checkpoint to resume from in %s/%s", j->run.dir, j->run.name);
    trm_hint("leave --resume out to start anew");
    return TRM_USAGE;
}

trm_status trm_folder_find(const trm_job *j, const char *resume, char from[TRM_RUN_PATH], bool *same_folder) {
    if (!*resume) {
        *same_folder = true;
        return newest_of_run(j, from);
    }
    if (strlen(resume) >= TRM_RUN_PATH - 64) return trm_fail(TRM_USAGE, "the path of --resume is too long");
    memcpy(from, resume, strlen(resume) + 1);
    size_t n = strlen(from);
    while (n > 1 && from[n - 1] == '/') from[--n] = '\0';
    *same_folder = has_checkpoints(from);
    return TRM_OK;
}

/* ---- metrics of an earlier part ---- */

/* Numbers of updates that come again are dropped, and a last line that was torn by a kill. */
static bool keeps(const char *line, size_t n, int64_t update) {
    json_t *j = json_loadb(line, n, 0, NULL);
    json_t *u = json_object_get(j, "update");
    bool keep = json_is_object(j) && (!json_is_integer(u) || json_integer_value(u) <= update);
    json_decref(j);
    return keep;
}

static trm_status cut_metrics(const char *path, int64_t update) {
    char *text = NULL;
    size_t n = 0, kept = 0;
    if (access(path, F_OK) != 0) return TRM_OK;
    TRM_TRY(trm_read_file(path, METRICS_LIMIT, &text, &n));
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t line = end ? (size_t)(end - text) - at + 1 : n - at;
        if (end && keeps(text + at, line - 1, update)) {
            memmove(text + kept, text + at, line);
            kept += line;
        }
        at += line;
    }
    trm_status status = trm_write_file(path, text, kept);
    trm_free(text);
    return status;
}

/* Checkpoints later than the one resumed from could not be read: out of the way of the new ones. */
static trm_status set_aside(const char *checkpoints, int64_t update) {
    int64_t *list = NULL;
    int n = 0;
    TRM_TRY(trm_ckpt_list(checkpoints, &list, &n));
    trm_status status = TRM_OK;
    for (int i = 0; i < n && status == TRM_OK; i++) {
        char path[TRM_CKPT_PATH], damaged[TRM_CKPT_PATH + 64];
        if (list[i] <= update) continue;
        status = trm_ckpt_step_path(checkpoints, list[i], path);
        snprintf(damaged, sizeof damaged, "%s/damaged-%08lld", checkpoints, (long long)list[i]);
        if (status == TRM_OK) status = trm_remove_tree(damaged);
        if (status == TRM_OK && rename(path, damaged) != 0)
            status = trm_fail(TRM_IO, "cannot rename %s: %s", path, strerror(errno));
    }
    trm_free(list);
    return status;
}

/* ---- opening ---- */

static trm_status open_new(const trm_job *j, trm_run_folder *f) {
    for (int k = 1; k <= MOST_RUNS && f->lock < 0; k++) {
        TRM_TRY(numbered(j, k, f->path));
        if (is_used(f->path)) continue;
        TRM_TRY(trm_make_dirs(f->path));
        TRM_TRY(take_lock(f->path, &f->lock));
        if (f->lock < 0 || !is_used(f->path)) continue;
        /* Another run was faster. */
        close(f->lock);
        f->lock = -1;
    }
    if (f->lock >= 0) return TRM_OK;
    return trm_fail(TRM_IO, "cannot find a free folder for the run below %s", j->run.dir);
}

static trm_status open_same(const char *from, trm_run_folder *f) {
    snprintf(f->path, sizeof f->path, "%s", from);
    f->resumed = true;
    TRM_TRY(take_lock(f->path, &f->lock));
    return f->lock >= 0 ? TRM_OK : refuse_locked(f->path);
}

static trm_status write_job(const trm_job *j, const trm_run_folder *f) {
    char path[TRM_RUN_PATH + 16];
    trm_str yaml = {0};
    snprintf(path, sizeof path, "%s/job.yaml", f->path);
    trm_status status = trm_job_write(j, &yaml);
    if (status == TRM_OK)
        status = yaml.failed ? TRM_MEMORY : trm_write_file(path, trm_str_get(&yaml), yaml.len);
    trm_str_free(&yaml);
    return status;
}

static trm_status open_append(const char *path, int flags, int *fd) {
    *fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0666);
    if (*fd >= 0) return TRM_OK;
    return trm_fail(TRM_IO, "cannot write %s: %s", path, strerror(errno));
}

static trm_status fill(const trm_job *j, int64_t update, trm_run_folder *f) {
    char metrics[TRM_RUN_PATH + 16];
    snprintf(f->checkpoints, sizeof f->checkpoints, "%s/checkpoints", f->path);
    snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", f->path);
    TRM_TRY(trm_make_dirs(f->checkpoints));
    TRM_TRY(trm_ckpt_sweep(f->checkpoints));
    if (f->resumed) TRM_TRY(set_aside(f->checkpoints, update));
    if (f->resumed) TRM_TRY(cut_metrics(metrics, update));
    TRM_TRY(write_job(j, f));
    return open_append(metrics, 0, &f->metrics);
}

trm_status trm_folder_open(const trm_job *j, const char *from, int64_t update, const char *losses,
                           trm_run_folder *out) {
    *out = (trm_run_folder){.lock = -1, .metrics = -1, .losses = -1};
    trm_status status = from ? open_same(from, out) : open_new(j, out);
    if (status == TRM_OK) status = fill(j, update, out);
    if (status == TRM_OK && losses) status = open_append(losses, O_TRUNC, &out->losses);
    if (status != TRM_OK) trm_folder_close(out);
    return status;
}

void trm_folder_close(trm_run_folder *f) {
    if (f->metrics >= 0) close(f->metrics);
    if (f->losses >= 0) close(f->losses);
    if (f->lock >= 0) close(f->lock);
    f->metrics = f->losses = f->lock = -1;
}

/* One write a line: a reader sees whole lines. */
void trm_folder_metric(trm_run_folder *f, trm_record *r) {
    if (f->metrics < 0 || f->metrics_failed) return;
    (void)trm_record_end(r);
    trm_str_addn(&r->text, "\n", 1);
    if (!r->text.failed && write(f->metrics, r->text.p, r->text.len) == (ssize_t)r->text.len) return;
    /* No more lines: the torn one stays the last, where a reader expects it. */
    f->metrics_failed = true;
    trm_log(TRM_LOG_WARN, "cannot write %s/metrics.jsonl: %s; the run goes on without", f->path,
            strerror(errno));
}
