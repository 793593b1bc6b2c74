/* clock: monotonic time, this thread's CPU time, sleep. */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <time.h>
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

double trm_thread_cpu(void) { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

void trm_sleep(double seconds) {
    if (!(seconds > 0)) return;
    double whole = floor(fmin(seconds, 1e9));
    struct timespec left = {(time_t)whole, (long)(1e9 * (fmin(seconds, 1e9) - whole))};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {}
}

void trm_clock_replace(double (*fn)(void)) { atomic_store(&replaced, fn); }
