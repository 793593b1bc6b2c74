/* str: the growing string, nearest names, numbers for people, and strict parsers. */
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <trireme/base.h>

/* ---- growing string ---- */

/* Makes room for n more bytes and the closing NUL. */
static bool reserve(trm_str *s, size_t n) {
    size_t need;
    if (s->failed || __builtin_add_overflow(s->len, n, &need) || need == SIZE_MAX) return false;
    need++;
    if (need <= s->cap) return true;
    size_t cap = s->cap ? s->cap : 64;
    while (cap < need)
        if (!trm_mul_size(cap, 2, &cap)) return false;
    char *p = trm_realloc(s->p, s->p ? s->len + 1 : 0, cap, "a text");
    if (!p) return false;
    s->p = p;
    s->cap = cap;
    return true;
}

void trm_str_addn(trm_str *s, const char *bytes, size_t n) {
    if (!reserve(s, n)) {
        s->failed = true;
        return;
    }
    if (n > 0) memcpy(s->p + s->len, bytes, n);
    s->len += n;
    s->p[s->len] = '\0';
}

void trm_str_add(trm_str *s, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && reserve(s, (size_t)n)) {
        vsnprintf(s->p + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    } else {
        s->failed = true;
    }
    va_end(again);
}

const char *trm_str_get(const trm_str *s) { return s->p ? s->p : ""; }

void trm_str_free(trm_str *s) {
    trm_free(s->p);
    *s = (trm_str){0};
}

/* ---- nearest name ---- */

#define NAME_MAX_CHARS 63

static int lower(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c; }

static int least(int a, int b, int c) {
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* Edit distance with neighbours swapped as one edit (optimal string alignment); the case of
 * letters does not count.  Both words have at most NAME_MAX_CHARS characters. */
static int distance(const char *a, int la, const char *b, int lb) {
    int rows[3][NAME_MAX_CHARS + 1];
    int *before = rows[0], *above = rows[1], *here = rows[2];
    for (int j = 0; j <= lb; j++) above[j] = j;
    for (int i = 1; i <= la; i++) {
        here[0] = i;
        for (int j = 1; j <= lb; j++) {
            int ca = lower(a[i - 1]), cb = lower(b[j - 1]);
            here[j] = least(above[j] + 1, here[j - 1] + 1, above[j - 1] + (ca != cb));
            bool swapped = i > 1 && j > 1 && ca == lower(b[j - 2]) && lower(a[i - 2]) == cb;
            if (swapped && before[j - 2] + 1 < here[j]) here[j] = before[j - 2] + 1;
        }
        int *spare = before;
        before = above;
        above = here;
        here = spare;
    }
    return above[lb];
}

const char *trm_nearest(const char *word, const char *const *names) {
    size_t len = strlen(word);
    if (len == 0 || len > NAME_MAX_CHARS) return NULL;
    /* Near: about one edit in three characters, and never a wholly different word. */
    int limit = (int)(len + 2) / 3, best = limit + 1;
    const char *found = NULL;
    for (; *names; names++) {
        size_t n = strlen(*names);
        if (n == 0 || n > NAME_MAX_CHARS) continue;
        int d = distance(word, (int)len, *names, (int)n);
        if (d >= best || d >= (int)len || d >= (int)n) continue;
        best = d;
        found = *names;
    }
    return found;
}

/* ---- numbers for people: integer arithmetic, so that no locale changes the point ---- */

const char *trm_human_bytes(double bytes, char *buf, size_t cap) {
    static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (!(bytes >= 0) || bytes > 9e21) {
        snprintf(buf, cap, "? B");
        return buf;
    }
    if (bytes < 1023.5) {
        snprintf(buf, cap, "%d B", (int)(bytes + 0.5));
        return buf;
    }
    int u = 0;
    double v = bytes / 1024;
    for (; v >= 1023.95 && u < 5; u++) v /= 1024;
    long long tenths = (long long)(v * 10 + 0.5);
    snprintf(buf, cap, "%lld.%lld %s", tenths / 10, tenths % 10, unit[u]);
    return buf;
}

const char *trm_human_time(double seconds, char *buf, size_t cap) {
    if (!(seconds >= 0) || seconds > 1e12) {
        snprintf(buf, cap, "? s");
        return buf;
    }
    if (seconds < 0.9995e-3) {
        snprintf(buf, cap, "%d us", (int)(seconds * 1e6 + 0.5));
    } else if (seconds < 0.09995) {
        int tenths = (int)(seconds * 1e4 + 0.5);
        snprintf(buf, cap, "%d.%d ms", tenths / 10, tenths % 10);
    } else if (seconds < 0.9995) {
        snprintf(buf, cap, "%d ms", (int)(seconds * 1e3 + 0.5));
    } else if (seconds < 59.95) {
        int tenths = (int)(seconds * 10 + 0.5);
        snprintf(buf, cap, "%d.%d s", tenths / 10, tenths % 10);
    } else {
        long long s = (long long)(seconds + 0.5), m = (s + 30) / 60, h = (m + 30) / 60;
        if (s < 3600)
            snprintf(buf, cap, "%lld min %02lld s", s / 60, s % 60);
        else if (m < 48 * 60)
            snprintf(buf, cap, "%lld h %02lld min", m / 60, m % 60);
        else
            snprintf(buf, cap, "%lld d %02lld h", h / 24, h % 24);
    }
    return buf;
}

/* ---- parsers ---- */

static bool digit(char c) { return c >= '0' && c <= '9'; }

bool trm_parse_int(const char *text, int64_t *out) {
    bool minus = *text == '-';
    int64_t v = 0;
    if (*text == '-' || *text == '+') text++;
    if (!digit(*text)) return false;
    for (; digit(*text); text++) {
        int d = *text - '0';
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, minus ? -d : d, &v)) return false;
    }
    if (*text != '\0') return false;
    *out = v;
    return true;
}

/* [+-] digits [. digits] [e [+-] digits], at least one digit before the exponent. */
static bool looks_like_number(const char *t) {
    int digits = 0;
    if (*t == '-' || *t == '+') t++;
    for (; digit(*t); t++) digits++;
    if (*t == '.')
        for (t++; digit(*t); t++) digits++;
    if (digits == 0) return false;
    if (*t == 'e' || *t == 'E') {
        t++;
        if (*t == '-' || *t == '+') t++;
        if (!digit(*t)) return false;
        while (digit(*t)) t++;
    }
    return *t == '\0';
}

/* The "C" locale, kept for the life of the process: its own locale may use a comma. */
static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

static bool number_at(const char *text) {
    if (!looks_like_number(text)) return false;
    pthread_once(&c_locale_once, make_c_locale);
    return c_locale != (locale_t)0;
}

bool trm_parse_double(const char *text, double *out) {
    double v = number_at(text) ? strtod_l(text, NULL, c_locale) : NAN;
    if (!isfinite(v)) return false;
    *out = v;
    return true;
}

bool trm_parse_float(const char *text, float *out) {
    float v = number_at(text) ? strtof_l(text, NULL, c_locale) : NAN;
    if (!isfinite(v)) return false;
    *out = v;
    return true;
}

void trm_one_line(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < 0x20 || *c == 0x7F) *c = '?';
}
