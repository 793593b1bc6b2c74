/* job: a job file's text and its overrides become a frozen trm_job, or one sentence. */
#include <float.h>
#include <glob.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "job_impl.h"

/* ---- the document before its values are read ---- */

/* `optimizer: sgd` is written out as {type: sgd}, so that overrides and the reading know one form only. */
static trm_status write_out_short_forms(trm_yaml *tree) {
    for (const trm_job_key *k = trm_job_keys; k->path; k++) {
        char parent[64];
        if (!(k->flags & TRM_KEY_SHORT)) continue;
        const char *word = trm_job_key_word(k);
        snprintf(parent, sizeof parent, "%.*s", (int)(word - k->path - 1), k->path);
        trm_yaml_pair *p = trm_yaml_find(tree->root, parent);
        if (p && p->value->kind == TRM_YAML_TEXT && !trm_yaml_is_nothing(p->value))
            TRM_TRY(trm_yaml_wrap(&p->value, word));
    }
    return TRM_OK;
}

/* The length of a run is given by one of two keys: an override of one takes the place of the file's other. */
static void make_way(trm_yaml *tree, const char *override) {
    static const char *const lengths[2] = {"train.epochs", "train.updates"};
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(lengths[i]);
        if (strncmp(override, lengths[i], n) || override[n] != '=') continue;
        trm_yaml_pair *other = trm_yaml_find(tree->root, lengths[1 - i]);
        trm_yaml_node *train = trm_yaml_get(tree->root, "train");
        if (other && other->at.line > 0) trm_yaml_remove(train, other->key);
    }
}

static trm_status apply_overrides(trm_yaml *tree, const char *const *overrides, int n) {
    TRM_TRY(write_out_short_forms(tree));
    for (int i = 0; i < n; i++) {
        make_way(tree, overrides[i]);
        TRM_TRY(trm_yaml_set(tree, overrides[i]));
        TRM_TRY(write_out_short_forms(tree));
    }
    return TRM_OK;
}

/* ---- keys ---- */

/* True where some key's path starts with `path` and a dot. */
static bool is_section(const char *path) {
    size_t n = strlen(path);
    for (const trm_job_key *k = trm_job_keys; k->path; k++)
        if (!strncmp(k->path, path, n) && k->path[n] == '.') return true;
    return false;
}

#define MOST_NAMES 64

/* The words that may stand in a section ("" = the file), each once, NULL-terminated; they live in `store`. */
static void names_in(const char *section, char store[MOST_NAMES][32], const char *names[MOST_NAMES + 1]) {
    size_t n = strlen(section);
    int count = 0;
    for (const trm_job_key *k = trm_job_keys; k->path; k++) {
        if (n && (strncmp(k->path, section, n) || k->path[n] != '.')) continue;
        const char *word = k->path + (n ? n + 1 : 0);
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "."), word);
        if ((count && !strcmp(names[count - 1], name)) || count == MOST_NAMES) continue;
        memcpy(store[count], name, sizeof name);
        names[count] = store[count];
        count++;
    }
    names[count] = NULL;
}

/* A key that stands in another section: the usual slip. */
static const trm_job_key *same_word(const char *word) {
    for (const trm_job_key *k = trm_job_keys; k->path; k++)
        if (!strcmp(trm_job_key_word(k), word)) return k;
    return NULL;
}

static trm_status unknown_key(const trm_yaml_pair *p, const char *section) {
    char store[MOST_NAMES][32];
    const char *names[MOST_NAMES + 1];
    names_in(section, store, names);
    const char *near = trm_nearest(p->key, names);
    const trm_job_key *elsewhere = same_word(p->key);
    if (section[0])
        trm_yaml_fail(p->at, "unknown key `%.60s` in `%s`", p->key, section);
    else
        trm_yaml_fail(p->at, "unknown section `%.60s`", p->key);
    if (near) {
        trm_hint("did you mean `%s`?", near);
    } else if (elsewhere) {
        trm_hint("the key is `%s`", elsewhere->path);
    } else {
        trm_str list = {0};
        for (int i = 0; names[i]; i++) trm_str_add(&list, i ? ", %s" : "%s", names[i]);
        trm_hint("known here: %s", trm_str_get(&list));
        trm_str_free(&list);
    }
    return TRM_JOB;
}

