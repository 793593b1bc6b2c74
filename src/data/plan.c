/* plan: what every rank needs in order to read on its own, as plain bytes; and the rules that it keeps.
 * The bytes are for the ranks of one run, not for keeping: words of 8 bytes in the machine's order. */
#include "bytes.h"
#include "view_impl.h"
#include <string.h>

static const char magic[8] = "TRMPLAN";
#define PLAN_VERSION 5
#define PLAN_ORDER 0x0102030405060708

/* ---- sizes ---- */

int64_t trm_stretch_grid(const trm_stretch *p) {
    int64_t n = 1;
    for (int i = 0; i < p->rank; i++)
        if (__builtin_mul_overflow(n, (p->dim[i] - 1) / p->chunk[i] + 1, &n)) return INT64_MAX;
    return n;
}

bool trm_stretch_band_bytes(const trm_stretch *p, size_t *bytes) {
    size_t n = trm_dtype_size(p->stored), whole = n;
    for (int i = 0; i < p->rank; i++) {
        if (!trm_mul_size(whole, (size_t)p->chunk[i], &whole)) return false;
        int64_t across = i == 0 ? 1 : (p->dim[i] - 1) / p->chunk[i] + 1;
        if (!trm_mul_size(n, (size_t)p->chunk[i], &n) || !trm_mul_size(n, (size_t)across, &n)) return false;
    }
    *bytes = n;
    return n <= TRM_BAND_LIMIT && whole <= TRM_BAND_LIMIT;
}

void trm_stretch_free(trm_stretch *p) {
    trm_free(p->table);
    trm_free(p->name);
    p->table = NULL;
    p->name = NULL;
}

void trm_column_free(trm_column *c) {
    for (int i = 0; i < c->n_parts; i++) trm_stretch_free(&c->part[i]);
    trm_free(c->part);
    trm_free(c->start);
    trm_free(c->name);
    if (!c->borrowed) trm_free(c->cache);
    trm_view_free(c->view);
    *c = (trm_column){0};
}

/* ---- what follows from the rest ---- */

static trm_status index_column(trm_column *c) {
    trm_free(c->start);
    c->start = trm_alloc_array((size_t)c->n_parts + 1, sizeof *c->start, "an index of files");
    if (!c->start) return TRM_MEMORY;
    for (int i = 0; i < c->n_parts; i++) c->start[i + 1] = c->start[i] + c->part[i].rows;
    return TRM_OK;
}

/* A window needs one token more than it is long: the target of its last one. Windows do not cross files. */
static trm_status index_windows(trm_dataset *d) {
    int64_t t = d->info.x.dim[0], more = d->info.no_target ? 0 : 1;
    trm_free(d->window_start);
    d->window_start =
        trm_alloc_array((size_t)d->x.n_parts + 1, sizeof *d->window_start, "an index of windows");
    if (!d->window_start) return TRM_MEMORY;
    for (int i = 0; i < d->x.n_parts; i++)
        d->window_start[i + 1] = d->window_start[i] + (d->x.part[i].rows - more) / t;
    return TRM_OK;
}

/* Nothing is read of y. */
static void index_no_target(trm_data_info *info) {
    info->y_type = info->y_is_class ? TRM_U8 : TRM_F32;
    info->y_stride = 0;
    info->y_offset = -1;
}

trm_status trm_plan_index(trm_dataset *d) {
    trm_data_info *info = &d->info;
    int64_t item = (int64_t)trm_dtype_size(d->x.type);
    TRM_TRY(index_column(&d->x));
    if (d->has_y) TRM_TRY(index_column(&d->y));
    info->samples = trm_rows(&d->x);
    info->x_type = d->x.type;
    info->y_type = d->has_y ? d->y.type : d->x.type;
    info->x_stride = d->x.row_elems * item;
    info->y_stride = d->has_y ? (int64_t)trm_row_bytes(&d->y) : info->x_stride;
    info->y_offset = d->has_y ? -1 : item;
    if (d->has_y && trm_maps_target(d)) {
        info->y_type = TRM_I64;
        info->y_stride = sizeof(int64_t);
    }
    TRM_TRY(trm_target_room(d));
    if (info->no_target) index_no_target(info);
    if (info->kind != TRM_DATA_TOKEN_STREAM) return trm_bad_index(d);
    TRM_TRY(index_windows(d));
    info->samples = d->window_start[d->x.n_parts];
    info->x_stride = (info->x.dim[0] + !info->no_target) * item;
    info->y_stride = info->no_target ? 0 : info->x_stride;
    return trm_bad_index(d);
}

/* ---- the rules ---- */

