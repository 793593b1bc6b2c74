/* open: a spec -> a checked data set.  Facts come from h5.c, sentences about one HDF5 data set from judge.c; here
 * input and target, file and file have to agree, and shapes become canonical. */
#include "data_impl.h"
#include <string.h>

#define SCAN_LIMIT (256 * TRM_MIB) /* floats that are not kept are still looked at up to here */
#define TOKEN_SCAN_LIMIT TRM_GIB
#define LABEL_LIMIT (64 * TRM_MIB) /* targets up to here are kept whatever the cache says */
#define MOST_FILES 1000000

const char *const trm_input_names[] = {"data", "x", "images", "tokens", NULL};
const char *const trm_target_names[] = {"label", "labels", "y", "targets", NULL};

/* ---- memory ---- */

static size_t column_bytes(const trm_column *c) {
    size_t n;
    return trm_mul_size((size_t)trm_rows(c), trm_row_bytes(c), &n) ? n : SIZE_MAX;
}

static bool compressed(const trm_column *c) {
    for (int i = 0; i < c->n_parts; i++)
        if (c->part[i].layout != TRM_LAY_CONTIGUOUS &&
            (c->part[i].n_filters > 0 || c->part[i].layout == TRM_LAY_LIBRARY))
            return true;
    return false;
}

/* All copies together take half of what is free at most, one a quarter. */
static size_t default_limit(int copies) {
    return trm_mem_available() / 2 / (size_t)(copies > 2 ? copies : 2);
}

static void decide_memory(trm_dataset *d, const trm_data_spec *spec) {
    bool share = spec->share && spec->cache != TRM_CACHE_RANK && spec->cache != TRM_CACHE_OFF;
    size_t limit = spec->cache_limit ? spec->cache_limit : default_limit(share ? 1 : spec->copies);
    size_t x = column_bytes(&d->x), y = d->has_y ? column_bytes(&d->y) : 0;
    d->must_keep = spec->cache != TRM_CACHE_AUTO && spec->cache != TRM_CACHE_OFF;
    d->keep_y =
        d->has_y && (y <= LABEL_LIMIT || d->must_keep || (spec->cache == TRM_CACHE_AUTO && y <= limit));
    d->keep_x = d->must_keep || (spec->cache == TRM_CACHE_AUTO && x <= limit && y <= limit - x);
    d->share = share && d->keep_x;
    d->budget = (spec->cache == TRM_CACHE_OFF || d->keep_x) && limit > LABEL_LIMIT ? LABEL_LIMIT : limit;
    char size[16], most[16];
    if (!d->keep_x && x > d->budget && compressed(&d->x) && !spec->no_target && !spec->by_blocks)
        trm_log(
            TRM_LOG_WARN,
            "'%s' is compressed and not kept in memory (%s, limit %s): reading it in random order is slow; "
            "`data.shuffle: window` is made for this",
            d->x.name, trm_human_bytes((double)x, size, sizeof size),
            trm_human_bytes((double)d->budget, most, sizeof most));
}

/* ---- shapes ---- */

static bool is_int(trm_dtype t) { return !trm_dtype_is_float(t); }

static trm_shape sample_shape(const trm_h5_facts *facts) {
    return trm_shape_from(facts->rank - 1, facts->dim + 1);
}

/* Equal where dims of 1 do not count. */
static bool same_but_ones(const trm_shape *a, const trm_shape *b) {
    int i = 0, j = 0;
    for (;;) {
        while (i < a->rank && a->dim[i] == 1) i++;
        while (j < b->rank && b->dim[j] == 1) j++;
        if (i == a->rank || j == b->rank) return i == a->rank && j == b->rank;
        if (a->dim[i++] != b->dim[j++]) return false;
    }
}

/* A sample with its channels last, seen with them first. */
static trm_shape channels_first(const trm_shape *last) {
    trm_shape s = {last->rank, {last->dim[last->rank - 1]}};
    for (int i = 1; i < last->rank; i++) s.dim[i] = last->dim[i - 1];
    return s;
}

static bool is_hwc_of(const trm_shape *hwc, const trm_shape *chw) {
    if (!trm_shape_channels_first(hwc)) return false;
    const trm_shape turned = channels_first(hwc);
    return trm_shape_equal(&turned, chw);
}

