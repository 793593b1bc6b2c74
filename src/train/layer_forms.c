/* layer_forms: what an entry of `model.layers` can be.  nn's layer types are turned into tables of keys like those of the
 * job file; the composites `residual`, `repeat` and `transformer` stand below. */
#include <string.h>

#include "model_impl.h"

/* ---- layer types as forms ---- */

static const trm_job_kind kind_of[] = {
    [TRM_ATTR_INT] = TRM_KEY_INT,     [TRM_ATTR_SIZES] = TRM_KEY_SIZES, [TRM_ATTR_FLOAT] = TRM_KEY_FLOAT,
    [TRM_ATTR_BOOL] = TRM_KEY_BOOL,   [TRM_ATTR_INIT] = TRM_KEY_CHOICE, [TRM_ATTR_NAME] = TRM_KEY_TEXT,
    [TRM_ATTR_SHAPE] = TRM_KEY_SHAPE,
};

/* The default as text; "" where it is no value that could be written. */
static void default_text(const trm_attr_def *d, char text[32]) {
    text[0] = '\0';
    if (d->required || d->kind == TRM_ATTR_NAME || d->kind == TRM_ATTR_SHAPE) return;
    if (d->kind == TRM_ATTR_BOOL)
        snprintf(text, 32, d->def != 0 ? "true" : "false");
    else if (d->kind == TRM_ATTR_INIT)
        snprintf(text, 32, "%s", trm_init_name((int)d->def));
    else if (d->def >= d->min && d->def <= d->max)
        trm_job_number(d->def, text);
}

static void add_attr(trm_form *f, const trm_attr_def *d) {
    int i = f->n_keys++;
    snprintf(f->path[i], sizeof f->path[i], "%s.%s", f->name, d->key);
    default_text(d, f->def[i]);
    f->key[i] = (trm_job_key){
        .path = f->path[i],
        .kind = kind_of[d->kind],
        .at = d->offset,
        .min = d->min,
        .max = d->max,
        .flags = (d->required ? TRM_KEY_REQUIRED : 0) | (d->kind == TRM_ATTR_NAME ? TRM_KEY_LAYER : 0),
        .def = f->def[i][0] ? f->def[i] : NULL,
        .names = d->kind == TRM_ATTR_INIT ? trm_init_names() : NULL,
        .about = d->about,
    };
}

static trm_status add_type(trm_forms *forms, const trm_layer_type *t) {
    if (forms->n == MOST_FORMS) return trm_fail(TRM_INTERNAL, "more than %d layer types", MOST_FORMS);
    trm_form *f = &forms->form[forms->n];
    *f = (trm_form){.name = t->name,
                    .about = t->about,
                    .index = forms->n,
                    .inputs = t->inputs,
                    .main = t->main_attr,
                    .type = t};
    for (const trm_attr_def *d = t->attrs; d->key; d++) {
        if (f->n_keys == MOST_LAYER_KEYS)
            return trm_fail(TRM_INTERNAL, "layer type %s has more than %d keys", t->name, MOST_LAYER_KEYS);
        add_attr(f, d);
    }
    forms->n++;
    return TRM_OK;
}

/* ---- composites ---- */

static trm_status read_defaults(const trm_form *f, void *base) {
    for (int i = 0; i < f->n_keys; i++)
        if (f->key[i].def) TRM_TRY(trm_job_value_default(&f->key[i], f->key[i].def, base));
    return TRM_OK;
}

/* Walks a list with the prefix "name." before its layers' names. */
static trm_status walk_inside(trm_walk *w, const char *name, const trm_yaml_node *list, int in, int *out) {
    size_t before = strlen(w->prefix);
    char prefix[TRM_NAME_MAX];
    memcpy(prefix, w->prefix, sizeof prefix);
    if (name) snprintf(w->prefix, sizeof w->prefix, "%s.", name);
    trm_status status = trm_walk_list(w, list, in, out);
    memcpy(w->prefix, prefix, before + 1);
    return status;
}

static const char *const activations[] = {"none", "relu", "gelu", "tanh", "sigmoid", "silu", NULL};