static bool type_follows(trm_dtype stored, trm_dtype type, bool may_be_class) {
    if (stored == TRM_F16 || stored == TRM_BF16) return type == TRM_F32 || (may_be_class && type == TRM_I64);
    return type == stored || (may_be_class && trm_dtype_is_float(stored) && type == TRM_I64);
}

static bool filters_known(const trm_stretch *p) {
    int compressors = 0;
    for (int i = 0; i < p->n_filters; i++) {
        int id = p->filter[i].id;
        if (id == TRM_FILTER_SHUFFLE && (p->filter[i].param == 0 || p->filter[i].param > 4096)) return false;
        if (id != TRM_FILTER_DEFLATE && id != TRM_FILTER_LZF && id != TRM_FILTER_SHUFFLE &&
            id != TRM_FILTER_FLETCHER)
            return false;
        compressors += id == TRM_FILTER_DEFLATE || id == TRM_FILTER_LZF;
    }
    return compressors <= 1;
}

static bool inside(uint64_t offset, uint64_t bytes, int64_t size) {
    return offset <= (uint64_t)size && bytes <= (uint64_t)size - offset;
}

static bool table_inside(const trm_stretch *p, int64_t size) {
    for (int64_t i = 0; i < p->n_chunks; i++)
        if (p->table[i].offset != TRM_NO_ADDRESS && !inside(p->table[i].offset, p->table[i].bytes, size))
            return false;
    return true;
}

static bool view_fits(const trm_dataset *d, const trm_column *c, const trm_stretch *p) {
    const struct trm_view *v = c->view;
    return v && trm_view_holds(v, d) && v->type == p->stored && v->row_elems == c->row_elems && !p->swap &&
           trm_view_samples(v) == p->dim[0];
}

static bool storage_holds(const trm_dataset *d, const trm_stretch *p, const trm_column *c) {
    size_t band, whole;
    int64_t size = d->file[p->file].size;
    switch (p->layout) {
    case TRM_LAY_CONTIGUOUS:
        return p->n_chunks == 0 && trm_mul_size((size_t)p->dim[0], trm_stored_row_bytes(c, p), &whole) &&
               inside(p->offset, whole, size);
    case TRM_LAY_CHUNKED:
        return trm_stretch_band_bytes(p, &band) && filters_known(p) && p->n_chunks == trm_stretch_grid(p) &&
               table_inside(p, size);
    case TRM_LAY_CALLS: return trm_stretch_band_bytes(p, &band) && filters_known(p) && p->n_chunks == 0;
    case TRM_LAY_LIBRARY: return p->n_chunks == 0;
    case TRM_LAY_VIEW: return p->n_chunks == 0 && c->n_parts == 1 && view_fits(d, c, p);
    default: return false;
    }
}

static bool stretch_holds(const trm_dataset *d, const trm_column *c, const trm_stretch *p, bool is_y) {
    int64_t elems = 1;
    if (p->file < 0 || p->file >= d->n_files || p->rank < 1 || p->rank > TRM_STRETCH_RANK) return false;
    if (trm_dtype_size(p->stored) == 0 || p->n_filters < 0 || p->n_filters > TRM_STRETCH_FILTERS)
        return false;
    for (int i = 0; i < p->rank; i++) {
        if (p->dim[i] < 1 || p->chunk[i] < 1) return false;
        if (i > 0 && __builtin_mul_overflow(elems, p->dim[i], &elems)) return false;
    }
    if (elems != c->row_elems || !type_follows(p->stored, c->type, is_y && d->info.y_is_class)) return false;
    if (p->first < 0 || p->rows < 1 || p->rows > p->dim[0] || p->first > p->dim[0] - p->rows) return false;
    return storage_holds(d, p, c);
}

static bool column_holds(const trm_dataset *d, const trm_column *c, bool is_y) {
    int64_t rows = 0;
    if (c->n_parts < 1 || !c->name || c->row_elems < 1 || c->row_elems > (int64_t)1 << 48) return false;
    for (int i = 0; i < c->n_parts; i++) {
        if (!stretch_holds(d, c, &c->part[i], is_y)) return false;
        if (__builtin_add_overflow(rows, c->part[i].rows, &rows)) return false;
    }
    return rows <= INT64_MAX / 1024;
}

