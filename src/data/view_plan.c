/* view_plan: a view as bytes, its rules, and what follows from them. */
#include "bytes.h"
#include "view_impl.h"
#include <string.h>

void trm_view_source_free(trm_view_source *s) {
    trm_free(s->path);
    trm_free(s->member);
    trm_free(s->pick);
}

void trm_view_free(struct trm_view *v) {
    if (!v) return;
    for (int i = 0; i < v->n_units; i++) trm_free(v->unit[i].group);
    for (int i = 0; i < v->n_sources; i++) trm_view_source_free(&v->source[i]);
    (void)!trm_h5_end(v->open);
    if (v->ready) pthread_mutex_destroy(&v->lock);
    trm_free(v->unit);
    trm_free(v->source);
    trm_free(v->row);
    trm_free(v->length);
    trm_free(v->start);
    trm_free(v->box);
    trm_free(v->extra);
    trm_picture_free(&v->picture);
    trm_picture_free(&v->fitted);
    trm_free(v);
}

trm_status trm_view_new(struct trm_view **out) {
    struct trm_view *v = trm_alloc(sizeof *v, "a view");
    if (!v) return TRM_MEMORY;
    v->open_file = -1;
    if (pthread_mutex_init(&v->lock, NULL) != 0) {
        trm_free(v);
        return trm_fail(TRM_MACHINE, "a lock cannot be made");
    }
    v->ready = true;
    *out = v;
    return TRM_OK;
}

trm_status trm_view_index(struct trm_view *v) {
    trm_free(v->start);
    v->start = trm_alloc_array((size_t)v->n_units + 1, sizeof *v->start, "an index of files");
    if (!v->start) return TRM_MEMORY;
    for (int i = 0; i < v->n_units; i++) v->start[i + 1] = v->start[i] + v->unit[i].samples;
    return TRM_OK;
}

int64_t trm_view_samples(const struct trm_view *v) { return v->start[v->n_units]; }

/* ---- rules: a box that is read into a sample stays inside of it ---- */

/* The last element that the source writes. */
static bool source_inside(const struct trm_view *v, const trm_view_source *s) {
    int64_t last = s->offset, step;
    if (s->rank < 0 || s->rank > TRM_VIEW_AXES || s->own_rank < 0 || s->own_rank > s->rank || s->offset < 0)
        return false;
    if (s->kind == TRM_SOURCE_PICTURE) {
        for (int i = 0; i < 3; i++)
            if (s->picture[i] < 1 || s->picture[i] > (int64_t)1 << 20) return false;
        return (s->picture[0] == 1 || s->picture[0] == 3) &&
               s->picture[0] * s->picture[1] * s->picture[2] == v->row_elems && v->type == TRM_U8;
    }
    if (s->kind == TRM_SOURCE_CSR || s->kind == TRM_SOURCE_VLEN)
        return s->width > 0 && s->width <= v->row_elems && s->offset <= v->row_elems - s->width;
    for (int i = 0; i < s->rank; i++) {
        const trm_view_axis *a = &s->axis[i];
        bool picks = s->n_pick > 0 && s->pick_axis == i;
        int64_t n = a->role == TRM_AXIS_TIME ? s->steps
                    : picks                  ? s->n_pick
                    : a->tile > 0            ? a->tile
                                             : a->extent;
        if (a->extent < 1 || a->stride < 0 || a->tile < 0 || a->tile > a->extent || n < 1) return false;
        if (a->role == TRM_AXIS_SAMPLE) continue;
        if (__builtin_mul_overflow(n - 1, a->stride, &step) || __builtin_add_overflow(last, step, &last))
            return false;
    }
    if (s->form == TRM_FORM_COMPLEX && (s->part < 1 || __builtin_add_overflow(last, s->part, &last)))
        return false;
    for (int k = 0; k < s->n_pick; k++)
        if (s->pick[k] < 0 || s->pick_axis >= s->rank || s->pick[k] >= s->axis[s->pick_axis].extent)
            return false;
    return last < v->row_elems && s->steps >= 0 && s->shift >= 0;
}

