/* view_read: samples of a view, box by box through the library.  One caller a time: a lock holds the others. */
#include "view_impl.h"
#include <math.h>
#include <string.h>

#define BOX_BYTES (16 * TRM_MIB)

/* ---- which sample, which file ---- */

int trm_view_unit_of(const struct trm_view *v, int64_t sample, int64_t *inside) {
    int low = 0, high = v->n_units;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (v->start[middle] <= sample)
            low = middle;
        else
            high = middle;
    }
    *inside = sample - v->start[low];
    return low;
}

void trm_view_set_name(const trm_view_source *s, const trm_view_unit *u, char *buf, size_t cap) {
    if (s->path[0] == '/' || u->group[0] == '\0')
        snprintf(buf, cap, "%s", s->path + (s->path[0] == '/'));
    else
        snprintf(buf, cap, "%s/%s", u->group, s->path);
}

static trm_status room(void **p, size_t *cap, size_t need) {
    if (*cap >= need) return TRM_OK;
    void *more = trm_realloc(*p, 0, need, "parts of samples");
    if (!more) return TRM_MEMORY;
    *p = more;
    *cap = need;
    return TRM_OK;
}

static trm_status file_of(const trm_dataset *d, struct trm_view *v, int file, trm_h5 **out) {
    if (v->open_file != file) {
        (void)!trm_h5_end(v->open);
        v->open = NULL;
        v->open_file = -1;
        TRM_TRY(trm_h5_begin(d->file[file].path, false, &v->open));
        const trm_data_file *was = &d->file[file];
        if (trm_h5_size(v->open) != was->size || trm_h5_probe(v->open)->changed != was->changed)
            return trm_fail(TRM_DATA, "%s: was written to or replaced since the run began", was->path);
        v->open_file = file;
    }
    *out = v->open;
    return TRM_OK;
}

/* ---- a box of one source for samples [first, first + n) of a unit ---- */

typedef struct box {
    int64_t start[TRM_VIEW_AXES], count[TRM_VIEW_AXES];
    int64_t elems;
    int sample_axis; /* of several samples in one box; -1 where each has a box of its own */
} box;

/* The part of a cut axis: which tile, for the k-th of the cut axes. */
static int64_t tile_at(const struct trm_view *v, int64_t sample, int k) {
    for (int i = v->n_grid - 1; i > k; i--) sample /= v->grid[i];
    return sample % v->grid[k];
}

static void piece_axis(const struct trm_view *v, const trm_view_source *s, int i, int64_t sample, int *cut,
                       box *b) {
    const trm_view_axis *a = &s->axis[i];
    if (a->tile > 0) {
        b->start[i] = tile_at(v, sample, (*cut)++) * a->tile;
        b->count[i] = a->tile;
    } else if (s->n_pick > 0 && s->pick_axis == i && i < s->own_rank) {
        int64_t low = s->pick[0], high = s->pick[0];
        for (int k = 1; k < s->n_pick; k++) {
            low = trm_min64(low, s->pick[k]);
            high = trm_max64(high, s->pick[k]);
        }
        b->start[i] = low;
        b->count[i] = high - low + 1;
    }
}

/* dim: of the file, where it may differ from the plan's. */
static box box_of(const struct trm_view *v, const trm_view_source *s, const trm_view_unit *u, int64_t global,
                  int64_t sample, int64_t n, const int64_t *dim) {
    box b = {.elems = 1, .sample_axis = -1};
    int cut = 0;
    for (int i = 0; i < s->rank; i++) {
        b.count[i] = i < s->own_rank && dim ? dim[i] : s->axis[i].extent;
        switch (s->axis[i].role) {
        case TRM_AXIS_SAMPLE:
            b.start[i] = u->each > 0 ? sample / u->each : u->first + sample;
            b.count[i] = u->each > 0 ? 1 : n;
            b.sample_axis = u->each > 0 ? -1 : i;
            break;
        case TRM_AXIS_TIME:
            b.start[i] = (u->each > 0 ? sample % u->each : sample) + s->shift;
            b.count[i] = s->steps;
            break;
        case TRM_AXIS_LENGTH:
            b.start[i] = v->row[global];
            b.count[i] = v->length[global];
            break;
        default: piece_axis(v, s, i, sample, &cut, &b);
        }
    }
    for (int i = 0; i < s->rank; i++) b.elems *= b.count[i];
    return b;
}

