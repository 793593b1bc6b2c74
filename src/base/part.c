/* part: who owns which range of N things. */
#include <math.h>
#include <trireme/base.h>

static trm_status check(int owners, const double *weights, int64_t n) {
    bool any = !weights;
    if (owners < 1) return trm_fail(TRM_INTERNAL, "a partition for %d owners: at least 1 is needed", owners);
    if (n < 0)
        return trm_fail(TRM_INTERNAL, "a partition of %lld things: at least 0 are needed", (long long)n);
    for (int p = 0; weights && p < owners; p++) {
        if (!isfinite(weights[p]) || weights[p] < 0)
            return trm_fail(TRM_JOB, "weight %g of owner %d: a weight is a finite number of at least 0",
                            weights[p], p);
        any = any || weights[p] > 0;
    }
    if (!any && n > 0) return trm_fail(TRM_JOB, "all %d weights are 0: somebody has to own the work", owners);
    return TRM_OK;
}

/* When an owner of this weight would be done with `count` things. */
static double finish(double weight, int64_t count) { return (double)count / weight; }

/* Weights are scaled by a power of two: sums stay finite and equal ratios stay equal. */
static int scale_of(const double *weights, int owners) {
    double top = 0;
    int exponent = 0;
    for (int p = 0; p < owners; p++) top = fmax(top, weights[p]);
    frexp(top, &exponent);
    return -exponent;
}

/* Gives each owner what the greedy rule certainly gives it: all things that it finishes by a
 * time just before the ideal one. Returns how many are left, about `owners` at most. */
static int64_t give_bulk(int owners, const double *w, int64_t n, int64_t *count) {
    double sum = 0;
    int64_t left = n;
    for (int p = 0; p < owners; p++) sum += w[p];
    double rounding = 4e-16 * (owners + 4); /* bounds the error of the sum and of the quotient */
    double deadline = (double)n / sum * (1 - rounding);
    for (int p = 0; p < owners; p++) {
        count[p] = (int64_t)(deadline * w[p]);
        while (count[p] > 0 && finish(w[p], count[p]) > deadline) count[p]--;
        left -= count[p];
    }
    return left;
}

static void give_next(int owners, const double *w, int64_t *count) {
    int best = -1;
    for (int p = 0; p < owners; p++) {
        if (w[p] <= 0) continue;
        if (best < 0 || finish(w[p], count[p] + 1) < finish(w[best], count[best] + 1)) best = p;
    }
    count[best]++;
}

/* Fills count[owners] by weights; `w` is room for the scaled weights. */
static void share(int owners, const double *weights, int64_t n, double *w, int64_t *count) {
    int scale = scale_of(weights, owners);
    for (int p = 0; p < owners; p++) w[p] = ldexp(weights[p], scale);
    for (int64_t left = give_bulk(owners, w, n, count); left > 0; left--) give_next(owners, w, count);
}

trm_status trm_part_by_weights(int owners, const double *weights, int64_t n, trm_part *out) {
    TRM_TRY(check(owners, weights, n));
    int64_t *offset = trm_alloc_array((size_t)owners + 1, sizeof *offset, "a partition");
    double *w = trm_alloc_array((size_t)owners, sizeof *w, "the weights of a partition");
    if (!offset || !w) {
        trm_free(offset);
        trm_free(w);
        return TRM_MEMORY;
    }
    if (!weights)
        for (int p = 0; p <= owners; p++) offset[p] = trm_cut(n, owners, p);
    else if (n > 0)
        share(owners, weights, n, w, offset + 1);
    for (int p = 0; weights && p < owners; p++) offset[p + 1] += offset[p];
    trm_free(w);
    *out = (trm_part){owners, offset};
    return TRM_OK;
}

void trm_part_free(trm_part *p) {
    if (!p) return;
    trm_free(p->offset);
    *p = (trm_part){0};
}
