/* Imports: what they make, and the sentence for each thing that may be wrong. */
#include "data_support.h"
#include <trireme/make.h>
#include <unistd.h>

static char out[512];

static int start(void **state) {
    (void)state;
    snprintf(out, sizeof out, "%s", support_path("out.h5"));
    return 0;
}

static const char *file_of(const char *name, const void *bytes, size_t n) {
    const char *path = support_path(name);
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    return path;
}

/* A whole data set as `type`. */
static void read_back(const char *name, trm_dtype type, int64_t n, void *to) {
    trm_h5_file *f = NULL;
    assert_ok(trm_h5_open(out, &f));
    assert_ok(trm_h5_read(f, name, type, n, to));
    assert_ok(trm_h5_close(f));
}

static void no_set(const char *name) {
    trm_h5_file *f = NULL;
    trm_dtype type;
    trm_shape shape;
    assert_ok(trm_h5_open(out, &f));
    assert_fault(trm_h5_stat(f, name, &type, &shape), TRM_DATA, "no data set");
    assert_ok(trm_h5_close(f));
}

/* ---- CSV ---- */

typedef struct csv_case {
    const char *text;
    const char *target, *drop, *missing;
    bool classes, floats;
    trm_csv_header header;
    char delimiter;
    trm_status status;
    const char *says;
} csv_case;

static trm_status import_text(const csv_case *c, trm_made *made) {
    const char *path = support_file("table.csv", c->text);
    trm_csv_spec spec = {.files = &path,
                         .n_files = 1,
                         .delimiter = c->delimiter,
                         .header = c->header,
                         .target = &c->target,
                         .n_target = c->target != NULL,
                         .drop = &c->drop,
                         .n_drop = c->drop != NULL,
                         .classes = c->classes,
                         .float_target = c->floats,
                         .missing = c->missing};
    return trm_import_csv(&spec, out, made);
}

static void csv_is_read(void **state) {
    (void)state;
    static const struct {
        csv_case c;
        int64_t rows, features;
        float x[6];
        int32_t y[3];
    } cases[] = {
        {{.text = "a,b,c\n1,2,0\n3,4.5,1\n", .target = "c"}, 2, 2, {1, 2, 3, 4.5f}, {0, 1}},
        {{.text = "1;2;0\r\n3;4;1\r\n", .target = "3"}, 2, 2, {1, 2, 3, 4}, {0, 1}},
        {{.text = "\xEF\xBB\xBF"
                  "x\ty\n1e3\t-2.5e-1\n+.5\t7.\n"},
         2,
         2,
         {1000, -0.25f, 0.5f, 7},
         {0}},
        {{.text = "1,cat\n2,\"a \"\"big\"\"\ndog\"\n3, cat \n", .target = "2", .classes = true},
         3,
         1,
         {1, 2, 3},
         {1, 0, 1}},
        {{.text = "a,b\n\n1,\n\n NA , 4 ", .missing = "-1"}, 2, 2, {1, -1, -1, 4}, {0}},
        {{.text = "a,b,c\n1,x,2\n3,y,4", .drop = "b"}, 2, 2, {1, 2, 3, 4}, {0}},
        {{.text = "1,2\n3,4\n", .header = TRM_CSV_HEADER}, 1, 2, {3, 4}, {0}},
        {{.text = "1|2\n3|4\n", .delimiter = '|'}, 2, 2, {1, 2, 3, 4}, {0}},
        {{.text = "7\n8\n9"}, 3, 1, {7, 8, 9}, {0}},
        {{.text = "\"1\",\"2.0\"\r3,1\r", .target = "2"}, 2, 1, {1, 3}, {2, 1}},
        /* The nearest float, not the nearest of the nearest double. */
        {{.text = "1.00000005960464477539062500001\n0.1\n"}, 2, 1, {0x1.000002p0f, 0.1f}, {0}},
    };
    for (size_t i = 0; i < SUPPORT_COUNT(cases); i++) {
        trm_made made = {0};
        float x[6];
        int32_t y[3];
        assert_ok(import_text(&cases[i].c, &made));
        assert_int_equal(made.samples, cases[i].rows);
        assert_int_equal(made.x.dim[0], cases[i].features);
        read_back("data", TRM_F32, cases[i].rows * cases[i].features, x);
        for (int k = 0; k < cases[i].rows * cases[i].features; k++) assert_true(x[k] == cases[i].x[k]);
        if (!cases[i].c.target) {
            no_set("label");
            continue;
        }
        read_back("label", TRM_I32, cases[i].rows, y);
        for (int k = 0; k < cases[i].rows; k++) assert_int_equal(y[k], cases[i].y[k]);
    }
}

