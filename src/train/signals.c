/* signals: the first one asks for an orderly end at the next update, the second ends the process as
 * the system would.  The handler sets a flag and nothing else. */
#include <signal.h>
#include <trireme/train.h>

static volatile sig_atomic_t seen;
static const int watched[] = {SIGINT, SIGTERM, SIGUSR1};
#define WATCHED (sizeof watched / sizeof *watched)

static void on_signal(int number) {
    (void)number;
    seen = seen + 1;
    struct sigaction dflt = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < WATCHED; i++) sigaction(watched[i], &dflt, NULL);
}

void trm_signals_install(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < WATCHED; i++) sigaction(watched[i], &action, NULL);
}

int trm_signals_seen(void) { return seen; }
