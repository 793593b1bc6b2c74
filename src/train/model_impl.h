/* Private to the model's reading: forms of entries, and the walk over them. */
#ifndef TRM_TRAIN_MODEL_IMPL_H
#define TRM_TRAIN_MODEL_IMPL_H

#include "job_impl.h"

#define MOST_LAYERS 10000           /* after repeats are written out */
#define MOST_FORMS 40
#define MOST_LAYER_KEYS 16
#define MOST_NAME_BYTES (TRM_NAME_MAX - 32)

typedef struct trm_walk trm_walk;
typedef struct trm_entry trm_entry;

/* What an entry of a list of layers can be: a type of nn's table, or one of the composites. */
typedef struct trm_form {
    const char *name, *about;
    int index, inputs;
    const char *main;               /* key of the short form, or NULL */
    const trm_layer_type *type;     /* NULL for a composite */
    trm_job_key key[MOST_LAYER_KEYS];
    char path[MOST_LAYER_KEYS][64]; /* for types: "conv2d.kernel" and the default as text */
    char def[MOST_LAYER_KEYS][32];
    int n_keys;
    trm_status (*add)(trm_walk *w, const trm_entry *e, int *out);   /* composites */
} trm_form;
typedef struct trm_forms {
    trm_form form[MOST_FORMS];
    int n;
} trm_forms;

/* Makes the forms from nn's table and the composites; trm_free frees them. */
trm_status trm_forms_make(trm_forms **out);
const trm_form *trm_form_find(const trm_forms *f, const char *name);

/* One entry taken apart. */
struct trm_entry {
    const trm_form *form;
    trm_yaml_place at;              /* of the type's word */
    const trm_yaml_node *settings, *name, *from;    /* NULL where not given */
    char full[TRM_NAME_MAX];
    int in[TRM_MAX_INPUTS], n_in;
};

/* A value that `from` can name. */
typedef struct trm_named {
    char name[TRM_NAME_MAX];
    trm_yaml_place at;
    int node;
    bool read;
} trm_named;

struct trm_walk {
    trm_graph *g;                   /* NULL: only checked */
    const trm_forms *forms;
    char prefix[TRM_NAME_MAX];      /* "block.0.": goes before the names of layers */
    trm_named *names;
    int n_names, cap_names;
    int unnamed[MOST_FORMS];        /* layers without a name so far, per form */
    int layers;
    int pretended;                  /* node ids handed out where there is no graph */
};

/* Reads the entry's keys into base. */
trm_status trm_entry_settings(trm_walk *w, const trm_entry *e, void *base);
trm_status trm_walk_list(trm_walk *w, const trm_yaml_node *list, int in, int *out);
trm_status trm_walk_layer(trm_walk *w, const trm_layer_type *t, const trm_layer_attr *a, const trm_entry *e,
                          const char *name, const int *in, int *out);
trm_status trm_walk_block(trm_walk *w, const trm_block_spec *s, const trm_entry *e, int *out);

#endif
