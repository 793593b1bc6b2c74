/* Job files: what good ones mean, the one sentence of each bad one, overrides, and writing them again. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job_impl.h"
#include "support.h"

#define DATA "data: {train: a.h5}\n"
#define MODEL "model: {preset: mlp}\n"
#define TRAIN "train: {epochs: 3, batch: 64}\n"
#define GOOD DATA MODEL TRAIN

static trm_job *job_with(const char *text, const char *const *set, int n_set) {
    trm_job *j = NULL;
    assert_ok(trm_job_parse("job.yaml", text, strlen(text), set, n_set, &j));
    return j;
}

static trm_job *job_of(const char *text) { return job_with(text, NULL, 0); }

static trm_status try_parse(const char *text, size_t n, const char *const *set, int n_set) {
    trm_job *j = NULL;
    trm_status s = trm_job_parse("job.yaml", text, n, set, n_set, &j);
    trm_job_free(j);
    return s;
}

/* ---- good files ---- */

static void fills_defaults(void **state) {
    (void)state;
    trm_job *j = job_of(GOOD);
    assert_string_equal(j->run.name, "job");
    assert_string_equal(j->run.dir, "runs");
    assert_int_equal(j->run.seed, 1);
    assert_int_equal(j->run.log_every, 50);
    assert_int_equal(j->data.n_train, 1);
    assert_string_equal(j->data.train[0], "a.h5");
    assert_int_equal(j->data.n_valid, 0);
    assert_int_equal(j->data.shape.rank, 0);
    assert_int_equal(j->data.n_input, 0);
    assert_int_equal(j->data.cache, TRM_CACHE_AUTO);
    assert_int_equal(j->data.shuffle, TRM_SHUFFLE_EXACT);
    assert_false(j->data.scale_given);
    assert_int_equal(j->data.norm_count, 0);
    assert_string_equal(j->device.backend, "cpu");
    assert_int_equal(j->device.threads, 0);
    assert_null(j->model_init);
    assert_int_equal(j->model.zoo.n_hidden, 2);
    assert_int_equal(j->model.zoo.hidden[1], 512);
    assert_int_equal(j->train.epochs, 3);
    assert_int_equal(j->train.updates, 0);
    assert_int_equal(j->train.micro_batches, 1);
    assert_int_equal(j->train.optim.kind, TRM_OPT_SGD);
    assert_true(j->train.schedule.lr == 0.001);
    assert_int_equal(j->train.schedule.kind, TRM_LR_CONSTANT);
    assert_int_equal(j->train.valid_every.unit, TRM_UNIT_EPOCHS);
    assert_int_equal(j->train.on_nonfinite, TRM_NONFINITE_STOP);
    assert_int_equal(j->checkpoint.keep, 3);
    assert_true(j->checkpoint.best);
    assert_int_equal(j->balance.mode, TRM_BALANCE_HYBRID);
    assert_int_equal(j->balance.every.unit, TRM_UNIT_EPOCHS);
    assert_true(j->balance.threshold == 0.05);
    assert_int_equal(j->balance.predictor, TRM_PREDICT_EMA);
    assert_int_equal(j->balance.cooldown, 1);
    assert_int_equal(j->balance.reprobe, 4);
    assert_false(j->balance.dry_run);
    trm_job_free(j);
}

/* Every key once, and none with its default. */
static const char every_key[] =
    "run: {name: run-1.a, dir: my runs, seed: 9223372036854775807, log_every: 7}\n"
    "data:\n"
    "  train: [a.h5, \"b*.h5\", \"@list.txt\"]\n"
    "  valid: v.h5\n"
    "  input: /group/images\n"
    "  target: labels\n"
    "  shape: [3, 32, 32]\n"
    "  layout: hwc\n"
    "  window: 128\n"
    "  classes: 10\n"
    "  target_type: class\n"
    "  train_rows: 100:8000\n"
    "  valid_rows: \":500\"\n"
    "  cache: on\n"
    "  cache_limit: 1.5 GiB\n"
    "  shuffle: none\n"
    "  scale: 0.5\n"
    "  mean: [0.1, -0.2, .3]\n"
    "  std: 2\n"
    "device: {backend: ref, threads: 4}\n"
    "model: {preset: gpt, layers: 2, dim: 64, heads: 2, context: 256, vocab: 300, dropout: 0.25, init: "
    "w.safetensors}\n"
    "train:\n"
    "  updates: 1000\n"
    "  batch: 512\n"
    "  micro_batches: 4\n"
    "  drop_last: true\n"
    "  valid_every: 2 epochs\n"
    "  loss: mse\n"
    "  optimizer: {type: adamw, lr: 3e-4, betas: [0.8, 0.95], eps: 1e-6, weight_decay: 0.1, decay_all: "
    "true}\n"
    "  schedule: {type: wsd, warmup: 100, min_ratio: 0.1, decay: 200}\n"
    "  clip: 1.0\n"
    "  on_nonfinite: skip\n"
    "checkpoint: {every: 50, keep: 0, best: false}\n"
    "balance: {mode: static, weights: [1, 3.5]}\n";

static void reads_every_key(void **state) {
    (void)state;
    trm_job *j = job_of(every_key);
    assert_string_equal(j->run.name, "run-1.a");
    assert_string_equal(j->run.dir, "my runs");
    assert_true(j->run.seed == INT64_MAX);
    assert_int_equal(j->data.n_train, 3);
    assert_string_equal(j->data.train[2], "@list.txt");
    assert_int_equal(j->data.n_input, 1);
    assert_string_equal(j->data.input[0], "/group/images");
    assert_int_equal(j->data.shape.dim[2], 32);
    assert_true(j->data.hwc);
    assert_int_equal(j->data.target_type, TRM_TYPE_CLASS);
    assert_int_equal(j->data.train_first, 100);
    assert_int_equal(j->data.train_count, 7900);
    assert_int_equal(j->data.valid_first, 0);
    assert_int_equal(j->data.valid_count, 500);
    assert_int_equal(j->data.cache_limit, 3 << 29);
    assert_true(j->data.scale_given && j->data.scale == 0.5);
    assert_int_equal(j->data.norm_count, 3);
    assert_true(j->data.mean[1] == -0.2 && j->data.std[0] == 2 && j->data.std[2] == 2);
    assert_string_equal(j->device.backend, "ref");
    assert_int_equal(j->model.zoo.layers, 2);
    assert_int_equal(j->model.zoo.vocab, 300);
    assert_string_equal(j->model_init, "w.safetensors");
    assert_int_equal(j->train.updates, 1000);
    assert_int_equal(j->train.epochs, 0);
    assert_int_equal(j->train.valid_every.n, 2);
    assert_int_equal(j->train.loss, TRM_LOSS_MSE);
    assert_true(j->train.optim.beta1 == 0.8 && j->train.optim.beta2 == 0.95 && j->train.optim.eps == 1e-6);
    assert_true(j->train.schedule.lr == 3e-4 && j->train.schedule.decay == 200);
    assert_int_equal(j->checkpoint.every.unit, TRM_UNIT_UPDATES);
    assert_int_equal(j->checkpoint.every.n, 50);
    assert_false(j->checkpoint.best);
    assert_int_equal(j->balance.n_weights, 2);
    assert_true(j->balance.weights[1] == 3.5);
    trm_data_spec valid = trm_job_data_spec(j, true), train = trm_job_data_spec(j, false);
    assert_string_equal(valid.files[0], "v.h5");
    assert_int_equal(valid.count, 500);
    assert_int_equal(train.n_files, 3);
    assert_int_equal(train.first, 100);
    trm_job_free(j);
}

