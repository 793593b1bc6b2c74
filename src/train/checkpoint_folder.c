/* checkpoint_folder: which step folders there are, which go, and syncing them to the disk. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_impl.h"

static bool is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

void trm_ckpt_folder(const char *path, char out[TRM_CKPT_PATH]) {
    int n = snprintf(out, TRM_CKPT_PATH, "%s/checkpoints", path);
    if (n >= TRM_CKPT_PATH || !is_dir(out)) snprintf(out, TRM_CKPT_PATH, "%s", path);
}

trm_status trm_ckpt_step_path(const char *folder, int64_t update, char out[TRM_CKPT_PATH]) {
    if (snprintf(out, TRM_CKPT_PATH, "%s/step-%08lld", folder, (long long)update) < TRM_CKPT_PATH)
        return TRM_OK;
    return trm_fail(TRM_IO, "the path of a checkpoint is too long: %.64s...", folder);
}

/* ---- list ---- */

/* "step-00000120" -> 120; -1 for any other name, also for one with too few digits. */
static int64_t update_of(const char *name) {
    int64_t update;
    if (strncmp(name, "step-", 5) != 0 || strlen(name) < 13 ||
        strspn(name + 5, "0123456789") != strlen(name + 5))
        return -1;
    return trm_parse_int(name + 5, &update) ? update : -1;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

typedef struct step_list {
    int64_t *update;
    int n, cap;
} step_list;

static trm_status add(step_list *l, int64_t update) {
    if (l->n == l->cap) {
        int cap = l->cap ? 2 * l->cap : 16;
        int64_t *p = trm_realloc(l->update, (size_t)l->n * sizeof *p, (size_t)cap * sizeof *p,
                                 "a list of checkpoints");
        if (!p) return TRM_MEMORY;
        l->update = p;
        l->cap = cap;
    }
    l->update[l->n++] = update;
    return TRM_OK;
}

trm_status trm_ckpt_list(const char *folder, int64_t **update, int *n) {
    step_list l = {0};
    trm_status status = TRM_OK;
    DIR *d = opendir(folder);
    if (!d && errno != ENOENT) return trm_fail(TRM_IO, "cannot list %s: %s", folder, strerror(errno));
    for (struct dirent *e = d ? readdir(d) : NULL; e && status == TRM_OK; e = readdir(d))
        if (update_of(e->d_name) >= 0) status = add(&l, update_of(e->d_name));
    if (d) closedir(d);
    if (status != TRM_OK) {
        trm_free(l.update);
        return status;
    }
    if (l.n > 0) qsort(l.update, (size_t)l.n, sizeof *l.update, ascending);
    *update = l.update;
    *n = l.n;
    return TRM_OK;
}

/* ---- prune ---- */

/* Out of sight first: a folder that is half removed must not look like a checkpoint. */
static trm_status remove_step(const char *folder, int64_t update) {
    char path[TRM_CKPT_PATH], gone[TRM_CKPT_PATH + 32];
    TRM_TRY(trm_ckpt_step_path(folder, update, path));
    snprintf(gone, sizeof gone, "%s/.step-%08lld.gone", folder, (long long)update);
    TRM_TRY(trm_remove_tree(gone));
    if (rename(path, gone) != 0) return trm_fail(TRM_IO, "cannot remove %s: %s", path, strerror(errno));
    return trm_remove_tree(gone);
}

trm_status trm_checkpoint_prune(const char *folder, int64_t keep, int64_t best_update) {
    int64_t *update = NULL;
    int n = 0;
    if (keep <= 0) return TRM_OK;
    TRM_TRY(trm_ckpt_list(folder, &update, &n));
    trm_status status = TRM_OK;
    for (int i = 0; i < n - keep && status == TRM_OK; i++)
        if (update[i] != best_update) status = remove_step(folder, update[i]);
    trm_free(update);
    return status;
}

/* What a killed writer left: names that begin with a dot are never checkpoints. */
trm_status trm_ckpt_sweep(const char *folder) {
    trm_status status = TRM_OK;
    DIR *d = opendir(folder);
    for (struct dirent *e = d ? readdir(d) : NULL; e && status == TRM_OK; e = readdir(d)) {
        char path[TRM_CKPT_PATH + 256];
        if (strncmp(e->d_name, ".step-", 6) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        status = trm_remove_tree(path);
    }
    if (d) closedir(d);
    return status;
}

/* ---- files ---- */

trm_status trm_sync_path(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return trm_fail(TRM_IO, "cannot sync %s: %s", path, strerror(errno));
    /* Some file systems cannot sync a folder and say EINVAL. */
    int rc = fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
    close(fd);
    if (rc == 0) return TRM_OK;
    return trm_fail(TRM_IO, "cannot sync %s: %s", path, strerror(rc));
}

trm_status trm_hash_file(const char *path, int64_t *bytes, uint64_t *hash) {
    static const size_t block = (size_t)1 << 20;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return trm_fail(TRM_IO, "cannot read %s: %s", path, strerror(errno));
    char *buffer = trm_alloc(block, "reading a file");
    trm_status status = buffer ? TRM_OK : TRM_MEMORY;
    int64_t n = 0;
    uint64_t h = trm_hash("", 0, 0);
    for (ssize_t got = 1; status == TRM_OK && got > 0;) {
        got = read(fd, buffer, block);
        if (got < 0 && errno == EINTR) {
            got = 1;
            continue;
        }
        if (got < 0) status = trm_fail(TRM_IO, "cannot read %s: %s", path, strerror(errno));
        if (got > 0) h = trm_hash(buffer, (size_t)got, h);
        if (got > 0) n += got;
    }
    close(fd);
    trm_free(buffer);
    if (status != TRM_OK) return status;
    *bytes = n;
    *hash = h;
    return TRM_OK;
}
