/* leave: how the program goes when something is wrong.
 *
 * Open MPI's mpirun (4.x) sleeps 1 s after each signal that it sends to what a failed process left behind, also where
 * nothing is left, so that one wrong key in a job file costs two seconds.  A SIGCHLD ends such a sleep: a child that outlives
 * us by a few hundredths of a second sends it some. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <trireme/launch.h>
#include <unistd.h>

#include "cli.h"

/* Runs after a fork of a program with threads: only calls that are safe there. */
static void wake(pid_t leaving, pid_t launcher, int grace) {
    enum { ms = 1000000, patience = 200, times = 5 };
    const struct timespec step = {.tv_nsec = 10 * ms};
    for (int fd = 0; fd < 1024; fd++) close(fd); /* the launcher reads our output to its end */
    for (int k = 0; k < patience && getppid() == leaving; k++) nanosleep(&step, NULL);
    for (int k = 0; k < grace + times; k++) {
        nanosleep(&step, NULL);
        if (k >= grace) kill(launcher, SIGCHLD);
    }
    _exit(0);
}

int cli_leave(int code) {
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    const pid_t leaving = getpid(), launcher = getppid();
    if (code == 0 || !size || launcher <= 1) return code;
    /* mpirun kills what is left behind each sleep.  That must not hit ranks that are only just being started, for Open MPI then
     * takes its own process group for theirs: the first rank, which the others outlive by half a second, waits as long. */
    const int grace = trm_launch_rank() == 0 && strcmp(size, "1") != 0 ? 50 : 0;
    if (fork() == 0) wake(leaving, launcher, grace);
    return code;
}
