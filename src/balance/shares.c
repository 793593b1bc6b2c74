/* shares: integer shares that make the slowest rank's time least.
 *
 * All comparisons are between finish times as `finish` rounds them.  That function never falls with n, so
 * bisections are exact in spite of rounding: nothing here has a tolerance. */
#include <math.h>
#include <string.h>
#include <trireme/balance.h>
#include "bits.h"

typedef struct ask {
    int ranks;
    const trm_speed *speed;
    const int64_t *cap; /* may be NULL */
    int64_t total;
} ask;

static double finish(const trm_speed *s, int64_t n) {
    return n == 0 ? s->fixed : s->fixed + s->each * (double)n; /* 0 * INFINITY is not 0 */
}

double trm_balance_makespan(int ranks, const trm_speed *speed, const int64_t *counts) {
    double slowest = 0;
    for (int r = 0; r < ranks; r++) slowest = fmax(slowest, finish(&speed[r], counts[r]));
    return slowest;
}

/* ---- what may be asked ---- */

static int64_t room_of(const ask *a, int r) {
    if (isinf(a->speed[r].each)) return 0;
    return a->cap ? trm_min64(a->cap[r], a->total) : a->total;
}

static trm_status check_rank(const ask *a, const int64_t *now, int r) {
    const trm_speed *s = &a->speed[r];
    if (!isfinite(s->fixed) || s->fixed < 0)
        return trm_fail(TRM_INTERNAL, "fixed time %g of rank %d: a time is a finite number of at least 0",
                        s->fixed, r);
    if (!(s->each > 0))
        return trm_fail(TRM_INTERNAL, "time %g of rank %d for a unit: it has to be more than 0", s->each, r);
    if (a->cap && a->cap[r] < 0)
        return trm_fail(TRM_INTERNAL, "cap %lld of rank %d: at least 0 is needed", (long long)a->cap[r], r);
    if (now && now[r] < 0)
        return trm_fail(TRM_INTERNAL, "rank %d has %lld units now: at least 0 are needed", r,
                        (long long)now[r]);
    return TRM_OK;
}

static trm_status check_room(const ask *a) {
    int64_t left = a->total;
    bool any = false;
    for (int r = 0; r < a->ranks; r++) {
        any = any || !isinf(a->speed[r].each);
        left -= trm_min64(left, room_of(a, r));
    }
    if (left == 0) return TRM_OK;
    if (!any)
        return trm_fail(TRM_JOB, "none of the %d ranks can do any of the %lld units", a->ranks,
                        (long long)a->total);
    return trm_fail(TRM_JOB, "the caps of the %d ranks have room for %lld units; %lld are to be shared out",
                    a->ranks, (long long)(a->total - left), (long long)a->total);
}

static trm_status check(const ask *a, const int64_t *now) {
    if (a->ranks < 1) return trm_fail(TRM_INTERNAL, "shares for %d ranks: at least 1 is needed", a->ranks);
    if (a->total < 0)
        return trm_fail(TRM_INTERNAL, "shares of %lld units: at least 0 are needed", (long long)a->total);
    for (int r = 0; r < a->ranks; r++) TRM_TRY(check_rank(a, now, r));
    return check_room(a);
}

/* ---- how much a rank can do in a time ---- */

/* The largest n of lo .. hi-1 that is done by `seconds`; lo is, hi is not (or may not be had). */
static int64_t between(const trm_speed *s, double seconds, int64_t lo, int64_t hi) {
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (finish(s, mid) <= seconds)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Units of rank r that are done by `seconds`.  The quotient is a guess: steps that double lead from it to the
 * exact number, one or two as a rule, and not many where a large fixed part swallows the time of units. */
static int64_t done_by(const ask *a, int r, double seconds) {
    const trm_speed *s = &a->speed[r];
    int64_t room = room_of(a, r), step = 1;
    if (room == 0 || finish(s, 1) > seconds) return 0;
    double guess = (seconds - s->fixed) / s->each;
    int64_t n = guess >= (double)room ? room : guess < 1 ? 1 : (int64_t)guess;
    if (finish(s, n) <= seconds) {
        for (; step <= room - n && finish(s, n + step) <= seconds; step *= 2) n += step;
        return step > room - n && finish(s, room) <= seconds
                   ? room
                   : between(s, seconds, n, trm_min64(step, room - n) + n);
    }
    for (; step < n && finish(s, n - step) > seconds; step *= 2) n -= step;
    return between(s, seconds, step < n ? n - step : 1, n);
}

/* ---- shares from a bound on ---- */

/* Which way counts may go from what stands there. */
typedef enum way { FREELY, UP, DOWN } way;

static int64_t bounded(int64_t n, int64_t own, way w) {
    return w == FREELY ? n : w == UP ? trm_max64(n, own) : trm_min64(n, own);
}

/* Whether all units are done by `seconds`; own[ranks] is not used where the way is FREELY. */
static bool enough_by(const ask *a, const int64_t *own, way w, double seconds) {
    int64_t left = a->total;
    for (int r = 0; r < a->ranks && left > 0; r++)
        left -= trm_min64(left, bounded(done_by(a, r, seconds), own[r], w));
    return left == 0;
}

/* The smallest time by which all are done; by INFINITY they are. */
static double deadline_of(const ask *a, const int64_t *own, way w) {
    uint64_t lo = 0, hi = trm_bits_of(INFINITY);
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (enough_by(a, own, w, trm_of_bits(mid)))
            hi = mid;
        else
            lo = mid + 1;
    }
    return trm_of_bits(lo);
}

static int64_t done_before(const ask *a, int r, double seconds) {
    return seconds > 0 ? done_by(a, r, nextafter(seconds, 0)) : 0;
}

/* Moves counts one way until their sum is `total`, so that the slowest of those that change is as fast as can be.
 * Before the deadline all are done but a few units, which go to the lowest ranks that do one just in time: what
 * giving out one unit after the other leads to. */
static void settle(const ask *a, int64_t *counts, way w) {
    double deadline = deadline_of(a, counts, w);
    int64_t left = a->total;
    for (int r = 0; r < a->ranks; r++) left -= bounded(done_before(a, r, deadline), counts[r], w);
    for (int r = 0; r < a->ranks; r++) {
        int64_t least = bounded(done_before(a, r, deadline), counts[r], w);
        int64_t more = trm_min64(left, bounded(done_by(a, r, deadline), counts[r], w) - least);
        counts[r] = least + more;
        left -= more;
    }
}

static bool too_many(const ask *a, const int64_t *counts) {
    int64_t left = a->total;
    for (int r = 0; r < a->ranks; r++) {
        if (counts[r] > left) return true;
        left -= counts[r];
    }
    return false;
}

/* What each rank may keep of `now` where nobody works longer than the least time of all.  Every rank waits for the
 * slowest fixed part, so nobody has to be done before that. */
static void keep(const ask *a, const int64_t *now, int64_t *counts) {
    double least = deadline_of(a, now, FREELY);
    for (int r = 0; r < a->ranks; r++) least = fmax(least, a->speed[r].fixed);
    for (int r = 0; r < a->ranks; r++) counts[r] = trm_min64(now[r], done_by(a, r, least));
}

trm_status trm_balance_shares(int ranks, const trm_speed *speed, const int64_t *cap, int64_t total,
                              const int64_t *now, int64_t *counts) {
    const ask a = {ranks, speed, cap, total};
    TRM_TRY(check(&a, now));
    if (now)
        keep(&a, now, counts);
    else
        memset(counts, 0, (size_t)ranks * sizeof *counts);
    settle(&a, counts, too_many(&a, counts) ? DOWN : UP);
    return TRM_OK;
}