static bool shapes_hold(const trm_dataset *d) {
    const trm_data_info *info = &d->info;
    if (!trm_shape_valid(&info->x) || !trm_shape_valid(&info->y)) return false;
    int64_t x = trm_shape_count(&info->x), y = trm_shape_count(&info->y);
    switch (info->kind) {
    case TRM_DATA_SAMPLES:
        return x == d->x.row_elems &&
               (d->has_y ? y == d->y.row_elems || d->y_rows != TRM_TARGET_PLAIN : info->no_target);
    case TRM_DATA_TOKEN_STREAM: return !d->has_y && info->x.rank == 1 && d->x.row_elems == 1 && y == x;
    case TRM_DATA_TOKEN_ROWS:
        if (info->x.rank != 1 || y != x) return false;
        if (d->has_y) return d->x.row_elems == x && d->y.row_elems == x;
        return d->x.row_elems == x + 1 || (info->no_target && d->x.row_elems == x);
    default: return false;
    }
}

/* Rows that are left out stand in order, and some are left. */
static bool bad_holds(const trm_dataset *d) {
    int64_t rows = 0, end = 0, left;
    for (int i = 0; i < d->x.n_parts; i++) rows += d->x.part[i].rows;
    left = rows;
    for (int64_t i = 0; i < d->bad.n; i++) {
        const trm_span *s = &d->bad.at[i];
        if (s->first < end || s->count < 1 || s->first > rows || s->count > rows - s->first) return false;
        end = s->first + s->count;
        left -= s->count;
    }
    return left > 0;
}

static int64_t rows_of(const trm_column *c) {
    int64_t n = 0;
    for (int i = 0; i < c->n_parts; i++) n += c->part[i].rows;
    return n;
}

/* Rows of x and y lie in the same files; those of a view in any. */
static bool parts_agree(const trm_dataset *d) {
    if (d->x.view || d->y.view) return rows_of(&d->x) == rows_of(&d->y);
    bool good = d->y.n_parts == d->x.n_parts;
    for (int i = 0; good && i < d->x.n_parts; i++) good = d->x.part[i].rows == d->y.part[i].rows;
    return good;
}

trm_status trm_plan_check(const trm_dataset *d) {
    bool good = d->n_files > 0 && !(d->has_y && d->info.no_target);
    for (int i = 0; i < d->n_files && good; i++) good = d->file[i].path && d->file[i].size > 0;
    good = good && column_holds(d, &d->x, false) && (!d->has_y || column_holds(d, &d->y, true)) &&
           shapes_hold(d) && trm_target_holds(d) && bad_holds(d);
    good = good && d->info.classes >= 0 && (!d->has_y || parts_agree(d));
    return good ? TRM_OK : trm_fail(TRM_INTERNAL, "the plan of a data set breaks its own rules");
}

/* ---- to bytes ---- */

static void put_shape(trm_str *s, const trm_shape *shape) {
    trm_put(s, shape->rank);
    for (int i = 0; i < TRM_MAX_DIMS; i++) trm_put(s, shape->dim[i]);
}

static void put_stretch(trm_str *s, const trm_stretch *p) {
    trm_put(s, p->file);
    trm_put_text(s, p->name);
    trm_put(s, p->layout);
    trm_put(s, p->stored);
    trm_put(s, p->swap);
    trm_put(s, p->rank);
    for (int i = 0; i < p->rank; i++) trm_put(s, p->dim[i]);
    for (int i = 0; i < p->rank; i++) trm_put(s, p->chunk[i]);
    trm_put(s, (int64_t)p->offset);
    trm_put(s, p->n_filters);
    for (int i = 0; i < p->n_filters; i++) trm_put(s, p->filter[i].id);
    for (int i = 0; i < p->n_filters; i++) trm_put(s, p->filter[i].param);
    trm_str_addn(s, (const char *)p->fill, sizeof p->fill);
    trm_put(s, p->first);
    trm_put(s, p->rows);
    trm_put(s, p->n_chunks);
    trm_str_addn(s, (const char *)p->table, (size_t)p->n_chunks * sizeof *p->table);
}

static void put_view(trm_str *s, const struct trm_view *v) {
    trm_str bytes = {0};
    if (v) trm_view_pack(v, &bytes);
    trm_put(s, (int64_t)bytes.len);
    trm_str_addn(s, trm_str_get(&bytes), bytes.len);
    s->failed = s->failed || bytes.failed;
    trm_str_free(&bytes);
}

static void put_column(trm_str *s, const trm_column *c) {
    trm_put_text(s, c->name);
    trm_put(s, c->type);
    trm_put(s, c->row_elems);
    trm_put(s, c->n_parts);
    for (int i = 0; i < c->n_parts; i++) put_stretch(s, &c->part[i]);
    put_view(s, c->view);
}

