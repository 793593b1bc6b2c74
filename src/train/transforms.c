/* transforms: the lists `data.transform` and `data.augment` of a job file, read by tables of keys like the layers'. */
#include <string.h>

#include "job_impl.h"

#define MOST_SIDE 65536
#define MOST_ENTRIES 16
#define AT(field) .at = offsetof(trm_transform, field)
#define SIZE(form)                                                                                       \
    {                                                                                                    \
        form ".size", TRM_KEY_PAIR, AT(size), .min = 1, .max = MOST_SIDE,                                \
                                              .flags = TRM_KEY_REQUIRED | TRM_KEY_BY,                    \
                                              .about = "height and width in pixels; one number for both" \
    }
#define VALUE(form)                                                                                       \
    {                                                                                                     \
        form ".value", TRM_KEY_FLOAT, AT(value), .min = -INFINITY, .def = "0",                            \
                                                 .about = "what is put there, in the numbers of the file" \
    }
#define CHANCE(form, what) \
    { form ".p", TRM_KEY_FLOAT, AT(p), .max = 1, .def = "0.5", .about = "how likely it is " what }

static const char *const methods[] = {"bilinear", "area", NULL};
static const char *const directions[] = {"horizontal", "vertical", NULL};

static const trm_job_key resize_keys[] = {
    SIZE("resize"),
    {"resize.method", TRM_KEY_CHOICE_BOOL, AT(area_mean), .names = methods, .def = "bilinear",
     .about =
         "bilinear: between the nearest pixels, without smoothing; area: the mean of those that a new pixel "
         "covers, for much smaller images"},
};
static const trm_job_key center_crop_keys[] = {SIZE("center_crop")};
static const trm_job_key pad_keys[] = {
    {"pad.pixels", TRM_KEY_PAIR, AT(size), .max = MOST_SIDE, .flags = TRM_KEY_REQUIRED | TRM_KEY_BY,
     .about = "rows above and below, and columns on the left and right; one number for all"},
    VALUE("pad"),
};
static const trm_job_key crop_keys[] = {SIZE("crop")};
static const trm_job_key flip_keys[] = {
    {"flip.direction", TRM_KEY_CHOICE_BOOL, AT(vertical), .names = directions, .def = "horizontal",
     .about = "left to right, or upside down"},
    CHANCE("flip", "flipped"),
};
static const trm_job_key erase_keys[] = {
    CHANCE("erase", "erased"),
    {"erase.area", TRM_KEY_FLOAT2, AT(area), .max = 1, .flags = TRM_KEY_ABOVE, .def = "[0.02, 0.33]",
     .about = "share of the image, from and to"},
    {"erase.ratio", TRM_KEY_FLOAT2, AT(ratio), .max = 1000, .flags = TRM_KEY_ABOVE, .def = "[0.3, 3.3]",
     .about = "height / width, from and to; drawn on a logarithmic scale"},
    VALUE("erase"),
};

typedef struct form {
    const char *about, *main;
    const trm_job_key *key;
    int n;
} form;

#define KEYS(table) table, (int)(sizeof(table) / sizeof *(table))
static const form forms[] = {
    [TRM_RESIZE] = {"other numbers of pixels", "size", KEYS(resize_keys)},
    [TRM_CENTER_CROP] = {"the middle of the image; an odd pixel stays below and on the right", "size",
                         KEYS(center_crop_keys)},
    [TRM_PAD] = {"a border around the image", "pixels", KEYS(pad_keys)},
    [TRM_CROP] = {"a piece of the image, its place drawn; validation, eval and predict take the middle",
                  "size", KEYS(crop_keys)},
    [TRM_FLIP] = {"the image's mirror image, or not", "direction", KEYS(flip_keys)},
    [TRM_ERASE] = {"one value over a rectangle, its size, shape and place drawn, or not", "p",
                   KEYS(erase_keys)},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* ---- reading ---- */

static int in_names(const char *const *names, const char *word) {
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], word)) return i;
    return -1;
}

static int form_of(const char *word) {
    for (int i = 0; i < FORMS; i++)
        if (!strcmp(trm_transform_name((trm_transform_kind)i), word)) return i;
    return -1;
}

