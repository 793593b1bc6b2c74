/* view_want: does a job ask for a view, and for which paths? */
#include "view_open.h"
#include <string.h>

/* ---- what a job asks for ---- */

const char *const *trm_view_paths(const trm_data_spec *spec, bool target, int *n) {
    const trm_data_view *w = &spec->view;
    *n = target ? w->n_target : w->n_input;
    if (*n > 0) return target ? w->target : w->input;
    const char *const *one = target ? &spec->target : &spec->input;
    *n = *one ? 1 : 0;
    return one;
}

const char *trm_spec_path(const trm_data_spec *spec, bool target) {
    int n;
    const char *const *p = trm_view_paths(spec, target, &n);
    return n > 0 ? p[0] : NULL;
}

static bool is_marked(const char *path) {
    return strpbrk(path, "#[") || strncmp(path, "csr:", 4) == 0 || strncmp(path, "whole:", 6) == 0;
}

/* A dot may belong to the name of a data set: the first file tells. */
static trm_status has_member(const trm_data_spec *spec, const char *path, bool *out) {
    trm_paths files = {0};
    trm_h5 *f = NULL;
    trm_h5_found found = {0};
    const char *slash = strrchr(path, '/');
    *out = false;
    if (!strchr(slash ? slash : path, '.')) return TRM_OK;
    TRM_TRY(trm_paths_expand(spec->files, spec->n_files, &files));
    trm_status s = trm_h5_begin(files.at[0].path, false, &f);
    if (s == TRM_OK) s = trm_h5_look(f, path, &found);
    (void)!trm_h5_end(f);
    trm_paths_free(&files);
    *out = found.kind == TRM_H5_MISSING;
    return s;
}

static trm_status wants_paths(const trm_data_spec *spec, bool target, bool *out) {
    int n;
    const char *const *path = trm_view_paths(spec, target, &n);
    *out = n > 1;
    for (int i = 0; i < n && !*out; i++) *out = is_marked(path[i]);
    return n == 1 && !*out ? has_member(spec, path[0], out) : TRM_OK;
}

static bool names_lbann(const trm_data_spec *spec) {
    for (int i = 0; i < spec->n_files; i++)
        if (strncmp(spec->files[i], "lbann:", 6) == 0) return true;
    return false;
}

/* Keys that ask for more than rows. */
static bool wants_more(const trm_data_spec *spec) {
    const trm_data_view *w = &spec->view;
    return w->sample != TRM_SAMPLE_ROWS || w->groups || w->group_list || w->split || w->axis != 0 ||
           w->lengths || w->pad || w->mask || w->complex != TRM_COMPLEX_REFUSE || w->decode || w->bf16 ||
           w->allow_virtual || w->tile.rank > 0 || (spec->hwc && spec->shape.rank == 2) || names_lbann(spec);
}

/* Opens no file: a dot is then part of a name. */
trm_status trm_view_refuse(const trm_data_spec *spec) {
    bool more = wants_more(spec);
    for (int target = 0; target < 2 && !more; target++) {
        int n;
        const char *const *path = trm_view_paths(spec, target, &n);
        more = n > 1 || (n == 1 && is_marked(path[0]));
    }
    if (!more) return TRM_OK;
    trm_status s =
        trm_fail(TRM_DATA, "data.untrusted is for rows of one data set: samples that are put together "
                           "are read by the HDF5 library");
    trm_hint("`trireme data dump` writes plain rows, on a machine that has nothing to lose");
    return s;
}

trm_status trm_view_wanted(const trm_data_spec *spec, bool *x, bool *y) {
    *y = false;
    *x = wants_more(spec);
    if (!*x) TRM_TRY(wants_paths(spec, false, x));
    if (!spec->no_target) TRM_TRY(wants_paths(spec, true, y));
    *y = *y || *x;
    if (!*y || spec->window <= 0) return TRM_OK;
    trm_status s = trm_fail(
        TRM_DATA, "data.window is for tokens in rows of one data set; the other keys of data ask for "
                  "samples that are put together");
    trm_hint("windows of time are `data.sample: window` with `in_steps` and `out_steps`");
    return s;
}
