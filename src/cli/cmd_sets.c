/* sets: data sets out of data sets: parts, another order, another way of storing. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "made.h"

/* What all have in common. */
#define SET_OPTIONS(type)                                                                                  \
    {.name = "input",                                                                                      \
     .kind = CLI_TEXT,                                                                                     \
     .at = offsetof(type, input),                                                                          \
     .value = "PATH",                                                                                      \
     .about =                                                                                              \
         "path of the inputs inside the file, which say how many rows there are (found by common names)"}, \
    {                                                                                                      \
        .name = "only", .kind = CLI_LIST, .at = offsetof(type, only), .value = "PATH",                     \
        .about = "copies this data set besides the inputs, and no others (all with as many rows)"          \
    }

static trm_set_spec spec_of(const cli_call *call, const char *input, const cli_list *only) {
    return (trm_set_spec){.files = (const char *const *)call->arg,
                          .n_files = call->args,
                          .input = input,
                          .only = only->at,
                          .n_only = only->n,
                          .tell = made_tell()};
}

static const char sets_more[] = "FILE: names, patterns and @lists, read as one data set.  Every data set "
                                "with as many rows as the inputs is\n"
                                "copied in the type that it is stored in, with its attributes.\n";

/* ---- data split ---- */

typedef struct split_settings {
    const char *parts, *out, *input, *target;
    cli_list only;
    int rows;
    int64_t seed;
} split_settings;

static const split_settings split_defaults = {.rows = TRM_SPLIT_DRAWN, .seed = 1};
static const char *const split_rows[] = {"kept", "drawn", "stratified", NULL};

typedef struct parts {
    trm_split_part part[TRM_MOST_PARTS];
    trm_str name[TRM_MOST_PARTS];
    int n;
} parts;

static trm_status bad_part(const char *text) {
    return trm_fail(
        TRM_USAGE,
        "--parts: '%.60s'; expected is NAME:SIZE, a size being a fraction of the rows or their number", text);
}

/* "train:0.9" or "train:5000"; the file's name begins with `stem`. */
static trm_status parse_part(const char *text, const char *stem, trm_split_part *p, trm_str *name) {
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || memchr(text, '/', (size_t)(colon - text))) return bad_part(text);
    if (!trm_parse_int(colon + 1, &p->rows) || p->rows < 1 || (p->rows == 1 && strchr(colon, '.'))) {
        p->rows = 0;
        if (!trm_parse_double(colon + 1, &p->fraction) || p->fraction <= 0 || p->fraction > 1)
            return bad_part(text);
    }
    trm_str_add(name, "%s-%.*s.h5", stem, (int)(colon - text), text);
    p->out = trm_str_get(name);
    return name->failed ? TRM_MEMORY : TRM_OK;
}

static trm_status parse_parts(const char *text, const char *stem, parts *out) {
    char *copy = trm_strdup(text), *rest = NULL;
    if (!copy) return TRM_MEMORY;
    trm_status s = TRM_OK;
    for (char *at = copy; at && s == TRM_OK; at = rest) {
        rest = strchr(at, ',');
        if (rest) *rest++ = '\0';
        if (out->n == TRM_MOST_PARTS)
            s = trm_fail(TRM_USAGE, "--parts has more than %d parts", TRM_MOST_PARTS);
        else
            s = parse_part(at, stem, &out->part[out->n], &out->name[out->n]);
        out->n++;
    }
    trm_free(copy);
    return s;
}

/* The name of the first file without its ending, in the folder where we are. */
static void stem_of(const char *path, trm_str *out) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    if (*name == '@') name++;
    trm_str_addn(out, name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
}

static void say_split(const parts *p, const trm_made *made) {
    trm_str text = {0};
    char shape[80];
    trm_str_add(&text, "wrote ");
    for (int i = 0; i < p->n; i++)
        trm_str_add(&text, "%s%s (%lld)", i ? ", " : "", p->part[i].out, (long long)made[i].samples);
    trm_str_add(&text, made->x.rank ? ": samples of shape %s" : ": tokens",
                trm_shape_text(&made->x, shape, sizeof shape));
    trm_str_add(&text, "\n  data: {train: ");
    made_yaml(p->part[0].out, &text);
    if (p->n > 1) {
        trm_str_add(&text, ", valid: ");
        made_yaml(p->part[1].out, &text);
    }
    trm_str_add(&text, "%s%s}\n", made->floats ? ", target_type: float" : "",
                made->x.rank ? "" : ", window: 128");
    ui_print(trm_str_get(&text));
    trm_str_free(&text);
}

