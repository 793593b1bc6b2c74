/* example: what the example programs share.
 *
 * The first part is worth copying: how a rank waits.  MPI's blocking calls look at the network in a loop without
 * end.  Where two ranks share a core, a rank that waits so robs the one it waits for, and the times that the ranks
 * measure of their own work become wrong.  So the programs only use calls that return at once (MPI_I...), and wait
 * here: a few looks, then the core is offered to others, then short naps. */
#ifndef TRIREME_EXAMPLE_H
#define TRIREME_EXAMPLE_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <trireme/balance.h>

/* ---- waiting ------------------------------------------------------------------------- */

static inline void wait_kindly(int n, MPI_Request *request) {
    for (int done = 0, looks = 0; !done; looks++) {
        MPI_Testall(n, request, &done, MPI_STATUSES_IGNORE);
        /* Sleep rather than yield: who yields often forfeits its turns, and is late when its peers wait for it. */
        if (!done && looks > 100) nanosleep(&(struct timespec){.tv_nsec = 30000}, NULL);
    }
}

/* How the ranks of a balancer talk. */
static inline trm_status gather_kindly(void *ctx, const void *mine, size_t bytes, void *all) {
    (void)ctx;
    MPI_Request request;
    if (MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD, &request) != MPI_SUCCESS)
        return trm_fail(TRM_COMM, "MPI could not gather %zu bytes of each rank", bytes);
    wait_kindly(1, &request);
    return TRM_OK;
}

/* ---- faults ---------------------------------------------------------------------------- */

static const char *program = "example";

/* A fault of one rank ends all: the others would wait for it.  A fault of all is told by rank 0. */
static inline void must(trm_status s) {
    int rank;
    if (s == TRM_OK) return;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "%s: rank %d: %s\n", program, rank, trm_error_text());
    MPI_Abort(MPI_COMM_WORLD, trm_status_exit_code(s));
}

static inline void *must_have(void *memory) {
    must(memory ? TRM_OK : TRM_MEMORY);
    return memory;
}

/* ---- options ----------------------------------------------------------------------------- */

typedef struct option {
    const char *name, *value, *help;    /* value: what stands for it in the help; NULL: a switch */
    int64_t *number, least, most;       /* most: 0: what an int holds, as MPI counts in int */
    const char **text;
    bool *on;
} option;

static inline int print_help(const char *what, const option *o) {
    printf("%s\n\n", what);
    for (; o->name; o++) printf("  %s %-*s %s\n", o->name, (int)(22 - strlen(o->name)), o->value ? o->value : "", o->help);
    return 0;
}

/* One option with its value; false with a sentence where it is wrong. */
static inline bool set_option(const option *o, const char *value) {
    if (o->on) return *o->on = true;
    if (!value) return trm_fail(TRM_USAGE, "%s needs a value: %s", o->name, o->value), false;
    if (o->text) return *o->text = value, true;
    int64_t most = o->most ? o->most : INT32_MAX;
    if (trm_parse_int(value, o->number) && *o->number >= o->least && *o->number <= most) return true;
    trm_fail(TRM_USAGE, "%s is '%s'; allowed are whole numbers from %lld to %lld", o->name, value, (long long)o->least,
             (long long)most);
    return false;
}

/* -1: go on; else the exit status of the program.  Every rank reads alike, rank 0 speaks. */
static inline int read_options(int argc, char **argv, const char *what, const option *options, int rank) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) return rank == 0 ? print_help(what, options) : 0;
        const option *o = options;
        while (o->name && strcmp(o->name, argv[i]) != 0) o++;
        bool good = o->name && set_option(o, argv[i + 1]);
        if (!o->name) trm_fail(TRM_USAGE, "unknown option '%s'; see %s --help", argv[i], program);
        if (!good && rank == 0) fprintf(stderr, "%s: %s\n", program, trm_error_text());
        if (!good) return 2;
        i += !o->on;
    }
    return -1;
}

/* ---- what both programs do alike ------------------------------------------------------------- */

typedef struct common { int64_t every, slow, times; bool off, force, check, json; } common;

#define COMMON_START {.every = 20, .slow = -1, .times = 2}
#define COMMON_OPTIONS(c)                                                                                   \
    {"--every", "E", "iterations between decisions (20)", .number = &(c)->every, .least = 1},               \
    {"--off", NULL, "equal parts, nothing moves", .on = &(c)->off},                                         \
    {"--slow", "RANK", "this rank plays a slow machine ...", .number = &(c)->slow, .least = 0},             \
    {"--times", "T", "... that needs T times as long (2)", .number = &(c)->times, .least = 1},              \
    {"--force", NULL, "new parts at random at every decision (for tests)", .on = &(c)->force},              \
    {"--check", NULL, "compares with a run of one rank", .on = &(c)->check},                                \
    {"--json", NULL, "prints one line of JSON", .on = &(c)->json}

/* How often this rank does its work: a slow machine in play does it T times over. */
static inline int64_t times_of(const common *c, int rank) { return rank == c->slow ? c->times : 1; }

/* What the balancer tells. */
static inline void say(void *ctx, const char *line) {
    (void)ctx;
    fprintf(stderr, "%s\n", line);
}

/* What a run was; `check`: what came out of it, "" where nothing was compared. */
static inline void report(const common *c, int ranks, const int64_t *offset, double seconds, int64_t moves, const char *check) {
    if (c->json)
        printf("{\"program\": \"%s\", \"ranks\": %d, \"seconds\": %.6f, \"moves\": %lld, \"check\": \"%s\", \"shares\": [", program,
               ranks, seconds, (long long)moves, check);
    else
        printf("%.2f s, %lld moves, rows of the ranks: ", seconds, (long long)moves);
    for (int r = 0; r < ranks; r++) printf("%s%lld", r ? ", " : "", (long long)(offset[r + 1] - offset[r]));
    printf(c->json ? "]}\n" : "\n");
    if (!c->json && *check) printf("compared with one rank alone: %s\n", check);
}

/* Any parts at all, some of them empty; the same on all ranks.  For tests of moves. */
static inline void random_parts(int64_t turn, int ranks, int64_t items, int64_t *offset) {
    trm_rng_key key = {.seed = 1, .purpose = TRM_RNG_SYNTH, .update = (uint64_t)turn};
    offset[0] = 0;
    offset[ranks] = items;
    for (int r = 1; r < ranks; r++) {
        int64_t cut = (int64_t)trm_rng_below(&key, (uint64_t)r, (uint64_t)items + 1);
        int at = r;
        for (; at > 1 && offset[at - 1] > cut; at--) offset[at] = offset[at - 1];
        offset[at] = cut;
    }
}

#endif
