/* Growing strings, nearest names, numbers for people, parsers. */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>
#include "support.h"

static void grows(void **state) {
    (void)state;
    trm_str s = {0};
    assert_string_equal(trm_str_get(&s), "");
    for (int i = 0; i < 1000; i++) trm_str_add(&s, "%03d,", i);
    assert_false(s.failed);
    assert_int_equal(s.len, 4000);
    assert_int_equal(strlen(trm_str_get(&s)), 4000);
    assert_memory_equal(s.p + 3996, "999,", 5);
    trm_str_free(&s);
    assert_null(s.p);
    trm_str_free(&s);
}

static void takes_bytes_with_nul(void **state) {
    (void)state;
    trm_str s = {0};
    trm_str_addn(&s, "a\0b", 3);
    trm_str_addn(&s, NULL, 0);
    assert_int_equal(s.len, 3);
    assert_memory_equal(s.p, "a\0b\0", 4);
    trm_str_free(&s);
}

static void a_failed_allocation_is_remembered(void **state) {
    (void)state;
    trm_str s = {0};
    trm_mem_fail_after(1);
    trm_str_add(&s, "lost");
    assert_true(s.failed);
    assert_string_equal(trm_str_get(&s), "");
    trm_str_add(&s, "after");
    assert_string_equal(trm_str_get(&s), "");
    trm_str_free(&s);

    trm_str_add(&s, "kept");
    trm_mem_fail_after(1);
    for (int i = 0; i < 20; i++) trm_str_add(&s, "0123456789");
    trm_mem_fail_after(0);
    assert_true(s.failed);
    assert_memory_equal(trm_str_get(&s), "kept", 4);
    trm_str_free(&s);
}

static void finds_the_nearest(void **state) {
    (void)state;
    static const char *const names[] = {"batch", "epochs", "learning_rate", "seed", "momentum", NULL};
    static const char *const none[] = {NULL};
    assert_string_equal(trm_nearest("bacth", names), "batch");
    assert_string_equal(trm_nearest("epoch", names), "epochs");
    assert_string_equal(trm_nearest("learningrate", names), "learning_rate");
    assert_string_equal(trm_nearest("Momentum", names), "momentum");
    assert_string_equal(trm_nearest("seeed", names), "seed");
    assert_null(trm_nearest("dataset", names));
    assert_null(trm_nearest("x", names));
    assert_null(trm_nearest("", names));
    assert_null(trm_nearest("batch", none));
}

static void nearest_survives_long_words(void **state) {
    (void)state;
    char word[200];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    const char *const names[] = {word, "a", "", NULL};
    assert_null(trm_nearest(word, names));
    assert_null(trm_nearest("zzz", names));
    word[63] = '\0';
    assert_ptr_equal(trm_nearest(word, names), word);
}

static const char *bytes(double b) {
    static char buf[16];
    return trm_human_bytes(b, buf, sizeof buf);
}

static void bytes_for_people(void **state) {
    (void)state;
    assert_string_equal(bytes(0), "0 B");
    assert_string_equal(bytes(1023), "1023 B");
    assert_string_equal(bytes(1024), "1.0 KiB");
    assert_string_equal(bytes(1.5 * (1 << 30)), "1.5 GiB");
    assert_string_equal(bytes(1024.0 * 1024 - 1), "1.0 MiB");
    assert_string_equal(bytes(0x1p64), "16.0 EiB");
    assert_string_equal(bytes(NAN), "? B");
    assert_string_equal(bytes(-1), "? B");
    assert_string_equal(bytes(INFINITY), "? B");
}

static const char *duration(double s) {
    static char buf[24];
    return trm_human_time(s, buf, sizeof buf);
}

static void time_for_people(void **state) {
    (void)state;
    assert_string_equal(duration(0), "0 us");
    assert_string_equal(duration(12e-6), "12 us");
    assert_string_equal(duration(0.0034), "3.4 ms");
    assert_string_equal(duration(0.25), "250 ms");
    assert_string_equal(duration(3.42), "3.4 s");
    assert_string_equal(duration(59.97), "1 min 00 s");
    assert_string_equal(duration(125), "2 min 05 s");
    assert_string_equal(duration(3599.6), "1 h 00 min");
    assert_string_equal(duration(3720), "1 h 02 min");
    assert_string_equal(duration(48 * 3600.0), "2 d 00 h");
    assert_string_equal(duration(1e12), "11574074 d 02 h");
    assert_string_equal(duration(NAN), "? s");
    assert_string_equal(duration(-3), "? s");
}

static void integers_are_strict(void **state) {
    (void)state;
    int64_t v = 7;
    assert_true(trm_parse_int("0", &v) && v == 0);
    assert_true(trm_parse_int("-12", &v) && v == -12);
    assert_true(trm_parse_int("+12", &v) && v == 12);
    assert_true(trm_parse_int("007", &v) && v == 7);
    assert_true(trm_parse_int("9223372036854775807", &v) && v == INT64_MAX);
    assert_true(trm_parse_int("-9223372036854775808", &v) && v == INT64_MIN);
    v = 5;
    // clang-format off
    static const char *const bad[] = {"", "-", "+", " 1", "1 ", "1x", "0x10", "1e3", "1.0", "--1", "1_000", "1,000",
                                      "9223372036854775808", "-9223372036854775809", "99999999999999999999", NULL};
    // clang-format on
    for (int i = 0; bad[i]; i++) assert_false(trm_parse_int(bad[i], &v));
    assert_int_equal(v, 5);
}

static void numbers_are_strict(void **state) {
    (void)state;
    double v = 7;
    assert_true(trm_parse_double("0.1", &v) && v == 0.1);
    assert_true(trm_parse_double("-1e-3", &v) && v == -1e-3);
    assert_true(trm_parse_double("+.5", &v) && v == 0.5);
    assert_true(trm_parse_double("5.", &v) && v == 5);
    assert_true(trm_parse_double("1E+2", &v) && v == 100);
    assert_true(trm_parse_double("1.7976931348623157e308", &v) && v == DBL_MAX);
    assert_true(trm_parse_double("1e-400", &v) && v == 0);
    v = 5;
    // clang-format off
    static const char *const bad[] = {"", ".", "-", "e3", "1e", "1e+", " 1", "1 ", "1,5", "0x1p3", "inf", "nan",
                                      "1e999", "1.2.3", "1e3.5", "1f", "NaN", NULL};
    // clang-format on
    for (int i = 0; bad[i]; i++) assert_false(trm_parse_double(bad[i], &v));
    assert_true(v == 5);
}

/* A program that embeds the library may run in a locale with a decimal comma. */
static void no_locale_changes_the_point(void **state) {
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "de_DE")) skip();
    double v = 0;
    assert_true(trm_parse_double("0.25", &v) && v == 0.25);
    assert_false(trm_parse_double("0,25", &v));
    assert_string_equal(bytes(1536), "1.5 KiB");
    assert_string_equal(duration(3.4), "3.4 s");
    setlocale(LC_ALL, "C");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows),
        cmocka_unit_test(takes_bytes_with_nul),
        cmocka_unit_test(a_failed_allocation_is_remembered),
        cmocka_unit_test(finds_the_nearest),
        cmocka_unit_test(nearest_survives_long_words),
        cmocka_unit_test(bytes_for_people),
        cmocka_unit_test(time_for_people),
        cmocka_unit_test(integers_are_strict),
        cmocka_unit_test(numbers_are_strict),
        cmocka_unit_test(no_locale_changes_the_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