static trm_status read_map(trm_job *j, const trm_yaml_node *map, const char *section);

static trm_status read_pair(trm_job *j, const trm_yaml_pair *p, const char *section) {
    char path[128], shown[80];
    int n = snprintf(path, sizeof path, "%s%s%s", section, section[0] ? "." : "", p->key);
    const trm_job_key *k = n < (int)sizeof path ? trm_job_key_find(path) : NULL;
    if (k) return trm_job_value_read(k, p->value, j);
    if (n >= (int)sizeof path || strchr(p->key, '.') || !is_section(path)) return unknown_key(p, section);
    /* A section whose keys are all commented out. */
    if (trm_yaml_is_nothing(p->value)) return TRM_OK;
    if (p->value->kind != TRM_YAML_MAP)
        return trm_yaml_fail(p->value->at, "`%s` is %s; it needs keys below it", path,
                             trm_yaml_shown(p->value, shown, sizeof shown));
    return read_map(j, p->value, path);
}

static trm_status read_map(trm_job *j, const trm_yaml_node *map, const char *section) {
    for (int i = 0; i < map->n; i++) TRM_TRY(read_pair(j, &map->pair[i], section));
    return TRM_OK;
}

/* ---- defaults, and what depends on more than one key ---- */

static trm_status fill_defaults(trm_job *j) {
    for (const trm_job_key *k = trm_job_keys; k->path; k++) {
        const char *def = trm_job_key_given(j, k) ? NULL : trm_job_key_default(j, k);
        if (def) TRM_TRY(trm_job_value_default(k, def, j));
    }
    return TRM_OK;
}

/* Where a missing key would stand: its section, or the file. */
static trm_yaml_place place_of_missing(const trm_job *j, const char *path) {
    char parent[128];
    snprintf(parent, sizeof parent, "%s", path);
    for (char *dot; (dot = strrchr(parent, '.'));) {
        *dot = '\0';
        trm_yaml_pair *p = trm_yaml_find(j->tree->root, parent);
        if (p) return p->at;
    }
    return (trm_yaml_place){j->tree->source[0], 0, 0};
}

static trm_status missing(const trm_job *j, const trm_job_key *k) {
    trm_yaml_fail(place_of_missing(j, k->path), "%s is missing%s%s", k->path,
                  k->only_key ? "; it is needed with " : "",
                  k->only_key ? trm_job_choice(j, k->only_key) : "");
    trm_hint("%s: %s", k->path, k->about);
    return TRM_JOB;
}

/* Required keys are there, and keys of another choice are not. */
static trm_status check_presence(const trm_job *j) {
    for (const trm_job_key *k = trm_job_keys; k->path; k++) {
        bool fits = trm_job_key_fits(j, k), given = trm_job_key_given(j, k);
        if (fits && !given && k->flags & TRM_KEY_REQUIRED) return missing(j, k);
        if (fits || !given) continue;
        trm_str allowed = {0};
        for (const char *p = k->only; *p; p++) trm_str_add(&allowed, *p == ' ' ? " or " : "%c", *p);
        trm_yaml_fail(trm_yaml_find(j->tree->root, k->path)->at, "%s is only for %s %s; here it is %s",
                      k->path, k->only_key, trm_str_get(&allowed), trm_job_choice(j, k->only_key));
        trm_str_free(&allowed);
        return TRM_JOB;
    }
    return TRM_OK;
}

static trm_yaml_place place_of(const trm_job *j, const char *path) {
    trm_yaml_pair *p = trm_yaml_find(j->tree->root, path);
    return p ? p->value->at : place_of_missing(j, path);
}

