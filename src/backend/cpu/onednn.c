/* onednn: the engine, matrix products and convolutions of oneDNN; the one file that knows its versions.
 *
 * 2.x (Debian 12 has 2.6) describes an operation in a struct and memory by value; 3.x has one call per
 * operation and memory descriptors behind pointers.  The first section levels that; below it nothing
 * asks for the version.  Scratchpads are the caller's, so that running a primitive allocates nothing. */
#include "onednn.h"

#include <dnnl.h>
#include <string.h>

typedef struct onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
} onednn;

struct trm_dnn {
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    int args;
    dnnl_exec_arg_t arg[TRM_DNN_SLOTS];
    trm_dnn_slot slot[TRM_DNN_SLOTS]; /* of each arg */
    int id[TRM_DNN_SLOTS];            /* DNNL_ARG_* of each slot, 0 where it has none */
};

static const char *status_text(dnnl_status_t s) {
    switch (s) {
    case dnnl_out_of_memory: return "out of memory";
    case dnnl_invalid_arguments: return "invalid arguments";
    case dnnl_unimplemented: return "not implemented";
    default: return "run-time error";
    }
}

static trm_status failed(dnnl_status_t s, const char *what) {
    trm_status code = s == dnnl_out_of_memory   ? TRM_MEMORY
                      : s == dnnl_unimplemented ? TRM_MACHINE
                                                : TRM_INTERNAL;
    return trm_fail(code, "oneDNN %d.%d: %s: %s", dnnl_version()->major, dnnl_version()->minor, what,
                    status_text(s));
}

#define DNN_TRY(expr, what)                                          \
    do {                                                             \
        dnnl_status_t dnn_try_ = (expr);                             \
        if (dnn_try_ != dnnl_success) return failed(dnn_try_, what); \
    } while (0)

/* ---- the versions ------------------------------------------------------------------------ */

/* What a convolution is made of. */
typedef struct conv_parts {
    const trm_op_desc *op;
    dnnl_dims_t strides, padding, dilation;
} conv_parts;

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t memory_desc;                      /* owned */
typedef const_dnnl_memory_desc_t memory_view;                /* borrowed */
static memory_view view(const memory_desc *m) { return *m; } /* NULL where it was not made */
static void memory_desc_free(memory_desc *m) {
    if (*m) dnnl_memory_desc_destroy(*m);
}

static dnnl_status_t memory_desc_make(memory_desc *m, int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                                      dnnl_format_tag_t tag) {
    return dnnl_memory_desc_create_with_tag(m, rank, dims, type, tag);
}

static dnnl_status_t append_relu(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0, 0);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
}

static dnnl_format_tag_t liked_weights(const trm_op_desc *op) {
    (void)op;
    return dnnl_format_tag_any;
}

static dnnl_status_t conv_desc(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const conv_parts *c,
                               memory_view x, memory_view w, memory_view b, memory_view y,
                               dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint) {
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    switch (c->op->kind) {
    case TRM_OP_CONV_FWD:
        return dnnl_convolution_forward_primitive_desc_create(out, engine, dnnl_forward_training, direct, x,
                                                              w, b, y, c->strides, c->dilation, c->padding,
                                                              c->padding, attr);
    case TRM_OP_CONV_BWD_X:
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, engine, direct, x, w, y, c->strides, c->dilation, c->padding, c->padding, hint, attr);
    default:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, engine, direct, x, w, b, y, c->strides, c->dilation, c->padding, c->padding, hint, attr);
    }
}

static dnnl_status_t product_desc(dnnl_primitive_desc_t *out, dnnl_engine_t engine, memory_view a,
                                  memory_view b, memory_view c, dnnl_primitive_attr_t attr) {
    return dnnl_matmul_primitive_desc_create(out, engine, a, b, NULL, c, attr);
}

#else

typedef dnnl_memory_desc_t memory_desc;
typedef const dnnl_memory_desc_t *memory_view;
static memory_view view(const memory_desc *m) { return m->ndims > 0 ? m : NULL; }
static void memory_desc_free(memory_desc *m) { (void)m; }

static dnnl_status_t memory_desc_make(memory_desc *m, int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                                      dnnl_format_tag_t tag) {
    return dnnl_memory_desc_init_by_tag(m, rank, dims, type, tag);
}

static dnnl_status_t append_relu(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops) { return dnnl_post_ops_append_sum(ops, 1); }

