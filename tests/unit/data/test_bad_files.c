/* timeout: 300 */
/* Files that have to be refused, each with the sentence that helps, within a second; and odd ones that are good. */
#include "data_support.h"
#include <regex.h>
#include <unistd.h>

typedef enum verdict { ACCEPT, WARN, REJECT } verdict;

typedef struct bad_case {
    const char *file; /* in the folder of the set; "@list" as in a job file; an absolute path as it is */
    verdict want;
    const char *says;   /* extended regular expression, of the sentence or the warning */
    trm_data_spec spec; /* files, classes (10) and names are filled in */
} bad_case;

static const char *const verdict_text[] = {"accepted", "accepted with a warning", "refused"};

static bool fits(const char *text, const char *pattern) {
    regex_t r;
    assert_int_equal(regcomp(&r, pattern, REG_EXTENDED | REG_NOSUB), 0);
    bool yes = regexec(&r, text, 0, NULL, 0) == 0;
    regfree(&r);
    return yes;
}

static void name_of(const bad_case *c, const char *folder, char *name, size_t cap) {
    if (c->file[0] == '/')
        snprintf(name, cap, "%s", c->file);
    else if (c->file[0] == '@')
        snprintf(name, cap, "@%s/%s", folder, c->file + 1);
    else
        snprintf(name, cap, "%s/%s", folder, c->file);
}

static trm_status try(const trm_data_spec *spec, const trm_shape *want) {
    trm_dataset *d = NULL;
    trm_status s = trm_dataset_open(spec, &d);
    if (s == TRM_OK && want) s = trm_dataset_expect(d, want);
    if (s == TRM_OK) s = trm_dataset_check(d);
    trm_dataset_close(d);
    return s;
}

/* Returns 1 where the verdict is another one. */
static int judge(const bad_case *c, const char *folder, const trm_shape *want) {
    char name[600];
    const char *files[] = {name};
    trm_data_spec spec = c->spec;
    uint64_t live = trm_mem_count().live_bytes;
    name_of(c, folder, name, sizeof name);
    spec.files = files;
    spec.n_files = 1;
    if (spec.classes == 0 && !spec.float_target && spec.window == 0) spec.classes = 10;
    support_log_start();
    double cpu = trm_thread_cpu();
    trm_status s = try(&spec, want);
    cpu = trm_thread_cpu() - cpu;
    verdict got = s != TRM_OK ? REJECT : support_log.warnings ? WARN : ACCEPT;
    const char *said = s != TRM_OK ? trm_error_text() : support_log.last;
    bool right = got == c->want && (s == TRM_OK || s == TRM_DATA) && (got == ACCEPT || fits(said, c->says)) &&
                 !strchr(said, '\n');
    if (cpu > 1) print_error("%s took %.2f s\n", c->file, cpu);
    if (trm_mem_count().live_bytes != live) print_error("%s: memory is left behind\n", c->file);
    if (!right)
        print_error("%s: %s, wanted %s: %s '%s'\n    said: %s\n", c->file, verdict_text[got],
                    verdict_text[c->want], "to say", c->says, said);
    return !right || cpu > 1 || trm_mem_count().live_bytes != live;
}

static void judge_all(const bad_case *cases, size_t n, const char *folder, const trm_shape *want) {
    int wrong = 0;
    for (size_t i = 0; i < n; i++) wrong += judge(&cases[i], folder, want);
    if (wrong) fail_msg("%d of %d files got a wrong verdict", wrong, (int)n);
}

/* ---- the set of the facts, shared beside the tree ---- */