static trm_status check_train(const trm_job *j) {
    if (j->train.epochs && j->train.updates)
        return trm_yaml_fail(place_of(j, "train.updates"),
                             "train.epochs and train.updates are both given; allowed is one of them");
    if (!j->train.epochs && !j->train.updates) {
        trm_yaml_fail(place_of_missing(j, "train.epochs"), "train.epochs is missing");
        trm_hint("give `epochs` or `updates`: how long to train");
        return TRM_JOB;
    }
    if (j->train.micro_batches > j->train.batch)
        return trm_yaml_fail(place_of(j, "train.micro_batches"),
                             "train.micro_batches is %d; allowed are whole numbers up to train.batch, %lld",
                             j->train.micro_batches, (long long)j->train.batch);
    if (j->train.optim.nesterov && j->train.optim.momentum <= 0)
        return trm_yaml_fail(place_of(j, "train.optimizer.nesterov"),
                             "train.optimizer.nesterov is true; it needs a train.optimizer.momentum above 0");
    return TRM_OK;
}

static trm_status check_early_stop(const trm_job *j) {
    const bool validates = j->data.n_valid > 0 && j->train.valid_every.unit != TRM_UNIT_NEVER;
    if (j->train.early_stop.patience > 0 && !validates)
        return trm_yaml_fail(place_of(j, "train.early_stop.patience"),
                             "train.early_stop needs validations: data.valid, and a train.valid_every");
    if (j->train.early_stop.min_delta > 0 && j->train.early_stop.patience == 0)
        return trm_yaml_fail(place_of(j, "train.early_stop.min_delta"),
                             "train.early_stop.min_delta is given without train.early_stop.patience");
    return TRM_OK;
}

static trm_status check_weights(const trm_job *j) {
    double sum = 0;
    for (int i = 0; i < j->balance.n_weights; i++) sum += j->balance.weights[i];
    if (j->balance.mode == TRM_BALANCE_STATIC && j->balance.n_weights > 0 && sum <= 0)
        return trm_yaml_fail(place_of(j, "balance.weights"),
                             "balance.weights are all 0; at least one rank needs work");
    return TRM_OK;
}

static int entries(const trm_job *j, const char *path) {
    trm_yaml_pair *p = trm_yaml_find(j->tree->root, path);
    return !p ? 0 : p->value->kind == TRM_YAML_LIST ? p->value->n : 1;
}

/* Makes a list of `have` numbers (0: the value `none`) one of `want`. */
static trm_status spread(double **list, int have, int want, double none) {
    if (have == want) return TRM_OK;
    double *p = trm_alloc_array((size_t)want, sizeof *p, "numbers of the job file");
    if (!p) return TRM_MEMORY;
    for (int i = 0; i < want; i++) p[i] = have ? (*list)[0] : none;
    trm_free(*list);
    *list = p;
    return TRM_OK;
}

/* mean and std share one count: a single number serves all channels, a missing one is 0 or 1. */
static trm_status finish_mean_std(trm_job *j) {
    trm_job_data *d = &j->data;
    int means = entries(j, "data.mean"), stds = entries(j, "data.std");
    int n = d->norm_count = means > stds ? means : stds;
    if (means > 1 && stds > 1 && means != stds)
        return trm_yaml_fail(place_of(j, "data.std"),
                             "data.std has %d numbers and data.mean %d; allowed are one or as many", stds,
                             means);
    TRM_TRY(spread(&d->mean, means, n, 0));
    return spread(&d->std, stds, n, 1);
}

/* min and max are one number or as many as channels, and say mean and std. */
static trm_status finish_min_max(trm_job *j) {
    trm_job_data *d = &j->data;
    int n = d->n_min > d->n_max ? d->n_min : d->n_max;
    if (d->n_min == 0 || d->n_max == 0)
        return trm_yaml_fail(place_of(j, d->n_min ? "data.min" : "data.max"),
                             "data.%s is given without data.%s", d->n_min ? "min" : "max",
                             d->n_min ? "max" : "min");
    if (d->n_min > 1 && d->n_max > 1 && d->n_min != d->n_max)
        return trm_yaml_fail(place_of(j, "data.max"),
                             "data.max has %d numbers and data.min %d; allowed are one or as many", d->n_max,
                             d->n_min);
    TRM_TRY(spread(&d->mean, 0, n, 0));
    d->norm_count = n;
    TRM_TRY(spread(&d->std, 0, n, 1));
    d->scale = 1;
    d->scale_given = true;
    for (int i = 0; i < n; i++) {
        double low = d->min[d->n_min == 1 ? 0 : i], high = d->max[d->n_max == 1 ? 0 : i];
        if (high <= low)
            return trm_yaml_fail(place_of(j, "data.max"),
                                 "data.max is %g; allowed are numbers above data.min, %g", high, low);
        d->mean[i] = low;
        d->std[i] = high - low;
    }
    return TRM_OK;
}

