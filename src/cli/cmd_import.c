/* import: data sets from other formats. */
#include <trireme/data.h>
#include <string.h>

#include "cli.h"
#include "made.h"

/* The option that every verb here has. */
#define OUT(type)                                                                    \
    {                                                                                \
        .name = "out", .kind = CLI_TEXT, .at = offsetof(type, out), .value = "FILE", \
        .about = "HDF5 file to write", .required = true                              \
    }

/* ---- data import mnist ---- */

typedef struct mnist_settings {
    const char *images, *labels, *out;
} mnist_settings;

static trm_status run_mnist(const cli_call *call) {
    const mnist_settings *s = call->set;
    trm_str text = {0};
    int64_t n = 0;
    ui_begin(false);
    TRM_TRY(trm_import_mnist(s->images, s->labels, s->out, &n));
    trm_str_add(&text, "wrote %s: %lld samples\n  data: {train: ", s->out, (long long)n);
    made_yaml(s->out, &text);
    trm_str_add(&text, "}\n");
    ui_print(trm_str_get(&text));
    trm_str_free(&text);
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
    OUT(mnist_settings),
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

/* ---- data import cifar ---- */

typedef struct cifar_settings {
    int labels;
    const char *out;
} cifar_settings;

static const char *const cifar_labels[] = {"class", "fine", "coarse", NULL};

static trm_status run_cifar(const cli_call *call) {
    const cifar_settings *s = call->set;
    trm_tell tell = made_tell();
    trm_made made;
    ui_begin(false);
    TRM_TRY(trm_import_cifar((const char *const *)call->arg, call->args, (trm_cifar_labels)s->labels, &tell,
                             s->out, &made));
    made_say(s->out, &made);
    return TRM_OK;
}

static const cli_option cifar_options[] = {
    {.name = "labels",
     .kind = CLI_CHOICE,
     .at = offsetof(cifar_settings, labels),
     .about = "class: CIFAR-10; of CIFAR-100 one of two (class)",
     .choices = cifar_labels},
    OUT(cifar_settings),
    {NULL},
};

const cli_verb cli_data_import_cifar = {
    .name = "data import cifar",
    .args = "FILE...",
    .about = "makes a data set of the binary files of CIFAR-10 or CIFAR-100",
    .more = "FILE: data_batch_1.bin ... or train.bin, patterns too; one behind the other in the order of "
            "their names.\n"
            "The file holds `data` (uint8, (N,3,32,32)) and `label` (uint8).\n",
    .min_args = 1,
    .max_args = -1,
    .options = cifar_options,
    .size = sizeof(cifar_settings),
    .run = run_cifar,
};

/* ---- data import csv ---- */

typedef struct csv_settings {
    const char *delimiter, *missing, *out;
    int header;
    cli_list target, drop;
    bool classes, floats;
} csv_settings;

static const char *const csv_headers[] = {"auto", "yes", "no", NULL};

static trm_status delimiter_of(const char *text, char *out) {
    *out = '\0';
    if (!text) return TRM_OK;
    if (strcmp(text, "tab") == 0 || strcmp(text, "\\t") == 0) text = "\t";
    if (strlen(text) != 1 || strchr("\"\r\n", *text) || (unsigned char)*text > 126)
        return trm_fail(TRM_USAGE, "--delimiter is '%.40s'; allowed are one character of ASCII, and tab",
                        text);
    *out = *text;
    return TRM_OK;
}

static trm_status run_csv(const cli_call *call) {
    const csv_settings *s = call->set;
    trm_made made;
    trm_csv_spec spec = {.files = (const char *const *)call->arg,
                         .n_files = call->args,
                         .header = (trm_csv_header)s->header,
                         .target = s->target.at,
                         .n_target = s->target.n,
                         .drop = s->drop.at,
                         .n_drop = s->drop.n,
                         .classes = s->classes,
                         .float_target = s->floats,
                         .missing = s->missing,
                         .tell = made_tell()};
    ui_begin(false);
    TRM_TRY(delimiter_of(s->delimiter, &spec.delimiter));
    TRM_TRY(trm_import_csv(&spec, s->out, &made));
    made_say(s->out, &made);
    return TRM_OK;
}

static const cli_option csv_options[] = {
    {.name = "target",
     .kind = CLI_LIST,
     .at = offsetof(csv_settings, target),
     .value = "COLUMN",
     .about = "its name, or its number from 1 (no targets)"},
    {.name = "classes",
     .kind = CLI_FLAG,
     .at = offsetof(csv_settings, classes),
     .about = "the target is a text: numbered in the order of bytes; the names become `label_names`"},
    {.name = "float-target",
     .kind = CLI_FLAG,
     .at = offsetof(csv_settings, floats),
     .about = "targets are numbers to regress, not classes"},
    {.name = "drop",
     .kind = CLI_LIST,
     .at = offsetof(csv_settings, drop),
     .value = "COLUMN",
     .about = "a column to leave out"},
    {.name = "missing",
     .kind = CLI_TEXT,
     .at = offsetof(csv_settings, missing),
     .value = "NUMBER",
     .about = "stands where a field is empty, NA, NaN, null or ? (such a field is a fault)"},
    {.name = "header",
     .kind = CLI_CHOICE,
     .at = offsetof(csv_settings, header),
     .about = "is the first line one of names? (auto)",
     .choices = csv_headers},
    {.name = "delimiter",
     .kind = CLI_TEXT,
     .at = offsetof(csv_settings, delimiter),
     .value = "CHARACTER",
     .about = "between the fields, or tab (of , ; tab the one that the first line has most of)"},
    OUT(csv_settings),
    {NULL},
};

const cli_verb cli_data_import_csv = {
    .name = "data import csv",
    .args = "FILE...",
    .about = "makes a data set of tables of numbers as text (CSV, TSV), may be .gz",
    .more = "The file holds `data` (float32, (N,F)) and, with a target, `label` (int32, (N)) or `targets`\n"
            "(float32, (N,T)).  Numbers have a point, whatever the locale says, and become the nearest "
            "float32.\n",
    .min_args = 1,
    .max_args = -1,
    .options = csv_options,
    .size = sizeof(csv_settings),
    .run = run_csv,
};

/* ---- data import npy, npz ---- */

typedef struct numpy_settings {
    const char *input, *target, *out;
    bool floats;
} numpy_settings;

static trm_status run_npy(const cli_call *call) {
    const numpy_settings *s = call->set;
    trm_tell tell = made_tell();
    trm_made made;
    ui_begin(false);
    TRM_TRY(
        trm_import_npy(call->arg[0], call->args > 1 ? call->arg[1] : NULL, s->floats, &tell, s->out, &made));
    made_say(s->out, &made);
    return TRM_OK;
}

static trm_status run_npz(const cli_call *call) {
    const numpy_settings *s = call->set;
    trm_tell tell = made_tell();
    trm_made made;
    ui_begin(false);
    TRM_TRY(trm_import_npz(call->arg[0], s->input, s->target, s->floats, &tell, s->out, &made));
    made_say(s->out, &made);
    return TRM_OK;
}

#define FLOAT_TARGET(type)                                                                         \
    {                                                                                              \
        .name = "float-target", .kind = CLI_FLAG, .at = offsetof(type, floats),                    \
        .about = "targets are numbers to regress, not classes (so they are where they are floats)" \
    }

static const char numpy_more[] =
    "The file holds `data`, and `label` (integers, (N) or (N,1)) or `targets`, in the types of the arrays;\n"
    "a vector of integers alone becomes `tokens`.  Values that are not finite are refused.\n";

static const cli_option npy_options[] = {
    FLOAT_TARGET(numpy_settings),
    OUT(numpy_settings),
    {NULL},
};

const cli_verb cli_data_import_npy = {
    .name = "data import npy",
    .args = "INPUTS [TARGETS]",
    .about = "makes a data set of one or two arrays of numpy (.npy)",
    .more = numpy_more,
    .min_args = 1,
    .max_args = 2,
    .options = npy_options,
    .size = sizeof(numpy_settings),
    .run = run_npy,
};

static const cli_option npz_options[] = {
    {.name = "input",
     .kind = CLI_TEXT,
     .at = offsetof(numpy_settings, input),
     .value = "NAME",
     .about = "the array of the inputs (the first there of data, x, X, images, tokens, x_train, arr_0)"},
    {.name = "target",
     .kind = CLI_TEXT,
     .at = offsetof(numpy_settings, target),
     .value = "NAME",
     .about = "the array of the targets (of label, labels, y, Y, targets, y_train, arr_1; none)"},
    FLOAT_TARGET(numpy_settings),
    OUT(numpy_settings),
    {NULL},
};

const cli_verb cli_data_import_npz = {
    .name = "data import npz",
    .args = "FILE",
    .about = "makes a data set of arrays in an archive of numpy (.npz)",
    .more = numpy_more,
    .min_args = 1,
    .max_args = 1,
    .options = npz_options,
    .size = sizeof(numpy_settings),
    .run = run_npz,
};

/* ---- data import text ---- */

typedef struct text_settings {
    const char *bpe, *merges, *behind, *out;
} text_settings;

static trm_status import_bpe(const cli_call *call, trm_made *made) {
    const text_settings *s = call->set;
    trm_bpe_spec spec = {.vocabulary = s->bpe,
                         .merges = s->merges,
                         .behind = s->behind,
                         .files = (const char *const *)call->arg,
                         .n_files = call->args,
                         .tell = made_tell()};
    if (!s->bpe || !s->merges)
        return trm_fail(TRM_USAGE, "--%s is given without --%s; both are needed",
                        s->bpe      ? "bpe"
                        : s->merges ? "merges"
                                    : "behind",
                        s->bpe ? "merges" : "bpe");
    return trm_import_bpe(&spec, s->out, made);
}

static trm_status run_text(const cli_call *call) {
    const text_settings *s = call->set;
    trm_made made = {.type = TRM_U8, .classes = 256};
    ui_begin(false);
    if (s->bpe || s->merges || s->behind)
        TRM_TRY(import_bpe(call, &made));
    else
        TRM_TRY(trm_import_text((const char *const *)call->arg, call->args, s->out, &made.samples));
    made_say(s->out, &made);
    return TRM_OK;
}

static const cli_option text_options[] = {
    {.name = "bpe",
     .kind = CLI_TEXT,
     .at = offsetof(text_settings, bpe),
     .value = "FILE",
     .about = "vocabulary of a byte-level BPE, as GPT-2's vocab.json (one token a byte)"},
    {.name = "merges",
     .kind = CLI_TEXT,
     .at = offsetof(text_settings, merges),
     .value = "FILE",
     .about = "its merges, as GPT-2's merges.txt"},
    {.name = "behind",
     .kind = CLI_TEXT,
     .at = offsetof(text_settings, behind),
     .value = "TOKEN",
     .about = "a token of the vocabulary that is put behind each file: '<|endoftext|>' (none)"},
    OUT(text_settings),
    {NULL},
};

const cli_verb cli_data_import_text = {
    .name = "data import text",
    .args = "FILE...",
    .about = "makes a stream of tokens of text files",
    .more = "The file holds `tokens`: uint8, or with --bpe uint16 (uint32 above 65,536 tokens).\n"
            "With --bpe a text has to be UTF-8.\n",
    .min_args = 1,
    .max_args = -1,
    .options = text_options,
    .size = sizeof(text_settings),
    .run = run_text,
};

/* ---- data import images ---- */

typedef struct images_settings {
    const char *size, *out;
    int colour, bad;
} images_settings;

static const char *const colours[] = {"rgb", "grey", NULL};
static const char *const on_bad[] = {"fail", "skip", NULL};

/* "HxW" */
static trm_status size_of(const char *text, int64_t *h, int64_t *w) {
    char number[2][12] = {"", ""};
    const char *x = text ? strchr(text, 'x') : NULL;
    if (!text) return TRM_OK;
    if (x && x - text < 12 && strlen(x + 1) < 12) {
        snprintf(number[0], sizeof number[0], "%.*s", (int)(x - text), text);
        snprintf(number[1], sizeof number[1], "%s", x + 1);
        if (trm_parse_int(number[0], h) && trm_parse_int(number[1], w) && *h >= 1 && *w >= 1 && *h <= 8192 &&
            *w <= 8192)
            return TRM_OK;
    }
    return trm_fail(TRM_USAGE, "--size is '%.40s'; allowed are two numbers from 1 to 8192, HEIGHTxWIDTH",
                    text);
}

static trm_status run_images(const cli_call *call) {
    const images_settings *s = call->set;
    trm_made made;
    trm_images_spec spec = {
        .folder = call->arg[0], .c = s->colour == 0 ? 3 : 1, .skip_bad = s->bad == 1, .tell = made_tell()};
    ui_begin(false);
    TRM_TRY(size_of(s->size, &spec.h, &spec.w));
    TRM_TRY(trm_import_images(&spec, s->out, &made));
    made_say(s->out, &made);
    return TRM_OK;
}

static const cli_option images_options[] = {
    {.name = "size",
     .kind = CLI_TEXT,
     .at = offsetof(images_settings, size),
     .value = "HxW",
     .about = "height and width in pixels: the middle of each picture, scaled (all have one size)"},
    {.name = "colour",
     .kind = CLI_CHOICE,
     .at = offsetof(images_settings, colour),
     .about = "channels to write (rgb)",
     .choices = colours},
    {.name = "on-bad",
     .kind = CLI_CHOICE,
     .at = offsetof(images_settings, bad),
     .about = "a picture that cannot be read ends the work, or is left out (fail)",
     .choices = on_bad},
    OUT(images_settings),
    {NULL},
};

const cli_verb cli_data_import_images = {
    .name = "data import images",
    .args = "FOLDER",
    .about = "makes a data set of PNG and JPEG pictures, a folder for each class",
    .more =
        "The file holds `data` (uint8, (N,C,H,W)), `label` (uint16) and `label_names`: classes and pictures\n"
        "in the order of the bytes of their names.\n",
    .min_args = 1,
    .max_args = 1,
    .options = images_options,
    .size = sizeof(images_settings),
    .run = run_images,
};