/* ---- putting the elements of a box to their places ---- */

typedef struct layer {
    int64_t count, to, from;
    const int64_t *pick; /* entries of the box, from `low` on; NULL: all in order */
    int64_t low;
} layer;

static void put_run(const layer *l, size_t item, const char *from, char *to) {
    if (!l->pick && l->from == 1 && l->to == 1) {
        memcpy(to, from, (size_t)l->count * item);
        return;
    }
    for (int64_t k = 0; k < l->count; k++) {
        int64_t at = l->pick ? l->pick[k] - l->low : k;
        memcpy(to + (size_t)(k * l->to) * item, from + (size_t)(at * l->from) * item, item);
    }
}

static void put(const layer *l, int n, size_t item, const char *from, char *to) {
    if (n == 1) {
        put_run(l, item, from, to);
        return;
    }
    for (int64_t k = 0; k < l->count; k++) {
        int64_t at = l->pick ? l->pick[k] - l->low : k;
        put(l + 1, n - 1, item, from + (size_t)(at * l->from) * item, to + (size_t)(k * l->to) * item);
    }
}

/* Each element is `pairs` numbers. */
static void place(const struct trm_view *v, const trm_view_source *s, const box *b, int pairs,
                  const char *from, char *to) {
    layer l[TRM_VIEW_AXES + 1];
    int n = s->rank;
    int64_t step = pairs;
    for (int i = s->rank - 1; i >= 0; i--) {
        bool pick = s->n_pick > 0 && s->pick_axis == i;
        l[i] = (layer){.count = pick ? s->n_pick : b->count[i],
                       .to = i == b->sample_axis ? v->row_elems : s->axis[i].stride,
                       .from = step,
                       .pick = pick ? s->pick : NULL,
                       .low = b->start[i]};
        if (s->axis[i].role == TRM_AXIS_SAMPLE && i != b->sample_axis) l[i].to = 0;
        step *= b->count[i];
    }
    if (pairs > 1 || n == 0) l[n++] = (layer){.count = pairs, .to = s->part, .from = 1};
    put(l, n, trm_dtype_size(v->type), from, to + (size_t)s->offset * trm_dtype_size(v->type));
}

/* ---- numbers of other kinds ---- */

static void to_magnitude(trm_dtype type, void *p, int64_t n) {
    float *f = p;
    double *g = p;
    for (int64_t i = 0; i < n && type == TRM_F32; i++) f[i] = hypotf(f[2 * i], f[2 * i + 1]);
    for (int64_t i = 0; i < n && type == TRM_F64; i++) g[i] = hypot(g[2 * i], g[2 * i + 1]);
}

/* 16 bits to 32 in place, from the end. */
static void widen_bf16(void *p, int64_t n) {
    for (int64_t i = n - 1; i >= 0; i--) {
        uint16_t half;
        memcpy(&half, (char *)p + 2 * i, 2);
        uint32_t word = (uint32_t)half << 16;
        memcpy((char *)p + 4 * i, &word, 4);
    }
}

static int numbers_of(const trm_view_source *s) {
    return s->form == TRM_FORM_COMPLEX || s->form == TRM_FORM_MAGNITUDE ? 2 : 1;
}

