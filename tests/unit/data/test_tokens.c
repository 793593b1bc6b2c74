/* Token windows, imports and made data sets. */
#include "data_support.h"
#include <unistd.h>
#include <zlib.h>

/* ---- windows ---- */

static const char *write_tokens(const char *name, int64_t n, int64_t chunk) {
    const char *path = support_path(name);
    trm_h5_file *f = NULL;
    uint16_t *t = malloc((size_t)n * sizeof *t);
    trm_shape shape = trm_shape_of(1, n);
    for (int64_t i = 0; i < n; i++) t[i] = (uint16_t)(i * 3 % 500);
    assert_ok(trm_h5_create(path, &f));
    if (chunk)
        assert_ok(trm_h5_write_chunked(f, "tokens", TRM_U16, &shape, t, chunk, 1));
    else
        assert_ok(trm_h5_write(f, "tokens", TRM_U16, &shape, t));
    assert_ok(trm_h5_close(f));
    free(t);
    return path;
}

/* Sample i holds tokens [i*T, i*T + T]: input and target share them, one token apart. */
static void windows(void **state) {
    (void)state;
    for (int64_t chunk = 0; chunk <= 30; chunk += 15)
        for (int cache = 0; cache < 3; cache++) {
            const char *path = write_tokens("windows.h5", 101, chunk);
            trm_data_spec spec = {.files = &path, .n_files = 1, .window = 10, .cache = (trm_data_cache)cache};
            trm_dataset *d = NULL;
            assert_ok(trm_dataset_open(&spec, &d));
            const trm_data_info *info = trm_dataset_info(d);
            assert_int_equal(info->kind, TRM_DATA_TOKEN_STREAM);
            assert_int_equal(info->samples, 10);
            assert_int_equal(info->x.dim[0], 10);
            assert_int_equal(info->x_stride, 22);
            assert_int_equal(info->y_stride, 22);
            assert_int_equal(info->y_offset, 2);
            assert_int_equal(info->classes, 301);
            assert_true(info->y_is_class);
            int64_t index[3] = {9, 0, 5};
            uint16_t x[33];
            assert_ok(trm_dataset_read(d, index, 3, x, NULL));
            for (int i = 0; i < 3; i++)
                for (int j = 0; j <= 10; j++) assert_int_equal(x[11 * i + j], (index[i] * 10 + j) * 3 % 500);
            trm_dataset_close(d);
        }
}

/* Windows do not cross files; a file too short for one has none. */
static void windows_of_files(void **state) {
    (void)state;
    char a[512], b[512], c[512];
    snprintf(a, sizeof a, "%s", write_tokens("a.h5", 25, 0));
    snprintf(b, sizeof b, "%s", write_tokens("b.h5", 10, 0));
    snprintf(c, sizeof c, "%s", write_tokens("c.h5", 31, 0));
    const char *files[] = {a, b, c};
    trm_data_spec spec = {.files = files, .n_files = 3, .window = 10, .classes = 500};
    trm_dataset *d = NULL;
    assert_ok(trm_dataset_open(&spec, &d));
    assert_int_equal(trm_dataset_info(d)->samples, 5);
    trm_dataset *twin = support_twin(d);
    for (int64_t i = 0; i < 5; i++) {
        uint16_t x[11];
        assert_ok(trm_dataset_read(twin, &i, 1, x, NULL));
        for (int j = 0; j <= 10; j++) assert_int_equal(x[j], ((i < 2 ? i : i - 2) * 10 + j) * 3);
    }
    trm_dataset_close(twin);
    trm_dataset_close(d);
    /* Rows are tokens here: the last 20 of a and all of b. */
    spec.first = 5;
    spec.count = 30;
    assert_ok(trm_dataset_open(&spec, &d));
    assert_int_equal(trm_dataset_info(d)->samples, 1);
    int64_t zero = 0;
    uint16_t x[11];
    assert_ok(trm_dataset_read(d, &zero, 1, x, NULL));
    assert_int_equal(x[0], 15);
    trm_dataset_close(d);
}

