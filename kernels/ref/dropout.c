/* dropout: inverted dropout (Srivastava et al. 2014; torch.nn.Dropout).  The mask is a pure
 * function of (seed, layer, update, global sample, canonical element), so the gradient draws it
 * again and no rank's share of the samples changes it. */
#include "ref/ref.h"

/* out = in * [uniform >= p] / (1-p), with element indices counted in canonical order. */
void trm_ref_dropout_sample(const trm_ref_dropout *s, const trm_rng_key *key, const double *in, bool acc,
                            double *out) {
    for (int64_t e = 0; e < s->c * s->pixels; e++) {
        int64_t at = trm_ref_channels_last(s->c, s->pixels, e);
        bool keep = trm_rng_uniform(key, (uint64_t)e) >= s->p;
        double value = keep ? in[at] / (1 - s->p) : 0;
        out[at] = acc ? out[at] + value : value;
    }
}