static void list_text(const trm_shape *s, char *buf, size_t cap) {
    size_t at = (size_t)snprintf(buf, cap, "[");
    for (int i = 0; i < s->rank && at < cap; i++)
        at += (size_t)snprintf(buf + at, cap - at, "%s%lld", i ? ", " : "", (long long)s->dim[i]);
    if (at < cap) snprintf(buf + at, cap - at, "]");
}

/* The sentence and the hint where samples are not of the shape that is wanted. */
static trm_status shape_fault(const char *path, const char *name, const trm_shape *have,
                              const trm_shape *want, const char *who) {
    char a[80], b[80], list[96];
    trm_shape_text(have, a, sizeof a);
    trm_shape_text(want, b, sizeof b);
    list_text(want, list, sizeof list);
    int64_t n = trm_shape_valid(want) ? trm_shape_count(want) : -1;
    if (is_hwc_of(have, want)) {
        trm_status s =
            trm_fail(TRM_DATA, "%s: '%s' samples are %s, %s %s: channels last?", path, name, a, who, b);
        trm_hint("`data.layout: hwc`");
        return s;
    }
    trm_status s = trm_fail(TRM_DATA, "%s: '%s' samples are %s, %s %s", path, name, a, who, b);
    if (trm_shape_count(have) == n && (have->rank == 1 || same_but_ones(have, want)))
        trm_hint("%lld elements both: `data.shape: %s` if that is meant", (long long)n, list);
    return s;
}

static trm_status settle_x_samples(trm_dataset *d, const trm_data_spec *spec, const char *path,
                                   const trm_h5_facts *facts) {
    trm_shape stored = sample_shape(facts), *x = &d->info.x;
    d->info.x_hwc = spec->hwc;
    if (spec->shape.rank > 0) {
        *x = spec->shape;
        bool flat = stored.rank == 1, equal = trm_shape_equal(&stored, x) || same_but_ones(&stored, x);
        if (!trm_shape_valid(x) || trm_shape_count(&stored) != trm_shape_count(x) ||
            !(flat || (spec->hwc ? is_hwc_of(&stored, x) : equal)))
            return shape_fault(path, d->x.name, &stored, x, "the job asks for");
        return TRM_OK;
    }
    *x = stored.rank == 0 ? trm_shape_of(1, 1) : stored;
    if (!spec->hwc) return TRM_OK;
    if (trm_shape_channels_first(&stored)) {
        *x = channels_first(&stored);
    } else if (stored.rank == 2) {
        *x = trm_shape_of(3, 1, stored.dim[0], stored.dim[1]);
    } else {
        char text[80];
        return trm_fail(TRM_DATA,
                        "%s: '%s' samples are %s: (H,W,C) asked for by `data.layout`; give `data.shape` too",
                        path, d->x.name, trm_shape_text(&stored, text, sizeof text));
    }
    return TRM_OK;
}

static trm_status settle_stream(trm_dataset *d, const trm_data_spec *spec, const char *path,
                                const trm_h5_facts *x) {
    char dims[128];
    d->info.x = d->info.y = trm_shape_of(1, spec->window);
    if (d->x.row_elems == 1) return TRM_OK;
    return trm_fail(TRM_DATA, "%s: '%s' is %s, a stream of tokens has one dimension", path, d->x.name,
                    trm_dims_text(x->dim, x->rank, 0, dims, sizeof dims));
}

static trm_status settle_rows(trm_dataset *d, const trm_data_spec *spec, const char *path,
                              const trm_h5_facts *x) {
    char dims[128];
    int64_t t = x->rank == 2 ? x->dim[1] - (d->has_y ? 0 : 1) : 0;
    /* Without targets the last token may be missing, or be there unread. */
    if (x->rank == 2 && spec->no_target && x->dim[1] == spec->window) t = spec->window;
    if (x->rank != 2 || t < 1)
        return trm_fail(TRM_DATA, "%s: '%s' is %s, rows of tokens are (N,T+1), or (N,T) with a target", path,
                        d->x.name, trm_dims_text(x->dim, x->rank, 0, dims, sizeof dims));
    if (spec->window > 0 && spec->window != t) {
        trm_status s = trm_fail(
            TRM_DATA, "%s: '%s' has rows of %lld tokens, enough for windows of %lld, but %lld are asked for",
            path, d->x.name, (long long)x->dim[1], (long long)t, (long long)spec->window);
        trm_hint("`data.window: %lld`", (long long)t);
        return s;
    }
    d->info.x = d->info.y = trm_shape_of(1, t);
    return TRM_OK;
}

