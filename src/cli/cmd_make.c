/* make: data sets from other formats, and made up. */
#include <trireme/data.h>

#include "cli.h"

static void say_wrote(const char *out, int64_t n, const char *what) {
    trm_str text = {0};
    trm_str_add(&text, "wrote %s: %lld %s\n", out, (long long)n, what);
    ui_print(trm_str_get(&text));
    trm_str_free(&text);
}

/* ---- data import mnist ---- */

typedef struct mnist_settings {
    const char *images, *labels, *out;
} mnist_settings;

static trm_status run_mnist(const cli_call *call) {
    const mnist_settings *s = call->set;
    int64_t n = 0;
    ui_begin(false);
    TRM_TRY(trm_import_mnist(s->images, s->labels, s->out, &n));
    say_wrote(s->out, n, "samples");
    return TRM_OK;
}

static const cli_option mnist_options[] = {
    {.name = "images",
     .kind = CLI_TEXT,
     .at = offsetof(mnist_settings, images),
     .value = "FILE",
     .about = "IDX file of images, may be .gz",
     .required = true},
    {.name = "labels",
     .kind = CLI_TEXT,
     .at = offsetof(mnist_settings, labels),
     .value = "FILE",
     .about = "IDX file of labels, may be .gz",
     .required = true},
    {.name = "out",
     .kind = CLI_TEXT,
     .at = offsetof(mnist_settings, out),
     .value = "FILE",
     .about = "HDF5 file to write",
     .required = true},
    {NULL},
};

const cli_verb cli_data_import_mnist = {
    .name = "data import mnist",
    .args = "",
    .about = "makes a data set of the files of MNIST and its kin",
    .options = mnist_options,
    .size = sizeof(mnist_settings),
    .run = run_mnist,
};

/* ---- data import text ---- */

typedef struct text_settings {
    const char *out;
} text_settings;

static trm_status run_text(const cli_call *call) {
    const text_settings *s = call->set;
    int64_t n = 0;
    ui_begin(false);
    TRM_TRY(trm_import_text((const char *const *)call->arg, call->args, s->out, &n));
    say_wrote(s->out, n, "tokens");
    return TRM_OK;
}

static const cli_option text_options[] = {
    {.name = "out",
     .kind = CLI_TEXT,
     .at = offsetof(text_settings, out),
     .value = "FILE",
     .about = "HDF5 file to write",
     .required = true},
    {NULL},
};

const cli_verb cli_data_import_text = {
    .name = "data import text",
    .args = "FILE...",
    .about = "makes a stream of tokens of text files, one token a byte",
    .min_args = 1,
    .max_args = -1,
    .options = text_options,
    .size = sizeof(text_settings),
    .run = run_text,
};

/* ---- data synth ---- */

static const char *const kinds[] = {"digits", "images", "tokens", "vectors", NULL};

typedef struct synth_settings {
    int kind;
    int64_t samples, seed, chunk, deflate;
    const char *out;
} synth_settings;

static const synth_settings synth_defaults = {.seed = 1};

static trm_status run_synth(const cli_call *call) {
    const synth_settings *s = call->set;
    trm_synth_spec spec = {.kind = (trm_synth_kind)s->kind,
                           .samples = s->samples,
                           .seed = (uint64_t)s->seed,
                           .chunk = s->chunk,
                           .deflate = (int)s->deflate};
    ui_begin(false);
    TRM_TRY(trm_synth(&spec, s->out));
    say_wrote(s->out, s->samples, s->kind == TRM_SYNTH_TOKENS ? "tokens" : "samples");
    return TRM_OK;
}

static const cli_option synth_options[] = {
    {.name = "kind",
     .kind = CLI_CHOICE,
     .at = offsetof(synth_settings, kind),
     .about = "what to make up",
     .choices = kinds,
     .required = true},
    {.name = "samples",
     .kind = CLI_INT,
     .at = offsetof(synth_settings, samples),
     .value = "N",
     .about = "samples (tokens: length of the stream)",
     .min = 1,
     .max = (int64_t)1 << 40,
     .required = true},
    {.name = "out",
     .kind = CLI_TEXT,
     .at = offsetof(synth_settings, out),
     .value = "FILE",
     .about = "HDF5 file to write",
     .required = true},
    {.name = "seed",
     .kind = CLI_INT,
     .at = offsetof(synth_settings, seed),
     .value = "S",
     .about = "seed (1)",
     .min = INT64_MIN + 1},
    {.name = "chunk",
     .kind = CLI_INT,
     .at = offsetof(synth_settings, chunk),
     .value = "ROWS",
     .about = "rows of a chunk (0: not chunked)",
     .min = 0,
     .max = (int64_t)1 << 40},
    {.name = "deflate",
     .kind = CLI_INT,
     .at = offsetof(synth_settings, deflate),
     .value = "LEVEL",
     .about = "compression, 0 to 9 (0: none; needs --chunk)",
     .min = 0,
     .max = 9},
    {NULL},
};

const cli_verb cli_data_synth = {
    .name = "data synth",
    .args = "",
    .about = "makes a data set that a network can learn, for tests and trials",
    .options = synth_options,
    .size = sizeof(synth_settings),
    .defaults = &synth_defaults,
    .run = run_synth,
};
