/* yaml: libyaml's events become a tree with places; everything that a settings file has no use for is refused. */
#include "yaml_tree.h"

#include <string.h>
#include <yaml.h>

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

/* Copies a text cut to what fits, at the border of a character, with dots where it was cut. */
static void copy_cut(const char *text, char *buf, size_t cap) {
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
        copy_cut(n->text, cut, sizeof cut);
        for (char *p = cut; *p; p++)
            if ((unsigned char)*p < ' ') *p = ' ';
        snprintf(buf, cap, n->quoted ? "\"%s\"" : "%s", cut);
    }
    return buf;
}

/* ---- memory ---- */

static void free_node(trm_yaml_node *n) {
    if (!n) return;
    for (int i = 0; i < n->n; i++) {
        if (n->item) free_node(n->item[i]);
        if (n->pair) {
            trm_free(n->pair[i].key);
            free_node(n->pair[i].value);
        }
    }
    trm_free(n->item);
    trm_free(n->pair);
    trm_free(n->text);
    trm_free(n);
}

void trm_yaml_free(trm_yaml *y) {
    if (!y) return;
    free_node(y->root);
    for (int i = 0; i < y->n_source; i++) trm_free(y->source[i]);
    trm_free(y->source);
    trm_free(y);
}

static trm_yaml_node *new_node(trm_yaml_kind kind, trm_yaml_place at) {
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

/* Takes `value` over, also on failure. */
static trm_status add_item(trm_yaml_node *list, trm_yaml_node *value) {
    trm_yaml_node **p = room(list->item, list->n, sizeof *p);
    if (!p) {
        free_node(value);
        return TRM_MEMORY;
    }
    list->item = p;
    p[list->n++] = value;
    return TRM_OK;
}

/* Takes `key` and `value` over, also on failure. */
static trm_status add_pair(trm_yaml_node *map, char *key, trm_yaml_place at, trm_yaml_node *value) {
    trm_yaml_pair *p = room(map->pair, map->n, sizeof *p);
    if (!p) {
        trm_free(key);
        free_node(value);
        return TRM_MEMORY;
    }
    map->pair = p;
    p[map->n++] = (trm_yaml_pair){key, at, value};
    return TRM_OK;
}

/* The document keeps the names that places point to. */
static const char *add_source(trm_yaml *y, const char *name) {
    char cut[96];
    copy_cut(name, cut, sizeof cut);
    char **p = room(y->source, y->n_source, sizeof *p);
    if (!p) return NULL;
    y->source = p;
    if (!(p[y->n_source] = trm_strdup(cut))) return NULL;
    return p[y->n_source++];
}

/* ---- looking up ---- */

static trm_yaml_pair *find_pair(const trm_yaml_node *map, const char *key, size_t len) {
    if (!map || map->kind != TRM_YAML_MAP) return NULL;
    for (int i = 0; i < map->n; i++)
        if (!strncmp(map->pair[i].key, key, len) && !map->pair[i].key[len]) return &map->pair[i];
    return NULL;
}

trm_yaml_node *trm_yaml_get(const trm_yaml_node *map, const char *key) {
    trm_yaml_pair *p = find_pair(map, key, strlen(key));
    return p ? p->value : NULL;
}

trm_yaml_pair *trm_yaml_find(const trm_yaml_node *root, const char *path) {
    for (;;) {
        size_t len = strcspn(path, ".");
        trm_yaml_pair *p = find_pair(root, path, len);
        if (!p || !path[len]) return p;
        root = p->value;
        path += len + 1;
    }
}

/* ---- the text before libyaml sees it ---- */

/* Bytes of the UTF-8 character at p, 0 where it is none (overlong forms and surrogates are none). */
static int utf8_bytes(const unsigned char *p, size_t left) {
    if (p[0] < 0x80) return 1;
    int n = p[0] >= 0xc2 && p[0] < 0xe0   ? 2
            : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
            : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                          : 0;
    if (n == 0 || (size_t)n > left) return 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0)) return 0;
    if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90)) return 0;
    return n;
}

