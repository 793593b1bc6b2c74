/* op_bench: see op_bench.h. */
#include "op_bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define END_BYTES 64
#define END_MARK 0xA5
/* Samples of a step around those of the case: `first` and slices stay below. */
#define MOST_SAMPLES 16

const char *op_arg_name(trm_arg a) {
    static const char *const names[] = {
#define X(name) #name,
        TRM_ARG_LIST(X)
#undef X
    };
    return names[a];
}

/* ---- sizes ------------------------------------------------------------------------------- */

static trm_op_kind first_kind(const op_case *c) { return c->family->stage[0].kind; }

static trm_shape out_of(const op_case *c) {
    bool load = first_kind(c) == TRM_OP_LOAD_X || first_kind(c) == TRM_OP_LOAD_Y;
    return c->desc.out.rank == 0 && !load ? c->desc.in : c->desc.out;
}

static int64_t last_dim(const trm_shape *s) { return s->rank > 0 ? s->dim[s->rank - 1] : 1; }

/* Channels of a norm. */
static int64_t channels(const op_case *c) { return trm_shape_channels(&c->desc.in); }

static int64_t window(const trm_op_desc *d) {
    int64_t pixels = 1;
    for (int a = 0; a < d->in.rank - 1; a++) pixels *= d->kernel[a];
    return pixels;
}

static int64_t weights(const op_case *c) {
    const trm_op_desc *d = &c->desc;
    trm_shape out = out_of(c);
    switch (first_kind(c)) {
    case TRM_OP_LINEAR_FWD: return last_dim(&out) * last_dim(&d->in);
    case TRM_OP_CONV_FWD: return d->out.dim[0] * d->in.dim[0] / d->groups * window(d);
    case TRM_OP_EMBED_FWD: return d->count * last_dim(&out);
    case TRM_OP_POSEMB_FWD: return trm_shape_count(&d->in);
    case TRM_OP_SUMSQ: return d->count;
    default: return channels(c);
    }
}

static int64_t biases(const op_case *c) {
    trm_shape out = out_of(c);
    if (first_kind(c) == TRM_OP_CONV_FWD) return out.dim[0];
    return first_kind(c) == TRM_OP_LINEAR_FWD ? last_dim(&out) : channels(c);
}

static int64_t targets(const op_case *c) {
    int64_t in = trm_shape_count(&c->desc.in);
    return first_kind(c) == TRM_OP_LOSS_CE ? in / channels(c) : in;
}

/* Elements of one sample, 0 where the buffer is no list of samples. */
static int64_t per_sample(const op_case *c, trm_arg a) {
    trm_shape out = out_of(c);
    switch (a) {
    case TRM_ARG_X:
    case TRM_ARG_X2:
    case TRM_ARG_DX: return trm_shape_count(&c->desc.in);
    case TRM_ARG_Y:
    case TRM_ARG_DY:
    case TRM_ARG_RES:
    case TRM_ARG_PRE: return trm_shape_count(&out);
    case TRM_ARG_T: return targets(c);
    default: return 0;
    }
}

int64_t op_bench_per_sample(const op_bench *b, trm_arg a) { return per_sample(b->c, a); }

static int64_t shared_count(const op_case *c, trm_arg a) {
    switch (a) {
    case TRM_ARG_W:
    case TRM_ARG_DW: return weights(c);
    case TRM_ARG_B:
    case TRM_ARG_DB: return biases(c);
    case TRM_ARG_G:
    case TRM_ARG_M1:
    case TRM_ARG_M2: return c->desc.count;
    case TRM_ARG_STAT: return 2 * channels(c) + 1;
    case TRM_ARG_GSTAT: return 2 * channels(c);
    case TRM_ARG_RUN_MEAN:
    case TRM_ARG_RUN_VAR: return channels(c);
    default: return 0;
    }
}

