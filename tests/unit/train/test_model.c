/* The model section: presets equal to the parameter, lists of layers, and the sentence of each slip. */
#include <math.h>
#include <string.h>

#include "job_impl.h"
#include "support.h"

static trm_job *job_of(const char *model) {
    trm_job *j = NULL;
    trm_str s = {0};
    trm_str_add(&s, "%s\ndata: {train: a.h5}\ntrain: {epochs: 1, batch: 1}\n", model);
    assert_ok(trm_job_parse("job.yaml", s.p, s.len, NULL, 0, &j));
    trm_str_free(&s);
    return j;
}

static trm_data_info images(int64_t c, int64_t h, int64_t w) {
    return (trm_data_info){.samples = 100,
                           .kind = TRM_DATA_SAMPLES,
                           .x = trm_shape_of(3, c, h, w),
                           .y_is_class = true,
                           .classes = 10};
}

static trm_data_info tokens(int64_t window, int64_t vocab) {
    trm_shape t = trm_shape_of(1, window);
    return (trm_data_info){
        .samples = 100, .kind = TRM_DATA_TOKEN_STREAM, .x = t, .y = t, .y_is_class = true, .classes = vocab};
}

static trm_data_info vectors(int64_t n, int64_t targets) {
    return (trm_data_info){
        .samples = 100, .kind = TRM_DATA_SAMPLES, .x = trm_shape_of(1, n), .y = trm_shape_of(1, targets)};
}

static trm_graph *graph_of(const char *model, trm_data_info data) {
    trm_graph *g = NULL;
    trm_job *j = job_of(model);
    assert_ok(trm_job_model(j, &data, &g));
    trm_job_free(j);
    return g;
}

static const trm_param *param(const trm_graph *g, const char *name) {
    int i = trm_graph_param_find(g, name);
    if (i < 0) fail_msg("there is no parameter %s", name);
    return trm_graph_param(g, i);
}

static void assert_shape(const trm_graph *g, const char *name, const char *want) {
    char buf[80];
    assert_string_equal(trm_shape_text(&param(g, name)->shape, buf, sizeof buf), want);
}

static int state_count(const trm_graph *g) {
    int n = 0;
    for (int i = 0; i < trm_graph_params(g); i++) n += trm_graph_param(g, i)->kind == TRM_STATE;
    return n;
}

/* ---- presets: counts by hand ---- */

static void builds_mlp(void **state) {
    (void)state;
    trm_graph *g = graph_of("model: mlp", images(1, 28, 28));
    /* 784*512+512 + 512*512+512 + 512*10+10 = 401920 + 262656 + 5130 */
    assert_int_equal(trm_graph_param_count(g), 669706);
    assert_int_equal(trm_graph_params(g), 6);
    assert_shape(g, "fc1.weight", "(512,784)");
    assert_shape(g, "fc3.bias", "(10)");
    assert_int_equal(param(g, "fc1.weight")->init, TRM_INIT_TORCH);
    assert_int_equal(param(g, "fc1.bias")->init, TRM_INIT_TORCH);
    trm_graph_free(g);
    g = graph_of("model: {preset: mlp, hidden: 3}", images(2, 2, 2));
    assert_int_equal(trm_graph_param_count(g), 8 * 3 + 3 + 3 * 10 + 10);
    trm_graph_free(g);
    g = graph_of("model: {preset: mlp, hidden: [4]}\n", images(1, 1, 1));
    assert_int_equal(trm_graph_param_count(g), 4 + 4 + 40 + 10);
    trm_graph_free(g);
}

static void builds_mlp_for_regression(void **state) {
    (void)state;
    trm_graph *g = NULL;
    trm_job *j = NULL;
    static const char text[] = "model: {preset: mlp, hidden: [7]}\ndata: {train: a.h5, target_type: float}\n"
                               "train: {epochs: 1, batch: 1, loss: mse}\n";
    trm_data_info data = vectors(5, 3);
    assert_ok(trm_job_parse("job.yaml", text, strlen(text), NULL, 0, &j));
    assert_ok(trm_job_model(j, &data, &g));
    assert_int_equal(trm_graph_param_count(g), 5 * 7 + 7 + 7 * 3 + 3);
    trm_graph_free(g);
    trm_job_free(j);
}

