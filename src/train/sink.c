/* sink: rank 0's file of predictions.  Rows come in order and go out in pieces of some megabytes, so that a small model
 * does not write a few bytes at a time and a large output is never in memory as a whole. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint_impl.h"
#include "run_impl.h"

#define PIECE_BYTES ((int64_t)4 << 20)

int64_t trm_sink_piece(const trm_shape *row) {
    return trm_max64(PIECE_BYTES / (trm_shape_count(row) * (int64_t)sizeof(float)), 1);
}

/* ---- opening ---- */

static trm_status make_set(const trm_sink *s, const char *name, trm_dtype type, int dims) {
    int64_t dim[TRM_MAX_DIMS + 1] = {s->rows};
    int from = dims < s->shape.rank && s->channels > 0 ? 1 : 0;
    for (int i = 0; i < dims; i++) dim[i + 1] = s->shape.dim[from + i];
    trm_shape shape = trm_shape_from(dims + 1, dim);
    return trm_h5_make(s->file, name, type, &shape, 0, 0, false);
}

static trm_status open_file(trm_sink *s) {
    trm_str aside = {0};
    trm_str_add(&aside, "%s.new-%ld", s->path, (long)getpid());
    if (aside.failed) return TRM_MEMORY;
    s->aside = aside.p;
    TRM_TRY(trm_h5_create(s->aside, &s->file));
    TRM_TRY(make_set(s, "output", TRM_F32, s->shape.rank));
    return s->row_labels > 0 ? make_set(s, "label", TRM_I64, s->shape.rank - 1) : TRM_OK;
}

trm_status trm_sink_open(const char *path, const trm_shape *row, int64_t channels, int64_t rows, bool labels,
                         trm_sink *out) {
    *out = (trm_sink){.shape = *row,
                      .channels = channels,
                      .rows = rows,
                      .cap = trm_sink_piece(row),
                      .row = trm_shape_count(row)};
    if (row->rank < 1 || row->rank >= TRM_MAX_DIMS)
        return trm_fail(TRM_INTERNAL, "an output of %d dimensions cannot be written", row->rank);
    if (labels) out->row_labels = out->row / (channels > 0 ? channels : row->dim[row->rank - 1]);
    out->path = trm_strdup(path);
    out->output = trm_alloc_array((size_t)(out->cap * out->row), sizeof *out->output, "predictions");
    out->label = trm_alloc_array((size_t)(out->cap * out->row_labels) + 1, sizeof *out->label, "predictions");
    return out->path && out->output && out->label ? open_file(out) : TRM_MEMORY;
}

/* ---- rows ---- */

static bool is_finite(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* The first of the largest, as accuracy counts it; -1 in a row without numbers. */
static int64_t largest(const float *x, int64_t n, int64_t step) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i * step] > x[best * step]) best = i;
    return isnan(x[best * step]) ? -1 : best;
}

static void label_rows(trm_sink *s) {
    int64_t each = s->row_labels > 0 ? s->row / s->row_labels : 0;
    if (s->channels == 0) {
        for (int64_t i = 0; i < s->n * s->row_labels; i++)
            s->label[i] = largest(s->output + i * each, each, 1);
        return;
    }
    for (int64_t i = 0; i < s->n * s->row_labels; i++)
        s->label[i] =
            largest(s->output + i / s->row_labels * s->row + i % s->row_labels, each, s->row_labels);
}

static trm_status flush(trm_sink *s) {
    if (s->n == 0) return TRM_OK;
    TRM_TRY(trm_h5_put(s->file, "output", TRM_F32, s->written, s->n, (size_t)s->row * sizeof *s->output,
                       s->output));
    label_rows(s);
    if (s->row_labels > 0)
        TRM_TRY(trm_h5_put(s->file, "label", TRM_I64, s->written, s->n,
                           (size_t)s->row_labels * sizeof *s->label, s->label));
    s->written += s->n;
    s->n = 0;
    return TRM_OK;
}

trm_status trm_sink_put(trm_sink *s, const float *rows, int64_t n) {
    for (int64_t i = 0; i < n; i++) s->bad += !is_finite(rows + i * s->row, s->row);
    while (n > 0) {
        int64_t take = trm_min64(n, s->cap - s->n);
        memcpy(s->output + s->n * s->row, rows, (size_t)(take * s->row) * sizeof *rows);
        s->n += take;
        rows += take * s->row;
        n -= take;
        if (s->n == s->cap) TRM_TRY(flush(s));
    }
    return TRM_OK;
}

/* ---- closing ---- */

trm_status trm_sink_put_none(trm_sink *s, int64_t n) {
    for (; n > 0; n--) {
        for (int64_t i = 0; i < s->row; i++) s->output[s->n * s->row + i] = NAN;
        if (++s->n == s->cap) TRM_TRY(flush(s));
    }
    return TRM_OK;
}

trm_status trm_sink_finish(trm_sink *s) {
    TRM_TRY(flush(s));
    if (s->written != s->rows)
        return trm_fail(TRM_INTERNAL, "%s: %lld of %lld rows came", s->path, (long long)s->written,
                        (long long)s->rows);
    trm_h5_file *f = s->file;
    s->file = NULL;
    TRM_TRY(trm_h5_close(f));
    TRM_TRY(trm_sync_path(s->aside));
    if (rename(s->aside, s->path) != 0)
        return trm_fail(TRM_IO, "cannot write %s: %s", s->path, strerror(errno));
    trm_free(s->aside);
    s->aside = NULL;
    return TRM_OK;
}

/* What goes wrong here is no news beside the fault that led here: its sentence stays. */
void trm_sink_close(trm_sink *s) {
    char text[1024], hint[512];
    snprintf(text, sizeof text, "%s", trm_error_text());
    snprintf(hint, sizeof hint, "%s", trm_error_hint());
    if (s->aside) unlink(s->aside);
    trm_h5_drop(s->file);
    if (text[0]) trm_fail(TRM_IO, "%s", text);
    if (hint[0]) trm_hint("%s", hint);
    trm_free(s->aside);
    trm_free(s->path);
    trm_free(s->output);
    trm_free(s->label);
    *s = (trm_sink){0};
}
