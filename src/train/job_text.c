/* job_text: a job as YAML, as a table, and the reference of all keys. */
#include <string.h>

#include "job_impl.h"

static const trm_yaml_node *layer_list(const trm_job *j) {
    const trm_yaml_node *n = trm_yaml_get(trm_yaml_get(j->tree->root, "model"), "layers");
    return n && n->kind == TRM_YAML_LIST ? n : NULL;
}

/* Statistics that were taken are written as their numbers. */
static bool is_settled(const trm_job *j, const trm_job_key *k) {
    static const char *const keys[] = {"data.scale", "data.mean", "data.std"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(k->path, keys[i])) return j->data.settled;
    return false;
}

static bool is_replaced(const trm_job *j, const trm_job_key *k) {
    return j->data.settled && (!strcmp(k->path, "data.stats") || !strcmp(k->path, "data.normalize"));
}

/* True where the job has a value for this key: given, or by default. */
static bool has_value(const trm_job *j, const trm_job_key *k) {
    if (!trm_job_key_fits(j, k)) return false;
    if (is_settled(j, k) || is_replaced(j, k)) return is_settled(j, k);
    if (k->kind == TRM_KEY_LAYERS) return layer_list(j) || j->model.preset == TRM_PRESET_GPT;
    return k->def || k->flags & TRM_KEY_SET || trm_job_key_given(j, k);
}

/* ---- YAML ---- */

/* Opens the sections of `path` that the key before it did not have; returns the indent of the key. */
static int open_sections(const char *path, const char *before, trm_str *out) {
    int indent = 0;
    size_t start = 0;
    for (const char *dot; (dot = strchr(path + start, '.')); start = (size_t)(dot - path) + 1, indent += 2) {
        size_t n = (size_t)(dot - path) + 1;
        if (!strncmp(path, before, n)) continue;
        if (indent == 0 && out->len) trm_str_add(out, "\n");
        trm_str_add(out, "%*s%.*s:\n", indent, "", (int)(n - 1 - start), path + start);
    }
    return indent;
}

trm_status trm_job_write(const trm_job *j, trm_str *yaml) {
    const char *before = "";
    const trm_yaml_node *layers = layer_list(j);
    for (const trm_job_key *k = trm_job_keys; k->path; k++) {
        if (!has_value(j, k)) continue;
        int indent = open_sections(k->path, before, yaml);
        trm_str_add(yaml, "%*s%s:", indent, "", trm_job_key_word(k));
        if (k->kind == TRM_KEY_LAYERS && layers) {
            trm_str_add(yaml, "\n");
            trm_yaml_write(layers, indent + 2, yaml);
        } else {
            trm_str_add(yaml, " ");
            trm_job_value_write(k, j, yaml);
            trm_str_add(yaml, "\n");
        }
        before = k->path;
    }
    return yaml->failed ? trm_fail(TRM_MEMORY, "no memory for the text of the job") : TRM_OK;
}

/* ---- table ---- */

#define VALUE_COLUMN 32

static void table_value(const trm_job *j, const trm_job_key *k, trm_str *out) {
    const trm_yaml_node *layers = layer_list(j);
    if (k->kind == TRM_KEY_LAYERS && layers)
        trm_str_add(out, "a list of %d", layers->n);
    else
        trm_job_value_write(k, j, out);
    if (k->unit) trm_str_add(out, " %s", k->unit);
}

void trm_job_table(const trm_job *j, trm_str *text) {
    for (const trm_job_key *k = trm_job_keys; k->path; k++) {
        if (!has_value(j, k)) continue;
        trm_str value = {0};
        table_value(j, k, &value);
        const char *mark = trm_job_key_given(j, k) || is_settled(j, k) ? "" : "default";
        trm_str_add(text, mark[0] ? "  %-30s  %-*s %s\n" : "  %-30s  %.*s%s\n", k->path,
                    mark[0] ? VALUE_COLUMN : 4096, trm_str_get(&value), mark);
        trm_str_free(&value);
    }
}

/* ---- reference ---- */

/* '|' would end a cell of a Markdown table. */
static void add_cell(const char *text, trm_str *out) {
    for (const char *p = text; *p; p++) trm_str_add(out, *p == '|' ? "\\%c" : "%c", *p);
}

void trm_job_key_reference(const trm_job_key *k, size_t skip, trm_str *out) {
    trm_str allowed = {0};
    trm_job_value_allowed(k, true, &allowed);
    trm_str_add(out, "| `%s` | ", k->path + skip);
    add_cell(trm_str_get(&allowed), out);
    if (k->unit) trm_str_add(out, " (%s)", k->unit);
    trm_str_free(&allowed);
    if (k->def)
        trm_str_add(out, " | `%s`", k->def);
    else
        trm_str_add(out, " | %s", k->def_text ? k->def_text : k->flags & TRM_KEY_REQUIRED ? "required" : "");
    if (k->alt_def) trm_str_add(out, "; %s: `%s`", k->alt_for, k->alt_def);
    trm_str_add(out, " | %s", k->about);
    if (k->only) {
        trm_str_add(out, " (only %s `", strrchr(k->only_key, '.') + 1);
        for (const char *p = k->only; *p; p++) trm_str_add(out, *p == ' ' ? "`, `" : "%c", *p);
        trm_str_add(out, "`)");
    }
    trm_str_add(out, " |\n");
}

void trm_job_reference(trm_str *markdown) {
    const char *before = "";
    for (const trm_job_key *k = trm_job_keys; k->path; k++) {
        size_t section = strcspn(k->path, ".");
        if (strncmp(k->path, before, section + 1)) {
            trm_str_add(markdown, "%s### %.*s\n\n", before[0] ? "\n" : "", (int)section, k->path);
            trm_str_add(markdown, "| key | allowed | default | meaning |\n|---|---|---|---|\n");
        }
        trm_job_key_reference(k, section + 1, markdown);
        before = k->path;
    }
    trm_str_add(markdown, "\n");
    trm_job_transforms_reference(markdown);
    trm_job_model_reference(markdown);
}
