/* model: the model section becomes a graph.
 *
 * Layers come from the table of nn, so a new layer type needs nothing here.  The section is walked twice: without a
 * graph when the job is read, so that a slip shows before any data is opened, and with one when the data's shapes are
 * known.
 */
#include <string.h>

#include "model_impl.h"
#include "run_impl.h"

/* ---- names ---- */

static const trm_named *find_full(const trm_walk *w, const char *name) {
    for (int i = w->n_names - 1; i >= 0; i--)
        if (!strcmp(w->names[i].name, name)) return &w->names[i];
    return NULL;
}

/* A name is looked for where the layer stands, then in what encloses it: as "block.0.x", "block.x" and "x". */
static const trm_named *find_name(const trm_walk *w, const char *name) {
    char full[2 * TRM_NAME_MAX];
    size_t n = strlen(w->prefix);
    if (strlen(name) >= TRM_NAME_MAX) return NULL;
    for (;;) {
        snprintf(full, sizeof full, "%.*s%s", (int)n, w->prefix, name);
        const trm_named *found = find_full(w, full);
        if (found || n == 0) return found;
        for (n--; n > 0 && w->prefix[n - 1] != '.'; n--) continue;
    }
}

/* Gives a value its name. */
static trm_status remember(trm_walk *w, const char *name, trm_yaml_place at, int node) {
    if (w->n_names == w->cap_names) {
        int cap = w->cap_names ? 2 * w->cap_names : 32;
        trm_named *p =
            trm_realloc(w->names, (size_t)w->n_names * sizeof *p, (size_t)cap * sizeof *p, "names of layers");
        if (!p) return TRM_MEMORY;
        w->names = p;
        w->cap_names = cap;
    }
    trm_named *p = &w->names[w->n_names++];
    *p = (trm_named){.node = node, .at = at};
    snprintf(p->name, sizeof p->name, "%s", name);
    return TRM_OK;
}

/* Marks a value as read; the latest are the likely ones. */
static void mark_read(trm_walk *w, int node) {
    for (int i = w->n_names - 1; i >= 0; i--)
        if (w->names[i].node == node) w->names[i].read = true;
}

static trm_status unknown_name(const trm_walk *w, const trm_yaml_node *n) {
    char shown[80];
    const char **names = trm_alloc_array((size_t)w->n_names + 1, sizeof *names, "names of layers");
    if (!names) return TRM_MEMORY;
    for (int i = 0; i < w->n_names; i++) names[i] = w->names[i].name;
    const char *near = n->kind == TRM_YAML_TEXT ? trm_nearest(n->text, names) : NULL;
    trm_yaml_fail(n->at, "no earlier layer is named %s", trm_yaml_shown(n, shown, sizeof shown));
    if (near)
        trm_hint("did you mean `%s`?", near);
    else
        trm_hint("give an earlier layer a `name`, or use `input`, the model's input");
    trm_free(names);
    return TRM_JOB;
}

static bool is_layer_name(const char *t) {
    for (const char *p = t; *p; p++) {
        bool word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
                    strchr("_-.", *p);
        if (!word) return false;
    }
    size_t n = strlen(t);
    return n > 0 && t[0] != '.' && t[n - 1] != '.';
}

/* The layer's full name: its own behind the prefix, or the type's with a number. */
static trm_status name_entry(trm_walk *w, trm_entry *e) {
    char shown[80];
    if (!e->name) {
        int *count = &w->unnamed[e->form->index];
        do snprintf(e->full, sizeof e->full, "%s%d", e->form->name, ++*count);
        while (find_full(w, e->full));
        return TRM_OK;
    }
    const trm_yaml_node *n = e->name;
    if (n->kind != TRM_YAML_TEXT || trm_yaml_is_nothing(n) || !is_layer_name(n->text))
        return trm_yaml_fail(n->at,
                             "the layer's name is %s; allowed are letters, digits, `_`, `-` and inner `.`",
                             trm_yaml_shown(n, shown, sizeof shown));
    if (strlen(w->prefix) + strlen(n->text) >= MOST_NAME_BYTES)
        return trm_yaml_fail(n->at, "the layer's name `%s%.40s` is too long; allowed are %d bytes", w->prefix,
                             n->text, MOST_NAME_BYTES - 1);
    snprintf(e->full, sizeof e->full, "%s%s", w->prefix, n->text);
    if (find_full(w, e->full)) return trm_yaml_fail(n->at, "two layers are named `%s`", e->full);
    return TRM_OK;
}

