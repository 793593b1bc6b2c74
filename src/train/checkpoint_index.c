/* checkpoint_index: the text of index.json, and the checks on one that comes from anywhere. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint_impl.h"

#define FORMAT "trireme-checkpoint"
#define VERSION 1
/* The checksum covers the whole text with these digits in its own place. */
#define NO_SUM "0000000000000000"
#define SUM_KEY "\"checksum\": \""
#define SUM_DIGITS 16

static const char *const kind_names[] = {"param", "m1", "m2", "state"};
static const char *const optimizer_names[] = {"sgd", "adam", "adamw", "rmsprop", "lamb"};
#define OPTIMIZERS TRM_OPT_COUNT

const char *trm_ckpt_kind_name(trm_ckpt_kind k) { return kind_names[k]; }
const char *trm_ckpt_optimizer_name(trm_optimizer_kind k) { return optimizer_names[k]; }

static int name_index(const char *text, const char *const *names, int n) {
    for (int i = 0; text && i < n; i++)
        if (strcmp(text, names[i]) == 0) return i;
    return -1;
}

/* ---- writing ---- */

/* 64-bit hashes do not fit JSON numbers: hexadecimal text. */
static json_t *hex_json(uint64_t v) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, v);
    return json_string(text);
}

static json_t *position_json(const trm_position *p) {
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:I, s:o, s:o, s:o, s:o, s:I}", "update",
        (json_int_t)p->update, "epoch", (json_int_t)p->epoch, "update_in_epoch",
        (json_int_t)p->update_in_epoch, "samples", (json_int_t)p->samples, "batch", (json_int_t)p->batch,
        "micro_batches", (json_int_t)p->micro_batches, "seed", (json_int_t)p->seed, "order_version",
        p->order_version, "shuffle", p->shuffle, "drop_last", p->drop_last, "window", (json_int_t)p->window,
        "window_print", hex_json(p->window_print), "fingerprint", hex_json(p->fingerprint), "best_valid",
        isfinite(p->best_valid) ? json_real(p->best_valid) : json_null(), "stop_best",
        isfinite(p->stop_best) ? json_real(p->stop_best) : json_null(), "stale", (json_int_t)p->stale);
}

static json_t *optim_json(const trm_optim_spec *o) {
    return json_pack("{s:s, s:f, s:b, s:f, s:f, s:f, s:f, s:f, s:b, s:f}", "kind",
                     trm_ckpt_optimizer_name(o->kind), "momentum", o->momentum, "nesterov", o->nesterov,
                     "beta1", o->beta1, "beta2", o->beta2, "alpha", o->alpha, "eps", o->eps, "weight_decay",
                     o->weight_decay, "decay_all", o->decay_all, "clip", o->clip);
}

static json_t *parts_json(const trm_ckpt_index *x) {
    json_t *all = json_array();
    for (int i = 0; i < x->parts; i++) {
        char file[32];
        snprintf(file, sizeof file, "part-%d.h5", i);
        json_array_append_new(all,
                              json_pack("{s:s, s:I, s:o}", "file", file, "bytes",
                                        (json_int_t)x->part[i].bytes, "hash", hex_json(x->part[i].hash)));
    }
    return all;
}

/* `start` and `count` say which slice of the named tensor the part holds; now always all of it. */
static json_t *entry_json(const trm_ckpt_entry *e) {
    json_t *shape = json_array(), *start = json_array(), *count = json_array();
    for (int i = 0; i < e->shape.rank; i++) {
        json_array_append_new(shape, json_integer(e->shape.dim[i]));
        json_array_append_new(start, json_integer(0));
        json_array_append_new(count, json_integer(e->shape.dim[i]));
    }
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:i, s:o}", "kind", trm_ckpt_kind_name(e->kind), "name",
                     e->name, "shape", shape, "start", start, "count", count, "part", e->part, "hash",
                     hex_json(e->hash));
}

static json_t *index_json(const trm_ckpt_index *x) {
    json_t *entries = json_array();
    for (int i = 0; i < x->entries; i++) json_array_append_new(entries, entry_json(&x->entry[i]));
    return json_pack("{s:s, s:i, s:s, s:o, s:o, s:o, s:o, s:s?}", "format", FORMAT, "version", VERSION,
                     "checksum", NO_SUM, "position", position_json(&x->position), "optimizer",
                     optim_json(&x->optim), "parts", parts_json(x), "entries", entries, "job", x->job);
}

static int add_text(const char *bytes, size_t n, void *text) {
    trm_str_addn(text, bytes, n);
    return 0;
}