/* There are three ways to scale inputs, and a job takes one of them. */
static trm_status check_ways(const trm_job *j) {
    static const char *const keys[] = {"data.scale", "data.mean", "data.std",
                                       "data.min",   "data.max",  "data.stats"};
    static const int way_of[] = {0, 0, 0, 1, 1, 2};
    int first = -1;
    for (int i = 0; i < (int)(sizeof keys / sizeof *keys); i++) {
        if (!trm_yaml_find(j->tree->root, keys[i])) continue;
        if (first < 0) first = i;
        if (way_of[i] == way_of[first]) continue;
        trm_yaml_fail(place_of(j, keys[i]), "%s and %s are both given; inputs are scaled in one way",
                      keys[first], keys[i]);
        trm_hint("scale, mean and std; or min and max; or stats");
        return TRM_JOB;
    }
    return TRM_OK;
}

static trm_status finish_norm(trm_job *j) {
    TRM_TRY(check_ways(j));
    if (trm_yaml_find(j->tree->root, "data.normalize") && !j->data.stats)
        return trm_yaml_fail(place_of(j, "data.normalize"), "data.normalize is given without data.stats");
    if (j->data.stats && j->data.window)
        return trm_yaml_fail(place_of(j, "data.stats"), "data.stats is given, but data.window reads tokens");
    return j->data.n_min || j->data.n_max ? finish_min_max(j) : finish_mean_std(j);
}

static trm_status check_transforms(const trm_job *j) {
    static const char *const keys[] = {"data.transform", "data.augment"};
    for (int i = 0; i < 2 && j->data.window; i++)
        if (trm_yaml_find(j->tree->root, keys[i]))
            return trm_yaml_fail(place_of(j, keys[i]), "%s is for images, but data.window reads tokens",
                                 keys[i]);
    return TRM_OK;
}

/* The numbers are used as float32, and divided by; subnormal ones do not survive that. */
static trm_status check_float(const trm_job *j, const char *path, double v, bool zero_too) {
    double size = fabs(v);
    if ((size >= (double)FLT_MIN && size <= (double)FLT_MAX) || (zero_too && size < (double)FLT_MIN))
        return TRM_OK;
    return trm_yaml_fail(place_of(j, path), "%s is %g; allowed are numbers from %.3g to %.3g in size%s", path,
                         v, (double)FLT_MIN, (double)FLT_MAX, zero_too ? ", and 0" : "");
}

static trm_status check_floats(const trm_job *j) {
    const trm_job_data *d = &j->data;
    TRM_TRY(check_float(j, "data.scale", d->scale, false));
    if (d->target_type == TRM_TYPE_FLOAT)
        TRM_TRY(check_float(j, "data.target_scale", d->target_scale, false));
    if (d->target_type == TRM_TYPE_FLOAT) TRM_TRY(check_float(j, "data.target_bias", d->target_bias, true));
    for (int i = 0; i < d->norm_count; i++) {
        TRM_TRY(check_float(j, d->n_min ? "data.min" : "data.mean", d->mean[i], true));
        TRM_TRY(check_float(j, d->n_min ? "data.max" : "data.std", d->std[i], false));
    }
    return TRM_OK;
}

static void finish_loss(trm_job *j) {
    j->train.ce.ignores = trm_yaml_find(j->tree->root, "train.ignore_index") != NULL;
}

