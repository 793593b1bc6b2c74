/* loops: time of the CPU's own loops, beside memcpy of the same number of bytes and beside oneDNN's primitive
 * where it has one.  Ours and the yardsticks take turns.
 *
 *   loops [threads]        default 1 */
#include <dnnl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <trireme/backend.h>

enum { ROUNDS = 16, MAX_OPS = 2, MAX_ARGS = 10 };
static const double BLOCK = 2e-3; /* seconds of one measurement */

static int threads = 1;
static trm_device *device;
static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void check(bool ok, const char *what) {
    if (ok) return;
    printf("loops: %s failed: %s\n", what, trm_error_text());
    exit(1);
}
#define DNNL(call) check((call) == dnnl_success, #call)

/* ---- time --------------------------------------------------------------------------- */

typedef struct work {
    void (*run)(void *what);
    void *what;
} work;

/* One thread: its CPU time, so that other jobs on the machine do not count. */
static double now(void) { return threads == 1 ? trm_thread_cpu() : trm_now(); }

static double run_for(const work *w, int64_t times) {
    double start = now();
    for (int64_t i = 0; i < times; i++) w->run(w->what);
    return (now() - start) / (double)times;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of one run of each of `count` works that take turns: the lower quartile, since other jobs on the
 * machine only add. */
static void measure(const work *w, int count, double *seconds) {
    double sample[3][ROUNDS];
    int64_t times[3];
    for (int k = 0; k < count; k++) {
        run_for(&w[k], 2);
        times[k] = (int64_t)fmax(1, BLOCK / run_for(&w[k], 3));
    }
    for (int r = 0; r < ROUNDS; r++)
        for (int k = 0; k < count; k++) sample[k][r] = run_for(&w[k], times[k]);
    for (int k = 0; k < count; k++) {
        qsort(sample[k], ROUNDS, sizeof(double), by_size);
        seconds[k] = sample[k][ROUNDS / 4];
    }
}

/* ---- ours --------------------------------------------------------------------------- */

typedef struct ours {
    int ops;
    trm_op *op[MAX_OPS];
    void *buffer[TRM_ARG_COUNT], *scratch;
    trm_step step;
    int64_t sample[4096];
    double tail[TRM_TAIL_SIZE];
} ours;

static void fill(float *p, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        p[i] = 0.01f + (float)((uint64_t)i * 2654435761u >> 8 & 0xffff) / 65536.0f;
}

static void *floats(int64_t n) {
    float *p = trm_alloc((size_t)n * sizeof(float), "a benchmark");
    check(p != NULL, "memory");
    fill(p, n);
    return p;
}

static int64_t elements_of(const trm_op_desc *d) {
    int64_t n = d->n * trm_max64(trm_shape_count(&d->in), trm_shape_count(&d->out));
    return trm_max64(trm_max64(n, d->count), 4096);
}

/* Ids of tokens or classes below `limit`. */
static void fill_ids(int32_t *p, int64_t n, int64_t limit) {
    for (int64_t i = 0; i < n; i++) p[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)limit);
}

static void open_ours(ours *o, const trm_op_desc *descs, int count) {
    size_t scratch = TRM_ALIGN;
    int64_t n = elements_of(descs);
    o->ops = count;
    for (int a = 0; a < TRM_ARG_COUNT; a++) o->buffer[a] = floats(n);
    if (descs->kind == TRM_OP_EMBED_FWD || descs->kind == TRM_OP_EMBED_BWD) {
        trm_free(o->buffer[TRM_ARG_W]);
        o->buffer[TRM_ARG_W] = floats(descs->count * descs->out.dim[1]);
        fill_ids(o->buffer[TRM_ARG_X], n, descs->count);
    }
    if (descs->kind == TRM_OP_LOSS_CE) fill_ids(o->buffer[TRM_ARG_T], n, descs->in.dim[descs->in.rank - 1]);
    double *stat = o->buffer[TRM_ARG_STAT], *gstat = o->buffer[TRM_ARG_GSTAT];
    for (int i = 0; i < 2048; i++) stat[i] = 1e4 + 1e4 * (i % 2), gstat[i] = 1;
    for (int k = 0; k < count; k++) {
        check(trm_op_plan(device, &descs[k], &o->op[k]) == TRM_OK, "plan");
        scratch = o->op[k]->scratch_bytes > scratch ? o->op[k]->scratch_bytes : scratch;
    }
    o->scratch = trm_alloc(scratch, "a benchmark");
    for (int k = 0; k < count; k++) check(trm_op_bind(o->op[k], o->buffer, o->scratch) == TRM_OK, "bind");
    o->step = (trm_step){.update = 7,
                         .lr = 1e-6,
                         .inv_count = 1e-3,
                         .clip_factor = 1,
                         .x_raw = o->buffer[TRM_ARG_X2],
                         .y_raw = o->buffer[TRM_ARG_X2],
                         .sample = o->sample,
                         .tail = o->tail};
}

