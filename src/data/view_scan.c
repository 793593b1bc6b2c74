/* view_scan: the data sets of every unit, looked at once: form, shape, type, how many samples. */
#include "view_open.h"
#include <string.h>

typedef struct scan {
    trm_view_side *side;
    trm_view_unit *unit;
    trm_view_source *s;
    trm_h5 *f;
    char name[512];
    trm_h5_field field;
    int64_t samples;
} scan;

/* ---- one data set of one unit ---- */

static trm_status need(const scan *q, const char *what, const char *hint) {
    trm_status s = trm_fail(TRM_DATA, "%s: '%s' %s", trm_h5_path(q->f), q->name, what);
    trm_hint("%s", hint);
    return s;
}

/* How the numbers of an element are read. */
static trm_status settle_form(scan *q) {
    const trm_h5_facts *x = &q->field.facts;
    const trm_data_view *w = &q->side->spec->view;
    char what[300];
    bool bf16 = w->bf16 && !q->side->target;
    if (x->cls == TRM_H5_COMPLEX) {
        if (w->complex == TRM_COMPLEX_REFUSE)
            return need(q, "is complex, real numbers expected",
                        "`data.complex: channels` makes real and imaginary part two "
                        "channels, `magnitude` one of their length");
        q->s->form = w->complex == TRM_COMPLEX_MAGNITUDE ? TRM_FORM_MAGNITUDE : TRM_FORM_COMPLEX;
        return TRM_OK;
    }
    if (bf16 && x->type_bytes == 2 &&
        (x->cls == TRM_H5_OPAQUE || (x->cls == TRM_H5_NUMBER && x->type == TRM_U16))) {
        q->s->form = TRM_FORM_BF16;
        return TRM_OK;
    }
    if (bf16 && x->type_bytes != 2) {
        snprintf(what, sizeof what, "holds %s, bfloat16 has 2 bytes", x->type_text);
        return need(q, what, "leave out `data.input_type`");
    }
    if (x->cls == TRM_H5_NUMBER) return TRM_OK;
    if (x->cls == TRM_H5_COMPOUND) return trm_view_no_member(q->f, q->name, NULL, trm_view_key(q->side));
    snprintf(what, sizeof what, "holds %s, numbers expected", x->type_text);
    if (x->cls == TRM_H5_VLEN)
        return need(q, what, "`data.sample: bytes` reads one sequence or picture a sample");
    if (x->cls == TRM_H5_OPAQUE && x->type_bytes == 2)
        return need(q, what, "bfloat16 saved by Keras? `data.input_type: bfloat16`");
    return need(q, what, "store it as plain numbers");
}

static trm_status check_pieces(const scan *q) {
    const trm_h5_facts *x = &q->field.facts;
    char dims[128];
    if (x->rank < 0)
        return trm_fail(TRM_DATA, "%s: '%s' has no shape (a null data space)", trm_h5_path(q->f), q->name);
    if (x->rank > TRM_VIEW_AXES)
        return trm_fail(TRM_DATA, "%s: '%s' has %d dimensions, at most %d are read", trm_h5_path(q->f),
                        q->name, x->rank, TRM_VIEW_AXES);
    for (int i = 0; i < x->rank; i++)
        if (x->dim[i] < 1)
            return trm_fail(TRM_DATA, "%s: '%s' has no elements: %s", trm_h5_path(q->f), q->name,
                            trm_dims_text(x->dim, x->rank, 0, dims, sizeof dims));
    return TRM_OK;
}

/* Links that stay in the file, where the job allows links: the library follows them again when it reads. */
static trm_status follow_inside(scan *q) {
    trm_h5 *other = NULL;
    char *led = NULL;
    TRM_TRY(trm_follow(q->f, q->name, &other, &led));
    snprintf(q->name, sizeof q->name, "%s", led);
    trm_free(led);
    if (!other) return TRM_OK;
    (void)!trm_h5_end(other);
    return trm_fail(TRM_DATA,
                    "%s: '%s' lies in another file; only plain rows are read through external links",
                    trm_h5_path(q->f), q->name);
}