/* Tokens are their own targets, and there are as many as there are. */
static trm_status check_targets(const trm_job *j) {
    const trm_job_data *d = &j->data;
    if (d->window && (d->target_type == TRM_TYPE_ONEHOT || d->target_type == TRM_TYPE_ARGMAX))
        return trm_yaml_fail(place_of(j, "data.target_type"),
                             "data.target_type is %s, but data.window reads tokens",
                             trm_job_choice(j, "data.target_type"));
    if (d->window && d->n_labels)
        return trm_yaml_fail(place_of(j, "data.label_map"),
                             "data.label_map is given, but data.window reads tokens");
    for (int i = 0; i < d->n_labels && d->classes; i++)
        if (d->label_map[i].to >= d->classes)
            return trm_yaml_fail(
                place_of(j, "data.label_map"),
                "data.label_map leads to class %lld; allowed are those below data.classes, %lld",
                (long long)d->label_map[i].to, (long long)d->classes);
    return TRM_OK;
}

/* What strangers send may not ask for more. */
static trm_status check_untrusted(const trm_job *j) {
    static const char *const keys[] = {"data.allow_links", "data.allow_external", "data.allow_plugins"};
    const bool given[] = {j->data.allow_links, j->data.allow_external, j->data.allow_plugins};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (j->data.untrusted && given[i])
            return trm_yaml_fail(place_of(j, keys[i]),
                                 "%s is true beside data.untrusted; allowed is one of them", keys[i]);
    return TRM_OK;
}

static trm_status finish_data(trm_job *j) {
    trm_job_data *d = &j->data;
    TRM_TRY(check_untrusted(j));
    d->scale_given = trm_yaml_find(j->tree->root, "data.scale") != NULL;
    if (!d->scale_given) d->scale = 1;
    if (d->target_type == TRM_TYPE_FLOAT && d->classes)
        return trm_yaml_fail(place_of(j, "data.classes"),
                             "data.classes is given, but data.target_type is float");
    TRM_TRY(finish_norm(j));
    TRM_TRY(check_targets(j));
    TRM_TRY(check_transforms(j));
    return check_floats(j);
}

static trm_status check_model(trm_job *j) {
    const trm_yaml_node *layers = trm_yaml_get(trm_yaml_get(j->tree->root, "model"), "layers");
    const char *preset = trm_job_choice(j, "model.preset");
    bool is_list = layers && layers->kind == TRM_YAML_LIST;
    if (j->model.preset == TRM_PRESET_NONE && !layers) {
        trm_yaml_fail(place_of_missing(j, "model.layers"), "the model is missing");
        trm_hint("give `model: {preset: mlp}` (or lenet, resnet, gpt) or a list `model.layers`");
        return TRM_JOB;
    }
    if (j->model.preset == TRM_PRESET_NONE && !is_list)
        return trm_yaml_fail(
            layers->at, "model.layers is %s; allowed is a list of layers (a number only with preset gpt)",
            layers->text);
    if (j->model.preset == TRM_PRESET_GPT && is_list)
        return trm_yaml_fail(layers->at,
                             "model.layers is a list; allowed with preset gpt is the number of blocks");
    if (j->model.preset != TRM_PRESET_NONE && j->model.preset != TRM_PRESET_GPT && layers)
        return trm_yaml_fail(
            layers->at, "model.layers and model.preset %s are both given; allowed is one of them", preset);
    if (j->model.preset == TRM_PRESET_GPT && !layers) j->model.zoo.layers = 4;
    if (j->model.preset == TRM_PRESET_RESNET && (j->model.zoo.depth - 2) % 6)
        return trm_yaml_fail(place_of(j, "model.depth"),
                             "model.depth is %lld; allowed are 6n+2: 8, 14, 20, 26, 32, ...",
                             (long long)j->model.zoo.depth);
    if (j->model.preset == TRM_PRESET_GPT && j->model.zoo.dim % j->model.zoo.heads)
        return trm_yaml_fail(place_of(j, "model.dim"),
                             "model.dim is %lld; allowed are multiples of model.heads, %lld",
                             (long long)j->model.zoo.dim, (long long)j->model.zoo.heads);
    return trm_job_model_check(j);
}