static void csv_files_join(void **state) {
    (void)state;
    char a[512], b[512];
    const char *files[] = {a, b}, *targets[] = {"u", "v"};
    trm_csv_spec spec = {
        .files = files, .n_files = 2, .target = targets, .n_target = 2, .float_target = true};
    trm_made made = {0};
    float x[3], y[6];
    snprintf(a, sizeof a, "%s", support_file("a.csv", "u,p,v\n1,2,3\n4,5,6\n"));
    snprintf(b, sizeof b, "%s", support_file("b.csv", "u,p,v\n7,8,9\n"));
    assert_ok(trm_import_csv(&spec, out, &made));
    assert_true(made.floats && made.target && made.classes == 0 && made.samples == 3);
    read_back("data", TRM_F32, 3, x);
    read_back("targets", TRM_F32, 6, y);
    assert_memory_equal(x, ((float[]){2, 5, 8}), sizeof x);
    assert_memory_equal(y, ((float[]){1, 3, 4, 6, 7, 9}), sizeof y);
    support_file("b.csv", "u,q,v\n7,8,9\n");
    assert_fault(trm_import_csv(&spec, out, &made), TRM_DATA, "its column 2 is 'q', but 'p' in");
    support_file("b.csv", "u,p\n7,8\n");
    assert_fault(trm_import_csv(&spec, out, &made), TRM_DATA, "b.csv line 1: has 2 fields, 3 expected");
}

