/* status: the list of codes and the per-thread record of the last fault. */
#include <errno.h>
#include <string.h>
#include <trireme/base.h>

#define TEXT_BYTES 1024
#define HINT_BYTES 512

/* One record per thread, so that failing needs no memory and no lock. */
static _Thread_local struct {
    char text[TEXT_BYTES];
    char hint[HINT_BYTES];
} last;

static const struct {
    const char *name, *text;
    int exit_code;
} list[] = {
#define X(name, exit_code, text) {#name, text, exit_code},
    TRM_STATUS_LIST(X)
#undef X
};

static bool known(trm_status s) { return (size_t)s < sizeof list / sizeof *list; }

const char *trm_status_name(trm_status s) { return known(s) ? list[s].name : "UNKNOWN"; }
const char *trm_status_text(trm_status s) { return known(s) ? list[s].text : "an unknown status"; }
int trm_status_exit_code(trm_status s) { return known(s) ? list[s].exit_code : 1; }

/* Ends a text that did not fit with dots, so that a cut sentence is seen to be cut. */
static void mark_cut(char *text, size_t cap, int wanted) {
    if (wanted >= (int)cap) memcpy(text + cap - 4, "...", 4);
}

/* Formats aside first: an argument may be the record itself. */
static void put(char *dst, size_t cap, const char *fmt, va_list ap) {
    char fresh[TEXT_BYTES];
    int saved = errno;
    int wanted = vsnprintf(fresh, cap, fmt, ap);
    mark_cut(fresh, cap, wanted);
    trm_one_line(fresh);
    memcpy(dst, fresh, cap);
    errno = saved;
}

trm_status trm_fail(trm_status s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    put(last.text, TEXT_BYTES, fmt, ap);
    va_end(ap);
    last.hint[0] = '\0';
    return s;
}

void trm_hint(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    put(last.hint, HINT_BYTES, fmt, ap);
    va_end(ap);
}

trm_status trm_prefix(trm_status s, const char *fmt, ...) {
    char prefix[TEXT_BYTES], whole[2 * TEXT_BYTES];
    const char *sentence = last.text[0] ? last.text : trm_status_text(s);
    va_list ap;
    va_start(ap, fmt);
    put(prefix, TEXT_BYTES, fmt, ap);
    va_end(ap);
    int wanted = snprintf(whole, sizeof whole, "%s: %s", prefix, sentence);
    memcpy(last.text, whole, TEXT_BYTES);
    last.text[TEXT_BYTES - 1] = '\0';
    mark_cut(last.text, TEXT_BYTES, wanted);
    return s;
}

const char *trm_error_text(void) { return last.text; }
const char *trm_error_hint(void) { return last.hint; }