trm_status trm_ckpt_index_write(const trm_ckpt_index *x, trm_str *text) {
    json_t *j = index_json(x);
    int rc = j ? json_dump_callback(j, add_text, text, JSON_INDENT(1)) : -1;
    json_decref(j);
    if (rc != 0) return trm_fail(TRM_INTERNAL, "cannot turn a checkpoint's index into JSON");
    trm_str_addn(text, "\n", 1);
    if (text->failed) return TRM_MEMORY;
    char *sum = strstr(text->p, SUM_KEY), digits[SUM_DIGITS + 1];
    if (!sum) return trm_fail(TRM_INTERNAL, "a checkpoint's index has no checksum");
    snprintf(digits, sizeof digits, "%016" PRIx64, trm_hash(text->p, text->len, 0));
    memcpy(sum + strlen(SUM_KEY), digits, SUM_DIGITS);
    return TRM_OK;
}

/* ---- reading: small getters that leave a sentence ---- */

typedef struct reader {
    const char *path;  /* of the index, for messages */
    trm_status status; /* the first fault stays */
} reader;

static void damaged(reader *r, const char *what) {
    if (r->status == TRM_OK) r->status = trm_fail(TRM_DATA, "%s: %s is missing or wrong", r->path, what);
}

static int64_t get_int(reader *r, json_t *j, const char *key, int64_t min, int64_t max) {
    json_t *v = json_object_get(j, key);
    int64_t n = json_is_integer(v) ? (int64_t)json_integer_value(v) : min - 1;
    if (json_is_integer(v) && n >= min && n <= max) return n;
    damaged(r, key);
    return min;
}

static double get_num(reader *r, json_t *j, const char *key) {
    json_t *v = json_object_get(j, key);
    if (!json_is_number(v)) damaged(r, key);
    return json_number_value(v);
}

static bool get_bool(reader *r, json_t *j, const char *key) {
    json_t *v = json_object_get(j, key);
    if (!json_is_boolean(v)) damaged(r, key);
    return json_is_true(v);
}

static bool parse_hex(const char *text, uint64_t *out) {
    char *end = NULL;
    if (!text || strlen(text) != SUM_DIGITS || strspn(text, "0123456789abcdef") != SUM_DIGITS) return false;
    errno = 0;
    *out = strtoull(text, &end, 16);
    return errno == 0 && *end == '\0';
}

static uint64_t get_hex(reader *r, json_t *j, const char *key) {
    uint64_t v = 0;
    if (!parse_hex(json_string_value(json_object_get(j, key)), &v)) damaged(r, key);
    return v;
}

/* No count of a run is larger: sums and products of two of them are looked after where they are made. */
#define MOST ((int64_t)1 << 53)

/* Absent in a checkpoint of an earlier program. */
static int get_choice(reader *r, json_t *j, const char *key, int most) {
    return json_object_get(j, key) ? (int)get_int(r, j, key, -1, most) : -1;
}

/* An epoch has an update at least, and an update a sample. */
static void check_position(reader *r, const trm_position *p) {
    if (p->epoch > p->update || p->update_in_epoch > p->update || p->update_in_epoch > p->samples ||
        (p->update_in_epoch == 0) != (p->samples == 0))
        damaged(r, "the position");
}

static trm_position get_position(reader *r, json_t *j) {
    json_t *best = json_object_get(j, "best_valid"), *stop = json_object_get(j, "stop_best");
    return (trm_position){
        .update = get_int(r, j, "update", 0, MOST),
        .epoch = get_int(r, j, "epoch", 0, MOST),
        .update_in_epoch = get_int(r, j, "update_in_epoch", 0, MOST),
        .samples = get_int(r, j, "samples", 0, MOST),
        .batch = get_int(r, j, "batch", 1, MOST),
        .micro_batches = get_int(r, j, "micro_batches", 1, MOST),
        .seed = get_int(r, j, "seed", INT64_MIN + 1, INT64_MAX),
        .order_version = (int)get_int(r, j, "order_version", 0, 1000000),
        .shuffle = get_choice(r, j, "shuffle", TRM_SHUFFLE_WINDOW),
        .drop_last = get_choice(r, j, "drop_last", 1),
        .window = json_object_get(j, "window") ? get_int(r, j, "window", 0, MOST) : 0,
        .window_print = json_object_get(j, "window_print") ? get_hex(r, j, "window_print") : 0,
        .fingerprint = get_hex(r, j, "fingerprint"),
        .best_valid = json_is_number(best) ? json_number_value(best) : INFINITY,
        .stop_best = json_is_number(stop) ? json_number_value(stop) : INFINITY,
        .stale = json_object_get(j, "stale") ? get_int(r, j, "stale", 0, MOST) : 0, /* as `shuffle` */
    };
}

