/* checkpoint: what is written reads back to the bit; nothing that is damaged or forged gets in. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_impl.h"
#include "support.h"

/* A linear layer and a batch norm: parameters, state, and padding between entries. */
static trm_graph *make_graph(int64_t out) {
    trm_graph *g = NULL;
    trm_shape in = trm_shape_of(3, 2, 3, 3);
    trm_layer_attr a;
    int node = 0;
    assert_ok(trm_graph_create(&in, false, &g));
    const char *const names[] = {"batch_norm", "flatten", "linear"};
    for (int i = 0; i < 3; i++) {
        const trm_layer_type *t = trm_layer_find(names[i]);
        assert_non_null(t);
        trm_layer_defaults(t, &a);
        a.out = out;
        assert_ok(trm_graph_add(g, t, &a, "", &node, &node));
    }
    assert_ok(trm_graph_set_output(g, node));
    return g;
}

typedef struct fixture {
    trm_graph *graph;
    trm_weights w, back;
    char folder[512];
} fixture;

static float *floats(int64_t n, double first) {
    float *f = trm_alloc_array((size_t)n, sizeof *f, "a test");
    for (int64_t i = 0; i < n; i++) f[i] = (float)(first + 0.37 * (double)i);
    return f;
}

static trm_weights make_weights(const trm_graph *g, double first) {
    int64_t n = trm_graph_param_space(g), s = trm_graph_state_space(g);
    return (trm_weights){floats(n, first), floats(n, first + 100), floats(n, first + 200),
                         floats(s, first + 300)};
}

static void free_weights(trm_weights *w) {
    trm_free(w->weights);
    trm_free(w->m1);
    trm_free(w->m2);
    trm_free(w->state);
}

static int setup(void **state) {
    static int serial;
    char name[32];
    fixture *f = trm_alloc(sizeof *f, "a test");
    f->graph = make_graph(4);
    f->w = make_weights(f->graph, 1);
    f->back = make_weights(f->graph, -5);
    snprintf(name, sizeof name, "run%d", serial++);
    snprintf(f->folder, sizeof f->folder, "%s", support_path(name));
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    trm_graph_free(f->graph);
    free_weights(&f->w);
    free_weights(&f->back);
    trm_free(f);
    return 0;
}

static const trm_optim_spec adam = {.kind = TRM_OPT_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};

static const char *write_step(fixture *f, int64_t update) {
    static char path[4096];
    trm_position p = {.update = update,
                      .epoch = update > 9 ? 2 : 0,
                      .update_in_epoch = update > 9 ? 3 : 1,
                      .samples = 96,
                      .batch = 32,
                      .micro_batches = 1,
                      .seed = -7,
                      .order_version = 1,
                      .fingerprint = 0xFEDCBA9876543210u,
                      .best_valid = 0.1,
                      .stop_best = 0.2,
                      .stale = 3};
    assert_ok(trm_checkpoint_write(f->folder, f->graph, &f->w, &p, &adam, NULL, path));
    return path;
}

static trm_status read_back(fixture *f, const char *path) {
    trm_position p;
    trm_optim_spec o;
    return trm_checkpoint_read(path, f->graph, &f->back, &p, &o);
}

static void assert_same(const trm_graph *g, const trm_weights *a, const trm_weights *b) {
    for (int i = 0; i < trm_graph_params(g); i++) {
        const trm_param *p = trm_graph_param(g, i);
        size_t bytes = (size_t)p->count * sizeof(float);
        if (p->kind == TRM_STATE) {
            assert_memory_equal(a->state + p->offset, b->state + p->offset, bytes);
            continue;
        }
        assert_memory_equal(a->weights + p->offset, b->weights + p->offset, bytes);
        assert_memory_equal(a->m1 + p->offset, b->m1 + p->offset, bytes);
        assert_memory_equal(a->m2 + p->offset, b->m2 + p->offset, bytes);
    }
}

/* ---- whole ---- */

