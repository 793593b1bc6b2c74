/* record: one JSON object a line.  Written by hand, so that a record of each update costs no
 * allocation once its text has grown to size, and numbers do not depend on the locale. */
#include <locale.h>
#include <math.h>
#include <string.h>
#include <trireme/wire.h>

/* ---- strings ---- */

static int continuation(const unsigned char *s, int n) {
    for (int i = 1; i <= n; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    return n + 1;
}

/* Bytes of the UTF-8 character at s (NUL-terminated); 0 where it is none: over-long forms,
 * surrogates and what lies beyond U+10FFFF are none. */
static int utf8_length(const unsigned char *s) {
    if (s[0] < 0x80) return 1;
    if (s[0] >= 0xC2 && s[0] <= 0xDF) return continuation(s, 1);
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0;
    if (s[0] == 0xED && s[1] > 0x9F) return 0;
    if (s[0] >= 0xE0 && s[0] <= 0xEF) return continuation(s, 2);
    if (s[0] == 0xF0 && s[1] < 0x90) return 0;
    if (s[0] == 0xF4 && s[1] > 0x8F) return 0;
    if (s[0] >= 0xF0 && s[0] <= 0xF4) return continuation(s, 3);
    return 0;
}

/* File and host names may hold any bytes; what JSON does not allow is escaped or replaced. */
static void add_string(trm_str *t, const char *text) {
    trm_str_addn(t, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = utf8_length(s);
        if (n == 0)
            trm_str_add(t, "\xEF\xBF\xBD");
        else if (*s == '"' || *s == '\\')
            trm_str_add(t, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7F)
            trm_str_add(t, "\\u%04x", *s);
        else
            trm_str_addn(t, (const char *)s, (size_t)n);
        s += n ? n : 1;
    }
    trm_str_addn(t, "\"", 1);
}

/* ---- numbers ---- */

/* As the "C" locale writes it; the process's own may use a comma. */
static void write_digits(double v, int digits, char text[40]) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = c ? uselocale(c) : (locale_t)0;
    snprintf(text, 40, "%.*g", digits, v);
    if (!c) return;
    uselocale(before);
    freelocale(c);
}

/* %.15g drops trailing zeros, so a number of up to 15 digits comes out as short as it can be;
 * the others need 16 or 17. */
static void add_number(trm_str *t, double v) {
    char text[40];
    double back;
    for (int digits = 15; digits <= 17; digits++) {
        write_digits(v, digits, text);
        if (trm_parse_double(text, &back) && back == v) break;
    }
    trm_str_add(t, "%s", text);
}

/* ---- the record ---- */

static void add_key(trm_record *r, const char *key) {
    if (!r->first) trm_str_addn(&r->text, ",", 1);
    r->first = false;
    if (!key) return;
    add_string(&r->text, key);
    trm_str_addn(&r->text, ":", 1);
}

void trm_record_begin(trm_record *r, const char *kind) {
    r->text.len = 0;
    r->text.failed = false;
    r->first = true;
    r->depth = 1;
    trm_str_addn(&r->text, "{", 1);
    trm_record_str(r, "kind", kind);
    trm_record_int(r, "v", 1);
}

void trm_record_int(trm_record *r, const char *key, int64_t v) {
    add_key(r, key);
    trm_str_add(&r->text, "%lld", (long long)v);
}

void trm_record_num(trm_record *r, const char *key, double v) {
    add_key(r, key);
    if (isfinite(v))
        add_number(&r->text, v);
    else
        trm_str_addn(&r->text, "null", 4);
}

void trm_record_str(trm_record *r, const char *key, const char *v) {
    add_key(r, key);
    add_string(&r->text, v);
}

void trm_record_bool(trm_record *r, const char *key, bool v) {
    add_key(r, key);
    trm_str_add(&r->text, "%s", v ? "true" : "false");
}

void trm_record_open(trm_record *r, const char *key, char bracket) {
    add_key(r, key);
    trm_str_addn(&r->text, &bracket, 1);
    r->first = true;
    r->depth++;
}

void trm_record_close(trm_record *r, char bracket) {
    trm_str_addn(&r->text, &bracket, 1);
    r->first = false;
    r->depth--;
}

const char *trm_record_end(trm_record *r) {
    trm_record_close(r, '}');
    return trm_str_get(&r->text);
}

void trm_record_free(trm_record *r) { trm_str_free(&r->text); }
