/* weights: parameters by name and shape from a checkpoint, a safetensors or an HDF5 file. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_impl.h"
#include "safetensors.h"

/* ---- matching ---- */

#define LISTED 4

static void note(trm_match *m, const char *name, const char *what) {
    if (m->faults++ < LISTED) trm_str_add(&m->text, "%s%s %s", m->faults > 1 ? "; " : "", name, what);
}

void trm_match_missing(trm_match *m, const char *name) { note(m, name, "is missing"); }

bool trm_match_shape(trm_match *m, const char *name, const trm_shape *have, const trm_shape *want) {
    char a[80], b[80], what[200];
    if (trm_shape_equal(have, want)) return true;
    snprintf(what, sizeof what, "has shape %s, the model has %s", trm_shape_text(have, a, sizeof a),
             trm_shape_text(want, b, sizeof b));
    note(m, name, what);
    return false;
}

trm_status trm_match_end(trm_match *m, const char *path) {
    trm_status status = TRM_OK;
    if (m->faults > 0)
        status = trm_fail(TRM_DATA, "%s: %d of %d parameters do not fit the model: %s%s", path, m->faults,
                          m->wanted, trm_str_get(&m->text), m->faults > LISTED ? "; ..." : "");
    trm_str_free(&m->text);
    *m = (trm_match){0};
    return status;
}

/* ---- one parameter from each kind of file ---- */

/* Where weights come from: finds the shape of a name, then reads it. */
typedef struct source {
    const char *path;
    void *handle;
    /* false where there is no such name; fills shape and an id for read. */
    bool (*find)(struct source *s, const trm_param *p, trm_shape *shape);
    trm_status (*read)(struct source *s, const trm_param *p, float *out);
    char name[TRM_NAME_MAX + 16]; /* HDF5: the name that was found */
} source;

static trm_ckpt_kind kind_of(const trm_param *p) {
    return p->kind == TRM_STATE ? TRM_CKPT_STATE : TRM_CKPT_PARAM;
}

static bool ckpt_find(source *s, const trm_param *p, trm_shape *shape) {
    const trm_ckpt_entry *e = trm_ckpt_find(s->handle, kind_of(p), p->name);
    if (e) *shape = e->shape;
    return e != NULL;
}

static trm_status ckpt_read(source *s, const trm_param *p, float *out) {
    return trm_ckpt_read_entry(s->handle, trm_ckpt_find(s->handle, kind_of(p), p->name), out);
}

static bool st_find(source *s, const trm_param *p, trm_shape *shape) {
    const trm_st_tensor *t = trm_st_find(s->handle, p->name);
    if (t) *shape = t->fits ? t->shape : (trm_shape){.rank = 1};
    return t != NULL;
}

static trm_status st_read(source *s, const trm_param *p, float *out) {
    return trm_st_read(s->handle, trm_st_find(s->handle, p->name), out);
}

/* As in our checkpoints (/param/NAME), else as in exports (/NAME). */
static bool h5_find(source *s, const trm_param *p, trm_shape *shape) {
    trm_dtype type;
    snprintf(s->name, sizeof s->name, "/%s/%s", trm_ckpt_kind_name(kind_of(p)), p->name);
    if (trm_h5_stat(s->handle, s->name, &type, shape) == TRM_OK) return true;
    snprintf(s->name, sizeof s->name, "/%s", p->name);
    return trm_h5_stat(s->handle, s->name, &type, shape) == TRM_OK;
}

static trm_status h5_read(source *s, const trm_param *p, float *out) {
    return trm_h5_read(s->handle, s->name, TRM_F32, p->count, out);
}

/* ---- all of them ---- */

static trm_status read_all(source *s, const trm_graph *g, trm_weights *w) {
    trm_match m = {0};
    trm_status status = TRM_OK;
    for (int i = 0; i < trm_graph_params(g) && status == TRM_OK; i++) {
        const trm_param *p = trm_graph_param(g, i);
        float *flat = p->kind == TRM_STATE ? w->state : w->weights;
        trm_shape shape;
        if (!flat) continue;
        m.wanted++;
        if (!s->find(s, p, &shape))
            trm_match_missing(&m, p->name);
        else if (trm_match_shape(&m, p->name, &shape, &p->shape))
            status = s->read(s, p, flat + p->offset);
    }
    trm_status fits = trm_match_end(&m, s->path);
    return status != TRM_OK ? status : fits;
}

static trm_status from_checkpoint(const char *path, const trm_graph *g, trm_weights *w) {
    trm_ckpt *c = NULL;
    TRM_TRY(trm_ckpt_open(path, &c));
    source s = {.path = c->path, .handle = c, .find = ckpt_find, .read = ckpt_read};
    trm_status status = read_all(&s, g, w);
    trm_ckpt_close(c);
    return status;
}

static trm_status from_safetensors(const char *path, const trm_graph *g, trm_weights *w) {
    trm_st_file *f = NULL;
    TRM_TRY(trm_st_open(path, &f));
    source s = {.path = path, .handle = f, .find = st_find, .read = st_read};
    trm_status status = read_all(&s, g, w);
    trm_st_close(f);
    return status;
}

static trm_status from_h5(const char *path, const trm_graph *g, trm_weights *w) {
    trm_h5_file *f = NULL;
    TRM_TRY(trm_h5_open(path, &f));
    source s = {.path = path, .handle = f, .find = h5_find, .read = h5_read};
    trm_status status = read_all(&s, g, w);
    (void)!trm_h5_close(f);
    return status;
}

/* By what the file says of itself, not by its name. */
static bool is_hdf5(const char *path) {
    char head[4] = "";
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, head, sizeof head) : 0;
    if (fd >= 0) close(fd);
    return n == 4 && memcmp(head, "\x89HDF", 4) == 0;
}

trm_status trm_weights_read(const char *path, const trm_graph *g, trm_weights *w) {
    struct stat st;
    if (stat(path, &st) != 0)
        return trm_fail(TRM_DATA, "cannot read the weights %s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return trm_fail(TRM_DATA, "cannot read the weights %s: it is no file and no checkpoint", path);
    if (S_ISDIR(st.st_mode)) return from_checkpoint(path, g, w);
    return is_hdf5(path) ? from_h5(path, g, w) : from_safetensors(path, g, w);
}
