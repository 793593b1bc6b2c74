/* checkpoint_read: opening, verifying and reading a checkpoint.  Nothing of a damaged one is used. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_impl.h"

/* ---- opening one ---- */

static trm_status read_index(trm_ckpt *c) {
    char path[TRM_CKPT_PATH + 16], *text = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/index.json", c->path);
    TRM_TRY(trm_read_file(path, TRM_CKPT_INDEX_LIMIT, &text, &n));
    trm_status status = trm_ckpt_index_parse(text, n, path, &c->index);
    trm_free(text);
    return status;
}

static void part_path(const trm_ckpt *c, int part, char out[TRM_CKPT_PATH + 32]) {
    snprintf(out, TRM_CKPT_PATH + 32, "%s/part-%d.h5", c->path, part);
}

/* The whole file is checked before HDF5 sees it: the library trusts what a damaged file says. */
static trm_status verify_part(const trm_ckpt *c, int i) {
    char path[TRM_CKPT_PATH + 32];
    struct stat st;
    int64_t bytes = 0;
    uint64_t hash = 0;
    part_path(c, i, path);
    if (stat(path, &st) != 0) return trm_fail(TRM_DATA, "%s is missing: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return trm_fail(TRM_DATA, "%s is not a regular file", path);
    if (st.st_size == c->index.part[i].bytes) TRM_TRY(trm_hash_file(path, &bytes, &hash));
    if (st.st_size != c->index.part[i].bytes)
        return trm_fail(TRM_DATA, "%s is damaged: it has %lld bytes, its index says %lld", path,
                        (long long)st.st_size, (long long)c->index.part[i].bytes);
    if (hash != c->index.part[i].hash)
        return trm_fail(TRM_DATA, "%s is damaged: its checksum does not hold", path);
    return TRM_OK;
}

trm_status trm_ckpt_open_step(const char *path, trm_ckpt **out) {
    trm_ckpt *c = trm_alloc(sizeof *c, "a checkpoint");
    if (!c) return TRM_MEMORY;
    c->open_part = -1;
    snprintf(c->path, sizeof c->path, "%s", path);
    trm_status status = read_index(c);
    for (int i = 0; i < c->index.parts && status == TRM_OK; i++) status = verify_part(c, i);
    if (status == TRM_OK)
        *out = c;
    else
        trm_ckpt_close(c);
    return status;
}

void trm_ckpt_close(trm_ckpt *c) {
    if (!c) return;
    if (c->file) (void)!trm_h5_close(c->file);
    trm_ckpt_index_free(&c->index);
    trm_free(c);
}

/* ---- finding the newest whole one ---- */

/* One of a newer program is whole as far as we know: passing it over would lose it. */
static bool goes_on(trm_status s) { return s != TRM_OK && s != TRM_MEMORY && s != TRM_RUN; }

static trm_status none_found(const char *folder, int n) {
    if (n > 0) return trm_prefix(TRM_DATA, "%s holds no whole checkpoint; the last one tried", folder);
    return trm_fail(TRM_DATA, "%s is no checkpoint and holds none", folder);
}

static trm_status open_newest(const char *folder, trm_ckpt **out) {
    int64_t *update = NULL;
    int n = 0;
    TRM_TRY(trm_ckpt_list(folder, &update, &n));
    trm_status status = TRM_DATA;
    for (int i = n - 1; i >= 0 && goes_on(status); i--) {
        char path[TRM_CKPT_PATH];
        status = trm_ckpt_step_path(folder, update[i], path);
        if (status == TRM_OK) status = trm_ckpt_open_step(path, out);
        if (goes_on(status) && i > 0)
            trm_log(TRM_LOG_WARN, "%s; falling back to the checkpoint before it", trm_error_text());
    }
    trm_free(update);
    return goes_on(status) ? none_found(folder, n) : status;
}

trm_status trm_ckpt_open(const char *path, trm_ckpt **out) {
    char index[TRM_CKPT_PATH + 16], folder[TRM_CKPT_PATH];
    struct stat st;
    if (strlen(path) >= TRM_CKPT_PATH - 64) return trm_fail(TRM_IO, "the path is too long: %.64s...", path);
    if (stat(path, &st) != 0)
        return trm_fail(TRM_DATA, "cannot read the checkpoint %s: %s", path, strerror(errno));
    snprintf(index, sizeof index, "%s/index.json", path);
    if (access(index, F_OK) == 0) return trm_ckpt_open_step(path, out);
    trm_ckpt_folder(path, folder);
    return open_newest(folder, out);
}

/* ---- entries ---- */

const trm_ckpt_entry *trm_ckpt_find(const trm_ckpt *c, trm_ckpt_kind kind, const char *name) {
    for (int i = 0; i < c->index.entries; i++)
        if (c->index.entry[i].kind == kind && strcmp(c->index.entry[i].name, name) == 0)
            return &c->index.entry[i];
    return NULL;
}

static trm_status open_part(trm_ckpt *c, int part) {
    char path[TRM_CKPT_PATH + 32];
    if (c->open_part == part) return TRM_OK;
    if (c->file) (void)!trm_h5_close(c->file);
    c->file = NULL;
    c->open_part = -1;
    part_path(c, part, path);
    TRM_TRY(trm_h5_open(path, &c->file));
    c->open_part = part;
    return TRM_OK;
}

trm_status trm_ckpt_read_entry(trm_ckpt *c, const trm_ckpt_entry *e, float *out) {
    char name[TRM_NAME_MAX + 16];
    int64_t count = trm_shape_count(&e->shape);
    snprintf(name, sizeof name, "/%s/%s", trm_ckpt_kind_name(e->kind), e->name);
    trm_status status = open_part(c, e->part);
    if (status == TRM_OK) status = trm_h5_read(c->file, name, TRM_F32, count, out);
    if (status != TRM_OK) return trm_prefix(status, "%s", c->path);
    if (trm_hash(out, (size_t)count * sizeof *out, 0) != e->hash)
        return trm_fail(TRM_DATA, "%s is damaged: the checksum of %s does not hold", c->path, name + 1);
    return TRM_OK;
}

/* ---- into the flat spaces of a graph ---- */

/* One kind of entry for every parameter (or state) of the graph. */
static trm_status read_kind(trm_ckpt *c, const trm_graph *g, trm_ckpt_kind kind, float *flat, trm_match *m) {
    trm_param_kind wanted = kind == TRM_CKPT_STATE ? TRM_STATE : TRM_PARAM;
    for (int i = 0; i < trm_graph_params(g); i++) {
        const trm_param *p = trm_graph_param(g, i);
        if (p->kind != wanted) continue;
        const trm_ckpt_entry *e = trm_ckpt_find(c, kind, p->name);
        m->wanted++;
        if (!e)
            trm_match_missing(m, p->name);
        else if (trm_match_shape(m, p->name, &e->shape, &p->shape))
            TRM_TRY(trm_ckpt_read_entry(c, e, flat + p->offset));
    }
    return TRM_OK;
}

static trm_status read_weights(trm_ckpt *c, const trm_graph *g, const trm_weights *w) {
    trm_match m = {0};
    trm_status status = read_kind(c, g, TRM_CKPT_PARAM, w->weights, &m);
    if (status == TRM_OK && w->state) status = read_kind(c, g, TRM_CKPT_STATE, w->state, &m);
    trm_status fits = trm_match_end(&m, c->path);
    return status != TRM_OK ? status : fits;
}

static trm_status read_moment(trm_ckpt *c, const trm_graph *g, trm_ckpt_kind kind, float *flat) {
    trm_match m = {0};
    if (!flat) return TRM_OK;
    trm_status status = read_kind(c, g, kind, flat, &m);
    trm_status fits = trm_match_end(&m, c->path);
    if (status == TRM_OK && fits != TRM_OK)
        return trm_prefix(fits, "the moments %s of the optimizer (the checkpoint was written with %s)",
                          trm_ckpt_kind_name(kind), trm_ckpt_optimizer_name(c->index.optim.kind));
    return status;
}

trm_status trm_ckpt_load(trm_ckpt *c, const trm_graph *g, const trm_weights *w) {
    TRM_TRY(read_weights(c, g, w));
    TRM_TRY(read_moment(c, g, TRM_CKPT_M1, w->m1));
    return read_moment(c, g, TRM_CKPT_M2, w->m2);
}

trm_status trm_checkpoint_read(const char *path, const trm_graph *g, trm_weights *w, trm_position *p,
                               trm_optim_spec *o) {
    trm_ckpt *c = NULL;
    TRM_TRY(trm_ckpt_open(path, &c));
    trm_status status = trm_ckpt_load(c, g, w);
    if (status == TRM_OK) {
        *p = c->index.position;
        *o = c->index.optim;
    }
    trm_ckpt_close(c);
    return status;
}

/* ---- for people ---- */

static void info_entries(const trm_ckpt *c, trm_str *text) {
    int64_t parameters = 0;
    for (int i = 0; i < c->index.entries; i++)
        if (c->index.entry[i].kind == TRM_CKPT_PARAM) parameters += trm_shape_count(&c->index.entry[i].shape);
    trm_str_add(text, "parameters      %lld\n", (long long)parameters);
    for (int i = 0; i < c->index.entries; i++) {
        const trm_ckpt_entry *e = &c->index.entry[i];
        char shape[80];
        if (e->kind != TRM_CKPT_PARAM && e->kind != TRM_CKPT_STATE) continue;
        trm_str_add(text, "  %-5s  %-40s %s\n", trm_ckpt_kind_name(e->kind), e->name,
                    trm_shape_text(&e->shape, shape, sizeof shape));
    }
}

trm_status trm_checkpoint_info(const char *path, trm_str *text) {
    trm_ckpt *c = NULL;
    TRM_TRY(trm_ckpt_open(path, &c));
    const trm_position *p = &c->index.position;
    trm_str_add(text, "checkpoint      %s (whole: all checksums hold)\n", c->path);
    trm_str_add(text, "updates done    %lld\n", (long long)p->update);
    trm_str_add(text, "next            epoch %lld, update %lld of it\n", (long long)p->epoch + 1,
                (long long)p->update_in_epoch + 1);
    trm_str_add(text, "batch           %lld samples in %lld micro-batches\n", (long long)p->batch,
                (long long)p->micro_batches);
    trm_str_add(text, "optimizer       %s\n", trm_ckpt_optimizer_name(c->index.optim.kind));
    if (p->best_valid < 1e300) trm_str_add(text, "best valid loss %.6g\n", p->best_valid);
    info_entries(c, text);
    trm_ckpt_close(c);
    return text->failed ? TRM_MEMORY : TRM_OK;
}