static void bad_csv(void **state) {
    (void)state;
    static const csv_case cases[] = {
        {.text = "", .status = TRM_DATA, .says = "there is no record in it"},
        {.text = "\n\r\n\n", .status = TRM_DATA, .says = "there is no record in it"},
        {.text = "a,b\n",
         .header = TRM_CSV_HEADER,
         .status = TRM_DATA,
         .says = "no record behind the header"},
        {.text = "1,2\n3\n", .status = TRM_DATA, .says = "line 2: has 1 fields, 2 expected"},
        {.text = "1,2\n3,4,5\n", .status = TRM_DATA, .says = "line 2: has 3 fields, 2 expected"},
        {.text = "1,2\n\n\n3,x\n",
         .status = TRM_DATA,
         .says = "line 4: column 2 is 'x'; allowed are finite numbers"},
        {.text = "a,b\n1,2\n3,inf\n", .status = TRM_DATA, .says = "line 3: column 2 ('b') is 'inf'"},
        {.text = "a,b\n1,2\n3,1e39\n", .status = TRM_DATA, .says = "column 2 ('b') is '1e39'"},
        {.text = "a,b\n1,2\n3,0x10\n", .status = TRM_DATA, .says = "column 2 ('b') is '0x10'"},
        {.text = "a;b\n1;2\n3;4,5\n", .status = TRM_DATA, .says = "column 2 ('b') is '4,5'"},
        {.text = "a,b\n1,2\n3,1 2\n", .status = TRM_DATA, .says = "column 2 ('b') is '1 2'"},
        {.text = "a,b\n1,2\n,4\n", .status = TRM_DATA, .says = "line 3: column 1 ('a') has no value ('')"},
        {.text = "a,b\n1,NaN\n",
         .header = TRM_CSV_HEADER,
         .status = TRM_DATA,
         .says = "column 2 ('b') has no value ('NaN')"},
        {.text = "a,b\n1,2\n", .target = "c", .status = TRM_USAGE, .says = "--target c: no such column"},
        {.text = "a,b\n1,2\n",
         .target = "3",
         .status = TRM_USAGE,
         .says = "allowed are its names and numbers from 1 to 2"},
        {.text = "1,2\n3,4\n", .target = "0", .status = TRM_USAGE, .says = "allowed are numbers from 1 to 2"},
        {.text = "a,a\n1,2\n", .target = "a", .status = TRM_USAGE, .says = "two columns have this name"},
        {.text = "a,b\n1,2\n",
         .target = "b",
         .drop = "2",
         .status = TRM_USAGE,
         .says = "has been named before"},
        {.text = "a\n1\n", .target = "a", .status = TRM_USAGE, .says = "all are targets or dropped"},
        {.text = "a,b\n1,2.5\n", .target = "b", .status = TRM_DATA, .says = "is '2.5'; allowed are classes"},
        {.text = "a,b\n1,-1\n", .target = "b", .status = TRM_DATA, .says = "is '-1'; allowed are classes"},
        {.text = "a,b\n1,cat\n2,dog\n",
         .target = "b",
         .status = TRM_DATA,
         .says = "is 'cat'; allowed are classes"},
        {.text = "a,b\n1,cat\n2,\n",
         .target = "b",
         .classes = true,
         .status = TRM_DATA,
         .says = "line 3: column 2 ('b') has no value"},
        {.text = "a,b\n1,\n",
         .target = "b",
         .missing = "0",
         .header = TRM_CSV_HEADER,
         .status = TRM_DATA,
         .says = "('b') has no value"},
        {.text = "a,b\n1,2\n",
         .target = "b",
         .classes = true,
         .floats = true,
         .status = TRM_USAGE,
         .says = "--classes and --float-target"},
        {.text = "a,b\n1,2\n",
         .classes = true,
         .status = TRM_USAGE,
         .says = "--classes is given without --target"},
        {.text = "a,b\n1,2\n",
         .missing = "x",
         .status = TRM_USAGE,
         .says = "--missing is 'x'; allowed are finite numbers"},
        {.text = "1,\"2\n3,4\n",
         .status = TRM_DATA,
         .says = "line 1: a quote that is opened here is never closed"},
        {.text = "1,2\n3,\"4\"5\n",
         .status = TRM_DATA,
         .says = "line 2: there is text behind a closing quote"},
        {.text = "\xFF\xFE"
                 "1,2\n",
         .status = TRM_DATA,
         .says = "is text in UTF-16"},
    };
    uint64_t live = trm_mem_count().live_bytes;
    unlink(out);
    for (size_t i = 0; i < SUPPORT_COUNT(cases); i++) {
        trm_made made;
        assert_fault(import_text(&cases[i], &made), cases[i].status, cases[i].says);
        assert_int_equal(trm_mem_count().live_bytes, live);
    }
    const char *path = file_of("zero.csv", "1,2\n3,\0004\n", 9), *gone = support_path("gone.csv"),
               *dir = support_dir();
    trm_made made;
    assert_fault(trm_import_csv(&(trm_csv_spec){.files = &path, .n_files = 1}, out, &made), TRM_DATA,
                 "line 2: a zero byte; expected is text");
    assert_fault(trm_import_csv(&(trm_csv_spec){.files = &gone, .n_files = 1}, out, &made), TRM_DATA,
                 "no such file");
    assert_fault(trm_import_csv(&(trm_csv_spec){.files = &dir, .n_files = 1}, out, &made), TRM_DATA,
                 "is a directory");
    path = file_of("cut.csv.gz", "\x1F\x8B\x08\0\0\0\0\0\0\3\x33\xD4\x31", 13);
    assert_fault(trm_import_csv(&(trm_csv_spec){.files = &path, .n_files = 1}, out, &made), TRM_DATA,
                 "truncated");
    assert_int_equal(access(out, F_OK), -1);
}

/* ---- CIFAR ---- */

#define RECORD 3073

