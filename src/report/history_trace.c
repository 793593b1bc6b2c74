/* history_trace: how fast ranks were, from a table of times. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "report_impl.h"

#define TRACE_LIMIT ((size_t)1 << 30)
#define MOST_FIELDS 4096
#define FIELD_BYTES 64
#define UNITS_OF_A_RANK 64
#define MOST_TIME 1e15 /* sums of them stay far from the end of doubles */

/* One line, cut into fields. */
typedef struct row {
    const char *at[MOST_FIELDS];
    size_t len[MOST_FIELDS];
    int n;
} row;

/* Where the columns of a long table are. */
typedef struct columns {
    int worker, step, time;
} columns;

/* A time of a long table; `line` tells which one comes later. */
typedef struct entry {
    int64_t step, worker;
    double time;
} entry;

typedef struct reader {
    const char *path, *text;
    size_t bytes, at;
    int64_t line;
    row row;
    trm_history *h;
    entry *entry;
    int64_t entries, cap;
} reader;

static trm_status refuse(const reader *r, const char *what) {
    return trm_fail(TRM_DATA, "%s:%lld: %s", r->path, (long long)r->line, what);
}

/* ---- lines ---- */

/* The next line that holds anything; false: there is none. */
static bool next_line(reader *r, const char **line, size_t *n) {
    while (r->at < r->bytes) {
        const char *end = memchr(r->text + r->at, '\n', r->bytes - r->at);
        size_t stop = end ? (size_t)(end - r->text) : r->bytes;
        *line = r->text + r->at;
        *n = stop - r->at;
        if (*n > 0 && (*line)[*n - 1] == '\r') --*n;
        r->at = stop + 1;
        r->line++;
        if (*n > 0) return true;
    }
    return false;
}

static trm_status cut_line(reader *r, const char *line, size_t n) {
    row *w = &r->row;
    w->n = 0;
    for (size_t at = 0;;) {
        const char *comma = memchr(line + at, ',', n - at);
        size_t end = comma ? (size_t)(comma - line) : n;
        if (w->n == MOST_FIELDS) return refuse(r, "more than 4096 columns");
        w->at[w->n] = line + at;
        w->len[w->n++] = end - at;
        if (!comma) return TRM_OK;
        at = end + 1;
    }
}

/* "" where it is too long for a number or a name that is looked for. */
static const char *field(const row *w, int i, char buf[FIELD_BYTES]) {
    size_t n = w->len[i] < FIELD_BYTES ? w->len[i] : 0;
    const char *at = w->at[i];
    while (n > 0 && (at[0] == ' ' || at[0] == '\t')) at++, n--;
    while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t')) n--;
    memcpy(buf, at, n);
    buf[n] = '\0';
    return buf;
}

static trm_status read_time(const reader *r, int i, double *out) {
    char buf[FIELD_BYTES];
    bool read = trm_parse_double(field(&r->row, i, buf), out);
    if (read && *out > 0 && *out <= MOST_TIME) return TRM_OK;
    return trm_fail(TRM_DATA, "%s:%lld: column %d is '%s'; a time is a number above 0, at most %g", r->path,
                    (long long)r->line, i + 1, buf, MOST_TIME);
}

static trm_status read_whole(const reader *r, int i, int64_t *out) {
    char buf[FIELD_BYTES];
    bool read = trm_parse_int(field(&r->row, i, buf), out);
    return read && *out >= 0 ? TRM_OK : refuse(r, "a worker or a step is no whole number from 0");
}

/* ---- one column a rank ---- */

/* Times of equal parts become seconds of a unit. */
static trm_status add_step(reader *r, int64_t step, const double *time) {
    trm_history *h = r->h;
    TRM_TRY(trm_history_grow(h));
    h->stretch[h->n - 1] = (trm_stretch){.update = step, .updates = 1};
    for (int i = 0; i < h->ranks; i++)
        trm_speeds_at(h, h->n - 1)[i].each = time[i] / ((double)h->total / h->ranks);
    return TRM_OK;
}

static void begin(reader *r, int ranks, int64_t units) {
    trm_history_restart(r->h, ranks, units ? units : (int64_t)UNITS_OF_A_RANK * ranks);
}

static trm_status add_wide(reader *r, int64_t units, double *time) {
    if (r->h->ranks == 0) begin(r, r->row.n, units);
    if (r->row.n != r->h->ranks)
        return trm_fail(TRM_DATA, "%s:%lld: %d columns, before %d", r->path, (long long)r->line, r->row.n,
                        r->h->ranks);
    for (int i = 0; i < r->row.n; i++) TRM_TRY(read_time(r, i, &time[i]));
    return add_step(r, r->h->n + 1, time);
}

/* A first line without any number names the columns. */
static bool is_head(const row *w) {
    char buf[FIELD_BYTES];
    double v;
    for (int i = 0; i < w->n; i++)
        if (trm_parse_double(field(w, i, buf), &v)) return false;
    return true;
}

/* ---- one line a rank and step ---- */

static int column(const row *w, const char *name) {
    char buf[FIELD_BYTES];
    for (int i = 0; i < w->n; i++)
        if (!strcasecmp(field(w, i, buf), name)) return i;
    return -1;
}

