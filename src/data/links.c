/* links: where a name leads where the job allows what the file itself does not hold.
 *
 * A soft link stays in its file.  An external link, and external raw storage, name another file: it has to lie in the
 * folder of the file that names it, or below.  Its path is walked part by part, with no step up and no link of the file
 * system, so that no file can send a reader anywhere else. */
#include "data_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_HOPS 16

/* ---- files beside a file ---- */

static trm_status outside(const char *from, const char *name, const char *why) {
    return trm_fail(TRM_DATA,
                    "%s: names the file %s, which %s: only files of its own folder and below are read", from,
                    name, why);
}

/* One step down from the folder `at`, which is closed; the new place is *next. */
static trm_status step_down(const char *from, const char *name, const char *part, bool last, int at,
                            int *next) {
    struct stat st;
    char why[128];
    *next = openat(at, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int e = errno;
    close(at);
    if (*next < 0)
        return e == ENOENT ? trm_fail(TRM_DATA, "%s: names the file %s, which does not exist", from, name)
                           : outside(from, name, strerror_r(e, why, sizeof why));
    if (fstat(*next, &st) == 0 && (last ? S_ISREG(st.st_mode) : S_ISDIR(st.st_mode))) return TRM_OK;
    close(*next);
    return outside(from, name,
                   S_ISLNK(st.st_mode) ? "is reached by a link"
                   : last              ? "is no plain file"
                                       : "lies below no folder");
}

trm_status trm_beneath(const char *from, const char *name, char **out, int64_t *size) {
    const char *slash = strrchr(from, '/');
    trm_str folder = {0}, part = {0};
    struct stat st;
    trm_str_addn(&folder, slash ? from : ".", slash ? (size_t)trm_max64(slash - from, 1) : 1);
    int at = folder.failed ? -1 : open(folder.p, O_PATH | O_DIRECTORY | O_CLOEXEC);
    trm_status s = at < 0 ? trm_fail(TRM_DATA, "%s: its folder cannot be opened", from) : TRM_OK;
    if (s == TRM_OK && (name[0] == '/' || name[0] == '\0')) s = outside(from, name, "is no path below it");
    if (s != TRM_OK && at >= 0) close(at);
    for (const char *p = name; s == TRM_OK && *p;) {
        size_t n = strcspn(p, "/");
        trm_str_free(&part);
        part = (trm_str){0};
        trm_str_addn(&part, p, n);
        p += n;
        p += strspn(p, "/");
        if (part.failed || strcmp(part.p, "..") == 0) {
            close(at);
            s = part.failed ? TRM_MEMORY : outside(from, name, "leads up");
        } else if (strcmp(part.p, ".") != 0) {
            s = step_down(from, name, part.p, *p == '\0', at, &at);
        }
    }
    if (s == TRM_OK) {
        *size = fstat(at, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : -1;
        close(at);
        if (*size < 0) s = outside(from, name, "is no plain file");
    }
    if (s == TRM_OK) {
        trm_str_add(&folder, "/%s", name);
        *out = folder.failed ? NULL : trm_strdup(slash ? folder.p : name);
        if (!*out) s = TRM_MEMORY;
    }
    trm_str_free(&folder);
    trm_str_free(&part);
    return s;
}

/* ---- following ---- */

/* What stands in `name` behind the parts of `at`. */
static const char *rest_of(const char *name, const char *at) {
    while (*name == '/') name++;
    while (*at) {
        at += strcspn(at, "/");
        at += *at == '/';
        name += strcspn(name, "/");
        name += strspn(name, "/");
    }
    return name;
}

/* The path that a link at `at` gives to `name`: `target`, from the link's own group where it is relative. */
static void next_path(const char *name, const char *at, const char *target, trm_str *out) {
    const char *slash = strrchr(at, '/');
    if (target[0] != '/' && slash) trm_str_addn(out, at, (size_t)(slash + 1 - at));
    const char *rest = rest_of(name, at);
    trm_str_add(out, *rest ? "%s/%s" : "%s%s", target, rest);
}

static trm_status too_long(const trm_h5 *f, const char *name) {
    return trm_fail(TRM_DATA, "%s: '%s' leads through more than %d links, or too long ones", trm_h5_path(f),
                    name, MOST_HOPS);
}

/* Opens the file of an external link; *to is the one that was reached before. */
static trm_status enter_file(trm_h5 *from, const trm_h5_found *found, trm_h5 **to) {
    trm_h5 *next = NULL;
    char *path = NULL;
    int64_t size;
    trm_str file = {0};
    trm_str_addn(&file, found->target, found->target_file);
    trm_status s = file.failed ? TRM_MEMORY : trm_beneath(trm_h5_path(from), file.p, &path, &size);
    if (s == TRM_OK) s = trm_h5_begin(path, false, &next);
    trm_str_free(&file);
    trm_free(path);
    if (s != TRM_OK)
        return trm_prefix(s, "%s: '%s' is an external link to %s, which cannot be opened", trm_h5_path(from),
                          found->at, found->target);
    trm_h5_allow(next, trm_h5_allowed(from));
    if (*to) (void)!trm_h5_end(*to);
    *to = next;
    return TRM_OK;
}

trm_status trm_follow(trm_h5 *f, const char *name, trm_h5 **other, char **out) {
    trm_h5_found found;
    trm_str path = {0};
    trm_status s = TRM_OK;
    *other = NULL;
    trm_str_add(&path, "%s", name);
    for (int hop = 0; s == TRM_OK; hop++) {
        trm_h5 *now = *other ? *other : f;
        trm_str next = {0};
        s = path.failed ? TRM_MEMORY : trm_h5_look(now, path.p, &found);
        if (s != TRM_OK || (found.kind != TRM_H5_SOFT && found.kind != TRM_H5_EXTERNAL)) break;
        if (hop == MOST_HOPS || !found.target[0]) {
            s = too_long(f, name);
            break;
        }
        if (found.kind == TRM_H5_EXTERNAL) s = enter_file(now, &found, other);
        next_path(path.p, found.at,
                  found.kind == TRM_H5_SOFT ? found.target : found.target + found.target_file + 1, &next);
        trm_str_free(&path);
        path = next;
    }
    if (s == TRM_OK && !(*out = trm_strdup(path.p))) s = TRM_MEMORY;
    trm_str_free(&path);
    if (s == TRM_OK) return s;
    if (*other) (void)!trm_h5_end(*other);
    *other = NULL;
    return s;
}

/* ---- external raw storage ---- */

trm_status trm_judge_external(trm_h5 *f, const char *name, const trm_h5_facts *x) {
    const char *path = trm_h5_path(f);
    if (getenv("HDF5_EXTFILE_PREFIX"))
        return trm_fail(TRM_DATA,
                        "%s: '%s' keeps its bytes in another file, and HDF5_EXTFILE_PREFIX is set: unset it",
                        path, name);
    for (int i = 0; i < x->n_external; i++) {
        char file[256], *full = NULL;
        uint64_t offset, bytes;
        int64_t size = 0;
        TRM_TRY(trm_h5_external(f, name, i, file, sizeof file, &offset, &bytes));
        TRM_TRY(trm_beneath(path, file, &full, &size));
        trm_free(full);
        if (offset <= (uint64_t)size && bytes <= (uint64_t)size - offset) continue;
        return trm_fail(TRM_DATA, "%s: '%s' needs %llu bytes at byte %llu of %s, which has %lld", path, name,
                        (unsigned long long)bytes, (unsigned long long)offset, file, (long long)size);
    }
    return TRM_OK;
}
