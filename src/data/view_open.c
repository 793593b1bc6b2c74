/* view_open: the paths of a job and what files hold -> columns that are views.
 *
 * Every unit (a file, or a group of one) is looked at once: its data sets have the shape and type of the first unit's,
 * and as many samples as each other. Where the job pads, shapes may differ, and the largest counts. */
#include "view_impl.h"
#include <string.h>

/* One column while it is built. */
typedef struct side {
    trm_dataset *d;
    const trm_data_spec *spec;
    bool target, same; /* same: the target of a window is what the input goes on as */
    struct trm_view *v;
    const struct trm_view *given; /* counts samples where no data set of this column does */
    trm_h5_facts first;           /* of the first data set */
    trm_dtype type[TRM_VIEW_AXES * 8];
    int n_types;
    bool checked; /* the first unit has been seen */
} side;

typedef struct scan {
    side *side;
    trm_view_unit *unit;
    trm_view_source *s;
    trm_h5 *f;
    char name[512];
    trm_h5_field field;
    int64_t samples;
} scan;

#define MOST_SOURCES (TRM_VIEW_AXES * 8)

static const char *key_of(const side *x) { return x->target ? "target" : "input"; }

/* ---- what a job asks for ---- */

static const char *const *paths_of(const trm_data_spec *spec, bool target, int *n) {
    const trm_data_view *w = &spec->view;
    *n = target ? w->n_target : w->n_input;
    if (*n > 0) return target ? w->target : w->input;
    const char *const *one = target ? &spec->target : &spec->input;
    *n = *one ? 1 : 0;
    return one;
}

const char *trm_spec_path(const trm_data_spec *spec, bool target) {
    int n;
    const char *const *p = paths_of(spec, target, &n);
    return n > 0 ? p[0] : NULL;
}

static bool is_marked(const char *path) {
    return strpbrk(path, "#[") || strncmp(path, "csr:", 4) == 0 || strncmp(path, "whole:", 6) == 0;
}

/* A dot may belong to the name of a data set: the first file tells. */
static trm_status has_member(const trm_data_spec *spec, const char *path, bool *out) {
    trm_paths files = {0};
    trm_h5 *f = NULL;
    trm_h5_found found = {0};
    const char *slash = strrchr(path, '/');
    *out = false;
    if (!strchr(slash ? slash : path, '.')) return TRM_OK;
    TRM_TRY(trm_paths_expand(spec->files, spec->n_files, &files));
    trm_status s = trm_h5_begin(files.at[0].path, false, &f);
    if (s == TRM_OK) s = trm_h5_look(f, path, &found);
    (void)!trm_h5_end(f);
    trm_paths_free(&files);
    *out = found.kind == TRM_H5_MISSING;
    return s;
}

static trm_status wants_paths(const trm_data_spec *spec, bool target, bool *out) {
    int n;
    const char *const *path = paths_of(spec, target, &n);
    *out = n > 1;
    for (int i = 0; i < n && !*out; i++) *out = is_marked(path[i]);
    return n == 1 && !*out ? has_member(spec, path[0], out) : TRM_OK;
}

static bool names_lbann(const trm_data_spec *spec) {
    for (int i = 0; i < spec->n_files; i++)
        if (strncmp(spec->files[i], "lbann:", 6) == 0) return true;
    return false;
}

/* Keys that ask for more than rows. */
static bool wants_more(const trm_data_spec *spec) {
    const trm_data_view *w = &spec->view;
    return w->sample != TRM_SAMPLE_ROWS || w->groups || w->group_list || w->split || w->axis != 0 ||
           w->lengths || w->pad || w->mask || w->complex != TRM_COMPLEX_REFUSE || w->decode || w->bf16 ||
           w->allow_virtual || w->tile.rank > 0 || (spec->hwc && spec->shape.rank == 2) || names_lbann(spec);
}