/* What is done to images and targets, and cannot stand beside tokens. */
static const char other_keys[] =
    "data:\n"
    "  train: a.h5\n"
    "  min: [0, -1, 0.5]\n"
    "  max: 255\n"
    "  target_type: onehot\n"
    "  label_map: {7: 0, -3: 1, 12: 1}\n"
    "  transform:\n"
    "    - resize: 40x48\n"
    "    - resize: {size: [36, 40], method: area}\n"
    "    - center_crop: 32\n"
    "    - pad: {pixels: [2, 3], value: 128}\n"
    "  augment: [pad: 4, crop: [32, 34], flip, flip: {direction: vertical, p: 0.25}, erase: 0.75,\n"
    "            {erase: {area: [0.1, 0.2], ratio: [1, 2], value: 9}}]\n" MODEL TRAIN;

static void reads_transforms(void **state) {
    (void)state;
    trm_job *j = job_of(other_keys);
    const trm_transform *t = j->data.transform, *a = j->data.augment;
    assert_int_equal(j->data.n_transform, 4);
    assert_true(t[0].kind == TRM_RESIZE && t[0].size[0] == 40 && t[0].size[1] == 48 && !t[0].area_mean);
    assert_true(t[1].size[1] == 40 && t[1].area_mean);
    assert_true(t[2].kind == TRM_CENTER_CROP && t[2].size[0] == 32 && t[2].size[1] == 32);
    assert_true(t[3].kind == TRM_PAD && t[3].size[0] == 2 && t[3].size[1] == 3 && t[3].value == 128);
    assert_int_equal(j->data.n_augment, 6);
    assert_true(a[0].kind == TRM_PAD && a[0].size[1] == 4 && a[0].value == 0);
    assert_true(a[1].kind == TRM_CROP && a[1].size[1] == 34);
    assert_true(a[2].kind == TRM_FLIP && !a[2].vertical && a[2].p == 0.5);
    assert_true(a[3].vertical && a[3].p == 0.25);
    assert_true(a[4].kind == TRM_ERASE && a[4].p == 0.75 && a[4].area[1] == 0.33 && a[4].ratio[0] == 0.3);
    assert_true(a[5].p == 0.5 && a[5].area[0] == 0.1 && a[5].ratio[1] == 2 && a[5].value == 9);
    trm_job_free(j);
}

static void reads_scales_and_targets(void **state) {
    (void)state;
    trm_job *j = job_of(other_keys);
    assert_int_equal(j->data.norm_count, 3);
    assert_true(j->data.mean[1] == -1 && j->data.std[1] == 256 && j->data.std[2] == 254.5);
    assert_true(j->data.scale == 1 && j->data.scale_given);
    assert_int_equal(j->data.target_type, TRM_TYPE_ONEHOT);
    assert_int_equal(j->data.n_labels, 3);
    assert_true(j->data.label_map[0].from == -3 && j->data.label_map[0].to == 1);
    trm_data_spec spec = trm_job_data_spec(j, false);
    assert_int_equal(spec.target_rows, TRM_TARGET_ONEHOT);
    assert_int_equal(spec.n_labels, 3);
    assert_false(spec.float_target);
    trm_job_free(j);
    j = job_of("data: {train: a.h5, label_map: [3, 7], stats: auto, normalize: min_max}\n" MODEL TRAIN);
    assert_true(j->data.label_map[1].from == 7 && j->data.label_map[1].to == 1);
    assert_string_equal(j->data.stats, "auto");
    assert_int_equal(j->data.normalize, TRM_NORM_MIN_MAX);
    assert_int_equal(j->data.norm_count, 0);
    trm_job_free(j);
    j = job_of("data: {train: a.h5, target_type: float, target_scale: -0.5, target_bias: 2}\n" MODEL TRAIN);
    assert_true(j->data.target_scale == -0.5 && j->data.target_bias == 2);
    assert_true(trm_job_data_spec(j, false).float_target);
    trm_job_free(j);
}

/* A job whose statistics are taken is written with the numbers in the place of `stats`. */
static void writes_settled_statistics(void **state) {
    (void)state;
    trm_str text = {0};
    trm_job *j = job_of("data: {train: a.h5, stats: auto, normalize: min_max}\n" MODEL TRAIN), *again = NULL,
            copy = *j;
    double mean[] = {0.1, -2}, std[] = {1.0 / 3, 7};
    copy.data.mean = mean;
    copy.data.std = std;
    copy.data.norm_count = 2;
    copy.data.scale = 1;
    copy.data.settled = true;
    assert_ok(trm_job_write(&copy, &text));
    assert_null(strstr(text.p, "stats"));
    assert_null(strstr(text.p, "normalize"));
    assert_ok(trm_job_parse("job.yaml", text.p, text.len, NULL, 0, &again));
    assert_true(again->data.scale_given && again->data.scale == 1 && !again->data.stats);
    assert_int_equal(again->data.norm_count, 2);
    assert_memory_equal(again->data.mean, mean, sizeof mean);
    assert_memory_equal(again->data.std, std, sizeof std);
    trm_job_free(again);
    trm_job_free(j);
    trm_str_free(&text);
}