static void reads_back(void **state) {
    fixture *f = *state;
    trm_position p;
    trm_optim_spec o;
    const char *path = write_step(f, 120);
    assert_non_null(strstr(path, "/step-00000120"));
    assert_ok(trm_checkpoint_read(path, f->graph, &f->back, &p, &o));
    assert_same(f->graph, &f->w, &f->back);
    assert_int_equal(p.update, 120);
    assert_int_equal(p.seed, -7);
    assert_int_equal(p.samples, 96);
    assert_true(p.fingerprint == 0xFEDCBA9876543210u);
    assert_true(p.best_valid == 0.1 && p.stop_best == 0.2);
    assert_int_equal(p.stale, 3);
    assert_int_equal(o.kind, TRM_OPT_ADAM);
    assert_true(o.beta2 == 0.999);
}

static void settings_of_the_optimizer_read_back(void **state) {
    fixture *f = *state;
    char path[4096];
    trm_position p = {.update = 1, .batch = 1, .micro_batches = 1, .best_valid = INFINITY};
    trm_optim_spec rmsprop = {.kind = TRM_OPT_RMSPROP, .momentum = 0.9, .alpha = 0.95, .eps = 1e-7}, o;
    assert_ok(trm_checkpoint_write(f->folder, f->graph, &f->w, &p, &rmsprop, NULL, path));
    assert_ok(trm_checkpoint_read(path, f->graph, &f->back, &p, &o));
    assert_int_equal(o.kind, TRM_OPT_RMSPROP);
    assert_true(o.momentum == 0.9 && o.alpha == 0.95 && o.eps == 1e-7);
}

static void weights_alone(void **state) {
    fixture *f = *state;
    const char *path = write_step(f, 1);
    trm_weights only = {.weights = f->back.weights, .state = f->back.state};
    assert_ok(trm_weights_read(path, f->graph, &only));
    for (int i = 0; i < trm_graph_params(f->graph); i++) {
        const trm_param *p = trm_graph_param(f->graph, i);
        const float *want = p->kind == TRM_STATE ? f->w.state : f->w.weights;
        const float *have = p->kind == TRM_STATE ? only.state : only.weights;
        assert_memory_equal(want + p->offset, have + p->offset, (size_t)p->count * sizeof(float));
    }
}

static void exports_read_back(void **state) {
    fixture *f = *state;
    const char *path = write_step(f, 1);
    for (int h5 = 0; h5 < 2; h5++) {
        const char *out = support_path(h5 ? "x.h5" : "x.safetensors");
        assert_ok(trm_checkpoint_export(path, h5 ? TRM_EXPORT_HDF5 : TRM_EXPORT_SAFETENSORS, out));
        memset(f->back.weights, 0, (size_t)trm_graph_param_space(f->graph) * sizeof(float));
        assert_ok(trm_weights_read(out, f->graph, &f->back));
        const trm_param *p = trm_graph_param(f->graph, 0);
        assert_memory_equal(f->w.weights + p->offset, f->back.weights + p->offset,
                            (size_t)p->count * sizeof(float));
    }
}

static void other_model_is_named(void **state) {
    fixture *f = *state;
    const char *path = write_step(f, 1);
    trm_graph *g = make_graph(5);
    trm_weights w = make_weights(g, 0);
    trm_position p;
    trm_optim_spec o;
    assert_fault(trm_checkpoint_read(path, g, &w, &p, &o), TRM_DATA,
                 "has shape (4,18), the model has (5,18)");
    free_weights(&w);
    trm_graph_free(g);
}

static void moments_that_are_not_there(void **state) {
    fixture *f = *state;
    char path[4096];
    trm_position p = {.update = 1, .batch = 1, .micro_batches = 1, .best_valid = INFINITY};
    trm_weights plain = {.weights = f->w.weights, .state = f->w.state};
    trm_optim_spec sgd = {.kind = TRM_OPT_SGD}, o;
    assert_ok(trm_checkpoint_write(f->folder, f->graph, &plain, &p, &sgd, NULL, path));
    assert_fault(trm_checkpoint_read(path, f->graph, &f->back, &p, &o), TRM_DATA, "written with sgd");
    f->back.m1 = (trm_free(f->back.m1), NULL);
    f->back.m2 = (trm_free(f->back.m2), NULL);
    assert_ok(trm_checkpoint_read(path, f->graph, &f->back, &p, &o));
    assert_true(isinf(p.best_valid));
}

