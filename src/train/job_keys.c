/* job_keys: the one table of a job file's keys.  To add a setting, add a field to trm_job and a line here. */
#include <string.h>

#include "job_impl.h"

#define AT(field) .at = offsetof(trm_job, field)
#define COUNT(field) .count_at = offsetof(trm_job, field)
#define MANY 1e9 /* an end that keeps later products in range; no one reaches it */

static const char *const layouts[] = {"chw", "hwc", NULL};
static const char *const targets[] = {"class", "float", "onehot", "argmax", NULL};
static const char *const on_bads[] = {"error", "skip", NULL};
static const char *const caches[] = {"auto", "on", "off", "node", "rank", NULL};
static const char *const shuffles[] = {"none", "exact", "window", NULL};
static const char *const samples[] = {"rows", "file", "group", "window", "tile", "ragged", "bytes", NULL};
static const char *const joins[] = {"auto", "channel", "list", NULL};
static const char *const complexes[] = {"refuse", "channels", "magnitude", NULL};
static const char *const decodes[] = {"none", "pictures", NULL};
static const char *const input_types[] = {"stored", "bfloat16", NULL};
static const char *const last[] = {"last", NULL};
static const char *const longest[] = {"max", NULL};
static const char *const backends[] = {"cpu", "ref", NULL};
static const char *const presets[] = {"none", "mlp", "lenet", "resnet", "gpt", NULL};
static const char *const losses[] = {"cross_entropy", "mse", "bce", NULL};
static const char *const optimizers[] = {"sgd", "adam", "adamw", "rmsprop", "lamb", NULL};
static const char *const schedules[] = {"constant", "step", "linear", "cosine", "wsd", NULL};
static const char *const precisions[] = {"fp32", "bf16", NULL};
static const char *const nonfinites[] = {"stop", "skip", NULL};
static const char *const balances[] = {"off", "static", "dynamic", "hybrid", "replay", NULL};
static const char *const predictors[] = {"last", "ema", "median", "trend", NULL};
static const char *const fixed[] = {"resize", "center_crop", "pad", NULL};
static const char *const drawn[] = {"pad", "crop", "flip", "erase", NULL};
static const char *const norms[] = {"mean_std", "min_max", NULL};
static const char *const probe[] = {"probe", NULL};

#define ONLY(key, values) .only_key = (key), .only = (values)
#define TARGET "data.target_type"
#define OPTIMIZER "train.optimizer.type"
#define SCHEDULE "train.schedule.type"
#define PRESET "model.preset"
#define SHUFFLE "data.shuffle"

