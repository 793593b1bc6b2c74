/* record: every line is JSON, and every double reads back as it was. */
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <string.h>
#include <trireme/wire.h>

#include "support.h"

static json_t *load(trm_record *r) {
    json_error_t e;
    json_t *j = json_loads(trm_record_end(r), JSON_REJECT_DUPLICATES, &e);
    assert_non_null(j);
    return j;
}

static void nests(void **state) {
    (void)state;
    trm_record r = {0};
    trm_record_begin(&r, "epoch");
    trm_record_int(&r, "update", -3);
    trm_record_open(&r, "ranks", '[');
    for (int i = 0; i < 2; i++) {
        trm_record_open(&r, NULL, '{');
        trm_record_int(&r, "rank", i);
        trm_record_bool(&r, "slow", i == 1);
        trm_record_close(&r, '}');
    }
    trm_record_num(&r, NULL, 0.5);
    trm_record_close(&r, ']');
    trm_record_str(&r, "host", "n1");
    assert_string_equal(trm_record_end(&r),
                        "{\"kind\":\"epoch\",\"v\":1,\"update\":-3,\"ranks\":[{\"rank\":0,"
                        "\"slow\":false},{\"rank\":1,\"slow\":true},0.5],\"host\":\"n1\"}");
    assert_int_equal(r.depth, 0);
    trm_record_free(&r);
}

static void check_double(trm_record *r, double v) {
    trm_record_begin(r, "x");
    trm_record_num(r, "v2", v);
    json_t *j = load(r);
    double back = json_number_value(json_object_get(j, "v2"));
    if (memcmp(&back, &v, sizeof v) != 0 && !(v == 0 && back == 0)) fail_msg("%a came back as %a", v, back);
    json_decref(j);
}

static void doubles_read_back(void **state) {
    (void)state;
    trm_record r = {0};
    const double some[] = {0,      1,    0.1,  1.0 / 3, 1e300, -2.5e-308, 5e-324,  1.7976931348623157e308,
                           123456, 1e15, 1e16, 1e22,    1e23,  0.3,       2.0 / 3, 9007199254740993.0};
    for (size_t i = 0; i < SUPPORT_COUNT(some); i++) check_double(&r, some[i]);
    trm_rng_key key = {.seed = 5, .purpose = TRM_RNG_SYNTH};
    for (uint64_t i = 0; i < 4000; i++) {
        uint64_t bits = (uint64_t)trm_rng_u32(&key, 2 * i) << 32 | trm_rng_u32(&key, 2 * i + 1);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (isfinite(v)) check_double(&r, v);
    }
    trm_record_free(&r);
}

static void doubles_are_short(void **state) {
    (void)state;
    trm_record r = {0};
    trm_record_begin(&r, "x");
    trm_record_num(&r, "a", 0.1);
    trm_record_num(&r, "b", 2.302585092994046);
    trm_record_num(&r, "c", 100);
    assert_string_equal(trm_record_end(&r),
                        "{\"kind\":\"x\",\"v\":1,\"a\":0.1,\"b\":2.302585092994046,\"c\":100}");
    trm_record_free(&r);
}

static void not_finite_is_null(void **state) {
    (void)state;
    trm_record r = {0};
    trm_record_begin(&r, "x");
    trm_record_num(&r, "a", NAN);
    trm_record_num(&r, "b", -INFINITY);
    assert_string_equal(trm_record_end(&r), "{\"kind\":\"x\",\"v\":1,\"a\":null,\"b\":null}");
    trm_record_free(&r);
}

/* Where a locale with a decimal comma is installed, it must not reach the line. */
static void no_locale(void **state) {
    (void)state;
    trm_record r = {0};
    const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8"};
    for (size_t i = 0; i < SUPPORT_COUNT(names); i++)
        if (setlocale(LC_ALL, names[i])) break;
    trm_record_begin(&r, "x");
    trm_record_num(&r, "a", 1.5);
    assert_string_equal(trm_record_end(&r), "{\"kind\":\"x\",\"v\":1,\"a\":1.5}");
    setlocale(LC_ALL, "C");
    trm_record_free(&r);
}

