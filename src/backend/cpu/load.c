/* Loads: raw samples of the step to floats or tokens. */
#include "own.h"

typedef void (*load_fn)(const trm_load *a);

typedef struct load_state {
    trm_cpu_state base;
    trm_load a;
    double *norm_double; /* a.width slopes, then as many offsets */
    float *norm_float;
    load_fn fn;
} load_state;

static trm_status load_x_run(trm_op *op, const trm_step *step) {
    load_state *s = op->state;
    s->a.raw = (const char *)step->x_raw + op->desc.first * s->a.stride;
    s->fn(&s->a);
    return TRM_OK;
}

static trm_status load_y_run(trm_op *op, const trm_step *step) {
    load_state *s = op->state;
    s->a.raw = (const char *)step->y_raw + op->desc.first * s->a.stride;
    s->fn(&s->a);
    return TRM_OK;
}

static trm_status load_bind(trm_op *op) {
    load_state *s = op->state;
    s->a.y = op->arg[TRM_ARG_Y];
    return TRM_OK;
}

static void load_destroy(trm_op *op) {
    load_state *s = op->state;
    trm_free(s->norm_double);
    trm_free(s->norm_float);
}

#define FLOATS(k, name) [TRM_##name] = k->load_##name,
#define TOKENS(k, name) [TRM_##name] = k->tokens_##name,

/* NULL where the type has no such loop: tokens come from integers. */
static load_fn choose(const trm_kernels *k, trm_dtype type, bool tokens) {
    const load_fn to_floats[TRM_DTYPE_COUNT] = {TRM_LOAD_INTEGERS(k, FLOATS) TRM_LOAD_REALS(k, FLOATS)};
    const load_fn to_tokens[TRM_DTYPE_COUNT] = {TRM_LOAD_INTEGERS(k, TOKENS)};
    return tokens ? to_tokens[type] : to_floats[type];
}

/* (raw * scale - mean) / std as one slope and one offset for each of `width` entries. */
static trm_status fill_norms(const trm_op_desc *d, load_state *s) {
    int64_t width = s->a.width;
    double *wide = s->norm_double = trm_alloc_array((size_t)width * 2, sizeof(double), "normalisation");
    float *narrow = s->norm_float = trm_alloc_array((size_t)width * 2, sizeof(float), "normalisation");
    if (!wide || !narrow) return TRM_MEMORY;
    for (int64_t j = 0; j < width; j++) {
        int64_t c = d->norm_count > 1 ? j % s->a.channels : 0;
        double mean = d->mean && d->norm_count > 0 ? d->mean[c] : 0;
        double std = d->std && d->norm_count > 0 ? d->std[c] : 1;
        wide[j] = d->scale / std;
        wide[width + j] = -mean / std;
    }
    for (int64_t j = 0; j < 2 * width; j++) narrow[j] = (float)wide[j];
    s->a.slope_double = wide;
    s->a.offset_double = wide + width;
    s->a.slope_float = narrow;
    s->a.offset_float = narrow + width;
    return TRM_OK;
}

/* Where raw and device agree in their order and all channels are treated alike, a sample is one channel.  The rows of a sequence
 * and a vector are pixels of so many channels. */
static int64_t channels_of(const trm_op_desc *d) {
    if (d->out_tokens) return 1;
    if (!trm_shape_channels_first(&d->out)) return d->norm_count > 1 ? d->norm_count : 1;
    bool same_order = d->raw_hwc || trm_shape_count(&d->out) == d->out.dim[0];
    return same_order && d->norm_count <= 1 ? 1 : d->out.dim[0];
}

trm_status trm_cpu_plan_load(trm_device *d, trm_op *op) {
    const trm_op_desc *desc = &op->desc;
    TRM_TRY(trm_cpu_own(op, sizeof(load_state), load_bind,
                        desc->kind == TRM_OP_LOAD_X ? load_x_run : load_y_run));
    load_state *s = op->state;
    s->base.destroy = load_destroy;
    s->a.n = desc->n;
    s->a.count = trm_shape_count(&desc->out);
    s->a.channels = channels_of(desc);
    s->a.stride = desc->raw_stride;
    s->a.threads = d->threads;
    s->a.pixels_first = desc->raw_hwc || !trm_shape_channels_first(&desc->out);
    s->a.width = s->a.channels * (s->a.channels > 1 && s->a.pixels_first && desc->out.rank > 1 ? 64 : 1);
    s->fn = choose(trm_cpu_kernels(d), desc->raw_type, desc->out_tokens);
    if (!s->fn) return trm_fail(TRM_INTERNAL, "%s has no loop to load it", trm_dtype_name(desc->raw_type));
    return desc->out_tokens ? TRM_OK : fill_norms(desc, s);
}