/* Opens no file: a dot is then part of a name. */
trm_status trm_view_refuse(const trm_data_spec *spec) {
    bool more = wants_more(spec);
    for (int target = 0; target < 2 && !more; target++) {
        int n;
        const char *const *path = paths_of(spec, target, &n);
        more = n > 1 || (n == 1 && is_marked(path[0]));
    }
    if (!more) return TRM_OK;
    trm_status s =
        trm_fail(TRM_DATA, "data.untrusted is for rows of one data set: samples that are put together "
                           "are read by the HDF5 library");
    trm_hint("`trireme data dump` writes plain rows, on a machine that has nothing to lose");
    return s;
}

trm_status trm_view_wanted(const trm_data_spec *spec, bool *x, bool *y) {
    *y = false;
    *x = wants_more(spec);
    if (!*x) TRM_TRY(wants_paths(spec, false, x));
    if (!spec->no_target) TRM_TRY(wants_paths(spec, true, y));
    *y = *y || *x;
    if (!*y || spec->window <= 0) return TRM_OK;
    trm_status s = trm_fail(
        TRM_DATA, "data.window is for tokens in rows of one data set; the other keys of data ask for "
                  "samples that are put together");
    trm_hint("windows of time are `data.sample: window` with `in_steps` and `out_steps`");
    return s;
}

/* ---- sources from paths ---- */

static trm_status add_source(struct trm_view *v, trm_view_source **out) {
    if (v->n_sources == MOST_SOURCES)
        return trm_fail(TRM_DATA, "more than %d paths are joined", MOST_SOURCES);
    if (!v->source) v->source = trm_alloc_array(MOST_SOURCES, sizeof *v->source, "paths");
    if (!v->source) return TRM_MEMORY;
    *out = &v->source[v->n_sources++];
    (*out)->file = -1;
    return TRM_OK;
}

/* The file that a source's first data set lies in. */
static trm_status open_for(side *x, const trm_view_source *s, const trm_view_unit *u, trm_h5 **out) {
    return trm_view_begin(x->d, s->file >= 0 ? s->file : u->file, out);
}

/* Tells a member from a dot in the name. */
static trm_status settle_member(trm_h5 *f, const trm_view_unit *u, trm_view_source *s) {
    char name[512];
    trm_h5_found found;
    trm_view_set_name(s, u, name, sizeof name);
    TRM_TRY(trm_h5_look(f, name, &found));
    if (found.kind != TRM_H5_MISSING) return TRM_OK;
    char *slash = strrchr(s->path, '/'), *dot = strchr(slash ? slash : s->path, '.');
    if (!dot || dot[1] == '\0') return TRM_OK;
    *dot = '\0';
    trm_view_set_name(s, u, name, sizeof name);
    TRM_TRY(trm_h5_look(f, name, &found));
    if (found.kind == TRM_H5_DATASET) {
        s->member = trm_strdup(dot + 1);
        return s->member ? TRM_OK : TRM_MEMORY;
    }
    *dot = '.';
    return TRM_OK;
}

static trm_status no_member(trm_h5 *f, const char *name, const char *member, const char *key) {
    char **names = NULL;
    trm_str list = {0};
    TRM_TRY(trm_h5_members(f, name, &names));
    const char *near = trm_nearest(member ? member : "", (const char *const *)names);
    for (int i = 0; names[i] && i < 12; i++) trm_str_add(&list, "%s%s", i ? ", " : "", names[i]);
    trm_status s = member ? trm_fail(TRM_DATA, "%s: '%s' has no member '%s'; its members are: %s",
                                     trm_h5_path(f), name, member, trm_str_get(&list))
                          : trm_fail(TRM_DATA, "%s: '%s' is made of the members %s; one has to be named",
                                     trm_h5_path(f), name, trm_str_get(&list));
    if (names[0]) trm_hint("`data.%s: /%s.%s`", key, name, near ? near : names[0]);
    trm_str_free(&list);
    trm_free(names);
    return s;
}

static bool has_name(char *const *names, const char *name) {
    for (; *names; names++)
        if (strcmp(*names, name) == 0) return true;
    return false;
}