static void reads_losses(void **state) {
    (void)state;
    trm_job *j = job_of(DATA MODEL "train: {epochs: 1, batch: 8}\n");
    assert_true(j->train.ce.smoothing == 0);
    assert_false(j->train.ce.ignores);
    trm_job_free(j);
    j = job_of(DATA MODEL "train: {epochs: 1, batch: 8, label_smoothing: 0.1, ignore_index: 0}\n");
    assert_true(j->train.ce.smoothing == 0.1 && j->train.ce.ignores && j->train.ce.ignore == 0);
    trm_job_free(j);
    j = job_of(DATA MODEL "train: {epochs: 1, batch: 8, loss: bce}\n");
    assert_int_equal(j->train.loss, TRM_LOSS_BCE);
    trm_job_free(j);
}

#define VALID "data: {train: a.h5, valid: v.h5}\n"

static void reads_early_stop(void **state) {
    (void)state;
    trm_job *j = job_of(VALID MODEL "train: {epochs: 1, batch: 8, early_stop: 3}\n");
    assert_int_equal(j->train.early_stop.patience, 3);
    assert_true(j->train.early_stop.min_delta == 0);
    trm_job_free(j);
    j = job_of(VALID MODEL "train: {epochs: 1, batch: 8, early_stop: {patience: 2, min_delta: 0.01}}\n");
    assert_int_equal(j->train.early_stop.patience, 2);
    assert_true(j->train.early_stop.min_delta == 0.01);
    trm_job_free(j);
}

static void reads_short_forms(void **state) {
    (void)state;
    trm_job *j = job_of(
        DATA "model: lenet\ntrain:\n  epochs: 1\n  batch: 8\n  optimizer: adamw\n  schedule: cosine\n"
             "  valid_every: never\nrun:\ndevice: # nothing\ncheckpoint: {every: 1 update}\nbalance: off\n");
    assert_int_equal(j->model.preset, TRM_PRESET_LENET);
    assert_int_equal(j->train.optim.kind, TRM_OPT_ADAMW);
    assert_true(j->train.optim.weight_decay == 0.01 && j->train.optim.beta2 == 0.999);
    assert_int_equal(j->train.schedule.kind, TRM_LR_COSINE);
    assert_int_equal(j->train.valid_every.unit, TRM_UNIT_NEVER);
    assert_int_equal(j->checkpoint.every.unit, TRM_UNIT_UPDATES);
    trm_job_free(j);
    j = job_of(DATA MODEL "train: {epochs: 1, batch: 8, optimizer: adam}\n");
    assert_true(j->train.optim.weight_decay == 0);
    trm_job_free(j);
    j = job_of(DATA MODEL "train: {epochs: 1, batch: 8, optimizer: {type: rmsprop, momentum: 0.9}}\n");
    assert_int_equal(j->train.optim.kind, TRM_OPT_RMSPROP);
    assert_true(j->train.optim.alpha == 0.99 && j->train.optim.momentum == 0.9 && j->train.optim.eps == 1e-8);
    trm_job_free(j);
    j = job_of(DATA MODEL "train: {epochs: 1, batch: 8, optimizer: {type: lamb, betas: [0.8, 0.9]}}\n");
    assert_int_equal(j->train.optim.kind, TRM_OPT_LAMB);
    assert_true(j->train.optim.beta1 == 0.8 && j->train.optim.beta2 == 0.9);
    trm_job_free(j);
    j = job_of("data: {train: a.h5, mean: 0.5}\n" MODEL TRAIN);
    assert_true(j->data.norm_count == 1 && j->data.mean[0] == 0.5 && j->data.std[0] == 1);
    trm_job_free(j);
}

static void names_the_run(void **state) {
    (void)state;
    static const char *const names[][2] = {{"jobs/my job.v2.yaml", "my_job.v2"},
                                           {"x", "x"},
                                           {"/a/.yaml", ".yaml"},
                                           {"..", "job"},
                                           {"dir/", "job"},
                                           {"\xc3\xa4.yml", "__"}};
    for (size_t i = 0; i < SUPPORT_COUNT(names); i++) {
        trm_job *j = NULL;
        assert_ok(trm_job_parse(names[i][0], GOOD, strlen(GOOD), NULL, 0, &j));
        assert_string_equal(j->run.name, names[i][1]);
        trm_job_free(j);
    }
}

/* ---- bad files ---- */

typedef struct bad_job {
    const char *text, *sentence, *hint;
} bad_job;

