/* view_source: the paths of a job -> sources, with their members. */
#include "view_open.h"
#include <string.h>

/* ---- sources from paths ---- */

trm_status trm_view_add_source(struct trm_view *v, trm_view_source **out) {
    if (v->n_sources == TRM_VIEW_MOST_SOURCES)
        return trm_fail(TRM_DATA, "more than %d paths are joined", TRM_VIEW_MOST_SOURCES);
    if (!v->source) v->source = trm_alloc_array(TRM_VIEW_MOST_SOURCES, sizeof *v->source, "paths");
    if (!v->source) return TRM_MEMORY;
    *out = &v->source[v->n_sources++];
    (*out)->file = -1;
    return TRM_OK;
}

/* The file that a source's first data set lies in. */
trm_status trm_view_open_for(trm_view_side *x, const trm_view_source *s, const trm_view_unit *u,
                             trm_h5 **out) {
    return trm_view_begin(x->d, s->file >= 0 ? s->file : u->file, out);
}

/* Tells a member from a dot in the name. */
static trm_status settle_member(trm_h5 *f, const trm_view_unit *u, trm_view_source *s) {
    char name[512];
    trm_h5_found found;
    trm_view_set_name(s, u, name, sizeof name);
    TRM_TRY(trm_h5_look(f, name, &found));
    if (found.kind != TRM_H5_MISSING) return TRM_OK;
    char *slash = strrchr(s->path, '/'), *dot = strchr(slash ? slash : s->path, '.');
    if (!dot || dot[1] == '\0') return TRM_OK;
    *dot = '\0';
    trm_view_set_name(s, u, name, sizeof name);
    TRM_TRY(trm_h5_look(f, name, &found));
    if (found.kind == TRM_H5_DATASET) {
        s->member = trm_strdup(dot + 1);
        return s->member ? TRM_OK : TRM_MEMORY;
    }
    *dot = '.';
    return TRM_OK;
}

trm_status trm_view_no_member(trm_h5 *f, const char *name, const char *member, const char *key) {
    char **names = NULL;
    trm_str list = {0};
    TRM_TRY(trm_h5_members(f, name, &names));
    const char *near = trm_nearest(member ? member : "", (const char *const *)names);
    for (int i = 0; names[i] && i < 12; i++) trm_str_add(&list, "%s%s", i ? ", " : "", names[i]);
    trm_status s = member ? trm_fail(TRM_DATA, "%s: '%s' has no member '%s'; its members are: %s",
                                     trm_h5_path(f), name, member, trm_str_get(&list))
                          : trm_fail(TRM_DATA, "%s: '%s' is made of the members %s; one has to be named",
                                     trm_h5_path(f), name, trm_str_get(&list));
    if (names[0]) trm_hint("`data.%s: /%s.%s`", key, name, near ? near : names[0]);
    trm_str_free(&list);
    trm_free(names);
    return s;
}

static bool has_name(char *const *names, const char *name) {
    for (; *names; names++)
        if (strcmp(*names, name) == 0) return true;
    return false;
}

trm_status trm_view_check_member(trm_h5 *f, const char *name, const char *member, const char *key) {
    char **names = NULL;
    TRM_TRY(trm_h5_members(f, name, &names));
    bool there = has_name(names, member);
    trm_free(names);
    return there ? TRM_OK : trm_view_no_member(f, name, member, key);
}

/* Where no path is given, the first of the common names that the first unit has. */
static trm_status common_path(trm_view_side *x, trm_h5 *f, const trm_view_unit *u, trm_view_source *s) {
    const char *const *name = x->target && !x->same ? trm_target_names : trm_input_names;
    char full[512];
    trm_h5_found found;
    s->path = trm_strdup(name[0]);
    for (int i = 0; name[i] && s->path; i++) {
        snprintf(full, sizeof full, "%s%s%s", u->group, u->group[0] ? "/" : "", name[i]);
        TRM_TRY(trm_h5_look(f, full, &found));
        if (found.kind != TRM_H5_DATASET) continue;
        trm_free(s->path);
        s->path = trm_strdup(name[i]);
        break;
    }
    return s->path ? TRM_OK : TRM_MEMORY;
}

static trm_status source_of(trm_view_side *x, const trm_view_path *p, trm_view_source *s) {
    const trm_data_view *w = &x->spec->view;
    s->whole = p->whole || (x->target && w->sample == TRM_SAMPLE_TILE);
    if (p->csr) s->kind = TRM_SOURCE_CSR;
    if (p->file) TRM_TRY(trm_view_file(x->d, x->spec, p->file, &s->file));
    if (p->file && !s->whole && x->v->n_units > 1) {
        trm_status r =
            trm_fail(TRM_DATA, "data.%s: %s#%s is one file, but samples come from %d files or groups",
                     trm_view_key(x), p->file, p->set, x->v->n_units);
        trm_hint("a file is named in a path where `data.train` names one file too; `whole:%s#%s` gives all "
                 "of it to each "
                 "sample",
                 p->file, p->set);
        return r;
    }
    s->path = trm_strdup(p->set);
    return s->path ? TRM_OK : TRM_MEMORY;
}

trm_status trm_view_make_source(trm_view_side *x, const char *path, trm_str *columns) {
    trm_view_path p;
    trm_view_source *s;
    trm_h5 *f = NULL;
    const trm_view_unit *u = &x->v->unit[0];
    TRM_TRY(trm_view_add_source(x->v, &s));
    trm_status r = trm_view_path_read(path ? path : "", &p);
    if (r == TRM_OK) r = source_of(x, &p, s);
    if (r == TRM_OK) r = trm_view_open_for(x, s, u, &f);
    if (r == TRM_OK && s->path[0] == '\0') {
        trm_free(s->path);
        s->path = NULL;
        r = common_path(x, f, u, s);
    } else if (r == TRM_OK && s->kind == TRM_SOURCE_BOX) {
        r = settle_member(f, u, s);
    }
    (void)!trm_h5_end(f);
    trm_str_add(columns, "%s", r == TRM_OK && p.columns ? p.columns : "");
    trm_str_addn(columns, "", 1);
    trm_view_path_free(&p);
    return r == TRM_OK && columns->failed ? TRM_MEMORY : r;
}