static trm_status read_box(struct trm_view *v, trm_h5 *f, const char *name, const trm_view_source *s,
                           const box *b) {
    size_t bytes;
    if (!trm_mul_size((size_t)b->elems * (size_t)numbers_of(s), trm_dtype_size(v->type), &bytes) ||
        bytes > TRM_GIB * 64)
        return trm_fail(TRM_DATA, "%s: '%s' has samples that are too large", trm_h5_path(f), name);
    TRM_TRY(room(&v->box, &v->box_cap, bytes));
    trm_box_form form = s->form == TRM_FORM_BF16 ? TRM_BOX_RAW16
                        : numbers_of(s) > 1      ? TRM_BOX_PAIRS
                                                 : TRM_BOX_NUMBERS;
    TRM_TRY(trm_h5_box(f, name, s->member, b->start, b->count, v->type, form, v->box));
    if (s->form == TRM_FORM_BF16) widen_bf16(v->box, b->elems);
    if (s->form == TRM_FORM_MAGNITUDE) to_magnitude(v->type, v->box, b->elems);
    return TRM_OK;
}

/* ---- sources ---- */

typedef struct request {
    const trm_dataset *d;
    struct trm_view *v;
    const trm_view_unit *u;
    int64_t global, sample, n; /* of the column; of the unit */
    char *to;
} request;

static bool asks_dims(const trm_view_source *s) {
    for (int i = 0; i < s->own_rank; i++)
        if (s->axis[i].varies) return true;
    return false;
}

static trm_status asked_dims(trm_h5 *f, const char *name, const trm_view_source *s, int64_t *dim, int *rank) {
    TRM_TRY(trm_h5_dims(f, name, dim, rank));
    bool same = *rank == s->own_rank;
    for (int i = 0; same && i < *rank; i++)
        same = s->axis[i].role != TRM_AXIS_PIECE || (dim[i] >= 1 && dim[i] <= s->axis[i].extent);
    return same ? TRM_OK : trm_fail(TRM_DATA, "%s: '%s' has another shape now", trm_h5_path(f), name);
}

static trm_status box_source(const request *q, trm_h5 *f, const char *name, const trm_view_source *s) {
    int64_t dim[TRM_H5_RANK], size = (int64_t)trm_dtype_size(q->v->type);
    int rank = 0, pairs = s->form == TRM_FORM_COMPLEX ? 2 : 1;
    const int64_t *now = NULL;
    if (asks_dims(s)) {
        TRM_TRY(asked_dims(f, name, s, dim, &rank));
        now = dim;
    }
    box one = box_of(q->v, s, q->u, q->global, q->sample, 1, now);
    bool together = one.sample_axis >= 0 || s->whole;
    int64_t most = s->whole   ? q->n
                   : together ? trm_max64((int64_t)BOX_BYTES / trm_max64(one.elems * size, 1), 1)
                              : 1;
    for (int64_t done = 0; done < q->n; done += most) {
        int64_t n = trm_min64(most, q->n - done);
        box b = box_of(q->v, s, q->u, q->global + done, q->sample + done, n, now);
        if (b.elems == 0) continue;
        TRM_TRY(read_box(q->v, f, name, s, &b));
        for (int64_t k = 0; k < (s->whole ? n : 1); k++)
            place(q->v, s, &b, pairs, q->v->box, q->to + (size_t)((done + k) * q->v->row_elems * size));
    }
    return TRM_OK;
}

/* 1 where the first source has data.  Columns with a mask are float32. */
static trm_status mask_source(const request *q, trm_h5 *f, const char *name, const trm_view_source *s,
                              const trm_view_source *of) {
    int64_t dim[TRM_H5_RANK];
    int rank = 0;
    size_t size = trm_dtype_size(q->v->type);
    if (asks_dims(of)) TRM_TRY(asked_dims(f, name, of, dim, &rank));
    for (int64_t k = 0; k < q->n; k++) {
        box b = box_of(q->v, of, q->u, q->global + k, q->sample + k, 1, rank > 0 ? dim : NULL);
        int64_t n = 1;
        for (int i = 0; i < s->rank; i++) {
            /* Channels share one plane. */
            bool flat = s->axis[i].role == TRM_AXIS_SAMPLE || s->axis[i].stride == 0;
            b.count[i] = flat ? 1 : of->n_pick > 0 && of->pick_axis == i ? of->n_pick : b.count[i];
            n *= b.count[i];
        }
        if (n == 0) continue;
        TRM_TRY(room(&q->v->box, &q->v->box_cap, (size_t)n * size));
        for (int64_t i = 0; i < n; i++) {
            float one = 1;
            memcpy((char *)q->v->box + (size_t)i * size, &one, size);
        }
        b.sample_axis = -1;
        place(q->v, s, &b, 1, q->v->box, q->to + (size_t)(k * q->v->row_elems) * size);
    }
    return TRM_OK;
}