static op_type type_of(const op_case *c, trm_arg a) {
    trm_op_kind k = first_kind(c);
    if (a == TRM_ARG_SAVED) return OP_BYTES;
    if (a == TRM_ARG_STAT || a == TRM_ARG_GSTAT) return OP_DOUBLES;
    bool ints = (a == TRM_ARG_X && k == TRM_OP_EMBED_FWD) || (a == TRM_ARG_T && k == TRM_OP_LOSS_CE) ||
                (a == TRM_ARG_Y && c->desc.out_tokens);
    return ints ? OP_INTS : OP_FLOATS;
}

/* Whether this case has the buffer; what its description does not ask for stays NULL. */
static bool has(const op_case *c, trm_arg a) {
    const trm_op_desc *d = &c->desc;
    bool has_bias = d->bias || first_kind(c) == TRM_OP_BN_STATS || first_kind(c) == TRM_OP_BN_APPLY;
    if (!(c->family->uses & OP_BIT(a)) || (c->without & OP_BIT(a))) return false;
    switch (a) {
    case TRM_ARG_B:
    case TRM_ARG_DB: return has_bias;
    case TRM_ARG_RES: return d->residual;
    case TRM_ARG_PRE: return trm_act_from_input(d->act);
    case TRM_ARG_M1: return trm_optimizer_moments(d->optimizer, d->beta1) > 0;
    case TRM_ARG_M2: return trm_optimizer_moments(d->optimizer, d->beta1) > 1;
    case TRM_ARG_DX: return !(c->family->loss && c->eval);
    default: return true;
    }
}

/* ---- elements ----------------------------------------------------------------------------- */

/* A float32 number as bfloat16, to the nearest, ties to even. */
static uint16_t half_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t rest = bits & 0xFFFF, up = rest > 0x8000 || (rest == 0x8000 && (bits >> 16 & 1));
    return isnan(f) ? 0x7FC0 : (uint16_t)((bits >> 16) + up);
}