static trm_status look_up(scan *q) {
    char *found = NULL;
    trm_view_side *x = q->side;
    trm_view_set_name(q->s, q->unit, q->name, sizeof q->name);
    if (q->s->kind == TRM_SOURCE_CSR) return TRM_OK;
    if (trm_h5_allowed(q->f) & TRM_ALLOW_LINKS) TRM_TRY(follow_inside(q));
    TRM_TRY(trm_judge_look(q->f, trm_view_key(x), q->name, NULL, NULL, &found));
    snprintf(q->name, sizeof q->name, "%s", found);
    trm_free(found);
    if (q->s->member) TRM_TRY(trm_view_check_member(q->f, q->name, q->s->member, trm_view_key(x)));
    trm_h5_facts plain;
    TRM_TRY(trm_h5_facts_of(q->f, q->name, &plain));
    if (plain.layout == TRM_H5_VIRTUAL && !x->spec->view.allow_virtual) {
        trm_status s =
            trm_fail(TRM_DATA, "%s: '%s' is a virtual data set over other files", trm_h5_path(q->f), q->name);
        trm_hint("list its source files under `data.train`, or allow those below its folder: "
                 "`data.allow_virtual: true`");
        return s;
    }
    TRM_TRY(trm_judge_storage(q->f, q->name, &plain));
    TRM_TRY(trm_h5_field_of(q->f, q->name, q->s->member, &q->field));
    return check_pieces(q);
}

/* ---- sparse rows ---- */

static trm_status csr_part(scan *q, const char *part, trm_h5_facts *out) {
    char name[600];
    trm_h5_found found;
    snprintf(name, sizeof name, "%s/%s", q->name, part);
    TRM_TRY(trm_h5_look(q->f, name, &found));
    if (found.kind != TRM_H5_DATASET) {
        trm_status s = trm_fail(TRM_DATA, "%s: '%s' is no sparse matrix: no data set '%s' in it",
                                trm_h5_path(q->f), q->name, part);
        trm_hint("a sparse matrix is a group of `data`, `indices` and `indptr`");
        return s;
    }
    TRM_TRY(trm_h5_facts_of(q->f, name, out));
    return trm_judge_set(q->f, name, trm_view_key(q->side), out);
}

static trm_status scan_csr(scan *q) {
    trm_h5_facts indices, indptr;
    char kind[64] = "";
    int64_t shape[2] = {0};
    q->field = (trm_h5_field){0};
    TRM_TRY(csr_part(q, "data", &q->field.facts));
    TRM_TRY(csr_part(q, "indices", &indices));
    TRM_TRY(csr_part(q, "indptr", &indptr));
    if (trm_h5_attr_text(q->f, q->name, "encoding-type", kind, sizeof kind) && strncmp(kind, "csc", 3) == 0)
        return trm_fail(TRM_DATA, "%s: '%s' is stored by columns (csc), rows are needed (csr)",
                        trm_h5_path(q->f), q->name);
    if (trm_h5_attr_ints(q->f, q->name, "shape", shape, 2) != 2 &&
        trm_h5_attr_ints(q->f, q->name, "h5sparse_shape", shape, 2) != 2)
        return trm_fail(TRM_DATA, "%s: '%s' has no attribute `shape` of two numbers", trm_h5_path(q->f),
                        q->name);
    if (shape[0] != indptr.dim[0] - 1 || shape[1] < 1 || q->field.facts.dim[0] != indices.dim[0])
        return trm_fail(
            TRM_DATA,
            "%s: '%s' of shape (%lld,%lld) has %lld entries of indptr, %lld of data, %lld of indices",
            trm_h5_path(q->f), q->name, (long long)shape[0], (long long)shape[1], (long long)indptr.dim[0],
            (long long)q->field.facts.dim[0], (long long)indices.dim[0]);
    if (q->side->checked && q->s->width != shape[1])
        return trm_fail(TRM_DATA, "%s: '%s' has %lld columns, the first file has %lld", trm_h5_path(q->f),
                        q->name, (long long)shape[1], (long long)q->s->width);
    q->s->width = shape[1];
    q->samples = shape[0];
    return TRM_OK;
}

/* ---- pictures and sequences ---- */