static trm_status settle_x(trm_dataset *d, const trm_data_spec *spec, const char *path,
                           const trm_h5_facts *x) {
    trm_data_kind kind = spec->kind;
    if (kind == TRM_DATA_AUTO)
        kind = spec->window <= 0               ? TRM_DATA_SAMPLES
               : x->rank == 2 && x->dim[1] > 1 ? TRM_DATA_TOKEN_ROWS
                                               : TRM_DATA_TOKEN_STREAM;
    d->info.kind = kind;
    if (kind == TRM_DATA_SAMPLES) return settle_x_samples(d, spec, path, x);
    d->info.y_is_class = true;
    if (!is_int(x->type)) {
        trm_status s =
            trm_fail(TRM_DATA, "%s: '%s' is %s, tokens are integers", path, d->x.name, x->type_text);
        trm_hint("leave out `data.window` where these are no tokens");
        return s;
    }
    if (kind == TRM_DATA_TOKEN_ROWS) return settle_rows(d, spec, path, x);
    if (spec->window < 1)
        return trm_fail(TRM_DATA, "a stream of tokens needs `data.window`, the tokens of one sample");
    return settle_stream(d, spec, path, x);
}

/* ---- target ---- */

static trm_status no_class(const char *path, const char *name, const trm_h5_facts *y, const char *why) {
    char dims[128];
    trm_dims_text(y->dim, y->rank, 0, dims, sizeof dims);
    trm_status s = trm_fail(TRM_DATA, "%s: '%s' is %s %s: %s", path, name, y->type_text, dims, why);
    trm_hint("rows of zeros and a 1 are read with `data.target_type: onehot`, rows of scores with `argmax`, "
             "numbers to "
             "regress with `float`");
    return s;
}

/* A row of as many numbers as there are classes. */
static trm_status settle_row(trm_dataset *d, const trm_data_spec *spec, const char *path,
                             const trm_h5_facts *y, const trm_shape *shape) {
    int64_t n = trm_shape_count(shape);
    if (shape->rank != 1 || n < 2)
        return no_class(path, d->y.name, y, "rows of two numbers or more expected");
    if (spec->n_labels > 0) return TRM_OK;
    if (spec->classes > 0 && spec->classes != n)
        return trm_fail(TRM_DATA, "%s: '%s' has rows of %lld numbers, data.classes is %lld", path, d->y.name,
                        (long long)n, (long long)spec->classes);
    d->info.classes = n;
    return TRM_OK;
}

/* One class for each step of a sequence, or for each position in space. */
bool trm_is_class_map(const trm_shape *x, const trm_shape *y) {
    int from = y->rank > 1 && y->dim[0] == 1 ? 1 : 0;
    /* (T,F), or (C,L). */
    if (x->rank == 2) return y->rank - from == 1 && (y->dim[from] == x->dim[0] || y->dim[from] == x->dim[1]);
    if (x->rank < 3 || y->rank - from != x->rank - 1) return false;
    for (int i = 1; i < x->rank; i++)
        if (y->dim[from + i - 1] != x->dim[i]) return false;
    return true;
}

trm_status trm_settle_map(trm_dataset *d, const trm_shape *y) {
    d->info.y = *y;
    if (d->n_labels == 0) return TRM_OK;
    return trm_fail(TRM_DATA,
                    "%s: '%s' has a class for each position; data.label_map is for one class per sample",
                    d->file[0].path, d->y.name);
}