static const bad_job bad_jobs[] = {
    /* the file as a whole */
    {"", "job.yaml: the file is empty; a job file needs the sections data, model and train",
     "`trireme help job`"},
    {"# nothing but this\n", "job.yaml: the file is empty", ""},
    {"- data\n- model\n", "job.yaml:1:1: the file is a list; a job file is made of the sections", ""},
    {"hello\n", "job.yaml:1:1: the file is hello; a job file is made of", ""},
    {"data: {train: a.h5\n", "job.yaml:2:1: not YAML: did not find expected ',' or '}'", ""},
    {"data:\n\ttrain: a.h5\n", "job.yaml:2:1: a tab in the indentation; only spaces are allowed there", ""},
    {"data: {train: \xe9.h5}\n", "job.yaml:1:15: byte 0xe9 is not UTF-8 text", ""},
    {GOOD "train: {epochs: 4}\n", "job.yaml:4:1: key `train` is given twice; the first is in line 3", ""},
    {GOOD "---\n" GOOD, "job.yaml:4:1: a second document starts here", ""},
    {"data: &d {train: a.h5}\nx: *d\n", "job.yaml:1:7: anchors (&) and aliases (*) are not allowed", ""},

    /* keys */
    {GOOD "trian: {}\n", "job.yaml:4:1: unknown section `trian`", "did you mean `train`?"},
    {GOOD "epochs: 5\n", "job.yaml:4:1: unknown section `epochs`", "the key is `train.epochs`"},
    {DATA MODEL "train: {epoch: 3, batch: 64}\n", "job.yaml:3:9: unknown key `epoch` in `train`",
     "did you mean `epochs`?"},
    {DATA MODEL "train: {epochs: 3, batch: 64, lr: 0.1}\n", "job.yaml:3:31: unknown key `lr` in `train`",
     "the key is `train.optimizer.lr`"},
    {DATA MODEL "train:\n  epochs: 3\n  batch: 64\n  optimizer: {type: sgd, beta: [0.9, 0.99]}\n",
     "job.yaml:6:26: unknown key `beta` in `train.optimizer`", "did you mean `betas`?"},
    {GOOD "checkpoint: {zzz: 1}\n", "job.yaml:4:14: unknown key `zzz` in `checkpoint`",
     "known here: every, keep, best"},
    {GOOD "checkpoint: {\"every.n\": 1}\n", "job.yaml:4:14: unknown key `every.n` in `checkpoint`", ""},
    {GOOD "run: fast\n", "job.yaml:4:6: `run` is fast; it needs keys below it", ""},
    {GOOD "run: [a]\n", "job.yaml:4:6: `run` is a list; it needs keys below it", ""},

    /* types and ranges */
    {DATA MODEL "train:\n  epochs: 3\n  batch: 0\n",
     "job.yaml:5:10: train.batch is 0; allowed are whole numbers from 1", ""},
    {DATA MODEL "train: {epochs: -1, batch: 64}\n",
     "job.yaml:3:17: train.epochs is -1; allowed are whole numbers from 1", ""},
    {DATA MODEL "train: {epochs: 1.5, batch: 64}\n", "train.epochs is 1.5; allowed are whole numbers from 1",
     ""},
    {DATA MODEL "train: {epochs: three, batch: 64}\n", "train.epochs is three; allowed are whole numbers",
     ""},
    {DATA MODEL "train: {epochs: \"3\", batch: 64}\n", "train.epochs is \"3\"; allowed are whole numbers",
     ""},
    {DATA MODEL "train: {epochs: , batch: 64}\n", "train.epochs is empty; allowed are whole numbers", ""},
    {DATA MODEL "train: {epochs: [3], batch: 64}\n", "train.epochs is a list; allowed are whole numbers", ""},
    {DATA MODEL "train: {epochs: {n: 3}, batch: 64}\n",
     "train.epochs is a map of keys; allowed are whole numbers", ""},
    {DATA MODEL "train: {epochs: 99999999999999999999, batch: 64}\n",
     "train.epochs is 99999999999999999999; allowed are", ""},
    {DATA MODEL "train: {epochs: 3, batch: 2000000000}\n",
     "train.batch is 2000000000; allowed are whole numbers from 1 to 1000000000", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, early_stop: 2}\n",
     "train.early_stop needs validations: data.valid", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, early_stop: 0}\n",
     "train.early_stop.patience is 0; allowed are", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, early_stop: {min_delta: 1}}\n", "min_delta is given without",
     ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, label_smoothing: 1.5}\n",
     "train.label_smoothing is 1.5; allowed are numbers from 0 to 1", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, ignore_index: 1.5}\n",
     "train.ignore_index is 1.5; allowed are whole numbers", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, loss: mse, ignore_index: 1}\n",
     "train.ignore_index is only for train.loss cross_entropy; here it is mse", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, clip: .nan}\n",
     "train.clip is .nan; allowed are numbers from 0", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, clip: inf}\n", "train.clip is inf; allowed are numbers from 0",
     ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, clip: 1e999}\n",
     "train.clip is 1e999; allowed are numbers from 0", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, clip: 1,5}\n", "unknown key `5` in `train`", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, drop_last: maybe}\n",
     "train.drop_last is maybe; allowed are true, false", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, loss: cross-entropy}\n",
     "job.yaml:3:36: train.loss is cross-entropy; allowed are cross_entropy, mse, bce",
     "did you mean `cross_entropy`?"},
    {DATA MODEL "train: {epochs: 3, batch: 6, optimizer: adma}\n",
     "job.yaml:3:41: train.optimizer.type is adma; allowed are sgd, adam, adamw", "did you mean `adam`?"},
    {DATA MODEL "train: {epochs: 3, batch: 6, optimizer: {lr: 0}}\n",
     "train.optimizer.lr is 0; allowed are numbers above 0", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, optimizer: {momentum: 1}}\n",
     "train.optimizer.momentum is 1; allowed are numbers from 0 to below 1", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, optimizer: {type: adam, betas: [0.9]}}\n",
     "train.optimizer.betas is a list; allowed are lists of two numbers from 0 to below 1", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, optimizer: [sgd]}\n",
     "`train.optimizer` is a list; it needs keys below it", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, valid_every: 0}\n",
     "train.valid_every is 0; allowed are epoch, N epochs, N updates, never (N from 1)", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, valid_every: 2 days}\n",
     "train.valid_every is 2 days; allowed are epoch", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, schedule: {type: step, every: never}}\n",
     "train.schedule.every is never; allowed are epoch, N epochs, N updates (N from 1)", ""},
    {GOOD "run: {name: a/b}\n", "run.name is a/b; allowed are letters, digits, `_`, `-` and `.`", ""},
    {GOOD "run: {name: ..}\n", "run.name is ..; allowed are letters", ""},
    {GOOD "run: {seed: -1}\n", "run.seed is -1; allowed are whole numbers from 0", ""},
    {GOOD "device: {backend: cuda}\n", "device.backend is cuda; allowed are cpu, ref", ""},
    {"data: {train: []}\n" MODEL TRAIN,
     "job.yaml:1:15: data.train is an empty list; allowed are a file name or a list of them", ""},
    {"data: {train: [a.h5, [b.h5]]}\n" MODEL TRAIN,
     "job.yaml:1:22: data.train is a list; allowed are a file name", ""},
    {"data: {train: {file: a.h5}}\n" MODEL TRAIN, "data.train is a map of keys; allowed are a file name", ""},
    {"data: {train: a.h5, shape: [3, 0]}\n" MODEL TRAIN,
     "data.shape is a list; allowed are lists of 1 to 5 whole numbers from 1", ""},
    {"data: {train: a.h5, shape: [1, 1, 1, 1, 1, 1]}\n" MODEL TRAIN,
     "data.shape is a list; allowed are lists of 1 to 5", ""},
    {"data: {train: a.h5, train_rows: \"9:9\"}\n" MODEL TRAIN,
     "data.train_rows is \"9:9\"; allowed are FIRST:END with FIRST below END, either may be left out", ""},
    {"data: {train: a.h5, train_rows: 100}\n" MODEL TRAIN, "data.train_rows is 100; allowed are FIRST:END",
     ""},
    {"data: {train: a.h5, train_rows: \"-5:9\"}\n" MODEL TRAIN,
     "data.train_rows is \"-5:9\"; allowed are FIRST:END", ""},
    {"data: {train: a.h5, cache_limit: 2 gigs}\n" MODEL TRAIN,
     "data.cache_limit is 2 gigs; allowed are bytes or a number with KiB", ""},
    {"data: {train: a.h5, std: [1, 0]}\n" MODEL TRAIN,
     "job.yaml:1:30: data.std is 0; allowed are a number or a list of numbers above 0", ""},
    {"data: {train: a.h5, mean: []}\n" MODEL TRAIN, "data.mean is an empty list; allowed are", ""},

    /* keys that depend on each other */
    {MODEL TRAIN, "job.yaml: data.train is missing", "data.train: HDF5 files"},
    {"data: {valid: v.h5}\n" MODEL TRAIN, "job.yaml:1:1: data.train is missing", ""},
    {DATA MODEL "train: {epochs: 3}\n", "job.yaml:3:1: train.batch is missing", ""},
    {DATA MODEL "train: {batch: 3}\n", "job.yaml:3:1: train.epochs is missing", "give `epochs` or `updates`"},
    {DATA MODEL "train: {epochs: 3, updates: 5, batch: 6}\n",
     "job.yaml:3:29: train.epochs and train.updates are both given; allowed is one of them", ""},
    {DATA TRAIN, "job.yaml: the model is missing", "give `model: {preset: mlp}`"},
    {DATA "model: {preset: none}\n" TRAIN, "job.yaml:2:1: the model is missing", ""},
    {DATA "model: {preset: vgg}\n" TRAIN,
     "job.yaml:2:17: model.preset is vgg; allowed are none, mlp, lenet, resnet, gpt", ""},
    {DATA "model: {layers: 4}\n" TRAIN, "job.yaml:2:17: model.layers is 4; allowed is a list of layers", ""},
    {DATA "model: {layers: []}\n" TRAIN, "job.yaml:2:17: model.layers is an empty list; a model needs layers",
     ""},
    {DATA "model: {preset: gpt, layers: [relu]}\n" TRAIN,
     "job.yaml:2:30: model.layers is a list; allowed with preset gpt is the number", ""},
    {DATA "model: {preset: mlp, layers: [relu]}\n" TRAIN, "model.layers and model.preset mlp are both given",
     ""},
    {DATA "model: {preset: lenet, hidden: [5]}\n" TRAIN,
     "job.yaml:2:24: model.hidden is only for model.preset mlp; here it is lenet", ""},
    {DATA "model: {preset: mlp, hidden: [1,2,3,4,5,6,7,8,9]}\n" TRAIN,
     "model.hidden is a list; allowed are lists of 1 to 8 whole numbers", ""},
    {DATA "model: {preset: resnet, depth: 21}\n" TRAIN,
     "job.yaml:2:32: model.depth is 21; allowed are 6n+2: 8, 14, 20", ""},
    {DATA "model: {preset: gpt, dim: 65, heads: 2}\n" TRAIN,
     "job.yaml:2:27: model.dim is 65; allowed are multiples of model.heads, 2", ""},
    {DATA "model: {preset: gpt, dim: 65}\n" TRAIN, "model.dim is 65; allowed are multiples of model.heads, 4",
     ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, optimizer: {type: adam, momentum: 0.9}}\n",
     "job.yaml:3:54: train.optimizer.momentum is only for train.optimizer.type sgd or rmsprop; here it is "
     "adam",
     ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, optimizer: {betas: [0.9, 0.99]}}\n",
     "train.optimizer.betas is only for train.optimizer.type adam or adamw or lamb; here it is sgd", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, optimizer: {nesterov: true}}\n",
     "train.optimizer.nesterov is true; it needs a train.optimizer.momentum above 0", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, schedule: step}\n",
     "job.yaml:3:30: train.schedule.every is missing; it is needed with step", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, schedule: {type: cosine, gamma: 0.1}}\n",
     "train.schedule.gamma is only for train.schedule.type step; here it is cosine", ""},
    {DATA MODEL "train: {epochs: 3, batch: 6, micro_batches: 7}\n",
     "train.micro_batches is 7; allowed are whole numbers up to train.batch, 6", ""},
    {"data: {train: a.h5, mean: [1, 2, 3], std: [1, 2]}\n" MODEL TRAIN,
     "data.std has 2 numbers and data.mean 3; allowed are one or as many", ""},
    {"data: {train: a.h5, target_type: float, classes: 3}\n" MODEL TRAIN,
     "data.classes is given, but data.target_type is float", ""},