static void builds_lenet(void **state) {
    (void)state;
    trm_graph *g = graph_of("model: lenet", images(1, 28, 28));
    /* 20*25+20 + 50*20*25+50 + 800*500+500 + 500*10+10 = 520 + 25050 + 400500 + 5010 */
    assert_int_equal(trm_graph_param_count(g), 431080);
    assert_shape(g, "conv1.weight", "(20,1,5,5)");
    assert_shape(g, "conv2.bias", "(50)");
    assert_shape(g, "fc1.weight", "(500,800)");
    assert_shape(g, "fc2.weight", "(10,500)");
    assert_int_equal(param(g, "conv1.bias")->init, TRM_INIT_TORCH);
    trm_graph_free(g);
}

static void builds_resnet(void **state) {
    (void)state;
    trm_graph *g = graph_of("model: {preset: resnet}", images(3, 32, 32));
    /* conv1 432, bn1 32; group 1: 6 convolutions of 2304 and 6 norms of 32 = 14016;
     * group 2: 4608 + 5*9216 + 512 + 7*64 = 51648; group 3: 18432 + 5*36864 + 2048 + 7*128 = 205696; fc 650 */
    assert_int_equal(trm_graph_param_count(g), 432 + 32 + 14016 + 51648 + 205696 + 650);
    assert_int_equal(trm_graph_param_count(g), 272474);
    assert_shape(g, "layer1.0.conv1.weight", "(16,16,3,3)");
    assert_shape(g, "layer2.0.downsample.0.weight", "(32,16,1,1)");
    assert_shape(g, "layer2.0.downsample.1.weight", "(32)");
    assert_shape(g, "layer3.2.bn2.bias", "(64)");
    assert_int_equal(trm_graph_param_find(g, "layer1.0.downsample.0.weight"), -1);
    assert_int_equal(trm_graph_param_find(g, "conv1.bias"), -1);
    assert_int_equal(param(g, "layer3.0.conv1.weight")->init, TRM_INIT_KAIMING_NORMAL);
    assert_int_equal(param(g, "layer3.0.conv1.weight")->fan_in, 32 * 9);
    assert_int_equal(param(g, "fc.weight")->init, TRM_INIT_TORCH);
    /* 21 norms, each with a running mean and variance */
    assert_int_equal(state_count(g), 42);
    trm_graph_free(g);
    g = graph_of("model: {preset: resnet, depth: 8, sync: false}", images(3, 32, 32));
    assert_int_equal(trm_graph_param_count(g), 432 + 32 + (2 * 2304 + 64) + (4608 + 9216 + 512 + 192) +
                                                   (18432 + 36864 + 2048 + 384) + 650);
    trm_graph_free(g);
}

static void builds_gpt(void **state) {
    (void)state;
    trm_graph *g = graph_of("model: gpt", tokens(128, 256));
    /* wte 256*256, wpe 128*256; a block: 12*256^2 weights, 9*256 biases, 4*256 of norms; ln_f 2*256 */
    int64_t block = 12 * 256 * 256 + 13 * 256;
    assert_int_equal(trm_graph_param_count(g), 256 * 256 + 128 * 256 + 4 * block + 512);
    assert_int_equal(trm_graph_param_count(g), 3257856);
    assert_shape(g, "wte.weight", "(256,256)");
    assert_shape(g, "wpe.weight", "(128,256)");
    assert_shape(g, "h.0.attn.qkv.weight", "(768,256)");
    assert_shape(g, "h.3.attn.proj.bias", "(256)");
    assert_shape(g, "h.3.mlp.fc.weight", "(1024,256)");
    assert_shape(g, "h.3.mlp.proj.weight", "(256,1024)");
    assert_shape(g, "h.1.ln_2.bias", "(256)");
    assert_shape(g, "ln_f.weight", "(256)");
    assert_int_equal(trm_graph_param_find(g, "head.weight"), -1);
    assert_int_equal(trm_graph_param_find(g, "head.bias"), -1);
    static const char *const wide[] = {"wte.weight", "wpe.weight", "h.0.attn.qkv.weight",
                                       "h.0.mlp.fc.weight"};
    static const char *const narrow[] = {"h.0.attn.proj.weight", "h.3.mlp.proj.weight"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(param(g, wide[i])->init, TRM_INIT_NORMAL);
        assert_true(param(g, wide[i])->std == 0.02);
    }
    for (int i = 0; i < 2; i++) assert_bound(fabs(param(g, narrow[i])->std - 0.02 / sqrt(8)), 1e-17);
    assert_int_equal(param(g, "h.0.attn.qkv.bias")->init, TRM_INIT_ZEROS);
    trm_graph_free(g);
    g = graph_of("model: {preset: gpt, layers: 1, dim: 8, heads: 2, context: 32, vocab: 50, dropout: 0.5}",
                 tokens(16, 40));
    assert_int_equal(trm_graph_param_count(g), 50 * 8 + 32 * 8 + 12 * 64 + 13 * 8 + 16);
    assert_true(trm_graph_find(g, "h.0.drop_2") >= 0);
    trm_graph_free(g);
}

