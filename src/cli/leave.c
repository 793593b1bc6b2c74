/* leave: how the program goes when something is wrong.
 *
 * Open MPI's mpirun (4.x) sleeps 1 s after each signal that it sends to what a failed process left behind, also where
 * nothing is left, so that one wrong key in a job file costs two seconds.  A SIGCHLD ends such a sleep: a child that outlives
 * us by a few hundredths of a second sends it some. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* Runs after a fork of a program with threads: only calls that are safe there. */
static void wake(pid_t leaving, pid_t launcher) {
    enum { ms = 1000000, patience = 200, times = 5 };
    const struct timespec step = {.tv_nsec = 10 * ms};
    for (int fd = 0; fd < 1024; fd++) close(fd); /* the launcher reads our output to its end */
    for (int k = 0; k < patience && getppid() == leaving; k++) nanosleep(&step, NULL);
    for (int k = 0; k < times; k++) {
        nanosleep(&step, NULL);
        kill(launcher, SIGCHLD);
    }
    _exit(0);
}

int cli_leave(int code) {
    const pid_t leaving = getpid(), launcher = getppid();
    if (code != 0 && getenv("OMPI_COMM_WORLD_RANK") && launcher > 1 && fork() == 0) wake(leaving, launcher);
    return code;
}