#define IN(keys) "data: {train: a.h5, " keys "}\n" MODEL TRAIN
    /* scaling */
    {IN("min: 0"), "job.yaml:1:26: data.min is given without data.max", ""},
    {IN("max: 1"), "job.yaml:1:26: data.max is given without data.min", ""},
    {IN("min: [0, 1], max: [1, 2, 3]"), "data.max has 3 numbers and data.min 2; allowed are one or as many",
     ""},
    {IN("min: 2, max: [3, 2]"), "data.max is 2; allowed are numbers above data.min, 2", ""},
    {IN("mean: 1, min: 0, max: 1"),
     "job.yaml:1:35: data.mean and data.min are both given; inputs are scaled in one way",
     "scale, mean and std; or min and max; or stats"},
    {IN("scale: 1, stats: auto"), "data.scale and data.stats are both given", ""},
    {IN("min: 0, max: 1, stats: s.h5"), "data.min and data.stats are both given", ""},
    {IN("normalize: min_max"), "data.normalize is given without data.stats", ""},
    {IN("stats: auto, normalize: minmax"), "data.normalize is minmax; allowed are mean_std, min_max",
     "did you mean `min_max`?"},
    {IN("stats: auto, window: 5"), "data.stats is given, but data.window reads tokens", ""},
    /* targets */
    {IN("target_type: float, label_map: [1]"),
     "data.label_map is only for data.target_type class or onehot or argmax", ""},
    {IN("target_scale: 2"), "data.target_scale is only for data.target_type float; here it is class", ""},
    {IN("target_type: float, target_scale: 0"), "data.target_scale is 0; allowed are numbers from", ""},
    {IN("target_type: one-hot"), "data.target_type is one-hot; allowed are class, float, onehot, argmax",
     "did you mean `onehot`?"},
    {IN("label_map: {3: x}"),
     "data.label_map is a map of keys; allowed are a map or a list of different whole numbers", ""},
    {IN("label_map: {3: -1}"), "data.label_map is a map of keys; allowed are", ""},
    {IN("label_map: {3: 0, 03: 1}"), "data.label_map is a map of keys; allowed are", ""},
    {IN("label_map: [1, 2, 1]"), "data.label_map is a list; allowed are", ""},
    {IN("label_map: []"), "data.label_map is an empty list; allowed are", ""},
    {IN("label_map: {3: 5}, classes: 5"),
     "data.label_map leads to class 5; allowed are those below data.classes, 5", ""},
    {IN("label_map: [1], window: 5"), "data.label_map is given, but data.window reads tokens", ""},
    {IN("target_type: onehot, window: 5"), "data.target_type is onehot, but data.window reads tokens", ""},
    /* transforms */
    {IN("augment: flip"), "job.yaml:1:30: data.augment is flip; allowed are lists of 1 to 16 transforms", ""},
    {IN("augment: {flip: vertical}"), "data.augment is a map of keys; allowed are lists",
     "a list: `- flip: ...`"},
    {IN("augment: []"), "data.augment is an empty list; allowed are lists", ""},
    {IN("augment: [flop]"), "job.yaml:1:31: unknown transform `flop` in data.augment",
     "did you mean `flip`?"},
    {IN("augment: [rotate: 5]"), "unknown transform `rotate` in data.augment",
     "known here: pad, crop, flip, erase"},
    {IN("augment: [resize: 5]"),
     "`resize` in data.augment: it is the same for all samples, and its place is data.transform", ""},
    {IN("transform: [crop: 5]"),
     "`crop` in data.transform: it is drawn for each sample, and its place is data.augment", ""},
    {IN("augment: [{flip: vertical, crop: 5}]"),
     "`flip` and `crop` stand in one entry; each transform needs a `-`", ""},
    {IN("augment: [[flip]]"), "an entry of data.augment is a list; allowed are a word (`flip`) or a map", ""},
    {IN("augment: [crop]"), "crop needs `size`", "size: height and width"},
    {IN("augment: [crop: {sise: 5}]"), "unknown key `sise` of crop", "did you mean `size`?"},
    {IN("augment: [crop: 0]"), "crop.size is 0; allowed are `AxB`, a whole number or a list of two from 1",
     ""},
    {IN("augment: [crop: 32x0]"), "crop.size is 32x0; allowed are", ""},
    {IN("augment: [crop: 32xx4]"), "crop.size is 32xx4; allowed are", ""},
    {IN("augment: [flip: sideways]"), "flip.direction is sideways; allowed are horizontal, vertical", ""},
    {IN("augment: [flip: {p: 1.5}]"), "flip.p is 1.5; allowed are numbers from 0 to 1", ""},
    {IN("augment: [erase: {area: [0.5, 0.1]}]"),
     "erase.area goes from 0.5 to 0.1; allowed are two numbers that rise", ""},
    {IN("augment: [erase: {ratio: [0, 1]}]"),
     "erase.ratio is a list; allowed are lists of two numbers above 0", ""},
    {IN("augment: [pad: -1]"), "pad.pixels is -1; allowed are", ""},
    {IN("transform: [resize: {size: 8, method: cubic}]"),
     "resize.method is cubic; allowed are bilinear, area", ""},
    {IN("augment: [flip], window: 8"), "data.augment is for images, but data.window reads tokens", ""},

    {GOOD "balance: static\n", "job.yaml:4:1: balance.weights is missing; it is needed with static", ""},
    {GOOD "balance: {weights: [1]}\n", "balance.weights is only for balance.mode static; here it is hybrid",
     ""},
    {GOOD "balance: {mode: static, weights: [0, 0]}\n",
     "job.yaml:4:34: balance.weights are all 0; at least one rank needs work", ""},
    {GOOD "balance: {mode: static, weights: [1, -1]}\n",
     "job.yaml:4:38: balance.weights is -1; allowed are probe, or a number or a list of numbers from 0", ""},
    {GOOD "balance: dynamik\n", "balance.mode is dynamik; allowed are off, static, dynamic, hybrid, replay",
     ""},
    {GOOD "balance: replay\n", "job.yaml:4:1: balance.from is missing; it is needed with replay", ""},
    {GOOD "balance: {mode: static, weights: [1], every: 5}\n",
     "balance.every is only for balance.mode dynamic or hybrid; here it is static", ""},
    {GOOD "balance: {threshold: 101%}\n",
     "balance.threshold is 101%; allowed are percent or numbers from 0 to 1", ""},
    {GOOD "balance: {threshold: '%'}\n", "balance.threshold is \"%\"; allowed are", ""},
    {GOOD "balance: {threshold: -1%}\n",
     "balance.threshold is -1%; allowed are percent or numbers from 0 to 1", ""},
    {GOOD "balance: {threshold: x%}\n", "balance.threshold is x%; allowed are percent or numbers from 0 to 1",
     ""},
    {GOOD "balance: {every: never}\n", "balance.every is never; allowed are ", ""},
    {GOOD "balance: {mode: static, weights: prob}\n",
     "balance.weights is prob; allowed are probe, or a number or a list of numbers from 0", ""},
};