/* ---- lists of layers ---- */

static void lists_equal_presets(void **state) {
    (void)state;
    trm_graph *g = graph_of(
        "model:\n  layers:\n"
        "    - conv2d: {out: 20, kernel: 5, name: conv1}\n    - relu\n    - max_pool: 2\n"
        "    - conv2d: {out: 50, kernel: [5, 5]}\n      name: conv2\n    - relu:\n    - max_pool: {kernel: "
        "2}\n"
        "    - flatten\n    - {linear: 500, name: fc1}\n    - relu: {}\n    - linear: {out: 10, name: fc2}\n",
        images(1, 28, 28));
    trm_graph *p = graph_of("model: lenet", images(1, 28, 28));
    assert_int_equal(trm_graph_params(g), trm_graph_params(p));
    for (int i = 0; i < trm_graph_params(g); i++) {
        assert_string_equal(trm_graph_param(g, i)->name, trm_graph_param(p, i)->name);
        assert_true(trm_shape_equal(&trm_graph_param(g, i)->shape, &trm_graph_param(p, i)->shape));
    }
    trm_graph_free(g);
    trm_graph_free(p);
}

static void repeats_and_adds(void **state) {
    (void)state;
    trm_graph *g = graph_of("model:\n  layers:\n"
                            "    - flatten\n"
                            "    - linear: {out: 8, name: first}\n"
                            "    - repeat:\n        name: r\n        times: 3\n        layers:\n"
                            "          - linear: {out: 8, name: a}\n          - relu\n"
                            "          - linear: {out: 8, name: b}\n          - add: {from: a}\n"
                            "    - add: {from: [r.1.b, first]}\n"
                            "    - add: {from: r}\n"
                            "    - residual: {layers: [{linear: 8}, relu], shortcut: [{linear: {out: 8, "
                            "bias: false, name: side}}], act: relu, name: res}\n"
                            "    - residual: {layers: [{linear: {out: 8, name: inner}}]}\n"
                            "    - linear: 10\n",
                            images(1, 4, 4));
    assert_shape(g, "r.2.a.weight", "(8,8)");
    assert_shape(g, "r.0.b.weight", "(8,8)");
    assert_shape(g, "res.side.weight", "(8,8)");
    assert_shape(g, "inner.weight", "(8,8)");
    assert_true(trm_graph_find(g, "res.add") >= 0 && trm_graph_find(g, "res.relu") >= 0);
    assert_int_equal(trm_graph_param_count(g), 16 * 8 + 8 + 6 * (64 + 8) + 72 + 64 + 72 + 90);
    trm_graph_free(g);
}

static void joins_and_reshapes(void **state) {
    (void)state;
    trm_graph *g = graph_of("model:\n  layers:\n"
                            "    - conv2d: {out: 4, kernel: 3, pad: 2, dilation: 2, name: a}\n"
                            "    - group_norm: 2\n"
                            "    - silu\n"
                            "    - concat: {from: a}\n"
                            "    - concat: {from: [concat1, input, a], name: all}\n"
                            "    - group_norm: {groups: 1, affine: false, name: plain}\n"
                            "    - reshape: [13, 16]\n"
                            "    - softmax\n"
                            "    - residual: {layers: [{linear: 16}], act: silu}\n"
                            "    - reshape: {shape: [4, 4, 13], name: last}\n"
                            "    - flatten\n"
                            "    - linear: 10\n",
                            images(1, 4, 4));
    char buf[80];
    assert_shape(g, "a.weight", "(4,1,3,3)");
    assert_shape(g, "group_norm1.bias", "(4)");
    assert_int_equal(trm_graph_param_find(g, "plain.weight"), -1);
    assert_string_equal(trm_shape_text(trm_graph_shape(g, trm_graph_find(g, "all")), buf, sizeof buf),
                        "(13,4,4)");
    assert_string_equal(trm_shape_text(trm_graph_shape(g, trm_graph_find(g, "last")), buf, sizeof buf),
                        "(4,4,13)");
    trm_graph_free(g);
}