/* The gradient of X by large kernels without padding: 2.x takes up to 1.7 times longer with the layout of its
 * own choice than as a plain matrix product, which (kh,kw,I,O) weights ask for. */
static dnnl_format_tag_t liked_weights(const trm_op_desc *op) {
    if (op->in.rank != 3) return dnnl_format_tag_any;
    bool large = op->kernel[0] * op->kernel[1] >= 25 && op->in.dim[0] >= 16 && op->out.dim[0] >= 32;
    bool plain = op->pad[0] == 0 && op->pad[1] == 0 && op->stride[0] == 1 && op->stride[1] == 1 &&
                 op->gap[0] == 0 && op->gap[1] == 0;
    bool product = op->kind == TRM_OP_CONV_BWD_X && op->groups == 1 && large && plain && !op->half;
    return product ? dnnl_hwio : dnnl_format_tag_any;
}

static dnnl_status_t conv_desc(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const conv_parts *c,
                               memory_view x, memory_view w, memory_view b, memory_view y,
                               dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint) {
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_convolution_desc_t d;
    dnnl_status_t s;
    switch (c->op->kind) {
    case TRM_OP_CONV_FWD:
        s = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training, direct, x, w, b, y,
                                                       c->strides, c->dilation, c->padding, c->padding);
        break;
    case TRM_OP_CONV_BWD_X:
        s = dnnl_dilated_convolution_backward_data_desc_init(&d, direct, x, w, y, c->strides, c->dilation,
                                                             c->padding, c->padding);
        break;
    default:
        s = dnnl_dilated_convolution_backward_weights_desc_init(&d, direct, x, w, b, y, c->strides,
                                                                c->dilation, c->padding, c->padding);
    }
    return s == dnnl_success ? dnnl_primitive_desc_create(out, &d, attr, engine, hint) : s;
}

static dnnl_status_t product_desc(dnnl_primitive_desc_t *out, dnnl_engine_t engine, memory_view a,
                                  memory_view b, memory_view c, dnnl_primitive_attr_t attr) {
    dnnl_matmul_desc_t d;
    dnnl_status_t s = dnnl_matmul_desc_init(&d, a, b, NULL, c);
    return s == dnnl_success ? dnnl_primitive_desc_create(out, &d, attr, engine, NULL) : s;
}

#endif

/* ---- the engine --------------------------------------------------------------------------- */

static onednn *library(const trm_device *d) { return ((const trm_cpu *)d->state)->onednn; }

trm_status trm_cpu_onednn_open(trm_device *d) {
    onednn *lib = trm_alloc(sizeof *lib, "oneDNN");
    if (!lib) return TRM_MEMORY;
    ((trm_cpu *)d->state)->onednn = lib;
    DNN_TRY(dnnl_engine_create(&lib->engine, dnnl_cpu, 0), "opening the CPU");
    DNN_TRY(dnnl_stream_create(&lib->stream, lib->engine, dnnl_stream_default_flags), "opening a stream");
    return TRM_OK;
}

void trm_cpu_onednn_close(trm_device *d) {
    onednn *lib = library(d);
    if (!lib) return;
    if (lib->stream) dnnl_stream_destroy(lib->stream);
    if (lib->engine) dnnl_engine_destroy(lib->engine);
    trm_free(lib);
    ((trm_cpu *)d->state)->onednn = NULL;
}

const char *trm_cpu_onednn_version(char *buf, size_t cap) {
    const dnnl_version_t *v = dnnl_version();
    snprintf(buf, cap, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return buf;
}

bool trm_dnn_has_bf16(void) {
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

trm_status trm_cpu_sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                         int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    DNN_TRY(dnnl_sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), "a matrix product");
    return TRM_OK;
}

/* ---- primitives --------------------------------------------------------------------------- */

static memory_view slot_desc(const trm_dnn *p, trm_dnn_slot slot) {
    return dnnl_primitive_desc_query_md(p->desc, dnnl_query_exec_arg_md, p->id[slot]);
}

size_t trm_dnn_bytes(const trm_dnn *p, trm_dnn_slot slot) {
    memory_view m = p->id[slot] ? slot_desc(p, slot) : NULL;
    return m ? dnnl_memory_desc_get_size(m) : 0;
}

const char *trm_dnn_impl(const trm_dnn *p) {
    const char *name = NULL;
    dnnl_status_t s = dnnl_primitive_desc_query(p->desc, dnnl_query_impl_info_str, 0, (void *)&name);
    return s == dnnl_success && name ? name : "unknown";
}