static bool lengths_hold(const struct trm_view *v) {
    int64_t most = -1;
    for (int i = 0; i < v->n_sources; i++)
        for (int k = 0; k < v->source[i].rank; k++)
            if (v->source[i].axis[k].role == TRM_AXIS_LENGTH)
                most = most < 0 ? v->source[i].axis[k].extent : trm_min64(most, v->source[i].axis[k].extent);
    if (most < 0) return v->n_lengths == 0;
    if (v->n_lengths != v->start[v->n_units]) return false;
    for (int64_t i = 0; i < v->n_lengths; i++)
        if (v->row[i] < 0 || v->length[i] < 0 || v->length[i] > most) return false;
    return true;
}

bool trm_view_holds(const struct trm_view *v, const trm_dataset *d) {
    if (v->n_units < 1 || v->n_sources < 1 || v->row_elems < 1 || v->n_grid < 0 || v->n_grid > TRM_VIEW_AXES)
        return false;
    if (v->fill != 0 && v->type != TRM_I64) return false;
    for (int i = 0; i < v->n_units; i++) {
        const trm_view_unit *u = &v->unit[i];
        if (u->file < 0 || u->file >= d->n_files || u->samples < 1 || u->first < 0 || u->each < 0 ||
            !u->group)
            return false;
        if (v->start[i + 1] < v->start[i]) return false;
    }
    for (int i = 0; i < v->n_grid; i++)
        if (v->grid[i] < 1) return false;
    for (int i = 0; i < v->n_sources; i++) {
        const trm_view_source *s = &v->source[i];
        if (!s->path || s->file < -1 || s->file >= d->n_files || !source_inside(v, s)) return false;
        if (s->kind == TRM_SOURCE_MASK && v->type != TRM_F32) return false;
        if (s->form == TRM_FORM_BF16 && v->type != TRM_F32) return false;
    }
    return v->source[0].kind != TRM_SOURCE_MASK && lengths_hold(v);
}

/* ---- to bytes ---- */

static void put_many(trm_str *s, const int64_t *v, int64_t n) {
    trm_put(s, n);
    if (n > 0) trm_str_addn(s, (const char *)v, (size_t)n * sizeof *v);
}

static void put_source(trm_str *s, const trm_view_source *x) {
    trm_put_text(s, x->path);
    trm_put_text(s, x->member);
    const int64_t word[] = {x->file,      x->kind,   x->form, x->whole, x->rank,  x->own_rank,
                            x->pick_axis, x->offset, x->part, x->shift, x->steps, x->width};
    put_many(s, word, sizeof word / sizeof *word);
    for (int i = 0; i < x->rank; i++) {
        const trm_view_axis *a = &x->axis[i];
        const int64_t one[] = {a->role, a->stride, a->extent, a->tile, a->varies};
        trm_str_addn(s, (const char *)one, sizeof one);
    }
    trm_str_addn(s, (const char *)x->picture, sizeof x->picture);
    put_many(s, x->pick, x->n_pick);
}

void trm_view_pack(const struct trm_view *v, trm_str *s) {
    const int64_t word[] = {v->row_elems, v->type, v->pads, v->fill, v->n_grid, v->n_units, v->n_sources};
    put_many(s, word, sizeof word / sizeof *word);
    trm_str_addn(s, (const char *)v->grid, sizeof v->grid);
    for (int i = 0; i < v->n_units; i++) {
        const int64_t one[] = {v->unit[i].file, v->unit[i].samples, v->unit[i].first, v->unit[i].each};
        trm_str_addn(s, (const char *)one, sizeof one);
        trm_put_text(s, v->unit[i].group);
    }
    for (int i = 0; i < v->n_sources; i++) put_source(s, &v->source[i]);
    put_many(s, v->row, v->n_lengths);
    put_many(s, v->length, v->n_lengths);
}

/* ---- from bytes ---- */

static void get_words(trm_cursor *c, int64_t *word, int64_t n) {
    if (trm_get(c) != n) c->bad = true;
    trm_get_bytes(c, word, (size_t)n * sizeof *word);
}

