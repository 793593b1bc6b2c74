/* describe: what is in a file, and the job-file lines that would read it. */
#include "data_impl.h"
#include <string.h>

#define MOST_LINES 200

typedef struct entry {
    char *path;
    trm_h5_kind kind;
} entry;

typedef struct entries {
    entry *at;
    size_t n, cap;
    bool failed, more;
} entries;

static bool keep(void *ctx, const char *path, trm_h5_kind kind) {
    entries *e = ctx;
    if (kind == TRM_H5_GROUP) return true;
    if (e->n == MOST_LINES) {
        e->more = true;
        return false;
    }
    if (e->n == e->cap) {
        size_t cap = e->cap ? 2 * e->cap : 16;
        void *more = trm_realloc(e->at, e->n * sizeof *e->at, cap * sizeof *e->at, "a list");
        if (!more) {
            e->failed = true;
            return false;
        }
        e->at = more;
        e->cap = cap;
    }
    e->at[e->n] = (entry){trm_strdup(path), kind};
    e->failed = e->failed || !e->at[e->n].path;
    if (!e->failed) e->n++;
    return !e->failed;
}

static void filters_text(const trm_h5_facts *x, trm_str *out) {
    for (int i = 0; i < x->n_filters; i++) trm_str_add(out, ", %s", trm_filter_text(&x->filter[i]));
}

static void storage_text(const trm_h5_facts *x, trm_str *out) {
    char dims[128], size[16];
    if (x->layout == TRM_H5_VIRTUAL) {
        trm_str_add(out, "virtual");
    } else if (x->n_external > 0) {
        trm_str_add(out, "external storage in %s", x->external);
    } else if (x->layout == TRM_H5_CHUNKED) {
        trm_str_add(out, "chunks of %s", trm_dims_text(x->chunk, x->rank, 0, dims, sizeof dims));
        filters_text(x, out);
    } else {
        trm_str_add(out, x->layout == TRM_H5_COMPACT ? "compact" : "contiguous");
    }
    if (x->layout != TRM_H5_VIRTUAL)
        trm_str_add(out, ", %s", trm_human_bytes((double)x->stored, size, sizeof size));
}

static void entry_text(trm_h5 *f, const entry *e, trm_str *out) {
    static const char *const kind[] = {"?",   "", "", "data type", "damaged", "soft link", "external link",
                                       "link"};
    trm_h5_facts x;
    trm_str what = {0};
    if (e->kind != TRM_H5_DATASET) {
        trm_str_add(out, "  %-24s %s\n", e->path, kind[e->kind]);
    } else if (trm_h5_facts_of(f, e->path, &x) == TRM_OK) {
        trm_facts_text(&x, &what);
        trm_str_add(out, "  %-24s %-28s ", e->path, trm_str_get(&what));
        storage_text(&x, out);
        trm_str_add(out, "\n");
    } else {
        trm_str_add(out, "  %-24s unreadable\n", e->path);
    }
    trm_str_free(&what);
}

/* ---- the lines of a job file ---- */

typedef struct choice {
    const char *name;
    trm_h5_facts facts;
} choice;

static bool usable(trm_h5 *f, const char *name, trm_h5_facts *x) {
    return trm_h5_facts_of(f, name, x) == TRM_OK && x->cls == TRM_H5_NUMBER && x->rank > 0 && x->dim[0] > 0 &&
           x->layout != TRM_H5_VIRTUAL && x->n_external == 0;
}

static int64_t elements(const trm_h5_facts *x) {
    double n = 1;
    for (int i = 1; i < x->rank; i++) n *= (double)x->dim[i];
    return n > 1e15 ? INT64_MAX : (int64_t)n;
}

/* Input: the data set with the largest samples; target: another one as long, with the smallest. */
static void choose(trm_h5 *f, const entries *e, choice *input, choice *target) {
    trm_h5_facts x;
    for (size_t i = 0; i < e->n; i++)
        if (e->at[i].kind == TRM_H5_DATASET && usable(f, e->at[i].path, &x) &&
            (!input->name || elements(&x) > elements(&input->facts)))
            *input = (choice){e->at[i].path, x};
    for (size_t i = 0; i < e->n && input->name; i++)
        if (e->at[i].kind == TRM_H5_DATASET && e->at[i].path != input->name && usable(f, e->at[i].path, &x) &&
            x.dim[0] == input->facts.dim[0] && (!target->name || elements(&x) < elements(&target->facts)))
            *target = (choice){e->at[i].path, x};
}

/* What is more than rows of one data set has lines of its own. */
static bool other_lines(trm_h5 *f, const entries *e, trm_str *out) {
    size_t n = 0;
    char **path = trm_alloc_array(e->n + 1, sizeof *path, "a list");
    for (size_t i = 0; path && i < e->n; i++)
        if (e->at[i].kind == TRM_H5_DATASET) path[n++] = e->at[i].path;
    bool found = path && trm_advise(f, path, n, out);
    trm_free(path);
    return found;
}

static void job_lines(trm_h5 *f, const entries *e, trm_str *out) {
    choice input = {0}, target = {0};
    if (other_lines(f, e, out)) return;
    choose(f, e, &input, &target);
    if (!input.name) return;
    const trm_h5_facts *x = &input.facts;
    trm_str_add(out, "\ndata:\n  train: %s\n  input: %s\n", trm_h5_path(f), input.name);
    if (target.name) {
        trm_str_add(out, "  target: %s\n", target.name);
        if (trm_dtype_is_float(target.facts.type)) trm_str_add(out, "  target_type: float\n");
    } else if (x->rank == 1 && !trm_dtype_is_float(x->type)) {
        trm_str_add(out, "  window: 128\n");
    } else if (x->rank == 2 && !trm_dtype_is_float(x->type)) {
        trm_str_add(out, "  window: %lld\n", (long long)x->dim[1] - 1);
    }
    if (x->rank == 4 && x->dim[3] <= 4 && x->dim[1] > 4) trm_str_add(out, "  layout: hwc\n");
}

trm_status trm_h5_describe(const char *path, trm_str *out) {
    trm_h5 *f = NULL;
    entries e = {0};
    char size[16];
    TRM_TRY(trm_h5_begin(path, false, &f));
    (void)!trm_h5_list(f, "/", 16, keep, &e);
    trm_str_add(out, "%s: HDF5, %s\n", path, trm_human_bytes((double)trm_h5_size(f), size, sizeof size));
    for (size_t i = 0; i < e.n; i++) entry_text(f, &e.at[i], out);
    if (e.more) trm_str_add(out, "  ... and more\n");
    if (e.n == 0) trm_str_add(out, "  no data set\n");
    job_lines(f, &e, out);
    for (size_t i = 0; i < e.n; i++) trm_free(e.at[i].path);
    trm_free(e.at);
    trm_status s = trm_h5_end(f);
    return e.failed || out->failed ? TRM_MEMORY : s;
}
