/* records: the lines of metrics.jsonl, read back. */
#include <jansson.h>
#include <string.h>
#include <trireme/wire.h>

#define METRICS_LIMIT ((size_t)4 << 30)

static trm_status visit_line(const char *path, int64_t line, const char *text, size_t n,
                             trm_record_visit visit, void *ctx) {
    json_t *j = json_loadb(text, n, 0, NULL);
    const char *kind = json_string_value(json_object_get(j, "kind"));
    trm_status s = kind ? visit(ctx, line, kind, j)
                   : json_is_object(j)
                       ? trm_fail(TRM_DATA, "%s:%lld: a record without a kind", path, (long long)line)
                       : trm_fail(TRM_DATA, "%s:%lld: no JSON object", path, (long long)line);
    json_decref(j);
    return s;
}

trm_status trm_records_read(const char *path, trm_record_visit visit, void *ctx) {
    char *text = NULL;
    size_t n = 0, at = 0;
    trm_status s = trm_read_file(path, METRICS_LIMIT, &text, &n);
    if (s != TRM_OK) trm_hint("a run is a folder that trireme train has written, runs/NAME as a rule");
    if (s == TRM_IO) return TRM_DATA;
    for (int64_t line = 1; s == TRM_OK && at < n; line++) {
        const char *end = memchr(text + at, '\n', n - at);
        if (!end) break; /* torn by a kill, or about to be written */
        s = visit_line(path, line, text + at, (size_t)(end - text) - at, visit, ctx);
        at = (size_t)(end - text) + 1;
    }
    trm_free(text);
    return s;
}
