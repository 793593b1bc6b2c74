/* file: whole files and folders.  Every fault names the path and the system's own reason. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <trireme/base.h>
#include <unistd.h>

static trm_status io_fault(const char *doing, const char *path) {
    int e = errno;
    char why[128];
    return trm_fail(TRM_IO, "cannot %s %s: %s", doing, path, strerror_r(e, why, sizeof why));
}

/* ---- folders ---- */

static bool is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Another rank may make the same folder at the same time: that is success. */
static trm_status make_one(const char *path) {
    if (mkdir(path, 0777) == 0) return TRM_OK;
    int e = errno;
    if (is_dir(path)) return TRM_OK;
    errno = e;
    if (e == EEXIST) return trm_fail(TRM_USAGE, "cannot make folder %s: something else has this name", path);
    return io_fault("make folder", path);
}

trm_status trm_make_dirs(const char *path) {
    if (*path == '\0') return trm_fail(TRM_IO, "cannot make a folder with an empty name");
    if (is_dir(path)) return TRM_OK;
    char *part = trm_strdup(path);
    if (!part) return TRM_MEMORY;
    trm_status status = TRM_OK;
    for (char *slash = strchr(part + 1, '/'); slash && status == TRM_OK; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        status = make_one(part);
        *slash = '/';
    }
    if (status == TRM_OK) status = make_one(part);
    trm_free(part);
    return status;
}

/* Empties the folder open as `fd`, which is closed in any case. `path` is for messages. */
static trm_status empty_dir(int fd, const char *path);

static trm_status remove_at(int dir, const char *name, const char *path) {
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT) return TRM_OK;
    if (errno != EISDIR && errno != EPERM) return io_fault("remove", path);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return io_fault("remove", path);
    TRM_TRY(empty_dir(fd, path));
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return TRM_OK;
    return io_fault("remove folder", path);
}

static trm_status empty_dir(int fd, const char *path) {
    DIR *d = fdopendir(fd);
    trm_status status = TRM_OK;
    if (!d) {
        status = io_fault("list folder", path);
        close(fd);
        return status;
    }
    for (struct dirent *e = readdir(d); e && status == TRM_OK; e = readdir(d)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        trm_str inner = {0};
        trm_str_add(&inner, "%s/%s", path, e->d_name);
        status = remove_at(dirfd(d), e->d_name, trm_str_get(&inner));
        trm_str_free(&inner);
    }
    closedir(d);
    return status;
}

trm_status trm_remove_tree(const char *path) {
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/') n--;
    bool dots = (n == 1 && path[0] == '.') || (n >= 2 && path[n - 1] == '.' && path[n - 2] == '.');
    if (n == 0 || dots) return trm_fail(TRM_IO, "will not remove the folder '%s'", path);
    return remove_at(AT_FDCWD, path, path);
}

/* ---- writing ---- */

static trm_status write_all(int fd, const char *bytes, size_t n, const char *path) {
    while (n > 0) {
        ssize_t done = write(fd, bytes, n < (1u << 30) ? n : (1u << 30));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return io_fault("write", path);
        bytes += done;
        n -= (size_t)done;
    }
    return TRM_OK;
}

/* Opens a new file beside `path`; its name goes to *aside. */
static int open_aside(const char *path, trm_str *aside) {
    static atomic_uint serial;
    for (int tries = 0; tries < 100; tries++) {
        trm_str_free(aside);
        trm_str_add(aside, "%s.new-%ld-%u", path, (long)getpid(), atomic_fetch_add(&serial, 1));
        if (aside->failed) {
            errno = ENOMEM;
            return -1;
        }
        int fd = open(aside->p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

/* A rename is on the disk only once its folder is; file systems that cannot sync a folder
 * say EINVAL, which is no fault of ours. */
static trm_status sync_folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    trm_str folder = {0};
    trm_status status = TRM_OK;
    if (slash)
        trm_str_addn(&folder, path, slash == path ? 1 : (size_t)(slash - path));
    else
        trm_str_add(&folder, ".");
    int fd = folder.failed ? -1 : open(folder.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && fsync(fd) != 0 && errno != EINVAL) status = io_fault("sync the folder of", path);
    if (fd >= 0) close(fd);
    trm_str_free(&folder);
    return status;
}

static trm_status fill_and_rename(int fd, const char *aside, const char *path, const void *bytes, size_t n) {
    trm_status status = write_all(fd, bytes, n, path);
    if (status == TRM_OK && fsync(fd) != 0) status = io_fault("sync", path);
    if (close(fd) != 0 && status == TRM_OK) status = io_fault("close", path);
    if (status == TRM_OK && rename(aside, path) != 0) status = io_fault("replace", path);
    if (status != TRM_OK) unlink(aside);
    return status;
}

trm_status trm_write_file(const char *path, const void *bytes, size_t n) {
    struct stat st;
    /* A rename would put a plain file in the place of a device or pipe. */
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return trm_fail(TRM_IO, "cannot write %s: it is not a regular file", path);
    trm_str aside = {0};
    int fd = open_aside(path, &aside);
    trm_status status = fd < 0 ? io_fault("write", path) : fill_and_rename(fd, aside.p, path, bytes, n);
    trm_str_free(&aside);
    if (status == TRM_OK) status = sync_folder_of(path);
    return status;
}

/* ---- reading ---- */

/* Opens a regular file; never blocks on a pipe, never wakes a device. */
static trm_status open_regular(const char *path, int *fd) {
    struct stat st;
    if (stat(path, &st) != 0) return io_fault("read", path);
    if (!S_ISREG(st.st_mode)) return trm_fail(TRM_IO, "cannot read %s: it is not a regular file", path);
    *fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (*fd < 0) return io_fault("read", path);
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode)) return TRM_OK;
    close(*fd);
    return trm_fail(TRM_IO, "cannot read %s: it is not a regular file", path);
}

/* Reads to the end of the file, whatever size it had when it was opened. */
static trm_status read_all(int fd, const char *path, size_t limit, trm_str *s) {
    char chunk[16384];
    while (s->len <= limit) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return io_fault("read", path);
        if (got == 0) return TRM_OK;
        trm_str_addn(s, chunk, (size_t)got);
        if (s->failed) return TRM_MEMORY;
    }
    return trm_fail(TRM_IO, "cannot read %s: it is larger than the %zu bytes allowed here", path, limit);
}

trm_status trm_read_file(const char *path, size_t limit, char **out, size_t *n) {
    int fd = -1;
    trm_str s = {0};
    TRM_TRY(open_regular(path, &fd));
    trm_status status = read_all(fd, path, limit, &s);
    close(fd);
    if (status == TRM_OK && !s.p) trm_str_addn(&s, "", 0);
    if (status == TRM_OK && s.failed) status = TRM_MEMORY;
    if (status != TRM_OK) {
        trm_str_free(&s);
        return status;
    }
    *out = s.p;
    if (n) *n = s.len;
    return TRM_OK;
}

/* ---- fingerprint ---- */

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
uint64_t trm_hash(const void *bytes, size_t n, uint64_t seed) {
    const unsigned char *p = bytes;
    uint64_t h = seed ? seed : 0xCBF29CE484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001B3u;
    return h;
}