static const bad_case shared[] = {
    {"ok.h5", ACCEPT, "", {0}},
    {"f01_empty.h5", REJECT, "empty file \\(0 bytes\\), not HDF5", {0}},
    {"f02_text.h5", REJECT, "not an HDF5 file: it starts with 'sample,label'.*x89HDF", {0}},
    {"f04_lfs_pointer.h5", REJECT, "not an HDF5 file: this is a Git LFS pointer.*616002048", {0}},
    {"f05_npz.h5", REJECT, "not an HDF5 file: looks like a zip or npz archive", {0}},
    {"f06_trunc_half.h5", REJECT, "truncated: the file is [0-9]+ bytes, its header says [0-9]+", {0}},
    {"f07_trunc_32.h5", REJECT, "truncated: .*: 32 missing at the end", {0}},
    {"f08_badversion.h5",
     REJECT,
     "superblock version 99 is not known to this library \\(HDF5 [0-9.]+\\)",
     {0}},
    {"f09_directory.h5", REJECT, "is a directory, not a file", {0}},
    {"f11_left_open.h5", REJECT, "marked open for writing: a writer is at work, or died", {0}},
    {"f13_userblock.h5", ACCEPT, "", {0}},
    {"f14_latest.h5", ACCEPT, "", {0}},
    {"l01_missing_ds.h5",
     REJECT,
     "no data set 'data'; this file has: X_train uint8 \\(40,3,8,8\\), y_train int64 \\(40\\)",
     {0}},
    {"l02_case.h5", REJECT, "no data set 'data'; did you mean 'Data'\\?", {0}},
    {"l03_group.h5",
     REJECT,
     "'data' is a group, not a data set; it contains: data/images uint8 \\(40,3,8,8\\)",
     {0}},
    {"l04_committed_type.h5", REJECT, "'data' is a committed data type, not a data set", {0}},
    {"l06_soft_dangling.h5", REJECT, "'data' is a soft link to '/nowhere', which does not exist", {0}},
    {"l07_ext_missing.h5", REJECT, "'data' is an external link to missing_file.h5:/data", {0}},
    {"l09_ext_ok.h5", REJECT, "'data' is an external link to ok.h5:/data", {0}},
    {"l10_extstorage_passwd.h5",
     REJECT,
     "'data' keeps its bytes in another file \\(/etc/passwd\\); external raw storage is refused",
     {0}},
    {"l11_extstorage_missing.h5", REJECT, "another file \\(no_such_raw.bin\\); external raw storage", {0}},
    {"l12_vds_missing_source.h5",
     REJECT,
     "'data' is a virtual data set.*missing source would silently read as fill values",
     {0}},
    {"l14_deep.h5", REJECT, "no data set 'data'; this file has: label int64 \\(40\\)", {0}},
    {"s01_scalar.h5",
     REJECT,
     "'data' is a scalar; at least one dimension is needed \\(samples first\\)",
     {0}},
    {"s03_rank2.h5", REJECT, "'data' samples are \\(192\\), the model expects \\(3,8,8\\)", {0}},
    {"s04_hwc.h5",
     REJECT,
     "'data' samples are \\(8,8,3\\), the model expects \\(3,8,8\\): channels last\\?",
     {0}},
    {"s05_len_mismatch.h5", REJECT, "'data' has 40 samples but 'label' has 39", {0}},
    {"s06_zero_samples.h5", REJECT, "'data' has 0 samples", {0}},
    {"s08_onehot.h5", REJECT, "'label' is float32 \\(40,10\\): one-hot\\?", {0}},
    {"s09_label_n1.h5", ACCEPT, "", {0}},
    {"s10_sample_last.h5",
     REJECT,
     "'data' is \\(3,8,8,40\\): its first dimension 3 does not match the 40 of 'label' \\(samples last",
     {0}},
    {"s12_shape_bomb.h5", REJECT, "'data' claims 715.3 GiB but stores 0 bytes \\(never written\\?\\)", {0}},
    {"s14_half_written.h5",
     WARN,
     "'data': only 2 of 5 chunks were ever written; samples 16 to 39 read as the fill value",
     {0}},
    {"t01_strings_fixed.h5", REJECT, "'label' holds 3-byte strings, numbers expected", {0}},
    {"t03_vlen_jpeg.h5", REJECT, "'data' holds variable-length arrays of uint8, numbers expected", {0}},
    {"t04_compound.h5", REJECT, "'data' is a compound \\{x float32\\[3\\], e float64\\}", {0}},
    {"t05_bigendian.h5", ACCEPT, "", {0}},
    {"t06_float16.h5", ACCEPT, "", {0}},
    {"t07_opaque2.h5", REJECT, "'data' holds 2-byte opaque values", {0}},
    {"t09_bool.h5", ACCEPT, "", {0}},
    {"t10_label_neg.h5", REJECT, "'label'\\[7\\] = -1, outside 0\\.\\.9 \\(1 bad of 40\\)", {0}},
    {"t11_label_big.h5",
     REJECT,
     "'label'\\[33\\] = 10, outside 0\\.\\.9 \\(1 bad of 40\\).*classes start at 1",
     {0}},
    {"t14_data_nan.h5",
     REJECT,
     "'data' sample 11 element \\(2,3,4\\) is NaN \\(1 of 40 samples are bad\\)",
     {0}},
    {"t15_data_inf.h5", REJECT, "'data' sample 12 element \\(0,0,0\\) is \\+Inf", {0}},
    {"t19_reference.h5", REJECT, "'data' holds object references, numbers expected", {0}},
    {"t20_complex.h5", REJECT, "'data' is complex \\{r,i\\}", {0}},
    {"c01_gzip_corrupt.h5",
     REJECT,
     "'data' chunk at sample 16 \\(8 samples at byte [0-9]+\\): gzip data damaged",
     {0}},
    {"c02_fletcher.h5", REJECT, "'data' chunk at sample 24 .*checksum wrong \\(Fletcher32\\)", {0}},
    {"c03_lzf.h5", ACCEPT, "", {0}},
    {"c04_unknown_filter.h5",
     REJECT,
     "'data' needs HDF5 filter 32999 \\(zzz\\), which is not available",
     {0}},
    {"c05_zstd_id.h5", REJECT, "'data' needs HDF5 filter 32015 \\(zstd\\)", {0}},
    {"c07_shuffle_gzip_f4.h5", ACCEPT, "", {0}},
    {"c08_scaleoffset.h5", ACCEPT, "", {0}},
    {"@m01_list.txt", REJECT, "m01_b.h5: 'data' samples are \\(1,8,8\\) but .*m01_a.h5 has \\(3,8,8\\)", {0}},
    {"@m03_list.txt", WARN, "m03_list.txt line 4: .*ok.h5 is listed twice", {0}},
    {"@m05_list.txt", REJECT, "m05_list.txt: no files listed", {0}},
};

