/* repack: the same rows stored in another way, and what that is worth: bytes, and rows a second in random order. */
#include "make_impl.h"
#include <sys/stat.h>

#define CHUNK_BYTES (256 * 1024)
#define LEAST_CHUNK (64 * 1024)
#define TRIAL_SECONDS 0.25

/* ---- how fast it is read ---- */

static double rate_of(trm_dataset *d) {
    const trm_data_info *info = trm_dataset_info(d);
    trm_rng_key key = {.seed = 1, .purpose = TRM_RNG_ORDER};
    void *x = trm_alloc((size_t)info->x_stride + 64, "a trial");
    double start = trm_now(), took = 0;
    int64_t n = 0;
    while (x && took < TRIAL_SECONDS) {
        int64_t at = (int64_t)trm_rng_below(&key, (uint64_t)n, (uint64_t)info->samples);
        if (trm_dataset_read(d, &at, 1, x, NULL) != TRM_OK) break;
        n++;
        took = trm_now() - start;
    }
    trm_free(x);
    return took > 0 ? (double)n / took : 0;
}

/* 0 where the inputs cannot be read as a job would. */
static double trial(const char *const *files, int n, const char *input) {
    trm_dataset *d = NULL;
    trm_data_spec spec = {
        .files = files, .n_files = n, .input = input, .no_target = true, .cache = TRM_CACHE_OFF};
    trm_status s = trm_dataset_open(&spec, &d);
    spec.window = 128;
    if (s != TRM_OK) s = trm_dataset_open(&spec, &d);
    if (s != TRM_OK) return 0;
    double rate = rate_of(d);
    trm_dataset_close(d);
    return rate;
}

static int64_t size_of(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* ---- storing ---- */

typedef struct job {
    trm_rowset *r;
    trm_h5_store store;
} job;

static trm_status write_rows(trm_h5_file *f, const void *ctx) {
    const job *j = ctx;
    return trm_rowset_copy(j->r, f, NULL, trm_rowset_count(j->r), &j->store);
}

static trm_status plan_store(const trm_rowset *r, const trm_repack_spec *how, trm_h5_store *out) {
    size_t row = r->facts.type_bytes;
    char size[16];
    for (int i = 1; i < r->facts.rank; i++) row *= (size_t)r->facts.dim[i];
    int64_t rows = how->chunk_rows >= 0 ? how->chunk_rows : trm_max64((int64_t)(CHUNK_BYTES / row), 1);
    if (rows > trm_rowset_count(r)) rows = trm_rowset_count(r);
    if (how->deflate > 0 && rows == 0)
        return trm_fail(TRM_USAGE, "gzip is asked for without chunks; it needs a number of rows from 1");
    if (how->shuffle && how->deflate == 0)
        return trm_fail(TRM_USAGE, "shuffle is asked for without gzip, which alone gains by it");
    if ((size_t)rows > TRM_BAND_LIMIT / row)
        return trm_fail(TRM_USAGE, "chunks of %lld rows are larger than 1 GiB", (long long)rows);
    if (how->chunk_rows > 0 && ((size_t)rows * row < LEAST_CHUNK || (size_t)rows * row > TRM_MIB))
        trm_log(TRM_LOG_WARN, "chunks of %s: 64 KiB to 1 MiB are read fastest",
                trm_human_bytes((double)rows * (double)row, size, sizeof size));
    *out = (trm_h5_store){rows, how->deflate, how->shuffle};
    return TRM_OK;
}

static trm_status repack(trm_rowset *r, const trm_repack_spec *how, const char *out, trm_repack_gain *gain) {
    job j = {.r = r};
    TRM_TRY(trm_rowset_apart(r, out));
    TRM_TRY(plan_store(r, how, &j.store));
    gain->chunk_rows = j.store.chunk_rows;
    for (int i = 0; i < r->paths.n; i++) gain->bytes_before += size_of(r->paths.at[i].path);
    gain->before = trial(r->spec->files, r->spec->n_files, r->input);
    TRM_TRY(trm_h5_replace(out, write_rows, &j));
    gain->bytes_after = size_of(out);
    gain->after = trial(&out, 1, r->input);
    return TRM_OK;
}

trm_status trm_repack(const trm_set_spec *spec, const trm_repack_spec *how, const char *out, trm_made *made,
                      trm_repack_gain *gain) {
    trm_rowset r;
    *gain = (trm_repack_gain){0};
    trm_status s = trm_rowset_open(spec, &r);
    if (s == TRM_OK) s = repack(&r, how, out, gain);
    if (s == TRM_OK) trm_rowset_made(&r, trm_rowset_count(&r), made);
    trm_rowset_close(&r);
    return s;
}
