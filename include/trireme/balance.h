/* balance: from measured times to shares.
 *
 * Three floors, each usable without the ones above it:
 *   arithmetic   shares of ranks, cuts of chains, forecasts: pure functions
 *   policy       windows of measured times in, decisions out; deterministic, knows no clock and no transport
 *   balancer     the whole for an iterative program of your own, which brings a way to gather
 *
 * Nothing here changes what is computed, only who computes it.
 */
#ifndef TRIREME_BALANCE_H
#define TRIREME_BALANCE_H

#include <trireme/base.h>

/* ---- shares: minimax integers ------------------------------------------------------- */

/* Seconds of a rank for n units of work: fixed + each * n (fixed >= 0, each > 0).  each = INFINITY: it can do none. */
typedef struct trm_speed { double fixed, each; } trm_speed;

/* The slowest rank's time. A rank without units still pays its fixed part. */
TRM_API double trm_balance_makespan(int ranks, const trm_speed *speed, const int64_t *counts);
/* counts[ranks] >= 0 with sum `total` and counts[r] <= cap[r] (NULL: no caps) that make the makespan least.  Exact: the
 * smallest T with sum floor((T - fixed) / each) >= total.  Among equals the one that moves the fewest units away from `now` (NULL: as
 * if nobody had any).  TRM_JOB where the caps hold less than `total` units, or no rank can do any.  O(ranks * log) and no worse. Local. */
TRM_API trm_status trm_balance_shares(int ranks, const trm_speed *speed, const int64_t *cap, int64_t total, const int64_t *now,
                                      int64_t *counts);

/* ---- cuts: a chain of items over stages in a fixed order ------------------------------ */

typedef struct trm_chain {
    int64_t items;
    int stages;
    const double *work;             /* [items] >= 0; the time of item i on stage s is work[i] * slow[s] ... */
    const double *slow;             /* [stages] > 0 (NULL: all 1); INFINITY: the stage can do nothing */
    const double *times;            /* ... or, where given, times[s * items + i] (work and slow are not used) */
    const double *cut;              /* [items]: seconds that a cut in front of item i costs the stage behind it; NULL: none; [0] is not used */
    const double *memory, *limit;   /* [items], [stages]: bytes of an item, room of a stage; NULL: no limits */
    bool may_be_empty;              /* a stage may have no item (parts of your own program); else each has at least one (pipelines) */
} trm_chain;

/* begin[stages + 1]: stage s has the items begin[s] .. begin[s+1]; every item exactly once, asserted.  Makes the slowest stage's
 * time least: exact, by probe and bisection over the times that can occur where cuts are free and items have one speed per stage,
 * else by dynamic programming in O(stages * items^2) (Pinar & Aykanat 2004; Pinar, Tabak & Aykanat 2008).  *seconds
 * (may be NULL) = that time.  TRM_JOB where nothing fits, with the stage or item that does not. Local. */
TRM_API trm_status trm_balance_chain(const trm_chain *c, int64_t *begin, double *seconds);
/* The slowest stage's time of given cuts; INFINITY where they break a limit. */
TRM_API double trm_balance_chain_seconds(const trm_chain *c, const int64_t *begin);

/* ---- forecasts ------------------------------------------------------------------------ */

typedef enum trm_predictor { TRM_PREDICT_LAST, TRM_PREDICT_EMA, TRM_PREDICT_MEDIAN, TRM_PREDICT_TREND } trm_predictor;

/* The recent values of one quantity, oldest first; forgets what lies before a change. */
#define TRM_SERIES 8
typedef struct trm_series {
    double value[TRM_SERIES];
    int n;
    int off;                        /* values in a row that lay outside the band on one side: + above, - below */
    bool changed;                   /* the newest value began a new series */
} trm_series;

/* Adds a value > 0.  A change: a value 1.5 times (or 1/1.5 of) the forecast, or two in a row more than 10 % to one side of it;
 * then all values before it (them) are forgotten. */
TRM_API void trm_series_add(trm_series *s, trm_predictor p, double value);
/* The next value: last; ema (half the newest, half the forecast before it); median of the newest five; trend (least squares line
 * through the newest four, at most half or twice the last value).  NAN where there is none. */
TRM_API double trm_series_forecast(const trm_series *s, trm_predictor p);

/* ---- windows: what was measured between two decisions ----------------------------------- */

/* Times of updates, robustly: blocks of at least TRM_WINDOW_BLOCK seconds are averaged, since a time slice of a core that is shared
 * is longer than a short update, and their median counts, since a hiccup is not a speed. */
