/* job_value: what each kind of key reads, writes and allows. */
#include <stdlib.h>
#include <string.h>

#include "job_impl.h"

/* ---- text of numbers, whatever the process's locale ---- */

/* A locale's decimal point may be any bytes: what is no part of a number becomes one '.'. */
static void plain_point(char *buf) {
    char *to = buf;
    bool foreign = false;
    for (const char *p = buf; *p; p++) {
        bool ours = (*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == 'e';
        if (ours)
            *to++ = *p;
        else if (!foreign)
            *to++ = '.';
        foreign = !ours;
    }
    *to = '\0';
}

const char *trm_job_number(double v, char *buf) {
    double again;
    if (v > -1e15 && v < 1e15 && v == (double)(int64_t)v) {
        snprintf(buf, 32, "%lld", (long long)v);
        return buf;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, 32, "%.*g", digits, v);
        plain_point(buf);
        if (trm_parse_double(buf, &again) && again == v) break;
    }
    return buf;
}

/* ---- what is allowed, in words ---- */

static void add_ends(const trm_job_key *k, bool whole, trm_str *out) {
    char buf[32];
    bool some_max = k->max > 0 && (k->max < 1e6 || whole);
    if (k->min > -INFINITY)
        trm_str_add(out, k->flags & TRM_KEY_ABOVE ? " above %s" : " from %s", trm_job_number(k->min, buf));
    if (some_max)
        trm_str_add(out, k->flags & TRM_KEY_BELOW ? " to below %s" : " to %s", trm_job_number(k->max, buf));
}

static void add_names(const trm_job_key *k, trm_str *out) {
    for (int i = 0; k->names[i]; i++) trm_str_add(out, i ? ", %s" : "%s", k->names[i]);
}

void trm_job_value_allowed(const trm_job_key *k, bool whole, trm_str *out) {
    switch (k->kind) {
    case TRM_KEY_INT:
    case TRM_KEY_INT32: trm_str_add(out, "whole numbers"); break;
    case TRM_KEY_FLOAT:
        trm_str_add(out, k->flags & TRM_KEY_PERCENT ? "percent or numbers" : "numbers");
        break;
    case TRM_KEY_FLOAT2: trm_str_add(out, "lists of two numbers"); break;
    case TRM_KEY_BOOL: trm_str_add(out, "true, false"); return;
    case TRM_KEY_TEXT:
        if (k->flags & TRM_KEY_LAYER)
            trm_str_add(out, "the name of an earlier layer");
        else
            trm_str_add(out, k->flags & TRM_KEY_NAME ? "letters, digits, `_`, `-` and `.`" : "a text");
        return;
    case TRM_KEY_CHOICE:
    case TRM_KEY_CHOICE_BOOL:
    case TRM_KEY_CHOICE_TEXT: add_names(k, out); return;
    case TRM_KEY_FILES:
        trm_str_add(out,
                    k->flags & TRM_KEY_INSIDE ? "a path or a list of them" : "a file name or a list of them");
        return;
    case TRM_KEY_OR_WORD: trm_str_add(out, "%s, or whole numbers", k->names[0]); break;
    case TRM_KEY_FLOATS:
        if (k->names) trm_str_add(out, "%s, or ", k->names[0]);
        trm_str_add(out, "a number or a list of numbers");
        break;
    case TRM_KEY_INTS: trm_str_add(out, "lists of 1 to 8 whole numbers"); break;
    case TRM_KEY_PAIR:
        trm_str_add(out, "%sa whole number or a list of two", k->flags & TRM_KEY_BY ? "`AxB`, " : "");
        break;
    case TRM_KEY_SIZES: trm_str_add(out, "a whole number or a list with one for each axis"); break;
    case TRM_KEY_SHAPE: trm_str_add(out, "lists of 1 to %d whole numbers", TRM_MAX_DIMS); break;
    case TRM_KEY_LABELS: trm_str_add(out, "a map or a list of different whole numbers"); return;
    case TRM_KEY_TRANSFORMS:
        trm_str_add(out, "a list of ");
        add_names(k, out);
        return;
    case TRM_KEY_ROWS: trm_str_add(out, "FIRST:END with FIRST below END, either may be left out"); return;
    case TRM_KEY_EVERY:
        trm_str_add(out, "epoch, N epochs, N updates%s (N from 1)",
                    k->flags & TRM_KEY_TIMES ? "" : ", never");
        return;
    case TRM_KEY_BYTES: trm_str_add(out, "bytes or a number with KiB, MiB, GiB or TiB"); return;
    case TRM_KEY_LAYERS:
        trm_str_add(out, "a list of layers");
        if (k->max <= 0) return; /* the keys of a composite */
        trm_str_add(out, "; with preset gpt whole numbers");
        break;
    }
    add_ends(k, whole, out);
}

