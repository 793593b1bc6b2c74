/* replicas: weights between host and device, between ranks, and whether all ranks hold the same. */
#include <string.h>

#include "run_impl.h"

/* ---- host <-> device floats ---- */

static void to_host(const trm_engine *e, const void *device, int64_t n, float *host) {
    trm_convert_f32(device, trm_engine_float(e) == 8 ? TRM_F64 : TRM_F32, n, host);
}

static void to_device(const trm_engine *e, const float *host, int64_t n, void *device) {
    if (trm_engine_float(e) == 8)
        trm_convert_f64(host, TRM_F32, n, device);
    else
        memcpy(device, host, (size_t)n * sizeof *host);
}

static trm_status host_array(const trm_engine *e, const void *device, int64_t n, bool read, float **out) {
    *out = trm_alloc_array((size_t)trm_max64(n, 1), sizeof **out, "weights on their way");
    if (!*out) return TRM_MEMORY;
    if (read) to_host(e, device, n, *out);
    return TRM_OK;
}

static trm_status host_arrays(const trm_engine *e, bool moments, bool read, trm_weights *w) {
    int64_t space = trm_graph_param_space(e->graph);
    TRM_TRY(host_array(e, e->weights, space, read, &w->weights));
    TRM_TRY(host_array(e, e->state, trm_graph_state_space(e->graph), read, &w->state));
    if (moments && e->m1) TRM_TRY(host_array(e, e->m1, space, read, &w->m1));
    if (moments && e->m2) TRM_TRY(host_array(e, e->m2, space, read, &w->m2));
    return TRM_OK;
}

trm_status trm_host_create(const trm_engine *e, bool moments, bool read, trm_weights *out) {
    *out = (trm_weights){0};
    trm_status status = host_arrays(e, moments, read, out);
    if (status != TRM_OK) trm_host_free(out);
    return status;
}

void trm_host_free(trm_weights *w) {
    trm_free(w->weights);
    trm_free(w->m1);
    trm_free(w->m2);
    trm_free(w->state);
    *w = (trm_weights){0};
}

/* ---- between ranks ---- */

static trm_status bcast(trm_engine *e, void *bytes, size_t n, int root) {
    static const size_t piece = (size_t)64 << 20;
    for (size_t at = 0; at < n; at += piece)
        TRM_TRY(trm_comm_bcast(e->comm, (char *)bytes + at, n - at < piece ? n - at : piece, root));
    return TRM_OK;
}

static trm_status spread(trm_engine *e, const float *host, int64_t n, void *device) {
    if (e->rank == 0) to_device(e, host, n, device);
    return bcast(e, device, (size_t)n * trm_engine_float(e), 0);
}

trm_status trm_engine_spread(trm_engine *e, const trm_weights *w) {
    int64_t space = trm_graph_param_space(e->graph);
    TRM_TRY(spread(e, w->weights, space, e->weights));
    TRM_TRY(spread(e, w->state, trm_graph_state_space(e->graph), e->state));
    if (e->m1) TRM_TRY(spread(e, w->m1, space, e->m1));
    return e->m2 ? spread(e, w->m2, space, e->m2) : TRM_OK;
}

trm_status trm_engine_load_weights(trm_engine *e, const char *path) {
    trm_weights w = {0};
    trm_status status = TRM_OK;
    if (e->rank == 0) {
        status = trm_host_create(e, false, false, &w);
        if (status == TRM_OK) status = trm_weights_read(path, e->graph, &w);
    }
    status = trm_root_says(e->comm, status);
    if (status == TRM_OK) status = trm_engine_spread(e, &w);
    trm_host_free(&w);
    return status;
}

trm_status trm_engine_share_state(trm_engine *e) {
    int64_t n = trm_graph_state_space(e->graph);
    if (n == 0 || e->ranks == 1) return TRM_OK;
    return bcast(e, e->state, (size_t)n * trm_engine_float(e), e->state_root);
}

/* ---- are they the same? ---- */

static trm_status differ(const trm_engine *e, const uint64_t *hash, int64_t update) {
    trm_str ranks = {0};
    int n = 0;
    for (int r = 1; r < e->ranks; r++) {
        if (hash[r] == hash[0]) continue;
        if (++n <= 8) trm_str_add(&ranks, "%s%d", n > 1 ? ", " : "", r);
    }
    trm_fail(
        TRM_NUMERIC,
        "after update %lld the weights of rank%s %s%s differ from those of rank 0; no checkpoint was written",
        (long long)update, n > 1 ? "s" : "", trm_str_get(&ranks), n > 8 ? ", ..." : "");
    trm_hint("all ranks must hold the same weights; a faulty core or memory can change them");
    trm_str_free(&ranks);
    return TRM_NUMERIC;
}

trm_status trm_engine_compare(trm_engine *e, int64_t update) {
    size_t n = (size_t)trm_graph_param_space(e->graph) * trm_engine_float(e);
    if (e->ranks == 1) return TRM_OK;
    uint64_t mine = trm_hash(e->weights, n, 0);
    if (e->m1) mine = trm_hash(e->m1, n, mine);
    if (e->m2) mine = trm_hash(e->m2, n, mine);
    uint64_t *all = trm_alloc_array((size_t)e->ranks, sizeof *all, "checksums of the ranks");
    trm_status status = trm_comm_agree(e->comm, all ? TRM_OK : TRM_MEMORY);
    if (status == TRM_OK) status = trm_comm_allgather(e->comm, &mine, sizeof mine, all);
    for (int r = 1; r < e->ranks && status == TRM_OK; r++)
        if (all[r] != all[0]) status = differ(e, all, update);
    trm_free(all);
    return status;
}