static void the_shared_set(void **state) {
    (void)state;
    const char *script = "../shared/facts/hdf5/make_bad_h5.py", *folder = support_path("shared");
    char wanted[512], line[1024];
    if (access(script, R_OK) != 0) {
        print_message("# %s is not there\n", script);
        skip();
    }
    int rc = support_python(script, folder, "/dev/null");
    if (rc == 77) {
        print_message("# python3-h5py is not there\n");
        skip();
    }
    assert_int_equal(rc, 0);
    bad_case cases[SUPPORT_COUNT(shared)];
    memcpy(cases, shared, sizeof shared);
    for (size_t i = 0; i < SUPPORT_COUNT(cases); i++) {
        cases[i].spec.input = "data";
        cases[i].spec.target = "label";
    }
    trm_shape want = trm_shape_of(3, 3, 8, 8);
    judge_all(cases, SUPPORT_COUNT(cases), folder, &want);
    /* No case of the set is left out, and none has another verdict there. */
    snprintf(wanted, sizeof wanted, "%s/EXPECT.tsv", folder);
    FILE *f = fopen(wanted, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        char *name = strtok(line, "\t"), *wanted_verdict = strtok(NULL, "\t");
        size_t i = 0;
        while (i < SUPPORT_COUNT(shared) && strcmp(shared[i].file + (shared[i].file[0] == '@'), name) != 0)
            i++;
        if (i == SUPPORT_COUNT(shared)) fail_msg("%s is not in the table of this test", name);
        static const char *const word[] = {"accept", "warn", "reject"};
        assert_string_equal(wanted_verdict, word[shared[i].want]);
    }
    fclose(f);
}

/* ---- our own ---- */

