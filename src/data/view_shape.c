/* view_shape: where the parts of a sample lie.  A sample is canonical: channels first, then space.  What has no channels
 * (vectors, sequences, one data set that is neither joined nor turned) keeps the shape that it is stored in. */
#include "view_impl.h"
#include <string.h>

/* The axes that belong to a sample, with their extents in it. */
typedef struct piece {
    int axis[TRM_VIEW_AXES];
    int64_t dim[TRM_VIEW_AXES];
    int rank;
    bool has_channels; /* the first of them is the channels, or with hwc the last */
} piece;

static int64_t axis_extent(const trm_view_source *s, int i) {
    if (s->n_pick > 0 && s->pick_axis == i) return s->n_pick;
    return s->axis[i].tile > 0 ? s->axis[i].tile : s->axis[i].extent;
}

static piece piece_of(const trm_view_source *s) {
    piece p = {0};
    if (s->kind == TRM_SOURCE_CSR || s->kind == TRM_SOURCE_VLEN) {
        p.dim[p.rank++] = s->width;
        return p;
    }
    for (int i = 0; i < s->rank; i++) {
        if (s->axis[i].role == TRM_AXIS_SAMPLE || s->axis[i].role == TRM_AXIS_TIME) continue;
        p.axis[p.rank] = i;
        p.dim[p.rank++] = axis_extent(s, i);
    }
    return p;
}

static int time_axis(const trm_view_source *s) {
    for (int i = 0; i < s->rank; i++)
        if (s->axis[i].role == TRM_AXIS_TIME) return i;
    return -1;
}

static trm_status too_large(const trm_view_form *form) {
    return trm_fail(TRM_DATA, "%s: the parts of `data.%s` make samples that are too large", form->path,
                    form->key);
}

static bool multiply(int64_t *a, int64_t b) {
    return !__builtin_mul_overflow(*a, b, a) && *a <= (int64_t)1 << 48;
}

/* ---- behind each other ---- */

static trm_status lay_list(trm_view_source *s, const trm_view_form *form, int64_t base, int64_t *elems) {
    piece p = piece_of(s);
    int64_t n = 1;
    int t = time_axis(s);
    if (s->form == TRM_FORM_COMPLEX) n = 2;
    s->part = 1;
    for (int i = p.rank - 1; i >= 0; i--) {
        s->axis[p.axis[i]].stride = n;
        if (!multiply(&n, p.dim[i])) return too_large(form);
    }
    if (s->kind == TRM_SOURCE_CSR || s->kind == TRM_SOURCE_VLEN) s->axis[0].stride = 1;
    if (t >= 0) {
        s->axis[t].stride = n;
        if (!multiply(&n, s->steps)) return too_large(form);
    }
    s->offset = base;
    *elems = n;
    return TRM_OK;
}

static trm_status lay_lists(struct trm_view *v, const trm_view_form *form, trm_shape *shape) {
    int64_t base = 0, n = 0;
    for (int i = 0; i < v->n_sources; i++) {
        trm_view_source *s = &v->source[i];
        if (s->kind == TRM_SOURCE_PICTURE)
            return trm_fail(TRM_DATA, "%s: pictures cannot be joined as a list", form->path);
        TRM_TRY(lay_list(s, form, base, &n));
        base += n;
    }
    v->row_elems = base;
    *shape = trm_shape_of(1, base);
    return TRM_OK;
}

/* ---- one data set as it is stored ---- */

static trm_status lay_alone(struct trm_view *v, const trm_view_form *form, trm_shape *shape) {
    trm_view_source *s = &v->source[0];
    piece p = piece_of(s);
    if (s->kind == TRM_SOURCE_PICTURE) {
        *shape = trm_shape_from(3, s->picture);
        v->row_elems = trm_shape_count(shape);
        return TRM_OK;
    }
    TRM_TRY(lay_list(s, form, 0, &v->row_elems));
    if (p.rank > TRM_MAX_DIMS)
        return trm_fail(TRM_DATA, "%s: samples of %d dimensions, at most %d are read", form->path, p.rank,
                        TRM_MAX_DIMS);
    *shape = trm_shape_from(p.rank, p.dim);
    if (p.rank == 0 && v->row_elems > 1) *shape = trm_shape_of(1, v->row_elems);
    return TRM_OK;
}

