/* yaml_read: libyaml's events become a tree with places; everything that a settings file has no use for is refused. */
#include "yaml_impl.h"

#include <string.h>
#include <yaml.h>

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
        /* libyaml compares each %TAG with all others: a file of them would take half a minute. */
        if (*p == '%' && column == 1) return trm_yaml_fail(at, "directives (%%) are not allowed");
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
    trm_yaml_node *n = trm_yaml_node_new(TRM_YAML_TEXT, place_of(b, e->start_mark));
    if (!n) return TRM_MEMORY;
    n->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    n->text = trm_strdup((const char *)e->data.scalar.value);
    if (!n->text) {
        trm_yaml_node_free(n);
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
        trm_yaml_node_free(value);
        return status;
    }
    return trm_yaml_add_item(list, value);
}

static trm_status check_key(builder *b, const yaml_event_t *e, const trm_yaml_node *map) {
    trm_yaml_place at = place_of(b, e->start_mark);
    TRM_TRY(check_event(b, e, 0));
    if (e->type != YAML_SCALAR_EVENT)
        return trm_yaml_fail(at, "a key is a list or a map; keys are single words");
    const char *key = (const char *)e->data.scalar.value;
    char cut[64];
    trm_yaml_copy_cut(key, cut, sizeof cut);
    if (!key[0]) return trm_yaml_fail(at, "a key is empty");
    trm_yaml_pair *twice = trm_yaml_find_pair(map, key, strlen(key));
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
        trm_yaml_node_free(value);
        return status;
    }
    return trm_yaml_add_pair(map, key, at, value);
}

/* A list or a map up to its end event. *out is owned by the caller also on failure. */
static trm_status build_many(builder *b, yaml_event_t *start, int depth, trm_yaml_node **out) {
    bool is_map = start->type == YAML_MAPPING_START_EVENT;
    trm_yaml_node *n = *out =
        trm_yaml_node_new(is_map ? TRM_YAML_MAP : TRM_YAML_LIST, place_of(b, start->start_mark));
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

trm_status trm_yaml_read(trm_yaml_place at, const char *text, size_t n, trm_yaml_node **root) {
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
