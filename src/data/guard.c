/* guard: files of strangers.
 *
 * No released HDF5 library opens a hostile file safely.  So a child process does, the program itself run anew with limits on
 * memory, time and files: it opens the set by stricter rules, reads every byte of it, and hands out the plan.  The parent
 * holds the plan against what it asked for and against the rules of plans, and then reads with pread and its own decoding:
 * it never calls the library for these files.  Whatever the child dies of is one sentence. */
#include "data_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_RANK 8
#define MOST_CHUNK (64 * TRM_MIB)
#define MOST_GROWTH 1000           /* claimed bytes to stored ones */
#define CHILD_MEMORY (2 * TRM_GIB) /* beyond what the program itself takes */
#define CHILD_SECONDS 30           /* and one more for each of these bytes */
#define BYTES_A_SECOND (10 * TRM_MIB)
#define MOST_REPLY (512 * TRM_MIB)

extern char **environ;

/* ---- stricter rules, in the child ---- */

static trm_status judge_filters(const char *path, const char *name, const trm_h5_facts *x) {
    for (int i = 0; i < x->n_filters; i++) {
        int id = x->filter[i].id;
        if (id == TRM_FILTER_DEFLATE || id == TRM_FILTER_SHUFFLE || id == TRM_FILTER_FLETCHER ||
            id == TRM_FILTER_LZF)
            continue;
        trm_status s = trm_fail(TRM_DATA,
                                "%s: '%s' has the filter %s; untrusted files may have gzip, shuffle, "
                                "fletcher32 and lzf",
                                path, name, trm_filter_text(&x->filter[i]));
        trm_hint("convert it on a machine that nothing can harm: h5repack -f GZIP=1 in.h5 out.h5");
        return s;
    }
    return TRM_OK;
}

static trm_status judge_size(const char *path, const char *name, const trm_h5_facts *x) {
    uint64_t claim = x->type_bytes, chunk;
    char a[16], b[16];
    for (int i = 0; i < x->rank; i++)
        if (__builtin_mul_overflow(claim, (uint64_t)x->dim[i], &claim)) claim = UINT64_MAX;
    if (claim / MOST_GROWTH > x->stored)
        return trm_fail(TRM_DATA, "%s: '%s' claims %s but stores %s; untrusted files may grow %d times", path,
                        name, trm_human_bytes((double)claim, a, sizeof a),
                        trm_human_bytes((double)x->stored, b, sizeof b), MOST_GROWTH);
    if (x->layout != TRM_H5_CHUNKED) return TRM_OK;
    chunk = x->type_bytes;
    for (int i = 0; i < x->rank; i++)
        if (__builtin_mul_overflow(chunk, (uint64_t)x->chunk[i], &chunk)) chunk = UINT64_MAX;
    if (chunk <= MOST_CHUNK) return TRM_OK;
    return trm_fail(TRM_DATA, "%s: '%s' has chunks of %s; untrusted files may have up to %s", path, name,
                    trm_human_bytes((double)chunk, a, sizeof a),
                    trm_human_bytes((double)MOST_CHUNK, b, sizeof b));
}

trm_status trm_guard_facts(const char *path, const char *name, const trm_h5_facts *x) {
    if (x->rank > MOST_RANK)
        return trm_fail(TRM_DATA, "%s: '%s' has %d dimensions; untrusted files may have %d", path, name,
                        x->rank, MOST_RANK);
    TRM_TRY(judge_filters(path, name, x));
    return judge_size(path, name, x);
}

trm_status trm_guard_layout(const char *path, const char *name, const trm_stretch *p) {
    if (p->layout == TRM_LAY_CONTIGUOUS || p->layout == TRM_LAY_CHUNKED) return TRM_OK;
    trm_status s = trm_fail(
        TRM_DATA, "%s: '%s' can only be read by the HDF5 library; untrusted files are not", path, name);
    trm_hint("plain contiguous data, or up to %lld chunks, are read without it",
             (long long)TRM_H5_TABLE_LIMIT);
    return s;
}

/* ---- messages: words of 8 bytes, and bytes with their number in front ---- */

static void put(trm_str *s, int64_t v) { trm_str_addn(s, (const char *)&v, sizeof v); }

static void put_bytes(trm_str *s, const void *bytes, size_t n) {
    put(s, (int64_t)n);
    trm_str_addn(s, bytes ? bytes : "", n);
}