/* ---- inputs ---- */

static trm_status read_from(trm_walk *w, const trm_yaml_node *n, int *in) {
    if (n->kind != TRM_YAML_TEXT || trm_yaml_is_nothing(n)) return unknown_name(w, n);
    const trm_named *found = find_name(w, n->text);
    if (!found) return unknown_name(w, n);
    *in = found->node;
    return TRM_OK;
}

/* e->in: what `from` names; else the layer before.  A layer of two or more inputs with one name reads the layer before and
 * that. */
static trm_status find_inputs(trm_walk *w, trm_entry *e, int before) {
    int wanted = e->form->inputs, given = !e->from ? 0 : e->from->kind == TRM_YAML_LIST ? e->from->n : 1;
    if (!wanted) wanted = trm_max64(given, 2) < TRM_MAX_INPUTS ? (int)trm_max64(given, 2) : TRM_MAX_INPUTS;
    char shown[80];
    e->in[0] = before;
    if (e->from && (given == 0 || given > wanted || e->from->kind == TRM_YAML_MAP))
        return trm_yaml_fail(e->from->at, "`from` is %s; %s reads %s%d value%s",
                             trm_yaml_shown(e->from, shown, sizeof shown), e->form->name,
                             e->form->inputs ? "" : "2 to ", e->form->inputs ? wanted : TRM_MAX_INPUTS,
                             wanted == 1 ? "" : "s");
    if (wanted == 2 && given == 0) {
        trm_yaml_fail(e->at, "%s reads two%s values; it needs `from`", e->form->name,
                      e->form->inputs ? "" : " or more");
        trm_hint("for example `%s: {from: [a, b]}` with the names of two layers", e->form->name);
        return TRM_JOB;
    }
    for (int i = 0; i < given; i++)
        TRM_TRY(read_from(w, e->from->kind == TRM_YAML_LIST ? e->from->item[i] : e->from,
                          &e->in[wanted - given + i]));
    e->n_in = wanted;
    for (int i = 0; i < wanted; i++) mark_read(w, e->in[i]);
    return TRM_OK;
}

/* ---- taking an entry apart ---- */

static trm_status unknown_form(const trm_walk *w, trm_yaml_place at, const char *word) {
    const char *names[MOST_FORMS + 1];
    int n = 0;
    for (; n < w->forms->n; n++) names[n] = w->forms->form[n].name;
    names[n] = NULL;
    const char *near = trm_nearest(word, names);
    trm_str list = {0};
    for (int i = 0; i < n; i++) trm_str_add(&list, i ? ", %s" : "%s", names[i]);
    trm_yaml_fail(at, "unknown layer `%.60s`", word);
    if (near)
        trm_hint("did you mean `%s`?", near);
    else
        trm_hint("layers are %s", trm_str_get(&list));
    trm_str_free(&list);
    return TRM_JOB;
}

static trm_status set_form(const trm_walk *w, trm_yaml_place at, const char *word, trm_entry *e) {
    e->at = at;
    e->form = trm_form_find(w->forms, word);
    return e->form ? TRM_OK : unknown_form(w, at, word);
}

/* `name` and `from` may stand beside the type or in its map. */
static trm_status take_common(const trm_yaml_node *map, trm_entry *e) {
    static const char *const words[2] = {"name", "from"};
    for (int i = 0; i < 2; i++) {
        const trm_yaml_node **to = i ? &e->from : &e->name;
        trm_yaml_pair *p = trm_yaml_find(map, words[i]);
        if (p && *to) return trm_yaml_fail(p->at, "`%s` is given twice for one layer", words[i]);
        if (p) *to = p->value;
    }
    return TRM_OK;
}

static trm_status second_word(const trm_walk *w, const trm_yaml_pair *p, const trm_entry *e) {
    if (trm_form_find(w->forms, p->key))
        return trm_yaml_fail(p->at, "`%s` and `%s` stand in one entry; each layer needs a `-` of its own",
                             e->form->name, p->key);
    trm_yaml_fail(p->at, "unknown key `%.60s` beside `%s`", p->key, e->form->name);
    trm_hint("a layer's keys stand in its map: `%s: {%.40s: ...}`", e->form->name, p->key);
    return TRM_JOB;
}

