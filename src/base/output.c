/* output: may a file be written under this name?  Asked before the work, so that nothing of the user's is lost. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <trireme/base.h>
#include <unistd.h>

static const char *kind_of(mode_t mode) {
    switch (mode & S_IFMT) {
    case S_IFDIR: return "a folder";
    case S_IFIFO: return "a pipe";
    case S_IFSOCK: return "a socket";
    case S_IFLNK: return "a symbolic link";
    default: return "a device";
    }
}

static trm_status check_folder(const char *path) {
    struct stat st;
    const char *slash = strrchr(path, '/');
    trm_str folder = {0};
    if (!slash) return TRM_OK;
    trm_str_addn(&folder, path, slash == path ? 1 : (size_t)(slash - path));
    if (folder.failed) {
        trm_str_free(&folder);
        return TRM_MEMORY;
    }
    bool there = stat(folder.p, &st) == 0 && S_ISDIR(st.st_mode);
    trm_status status =
        there ? TRM_OK : trm_fail(TRM_USAGE, "cannot write %s: %s is no folder", path, trm_str_get(&folder));
    trm_str_free(&folder);
    return status;
}

static bool has_magic(const char *path, const trm_output_kind *kind) {
    char head[16] = {0};
    size_t end = kind->at + kind->n;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t got = end <= sizeof head ? pread(fd, head, end, 0) : -1;
    close(fd);
    return got == (ssize_t)end && memcmp(head + kind->at, kind->magic, kind->n) == 0;
}

trm_status trm_output_check(const char *path, const trm_output_kind *kind) {
    struct stat st;
    size_t n = strlen(path);
    if (n == 0) return trm_fail(TRM_USAGE, "the name of the file to write is empty; a file name is allowed");
    if (lstat(path, &st) != 0 && errno == ENOENT && path[n - 1] != '/') return check_folder(path);
    if (lstat(path, &st) != 0)
        return trm_fail(TRM_USAGE, "cannot write %s: it is no name that a file can have here", path);
    if (!S_ISREG(st.st_mode))
        return trm_fail(TRM_USAGE, "cannot write %s: it is %s; allowed are new names and regular files", path,
                        kind_of(st.st_mode));
    if (!kind || st.st_size == 0 || has_magic(path, kind)) return TRM_OK;
    trm_fail(TRM_USAGE, "will not replace %s: it is no %s file", path, kind->name);
    trm_hint("give another name, or remove that file first");
    return TRM_USAGE;
}

trm_status trm_output_apart(const char *path, const char *const *inputs, int n) {
    struct stat out, in;
    if (stat(path, &out) != 0) return TRM_OK;
    for (int i = 0; i < n; i++)
        if (stat(inputs[i], &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return trm_fail(TRM_USAGE, "cannot write %s: it is the input %s; allowed is another file", path,
                            inputs[i]);
    return TRM_OK;
}