static trm_status check_member(trm_h5 *f, const char *name, const char *member, const char *key) {
    char **names = NULL;
    TRM_TRY(trm_h5_members(f, name, &names));
    bool there = has_name(names, member);
    trm_free(names);
    return there ? TRM_OK : no_member(f, name, member, key);
}

/* Where no path is given, the first of the common names that the first unit has. */
static trm_status common_path(side *x, trm_h5 *f, const trm_view_unit *u, trm_view_source *s) {
    const char *const *name = x->target && !x->same ? trm_target_names : trm_input_names;
    char full[512];
    trm_h5_found found;
    s->path = trm_strdup(name[0]);
    for (int i = 0; name[i] && s->path; i++) {
        snprintf(full, sizeof full, "%s%s%s", u->group, u->group[0] ? "/" : "", name[i]);
        TRM_TRY(trm_h5_look(f, full, &found));
        if (found.kind != TRM_H5_DATASET) continue;
        trm_free(s->path);
        s->path = trm_strdup(name[i]);
        break;
    }
    return s->path ? TRM_OK : TRM_MEMORY;
}

static trm_status source_of(side *x, const trm_view_path *p, trm_view_source *s) {
    const trm_data_view *w = &x->spec->view;
    s->whole = p->whole || (x->target && w->sample == TRM_SAMPLE_TILE);
    if (p->csr) s->kind = TRM_SOURCE_CSR;
    if (p->file) TRM_TRY(trm_view_file(x->d, x->spec, p->file, &s->file));
    if (p->file && !s->whole && x->v->n_units > 1) {
        trm_status r =
            trm_fail(TRM_DATA, "data.%s: %s#%s is one file, but samples come from %d files or groups",
                     key_of(x), p->file, p->set, x->v->n_units);
        trm_hint("a file is named in a path where `data.train` names one file too; `whole:%s#%s` gives all "
                 "of it to each "
                 "sample",
                 p->file, p->set);
        return r;
    }
    s->path = trm_strdup(p->set);
    return s->path ? TRM_OK : TRM_MEMORY;
}

static trm_status make_source(side *x, const char *path, trm_str *columns) {
    trm_view_path p;
    trm_view_source *s;
    trm_h5 *f = NULL;
    const trm_view_unit *u = &x->v->unit[0];
    TRM_TRY(add_source(x->v, &s));
    trm_status r = trm_view_path_read(path ? path : "", &p);
    if (r == TRM_OK) r = source_of(x, &p, s);
    if (r == TRM_OK) r = open_for(x, s, u, &f);
    if (r == TRM_OK && s->path[0] == '\0') {
        trm_free(s->path);
        s->path = NULL;
        r = common_path(x, f, u, s);
    } else if (r == TRM_OK && s->kind == TRM_SOURCE_BOX) {
        r = settle_member(f, u, s);
    }
    (void)!trm_h5_end(f);
    trm_str_add(columns, "%s", r == TRM_OK && p.columns ? p.columns : "");
    trm_str_addn(columns, "", 1);
    trm_view_path_free(&p);
    return r == TRM_OK && columns->failed ? TRM_MEMORY : r;
}

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
    if (x->cls == TRM_H5_COMPOUND) return no_member(q->f, q->name, NULL, key_of(q->side));
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
    side *x = q->side;
    trm_view_set_name(q->s, q->unit, q->name, sizeof q->name);
    if (q->s->kind == TRM_SOURCE_CSR) return TRM_OK;
    if (trm_h5_allowed(q->f) & TRM_ALLOW_LINKS) TRM_TRY(follow_inside(q));
    TRM_TRY(trm_judge_look(q->f, key_of(x), q->name, NULL, NULL, &found));
    snprintf(q->name, sizeof q->name, "%s", found);
    trm_free(found);
    if (q->s->member) TRM_TRY(check_member(q->f, q->name, q->s->member, key_of(x)));
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
    return trm_judge_set(q->f, name, key_of(q->side), out);
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
    side *x = q->side;
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