/* One number serves each axis; lists have one for each. */
static void windows_have_sizes(void **state) {
    (void)state;
    trm_graph *g = graph_of("model:\n  layers:\n"
                            "    - conv2d: {out: 4, kernel: [3, 2], pad: [1, 0], name: a}\n"
                            "    - conv_transpose2d: {out: 6, kernel: 2, stride: 2, groups: 2, name: b}\n"
                            "    - adaptive_avg_pool: {size: [2, 8], name: c}\n"
                            "    - reshape: {shape: [2, 3, 4, 4], name: d}\n"
                            "    - conv3d: {out: 3, kernel: [2, 3, 1], stride: [1, 1, 2], name: e}\n"
                            "    - max_pool: {kernel: 2, name: f}\n"
                            "    - reshape: [1, 3]\n"
                            "    - conv1d: {out: 5, kernel: [3], name: h}\n"
                            "    - flatten\n"
                            "    - linear: 10\n",
                            images(1, 4, 5));
    static const struct {
        const char *layer, *shape;
    } want[] = {{"a", "(4,4,4)"},   {"b", "(6,8,8)"},   {"c", "(6,2,8)"}, {"d", "(2,3,4,4)"},
                {"e", "(3,2,2,2)"}, {"f", "(3,1,1,1)"}, {"h", "(5,1)"}};
    char buf[80];
    for (size_t i = 0; i < SUPPORT_COUNT(want); i++)
        assert_string_equal(
            trm_shape_text(trm_graph_shape(g, trm_graph_find(g, want[i].layer)), buf, sizeof buf),
            want[i].shape);
    assert_shape(g, "b.weight", "(4,3,2,2)");
    assert_shape(g, "e.weight", "(3,2,2,3,1)");
    assert_shape(g, "h.weight", "(5,1,3)");
    trm_graph_free(g);
}

static void builds_transformers(void **state) {
    (void)state;
    trm_graph *g = graph_of("model:\n  layers:\n"
                            "    - embedding: {vocab: 20, dim: 12, name: wte, init: normal, std: 0.02}\n"
                            "    - positional_embedding: 8\n"
                            "    - repeat: {times: 2, name: h, layers: [{transformer: {heads: 3, expand: 2, "
                            "init: normal, std: 0.5, out_std: 0.25, name: block}}]}\n"
                            "    - transformer: 4\n"
                            "    - attention: {heads: 2, name: att}\n"
                            "    - layer_norm\n"
                            "    - linear: {out: 20, bias: false, tie: wte}\n",
                            tokens(8, 20));
    assert_shape(g, "h.1.block.mlp.fc.weight", "(24,12)");
    assert_true(param(g, "h.1.block.attn.qkv.weight")->std == 0.5);
    assert_true(param(g, "h.1.block.attn.proj.weight")->std == 0.25);
    assert_true(param(g, "h.1.block.mlp.proj.weight")->std == 0.25);
    assert_shape(g, "transformer1.mlp.fc.weight", "(48,12)");
    assert_int_equal(param(g, "transformer1.mlp.fc.weight")->init, TRM_INIT_TORCH);
    assert_shape(g, "att.qkv.weight", "(36,12)");
    trm_graph_free(g);
}

/* ---- slips that show when the file is read ---- */

typedef struct slip {
    const char *layers, *sentence, *hint;
} slip;

