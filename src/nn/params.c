/* The parameter table and initial values. */
#include "nn_impl.h"

#include <math.h>
#include <string.h>

/* Entries begin at multiples of 16 elements: 64 bytes of float32. */
#define TRM_PARAM_ALIGN 16

static trm_status grow_params(trm_graph *g) {
    if (g->n_params < g->cap_params) return TRM_OK;
    int cap = g->cap_params ? 2 * g->cap_params : 32;
    trm_param *p =
        trm_realloc(g->params, (size_t)g->cap_params * sizeof *p, (size_t)cap * sizeof *p, "parameter table");
    if (!p) return TRM_MEMORY;
    g->params = p;
    g->cap_params = cap;
    return TRM_OK;
}

int trm_graph_new_param(trm_graph *g, const char *node, const char *suffix, trm_param_kind kind,
                        const trm_shape *shape, bool decay, int init, double std, int64_t fan_in,
                        int64_t fan_out) {
    char shape_buf[80];
    if (!trm_shape_valid(shape)) {
        trm_fail(TRM_JOB, "layer '%s': %s of shape %s is not possible", node, suffix,
                 trm_shape_text(shape, shape_buf, sizeof shape_buf));
        return -1;
    }
    if (grow_params(g) != TRM_OK) return -1;
    trm_param *p = &g->params[g->n_params];
    memset(p, 0, sizeof *p);
    if (snprintf(p->name, sizeof p->name, "%s.%s", node, suffix) >= (int)sizeof p->name) {
        trm_fail(TRM_JOB, "layer name '%s' is too long; allowed are %d bytes with '.%s'", node,
                 TRM_NAME_MAX - 1, suffix);
        return -1;
    }
    int64_t *space = kind == TRM_STATE ? &g->state_space : &g->param_space;
    p->kind = kind;
    p->shape = *shape;
    p->count = trm_shape_count(shape);
    p->offset = *space;
    p->decay = decay;
    p->init = init;
    p->std = std;
    p->fan_in = fan_in;
    p->fan_out = fan_out;
    *space += (int64_t)trm_round_up((size_t)p->count, TRM_PARAM_ALIGN);
    return g->n_params++;
}

trm_status trm_graph_weight_and_bias(trm_graph *g, int node, const trm_layer_attr *a, const trm_shape *weight,
                                     int64_t fan_in, int64_t fan_out, int64_t biases) {
    const int init = a->init == TRM_INIT_DEFAULT ? TRM_INIT_TORCH : a->init;
    char name[TRM_NAME_MAX];
    snprintf(name, sizeof name, "%s", g->nodes[node].name);
    int w = trm_graph_new_param(g, name, "weight", TRM_PARAM, weight, true, init, a->std, fan_in, fan_out);
    if (w < 0) return TRM_JOB;
    g->nodes[node].weight = w;
    g->nodes[node].own_params = g->params[w].count;
    if (!a->bias) return TRM_OK;
    trm_shape shape = trm_shape_of(1, biases);
    int b = trm_graph_new_param(g, name, "bias", TRM_PARAM, &shape, false,
                                init == TRM_INIT_TORCH ? TRM_INIT_TORCH : TRM_INIT_ZEROS, a->std, fan_in,
                                fan_out);
    if (b < 0) return TRM_JOB;
    g->nodes[node].bias = b;
    g->nodes[node].desc.bias = true;
    g->nodes[node].own_params += biases;
    return TRM_OK;
}

int trm_graph_params(const trm_graph *g) { return g->n_params; }
const trm_param *trm_graph_param(const trm_graph *g, int i) { return &g->params[i]; }
int64_t trm_graph_param_space(const trm_graph *g) { return g->param_space; }
int64_t trm_graph_state_space(const trm_graph *g) { return g->state_space; }
int64_t trm_graph_small_space(const trm_graph *g) { return g->small_space; }

int trm_graph_param_find(const trm_graph *g, const char *name) {
    for (int i = 0; i < g->n_params; i++)
        if (!strcmp(g->params[i].name, name)) return i;
    return -1;
}

int64_t trm_graph_param_count(const trm_graph *g) {
    int64_t n = 0;
    for (int i = 0; i < g->n_params; i++)
        if (g->params[i].kind == TRM_PARAM) n += g->params[i].count;
    return n;
}

static double uniform(const trm_rng_key *key, int64_t i, double bound) {
    return bound * (2 * trm_rng_uniform(key, (uint64_t)i) - 1);
}

/* Xavier: Glorot and Bengio 2010; Kaiming: He et al. 2015, gain sqrt(2), fan_in. */
static double initial_value(const trm_param *p, const trm_rng_key *key, int64_t i) {
    const double in = (double)trm_max64(p->fan_in, 1), out = (double)trm_max64(p->fan_out, 1);
    switch (p->init) {
    case TRM_INIT_ONES: return 1;
    case TRM_INIT_TORCH: return uniform(key, i, 1 / sqrt(in));
    case TRM_INIT_XAVIER_UNIFORM: return uniform(key, i, sqrt(6 / (in + out)));
    case TRM_INIT_XAVIER_NORMAL: return sqrt(2 / (in + out)) * trm_rng_normal(key, (uint64_t)i);
    case TRM_INIT_KAIMING_UNIFORM: return uniform(key, i, sqrt(6 / in));
    case TRM_INIT_KAIMING_NORMAL: return sqrt(2 / in) * trm_rng_normal(key, (uint64_t)i);
    case TRM_INIT_NORMAL: return p->std * trm_rng_normal(key, (uint64_t)i);
    default: return 0;
    }
}

void trm_graph_init(const trm_graph *g, uint64_t seed, float *weights, float *state) {
    for (int k = 0; k < g->n_params; k++) {
        const trm_param *p = &g->params[k];
        float *dst = (p->kind == TRM_STATE ? state : weights) + p->offset;
        trm_rng_key key = {.seed = seed, .purpose = TRM_RNG_INIT, .layer = (uint32_t)k};
        for (int64_t i = 0; i < p->count; i++) dst[i] = (float)initial_value(p, &key, i);
    }
}