static void windows_in_the_feed(void **state) {
    (void)state;
    const char *path = write_tokens("feed.h5", 101, 0);
    trm_data_spec spec = {.files = &path, .n_files = 1, .window = 10};
    trm_feed_spec feed_spec = {.batch = 4, .micro_batches = 2, .shuffle = TRM_SHUFFLE_EXACT, .seed = 1};
    trm_dataset *d = NULL;
    trm_feed *f = NULL;
    trm_slot s;
    assert_ok(trm_dataset_open(&spec, &d));
    assert_ok(trm_feed_open(d, &feed_spec, &f));
    for (int u = 0; u < 7; u++) {
        assert_ok(trm_feed_next(f, &s, NULL));
        assert_ptr_equal(s.y_raw, (const char *)s.x_raw + 2);
        for (int64_t i = 0; i < s.n; i++)
            for (int j = 0; j < 10; j++) {
                assert_int_equal(((const uint16_t *)s.x_raw)[11 * i + j], (s.sample[i] * 10 + j) * 3 % 500);
                assert_int_equal(((const uint16_t *)s.y_raw)[11 * i + j],
                                 (s.sample[i] * 10 + j + 1) * 3 % 500);
            }
        trm_feed_release(f, &s);
    }
    trm_feed_close(f);
    trm_dataset_close(d);
}

static void rows_of_tokens(void **state) {
    (void)state;
    const char *path = support_path("rows.h5");
    trm_h5_file *f = NULL;
    int32_t t[4][6];
    for (int i = 0; i < 24; i++) t[i / 6][i % 6] = i;
    trm_shape shape = trm_shape_of(2, 4, 6);
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write(f, "x", TRM_I32, &shape, t));
    assert_ok(trm_h5_write(f, "next", TRM_I32, &shape, t));
    assert_ok(trm_h5_close(f));
    trm_data_spec spec = {.files = &path, .n_files = 1, .window = 5};
    trm_dataset *d = NULL;
    assert_ok(trm_dataset_open(&spec, &d));
    assert_int_equal(trm_dataset_info(d)->kind, TRM_DATA_TOKEN_ROWS);
    assert_int_equal(trm_dataset_info(d)->samples, 4);
    assert_int_equal(trm_dataset_info(d)->x.dim[0], 5);
    assert_int_equal(trm_dataset_info(d)->y_offset, 4);
    trm_dataset_close(d);
    spec.window = 6;
    spec.target = "next";
    assert_ok(trm_dataset_open(&spec, &d));
    int64_t two = 2;
    int32_t x[6], y[6];
    assert_ok(trm_dataset_read(d, &two, 1, x, y));
    assert_memory_equal(x, t[2], sizeof x);
    assert_memory_equal(y, t[2], sizeof y);
    assert_int_equal(trm_dataset_info(d)->y_offset, -1);
    assert_int_equal(trm_dataset_info(d)->y.dim[0], 6);
    trm_dataset_close(d);
}

/* ---- without targets ---- */

/* No window waits for a token behind its last one. */
static void windows_without_targets(void **state) {
    (void)state;
    char a[512], b[512];
    snprintf(a, sizeof a, "%s", write_tokens("na.h5", 20, 0));
    snprintf(b, sizeof b, "%s", write_tokens("nb.h5", 19, 6));
    const char *files[] = {a, b};
    for (int cache = 0; cache < 3; cache++) {
        trm_data_spec spec = {
            .files = files, .n_files = 2, .window = 10, .no_target = true, .cache = (trm_data_cache)cache};
        trm_dataset *d = NULL;
        assert_ok(trm_dataset_open(&spec, &d));
        trm_dataset *twin = support_twin(d);
        const trm_data_info *info = trm_dataset_info(twin);
        assert_memory_equal(info, trm_dataset_info(d), sizeof *info);
        assert_int_equal(info->samples, 3);
        assert_int_equal(info->x_stride, 20);
        assert_int_equal(info->y_stride, 0);
        assert_int_equal(info->y_offset, -1);
        assert_true(info->no_target && info->y_is_class);
        int64_t index[3] = {1, 0, 2};
        uint16_t x[31] = {[30] = 7};
        assert_ok(trm_dataset_read(twin, index, 3, x, NULL));
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 10; j++) assert_int_equal(x[10 * i + j], (index[i] % 2 * 10 + j) * 3);
        assert_int_equal(x[30], 7);
        assert_string_equal(trm_dataset_file(twin, 1), b);
        assert_null(trm_dataset_file(twin, 2));
        trm_dataset_close(twin);
        trm_dataset_close(d);
    }
}