static trm_optim_spec get_optim(reader *r, json_t *j) {
    int kind = name_index(json_string_value(json_object_get(j, "kind")), optimizer_names, OPTIMIZERS);
    if (kind < 0) damaged(r, "the kind of optimizer");
    return (trm_optim_spec){
        .kind = kind < 0 ? TRM_OPT_SGD : (trm_optimizer_kind)kind,
        .momentum = get_num(r, j, "momentum"),
        .nesterov = get_bool(r, j, "nesterov"),
        .beta1 = get_num(r, j, "beta1"),
        .beta2 = get_num(r, j, "beta2"),
        /* Absent in a checkpoint of an earlier program. */
        .alpha = json_object_get(j, "alpha") ? get_num(r, j, "alpha") : 0,
        .eps = get_num(r, j, "eps"),
        .weight_decay = get_num(r, j, "weight_decay"),
        .decay_all = get_bool(r, j, "decay_all"),
        .clip = get_num(r, j, "clip"),
    };
}

/* ---- reading: parts and entries ---- */

static void get_parts(reader *r, json_t *list, trm_ckpt_index *x) {
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n < 1 || n > TRM_CKPT_MAX_PARTS) {
        damaged(r, "parts");
        return;
    }
    x->part = trm_alloc_array(n, sizeof *x->part, "a checkpoint's parts");
    if (!x->part) r->status = TRM_MEMORY;
    for (size_t i = 0; i < n && r->status == TRM_OK; i++) {
        json_t *j = json_array_get(list, i);
        const char *file = json_string_value(json_object_get(j, "file"));
        char want[32];
        /* The only name that part i may have: no index leads us to another file. */
        snprintf(want, sizeof want, "part-%d.h5", (int)i);
        if (!file || strcmp(file, want) != 0) damaged(r, "the file of a part");
        x->part[i].bytes = get_int(r, j, "bytes", 0, INT64_MAX);
        x->part[i].hash = get_hex(r, j, "hash");
        x->parts = (int)i + 1;
    }
}

static void get_shape(reader *r, json_t *list, trm_shape *shape) {
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > TRM_MAX_DIMS) {
        damaged(r, "a shape");
        return;
    }
    shape->rank = (int)n;
    for (size_t i = 0; i < n; i++) {
        json_t *d = json_array_get(list, i);
        shape->dim[i] = json_is_integer(d) ? (int64_t)json_integer_value(d) : 0;
    }
    if (!trm_shape_valid(shape)) damaged(r, "a shape");
}

/* Only whole tensors are written now; a slice in an index is a newer program's, or a forged one. */
static void check_whole(reader *r, json_t *j, const trm_shape *shape) {
    json_t *start = json_object_get(j, "start"), *count = json_object_get(j, "count");
    bool whole =
        json_array_size(start) == (size_t)shape->rank && json_array_size(count) == (size_t)shape->rank;
    for (int i = 0; i < shape->rank && whole; i++)
        whole = json_integer_value(json_array_get(start, (size_t)i)) == 0 &&
                json_integer_value(json_array_get(count, (size_t)i)) == shape->dim[i];
    if (!whole) damaged(r, "the slice of an entry");
}

static void get_entry(reader *r, json_t *j, const trm_ckpt_index *x, trm_ckpt_entry *e) {
    const char *name = json_string_value(json_object_get(j, "name"));
    int kind = name_index(json_string_value(json_object_get(j, "kind")), kind_names, TRM_CKPT_KINDS);
    if (kind < 0) damaged(r, "the kind of an entry");
    if (!name || !*name || strlen(name) >= TRM_NAME_MAX) damaged(r, "the name of an entry");
    get_shape(r, json_object_get(j, "shape"), &e->shape);
    e->part = (int)get_int(r, j, "part", 0, x->parts - 1);
    e->hash = get_hex(r, j, "hash");
    if (r->status != TRM_OK) return;
    check_whole(r, j, &e->shape);
    e->kind = (trm_ckpt_kind)kind;
    memcpy(e->name, name, strlen(name) + 1);
    if (trm_shape_count(&e->shape) > x->part[e->part].bytes / (int64_t)sizeof(float))
        damaged(r, "an entry larger than its part");
}

static int by_name(const void *a, const void *b) {
    const trm_ckpt_entry *x = *(const trm_ckpt_entry *const *)a, *y = *(const trm_ckpt_entry *const *)b;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->name, y->name);
}

