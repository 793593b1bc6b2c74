/* load: raw samples, as the file has them, into the device's types and layout. */
#include "ref/ref.h"

/* Channels lie first in an image and last in what is none: the entries go round. */
static double entry(const double *list, int64_t count, int64_t c, double otherwise) {
    if (!list || count == 0) return otherwise;
    return list[c % count];
}

/* y = (raw * scale - mean[c]) / std[c]; y lies with its channels last, raw with them last or first. */
void trm_ref_load_floats(const trm_ref_load *s, const void *raw, double *y) {
    for (int64_t e = 0; e < s->c * s->pixels; e++) {
        int64_t at = trm_ref_channels_last(s->c, s->pixels, e), c = e / s->pixels;
        const char *from = (const char *)raw + (size_t)(s->raw_hwc ? at : e) * trm_dtype_size(s->type);
        double value;
        trm_convert_f64(from, s->type, 1, &value);
        y[at] = (value * s->scale - entry(s->mean, s->norm_count, c, 0)) / entry(s->std, s->norm_count, c, 1);
    }
}

void trm_ref_load_tokens(int64_t size, trm_dtype type, const void *raw, int32_t *y) {
    for (int64_t e = 0; e < size; e++) {
        int64_t value;
        trm_convert_i64((const char *)raw + (size_t)e * trm_dtype_size(type), type, 1, &value);
        y[e] =
            (int32_t)trm_max64(INT32_MIN, trm_min64(value, INT32_MAX)); /* an id too large stays too large */
    }
}