static const trm_job_key residual_keys[] = {
    {"residual.layers", TRM_KEY_LAYERS, .flags = TRM_KEY_REQUIRED, .about = "the layers of the branch"},
    {"residual.shortcut", TRM_KEY_LAYERS, .def_text = "the input itself", .about = "layers of the other way"},
    {"residual.act", TRM_KEY_CHOICE, .names = activations, .def = "none", .about = "activation of the sum"},
};

static trm_status own_layer(trm_walk *w, const trm_entry *e, const char *type, const int *in, int *out) {
    char name[TRM_NAME_MAX + 16];
    trm_layer_attr a;
    const trm_layer_type *t = trm_layer_find(type);
    trm_layer_defaults(t, &a);
    snprintf(name, sizeof name, "%s.%s", e->full, type);
    return trm_walk_layer(w, t, &a, e, name, in, out);
}

/* layers(x) + shortcut(x).  The layers of a residual without a name keep their own names. */
static trm_status add_residual(trm_walk *w, const trm_entry *e, int *out) {
    int act = 0, branch, way[2];
    const char *name = e->name ? e->full : NULL;
    TRM_TRY(read_defaults(e->form, &act));
    TRM_TRY(trm_entry_settings(w, e, &act));
    const trm_yaml_node *side = trm_yaml_get(e->settings, "shortcut");
    TRM_TRY(walk_inside(w, name, trm_yaml_get(e->settings, "layers"), e->in[0], &branch));
    way[0] = branch;
    way[1] = e->in[0];
    if (side) TRM_TRY(walk_inside(w, name, side, e->in[0], &way[1]));
    TRM_TRY(own_layer(w, e, "add", way, out));
    const int sum = *out;
    return act ? own_layer(w, e, activations[act], &sum, out) : TRM_OK;
}

static const trm_job_key repeat_keys[] = {
    {"repeat.times", TRM_KEY_INT, .flags = TRM_KEY_REQUIRED, .min = 1, .max = 1000, .about = "how often"},
    {"repeat.layers", TRM_KEY_LAYERS, .flags = TRM_KEY_REQUIRED,
     .about = "the layers; `x` becomes `NAME.0.x`, `NAME.1.x`, ..."},
};

static trm_status add_repeat(trm_walk *w, const trm_entry *e, int *out) {
    char name[TRM_NAME_MAX + 16];
    int64_t times = 0;
    int at = e->in[0];
    TRM_TRY(trm_entry_settings(w, e, &times));
    for (int64_t i = 0; i < times; i++) {
        snprintf(name, sizeof name, "%s.%d", e->full, (int)i);
        TRM_TRY(walk_inside(w, name, trm_yaml_get(e->settings, "layers"), at, &at));
    }
    *out = at;
    return TRM_OK;
}

static const char *const gelus[] = {"exact", "tanh", NULL};
#define BLOCK(field) .at = offsetof(trm_block_spec, field)

static const trm_job_key transformer_keys[] = {
    {"transformer.heads", TRM_KEY_INT, BLOCK(heads), .flags = TRM_KEY_REQUIRED, .min = 1, .max = 4096,
     .about = "attention heads; they divide the width"},
    {"transformer.expand", TRM_KEY_INT, BLOCK(expand), .min = 1, .max = 64, .def = "4",
     .about = "the inner width is so many times the width"},
    {"transformer.causal", TRM_KEY_BOOL, BLOCK(causal), .def = "true",
     .about = "a position sees itself and earlier ones only"},
    {"transformer.dropout", TRM_KEY_FLOAT, BLOCK(dropout), .max = 1, .flags = TRM_KEY_BELOW, .def = "0",
     .about = "behind attention and behind the two linear layers"},
    {"transformer.gelu", TRM_KEY_CHOICE_BOOL, BLOCK(tanh), .names = gelus, .def = "tanh",
     .about = "form of the activation"},
    {"transformer.init", TRM_KEY_CHOICE, BLOCK(init), .def = "default",
     .about = "initial weights of its linear layers"},
    {"transformer.std", TRM_KEY_FLOAT, BLOCK(std), .max = 1000, .def = "0.02",
     .about = "standard deviation for init: normal"},
    {"transformer.out_std", TRM_KEY_FLOAT, BLOCK(residual_std), .max = 1000, .def = "0",
     .about = "the same for the two layers that end a branch; 0: `std`"},
};

