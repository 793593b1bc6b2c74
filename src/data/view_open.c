/* view_open: the paths of a job and what files hold -> columns that are views.
 *
 * Every unit (a file, or a group of one) is looked at once: its data sets have the shape and type of the first unit's,
 * and as many samples as each other. Where the job pads, shapes may differ, and the largest counts. */
#include "view_open.h"
#include <string.h>

/* ---- after all units ---- */

/* Columns choose along the channels: the last dimension with hwc, else the first one of a sample. */
static trm_status settle_columns(trm_view_side *x, trm_view_source *s, const char *columns) {
    int axis = -1;
    if (!*columns) return TRM_OK;
    for (int i = 0; i < s->rank; i++)
        if (s->axis[i].role == TRM_AXIS_PIECE && (axis < 0 || x->spec->hwc)) axis = i;
    if (axis < 0 || s->kind != TRM_SOURCE_BOX)
        return trm_fail(TRM_DATA, "data.%s: '%s' has no columns for [%s]", trm_view_key(x), s->path, columns);
    s->pick_axis = axis;
    return trm_view_columns(trm_view_key(x), columns, s->axis[axis].extent, &s->pick, &s->n_pick);
}

static trm_status settle_lengths(trm_view_side *x) {
    struct trm_view *v = x->v;
    int64_t most = 1, pad = x->spec->view.pad;
    for (int64_t i = 0; i < v->n_lengths; i++) {
        if (v->length[i] != v->length[0] && pad == 0) {
            trm_status s = trm_fail(TRM_DATA, "the lengths of '%s' differ (%lld and %lld)",
                                    x->spec->view.lengths, (long long)v->length[0], (long long)v->length[i]);
            trm_hint("`data.pad: max` or `data.pad: N` fills shorter samples up");
            return s;
        }
        most = trm_max64(most, v->length[i]);
    }
    if (pad > 0 && most > pad) {
        trm_status s = trm_fail(TRM_DATA, "a sample of '%s' has %lld rows, data.pad is %lld",
                                x->spec->view.lengths, (long long)most, (long long)pad);
        trm_hint("`data.pad: %lld`", (long long)most);
        return s;
    }
    for (int i = 0; i < v->n_sources; i++) {
        if (v->source[i].rank == 0 || v->source[i].axis[0].role != TRM_AXIS_LENGTH) continue;
        v->source[i].axis[0].extent = pad > 0 ? pad : most;
        v->pads = true;
    }
    return TRM_OK;
}

/* Whatever differs between files is as long as it is said. */
static void settle_pad(trm_view_side *x) {
    int64_t pad = x->spec->view.pad;
    for (int i = 0; i < x->v->n_sources; i++) {
        trm_view_source *s = &x->v->source[i];
        for (int k = 0; k < s->rank; k++)
            if (s->axis[k].varies && pad > 0) s->axis[k].extent = pad;
        if (s->kind == TRM_SOURCE_VLEN && pad > 0) x->v->pads = true;
        if (s->kind == TRM_SOURCE_VLEN && pad > 0) s->width = pad;
        if (s->kind == TRM_SOURCE_CSR) x->v->pads = true;
    }
}

/* One type for all parts of a column. */
static trm_dtype common_type(const trm_view_side *x) {
    trm_dtype t = x->type[0];
    bool same = true, floats = false, wide = false;
    for (int i = 0; i < x->n_types; i++) {
        same = same && x->type[i] == t;
        floats = floats || trm_dtype_is_float(x->type[i]);
        wide = wide || x->type[i] == TRM_F64;
    }
    if (!same) t = wide ? TRM_F64 : floats ? TRM_F32 : TRM_I64;
    if (x->spec->view.mask && !x->target) return TRM_F32;
    return t == TRM_F16 || t == TRM_BF16 ? TRM_F32 : t;
}

