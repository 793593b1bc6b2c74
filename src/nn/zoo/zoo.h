/* Private to the zoo: layers of the table put behind each other in one line each. */
#ifndef TRM_NN_ZOO_H
#define TRM_NN_ZOO_H

#include <trireme/nn.h>

/* Adds a layer behind node *at, which becomes the new layer's node.  a: NULL = the type's defaults. */
trm_status trm_zoo_layer(trm_graph *g, const char *type, const trm_layer_attr *a, const char *name, int *at);
/* "<block>.<word>" in buf. */
const char *trm_zoo_name(char buf[TRM_NAME_MAX], const char *block, const char *word);
/* The defaults of a type, to be changed by the caller. */
trm_layer_attr trm_zoo_attr(const char *type);
/* A linear with bias and PyTorch's initial values. */
trm_status trm_zoo_linear(trm_graph *g, int64_t out, const char *name, int *at);

#endif
