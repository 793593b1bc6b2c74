/* history: stretches of updates, one behind the other. */
#include "report_impl.h"

/* `cap` stretches where there was room for `before`; false: out of memory. */
static bool regrow(void **p, int64_t before, int64_t cap, size_t each) {
    void *more = trm_realloc(*p, (size_t)before * each, (size_t)cap * each, "a history");
    if (more) *p = more;
    return more != NULL;
}

trm_status trm_history_grow(trm_history *h) {
    size_t n = (size_t)h->ranks;
    if (h->n == h->cap) {
        int64_t cap = h->cap ? 2 * h->cap : 16;
        bool grown = regrow((void **)&h->stretch, h->cap, cap, sizeof *h->stretch) &&
                     regrow((void **)&h->speed, h->cap, cap, n * sizeof *h->speed) &&
                     regrow((void **)&h->noise, h->cap, cap, n * sizeof *h->noise) &&
                     regrow((void **)&h->had, h->cap, cap, n * sizeof *h->had);
        if (!grown) return TRM_MEMORY;
        h->cap = cap;
    }
    h->n++;
    return TRM_OK;
}

void trm_history_free(trm_history *h) {
    trm_free(h->stretch);
    trm_free(h->speed);
    trm_free(h->noise);
    trm_free(h->had);
    *h = (trm_history){0};
}

void trm_history_restart(trm_history *h, int ranks, int64_t total) {
    int64_t left_out = h->left_out + h->n;
    bool windows = h->windows;
    trm_history_free(h);
    h->ranks = ranks;
    h->total = total;
    h->left_out = left_out;
    h->windows = windows;
}