static trm_status run_split(const cli_call *call) {
    const split_settings *s = call->set;
    trm_set_spec spec = spec_of(call, s->input, &s->only);
    trm_made made[TRM_MOST_PARTS] = {0};
    trm_str stem = {0};
    parts p = {0};
    ui_begin(false);
    if (s->target && s->rows != TRM_SPLIT_STRATIFIED)
        return trm_fail(TRM_USAGE,
                        "--target is given without --rows stratified, which alone looks at classes");
    if (s->out)
        trm_str_add(&stem, "%s", s->out);
    else
        stem_of(call->arg[0], &stem);
    trm_status status = parse_parts(s->parts, trm_str_get(&stem), &p);
    if (status == TRM_OK)
        status = trm_split(&spec, (trm_split_rows)s->rows, s->target, (uint64_t)s->seed, p.part, p.n, made);
    if (status == TRM_OK) say_split(&p, made);
    for (int i = 0; i < TRM_MOST_PARTS; i++) trm_str_free(&p.name[i]);
    trm_str_free(&stem);
    return status;
}

static const cli_option split_options[] = {
    {.name = "parts",
     .kind = CLI_TEXT,
     .at = offsetof(split_settings, parts),
     .value = "NAME:SIZE,...",
     .about = "fractions of the rows, or their numbers: train:0.9,valid:0.1",
     .required = true},
    {.name = "rows",
     .kind = CLI_CHOICE,
     .at = offsetof(split_settings, rows),
     .about = "one stretch after the other, drawn at random, or so that every class is cut alike (drawn)",
     .choices = split_rows},
    {.name = "seed",
     .kind = CLI_INT,
     .at = offsetof(split_settings, seed),
     .value = "S",
     .about = "seed of the drawing (1)",
     .min = INT64_MIN + 1},
    {.name = "target",
     .kind = CLI_TEXT,
     .at = offsetof(split_settings, target),
     .value = "PATH",
     .about = "with stratified: path of the classes (found by common names)"},
    SET_OPTIONS(split_settings),
    {.name = "out",
     .kind = CLI_TEXT,
     .at = offsetof(split_settings, out),
     .value = "STEM",
     .about = "parts are written as STEM-NAME.h5 (name of the first file, in this folder)"},
    {NULL},
};

const cli_verb cli_data_split = {
    .name = "data split",
    .args = "FILE...",
    .about = "cuts a data set in parts, each a file of its own; rows stay in their order",
    .more = sets_more,
    .min_args = 1,
    .max_args = -1,
    .options = split_options,
    .size = sizeof(split_settings),
    .defaults = &split_defaults,
    .run = run_split,
};

/* ---- data shuffle ---- */

typedef struct shuffle_settings {
    const char *out, *input;
    cli_list only;
    int64_t seed, memory;
} shuffle_settings;

static const shuffle_settings shuffle_defaults = {.seed = 1};

static trm_status run_shuffle(const cli_call *call) {
    const shuffle_settings *s = call->set;
    trm_set_spec spec = spec_of(call, s->input, &s->only);
    trm_made made;
    spec.memory = (size_t)s->memory << 20;
    ui_begin(false);
    TRM_TRY(trm_shuffle_rows(&spec, (uint64_t)s->seed, s->out, &made));
    made_say(s->out, &made);
    return TRM_OK;
}

static const cli_option shuffle_options[] = {
    {.name = "out",
     .kind = CLI_TEXT,
     .at = offsetof(shuffle_settings, out),
     .value = "FILE",
     .about = "HDF5 file to write",
     .required = true},
    {.name = "seed",
     .kind = CLI_INT,
     .at = offsetof(shuffle_settings, seed),
     .value = "S",
     .about = "seed of the order (1)",
     .min = INT64_MIN + 1},
    {.name = "memory",
     .kind = CLI_INT,
     .at = offsetof(shuffle_settings, memory),
     .value = "MIB",
     .about =
         "for rows in their new order; less costs more passes over the files (a quarter of what is free, "
         "1024 at most)",
     .min = 1,
     .max = 1 << 20},
    SET_OPTIONS(shuffle_settings),
    {NULL},
};

