/* clock: monotonic time, this thread's CPU time, sleep. */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <time.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <trireme/base.h>

typedef double (*now_fn)(void);
static _Atomic(now_fn) replaced;

static double seconds_of(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double trm_now(void) {
    now_fn fn = atomic_load_explicit(&replaced, memory_order_relaxed);
    return fn ? fn() : seconds_of(CLOCK_MONOTONIC);
}

/* A replaced clock tells all there is to know of time: the machine's load is no part of it. */
static bool is_replaced(void) { return atomic_load_explicit(&replaced, memory_order_relaxed) != NULL; }

double trm_thread_cpu(void) { return is_replaced() ? 0 : seconds_of(CLOCK_THREAD_CPUTIME_ID); }

/* The second number of /proc/thread-self/schedstat: nanoseconds.  The file stays open: this is asked in every update. */
double trm_thread_delay(void) {
    static _Thread_local int file = -2;
    char text[96];
    if (is_replaced()) return 0;
    if (file == -2) file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? 0 : pread(file, text, sizeof text - 1, 0);
    int64_t ns = 0;
    if (n <= 0) return 0;
    text[n] = '\0';
    char *number = text + strcspn(text, " ");
    number += strspn(number, " ");
    number[strcspn(number, " \n")] = '\0';
    return trm_parse_int(number, &ns) ? (double)ns * 1e-9 : 0;
}

void trm_sleep(double seconds) {
    if (!(seconds > 0)) return;
    double whole = floor(fmin(seconds, 1e9));
    struct timespec left = {(time_t)whole, (long)(1e9 * (fmin(seconds, 1e9) - whole))};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {}
}

void trm_clock_replace(double (*fn)(void)) { atomic_store(&replaced, fn); }