/* "job.yaml:12:5: train.batch is 0; allowed are whole numbers from 1" */
static trm_status refuse(const trm_job_key *k, const trm_yaml_node *n) {
    char shown[80];
    trm_str allowed = {0};
    trm_job_value_allowed(k, true, &allowed);
    /* An end like 1e9 would only confuse who wrote "-1". */
    double v;
    if (n->kind == TRM_YAML_TEXT && (!trm_parse_double(n->text, &v) || v < k->max || k->max <= 0)) {
        trm_str_free(&allowed);
        trm_job_value_allowed(k, false, &allowed);
    }
    trm_yaml_fail(n->at, "%s is %s; allowed are %s", k->path, trm_yaml_shown(n, shown, sizeof shown),
                  trm_str_get(&allowed));
    trm_str_free(&allowed);
    const char *near = k->names && n->kind == TRM_YAML_TEXT ? trm_nearest(n->text, k->names) : NULL;
    if (near) trm_hint("did you mean `%s`?", near);
    return TRM_JOB;
}

/* ---- reading: true where the node is a value of the key ---- */

static bool is_text(const trm_yaml_node *n) { return n->kind == TRM_YAML_TEXT && !trm_yaml_is_nothing(n); }

static bool in_range(const trm_job_key *k, double v) {
    if (v < k->min || (v <= k->min && k->flags & TRM_KEY_ABOVE)) return false;
    return k->max <= 0 || v < k->max || (v <= k->max && !(k->flags & TRM_KEY_BELOW));
}

/* Ends are compared as doubles: they are all exact there. */
static bool read_int(const trm_job_key *k, const trm_yaml_node *n, int64_t *out) {
    return is_text(n) && !n->quoted && trm_parse_int(n->text, out) && in_range(k, (double)*out);
}

static bool read_or_word(const trm_job_key *k, const trm_yaml_node *n, int64_t *out) {
    if (!is_text(n) || strcmp(n->text, k->names[0])) return read_int(k, n, out);
    *out = -1;
    return true;
}

/* "5%" as 0.05. */
static bool read_percent(const char *text, double *out) {
    char number[32];
    size_t n = strlen(text);
    if (n < 2 || n >= sizeof number || text[n - 1] != '%') return false;
    memcpy(number, text, n - 1);
    number[n - 1] = '\0';
    if (number[n - 2] == ' ') number[n - 2] = '\0';
    if (!trm_parse_double(number, out)) return false;
    *out /= 100;
    return true;
}

static bool read_float(const trm_job_key *k, const trm_yaml_node *n, double *out) {
    if (!is_text(n) || n->quoted) return false;
    bool read = trm_parse_double(n->text, out) || (k->flags & TRM_KEY_PERCENT && read_percent(n->text, out));
    return read && in_range(k, *out);
}

static bool read_bool(const trm_yaml_node *n, bool *out) {
    if (!is_text(n) || n->quoted) return false;
    *out = !strcmp(n->text, "true");
    return *out || !strcmp(n->text, "false");
}

static int choice_of(const trm_job_key *k, const trm_yaml_node *n) {
    if (!is_text(n)) return -1;
    for (int i = 0; k->names[i]; i++)
        if (!strcmp(k->names[i], n->text)) return i;
    return -1;
}

static bool is_name(const char *t) {
    for (const char *p = t; *p; p++) {
        bool word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
                    strchr("_-.", *p);
        if (!word) return false;
    }
    return strcmp(t, ".") && strcmp(t, "..") && strlen(t) < 128;
}

static bool text_is_sound(const trm_job_key *k, const trm_yaml_node *n) {
    if (!is_text(n) || !n->text[0] || strlen(n->text) >= 4096) return false;
    return !(k->flags & TRM_KEY_NAME) || is_name(n->text);
}

