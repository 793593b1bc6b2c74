/* view_units: which files and groups samples come from, in the order of the job and of names. */
#include "view_impl.h"
#include <fnmatch.h>
#include <string.h>
#include <unistd.h>

#define MOST_UNITS 10000000
#define LIST_LIMIT (256 * TRM_MIB)

/* ---- files ---- */

static trm_status add_file(trm_dataset *d, const char *path, int *out) {
    size_t n = (size_t)d->n_files, cap = n < 8 ? 8 : 2 * n;
    if (d->n_files >= d->cap_files) {
        trm_data_file *more = trm_realloc(d->file, n * sizeof *more, cap * sizeof *more, "a list of files");
        if (!more) return TRM_MEMORY;
        d->file = more;
        d->cap_files = (int)cap;
    }
    d->file[n] = (trm_data_file){.path = trm_strdup(path)};
    if (!d->file[n].path) return TRM_MEMORY;
    *out = d->n_files++;
    return TRM_OK;
}

trm_status trm_view_begin(trm_dataset *d, int file, trm_h5 **out) {
    trm_data_file *to = &d->file[file];
    TRM_TRY(trm_h5_begin(to->path, false, out));
    trm_h5_allow(*out, d->allow);
    to->size = trm_h5_size(*out);
    to->changed = trm_h5_probe(*out)->changed;
    return TRM_OK;
}

trm_status trm_view_file(trm_dataset *d, const trm_data_spec *spec, const char *name, int *out) {
    trm_str there = {0};
    const char *path = name;
    if (name[0] != '/' && access(name, F_OK) != 0 && spec->view.folder) {
        trm_str_add(&there, "%s%s", spec->view.folder, name);
        if (there.failed) return TRM_MEMORY;
        if (access(there.p, F_OK) == 0) path = there.p;
    }
    trm_status s = TRM_OK;
    *out = -1;
    for (int i = 0; i < d->n_files && *out < 0; i++)
        if (strcmp(d->file[i].path, path) == 0) *out = i;
    if (*out < 0) s = add_file(d, path, out);
    trm_str_free(&there);
    return s;
}

/* ---- units ---- */

typedef struct finding {
    trm_dataset *d;
    const trm_data_spec *spec;
    struct trm_view *v;
    int file;
    trm_h5 *f;
    trm_str listed; /* names of the group list, each between newlines */
    bool has_list;
    trm_status status;
} finding;

static trm_status add_unit(finding *x, const char *group) {
    struct trm_view *v = x->v;
    while (*group == '/') group++;
    if (v->n_units == MOST_UNITS) return trm_fail(TRM_DATA, "more than %d groups", MOST_UNITS);
    if (v->n_units == v->cap_units) {
        int cap = v->cap_units ? 2 * v->cap_units : 16;
        void *more = trm_realloc(v->unit, (size_t)v->n_units * sizeof *v->unit, (size_t)cap * sizeof *v->unit,
                                 "a list of groups");
        if (!more) return TRM_MEMORY;
        v->unit = more;
        v->cap_units = cap;
    }
    v->unit[v->n_units] = (trm_view_unit){.file = x->file, .group = trm_strdup(group)};
    return v->unit[v->n_units++].group ? TRM_OK : TRM_MEMORY;
}

/* Is "\nNAME\n" in the list? */
static bool is_listed(const trm_str *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list->p; at && (at = strstr(at, name)); at++)
        if (at > list->p && at[-1] == '\n' && at[n] == '\n') return true;
    return false;
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool wanted(const finding *x, const char *group) {
    return !x->has_list || is_listed(&x->listed, last_part(group)) || is_listed(&x->listed, group);
}

/* Groups below `at` that fit what is left of the pattern. */
static void expand(finding *x, const char *at, const char *pattern);

typedef struct level {
    finding *x;
    const char *at, *pattern, *rest;
    size_t n;
} level;

static bool see_group(void *ctx, const char *name, trm_h5_kind kind) {
    level *l = ctx;
    char part[256], path[512];
    if (kind != TRM_H5_GROUP || l->n >= sizeof part) return true;
    snprintf(part, sizeof part, "%.*s", (int)l->n, l->pattern);
    if (fnmatch(part, name, 0) != 0) return true;
    snprintf(path, sizeof path, "%s%s%s", l->at, l->at[0] ? "/" : "", name);
    expand(l->x, path, l->rest);
    return l->x->status == TRM_OK;
}