static const slip slips[] = {
    {"[lineer: 5]", "job.yaml:1:18: unknown layer `lineer`", "did you mean `linear`?"},
    {"[xyzzy]", "job.yaml:1:18: unknown layer `xyzzy`", "layers are linear, conv1d"},
    {"[linear]", "job.yaml:1:18: linear needs `out`", "out: output features"},
    {"[linear: ]", "linear needs `out`", ""},
    {"[linear: 0]", "job.yaml:1:26: linear.out is 0; allowed are whole numbers from 1", ""},
    {"[linear: x]", "linear.out is x; allowed are whole numbers from 1", ""},
    {"[linear: [1, 2]]", "linear.out is a list; allowed are whole numbers", ""},
    {"[linear: {out: 5, bais: true}]", "job.yaml:1:35: unknown key `bais` of linear", "did you mean `bias`?"},
    {"[linear: {out: 5, zzzzz: true}]", "unknown key `zzzzz` of linear",
     "keys of linear are out, bias, tie, init, std, name, from"},
    {"[linear: {out: 5, bias: 1}]", "linear.bias is 1; allowed are true, false", ""},
    {"[linear: {out: 5, init: xavier}]", "linear.init is xavier; allowed are default, zeros, ones, torch",
     ""},
    {"[linear: {out: 5, std: -1}]", "linear.std is -1; allowed are numbers from 0", ""},
    {"[conv2d: {out: 5, kernel: [3]}, {conv2d: 5}]", "conv2d needs `kernel`", ""},
    {"[conv3d: {out: 5, kernel: [1, 2, 3, 4]}]",
     "conv3d.kernel is a list; allowed are a whole number or a list with one for each axis from 1", ""},
    {"[dropout: 1]", "dropout.p is 1; allowed are numbers from 0 to 0.999", ""},
    {"[relu: 5]", "job.yaml:1:24: relu takes no value, but 5 is given", "write `- relu`"},
    {"[relu: {x: 5}]", "unknown key `x` of relu", ""},
    {"[{linear: 5, relu: }]",
     "job.yaml:1:30: `linear` and `relu` stand in one entry; each layer needs a `-` of its own", ""},
    {"[{linear: 5, bias: false}]", "unknown key `bias` beside `linear`",
     "a layer's keys stand in its map: `linear: {bias: ...}`"},
    {"[{name: x}]", "job.yaml:1:18: an entry of the list names no layer", ""},
    {"[{}]", "an entry of the list names no layer", ""},
    {"[[relu]]", "an entry of the layers is a list; allowed are a word (`relu`) or a map (`linear: 512`)",
     ""},
    {"[~]", "an entry of the layers is empty", ""},
    {"[{linear: {out: 5, name: a}, name: b}]", "`name` is given twice for one layer", ""},
    {"[linear: {out: 5, name: a}, linear: {out: 5, name: a}]", "job.yaml:1:68: two layers are named `a`", ""},
    {"[linear: {out: 5, name: input}]", "two layers are named `input`", ""},
    {"[linear: {out: 5, name: a/b}]",
     "the layer's name is a/b; allowed are letters, digits, `_`, `-` and inner `.`", ""},
    {"[linear: {out: 5, name: [a]}]", "the layer's name is a list", ""},
    {"[linear: {out: 5, name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}]",
     "is too long; allowed are 63 bytes", ""},
    {"[linear: {out: 5, name: first}, linear: {out: 5, from: frist}]",
     "job.yaml:1:72: no earlier layer is named frist", "did you mean `first`?"},
    {"[linear: {out: 5, from: later}, linear: {out: 5, name: later}]", "no earlier layer is named later", ""},
    {"[linear: {out: 5, from: [input, input]}]", "`from` is a list; linear reads 1 value", ""},
    {"[linear: {out: 5, from: []}]", "`from` is an empty list; linear reads 1 value", ""},
    {"[add]", "job.yaml:1:18: add reads two values; it needs `from`", "for example `add: {from: [a, b]}`"},
    {"[add: {from: [input, input, input]}]", "`from` is a list; add reads 2 values", ""},
    {"[concat]", "job.yaml:1:18: concat reads two or more values; it needs `from`",
     "for example `concat: {from: [a, b]}`"},
    {"[concat: {from: [input, input, input, input, input, input, input, input, input]}]",
     "`from` is a list; concat reads 2 to 8 values", ""},
    {"[reshape: [0, 5]]", "reshape.shape is a list; allowed are lists of 1 to 5 whole numbers from 1", ""},
    {"[reshape]", "reshape needs `shape`", ""},
    {"[linear: {out: 5, name: a}, linear: {out: 5, from: input}]",
     "job.yaml:1:18: nothing reads the value of layer `a`", ""},
    {"[linear: {out: 5, tie: wte}]", "no earlier layer is named wte", ""},
    {"[residual]", "residual needs `layers`", ""},
    {"[residual: {layers: []}]", "residual.layers is an empty list; allowed is a list of layers", ""},
    {"[residual: {layers: relu}]", "residual.layers is relu; allowed is a list of layers", ""},
    {"[residual: {layers: [relu], shortcut: relu}]", "residual.shortcut is relu; allowed is a list of layers",
     ""},
    {"[residual: {layers: [relu], act: rely}]", "residual.act is rely; allowed are none, relu",
     "did you mean `relu`?"},
    {"[residual: {layers: [rleu]}]", "unknown layer `rleu`", "did you mean `relu`?"},
    {"[repeat: {layers: [relu]}]", "repeat needs `times`", ""},
    {"[repeat: {times: 0, layers: [relu]}]", "repeat.times is 0; allowed are whole numbers from 1 to 1000",
     ""},
    {"[repeat: {times: 1001, layers: [relu]}]",
     "repeat.times is 1001; allowed are whole numbers from 1 to 1000", ""},
    {"[repeat: {times: 1000, layers: [{repeat: {times: 1000, layers: [{repeat: {times: 1000, layers: "
     "[relu]}}]}}]}]",
     "the model has more than 10000 layers", ""},
    {"[transformer]", "transformer needs `heads`", ""},
    {"[transformer: {heads: 2, gelu: fast}]", "transformer.gelu is fast; allowed are exact, tanh", ""},
};