/* "FIRST:END" as first row and number of rows. */
static bool read_rows(const trm_yaml_node *n, int64_t out[2]) {
    char first[24];
    const char *colon = is_text(n) ? strchr(n->text, ':') : NULL;
    if (!colon || colon - n->text >= (int)sizeof first) return false;
    memcpy(first, n->text, (size_t)(colon - n->text));
    first[colon - n->text] = '\0';
    int64_t a = 0, b = 0;
    if (first[0] && (!trm_parse_int(first, &a) || a < 0)) return false;
    if (colon[1] && (!trm_parse_int(colon + 1, &b) || b <= a)) return false;
    out[0] = a;
    out[1] = colon[1] ? b - a : 0;
    return true;
}

static bool read_every(const trm_job_key *k, const trm_yaml_node *n, trm_every *out) {
    char number[24] = "1";
    if (!is_text(n)) return false;
    if (!strcmp(n->text, "never")) {
        *out = (trm_every){TRM_UNIT_NEVER, 0};
        return !(k->flags & TRM_KEY_TIMES);
    }
    size_t digits = strspn(n->text, "0123456789");
    const char *unit = n->text + digits;
    if (digits >= sizeof number) return false;
    if (digits) {
        memcpy(number, n->text, digits);
        number[digits] = '\0';
        if (*unit && *unit != ' ') return false;
        unit += strspn(unit, " ");
    }
    bool epochs = !strcmp(unit, "epoch") || !strcmp(unit, "epochs");
    bool updates = !strcmp(unit, "update") || !strcmp(unit, "updates") || (digits && !*unit);
    out->unit = epochs ? TRM_UNIT_EPOCHS : TRM_UNIT_UPDATES;
    return (epochs || updates) && trm_parse_int(number, &out->n) && out->n >= 1 && out->n <= 1000000000000;
}

static const struct {
    const char *name;
    double bytes;
} byte_units[] = {{"", 1},
                  {"B", 1},
                  {"KiB", 1024.0},
                  {"MiB", 1048576.0},
                  {"GiB", 1073741824.0},
                  {"TiB", 1099511627776.0},
                  {"kB", 1e3},
                  {"MB", 1e6},
                  {"GB", 1e9},
                  {"TB", 1e12}};

static bool read_bytes(const trm_yaml_node *n, int64_t *out) {
    char number[32];
    double v;
    if (!is_text(n)) return false;
    size_t len = strspn(n->text, "0123456789.");
    const char *unit = n->text + len + strspn(n->text + len, " ");
    if (len >= sizeof number) return false;
    memcpy(number, n->text, len);
    number[len] = '\0';
    if (!trm_parse_double(number, &v)) return false;
    for (size_t i = 0; i < sizeof byte_units / sizeof *byte_units; i++) {
        if (strcmp(unit, byte_units[i].name)) continue;
        v *= byte_units[i].bytes;
        *out = v < 9e18 ? (int64_t)v : 0;
        return *out >= 1;
    }
    return false;
}

/* The entries of a list; a text alone is a list of one. */
static int count_of(const trm_yaml_node *n) {
    return n->kind == TRM_YAML_LIST ? n->n : n->kind == TRM_YAML_TEXT ? 1 : 0;
}
static const trm_yaml_node *entry(const trm_yaml_node *n, int i) {
    return n->kind == TRM_YAML_LIST ? n->item[i] : n;
}

static bool read_ints(const trm_job_key *k, const trm_yaml_node *n, int max, int64_t *out, int *count) {
    *count = count_of(n);
    if (*count < 1 || *count > max) return false;
    for (int i = 0; i < *count; i++)
        if (!read_int(k, entry(n, i), &out[i])) return false;
    return true;
}

/* "32x48" */
static bool read_by(const trm_job_key *k, const trm_yaml_node *n, int64_t *out) {
    char first[24];
    const char *by = is_text(n) && !n->quoted ? strchr(n->text, 'x') : NULL;
    if (!by || by - n->text >= (int)sizeof first) return false;
    memcpy(first, n->text, (size_t)(by - n->text));
    first[by - n->text] = '\0';
    return trm_parse_int(first, &out[0]) && trm_parse_int(by + 1, &out[1]) && in_range(k, (double)out[0]) &&
           in_range(k, (double)out[1]);
}