static trm_status settle_y(trm_dataset *d, const trm_data_spec *spec, const char *path,
                           const trm_h5_facts *y) {
    trm_shape shape = sample_shape(y);
    trm_data_info *info = &d->info;
    if (info->kind == TRM_DATA_TOKEN_ROWS) {
        if (trm_maps_target(d))
            return no_class(path, d->y.name, y, "tokens are neither rows of numbers nor mapped");
        if (!is_int(y->type) || !trm_shape_equal(&shape, &info->x))
            return no_class(path, d->y.name, y, "tokens of the input's shape expected");
        return TRM_OK;
    }
    if (spec->float_target) {
        info->y = shape.rank == 0 ? trm_shape_of(1, 1) : shape;
        return TRM_OK;
    }
    info->y_is_class = true;
    if (d->y_rows != TRM_TARGET_PLAIN) return settle_row(d, spec, path, y, &shape);
    if (trm_shape_count(&shape) == 1) return TRM_OK;
    if (is_int(y->type) && trm_is_class_map(&info->x, &shape)) return trm_settle_map(d, &shape);
    return no_class(path, d->y.name, y,
                    is_int(y->type) ? "one class number per sample expected"
                                    : "one-hot? one class number per sample expected");
}

/* What targets would be, as far as the job tells. */
static void settle_no_y(trm_dataset *d, const trm_data_spec *spec) {
    if (d->info.kind != TRM_DATA_SAMPLES) return;
    d->info.y_is_class = !spec->float_target;
    if (spec->float_target) d->info.y = trm_shape_of(1, 1);
}

/* ---- one file ---- */

static trm_dtype column_type(trm_dtype stored) {
    return stored == TRM_F16 || stored == TRM_BF16 ? TRM_F32 : stored;
}

static trm_status same_length(const char *path, const trm_dataset *d, const trm_h5_facts *x,
                              const trm_h5_facts *y) {
    char dims[128];
    if (x->dim[0] == y->dim[0]) return TRM_OK;
    if (x->rank > 1 && x->dim[x->rank - 1] == y->dim[0]) {
        trm_status s = trm_fail(TRM_DATA,
                                "%s: '%s' is %s: its first dimension %lld does not match the %lld of '%s' "
                                "(samples last, as MATLAB "
                                "and Fortran write?)",
                                path, d->x.name, trm_dims_text(x->dim, x->rank, 0, dims, sizeof dims),
                                (long long)x->dim[0], (long long)y->dim[0], d->y.name);
        trm_hint("convert the file: the dimension of samples comes first");
        return s;
    }
    return trm_fail(TRM_DATA, "%s: '%s' has %lld samples but '%s' has %lld", path, d->x.name,
                    (long long)x->dim[0], d->y.name, (long long)y->dim[0]);
}

/* Later files have to be like the first one. */
static trm_status agree(const trm_dataset *d, const trm_column *c, const char *path,
                        const trm_h5_facts *facts) {
    const trm_stretch *first = &c->part[0];
    const char *first_path = d->file[first->file].path;
    char a[128], b[128];
    bool same = facts->rank == first->rank;
    for (int i = 1; i < first->rank && same; i++) same = facts->dim[i] == first->dim[i];
    if (!same)
        return trm_fail(TRM_DATA, "%s: '%s' samples are %s but %s has %s", path, c->name,
                        trm_dims_text(facts->dim, facts->rank, 1, a, sizeof a), first_path,
                        trm_dims_text(first->dim, first->rank, 1, b, sizeof b));
    if (column_type(facts->type) != column_type(first->stored))
        return trm_fail(TRM_DATA, "%s: '%s' is %s but %s has %s", path, c->name, facts->type_text, first_path,
                        trm_dtype_name(first->stored));
    return TRM_OK;
}

/* Where a column of a file lies: in the file itself, or where links led. */
typedef struct origin {
    trm_h5 *f, *other; /* other: opened on the way, NULL where there was none */
    char *name;        /* NULL: the column's */
    trm_h5_facts facts;
} origin;

static trm_status grow(trm_column *c) {
    if (c->n_parts < c->cap_parts) return TRM_OK;
    int cap = c->cap_parts ? 2 * c->cap_parts : 8;
    void *more =
        trm_realloc(c->part, (size_t)c->n_parts * sizeof *c->part, (size_t)cap * sizeof *c->part, "a plan");
    if (!more) return TRM_MEMORY;
    c->part = more;
    c->cap_parts = cap;
    return TRM_OK;
}