static bool is_space(unsigned char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Faults that libyaml would report by a byte offset, or in words that do not help. */
static trm_status check_text(trm_yaml_place at, const char *text, size_t n) {
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    bool indent = true;
    bool counted = at.line > 0;
    int line = 1, column = 1;
    while (p < end) {
        if (counted) at.line = line, at.column = column;
        int bytes = utf8_bytes(p, (size_t)(end - p));
        if (bytes == 0) return trm_yaml_fail(at, "byte 0x%02x is not UTF-8 text", *p);
        if ((*p < ' ' && !is_space(*p) && *p != '\n') || *p == 0x7f)
            return trm_yaml_fail(at, "control character 0x%02x is not allowed", *p);
        if (*p == '\t' && indent)
            return trm_yaml_fail(at, "a tab in the indentation; only spaces are allowed there");
        indent = *p == '\n' || (indent && is_space(*p));
        column++;
        if (*p == '\n') line++, column = 1;
        p += bytes;
    }
    return TRM_OK;
}

/* ---- building the tree from events ---- */

typedef struct builder {
    yaml_parser_t parser;
    trm_yaml_place at; /* source; line is 0 where places are not counted (overrides) */
    int nodes;
} builder;

static trm_yaml_place place_of(const builder *b, yaml_mark_t mark) {
    if (b->at.line == 0) return b->at;
    return (trm_yaml_place){b->at.source, (int)mark.line + 1, (int)mark.column + 1};
}

static trm_status next_event(builder *b, yaml_event_t *event) {
    if (yaml_parser_parse(&b->parser, event)) return TRM_OK;
    if (b->parser.error == YAML_MEMORY_ERROR)
        return trm_fail(TRM_MEMORY, "no memory for reading %s", b->at.source);
    const char *problem = b->parser.problem ? b->parser.problem : "it cannot be read";
    return trm_yaml_fail(place_of(b, b->parser.problem_mark), "not YAML: %s", problem);
}

static bool has_tag(const yaml_event_t *e) {
    return (e->type == YAML_SCALAR_EVENT && e->data.scalar.tag) ||
           (e->type == YAML_SEQUENCE_START_EVENT && e->data.sequence_start.tag) ||
           (e->type == YAML_MAPPING_START_EVENT && e->data.mapping_start.tag);
}

static bool has_anchor(const yaml_event_t *e) {
    return e->type == YAML_ALIAS_EVENT || (e->type == YAML_SCALAR_EVENT && e->data.scalar.anchor) ||
           (e->type == YAML_SEQUENCE_START_EVENT && e->data.sequence_start.anchor) ||
           (e->type == YAML_MAPPING_START_EVENT && e->data.mapping_start.anchor);
}

static trm_status check_event(builder *b, const yaml_event_t *e, int depth) {
    trm_yaml_place at = place_of(b, e->start_mark);
    if (has_anchor(e))
        return trm_yaml_fail(at, "anchors (&) and aliases (*) are not allowed; write the value out");
    if (has_tag(e))
        return trm_yaml_fail(at, "tags (!) are not allowed; values are plain texts, numbers, lists and maps");
    if (depth > TRM_YAML_MAX_DEPTH)
        return trm_yaml_fail(at, "nested more than %d levels deep", TRM_YAML_MAX_DEPTH);
    if (++b->nodes > TRM_YAML_MAX_NODES) return trm_yaml_fail(at, "more than %d values", TRM_YAML_MAX_NODES);
    return TRM_OK;
}

static trm_status build(builder *b, yaml_event_t *e, int depth, trm_yaml_node **out);

static trm_status build_text(builder *b, const yaml_event_t *e, trm_yaml_node **out) {
    trm_yaml_node *n = new_node(TRM_YAML_TEXT, place_of(b, e->start_mark));
    if (!n) return TRM_MEMORY;
    n->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    n->text = trm_strdup((const char *)e->data.scalar.value);
    if (!n->text) {
        free_node(n);
        return TRM_MEMORY;
    }
    *out = n;
    /* "\0" in quotes is YAML, but no setting has a use for it. */
    if (strlen(n->text) != e->data.scalar.length) return trm_yaml_fail(n->at, "a text holds a zero byte");
    return TRM_OK;
}

static trm_status build_item(builder *b, yaml_event_t *e, int depth, trm_yaml_node *list) {
    trm_yaml_node *value = NULL;
    trm_status status = build(b, e, depth + 1, &value);
    if (status != TRM_OK) {
        free_node(value);
        return status;
    }
    return add_item(list, value);
}

static trm_status check_key(builder *b, const yaml_event_t *e, const trm_yaml_node *map) {
    trm_yaml_place at = place_of(b, e->start_mark);
    TRM_TRY(check_event(b, e, 0));
    if (e->type != YAML_SCALAR_EVENT)
        return trm_yaml_fail(at, "a key is a list or a map; keys are single words");
    const char *key = (const char *)e->data.scalar.value;
    char cut[64];
    copy_cut(key, cut, sizeof cut);
    if (!key[0]) return trm_yaml_fail(at, "a key is empty");
    trm_yaml_pair *twice = find_pair(map, key, strlen(key));
    if (twice && twice->at.line > 0)
        return trm_yaml_fail(at, "key `%s` is given twice; the first is in line %d", cut, twice->at.line);
    if (twice) return trm_yaml_fail(at, "key `%s` is given twice", cut);
    if (map->n >= TRM_YAML_MAX_KEYS)
        return trm_yaml_fail(at, "a map has more than %d keys", TRM_YAML_MAX_KEYS);
    return TRM_OK;
}

static trm_status build_pair(builder *b, yaml_event_t *key_event, int depth, trm_yaml_node *map) {
    trm_yaml_node *value = NULL;
    yaml_event_t e = {0};
    trm_yaml_place at = place_of(b, key_event->start_mark);
    TRM_TRY(check_key(b, key_event, map));
    char *key = trm_strdup((const char *)key_event->data.scalar.value);
    if (!key) return TRM_MEMORY;
    trm_status status = next_event(b, &e);
    if (status == TRM_OK) {
        status = build(b, &e, depth + 1, &value);
        yaml_event_delete(&e);
    }
    if (status != TRM_OK) {
        trm_free(key);
        free_node(value);
        return status;
    }
    return add_pair(map, key, at, value);
}

/* A list or a map up to its end event. *out is owned by the caller also on failure. */
static trm_status build_many(builder *b, yaml_event_t *start, int depth, trm_yaml_node **out) {
    bool is_map = start->type == YAML_MAPPING_START_EVENT;
    trm_yaml_node *n = *out = new_node(is_map ? TRM_YAML_MAP : TRM_YAML_LIST, place_of(b, start->start_mark));
    if (!n) return TRM_MEMORY;
    for (;;) {
        yaml_event_t e;
        TRM_TRY(next_event(b, &e));
        bool end = e.type == YAML_MAPPING_END_EVENT || e.type == YAML_SEQUENCE_END_EVENT;
        trm_status status = end ? TRM_OK : is_map ? build_pair(b, &e, depth, n) : build_item(b, &e, depth, n);
        yaml_event_delete(&e);
        if (end || status != TRM_OK) return status;
    }
}

static trm_status build(builder *b, yaml_event_t *e, int depth, trm_yaml_node **out) {
    TRM_TRY(check_event(b, e, depth));
    return e->type == YAML_SCALAR_EVENT ? build_text(b, e, out) : build_many(b, e, depth, out);
}

/* The root of the only document; *root stays NULL where there is nothing but comments. */
static trm_status build_document(builder *b, trm_yaml_node **root) {
    for (;;) {
        yaml_event_t e;
        TRM_TRY(next_event(b, &e));
        yaml_event_type_t type = e.type;
        trm_status status = TRM_OK;
        if (type == YAML_DOCUMENT_START_EVENT && *root)
            status =
                trm_yaml_fail(place_of(b, e.start_mark), "a second document starts here; one is allowed");
        else if (type != YAML_STREAM_START_EVENT && type != YAML_STREAM_END_EVENT &&
                 type != YAML_DOCUMENT_START_EVENT && type != YAML_DOCUMENT_END_EVENT)
            status = build(b, &e, 1, root);
        yaml_event_delete(&e);
        if (status != TRM_OK || type == YAML_STREAM_END_EVENT) return status;
    }
}

/* *root is owned by the caller also on failure. */
static trm_status read_tree(trm_yaml_place at, const char *text, size_t n, trm_yaml_node **root) {
    builder b = {.at = at};
    /* libyaml skips a byte order mark only where it guesses the encoding. */
    if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) text += 3, n -= 3;
    TRM_TRY(check_text(at, text, n));
    if (!yaml_parser_initialize(&b.parser))
        return trm_fail(TRM_MEMORY, "no memory for reading %s", at.source);
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, n);
    trm_status status = build_document(&b, root);
    yaml_parser_delete(&b.parser);
    return status;
}

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
    TRM_GOTO(read_tree(at, text, n, &y->root));
    *out = y;
    return TRM_OK;
