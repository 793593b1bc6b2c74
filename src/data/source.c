/* source: the bytes of a regular file from its beginning, packed by gzip or not. */
#include "make_impl.h"
#include <unistd.h>
#include <zlib.h>

trm_status trm_source_open(const char *path, trm_source *out) {
    int fd;
    *out = (trm_source){.path = path};
    TRM_TRY(trm_open_regular(path, &fd, &out->size));
    gzFile z = gzdopen(fd, "rb");
    if (!z) {
        close(fd);
        return trm_fail(TRM_MEMORY, "zlib cannot be started");
    }
    gzbuffer(z, TRM_MIB);
    out->packed = gzdirect(z) == 0;
    out->z = z;
    return TRM_OK;
}

void trm_source_close(trm_source *s) {
    if (s->z) gzclose(s->z);
    *s = (trm_source){0};
}

/* Where the compressed bytes stop before their check sum, zlib says so only at the end. */
static trm_status check_end(const trm_source *s) {
    int code;
    gzerror(s->z, &code);
    if (code == Z_BUF_ERROR || !gzeof((gzFile)s->z))
        return trm_fail(TRM_DATA, "%s: truncated: the compressed data has no end", s->path);
    return TRM_OK;
}

trm_status trm_source_some(trm_source *s, void *dst, size_t n, size_t *got) {
    *got = 0;
    while (*got < n) {
        size_t step = n - *got < TRM_GIB ? n - *got : TRM_GIB;
        int code, more = gzread(s->z, (char *)dst + *got, (unsigned)step);
        if (more < 0) return trm_fail(TRM_DATA, "%s: damaged: %s", s->path, gzerror(s->z, &code));
        if (more == 0) return check_end(s);
        *got += (size_t)more;
    }
    return TRM_OK;
}

trm_status trm_source_take(trm_source *s, void *dst, size_t n) {
    size_t got;
    TRM_TRY(trm_source_some(s, dst, n, &got));
    return got == n ? TRM_OK : trm_fail(TRM_DATA, "%s: ends %zu bytes early", s->path, n - got);
}

bool trm_source_may_hold(const trm_source *s, size_t bytes) {
    return s->packed ? bytes / TRM_DEFLATE_MOST <= (size_t)s->size : bytes <= (size_t)s->size;
}