/* Sets `tall` where the columns have the names of a long table, and then needs all of them. */
static trm_status find_columns(const reader *r, columns *c, bool *tall) {
    const row *w = &r->row;
    *c = (columns){column(w, "worker"), column(w, "time"), column(w, "batch_time_norm")};
    *tall = c->worker >= 0 || c->step >= 0 || c->time >= 0;
    if (!*tall || (c->worker >= 0 && c->step >= 0 && c->time >= 0)) return TRM_OK;
    trm_status s = trm_fail(TRM_DATA, "%s:%lld: no column is named %s", r->path, (long long)r->line,
                            c->worker < 0 ? "worker"
                            : c->step < 0 ? "time"
                                          : "batch_time_norm");
    trm_hint("a line a rank and step needs worker, time (the step) and batch_time_norm; a line a step needs "
             "none of them");
    return s;
}

static trm_status add_long(reader *r, const columns *c) {
    entry e;
    if (r->row.n <= c->worker || r->row.n <= c->step || r->row.n <= c->time)
        return refuse(r, "a line with too few columns");
    TRM_TRY(read_whole(r, c->worker, &e.worker));
    TRM_TRY(read_whole(r, c->step, &e.step));
    TRM_TRY(read_time(r, c->time, &e.time));
    if (e.worker >= MOST_FIELDS) return refuse(r, "a worker beyond 4095");
    if (r->h->ranks <= e.worker) r->h->ranks = (int)e.worker + 1;
    if (r->entries == r->cap) {
        int64_t cap = r->cap ? 2 * r->cap : 256;
        entry *more = trm_realloc(r->entry, (size_t)r->cap * sizeof e, (size_t)cap * sizeof e, "a trace");
        if (!more) return TRM_MEMORY;
        r->entry = more;
        r->cap = cap;
    }
    r->entry[r->entries++] = e;
    return TRM_OK;
}

static bool is_after(const entry *a, const entry *b) { return a->step > b->step; }

/* Stable, so that of two times of one worker and step the later line holds.  Traces are all but sorted. */
static void sort(entry *v, int64_t n, entry *spare) {
    if (n < 2) return;
    int64_t half = n / 2, i = 0, j = half, to = 0;
    sort(v, half, spare);
    sort(v + half, n - half, spare);
    memcpy(spare, v, (size_t)n * sizeof *v);
    while (to < n) {
        bool second = j < n && (i == half || is_after(&spare[i], &spare[j]));
        v[to++] = second ? spare[j++] : spare[i++];
    }
}

/* The times of one step, which end in front of entry `end`; 0: none is known of that worker. */
static trm_status close_step(reader *r, int64_t from, int64_t end, double *time) {
    int known = 0;
    memset(time, 0, (size_t)r->h->ranks * sizeof *time);
    for (int64_t i = from; i < end; i++) {
        known += time[r->entry[i].worker] == 0;
        time[r->entry[i].worker] = r->entry[i].time;
    }
    if (known == r->h->ranks) return add_step(r, r->entry[from].step, time);
    r->h->left_out++;
    return TRM_OK;
}

static trm_status gather_steps(reader *r, int64_t units, double *time) {
    entry *spare = trm_alloc_array((size_t)r->entries + 1, sizeof *spare, "a trace");
    if (!spare) return TRM_MEMORY;
    sort(r->entry, r->entries, spare);
    trm_free(spare);
    begin(r, r->h->ranks, units);
    for (int64_t from = 0, end; from < r->entries; from = end) {
        for (end = from + 1; end < r->entries && r->entry[end].step == r->entry[from].step;) end++;
        TRM_TRY(close_step(r, from, end, time));
    }
    return TRM_OK;
}

/* ---- the file ---- */

static trm_status read_lines(reader *r, int64_t units, double *time) {
    const char *line;
    size_t n;
    columns c = {0};
    bool tall = false;
    for (bool first = true; next_line(r, &line, &n); first = false) {
        TRM_TRY(cut_line(r, line, n));
        if (first && is_head(&r->row))
            TRM_TRY(find_columns(r, &c, &tall));
        else
            TRM_TRY(tall ? add_long(r, &c) : add_wide(r, units, time));
    }
    return tall ? gather_steps(r, units, time) : TRM_OK;
}

static trm_status check(const reader *r) {
    const trm_history *h = r->h;
    if (h->n == 0) return trm_fail(TRM_DATA, "%s holds no step that is known of all workers", r->path);
    if (h->ranks < 2)
        return trm_fail(TRM_DATA, "%s holds the times of one worker; at least 2 share work", r->path);
    for (int64_t i = 0; i < h->n; i++) h->stretch[i].left = h->n - 1 - i;
    return TRM_OK;
}

static trm_status read_text(const char *path, const char *text, size_t n, int64_t units, trm_history *h) {
    double time[MOST_FIELDS];
    reader *r = trm_alloc(sizeof *r, "a trace");
    if (!r) return TRM_MEMORY;
    /* What Windows puts in front of UTF-8. */
    const size_t mark = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    *r = (reader){.path = path, .text = text, .bytes = n, .at = mark, .h = h};
    trm_status status = read_lines(r, units, time);
    if (status == TRM_OK) status = check(r);
    trm_free(r->entry);
    trm_free(r);
    return status;
}

trm_status trm_history_trace(const char *file, int64_t units, trm_history *out) {
    char *text = NULL;
    size_t n = 0;
    *out = (trm_history){0};
    trm_status status = trm_read_file(file, TRACE_LIMIT, &text, &n);
    if (status != TRM_OK) return status == TRM_IO ? TRM_DATA : status;
    status = read_text(file, text, n, units, out);
    trm_free(text);
    if (status != TRM_OK) trm_history_free(out);
    return status;
}