static void cifar(void **state) {
    (void)state;
    unsigned char *b = calloc(3, RECORD + 1), label[3], *x = malloc(3 * 3072);
    trm_made made = {0};
    for (int i = 0; i < 3 * (RECORD + 1); i++) b[i] = (unsigned char)(i * 31 % 253);
    for (int kind = TRM_CIFAR_10; kind <= TRM_CIFAR_COARSE; kind++) {
        size_t record = RECORD + (kind != TRM_CIFAR_10);
        for (size_t i = 0; i < 3; i++) {
            b[i * record] = (unsigned char)(9 - i);
            if (record > RECORD) b[i * record + 1] = (unsigned char)(99 - i);
        }
        char one[512], two[512];
        snprintf(one, sizeof one, "%s", file_of("one.bin", b, 2 * record));
        snprintf(two, sizeof two, "%s", file_of("two.bin", b + 2 * record, record));
        const char *files[] = {one, two};
        assert_ok(trm_import_cifar(files, 2, (trm_cifar_labels)kind, NULL, out, &made));
        assert_int_equal(made.samples, 3);
        read_back("label", TRM_U8, 3, label);
        read_back("data", TRM_U8, 3 * 3072, x);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(label[i], kind == TRM_CIFAR_FINE ? 99 - i : 9 - i);
            assert_memory_equal(x + i * 3072, b + (i + 1) * record - 3072, 3072);
        }
    }
    unlink(out);
    const char *path = file_of("bad.bin", b, RECORD - 1), *good = file_of("good.bin", b, RECORD);
    assert_fault(trm_import_cifar(&path, 1, TRM_CIFAR_10, NULL, out, &made), TRM_DATA,
                 "has 3072 bytes; expected are records of 3073");
    path = file_of("empty.bin", b, 0);
    assert_fault(trm_import_cifar(&path, 1, TRM_CIFAR_10, NULL, out, &made), TRM_DATA, "has 0 bytes");
    assert_fault(trm_import_cifar(&good, 1, TRM_CIFAR_FINE, NULL, out, &made), TRM_DATA, "has 3073 bytes");
    assert_string_equal(trm_error_hint(), "records of CIFAR-10 have one label: leave `--labels` away");
    b[RECORD] = 10;
    path = file_of("label.bin", b, 2 * RECORD);
    assert_fault(trm_import_cifar(&path, 1, TRM_CIFAR_10, NULL, out, &made), TRM_DATA,
                 "label 10 of sample 1 is outside 0..9");
    assert_fault(trm_import_cifar(&good, 1, TRM_CIFAR_10, NULL, good, &made), TRM_USAGE, "it is the input");
    assert_int_equal(access(out, F_OK), -1);
    free(b);
    free(x);
}

/* ---- numpy ---- */

/* A file of version 1 with this head and these bytes. */
static const char *npy(const char *name, const char *head, const void *bytes, size_t n) {
    unsigned char b[2048] = "\x93NUMPY\1";
    size_t length = strlen(head);
    b[8] = (unsigned char)(length & 255);
    b[9] = (unsigned char)(length >> 8);
    memcpy(b + 10, head, length);
    memcpy(b + 10 + length, bytes, n);
    return file_of(name, b, 10 + length + n);
}

#define HEAD(descr, order, shape) \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }   \n"

static void arrays(void **state) {
    (void)state;
    trm_made made = {0};
    float x[6] = {1, 2, 3, 4, 5, 6}, back[6];
    unsigned char y[4] = {0, 3, 0, 1}, big[8] = {0x3F, 0x80, 0, 0, 0xC0, 0, 0, 0};
    int64_t label[2];
    char a[512], b[512];
    snprintf(a, sizeof a, "%s", npy("x.npy", HEAD("'<f4'", "False", "(2, 3)"), x, sizeof x));
    snprintf(b, sizeof b, "%s",
             npy("y.npy", "{\"shape\":(2L,),\"fortran_order\":False,\"descr\":\">u2\"}", y, 4));
    assert_ok(trm_import_npy(a, b, false, NULL, out, &made));
    assert_true(made.samples == 2 && made.classes == 4 && made.target && !made.floats);
    read_back("data", TRM_F32, 6, back);
    assert_memory_equal(back, x, sizeof x);
    read_back("label", TRM_I64, 2, label);
    assert_true(label[0] == 3 && label[1] == 1);
    assert_ok(trm_import_npy(a, b, true, NULL, out, &made));
    assert_true(made.floats);
    no_set("label");
    /* Columns first. */
    npy("x.npy", HEAD("'<f4'", "True", "(2, 3)"), x, sizeof x);
    assert_ok(trm_import_npy(a, NULL, false, NULL, out, &made));
    read_back("data", TRM_F32, 6, back);
    assert_memory_equal(back, ((float[]){1, 3, 5, 2, 4, 6}), sizeof x);
    npy("x.npy", HEAD("'>f4'", "False", "(1,2)"), big, 8);
    assert_ok(trm_import_npy(a, NULL, false, NULL, out, &made));
    read_back("data", TRM_F32, 2, back);
    assert_true(back[0] == 1 && back[1] == -2);
    /* A stream of tokens. */
    npy("x.npy", HEAD("'|u1'", "False", "(4,)"), y, 4);
    assert_ok(trm_import_npy(a, NULL, false, NULL, out, &made));
    assert_true(made.samples == 4 && made.x.rank == 0);
}