/* Rows of T tokens will do, and in rows of T + 1 the last one is not looked at. */
static void rows_without_targets(void **state) {
    (void)state;
    const char *path = support_path("nrows.h5");
    trm_h5_file *f = NULL;
    int32_t t[4][6], x[12];
    for (int i = 0; i < 24; i++) t[i / 6][i % 6] = i;
    trm_shape shape = trm_shape_of(2, 4, 6);
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write(f, "x", TRM_I32, &shape, t));
    assert_ok(trm_h5_close(f));
    for (int64_t window = 5; window <= 6; window++) {
        /* A target that the job names is not asked for. */
        trm_data_spec spec = {
            .files = &path, .n_files = 1, .window = window, .no_target = true, .target = "next"};
        trm_dataset *d = NULL;
        assert_ok(trm_dataset_open(&spec, &d));
        trm_dataset *twin = support_twin(d);
        assert_int_equal(trm_dataset_info(twin)->kind, TRM_DATA_TOKEN_ROWS);
        assert_int_equal(trm_dataset_info(twin)->x.dim[0], window);
        int64_t index[2] = {3, 1};
        assert_ok(trm_dataset_read(twin, index, 2, x, NULL));
        assert_memory_equal(x, t[3], sizeof t[3]);
        assert_memory_equal(x + 6, t[1], sizeof t[1]);
        trm_dataset_close(twin);
        trm_dataset_close(d);
    }
    trm_dataset *d = NULL;
    trm_data_spec spec = {.files = &path, .n_files = 1, .window = 4, .no_target = true};
    assert_int_equal(trm_dataset_open(&spec, &d), TRM_DATA);
    spec.window = 6;
    spec.no_target = false;
    assert_int_equal(trm_dataset_open(&spec, &d), TRM_DATA);
}

/* ---- imports ---- */

static const char *write_idx(const char *name, bool packed, const void *bytes, size_t n) {
    const char *path = support_path(name);
    gzFile z = gzopen(path, packed ? "wb" : "wbT");
    assert_int_equal(gzwrite(z, bytes, (unsigned)n), n);
    gzclose(z);
    return path;
}

static unsigned char images[16 + 3 * 4 * 5] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5};
static unsigned char labels[8 + 3] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9};

static void mnist(void **state) {
    (void)state;
    char out[512];
    snprintf(out, sizeof out, "%s", support_path("mnist.h5"));
    for (int i = 0; i < 60; i++) images[16 + i] = (unsigned char)(3 * i);
    for (int packed = 0; packed < 2; packed++) {
        int64_t n = 0;
        const char *a = write_idx("images", packed, images, sizeof images),
                   *b = write_idx("labels", packed, labels, sizeof labels);
        assert_ok(trm_import_mnist(a, b, out, &n));
        assert_int_equal(n, 3);
        trm_dataset *d = support_open(out, TRM_CACHE_AUTO);
        trm_shape want = trm_shape_of(3, 1, 4, 5);
        assert_ok(trm_dataset_expect(d, &want));
        unsigned char x[40], y[2];
        int64_t index[2] = {2, 0};
        assert_ok(trm_dataset_read(d, index, 2, x, y));
        assert_memory_equal(x, images + 16 + 40, 20);
        assert_memory_equal(x + 20, images + 16, 20);
        assert_int_equal(y[0], 9);
        assert_int_equal(y[1], 7);
        assert_int_equal(trm_dataset_info(d)->classes, 10);
        trm_dataset_close(d);
    }
}

