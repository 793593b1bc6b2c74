/* stats: samples of each class, and the file of a data set's statistics. */
#include "make_impl.h"

#define MOST_CLASSES (1 << 24)
#define BLOCK_BYTES TRM_MIB

static trm_status count_rows(trm_dataset *d, int64_t *count, int64_t classes, char *raw, int64_t step) {
    int64_t rows = trm_rows(&d->y), v = 0;
    for (int64_t at = 0; at < rows; at += step) {
        int64_t n = trm_min64(step, rows - at);
        TRM_TRY(trm_column_rows(d, &d->y, at, n, raw));
        for (int64_t i = 0; i < n; i++) {
            TRM_TRY(trm_target_class(d, at + i, raw + (size_t)i * trm_row_bytes(&d->y), &v));
            if (v >= 0 && v < classes) count[v]++;
        }
    }
    return TRM_OK;
}

trm_status trm_class_counts(trm_dataset *d, int64_t **out, int64_t *classes) {
    *out = NULL;
    *classes = 0;
    if (!d->has_y || !d->info.y_is_class || d->info.y.rank > 0 || d->info.classes > MOST_CLASSES)
        return TRM_OK;
    int64_t step = trm_max64((int64_t)(BLOCK_BYTES / trm_row_bytes(&d->y)), 1);
    if (step > trm_rows(&d->y)) step = trm_rows(&d->y);
    int64_t *count = trm_alloc_array((size_t)d->info.classes, sizeof *count, "classes");
    char *raw = trm_alloc_array((size_t)step, trm_row_bytes(&d->y), "labels");
    trm_status s = count && raw ? count_rows(d, count, d->info.classes, raw, step) : TRM_MEMORY;
    trm_free(raw);
    if (s != TRM_OK) {
        trm_free(count);
        return s;
    }
    *out = count;
    *classes = d->info.classes;
    return TRM_OK;
}

typedef struct numbers {
    const trm_data_stats *s;
    const int64_t *class_count;
    int64_t classes;
} numbers;

static trm_status write_numbers(trm_h5_file *f, const void *ctx) {
    const numbers *x = ctx;
    trm_shape c = trm_shape_of(1, x->s->channels), k = trm_shape_of(1, x->classes), one = {0};
    TRM_TRY(trm_h5_write(f, "mean", TRM_F64, &c, x->s->mean));
    TRM_TRY(trm_h5_write(f, "std", TRM_F64, &c, x->s->std));
    TRM_TRY(trm_h5_write(f, "min", TRM_F64, &c, x->s->min));
    TRM_TRY(trm_h5_write(f, "max", TRM_F64, &c, x->s->max));
    TRM_TRY(trm_h5_write(f, "count", TRM_I64, &one, &x->s->count));
    return x->classes > 0 ? trm_h5_write(f, "class_count", TRM_I64, &k, x->class_count) : TRM_OK;
}

trm_status trm_stats_write(const trm_data_stats *s, const int64_t *class_count, int64_t classes,
                           const char *out) {
    return trm_h5_replace(out, write_numbers, &(numbers){s, class_count, classes});
}