static bool is_common(const char *key) { return !strcmp(key, "name") || !strcmp(key, "from"); }

static trm_status take_map(const trm_walk *w, const trm_yaml_node *n, trm_entry *e) {
    for (int i = 0; i < n->n; i++) {
        const trm_yaml_pair *p = &n->pair[i];
        if (is_common(p->key)) continue;
        if (e->form) return second_word(w, p, e);
        TRM_TRY(set_form(w, p->at, p->key, e));
        if (!trm_yaml_is_nothing(p->value)) e->settings = p->value;
    }
    if (!e->form) return trm_yaml_fail(n->at, "an entry of the list names no layer");
    TRM_TRY(take_common(n, e));
    return e->settings && e->settings->kind == TRM_YAML_MAP ? take_common(e->settings, e) : TRM_OK;
}

static trm_status take_entry(const trm_walk *w, const trm_yaml_node *n, trm_entry *e) {
    *e = (trm_entry){.at = n->at};
    if (n->kind == TRM_YAML_MAP) return take_map(w, n, e);
    if (n->kind == TRM_YAML_LIST || trm_yaml_is_nothing(n)) {
        char shown[80];
        return trm_yaml_fail(
            n->at, "an entry of the layers is %s; allowed are a word (`relu`) or a map (`linear: 512`)",
            trm_yaml_shown(n, shown, sizeof shown));
    }
    return set_form(w, n->at, n->text, e);
}

/* ---- keys of a layer ---- */

static trm_status unknown_layer_key(const trm_form *f, const trm_yaml_pair *p) {
    const char *names[MOST_LAYER_KEYS + 3];
    int n = 0;
    for (; n < f->n_keys; n++) names[n] = trm_job_key_word(&f->key[n]);
    names[n++] = "name";
    names[n++] = "from";
    names[n] = NULL;
    const char *near = trm_nearest(p->key, names);
    trm_str list = {0};
    for (int i = 0; i < n; i++) trm_str_add(&list, i ? ", %s" : "%s", names[i]);
    trm_yaml_fail(p->at, "unknown key `%.60s` of %s", p->key, f->name);
    if (near)
        trm_hint("did you mean `%s`?", near);
    else
        trm_hint("keys of %s are %s", f->name, trm_str_get(&list));
    trm_str_free(&list);
    return TRM_JOB;
}

static const trm_job_key *form_key(const trm_form *f, const char *word) {
    for (int i = 0; i < f->n_keys; i++)
        if (!strcmp(trm_job_key_word(&f->key[i]), word)) return &f->key[i];
    return NULL;
}

/* `tie` names an earlier layer: the value becomes its full name. */
static trm_status read_tie(trm_walk *w, const trm_yaml_node *n, const char **out) {
    const trm_named *found = n->kind == TRM_YAML_TEXT ? find_name(w, n->text) : NULL;
    if (!found) return unknown_name(w, n);
    *out = found->name;
    return TRM_OK;
}

static trm_status read_key(trm_walk *w, const trm_job_key *k, const trm_yaml_node *n, void *base) {
    if (k->flags & TRM_KEY_LAYER) return read_tie(w, n, (const char **)((char *)base + k->at));
    if (k->kind != TRM_KEY_LAYERS) return trm_job_value_read(k, n, base);
    char shown[80];
    if (n->kind == TRM_YAML_LIST && n->n > 0) return TRM_OK;
    return trm_yaml_fail(n->at, "%s is %s; allowed is a list of layers", k->path,
                         trm_yaml_shown(n, shown, sizeof shown));
}

static trm_status check_required(const trm_entry *e, const char *given) {
    for (int i = 0; i < e->form->n_keys; i++) {
        const trm_job_key *k = &e->form->key[i];
        const char *word = trm_job_key_word(k);
        if (!(k->flags & TRM_KEY_REQUIRED) || (given && !strcmp(given, word))) continue;
        if (e->settings && trm_yaml_get(e->settings, word)) continue;
        trm_yaml_fail(e->at, "%s needs `%s`", e->form->name, word);
        trm_hint("%s: %s", word, k->about);
        return TRM_JOB;
    }
    return TRM_OK;
}