static const bad_case own[] = {
    {"gone.h5", REJECT, "gone.h5: no such file", {0}},
    {"/dev/zero", REJECT, "/dev/zero: is a device, not a file", {0}},
    {"/dev/null", REJECT, "/dev/null: is a device, not a file", {0}},
    {"/etc/passwd/x.h5", REJECT, "cannot open: Not a directory", {0}},
    {"pipe.h5", REJECT, "is a pipe, not a file", {0}},
    {"loop.h5", REJECT, "cannot open: Too many levels of symbolic links", {0}},
    {"folder.h5", REJECT, "is a directory, not a file", {0}},
    {"raw_html.h5", REJECT, "it is a web page, perhaps an error page", {0}},
    {"raw_gz.h5", REJECT, "looks gzip-compressed", {0}},
    {"raw_zero.h5", REJECT, "it starts with 511 zero bytes", {0}},
    {"raw_pickle.h5", REJECT, "looks like a Python pickle", {0}},
    {"raw_npy.h5", REJECT, "is a numpy .npy array", {0}},
    {"raw_png.h5", REJECT, "is a PNG image", {0}},
    {"raw_noise.h5", REJECT, "it starts with bytes 01 02", {0}},
    {"raw_one.h5", REJECT, "not an HDF5 file", {0}},
    {"raw_signature.h5", REJECT, "truncated|damaged|cannot be opened", {0}},
    {"raw_matlab5.h5", REJECT, "is a MATLAB file before v7.3", {0}},
    {"raw_netcdf.h5", REJECT, "is a classic netCDF file", {0}},
    {"soft.h5", REJECT, "'data' is a soft link to '/real', which exists; links are not followed", {0}},
    {"hidden_soft.h5", REJECT, "'h' is a soft link to '/g'", {.input = "h/data"}},
    {"below.h5", REJECT, "no data set 'data/x'", {.input = "data/x"}},
    {"below.h5", REJECT, "'/' is a group, not a data set", {.input = "/"}},
    {"below.h5", ACCEPT, "", {.input = "//data//"}},
    {"null.h5", REJECT, "'data' has no shape", {0}},
    {"rank8.h5", REJECT, "'data' has 8 dimensions, at most 6 are read", {0}},
    {"empty_samples.h5", REJECT, "'data' has samples without elements: \\(37,0,4\\)", {0}},
    {"names.h5", REJECT, "'label' holds variable-length strings, numbers expected", {0}},
    {"region.h5", REJECT, "'label' holds region references", {0}},
    {"array.h5", REJECT, "'data' holds float32\\[3\\], numbers expected", {0}},
    {"bits.h5", REJECT, "'data' holds 1-byte bit fields", {0}},
    {"twelve.h5", REJECT, "'data' holds 2-byte numbers of an unusual kind", {0}},
    {"opaque.h5", REJECT, "'data' holds 5-byte opaque values", {0}},
    {"enum.h5", ACCEPT, "", {0}},
    {"bomb.h5",
     REJECT,
     "'data' claims 22.4 GiB but stores .*: it was hardly written, or is meant to fill the memory",
     {0}},
    {"impossible.h5", REJECT, "'data' claims an impossible shape", {0}},
    {"wide_chunk.h5", REJECT, "'data' has chunks of 4096 samples: more than 1.0 GiB|hardly written", {0}},
    {"label_nan.h5", REJECT, "'label'\\[3\\] = -?nan is no class number", {0}},
    {"label_half.h5", REJECT, "'label'\\[3\\] = 2.5 is no class number", {0}},
    {"label_huge.h5", REJECT, "'label'\\[3\\] = 1e\\+300 is no class number", {0}},
    {"label_u8.h5", REJECT, "'label'\\[0\\] = 9223372036854775807, outside 0\\.\\.9 \\(37 bad of 37\\)", {0}},
    {"onehot_int.h5", REJECT, "'label' is uint8 \\(37,10\\): one class number per sample expected", {0}},
    {"from_one.h5", REJECT, "= 10, outside 0\\.\\.9 \\(3 bad of 37\\); the classes start at 1", {0}},
    {"from_one.h5", ACCEPT, "", {.classes = 11}},
    {"short.h5",
     REJECT,
     "chunk at sample 0 \\(37 samples at byte [0-9]+\\): gzip data damaged: it inflates to 5 of 2220 bytes",
     {0}},
    {"long.h5", REJECT, "gzip data damaged: it inflates to too much", {0}},
    {"cut.h5", REJECT, "gzip data damaged: it ends early", {0}},
    {"nothing.h5", REJECT, "gzip data damaged", {0}},
    {"sum_short.h5", REJECT, "a chunk of 3 bytes has no room for its checksum", {0}},
    {"lzf_bad.h5", REJECT, "LZF data damaged", {0}},
    {"outside_contiguous.h5", REJECT, "'data' needs 2220 bytes at byte 1099511627776|damaged|cannot be", {0}},
    {"outside_chunked.h5", REJECT, "lies outside of the file|damaged|cannot be", {0}},
    {"holes.h5", WARN, "only 2 of 5 chunks were ever written; samples 16 to 36 read as the fill value", {0}},
    {"open_holes.h5",
     WARN,
     "only 1 of 5 chunks were ever written; samples 0 to 7 read as the fill value",
     {0}},
    {"many_holes.h5", WARN, "only 2000 of 2500 chunks were ever written", {0}},
    {"infinite.h5", REJECT, "'data' sample 5 element \\(2,4,3\\) is -Inf \\(1 of 37 samples are bad\\)", {0}},
    {"infinite.h5", REJECT, "'data' sample 5 element \\(2,4,3\\) is -Inf", {.cache = TRM_CACHE_OFF}},
    {"half_nan.h5", REJECT, "'data' sample 6 element \\(0,0,1\\) is NaN", {0}},
    {"targets.h5", REJECT, "'targets' sample 9 element \\(\\) is \\+Inf", {.float_target = true}},
    {"virtual.h5", REJECT, "'data' is a virtual data set", {0}},
    {"virtual_pipe.h5", REJECT, "'data' is a virtual data set", {0}},
    {"nofile.h5", REJECT, "no data set 'data'; this file has: other float64 \\(scalar\\)", {0}},
    {"below.h5", REJECT, "rows 37 to 37 are asked for, there are 37", {.first = 37, .count = 1}},
    {"no*match.h5", REJECT, "no file matches this pattern", {0}},
    {"fol*r.h5", REJECT, "folder.h5: is a directory", {0}},
    {"bel?w.h5", ACCEPT, "", {0}},
    {"@gone.txt", REJECT, "gone.txt line 3: .*gone.h5: no such file", {0}},
    {"@missing.txt", REJECT, "missing.txt: no such file", {0}},
    {"@folder.h5", REJECT, "is a directory, not a file", {0}},
    {"@nul.txt", REJECT, "nul.txt: is not a list of files: it holds zero bytes", {0}},
    {"@nested.txt", REJECT, "nested.txt line 1: '@other.txt': a list may not name another list", {0}},
    {"@types.txt", REJECT, "float.h5: 'data' is float32 but .*below.h5 has uint8", {0}},
    {"@only_comment.txt", REJECT, "only_comment.txt: no files listed", {0}},
    {"@spaces.txt", WARN, "spaces.txt line 4: .*below.h5 is listed twice", {0}},
    {"@absolute.txt", ACCEPT, "", {0}},
    {"tokens.h5", ACCEPT, "", {.input = "tokens", .window = 8}},
    {"tokens.h5", ACCEPT, "", {.input = "tokens", .window = 8, .classes = 60}},
    {"tokens.h5",
     REJECT,
     "'tokens'\\[59\\] = 59, outside 0\\.\\.58 \\(1 bad of 100\\)",
     {.input = "tokens", .window = 8, .classes = 59}},
    {"tokens.h5", REJECT, "'text' is float64, tokens are integers", {.window = 8, .input = "text"}},
    {"tokens.h5",
     REJECT,
     "'few' has 5 tokens, too few for one window of 8 and its target",
     {.window = 8, .input = "few"}},
    {"tokens.h5",
     REJECT,
     "a stream of tokens is its own target",
     {.input = "tokens", .window = 8, .target = "tokens"}},
    {"tokens.h5", ACCEPT, "", {.window = 8, .input = "rows"}},
    {"tokens.h5",
     REJECT,
     "'rows' has rows of 9 tokens, enough for windows of 8, but 9 are asked for",
     {.input = "rows", .window = 9}},
    {"tokens.h5", ACCEPT, "", {.input = "rows", .target = "next", .window = 9}},
    {"tokens.h5",
     REJECT,
     "'rows' is \\(10,9\\), a stream of tokens has one dimension",
     {.window = 8, .input = "rows", .kind = TRM_DATA_TOKEN_STREAM}},
    {"tokens.h5",
     REJECT,
     "'tokens' is \\(100\\), rows of tokens are \\(N,T\\+1\\)",
     {.input = "tokens", .window = 8, .kind = TRM_DATA_TOKEN_ROWS}},
    {"tokens.h5", REJECT, "needs `data.window`", {.input = "tokens", .kind = TRM_DATA_TOKEN_STREAM}},
};

