/* import_mnist: IDX, the format of MNIST and its kin: magic 0 0 type rank, sizes in big-endian words, bytes. */
#include "make_impl.h"

typedef struct idx {
    trm_source from;
    int64_t dim[3];
    size_t n; /* bytes that it claims */
} idx;

static trm_status read_head(idx *x, int rank) {
    unsigned char head[16] = {0};
    const char *path = x->from.path;
    TRM_TRY(trm_source_take(&x->from, head, 4));
    if (head[0] != 0 || head[1] != 0)
        return trm_fail(TRM_DATA, "%s: not an IDX file: it starts with bytes %02x %02x, not with zeros", path,
                        head[0], head[1]);
    if (head[2] != 8)
        return trm_fail(TRM_DATA, "%s: holds elements of IDX type %d, unsigned bytes (8) expected", path,
                        head[2]);
    if (head[3] != rank)
        return trm_fail(TRM_DATA, "%s: has %d dimensions, %d expected%s", path, head[3], rank,
                        head[3] == (rank == 3 ? 1 : 3) ? " (images and labels exchanged?)" : "");
    TRM_TRY(trm_source_take(&x->from, head + 4, 4 * (size_t)rank));
    x->n = 1;
    for (int i = 0; i < rank; i++) {
        const unsigned char *p = head + 4 + 4 * i;
        x->dim[i] = (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
        if (x->dim[i] < 1) return trm_fail(TRM_DATA, "%s: dimension %d is 0", path, i);
        if (!trm_mul_size(x->n, (size_t)x->dim[i], &x->n))
            return trm_fail(TRM_DATA, "%s: claims an impossible size", path);
    }
    return TRM_OK;
}

static trm_status open_idx(const char *path, int rank, idx *x) {
    char size[16];
    TRM_TRY(trm_source_open(path, &x->from));
    TRM_TRY(read_head(x, rank));
    if (!trm_source_may_hold(&x->from, x->n))
        return trm_fail(TRM_DATA, "%s: claims %s but has only %lld bytes", path,
                        trm_human_bytes((double)x->n, size, sizeof size), (long long)x->from.size);
    return TRM_OK;
}

/* All rows, in pieces; then the file has to end. */
static trm_status copy_rows(idx *x, trm_h5_file *f, const char *name, char *buf) {
    size_t row = x->n / (size_t)x->dim[0], more;
    int64_t most = (int64_t)(TRM_MIB / row), rows = x->dim[0];
    for (int64_t at = 0; at < rows; at += most) {
        int64_t n = trm_min64(most, rows - at);
        TRM_TRY(trm_source_take(&x->from, buf, (size_t)n * row));
        TRM_TRY(trm_h5_put(f, name, TRM_U8, at, n, row, buf));
    }
    TRM_TRY(trm_source_some(&x->from, buf, 1, &more));
    return more == 0
               ? TRM_OK
               : trm_fail(TRM_DATA, "%s: goes on behind the %zu bytes that it claims", x->from.path, x->n);
}

typedef struct mnist {
    idx images, labels;
} mnist;

static trm_status check_counts(const mnist *m) {
    const idx *x = &m->images;
    if (x->dim[0] != m->labels.dim[0])
        return trm_fail(TRM_DATA, "%s: has %lld images but %s has %lld labels", x->from.path,
                        (long long)x->dim[0], m->labels.from.path, (long long)m->labels.dim[0]);
    return TRM_OK;
}

static trm_status write_mnist(trm_h5_file *f, const void *ctx) {
    mnist *m = (mnist *)ctx;
    const int64_t *dim = m->images.dim;
    trm_shape data = trm_shape_of(4, dim[0], 1, dim[1], dim[2]), label = trm_shape_of(1, dim[0]);
    TRM_TRY(trm_h5_make(f, "data", TRM_U8, &data, 0, 0, false));
    TRM_TRY(trm_h5_make(f, "label", TRM_U8, &label, 0, 0, false));
    char *buf = trm_alloc(TRM_MIB, "an IDX file");
    if (!buf) return TRM_MEMORY;
    trm_status s = copy_rows(&m->images, f, "data", buf);
    if (s == TRM_OK) s = copy_rows(&m->labels, f, "label", buf);
    trm_free(buf);
    return s == TRM_OK ? check_counts(m) : s;
}

trm_status trm_import_mnist(const char *images, const char *labels, const char *out, int64_t *samples) {
    mnist m = {0};
    TRM_TRY(trm_output_apart(out, (const char *const[]){images, labels}, 2));
    trm_status s = open_idx(images, 3, &m.images);
    if (s == TRM_OK) s = open_idx(labels, 1, &m.labels);
    if (s == TRM_OK && m.images.n / (size_t)m.images.dim[0] > TRM_MIB)
        s = trm_fail(TRM_DATA, "%s: has images of %lld x %lld bytes, up to 1 MiB expected", images,
                     (long long)m.images.dim[1], (long long)m.images.dim[2]);
    if (s == TRM_OK) s = trm_h5_replace(out, write_mnist, &m);
    if (s == TRM_OK && samples) *samples = m.images.dim[0];
    trm_source_close(&m.images.from);
    trm_source_close(&m.labels.from);
    return s;
}