static int64_t *get_many(trm_cursor *c, int64_t *n) {
    *n = trm_get_count(c, sizeof(int64_t));
    int64_t *v = *n > 0 && !c->bad ? trm_alloc_array((size_t)*n, sizeof *v, "a plan") : NULL;
    if (*n > 0 && !v) c->bad = true;
    if (v) trm_get_bytes(c, v, (size_t)*n * sizeof *v);
    return v;
}

static int in_range(trm_cursor *c, int64_t v, int64_t most) {
    if (v >= 0 && v <= most) return (int)v;
    c->bad = true;
    return 0;
}

static void get_source(trm_cursor *c, trm_view_source *x) {
    int64_t word[12] = {0}, picks = 0;
    x->path = trm_get_text(c);
    x->member = trm_get_text(c);
    get_words(c, word, 12);
    x->file = in_range(c, word[0] + 1, INT32_MAX - 1) - 1;
    x->kind = (trm_source_kind)in_range(c, word[1], TRM_SOURCE_KINDS - 1);
    x->form = (trm_source_form)in_range(c, word[2], TRM_FORM_COUNT - 1);
    x->whole = word[3] != 0;
    x->rank = in_range(c, word[4], TRM_VIEW_AXES);
    x->own_rank = in_range(c, word[5], TRM_VIEW_AXES);
    x->pick_axis = in_range(c, word[6], TRM_VIEW_AXES - 1);
    x->offset = word[7];
    x->part = word[8];
    x->shift = word[9];
    x->steps = word[10];
    x->width = word[11];
    for (int i = 0; i < x->rank; i++) {
        int64_t one[5] = {0};
        trm_get_bytes(c, one, sizeof one);
        x->axis[i] = (trm_view_axis){(trm_axis_role)in_range(c, one[0], TRM_AXIS_ROLES - 1), one[1], one[2],
                                     one[3], one[4] != 0};
    }
    trm_get_bytes(c, x->picture, sizeof x->picture);
    x->pick = get_many(c, &picks);
    x->n_pick = in_range(c, picks, INT32_MAX);
}

static void get_units(trm_cursor *c, struct trm_view *v, int n) {
    v->unit = c->bad ? NULL : trm_alloc_array((size_t)n + 1, sizeof *v->unit, "a plan");
    if (!v->unit) c->bad = true;
    for (int i = 0; i < n && !c->bad; i++) {
        int64_t one[4] = {0};
        trm_get_bytes(c, one, sizeof one);
        v->unit[i] = (trm_view_unit){in_range(c, one[0], INT32_MAX), trm_get_text(c), one[1], one[2], one[3]};
        v->n_units = i + 1;
    }
}

static void get_view(trm_cursor *c, struct trm_view *v) {
    int64_t word[7] = {0}, again = 0;
    get_words(c, word, 7);
    v->row_elems = word[0];
    v->type = (trm_dtype)in_range(c, word[1], TRM_DTYPE_COUNT - 1);
    v->pads = word[2] != 0;
    v->fill = word[3];
    v->n_grid = in_range(c, word[4], TRM_VIEW_AXES);
    trm_get_bytes(c, v->grid, sizeof v->grid);
    get_units(c, v, in_range(c, word[5], (int64_t)(c->left / 32)));
    int n = in_range(c, word[6], (int64_t)(c->left / 32));
    v->source = c->bad ? NULL : trm_alloc_array((size_t)n + 1, sizeof *v->source, "a plan");
    if (!v->source) c->bad = true;
    for (int i = 0; i < n && !c->bad; i++) {
        get_source(c, &v->source[i]);
        v->n_sources = i + 1;
    }
    v->row = get_many(c, &v->n_lengths);
    v->length = get_many(c, &again);
    if (again != v->n_lengths) c->bad = true;
}

trm_status trm_view_unpack(const void *bytes, size_t n, struct trm_view **out) {
    trm_cursor c = {.p = bytes, .left = n};
    TRM_TRY(trm_view_new(out));
    get_view(&c, *out);
    if (c.bad || c.left > 0) return trm_fail(TRM_INTERNAL, "the plan of a data set came damaged");
    return trm_view_index(*out);
}