static void our_own_set(void **state) {
    (void)state;
    char arguments[600];
    const char *folder = support_path("own");
    snprintf(arguments, sizeof arguments, "bad %s", folder);
    int rc = support_python("tests/unit/data/make_files.py", arguments, "/dev/null");
    if (rc == 77) {
        print_message("# python3-h5py is not there\n");
        skip();
    }
    assert_int_equal(rc, 0);
    judge_all(own, SUPPORT_COUNT(own), folder, NULL);
}

/* What was never written reads as the fill value, in the machine's byte order. */
static void holes_are_filled(void **state) {
    (void)state;
    static const char *const name[] = {"own/open_holes.h5", "own/holes.h5", "own/many_holes.h5"};
    static const int64_t at[] = {3, 30, 2200};
    for (int i = 0; i < 3; i++) {
        if (access(support_path(name[i]), R_OK) != 0) skip();
        for (int cache = 0; cache < 3; cache++) {
            double v[60];
            char x[60 * 8], y[8];
            trm_dataset *d = support_open(support_path(name[i]), (trm_data_cache)cache);
            assert_ok(trm_dataset_read(d, &at[i], 1, x, y));
            trm_convert_f64(x, trm_dataset_info(d)->x_type, 60, v);
            for (int k = 0; k < 60; k++) assert_true(v[k] == 9);
            trm_dataset_close(d);
        }
    }
}

