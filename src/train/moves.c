/* moves: the shares that a run had, read from its records: `run` names the first ones, each `balance` that moved the next. */
#include <jansson.h>
#include <string.h>

#include "run_impl.h"

typedef struct reader {
    const char *path;
    int64_t line, cap;
    trm_moves m;
} reader;

static trm_status refuse(const reader *r, const char *what) {
    return trm_fail(TRM_DATA, "%s:%lld: %s", r->path, (long long)r->line, what);
}

static int64_t number(const json_t *j, const char *key, int64_t none) {
    const json_t *v = json_object_get(j, key);
    return json_is_integer(v) ? json_integer_value(v) : none;
}

static trm_status grow(trm_moves *m, int64_t *cap) {
    if (m->n < *cap) return TRM_OK;
    int64_t more = *cap ? 2 * *cap : 16;
    size_t each = (size_t)m->ranks * sizeof *m->counts;
    int64_t *first =
        trm_realloc(m->first, (size_t)*cap * sizeof *first, (size_t)more * sizeof *first, "moves");
    if (!first) return TRM_MEMORY;
    m->first = first;
    int64_t *counts = trm_realloc(m->counts, (size_t)*cap * each, (size_t)more * each, "moves");
    if (!counts) return TRM_MEMORY;
    m->counts = counts;
    *cap = more;
    return TRM_OK;
}

static trm_status add_move(reader *r, int64_t first, const json_t *shares) {
    trm_moves *m = &r->m;
    if (m->ranks < 1 || !json_is_array(shares) || json_array_size(shares) != (size_t)m->ranks || first < 0)
        return refuse(r, "a record of shares makes no sense");
    /* What a resumed run does anew counts, not what was done before it. */
    while (m->n > 0 && m->first[m->n - 1] >= first) m->n--;
    TRM_TRY(grow(m, &r->cap));
    int64_t *counts = m->counts + m->n * m->ranks, sum = 0;
    for (int i = 0; i < m->ranks; i++) {
        const json_t *v = json_array_get(shares, (size_t)i);
        counts[i] = json_is_integer(v) ? json_integer_value(v) : -1;
        if (counts[i] < 0 || counts[i] > INT64_MAX - sum)
            return refuse(r, "a share is no whole number from 0");
        sum += counts[i];
    }
    if (sum < 1) return refuse(r, "the shares are all 0");
    /* A run that is resumed names the shares that it goes on with: no move. */
    if (m->n == 0 || memcmp(counts - m->ranks, counts, (size_t)m->ranks * sizeof *counts) != 0)
        m->first[m->n++] = first;
    return TRM_OK;
}

static trm_status read_run(reader *r, const json_t *j) {
    trm_moves *m = &r->m;
    int64_t ranks = number(j, "ranks", 0), batch = number(j, "batch", 0), k = number(j, "micro_batches", 0);
    if (ranks < 1 || ranks > 1000000 || batch < 1 || k < 1 || k > 65536)
        return refuse(r, "the record of the run makes no sense");
    if (ranks != m->ranks) m->n = r->cap = 0;
    if (ranks != m->ranks) {
        trm_free(m->first);
        trm_free(m->counts);
        m->first = m->counts = NULL;
    }
    m->ranks = (int)ranks;
    m->batch = batch;
    m->micro_batches = (int)k;
    const json_t *shares = json_object_get(j, "shares");
    return shares ? add_move(r, number(j, "update", 0), shares) : TRM_OK;
}

static trm_status read_record(void *ctx, int64_t line, const char *kind, const json_t *j) {
    reader *r = ctx;
    r->line = line;
    if (!strcmp(kind, "run")) return read_run(r, j);
    if (strcmp(kind, "balance") != 0 || !json_is_true(json_object_get(j, "moved"))) return TRM_OK;
    return add_move(r, number(j, "first_update", 0) - 1, json_object_get(j, "shares"));
}

trm_status trm_moves_read(const char *folder, trm_moves *out) {
    char path[TRM_RUN_PATH + 32];
    *out = (trm_moves){0};
    snprintf(path, sizeof path, "%.4095s/metrics.jsonl", folder);
    reader r = {.path = path};
    trm_status status = trm_records_read(path, read_record, &r);
    if (status == TRM_OK && r.m.n == 0) {
        status = trm_fail(TRM_DATA, "%s names no shares", path);
        trm_hint("a run writes them since it has more than one rank and knows of balancing");
    }
    *out = r.m;
    if (status != TRM_OK) trm_moves_free(out);
    return status;
}

void trm_moves_free(trm_moves *m) {
    trm_free(m->first);
    trm_free(m->counts);
    *m = (trm_moves){0};
}

trm_status trm_moves_spread(trm_comm *c, trm_moves *m) {
    void *first = m->first, *counts = m->counts;
    size_t a = (size_t)m->n * sizeof *m->first, b = a * (size_t)m->ranks;
    trm_moves head = *m;
    TRM_TRY(trm_comm_bcast(c, &head, sizeof head, 0));
    if (head.n == 0) return TRM_OK;
    TRM_TRY(trm_comm_bcast_block(c, &first, &a, 0));
    if (trm_comm_rank(c) != 0) {
        *m = head;
        m->first = first;
        m->counts = NULL;
    }
    TRM_TRY(trm_comm_bcast_block(c, &counts, &b, 0));
    m->counts = counts;
    return TRM_OK;
}

const int64_t *trm_moves_at(const trm_moves *m, int64_t update) {
    int64_t i = 0;
    while (i < m->n && m->first[i] <= update) i++;
    return i > 0 ? m->counts + (i - 1) * m->ranks : NULL;
}
