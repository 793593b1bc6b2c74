/* A model with its buffers on one device and one rank: what the tests of nn share. */
#ifndef TRIREME_TESTS_NN_MODEL_H
#define TRIREME_TESTS_NN_MODEL_H

#include <string.h>

#include <trireme/nn.h>
#include "support.h"

typedef struct nn_model {
    trm_graph *g;
    trm_device *d;
    trm_runner *r;
    trm_runner_spec spec;
    size_t size;                    /* of a device float */
    int64_t space;
    trm_shape y;
    bool y_is_class;
} nn_model;

static inline int nn_add(trm_graph *g, const char *type, const char *name, int in, int in2, const trm_layer_attr *a) {
    const trm_layer_type *t = trm_layer_find(type);
    assert_non_null(t);
    trm_layer_attr def;
    trm_layer_defaults(t, &def);
    int out = -1;
    assert_ok(trm_graph_add(g, t, a ? a : &def, name, (int[]){in, in2}, &out));
    return out;
}

static inline trm_layer_attr nn_attr(const char *type) {
    trm_layer_attr a;
    trm_layer_defaults(trm_layer_find(type), &a);
    return a;
}

static inline double nn_get(const nn_model *m, const void *p, int64_t i) {
    return m->size == 8 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}
static inline void nn_set(const nn_model *m, void *p, int64_t i, double v) {
    if (m->size == 8)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

static inline void nn_set_all(const nn_model *m, void *dst, const float *src, int64_t n) {
    for (int64_t i = 0; i < n; i++) nn_set(m, dst, i, src[i]);
}

/* Takes the graph over.  Raw input: float64 numbers in canonical order or int32 tokens; raw target: int32 classes or float64. */
static inline void nn_open(nn_model *m, trm_graph *g, const char *backend, trm_loss_kind loss, trm_shape y, bool tokens,
                           trm_optim_spec optim, trm_ce_spec ce) {
    memset(m, 0, sizeof *m);
    m->g = g;
    assert_ok(trm_device_open(backend, 1, &m->d));
    m->size = m->d->backend->float_size;
    m->space = trm_graph_param_space(g);
    const int64_t state = trm_graph_state_space(g);
    float *w = trm_alloc_array((size_t)m->space + 1, 4, "test"), *s = trm_alloc_array((size_t)state + 1, 4, "test");
    trm_graph_init(g, 7, w, s);
    trm_runner_spec *r = &m->spec;
    r->graph = g;
    r->device = m->d;
    r->ranks = 1;
    r->loss = loss;
    r->ce = ce;
    r->seed = 3;
    r->optim = optim;
    const trm_shape *x = trm_graph_shape(g, 0);
    m->y = y;
    m->y_is_class = loss == TRM_LOSS_CROSS_ENTROPY;
    r->load = (trm_load_spec){.x_type = tokens ? TRM_I32 : TRM_F64, .y_type = m->y_is_class ? TRM_I32 : TRM_F64};
    r->load.x_stride = trm_shape_count(x) * (tokens ? 4 : 8);
    r->load.y_stride = trm_shape_count(&y) * (m->y_is_class ? 4 : 8);
    r->load.y = y;
    r->load.y_is_class = m->y_is_class;
    r->load.scale = 1;
    r->weights = trm_alloc_array((size_t)m->space, m->size, "test");
    r->grads = trm_alloc_array((size_t)m->space, m->size, "test");
    r->m1 = trm_alloc_array((size_t)m->space, m->size, "test");
    r->m2 = trm_alloc_array((size_t)m->space, m->size, "test");
    r->state = trm_alloc_array((size_t)state + 1, m->size, "test");
    r->small = trm_alloc_array((size_t)trm_graph_small_space(g), 8, "test");
    nn_set_all(m, r->weights, w, m->space);
    nn_set_all(m, r->state, s, state);
    trm_free(w);
    trm_free(s);
    assert_ok(trm_runner_create(r, &m->r));
}

static inline void nn_close(nn_model *m) {
    trm_runner_free(m->r);
    trm_device_close(m->d);
    trm_graph_free(m->g);
    trm_free(m->spec.weights);
    trm_free(m->spec.grads);
    trm_free(m->spec.m1);
    trm_free(m->spec.m2);
    trm_free(m->spec.state);
    trm_free(m->spec.small);
}

/* One update over raw samples; returns the mean loss. */
static inline double nn_step(nn_model *m, int k, const int64_t *counts, const void *x, const void *y, double lr, int64_t update,
                             trm_step_result *out) {
    int program;
    assert_ok(trm_runner_plan(m->r, k, counts, &program));
    int64_t sample[256];
    for (int i = 0; i < 256; i++) sample[i] = 1000 + i;
    trm_step step = {.update = update, .lr = lr, .x_raw = x, .y_raw = y, .sample = sample};
    trm_step_result res;
    assert_ok(trm_runner_step(m->r, program, &step, false, &res));
    if (out) *out = res;
    return res.loss;
}

#endif
