/* report: what a run was like, and what it could have been like, read from its records.
 *
 * A history tells for stretches of updates what each rank takes for n units of work.  A replay runs through it once
 * more with other shares: nothing is computed again, only the times are reckoned anew.
 */
#ifndef TRIREME_REPORT_H
#define TRIREME_REPORT_H

#include <trireme/balance.h>

/* ---- history: how fast the ranks were ----------------------------------------------------- */

/* Updates in a row that were measured together: a window of a run, or one update of a trace. */
typedef struct trm_stretch {
    int64_t update;                 /* the last one */
    int64_t updates;                /* measured ones */
    int64_t left;                   /* of the run, that a change behind this stretch can still serve */
    double rest;                    /* seconds of an update in which even the slowest rank waits */
    double cost;                    /* seconds that a change of shares costs */
} trm_stretch;

typedef struct trm_history {
    int ranks;
    int64_t total;                  /* units that are shared out: samples of a micro-batch */
    int64_t n, cap;
    trm_stretch *stretch;           /* [n] */
    trm_speed *speed;               /* [n * ranks] */
    double *noise;                  /* [n * ranks]: standard error of a rank's time as a share of it */
    int64_t *had;                   /* [n * ranks]: the shares that were in force; of a trace: not known, 0 */
    bool windows;                   /* stretches are windows of a run, each enough to decide on; else single updates */
    int64_t left_out;               /* stretches that cannot be replayed: on other ranks, or not known of every rank */
} trm_history;

/* Of run/metrics.jsonl: the `balance` records since the ranks were last changed.  A record that was cut by a kill is passed over.
 * What a rank takes for a unit while it had none is what was believed then, else what it took when it last had one. Local. */
TRM_API trm_status trm_history_read(const char *run, trm_history *out);
/* Of a CSV file.  Either its first line names columns `worker`, `time` (number of the step) and `batch_time_norm` (time that
 * the worker took for its part), or each line is a step and each column a rank.  The times are those of equal parts of
 * `units` (0: 64 of each rank).  A step that is not known of all workers is left out. Local. */
TRM_API trm_status trm_history_trace(const char *file, int64_t units, trm_history *out);
TRM_API void trm_history_free(trm_history *h);

/* ---- replay --------------------------------------------------------------------------------- */

typedef struct trm_replay_spec {
    bool off;                       /* the first shares stay */
    double threshold;
    trm_predictor predictor;
    int cooldown, reprobe;
    int64_t every;                  /* stretches between decisions; of single updates as many more as are enough to decide on */
    /* Behind each decision of the policy; may be NULL.  update: the last one that it has seen. */
    void (*tell)(void *ctx, int64_t update, const trm_decision *d);
    void *ctx;
} trm_replay_spec;

typedef struct trm_course {
    double seconds;                 /* of all measured updates, moves included */
    int64_t moves, moved;           /* changes of shares; units that changed hands */
} trm_course;

typedef struct trm_replay {
    trm_course was;                 /* with the shares that the run had; of a trace: all 0 */
    trm_course equal;               /* equal shares that stay */
    trm_course policy;              /* as the policy decides: each decision knows what lies before it and acts behind it */
    trm_course oracle;              /* the best whole shares in every stretch, known beforehand; changes cost nothing */
    double ideal;                   /* seconds, where units could be cut at will: no shares are faster */
    int64_t updates, decisions;
} trm_replay;

TRM_API trm_status trm_replay_run(const trm_history *h, const trm_replay_spec *spec, trm_replay *out);

#endif