out:
    trm_yaml_free(y);
    return status;
}

/* ---- overrides ---- */

trm_status trm_yaml_wrap(trm_yaml_node **node, const char *key) {
    trm_yaml_node *map = new_node(TRM_YAML_MAP, (*node)->at);
    char *name = trm_strdup(key);
    trm_yaml_pair *p = map && name ? room(NULL, 0, sizeof *p) : NULL;
    if (!p) {
        free_node(map);
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
    trm_yaml_pair *p = find_pair(map, key, strlen(key));
    if (!p) return;
    trm_free(p->key);
    free_node(p->value);
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
    trm_yaml_pair *p = find_pair(n, key, strlen(key));
    if (!p) {
        char *name = trm_strdup(key);
        if (!name) return TRM_MEMORY;
        TRM_TRY(add_pair(n, name, at, NULL));
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
        if (!*slot && !(*slot = new_node(TRM_YAML_MAP, at))) TRM_GOTO(TRM_MEMORY);
        TRM_GOTO(enter(at, *slot, key, !dot, &slot));
        key = dot ? dot + 1 : NULL;
    }
    free_node(*slot);
    *slot = value;
    return TRM_OK;
out:
    free_node(value);
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
    TRM_GOTO(read_tree(at, override + len + 1, n - len - 1, &value));
    if (!value) TRM_GOTO(trm_yaml_fail(at, "there is no value behind the ="));
    trm_str_addn(&path, override, len);
    if (path.failed) TRM_GOTO(TRM_MEMORY);
    status = put_at(y, at, path.p, value);
    value = NULL;
out:
    free_node(value);
    trm_str_free(&path);
    return status;
}