static trm_status keep_file(trm_dataset *d, const trm_h5 *f) {
    trm_data_file *to = &d->file[d->n_files];
    to->path = trm_strdup(trm_h5_path(f));
    to->size = trm_h5_size(f);
    to->changed = trm_h5_probe(f)->changed;
    if (to->path) d->n_files++;
    return to->path ? TRM_OK : TRM_MEMORY;
}

/* The name goes over to the stretch. */
static trm_status add_stretch(trm_dataset *d, trm_column *c, origin *o, int file) {
    const char *path = trm_h5_path(o->f), *name = o->name ? o->name : c->name;
    TRM_TRY(grow(c));
    trm_stretch *p = &c->part[c->n_parts];
    if (d->strict) TRM_TRY(trm_guard_facts(path, name, &o->facts));
    if (o->other) {
        TRM_TRY(keep_file(d, o->other));
        file = d->n_files - 1;
    }
    trm_status s = trm_layout_stretch(o->f, name, &o->facts, file, p);
    if (s == TRM_OK && d->strict) s = trm_guard_layout(path, name, p);
    if (s != TRM_OK) {
        trm_stretch_free(p);
        return s;
    }
    p->name = o->name;
    o->name = NULL;
    c->n_parts++;
    return TRM_OK;
}

static void drop_origin(origin *o) {
    if (o->other) (void)!trm_h5_end(o->other);
    trm_free(o->name);
}

/* Finds the column in this file; its name is settled by the first file. */
static trm_status find_here(trm_column *c, trm_h5 *f, const char *key, const char *asked, const char *taken,
                            const char *const *common, origin *o) {
    char *name = NULL;
    o->f = f;
    TRM_TRY(trm_judge_find(f, key, c->name ? c->name : asked, taken, common, &name, &o->facts));
    trm_free(c->name);
    c->name = name;
    return TRM_OK;
}

static trm_status find_column(trm_column *c, trm_h5 *f, const char *key, const char *asked, const char *taken,
                              const char *const *common, origin *o) {
    char *led = NULL;
    if (!(trm_h5_allowed(f) & TRM_ALLOW_LINKS)) return find_here(c, f, key, asked, taken, common, o);
    const char *name = c->name ? c->name : asked ? asked : trm_judge_pick(f, common);
    if (!c->name && !(c->name = trm_strdup(name))) return TRM_MEMORY;
    TRM_TRY(trm_follow(f, name, &o->other, &led));
    o->f = o->other ? o->other : f;
    trm_status s = trm_judge_find(o->f, key, led, taken, common, &o->name, &o->facts);
    trm_free(led);
    return s;
}

static void settle_column(trm_column *c, const trm_h5_facts *facts) {
    c->type = column_type(facts->type);
    c->row_elems = 1;
    for (int i = 1; i < facts->rank; i++) c->row_elems *= facts->dim[i];
}

static bool wants_target(const trm_data_spec *spec) {
    if (spec->no_target) return false;
    if (spec->target) return true;
    return spec->kind == TRM_DATA_SAMPLES || (spec->kind == TRM_DATA_AUTO && spec->window <= 0);
}

static trm_status settle_columns(trm_dataset *d, const trm_data_spec *spec, const char *path,
                                 const trm_h5_facts *x, const trm_h5_facts *y) {
    if (d->has_y) TRM_TRY(same_length(path, d, x, y));
    if (d->x.n_parts > 0) {
        TRM_TRY(agree(d, &d->x, path, x));
        return d->has_y ? agree(d, &d->y, path, y) : TRM_OK;
    }
    settle_column(&d->x, x);
    TRM_TRY(settle_x(d, spec, path, x));
    if (d->has_y && d->info.kind == TRM_DATA_TOKEN_STREAM)
        return trm_fail(TRM_DATA, "a stream of tokens is its own target: leave out `data.target`");
    if (d->has_y) settle_column(&d->y, y);
    if (d->has_y) TRM_TRY(settle_y(d, spec, path, y));
    if (spec->no_target) settle_no_y(d, spec);
    return TRM_OK;
}

