/* attention: softmax(q k^T / sqrt(d)) v per head (Vaswani et al. 2017), one row of scores at a
 * time.  The gradient recomputes the probabilities from the saved log-sum-exp of each row, as
 * FlashAttention does (Dao et al. 2022, appendix B.2), so memory is linear in the length. */
#include <math.h>

#include "ref/ref.h"

/* One head of one sample: where its q, k, v, y begin, all with their row strides. */
typedef struct head {
    int64_t size;            /* d = c / heads */
    const double *q, *k, *v; /* row stride 3c */
} head;

static head head_of(const trm_ref_attention *s, const double *x, int64_t h) {
    int64_t d = s->c / s->heads;
    return (head){d, x + h * d, x + s->c + h * d, x + 2 * s->c + h * d};
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Position i looks at positions 0 .. visible-1. */
static int64_t visible(const trm_ref_attention *s, int64_t i) { return s->causal ? i + 1 : s->t; }

static double score(const trm_ref_attention *s, const head *h, int64_t i, int64_t j) {
    return dot(h->q + i * 3 * s->c, h->k + j * 3 * s->c, h->size) / sqrt((double)h->size);
}

/* y_i = sum_j p_ij v_j, p_i = softmax of the scores of row i; returns log sum_j exp(score_ij). */
static double attend(const trm_ref_attention *s, const head *h, int64_t i, double *y, double *row) {
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < visible(s, i); j++) {
        row[j] = score(s, h, i, j);
        largest = fmax(largest, row[j]);
    }
    for (int64_t j = 0; j < visible(s, i); j++) sum += exp(row[j] - largest);
    /* cppcheck-suppress invalidFunctionArg ; the largest term of the sum is 1 */
    double lse = largest + log(sum);
    for (int64_t e = 0; e < h->size; e++) y[e] = 0;
    for (int64_t j = 0; j < visible(s, i); j++) {
        double p = exp(row[j] - lse);
        for (int64_t e = 0; e < h->size; e++) y[e] += p * h->v[j * 3 * s->c + e];
    }
    return lse;
}

void trm_ref_attention_fwd(const trm_ref_attention *s, const double *x, double *y, double *lse, double *row) {
    for (int64_t k = 0; k < s->heads; k++) {
        head h = head_of(s, x, k);
        for (int64_t i = 0; i < s->t; i++)
            lse[k * s->t + i] = attend(s, &h, i, y + i * s->c + k * h.size, row);
    }
}

/* With dp_ij = dy_i . v_j and D_i = dy_i . y_i (= sum_j p_ij dp_ij): ds_ij = p_ij (dp_ij - D_i),
 * dq_i += ds_ij k_j / sqrt(d), dk_j += ds_ij q_i / sqrt(d), dv_j += p_ij dy_i. */
static void pair_gradient(const trm_ref_attention *s, const head *h, int64_t i, int64_t j, double p, double D,
                          const double *dy, double *dx) {
    int64_t qi = i * 3 * s->c, kj = j * 3 * s->c;
    double ds = p * (dot(dy, h->v + kj, h->size) - D) / sqrt((double)h->size);
    for (int64_t e = 0; e < h->size; e++) {
        dx[qi + e] += ds * h->k[kj + e];
        dx[kj + s->c + e] += ds * h->q[qi + e];
        dx[kj + 2 * s->c + e] += p * dy[e];
    }
}

/* Adds to dx; the caller clears it where nothing is to be kept. */
void trm_ref_attention_bwd(const trm_ref_attention *s, const double *x, const double *y, const double *lse,
                           const double *dy, double *dx) {
    for (int64_t k = 0; k < s->heads; k++) {
        head h = head_of(s, x, k);
        for (int64_t i = 0; i < s->t; i++) {
            const double *yi = y + i * s->c + k * h.size, *dyi = dy + i * s->c + k * h.size;
            double D = dot(dyi, yi, h.size);
            for (int64_t j = 0; j < visible(s, i); j++) {
                double p = exp(score(s, &h, i, j) - lse[k * s->t + i]);
                pair_gradient(s, &h, i, j, p, D, dyi, dx + k * h.size);
            }
        }
    }
}