static void put_info(trm_str *s, const trm_dataset *d) {
    trm_put(s, d->info.kind);
    put_shape(s, &d->info.x);
    put_shape(s, &d->info.y);
    trm_put(s, d->info.x_hwc);
    trm_put(s, d->info.y_is_class);
    trm_put(s, d->info.classes);
    trm_put(s, d->info.no_target);
    trm_put(s, (int64_t)d->info.fingerprint);
    trm_put(s, d->keep_x);
    trm_put(s, d->keep_y);
    trm_put(s, d->must_keep);
    trm_put(s, d->share);
    trm_put(s, d->check_x);
    trm_put(s, d->allow);
    trm_put(s, (int64_t)d->budget);
}

trm_status trm_dataset_pack(const trm_dataset *d, void **bytes, size_t *n) {
    trm_str s = {0};
    trm_str_addn(&s, magic, sizeof magic);
    trm_put(&s, PLAN_ORDER);
    trm_put(&s, PLAN_VERSION);
    put_info(&s, d);
    trm_put(&s, d->n_files);
    for (int i = 0; i < d->n_files; i++) {
        trm_put_text(&s, d->file[i].path);
        trm_put(&s, d->file[i].size);
        trm_put(&s, d->file[i].changed);
    }
    put_column(&s, &d->x);
    trm_put(&s, d->has_y);
    if (d->has_y) put_column(&s, &d->y);
    trm_put(&s, d->y_rows);
    trm_put(&s, d->n_labels);
    trm_str_addn(&s, (const char *)d->label, (size_t)d->n_labels * sizeof *d->label);
    trm_put(&s, d->bad.n);
    trm_str_addn(&s, (const char *)d->bad.at, (size_t)d->bad.n * sizeof *d->bad.at);
    if (!s.failed) trm_put(&s, (int64_t)trm_sum64(s.p, s.len));
    if (s.failed) {
        trm_str_free(&s);
        return TRM_MEMORY;
    }
    *bytes = s.p;
    *n = s.len;
    return TRM_OK;
}

/* ---- from bytes ---- */

static void get_shape(trm_cursor *c, trm_shape *s) {
    s->rank = (int)trm_get_upto(c, TRM_MAX_DIMS);
    for (int i = 0; i < TRM_MAX_DIMS; i++) s->dim[i] = trm_get(c);
}

static void get_stretch(trm_cursor *c, trm_stretch *p) {
    p->file = (int)trm_get_upto(c, INT32_MAX);
    p->name = trm_get_text(c);
    p->layout = (trm_layout)trm_get_upto(c, TRM_LAY_COUNT - 1);
    p->stored = (trm_dtype)trm_get_upto(c, TRM_DTYPE_COUNT - 1);
    p->swap = trm_get_upto(c, 1);
    p->rank = (int)trm_get_upto(c, TRM_STRETCH_RANK);
    for (int i = 0; i < p->rank; i++) p->dim[i] = trm_get(c);
    for (int i = 0; i < p->rank; i++) p->chunk[i] = trm_get(c);
    p->offset = (uint64_t)trm_get(c);
    p->n_filters = (int)trm_get_upto(c, TRM_STRETCH_FILTERS);
    for (int i = 0; i < p->n_filters; i++) p->filter[i].id = (int32_t)trm_get_upto(c, INT32_MAX);
    for (int i = 0; i < p->n_filters; i++) p->filter[i].param = (uint32_t)trm_get_upto(c, UINT32_MAX);
    trm_get_bytes(c, p->fill, sizeof p->fill);
    p->first = trm_get(c);
    p->rows = trm_get(c);
    p->n_chunks = trm_get_count(c, sizeof *p->table);
    if (p->n_chunks == 0) return;
    p->table = trm_alloc_array((size_t)p->n_chunks, sizeof *p->table, "a table of chunks");
    if (p->table)
        trm_get_bytes(c, p->table, (size_t)p->n_chunks * sizeof *p->table);
    else
        c->bad = true;
}

static void get_view(trm_cursor *c, trm_column *col) {
    size_t n = (size_t)trm_get_count(c, 1);
    if (n == 0 || c->bad) return;
    if (trm_view_unpack(c->p, n, &col->view) != TRM_OK) c->bad = true;
    c->p += n;
    c->left -= n;
}

static void get_column(trm_cursor *c, trm_column *col) {
    col->name = trm_get_text(c);
    col->type = (trm_dtype)trm_get_upto(c, TRM_DTYPE_COUNT - 1);
    col->row_elems = trm_get(c);
    int n = (int)trm_min64(trm_get_count(c, 10 * sizeof(int64_t)), INT32_MAX - 1);
    col->part = c->bad ? NULL : trm_alloc_array((size_t)n + 1, sizeof *col->part, "a plan");
    if (!col->part) c->bad = true;
    for (int i = 0; i < n && !c->bad; i++) {
        get_stretch(c, &col->part[i]);
        col->n_parts = i + 1;
    }
    get_view(c, col);
}