static void expand(finding *x, const char *at, const char *pattern) {
    while (*pattern == '/') pattern++;
    if (x->status != TRM_OK) return;
    if (*pattern == '\0') {
        if (wanted(x, at)) x->status = add_unit(x, at);
        return;
    }
    level l = {x, at, pattern, NULL, strcspn(pattern, "/")};
    l.rest = pattern + l.n;
    if (memchr(pattern, '*', l.n) || memchr(pattern, '?', l.n) || memchr(pattern, '[', l.n)) {
        trm_status s = trm_h5_children(x->f, at, see_group, &l);
        if (x->status == TRM_OK) x->status = s;
        return;
    }
    char path[512];
    trm_h5_found found;
    snprintf(path, sizeof path, "%s%s%.*s", at, at[0] ? "/" : "", (int)l.n, pattern);
    x->status = trm_h5_look(x->f, path, &found);
    if (x->status == TRM_OK && found.kind == TRM_H5_GROUP) expand(x, path, l.rest);
}

/* ---- the list of groups ---- */

static bool keep_name(void *ctx, const char *name) {
    finding *x = ctx;
    while (*name == '/') name++;
    trm_str_add(&x->listed, "%s\n", name);
    return !x->listed.failed;
}

static trm_status read_group_list(finding *x) {
    char *name = NULL;
    TRM_TRY(trm_judge_look(x->f, "train_groups", x->spec->view.group_list, NULL, NULL, &name));
    trm_str_free(&x->listed);
    x->listed = (trm_str){0};
    x->has_list = true;
    trm_str_add(&x->listed, "\n");
    trm_status s = trm_h5_texts(x->f, name, keep_name, x);
    trm_free(name);
    return s == TRM_OK && x->listed.failed ? TRM_MEMORY : s;
}

static trm_status groups_of_file(finding *x) {
    const trm_data_view *w = &x->spec->view;
    int before = x->v->n_units;
    const char *pattern = w->groups ? w->groups : "/*";
    if (w->group_list) TRM_TRY(read_group_list(x));
    expand(x, "", pattern);
    TRM_TRY(x->status);
    if (x->v->n_units > before) return TRM_OK;
    trm_status s = trm_fail(TRM_DATA, "%s: no group fits '%s'%s%s", trm_h5_path(x->f), pattern,
                            w->group_list ? " and is listed in " : "", w->group_list ? w->group_list : "");
    trm_hint("`data.groups` is a pattern of groups, part by part: \"/data/*\"; `trireme data info FILE` "
             "shows them");
    return s;
}

static trm_status units_of_file(finding *x) {
    const trm_data_view *w = &x->spec->view;
    bool groups = w->groups || w->sample == TRM_SAMPLE_GROUP;
    TRM_TRY(trm_view_begin(x->d, x->file, &x->f));
    trm_status s = groups ? groups_of_file(x) : add_unit(x, "");
    (void)!trm_h5_end(x->f);
    x->f = NULL;
    return s;
}

/* ---- sample lists of LBANN: "FILE INCLUDED EXCLUDED NAME..." behind three lines of head ---- */

typedef struct lbann {
    const char *path;
    bool exclusive;
    char folder[1024];
    int line;
} lbann;

static char *next_line(char **at) {
    char *line = *at;
    if (!line || *line == '\0') return NULL;
    char *end = strchr(line, '\n');
    *at = end ? end + 1 : NULL;
    if (end) *end = '\0';
    size_t n = strlen(line);
    if (n > 0 && line[n - 1] == '\r') line[n - 1] = '\0';
    return line;
}

static char *next_word(char **at) {
    char *word = *at + strspn(*at, " \t");
    char *end = word + strcspn(word, " \t");
    *at = *end ? end + 1 : end;
    *end = '\0';
    return *word ? word : NULL;
}

static trm_status lbann_head(lbann *l, char **at) {
    const char *kind = next_line(at), *counts = next_line(at), *folder = next_line(at);
    bool known =
        kind && (strcmp(kind, "CONDUIT_HDF5_EXCLUSION") == 0 || strcmp(kind, "CONDUIT_HDF5_INCLUSION") == 0);
    if (!known || !counts || !folder)
        return trm_fail(
            TRM_DATA,
            "%s line 1: a sample list begins with CONDUIT_HDF5_INCLUSION or CONDUIT_HDF5_EXCLUSION, "
            "a line of counts and the folder of the files",
            l->path);
    l->exclusive = strcmp(kind, "CONDUIT_HDF5_EXCLUSION") == 0;
    /* As it says, or from the folder of the list. */
    const char *slash = strrchr(l->path, '/');
    if (folder[0] == '/' || access(folder, F_OK) == 0 || !slash)
        snprintf(l->folder, sizeof l->folder, "%s%s", folder, *folder ? "/" : "");
    else
        snprintf(l->folder, sizeof l->folder, "%.*s%s/", (int)(slash + 1 - l->path), l->path, folder);
    l->line = 3;
    return TRM_OK;
}

