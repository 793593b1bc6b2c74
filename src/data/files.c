/* files: names, patterns and list files -> paths, in an order that no locale changes. */
#include "data_impl.h"
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_LIMIT (64 * TRM_MIB)
#define LONGEST_NAME 4096

void trm_paths_free(trm_paths *p) {
    for (int i = 0; i < p->n; i++) {
        trm_free(p->at[i].path);
        trm_free(p->at[i].origin);
    }
    trm_free(p->at);
    *p = (trm_paths){0};
}

static trm_status add(trm_paths *p, const char *path, const char *origin) {
    if (p->n == p->cap) {
        int cap = p->cap ? 2 * p->cap : 16;
        void *more =
            trm_realloc(p->at, (size_t)p->n * sizeof *p->at, (size_t)cap * sizeof *p->at, "a list of files");
        if (!more) return TRM_MEMORY;
        p->at = more;
        p->cap = cap;
    }
    trm_path *to = &p->at[p->n];
    *to = (trm_path){trm_strdup(path), origin ? trm_strdup(origin) : NULL};
    p->n++;
    return to->path && (to->origin || !origin) ? TRM_OK : TRM_MEMORY;
}

/* ---- patterns ---- */

static int by_bytes(const void *a, const void *b) {
    return strcmp(((const trm_path *)a)->path, ((const trm_path *)b)->path);
}

static trm_status add_pattern(trm_paths *p, const char *pattern) {
    glob_t g = {0};
    int before = p->n, r = glob(pattern, GLOB_NOSORT, NULL, &g);
    trm_status s = TRM_OK;
    if (r == GLOB_NOMATCH || (r == 0 && g.gl_pathc == 0))
        s = trm_fail(TRM_DATA, "%s: no file matches this pattern", pattern);
    else if (r != 0)
        s = trm_fail(TRM_DATA, "%s: the folder cannot be listed", pattern);
    for (size_t i = 0; s == TRM_OK && i < g.gl_pathc; i++) s = add(p, g.gl_pathv[i], NULL);
    if (s == TRM_OK) qsort(p->at + before, (size_t)(p->n - before), sizeof *p->at, by_bytes);
    globfree(&g);
    return s;
}

/* ---- lists ---- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The line's file lies in the list's folder unless its path is absolute. */
static trm_status add_line(trm_paths *p, const char *list, int number, const char *line) {
    trm_str path = {0}, origin = {0};
    if (strlen(line) >= LONGEST_NAME)
        return trm_fail(TRM_DATA, "%s line %d: the name of a file has %zu bytes; allowed are up to %d", list,
                        number, strlen(line), LONGEST_NAME - 1);
    if (*line != '/') trm_str_addn(&path, list, (size_t)(base_name(list) - list));
    trm_str_add(&path, "%s", line);
    trm_str_add(&origin, "%s line %d", list, number);
    trm_status s = path.failed || origin.failed ? TRM_MEMORY : add(p, path.p, origin.p);
    trm_str_free(&path);
    trm_str_free(&origin);
    return s;
}

/* Cuts blanks and a CR off both ends. */
static char *trim(char *line) {
    while (*line == ' ' || *line == '\t') line++;
    size_t n = strlen(line);
    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t' || line[n - 1] == '\r')) line[--n] = '\0';
    return line;
}

static trm_status read_list(const char *list, char **text) {
    int fd;
    int64_t size;
    size_t n;
    TRM_TRY(trm_open_regular(list, &fd, &size));
    close(fd);
    trm_status s = trm_read_file(list, LIST_LIMIT, text, &n);
    if (s == TRM_OK && memchr(*text, '\0', n)) {
        trm_free(*text);
        *text = NULL;
        return trm_fail(TRM_DATA, "%s: is not a list of files: it holds zero bytes", list);
    }
    return s;
}

static trm_status add_list(trm_paths *p, const char *list) {
    char *text = NULL, *next;
    int before = p->n, number = 0;
    TRM_TRY(read_list(list, &text));
    trm_status s = TRM_OK;
    for (char *line = text; line && s == TRM_OK; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        number++;
        line = trim(line);
        if (*line == '\0' || *line == '#') continue;
        if (*line == '@')
            s = trm_fail(TRM_DATA, "%s line %d: '%s': a list may not name another list", list, number, line);
        else
            s = add_line(p, list, number, line);
    }
    trm_free(text);
    if (s == TRM_OK && p->n == before) s = trm_fail(TRM_DATA, "%s: no files listed", list);
    return s;
}

/* ---- all ---- */

static trm_status add_name(trm_paths *p, const char *name) {
    if (*name == '\0') return trm_fail(TRM_DATA, "a data file has an empty name");
    if (*name == '@') return add_list(p, name + 1);
    /* A file may have a bracket in its name. */
    if (strpbrk(name, "*?[") && access(name, F_OK) != 0) return add_pattern(p, name);
    return add(p, name, NULL);
}

static int by_path(const void *a, const void *b) {
    const trm_path *const *x = a, *const *y = b;
    int c = strcmp((*x)->path, (*y)->path);
    return c ? c : (*x > *y) - (*x < *y);
}

#define MOST_TWINS 8 /* that are named */

/* Twice the same file is seldom meant, but may be. */
static trm_status warn_of_twins(const trm_paths *p) {
    const trm_path **sorted = trm_alloc_array((size_t)p->n, sizeof *sorted, "a list of files");
    if (!sorted) return TRM_MEMORY;
    for (int i = 0; i < p->n; i++) sorted[i] = &p->at[i];
    qsort(sorted, (size_t)p->n, sizeof *sorted, by_path);
    int twins = 0;
    for (int i = 1; i < p->n; i++) {
        if (strcmp(sorted[i - 1]->path, sorted[i]->path) != 0 || ++twins > MOST_TWINS) continue;
        const char *origin = sorted[i]->origin;
        trm_log(TRM_LOG_WARN, "%s%s%s is listed twice: its samples count twice", origin ? origin : "",
                origin ? ": " : "", sorted[i]->path);
    }
    if (twins > MOST_TWINS)
        trm_log(TRM_LOG_WARN, "%d more entries of the list name a file again", twins - MOST_TWINS);
    trm_free(sorted);
    return TRM_OK;
}

trm_status trm_paths_read(const char *const *names, int n, trm_paths *out) {
    trm_paths p = {0};
    trm_status s = n > 0 ? TRM_OK : trm_fail(TRM_DATA, "no data file is named");
    for (int i = 0; i < n && s == TRM_OK; i++) s = add_name(&p, names[i]);
    if (s == TRM_OK)
        *out = p;
    else
        trm_paths_free(&p);
    return s;
}

trm_status trm_paths_expand(const char *const *names, int n, trm_paths *out) {
    TRM_TRY(trm_paths_read(names, n, out));
    trm_status s = warn_of_twins(out);
    if (s != TRM_OK) trm_paths_free(out);
    return s;
}
