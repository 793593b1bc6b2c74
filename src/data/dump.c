/* dump: the samples of a data set, whatever it was put together from, as rows of a plain file. */
#include "data_impl.h"
#include <string.h>

#define PIECE_BYTES (4 * TRM_MIB)

typedef struct dump {
    trm_dataset *d;
    int64_t piece; /* samples that are read together */
    char *x, *y, *turned;
} dump;

static trm_status make_set(trm_h5_file *f, const char *name, trm_dtype type, int64_t rows,
                           const trm_shape *s) {
    int64_t dim[TRM_MAX_DIMS + 1] = {rows};
    if (s->rank + 1 > TRM_MAX_DIMS)
        return trm_fail(TRM_DATA, "samples of %d dimensions cannot be written as rows", s->rank);
    for (int i = 0; i < s->rank; i++) dim[i + 1] = s->dim[i];
    trm_shape shape = trm_shape_from(s->rank + 1, dim);
    return trm_h5_make(f, name, type, &shape, 0, 0, false);
}

/* Images that are stored with their channels last are written with them first. */
static void turn(const trm_data_info *info, const char *from, char *to) {
    size_t item = trm_dtype_size(info->x_type), channels = (size_t)info->x.dim[0];
    size_t pixels = (size_t)trm_shape_count(&info->x) / channels;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < pixels; i++)
            memcpy(to + (c * pixels + i) * item, from + (i * channels + c) * item, item);
}

/* Rows of windows lie `stride` apart, which may be more than they are long. */
static void pack(char *rows, int64_t n, size_t bytes, size_t stride) {
    for (int64_t i = 1; i < n && stride != bytes; i++)
        memmove(rows + (size_t)i * bytes, rows + (size_t)i * stride, bytes);
}

static trm_status write_piece(trm_h5_file *f, dump *p, int64_t first, int64_t n) {
    const trm_data_info *info = &p->d->info;
    size_t x = (size_t)trm_shape_count(&info->x) * trm_dtype_size(info->x_type);
    size_t y = (size_t)trm_shape_count(&info->y) * trm_dtype_size(info->y_type);
    int64_t sample[256];
    for (int64_t i = 0; i < n; i++) sample[i] = first + i;
    TRM_TRY(trm_dataset_read(p->d, sample, n, p->x, p->y));
    if (info->y_offset >= 0)
        for (int64_t i = 0; i < n; i++)
            memcpy(p->y + (size_t)i * y, p->x + i * info->x_stride + info->y_offset, y);
    else
        pack(p->y, n, y, (size_t)info->y_stride);
    pack(p->x, n, x, (size_t)info->x_stride);
    char *from = p->x;
    for (int64_t i = 0; info->x_hwc && i < n; i++) {
        turn(info, p->x + (size_t)i * x, p->turned + (size_t)i * x);
        from = p->turned;
    }
    TRM_TRY(trm_h5_put(f, "input", info->x_type, first, n, x, from));
    return trm_h5_put(f, "target", info->y_type, first, n, y, p->y);
}

static trm_status fill(trm_h5_file *f, const void *ctx) {
    dump *p = (dump *)ctx;
    const trm_data_info *info = &p->d->info;
    TRM_TRY(make_set(f, "input", info->x_type, info->samples, &info->x));
    TRM_TRY(make_set(f, "target", info->y_type, info->samples, &info->y));
    for (int64_t at = 0; at < info->samples; at += p->piece)
        TRM_TRY(write_piece(f, p, at, trm_min64(p->piece, info->samples - at)));
    return TRM_OK;
}

trm_status trm_dataset_dump(trm_dataset *d, const char *out) {
    dump p = {.d = d,
              .piece = trm_max64((int64_t)PIECE_BYTES / (d->info.x_stride + d->info.y_stride + 1), 1)};
    p.piece = trm_min64(p.piece, 256);
    size_t x = (size_t)d->info.x_stride, y = (size_t)trm_max64(d->info.y_stride, d->info.x_stride);
    p.x = trm_alloc_array((size_t)p.piece, x, "rows");
    p.turned = trm_alloc_array((size_t)p.piece, x, "rows");
    p.y = trm_alloc_array((size_t)p.piece, y, "rows");
    trm_status s = p.x && p.y && p.turned ? trm_h5_replace(out, fill, &p) : TRM_MEMORY;
    trm_free(p.x);
    trm_free(p.y);
    trm_free(p.turned);
    return s;
}