static void refuses_bad_files(void **state) {
    (void)state;
    for (size_t i = 0; i < SUPPORT_COUNT(bad_jobs); i++) {
        assert_fault(try_parse(bad_jobs[i].text, strlen(bad_jobs[i].text), NULL, 0), TRM_JOB,
                     bad_jobs[i].sentence);
        if (!strstr(trm_error_hint(), bad_jobs[i].hint))
            fail_msg("hint of '%s' is '%s', not '%s'", bad_jobs[i].sentence, trm_error_hint(),
                     bad_jobs[i].hint);
        if (strchr(trm_error_text(), '\n')) fail_msg("'%s' has two lines", trm_error_text());
    }
}

/* ---- overrides ---- */

static void takes_overrides(void **state) {
    (void)state;
    static const char *const set[] = {"train.updates=7",
                                      "data.train=[x.h5, y.h5]",
                                      "train.optimizer.lr=0.5",
                                      "train.optimizer=adamw",
                                      "train.optimizer.lr=0.25",
                                      "model.hidden=[8]",
                                      "balance={mode: static, weights: [1, 2]}",
                                      "run.name=other"};
    trm_job *j = job_with(GOOD, set, SUPPORT_COUNT(set));
    assert_int_equal(j->train.updates, 7);
    assert_int_equal(j->train.epochs, 0);
    assert_int_equal(j->data.n_train, 2);
    assert_string_equal(j->data.train[1], "y.h5");
    assert_int_equal(j->train.optim.kind, TRM_OPT_ADAMW);
    assert_true(j->train.schedule.lr == 0.25);
    assert_int_equal(j->model.zoo.n_hidden, 1);
    assert_int_equal(j->balance.n_weights, 2);
    assert_string_equal(j->run.name, "other");
    trm_job_free(j);
    static const char *const whole[] = {"data.train=a.h5", "model=mlp", "train={epochs: 1, batch: 2}"};
    j = job_with("", whole, 3);
    assert_int_equal(j->train.batch, 2);
    trm_job_free(j);
}