static trm_status add_lengths(side *x, const int64_t *length, int64_t n) {
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

static trm_status read_lengths(side *x, trm_h5 *f, const trm_view_unit *u, int64_t **out, int64_t *n,
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
    side *x = q->side;
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

static trm_status scan_sources(side *x, trm_view_unit *u, trm_h5 *own, int64_t n, int64_t sum) {
    for (int i = 0; i < x->v->n_sources; i++) {
        scan q = {.side = x, .unit = u, .s = &x->v->source[i], .f = own};
        trm_h5 *other = NULL;
        if (q.s->file >= 0) {
            TRM_TRY(open_for(x, q.s, u, &other));
            q.f = other;
        }
        trm_status s = scan_source(&q, i, n, sum);
        (void)!trm_h5_end(other);
        TRM_TRY(s);
    }
    return TRM_OK;
}

static trm_status scan_unit(side *x, int i, trm_h5 *f) {
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

static trm_status scan_units(side *x) {
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

/* ---- after all units ---- */

/* Columns choose along the channels: the last dimension with hwc, else the first one of a sample. */
static trm_status settle_columns(side *x, trm_view_source *s, const char *columns) {
    int axis = -1;
    if (!*columns) return TRM_OK;
    for (int i = 0; i < s->rank; i++)
        if (s->axis[i].role == TRM_AXIS_PIECE && (axis < 0 || x->spec->hwc)) axis = i;
    if (axis < 0 || s->kind != TRM_SOURCE_BOX)
        return trm_fail(TRM_DATA, "data.%s: '%s' has no columns for [%s]", key_of(x), s->path, columns);
    s->pick_axis = axis;
    return trm_view_columns(key_of(x), columns, s->axis[axis].extent, &s->pick, &s->n_pick);
}

static trm_status settle_lengths(side *x) {
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
static void settle_pad(side *x) {
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
static trm_dtype common_type(const side *x) {
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

static trm_status settle_fill(side *x) {
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

static trm_status add_mask(side *x) {
    trm_view_source *m;
    if (!x->spec->view.mask || x->target) return TRM_OK;
    if (x->v->source[0].kind != TRM_SOURCE_BOX || x->v->source[0].whole)
        return trm_fail(TRM_DATA, "data.mask needs a first input of numbers that are padded");
    TRM_TRY(add_source(x->v, &m));
    m->kind = TRM_SOURCE_MASK;
    m->rank = x->v->source[0].rank;
    m->own_rank = x->v->source[0].own_rank;
    m->steps = x->v->source[0].steps;
    m->path = trm_strdup("mask");
    return m->path ? TRM_OK : TRM_MEMORY;
}

static trm_status settle_stretch(side *x, trm_column *c, const trm_shape *shape) {
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
static trm_status ask_shape(const side *x, trm_shape *shape) {
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

static trm_status settle_side(side *x, const char *columns, trm_shape *shape) {
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
                          .key = key_of(x),
                          .path = x->d->file[v->unit[0].file].path};
    /* Only how many dimensions it has counts here: the target of a window has as many. */
    if (!x->target) form.shape = x->spec->shape;
    if (x->target && x->same) form.shape = x->spec->shape;
    if (x->target) form.tile.rank = 0;
    TRM_TRY(trm_view_shape(v, &form, shape));
    return ask_shape(x, shape);
}

/* ---- columns ---- */

static trm_status make_sources(side *x, trm_str *columns) {
    int n;
    const char *const *path = paths_of(x->spec, x->target && !x->same, &n);
    if (n == 0) return make_source(x, NULL, columns);
    for (int i = 0; i < n; i++) TRM_TRY(make_source(x, path[i], columns));
    return TRM_OK;
}

/* The view belongs to the column from the start: closing frees it. */
static trm_status build_side(side *x, trm_column *c, trm_shape *shape) {
    trm_str columns = {0};
    c->view = x->v;
    trm_status s = make_sources(x, &columns);
    if (s == TRM_OK) s = scan_units(x);
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
    side y = {
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
    side x = {.d = d, .spec = spec};
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
