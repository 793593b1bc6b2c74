/* made: what the verbs that make data sets say: progress, one closing sentence, the line of a job file. */
#include "made.h"
#include <string.h>

#include "cli.h"

static void show(void *ctx, int64_t done, int64_t all) {
    static double last;
    char line[80];
    double now = trm_now();
    (void)ctx;
    if (!ui_is_terminal() || now - last < 0.2) return;
    last = now;
    if (all > 0)
        snprintf(line, sizeof line, "%3d %%  %lld of %lld", (int)(100.0 * (double)done / (double)all),
                 (long long)done, (long long)all);
    else
        snprintf(line, sizeof line, "%lld", (long long)done);
    ui_line(line, true);
}

trm_tell made_tell(void) { return (trm_tell){show, NULL}; }

void made_yaml(const char *path, trm_str *out) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    if (path[0] != '-' && path[strspn(path, plain)] == '\0') {
        trm_str_add(out, "%s", path);
        return;
    }
    trm_str_add(out, "'");
    for (const char *c = path; *c; c++) trm_str_add(out, *c == '\'' ? "''" : "%c", *c);
    trm_str_add(out, "'");
}

void made_say(const char *out, const trm_made *m) {
    trm_str text = {0};
    char shape[80];
    trm_str_add(&text, "wrote %s: %lld %s", out, (long long)m->samples, m->x.rank > 0 ? "samples" : "tokens");
    if (m->x.rank > 0) trm_str_add(&text, " of shape %s", trm_shape_text(&m->x, shape, sizeof shape));
    trm_str_add(&text, ", stored as %s", trm_dtype_name(m->type));
    if (m->classes > 0) trm_str_add(&text, ", %lld classes", (long long)m->classes);
    if (m->skipped > 0) trm_str_add(&text, " (%lld left out)", (long long)m->skipped);
    trm_str_add(&text, "\n  data: {train: ");
    made_yaml(out, &text);
    if (m->floats) trm_str_add(&text, ", target_type: float");
    if (m->x.rank == 0) trm_str_add(&text, ", window: 128");
    if (m->x.rank == 0 && m->classes > 0) trm_str_add(&text, ", classes: %lld", (long long)m->classes);
    trm_str_add(&text, "}\n");
    if (m->x.rank > 0 && !m->target)
        trm_str_add(&text, "It has no targets: a job can predict from it, not train with it.\n");
    ui_print(trm_str_get(&text));
    trm_str_free(&text);
}