/* ---- folders ---- */

static void replaces_and_prunes(void **state) {
    fixture *f = *state;
    int64_t *update = NULL;
    int n = 0;
    const int64_t want[] = {10, 40, 50};
    for (int64_t u = 10; u <= 50; u += 10) write_step(f, u);
    write_step(f, 50);
    assert_ok(trm_checkpoint_prune(f->folder, 2, 10));
    assert_ok(trm_ckpt_list(f->folder, &update, &n));
    assert_int_equal(n, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(update[i], want[i]);
    trm_free(update);
    assert_ok(trm_checkpoint_prune(f->folder, 0, -1));
    assert_ok(trm_ckpt_list(f->folder, &update, &n));
    assert_int_equal(n, 3);
    trm_free(update);
}

static void leftovers_are_no_checkpoints(void **state) {
    fixture *f = *state;
    char path[600];
    int64_t *update = NULL;
    int n = 0;
    write_step(f, 10);
    const char *const names[] = {".step-00000020.new", "step-20", "step-0000002x", "best",
                                 "step-00000030.old"};
    for (size_t i = 0; i < SUPPORT_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", f->folder, names[i]);
        assert_ok(trm_make_dirs(path));
    }
    assert_ok(trm_ckpt_list(f->folder, &update, &n));
    assert_int_equal(n, 1);
    trm_free(update);
    assert_ok(trm_ckpt_sweep(f->folder));
    snprintf(path, sizeof path, "%s/%s", f->folder, names[0]);
    assert_int_equal(access(path, F_OK), -1);
    assert_ok(read_back(f, f->folder));
}

/* ---- damage ---- */

static void part_of(const char *step, const char *name, char out[5000]) {
    snprintf(out, 5000, "%s/%s", step, name);
}

static void flip(const char *path, long at) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, at, at < 0 ? SEEK_END : SEEK_SET);
    int c = fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(c ^ 1, file);
    fclose(file);
}

static long size_of(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (long)st.st_size;
}

static void any_flipped_byte_is_seen(void **state) {
    fixture *f = *state;
    const char *const names[] = {"part-0.h5", "index.json"};
    char step[4096], path[5000];
    snprintf(step, sizeof step, "%s", write_step(f, 1));
    for (int i = 0; i < 2; i++) {
        part_of(step, names[i], path);
        long n = size_of(path), stride = n / 97 + 1;
        for (long at = 0; at < n; at += stride) {
            flip(path, at);
            assert_int_not_equal(read_back(f, step), TRM_OK);
            flip(path, at);
        }
    }
    assert_ok(read_back(f, step));
}

static void truncated_or_missing_is_seen(void **state) {
    fixture *f = *state;
    const char *const names[] = {"part-0.h5", "index.json"};
    char step[4096], path[5000];
    for (int i = 0; i < 2; i++) {
        snprintf(step, sizeof step, "%s", write_step(f, 1));
        part_of(step, names[i], path);
        long n = size_of(path);
        const long cuts[] = {n - 1, n / 2, 1, 0};
        for (size_t k = 0; k < SUPPORT_COUNT(cuts); k++) {
            assert_int_equal(truncate(path, cuts[k]), 0);
            assert_int_not_equal(read_back(f, step), TRM_OK);
        }
        unlink(path);
        assert_int_not_equal(read_back(f, step), TRM_OK);
    }
}

static void swapped_parts_are_seen(void **state) {
    fixture *f = *state;
    char a[4096], b[4096], pa[5000], pb[5000], aside[5100];
    snprintf(a, sizeof a, "%s", write_step(f, 1));
    f->w.weights[0] += 1;
    snprintf(b, sizeof b, "%s", write_step(f, 2));
    part_of(a, "part-0.h5", pa);
    part_of(b, "part-0.h5", pb);
    snprintf(aside, sizeof aside, "%s.x", pa);
    assert_int_equal(rename(pa, aside) + rename(pb, pa) + rename(aside, pb), 0);
    assert_fault(read_back(f, a), TRM_DATA, "part-0.h5 is damaged");
    assert_fault(read_back(f, b), TRM_DATA, "part-0.h5 is damaged");
    assert_fault(read_back(f, f->folder), TRM_DATA, "holds no whole checkpoint");
}

