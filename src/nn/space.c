/* Space: values whose channels come first.  Signals (C,L), images (C,H,W) and volumes (C,D,H,W) have one to three axes
 * beside their channels.  A signal is held as an image one pixel high, (C,1,L), so that everything below knows images and
 * volumes only; people see it as (C,L).  A value of two dimensions that is not marked as a signal lies row by row, as the
 * samples of a file do; a layer that reads signals turns it first. */
#include "nn_impl.h"

static const char *const space_names[1 + TRM_MAX_AXES] = {"", "signals (C,L)", "images (C,H,W)",
                                                          "volumes (C,D,H,W)"};

int trm_node_axes(const trm_node *n) {
    if (n->signal) return 1;
    return trm_shape_channels_first(&n->desc.out) ? n->desc.out.rank - 1 : 0;
}

trm_shape trm_node_shape(const trm_node *n) {
    const trm_shape *s = &n->desc.out;
    return n->signal ? trm_shape_of(2, s->dim[0], s->dim[2]) : *s;
}

const char *trm_node_shape_text(const trm_node *n, char buf[80]) {
    const trm_shape s = trm_node_shape(n);
    return trm_shape_text(&s, buf, 80);
}

trm_status trm_graph_as_signal(trm_graph *g, const char *name, int in, int *out) {
    char full[TRM_NAME_MAX];
    snprintf(full, sizeof full, "%.80s.signal", name);
    trm_node *n = trm_graph_new_node(g, TRM_NODE_UNFLATTEN, full, 1, &in);
    if (!n) return TRM_MEMORY;
    n->signal = true;
    n->desc.out = trm_shape_of(3, n->desc.in.dim[0], 1, n->desc.in.dim[1]);
    *out = trm_node_id(g, n);
    return TRM_OK;
}

trm_status trm_graph_alike(trm_graph *g, const char *name, int count, int *in) {
    bool any = false;
    for (int i = 0; i < count; i++) any = any || g->nodes[in[i]].signal;
    for (int i = 0; i < count && any; i++) {
        char part[TRM_NAME_MAX];
        snprintf(part, sizeof part, "%.70s.%d", name, i);
        if (g->nodes[in[i]].desc.out.rank == 2) TRM_TRY(trm_graph_as_signal(g, part, in[i], &in[i]));
    }
    return TRM_OK;
}

static trm_status wants_space(const char *type, const char *name, const trm_node *x, int low, int high) {
    char buf[80];
    trm_str kinds = {0};
    for (int a = low; a <= high; a++)
        trm_str_add(&kinds, "%s%s", a == low ? "" : a == high ? " or " : ", ", space_names[a]);
    trm_fail(TRM_JOB, "layer '%s': %s reads %s, its input has shape %s", name, type, kinds.p ? kinds.p : "",
             trm_node_shape_text(x, buf));
    trm_str_free(&kinds);
    if (x->desc.out.rank == 1 && low <= 2 && high >= 2)
        trm_hint("if the samples are stored flat, data.shape: [C,H,W] makes them images");
    else if (x->desc.out.rank == 1)
        trm_hint("a reshape before it gives the values a shape");
    return TRM_JOB;
}

trm_status trm_graph_as_space(trm_graph *g, const char *type, const char *name, int in, int low, int high,
                              int *out) {
    *out = in;
    if (g->nodes[in].desc.out.rank == 2 && low <= 1) return trm_graph_as_signal(g, name, in, out);
    const int axes = trm_node_axes(&g->nodes[in]);
    if (axes >= low && axes <= high) return TRM_OK;
    return wants_space(type, name, &g->nodes[in], low, high);
}

trm_status trm_sizes_for(const char *name, const char *key, const trm_sizes *s, int axes,
                         int64_t out[TRM_MAX_AXES]) {
    if (s->n != 1 && s->n != axes)
        return trm_fail(TRM_JOB, "layer '%s': %s has %d numbers; %s allow one%s", name, key, s->n,
                        space_names[axes],
                        axes == 1   ? ""
                        : axes == 2 ? ", or two for height and width"
                                    : ", or three for depth, height and width");
    for (int a = 0; a < axes; a++) out[a] = s->at[s->n == 1 ? 0 : a];
    return TRM_OK;
}
