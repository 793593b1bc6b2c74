/* ops: time per call of the products, convolutions, pooling and attention of the CPU back end on one thread, beside
 * what the machine gives without them.
 *
 * `bare` is the same product by one call of dnnl_sgemm (linear), the products alone over whole T x T matrices
 * (attention), or a copy of as many bytes (pooling); x is bare / op, so 1 means nothing is lost and more that
 * the op is the faster one.  Convolutions show their speed as a share of a 1024^3 product's. */
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trireme/backend.h>

typedef void (*work_fn)(void *what);

/* ---- timing: median over blocks, on the clock of this thread ------------------------------------- */

enum { BLOCKS = 9 };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double time_of(work_fn fn, void *what, int calls) {
    double begin = trm_thread_cpu();
    for (int i = 0; i < calls; i++) fn(what);
    return (trm_thread_cpu() - begin) / calls;
}

static double median(work_fn fn, void *what) {
    double once = time_of(fn, what, 1), blocks[BLOCKS];
    once = time_of(fn, what, 1);
    int calls = once > 4e-3 ? 1 : (int)(4e-3 / once) + 1;
    for (int i = 0; i < BLOCKS; i++) blocks[i] = time_of(fn, what, calls);
    qsort(blocks, BLOCKS, sizeof *blocks, by_value);
    return blocks[BLOCKS / 2];
}

/* ---- bare work ------------------------------------------------------------------------------------ */

static float *pool_a, *pool_b, *pool_c; /* memory that the bare work uses */
enum { POOL_FLOATS = 1 << 23 };

typedef struct product {
    char ta, tb;
    int64_t m, n, k, lda, ldb, ldc, times;
} product;

static void run_product(void *what) {
    const product *p = what;
    for (int64_t i = 0; i < p->times; i++)
        dnnl_sgemm(p->ta, p->tb, p->m, p->n, p->k, 1, pool_a, p->lda, pool_b, p->ldb, 0, pool_c, p->ldc);
}

static double time_product(product p) { return median(run_product, &p); }

static void run_copy(void *what) { memcpy(pool_a, pool_b, *(size_t *)what); }

/* ---- one op ---------------------------------------------------------------------------------------- */

static void fail(trm_status s) {
    fprintf(stderr, "ops: %s\n", trm_error_text());
    exit(trm_status_exit_code(s));
}

static void must(trm_status s) {
    if (s != TRM_OK) fail(s);
}

static void *floats(size_t count) {
    float *p = trm_alloc(count * sizeof *p, "a benchmark");
    if (!p) fail(TRM_MEMORY);
    for (size_t i = 0; i < count; i++) p[i] = (float)((i * 2654435761u >> 8 & 1023) / 1024.0 - 0.5);
    return p;
}

static void run_op(void *what) {
    trm_op *op = what;
    if (trm_op_run(op, NULL) != TRM_OK) fail(TRM_RUN);
}

static size_t arg_floats(const trm_op *op, int arg) {
    const trm_op_desc *d = &op->desc;
    size_t in = (size_t)(d->n * trm_shape_count(&d->in)), out = (size_t)(d->n * trm_shape_count(&d->out));
    switch (arg) {
    case TRM_ARG_X:
    case TRM_ARG_DX: return in;
    case TRM_ARG_SAVED: return op->saved_bytes / sizeof(float) + 1;
    case TRM_ARG_W:
    case TRM_ARG_DW: return (size_t)d->count;
    case TRM_ARG_B:
    case TRM_ARG_DB: return (size_t)(d->out.dim[0] > d->out.dim[1] ? d->out.dim[0] : d->out.dim[1]);
    default: return out;
    }
}

static double time_op(trm_device *device, const trm_op_desc *desc, char impl[64]) {
    trm_op *op;
    void *args[TRM_ARG_COUNT];
    must(trm_op_plan(device, desc, &op));
    for (int a = 0; a < TRM_ARG_COUNT; a++) args[a] = floats(arg_floats(op, a));
    if (desc->kind == TRM_OP_POOL_BWD) memset(args[TRM_ARG_SAVED], 0, op->saved_bytes);
    void *scratch = op->scratch_bytes > 0 ? trm_alloc(op->scratch_bytes, "scratch") : NULL;
    must(trm_op_bind(op, args, scratch));
    double t = median(run_op, op);
    snprintf(impl, 64, "%s", op->impl);
    for (int a = 0; a < TRM_ARG_COUNT; a++) trm_free(args[a]);
    trm_free(scratch);
    trm_op_destroy(op);
    return t;
}

