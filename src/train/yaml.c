/* yaml: the tree of a settings file, its memory, and the overrides that act on it. */
#include "yaml_impl.h"

#include <string.h>

/* ---- places and sentences ---- */

const char *trm_yaml_place_text(trm_yaml_place at, char *buf, size_t cap) {
    if (at.line > 0)
        snprintf(buf, cap, "%s:%d:%d", at.source, at.line, at.column);
    else
        snprintf(buf, cap, "%s", at.source);
    return buf;
}

trm_status trm_yaml_fail(trm_yaml_place at, const char *fmt, ...) {
    char sentence[768], place[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    return trm_fail(TRM_JOB, "%s: %s", trm_yaml_place_text(at, place, sizeof place), sentence);
}

void trm_yaml_copy_cut(const char *text, char *buf, size_t cap) {
    size_t n = strlen(text);
    if (n < cap) {
        memcpy(buf, text, n + 1);
        return;
    }
    n = cap - 4;
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
    memcpy(buf, text, n);
    memcpy(buf + n, "...", 4);
}

bool trm_yaml_is_nothing(const trm_yaml_node *n) {
    return n->kind == TRM_YAML_TEXT && !n->quoted &&
           (!n->text[0] || !strcmp(n->text, "~") || !strcmp(n->text, "null"));
}

const char *trm_yaml_shown(const trm_yaml_node *n, char *buf, size_t cap) {
    char cut[64];
    if (n->kind == TRM_YAML_LIST) {
        snprintf(buf, cap, n->n ? "a list" : "an empty list");
    } else if (n->kind == TRM_YAML_MAP) {
        snprintf(buf, cap, "a map of keys");
    } else if (trm_yaml_is_nothing(n)) {
        snprintf(buf, cap, "empty");
    } else {
        trm_yaml_copy_cut(n->text, cut, sizeof cut);
        for (char *p = cut; *p; p++)
            if ((unsigned char)*p < ' ') *p = ' ';
        snprintf(buf, cap, n->quoted ? "\"%s\"" : "%s", cut);
    }
    return buf;
}

/* ---- memory ---- */

void trm_yaml_node_free(trm_yaml_node *n) {
    if (!n) return;
    for (int i = 0; i < n->n; i++) {
        if (n->item) trm_yaml_node_free(n->item[i]);
        if (n->pair) {
            trm_free(n->pair[i].key);
            trm_yaml_node_free(n->pair[i].value);
        }
    }
    trm_free(n->item);
    trm_free(n->pair);
    trm_free(n->text);
    trm_free(n);
}

void trm_yaml_free(trm_yaml *y) {
    if (!y) return;
    trm_yaml_node_free(y->root);
    for (int i = 0; i < y->n_source; i++) trm_free(y->source[i]);
    trm_free(y->source);
    trm_free(y);
}

trm_yaml_node *trm_yaml_node_new(trm_yaml_kind kind, trm_yaml_place at) {
    trm_yaml_node *n = trm_alloc(sizeof *n, "the job file");
    if (!n) return NULL;
    n->kind = kind;
    n->at = at;
    return n;
}

/* Room for one more entry of `size` bytes behind n: the capacity is the next power of two, so it needs no field. */
static void *room(void *p, int n, size_t size) {
    if (n & (n - 1)) return p;
    size_t old = (size_t)n, want = n ? 2 * old : 1;
    return trm_realloc(p, old * size, want * size, "the job file");
}

trm_status trm_yaml_add_item(trm_yaml_node *list, trm_yaml_node *value) {
    trm_yaml_node **p = room(list->item, list->n, sizeof *p);
    if (!p) {
        trm_yaml_node_free(value);
        return TRM_MEMORY;
    }
    list->item = p;
    p[list->n++] = value;
    return TRM_OK;
}

trm_status trm_yaml_add_pair(trm_yaml_node *map, char *key, trm_yaml_place at, trm_yaml_node *value) {
    trm_yaml_pair *p = room(map->pair, map->n, sizeof *p);
    if (!p) {
        trm_free(key);
        trm_yaml_node_free(value);
        return TRM_MEMORY;
    }
    map->pair = p;
    p[map->n++] = (trm_yaml_pair){key, at, value};
    return TRM_OK;
}

/* The document keeps the names that places point to. */
static const char *add_source(trm_yaml *y, const char *name) {
    char cut[96];
    trm_yaml_copy_cut(name, cut, sizeof cut);
    char **p = room(y->source, y->n_source, sizeof *p);
    if (!p) return NULL;
    y->source = p;
    if (!(p[y->n_source] = trm_strdup(cut))) return NULL;
    return p[y->n_source++];
}

/* ---- looking up ---- */

trm_yaml_pair *trm_yaml_find_pair(const trm_yaml_node *map, const char *key, size_t len) {
    if (!map || map->kind != TRM_YAML_MAP) return NULL;
    for (int i = 0; i < map->n; i++)
        if (!strncmp(map->pair[i].key, key, len) && !map->pair[i].key[len]) return &map->pair[i];
    return NULL;
}

trm_yaml_node *trm_yaml_get(const trm_yaml_node *map, const char *key) {
    trm_yaml_pair *p = trm_yaml_find_pair(map, key, strlen(key));
    return p ? p->value : NULL;
}

trm_yaml_pair *trm_yaml_find(const trm_yaml_node *root, const char *path) {
    for (;;) {
        size_t len = strcspn(path, ".");
        trm_yaml_pair *p = trm_yaml_find_pair(root, path, len);
        if (!p || !path[len]) return p;
        root = p->value;
        path += len + 1;
    }
}

/* ---- documents ---- */

trm_status trm_yaml_parse(const char *source, const char *text, size_t n, trm_yaml **out) {
    trm_yaml *y = trm_alloc(sizeof *y, "the job file");
    if (!y) return TRM_MEMORY;
    trm_status status;
    trm_yaml_place at = {add_source(y, source), 1, 1};
    if (!at.source) {
        status = TRM_MEMORY;
        goto out;
    }
    if (n > TRM_YAML_MAX_BYTES) {
        at.line = 0;
        status = trm_yaml_fail(at, "the file has %zu bytes; allowed are %zu", n, TRM_YAML_MAX_BYTES);
        goto out;
    }
    TRM_GOTO(trm_yaml_read(at, text, n, &y->root));
    *out = y;
    return TRM_OK;
out:
    trm_yaml_free(y);
    return status;
}

/* ---- overrides ---- */

trm_status trm_yaml_wrap(trm_yaml_node **node, const char *key) {
    trm_yaml_node *map = trm_yaml_node_new(TRM_YAML_MAP, (*node)->at);
    char *name = trm_strdup(key);
    trm_yaml_pair *p = map && name ? room(NULL, 0, sizeof *p) : NULL;
    if (!p) {
        trm_yaml_node_free(map);
        trm_free(name);
        return TRM_MEMORY;
    }
    p[0] = (trm_yaml_pair){name, (*node)->at, *node};
    map->pair = p;
    map->n = 1;
    *node = map;
    return TRM_OK;
}

void trm_yaml_remove(trm_yaml_node *map, const char *key) {
    trm_yaml_pair *p = trm_yaml_find_pair(map, key, strlen(key));
    if (!p) return;
    trm_free(p->key);
    trm_yaml_node_free(p->value);
    int i = (int)(p - map->pair);
    memmove(p, p + 1, (size_t)(map->n - i - 1) * sizeof *p);
    map->n--;
}

/* The slot of `key` in a map (made where missing, value NULL) or list. last: the key's place becomes the override's. */
static trm_status enter(trm_yaml_place at, trm_yaml_node *n, const char *key, bool last,
                        trm_yaml_node ***slot) {
    int64_t index;
    if (n->kind == TRM_YAML_LIST) {
        if (!trm_parse_int(key, &index) || index < 0 || index >= n->n)
            return trm_yaml_fail(at, "a list of %d entries has no entry `%s`; they count from 0", n->n, key);
        *slot = &n->item[index];
        return TRM_OK;
    }
    if (n->kind != TRM_YAML_MAP) {
        char shown[80];
        return trm_yaml_fail(at, "`%s` cannot be set in the value %s, which is no map of keys", key,
                             trm_yaml_shown(n, shown, sizeof shown));
    }
    trm_yaml_pair *p = trm_yaml_find_pair(n, key, strlen(key));
    if (!p) {
        char *name = trm_strdup(key);
        if (!name) return TRM_MEMORY;
        TRM_TRY(trm_yaml_add_pair(n, name, at, NULL));
        p = &n->pair[n->n - 1];
    }
    if (last) p->at = at;
    *slot = &p->value;
    return TRM_OK;
}

/* Puts `value` (taken over, also on failure) at the dotted path; the path's dots become zeros. */
static trm_status put_at(trm_yaml *y, trm_yaml_place at, char *path, trm_yaml_node *value) {
    trm_yaml_node **slot = &y->root;
    trm_status status = TRM_OK;
    for (char *key = path; key;) {
        char *dot = strchr(key, '.');
        if (dot) *dot = '\0';
        if (!*slot && !(*slot = trm_yaml_node_new(TRM_YAML_MAP, at))) TRM_GOTO(TRM_MEMORY);
        TRM_GOTO(enter(at, *slot, key, !dot, &slot));
        key = dot ? dot + 1 : NULL;
    }
    trm_yaml_node_free(*slot);
    *slot = value;
    return TRM_OK;
out:
    trm_yaml_node_free(value);
    return status;
}

/* Dots are counted: a path may not nest deeper than a file. */
static bool path_is_sound(const char *path, size_t len) {
    int dots = 0;
    if (len == 0 || path[0] == '.' || path[len - 1] == '.') return false;
    for (size_t i = 0; i < len; i++) {
        char c = path[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                    c == '-';
        if (!word && !(c == '.' && path[i + 1] != '.')) return false;
        dots += c == '.';
    }
    return dots < 32;
}

trm_status trm_yaml_set(trm_yaml *y, const char *override) {
    trm_str name = {0};
    trm_str_add(&name, "--set %s", override);
    const char *source = name.failed ? NULL : add_source(y, trm_str_get(&name));
    trm_str_free(&name);
    if (!source) return TRM_MEMORY;
    trm_yaml_place at = {source, 0, 0};
    size_t len = strcspn(override, "="), n = strlen(override);
    if (n > TRM_YAML_MAX_BYTES)
        return trm_yaml_fail(at, "the value has %zu bytes; allowed are %zu", n, TRM_YAML_MAX_BYTES);
    if (!override[len] || !path_is_sound(override, len)) {
        trm_yaml_fail(at, "a setting is written KEY=VALUE");
        trm_hint("for example: --set train.epochs=3");
        return TRM_JOB;
    }
    trm_yaml_node *value = NULL;
    trm_str path = {0};
    trm_status status;
    TRM_GOTO(trm_yaml_read(at, override + len + 1, n - len - 1, &value));
    if (!value) TRM_GOTO(trm_yaml_fail(at, "there is no value behind the ="));
    trm_str_addn(&path, override, len);
    if (path.failed) TRM_GOTO(TRM_MEMORY);
    status = put_at(y, at, path.p, value);
    value = NULL;
out:
    trm_yaml_node_free(value);
    trm_str_free(&path);
    return status;
}