static void get_info(trm_cursor *c, trm_dataset *d) {
    d->info.kind = (trm_data_kind)trm_get_upto(c, TRM_DATA_TOKEN_ROWS);
    get_shape(c, &d->info.x);
    get_shape(c, &d->info.y);
    d->info.x_hwc = trm_get_upto(c, 1);
    d->info.y_is_class = trm_get_upto(c, 1);
    d->info.classes = trm_get(c);
    d->info.no_target = trm_get_upto(c, 1);
    d->info.fingerprint = (uint64_t)trm_get(c);
    d->keep_x = trm_get_upto(c, 1);
    d->keep_y = trm_get_upto(c, 1);
    d->must_keep = trm_get_upto(c, 1);
    d->share = trm_get_upto(c, 1);
    d->check_x = trm_get_upto(c, 1);
    d->allow = (unsigned)trm_get_upto(c, TRM_ALLOW_LINKS | TRM_ALLOW_EXTERNAL | TRM_ALLOW_PLUGINS);
    d->budget = (size_t)trm_get_upto(c, (int64_t)1 << 50);
}

static void get_files(trm_cursor *c, trm_dataset *d) {
    int n = (int)trm_min64(trm_get_count(c, 3 * sizeof(int64_t)), INT32_MAX - 1);
    d->file = c->bad ? NULL : trm_alloc_array((size_t)n + 1, sizeof *d->file, "a plan");
    if (!d->file) c->bad = true;
    for (int i = 0; i < n && !c->bad; i++) {
        d->file[i].path = trm_get_text(c);
        d->file[i].size = trm_get(c);
        d->file[i].changed = trm_get(c);
        d->n_files = i + 1;
    }
}

static void get_target(trm_cursor *c, trm_dataset *d) {
    d->y_rows = (trm_target_rows)trm_get_upto(c, TRM_TARGET_ARGMAX);
    int n = (int)trm_min64(trm_get_count(c, sizeof *d->label), INT32_MAX - 1);
    if (n == 0) return;
    d->label = trm_alloc_array((size_t)n, sizeof *d->label, "a map of labels");
    if (!d->label) {
        c->bad = true;
        return;
    }
    trm_get_bytes(c, d->label, (size_t)n * sizeof *d->label);
    d->n_labels = n;
}

static void get_bad(trm_cursor *c, trm_spans *s) {
    int64_t n = trm_get_count(c, sizeof *s->at);
    if (n == 0) return;
    s->at = trm_alloc_array((size_t)n, sizeof *s->at, "samples left out");
    if (s->at)
        trm_get_bytes(c, s->at, (size_t)n * sizeof *s->at);
    else
        c->bad = true;
    s->n = s->cap = n;
}

static bool head_holds(trm_cursor *c, const char *bytes, size_t n) {
    char head[8];
    uint64_t sum;
    if (n < sizeof head + sizeof sum) return false;
    memcpy(&sum, bytes + n - sizeof sum, sizeof sum);
    c->left = n - sizeof sum;
    trm_get_bytes(c, head, sizeof head);
    if (memcmp(head, magic, sizeof head) != 0 || trm_get(c) != PLAN_ORDER || trm_get(c) != PLAN_VERSION)
        return false;
    return sum == trm_sum64(bytes, n - sizeof sum);
}

static trm_status unpack(trm_dataset *d, const char *bytes, size_t n) {
    trm_cursor c = {.p = bytes};
    if (!head_holds(&c, bytes, n))
        return trm_fail(TRM_INTERNAL, "the plan of a data set came damaged, or from another version");
    get_info(&c, d);
    get_files(&c, d);
    get_column(&c, &d->x);
    d->has_y = trm_get_upto(&c, 1);
    if (d->has_y) get_column(&c, &d->y);
    get_target(&c, d);
    get_bad(&c, &d->bad);
    if (c.bad || c.left > 0) return trm_fail(TRM_INTERNAL, "the plan of a data set came damaged");
    TRM_TRY(trm_plan_check(d));
    TRM_TRY(trm_plan_index(d));
    if (d->allow & TRM_ALLOW_PLUGINS) trm_h5_allow_plugins();
    return trm_reader_new(d);
}

trm_status trm_dataset_unpack(const void *bytes, size_t n, trm_dataset **out) {
    trm_dataset *d = trm_alloc(sizeof *d, "a data set");
    if (!d) return TRM_MEMORY;
    trm_status s = unpack(d, bytes, n);
    if (s == TRM_OK)
        *out = d;
    else
        trm_dataset_close(d);
    return s;
}