static trm_status add_columns(trm_dataset *d, const trm_data_spec *spec, trm_h5 *f, int file) {
    origin x = {0}, y = {0};
    d->has_y = wants_target(spec) && !d->view_y;
    d->info.no_target = spec->no_target;
    trm_status s = d->x.n_parts == 0 ? trm_target_spec(d, spec) : TRM_OK;
    if (s == TRM_OK) s = find_column(&d->x, f, "input", spec->input, NULL, trm_input_names, &x);
    if (s == TRM_OK && d->has_y)
        s = find_column(&d->y, f, "target", spec->target, d->x.name, trm_target_names, &y);
    if (s == TRM_OK) s = settle_columns(d, spec, trm_h5_path(f), &x.facts, &y.facts);
    if (s == TRM_OK) s = add_stretch(d, &d->x, &x, file);
    if (s == TRM_OK && d->has_y) s = add_stretch(d, &d->y, &y, file);
    drop_origin(&x);
    drop_origin(&y);
    return s;
}

static trm_status add_file(trm_dataset *d, const trm_data_spec *spec, const trm_path *path) {
    trm_h5 *f = NULL;
    if (d->strict) trm_guard_opening(d->report, path->path);
    trm_status s = trm_h5_begin(path->path, false, &f);
    if (s == TRM_OK) {
        trm_h5_allow(f, d->allow);
        s = keep_file(d, f);
        if (s == TRM_OK) s = add_columns(d, spec, f, d->n_files - 1);
        (void)!trm_h5_end(f);
    }
    return s != TRM_OK && path->origin ? trm_prefix(s, "%s", path->origin) : s;
}

static trm_status add_files(trm_dataset *d, const trm_data_spec *spec) {
    trm_paths paths = {0};
    TRM_TRY(trm_paths_expand(spec->files, spec->n_files, &paths));
    trm_status s = TRM_OK;
    if (paths.n > MOST_FILES)
        s = trm_fail(TRM_DATA, "%d data files: at most %d are read", paths.n, MOST_FILES);
    /* Links may lead each column to another file. */
    size_t most = (size_t)paths.n * (d->allow & TRM_ALLOW_LINKS ? 3 : 1);
    if (s == TRM_OK && !(d->file = trm_alloc_array(most, sizeof *d->file, "a list of files"))) s = TRM_MEMORY;
    for (int i = 0; i < paths.n && s == TRM_OK; i++) s = add_file(d, spec, &paths.at[i]);
    trm_paths_free(&paths);
    return s;
}

/* ---- rows that are used ---- */

static void cut_column(trm_column *c, int64_t first, int64_t count) {
    int kept = 0;
    for (int i = 0; i < c->n_parts; i++) {
        trm_stretch p = c->part[i];
        int64_t skip = trm_min64(first, p.rows), take = trm_min64(count, p.rows - skip);
        first -= skip;
        count -= take;
        p.first = skip;
        p.rows = take;
        if (take > 0)
            c->part[kept++] = p;
        else
            trm_stretch_free(&p);
    }
    c->n_parts = kept;
}

static trm_status cut_rows(trm_dataset *d, const trm_data_spec *spec) {
    int64_t rows = 0;
    for (int i = 0; i < d->x.n_parts; i++) rows += d->x.part[i].rows;
    int64_t count = spec->count ? spec->count : rows - spec->first;
    if (spec->first < 0 || count < 1 || spec->first >= rows || count > rows - spec->first)
        return trm_fail(TRM_DATA, "%s: rows %lld to %lld are asked for, there are %lld", d->file[0].path,
                        (long long)spec->first, (long long)(spec->first + count - 1), (long long)rows);
    cut_column(&d->x, spec->first, count);
    if (d->has_y) cut_column(&d->y, spec->first, count);
    return TRM_OK;
}

/* ---- values ---- */

/* Float labels are read as floats once, then as integers. */
static trm_status settle_float_labels(trm_dataset *d) {
    if (!d->has_y || !d->info.y_is_class || is_int(d->y.type) || d->y_rows != TRM_TARGET_PLAIN) return TRM_OK;
    TRM_TRY(trm_check_whole(d));
    d->y.type = TRM_I64;
    trm_reader_free(d);
    TRM_TRY(trm_reader_new(d));
    return trm_plan_index(d);
}