/* What needs no other writer. */
static void names_alone(void **state) {
    (void)state;
    trm_dataset *d = NULL;
    const char *none[] = {""};
    trm_data_spec spec = {.files = none, .n_files = 0};
    assert_fault(trm_dataset_open(&spec, &d), TRM_DATA, "no data file is named");
    spec.n_files = 1;
    assert_fault(trm_dataset_open(&spec, &d), TRM_DATA, "a data file has an empty name");
    const char *text[] = {support_file("text.h5", "sample,label\n")};
    spec.files = text;
    assert_fault(trm_dataset_open(&spec, &d), TRM_DATA, "it starts with 'sample,label'");
    /* A bracket in a name that exists is no pattern. */
    const char *bracket[] = {support_set("a[1].h5", 5, 0)};
    spec.files = bracket;
    assert_ok(trm_dataset_open(&spec, &d));
    trm_dataset_close(d);
}

static void patterns_are_sorted_by_bytes(void **state) {
    (void)state;
    char pattern[512];
    trm_dataset *d = NULL;
    (void)support_set("p_b.h5", 2, 0);
    (void)support_set("p_B.h5", 1, 0);
    (void)support_set("p_10.h5", 3, 0);
    (void)support_set("p_9.h5", 4, 0);
    snprintf(pattern, sizeof pattern, "%s/p_*.h5", support_dir());
    const char *files[] = {pattern};
    trm_data_spec spec = {.files = files, .n_files = 1};
    assert_ok(trm_dataset_open(&spec, &d));
    assert_int_equal(trm_dataset_info(d)->samples, 10);
    /* p_10 (3), p_9 (4), p_B (1), p_b (2): each begins at label 0 again. */
    static const int64_t label[10] = {0, 1, 2, 0, 1, 2, 3, 0, 0, 1};
    for (int64_t i = 0; i < 10; i++) {
        int32_t x[6];
        int64_t y;
        assert_ok(trm_dataset_read(d, &i, 1, x, &y));
        assert_int_equal(y, label[i]);
    }
    trm_dataset_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shared_set),
        cmocka_unit_test(our_own_set),
        cmocka_unit_test(holes_are_filled),
        cmocka_unit_test(names_alone),
        cmocka_unit_test(patterns_are_sorted_by_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
