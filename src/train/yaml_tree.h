/* Private to train: a YAML document as a small tree in which every key and value knows its place.
 *
 * Only what a settings file needs: one document of maps, lists and texts.  Anchors, aliases, tags, keys that are not
 * texts, a key given twice, deep nesting and huge files are refused with a sentence.  Texts stay texts: what they mean is
 * decided by whoever reads them.
 */
#ifndef TRM_TRAIN_YAML_TREE_H
#define TRM_TRAIN_YAML_TREE_H

#include <trireme/base.h>

#define TRM_YAML_MAX_BYTES ((size_t)1 << 20)
#define TRM_YAML_MAX_DEPTH 64
#define TRM_YAML_MAX_NODES 100000
#define TRM_YAML_MAX_KEYS 1000      /* of one map */

/* Where something stands: "job.yaml:12:5", or the source alone where line is 0 ("--set train.epochs=3"). */
typedef struct trm_yaml_place {
    const char *source;             /* owned by the document */
    int line, column;               /* from 1, columns in characters */
} trm_yaml_place;

typedef enum trm_yaml_kind { TRM_YAML_TEXT, TRM_YAML_LIST, TRM_YAML_MAP } trm_yaml_kind;
typedef struct trm_yaml_node trm_yaml_node;
typedef struct trm_yaml_pair {
    char *key;
    trm_yaml_place at;              /* of the key */
    trm_yaml_node *value;
} trm_yaml_pair;

struct trm_yaml_node {
    trm_yaml_kind kind;
    trm_yaml_place at;
    char *text;                     /* TEXT */
    bool quoted;                    /* TEXT in quotes or a block: never a number and never "nothing" */
    int n;                          /* LIST, MAP */
    trm_yaml_node **item;           /* LIST */
    trm_yaml_pair *pair;            /* MAP */
};

typedef struct trm_yaml {
    trm_yaml_node *root;            /* NULL where the document is empty */
    char **source;                  /* names of the file and of the overrides, as places show them */
    int n_source;
} trm_yaml;

/* Reads one document; `source` names it in messages. TRM_JOB on a fault. */
trm_status trm_yaml_parse(const char *source, const char *text, size_t n, trm_yaml **out);
void trm_yaml_free(trm_yaml *y);
/* Applies "train.epochs=3" or "data.train=[a.h5,b.h5]": the value is YAML, maps on the way are made, and a list is entered by
 * its index from 0 ("model.layers.2.linear=64"). */
trm_status trm_yaml_set(trm_yaml *y, const char *override);
/* Puts a map {key: node} in the place of *node. */
trm_status trm_yaml_wrap(trm_yaml_node **node, const char *key);
/* Takes a key out of a map, if it is there. */
void trm_yaml_remove(trm_yaml_node *map, const char *key);

/* The value of a key, NULL where there is none or the node is no map. Accepts NULL. */
trm_yaml_node *trm_yaml_get(const trm_yaml_node *map, const char *key);
/* The pair at "train.optimizer.lr" below `root`, or NULL. */
trm_yaml_pair *trm_yaml_find(const trm_yaml_node *root, const char *path);
/* A text without quotes that says nothing: "", "~" or "null". */
bool trm_yaml_is_nothing(const trm_yaml_node *n);

/* The value as messages show it: `0`, `"2 epochs"`, `a list`; cut to some 60 bytes. Returns buf (>= 80 bytes). */
const char *trm_yaml_shown(const trm_yaml_node *n, char *buf, size_t cap);
/* Adds "job.yaml:12:5" to a text of >= 160 bytes; returns buf. */
const char *trm_yaml_place_text(trm_yaml_place at, char *buf, size_t cap);
/* Records "job.yaml:12:5: ..." and returns TRM_JOB. */
trm_status trm_yaml_fail(trm_yaml_place at, const char *fmt, ...) TRM_PRINTF(2, 3);

/* Writes a node as YAML that reads back the same; `indent` spaces before each line of it.  Maps and lists of maps take
 * lines of their own, lists of texts stand on one line. */
void trm_yaml_write(const trm_yaml_node *n, int indent, trm_str *out);
/* A text in quotes where it would not be read back as it is. */
void trm_yaml_write_text(const char *text, bool quoted, trm_str *out);

#endif
