/* mlp: linear layers with relu between them; and what the files of the zoo share. */
#include "zoo.h"

trm_layer_attr trm_zoo_attr(const char *type) {
    trm_layer_attr a;
    trm_layer_defaults(trm_layer_find(type), &a);
    return a;
}

trm_status trm_zoo_layer(trm_graph *g, const char *type, const trm_layer_attr *a, const char *name, int *at) {
    trm_layer_attr plain = trm_zoo_attr(type);
    const int in = *at;
    return trm_graph_add(g, trm_layer_find(type), a ? a : &plain, name, &in, at);
}

const char *trm_zoo_name(char buf[TRM_NAME_MAX], const char *block, const char *word) {
    snprintf(buf, TRM_NAME_MAX, "%s.%s", block, word);
    return buf;
}

trm_status trm_zoo_linear(trm_graph *g, int64_t out, const char *name, int *at) {
    trm_layer_attr a = trm_zoo_attr("linear");
    a.out = out;
    return trm_zoo_layer(g, "linear", &a, name, at);
}

trm_status trm_zoo_mlp(trm_graph *g, const trm_zoo_spec *s, int in, int *out) {
    char name[TRM_NAME_MAX];
    int at = in;
    if (trm_graph_shape(g, in)->rank > 1) TRM_TRY(trm_zoo_layer(g, "flatten", NULL, "flatten", &at));
    for (int i = 0; i < s->n_hidden; i++) {
        snprintf(name, sizeof name, "fc%d", i + 1);
        TRM_TRY(trm_zoo_linear(g, s->hidden[i], name, &at));
        snprintf(name, sizeof name, "relu%d", i + 1);
        TRM_TRY(trm_zoo_layer(g, "relu", NULL, name, &at));
    }
    snprintf(name, sizeof name, "fc%d", s->n_hidden + 1);
    TRM_TRY(trm_zoo_linear(g, s->classes, name, &at));
    *out = at;
    return TRM_OK;
}