static void close_ours(ours *o) {
    for (int k = 0; k < o->ops; k++) trm_op_destroy(o->op[k]);
    for (int a = 0; a < TRM_ARG_COUNT; a++) trm_free(o->buffer[a]);
    trm_free(o->scratch);
}

static void run_ours(void *what) {
    ours *o = what;
    for (int k = 0; k < o->ops; k++) check(trm_op_run(o->op[k], &o->step) == TRM_OK, "run");
}

/* ---- oneDNN ------------------------------------------------------------------------- */

typedef struct primitive {
    dnnl_primitive_t p;
    dnnl_exec_arg_t arg[MAX_ARGS];
    void *buffer[MAX_ARGS];
    int args;
} primitive;

static void run_primitive(void *what) {
    primitive *p = what;
    DNNL(dnnl_primitive_execute(p->p, stream, p->args, p->arg));
}

static void open_primitive(primitive *p, dnnl_primitive_desc_t pd) {
    static const int names[] = {
        DNNL_ARG_SRC,       DNNL_ARG_DST,      DNNL_ARG_DIFF_SRC,    DNNL_ARG_DIFF_DST,
        DNNL_ARG_MEAN,      DNNL_ARG_VARIANCE, DNNL_ARG_SCALE_SHIFT, DNNL_ARG_DIFF_SCALE_SHIFT,
        DNNL_ARG_WORKSPACE, DNNL_ARG_SRC_1};
    p->args = 0;
    DNNL(dnnl_primitive_create(&p->p, pd));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, names[i]);
        if (!md || md->ndims == 0) continue;
        size_t bytes = trm_round_up(dnnl_memory_desc_get_size(md), 64);
        p->buffer[p->args] = floats((int64_t)bytes / 4);
        p->arg[p->args].arg = names[i];
        DNNL(dnnl_memory_create(&p->arg[p->args].memory, md, engine, p->buffer[p->args]));
        p->args++;
    }
}

static void close_primitive(primitive *p) {
    for (int i = 0; i < p->args; i++) {
        dnnl_memory_destroy(p->arg[i].memory);
        trm_free(p->buffer[i]);
    }
    dnnl_primitive_destroy(p->p);
}

static dnnl_memory_desc_t flat(int64_t n) {
    dnnl_memory_desc_t md;
    DNNL(dnnl_memory_desc_init_by_tag(&md, 1, (dnnl_dims_t){n}, dnnl_f32, dnnl_a));
    return md;
}

static dnnl_memory_desc_t images(const trm_op_desc *d) {
    dnnl_memory_desc_t md;
    dnnl_dims_t dims = {d->n, d->in.dim[0], d->in.dim[1], d->in.dim[2]};
    DNNL(dnnl_memory_desc_init_by_tag(&md, 4, dims, dnnl_f32, dnnl_nhwc));
    return md;
}

static dnnl_memory_desc_t rows(const trm_op_desc *d) {
    dnnl_memory_desc_t md;
    int64_t c = d->in.dim[d->in.rank - 1];
    DNNL(dnnl_memory_desc_init_by_tag(&md, 2, (dnnl_dims_t){d->n * trm_shape_count(&d->in) / c, c}, dnnl_f32,
                                      dnnl_ab));
    return md;
}