/* A sequence and, as one more column, where it has data. */
static trm_status lay_sequence(struct trm_view *v, const trm_view_form *form, trm_shape *shape) {
    trm_view_source *s = &v->source[0], *mask = &v->source[1];
    piece p = piece_of(s);
    int64_t width = p.rank == 2 ? p.dim[1] : 1;
    if (p.rank > 2)
        return trm_fail(TRM_DATA,
                        "%s: `data.mask` beside a sequence of rows of %d dimensions; at most one is allowed",
                        form->path, p.rank - 1);
    if (width + 1 > (int64_t)1 << 40) return too_large(form);
    for (int i = 0; i < s->rank; i++) s->axis[i].stride = i == p.axis[0] ? width + 1 : 1;
    for (int i = 0; i < s->rank; i++) mask->axis[i].stride = i == p.axis[0] ? width + 1 : 0;
    mask->offset = width;
    v->row_elems = width + 1;
    if (!multiply(&v->row_elems, p.dim[0])) return too_large(form);
    *shape = trm_shape_of(2, p.dim[0], width + 1);
    return TRM_OK;
}

/* ---- side by side as channels ---- */

/* How many dimensions space has: said by the shape or the tile; else what is left beside the channels. */
static int space_rank(const struct trm_view *v, const trm_view_form *form) {
    int most = 0, least = TRM_VIEW_AXES;
    if (form->shape.rank > 0) return form->shape.rank - 1;
    if (form->tile.rank > 0) return form->tile.rank;
    for (int i = 0; i < v->n_sources; i++) {
        if (v->source[i].kind == TRM_SOURCE_MASK) continue;
        int rank = v->source[i].kind == TRM_SOURCE_PICTURE ? 3 : piece_of(&v->source[i]).rank;
        most = rank > most ? rank : most;
        least = rank < least ? rank : least;
    }
    return form->hwc || least < most || most > 2 ? most - 1 : most;
}

static trm_status not_alike(const trm_view_form *form, const trm_view_source *s, const piece *p, int space) {
    char dims[128];
    trm_status r = trm_fail(TRM_DATA,
                            "%s: '%s' has samples of %s, they cannot stand side by side as channels over %d "
                            "dimension%s",
                            form->path, s->path, trm_dims_text(p->dim, p->rank, 0, dims, sizeof dims), space,
                            space == 1 ? "" : "s");
    trm_hint("`data.join: list` puts the numbers behind each other; `data.shape: [C, ...]` says which "
             "dimensions are "
             "space");
    return r;
}

/* Puts the channel axis of a piece first; a piece without channels gets none. */
static bool split_channels(piece *p, int space, bool hwc) {
    if (p->rank != space && p->rank != space + 1) return false;
    p->has_channels = p->rank == space + 1;
    if (!p->has_channels || !hwc) return true;
    int axis = p->axis[p->rank - 1];
    int64_t dim = p->dim[p->rank - 1];
    memmove(p->axis + 1, p->axis, (size_t)(p->rank - 1) * sizeof *p->axis);
    memmove(p->dim + 1, p->dim, (size_t)(p->rank - 1) * sizeof *p->dim);
    p->axis[0] = axis;
    p->dim[0] = dim;
    return true;
}

/* Strides in space, the last axis first; elements of one channel. */
static int64_t space_strides(const piece *p, const int64_t *dim, int space, trm_view_source *s) {
    int64_t n = 1;
    for (int i = space - 1; i >= 0; i--) {
        s->axis[p->axis[i + p->has_channels]].stride = n;
        n *= dim[i];
    }
    return n;
}

/* The extents of space: the largest of all parts, where they may differ. */
static trm_status common_space(const struct trm_view *v, const trm_view_form *form, int space, int64_t *dim) {
    for (int k = 0; k < space; k++) dim[k] = 0;
    for (int i = 0; i < v->n_sources; i++) {
        const trm_view_source *s = &v->source[i];
        piece p = piece_of(s);
        if (s->kind == TRM_SOURCE_MASK) continue;
        if (s->kind == TRM_SOURCE_PICTURE || !split_channels(&p, space, form->hwc))
            return not_alike(form, s, &p, space);
        for (int k = 0; k < space; k++) {
            int64_t here = p.dim[k + p.has_channels];
            if (dim[k] > 0 && dim[k] != here && !v->pads) return not_alike(form, s, &p, space);
            dim[k] = trm_max64(dim[k], here);
        }
    }
    return TRM_OK;
}