static void falls_back(void **state) {
    fixture *f = *state;
    char path[5000];
    trm_position p;
    trm_optim_spec o;
    write_step(f, 10);
    part_of(write_step(f, 20), "part-0.h5", path);
    flip(path, 3000);
    assert_ok(trm_checkpoint_read(f->folder, f->graph, &f->back, &p, &o));
    assert_int_equal(p.update, 10);
    assert_same(f->graph, &f->w, &f->back);
}

static void a_failed_allocation_keeps_the_old_one(void **state) {
    fixture *f = *state;
    char path[4096];
    trm_position p = {.update = 20, .batch = 1, .micro_batches = 1, .best_valid = INFINITY};
    write_step(f, 10);
    for (uint64_t n = 1; n < 40; n++) {
        trm_mem_fail_after(n);
        (void)!trm_checkpoint_write(f->folder, f->graph, &f->w, &p, &adam, NULL, path);
        trm_mem_fail_after(0);
        assert_ok(read_back(f, f->folder));
    }
}

/* HDF5 keeps what belongs to a file that it could not write to the end. */
TRM_API const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libhdf5"; }

/* A limit on the size of files stands for a disk that fills while the part is written. */
static void a_full_disk_keeps_the_old_one(void **state) {
    fixture *f = *state;
    char path[5000], step[4096];
    struct rlimit old, small;
    trm_position p = {.update = 20, .batch = 1, .micro_batches = 1, .best_valid = INFINITY}, back;
    trm_optim_spec o;
    snprintf(step, sizeof step, "%s", write_step(f, 10));
    part_of(step, "part-0.h5", path);
    long whole = size_of(path);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    for (long limit = 0; limit < whole; limit += whole / 13) {
        small = (struct rlimit){(rlim_t)limit, old.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
        trm_status status = trm_checkpoint_write(f->folder, f->graph, &f->w, &p, &adam, NULL, path);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_not_equal(status, TRM_OK);
        assert_non_null(strstr(trm_error_text(), "cannot write the checkpoint"));
        assert_ok(trm_checkpoint_read(f->folder, f->graph, &f->back, &back, &o));
        assert_int_equal(back.update, 10);
    }
}

/* ---- hostile ---- */

/* The index of a good checkpoint with one piece of text replaced and its checksum made good. */
static void forged(fixture *f, const char *step, const char *from, const char *to, const char *why) {
    char path[5000], *text = NULL;
    size_t n = 0;
    trm_ckpt_index x;
    part_of(step, "index.json", path);
    assert_ok(trm_read_file(path, 1 << 20, &text, &n));
    char *at = strstr(text, from);
    if (!at) fail_msg("the index has no '%s'", from);
    trm_str s = {0};
    trm_str_addn(&s, text, (size_t)(at - text));
    trm_str_add(&s, "%s%s", to, at + strlen(from));
    char *sum = strstr(s.p, "\"checksum\": \"") + 13, digits[17];
    memcpy(sum, "0000000000000000", 16);
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)trm_hash(s.p, s.len, 0));
    memcpy(sum, digits, 16);
    uint64_t before = trm_mem_count().live_bytes;
    assert_fault(trm_ckpt_index_parse(s.p, s.len, "index.json", &x), TRM_DATA, why);
    assert_true(trm_mem_count().live_bytes == before);
    trm_str_free(&s);
    trm_free(text);
    (void)f;
}