void trm_dnn_bind(trm_dnn *p, trm_dnn_slot slot, void *buffer) {
    for (int i = 0; i < p->args; i++)
        if (p->slot[i] == slot) dnnl_memory_set_data_handle(p->arg[i].memory, buffer);
}

trm_status trm_dnn_run(const trm_dnn *p) {
    DNN_TRY(dnnl_primitive_execute(p->primitive, p->stream, p->args, p->arg), "running a primitive");
    return TRM_OK;
}

void trm_dnn_destroy(trm_dnn *p) {
    if (!p) return;
    for (int i = 0; i < p->args; i++) dnnl_memory_destroy(p->arg[i].memory);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    if (p->desc) dnnl_primitive_desc_destroy(p->desc);
    trm_free(p);
}

/* Makes the primitive of p->desc and an argument for each buffer that it has. */
static trm_status finish(const onednn *lib, trm_dnn *p) {
    p->stream = lib->stream;
    DNN_TRY(dnnl_primitive_create(&p->primitive, p->desc), "creating a primitive");
    for (int slot = 0; slot < TRM_DNN_SLOTS; slot++) {
        if (trm_dnn_bytes(p, slot) == 0) continue;
        dnnl_exec_arg_t *arg = &p->arg[p->args];
        arg->arg = p->id[slot];
        DNN_TRY(dnnl_memory_create(&arg->memory, slot_desc(p, slot), lib->engine, DNNL_MEMORY_NONE),
                "a memory object");
        p->slot[p->args++] = (trm_dnn_slot)slot;
    }
    return TRM_OK;
}

typedef dnnl_status_t (*append_fn)(dnnl_post_ops_t ops);

/* Attributes: the caller's scratchpad and at most one fused operation. */
static trm_status make_attr(append_fn append, dnnl_primitive_attr_t *out) {
    DNN_TRY(dnnl_primitive_attr_create(out), "attributes");
    DNN_TRY(dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user), "attributes");
    if (!append) return TRM_OK;
    dnnl_post_ops_t ops;
    DNN_TRY(dnnl_post_ops_create(&ops), "attributes");
    dnnl_status_t s = append(ops);
    if (s == dnnl_success) s = dnnl_primitive_attr_set_post_ops(*out, ops);
    dnnl_post_ops_destroy(ops);
    DNN_TRY(s, "attributes");
    return TRM_OK;
}

/* ---- matrix products ------------------------------------------------------------------------- */

static trm_status product_build(const onednn *lib, const trm_dnn_product_spec *s, memory_desc m[3],
                                trm_dnn *p) {
    dnnl_dims_t a = {s->m, s->k}, b = {s->k, s->n}, c = {s->m, s->n};
    dnnl_primitive_attr_t attr = NULL;
    trm_status status;
    TRM_GOTO(make_attr(s->add ? append_sum : NULL, &attr));
    dnnl_status_t made = memory_desc_make(&m[0], 2, a, dnnl_bf16, s->ta ? dnnl_ba : dnnl_ab);
    if (made == dnnl_success) made = memory_desc_make(&m[1], 2, b, dnnl_bf16, s->tb ? dnnl_ba : dnnl_ab);
    if (made == dnnl_success) made = memory_desc_make(&m[2], 2, c, dnnl_f32, dnnl_ab);
    if (made == dnnl_success)
        made = product_desc(&p->desc, lib->engine, view(&m[0]), view(&m[1]), view(&m[2]), attr);
    if (made != dnnl_success) TRM_GOTO(failed(made, "a matrix product in bfloat16"));
    p->id[TRM_DNN_SRC] = DNNL_ARG_SRC;
    p->id[TRM_DNN_WEIGHTS] = DNNL_ARG_WEIGHTS;
    p->id[TRM_DNN_DST] = DNNL_ARG_DST;
    p->id[TRM_DNN_SCRATCH] = DNNL_ARG_SCRATCHPAD;
    status = finish(lib, p);
out:
    if (attr) dnnl_primitive_attr_destroy(attr);
    return status;
}

trm_status trm_dnn_product(const trm_device *d, const trm_dnn_product_spec *s, trm_dnn **out) {
    memory_desc m[3] = {0};
    trm_dnn *p = trm_alloc(sizeof *p, "a matrix product");
    if (!p) return TRM_MEMORY;
    trm_status status = product_build(library(d), s, m, p);
    for (int i = 0; i < 3; i++) memory_desc_free(&m[i]);
    if (status != TRM_OK) {
        trm_dnn_destroy(p);
        return status;
    }
    *out = p;
    return TRM_OK;
}