trm_status trm_entry_settings(trm_walk *w, const trm_entry *e, void *base) {
    const trm_form *f = e->form;
    const trm_yaml_node *s = e->settings;
    char shown[80];
    if (!s) return check_required(e, NULL);
    if (s->kind != TRM_YAML_MAP) {
        if (!f->main) {
            trm_yaml_fail(s->at, "%s takes no value, but %s is given", f->name,
                          trm_yaml_shown(s, shown, sizeof shown));
            trm_hint("write `- %s`, or a map of its keys", f->name);
            return TRM_JOB;
        }
        TRM_TRY(read_key(w, form_key(f, f->main), s, base));
        return check_required(e, f->main);
    }
    for (int i = 0; i < s->n; i++) {
        if (is_common(s->pair[i].key)) continue;
        const trm_job_key *k = form_key(f, s->pair[i].key);
        if (!k) return unknown_layer_key(f, &s->pair[i]);
        TRM_TRY(read_key(w, k, s->pair[i].value, base));
    }
    return check_required(e, NULL);
}

/* ---- walking ---- */

/* A fault of the graph gets the place of its layer. */
static trm_status placed(trm_yaml_place at, trm_status s) {
    char place[160];
    return s == TRM_JOB ? trm_prefix(s, "%s", trm_yaml_place_text(at, place, sizeof place)) : s;
}

trm_status trm_walk_layer(trm_walk *w, const trm_layer_type *t, const trm_layer_attr *a, const trm_entry *e,
                          const char *name, const int *in, int *out) {
    if (++w->layers > MOST_LAYERS)
        return trm_yaml_fail(e->at, "the model has more than %d layers", MOST_LAYERS);
    if (w->g) return placed(e->at, trm_graph_add(w->g, t, a, name, in, out));
    *out = ++w->pretended;
    return TRM_OK;
}

trm_status trm_walk_block(trm_walk *w, const trm_block_spec *s, const trm_entry *e, int *out) {
    if (++w->layers > MOST_LAYERS)
        return trm_yaml_fail(e->at, "the model has more than %d layers", MOST_LAYERS);
    if (w->g) return placed(e->at, trm_zoo_transformer(w->g, s, e->full, e->in[0], out));
    *out = ++w->pretended;
    return TRM_OK;
}

static trm_status add_table_layer(trm_walk *w, const trm_entry *e, int *out) {
    trm_layer_attr a;
    trm_layer_defaults(e->form->type, &a);
    TRM_TRY(trm_entry_settings(w, e, &a));
    a.n_in = e->n_in;
    return trm_walk_layer(w, e->form->type, &a, e, e->full, e->in, out);
}

static trm_status walk_entry(trm_walk *w, const trm_yaml_node *n, int *at) {
    trm_entry e;
    int out = -1;
    TRM_TRY(take_entry(w, n, &e));
    TRM_TRY(find_inputs(w, &e, *at));
    TRM_TRY(name_entry(w, &e));
    TRM_TRY(e.form->type ? add_table_layer(w, &e, &out) : e.form->add(w, &e, &out));
    TRM_TRY(remember(w, e.full, e.at, out));
    *at = out;
    return TRM_OK;
}

trm_status trm_walk_list(trm_walk *w, const trm_yaml_node *list, int in, int *out) {
    int at = in;
    for (int i = 0; i < list->n; i++) TRM_TRY(walk_entry(w, list->item[i], &at));
    mark_read(w, at);
    *out = at;
    return TRM_OK;
}

static trm_status check_all_read(const trm_walk *w) {
    for (int i = 0; i < w->n_names; i++)
        if (!w->names[i].read && w->names[i].node != 0)
            return trm_yaml_fail(w->names[i].at, "nothing reads the value of layer `%s`", w->names[i].name);
    return TRM_OK;
}

/* g NULL: only checks. */
static trm_status walk_model(const trm_yaml_node *list, trm_graph *g, int *out) {
    if (list->n == 0) return trm_yaml_fail(list->at, "model.layers is an empty list; a model needs layers");
    trm_forms *forms = NULL;
    TRM_TRY(trm_forms_make(&forms));
    trm_walk w = {.g = g, .forms = forms};
    trm_status status;
    TRM_GOTO(remember(&w, "input", list->at, 0));
    TRM_GOTO(trm_walk_list(&w, list, 0, out));
    status = check_all_read(&w);
out:
    trm_free(w.names);
    trm_free(forms);
    return status;
}

/* ---- the doors ---- */