static void check_unique(reader *r, const trm_ckpt_index *x) {
    const trm_ckpt_entry **sorted =
        trm_alloc_array((size_t)x->entries + 1, sizeof *sorted, "a checkpoint's names");
    if (!sorted) {
        r->status = TRM_MEMORY;
        return;
    }
    for (int i = 0; i < x->entries; i++) sorted[i] = &x->entry[i];
    qsort(sorted, (size_t)x->entries, sizeof *sorted, by_name);
    for (int i = 1; i < x->entries; i++)
        if (by_name(&sorted[i - 1], &sorted[i]) == 0) damaged(r, "an entry that stands twice");
    trm_free(sorted);
}

static void get_entries(reader *r, json_t *list, trm_ckpt_index *x) {
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > TRM_CKPT_MAX_ENTRIES) damaged(r, "entries");
    if (r->status != TRM_OK) return;
    x->entry = trm_alloc_array(n + 1, sizeof *x->entry, "a checkpoint's entries");
    if (!x->entry) r->status = TRM_MEMORY;
    for (size_t i = 0; i < n && r->status == TRM_OK; i++) {
        get_entry(r, json_array_get(list, i), x, &x->entry[i]);
        x->entries = (int)i + 1;
    }
    if (r->status == TRM_OK) check_unique(r, x);
}

/* ---- reading: the whole ---- */

static trm_status check_sum(const char *text, size_t n, const char *path) {
    const char *sum = strstr(text, SUM_KEY);
    uint64_t want = 0;
    char digits[SUM_DIGITS + 1] = "";
    size_t at = sum ? (size_t)(sum - text) + strlen(SUM_KEY) : n;
    if (sum && at + SUM_DIGITS <= n) memcpy(digits, text + at, SUM_DIGITS);
    if (!parse_hex(digits, &want)) return trm_fail(TRM_DATA, "%s has no checksum", path);
    uint64_t have = trm_hash(text, at, 0);
    have = trm_hash(NO_SUM, SUM_DIGITS, have);
    have = trm_hash(text + at + SUM_DIGITS, n - at - SUM_DIGITS, have);
    if (have != want) return trm_fail(TRM_DATA, "%s is damaged: its checksum does not hold", path);
    return TRM_OK;
}

static trm_status check_format(json_t *j, const char *path) {
    const char *format = json_string_value(json_object_get(j, "format"));
    json_int_t version = json_integer_value(json_object_get(j, "version"));
    if (!format || strcmp(format, FORMAT) != 0)
        return trm_fail(TRM_DATA, "%s is not the index of a Trireme checkpoint", path);
    if (version == VERSION) return TRM_OK;
    if (version > VERSION) {
        /* Not TRM_DATA: it is not damaged, and the checkpoint before it is no answer. */
        trm_fail(TRM_RUN, "%s was written by a newer program: it has version %lld, this one reads up to %d",
                 path, (long long)version, VERSION);
        trm_hint("resume with the program that wrote it");
        return TRM_RUN;
    }
    return trm_fail(TRM_DATA, "%s has version %lld; this program reads version %d", path, (long long)version,
                    VERSION);
}

static void get_job(reader *r, json_t *j, trm_ckpt_index *x) {
    const char *job = json_string_value(json_object_get(j, "job"));
    if (!job) return;
    x->job = trm_strdup(job);
    if (!x->job) r->status = TRM_MEMORY;
}

trm_status trm_ckpt_index_parse(const char *text, size_t n, const char *path, trm_ckpt_index *out) {
    json_error_t error;
    trm_ckpt_index x = {0};
    reader r = {.path = path};
    json_t *j = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (!j) return trm_fail(TRM_DATA, "%s:%d:%d: not JSON: %s", path, error.line, error.column, error.text);
    r.status = check_format(j, path);
    if (r.status == TRM_OK) r.status = check_sum(text, n, path);
    if (r.status == TRM_OK) {
        x.position = get_position(&r, json_object_get(j, "position"));
        check_position(&r, &x.position);
        x.optim = get_optim(&r, json_object_get(j, "optimizer"));
        get_parts(&r, json_object_get(j, "parts"), &x);
        get_entries(&r, json_object_get(j, "entries"), &x);
        get_job(&r, j, &x);
    }
    json_decref(j);
    if (r.status == TRM_OK)
        *out = x;
    else
        trm_ckpt_index_free(&x);
    return r.status;
}

void trm_ckpt_index_free(trm_ckpt_index *x) {
    trm_free(x->job);
    trm_free(x->entry);
    trm_free(x->part);
    *x = (trm_ckpt_index){0};
}
