/* csv: records of fields out of a text file: quotes, doubled quotes, line ends of three kinds, a byte order mark. */
#include "make_impl.h"
#include <string.h>

#define RECORD_LIMIT (64 * TRM_MIB)
#define FIELD_LIMIT 65536

trm_status trm_csv_open(const char *path, char delimiter, trm_csv *out) {
    *out = (trm_csv){.delimiter = delimiter, .next_line = 1};
    TRM_TRY(trm_source_open(path, &out->from));
    out->buf = trm_alloc(TRM_MIB, "a text");
    if (!out->buf) return TRM_MEMORY;
    TRM_TRY(trm_source_some(&out->from, out->buf, TRM_MIB, &out->have));
    if (out->have >= 3 && memcmp(out->buf, "\xEF\xBB\xBF", 3) == 0) out->at = 3;
    if (out->have >= 2 && (!memcmp(out->buf, "\xFF\xFE", 2) || !memcmp(out->buf, "\xFE\xFF", 2)))
        return trm_fail(TRM_DATA, "%s: is text in UTF-16; expected is UTF-8 or ASCII", path);
    return TRM_OK;
}

void trm_csv_close(trm_csv *r) {
    trm_source_close(&r->from);
    trm_free(r->buf);
    trm_free(r->text);
    trm_free(r->field);
    *r = (trm_csv){0};
}

/* ---- bytes ---- */

enum { END = -1, FAULT = -2 };

static int look(trm_csv *r) {
    if (r->at == r->have) {
        r->at = 0;
        r->status = trm_source_some(&r->from, r->buf, TRM_MIB, &r->have);
        if (r->status != TRM_OK) return FAULT;
        if (r->have == 0) return END;
    }
    return (unsigned char)r->buf[r->at];
}

static trm_status fault(trm_csv *r, const char *what) {
    return trm_fail(TRM_DATA, "%s line %lld: %s", r->from.path, (long long)r->line, what);
}

static trm_status keep(trm_csv *r, char c) {
    if (r->len == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 4096;
        if (cap > RECORD_LIMIT) return fault(r, "one record is longer than 64 MiB: is a quote missing?");
        void *more = trm_realloc(r->text, r->cap, cap, "a record");
        if (!more) return TRM_MEMORY;
        r->text = more;
        r->cap = cap;
    }
    r->text[r->len++] = c;
    return TRM_OK;
}

static trm_status begin_field(trm_csv *r) {
    if (r->fields == r->cap_fields) {
        int cap = r->cap_fields ? 2 * r->cap_fields : 64;
        if (cap > FIELD_LIMIT) return fault(r, "more than 65536 fields");
        void *more = trm_realloc(r->field, (size_t)r->fields * sizeof *r->field,
                                 (size_t)cap * sizeof *r->field, "a record");
        if (!more) return TRM_MEMORY;
        r->field = more;
        r->cap_fields = cap;
    }
    r->field[r->fields++] = r->len;
    return TRM_OK;
}

/* ---- fields ---- */

/* True at the end of a record, whose line end is passed over. */
static bool at_line_end(trm_csv *r, int c) {
    if (c == END) return true;
    if (c != '\n' && c != '\r') return false;
    r->at++;
    if (c == '\r' && look(r) == '\n') r->at++;
    r->next_line++;
    return true;
}

/* Up to the closing quote. */
static trm_status quoted(trm_csv *r) {
    for (r->at++;;) {
        int c = look(r);
        if (c == FAULT) return r->status;
        if (c == END) return fault(r, "a quote that is opened here is never closed");
        r->at++;
        if (c == '\n') r->next_line++;
        if (c == '"' && look(r) != '"') return TRM_OK;
        if (c == '"') r->at++;
        if (c == '\0') return fault(r, "a zero byte; expected is text");
        TRM_TRY(keep(r, (char)c));
    }
}

/* Without the blanks at both ends. */
static trm_status plain(trm_csv *r, int c) {
    size_t begin = r->len, end = r->len;
    for (; c >= 0 && c != r->delimiter && c != '\n' && c != '\r'; r->at++, c = look(r)) {
        if (c == '\0') return fault(r, "a zero byte; expected is text");
        bool blank = c == ' ' || c == '\t';
        if (blank && r->len == begin) continue;
        TRM_TRY(keep(r, (char)c));
        if (!blank) end = r->len;
    }
    r->len = end;
    return c == FAULT ? r->status : TRM_OK;
}

static trm_status one_field(trm_csv *r) {
    TRM_TRY(begin_field(r));
    int c = look(r);
    while (c == ' ' && r->delimiter != ' ') r->at++, c = look(r);
    if (c == FAULT) return r->status;
    if (c != '"') {
        TRM_TRY(plain(r, c));
    } else {
        TRM_TRY(quoted(r));
        while (look(r) == ' ' && r->delimiter != ' ') r->at++;
        c = look(r);
        if (c >= 0 && c != r->delimiter && c != '\n' && c != '\r')
            return fault(r, "there is text behind a closing quote");
    }
    return keep(r, '\0');
}

/* Passes over lines with nothing in them. */
static int first_byte(trm_csv *r) {
    int c = look(r);
    while (c == '\n' || c == '\r') {
        (void)at_line_end(r, c);
        c = look(r);
    }
    return c;
}

trm_status trm_csv_next(trm_csv *r, bool *some) {
    int c = first_byte(r);
    r->line = r->next_line;
    r->fields = 0;
    r->len = 0;
    *some = c >= 0;
    if (c < 0) return c == FAULT ? r->status : TRM_OK;
    for (;;) {
        TRM_TRY(one_field(r));
        c = look(r);
        if (c == FAULT) return r->status;
        if (at_line_end(r, c)) return r->status;
        r->at++; /* the delimiter */
    }
}

/* ---- which delimiter ---- */

char trm_csv_guess(const trm_csv *r) {
    static const char known[] = ",;\t";
    int count[3] = {0};
    bool inside = false;
    for (size_t i = r->at; i < r->have && (inside || (r->buf[i] != '\n' && r->buf[i] != '\r')); i++) {
        const char *k = r->buf[i] ? strchr(known, r->buf[i]) : NULL;
        if (r->buf[i] == '"') inside = !inside;
        if (k && !inside) count[k - known]++;
    }
    int best = 0;
    for (int i = 1; i < 3; i++)
        if (count[i] > count[best]) best = i;
    return known[best];
}