static trm_status lay_channels(struct trm_view *v, const trm_view_form *form, trm_shape *shape) {
    int space = space_rank(v, form);
    int64_t dim[TRM_MAX_DIMS + 1] = {0}, pixels = 1, per_step = 0, steps = 1;
    if (space < 0 || space > TRM_MAX_DIMS - 1)
        return trm_fail(TRM_DATA, "%s: samples of %d dimensions and channels, at most %d are read",
                        form->path, space, TRM_MAX_DIMS - 1);
    TRM_TRY(common_space(v, form, space, dim));
    for (int k = 0; k < space; k++)
        if (!multiply(&pixels, dim[k])) return too_large(form);
    for (int i = 0; i < v->n_sources; i++) {
        trm_view_source *s = &v->source[i];
        bool is_mask = s->kind == TRM_SOURCE_MASK;
        if (is_mask) memcpy(s->axis, v->source[0].axis, sizeof s->axis);
        piece p = piece_of(is_mask ? &v->source[0] : s);
        (void)split_channels(&p, space, form->hwc);
        int64_t each = space_strides(&p, dim, space, s), channels = p.has_channels && !is_mask ? p.dim[0] : 1;
        s->offset = per_step * each;
        s->part = each;
        if (p.has_channels)
            s->axis[p.axis[0]].stride = is_mask ? 0 : s->form == TRM_FORM_COMPLEX ? 2 * each : each;
        per_step += s->form == TRM_FORM_COMPLEX ? 2 * channels : channels;
        if (time_axis(s) >= 0) steps = trm_max64(steps, s->steps);
    }
    for (int i = 0; i < v->n_sources; i++) {
        int t = time_axis(&v->source[i]);
        if (t >= 0) v->source[i].axis[t].stride = per_step * pixels;
    }
    int64_t full[TRM_MAX_DIMS] = {per_step};
    if (!multiply(&full[0], steps)) return too_large(form);
    memcpy(full + 1, dim, (size_t)space * sizeof *dim);
    v->row_elems = full[0];
    if (!multiply(&v->row_elems, pixels)) return too_large(form);
    *shape = trm_shape_from(space + 1, full);
    return TRM_OK;
}

/* ---- which of them ---- */

static bool all_vectors(const struct trm_view *v) {
    for (int i = 0; i < v->n_sources; i++) {
        const trm_view_source *s = &v->source[i];
        if (s->kind == TRM_SOURCE_PICTURE || (s->kind != TRM_SOURCE_MASK && piece_of(s).rank > 1))
            return false;
    }
    return true;
}

/* Where the first source lies, its chosen columns as all of an axis. */
static void shape_mask(trm_view_source *mask, const trm_view_source *s) {
    mask->rank = s->rank;
    memcpy(mask->axis, s->axis, sizeof mask->axis);
    if (s->n_pick > 0) mask->axis[s->pick_axis].extent = s->n_pick;
}

trm_status trm_view_shape(struct trm_view *v, const trm_view_form *form, trm_shape *shape) {
    const trm_view_source *s = &v->source[0];
    bool joined = v->n_sources > (form->mask ? 2 : 1);
    bool timed = time_axis(s) >= 0 && s->steps > 1,
         space = s->kind != TRM_SOURCE_PICTURE && piece_of(s).rank > 1;
    if (form->mask) shape_mask(&v->source[v->n_sources - 1], s);
    if (form->mask && form->lengths && !joined) return lay_sequence(v, form, shape);
    if (form->join == TRM_JOIN_LIST || (joined && form->join == TRM_JOIN_AUTO && all_vectors(v) && !timed))
        return lay_lists(v, form, shape);
    if (form->join == TRM_JOIN_CHANNEL || joined || timed || (time_axis(s) >= 0 && space) || form->mask ||
        form->tile.rank > 0)
        return lay_channels(v, form, shape);
    if (s->form == TRM_FORM_COMPLEX && s->kind == TRM_SOURCE_BOX && piece_of(s).rank > 0)
        return lay_channels(v, form, shape);
    if (form->hwc && !form->is_class && space) return lay_channels(v, form, shape);
    return lay_alone(v, form, shape);
}
