/* concat: values side by side in the channels of one, as torch.cat; each is a range of every row. */
#include "ref/ref.h"

void trm_ref_concat_fwd(const trm_ref_concat *s, const double *x, double *y) {
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->c; i++) y[r * s->wide + s->at + i] = x[r * s->c + i];
}

void trm_ref_concat_bwd(const trm_ref_concat *s, const double *dy, bool acc, double *dx) {
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->c; i++) {
            double d = dy[r * s->wide + s->at + i], *to = &dx[r * s->c + i];
            *to = acc ? *to + d : d;
        }
}