static trm_status settle_fill(trm_view_side *x) {
    struct trm_view *v = x->v;
    bool classes = x->target && !x->spec->float_target;
    if (!classes || !v->pads || v->source[0].kind == TRM_SOURCE_CSR) return TRM_OK;
    if (!x->spec->ignores) {
        trm_status s = trm_fail(
            TRM_DATA, "classes of shorter samples have to be filled up with a class that does not count");
        trm_hint("`train.ignore_index: N` says which one, a number that is no class, such as %d", 255);
        return s;
    }
    v->fill = x->spec->ignore;
    v->type = TRM_I64;
    return TRM_OK;
}

static trm_status add_mask(trm_view_side *x) {
    trm_view_source *m;
    if (!x->spec->view.mask || x->target) return TRM_OK;
    if (x->v->source[0].kind != TRM_SOURCE_BOX || x->v->source[0].whole)
        return trm_fail(TRM_DATA, "data.mask needs a first input of numbers that are padded");
    TRM_TRY(trm_view_add_source(x->v, &m));
    m->kind = TRM_SOURCE_MASK;
    m->rank = x->v->source[0].rank;
    m->own_rank = x->v->source[0].own_rank;
    m->steps = x->v->source[0].steps;
    m->path = trm_strdup("mask");
    return m->path ? TRM_OK : TRM_MEMORY;
}

static trm_status settle_stretch(trm_view_side *x, trm_column *c, const trm_shape *shape) {
    struct trm_view *v = x->v;
    int64_t samples = trm_view_samples(v);
    c->part = trm_alloc_array(1, sizeof *c->part, "a plan");
    if (!c->part) return TRM_MEMORY;
    trm_stretch *p = &c->part[0];
    *p = (trm_stretch){.file = v->unit[0].file,
                       .layout = TRM_LAY_VIEW,
                       .stored = v->type,
                       .rank = shape->rank + 1,
                       .rows = samples};
    p->dim[0] = p->chunk[0] = samples;
    for (int i = 0; i < shape->rank; i++) p->dim[i + 1] = p->chunk[i + 1] = shape->dim[i];
    c->n_parts = c->cap_parts = 1;
    c->type = v->type;
    c->row_elems = v->row_elems;
    c->name = trm_strdup(v->source[0].path);
    c->view = v;
    return c->name ? TRM_OK : TRM_MEMORY;
}

/* The shape that the job asks for, where it holds as many elements. */
static trm_status ask_shape(const trm_view_side *x, trm_shape *shape) {
    const trm_shape *want = &x->spec->shape;
    char a[80], b[80];
    if (x->target || want->rank == 0 || trm_shape_equal(shape, want)) return TRM_OK;
    if (trm_shape_count(shape) == trm_shape_count(want) && (shape->rank == 1 || want->rank == 1)) {
        *shape = *want;
        return TRM_OK;
    }
    return trm_fail(TRM_DATA, "%s: '%s' samples are %s, the job asks for %s",
                    x->d->file[x->v->unit[0].file].path, x->v->source[0].path,
                    trm_shape_text(shape, a, sizeof a), trm_shape_text(want, b, sizeof b));
}

static trm_status settle_side(trm_view_side *x, const char *columns, trm_shape *shape) {
    struct trm_view *v = x->v;
    const trm_data_view *w = &x->spec->view;
    TRM_TRY(trm_view_index(v));
    for (int i = 0; i < v->n_sources; i++, columns += strlen(columns) + 1)
        TRM_TRY(settle_columns(x, &v->source[i], columns));
    TRM_TRY(settle_lengths(x));
    settle_pad(x);
    v->type = common_type(x);
    TRM_TRY(settle_fill(x));
    TRM_TRY(add_mask(x));
    trm_view_form form = {.join = w->join,
                          .hwc = x->spec->hwc,
                          .tile = w->tile,
                          .lengths = w->lengths != NULL,
                          .mask = w->mask && !x->target,
                          .is_class = x->target && !x->spec->float_target,
                          .key = trm_view_key(x),
                          .path = x->d->file[v->unit[0].file].path};
    /* Only how many dimensions it has counts here: the target of a window has as many. */
    if (!x->target) form.shape = x->spec->shape;
    if (x->target && x->same) form.shape = x->spec->shape;
    if (x->target) form.tile.rank = 0;
    TRM_TRY(trm_view_shape(v, &form, shape));
    return ask_shape(x, shape);
}

