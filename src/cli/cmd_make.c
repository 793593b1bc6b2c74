/* make: data sets made up. */
#include <trireme/data.h>

#include "cli.h"
#include "made.h"

/* ---- data synth ---- */

static const char *const kinds[] = {"digits", "images", "tokens", "vectors", NULL};

typedef struct synth_settings {
    int kind;
    int64_t samples, seed, chunk, deflate;
    const char *out;
} synth_settings;

static const synth_settings synth_defaults = {.seed = 1};

/* Of one sample of each kind. */
static const trm_shape shapes[] = {{3, {1, 28, 28}}, {3, {3, 32, 32}}, {0}, {1, {16}}};

static trm_status run_synth(const cli_call *call) {
    const synth_settings *s = call->set;
    trm_synth_spec spec = {.kind = (trm_synth_kind)s->kind,
                           .samples = s->samples,
                           .seed = (uint64_t)s->seed,
                           .chunk = s->chunk,
                           .deflate = (int)s->deflate};
    ui_begin(false);
    TRM_TRY(trm_synth(&spec, s->out));
    made_say(s->out, &(trm_made){.samples = s->samples,
                                 .x = shapes[s->kind],
                                 .type = s->kind == TRM_SYNTH_VECTORS ? TRM_F32 : TRM_U8,
                                 .classes = s->kind <= TRM_SYNTH_IMAGES ? 10 : 0,
                                 .target = s->kind != TRM_SYNTH_TOKENS,
                                 .floats = s->kind == TRM_SYNTH_VECTORS});
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