static trm_status place_of(const request *q, const char *name, int64_t k, trm_status s) {
    if (s != TRM_DATA) return s;
    return trm_prefix(s, "%s: '%s' sample %lld", q->d->file[q->u->file].path, name,
                      (long long)(q->u->first + q->sample + k));
}

/* Scaled and cut to the size that is asked for. */
static trm_status one_picture(struct trm_view *v, const trm_view_source *s, size_t n, unsigned char *to) {
    const trm_picture *p = &v->picture;
    TRM_TRY(trm_picture_decode(v->box, n, (int)s->picture[0], &v->picture));
    if (p->h != s->picture[1] || p->w != s->picture[2]) {
        TRM_TRY(trm_picture_fit(&v->picture, s->picture[1], s->picture[2], &v->fitted));
        p = &v->fitted;
    }
    trm_picture_planes(p, to);
    return TRM_OK;
}

static trm_status picture_source(const request *q, trm_h5 *f, const char *name, const trm_view_source *s) {
    size_t n, each = (size_t)(s->picture[0] * s->picture[1] * s->picture[2]);
    for (int64_t k = 0; k < q->n; k++) {
        TRM_TRY(
            trm_h5_vlen_row(f, name, q->u->first + q->sample + k, TRM_U8, &q->v->box, &q->v->box_cap, &n));
        TRM_TRY(place_of(q, name, k, one_picture(q->v, s, n, (unsigned char *)q->to + (size_t)k * each)));
    }
    return TRM_OK;
}

static trm_status vlen_source(const request *q, trm_h5 *f, const char *name, const trm_view_source *s) {
    size_t n, item = trm_dtype_size(q->v->type);
    for (int64_t k = 0; k < q->n; k++) {
        TRM_TRY(trm_h5_vlen_row(f, name, q->u->first + q->sample + k, q->v->type, &q->v->box, &q->v->box_cap,
                                &n));
        if ((int64_t)n > s->width)
            return place_of(q, name, k,
                            trm_fail(TRM_DATA, "is %zu long, the longest was %lld", n, (long long)s->width));
        memcpy(q->to + (size_t)(k * q->v->row_elems + s->offset) * item, q->v->box, n * item);
    }
    return TRM_OK;
}

/* Entries [ptr[0], ptr[n]) of the sparse matrix, into dense rows that are zero. */
static trm_status csr_source(const request *q, trm_h5 *f, const char *name, const trm_view_source *s) {
    char part[600];
    size_t item = trm_dtype_size(q->v->type), bytes;
    int64_t n = q->n;
    TRM_TRY(room(&q->v->extra, &q->v->extra_cap, (size_t)(n + 1) * sizeof(int64_t)));
    snprintf(part, sizeof part, "%s/indptr", name);
    TRM_TRY(trm_h5_rows_as(f, part, TRM_I64, q->u->first + q->sample, n + 1, q->v->extra));
    int64_t first = ((int64_t *)q->v->extra)[0], entries = ((int64_t *)q->v->extra)[n] - first;
    for (int64_t k = 0; k < n; k++)
        if (((int64_t *)q->v->extra)[k + 1] < ((int64_t *)q->v->extra)[k])
            return place_of(q, name, k, trm_fail(TRM_DATA, "indptr falls"));
    if (entries == 0) return TRM_OK;
    if (entries < 0 || !trm_mul_size((size_t)entries, item + sizeof(int64_t), &bytes))
        return place_of(q, name, 0, trm_fail(TRM_DATA, "indptr is damaged"));
    TRM_TRY(room(&q->v->box, &q->v->box_cap, bytes));
    int64_t *column = q->v->box;
    char *value = (char *)(column + entries);
    snprintf(part, sizeof part, "%s/indices", name);
    TRM_TRY(trm_h5_rows_as(f, part, TRM_I64, first, entries, column));
    snprintf(part, sizeof part, "%s/data", name);
    TRM_TRY(trm_h5_rows_as(f, part, q->v->type, first, entries, value));
    for (int64_t k = 0; k < n; k++) {
        const int64_t *ptr = (int64_t *)q->v->extra + k;
        for (int64_t i = ptr[0] - first; i < ptr[1] - first; i++) {
            if (column[i] < 0 || column[i] >= s->width)
                return place_of(
                    q, name, k,
                    trm_fail(TRM_DATA, "column %lld of %lld", (long long)column[i], (long long)s->width));
            memcpy(q->to + (size_t)(k * q->v->row_elems + s->offset + column[i]) * item,
                   value + (size_t)i * item, item);
        }
    }
    return TRM_OK;
}