/* NULL is not the empty text. */
static void put_text(trm_str *s, const char *text) {
    put(s, text != NULL);
    if (text) put_bytes(s, text, strlen(text));
}

typedef struct source {
    const char *p;
    size_t left;
    bool bad;
} source;

static int64_t get(source *s) {
    int64_t v = 0;
    if (s->left < sizeof v) {
        s->bad = true;
        return 0;
    }
    memcpy(&v, s->p, sizeof v);
    s->p += sizeof v;
    s->left -= sizeof v;
    return v;
}

static const char *get_bytes(source *s, size_t *n) {
    int64_t count = get(s);
    const char *at = s->p;
    *n = 0;
    if (s->bad || count < 0 || (uint64_t)count > s->left) {
        s->bad = true;
        return "";
    }
    *n = (size_t)count;
    s->p += count;
    s->left -= (size_t)count;
    return at;
}

static char *get_text(source *s) {
    size_t n;
    if (get(s) == 0) return NULL;
    const char *at = get_bytes(s, &n);
    char *text = trm_alloc(n + 1, "a text");
    if (text)
        memcpy(text, at, n);
    else
        s->bad = true;
    return text;
}

static bool send_all(int fd, const void *bytes, size_t n) {
    const char *at = bytes;
    while (n > 0) {
        ssize_t k = send(fd, at, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        at += k;
        n -= (size_t)k;
    }
    return true;
}

/* ---- the child ---- */

enum { SAYS_FILE = 1, SAYS_WARNING, SAYS_FAULT, SAYS_PLAN };

static void say(int fd, int64_t what, const void *bytes, size_t n) {
    trm_str s = {0};
    put(&s, what);
    put_bytes(&s, bytes, n);
    if (!s.failed) (void)send_all(fd, s.p, s.len);
    trm_str_free(&s);
}

void trm_guard_opening(int fd, const char *path) { say(fd, SAYS_FILE, path, strlen(path)); }

static void say_warning(void *ctx, trm_log_level level, const char *line) {
    if (level <= TRM_LOG_WARN) say(*(int *)ctx, SAYS_WARNING, line, strlen(line));
}

static void say_fault(int fd, trm_status status) {
    trm_str s = {0};
    put(&s, status);
    put_text(&s, trm_error_text());
    put_text(&s, trm_error_hint());
    if (!s.failed) say(fd, SAYS_FAULT, s.p, s.len);
    trm_str_free(&s);
}

/* Address space that the program itself takes. */
static size_t own_size(void) {
    int64_t pages = 0;
    char line[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    if (read(fd, line, sizeof line - 1) > 0) {
        line[strcspn(line, " ")] = '\0';
        (void)trm_parse_int(line, &pages);
    }
    close(fd);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void set_limits(int64_t seconds) {
    const struct rlimit none = {0, 0}, cpu = {(rlim_t)seconds, (rlim_t)seconds + 5};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_FSIZE, &none);
    setrlimit(RLIMIT_CPU, &cpu);
    /* The shadow of a sanitizer is larger than any limit. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const rlim_t size = own_size() + CHILD_MEMORY;
    const struct rlimit memory = {size, size};
    setrlimit(RLIMIT_AS, &memory);
#endif
}

typedef struct question {
    trm_data_spec spec;
    char *input, *target, **file;
    trm_label *label;
    int64_t seconds;
} question;

static void put_question(trm_str *s, const trm_data_spec *x, int64_t seconds) {
    int64_t word[] = {seconds,      x->kind,  x->hwc,   x->window, x->classes,    x->float_target,
                      x->no_target, x->first, x->count, x->on_bad, x->shape.rank, x->target_rows};
    trm_str_addn(s, (const char *)word, sizeof word);
    for (int i = 0; i < TRM_MAX_DIMS; i++) put(s, x->shape.dim[i]);
    put_text(s, x->input);
    put_text(s, x->target);
    put_bytes(s, x->label_map, (size_t)x->n_labels * sizeof *x->label_map);
    put(s, x->n_files);
    for (int i = 0; i < x->n_files; i++) put_text(s, x->files[i]);
}

static void get_labels(source *s, question *q) {
    size_t n;
    const char *at = get_bytes(s, &n);
    q->spec.n_labels = (int)(n / sizeof *q->label);
    q->label = trm_alloc(n + 1, "a map of labels");
    if (q->label)
        memcpy(q->label, at, n);
    else
        s->bad = true;
    q->spec.label_map = q->label;
}

static void get_question(source *s, question *q) {
    trm_data_spec *x = &q->spec;
    q->seconds = get(s);
    x->kind = (trm_data_kind)get(s);
    x->hwc = get(s);
    x->window = get(s);
    x->classes = get(s);
    x->float_target = get(s);
    x->no_target = get(s);
    x->first = get(s);
    x->count = get(s);
    x->on_bad = (trm_on_bad)get(s);
    x->shape.rank = (int)get(s);
    x->target_rows = (trm_target_rows)get(s);
    for (int i = 0; i < TRM_MAX_DIMS; i++) x->shape.dim[i] = get(s);
    x->input = q->input = get_text(s);
    x->target = q->target = get_text(s);
    get_labels(s, q);
    int64_t n = get(s);
    if (n < 0 || (uint64_t)n > s->left / 8) s->bad = true;
    q->file = s->bad ? NULL : trm_alloc_array((size_t)n + 1, sizeof *q->file, "names of files");
    if (!q->file) s->bad = true;
    for (int64_t i = 0; i < n && !s->bad; i++) {
        q->file[i] = get_text(s);
        x->n_files = (int)i + 1;
        if (!q->file[i]) s->bad = true;
    }
    x->files = (const char *const *)q->file;
}

static void free_question(question *q) {
    for (int i = 0; i < q->spec.n_files; i++) trm_free(q->file[i]);
    trm_free(q->file);
    trm_free(q->label);
    trm_free(q->input);
    trm_free(q->target);
}

static bool read_to_end(int fd, trm_str *out) {
    char buf[65536];
    for (;;) {
        ssize_t n = read(fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n == 0 && !out->failed;
        trm_str_addn(out, buf, (size_t)n);
        if (out->len > MOST_REPLY) return false;
    }
}

static trm_status answer(const trm_data_spec *spec, int fd) {
    trm_dataset *d = NULL;
    void *plan = NULL;
    size_t n = 0;
    TRM_TRY(trm_dataset_open_strictly(spec, fd, &d));
    trm_status s = trm_dataset_check(d);
    if (s == TRM_OK) s = trm_dataset_pack(d, &plan, &n);
    if (s == TRM_OK) say(fd, SAYS_PLAN, plan, n);
    trm_free(plan);
    trm_dataset_close(d);
    return s;
}

trm_status trm_dataset_guard(int fd) {
    trm_str text = {0};
    question q = {0};
    bool whole = read_to_end(fd, &text);
    source s = {trm_str_get(&text), text.len, !whole};
    get_question(&s, &q);
    if (s.bad) {
        trm_str_free(&text);
        free_question(&q);
        return trm_fail(TRM_USAGE, "this verb is for Trireme's own use: it reads no such question");
    }
    set_limits(q.seconds);
    trm_log_set(say_warning, &fd, TRM_LOG_WARN);
    q.spec.cache = TRM_CACHE_OFF;
    trm_status status = answer(&q.spec, fd);
    if (status != TRM_OK) say_fault(fd, status);
    trm_log_set(NULL, NULL, TRM_LOG_ERROR);
    free_question(&q);
    trm_str_free(&text);
    return TRM_OK;
}

/* ---- the parent ---- */

/* The child is to find its libraries, and no launcher. */
static char **child_environment(void) {
    static const char *const kept[] = {
        "PATH=", "LD_LIBRARY_PATH=", "TMPDIR=", "LANG=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS="};
    static char *own[] = {"OMP_NUM_THREADS=1", "GOMP_SPINCOUNT=1", "HDF5_PLUGIN_PRELOAD=::"};
    const size_t most = sizeof kept / sizeof *kept + sizeof own / sizeof *own + 1;
    char **env = trm_alloc_array(most, sizeof *env, "an environment");
    size_t n = 0;
    if (!env) return NULL;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) env[n++] = own[i];
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        for (char **e = environ; *e; e++) {
            if (strncmp(*e, kept[i], strlen(kept[i])) != 0) continue;
            env[n++] = *e;
            break;
        }
    return env;
}

typedef struct child {
    pid_t pid;
    int fd;
    char opening[4096]; /* the file that it opened last */
    int warnings;
    trm_status fault; /* that it told */
    bool done;        /* it gave a plan or a fault */
    trm_dataset *set;
} child;

static trm_status spawn(const char *program, child *c) {
    int pair[2], e;
    char why[128];
    posix_spawn_file_actions_t act;
    posix_spawnattr_t attr;
    sigset_t none, dflt;
    char *argv[] = {"trireme", "data", "guard", NULL}, **env = child_environment();
    if (!env) return TRM_MEMORY;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        trm_free(env);
        return trm_fail(TRM_MACHINE, "no pair of sockets: %s", strerror_r(errno, why, sizeof why));
    }
    sigemptyset(&none);
    sigemptyset(&dflt);
    for (int i = 1; i < 32; i++)
        if (i != SIGKILL && i != SIGSTOP) sigaddset(&dflt, i);
    posix_spawn_file_actions_init(&act);
    posix_spawn_file_actions_adddup2(&act, pair[1], 0);
    posix_spawn_file_actions_addopen(&act, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&act, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&act, 3);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigdefault(&attr, &dflt);
    posix_spawnattr_setsigmask(&attr, &none);
    e = posix_spawn(&c->pid, program, &act, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&act);
    trm_free(env);
    close(pair[1]);
    c->fd = pair[0];
    if (e == 0) return TRM_OK;
    close(c->fd);
    return trm_fail(TRM_MACHINE,
                    "untrusted files are opened by a process of their own, which cannot be started: %s",
                    strerror_r(e, why, sizeof why));
}

/* ---- what the child says ---- */

static trm_status hear_fault(const char *bytes, size_t n) {
    source s = {bytes, n, false};
    int64_t status = get(&s);
    char *text = get_text(&s), *hint = get_text(&s);
    trm_status r = status > TRM_OK && status <= TRM_INTERNAL ? (trm_status)status : TRM_DATA;
    if (text) trm_one_line(text);
    if (hint) trm_one_line(hint);
    if (r == TRM_MEMORY) r = TRM_DATA;
    r = trm_fail(r, "%s", text ? text : "the check of untrusted files failed");
    if (hint && *hint) trm_hint("%s", hint);
    trm_free(text);
    trm_free(hint);
    return r;
}

static void hear_warning(child *c, const char *bytes, size_t n) {
    char line[1024];
    if (c->warnings++ >= 100) return;
    snprintf(line, sizeof line, "%.*s", (int)trm_min64((int64_t)n, (int64_t)sizeof line - 1), bytes);
    trm_one_line(line);
    trm_log(TRM_LOG_WARN, "%s", line);
}

static trm_status hear(child *c, const trm_str *reply) {
    source s = {trm_str_get(reply), reply->len, false};
    trm_status status = TRM_OK;
    while (s.left > 0 && !c->done) {
        size_t n;
        int64_t what = get(&s);
        const char *bytes = get_bytes(&s, &n);
        if (s.bad) break; /* it died within a message */
        if (what == SAYS_FILE)
            snprintf(c->opening, sizeof c->opening, "%.*s", (int)trm_min64((int64_t)n, 4095), bytes);
        else if (what == SAYS_WARNING)
            hear_warning(c, bytes, n);
        else if (what == SAYS_FAULT)
            status = hear_fault(bytes, n), c->done = true;
        else if (what == SAYS_PLAN)
            status = trm_dataset_unpack(bytes, n, &c->set), c->done = true;
        else
            break;
    }
    trm_one_line(c->opening);
    return status;
}

/* Reads until the child closes its end or the time is over; false: it is over. */
static bool listen_until(child *c, double end, trm_str *reply) {
    char buf[65536];
    for (;;) {
        double left = end - trm_now();
        struct pollfd p = {c->fd, POLLIN, 0};
        int r = left > 0 ? poll(&p, 1, (int)(left * 1000) + 1) : 0;
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0 || reply->len > MOST_REPLY) return false;
        ssize_t n = read(c->fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return true;
        trm_str_addn(reply, buf, (size_t)n);
    }
}

/* A child that closed its end may still go on: it gets a second. */
static int reap(pid_t pid, bool kill_it) {
    int status = 0;
    for (int i = 0; i < 100 && !kill_it; i++) {
        pid_t r = waitpid(pid, &status, WNOHANG);
        if (r == pid || (r < 0 && errno != EINTR)) return r == pid ? status : 0;
        trm_sleep(0.01);
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

static trm_status ended_badly(const child *c, const char *first, int status, bool late, int64_t seconds) {
    const char *path = c->opening[0] ? c->opening : first;
    int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (late || sig == SIGXCPU)
        return trm_fail(TRM_DATA, "%s: to open and read the file takes more than %lld s: refused", path,
                        (long long)seconds);
    if (sig) return trm_fail(TRM_DATA, "%s: the file makes HDF5 crash (signal %d): refused", path, sig);
    return trm_fail(
        TRM_MACHINE,
        "untrusted files are opened by a process of their own, which ended with code %d and said nothing",
        WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* ---- does the plan answer the question? ---- */

static trm_status same_files(const trm_data_spec *spec, const trm_dataset *d) {
    trm_paths paths = {0};
    trm_status s = trm_paths_read(spec->files, spec->n_files, &paths);
    bool same = s == TRM_OK && paths.n == d->n_files;
    for (int i = 0; same && i < paths.n; i++) same = strcmp(paths.at[i].path, d->file[i].path) == 0;
    trm_paths_free(&paths);
    if (s != TRM_OK) return s;
    return same ? TRM_OK
                : trm_fail(TRM_DATA,
                           "the plan of an untrusted data set names other files than were asked for");
}

static bool own_decoding(const trm_column *c) {
    for (int i = 0; i < c->n_parts; i++)
        if (c->part[i].layout != TRM_LAY_CONTIGUOUS && c->part[i].layout != TRM_LAY_CHUNKED) return false;
    return true;
}

static trm_status judge_plan(const trm_data_spec *spec, const trm_dataset *d) {
    const trm_data_info *x = &d->info;
    TRM_TRY(same_files(spec, d));
    bool good = own_decoding(&d->x) && own_decoding(&d->y) && x->no_target == spec->no_target;
    good = good && (spec->classes == 0 || x->classes == spec->classes) && x->classes <= (int64_t)1 << 31;
    good = good && (spec->count == 0 || trm_rows(&d->x) == spec->count);
    return good ? TRM_OK
                : trm_fail(TRM_DATA, "the plan of an untrusted data set does not answer what was asked");
}

/* ---- all of it ---- */

static int64_t seconds_for(const trm_data_spec *spec) {
    trm_paths paths = {0};
    struct stat st;
    int64_t bytes = 0;
    trm_status s = trm_paths_read(spec->files, spec->n_files, &paths);
    for (int i = 0; s == TRM_OK && i < paths.n; i++)
        if (stat(paths.at[i].path, &st) == 0) bytes += st.st_size;
    trm_paths_free(&paths);
    return CHILD_SECONDS + bytes / (int64_t)BYTES_A_SECOND;
}

static trm_status ask(const trm_data_spec *spec, int64_t seconds, child *c) {
    trm_str text = {0}, reply = {0};
    put_question(&text, spec, seconds);
    if (text.failed) {
        trm_str_free(&text);
        return TRM_MEMORY;
    }
    trm_status s = spawn(spec->guard ? spec->guard : "/proc/self/exe", c);
    if (s != TRM_OK) {
        trm_str_free(&text);
        return s;
    }
    double end = trm_now() + (double)seconds;
    (void)send_all(c->fd, text.p, text.len);
    shutdown(c->fd, SHUT_WR);
    bool late = !listen_until(c, end, &reply);
    close(c->fd);
    int status = reap(c->pid, late);
    if (!late && !reply.failed) s = hear(c, &reply);
    if (!c->done) s = ended_badly(c, spec->n_files > 0 ? spec->files[0] : "", status, late, seconds);
    trm_str_free(&text);
    trm_str_free(&reply);
    return s;
}

/* Holes that are known to be closed in 1.14.4. */
static void warn_of_version(void) {
    if (trm_h5_library_before(1, 14, 4))
        trm_log(TRM_LOG_WARN,
                "untrusted files: %s has known holes, many of which version 1.14.4 closes; a process of its "
                "own opens them",
                trm_h5_library());
}

trm_status trm_guard_open(const trm_data_spec *spec, trm_dataset **out) {
    child c = {.fd = -1};
    warn_of_version();
    trm_status s = ask(spec, seconds_for(spec), &c);
    if (s == TRM_OK) s = judge_plan(spec, c.set);
    if (s == TRM_OK)
        *out = c.set;
    else
        trm_dataset_close(c.set);
    return s;
}