/* ---- convolution --------------------------------------------------------------------------- */

typedef struct conv_memory {
    memory_desc x, w, b, y;
} conv_memory;

static void conv_memory_free(conv_memory *m) {
    memory_desc_free(&m->x);
    memory_desc_free(&m->w);
    memory_desc_free(&m->b);
    memory_desc_free(&m->y);
}

static dnnl_data_type_t type_of(const trm_op_desc *op, trm_arg a) {
    return op->half & TRM_HALF(a) ? dnnl_bf16 : dnnl_f32;
}

/* (O,I/groups,k...), with a dimension of groups in front where there are several. */
static trm_status weights_memory(const trm_op_desc *op, bool plain, memory_desc *out) {
    const int64_t o = op->out.dim[0], i = op->in.dim[0], g = op->groups;
    const int axes = op->in.rank - 1;
    const dnnl_format_tag_t one = axes == 3 ? dnnl_oidhw : dnnl_oihw,
                            many = axes == 3 ? dnnl_goidhw : dnnl_goihw;
    dnnl_dims_t dims = {g, o / g, i / g};
    for (int a = 0; a < axes; a++) dims[3 + a] = op->kernel[a];
    dnnl_format_tag_t tag = !plain ? liked_weights(op) : g == 1 ? one : many;
    dnnl_data_type_t type = type_of(op, op->kind == TRM_OP_CONV_BWD_W ? TRM_ARG_DW : TRM_ARG_W);
    DNN_TRY(memory_desc_make(out, axes + (g == 1 ? 2 : 3), g == 1 ? dims + 1 : dims, type, tag), "weights");
    return TRM_OK;
}

/* The gradient of the biases is left to the caller, whose loop is the faster one. */
static bool has_bias(const trm_op_desc *op) { return op->bias && op->kind == TRM_OP_CONV_FWD; }

static trm_status images_memory(int64_t n, const trm_shape *s, dnnl_data_type_t type, memory_desc *out) {
    dnnl_dims_t dims = {n};
    for (int i = 0; i < s->rank; i++) dims[1 + i] = s->dim[i];
    DNN_TRY(memory_desc_make(out, 1 + s->rank, dims, type, s->rank == 4 ? dnnl_ndhwc : dnnl_nhwc), "images");
    return TRM_OK;
}

static trm_status conv_memory_make(const trm_op_desc *op, conv_memory *m) {
    bool fwd = op->kind == TRM_OP_CONV_FWD, bwd_x = op->kind == TRM_OP_CONV_BWD_X;
    dnnl_dims_t b = {op->out.dim[0]};
    TRM_TRY(images_memory(op->n, &op->in, type_of(op, bwd_x ? TRM_ARG_DX : TRM_ARG_X), &m->x));
    TRM_TRY(images_memory(op->n, &op->out, type_of(op, fwd ? TRM_ARG_Y : TRM_ARG_DY), &m->y));
    if (has_bias(op)) DNN_TRY(memory_desc_make(&m->b, 1, b, dnnl_f32, dnnl_a), "biases");
    return weights_memory(op, false, &m->w);
}

static conv_parts conv_parts_of(const trm_op_desc *op) {
    conv_parts p = {.op = op};
    for (int a = 0; a < op->in.rank - 1; a++) {
        p.strides[a] = op->stride[a];
        p.padding[a] = op->pad[a];
        p.dilation[a] = op->gap[a];
    }
    return p;
}

/* A backward pass is described with the forward one as a hint. */
static trm_status conv_hint(const onednn *lib, const trm_op_desc *op, dnnl_primitive_desc_t *out) {
    trm_op_desc forward = *op;
    conv_memory m = {0};
    forward.kind = TRM_OP_CONV_FWD;
    forward.bias = false;
    if (op->half) forward.half = TRM_HALF(TRM_ARG_X) | TRM_HALF(TRM_ARG_W);
    conv_parts parts = conv_parts_of(&forward);
    trm_status status;
    TRM_GOTO(conv_memory_make(&forward, &m));
    dnnl_status_t s =
        conv_desc(out, lib->engine, &parts, view(&m.x), view(&m.w), NULL, view(&m.y), NULL, NULL);
    if (s != dnnl_success) TRM_GOTO(failed(s, "this convolution, forward"));
out:
    conv_memory_free(&m);
    return status;
}

