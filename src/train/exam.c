/* exam: evaluation of a set.  A pass has the samples of a micro-batch, cut equally over the ranks
 * whatever their shares; sums meet at the end. */
#include <math.h>
#include <string.h>

#include "run_impl.h"

int64_t trm_exam_slice(const trm_engine *e, int rank, int64_t m, int64_t *begin) {
    *begin = trm_cut(m, e->ranks, rank);
    return trm_cut(m, e->ranks, rank + 1) - *begin;
}

static trm_status plan(trm_engine *e, trm_exam *x, int64_t n) {
    if (n == 0) return TRM_OK;
    for (int i = 0; i < x->programs; i++)
        if (x->program_n[i] == n) return TRM_OK;
    TRM_TRY(trm_runner_plan_eval(e->runner, n, &x->program[x->programs]));
    x->program_n[x->programs++] = n;
    return TRM_OK;
}

static int program_of(const trm_exam *x, int64_t n) {
    for (int i = 0; i < x->programs; i++)
        if (x->program_n[i] == n) return x->program[i];
    return -1;
}

static trm_status alloc(const trm_engine *e, trm_exam *x, const trm_data_info *d) {
    size_t n = (size_t)trm_max64(x->most, 1);
    x->x = trm_alloc_array(n, (size_t)d->x_stride, "validation samples");
    x->index = trm_alloc_array(n, sizeof *x->index, "validation samples");
    if (!x->x || !x->index) return TRM_MEMORY;
    if (d->y_offset >= 0) return TRM_OK;
    /* Where the set has no targets nothing is read into it: they stay zero. */
    x->y = trm_alloc_array(n, (size_t)trm_max64(e->bare ? e->form.y_stride : d->y_stride, 1),
                           "validation targets");
    return x->y ? TRM_OK : TRM_MEMORY;
}

trm_status trm_exam_open(trm_engine *e, trm_dataset *set, trm_exam *out) {
    const trm_data_info *d = trm_dataset_info(set);
    int64_t begin;
    *out = (trm_exam){.set = set, .samples = d->samples};
    out->pass = trm_min64(trm_cut(e->job->train.batch, e->job->train.micro_batches, 1), d->samples);
    out->most = trm_exam_slice(e, e->rank, out->pass, &begin);
    TRM_TRY(plan(e, out, out->most));
    TRM_TRY(plan(e, out, trm_exam_slice(e, e->rank, d->samples % out->pass, &begin)));
    return alloc(e, out, d);
}

void trm_exam_close(trm_exam *x) {
    trm_free(x->x);
    trm_free(x->y);
    trm_free(x->index);
    *x = (trm_exam){0};
}

trm_status trm_exam_pass(trm_engine *e, trm_exam *x, int64_t first, int64_t m, double tail[TRM_TAIL_SIZE]) {
    int64_t begin, n = trm_exam_slice(e, e->rank, m, &begin), y_offset = trm_dataset_info(x->set)->y_offset;
    if (n == 0) return TRM_OK;
    for (int64_t i = 0; i < n; i++) x->index[i] = first + begin + i;
    TRM_TRY(trm_dataset_read(x->set, x->index, n, x->x, x->y));
    trm_step step = {.x_raw = x->x,
                     .y_raw = y_offset >= 0 ? (const char *)x->x + y_offset : x->y,
                     .sample = x->index,
                     .tail = tail};
    return trm_runner_eval(e->runner, program_of(x, n), &step);
}

trm_status trm_exam_run(trm_engine *e, trm_exam *x, trm_exam_result *out) {
    double tail[TRM_TAIL_SIZE] = {0}, began = trm_now();
    for (int64_t first = 0; first < x->samples; first += x->pass)
        TRM_TRY(trm_exam_pass(e, x, first, trm_min64(x->pass, x->samples - first), tail));
    TRM_TRY(trm_comm_sum_f64(e->comm, tail, TRM_TAIL_SIZE));
    double count = tail[TRM_TAIL_COUNT];
    *out = (trm_exam_result){.loss = count > 0 ? trm_no_sign(tail[TRM_TAIL_LOSS] / count) : NAN,
                             .accuracy = count > 0 ? tail[TRM_TAIL_CORRECT] / count : NAN,
                             .count = count,
                             .samples = x->samples,
                             .seconds = trm_now() - began};
    return TRM_OK;
}

/* ---- what is said of a result ---- */

typedef enum trm_quality { MEASURE_NONE, MEASURE_ACCURACY, MEASURE_PERPLEXITY } trm_quality;

static trm_quality measure_of(const trm_engine *e) {
    if (e->job->train.loss != TRM_LOSS_CROSS_ENTROPY) return MEASURE_NONE;
    return trm_engine_data(e)->kind == TRM_DATA_SAMPLES ? MEASURE_ACCURACY : MEASURE_PERPLEXITY;
}

void trm_exam_words(const trm_engine *e, double loss, double accuracy, char *buf, size_t cap) {
    trm_quality m = measure_of(e);
    buf[0] = '\0';
    if (m == MEASURE_ACCURACY) snprintf(buf, cap, ", accuracy %.2f %%", 100 * accuracy);
    if (m == MEASURE_PERPLEXITY) snprintf(buf, cap, ", perplexity %.4g", exp(loss));
}

void trm_exam_record(trm_record *r, const trm_engine *e, const char *prefix, double loss, double accuracy) {
    char key[48];
    trm_quality m = measure_of(e);
    snprintf(key, sizeof key, "%sloss", prefix);
    trm_record_num(r, key, loss);
    snprintf(key, sizeof key, "%s%s", prefix, m == MEASURE_ACCURACY ? "accuracy" : "perplexity");
    if (m != MEASURE_NONE) trm_record_num(r, key, m == MEASURE_ACCURACY ? accuracy : exp(loss));
}