static void show(const char *name, const trm_op_desc *d, double t, double flops, double bare,
                 const char *impl) {
    printf("%-18s %-14s %9.1f us %6.1f GF/s", name, trm_op_name(d->kind), t * 1e6, flops / t * 1e-9);
    if (bare > 0) printf("  bare %9.1f us  x %.2f", bare * 1e6, bare / t);
    printf("  %s\n", impl);
}

/* ---- families ----------------------------------------------------------------------------------------- */

static trm_shape shape2(int64_t a, int64_t b) { return trm_shape_of(2, a, b); }
static trm_shape shape3(int64_t a, int64_t b, int64_t c) { return trm_shape_of(3, a, b, c); }

static void linear(trm_device *device, const char *name, int64_t rows, int64_t in, int64_t out, trm_act act) {
    char impl[64];
    double flops = 2.0 * (double)(rows * in * out);
    trm_op_desc d = {
        .n = 1, .in = shape2(rows, in), .out = shape2(rows, out), .bias = true, .count = in * out};
    const product fwd = {'N', 'T', rows, out, in, in, in, out, 1},
                  bwd_x = {'N', 'N', rows, in, out, out, in, in, 1},
                  bwd_w = {'T', 'N', out, in, rows, out, in, in, 1};
    d.kind = TRM_OP_LINEAR_FWD;
    d.act = act;
    show(name, &d, time_op(device, &d, impl), flops, time_product(fwd), impl);
    d.act = TRM_ACT_NONE;
    d.kind = TRM_OP_LINEAR_BWD_X;
    show(name, &d, time_op(device, &d, impl), flops, time_product(bwd_x), impl);
    d.kind = TRM_OP_LINEAR_BWD_W;
    show(name, &d, time_op(device, &d, impl), flops, time_product(bwd_w), impl);
}

typedef struct conv_case {
    const char *name;
    int64_t in, out, size, kernel, stride, pad;
    bool bias;
    int64_t groups, dilation;
} conv_case;

static void conv(trm_device *device, const conv_case *c, double peak) {
    const int64_t groups = c->groups, gap = c->dilation - 1;
    int64_t size = (c->size + 2 * c->pad - (c->kernel - 1) * (gap + 1) - 1) / c->stride + 1;
    trm_op_desc d = {.n = 64,
                     .in = shape3(c->in, c->size, c->size),
                     .out = shape3(c->out, size, size),
                     .kernel = {c->kernel, c->kernel},
                     .stride = {c->stride, c->stride},
                     .pad = {c->pad, c->pad},
                     .groups = groups,
                     .gap = {gap, gap},
                     .bias = c->bias,
                     .count = c->out * c->in / groups * c->kernel * c->kernel};
    double flops = 2.0 * 64 * (double)(c->out * size * size * d.count / c->out);
    for (int kind = TRM_OP_CONV_FWD; kind <= TRM_OP_CONV_BWD_W; kind++) {
        char impl[64];
        d.kind = (trm_op_kind)kind;
        show(c->name, &d, time_op(device, &d, impl), flops, flops / peak, impl);
    }
}

static void pool(trm_device *device, const char *name, trm_pool_mode mode, int64_t c, int64_t size,
                 int64_t kernel) {
    char impl[64];
    trm_op_desc d = {.n = 64,
                     .in = shape3(c, size, size),
                     .out = shape3(c, size / kernel, size / kernel),
                     .pool = mode,
                     .kernel = {kernel, kernel},
                     .stride = {kernel, kernel}};
    size_t bytes = (size_t)(64 * (trm_shape_count(&d.in) + trm_shape_count(&d.out))) * sizeof(float) / 2;
    double bare = median(run_copy, &bytes);
    for (int kind = TRM_OP_POOL_FWD; kind <= TRM_OP_POOL_BWD; kind++) {
        d.kind = (trm_op_kind)kind;
        show(name, &d, time_op(device, &d, impl), 0, bare, impl);
    }
}

