/* embedding: a row of W per token (torch.nn.Embedding), and one row of W per position added. */
#include "ref/ref.h"

int64_t trm_ref_embed_check(const trm_ref_embed *s, const int32_t *x) {
    for (int64_t t = 0; t < s->tokens; t++)
        if (x[t] < 0 || x[t] >= s->vocab) return t;
    return -1;
}

/* y[t] = w[x[t]] */
void trm_ref_embed_fwd(const trm_ref_embed *s, const int32_t *x, const double *w, double *y) {
    for (int64_t t = 0; t < s->tokens; t++)
        for (int64_t i = 0; i < s->c; i++) y[t * s->c + i] = w[x[t] * s->c + i];
}

/* dw[v] = sum of dy[t] over the t with x[t] == v */
void trm_ref_embed_bwd(const trm_ref_embed *s, const int32_t *x, const double *dy, bool acc, double *dw) {
    for (int64_t i = 0; i < s->vocab * s->c && !acc; i++) dw[i] = 0;
    for (int64_t t = 0; t < s->tokens; t++)
        for (int64_t i = 0; i < s->c; i++) dw[x[t] * s->c + i] += dy[t * s->c + i];
}

/* y[n,t] = x[n,t] + w[t] */
void trm_ref_posemb_fwd(int64_t n, int64_t size, const double *x, const double *w, double *y) {
    for (int64_t i = 0; i < n * size; i++) y[i] = x[i] + w[i % size];
}

/* dw[t] = sum over samples of dy[n,t] */
void trm_ref_posemb_bwd(int64_t n, int64_t size, const double *dy, bool acc, double *dw) {
    for (int64_t i = 0; i < size && !acc; i++) dw[i] = 0;
    for (int64_t i = 0; i < n * size; i++) dw[i % size] += dy[i];
}
