/* ui: what the user sees.  A reader that goes away (`trireme ... | head`) ends the printing, not the
 * run; a disk that is full ends it with a code. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *log_file;
static trm_str early; /* lines from before there was a log file */
static bool quiet, bar_shown, out_gone;
static int out_errno;

/* Names of files may hold anything; a terminal must not obey them. */
static void clean(const char *text, char *out, size_t cap) {
    size_t i = 0;
    for (; text[i] && i + 1 < cap; i++) {
        unsigned char c = (unsigned char)text[i];
        out[i] = (c < 0x20 && c != '\t' && c != '\n') || c == 0x7F ? '?' : text[i];
    }
    out[i] = '\0';
}

static void put(const char *text) {
    if (out_gone || fputs(text, stdout) != EOF) return;
    out_gone = true;
    out_errno = errno;
}

static void flush(void) {
    if (out_gone || fflush(stdout) == 0) return;
    out_gone = true;
    out_errno = errno;
}

static void erase_bar(void) {
    if (bar_shown) put("\r\033[K");
    bar_shown = false;
}

#define EARLY_BYTES 65536

static void to_log(const char *prefix, const char *line) {
    if (!log_file && early.len < EARLY_BYTES) trm_str_add(&early, "%s%s\n", prefix, line);
    if (!log_file) return;
    fprintf(log_file, "%s%s\n", prefix, line);
    fflush(log_file);
}

static void show_bar(char *line) {
    struct winsize w;
    if (!ui_is_terminal() || quiet) return;
    size_t width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1u : 79;
    if (strlen(line) > width) line[width] = '\0';
    put("\r");
    put(line);
    put("\033[K");
    bar_shown = true;
}

static void show_line(const char *line) {
    erase_bar();
    to_log("", line);
    if (quiet) return;
    put(line);
    put("\n");
}

void ui_line(const char *line, bool transient) {
    char text[2048];
    clean(line, text, sizeof text);
    pthread_mutex_lock(&lock);
    if (transient)
        show_bar(text);
    else
        show_line(text);
    flush();
    pthread_mutex_unlock(&lock);
}

void ui_print(const char *text) {
    pthread_mutex_lock(&lock);
    erase_bar();
    put(text);
    flush();
    pthread_mutex_unlock(&lock);
}

/* Warnings go to stderr, whatever is quiet. */
static void on_log(void *ctx, trm_log_level level, const char *line) {
    char text[2048];
    (void)ctx;
    if (level > TRM_LOG_WARN) {
        ui_line(line, false);
        return;
    }
    clean(line, text, sizeof text);
    pthread_mutex_lock(&lock);
    erase_bar();
    flush();
    to_log("warning: ", text);
    fprintf(stderr, "trireme: warning: %s\n", text);
    pthread_mutex_unlock(&lock);
}

void ui_begin(bool be_quiet) {
    quiet = be_quiet;
    trm_log_set(on_log, NULL, TRM_LOG_INFO);
}

void ui_log_folder(const char *folder) {
    trm_str path = {0};
    trm_str_add(&path, "%s/log.txt", folder);
    pthread_mutex_lock(&lock);
    if (!path.failed && !log_file) log_file = fopen(path.p, "ae");
    if (log_file) fputs(trm_str_get(&early), log_file);
    trm_str_free(&early);
    pthread_mutex_unlock(&lock);
    trm_str_free(&path);
}

/* mpirun gives rank 0 a pseudo terminal, whatever its own output is: then what it has itself counts. */
static bool launcher_has_terminal(void) {
    char link[64], to[64] = "";
    if (!getenv("OMPI_COMM_WORLD_RANK") && !getenv("PMIX_RANK")) return true;
    snprintf(link, sizeof link, "/proc/%ld/fd/1", (long)getppid());
    if (readlink(link, to, sizeof to - 1) < 0) return false;
    return strncmp(to, "/dev/pts/", 9) == 0 || strncmp(to, "/dev/tty", 8) == 0;
}

bool ui_is_terminal(void) {
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && launcher_has_terminal();
}

void ui_fault(trm_status s) {
    char text[2048], hint[1024], all[4096];
    clean(trm_error_text()[0] ? trm_error_text() : trm_status_text(s), text, sizeof text);
    clean(trm_error_hint(), hint, sizeof hint);
    pthread_mutex_lock(&lock);
    erase_bar();
    flush();
    to_log(s == TRM_STOPPED ? "" : "error: ", text);
    if (hint[0]) to_log("hint: ", hint);
    snprintf(all, sizeof all, "trireme: %s\n%s%s%s", text, hint[0] ? "hint: " : "", hint,
             hint[0] ? "\n" : "");
    /* One write, so that the lines of ranks do not mix. */
    (void)!write(STDERR_FILENO, all, strlen(all));
    pthread_mutex_unlock(&lock);
}

int ui_end(int code) {
    pthread_mutex_lock(&lock);
    erase_bar();
    flush();
    if (log_file) fclose(log_file);
    log_file = NULL;
    trm_str_free(&early);
    pthread_mutex_unlock(&lock);
    if (code == 0 && out_gone && out_errno != EPIPE) {
        fprintf(stderr, "trireme: cannot write to stdout: %s\n", strerror(out_errno));
        return 1;
    }
    return code;
}