static void hint_names(const char *word, const char *const *names) {
    const char *near = trm_nearest(word, names);
    trm_str list = {0};
    for (int i = 0; names[i]; i++) trm_str_add(&list, i ? ", %s" : "%s", names[i]);
    if (near)
        trm_hint("did you mean `%s`?", near);
    else
        trm_hint("known here: %s", trm_str_get(&list));
    trm_str_free(&list);
}

static trm_status unknown_form(const trm_job_key *k, trm_yaml_place at, const char *word) {
    int other = form_of(word);
    if (other < 0) {
        trm_yaml_fail(at, "unknown transform `%.60s` in %s", word, k->path);
        hint_names(word, k->names);
        return TRM_JOB;
    }
    bool drawn = other == TRM_CROP || other == TRM_FLIP || other == TRM_ERASE;
    trm_yaml_fail(at, "`%s` in %s: it is %s", word, k->path,
                  drawn ? "drawn for each sample, and its place is data.augment"
                        : "the same for all samples, and its place is data.transform");
    return TRM_JOB;
}

static trm_status unknown_key(const form *f, const char *name, const trm_yaml_pair *p) {
    const char *names[8] = {0};
    for (int i = 0; i < f->n; i++) names[i] = trm_job_key_word(&f->key[i]);
    trm_yaml_fail(p->at, "unknown key `%.60s` of %s", p->key, name);
    hint_names(p->key, names);
    return TRM_JOB;
}

static const trm_job_key *key_of(const form *f, const char *word) {
    for (int i = 0; i < f->n; i++)
        if (!strcmp(trm_job_key_word(&f->key[i]), word)) return &f->key[i];
    return NULL;
}

/* The settings of one transform: none, the value of its main key, or a map. */
static trm_status read_settings(const form *f, const char *name, const trm_yaml_node *n, trm_transform *t) {
    if (!n) return TRM_OK;
    if (n->kind != TRM_YAML_MAP) return trm_job_value_read(key_of(f, f->main), n, t);
    for (int i = 0; i < n->n; i++) {
        const trm_job_key *k = key_of(f, n->pair[i].key);
        if (!k) return unknown_key(f, name, &n->pair[i]);
        TRM_TRY(trm_job_value_read(k, n->pair[i].value, t));
    }
    return TRM_OK;
}

static trm_status check_required(const form *f, const char *name, trm_yaml_place at, const trm_yaml_node *n) {
    for (int i = 0; i < f->n; i++) {
        const char *word = trm_job_key_word(&f->key[i]);
        bool given = n && (n->kind == TRM_YAML_MAP ? trm_yaml_get(n, word) != NULL : !strcmp(word, f->main));
        if (given || !(f->key[i].flags & TRM_KEY_REQUIRED)) continue;
        trm_yaml_fail(at, "%s needs `%s`", name, word);
        trm_hint("%s: %s", word, f->key[i].about);
        return TRM_JOB;
    }
    return TRM_OK;
}

static trm_status check_erase(trm_yaml_place at, const trm_transform *t) {
    const double *pair[2] = {t->area, t->ratio};
    for (int i = 0; i < 2; i++)
        if (pair[i][0] > pair[i][1])
            return trm_yaml_fail(at, "erase.%s goes from %g to %g; allowed are two numbers that rise",
                                 i ? "ratio" : "area", pair[i][0], pair[i][1]);
    return TRM_OK;
}

static trm_status read_form(const trm_job_key *k, trm_yaml_place at, const char *word,
                            const trm_yaml_node *settings, trm_transform *t) {
    if (in_names(k->names, word) < 0) return unknown_form(k, at, word);
    t->kind = (trm_transform_kind)form_of(word);
    const form *f = &forms[t->kind];
    for (int i = 0; i < f->n; i++)
        if (f->key[i].def) TRM_TRY(trm_job_value_default(&f->key[i], f->key[i].def, t));
    if (settings && trm_yaml_is_nothing(settings)) settings = NULL;
    TRM_TRY(read_settings(f, word, settings, t));
    TRM_TRY(check_required(f, word, at, settings));
    return t->kind == TRM_ERASE ? check_erase(at, t) : TRM_OK;
}

