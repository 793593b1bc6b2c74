/* export: the weights and state of a checkpoint as one file for other programs. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint_impl.h"
#include "safetensors.h"

/* What is exported: parameters and state, without the optimizer's moments. */
typedef struct pick {
    const trm_ckpt_entry **entry;
    const char **name;
    trm_shape *shape;
    int n;
} pick;

static trm_status pick_entries(const trm_ckpt *c, pick *p) {
    size_t most = (size_t)c->index.entries + 1;
    p->entry = trm_alloc_array(most, sizeof *p->entry, "an export");
    p->name = trm_alloc_array(most, sizeof *p->name, "an export");
    p->shape = trm_alloc_array(most, sizeof *p->shape, "an export");
    if (!p->entry || !p->name || !p->shape) return TRM_MEMORY;
    for (int i = 0; i < c->index.entries; i++) {
        const trm_ckpt_entry *e = &c->index.entry[i];
        if (e->kind != TRM_CKPT_PARAM && e->kind != TRM_CKPT_STATE) continue;
        p->entry[p->n] = e;
        p->name[p->n] = e->name;
        p->shape[p->n++] = e->shape;
    }
    return TRM_OK;
}

static trm_status to_safetensors(trm_ckpt *c, const pick *p, const char *out) {
    trm_st_image image = {0};
    TRM_TRY(trm_st_layout(p->n, p->name, p->shape, &image));
    trm_status status = TRM_OK;
    for (int i = 0; i < p->n && status == TRM_OK; i++)
        status = trm_ckpt_read_entry(c, p->entry[i], image.at[i]);
    if (status == TRM_OK) status = trm_write_file(out, image.bytes, image.n);
    trm_st_image_free(&image);
    return status;
}

static trm_status copy_to_h5(trm_ckpt *c, const pick *p, trm_h5_file *f) {
    int64_t most = 1;
    for (int i = 0; i < p->n; i++) most = trm_max64(most, trm_shape_count(&p->shape[i]));
    float *values = trm_alloc_array((size_t)most, sizeof *values, "an export");
    trm_status status = values ? TRM_OK : TRM_MEMORY;
    for (int i = 0; i < p->n && status == TRM_OK; i++) {
        char name[TRM_NAME_MAX + 2];
        snprintf(name, sizeof name, "/%s", p->name[i]);
        status = trm_ckpt_read_entry(c, p->entry[i], values);
        if (status == TRM_OK) status = trm_h5_write(f, name, TRM_F32, &p->shape[i], values);
    }
    trm_free(values);
    return status;
}

static trm_status to_h5(trm_ckpt *c, const pick *p, const char *out) {
    trm_h5_file *f = NULL;
    trm_str aside = {0};
    trm_status status = TRM_OK;
    trm_str_add(&aside, "%s.new-%ld", out, (long)getpid());
    if (aside.failed) return TRM_MEMORY;
    TRM_GOTO(trm_h5_create(aside.p, &f));
    status = copy_to_h5(c, p, f);
    trm_status closed = trm_h5_close(f);
    if (status == TRM_OK) status = closed;
    if (status == TRM_OK) status = trm_sync_path(aside.p);
    if (status == TRM_OK && rename(aside.p, out) != 0)
        status = trm_fail(TRM_IO, "cannot write %s: %s", out, strerror(errno));
    if (status != TRM_OK) unlink(aside.p);
out:
    trm_str_free(&aside);
    return status;
}

static trm_status check_out(trm_export_format format, const char *out) {
    static const trm_output_kind kinds[] = {[TRM_EXPORT_SAFETENSORS] = {"safetensors", "{", 8, 1},
                                            [TRM_EXPORT_HDF5] = {"HDF5", "\x89HDF\r\n\x1a\n", 0, 8}};
    return trm_output_check(out, &kinds[format]);
}

static trm_status check_apart(const trm_ckpt *c, const char *out) {
    for (int i = 0; i < c->index.parts; i++) {
        char part[TRM_CKPT_PATH + 32];
        snprintf(part, sizeof part, "%s/part-%d.h5", c->path, i);
        TRM_TRY(trm_output_apart(out, (const char *const[]){part}, 1));
    }
    return TRM_OK;
}

trm_status trm_checkpoint_export(const char *path, trm_export_format format, const char *out) {
    trm_ckpt *c = NULL;
    pick p = {0};
    TRM_TRY(check_out(format, out));
    TRM_TRY(trm_ckpt_open(path, &c));
    trm_status status = check_apart(c, out);
    if (status == TRM_OK) status = pick_entries(c, &p);
    if (status == TRM_OK) status = format == TRM_EXPORT_HDF5 ? to_h5(c, &p, out) : to_safetensors(c, &p, out);
    trm_free(p.entry);
    trm_free(p.name);
    trm_free(p.shape);
    trm_ckpt_close(c);
    return status;
}