/* ---- names ---- */

#define NAME_BYTES 120

/* "jobs/a.job.yaml" -> "a.job"; characters that a folder's name should not have become '_'. */
static trm_status default_name(trm_job *j) {
    char name[NAME_BYTES];
    if (j->run.name) return TRM_OK;
    const char *base = strrchr(j->path, '/');
    snprintf(name, sizeof name, "%s", base ? base + 1 : j->path);
    char *dot = strrchr(name, '.');
    if (dot && dot != name) *dot = '\0';
    for (char *p = name; *p; p++) {
        bool word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
                    strchr("_-.", *p);
        if (!word) *p = '_';
    }
    if (strspn(name, ".") == strlen(name)) snprintf(name, sizeof name, "job");
    j->run.name = trm_strdup(name);
    return j->run.name ? TRM_OK : TRM_MEMORY;
}

/* A file, a pattern with at least one match, or the list behind an '@'. */
static bool is_there(const char *name) {
    if (access(name, F_OK) == 0) return true;
    if (!strpbrk(name, "*?[")) return false;
    glob_t found;
    bool some = glob(name, GLOB_NOSORT, NULL, &found) == 0;
    globfree(&found);
    return some;
}

/* What stands before the name itself. */
static const char *mark_of(const char *name) {
    return name[0] == '@' ? "@" : !strncmp(name, "lbann:", 6) ? "lbann:" : "";
}

/* Takes a name that is not found from the current folder from the job file's folder, where it is found there. */
static trm_status resolve(const trm_job *j, char **name) {
    const char *slash = strrchr(j->path, '/'), *at = mark_of(*name), *bare = *name + strlen(at);
    if (!slash || bare[0] == '/' || is_there(bare)) return TRM_OK;
    trm_str there = {0};
    trm_str_add(&there, "%s%.*s%s", at, (int)(slash + 1 - j->path), j->path, bare);
    if (there.failed) {
        trm_str_free(&there);
        return TRM_MEMORY;
    }
    if (!is_there(there.p + strlen(at))) {
        trm_str_free(&there);
        return TRM_OK;
    }
    trm_free(*name);
    *name = there.p;
    return TRM_OK;
}

static trm_status resolve_names(trm_job *j) {
    for (int i = 0; i < j->data.n_train; i++) TRM_TRY(resolve(j, &j->data.train[i]));
    for (int i = 0; i < j->data.n_valid; i++) TRM_TRY(resolve(j, &j->data.valid[i]));
    if (j->data.stats && strcmp(j->data.stats, "auto") != 0) TRM_TRY(resolve(j, &j->data.stats));
    const char *slash = strrchr(j->path, '/');
    if (slash && !(j->data.folder = trm_strdup(j->path))) return TRM_MEMORY;
    if (slash) j->data.folder[slash + 1 - j->path] = '\0';
    return j->model_init ? resolve(j, &j->model_init) : TRM_OK;
}

/* ---- the whole ---- */

static trm_status read_root(trm_job *j) {
    const trm_yaml_node *root = j->tree->root;
    char shown[80];
    if (!root || trm_yaml_is_nothing(root)) {
        trm_fail(TRM_JOB, "%s: the file is empty; a job file needs the sections data, model and train",
                 j->path);
        trm_hint("`trireme help job` shows all keys");
        return TRM_JOB;
    }
    if (root->kind != TRM_YAML_MAP)
        return trm_yaml_fail(root->at,
                             "the file is %s; a job file is made of the sections data, model and train",
                             trm_yaml_shown(root, shown, sizeof shown));
    return read_map(j, root, "");
}