/* Batch norm as oneDNN has it: all phases in one primitive, relu fused. */
static dnnl_primitive_desc_t batch_norm(const trm_op_desc *d, bool backward) {
    dnnl_memory_desc_t md = images(d);
    unsigned flags = dnnl_use_scaleshift | dnnl_fuse_norm_relu;
    dnnl_batch_normalization_desc_t fd, bd;
    dnnl_primitive_desc_t fwd, bwd;
    DNNL(dnnl_batch_normalization_forward_desc_init(&fd, dnnl_forward_training, &md, 1e-5f, flags));
    DNNL(dnnl_primitive_desc_create(&fwd, &fd, NULL, engine, NULL));
    if (!backward) return fwd;
    DNNL(dnnl_batch_normalization_backward_desc_init(&bd, dnnl_backward, &md, &md, 1e-5f, flags));
    DNNL(dnnl_primitive_desc_create(&bwd, &bd, NULL, engine, fwd));
    return bwd;
}

static dnnl_primitive_desc_t layer_norm(const trm_op_desc *d, bool backward) {
    dnnl_memory_desc_t md = rows(d);
    dnnl_layer_normalization_desc_t fd, bd;
    dnnl_primitive_desc_t fwd, bwd;
    DNNL(dnnl_layer_normalization_forward_desc_init(&fd, dnnl_forward_training, &md, NULL, 1e-5f,
                                                    dnnl_use_scaleshift));
    DNNL(dnnl_primitive_desc_create(&fwd, &fd, NULL, engine, NULL));
    if (!backward) return fwd;
    DNNL(dnnl_layer_normalization_backward_desc_init(&bd, dnnl_backward, &md, &md, NULL, 1e-5f,
                                                     dnnl_use_scaleshift));
    DNNL(dnnl_primitive_desc_create(&bwd, &bd, NULL, engine, fwd));
    return bwd;
}

static dnnl_primitive_desc_t eltwise(const trm_op_desc *d, bool backward) {
    dnnl_memory_desc_t md = flat(d->n * trm_shape_count(&d->in));
    dnnl_alg_kind_t kind = d->act == TRM_ACT_RELU        ? dnnl_eltwise_relu
                           : d->act == TRM_ACT_GELU      ? dnnl_eltwise_gelu_erf
                           : d->act == TRM_ACT_GELU_TANH ? dnnl_eltwise_gelu_tanh
                           : d->act == TRM_ACT_TANH      ? dnnl_eltwise_tanh
                                                         : dnnl_eltwise_logistic;
    dnnl_eltwise_desc_t fd, bd;
    dnnl_primitive_desc_t fwd, bwd;
    DNNL(dnnl_eltwise_forward_desc_init(&fd, dnnl_forward_training, kind, &md, 0, 0));
    DNNL(dnnl_primitive_desc_create(&fwd, &fd, NULL, engine, NULL));
    if (!backward) return fwd;
    DNNL(dnnl_eltwise_backward_desc_init(&bd, kind, &md, &md, 0, 0));
    DNNL(dnnl_primitive_desc_create(&bwd, &bd, NULL, engine, fwd));
    return bwd;
}

static dnnl_primitive_desc_t add(const trm_op_desc *d, bool backward) {
    (void)backward;
    dnnl_memory_desc_t md = flat(d->n * trm_shape_count(&d->in));
    dnnl_binary_desc_t bd;
    dnnl_primitive_desc_t pd;
    DNNL(dnnl_binary_desc_init(&bd, dnnl_binary_add, &md, &md, &md));
    DNNL(dnnl_primitive_desc_create(&pd, &bd, NULL, engine, NULL));
    return pd;
}

/* The forward softmax alone; ours is loss, count of correct answers and gradient. */
static dnnl_primitive_desc_t softmax(const trm_op_desc *d, bool backward) {
    (void)backward;
    dnnl_memory_desc_t md = rows(d);
    dnnl_softmax_desc_t sd;
    dnnl_primitive_desc_t pd;
    DNNL(dnnl_softmax_forward_desc_init(&sd, dnnl_forward_training, &md, 1));
    DNNL(dnnl_primitive_desc_create(&pd, &sd, NULL, engine, NULL));
    return pd;
}

/* ---- rows of the table -------------------------------------------------------------- */

typedef dnnl_primitive_desc_t (*yardstick_fn)(const trm_op_desc *d, bool backward);
typedef struct row {
    const char *name;
    double bytes; /* that must move per element at least */
    trm_op_desc desc;
    trm_op_kind then; /* a second op that belongs to it; LOAD_X is none */
    yardstick_fn yardstick;
    bool backward; /* for the yardstick */
} row;