static trm_status check_values(trm_dataset *d) {
    bool tokens = d->info.kind != TRM_DATA_SAMPLES;
    size_t x = column_bytes(&d->x);
    TRM_TRY(settle_float_labels(d));
    d->check_x = !tokens && trm_dtype_is_float(d->x.type);
    trm_status s = trm_dataset_load(d);
    if (s != TRM_OK) return trm_count_bad(d, s);
    /* What is shared is checked when it is loaded. */
    if (d->check_x && !d->x.cache && !d->share && x <= SCAN_LIMIT) TRM_TRY(trm_check_x(d));
    if (tokens && (d->info.classes == 0 || d->x.cache || (!d->share && x <= TOKEN_SCAN_LIMIT)))
        TRM_TRY(trm_count_tokens(d));
    if (tokens) d->check_x = true;
    return trm_check_y(d);
}

static trm_status add_all(trm_dataset *d, const trm_data_spec *spec) {
    bool view_x;
    TRM_TRY(trm_view_wanted(spec, &view_x, &d->view_y));
    if (!view_x) TRM_TRY(add_files(d, spec));
    return d->view_y ? trm_view_open(d, spec, !view_x) : TRM_OK;
}

static trm_status build(trm_dataset *d, const trm_data_spec *spec) {
    d->ignores = spec->ignores;
    d->ignore = spec->ignore;
    TRM_TRY(add_all(d, spec));
    TRM_TRY(cut_rows(d, spec));
    if (d->info.classes == 0) d->info.classes = spec->classes;
    TRM_TRY(trm_plan_index(d));
    if (d->info.samples < 1)
        return trm_fail(TRM_DATA, "%s: '%s' has %lld tokens, too few for one window of %lld%s",
                        d->file[0].path, d->x.name, (long long)trm_rows(&d->x), (long long)d->info.x.dim[0],
                        spec->no_target ? "" : " and its target");
    TRM_TRY(trm_reader_new(d));
    decide_memory(d, spec);
    if (spec->on_bad == TRM_BAD_SKIP) TRM_TRY(trm_bad_find(d));
    TRM_TRY(check_values(d));
    TRM_TRY(trm_plan_check(d));
    return trm_count_bad(d, trm_fingerprint(d));
}

/* ---- the face ---- */

static trm_status open_here(const trm_data_spec *spec, bool strict, int report, trm_dataset **out) {
    trm_dataset *d = trm_alloc(sizeof *d, "a data set");
    if (!d) return TRM_MEMORY;
    d->strict = strict;
    d->report = report;
    d->allow = spec->allow;
    if (spec->allow & TRM_ALLOW_PLUGINS) trm_h5_allow_plugins();
    trm_status s = build(d, spec);
    if (s == TRM_OK)
        *out = d;
    else
        trm_dataset_close(d);
    return s;
}

trm_status trm_dataset_open_strictly(const trm_data_spec *spec, int report, trm_dataset **out) {
    return open_here(spec, true, report, out);
}

trm_status trm_dataset_open(const trm_data_spec *spec, trm_dataset **out) {
    if (!spec->untrusted) return open_here(spec, false, -1, out);
    TRM_TRY(trm_view_refuse(spec));
    TRM_TRY(trm_guard_open(spec, out));
    /* The child kept nothing. */
    decide_memory(*out, spec);
    return TRM_OK;
}

void trm_dataset_close(trm_dataset *d) {
    if (!d) return;
    trm_augment_free(d->augment);
    trm_reader_free(d);
    trm_column_free(&d->x);
    trm_column_free(&d->y);
    trm_free(d->label);
    trm_free(d->y_row);
    for (int i = 0; i < d->n_files; i++) trm_free(d->file[i].path);
    trm_free(d->file);
    trm_free(d->window_start);
    trm_spans_free(&d->bad);
    trm_free(d->gap);
    trm_free(d);
}

const trm_data_info *trm_dataset_info(const trm_dataset *d) {
    return d->augment ? trm_augment_info(d->augment) : &d->info;
}

const char *trm_dataset_file(const trm_dataset *d, int i) { return i < d->n_files ? d->file[i].path : NULL; }

trm_status trm_dataset_expect(const trm_dataset *d, const trm_shape *input) {
    const trm_shape *x = &trm_dataset_info(d)->x;
    if (trm_shape_equal(x, input)) return TRM_OK;
    return shape_fault(d->file[0].path, d->x.name, x, input, "the model expects");
}