const cli_verb cli_data_shuffle = {
    .name = "data shuffle",
    .args = "FILE...",
    .about = "writes the rows of a data set in random order",
    .more = sets_more,
    .min_args = 1,
    .max_args = -1,
    .options = shuffle_options,
    .size = sizeof(shuffle_settings),
    .defaults = &shuffle_defaults,
    .run = run_shuffle,
};

/* ---- data repack ---- */

typedef struct repack_settings {
    const char *out, *input;
    cli_list only;
    int filter;
    int64_t chunk, level;
    bool shuffle;
} repack_settings;

static const repack_settings repack_defaults = {.chunk = -1, .level = -1};
static const char *const filters[] = {"none", "gzip", NULL};

static void say_gain(const trm_repack_gain *g) {
    trm_str text = {0};
    char before[16], after[16];
    trm_str_add(&text, "  %s before, %s now", trm_human_bytes((double)g->bytes_before, before, sizeof before),
                trm_human_bytes((double)g->bytes_after, after, sizeof after));
    if (g->chunk_rows > 0) trm_str_add(&text, ", chunks of %lld rows", (long long)g->chunk_rows);
    if (g->before > 0 && g->after > 0)
        trm_str_add(&text, "; in random order %.0f samples/s before, %.0f now", g->before, g->after);
    trm_str_add(&text, "\n");
    ui_print(trm_str_get(&text));
    trm_str_free(&text);
}

static trm_status plan_repack(const repack_settings *s, trm_repack_spec *how) {
    bool gzip = s->filter == 1;
    if (!gzip && s->level >= 0) return trm_fail(TRM_USAGE, "--level is given without --filter gzip");
    if (!gzip && s->shuffle) return trm_fail(TRM_USAGE, "--shuffle is given without --filter gzip");
    *how = (trm_repack_spec){.deflate = !gzip ? 0 : s->level >= 0 ? (int)s->level : 4, .shuffle = s->shuffle};
    how->chunk_rows = s->chunk >= 0 ? s->chunk : gzip ? -1 : 0;
    return TRM_OK;
}

static trm_status run_repack(const cli_call *call) {
    const repack_settings *s = call->set;
    trm_set_spec spec = spec_of(call, s->input, &s->only);
    trm_repack_spec how;
    trm_repack_gain gain;
    trm_made made;
    ui_begin(false);
    TRM_TRY(plan_repack(s, &how));
    TRM_TRY(trm_repack(&spec, &how, s->out, &made, &gain));
    made_say(s->out, &made);
    say_gain(&gain);
    return TRM_OK;
}

static const cli_option repack_options[] = {
    {.name = "out",
     .kind = CLI_TEXT,
     .at = offsetof(repack_settings, out),
     .value = "FILE",
     .about = "HDF5 file to write",
     .required = true},
    {.name = "filter",
     .kind = CLI_CHOICE,
     .at = offsetof(repack_settings, filter),
     .about = "compression of the chunks (none)",
     .choices = filters},
    {.name = "level",
     .kind = CLI_INT,
     .at = offsetof(repack_settings, level),
     .value = "LEVEL",
     .about = "of gzip, 1 (quick) to 9 (small) (4)",
     .min = 1,
     .max = 9},
    {.name = "shuffle",
     .kind = CLI_FLAG,
     .at = offsetof(repack_settings, shuffle),
     .about = "before gzip, bytes of equal weight are put together: gains with numbers of 2 bytes and more"},
    {.name = "chunk",
     .kind = CLI_INT,
     .at = offsetof(repack_settings, chunk),
     .value = "ROWS",
     .about = "rows of the inputs in a chunk; 0: no chunks (0; with gzip as many as make 256 KiB)",
     .min = 0,
     .max = (int64_t)1 << 40},
    SET_OPTIONS(repack_settings),
    {NULL},
};

const cli_verb cli_data_repack = {
    .name = "data repack",
    .args = "FILE...",
    .about = "stores the rows of a data set in another way, and measures what that gains",
    .more = sets_more,
    .min_args = 1,
    .max_args = -1,
    .options = repack_options,
    .size = sizeof(repack_settings),
    .defaults = &repack_defaults,
    .run = run_repack,
};