/* `flip`, `flip: vertical` or `flip: {p: 0.1}`. */
static trm_status read_entry(const trm_job_key *k, const trm_yaml_node *n, trm_transform *t) {
    char shown[80];
    if (n->kind == TRM_YAML_TEXT && !trm_yaml_is_nothing(n)) return read_form(k, n->at, n->text, NULL, t);
    if (n->kind == TRM_YAML_MAP && n->n == 1)
        return read_form(k, n->pair[0].at, n->pair[0].key, n->pair[0].value, t);
    if (n->kind == TRM_YAML_MAP && n->n > 1)
        return trm_yaml_fail(n->pair[1].at,
                             "`%s` and `%s` stand in one entry; each transform needs a `-` of its own",
                             n->pair[0].key, n->pair[1].key);
    return trm_yaml_fail(n->at, "an entry of %s is %s; allowed are a word (`flip`) or a map (`crop: 32x32`)",
                         k->path, trm_yaml_shown(n, shown, sizeof shown));
}

static trm_status no_list(const trm_job_key *k, const trm_yaml_node *n) {
    char shown[80];
    trm_yaml_fail(n->at, "%s is %s; allowed are lists of 1 to %d transforms", k->path,
                  trm_yaml_shown(n, shown, sizeof shown), MOST_ENTRIES);
    if (n->kind == TRM_YAML_MAP && n->n > 0) trm_hint("a list: `- %.40s: ...`", n->pair[0].key);
    return TRM_JOB;
}

trm_status trm_job_transforms_read(const trm_job_key *k, const trm_yaml_node *n, void *base) {
    trm_transform **list = (trm_transform **)((char *)base + k->at);
    int *count = (int *)((char *)base + k->count_at);
    if (n->kind != TRM_YAML_LIST || n->n < 1 || n->n > MOST_ENTRIES) return no_list(k, n);
    trm_transform *new = trm_alloc_array((size_t)n->n, sizeof *new, "transforms");
    if (!new) return TRM_MEMORY;
    trm_free(*list);
    *list = new;
    *count = n->n;
    for (int i = 0; i < n->n; i++) TRM_TRY(read_entry(k, n->item[i], &new[i]));
    return TRM_OK;
}

/* ---- writing ---- */

static void write_one(const trm_transform *t, trm_str *out) {
    const form *f = &forms[t->kind];
    trm_str_add(out, "{%s: {", trm_transform_name(t->kind));
    for (int i = 0; i < f->n; i++) {
        trm_str_add(out, i ? ", %s: " : "%s: ", trm_job_key_word(&f->key[i]));
        trm_job_value_write(&f->key[i], t, out);
    }
    trm_str_add(out, "}}");
}

void trm_job_transforms_write(const trm_transform *t, int n, trm_str *out) {
    trm_str_add(out, "[");
    for (int i = 0; i < n; i++) {
        if (i) trm_str_add(out, ", ");
        write_one(&t[i], out);
    }
    trm_str_add(out, "]");
}

/* ---- reference ---- */

void trm_job_transforms_reference(trm_str *out) {
    trm_str_add(out, "### Transforms\n\nThe entries of `data.transform` and `data.augment`, for images.\n");
    for (int i = 0; i < FORMS; i++) {
        const char *name = trm_transform_name((trm_transform_kind)i);
        trm_str_add(out, "\n#### %s\n\n%s. Short form: `%s: VALUE` sets `%s`.\n\n", name, forms[i].about,
                    name, forms[i].main);
        trm_str_add(out, "| key | allowed | default | meaning |\n|---|---|---|---|\n");
        for (int j = 0; j < forms[i].n; j++) trm_job_key_reference(&forms[i].key[j], strlen(name) + 1, out);
    }
    trm_str_add(out, "\n");
}

/* ---- at work ---- */

trm_status trm_job_transform(const trm_job *j, trm_dataset *d) {
    const trm_job_data *s = &j->data;
    return trm_dataset_transform(d, s->transform, s->n_transform, s->augment, s->n_augment);
}