typedef struct copy {
    void *from, *to;
    size_t bytes;
} copy;
static void run_copy(void *what) {
    copy *c = what;
    memcpy(c->to, c->from, c->bytes);
}

static void bench(const row *r) {
    static ours o;
    primitive p = {0};
    trm_op_desc descs[MAX_OPS] = {r->desc, r->desc};
    descs[1].kind = r->then;
    memset(&o, 0, sizeof o);
    open_ours(&o, descs, r->then == TRM_OP_LOAD_X ? 1 : 2);
    const trm_op_desc *d = &r->desc;
    int64_t elements =
        d->kind == TRM_OP_UPDATE || d->kind == TRM_OP_SUMSQ ? d->count : d->n * trm_shape_count(&d->out);
    double bytes = r->bytes * (double)elements, seconds[3] = {0};
    copy c = {.bytes = trm_round_up((size_t)(bytes / 2), 64)};
    c.from = floats((int64_t)c.bytes / 4);
    c.to = floats((int64_t)c.bytes / 4);
    work w[3] = {{run_ours, &o}, {run_copy, &c}, {run_primitive, &p}};
    if (r->yardstick) open_primitive(&p, r->yardstick(d, r->backward));
    measure(w, r->yardstick ? 3 : 2, seconds);
    printf("%-34s %9.1f %7.1f %9.2f", r->name, seconds[0] * 1e6, bytes / seconds[0] / 1e9,
           seconds[1] / seconds[0]);
    if (r->yardstick) printf(" %9.1f %7.2f", seconds[2] * 1e6, seconds[2] / seconds[0]);
    printf("\n");
    fflush(stdout);
    if (r->yardstick) close_primitive(&p);
    close_ours(&o);
    trm_free(c.from);
    trm_free(c.to);
}

#define ROW(label, size, ...)                                 \
    {                                                         \
        .name = label, .bytes = size, .desc = { __VA_ARGS__ } \
    }
#define BESIDE(label, size, primitive, back, ...)                                                       \
    {                                                                                                   \
        .name = label, .bytes = size, .yardstick = primitive, .backward = back, .desc = { __VA_ARGS__ } \
    }
#define OP(name) .kind = TRM_OP_##name
#define IMAGE(c, h) .n = 64, .in = {3, {c, h, h}}, .out = {3, {c, h, h}}
#define TOKENS(c) .n = 16, .in = {2, {128, c}}, .out = {2, {128, c}}
#define VECTOR(rows, c) .n = rows, .in = {1, {c}}, .out = {1, {c}}
#define LOAD(type, bytes_each) OP(LOAD_X), .scale = 1.0 / 255, .raw_type = type, .raw_stride = bytes_each

#define BN .act = TRM_ACT_RELU, .train = true, .eps = 1e-5, .momentum = 0.1
#define BATCH_NORM(label, primitive, ...)                                                   \
    {.name = "batch norm fwd " label,                                                       \
     .bytes = 12,                                                                           \
     .desc = {OP(BN_STATS), BN, __VA_ARGS__},                                               \
     .then = TRM_OP_BN_APPLY,                                                               \
     .yardstick = primitive},                                                               \
    {                                                                                       \
        .name = "batch norm bwd", .bytes = 28, .desc = {OP(BN_GRAD_SUMS), BN, __VA_ARGS__}, \
        .then = TRM_OP_BN_GRAD_APPLY, .yardstick = primitive, .backward = true              \
    }