static double from_half(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

double op_bench_number(const op_bench *b, trm_arg a, double v) {
    return b->c->half & OP_BIT(a) ? from_half(half_of((float)v)) : (double)(float)v;
}

double op_bench_get(const op_bench *b, trm_arg a, int64_t i) {
    const void *p = b->buffer[a];
    if (b->type[a] == OP_HALVES) return from_half(((const uint16_t *)p)[i]);
    if (b->type[a] == OP_INTS) return ((const int32_t *)p)[i];
    if (b->type[a] == OP_DOUBLES || b->device->backend->float_size == sizeof(double))
        return ((const double *)p)[i];
    return ((const float *)p)[i];
}

void op_bench_set(op_bench *b, trm_arg a, int64_t i, double value) {
    void *p = b->buffer[a];
    if (b->type[a] == OP_INTS)
        ((int32_t *)p)[i] = (int32_t)value;
    else if (b->type[a] == OP_HALVES)
        ((uint16_t *)p)[i] = half_of((float)value);
    else if (b->type[a] == OP_DOUBLES || b->device->backend->float_size == sizeof(double))
        ((double *)p)[i] = value;
    else
        ((float *)p)[i] = (float)value;
}

/* ---- values ------------------------------------------------------------------------------- */

static trm_rng_key key_of(const op_case *c, int a, int64_t update) {
    uint64_t seed = trm_hash(c->name, strlen(c->name), trm_hash(c->family->name, strlen(c->family->name), 0));
    return (trm_rng_key){
        .seed = seed, .purpose = TRM_RNG_SYNTH, .layer = (uint32_t)a, .update = (uint64_t)update};
}

/* Weights keep the size of what they multiply, so that activations are not saturated. */
static double weight_value(const op_case *c, double normal) {
    switch (first_kind(c)) {
    case TRM_OP_LINEAR_FWD: return normal / sqrt((double)last_dim(&c->desc.in));
    case TRM_OP_CONV_FWD: return normal / sqrt((double)weights(c) / (double)c->desc.out.dim[0]);
    case TRM_OP_BN_STATS:
    case TRM_OP_BN_APPLY:
    case TRM_OP_GN_FWD:
    case TRM_OP_LN_FWD: return 1 + 0.3 * normal;
    default: return normal;
    }
}

static double value_of(const op_case *c, trm_arg a, int64_t i, int64_t update) {
    trm_rng_key key = key_of(c, a, update);
    double normal = (float)trm_rng_normal(&key, (uint64_t)i);
    bool adds = first_kind(c) == TRM_OP_ADD_INTO;
    switch (a) {
    case TRM_ARG_X:
        if (type_of(c, a) == OP_INTS)
            return (double)trm_rng_below(&key, (uint64_t)i, (uint64_t)c->desc.count);
        return normal * (c->spread > 0 ? c->spread : 1) + c->shift;
    case TRM_ARG_T:
        if (type_of(c, a) == OP_INTS) return (double)trm_rng_below(&key, (uint64_t)i, (uint64_t)channels(c));
        return first_kind(c) == TRM_OP_LOSS_BCE ? (float)trm_rng_uniform(&key, (uint64_t)i) : normal;
    case TRM_ARG_W: return weight_value(c, normal);
    case TRM_ARG_RUN_VAR: return 1 + 0.5 * trm_rng_uniform(&key, (uint64_t)i);
    case TRM_ARG_M1:
    case TRM_ARG_M2: return 0;
    case TRM_ARG_DX: return c->desc.accumulate || adds ? normal : NAN;
    case TRM_ARG_DW:
    case TRM_ARG_DB: {
        bool acc = first_kind(c) == TRM_OP_LN_FWD || first_kind(c) == TRM_OP_GN_FWD ? c->desc.accumulate_w
                                                                                    : c->desc.accumulate;
        return acc ? normal : NAN;
    }
    case TRM_ARG_Y: return first_kind(c) == TRM_OP_CONCAT_FWD ? normal : NAN; /* it writes a part of Y */
    case TRM_ARG_PRE:
    case TRM_ARG_STAT:
    case TRM_ARG_GSTAT: return NAN;
    default: return normal;
    }
}

double op_bench_value(const op_bench *b, trm_arg a, int64_t i) {
    return op_bench_number(b, a, value_of(b->c, a, i + b->offset * per_sample(b->c, a), 0));
}

static void fill(op_bench *b, trm_arg a) {
    if (b->type[a] == OP_BYTES) {
        memset(b->buffer[a], 0xFF, b->bytes[a]); /* read before it is written: a NaN */
        return;
    }
    for (int64_t i = 0; i < b->count[a]; i++)
        op_bench_set(b, a, i, b->type[a] == OP_INTS && a == TRM_ARG_Y ? -1 : op_bench_value(b, a, i));
}

void op_bench_fill(op_bench *b) {
    for (int a = 0; a < TRM_ARG_COUNT; a++)
        if (b->buffer[a]) fill(b, (trm_arg)a);
    if (b->scratch) memset(b->scratch, 0xFF, b->scratch_bytes);
    memset(b->tail, 0, sizeof b->tail);
}

void op_bench_begin_update(op_bench *b, int64_t update) {
    b->step.update = update;
    for (int64_t i = 0; i < b->count[TRM_ARG_G] && b->buffer[TRM_ARG_G]; i++)
        op_bench_set(b, TRM_ARG_G, i, (float)value_of(b->c, TRM_ARG_G, i, update));
}

/* ---- raw samples ---------------------------------------------------------------------------- */

/* Bits of one element: integers as they come, floats finite and of moderate size. */
static void raw_element(trm_dtype type, const trm_rng_key *key, int64_t i, void *to) {
    uint64_t bits = trm_rng_below(key, (uint64_t)i, UINT64_C(1) << 62);
    double value = trm_rng_normal(key, (uint64_t)i);
    switch (type) {
    case TRM_F64: memcpy(to, &value, 8); return;
    case TRM_F32: memcpy(to, &(float){(float)value}, 4); return;
    case TRM_F16:
        memcpy(to, &(uint16_t){(uint16_t)((bits & 0x83FF) | (12 + (bits >> 20) % 6) << 10)}, 2);
        return;
    case TRM_BF16:
        memcpy(to, &(uint16_t){(uint16_t)((bits & 0x807F) | (124 + (bits >> 20) % 6) << 7)}, 2);
        return;
    case TRM_I64: memcpy(to, &(int64_t){(int64_t)(bits & 0xFFFFF) - 1000}, 8); return;
    default: memcpy(to, &bits, trm_dtype_size(type)); return;
    }
}

static void make_raw(op_bench *b) {
    const trm_op_desc *d = &b->c->desc;
    size_t size = trm_dtype_size(d->raw_type);
    trm_rng_key key = key_of(b->c, TRM_ARG_COUNT, 0);
    b->raw = trm_alloc((size_t)(MOST_SAMPLES * d->raw_stride), "raw samples");
    assert_non_null(b->raw);
    for (int64_t s = 0; s < MOST_SAMPLES; s++)
        for (int64_t i = 0; i < d->raw_stride / (int64_t)size; i++)
            raw_element(d->raw_type, &key, s * 100000 + i,
                        (char *)b->raw + s * d->raw_stride + i * (int64_t)size);
}

static void make_step(op_bench *b) {
    for (int i = 0; i < MOST_SAMPLES; i++) b->sample[i] = 1000003 + 37 * i * i;
    b->step = (trm_step){.update = 3, .lr = 0.05, .inv_count = 1 / 37.0, .clip_factor = 0.7};
    b->step.sample = b->sample;
    b->step.tail = b->tail;
    if (b->c->desc.raw_stride > 0) make_raw(b);
    b->step.x_raw = first_kind(b->c) == TRM_OP_LOAD_X ? b->raw : NULL;
    b->step.y_raw = first_kind(b->c) == TRM_OP_LOAD_Y ? b->raw : NULL;
}

/* ---- open and close --------------------------------------------------------------------------- */

static size_t element_bytes(const op_bench *b, trm_arg a) {
    static const size_t sizes[] = {[OP_INTS] = 4, [OP_DOUBLES] = 8, [OP_BYTES] = 1, [OP_HALVES] = 2};
    return b->type[a] == OP_FLOATS ? b->device->backend->float_size : sizes[b->type[a]];
}

/* Every buffer ends with marks, so that a write behind it is seen without a sanitizer too. */
static void make_buffer(op_bench *b, trm_arg a, int64_t count) {
    b->count[a] = count;
    b->bytes[a] = (size_t)count * element_bytes(b, a);
    b->buffer[a] = trm_alloc(b->bytes[a] + END_BYTES, op_arg_name(a));
    assert_non_null(b->buffer[a]);
    memset((char *)b->buffer[a] + b->bytes[a], END_MARK, END_BYTES);
}

static uint32_t lies_half(const op_bench *b) { return b->device == op_ref ? 0 : b->c->half; }

static void make_buffers(op_bench *b) {
    for (int a = 0; a < TRM_ARG_COUNT; a++) {
        int64_t each = per_sample(b->c, (trm_arg)a);
        b->type[a] = type_of(b->c, (trm_arg)a);
        if (lies_half(b) & OP_BIT(a)) b->type[a] = OP_HALVES;
        if (a != TRM_ARG_SAVED && has(b->c, (trm_arg)a))
            make_buffer(b, (trm_arg)a, each > 0 ? each * b->n : shared_count(b->c, (trm_arg)a));
    }
}

static bool replaces(const op_stage *s, trm_arg a) {
    for (int i = 0; i < s->puts; i++)
        if (s->put[i].arg == a) return true;
    return false;
}

static bool writes_weights(trm_op_kind k) {
    return k == TRM_OP_LINEAR_BWD_W || k == TRM_OP_CONV_BWD_W || k == TRM_OP_BN_GRAD_SUMS ||
           k == TRM_OP_EMBED_BWD || k == TRM_OP_POSEMB_BWD;
}

/* Of the arguments of a kind, those that may lie so. */
static uint32_t half_arguments(trm_op_kind k) {
    switch (k) {
    case TRM_OP_LINEAR_FWD:
    case TRM_OP_CONV_FWD: return OP_BIT(TRM_ARG_X) | OP_BIT(TRM_ARG_W) | OP_BIT(TRM_ARG_Y);
    case TRM_OP_LINEAR_BWD_X:
    case TRM_OP_CONV_BWD_X: return OP_BIT(TRM_ARG_DY) | OP_BIT(TRM_ARG_W);
    case TRM_OP_LINEAR_BWD_W:
    case TRM_OP_CONV_BWD_W: return OP_BIT(TRM_ARG_DY) | OP_BIT(TRM_ARG_X);
    case TRM_OP_CAST: return OP_BIT(TRM_ARG_X) | OP_BIT(TRM_ARG_Y);
    case TRM_OP_LN_FWD: return OP_BIT(TRM_ARG_Y);
    case TRM_OP_ACT_BWD: return OP_BIT(TRM_ARG_DX);
    case TRM_OP_BN_STATS: return OP_BIT(TRM_ARG_X);
    case TRM_OP_BN_APPLY: return OP_BIT(TRM_ARG_X) | OP_BIT(TRM_ARG_Y) | OP_BIT(TRM_ARG_RES);
    case TRM_OP_BN_GRAD_SUMS: return OP_BIT(TRM_ARG_X) | OP_BIT(TRM_ARG_Y);
    case TRM_OP_BN_GRAD_APPLY: return OP_BIT(TRM_ARG_X) | OP_BIT(TRM_ARG_DX);
    default: return 0;
    }
}

static void plan(op_bench *b, int s, bool add) {
    trm_op_desc d = b->c->desc;
    d.kind = b->stage[s].kind;
    d.n = b->n;
    d.first += b->offset;
    d.train = !b->c->eval;
    d.half = lies_half(b) & half_arguments(d.kind);
    if (d.kind == TRM_OP_ACT_BWD) d.in = d.out = out_of(b->c);    /* after a linear op: of its output */
    if (replaces(&b->stage[s], TRM_ARG_DX)) d.accumulate = false; /* in place */
    if (add && writes_weights(d.kind)) d.accumulate = true;
    if (add) d.accumulate_w = true;
    assert_ok(trm_op_plan(b->device, &d, &b->op[s]));
    if (b->op[s]->scratch_bytes > b->scratch_bytes) b->scratch_bytes = b->op[s]->scratch_bytes;
    if ((int64_t)b->op[s]->saved_bytes > b->count[TRM_ARG_SAVED])
        b->count[TRM_ARG_SAVED] = (int64_t)b->op[s]->saved_bytes;
}

static void bind(op_bench *b, int s) {
    void *args[TRM_ARG_COUNT];
    memcpy(args, b->buffer, sizeof args);
    for (int i = 0; i < b->stage[s].puts; i++)
        args[b->stage[s].put[i].arg] = b->buffer[b->stage[s].put[i].buffer];
    assert_ok(trm_op_bind(b->op[s], args, b->scratch));
}

static void choose_stages(op_bench *b) {
    const op_family *f = b->c->family;
    for (int s = 0; s < f->stages; s++)
        if (f->stage[s].kind != TRM_OP_ACT_BWD || b->c->desc.act != TRM_ACT_NONE)
            b->stage[b->stages++] = f->stage[s];
}

void op_bench_open_slice(op_bench *b, const op_case *c, trm_device *device, int64_t first, int64_t n,
                         bool add) {
    memset(b, 0, sizeof *b);
    b->c = c;
    b->device = device;
    b->offset = first;
    b->n = n;
    choose_stages(b);
    make_buffers(b);
    make_step(b);
    for (int s = 0; s < b->stages; s++) plan(b, s, add);
    if (b->count[TRM_ARG_SAVED] > 0) make_buffer(b, TRM_ARG_SAVED, b->count[TRM_ARG_SAVED]);
    if (b->scratch_bytes > 0) b->scratch = trm_alloc(b->scratch_bytes, "scratch");
    for (int s = 0; s < b->stages; s++) bind(b, s);
    op_bench_fill(b);
}

void op_bench_open(op_bench *b, const op_case *c, trm_device *device) {
    op_bench_open_slice(b, c, device, 0, c->desc.n, false);
}

void op_bench_close(op_bench *b) {
    for (int s = 0; s < b->stages; s++) trm_op_destroy(b->op[s]);
    for (int a = 0; a < TRM_ARG_COUNT; a++) trm_free(b->buffer[a]);
    trm_free(b->scratch);
    trm_free(b->raw);
}

void op_bench_run(op_bench *b, int stage) { assert_ok(trm_op_run(b->op[stage], &b->step)); }

void op_bench_check_ends(const op_bench *b) {
    for (int a = 0; a < TRM_ARG_COUNT; a++)
        for (int i = 0; i < END_BYTES && b->buffer[a]; i++)
            if (((const unsigned char *)b->buffer[a])[b->bytes[a] + (size_t)i] != END_MARK)
                fail_msg("%s was written behind its end", op_arg_name((trm_arg)a));
}

/* ---- tests ---------------------------------------------------------------------------------------- */

static void add_test(op_tests *t, char *name, void (*run)(void **state), op_trial trial) {
    size_t size = sizeof *t->list;
    op_trial *state = trm_alloc(sizeof *state, "a trial");
    t->list = trm_realloc(t->list, t->count * size, (t->count + 1) * size, "tests");
    if (!state || !t->list || !name) exit(2);
    *state = trial;
    t->list[t->count++] = (struct CMUnitTest){name, run, NULL, NULL, state};
}

void op_tests_add(op_tests *t, const char *check, void (*run)(void **state), trm_device *device,
                  const op_case *cases, int count) {
    for (int i = 0; i < count; i++) {
        trm_str name = {0};
        trm_str_add(&name, "%s %s: %s, %s", device->backend->name, check, cases[i].family->name,
                    cases[i].name);
        add_test(t, name.p, run, (op_trial){&cases[i], device});
    }
}

void op_tests_add_one(op_tests *t, const char *check, void (*run)(void **state), trm_device *device) {
    trm_str name = {0};
    trm_str_add(&name, "%s %s", device->backend->name, check);
    add_test(t, name.p, run, (op_trial){NULL, device});
}

int op_tests_run(op_tests *t) {
    int failed = _cmocka_run_group_tests("ops", t->list, t->count, NULL, NULL);
    for (size_t i = 0; i < t->count; i++) {
        trm_free((void *)(uintptr_t)t->list[i].name);
        trm_free(t->list[i].initial_state);
    }
    trm_free(t->list);
    return failed > 0;
}

void op_skip_without_half(const op_trial *t) {
    if (!t->c->half || t->device == op_ref || trm_device_half(t->device) == TRM_OK) return;
    print_message("%s\n", trm_error_text());
    skip();
}

trm_device *op_ref;

int op_devices_open(int threads, trm_device *devices[OP_MAX_DEVICES]) {
    int count = 0;
    for (const trm_backend *const *b = trm_backends(); *b && count < OP_MAX_DEVICES; b++) {
        if (trm_device_open((*b)->name, threads, &devices[count]) != TRM_OK) {
            print_message("Bail out! %s\n", trm_error_text());
            exit(2);
        }
        if (strcmp((*b)->name, "ref") == 0) op_ref = devices[count];
        count++;
    }
    return count;
}

void op_devices_close(trm_device *devices[OP_MAX_DEVICES], int count) {
    for (int i = 0; i < count; i++) trm_device_close(devices[i]);
}