static trm_status scan_bytes(scan *q) {
    const trm_data_spec *spec = q->side->spec;
    trm_view_source *s = q->s;
    if (q->field.facts.cls != TRM_H5_VLEN) return TRM_OK;
    if (!q->field.has_item || q->field.own_rank != 1 || s->member)
        return trm_fail(TRM_DATA,
                        "%s: '%s' is %s of %d dimensions; one sequence of numbers a sample expected",
                        trm_h5_path(q->f), q->name, q->field.facts.type_text, q->field.own_rank);
    q->samples = q->field.facts.dim[0];
    s->rank = s->own_rank = 1;
    s->axis[0] = (trm_view_axis){.role = TRM_AXIS_SAMPLE, .extent = q->samples};
    q->field.facts.type = q->field.item;
    if (!spec->view.decode || q->side->target) {
        s->kind = TRM_SOURCE_VLEN;
        return TRM_OK;
    }
    s->kind = TRM_SOURCE_PICTURE;
    if (q->field.item != TRM_U8)
        return trm_fail(TRM_DATA, "%s: '%s' is %s; pictures are uint8", trm_h5_path(q->f), q->name,
                        q->field.facts.type_text);
    if (spec->shape.rank != 3 || (spec->shape.dim[0] != 1 && spec->shape.dim[0] != 3) ||
        spec->shape.dim[1] > 1 << 20 || spec->shape.dim[2] > 1 << 20)
        return trm_fail(TRM_DATA,
                        "data.decode needs `data.shape: [C, H, W]`, the size that pictures are brought "
                        "to, with 1 or 3 channels");
    memcpy(s->picture, spec->shape.dim, sizeof s->picture);
    return TRM_OK;
}

/* The longest of all sequences: each is read once, which also proves that it can be. */
static trm_status longest(scan *q) {
    struct trm_view *v = q->side->v;
    size_t n;
    for (int64_t i = 0; i < q->samples; i++) {
        TRM_TRY(trm_h5_vlen_row(q->f, q->name, i, q->field.item, &v->box, &v->box_cap, &n));
        int64_t pad = q->side->spec->view.pad;
        if ((q->side->checked || i > 0) && (int64_t)n != q->s->width) {
            if (pad == 0)
                return need(q, "has sequences of different lengths", "`data.pad: max` fills them up");
            v->pads = true;
        }
        if (pad > 0 && (int64_t)n > pad)
            return trm_fail(TRM_DATA, "%s: '%s' sample %lld is %zu long, data.pad is %lld", trm_h5_path(q->f),
                            q->name, (long long)i, n, (long long)pad);
        q->s->width = trm_max64(q->s->width, (int64_t)n);
    }
    return TRM_OK;
}

/* ---- roles ---- */

static trm_status too_few_axes(const scan *q, const char *what, int64_t axis) {
    char dims[128];
    return trm_fail(
        TRM_DATA, "%s: '%s' is %s: it has no dimension %lld for %s (data.axis)", trm_h5_path(q->f), q->name,
        trm_dims_text(q->field.facts.dim, q->field.own_rank, 0, dims, sizeof dims), (long long)axis, what);
}

static trm_status role_rows(scan *q) {
    int64_t axis = q->side->spec->view.axis;
    int rank = q->field.own_rank;
    if (rank == 0)
        return trm_fail(TRM_DATA, "%s: '%s' is one number, rows of samples are expected", trm_h5_path(q->f),
                        q->name);
    if (axis < 0) axis = rank - 1;
    /* Labels may have fewer dimensions: theirs is the last. */
    if (axis >= rank && rank > 1 && !q->side->target) return too_few_axes(q, "samples", axis);
    if (axis >= rank) axis = rank - 1;
    q->s->axis[axis].role = TRM_AXIS_SAMPLE;
    q->samples = q->field.facts.dim[axis];
    return TRM_OK;
}

static trm_status role_window(scan *q) {
    const trm_data_view *w = &q->side->spec->view;
    int64_t axis = w->axis < 0 ? q->field.own_rank - 1 : w->axis;
    const int64_t *dim = q->field.facts.dim;
    if (axis > 1)
        return trm_fail(TRM_DATA, "data.axis is %lld; windows need time as the first or second dimension",
                        (long long)axis);
    if (axis >= q->field.own_rank) return too_few_axes(q, "time", axis);
    q->s->axis[axis].role = TRM_AXIS_TIME;
    q->s->shift = q->side->target ? w->in_steps : 0;
    q->s->steps = q->side->target ? w->out_steps : w->in_steps;
    int64_t all = w->in_steps + w->out_steps;
    if (dim[axis] < all) {
        trm_status s = trm_fail(
            TRM_DATA, "%s: '%s' has %lld steps of time, a window has %lld (in_steps %lld, out_steps %lld)",
            trm_h5_path(q->f), q->name, (long long)dim[axis], (long long)all, (long long)w->in_steps,
            (long long)w->out_steps);
        if (axis == 0 && q->field.own_rank > 1 && dim[1] >= all)
            trm_hint("`data.axis: 1` where the first dimension counts trajectories and the second is time");
        return s;
    }
    q->unit->each = dim[axis] - all + 1;
    q->samples = q->unit->each * (axis == 1 ? dim[0] : 1);
    if (axis == 1) q->s->axis[0].role = TRM_AXIS_SAMPLE;
    return TRM_OK;
}