/* ---- columns ---- */

static trm_status make_sources(trm_view_side *x, trm_str *columns) {
    int n;
    const char *const *path = trm_view_paths(x->spec, x->target && !x->same, &n);
    if (n == 0) return trm_view_make_source(x, NULL, columns);
    for (int i = 0; i < n; i++) TRM_TRY(trm_view_make_source(x, path[i], columns));
    return TRM_OK;
}

/* The view belongs to the column from the start: closing frees it. */
static trm_status build_side(trm_view_side *x, trm_column *c, trm_shape *shape) {
    trm_str columns = {0};
    c->view = x->v;
    trm_status s = make_sources(x, &columns);
    if (s == TRM_OK) s = trm_view_scan_units(x);
    if (s == TRM_OK) s = settle_side(x, trm_str_get(&columns), shape);
    trm_str_free(&columns);
    return s == TRM_OK ? settle_stretch(x, c, shape) : s;
}

/* A second view over the same units, with nothing known of them. */
static trm_status copy_units(const struct trm_view *from, struct trm_view *to) {
    to->unit = trm_alloc_array((size_t)from->n_units, sizeof *to->unit, "a list of groups");
    if (!to->unit) return TRM_MEMORY;
    for (int i = 0; i < from->n_units; i++) {
        to->unit[i] = (trm_view_unit){.file = from->unit[i].file, .group = trm_strdup(from->unit[i].group)};
        if (!to->unit[i].group) return TRM_MEMORY;
        to->n_units = i + 1;
    }
    return TRM_OK;
}

/* A row of as many numbers as there are classes. */
static trm_status row_target(trm_dataset *d, const trm_data_spec *spec, const trm_shape *shape) {
    char a[80];
    int64_t n = trm_shape_count(shape);
    if (shape->rank != 1 || n < 2)
        return trm_fail(TRM_DATA, "%s: '%s' has targets of shape %s: rows of two numbers or more expected",
                        d->file[0].path, d->y.name, trm_shape_text(shape, a, sizeof a));
    if (spec->n_labels > 0) return TRM_OK;
    if (spec->classes > 0 && spec->classes != n)
        return trm_fail(TRM_DATA, "%s: '%s' has rows of %lld numbers, data.classes is %lld", d->file[0].path,
                        d->y.name, (long long)n, (long long)spec->classes);
    d->info.classes = n;
    return TRM_OK;
}

static trm_status class_target(trm_dataset *d, const trm_data_spec *spec, const trm_shape *shape) {
    char a[80];
    if (d->y_rows != TRM_TARGET_PLAIN) return row_target(d, spec, shape);
    if (trm_shape_count(shape) == 1) return TRM_OK;
    if (trm_is_class_map(&d->info.x, shape)) return trm_settle_map(d, shape);
    trm_status s =
        trm_fail(TRM_DATA,
                 "%s: '%s' has targets of shape %s: one class number per sample, or one per position, "
                 "expected",
                 d->file[0].path, d->y.name, trm_shape_text(shape, a, sizeof a));
    trm_hint("numbers to regress are read with `data.target_type: float`");
    return s;
}

static trm_status same_samples(const trm_dataset *d, int64_t x, int64_t y, const struct trm_view *v,
                               const struct trm_view *w) {
    for (int i = 0; v && i < v->n_units; i++) {
        if (v->unit[i].samples == w->unit[i].samples) continue;
        return trm_fail(TRM_DATA, "%s%s%s: '%s' has %lld samples, '%s' has %lld",
                        d->file[v->unit[i].file].path, v->unit[i].group[0] ? " group " : "", v->unit[i].group,
                        d->x.name, (long long)v->unit[i].samples, d->y.name, (long long)w->unit[i].samples);
    }
    if (x == y) return TRM_OK;
    return trm_fail(TRM_DATA, "%s: '%s' has %lld samples but '%s' has %lld", d->file[0].path, d->x.name,
                    (long long)x, d->y.name, (long long)y);
}