/* ---- samples ---- */

static void fill_rows(const struct trm_view *v, int64_t n, char *to) {
    size_t item = trm_dtype_size(v->type), total = (size_t)(n * v->row_elems);
    if (v->fill == 0) {
        memset(to, 0, total * item);
        return;
    }
    /* Only classes are filled with another number than 0, and they are int64. */
    for (size_t i = 0; i < total; i++) memcpy(to + i * item, &v->fill, item);
}

static trm_status unit_rows(const trm_dataset *d, struct trm_view *v, int unit, int64_t global,
                            int64_t sample, int64_t n, char *to) {
    const trm_view_unit *u = &v->unit[unit];
    request q = {d, v, u, global, sample, n, to};
    if (v->pads) fill_rows(v, n, to);
    for (int i = 0; i < v->n_sources; i++) {
        const trm_view_source *s = &v->source[i], *of = s->kind == TRM_SOURCE_MASK ? &v->source[0] : s;
        char name[512];
        trm_h5 *f = NULL;
        trm_view_set_name(of, u, name, sizeof name);
        TRM_TRY(file_of(d, v, of->file >= 0 ? of->file : u->file, &f));
        switch (s->kind) {
        case TRM_SOURCE_BOX: TRM_TRY(box_source(&q, f, name, s)); break;
        case TRM_SOURCE_CSR: TRM_TRY(csr_source(&q, f, name, s)); break;
        case TRM_SOURCE_PICTURE: TRM_TRY(picture_source(&q, f, name, s)); break;
        case TRM_SOURCE_VLEN: TRM_TRY(vlen_source(&q, f, name, s)); break;
        default: TRM_TRY(mask_source(&q, f, name, s, of));
        }
    }
    return TRM_OK;
}

static trm_status read_rows(const trm_dataset *d, struct trm_view *v, int64_t first, int64_t n, char *to) {
    int64_t inside;
    size_t row = (size_t)v->row_elems * trm_dtype_size(v->type);
    for (int unit = trm_view_unit_of(v, first, &inside); n > 0; unit++, inside = 0) {
        int64_t take = trm_min64(n, v->unit[unit].samples - inside);
        TRM_TRY(unit_rows(d, v, unit, first, inside, take, to));
        to += (size_t)take * row;
        first += take;
        n -= take;
    }
    return TRM_OK;
}

trm_status trm_view_rows(const trm_dataset *d, const trm_column *c, int64_t first, int64_t n, void *dst) {
    struct trm_view *v = c->view;
    pthread_mutex_lock(&v->lock);
    trm_status s = read_rows(d, v, first, n, dst);
    pthread_mutex_unlock(&v->lock);
    return s;
}

void trm_view_place(const trm_dataset *d, const struct trm_view *v, int64_t sample, const char **path,
                    int64_t *in_file) {
    int64_t inside;
    const trm_view_unit *u = &v->unit[trm_view_unit_of(v, sample, &inside)];
    *path = d->file[u->file].path;
    *in_file = u->first + inside;
}