static trm_status role_tile(scan *q) {
    const trm_data_spec *spec = q->side->spec;
    const trm_shape *tile = &spec->view.tile;
    int rank = q->field.own_rank, from = spec->hwc ? 0 : rank - tile->rank;
    char dims[128], text[80];
    const int64_t *dim = q->field.facts.dim;
    struct trm_view *v = q->side->v;
    q->samples = 1;
    if (rank < tile->rank || rank > tile->rank + 1)
        return trm_fail(TRM_DATA,
                        "%s: '%s' is %s: tiles %s need its dimensions of space, and one of channels at most",
                        trm_h5_path(q->f), q->name, trm_dims_text(dim, rank, 0, dims, sizeof dims),
                        trm_shape_text(tile, text, sizeof text));
    v->n_grid = tile->rank;
    for (int i = 0; i < tile->rank; i++) {
        if (dim[from + i] % tile->dim[i] != 0)
            return trm_fail(TRM_DATA, "%s: '%s' is %s: it is no multiple of the tiles %s in dimension %d",
                            trm_h5_path(q->f), q->name, trm_dims_text(dim, rank, 0, dims, sizeof dims),
                            trm_shape_text(tile, text, sizeof text), from + i);
        q->s->axis[from + i].tile = tile->dim[i];
        v->grid[i] = dim[from + i] / tile->dim[i];
        q->samples *= v->grid[i];
    }
    return TRM_OK;
}

/* Sequences behind each other; a target may also have one row for each of them. */
static trm_status role_ragged(scan *q, int64_t n, int64_t sum) {
    int64_t rows = q->field.own_rank > 0 ? q->field.facts.dim[0] : 0;
    q->samples = n;
    if (rows == sum) {
        q->s->axis[0].role = TRM_AXIS_LENGTH;
    } else if (rows == n) {
        q->s->axis[0].role = TRM_AXIS_SAMPLE;
    } else {
        return trm_fail(TRM_DATA, "%s: '%s' has %lld rows; the %lld lengths of '%s' add up to %lld",
                        trm_h5_path(q->f), q->name, (long long)rows, (long long)n,
                        q->side->spec->view.lengths, (long long)sum);
    }
    return TRM_OK;
}

/* ---- agreement with the first unit ---- */

static trm_status other_shape(const scan *q) {
    char a[128], b[128];
    int64_t dim[TRM_VIEW_AXES];
    for (int i = 0; i < q->s->rank; i++) dim[i] = q->s->axis[i].extent;
    trm_status s = trm_fail(TRM_DATA, "%s: '%s' is %s but the first one was %s", trm_h5_path(q->f), q->name,
                            trm_dims_text(q->field.facts.dim, q->field.facts.rank, 0, a, sizeof a),
                            trm_dims_text(dim, q->s->rank, 0, b, sizeof b));
    if (q->s->rank == q->field.facts.rank) trm_hint("`data.pad: max` fills the smaller ones up with zeros");
    return s;
}

static trm_status extents(scan *q, bool first) {
    const trm_h5_facts *x = &q->field.facts;
    int64_t pad = q->side->spec->view.pad;
    if (first) {
        q->s->rank = x->rank;
        q->s->own_rank = q->field.own_rank;
        for (int i = 0; i < x->rank; i++) q->s->axis[i].extent = x->dim[i];
        return TRM_OK;
    }
    if (q->s->rank != x->rank || q->s->own_rank != q->field.own_rank) return other_shape(q);
    for (int i = 0; i < x->rank; i++) {
        trm_view_axis *a = &q->s->axis[i];
        if (a->role != TRM_AXIS_PIECE || a->extent == x->dim[i]) continue;
        if (pad == 0 || a->tile > 0 || i >= q->field.own_rank) return other_shape(q);
        if (pad > 0 && x->dim[i] > pad)
            return trm_fail(TRM_DATA, "%s: '%s' is %lld long, data.pad is %lld", trm_h5_path(q->f), q->name,
                            (long long)x->dim[i], (long long)pad);
        a->varies = q->side->v->pads = true;
        a->extent = trm_max64(a->extent, x->dim[i]);
    }
    return TRM_OK;
}

