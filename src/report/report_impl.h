/* Private to report: how a history is filled. */
#ifndef TRM_REPORT_IMPL_H
#define TRM_REPORT_IMPL_H

#include <trireme/report.h>

#define TRM_MOST_RANKS 1000000

/* One more stretch of h->ranks ranks, all zero; its number is h->n - 1. */
trm_status trm_history_grow(trm_history *h);
/* Forgets all stretches and what they were of. */
void trm_history_restart(trm_history *h, int ranks, int64_t total);

static inline trm_speed *trm_speeds_at(const trm_history *h, int64_t i) { return h->speed + i * h->ranks; }
static inline int64_t *trm_had_at(const trm_history *h, int64_t i) { return h->had + i * h->ranks; }
static inline double *trm_noise_at(const trm_history *h, int64_t i) { return h->noise + i * h->ranks; }

#endif