static bool read_pair(const trm_job_key *k, const trm_yaml_node *n, int64_t *out) {
    int count;
    if (k->flags & TRM_KEY_BY && read_by(k, n, out)) return true;
    if (!read_ints(k, n, 2, out, &count)) return false;
    if (count == 1) out[1] = out[0];
    return true;
}

static bool read_sizes(const trm_job_key *k, const trm_yaml_node *n, trm_sizes *out) {
    return read_ints(k, n, TRM_MAX_AXES, out->at, &out->n);
}

static bool read_shape(const trm_job_key *k, const trm_yaml_node *n, trm_shape *out) {
    return read_ints(k, n, TRM_MAX_DIMS, out->dim, &out->rank) && trm_shape_valid(out);
}

/* ---- reading what owns memory ---- */

static trm_status take_text(const char *text, char **out) {
    char *copy = trm_strdup(text);
    if (!copy) return TRM_MEMORY;
    trm_free(*out);
    *out = copy;
    return TRM_OK;
}

static trm_status take_files(const trm_job_key *k, const trm_yaml_node *n, void *base) {
    int files = count_of(n), *count = (int *)((char *)base + k->count_at);
    if (n->kind == TRM_YAML_MAP || (files == 0 && k->flags & TRM_KEY_SOME)) return refuse(k, n);
    for (int i = 0; i < files; i++)
        if (!text_is_sound(k, entry(n, i))) return refuse(k, entry(n, i));
    trm_job_value_free(k, base);
    char **list = trm_alloc_array((size_t)files + 1, sizeof *list, "file names");
    if (!list) return TRM_MEMORY;
    *(char ***)((char *)base + k->at) = list;
    for (int i = 0; i < files; i++) {
        if (!(list[i] = trm_strdup(entry(n, i)->text))) return TRM_MEMORY;
        *count = i + 1;
    }
    return TRM_OK;
}

static trm_status take_floats(const trm_job_key *k, const trm_yaml_node *n, double **out, int *count) {
    int numbers = count_of(n);
    if (k->names && is_text(n) && !strcmp(n->text, k->names[0])) {
        *count = -1;
        return TRM_OK;
    }
    if (numbers == 0) return refuse(k, n);
    double *list = trm_alloc_array((size_t)numbers, sizeof *list, "numbers of the job file");
    if (!list) return TRM_MEMORY;
    trm_free(*out);
    *out = list;
    *count = numbers;
    for (int i = 0; i < numbers; i++)
        if (!read_float(k, entry(n, i), &list[i])) return refuse(k, entry(n, i));
    return TRM_OK;
}

#define MOST_CLASS 1000000000

/* Entry i of {from: to, ...} or [from, ...]. */
static bool read_label(const trm_yaml_node *n, int i, trm_label *out) {
    const trm_yaml_node *v = n->kind == TRM_YAML_MAP ? n->pair[i].value : n->item[i];
    int64_t number;
    if (!is_text(v) || v->quoted || !trm_parse_int(v->text, &number)) return false;
    *out = (trm_label){number, i};
    if (n->kind == TRM_YAML_LIST) return true;
    out->to = number;
    return trm_parse_int(n->pair[i].key, &out->from) && number >= 0 && number <= MOST_CLASS;
}