#define TRM_WINDOW_BLOCK 0.05
#define TRM_WINDOW_BLOCKS 64
typedef struct trm_window {
    int ranks;
    int64_t updates;                /* counted ones */
    int64_t skip;                   /* warm-up: so many further updates are left out */
    double seconds;                 /* wall time of the counted updates */
    int blocks;                     /* whole blocks */
    double block_s;                 /* a block holds at least so much; doubles when the blocks are full */
    double open_s;                  /* wall time and updates of the open block */
    int64_t open_updates;
    struct trm_window_block *block; /* [TRM_WINDOW_BLOCKS] */
    double *open, *sum;             /* [ranks * parts], [TRM_WINDOW_BLOCKS * ranks * parts] */
} trm_window;

/* Of one update of one rank, in seconds. */
typedef struct trm_measure {
    double compute;                 /* wall time of its own work */
    double fixed;                   /* of compute, what does not depend on the share */
    double cpu;                     /* of its thread, in the whole update */
    double delay;                   /* its thread was ready and had no core, in the whole update */
} trm_measure;

TRM_API trm_status trm_window_open(int ranks, trm_window *w);
TRM_API void trm_window_free(trm_window *w);
TRM_API void trm_window_reset(trm_window *w, int64_t skip);
/* One update: its wall time and all ranks' measures. */
TRM_API void trm_window_add(trm_window *w, double seconds, const trm_measure *rank);
/* Enough to decide on: at least five blocks. */
TRM_API bool trm_window_is_full(const trm_window *w);
/* A rank's measures, each on its own: the median over the blocks; of compute the middle of median and upper
 * quartile.  A rank that shares its core works off credit from its waits: its compute is never less than CPU time and delay; *noise (may be NULL): standard error of compute as a share of it. */
TRM_API trm_measure trm_window_rank(const trm_window *w, int rank, double *noise);
/* Median over the blocks of the wall time of an update. */
TRM_API double trm_window_step(const trm_window *w);

/* ---- policy ----------------------------------------------------------------------------- */

typedef struct trm_policy_spec {
    int ranks;
    int64_t total;                  /* units that are shared out: samples of a micro-batch */
    const int64_t *cap;             /* most units of a rank; NULL: no caps. Copied. */
    double threshold;               /* gain as a share of the step below which nothing moves: 0.05 */
    trm_predictor predictor;
    int cooldown;                   /* windows behind a move in which no other is made: 1 */
    int reprobe;                    /* an idle rank gets one unit every so many windows: 4; 0: never */
} trm_policy_spec;

typedef struct trm_policy_seen {
    double step;                    /* seconds of an update */
    const trm_measure *rank;        /* [ranks], of an update with the shares now in force */
    const double *noise;            /* [ranks], see trm_window_rank; NULL: 0 */
    int64_t updates;                /* of the window */
    int64_t left;                   /* updates of the run that a change can still serve */
    double cost;                    /* seconds that a change of shares costs */
} trm_policy_seen;

/* One list gives enum and word. */
#define TRM_VERDICT_LIST(X)                                                                     \
    X(STAY, "stay")                 /* the shares are good */                                   \
    X(SMALL, "small")               /* a move would gain less than the threshold, or the noise */ \
    X(SHORT, "short")               /* a move would not pay for itself in what is left */        \
    X(CONFIRM, "confirm")           /* work goes back to a rank only when two windows in a row say so */ \
    X(COOLDOWN, "cooldown")         /* too soon behind the last move */                         \
    X(MOVE, "move")                                                                             \
    X(ROLLBACK, "rollback")         /* the last move did not bring half of what it promised: undone */ \
    X(REPROBE, "reprobe")           /* an idle rank gets one unit, to be measured */
typedef enum trm_verdict {
#define X(name, word) TRM_VERDICT_##name,
    TRM_VERDICT_LIST(X)
#undef X
} trm_verdict;
TRM_API const char *trm_verdict_word(trm_verdict v);
TRM_API bool trm_verdict_moves(trm_verdict v);         /* MOVE, ROLLBACK, REPROBE: the shares are others from now on */

typedef struct trm_decision {
    trm_verdict verdict;
    const int64_t *counts;          /* [ranks]: the shares from now on; the policy's, until the next decision */
    const trm_speed *speed;         /* [ranks]: what was believed */
    double now, best;               /* forecast of an update's time with the shares in force, with the best ones */
    double gain;                    /* 1 - best / now */
    double promised, brought;       /* gain that the last move promised, and what it brought; NAN where none is judged now */
    double error;                   /* of the last forecast: slowest rank's compute as forecast / as measured - 1; NAN: none */
    int64_t moved;                  /* units that change hands (would, where none do) */
    bool gives_back;                /* most of them go to a rank that gave units away before */
    int rank;                       /* whom it is about: who loses the most units or, where they go back or a rank is
                                       measured again, who gets the most; -1: none */
    double slower;                  /* its time for a unit over that of the mean speed of the others; NAN: not known */
    bool dry;                       /* set by who decides aloud and moves nothing: the words say what would be */
} trm_decision;