static void bad_arrays(void **state) {
    (void)state;
    static const struct {
        const char *head, *says;
        size_t bytes;
    } cases[] = {
        {HEAD("'<f4'", "False", "(2, 3)"), "has 20 bytes of values; its shape (2,3) needs 24", 20},
        {HEAD("'<f4'", "False", "(2, 3)"), "has 28 bytes of values", 28},
        {HEAD("'<c8'", "False", "(2, 3)"), "elements of type '<c8'", 24},
        {HEAD("'<U3'", "False", "(2, 3)"), "elements of type '<U3'", 24},
        {HEAD("'O'", "False", "(2, 3)"), "elements of type 'O'", 24},
        {HEAD("''", "False", "(2, 3)"), "elements of type ''", 24},
        {HEAD("[('a', '<f4')]", "False", "(2,)"), "is a structured array", 24},
        {HEAD("'<f4'", "Maybe", "(2, 3)"), "neither True nor False", 24},
        {HEAD("'<f4'", "False", "[2, 3]"), "'shape' is no tuple", 24},
        {HEAD("'<f4'", "False", "(2, -3)"), "no tuple of numbers", 24},
        {HEAD("'<f4'", "False", "(99999999999999999999,)"), "a number of 'shape' is too large", 24},
        {HEAD("'<f4'", "False", "(4294967296, 4294967296)"), "empty or too large", 24},
        {HEAD("'<f4'", "False", "(0, 3)"), "empty or too large", 0},
        {HEAD("'<f4'", "False", "()"), "is a single number", 4},
        {HEAD("'<f4'", "False", "(1,1,1,1,1,1)"), "more than 5 dimensions", 4},
        {HEAD("'<f4'", "False", "(6,)"), "has one dimension", 24},
        {"{'descr': '<f4', 'shape': (2, 3)}", "a key is missing", 24},
        {"{'descr': '<f4', 'descr': '<f4'}", "unknown or there twice", 24},
        {"{'descr': '<f4' 'shape': (2, 3)}", "no comma behind a value", 24},
        {"{'desc': '<f4'}", "unknown or there twice", 24},
        {"['descr']", "is no dictionary", 24},
        {"{'descr", "a key is damaged", 0},
        {"{'shape': (2,", "no tuple of numbers", 0},
    };
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    trm_made made;
    char a[512], b[512];
    uint64_t live = trm_mem_count().live_bytes;
    unlink(out);
    for (size_t i = 0; i < SUPPORT_COUNT(cases); i++) {
        const char *path = npy("bad.npy", cases[i].head, x, cases[i].bytes);
        assert_fault(trm_import_npy(path, NULL, false, NULL, out, &made), TRM_DATA, cases[i].says);
        assert_int_equal(trm_mem_count().live_bytes, live);
    }
#define BYTES_ARE(text, n, says) \
    assert_fault(trm_import_npy(file_of("bad.npy", text, n), NULL, false, NULL, out, &made), TRM_DATA, says)
    BYTES_ARE("", 0, "ends 8 bytes early");
    BYTES_ARE("PK\3\4....", 8, "not a numpy array");
    assert_string_equal(trm_error_hint(), "this is an archive: `trireme data import npz`");
    BYTES_ARE("\x93NUMPY\4\0..", 10, "is of version 4.0");
    BYTES_ARE("\x93NUMPY\1\0\xFF\xFF{}", 12, "ends 65533 bytes early");
    BYTES_ARE("\x93NUMPY\2\0\xFF\xFF\xFF\xFF{}", 14, "claims more than 1 MiB");
    BYTES_ARE("\x93NUMPY\1\0\2\0{\0", 12, "holds a zero byte");
    x[3] = 1.0f / 0.0f;
    snprintf(a, sizeof a, "%s", npy("a.npy", HEAD("'<f4'", "False", "(2,3)"), x, 24));
    assert_fault(trm_import_npy(a, NULL, false, NULL, out, &made), TRM_DATA,
                 "a value of row 1 is not finite");
    x[3] = 4;
    npy("a.npy", HEAD("'<f4'", "False", "(2,3)"), x, 24);
    snprintf(b, sizeof b, "%s", npy("b.npy", HEAD("'|i1'", "False", "(3,)"), "\0\1\2", 3));
    assert_fault(trm_import_npy(a, b, false, NULL, out, &made), TRM_DATA, "has 2 rows but");
    npy("b.npy", HEAD("'|i1'", "False", "(2,)"), "\1\xFF", 2);
    assert_fault(trm_import_npy(a, b, false, NULL, out, &made), TRM_DATA, "label -1 of row 1 is no class");
    npy("b.npy", HEAD("'|i1'", "False", "(2,2)"), "\1\0\0\1", 4);
    assert_fault(trm_import_npy(a, b, false, NULL, out, &made), TRM_DATA, "classes of shape (2,2)");
    assert_fault(trm_import_npz(a, NULL, NULL, false, NULL, out, &made), TRM_DATA,
                 "cannot be read as an archive");
    assert_int_equal(access(out, F_OK), -1);
}

