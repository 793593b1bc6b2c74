/* log: one sink for the whole process.  Lines of different threads never interleave. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <trireme/base.h>

#define LINE_BYTES 2048

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static trm_log_fn sink;
static void *sink_ctx;
/* Read without the lock: a line nobody wants costs one load. -1 = nowhere. */
static atomic_int threshold = -1;

void trm_log_set(trm_log_fn fn, void *ctx, trm_log_level max_level) {
    pthread_mutex_lock(&lock);
    sink = fn;
    sink_ctx = ctx;
    atomic_store(&threshold, fn ? (int)max_level : -1);
    pthread_mutex_unlock(&lock);
}

void trm_log(trm_log_level level, const char *fmt, ...) {
    if ((int)level > atomic_load(&threshold)) return;
    char line[LINE_BYTES];
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    int wanted = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (wanted >= LINE_BYTES) memcpy(line + LINE_BYTES - 4, "...", 4);
    trm_one_line(line);
    pthread_mutex_lock(&lock);
    if (sink && (int)level <= atomic_load(&threshold)) sink(sink_ctx, level, line);
    pthread_mutex_unlock(&lock);
    errno = saved;
}