static void forged_indexes_are_refused(void **state) {
    fixture *f = *state;
    char step[4096];
    snprintf(step, sizeof step, "%s", write_step(f, 1));
    forged(f, step, "trireme-checkpoint", "something-else", "not the index");
    forged(f, step, "\"version\": 1", "\"version\": 0", "version 0; this program reads version 1");
    forged(f, step, "part-0.h5", "../../../etc/passwd", "file of a part");
    forged(f, step, "part-0.h5", "/etc/passwd", "file of a part");
    forged(f, step, "\"bytes\": ", "\"bytes\": -", "bytes");
    forged(f, step, "\"bytes\": ", "\"bytes\": 1e3, \"b\": ", "bytes");
    forged(f, step, "\"update\": 1", "\"update\": -1", "update");
    forged(f, step, "\"update\": 1", "\"update\": \"1\"", "update");
    forged(f, step, "\"update\": 1", "\"update\": 4611686018427387904", "update");
    forged(f, step, "\"epoch\": 0", "\"epoch\": 4611686018427387904", "epoch");
    forged(f, step, "\"epoch\": 0", "\"epoch\": 2", "position");
    forged(f, step, "\"update_in_epoch\": 1", "\"update_in_epoch\": 2", "position");
    forged(f, step, "\"samples\": 96", "\"samples\": 0", "position");
    forged(f, step, "\"batch\": 32", "\"batch\": 4611686018427387904", "batch");
    forged(f, step, "\"batch\": 32", "\"batch\": 0", "batch");
    forged(f, step, "\"part\": 0", "\"part\": 1", "part");
    forged(f, step, "\"part\": 0", "\"part\": -1", "part");
    forged(f, step, "\"kind\": \"param\"", "\"kind\": \"code\"", "kind of an entry");
    forged(f, step, "\"kind\": \"adam\"", "\"kind\": \"magic\"", "kind of optimizer");
    forged(f, step, "\"shape\": [\n    2\n", "\"shape\": [\n    0\n", "shape");
    forged(f, step, "\"shape\": [\n    2\n", "\"shape\": [\n    1000000000\n", "");
    forged(f, step, "\"shape\": [\n    2\n", "\"shape\": [\n    2, 9223372036854775807, 9\n", "shape");
    forged(f, step, "\"start\": [\n    0\n", "\"start\": [\n    1\n", "slice");
    forged(f, step, "\"entries\": [", "\"entries\": 7, \"x\": [", "entries");
    forged(f, step, "\"kind\": \"m1\"", "\"kind\": \"param\"", "twice");
    forged(f, step, "\"name\": \"",
           "\"name\": \"0123456789012345678901234567890123456789012345678901234567890123456789"
           "0123456789012345678901234567890123456789",
           "name of an entry");
}

static void one_of_a_newer_program_is_not_passed_over(void **state) {
    fixture *f = *state;
    char step[4096], path[5000];
    write_step(f, 1);
    snprintf(step, sizeof step, "%s", write_step(f, 2));
    part_of(step, "index.json", path);
    assert_ok(trm_write_file(path, "{\"format\": \"trireme-checkpoint\", \"version\": 2}", 46));
    assert_fault(read_back(f, f->folder), TRM_RUN, "newer program: it has version 2, this one reads up to 1");
}

static void the_checksum_of_the_index_holds(void **state) {
    fixture *f = *state;
    char step[4096], path[5000];
    snprintf(step, sizeof step, "%s", write_step(f, 1));
    part_of(step, "index.json", path);
    assert_ok(trm_write_file(path, "{}", 2));
    assert_fault(read_back(f, step), TRM_DATA, "not the index");
    assert_ok(trm_write_file(path, "{", 1));
    assert_fault(read_back(f, step), TRM_DATA, "not JSON");
    assert_ok(trm_write_file(path, "{\"format\": \"trireme-checkpoint\", \"version\": 1}", 46));
    assert_fault(read_back(f, step), TRM_DATA, "no checksum");
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(reads_back),
        TEST(settings_of_the_optimizer_read_back),
        TEST(weights_alone),
        TEST(exports_read_back),
        TEST(other_model_is_named),
        TEST(moments_that_are_not_there),
        TEST(replaces_and_prunes),
        TEST(leftovers_are_no_checkpoints),
        TEST(any_flipped_byte_is_seen),
        TEST(truncated_or_missing_is_seen),
        TEST(swapped_parts_are_seen),
        TEST(falls_back),
        TEST(a_failed_allocation_keeps_the_old_one),
        TEST(a_full_disk_keeps_the_old_one),
        TEST(forged_indexes_are_refused),
        TEST(the_checksum_of_the_index_holds),
        TEST(one_of_a_newer_program_is_not_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
