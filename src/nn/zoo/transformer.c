/* transformer: one pre-norm block, x + attention(norm(x)), then x + mlp(norm(x)).  Names follow GPT-2: ln_1, attn.qkv,
 * attn.proj, ln_2, mlp.fc, mlp.proj. */
#include "zoo.h"

static trm_status dropout(trm_graph *g, double p, const char *name, int *at) {
    trm_layer_attr a = trm_zoo_attr("dropout");
    a.p = p;
    return p > 0 ? trm_zoo_layer(g, "dropout", &a, name, at) : TRM_OK;
}

static trm_status linear(trm_graph *g, const trm_block_spec *s, int64_t out, double std, const char *name,
                         int *at) {
    trm_layer_attr a = trm_zoo_attr("linear");
    a.out = out;
    a.init = s->init;
    a.std = std;
    return trm_zoo_layer(g, "linear", &a, name, at);
}

static trm_status attention(trm_graph *g, const trm_block_spec *s, const char *name, int *at) {
    trm_layer_attr a = trm_zoo_attr("attention");
    a.heads = s->heads;
    a.causal = s->causal;
    a.init = s->init;
    a.std = s->std;
    a.out_std = s->residual_std;
    return trm_zoo_layer(g, "attention", &a, name, at);
}

static trm_status add(trm_graph *g, int side, const char *name, int *at) {
    trm_layer_attr a = trm_zoo_attr("add");
    return trm_graph_add(g, trm_layer_find("add"), &a, name, (const int[]){*at, side}, at);
}

static trm_status mlp(trm_graph *g, const trm_block_spec *s, int64_t width, const char *block, int *at) {
    char name[TRM_NAME_MAX];
    trm_layer_attr gelu = trm_zoo_attr("gelu");
    gelu.tanh = s->tanh;
    TRM_TRY(linear(g, s, s->expand * width, s->std, trm_zoo_name(name, block, "mlp.fc"), at));
    TRM_TRY(trm_zoo_layer(g, "gelu", &gelu, trm_zoo_name(name, block, "mlp.gelu"), at));
    double std = s->residual_std > 0 ? s->residual_std : s->std;
    return linear(g, s, width, std, trm_zoo_name(name, block, "mlp.proj"), at);
}

trm_status trm_zoo_transformer(trm_graph *g, const trm_block_spec *s, const char *block, int in, int *out) {
    char name[TRM_NAME_MAX], buf[80];
    const trm_shape x = *trm_graph_shape(g, in);
    if (x.rank != 2)
        return trm_fail(TRM_JOB, "layer '%s': transformer reads (T,C), its input has shape %s", block,
                        trm_shape_text(&x, buf, sizeof buf));
    int at = in;
    TRM_TRY(trm_zoo_layer(g, "layer_norm", NULL, trm_zoo_name(name, block, "ln_1"), &at));
    TRM_TRY(attention(g, s, trm_zoo_name(name, block, "attn"), &at));
    TRM_TRY(dropout(g, s->dropout, trm_zoo_name(name, block, "drop_1"), &at));
    TRM_TRY(add(g, in, trm_zoo_name(name, block, "add_1"), &at));
    int middle = at;
    TRM_TRY(trm_zoo_layer(g, "layer_norm", NULL, trm_zoo_name(name, block, "ln_2"), &at));
    TRM_TRY(mlp(g, s, x.dim[1], block, &at));
    TRM_TRY(dropout(g, s->dropout, trm_zoo_name(name, block, "drop_2"), &at));
    TRM_TRY(add(g, middle, trm_zoo_name(name, block, "add_2"), &at));
    *out = at;
    return TRM_OK;
}