static void bad_idx(void **state) {
    (void)state;
    char good_images[512], good_labels[512], out[512];
    snprintf(out, sizeof out, "%s", support_path("bad.h5"));
    unsigned char b[sizeof images];
    snprintf(good_images, sizeof good_images, "%s", write_idx("good_images", true, images, sizeof images));
    snprintf(good_labels, sizeof good_labels, "%s", write_idx("good_labels", true, labels, sizeof labels));
#define IMAGES_ARE(path, says) assert_fault(trm_import_mnist(path, good_labels, out, NULL), TRM_DATA, says)
#define CHANGED(packed, at, value, n) \
    (memcpy(b, images, sizeof b), b[at] = (value), write_idx("changed", packed, b, n))
    IMAGES_ARE(support_path("gone"), "no such file");
    IMAGES_ARE(support_dir(), "is a directory");
    IMAGES_ARE(good_labels, "has 1 dimensions, 3 expected (images and labels exchanged?)");
    IMAGES_ARE(CHANGED(true, 0, 1, sizeof b), "not an IDX file: it starts with bytes 01 00");
    IMAGES_ARE(CHANGED(true, 2, 13, sizeof b), "IDX type 13, unsigned bytes (8) expected");
    IMAGES_ARE(CHANGED(true, 7, 2, sizeof b), "goes on behind the 40 bytes");
    IMAGES_ARE(CHANGED(true, 7, 4, sizeof b), "ends 20 bytes early");
    IMAGES_ARE(CHANGED(true, 7, 0, sizeof b), "dimension 0 is 0");
    IMAGES_ARE(CHANGED(true, 4, 255, sizeof b), "claims 79.7 GiB but has only");
    IMAGES_ARE(CHANGED(false, 6, 1, sizeof b), "but has only");
    IMAGES_ARE(CHANGED(true, 0, 0, 10), "ends 6 bytes early");
    IMAGES_ARE(support_file("text", "hello, this is no IDX file"), "not an IDX file");
    /* A flipped byte inside of the packed stream. */
    FILE *f = fopen(good_images, "r+b");
    fseek(f, 30, SEEK_SET);
    fputc(0xFF, f);
    fputc(0xFF, f);
    fclose(f);
    IMAGES_ARE(good_images, "damaged");
    assert_int_equal(access(out, F_OK), -1);
    labels[7] = 2;
    snprintf(good_images, sizeof good_images, "%s", write_idx("good_images", true, images, sizeof images));
    const char *two = write_idx("two", true, labels, sizeof labels - 1);
    assert_fault(trm_import_mnist(good_images, two, out, NULL), TRM_DATA, "has 3 images but");
    labels[7] = 3;
    assert_fault(trm_import_mnist(good_images, good_labels, "/nowhere/x.h5", NULL), TRM_USAGE,
                 "/nowhere is no folder");
}

static void text(void **state) {
    (void)state;
    char a[512], b[512], to[512];
    const char *out = to;
    int64_t n = 0;
    snprintf(to, sizeof to, "%s", support_path("text.h5"));
    snprintf(a, sizeof a, "%s", support_file("a.txt", "to be or not to be, "));
    snprintf(b, sizeof b, "%s", support_file("b.txt", "that is the question"));
    const char *files[] = {a, b};
    assert_ok(trm_import_text(files, 2, out, &n));
    assert_int_equal(n, 40);
    trm_data_spec spec = {.files = &out, .n_files = 1, .window = 39, .classes = 256};
    trm_dataset *d = NULL;
    char x[41] = "";
    int64_t zero = 0;
    assert_ok(trm_dataset_open(&spec, &d));
    assert_ok(trm_dataset_read(d, &zero, 1, x, NULL));
    assert_string_equal(x, "to be or not to be, that is the question");
    trm_dataset_close(d);
    const char *empty[] = {support_file("empty.txt", "")};
    assert_fault(trm_import_text(empty, 1, out, &n), TRM_DATA, "there is no text to import");
    const char *folder[] = {support_dir()};
    assert_fault(trm_import_text(folder, 1, out, &n), TRM_DATA, "is a directory");
}

/* ---- made data ---- */

