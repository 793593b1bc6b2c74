/* view_path: the paths of a job file: "[csr:|whole:][FILE#]PATH[.member][columns]". */
#include "view_impl.h"
#include <string.h>

#define MOST_COLUMNS 1000000

static trm_status copy_part(const char *from, size_t n, char **out) {
    char *p = trm_alloc(n + 1, "a path");
    if (!p) return TRM_MEMORY;
    memcpy(p, from, n);
    *out = p;
    return TRM_OK;
}

trm_status trm_view_path_read(const char *text, trm_view_path *out) {
    *out = (trm_view_path){0};
    const char *at = text;
    for (;; at = strchr(at, ':') + 1) {
        if (strncmp(at, "csr:", 4) == 0)
            out->csr = true;
        else if (strncmp(at, "whole:", 6) == 0)
            out->whole = true;
        else
            break;
    }
    const char *mark = strchr(at, '#');
    if (mark && mark > at) TRM_TRY(copy_part(at, (size_t)(mark - at), &out->file));
    if (mark) at = mark + 1;
    size_t n = strlen(at);
    const char *open = n > 0 && at[n - 1] == ']' ? strrchr(at, '[') : NULL;
    if (open) {
        TRM_TRY(copy_part(open + 1, (size_t)(at + n - 1 - open - 1), &out->columns));
        n = (size_t)(open - at);
    }
    return copy_part(at, n, &out->set);
}

void trm_view_path_free(trm_view_path *p) {
    trm_free(p->file);
    trm_free(p->set);
    trm_free(p->member);
    trm_free(p->columns);
    *p = (trm_view_path){0};
}

/* ---- columns ---- */

/* A number up to one of the marks; false where there is none. */
static bool take_number(const char **at, int64_t *out) {
    char text[24];
    size_t n = strspn(*at, "-0123456789");
    if (n == 0 || n >= sizeof text) return false;
    memcpy(text, *at, n);
    text[n] = '\0';
    *at += n;
    return trm_parse_int(text, out);
}

/* "a", "a:b", "a:", ":b" of an axis of n, as Python counts them. */
static bool take_range(const char **at, int64_t n, int64_t *from, int64_t *to) {
    bool has_from = take_number(at, from);
    if (!has_from) *from = 0;
    if (**at == ':') {
        (*at)++;
        if (!take_number(at, to)) *to = n;
        if (*to < 0) *to += n;
    } else if (!has_from) {
        return false;
    } else {
        *to = *from < 0 ? *from + n + 1 : *from + 1;
    }
    if (*from < 0) *from += n;
    return *from >= 0 && *from < *to && *to <= n;
}

static trm_status add_range(int64_t from, int64_t to, int64_t **pick, int *n_pick) {
    size_t more = (size_t)(to - from), had = (size_t)*n_pick;
    int64_t *p = trm_realloc(*pick, had * sizeof *p, (had + more) * sizeof *p, "columns");
    if (!p) return TRM_MEMORY;
    for (size_t i = 0; i < more; i++) p[had + i] = from + (int64_t)i;
    *pick = p;
    *n_pick = (int)(had + more);
    return TRM_OK;
}

trm_status trm_view_columns(const char *key, const char *columns, int64_t n, int64_t **pick, int *n_pick) {
    const char *at = columns;
    bool good = true, more = true;
    while (good && more) {
        int64_t from = 0, to = 0;
        while (*at == ' ') at++;
        good = take_range(&at, n, &from, &to) && to - from <= MOST_COLUMNS - *n_pick;
        if (good) TRM_TRY(add_range(from, to, pick, n_pick));
        while (*at == ' ') at++;
        more = *at == ',';
        at += more;
    }
    if (good && *at == '\0') return TRM_OK;
    trm_status s = trm_fail(TRM_DATA, "data.%s: columns [%s] do not fit the %lld that there are", key,
                            columns, (long long)n);
    trm_hint("columns are counted from 0, or from the end with a minus: [0:14], [3], [-5:-1,20]");
    return s;
}