/* The names of a line become units, or all of the groups beside them but those. */
static trm_status lbann_names(finding *x, const lbann *l, const char *names, int n_names, int64_t claimed) {
    trm_data_spec spec = *x->spec;
    char pattern[512] = "";
    if (!l->exclusive) {
        for (const char *at = names; n_names > 0; n_names--, at += strlen(at) + 1) TRM_TRY(add_unit(x, at));
        return TRM_OK;
    }
    int before = x->v->n_units, kept = before;
    snprintf(pattern, sizeof pattern, "%s", n_names > 0 ? names : "/*");
    char *slash = strrchr(pattern, '/');
    snprintf(slash ? slash + 1 : pattern,
             slash ? sizeof pattern - (size_t)(slash + 1 - pattern) : sizeof pattern, "*");
    if (!spec.view.groups) spec.view.groups = pattern;
    const trm_data_spec *was = x->spec;
    x->spec = &spec;
    trm_status s = units_of_file(x);
    x->spec = was;
    TRM_TRY(s);
    for (int i = before; i < x->v->n_units; i++) {
        const char *at = names;
        bool out = false;
        for (int k = 0; k < n_names && !out; k++, at += strlen(at) + 1)
            out = strcmp(at + (*at == '/'), x->v->unit[i].group) == 0;
        if (out)
            trm_free(x->v->unit[i].group);
        else
            x->v->unit[kept++] = x->v->unit[i];
    }
    x->v->n_units = kept;
    if (kept - before == claimed) return TRM_OK;
    return trm_fail(TRM_DATA, "%s line %d: %lld samples are said to be used, %d are left in %s", l->path,
                    l->line, (long long)claimed, kept - before, x->d->file[x->file].path);
}

static trm_status lbann_line(finding *x, const lbann *l, char *line) {
    int64_t in = 0, out = 0;
    const char *file = next_word(&line), *a = next_word(&line), *b = next_word(&line), *name;
    trm_str names = {0};
    int n = 0;
    if (!file) return TRM_OK;
    while ((name = next_word(&line))) {
        trm_str_addn(&names, name, strlen(name) + 1);
        n++;
    }
    trm_str path = {0};
    trm_str_add(&path, "%s%s", file[0] == '/' ? "" : l->folder, file);
    trm_status s = names.failed || path.failed ? TRM_MEMORY : TRM_OK;
    bool good = a && b && trm_parse_int(a, &in) && trm_parse_int(b, &out) && n == (l->exclusive ? out : in);
    if (s == TRM_OK && !good)
        s = trm_fail(TRM_DATA,
                     "%s line %d: FILE INCLUDED EXCLUDED NAMES expected, with as many names as are %s",
                     l->path, l->line, l->exclusive ? "excluded" : "included");
    if (s == TRM_OK) s = add_file(x->d, path.p, &x->file);
    if (s == TRM_OK && !l->exclusive) {
        trm_h5 *f = NULL;
        s = trm_view_begin(x->d, x->file, &f);
        (void)!trm_h5_end(f);
    }
    if (s == TRM_OK) s = lbann_names(x, l, trm_str_get(&names), n, in);
    trm_str_free(&path);
    trm_str_free(&names);
    return s;
}

static trm_status add_lbann(finding *x, const char *path) {
    char *text = NULL, *at, *line;
    size_t n;
    int before = x->v->n_units;
    lbann l = {.path = path};
    if (access(path, F_OK) != 0) return trm_fail(TRM_DATA, "%s: no such file", path);
    TRM_TRY(trm_read_file(path, LIST_LIMIT, &text, &n));
    at = text;
    trm_status s = lbann_head(&l, &at);
    while (s == TRM_OK && (line = next_line(&at))) {
        l.line++;
        s = lbann_line(x, &l, line);
    }
    trm_free(text);
    if (s == TRM_OK && x->v->n_units == before) s = trm_fail(TRM_DATA, "%s: no samples listed", path);
    return s;
}

/* ---- all ---- */

static trm_status add_paths(finding *x, const char *const *names, int n) {
    trm_paths paths = {0};
    TRM_TRY(trm_paths_expand(names, n, &paths));
    trm_status s = TRM_OK;
    for (int i = 0; i < paths.n && s == TRM_OK; i++) {
        s = add_file(x->d, paths.at[i].path, &x->file);
        if (s == TRM_OK) s = units_of_file(x);
        if (s != TRM_OK && paths.at[i].origin) s = trm_prefix(s, "%s", paths.at[i].origin);
    }
    trm_paths_free(&paths);
    return s;
}

trm_status trm_view_units(trm_dataset *d, const trm_data_spec *spec, bool x_plain, struct trm_view *v) {
    finding x = {.d = d, .spec = spec, .v = v};
    trm_status s = TRM_OK;
    if (x_plain) {
        for (x.file = 0; x.file < d->n_files && s == TRM_OK; x.file++) s = add_unit(&x, "");
        return s;
    }
    for (int i = 0; i < spec->n_files && s == TRM_OK; i++) {
        bool list = strncmp(spec->files[i], "lbann:", 6) == 0;
        s = list ? add_lbann(&x, spec->files[i] + 6) : add_paths(&x, &spec->files[i], 1);
    }
    trm_str_free(&x.listed);
    return s;
}