static trm_status same_type(scan *q, int i) {
    trm_view_side *x = q->side;
    trm_dtype t = q->field.facts.type;
    if (q->s->form == TRM_FORM_COMPLEX || q->s->form == TRM_FORM_MAGNITUDE)
        t = q->field.facts.type_bytes > 8 ? TRM_F64 : TRM_F32;
    if (q->s->form == TRM_FORM_BF16) t = TRM_F32;
    if (!x->checked) {
        x->type[i] = t;
        x->n_types = i + 1;
        if (i == 0) x->first = q->field.facts;
        return TRM_OK;
    }
    if (x->type[i] == t) return TRM_OK;
    return trm_fail(TRM_DATA, "%s: '%s' is %s but the first file has %s", trm_h5_path(q->f), q->name,
                    trm_dtype_name(t), trm_dtype_name(x->type[i]));
}

/* ---- lengths ---- */

static trm_status add_lengths(trm_view_side *x, const int64_t *length, int64_t n) {
    struct trm_view *v = x->v;
    size_t had = (size_t)v->n_lengths, all = had + (size_t)n;
    int64_t *row = trm_realloc(v->row, had * sizeof *row, all * sizeof *row, "lengths");
    if (row) v->row = row;
    int64_t *more = row ? trm_realloc(v->length, had * sizeof *more, all * sizeof *more, "lengths") : NULL;
    if (!more) return TRM_MEMORY;
    v->length = more;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        v->row[had + (size_t)i] = at;
        v->length[had + (size_t)i] = length[i];
        at += length[i];
    }
    v->n_lengths = (int64_t)all;
    return TRM_OK;
}

static trm_status read_lengths(trm_view_side *x, trm_h5 *f, const trm_view_unit *u, int64_t **out, int64_t *n,
                               int64_t *sum) {
    trm_view_source s = {.path = (char *)x->spec->view.lengths};
    trm_h5_facts facts;
    char name[512], *found = NULL;
    trm_view_set_name(&s, u, name, sizeof name);
    TRM_TRY(trm_judge_find(f, "lengths", name, NULL, NULL, &found, &facts));
    trm_free(found);
    if (facts.rank != 1 || trm_dtype_is_float(facts.type))
        return trm_fail(TRM_DATA, "%s: '%s' is no list of lengths: whole numbers of one dimension expected",
                        trm_h5_path(f), name);
    *n = facts.dim[0];
    *out = trm_alloc_array((size_t)*n, sizeof **out, "lengths");
    if (!*out) return TRM_MEMORY;
    TRM_TRY(trm_h5_rows_as(f, name, TRM_I64, 0, *n, *out));
    *sum = 0;
    for (int64_t i = 0; i < *n; i++)
        if ((*out)[i] < 0 || (*out)[i] > INT32_MAX || __builtin_add_overflow(*sum, (*out)[i], sum))
            return trm_fail(TRM_DATA, "%s: '%s'[%lld] is %lld, a length expected", trm_h5_path(f), name,
                            (long long)i, (long long)(*out)[i]);
    return TRM_OK;
}

/* ---- units ---- */

static trm_status settle_roles(scan *q, int64_t n, int64_t sum) {
    if (q->s->whole) return TRM_OK;
    switch (q->side->spec->view.sample) {
    case TRM_SAMPLE_ROWS:
    case TRM_SAMPLE_BYTES: return role_rows(q);
    case TRM_SAMPLE_WINDOW: return role_window(q);
    case TRM_SAMPLE_TILE: return role_tile(q);
    case TRM_SAMPLE_RAGGED: return role_ragged(q, n, sum);
    default: q->samples = 1; return TRM_OK;
    }
}