static void refuses_slips(void **state) {
    (void)state;
    for (size_t i = 0; i < SUPPORT_COUNT(slips); i++) {
        trm_job *j = NULL;
        trm_str s = {0};
        trm_str_add(&s, "model: {layers: %s}\ndata: {train: a.h5}\ntrain: {epochs: 1, batch: 1}\n",
                    slips[i].layers);
        trm_status status = trm_job_parse("job.yaml", s.p, s.len, NULL, 0, &j);
        if (status == TRM_OK) fail_msg("%s is taken", slips[i].layers);
        assert_fault(status, TRM_JOB, slips[i].sentence);
        if (!strstr(trm_error_hint(), slips[i].hint))
            fail_msg("'%s' has hint '%s'", slips[i].sentence, trm_error_hint());
        trm_str_free(&s);
    }
}

/* ---- slips that show with the data's shapes ---- */

static void assert_misfit(const char *model, trm_data_info data, const char *place, const char *sentence) {
    trm_graph *g = NULL;
    trm_job *j = job_of(model);
    assert_fault(trm_job_model(j, &data, &g), TRM_JOB, sentence);
    if (strncmp(trm_error_text(), place, strlen(place)))
        fail_msg("'%s' does not begin with %s", trm_error_text(), place);
    assert_null(g);
    trm_job_free(j);
}

static void places_faults_of_shapes(void **state) {
    (void)state;
    assert_misfit("model:\n  layers:\n    - conv2d: {out: 4, kernel: 3}\n    - linear: 10\n", images(1, 8, 8),
                  "job.yaml:4:7: ", "flatten");
    assert_misfit("model:\n  layers:\n    - repeat: {times: 3, layers: [{conv2d: {out: 4, kernel: 5}}]}\n",
                  images(1, 8, 8), "job.yaml:3:36: ", "kernel");
    assert_misfit(
        "model:\n  layers:\n    - conv2d: {out: 4, kernel: [1, 2, 3]}\n", images(1, 8, 8),
        "job.yaml:3:7: ", "kernel has 3 numbers; images (C,H,W) allow one, or two for height and width");
    assert_misfit("model:\n  layers:\n    - max_pool: [1, 2]\n    - conv3d: {out: 4, kernel: 1}\n",
                  images(1, 8, 8),
                  "job.yaml:4:7: ", "conv3d reads volumes (C,D,H,W), its input has shape (1,8,4)");
    assert_misfit("model: {layers: [flatten, {linear: 9}]}\n", images(1, 8, 8),
                  "job.yaml:1:1: ", "9 outputs");
    assert_misfit("model: {layers: [flatten]}\n", images(1, 8, 8), "job.yaml:1:1: ", "no parameters");
    assert_misfit("model: {layers: [{transformer: 2}]}\n", images(1, 8, 8), "job.yaml:1:19: ", "transformer");
    assert_misfit("model: lenet\n", images(1, 8, 8), "job.yaml:1:8: ", "");
    assert_misfit("model: lenet\n", vectors(8, 1), "job.yaml:1:8: ", "");
    assert_misfit("model: {preset: mlp}\n", tokens(8, 10), "job.yaml:1:8: ", "token");
    assert_misfit("model: {preset: gpt}\n", images(1, 8, 8), "job.yaml:1:8: ", "token");
    assert_misfit("model: {preset: gpt, context: 4}\n", tokens(8, 10), "job.yaml:1:8: ", "8 positions");
    assert_misfit("model: {preset: gpt, vocab: 5}\n", tokens(8, 10), "job.yaml:1:1: ", "");
    assert_misfit("model: {preset: mlp}\n", vectors(5, 2), "job.yaml:1:1: ", "mse");
}

