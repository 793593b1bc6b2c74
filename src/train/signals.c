/* signals: the first one asks for an orderly end at the next update, the second ends the process as
 * the system would.  The handler sets a flag and nothing else.
 *
 * It must not run on a thread that computes: oneDNN's matrix kernels point the stack register into a work buffer while
 * they run, and a handler's frame (kilobytes of vector registers) written there destroys the heap below it.  So all
 * threads have these signals blocked but one, which does nothing else than receive them. */
#include <pthread.h>
#include <signal.h>
#include <trireme/train.h>
#include <unistd.h>

static volatile sig_atomic_t seen;
static const int watched[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
#define WATCHED (sizeof watched / sizeof *watched)

static void on_signal(int number) {
    (void)number;
    seen = seen + 1;
    struct sigaction dflt = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < WATCHED; i++) sigaction(watched[i], &dflt, NULL);
}

static void mask(int how) {
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < WATCHED; i++) sigaddset(&set, watched[i]);
    pthread_sigmask(how, &set, NULL);
}

static void *receive(void *unused) {
    (void)unused;
    mask(SIG_UNBLOCK);
    for (;;) pause();
    return NULL;
}

/* Threads that start later inherit the mask.  Where no thread can be had, a handler on the wrong stack is still better
 * than no checkpoint. */
static void start_receiver(void) {
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&small, 256 << 10);
    mask(SIG_BLOCK);
    if (pthread_create(&thread, &small, receive, NULL) != 0) mask(SIG_UNBLOCK);
    pthread_attr_destroy(&small);
}

void trm_signals_install(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, was;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < WATCHED; i++) {
        /* Under nohup a lost terminal is no reason to stop. */
        bool keep = watched[i] == SIGHUP && sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler == SIG_IGN;
        if (!keep) sigaction(watched[i], &action, NULL);
    }
    start_receiver();
}

int trm_signals_seen(void) { return seen; }