trm_status trm_job_parse(const char *path, const char *text, size_t n, const char *const *overrides,
                         int n_overrides, trm_job **out) {
    trm_status status;
    trm_job *j = trm_alloc(sizeof *j, "the job");
    if (!j) return TRM_MEMORY;
    if (!(j->path = trm_strdup(path))) TRM_GOTO(TRM_MEMORY);
    TRM_GOTO(trm_yaml_parse(path, text, n, &j->tree));
    TRM_GOTO(apply_overrides(j->tree, overrides, n_overrides));
    TRM_GOTO(read_root(j));
    TRM_GOTO(fill_defaults(j));
    TRM_GOTO(check_presence(j));
    TRM_GOTO(check_train(j));
    TRM_GOTO(check_early_stop(j));
    TRM_GOTO(check_weights(j));
    finish_loss(j);
    TRM_GOTO(finish_data(j));
    TRM_GOTO(check_model(j));
    TRM_GOTO(default_name(j));
    TRM_GOTO(resolve_names(j));
    *out = j;
    return TRM_OK;
out:
    trm_job_free(j);
    return status;
}

void trm_job_free(trm_job *j) {
    if (!j) return;
    for (const trm_job_key *k = trm_job_keys; k->path; k++) trm_job_value_free(k, j);
    trm_yaml_free(j->tree);
    trm_free(j->data.folder);
    trm_free(j->path);
    trm_free(j);
}

static trm_data_view view_of(const trm_job_data *d, bool valid) {
    bool own_input = valid && d->n_valid_input > 0, own_target = valid && d->n_valid_target > 0;
    return (trm_data_view){
        .input = (const char *const *)(own_input ? d->valid_input : d->input),
        .n_input = own_input ? d->n_valid_input : d->n_input,
        .target = (const char *const *)(own_target ? d->valid_target : d->target),
        .n_target = own_target ? d->n_valid_target : d->n_target,
        .sample = (trm_data_sample)d->sample,
        .join = (trm_data_join)d->join,
        .groups = d->groups,
        .group_list = valid ? d->valid_groups : d->train_groups,
        .split = valid ? d->valid_split : d->train_split,
        .axis = d->axis,
        .in_steps = d->in_steps,
        .out_steps = d->out_steps,
        .tile = d->tile,
        .lengths = d->lengths,
        .pad = d->pad,
        .mask = d->mask,
        .complex = (trm_data_complex)d->complex,
        .decode = d->decode,
        .bf16 = d->bf16,
        .allow_virtual = d->allow_virtual,
        .folder = d->folder,
    };
}

trm_data_spec trm_job_data_spec(const trm_job *j, bool valid) {
    const trm_job_data *d = &j->data;
    trm_data_view view = view_of(d, valid);
    return (trm_data_spec){
        .files = (const char *const *)(valid ? d->valid : d->train),
        .n_files = valid ? d->n_valid : d->n_train,
        .input = view.n_input == 1 ? view.input[0] : NULL,
        .target = view.n_target == 1 ? view.target[0] : NULL,
        .kind = TRM_DATA_AUTO,
        .shape = d->shape,
        .hwc = d->hwc,
        .window = d->window,
        .classes = d->classes,
        .float_target = d->target_type == TRM_TYPE_FLOAT,
        .target_rows = d->target_type == TRM_TYPE_ONEHOT   ? TRM_TARGET_ONEHOT
                       : d->target_type == TRM_TYPE_ARGMAX ? TRM_TARGET_ARGMAX
                                                           : TRM_TARGET_PLAIN,
        .label_map = d->label_map,
        .n_labels = d->n_labels,
        .first = valid ? d->valid_first : d->train_first,
        .count = valid ? d->valid_count : d->train_count,
        .cache = d->cache,
        .cache_limit = (size_t)d->cache_limit,
        .on_bad = d->on_bad,
        .untrusted = d->untrusted,
        .allow = (d->allow_links ? TRM_ALLOW_LINKS : 0u) | (d->allow_external ? TRM_ALLOW_EXTERNAL : 0u) |
                 (d->allow_plugins ? TRM_ALLOW_PLUGINS : 0u),
        .by_blocks = d->shuffle == TRM_SHUFFLE_WINDOW,
        .ignores = j->train.ce.ignores,
        .ignore = j->train.ce.ignore,
        .view = view,
    };
}