#define ACT(label, name, size)                                                              \
    BESIDE(label, 8, eltwise, false, OP(ACT_FWD), .act = TRM_ACT_##name, VECTOR(64, size)), \
        BESIDE("  bwd", 12, eltwise, true, OP(ACT_BWD), .act = TRM_ACT_##name, VECTOR(64, size))
#define EMBED .n = 16, .in = {1, {128}}, .out = {2, {128, 256}}, .count = 256
#define NORMALISE .mean = mean, .std = std, .norm_count = 3

static const double mean[3] = {0.4, 0.5, 0.6}, std[3] = {0.2, 0.3, 0.25};
static const row table[] = {
    BATCH_NORM("64x16x32x32", batch_norm, IMAGE(16, 32)),
    BATCH_NORM("64x32x16x16", batch_norm, IMAGE(32, 16)),
    BATCH_NORM("64x64x8x8", batch_norm, IMAGE(64, 8)),
    BATCH_NORM("64x20x24x24", NULL, IMAGE(20, 24)),
    BESIDE("layer norm fwd 2048x256", 8, layer_norm, false, OP(LN_FWD), .eps = 1e-5, .bias = true,
           TOKENS(256)),
    BESIDE("layer norm bwd", 12, layer_norm, true, OP(LN_BWD), .eps = 1e-5, .bias = true, TOKENS(256)),
    ACT("relu fwd 1M", RELU, 16384),
    ACT("gelu fwd 2M", GELU, 32768),
    ACT("gelu_tanh fwd 2M", GELU_TANH, 32768),
    ACT("tanh fwd 1M", TANH, 16384),
    ACT("sigmoid fwd 1M", SIGMOID, 16384),
    BESIDE("add 1M", 12, add, false, OP(ADD_FWD), VECTOR(64, 16384)),
    ROW("add into 1M", 12, OP(ADD_INTO), VECTOR(64, 16384)),
    ROW("dropout 2048x256", 8, OP(DROPOUT_FWD), .p = 0.1, TOKENS(256)),
    ROW("dropout 64x64x16x16", 8, OP(DROPOUT_FWD), .p = 0.1, IMAGE(64, 16)),
    ROW("flatten 64x50x4x4", 8, OP(FLATTEN_FWD), .n = 64, .in = {3, {50, 4, 4}}, .out = {1, {800}}),
    ROW("embed fwd 2048 of 256x256", 8, OP(EMBED_FWD), EMBED),
    ROW("embed bwd", 12, OP(EMBED_BWD), EMBED),
    ROW("positions fwd 2048x256", 8, OP(POSEMB_FWD), TOKENS(256)),
    ROW("positions bwd", 4, OP(POSEMB_BWD), TOKENS(256)),
    BESIDE("cross-entropy 2048x256", 8, softmax, false, OP(LOSS_CE), .train = true, TOKENS(256)),
    BESIDE("cross-entropy 128x10", 8, softmax, false, OP(LOSS_CE), .train = true, VECTOR(128, 10)),
    BESIDE("cross-entropy 64x50257", 8, softmax, false, OP(LOSS_CE), .train = true, VECTOR(64, 50257)),
    ROW("squared difference 64x1024", 12, OP(LOSS_MSE), .train = true, VECTOR(64, 1024)),
    ROW("load u8 64x1x28x28", 5, LOAD(TRM_U8, 784), IMAGE(1, 28)),
    ROW("load u8 64x3x32x32, (C,H,W)", 5, LOAD(TRM_U8, 3072), NORMALISE, IMAGE(3, 32)),
    ROW("load u8 64x32x32x3, (H,W,C)", 5, LOAD(TRM_U8, 3072), NORMALISE, .raw_hwc = true, IMAGE(3, 32)),
    ROW("load f32 128x784", 8, LOAD(TRM_F32, 3136), VECTOR(128, 784)),
    ROW("load tokens u8 16x128", 5, LOAD(TRM_U8, 128), .out_tokens = true, VECTOR(16, 128)),
    ROW("sgd momentum 0.67M", 20, OP(UPDATE), .count = 669706, .optimizer = TRM_OPT_SGD, .beta1 = 0.9),
    ROW("adamw 3.26M", 28, OP(UPDATE), .count = 3257856, .optimizer = TRM_OPT_ADAMW, .beta1 = 0.9,
        .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01),
    ROW("sum of squares 3.26M", 4, OP(SUMSQ), .count = 3257856),
};

int main(int argc, char **argv) {
    int64_t wish = 1;
    check(argc < 2 || (trm_parse_int(argv[1], &wish) && wish > 0 && wish < 1024), "the number of threads");
    threads = (int)wish;
    check(trm_device_open("cpu", threads, &device) == TRM_OK, "opening the device");
    DNNL(dnnl_engine_create(&engine, dnnl_cpu, 0));
    DNNL(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    printf("%s\n", device->about);
    printf("%-34s %9s %7s %9s %9s %7s\n", "", "us", "GB/s", "memcpy/us", "oneDNN us", "ratio");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) bench(&table[i]);
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
    trm_device_close(device);
    return 0;
}