static trm_status conv_pass(const onednn *lib, const trm_op_desc *op, const conv_memory *m,
                            dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out) {
    conv_parts parts = conv_parts_of(op);
    dnnl_primitive_desc_t hint = NULL;
    if (op->kind != TRM_OP_CONV_FWD) TRM_TRY(conv_hint(lib, op, &hint));
    dnnl_status_t s =
        conv_desc(out, lib->engine, &parts, view(&m->x), view(&m->w), view(&m->b), view(&m->y), attr, hint);
    if (hint) dnnl_primitive_desc_destroy(hint);
    return s == dnnl_success ? TRM_OK : failed(s, "this convolution");
}

static void conv_ids(const trm_op_desc *op, int id[TRM_DNN_SLOTS]) {
    bool x = op->kind == TRM_OP_CONV_BWD_X, w = op->kind == TRM_OP_CONV_BWD_W;
    id[TRM_DNN_SRC] = x ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    id[TRM_DNN_WEIGHTS] = w ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    id[TRM_DNN_BIAS] = has_bias(op) ? DNNL_ARG_BIAS : 0;
    id[TRM_DNN_DST] = x || w ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST;
    id[TRM_DNN_SCRATCH] = DNNL_ARG_SCRATCHPAD;
}

static trm_status conv_build(const onednn *lib, const trm_op_desc *op, trm_dnn *p) {
    bool relu = op->kind == TRM_OP_CONV_FWD && op->act == TRM_ACT_RELU;
    dnnl_primitive_attr_t attr = NULL;
    conv_memory m = {0};
    trm_status status;
    TRM_GOTO(make_attr(relu ? append_relu : NULL, &attr));
    TRM_GOTO(conv_memory_make(op, &m));
    TRM_GOTO(conv_pass(lib, op, &m, attr, &p->desc));
    conv_ids(op, p->id);
    status = finish(lib, p);
out:
    conv_memory_free(&m);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return status;
}

trm_status trm_dnn_conv(const trm_device *d, const trm_op_desc *desc, trm_dnn **out) {
    trm_dnn *p = trm_alloc(sizeof *p, "a convolution");
    if (!p) return TRM_MEMORY;
    trm_status status = conv_build(library(d), desc, p);
    if (status != TRM_OK) {
        trm_dnn_destroy(p);
        return status;
    }
    *out = p;
    return TRM_OK;
}

/* ---- weights in and out of a convolution's layout ------------------------------------------- */

static trm_status reorder_build(const onednn *lib, memory_view from, memory_view to, bool add, trm_dnn *p) {
    dnnl_primitive_attr_t attr = NULL;
    trm_status status;
    TRM_GOTO(make_attr(add ? append_sum : NULL, &attr));
    dnnl_status_t s = dnnl_reorder_primitive_desc_create(&p->desc, from, lib->engine, to, lib->engine, attr);
    if (s != dnnl_success) TRM_GOTO(failed(s, "changing the layout of weights"));
    p->id[TRM_DNN_SRC] = DNNL_ARG_FROM;
    p->id[TRM_DNN_DST] = DNNL_ARG_TO;
    p->id[TRM_DNN_SCRATCH] = DNNL_ARG_SCRATCHPAD;
    status = finish(lib, p);
out:
    if (attr) dnnl_primitive_attr_destroy(attr);
    return status;
}

static trm_status reorder_make(const onednn *lib, memory_view from, memory_view to, bool add, trm_dnn **out) {
    trm_dnn *p = trm_alloc(sizeof *p, "a change of layout");
    if (!p) return TRM_MEMORY;
    trm_status status = reorder_build(lib, from, to, add, p);
    if (status != TRM_OK) {
        trm_dnn_destroy(p);
        return status;
    }
    *out = p;
    return TRM_OK;
}

trm_status trm_dnn_conv_weights(const trm_device *d, const trm_op_desc *desc, const trm_dnn *conv, bool pack,
                                bool add, trm_dnn **out) {
    memory_desc plain = {0};
    *out = NULL;
    trm_status status = weights_memory(desc, true, &plain);
    memory_view packed = slot_desc(conv, TRM_DNN_WEIGHTS);
    bool same = status == TRM_OK && dnnl_memory_desc_equal(packed, view(&plain));
    if (status == TRM_OK && (!same || add))
        status =
            reorder_make(library(d), pack ? view(&plain) : packed, pack ? packed : view(&plain), add, out);
    memory_desc_free(&plain);
    return status;
}
