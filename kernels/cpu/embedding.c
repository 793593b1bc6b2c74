/* Embeddings of tokens and of positions.  Gradients are split over threads by columns: every sum has one
 * writer and one order, whatever the number of threads. */
#include "kernels.h"
#include "lanes.h"

int64_t TRM_K(find_outside)(const int32_t *id, int64_t n, int64_t limit) {
    int64_t outside = 0;
#pragma omp simd reduction(+ : outside)
    for (int64_t i = 0; i < n; i++) outside += (int64_t)(uint32_t)id[i] >= limit;
    for (int64_t i = 0; outside > 0 && i < n; i++)
        if ((int64_t)(uint32_t)id[i] >= limit) return i;
    return -1;
}

void TRM_K(embed)(const float *w, const int32_t *id, float *y, int64_t tokens, int64_t c, int threads) {
    threads = threads_for(tokens * c, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t t = 0; t < tokens; t++) memcpy(y + t * c, w + (int64_t)id[t] * c, sizeof *y * (size_t)c);
}

static void clear(float *x, int64_t n, int threads) {
    threads = threads_for(n, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(n, 16, threads, t);
        if (s.end > s.begin) memset(x + s.begin, 0, sizeof *x * (size_t)(s.end - s.begin));
    }
}

static void embed_grad_columns(const trm_embed_grad *a, trm_span column) {
    for (int64_t t = 0; t < a->tokens; t++) {
        const float *dy = a->dy + t * a->c;
        float *dw = a->dw + (int64_t)a->id[t] * a->c;
#pragma omp simd
        for (int64_t j = column.begin; j < column.end; j++) dw[j] += dy[j];
    }
}

void TRM_K(embed_grad)(const trm_embed_grad *a) {
    int threads = threads_for(a->tokens * a->c, a->threads);
    if (!a->accumulate) clear(a->dw, a->vocab * a->c, a->threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) embed_grad_columns(a, span_of(a->c, 16, threads, t));
}

void TRM_K(posemb)(const float *x, const float *w, float *y, int64_t n, int64_t count, int threads) {
    threads = threads_for(n * count, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        trm_span s = span_of(count, 16, threads, t);
        for (int64_t i = 0; i < n; i++)
#pragma omp simd
            for (int64_t j = s.begin; j < s.end; j++) y[i * count + j] = x[i * count + j] + w[j];
    }
}

/* Sums over samples of a piece that stays in the first cache. */
#define PIECE 1024
static void posemb_grad_piece(const float *dy, float *dw, int64_t n, int64_t count, int64_t m,
                              bool accumulate) {
    float sum[PIECE];
    for (int64_t j = 0; j < m; j++) sum[j] = accumulate ? dw[j] : 0;
    for (int64_t i = 0; i < n; i++, dy += count)
#pragma omp simd
        for (int64_t j = 0; j < m; j++) sum[j] += dy[j];
    memcpy(dw, sum, sizeof *dw * (size_t)m);
}

void TRM_K(posemb_grad)(const float *dy, float *dw, int64_t n, int64_t count, bool accumulate, int threads) {
    threads = threads_for(n * count, threads);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t j = 0; j < count; j += PIECE)
        posemb_grad_piece(dy + j, dw + j, n, count, count - j < PIECE ? count - j : PIECE, accumulate);
}