static void attention(trm_device *device, const char *name, int64_t n, int64_t t, int64_t heads,
                      int64_t width) {
    char impl[64];
    int64_t c = heads * width, tasks = n * heads;
    trm_op_desc d = {.n = n, .in = shape2(t, 3 * c), .out = shape2(t, c), .heads = heads, .causal = true};
    double one = 2.0 * (double)(tasks * t * t * width);
    double qk = time_product((product){'N', 'T', t, t, width, 3 * c, 3 * c, t, tasks});
    double pv = time_product((product){'N', 'N', t, width, t, t, 3 * c, c, tasks});
    double to_keys = time_product((product){'T', 'N', t, width, t, t, c, 3 * c, tasks});
    d.kind = TRM_OP_ATTN_FWD;
    show(name, &d, time_op(device, &d, impl), 2 * one, qk + pv, impl);
    d.kind = TRM_OP_ATTN_BWD;
    show(name, &d, time_op(device, &d, impl), 4 * one, qk + pv + 2 * to_keys, impl);
}

/* ---- the list ------------------------------------------------------------------------------------------- */

static const conv_case convs[] = {
    {"resnet r0", 3, 16, 32, 3, 1, 1, false, 1, 1},
    {"resnet r1", 16, 16, 32, 3, 1, 1, false, 1, 1},
    {"resnet r2", 16, 32, 32, 3, 2, 1, false, 1, 1},
    {"resnet r2s", 16, 32, 32, 1, 2, 0, false, 1, 1},
    {"resnet r3", 32, 32, 16, 3, 1, 1, false, 1, 1},
    {"resnet r4", 32, 64, 16, 3, 2, 1, false, 1, 1},
    {"resnet r5", 64, 64, 8, 3, 1, 1, false, 1, 1},
    {"lenet l1", 1, 20, 28, 5, 1, 0, true, 1, 1},
    {"lenet l2", 20, 50, 12, 5, 1, 0, true, 1, 1},
    {"depthwise 32", 32, 32, 16, 3, 1, 1, false, 32, 1},
    {"depthwise 64 s2", 64, 64, 16, 3, 2, 1, false, 64, 1},
    {"4 groups of 64", 64, 64, 16, 3, 1, 1, false, 4, 1},
    {"32, dilated by 2", 32, 32, 16, 3, 1, 2, false, 1, 2},
    {"depthwise dil 2", 32, 32, 16, 3, 1, 2, false, 32, 2},
};

int main(void) {
    trm_device *device;
    must(trm_device_open("cpu", 1, &device));
    pool_a = floats(POOL_FLOATS);
    pool_b = floats(POOL_FLOATS);
    pool_c = floats(POOL_FLOATS);
    double peak =
        2.0 * 1024 * 1024 * 1024 / time_product((product){'N', 'N', 1024, 1024, 1024, 1024, 1024, 1024, 1});
    printf("%s; a product of 1024^3: %.1f GF/s\n", device->about, peak * 1e-9);
    linear(device, "mlp 784-512", 128, 784, 512, TRM_ACT_RELU);
    linear(device, "mlp 512-512", 128, 512, 512, TRM_ACT_RELU);
    linear(device, "mlp 512-10", 128, 512, 10, TRM_ACT_NONE);
    linear(device, "lenet 800-500", 64, 800, 500, TRM_ACT_RELU);
    linear(device, "gpt 256-768", 2048, 256, 768, TRM_ACT_NONE);
    linear(device, "gpt 256-256", 2048, 256, 256, TRM_ACT_NONE);
    linear(device, "gpt 256-1024 gelu", 2048, 256, 1024, TRM_ACT_GELU_TANH);
    linear(device, "gpt 1024-256", 2048, 1024, 256, TRM_ACT_NONE);
    attention(device, "attention T128", 16, 128, 4, 64);
    attention(device, "attention T512", 2, 512, 4, 64);
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) conv(device, &convs[i], peak);
    pool(device, "max 2 20x24x24", TRM_POOL_MAX, 20, 24, 2);
    pool(device, "max 2 50x8x8", TRM_POOL_MAX, 50, 8, 2);
    pool(device, "avg 8 64x8x8", TRM_POOL_AVG, 64, 8, 8);
    trm_free(pool_a);
    trm_free(pool_b);
    trm_free(pool_c);
    trm_device_close(device);
    return 0;
}