static void refuses_bad_overrides(void **state) {
    (void)state;
    static const char *const wrong[][3] = {
        {"train.epochs=x", "--set train.epochs=x: train.epochs is x; allowed are whole numbers from 1", ""},
        {"train.epoch=3", "--set train.epoch=3: unknown key `epoch` in `train`", "did you mean `epochs`?"},
        {"tarin.epochs=3", "--set tarin.epochs=3: unknown section `tarin`", "did you mean `train`?"},
        {"train.epochs", "--set train.epochs: a setting is written KEY=VALUE",
         "for example: --set train.epochs=3"},
        {"train.batch.size=3", "--set train.batch.size=3: `size` cannot be set in the value 64", ""},
        {"train.optimizer.beta=3", "unknown key `beta` in `train.optimizer`", "did you mean `betas`?"},
        {"data.train=[", "--set data.train=[: not YAML", ""},
    };
    for (size_t i = 0; i < SUPPORT_COUNT(wrong); i++) {
        assert_fault(try_parse(GOOD, strlen(GOOD), &wrong[i][0], 1), TRM_JOB, wrong[i][1]);
        if (!strstr(trm_error_hint(), wrong[i][2]))
            fail_msg("'%s' has hint '%s'", wrong[i][1], trm_error_hint());
    }
    static const char *const both[] = {"train.epochs=3", "train.updates=3"};
    assert_fault(try_parse(GOOD, strlen(GOOD), both, 2), TRM_JOB,
                 "train.epochs and train.updates are both given");
}

/* ---- files beside the job file ---- */

static void finds_files_beside_the_job_file(void **state) {
    (void)state;
    static const char text[] =
        "data: {train: [beside.h5, \"bes*.h5\", \"@names.txt\", nowhere.h5, /beside.h5], valid: beside.h5}\n"
        "model: {preset: mlp, init: beside.h5}\n" TRAIN;
    char path[4096], want[4096 + 32];
    support_file("beside.h5", "x");
    support_file("names.txt", "beside.h5\n");
    snprintf(path, sizeof path, "%s/job.yaml", support_dir());
    trm_job *j = NULL;
    assert_ok(trm_job_parse(path, text, strlen(text), NULL, 0, &j));
    snprintf(want, sizeof want, "%s/beside.h5", support_dir());
    assert_string_equal(j->data.train[0], want);
    assert_string_equal(j->data.valid[0], want);
    assert_string_equal(j->model_init, want);
    snprintf(want, sizeof want, "%s/bes*.h5", support_dir());
    assert_string_equal(j->data.train[1], want);
    snprintf(want, sizeof want, "@%s/names.txt", support_dir());
    assert_string_equal(j->data.train[2], want);
    assert_string_equal(j->data.train[3], "nowhere.h5");
    assert_string_equal(j->data.train[4], "/beside.h5");
    trm_job_free(j);
}

/* ---- writing ---- */

static void assert_round_trip(const char *text) {
    trm_str first = {0}, second = {0};
    trm_job *a = job_of(text), *b = NULL;
    assert_ok(trm_job_write(a, &first));
    if (trm_job_parse("other/file.yaml", first.p, first.len, NULL, 0, &b) != TRM_OK)
        fail_msg("%s\n%s", trm_error_text(), first.p);
    assert_ok(trm_job_write(b, &second));
    assert_string_equal(first.p, second.p);
    /* What owns no memory is equal to the byte, so the text leaves nothing out. */
    assert_memory_equal(&a->train, &b->train, sizeof a->train);
    assert_memory_equal(&a->model, &b->model, sizeof a->model);
    assert_memory_equal(&a->checkpoint, &b->checkpoint, sizeof a->checkpoint);
    assert_true(a->data.scale == b->data.scale && a->data.norm_count == b->data.norm_count);
    assert_int_equal(a->data.cache_limit, b->data.cache_limit);
    assert_int_equal(a->data.train_count, b->data.train_count);
    assert_int_equal(a->data.n_train, b->data.n_train);
    for (int i = 0; i < a->data.n_train; i++) assert_string_equal(a->data.train[i], b->data.train[i]);
    trm_job_free(a);
    trm_job_free(b);
    trm_str_free(&first);
    trm_str_free(&second);
}

static void writes_what_reads_back(void **state) {
    (void)state;
    assert_round_trip(GOOD);
    assert_round_trip(every_key);
    assert_round_trip(other_keys);
    assert_round_trip("data: {train: a.h5, stats: auto, label_map: [3, 7]}\n" MODEL TRAIN);
    assert_round_trip("data: {train: a.h5, target_type: float, target_bias: -1}\n" MODEL TRAIN);
    assert_round_trip(
        "data: {train: [\"a b.h5\", 'x: y', \"-\", \"null\", \"#\", \"q\\\"\\\\\"], std: [2, 3]}\n"
        "model:\n  layers:\n    - linear: {out: 5, name: x}\n    - residual: {layers: [{linear: 5}, relu], "
        "act: relu}\n"
        "    - repeat: {times: 2, layers: [{linear: 5}]}\n    - add: {from: x}\n" TRAIN
        "balance: {mode: static, weights: [0.1, 1e-7, 123456789.125]}\n");
    assert_round_trip(DATA "model: resnet\ntrain: {epochs: 1, batch: 1, schedule: {type: step, every: 2 "
                           "epochs, gamma: 0.3}, optimizer: adam}\n");
}

/* A locale with a decimal comma changes neither reading nor writing; skipped where none is installed. */
static void does_not_depend_on_the_locale(void **state) {
    (void)state;
    char old[64];
    snprintf(old, sizeof old, "%s", setlocale(LC_ALL, NULL));
    bool comma =
        setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8") || setlocale(LC_ALL, "de_DE");
    assert_round_trip(every_key);
    char buf[32];
    assert_string_equal(trm_job_number(0.25, buf), "0.25");
    setlocale(LC_ALL, old);
    if (!comma) skip();
}