static void any_bytes_are_json(void **state) {
    (void)state;
    trm_record r = {0};
    const char *const texts[] = {"a\"b\\c",
                                 "tab\tnl\n\x01\x7f",
                                 "gr\xC3\xBC\xC3\x9F",
                                 "\xE2\x82\xAC \xF0\x9F\x9A\xA3",
                                 "cut \xE2\x82",
                                 "\xFF\xFE",
                                 "\xC0\xAF",
                                 "\xED\xA0\x80",
                                 "\xF4\x90\x80\x80",
                                 ""};
    for (size_t i = 0; i < SUPPORT_COUNT(texts); i++) {
        trm_record_begin(&r, "x");
        trm_record_str(&r, "t", texts[i]);
        json_t *j = load(&r);
        const char *back = json_string_value(json_object_get(j, "t"));
        if (i < 4) assert_string_equal(back, texts[i]);
        json_decref(j);
    }
    trm_record_free(&r);
}

static void no_allocation_once_grown(void **state) {
    (void)state;
    trm_record r = {0};
    uint64_t before = 0;
    for (int i = 0; i < 100; i++) {
        trm_record_begin(&r, "update");
        for (int k = 0; k < 10; k++) trm_record_num(&r, "loss", 1.0 / (k + 3));
        trm_record_str(&r, "host", "\xFF quoted \"name\"");
        (void)trm_record_end(&r);
        if (i == 0) before = trm_mem_count().allocations;
    }
    assert_int_equal(trm_mem_count().allocations, before);
    trm_record_free(&r);
}

/* ---- read back ---- */

static trm_status count(void *ctx, int64_t line, const char *kind, const json_t *record) {
    int64_t *seen = ctx;
    if (!strcmp(kind, "bad")) return trm_fail(TRM_DATA, "line %lld", (long long)line);
    *seen += json_integer_value(json_object_get(record, "n"));
    return TRM_OK;
}

static trm_status read_text(const char *text, int64_t *seen) {
    FILE *f = fopen("records.jsonl", "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    *seen = 0;
    trm_status s = trm_records_read("records.jsonl", count, seen);
    remove("records.jsonl");
    return s;
}

static void lines_are_read_back(void **state) {
    (void)state;
    int64_t seen;
    assert_ok(read_text("{\"kind\":\"a\",\"n\":1}\n{\"kind\":\"b\",\"n\":2}\n", &seen));
    assert_int_equal(seen, 3);
    assert_ok(read_text("", &seen));
    assert_ok(read_text("{\"kind\":\"a\",\"n\":1}\n{\"kind\":\"a\",\"n", &seen));
    assert_int_equal(seen, 1);
}

static void bad_lines_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"{\"kind\":\"a\"}\nnonsense\n", "records.jsonl:2: no JSON object"},
        {"[1]\n", "records.jsonl:1: no JSON object"},
        {"\n", "records.jsonl:1: no JSON object"},
        {"{\"kind\":1}\n", "records.jsonl:1: a record without a kind"},
        {"{\"kind\":\"a\"}\n{\"kind\":\"bad\"}\n", "line 2"},
    };
    int64_t seen;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(read_text(bad[i].text, &seen), TRM_DATA);
        assert_string_equal(trm_error_text(), bad[i].want);
    }
    assert_int_equal(trm_records_read("not-there.jsonl", count, &seen), TRM_DATA);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nests),
        cmocka_unit_test(doubles_read_back),
        cmocka_unit_test(doubles_are_short),
        cmocka_unit_test(not_finite_is_null),
        cmocka_unit_test(no_locale),
        cmocka_unit_test(any_bytes_are_json),
        cmocka_unit_test(no_allocation_once_grown),
        cmocka_unit_test(lines_are_read_back),
        cmocka_unit_test(bad_lines_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
