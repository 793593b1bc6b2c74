/* gpt: a decoder-only transformer with GPT-2's names and initial values (Radford et al. 2019): all weights from
 * N(0, 0.02), those that end a residual branch from N(0, 0.02 / sqrt(2 * layers)), biases 0; the head shares the token
 * embedding's weight. */
#include <math.h>

#include "zoo.h"

#define GPT_STD 0.02

static trm_status embed(trm_graph *g, const trm_zoo_spec *s, int *at) {
    trm_layer_attr token = trm_zoo_attr("embedding"), position = trm_zoo_attr("positional_embedding");
    token.vocab = s->vocab;
    token.dim = s->dim;
    position.length = s->context;
    token.init = position.init = TRM_INIT_NORMAL;
    token.std = position.std = GPT_STD;
    TRM_TRY(trm_zoo_layer(g, "embedding", &token, "wte", at));
    TRM_TRY(trm_zoo_layer(g, "positional_embedding", &position, "wpe", at));
    if (s->dropout <= 0) return TRM_OK;
    trm_layer_attr drop = trm_zoo_attr("dropout");
    drop.p = s->dropout;
    return trm_zoo_layer(g, "dropout", &drop, "drop", at);
}

static trm_status head(trm_graph *g, const trm_zoo_spec *s, int *at) {
    trm_layer_attr a = trm_zoo_attr("linear");
    a.out = s->vocab;
    a.bias = false;
    a.tie = "wte";
    TRM_TRY(trm_zoo_layer(g, "layer_norm", NULL, "ln_f", at));
    return trm_zoo_layer(g, "linear", &a, "head", at);
}

trm_status trm_zoo_gpt(trm_graph *g, const trm_zoo_spec *s, int in, int *out) {
    char name[TRM_NAME_MAX];
    int at = in;
    const trm_block_spec block = {
        .heads = s->heads,
        .expand = 4,
        .causal = true,
        .tanh = true,
        .dropout = s->dropout,
        .init = TRM_INIT_NORMAL,
        .std = GPT_STD,
        .residual_std = GPT_STD / sqrt(2 * (double)s->layers),
    };
    TRM_TRY(embed(g, s, &at));
    for (int64_t i = 0; i < s->layers; i++) {
        snprintf(name, sizeof name, "h.%lld", (long long)i);
        TRM_TRY(trm_zoo_transformer(g, &block, name, at, &at));
    }
    TRM_TRY(head(g, s, &at));
    *out = at;
    return TRM_OK;
}
