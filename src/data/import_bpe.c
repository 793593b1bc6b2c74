/* import_bpe: texts as a stream of tokens of a vocabulary.
 *
 * How many tokens there will be is known at the end only: they wait in a file without a name, and then fill a data set
 * without chunks. */
#include "make_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define WORD_LIMIT (64 * TRM_MIB)

typedef struct stream {
    const trm_bpe_spec *spec;
    const char *out;
    trm_bpe *bpe;
    trm_dtype type;
    int fd; /* the waiting tokens */
    int64_t tokens, bytes, done;
    unsigned char *wait; /* up to a MiB of them */
    size_t waiting;
} stream;

/* ---- the waiting tokens ---- */

static trm_status open_waiting(stream *s) {
    trm_str path = {0};
    char why[128];
    trm_str_add(&path, "%s.tokens-%ld", s->out, (long)getpid());
    if (path.failed) return TRM_MEMORY;
    s->fd = open(path.p, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    trm_status st = s->fd >= 0 ? TRM_OK
                               : trm_fail(TRM_IO, "%s: cannot be created: %s", path.p,
                                          strerror_r(errno, why, sizeof why));
    if (s->fd >= 0) unlink(path.p);
    trm_str_free(&path);
    return st;
}

static trm_status write_waiting(stream *s) {
    char why[128];
    for (size_t done = 0; done < s->waiting;) {
        ssize_t n = write(s->fd, s->wait + done, s->waiting - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return trm_fail(TRM_IO, "beside %s: tokens cannot be written: %s", s->out,
                            strerror_r(errno, why, sizeof why));
        done += (size_t)n;
    }
    s->waiting = 0;
    return TRM_OK;
}

static trm_status put_tokens(void *ctx, const int32_t *token, size_t n) {
    stream *s = ctx;
    for (size_t i = 0; i < n; i++) {
        uint16_t half = (uint16_t)token[i];
        size_t size = trm_dtype_size(s->type);
        if (s->waiting + size > TRM_MIB) TRM_TRY(write_waiting(s));
        memcpy(s->wait + s->waiting, s->type == TRM_U16 ? (const void *)&half : (const void *)&token[i],
               size);
        s->waiting += size;
    }
    s->tokens += (int64_t)n;
    return TRM_OK;
}

/* ---- a text ---- */

typedef struct window {
    char *buf;
    size_t cap, have;
    int64_t before; /* bytes of the file before buf */
} window;

/* Encodes what can be and moves the rest to the front. */
static trm_status encode_some(stream *s, const char *path, window *w, bool last) {
    size_t whole, used;
    bool good = trm_utf8_whole(w->buf, w->have, &whole);
    if (!good || (last && whole < w->have)) {
        trm_fail(TRM_DATA, "%s: byte %lld (%02x) is not UTF-8", path, (long long)(w->before + (int64_t)whole),
                 (unsigned char)w->buf[whole]);
        trm_hint("convert it: `iconv -f LATIN1 -t UTF-8`; without --bpe any bytes are read");
        return TRM_DATA;
    }
    trm_status st = trm_bpe_encode(s->bpe, w->buf, whole, last, put_tokens, s, &used);
    if (st != TRM_OK)
        return trm_prefix(st, "%s near byte %lld", path, (long long)(w->before + (int64_t)used));
    memmove(w->buf, w->buf + used, w->have - used);
    w->have -= used;
    w->before += (int64_t)used;
    s->done += (int64_t)used;
    trm_tell_now(&s->spec->tell, s->done, s->bytes);
    return TRM_OK;
}

/* A word that fills the window needs a larger one. */
static trm_status widen(window *w, const char *path) {
    if (w->have < w->cap) return TRM_OK;
    if (2 * w->cap > WORD_LIMIT)
        return trm_fail(TRM_DATA, "%s: a word at byte %lld is longer than %zu MiB", path,
                        (long long)w->before, w->cap / TRM_MIB);
    void *more = trm_realloc(w->buf, w->cap, 2 * w->cap, "a long word");
    if (!more) return TRM_MEMORY;
    w->buf = more;
    w->cap *= 2;
    return TRM_OK;
}

static trm_status encode_from(stream *s, int fd, const char *path, int64_t size, window *w) {
    for (int64_t at = 0; at < size;) {
        TRM_TRY(widen(w, path));
        int64_t n = trm_min64((int64_t)(w->cap - w->have), size - at);
        TRM_TRY(trm_pread_all(fd, path, w->buf + w->have, (size_t)n, (uint64_t)at));
        w->have += (size_t)n;
        at += n;
        TRM_TRY(encode_some(s, path, w, at == size));
    }
    return TRM_OK;
}

static trm_status encode_file(stream *s, const char *path) {
    int fd;
    int64_t size;
    window w = {.cap = TRM_MIB};
    TRM_TRY(trm_open_regular(path, &fd, &size));
    w.buf = trm_alloc(w.cap, "a text");
    trm_status st = w.buf ? encode_from(s, fd, path, size, &w) : TRM_MEMORY;
    close(fd);
    trm_free(w.buf);
    return st;
}

static trm_status encode_all(stream *s) {
    int32_t behind = -1;
    if (s->spec->behind && (behind = trm_bpe_find(s->bpe, s->spec->behind)) < 0)
        return trm_fail(TRM_USAGE, "--behind: '%.40s' is no token of %s", s->spec->behind,
                        s->spec->vocabulary);
    for (int i = 0; i < s->spec->n_files; i++) {
        TRM_TRY(encode_file(s, s->spec->files[i]));
        if (behind >= 0) TRM_TRY(put_tokens(s, &behind, 1));
    }
    if (s->tokens == 0) return trm_fail(TRM_DATA, "%s: there is no text to import", s->spec->files[0]);
    return write_waiting(s);
}

/* ---- the data set ---- */

static trm_status write_stream(trm_h5_file *f, const void *ctx) {
    const stream *s = ctx;
    size_t size = trm_dtype_size(s->type);
    trm_shape shape = trm_shape_of(1, s->tokens);
    TRM_TRY(trm_h5_make(f, "tokens", s->type, &shape, 0, 0, false));
    for (int64_t at = 0, step = (int64_t)(TRM_MIB / size); at < s->tokens; at += step) {
        int64_t n = trm_min64(step, s->tokens - at);
        TRM_TRY(trm_pread_all(s->fd, s->out, s->wait, (size_t)n * size, (uint64_t)at * size));
        TRM_TRY(trm_h5_put(f, "tokens", s->type, at, n, size, s->wait));
    }
    return TRM_OK;
}

static trm_status sum_sizes(stream *s) {
    for (int i = 0; i < s->spec->n_files; i++) {
        int fd;
        int64_t size;
        TRM_TRY(trm_open_regular(s->spec->files[i], &fd, &size));
        close(fd);
        s->bytes += size;
    }
    return trm_output_apart(s->out, (const char *const[]){s->spec->vocabulary, s->spec->merges}, 2);
}

static trm_status import(stream *s) {
    TRM_TRY(trm_output_apart(s->out, s->spec->files, s->spec->n_files));
    TRM_TRY(sum_sizes(s));
    TRM_TRY(trm_bpe_open(s->spec->vocabulary, s->spec->merges, &s->bpe));
    s->type = trm_bpe_tokens(s->bpe) <= 65536 ? TRM_U16 : TRM_U32;
    if (!(s->wait = trm_alloc(TRM_MIB, "tokens"))) return TRM_MEMORY;
    TRM_TRY(trm_h5_output(s->out)); /* before the work */
    TRM_TRY(open_waiting(s));
    TRM_TRY(encode_all(s));
    return trm_h5_replace(s->out, write_stream, s);
}

trm_status trm_import_bpe(const trm_bpe_spec *spec, const char *out, trm_made *made) {
    stream s = {.spec = spec, .out = out, .fd = -1};
    trm_status st = import(&s);
    if (st == TRM_OK)
        *made = (trm_made){.samples = s.tokens, .type = s.type, .classes = trm_bpe_tokens(s.bpe)};
    if (s.fd >= 0) close(s.fd);
    trm_free(s.wait);
    trm_bpe_close(s.bpe);
    return st;
}
