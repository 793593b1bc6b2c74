/* yaml_write: a tree as text that reads back the same. */
#include "yaml_tree.h"

#include <string.h>

/* Characters of a word that means itself everywhere: in blocks, in lists and behind a colon. */
static bool is_plain(const char *t) {
    if (!strcmp(t, "null")) return false;
    if (!t[0] || strchr("-.", t[0])) {
        /* A number may start so. */
        double number;
        return t[0] && trm_parse_double(t, &number);
    }
    for (const char *p = t; *p; p++) {
        char c = *p;
        bool word =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("_-./+", c);
        if (!word) return false;
    }
    return true;
}

void trm_yaml_write_text(const char *text, bool quoted, trm_str *out) {
    if (!quoted && is_plain(text)) {
        trm_str_add(out, "%s", text);
        return;
    }
    trm_str_add(out, "\"");
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\')
            trm_str_add(out, "\\%c", *p);
        else if (*p == '\n')
            trm_str_add(out, "\\n");
        else if ((unsigned char)*p < ' ')
            trm_str_add(out, "\\x%02x", *p);
        else
            trm_str_addn(out, p, 1);
    }
    trm_str_add(out, "\"");
}

static void write_leaf(const trm_yaml_node *n, trm_str *out) {
    if (trm_yaml_is_nothing(n))
        trm_str_add(out, "~");
    else
        trm_yaml_write_text(n->text, n->quoted, out);
}

static bool all_leaves(const trm_yaml_node *n) {
    for (int i = 0; i < n->n; i++)
        if (n->item[i]->kind != TRM_YAML_TEXT) return false;
    return true;
}

/* What fits on the line of its key: a text, a list of texts, or something empty. */
static bool on_one_line(const trm_yaml_node *n) {
    return n->kind == TRM_YAML_TEXT || n->n == 0 || (n->kind == TRM_YAML_LIST && all_leaves(n));
}

static void write_line(const trm_yaml_node *n, trm_str *out) {
    if (n->kind == TRM_YAML_TEXT) {
        write_leaf(n, out);
    } else if (n->kind == TRM_YAML_MAP) {
        trm_str_add(out, "{}");
    } else {
        trm_str_add(out, "[");
        for (int i = 0; i < n->n; i++) {
            if (i) trm_str_add(out, ", ");
            write_leaf(n->item[i], out);
        }
        trm_str_add(out, "]");
    }
}

static void write_block(const trm_yaml_node *n, int indent, bool hanging, trm_str *out);

/* What stands behind "key:" or behind "-". */
static void write_value(const trm_yaml_node *n, int indent, bool item, trm_str *out) {
    if (on_one_line(n)) {
        trm_str_add(out, " ");
        write_line(n, out);
        trm_str_add(out, "\n");
    } else if (item) {
        trm_str_add(out, " ");
        write_block(n, indent, true, out);
    } else {
        trm_str_add(out, "\n");
        write_block(n, indent, false, out);
    }
}

/* hanging: the first line stands behind a "- " that is already written. */
static void write_block(const trm_yaml_node *n, int indent, bool hanging, trm_str *out) {
    for (int i = 0; i < n->n; i++) {
        if (i || !hanging) trm_str_add(out, "%*s", indent, "");
        if (n->kind == TRM_YAML_MAP) {
            trm_yaml_write_text(n->pair[i].key, false, out);
            trm_str_add(out, ":");
            write_value(n->pair[i].value, indent + 2, false, out);
        } else {
            trm_str_add(out, "-");
            write_value(n->item[i], indent + 2, true, out);
        }
    }
}

void trm_yaml_write(const trm_yaml_node *n, int indent, trm_str *out) {
    if (on_one_line(n)) {
        trm_str_add(out, "%*s", indent, "");
        write_line(n, out);
        trm_str_add(out, "\n");
    } else {
        write_block(n, indent, false, out);
    }
}