/* ---- memory ---- */

static char table_path[512], array_path[512], text_path[512], vocabulary_path[512], merges_path[512];

static trm_status op_csv(void) {
    trm_made made;
    const char *path = table_path, *target = "kind";
    trm_csv_spec spec = {.files = &path, .n_files = 1, .target = &target, .n_target = 1, .classes = true};
    return trm_import_csv(&spec, out, &made);
}

static trm_status op_npy(void) {
    trm_made made;
    return trm_import_npy(array_path, NULL, false, NULL, out, &made);
}

static trm_status op_bpe(void) {
    trm_made made;
    const char *path = text_path;
    trm_bpe_spec spec = {.vocabulary = vocabulary_path, .merges = merges_path, .files = &path, .n_files = 1};
    return trm_import_bpe(&spec, out, &made);
}

static const char *set_path;

static trm_status op_split(void) {
    trm_made made[2];
    trm_split_part part[] = {{.fraction = 0.5, .out = out}};
    return trm_split(&(trm_set_spec){.files = &set_path, .n_files = 1}, TRM_SPLIT_STRATIFIED, NULL, 1, part,
                     1, made);
}

static trm_status op_shuffle(void) {
    trm_made made;
    return trm_shuffle_rows(&(trm_set_spec){.files = &set_path, .n_files = 1, .memory = 600}, 1, out, &made);
}

static void memory_may_fail(void **state) {
    (void)state;
    static trm_status (*const ops[])(void) = {op_csv, op_npy, op_bpe, op_split, op_shuffle};
    float x[6] = {1, 2, 3, 4, 5, 6};
    char set[512];
    snprintf(table_path, sizeof table_path, "%s", support_file("t.csv", "a,kind\n1,x\n2,y\n3,x\n"));
    snprintf(array_path, sizeof array_path, "%s", npy("m.npy", HEAD("'<f4'", "True", "(2, 3)"), x, sizeof x));
    snprintf(text_path, sizeof text_path, "%s", support_file("t.txt", "aab aab"));
    snprintf(vocabulary_path, sizeof vocabulary_path, "%s",
             support_file("v.json", "{\"a\":0,\"b\":1,\"aa\":2,\"\\u0120\":3}"));
    snprintf(merges_path, sizeof merges_path, "%s", support_file("m.txt", "a a\n"));
    snprintf(set, sizeof set, "%s", support_set("set.h5", 50, 8));
    set_path = set;
    for (size_t i = 0; i < SUPPORT_COUNT(ops); i++) {
        uint64_t live = trm_mem_count().live_bytes;
        for (uint64_t n = 1;; n++) {
            unlink(out);
            trm_mem_fail_after(n);
            trm_status s = ops[i]();
            trm_mem_fail_after(0);
            assert_int_equal(trm_mem_count().live_bytes, live);
            if (s == TRM_OK) break;
            assert_int_equal(s, TRM_MEMORY);
            assert_int_equal(access(out, F_OK), -1);
            assert_in_range(n, 1, 2000);
        }
        assert_int_equal(access(out, F_OK), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_is_read),     cmocka_unit_test(csv_files_join), cmocka_unit_test(bad_csv),
        cmocka_unit_test(cifar),           cmocka_unit_test(arrays),         cmocka_unit_test(bad_arrays),
        cmocka_unit_test(memory_may_fail),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