typedef struct trm_policy trm_policy;
/* Starts with `counts` (sum = total). */
TRM_API trm_status trm_policy_open(const trm_policy_spec *spec, const int64_t *counts, trm_policy **out);
TRM_API void trm_policy_free(trm_policy *p);
/* Judges a window and decides.  Pure but for the policy's own state: equal calls give equal decisions. */
TRM_API trm_status trm_policy_decide(trm_policy *p, const trm_policy_seen *seen, trm_decision *out);
/* The last decision was not carried out (dry run): the shares are what they were. */
TRM_API void trm_policy_keep(trm_policy *p);
/* "rank 5 (node07) is 1.31x slower; 11 samples moved, saves 14 %".  host: of rank d->rank, may be NULL; unit: "sample". */
TRM_API void trm_decision_words(const trm_decision *d, const char *host, const char *unit, trm_str *out);

/* ---- balancer: for an iterative program of your own -------------------------------------- */

/* N items in a row, a contiguous part for each rank.  Every iteration:
 *
 *     trm_balancer_begin(b);  ... compute your part, without waiting for others ...  trm_balancer_end(b);
 *     ... exchange, reduce ...
 *     trm_balancer_step(b);
 *
 * A window lasts `every` iterations, or as many times that as make its times worth a decision.  Talk happens at its end
 * only: two small gathers, one more behind a move.  What a rank did wrong (an end without a begin, other items or settings, the number of
 * another rank) fails on all ranks alike, at the end of the window; a balancer that failed can only be freed.  All ranks step equally often and
 * agree on `off`: a rank that does not comes not to the gather, where the others wait for it.  On one rank nothing moves. */
typedef struct trm_balancer trm_balancer;

/* The balancer's only way to talk: `bytes` bytes of each rank to all, in the order of the ranks.  Over MPI:
 *     return MPI_Allgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, MPI_COMM_WORLD) == MPI_SUCCESS ? TRM_OK : TRM_COMM; */
typedef trm_status (*trm_balancer_gather)(void *ctx, const void *mine, size_t bytes, void *all);
/* Moves the items: rank r had from[r] .. from[r+1], shall have to[r] .. to[r+1].  Called on all ranks; may talk over MPI.  Where
 * it fails on one rank, the step fails on all. */
typedef trm_status (*trm_balancer_move)(void *ctx, int ranks, const int64_t *from, const int64_t *to);

typedef struct trm_balancer_spec {
    int ranks, rank;
    trm_balancer_gather gather;     /* may be NULL for one rank */
    int64_t items;
    const double *weights;          /* [items] > 0, relative cost of an item, the same on all ranks, copied; NULL: all equal */
    int64_t every;                  /* iterations between decisions; 0 = 20 */
    double threshold;               /* 0 = 0.05 */
    trm_predictor predictor;
    int cooldown;                   /* decisions; < 0: none; 0 = 1 */
    bool off;                       /* never moves, never gathers: as if all ranks were equally fast, for comparison */
    bool dry_run;                   /* decides, tells, moves nothing */
    trm_balancer_move move;         /* NULL: nothing has to be moved, the caller looks at its part after each step */
    void (*tell)(void *ctx, const char *line);      /* rank 0: one line for each decision that moves; may be NULL */
    void *ctx;
} trm_balancer_spec;

TRM_API trm_status trm_balancer_open(const trm_balancer_spec *spec, trm_balancer **out);       /* local */
TRM_API void trm_balancer_free(trm_balancer *b);                                                /* local; accepts NULL */
/* This rank's items now; all ranks' first items: offsets[ranks + 1], the balancer's. Local. */
TRM_API void trm_balancer_part(const trm_balancer *b, int64_t *begin, int64_t *count);
TRM_API const int64_t *trm_balancer_offsets(const trm_balancer *b);
/* Round this rank's own work; may be called several times in an iteration, not within each other. Local. */
TRM_API void trm_balancer_begin(trm_balancer *b);
TRM_API void trm_balancer_end(trm_balancer *b);
/* The end of an iteration. Every `every` iterations the ranks compare times and items may move. Collective. */
TRM_API TRM_USED trm_status trm_balancer_step(trm_balancer *b);
TRM_API int64_t trm_balancer_moves(const trm_balancer *b);      /* so far */

#endif
