/* support: what tests share. */
#include "support.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Test programs print through a pipe: what one printed before it died has to be seen. */
__attribute__((constructor)) static void print_by_lines(void) { setvbuf(stdout, NULL, _IOLBF, 0); }

/* ---- files ---- */

static char dir[256];
static pid_t dir_owner;

static void remove_dir(void) {
    if (dir[0] && getpid() == dir_owner) (void)!trm_remove_tree(dir);
}

const char *support_dir(void) {
    if (dir[0]) return dir;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/trireme-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) {
        fprintf(stderr, "# cannot make the folder %s\n", dir);
        abort();
    }
    dir_owner = getpid();
    atexit(remove_dir);
    return dir;
}

const char *support_path(const char *name) {
    static char path[8][512];
    static unsigned turn;
    char *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", support_dir(), name);
    return p;
}

const char *support_file(const char *name, const char *text) {
    const char *path = support_path(name);
    assert_ok(trm_write_file(path, text, strlen(text)));
    return path;
}

/* ---- clock ---- */

static double fake_now;

static double read_fake(void) { return fake_now; }

void support_clock_start(double now) {
    fake_now = now;
    trm_clock_replace(read_fake);
}

void support_clock_advance(double seconds) { fake_now += seconds; }
void support_clock_stop(void) { trm_clock_replace(NULL); }

/* ---- numbers ---- */

static double ratio(double difference, double norm) {
    return sqrt(norm > 0 ? difference / norm : difference);
}

double support_error_f32(const float *got, const double *want, int64_t n) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)got[i] - want[i];
        difference += d * d;
        norm += want[i] * want[i];
    }
    return ratio(difference, norm);
}

double support_error_f64(const double *got, const double *want, int64_t n) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = got[i] - want[i];
        difference += d * d;
        norm += want[i] * want[i];
    }
    return ratio(difference, norm);
}

/* ---- assertions ---- */

void support_assert_ok(trm_status s, const char *what, const char *file, int line) {
    if (s == TRM_OK) return;
    print_message("# %s is %s: %s\n", what, trm_status_name(s), trm_error_text());
    _fail(file, line);
}

void support_assert_fault(trm_status got, trm_status want, const char *text, const char *what,
                          const char *file, int line) {
    if (got == want && strstr(trm_error_text(), text)) return;
    print_message("# %s is %s: '%s'; wanted %s with '%s'\n", what, trm_status_name(got),
                  got == TRM_OK ? "" : trm_error_text(), trm_status_name(want), text);
    _fail(file, line);
}

void support_assert_bound(double error, double bound, const char *what, const char *file, int line) {
    if (error <= bound) return;
    print_message("# %s is %.3g; at most %.3g is allowed\n", what, error, bound);
    _fail(file, line);
}