static trm_status add_transformer(trm_walk *w, const trm_entry *e, int *out) {
    trm_block_spec s = {0};
    TRM_TRY(read_defaults(e->form, &s));
    TRM_TRY(trm_entry_settings(w, e, &s));
    return trm_walk_block(w, &s, e, out);
}

#define KEYS(table) table, sizeof(table) / sizeof *(table)
static const struct {
    const char *name, *about;
    const trm_job_key *key;
    size_t n_keys;
    const char *main;
    trm_status (*add)(trm_walk *w, const trm_entry *e, int *out);
} composites[] = {
    {"residual", "the sum of a branch of layers and a shortcut", KEYS(residual_keys), NULL, add_residual},
    {"repeat", "the same layers several times, one behind the other", KEYS(repeat_keys), NULL, add_repeat},
    {"transformer", "a pre-norm block: attention and two linear layers, each with a residual",
     KEYS(transformer_keys), "heads", add_transformer},
};

static trm_status add_composite(trm_forms *forms, size_t c) {
    if (forms->n == MOST_FORMS) return trm_fail(TRM_INTERNAL, "more than %d layer types", MOST_FORMS);
    trm_form *f = &forms->form[forms->n];
    *f = (trm_form){.name = composites[c].name,
                    .about = composites[c].about,
                    .index = forms->n,
                    .inputs = 1,
                    .main = composites[c].main,
                    .add = composites[c].add};
    for (size_t i = 0; i < composites[c].n_keys; i++) {
        f->key[i] = composites[c].key[i];
        /* The names of initial values are nn's. */
        if (f->key[i].kind == TRM_KEY_CHOICE && !f->key[i].names) f->key[i].names = trm_init_names();
    }
    f->n_keys = (int)composites[c].n_keys;
    forms->n++;
    return TRM_OK;
}

trm_status trm_forms_make(trm_forms **out) {
    trm_forms *f = trm_alloc(sizeof *f, "the table of layers");
    trm_status status = f ? TRM_OK : TRM_MEMORY;
    for (const trm_layer_type *const *t = trm_layer_types(); status == TRM_OK && *t; t++)
        status = add_type(f, *t);
    for (size_t c = 0; status == TRM_OK && c < sizeof composites / sizeof *composites; c++)
        status = add_composite(f, c);
    if (status != TRM_OK) {
        trm_free(f);
        return status;
    }
    *out = f;
    return TRM_OK;
}

const trm_form *trm_form_find(const trm_forms *f, const char *name) {
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->form[i].name, name)) return &f->form[i];
    return NULL;
}

/* ---- reference ---- */

static void form_reference(const trm_form *f, trm_str *out) {
    trm_str_add(out, "\n#### %s\n\n%s.", f->name, f->about);
    if (f->inputs != 1)
        trm_str_add(out,
                    " Reads two%s values: those that `from` names, or the value before and the one that it "
                    "names.",
                    f->inputs ? "" : " or more");
    if (f->main) trm_str_add(out, " Short form: `%s: VALUE` sets `%s`.", f->name, f->main);
    trm_str_add(out, "\n");
    if (f->n_keys) trm_str_add(out, "\n| key | allowed | default | meaning |\n|---|---|---|---|\n");
    for (int i = 0; i < f->n_keys; i++) trm_job_key_reference(&f->key[i], strlen(f->name) + 1, out);
}

void trm_job_model_reference(trm_str *out) {
    trm_forms *f;
    if (trm_forms_make(&f) != TRM_OK) return;
    trm_str_add(out, "### Layers\n\nEach layer also takes `name` and `from`.\n");
    for (int i = 0; i < f->n; i++) form_reference(&f->form[i], out);
    trm_free(f);
}