static const trm_yaml_node *layer_list(const trm_job *j) {
    return trm_yaml_get(trm_yaml_get(j->tree->root, "model"), "layers");
}

trm_status trm_job_model_check(const trm_job *j) {
    int out;
    return j->model.preset == TRM_PRESET_NONE ? walk_model(layer_list(j), NULL, &out) : TRM_OK;
}

static trm_status add_preset(const trm_job *j, const trm_data_info *data, trm_graph *g, int *out) {
    trm_zoo_spec s = j->model.zoo;
    s.classes = data->y_is_class ? data->classes : trm_shape_count(&data->y);
    if (!s.vocab) s.vocab = data->classes;
    if (!s.context) s.context = data->x.dim[0];
    switch (j->model.preset) {
    case TRM_PRESET_MLP: return trm_zoo_mlp(g, &s, 0, out);
    case TRM_PRESET_LENET: return trm_zoo_lenet(g, &s, 0, out);
    case TRM_PRESET_RESNET: return trm_zoo_resnet(g, &s, 0, out);
    case TRM_PRESET_GPT: return trm_zoo_gpt(g, &s, 0, out);
    case TRM_PRESET_NONE: break;
    }
    return walk_model(layer_list(j), g, out);
}

trm_shape trm_model_target(const trm_data_info *data, const trm_graph *g, int out) {
    const trm_shape *y = trm_graph_shape(g, out);
    if (!data->no_target || data->kind != TRM_DATA_SAMPLES) return data->y;
    if (!data->y_is_class) return *y;
    /* One class for each place in space, or for each step. */
    if (trm_graph_channels_first(g, out)) return trm_shape_from(y->rank - 1, y->dim + 1);
    return y->rank == 2 ? trm_shape_of(1, y->dim[0]) : data->y;
}

static trm_status finish(const trm_job *j, const trm_data_info *data, trm_graph *g, int out) {
    TRM_TRY(trm_graph_set_output(g, out));
    trm_shape y = trm_model_target(data, g, out);
    return trm_graph_check_loss(g, j->train.loss, &y, data->y_is_class, data->classes);
}

/* The key that says how many channels are scaled. */
static const trm_yaml_pair *norm_key(const trm_job *j) {
    static const char *const keys[] = {"data.mean", "data.std", "data.min", "data.max", "data.stats"};
    const trm_yaml_pair *most = NULL;
    int numbers = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const trm_yaml_pair *p = trm_yaml_find(j->tree->root, keys[i]);
        int n = !p ? 0 : p->value->kind == TRM_YAML_LIST ? p->value->n : 1;
        if (n > numbers) most = p, numbers = n;
    }
    return most;
}

/* mean and std are one number, or one for each channel. */
static trm_status check_norm(const trm_job *j, const trm_data_info *data, bool tokens) {
    char buf[80];
    int64_t channels = trm_data_channels(&data->x);
    int n = j->data.norm_count;
    const trm_yaml_pair *p = norm_key(j);
    if (n == 0 || (!tokens && (n == 1 || n == channels))) return TRM_OK;
    if (tokens) return trm_yaml_fail(p->value->at, "data.%s is given, but the inputs are tokens", p->key);
    return trm_yaml_fail(p->value->at, "data.%s has %d numbers; inputs of shape %s allow %s%lld", p->key, n,
                         trm_shape_text(&data->x, buf, sizeof buf), channels == 1 ? "" : "1 or ",
                         (long long)channels);
}

trm_status trm_job_model(const trm_job *j, const trm_data_info *data, trm_graph **out) {
    trm_graph *g = NULL;
    trm_yaml_pair *model = trm_yaml_find(j->tree->root, "model");
    bool tokens = data->kind == TRM_DATA_TOKEN_STREAM || data->kind == TRM_DATA_TOKEN_ROWS;
    int node = -1;
    TRM_TRY(check_norm(j, data, tokens));
    TRM_TRY(trm_graph_create(&data->x, tokens, &g));
    trm_status status = add_preset(j, data, g, &node);
    if (status == TRM_JOB && j->model.preset != TRM_PRESET_NONE) placed(model->value->at, status);
    if (status == TRM_OK) status = placed(model->at, finish(j, data, g, node));
    if (status != TRM_OK) {
        trm_graph_free(g);
        return status;
    }
    *out = g;
    return TRM_OK;
}