static trm_status scan_split(scan *q) {
    int64_t first, count, rows = q->samples;
    const char *split = q->side->spec->view.split;
    TRM_TRY(trm_h5_fuel_split(q->f, split, q->name, &first, &count));
    if (count > rows || first > rows - count)
        return trm_fail(TRM_DATA, "%s: split '%s' of '%s' is rows %lld to %lld, there are %lld",
                        trm_h5_path(q->f), split, q->name, (long long)first, (long long)(first + count - 1),
                        (long long)rows);
    if (q->unit->samples > 0 && q->unit->first != first)
        return trm_fail(TRM_DATA, "%s: split '%s' of '%s' begins at row %lld, of another data set at %lld",
                        trm_h5_path(q->f), split, q->name, (long long)first, (long long)q->unit->first);
    q->unit->first = first;
    q->samples = count;
    return TRM_OK;
}

static trm_status scan_source(scan *q, int i, int64_t n, int64_t sum) {
    trm_view_side *x = q->side;
    bool first = !x->checked;
    TRM_TRY(look_up(q));
    if (q->s->kind == TRM_SOURCE_CSR) {
        TRM_TRY(scan_csr(q));
    } else if (x->spec->view.sample == TRM_SAMPLE_BYTES && q->field.facts.cls == TRM_H5_VLEN) {
        TRM_TRY(scan_bytes(q));
        if (q->s->kind == TRM_SOURCE_VLEN) TRM_TRY(longest(q));
    } else {
        if (x->spec->view.sample == TRM_SAMPLE_BYTES && !x->target && !q->s->whole)
            return need(q, "does not hold values of variable length", "leave out `data.sample: bytes`");
        TRM_TRY(settle_form(q));
        TRM_TRY(extents(q, first));
        TRM_TRY(settle_roles(q, n, sum));
    }
    TRM_TRY(same_type(q, i));
    if (q->s->whole && q->s->kind == TRM_SOURCE_BOX) return TRM_OK;
    if (x->spec->view.split) TRM_TRY(scan_split(q));
    if (q->unit->samples == 0) {
        q->unit->samples = q->samples;
        return TRM_OK;
    }
    if (q->unit->samples == q->samples) return TRM_OK;
    trm_status s = trm_fail(TRM_DATA, "%s: '%s' has %lld samples, '%s' has %lld", trm_h5_path(q->f), q->name,
                            (long long)q->samples, x->v->source[0].path, (long long)q->unit->samples);
    trm_hint("`whole:%s` gives all of it to each sample", q->s->path);
    return s;
}

static trm_status scan_sources(trm_view_side *x, trm_view_unit *u, trm_h5 *own, int64_t n, int64_t sum) {
    for (int i = 0; i < x->v->n_sources; i++) {
        scan q = {.side = x, .unit = u, .s = &x->v->source[i], .f = own};
        trm_h5 *other = NULL;
        if (q.s->file >= 0) {
            TRM_TRY(trm_view_open_for(x, q.s, u, &other));
            q.f = other;
        }
        trm_status s = scan_source(&q, i, n, sum);
        (void)!trm_h5_end(other);
        TRM_TRY(s);
    }
    return TRM_OK;
}

static trm_status scan_unit(trm_view_side *x, int i, trm_h5 *f) {
    trm_view_unit *u = &x->v->unit[i];
    int64_t *length = NULL, n = 0, sum = 0;
    trm_status s = TRM_OK;
    if (x->spec->view.sample == TRM_SAMPLE_RAGGED) s = read_lengths(x, f, u, &length, &n, &sum);
    if (s == TRM_OK) s = scan_sources(x, u, f, n, sum);
    if (s == TRM_OK && length) s = add_lengths(x, length, n);
    trm_free(length);
    if (s != TRM_OK) return s;
    if (u->samples < 1 && x->given) u->samples = x->given->unit[i].samples;
    if (u->samples < 1)
        return trm_fail(TRM_DATA, "%s: only `whole:` data sets: nothing counts samples", trm_h5_path(f));
    x->checked = true;
    return TRM_OK;
}

trm_status trm_view_scan_units(trm_view_side *x) {
    trm_h5 *f = NULL;
    int open = -1;
    trm_status s = TRM_OK;
    for (int i = 0; i < x->v->n_units && s == TRM_OK; i++) {
        trm_view_unit *u = &x->v->unit[i];
        if (open != u->file) {
            (void)!trm_h5_end(f);
            f = NULL;
            open = u->file;
            s = trm_view_begin(x->d, open, &f);
        }
        if (s == TRM_OK) s = scan_unit(x, i, f);
    }
    (void)!trm_h5_end(f);
    return s;
}