/* mean and std fit the data's channels. */
static void checks_mean_and_std(void **state) {
    (void)state;
    static const struct {
        const char *data, *sentence;
        int64_t channels;
    } norms[] = {
        {"mean: 5", NULL, 3},
        {"mean: [1, 2, 3]", NULL, 3},
        {"mean: 1, std: [1, 2, 3]", NULL, 3},
        {"mean: [1, 2]", "job.yaml:1:27: data.mean has 2 numbers; inputs of shape (3,8,8) allow 1 or 3", 3},
        {"mean: 1, std: [1, 2]",
         "job.yaml:1:35: data.std has 2 numbers; inputs of shape (3,8,8) allow 1 or 3", 3},
        {"std: [1, 2]", "data.std has 2 numbers; inputs of shape (1,8,8) allow 1", 1},
        {"mean: 1", "job.yaml:1:27: data.mean is given, but the inputs are tokens", 0},
    };
    for (size_t i = 0; i < SUPPORT_COUNT(norms); i++) {
        trm_job *j = NULL;
        trm_graph *g = NULL;
        trm_str s = {0};
        trm_data_info data = norms[i].channels ? images(norms[i].channels, 8, 8) : tokens(8, 10);
        trm_str_add(&s, "data: {train: a.h5, %s}\nmodel: %s\ntrain: {epochs: 1, batch: 1}\n", norms[i].data,
                    norms[i].channels ? "mlp" : "{preset: gpt, dim: 8}");
        assert_ok(trm_job_parse("job.yaml", s.p, s.len, NULL, 0, &j));
        if (norms[i].sentence)
            assert_fault(trm_job_model(j, &data, &g), TRM_JOB, norms[i].sentence);
        else
            assert_ok(trm_job_model(j, &data, &g));
        trm_graph_free(g);
        trm_job_free(j);
        trm_str_free(&s);
    }
}

static void survives_failing_memory(void **state) {
    (void)state;
    trm_job *j = job_of(
        "model:\n  layers:\n    - conv2d: {out: 4, kernel: 3, name: c}\n    - batch_norm\n"
        "    - residual: {layers: [{conv2d: {out: 4, kernel: 1}}]}\n    - flatten\n    - linear: 10\n");
    trm_data_info data = images(1, 8, 8);
    for (uint64_t i = 1;; i++) {
        trm_graph *g = NULL;
        trm_mem_fail_after(i);
        trm_status s = trm_job_model(j, &data, &g);
        trm_mem_fail_after(0);
        trm_graph_free(g);
        if (s == TRM_OK) break;
        assert_null(g);
    }
    trm_job_free(j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builds_mlp),          cmocka_unit_test(builds_mlp_for_regression),
        cmocka_unit_test(builds_lenet),        cmocka_unit_test(builds_resnet),
        cmocka_unit_test(builds_gpt),          cmocka_unit_test(lists_equal_presets),
        cmocka_unit_test(repeats_and_adds),    cmocka_unit_test(builds_transformers),
        cmocka_unit_test(joins_and_reshapes),  cmocka_unit_test(windows_have_sizes),
        cmocka_unit_test(refuses_slips),       cmocka_unit_test(places_faults_of_shapes),
        cmocka_unit_test(checks_mean_and_std), cmocka_unit_test(survives_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