static int compare_labels(const void *a, const void *b) {
    const trm_label *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

static bool read_labels(const trm_yaml_node *n, trm_label *list) {
    for (int i = 0; i < n->n; i++)
        if (!read_label(n, i, &list[i])) return false;
    qsort(list, (size_t)n->n, sizeof *list, compare_labels);
    for (int i = 1; i < n->n; i++)
        if (list[i - 1].from == list[i].from) return false;
    return true;
}

static trm_status take_labels(const trm_job_key *k, const trm_yaml_node *n, trm_label **out, int *count) {
    if (n->kind == TRM_YAML_TEXT || n->n == 0) return refuse(k, n);
    trm_label *list = trm_alloc_array((size_t)n->n, sizeof *list, "a map of labels");
    if (!list) return TRM_MEMORY;
    trm_free(*out);
    *out = list;
    *count = n->n;
    return read_labels(n, list) ? TRM_OK : refuse(k, n);
}

static trm_status take_choice(const trm_job_key *k, const trm_yaml_node *n, void *at) {
    int i = choice_of(k, n);
    if (i < 0) return refuse(k, n);
    if (k->kind == TRM_KEY_CHOICE_TEXT) return take_text(n->text, at);
    if (k->kind == TRM_KEY_CHOICE_BOOL)
        *(bool *)at = i == 1;
    else
        *(int *)at = i;
    return TRM_OK;
}

static bool read_int32(const trm_job_key *k, const trm_yaml_node *n, int *out) {
    int64_t v;
    if (!read_int(k, n, &v) || v > INT32_MAX) return false;
    *out = (int)v;
    return true;
}

static bool read_float2(const trm_job_key *k, const trm_yaml_node *n, double *out) {
    return n->kind == TRM_YAML_LIST && n->n == 2 && read_float(k, n->item[0], &out[0]) &&
           read_float(k, n->item[1], &out[1]);
}

/* Kinds that own nothing. */
static bool read_plain(const trm_job_key *k, const trm_yaml_node *n, void *at, void *count) {
    switch (k->kind) {
    case TRM_KEY_INT: return read_int(k, n, at);
    case TRM_KEY_INT32: return read_int32(k, n, at);
    case TRM_KEY_FLOAT: return read_float(k, n, at);
    case TRM_KEY_FLOAT2: return read_float2(k, n, at);
    case TRM_KEY_BOOL: return read_bool(n, at);
    case TRM_KEY_INTS: return read_ints(k, n, 8, at, count);
    case TRM_KEY_PAIR: return read_pair(k, n, at);
    case TRM_KEY_SIZES: return read_sizes(k, n, at);
    case TRM_KEY_SHAPE: return read_shape(k, n, at);
    case TRM_KEY_ROWS: return read_rows(n, at);
    case TRM_KEY_EVERY: return read_every(k, n, at);
    case TRM_KEY_BYTES: return read_bytes(n, at);
    case TRM_KEY_OR_WORD: return read_or_word(k, n, at);
    /* Which of the two it has to be is checked when the preset is known. */
    case TRM_KEY_LAYERS: return n->kind == TRM_YAML_LIST || read_int(k, n, at);
    default: return false;
    }
}

trm_status trm_job_value_read(const trm_job_key *k, const trm_yaml_node *n, void *base) {
    void *at = (char *)base + k->at, *count = (char *)base + k->count_at;
    switch (k->kind) {
    case TRM_KEY_TEXT: return text_is_sound(k, n) ? take_text(n->text, at) : refuse(k, n);
    case TRM_KEY_CHOICE:
    case TRM_KEY_CHOICE_BOOL:
    case TRM_KEY_CHOICE_TEXT: return take_choice(k, n, at);
    case TRM_KEY_FILES: return take_files(k, n, base);
    case TRM_KEY_FLOATS: return take_floats(k, n, at, count);
    case TRM_KEY_TRANSFORMS: return trm_job_transforms_read(k, n, base);
    case TRM_KEY_LABELS: return take_labels(k, n, at, count);
    default: return read_plain(k, n, at, count) ? TRM_OK : refuse(k, n);
    }
}

trm_status trm_job_value_default(const trm_job_key *k, const char *text, void *base) {
    trm_yaml *y = NULL;
    TRM_TRY(trm_yaml_parse("default", text, strlen(text), &y));
    trm_status status = trm_job_value_read(k, y->root, base);
    trm_yaml_free(y);
    return status == TRM_JOB ? trm_prefix(TRM_INTERNAL, "the table of keys") : status;
}

void trm_job_value_free(const trm_job_key *k, void *base) {
    void *at = (char *)base + k->at;
    if (k->kind == TRM_KEY_FILES) {
        int *count = (int *)((char *)base + k->count_at);
        for (int i = 0; i < *count; i++) trm_free((*(char ***)at)[i]);
        *count = 0;
    }
    if (k->kind == TRM_KEY_FILES || k->kind == TRM_KEY_FLOATS || k->kind == TRM_KEY_TEXT ||
        k->kind == TRM_KEY_CHOICE_TEXT || k->kind == TRM_KEY_TRANSFORMS || k->kind == TRM_KEY_LABELS) {
        trm_free(*(void **)at);
        *(void **)at = NULL;
    }
}

/* ---- writing ---- */

static void write_every(const trm_every *e, trm_str *out) {
    const char *unit = e->unit == TRM_UNIT_EPOCHS ? "epoch" : "update";
    if (e->unit == TRM_UNIT_NEVER)
        trm_str_add(out, "never");
    else if (e->unit == TRM_UNIT_EPOCHS && e->n == 1)
        trm_str_add(out, "epoch");
    else
        trm_str_add(out, "\"%lld %s%s\"", (long long)e->n, unit, e->n == 1 ? "" : "s");
}

static void write_rows(const int64_t rows[2], trm_str *out) {
    trm_str_add(out, "\"%lld:", (long long)rows[0]);
    if (rows[1]) trm_str_add(out, "%lld", (long long)(rows[0] + rows[1]));
    trm_str_add(out, "\"");
}

static void write_ints(const int64_t *v, int n, trm_str *out) {
    trm_str_add(out, "[");
    for (int i = 0; i < n; i++) trm_str_add(out, i ? ", %lld" : "%lld", (long long)v[i]);
    trm_str_add(out, "]");
}

static void write_floats(const double *v, int n, trm_str *out) {
    char buf[32];
    trm_str_add(out, "[");
    for (int i = 0; i < n; i++) trm_str_add(out, i ? ", %s" : "%s", trm_job_number(v[i], buf));
    trm_str_add(out, "]");
}

static void write_labels(const trm_label *v, int n, trm_str *out) {
    trm_str_add(out, "{");
    for (int i = 0; i < n; i++)
        trm_str_add(out, i ? ", %lld: %lld" : "%lld: %lld", (long long)v[i].from, (long long)v[i].to);
    trm_str_add(out, "}");
}

static void write_files(char *const *files, int n, trm_str *out) {
    trm_str_add(out, "[");
    for (int i = 0; i < n; i++) {
        if (i) trm_str_add(out, ", ");
        trm_yaml_write_text(files[i], false, out);
    }
    trm_str_add(out, "]");
}

void trm_job_value_write(const trm_job_key *k, const void *base, trm_str *out) {
    const void *at = (const char *)base + k->at;
    const int *count = (const int *)((const char *)base + k->count_at);
    char buf[32];
    switch (k->kind) {
    case TRM_KEY_OR_WORD:
        if (*(const int64_t *)at < 0)
            trm_str_add(out, "%s", k->names[0]);
        else
            trm_str_add(out, "%lld", (long long)*(const int64_t *)at);
        break;
    case TRM_KEY_LAYERS:
    case TRM_KEY_BYTES:
    case TRM_KEY_INT: trm_str_add(out, "%lld", (long long)*(const int64_t *)at); break;
    case TRM_KEY_INT32: trm_str_add(out, "%d", *(const int *)at); break;
    case TRM_KEY_FLOAT: trm_str_add(out, "%s", trm_job_number(*(const double *)at, buf)); break;
    case TRM_KEY_FLOAT2: write_floats(at, 2, out); break;
    case TRM_KEY_BOOL: trm_str_add(out, *(const bool *)at ? "true" : "false"); break;
    case TRM_KEY_CHOICE: trm_str_add(out, "%s", k->names[*(const int *)at]); break;
    case TRM_KEY_CHOICE_BOOL: trm_str_add(out, "%s", k->names[*(const bool *)at]); break;
    case TRM_KEY_TEXT:
    case TRM_KEY_CHOICE_TEXT: trm_yaml_write_text(*(char *const *)at, false, out); break;
    case TRM_KEY_FILES: write_files(*(char **const *)at, *count, out); break;
    case TRM_KEY_FLOATS:
        if (*count < 0)
            trm_str_add(out, "%s", k->names[0]);
        else
            write_floats(*(double *const *)at, *count, out);
        break;
    case TRM_KEY_INTS: write_ints(at, *count, out); break;
    case TRM_KEY_PAIR: write_ints(at, 2, out); break;
    case TRM_KEY_SIZES: write_ints(((const trm_sizes *)at)->at, ((const trm_sizes *)at)->n, out); break;
    case TRM_KEY_SHAPE: write_ints(((const trm_shape *)at)->dim, ((const trm_shape *)at)->rank, out); break;
    case TRM_KEY_ROWS: write_rows(at, out); break;
    case TRM_KEY_EVERY: write_every(at, out); break;
    case TRM_KEY_LABELS: write_labels(*(trm_label *const *)at, *count, out); break;
    case TRM_KEY_TRANSFORMS: trm_job_transforms_write(*(trm_transform *const *)at, *count, out); break;
    }
}
