/* checkpoint: writing one.  Aside, synced, read back and compared, then renamed: a folder that
 * is called step-N is whole, whatever happened while it was written. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_impl.h"

typedef struct writer {
    const trm_graph *graph;
    char aside[TRM_CKPT_PATH], part[TRM_CKPT_PATH + 32];
    trm_ckpt_index index;
    trm_h5_file *file;
} writer;

/* ---- the part ---- */

static trm_status write_entry(writer *w, trm_ckpt_kind kind, const trm_param *p, const float *flat) {
    trm_ckpt_entry *e = &w->index.entry[w->index.entries];
    char name[TRM_NAME_MAX + 16];
    const float *values = flat + p->offset;
    e->kind = kind;
    e->shape = p->shape;
    e->hash = trm_hash(values, (size_t)p->count * sizeof *values, 0);
    memcpy(e->name, p->name, sizeof e->name);
    snprintf(name, sizeof name, "/%s/%s", trm_ckpt_kind_name(kind), p->name);
    TRM_TRY(trm_h5_write(w->file, name, TRM_F32, &p->shape, values));
    w->index.entries++;
    return TRM_OK;
}

static trm_status write_kind(writer *w, trm_ckpt_kind kind, const float *flat) {
    trm_param_kind wanted = kind == TRM_CKPT_STATE ? TRM_STATE : TRM_PARAM;
    for (int i = 0; flat && i < trm_graph_params(w->graph); i++) {
        const trm_param *p = trm_graph_param(w->graph, i);
        if (p->kind == wanted) TRM_TRY(write_entry(w, kind, p, flat));
    }
    return TRM_OK;
}

static trm_status write_values(writer *w, const trm_weights *v) {
    TRM_TRY(write_kind(w, TRM_CKPT_PARAM, v->weights));
    TRM_TRY(write_kind(w, TRM_CKPT_M1, v->m1));
    TRM_TRY(write_kind(w, TRM_CKPT_M2, v->m2));
    return write_kind(w, TRM_CKPT_STATE, v->state);
}

static trm_status write_part(writer *w, const trm_weights *v) {
    snprintf(w->part, sizeof w->part, "%s/part-0.h5", w->aside);
    TRM_TRY(trm_h5_create(w->part, &w->file));
    trm_status status = write_values(w, v);
    /* A close that reports nothing proves nothing; it is read back later all the same. */
    trm_status closed = trm_h5_close(w->file);
    w->file = NULL;
    if (status == TRM_OK) status = closed;
    if (status == TRM_OK) status = trm_sync_path(w->part);
    if (status == TRM_OK) status = trm_hash_file(w->part, &w->index.part[0].bytes, &w->index.part[0].hash);
    return status;
}

/* ---- the index ---- */

static trm_status write_index(writer *w) {
    char path[TRM_CKPT_PATH + 32];
    trm_str text = {0};
    snprintf(path, sizeof path, "%s/index.json", w->aside);
    trm_status status = trm_ckpt_index_write(&w->index, &text);
    if (status == TRM_OK) status = trm_write_file(path, text.p, text.len);
    trm_str_free(&text);
    return status;
}

static trm_status fill_index(writer *w, const trm_position *p, const trm_optim_spec *o, const trm_job *job) {
    size_t most = (size_t)trm_graph_params(w->graph) * TRM_CKPT_KINDS + 1;
    w->index.position = *p;
    w->index.optim = *o;
    w->index.entry = trm_alloc_array(most, sizeof *w->index.entry, "a checkpoint's entries");
    w->index.part = trm_alloc_array(1, sizeof *w->index.part, "a checkpoint's parts");
    if (!w->index.entry || !w->index.part) return TRM_MEMORY;
    w->index.parts = 1;
    if (!job) return TRM_OK;
    trm_str yaml = {0};
    trm_status status = trm_job_write(job, &yaml);
    w->index.job = yaml.p; /* released with the index, also where it was cut short */
    return status == TRM_OK && yaml.failed ? TRM_MEMORY : status;
}

/* ---- reading back, publishing ---- */

static trm_status read_back(const char *path) {
    trm_ckpt *c = NULL;
    TRM_TRY(trm_ckpt_open_step(path, &c));
    int64_t most = 0;
    for (int i = 0; i < c->index.entries; i++)
        most = trm_max64(most, trm_shape_count(&c->index.entry[i].shape));
    float *values = trm_alloc_array((size_t)most + 1, sizeof *values, "reading a checkpoint back");
    trm_status status = values ? TRM_OK : TRM_MEMORY;
    for (int i = 0; i < c->index.entries && status == TRM_OK; i++)
        status = trm_ckpt_read_entry(c, &c->index.entry[i], values);
    trm_free(values);
    trm_ckpt_close(c);
    return status;
}

static trm_status publish(const char *aside, const char *folder, const char *path) {
    char old[TRM_CKPT_PATH + 16];
    struct stat st;
    snprintf(old, sizeof old, "%s.old", aside);
    bool replaces = lstat(path, &st) == 0;
    if (replaces && rename(path, old) != 0)
        return trm_fail(TRM_IO, "cannot replace %s: %s", path, strerror(errno));
    if (rename(aside, path) != 0) return trm_fail(TRM_IO, "cannot name %s: %s", path, strerror(errno));
    TRM_TRY(trm_sync_path(folder));
    return replaces ? trm_remove_tree(old) : TRM_OK;
}

static trm_status write_whole(writer *w, const char *folder, const trm_weights *v, const trm_position *p,
                              const trm_optim_spec *o, const trm_job *job) {
    TRM_TRY(trm_remove_tree(w->aside));
    TRM_TRY(trm_make_dirs(w->aside));
    TRM_TRY(fill_index(w, p, o, job));
    TRM_TRY(write_part(w, v));
    TRM_TRY(write_index(w));
    TRM_TRY(read_back(w->aside));
    TRM_TRY(trm_sync_path(w->aside));
    char path[TRM_CKPT_PATH];
    TRM_TRY(trm_ckpt_step_path(folder, p->update, path));
    return publish(w->aside, folder, path);
}

trm_status trm_checkpoint_write(const char *folder, const trm_graph *g, const trm_weights *w,
                                const trm_position *p, const trm_optim_spec *o, const trm_job *job,
                                char path[4096]) {
    TRM_TRY(trm_ckpt_step_path(folder, p->update, path));
    if (strlen(path) > TRM_CKPT_PATH - 64)
        return trm_fail(TRM_IO, "the path of a checkpoint is too long: %.64s...", path);
    writer *wr = trm_alloc(sizeof *wr, "writing a checkpoint");
    if (!wr) return TRM_MEMORY;
    wr->graph = g;
    snprintf(wr->aside, sizeof wr->aside, "%s/.step-%08lld.new", folder, (long long)p->update);
    trm_status status = write_whole(wr, folder, w, p, o, job);
    if (status != TRM_OK) {
        char fault[1024], hint[512];
        snprintf(fault, sizeof fault, "%s", trm_error_text());
        snprintf(hint, sizeof hint, "%s", trm_error_hint());
        (void)!trm_remove_tree(wr->aside);
        trm_fail(status, "cannot write the checkpoint %s: %s", path, fault);
        if (hint[0]) trm_hint("%s", hint);
    }
    trm_ckpt_index_free(&wr->index);
    trm_free(wr);
    return status;
}