static uint64_t made(trm_synth_kind kind, int64_t n, uint64_t seed, int64_t chunk, int deflate) {
    const char *path = support_path("made.h5");
    trm_synth_spec s = {.kind = kind, .samples = n, .seed = seed, .chunk = chunk, .deflate = deflate};
    trm_data_spec spec = {.files = &path,
                          .n_files = 1,
                          .float_target = kind == TRM_SYNTH_VECTORS,
                          .window = kind == TRM_SYNTH_TOKENS ? 16 : 0};
    trm_dataset *d = NULL;
    assert_ok(trm_synth(&s, path));
    assert_ok(trm_dataset_open(&spec, &d));
    uint64_t print = trm_dataset_info(d)->fingerprint;
    if (kind <= TRM_SYNTH_IMAGES) assert_int_equal(trm_dataset_info(d)->classes, 10);
    trm_dataset_close(d);
    return print;
}

static void made_data_is_a_function_of_the_seed(void **state) {
    (void)state;
    for (int kind = 0; kind <= TRM_SYNTH_VECTORS; kind++) {
        uint64_t first = made((trm_synth_kind)kind, 1200, 5, 0, 0);
        assert_true(first == made((trm_synth_kind)kind, 1200, 5, 0, 0));
        assert_true(first == made((trm_synth_kind)kind, 1200, 5, 100, 3));
        assert_true(first != made((trm_synth_kind)kind, 1200, 6, 0, 0));
        assert_true(first != made((trm_synth_kind)kind, 1201, 5, 0, 0));
    }
    trm_synth_spec s = {.samples = 0};
    assert_fault(trm_synth(&s, support_path("none.h5")), TRM_USAGE, "0 samples to be made");
    s = (trm_synth_spec){.samples = 1, .deflate = 10};
    assert_fault(trm_synth(&s, support_path("none.h5")), TRM_USAGE, "deflate level 10");
}

/* Nearest class mean on blurred images tells most digits apart: there is something to learn, and not too easily. */
static void digits_can_be_told(void **state) {
    (void)state;
    enum { TRAIN = 2000, TEST = 500, PIXELS = 28 * 28 };
    const char *path = support_path("digits.h5");
    trm_synth_spec s = {.kind = TRM_SYNTH_DIGITS, .samples = TRAIN + TEST, .seed = 3};
    static double mean[10][PIXELS];
    int64_t count[10] = {0}, right = 0;
    unsigned char x[PIXELS], y;
    assert_ok(trm_synth(&s, path));
    trm_dataset *d = support_open(path, TRM_CACHE_AUTO);
    for (int64_t i = 0; i < TRAIN; i++) {
        assert_ok(trm_dataset_read(d, &i, 1, x, &y));
        count[y]++;
        for (int p = 0; p < PIXELS; p++) mean[y][p] += x[p];
    }
    for (int c = 0; c < 10; c++) {
        assert_in_range(count[c], 150, 250);
        for (int p = 0; p < PIXELS; p++) mean[c][p] /= (double)count[c];
    }
    for (int64_t i = TRAIN; i < TRAIN + TEST; i++) {
        int best = 0;
        double least = 1e30;
        assert_ok(trm_dataset_read(d, &i, 1, x, &y));
        for (int c = 0; c < 10; c++) {
            double sum = 0;
            for (int p = 0; p < PIXELS; p++) sum += (x[p] - mean[c][p]) * (x[p] - mean[c][p]);
            if (sum < least) {
                least = sum;
                best = c;
            }
        }
        right += best == y;
    }
    print_message("# nearest mean: %d of %d\n", (int)right, TEST);
    assert_in_range(right, TEST * 5 / 10, TEST * 97 / 100);
    trm_dataset_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows),
        cmocka_unit_test(windows_of_files),
        cmocka_unit_test(windows_in_the_feed),
        cmocka_unit_test(rows_of_tokens),
        cmocka_unit_test(windows_without_targets),
        cmocka_unit_test(rows_without_targets),
        cmocka_unit_test(mnist),
        cmocka_unit_test(bad_idx),
        cmocka_unit_test(text),
        cmocka_unit_test(made_data_is_a_function_of_the_seed),
        cmocka_unit_test(digits_can_be_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