static trm_status open_target(trm_dataset *d, const trm_data_spec *spec, const struct trm_view *units) {
    bool timed = spec->view.sample == TRM_SAMPLE_WINDOW;
    trm_view_side y = {
        .d = d, .spec = spec, .target = true, .same = timed && !trm_spec_path(spec, true), .given = units};
    trm_shape shape;
    if (timed && y.same && !spec->float_target) {
        trm_status s =
            trm_fail(TRM_DATA, "the target of a window is what the input goes on as: numbers to regress");
        trm_hint("`data.target_type: float`, and `train.loss: mse`");
        return s;
    }
    TRM_TRY(trm_target_spec(d, spec));
    TRM_TRY(trm_view_new(&y.v));
    d->y.view = y.v;
    if (units)
        TRM_TRY(copy_units(units, y.v));
    else
        TRM_TRY(trm_view_units(d, spec, true, y.v));
    TRM_TRY(build_side(&y, &d->y, &shape));
    int64_t rows = 0;
    for (int i = 0; i < d->x.n_parts; i++) rows += d->x.part[i].rows;
    TRM_TRY(same_samples(d, rows, trm_view_samples(y.v), units, y.v));
    d->info.y_is_class = !spec->float_target;
    if (!spec->float_target) return class_target(d, spec, &shape);
    d->info.y = shape.rank == 0 ? trm_shape_of(1, 1) : shape;
    return TRM_OK;
}

static trm_status open_input(trm_dataset *d, const trm_data_spec *spec) {
    trm_view_side x = {.d = d, .spec = spec};
    trm_shape shape;
    TRM_TRY(trm_view_new(&x.v));
    d->x.view = x.v;
    TRM_TRY(trm_view_units(d, spec, false, x.v));
    TRM_TRY(build_side(&x, &d->x, &shape));
    d->info.kind = TRM_DATA_SAMPLES;
    d->info.x = shape.rank == 0 ? trm_shape_of(1, 1) : shape;
    d->info.no_target = spec->no_target;
    if (!spec->no_target) return TRM_OK;
    d->info.y_is_class = !spec->float_target;
    if (spec->float_target) d->info.y = trm_shape_of(1, 1);
    return TRM_OK;
}

/* Keys that only one way of taking samples understands. */
static trm_status check_keys(const trm_data_spec *spec) {
    const trm_data_view *w = &spec->view;
    if (w->sample == TRM_SAMPLE_WINDOW && (w->in_steps < 1 || w->out_steps < 1))
        return trm_fail(TRM_DATA, "data.sample is window: `data.in_steps` and `data.out_steps` are needed");
    if (w->sample == TRM_SAMPLE_TILE && w->tile.rank == 0)
        return trm_fail(TRM_DATA, "data.sample is tile: `data.tile` is needed, the size of one");
    if (w->sample == TRM_SAMPLE_RAGGED && !w->lengths)
        return trm_fail(TRM_DATA,
                        "data.sample is ragged: `data.lengths` is needed, the data set of the lengths");
    if (w->split && w->sample != TRM_SAMPLE_ROWS)
        return trm_fail(TRM_DATA, "a split names rows; here data.sample asks for something else");
    return TRM_OK;
}

trm_status trm_view_open(trm_dataset *d, const trm_data_spec *spec, bool x_plain) {
    TRM_TRY(check_keys(spec));
    if (!x_plain) TRM_TRY(open_input(d, spec));
    d->has_y = !spec->no_target;
    return d->has_y ? open_target(d, spec, x_plain ? NULL : d->x.view) : TRM_OK;
}
