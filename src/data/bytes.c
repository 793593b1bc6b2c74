/* bytes: plans as plain bytes, and back. */
#include "bytes.h"
#include <string.h>

void trm_put(trm_str *s, int64_t v) { trm_str_addn(s, (const char *)&v, sizeof v); }

/* With the zero behind it. */
void trm_put_text(trm_str *s, const char *text) {
    trm_put(s, text ? (int64_t)strlen(text) + 1 : 0);
    if (text) trm_str_addn(s, text, strlen(text) + 1);
}

void trm_get_bytes(trm_cursor *c, void *dst, size_t n) {
    if (c->bad || n > c->left) {
        c->bad = true;
        memset(dst, 0, n);
        return;
    }
    memcpy(dst, c->p, n);
    c->p += n;
    c->left -= n;
}

int64_t trm_get(trm_cursor *c) {
    int64_t v;
    trm_get_bytes(c, &v, sizeof v);
    return v;
}

int64_t trm_get_upto(trm_cursor *c, int64_t most) {
    int64_t v = trm_get(c);
    if (v >= 0 && v <= most) return v;
    c->bad = true;
    return 0;
}

int64_t trm_get_count(trm_cursor *c, size_t each) { return trm_get_upto(c, (int64_t)(c->left / each)); }

char *trm_get_text(trm_cursor *c) {
    size_t n = (size_t)trm_get_count(c, 1);
    char *text = n > 0 && !c->bad ? trm_alloc(n, "a plan") : NULL;
    if (n > 0 && !text) c->bad = true;
    if (!text) return NULL;
    trm_get_bytes(c, text, n);
    if (memchr(text, '\0', n) != text + n - 1) c->bad = true;
    text[n - 1] = '\0';
    return text;
}