const trm_job_key trm_job_keys[] = {
    /* ---- run ---- */
    {"run.name", TRM_KEY_TEXT, AT(run.name), .flags = TRM_KEY_NAME | TRM_KEY_SET,
     .def_text = "the job file's name", .about = "name of the run and of its folder below `run.dir`"},
    {"run.dir", TRM_KEY_TEXT, AT(run.dir), .def = "runs",
     .about = "folder of runs; made where it is missing"},
    {"run.seed", TRM_KEY_INT, AT(run.seed), .def = "1",
     .about = "seed of initial weights, order of samples and dropout: equal seeds, equal runs"},
    {"run.log_every", TRM_KEY_INT, AT(run.log_every), .min = 1, .max = MANY, .def = "50", .unit = "updates",
     .about = "updates from one plain line to the next"},

    /* ---- data ---- */
    {"data.train", TRM_KEY_FILES, AT(data.train), COUNT(data.n_train),
     .flags = TRM_KEY_REQUIRED | TRM_KEY_SOME | TRM_KEY_PATH,
     .about =
         "HDF5 files to learn from; `\"*.h5\"` patterns and `\"@list.txt\"` (one name a line) are expanded"},
    {"data.valid", TRM_KEY_FILES, AT(data.valid), COUNT(data.n_valid), .flags = TRM_KEY_PATH,
     .def_text = "none", .about = "HDF5 files to validate on, written likewise"},
    {"data.input", TRM_KEY_FILES, AT(data.input), COUNT(data.n_input), .flags = TRM_KEY_INSIDE,
     .def_text = "found by common names",
     .about = "path of the inputs inside the files; several are joined. `[FILE#]PATH[.member][columns]`, see "
              "docs/data.md"},
    {"data.target", TRM_KEY_FILES, AT(data.target), COUNT(data.n_target), .flags = TRM_KEY_INSIDE,
     .def_text = "found by common names",
     .about = "path of the labels or target numbers inside the files, written likewise"},
    {"data.valid_input", TRM_KEY_FILES, AT(data.valid_input), COUNT(data.n_valid_input),
     .flags = TRM_KEY_INSIDE, .def_text = "as `input`",
     .about = "the same for the validation files, where their paths are others"},
    {"data.valid_target", TRM_KEY_FILES, AT(data.valid_target), COUNT(data.n_valid_target),
     .flags = TRM_KEY_INSIDE, .def_text = "as `target`",
     .about = "the same for the validation files, where their paths are others"},
    {"data.sample", TRM_KEY_CHOICE, AT(data.sample), .names = samples, .def = "rows",
     .about = "what one sample is: a row; a whole file or group; a window of time; a tile of a file or "
              "group; a sequence of "
              "its own length out of packed rows; a coded picture or sequence of variable length"},
    {"data.join", TRM_KEY_CHOICE, AT(data.join), .names = joins, .def = "auto",
     .about = "how several paths become one sample: as channels, or as numbers behind each other. auto: "
              "vectors and single "
              "numbers as a list, others as channels"},
    {"data.groups", TRM_KEY_TEXT, AT(data.groups), .def_text = "none; `/*` where a sample is a group",
     .about = "pattern of groups, `\"/data/*\"`, that paths are taken from; one after the other, in the "
              "order of names"},
    {"data.train_groups", TRM_KEY_TEXT, AT(data.train_groups), .def_text = "all",
     .about = "path of a data set of names: the groups to learn from"},
    {"data.valid_groups", TRM_KEY_TEXT, AT(data.valid_groups), .def_text = "all",
     .about = "path of a data set of names: the groups to validate on"},
    {"data.train_split", TRM_KEY_TEXT, AT(data.train_split), .def_text = "none",
     .about = "split to learn from, of the table that Fuel writes as attribute `split` of the root"},
    {"data.valid_split", TRM_KEY_TEXT, AT(data.valid_split), .def_text = "none",
     .about = "split to validate on, likewise"},
    {"data.axis", TRM_KEY_OR_WORD, AT(data.axis), .names = last, .max = 7, .def = "0",
     .about = "dimension that counts samples; of a window: the dimension of time, and 1 where the first one "
              "counts "
              "trajectories"},
    {"data.in_steps", TRM_KEY_INT, AT(data.in_steps), .min = 1, .max = 1000000, .flags = TRM_KEY_REQUIRED,
     ONLY("data.sample", "window"), .about = "steps of time of an input"},
    {"data.out_steps", TRM_KEY_INT, AT(data.out_steps), .min = 1, .max = 1000000, .def = "1",
     ONLY("data.sample", "window"), .about = "steps behind them that are the target"},
    {"data.tile", TRM_KEY_SHAPE, AT(data.tile), .min = 1, .flags = TRM_KEY_REQUIRED,
     ONLY("data.sample", "tile"),
     .about = "size of a tile in space, without channels; all tiles of a file share its target"},
    {"data.lengths", TRM_KEY_TEXT, AT(data.lengths), .flags = TRM_KEY_REQUIRED, ONLY("data.sample", "ragged"),
     .about = "path of the lengths of the sequences that lie packed behind each other"},
    {"data.pad", TRM_KEY_OR_WORD, AT(data.pad), .names = longest, .min = 1, .max = MANY,
     .def_text = "none may differ",
     .about = "fills samples of different sizes up with zeros (classes: with `train.ignore_index`), to the "
              "largest or to "
              "so many"},
    {"data.mask", TRM_KEY_BOOL, AT(data.mask), .def = "false",
     .about = "one more input: 1 where the first path has data, 0 where it was filled up"},
    {"data.complex", TRM_KEY_CHOICE, AT(data.complex), .names = complexes, .def = "refuse",
     .about = "complex numbers as channels (real, imaginary), or as their magnitude"},
    {"data.decode", TRM_KEY_CHOICE_BOOL, AT(data.decode), .names = decodes, .def = "none",
     ONLY("data.sample", "bytes"),
     .about = "bytes are PNG or JPEG pictures; each is scaled and cut to the size of `data.shape`"},
    {"data.input_type", TRM_KEY_CHOICE_BOOL, AT(data.bf16), .names = input_types, .def = "stored",
     .about = "bfloat16: the inputs are 16-bit words, or opaque values of 2 bytes, that hold such numbers"},
    {"data.allow_virtual", TRM_KEY_BOOL, AT(data.allow_virtual), .def = "false",
     .about = "reads virtual data sets whose sources all lie below the folder of the file"},
    {"data.shape", TRM_KEY_SHAPE, AT(data.shape), .min = 1, .def_text = "as stored",
     .about =
         "shape of one sample, `[F]`, `[C,L]`, `[C,H,W]` or `[C,D,H,W]`, where the file holds flat rows, or "
         "where it is not plain which dimensions are space"},
    {"data.layout", TRM_KEY_CHOICE_BOOL, AT(data.hwc), .names = layouts, .def = "chw",
     .about = "how images and volumes are stored: channels first or last"},
    {"data.window", TRM_KEY_INT, AT(data.window), .min = 1, .max = MANY, .unit = "tokens", .def_text = "none",
     .about = "cuts a stream of tokens into samples of this length; the target is the next token"},
    {"data.classes", TRM_KEY_INT, AT(data.classes), .min = 1, .max = MANY, .def_text = "from the data",
     .about = "number of classes (or of tokens); labels at or above it are a fault of the data"},
    {TARGET, TRM_KEY_CHOICE, AT(data.target_type), .names = targets, .def = "class",
     .about = "targets are class labels, numbers to regress, rows of zeros and one 1, or rows of which the "
              "place of the "
              "largest number is the class"},
    {"data.label_map", TRM_KEY_LABELS, AT(data.label_map), COUNT(data.n_labels), .def_text = "none",
     ONLY(TARGET, "class onehot argmax"),
     .about = "the model's class for each class of the file, `{3: 0, 7: 1}`, or a list whose first entry "
              "becomes class 0; "
              "a class that is not named is a fault of the data"},
    {"data.target_scale", TRM_KEY_FLOAT, AT(data.target_scale), .min = -INFINITY, .def = "1",
     ONLY(TARGET, "float"),
     .about = "targets become raw * target_scale + target_bias, and what the model says is meant so"},
    {"data.target_bias", TRM_KEY_FLOAT, AT(data.target_bias), .min = -INFINITY, .def = "0",
     ONLY(TARGET, "float"), .about = "see `data.target_scale`"},
    {"data.train_rows", TRM_KEY_ROWS, AT(data.train_first), .def_text = "all",
     .about =
         "rows of the training files to use (tokens of a stream), counted over all files, `\"0:8000\"`: from "
         "the first up to before the second"},
    {"data.valid_rows", TRM_KEY_ROWS, AT(data.valid_first), .def_text = "all",
     .about = "rows of the validation files to use, `\"8000:\"`"},
    {"data.cache", TRM_KEY_CHOICE, AT(data.cache), .names = caches, .def = "auto",
     .about = "keeps the data in memory, once on each node: on, node; on each rank: rank. auto: on where it "
              "fits into "
              "`data.cache_limit`"},
    {"data.cache_limit", TRM_KEY_BYTES, AT(data.cache_limit), .min = 1,
     .def_text = "a quarter of the free memory",
     .about = "most memory that `auto` may use, on each node or, where ranks share none, on each rank: `\"2 "
              "GiB\"`"},
    {"data.on_bad_sample", TRM_KEY_CHOICE, AT(data.on_bad), .names = on_bads, .def = "error",
     .about =
         "what to do where a sample cannot be decoded, is not finite or has a label out of range: end, or "
         "leave it out; `skip` reads all samples once at the start"},
    {"data.allow_links", TRM_KEY_BOOL, AT(data.allow_links), .def = "false",
     .about = "follows links inside the files, also to other files of the same folder and below"},
    {"data.allow_external", TRM_KEY_BOOL, AT(data.allow_external), .def = "false",
     .about = "reads data sets that keep their bytes in other files of the same folder and below"},
    {"data.allow_plugins", TRM_KEY_BOOL, AT(data.allow_plugins), .def = "false",
     .about = "lets HDF5 load filters from `HDF5_PLUGIN_PATH`"},
    {"data.untrusted", TRM_KEY_BOOL, AT(data.untrusted), .def = "false",
     .about =
         "the files come from strangers: a process of its own opens and reads all of them first, by stricter "
         "rules"},
    {"data.shuffle", TRM_KEY_CHOICE, AT(data.shuffle), .names = shuffles, .def = "exact",
     .about =
         "order of samples. none: as stored; exact: a new permutation of all in each epoch; window: for "
         "compressed data that does not fit in memory: blocks are shuffled, and the samples of some hundred "
         "blocks at a time"},
    {"data.memory", TRM_KEY_BYTES, AT(data.memory), .min = 1, .def = "128 MiB", ONLY(SHUFFLE, "window"),
     .about =
         "most memory for decoded blocks on each rank; more of it mixes better, and is part of the order"},
    {"data.threads", TRM_KEY_INT32, AT(data.threads), .min = 1, .max = 64, .def = "1",
     ONLY(SHUFFLE, "window"), .about = "threads of each rank that read and decode"},
    {"data.scale", TRM_KEY_FLOAT, AT(data.scale), .flags = TRM_KEY_ABOVE,
     .def_text = "1/255 for uint8 images, else 1", .about = "inputs become (raw * scale - mean) / std"},
    {"data.mean", TRM_KEY_FLOATS, AT(data.mean), COUNT(data.norm_count), .min = -INFINITY, .def_text = "0",
     .about = "one number, or one for each channel; after `data.scale`"},
    {"data.std", TRM_KEY_FLOATS, AT(data.std), COUNT(data.norm_count), .flags = TRM_KEY_ABOVE,
     .def_text = "1", .about = "one number, or one for each channel; after `data.scale`"},
    {"data.min", TRM_KEY_FLOATS, AT(data.min), COUNT(data.n_min), .min = -INFINITY, .def_text = "none",
     .about = "with `data.max`: inputs become (raw - min) / (max - min), 0 to 1; one number, or one for each "
              "channel"},
    {"data.max", TRM_KEY_FLOATS, AT(data.max), COUNT(data.n_max), .min = -INFINITY, .def_text = "none",
     .about = "see `data.min`"},
    {"data.stats", TRM_KEY_TEXT, AT(data.stats), .flags = TRM_KEY_PATH, .def_text = "none",
     .about = "statistics of the inputs to scale them by: `auto` takes them of the training set when a run "
              "begins; or a file that "
              "`trireme data stats` wrote"},
    {"data.normalize", TRM_KEY_CHOICE, AT(data.normalize), .names = norms, .def_text = "`mean_std`",
     .about = "by which numbers of `data.stats`: to mean 0 and deviation 1, or to 0 to 1"},
    {"data.transform", TRM_KEY_TRANSFORMS, AT(data.transform), COUNT(data.n_transform), .names = fixed,
     .def_text = "none", .about = "done to the images of every set, one after the other (see Transforms)"},
    {"data.augment", TRM_KEY_TRANSFORMS, AT(data.augment), COUNT(data.n_augment), .names = drawn,
     .def_text = "none",
     .about =
         "done after that to the images that are trained on, anew in each epoch; the other sets take the "
         "middle of a crop"},

    /* ---- device ---- */
    {"device.backend", TRM_KEY_CHOICE_TEXT, AT(device.backend), .names = backends, .def = "cpu",
     .about = "`cpu`: float32, fast; `ref`: float64, slow, the reference"},
    {"device.threads", TRM_KEY_INT32, AT(device.threads), .max = 4096, .def = "0",
     .about = "threads of each rank; 0: the node's cores divided by its ranks"},

    /* ---- model ---- */
    {"model.preset", TRM_KEY_CHOICE, AT(model.preset), .names = presets, .flags = TRM_KEY_SHORT,
     .def = "none", .about = "a ready model; `none`: the model is the list `model.layers`"},
    {"model.layers", TRM_KEY_LAYERS, AT(model.zoo.layers), .min = 1, .max = 1000, .def_text = "4 for gpt",
     .about = "the list of layers (see Layers); with `preset: gpt` the number of blocks"},
    {"model.hidden", TRM_KEY_INTS, AT(model.zoo.hidden), COUNT(model.zoo.n_hidden), .min = 1, .max = MANY,
     .def = "[512, 512]", ONLY(PRESET, "mlp"), .about = "widths of the hidden layers"},
    {"model.depth", TRM_KEY_INT, AT(model.zoo.depth), .min = 8, .max = 9998, .def = "20",
     ONLY(PRESET, "resnet"), .about = "number of layers with weights: 6n+2"},
    {"model.sync", TRM_KEY_BOOL, AT(model.zoo.sync), .def = "true", ONLY(PRESET, "resnet"),
     .about = "batch norm over the samples of all ranks"},
    {"model.dim", TRM_KEY_INT, AT(model.zoo.dim), .min = 1, .max = MANY, .def = "256", ONLY(PRESET, "gpt"),
     .about = "width; a multiple of `heads`"},
    {"model.heads", TRM_KEY_INT, AT(model.zoo.heads), .min = 1, .max = MANY, .def = "4", ONLY(PRESET, "gpt"),
     .about = "attention heads"},
    {"model.context", TRM_KEY_INT, AT(model.zoo.context), .min = 1, .max = MANY,
     .def_text = "the data's window", .unit = "tokens", ONLY(PRESET, "gpt"), .about = "longest sample"},
    {"model.vocab", TRM_KEY_INT, AT(model.zoo.vocab), .min = 1, .max = MANY, .def_text = "from the data",
     ONLY(PRESET, "gpt"), .about = "number of tokens"},
    {"model.dropout", TRM_KEY_FLOAT, AT(model.zoo.dropout), .max = 1, .flags = TRM_KEY_BELOW, .def = "0",
     ONLY(PRESET, "gpt"), .about = "share of values set to 0 behind the embeddings and in each block"},
    {"model.init", TRM_KEY_TEXT, AT(model_init), .flags = TRM_KEY_PATH, .def_text = "none",
     .about = "file or checkpoint folder to take the first weights from, by name"},

    /* ---- train ---- */
    {"train.epochs", TRM_KEY_INT, AT(train.epochs), .min = 1, .max = MANY, .def_text = "this or `updates`",
     .about = "passes over the data; exactly one of `epochs` and `updates` is given"},
    {"train.updates", TRM_KEY_INT, AT(train.updates), .min = 1, .max = 1e12, .def_text = "this or `epochs`",
     .about = "updates of the weights"},
    {"train.batch", TRM_KEY_INT, AT(train.batch), .min = 1, .max = MANY, .flags = TRM_KEY_REQUIRED,
     .unit = "samples",
     .about = "samples of one update, over all ranks: it does not change with their number"},
    {"train.micro_batches", TRM_KEY_INT32, AT(train.micro_batches), .min = 1, .max = 65536, .def = "1",
     .about = "cuts each batch into so many parts that are computed one after the other: less memory"},
    {"train.precision", TRM_KEY_CHOICE_BOOL, AT(train.bf16), .names = precisions, .def = "fp32",
     .about = "bf16: linear and convolution layers round what they multiply to bfloat16 and add in float32; "
              "weights, "
              "optimizer, norms, losses and sums over ranks stay float32; refused where the processor has no "
              "bfloat16 "
              "(see Precision)"},
    {"train.drop_last", TRM_KEY_BOOL, AT(train.drop_last), .def = "false",
     .about = "leaves out the last, smaller batch of an epoch"},
    {"train.valid_every", TRM_KEY_EVERY, AT(train.valid_every), .def = "epoch",
     .about = "how often to validate"},
    {"train.early_stop.patience", TRM_KEY_INT, AT(train.early_stop.patience), .min = 1, .max = MANY,
     .flags = TRM_KEY_SHORT, .unit = "validations", .def_text = "none",
     .about = "ends the run in order where so many validations in a row bring no lower loss"},
    {"train.early_stop.min_delta", TRM_KEY_FLOAT, AT(train.early_stop.min_delta), .max = 1e6, .def_text = "0",
     .about = "by how much a loss has to be lower to count"},
    {"train.loss", TRM_KEY_CHOICE, AT(train.loss), .names = losses, .def = "cross_entropy",
     .about = "what is made small; bce: binary cross-entropy of logits, with float targets in [0, 1]"},
    {"train.label_smoothing", TRM_KEY_FLOAT, AT(train.ce.smoothing), .max = 1, .def = "0",
     ONLY("train.loss", "cross_entropy"),
     .about = "share of the target that is spread over all classes, in validation too"},
    {"train.ignore_index", TRM_KEY_INT, AT(train.ce.ignore), .min = -INFINITY, .max = MANY,
     .def_text = "none", ONLY("train.loss", "cross_entropy"),
     .about = "targets of this class (padding) count neither in the loss nor in the gradient nor in their "
              "numbers"},
    {OPTIMIZER, TRM_KEY_CHOICE, AT(train.optim.kind), .names = optimizers, .flags = TRM_KEY_SHORT,
     .def = "sgd",
     .about = "how gradients change the weights; adamw decays weights apart from the gradient; lamb: as "
              "adamw, each parameter's step as long as the parameter times the rate, for large batches"},
    {"train.optimizer.lr", TRM_KEY_FLOAT, AT(train.schedule.lr), .flags = TRM_KEY_ABOVE, .max = 1e6,
     .def = "0.001", .about = "learning rate; the peak of the schedule"},
    {"train.optimizer.momentum", TRM_KEY_FLOAT, AT(train.optim.momentum), .max = 1, .flags = TRM_KEY_BELOW,
     .def = "0", ONLY(OPTIMIZER, "sgd rmsprop"), .about = "share of the last step that is kept"},
    {"train.optimizer.nesterov", TRM_KEY_BOOL, AT(train.optim.nesterov), .def = "false",
     ONLY(OPTIMIZER, "sgd"), .about = "Nesterov's form; needs a momentum"},
    {"train.optimizer.betas", TRM_KEY_FLOAT2, AT(train.optim.beta1), .max = 1, .flags = TRM_KEY_BELOW,
     .def = "[0.9, 0.999]", ONLY(OPTIMIZER, "adam adamw lamb"),
     .about = "decay of the first and second moment"},
    {"train.optimizer.alpha", TRM_KEY_FLOAT, AT(train.optim.alpha), .max = 1, .flags = TRM_KEY_BELOW,
     .def = "0.99", ONLY(OPTIMIZER, "rmsprop"), .about = "decay of the mean of squares"},
    {"train.optimizer.eps", TRM_KEY_FLOAT, AT(train.optim.eps), .max = 1, .flags = TRM_KEY_ABOVE,
     .def = "1e-8", ONLY(OPTIMIZER, "adam adamw rmsprop lamb"),
     .about = "added to the root of the second moment"},
    {"train.optimizer.weight_decay", TRM_KEY_FLOAT, AT(train.optim.weight_decay), .max = 1000, .def = "0",
     .alt_for = "adamw", .alt_def = "0.01", .about = "pulls weights towards 0"},
    {"train.optimizer.decay_all", TRM_KEY_BOOL, AT(train.optim.decay_all), .def = "false",
     .about = "decays also biases and the weights of norms (as PyTorch does)"},
    {SCHEDULE, TRM_KEY_CHOICE, AT(train.schedule.kind), .names = schedules, .flags = TRM_KEY_SHORT,
     .def = "constant", .about = "learning rate over the run; wsd: warm-up, stable, decay"},
    {"train.schedule.warmup", TRM_KEY_INT, AT(train.schedule.warmup), .max = 1e12, .def = "0",
     .unit = "updates", .about = "updates in which the rate rises from lr/warmup to lr"},
    {"train.schedule.min_ratio", TRM_KEY_FLOAT, AT(train.schedule.min_ratio), .max = 1, .def = "0",
     ONLY(SCHEDULE, "linear cosine wsd"), .about = "rate of the last update as a share of lr"},
    {"train.schedule.decay", TRM_KEY_INT, AT(train.schedule.decay), .min = 1, .max = 1e12, .unit = "updates",
     .def_text = "a tenth of the run", ONLY(SCHEDULE, "wsd"), .about = "updates of the decay at the end"},
    {"train.schedule.every", TRM_KEY_EVERY, AT(train.schedule.every),
     .flags = TRM_KEY_REQUIRED | TRM_KEY_TIMES, ONLY(SCHEDULE, "step"),
     .about = "how often the rate is multiplied by gamma"},
    {"train.schedule.gamma", TRM_KEY_FLOAT, AT(train.schedule.gamma), .max = 1, .flags = TRM_KEY_ABOVE,
     .def = "0.1", ONLY(SCHEDULE, "step"), .about = "factor of each step"},
    {"train.clip", TRM_KEY_FLOAT, AT(train.optim.clip), .def = "0",
     .about = "largest norm of the whole gradient; larger ones are scaled down; 0: none"},
    {"train.on_nonfinite", TRM_KEY_CHOICE, AT(train.on_nonfinite), .names = nonfinites, .def = "stop",
     .about = "what to do where a loss or gradient is not finite: end the run, or leave out the update"},

    /* ---- checkpoint ---- */
    {"checkpoint.every", TRM_KEY_EVERY, AT(checkpoint.every), .def = "epoch",
     .about = "how often to write a checkpoint"},
    {"checkpoint.keep", TRM_KEY_INT, AT(checkpoint.keep), .max = MANY, .def = "3",
     .about = "newest checkpoints to keep; 0: all"},
    {"checkpoint.best", TRM_KEY_BOOL, AT(checkpoint.best), .def = "true",
     .about = "also keeps the checkpoint of the lowest validation loss"},

    /* ---- balance ---- */
    {"balance.mode", TRM_KEY_CHOICE, AT(balance.mode), .names = balances, .flags = TRM_KEY_SHORT,
     .def = "hybrid",
     .about =
         "shares of the ranks. off: equal; static: by `weights`; dynamic: equal at first, then by measured "
         "speed; hybrid: the same, but probed first where the ranks' hardware differs; replay: as an "
         "earlier run decided"},
    {"balance.weights", TRM_KEY_FLOATS, AT(balance.weights), COUNT(balance.n_weights), .max = MANY,
     .names = probe, .flags = TRM_KEY_REQUIRED, ONLY("balance.mode", "static"),
     .about =
         "one number for each rank; twice the weight, twice the samples. probe: measured for two seconds "
         "at the start"},
    {"balance.every", TRM_KEY_EVERY, AT(balance.every), .def = "epoch", .flags = TRM_KEY_TIMES,
     ONLY("balance.mode", "dynamic hybrid"), .about = "how often to decide"},
    {"balance.threshold", TRM_KEY_FLOAT, AT(balance.threshold), .max = 1, .flags = TRM_KEY_PERCENT,
     .def = "5%", ONLY("balance.mode", "dynamic hybrid"),
     .about = "least gain for which samples move, as a share of the time of an update"},
    {"balance.predictor", TRM_KEY_CHOICE, AT(balance.predictor), .names = predictors, .def = "ema",
     ONLY("balance.mode", "dynamic hybrid"), .about = "how the next speed follows from the last ones"},
    {"balance.cooldown", TRM_KEY_INT32, AT(balance.cooldown), .max = 1000, .def = "1", .unit = "decisions",
     ONLY("balance.mode", "dynamic hybrid"), .about = "decisions behind a move in which no other is made"},
    {"balance.reprobe", TRM_KEY_INT32, AT(balance.reprobe), .max = MANY, .def = "4", .unit = "decisions",
     ONLY("balance.mode", "dynamic hybrid"),
     .about = "an idle rank gets one sample every so many decisions, to be measured again; 0: never"},
    {"balance.dry_run", TRM_KEY_BOOL, AT(balance.dry_run), .def = "false",
     ONLY("balance.mode", "dynamic hybrid"), .about = "decides aloud and moves nothing"},
    {"balance.from", TRM_KEY_TEXT, AT(balance.from), .flags = TRM_KEY_REQUIRED | TRM_KEY_PATH,
     ONLY("balance.mode", "replay"), .about = "folder of the run whose moves are made again"},
    {NULL},
};

const trm_job_key *trm_job_key_find(const char *path) {
    for (const trm_job_key *k = trm_job_keys; k->path; k++)
        if (!strcmp(k->path, path)) return k;
    return NULL;
}

const char *trm_job_key_word(const trm_job_key *k) { return strrchr(k->path, '.') + 1; }

const char *trm_job_choice(const trm_job *j, const char *path) {
    const trm_job_key *k = trm_job_key_find(path);
    return k->names[*(const int *)((const char *)j + k->at)];
}

/* True where `word` is one of the words of `list`. */
static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == n && !strncmp(p, word, n)) return true;
    return false;
}

bool trm_job_key_fits(const trm_job *j, const trm_job_key *k) {
    return !k->only_key || has_word(k->only, trm_job_choice(j, k->only_key));
}

const char *trm_job_key_default(const trm_job *j, const trm_job_key *k) {
    if (k->alt_for && !strcmp(k->alt_for, trm_job_choice(j, OPTIMIZER))) return k->alt_def;
    return k->def;
}

bool trm_job_key_given(const trm_job *j, const trm_job_key *k) {
    return trm_yaml_find(j->tree->root, k->path) != NULL;
}