static void writes_numbers(void **state) {
    (void)state;
    static const struct {
        double v;
        const char *text;
    } numbers[] = {
        {0, "0"},
        {1, "1"},
        {-3, "-3"},
        {1000000, "1000000"},
        {0.1, "0.1"},
        {0.3, "0.3"},
        {0.1 + 0.2, "0.30000000000000004"},
        {3e-4, "0.0003"},
        {1e-8, "1e-08"},
        {1e300, "1e+300"},
        {123456789.125, "123456789.125"},
    };
    char buf[32];
    for (size_t i = 0; i < SUPPORT_COUNT(numbers); i++)
        assert_string_equal(trm_job_number(numbers[i].v, buf), numbers[i].text);
}

static void prints_a_table(void **state) {
    (void)state;
    trm_str s = {0};
    trm_job *j = job_of(GOOD);
    trm_job_table(j, &s);
    assert_non_null(strstr(s.p, "  train.batch                     64 samples\n"));
    assert_non_null(
        strstr(s.p, "  run.seed                        1                                default\n"));
    assert_null(strstr(s.p, "betas"));
    trm_job_free(j);
    trm_str_free(&s);
}

/* The table of keys is sound: each default is a value of its key, each `only` names a choice and its values. */
static void has_a_sound_table(void **state) {
    (void)state;
    for (const trm_job_key *k = trm_job_keys; k->path; k++) {
        trm_job j = {0};
        if (k->def) assert_ok(trm_job_value_default(k, k->def, &j));
        if (k->alt_def) assert_ok(trm_job_value_default(k, k->alt_def, &j));
        trm_job_value_free(k, &j);
        assert_non_null(k->about);
        if (!k->only_key) continue;
        const trm_job_key *selector = trm_job_key_find(k->only_key);
        assert_non_null(selector);
        assert_int_equal(selector->kind, TRM_KEY_CHOICE);
        char words[64];
        snprintf(words, sizeof words, "%s", k->only);
        for (char *save, *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
            int found = 0;
            for (int i = 0; selector->names[i]; i++) found += !strcmp(selector->names[i], w);
            assert_int_equal(found, 1);
        }
    }
}

/* docs/job-file.md holds the reference that the table gives. */
static void is_documented(void **state) {
    (void)state;
    static const char begin[] = "<!-- reference: made from the table of keys -->\n";
    trm_str s = {0};
    char *doc = NULL;
    size_t n;
    trm_job_reference(&s);
    assert_false(s.failed);
    if (access("docs/job-file.md", R_OK)) skip();
    assert_ok(trm_read_file("docs/job-file.md", 1 << 20, &doc, &n));
    char *at = strstr(doc, begin);
    assert_non_null(at);
    at += strlen(begin);
    bool same = !strcmp(at, s.p);
    if (!same && getenv("UPDATE_DOCS")) {
        trm_str whole = {0};
        trm_str_addn(&whole, doc, (size_t)(at - doc));
        trm_str_addn(&whole, s.p, s.len);
        assert_ok(trm_write_file("docs/job-file.md", whole.p, whole.len));
        trm_str_free(&whole);
        same = true;
    }
    trm_free(doc);
    trm_str_free(&s);
    if (!same) fail_msg("docs/job-file.md is not true of the keys; UPDATE_DOCS=1 makes it so");
}

/* Each example parses. */
static void examples_are_good(void **state) {
    (void)state;
    static const char *const names[] = {"mlp", "lenet", "resnet20", "gpt"};
    for (size_t i = 0; i < SUPPORT_COUNT(names); i++) {
        char path[64], *text;
        size_t n;
        trm_job *j = NULL;
        snprintf(path, sizeof path, "docs/examples/%s.yaml", names[i]);
        if (access(path, R_OK)) skip();
        assert_ok(trm_read_file(path, 1 << 20, &text, &n));
        assert_ok(trm_job_parse(path, text, n, NULL, 0, &j));
        assert_string_equal(j->run.name, names[i]);
        trm_job_free(j);
        trm_free(text);
    }
}

/* ---- torture ---- */

static void survives_cuts(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof every_key; n++) {
        trm_status s = try_parse(every_key, n, NULL, 0);
        assert_true(s == TRM_OK || s == TRM_JOB);
    }
}

/* One byte at a time becomes something else. */
static void change_bytes(const char *from, size_t n) {
    static const char others[] = "\0\n:,[]{}\"'#&*!|>-?%@`~0\xff";
    char text[sizeof every_key + sizeof other_keys];
    for (size_t i = 0; i < n; i++) {
        memcpy(text, from, n);
        text[i] = others[i % (sizeof others - 1)];
        trm_status s = try_parse(text, n, NULL, 0);
        assert_true(s == TRM_OK || s == TRM_JOB);
    }
}

static void survives_changed_bytes(void **state) {
    (void)state;
    change_bytes(every_key, sizeof every_key - 1);
    change_bytes(other_keys, sizeof other_keys - 1);
}

static void survives_failing_memory(void **state) {
    (void)state;
    static const char text[] = "data: {train: [a.h5, b.h5], mean: [1, 2], std: 3, label_map: {1: 0}, "
                               "augment: [flip]}\nmodel:\n  layers:\n    - "
                               "linear: {out: 5, name: x}\n"
                               "    - repeat: {times: 2, layers: [{linear: 5}, relu]}\n" TRAIN;
    static const char *const set[] = {"train.optimizer=adam"};
    for (uint64_t i = 1;; i++) {
        trm_mem_fail_after(i);
        trm_status s = try_parse(text, strlen(text), set, 1);
        trm_mem_fail_after(0);
        if (s == TRM_OK) break;
        assert_int_equal(s, TRM_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_defaults),
        cmocka_unit_test(reads_every_key),
        cmocka_unit_test(reads_transforms),
        cmocka_unit_test(reads_scales_and_targets),
        cmocka_unit_test(writes_settled_statistics),
        cmocka_unit_test(reads_losses),
        cmocka_unit_test(reads_early_stop),
        cmocka_unit_test(reads_short_forms),
        cmocka_unit_test(names_the_run),
        cmocka_unit_test(refuses_bad_files),
        cmocka_unit_test(takes_overrides),
        cmocka_unit_test(refuses_bad_overrides),
        cmocka_unit_test(finds_files_beside_the_job_file),
        cmocka_unit_test(writes_what_reads_back),
        cmocka_unit_test(does_not_depend_on_the_locale),
        cmocka_unit_test(writes_numbers),
        cmocka_unit_test(prints_a_table),
        cmocka_unit_test(has_a_sound_table),
        cmocka_unit_test(is_documented),
        cmocka_unit_test(examples_are_good),
        cmocka_unit_test(survives_cuts),
        cmocka_unit_test(survives_changed_bytes),
        cmocka_unit_test(survives_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
