/* The tree of a YAML text: places, overrides, what is refused, and writing it again. */
#include <string.h>
#include <trireme/base.h>

#include "yaml_tree.h"
#include "support.h"

static trm_yaml *parsed(const char *text) {
    trm_yaml *y = NULL;
    assert_ok(trm_yaml_parse("job.yaml", text, strlen(text), &y));
    return y;
}

static trm_status parse(const char *text, size_t n) {
    trm_yaml *y = NULL;
    trm_status s = trm_yaml_parse("job.yaml", text, n, &y);
    trm_yaml_free(y);
    return s;
}

static void assert_refused(const char *text, const char *sentence) {
    assert_fault(parse(text, strlen(text)), TRM_JOB, sentence);
}

static void assert_place(trm_yaml_place at, const char *want) {
    char buf[160];
    assert_string_equal(trm_yaml_place_text(at, buf, sizeof buf), want);
}

static void knows_places(void **state) {
    (void)state;
    trm_yaml *y = parsed("a: 1\nb:\n  c: [x, \"y z\"]\n  \xc3\xa4: {d: 5}\n");
    trm_yaml_pair *c = trm_yaml_find(y->root, "b.c");
    assert_place(c->at, "job.yaml:3:3");
    assert_place(c->value->item[1]->at, "job.yaml:3:10");
    assert_true(c->value->item[1]->quoted);
    assert_false(c->value->item[0]->quoted);
    assert_string_equal(c->value->item[1]->text, "y z");
    /* Columns count characters, not bytes. */
    assert_place(trm_yaml_find(y->root, "b.\xc3\xa4.d")->at, "job.yaml:4:7");
    assert_null(trm_yaml_find(y->root, "b.c.x"));
    assert_null(trm_yaml_find(y->root, "b.x"));
    assert_null(trm_yaml_get(NULL, "b"));
    trm_yaml_free(y);
}

static void takes_what_settings_need(void **state) {
    (void)state;
    trm_yaml *y = parsed("# only a comment\n");
    assert_null(y->root);
    trm_yaml_free(y);
    y = parsed("\xef\xbb\xbf"
               "a: |\n  two\n  lines\nb:\nc: ~\nd: ''\n");
    assert_string_equal(trm_yaml_get(y->root, "a")->text, "two\nlines\n");
    assert_true(trm_yaml_is_nothing(trm_yaml_get(y->root, "b")));
    assert_true(trm_yaml_is_nothing(trm_yaml_get(y->root, "c")));
    assert_false(trm_yaml_is_nothing(trm_yaml_get(y->root, "d")));
    trm_yaml_free(y);
    /* Windows line ends, tabs behind values. */
    y = parsed("a: 1\t# one\r\n  \r\nb:\t2\r\n");
    assert_string_equal(trm_yaml_get(y->root, "b")->text, "2");
    trm_yaml_free(y);
}

static void refuses(void **state) {
    (void)state;
    assert_refused("a: 1\nb: 2\na: 3\n", "job.yaml:3:1: key `a` is given twice; the first is in line 1");
    assert_refused("a: &x 1\nb: *x\n", "job.yaml:1:4: anchors (&) and aliases (*) are not allowed");
    assert_refused("a: [*x]\n", "job.yaml:1:5: anchors");
    assert_refused("&x a: 1\n", "anchors");
    assert_refused("a: &x {b: 1}\n", "anchors");
    assert_refused("a: !!int 5\n", "job.yaml:1:4: tags (!) are not allowed");
    assert_refused("a: !thing [5]\n", "tags");
    assert_refused("%YAML 1.1\n---\na: 1\n", "job.yaml:1:1: directives (%) are not allowed");
    assert_refused("# x\n%TAG ! x:\n---\na: 1\n", "job.yaml:2:1: directives (%) are not allowed");
    assert_refused("a: 1\n---\nb: 2\n", "job.yaml:2:1: a second document starts here");
    assert_refused("? [a, b]\n: 1\n", "a key is a list or a map");
    assert_refused("{{a: 1}: 2}\n", "a key is a list or a map");
    assert_refused("'': 1\n", "a key is empty");
    assert_refused("a: 1\n\tb: 2\n", "job.yaml:2:1: a tab in the indentation");
    assert_refused("a:\n  \tb: 2\n", "job.yaml:2:3: a tab in the indentation");
    assert_refused("a: [1, 2\nb: 3\n", "job.yaml:2:2: not YAML: did not find expected ',' or ']'");
    assert_refused("a: b: c\n", "job.yaml:1:5: not YAML: mapping values are not allowed in this context");
    assert_refused("a: \"x\n", "not YAML: found unexpected end of stream");
    assert_refused("a: 1\n b: 2\n", "not YAML");
    assert_refused("a: @x\n", "not YAML: found character that cannot start any token");
    assert_refused("a: 1\nb: \xff\n", "job.yaml:2:4: byte 0xff is not UTF-8 text");
    assert_refused("a: \xc0\xaf\n", "byte 0xc0 is not UTF-8 text");
    assert_refused("a: \xed\xa0\x80\n", "byte 0xed is not UTF-8 text");
    assert_refused("a: \xf0\x9f\x98\n", "byte 0xf0 is not UTF-8 text");
    assert_refused("a: \x01\n", "job.yaml:1:4: control character 0x01 is not allowed");
    assert_refused("a: \"x\\0y\"\n", "a text holds a zero byte");
    assert_fault(parse("a: \0\n", 5), TRM_JOB, "control character 0x00");
}

static void refuses_what_is_too_much(void **state) {
    (void)state;
    trm_str s = {0};
    for (int i = 0; i < 200; i++) trm_str_add(&s, "[");
    assert_fault(parse(s.p, s.len), TRM_JOB, "nested more than 64 levels deep");
    trm_str_free(&s);
    for (int i = 0; i < 100000; i++) trm_str_add(&s, "{a: ");
    assert_fault(parse(s.p, s.len), TRM_JOB, "nested more than 64 levels deep");
    trm_str_free(&s);
    for (int i = 0; i < 1001; i++) trm_str_add(&s, "k%d: 1\n", i);
    assert_fault(parse(s.p, s.len), TRM_JOB, "job.yaml:1001:1: a map has more than 1000 keys");
    trm_str_free(&s);
    for (int i = 0; i < 110000; i++) trm_str_add(&s, "- 1\n");
    assert_fault(parse(s.p, s.len), TRM_JOB, "more than 100000 values");
    trm_str_free(&s);
    while (s.len <= TRM_YAML_MAX_BYTES) trm_str_add(&s, "# a very long comment\n");
    assert_fault(parse(s.p, s.len), TRM_JOB, "allowed are 1048576");
    trm_str_free(&s);
}

static void sets(void **state) {
    (void)state;
    trm_yaml *y = parsed("a: {b: 1, c: [10, {d: 4}]}\n");
    assert_ok(trm_yaml_set(y, "a.b=2"));
    assert_string_equal(trm_yaml_find(y->root, "a.b")->value->text, "2");
    assert_place(trm_yaml_find(y->root, "a.b")->value->at, "--set a.b=2");
    assert_place(trm_yaml_find(y->root, "a")->at, "job.yaml:1:1");
    assert_ok(trm_yaml_set(y, "a.c.1.d=[x, y]"));
    assert_int_equal(trm_yaml_find(y->root, "a.c")->value->item[1]->pair[0].value->n, 2);
    assert_ok(trm_yaml_set(y, "new.deep.key={e: 'q=r'}"));
    assert_string_equal(trm_yaml_find(y->root, "new.deep.key.e")->value->text, "q=r");
    assert_ok(trm_yaml_set(y, "a=gone"));
    assert_null(trm_yaml_find(y->root, "a.b"));
    trm_yaml_free(y);
    y = parsed("");
    assert_ok(trm_yaml_set(y, "a.b=1"));
    assert_non_null(trm_yaml_find(y->root, "a.b"));
    trm_yaml_free(y);
}

static void refuses_overrides(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"a.b", "--set a.b: a setting is written KEY=VALUE"},
        {"=1", "KEY=VALUE"},
        {"a..b=1", "KEY=VALUE"},
        {".a=1", "KEY=VALUE"},
        {"a.=1", "KEY=VALUE"},
        {"a b=1", "KEY=VALUE"},
        {"a=", "--set a=: there is no value behind the ="},
        {"a=[1", "--set a=[1: not YAML"},
        {"a=\xff", "not UTF-8"},
        {"a={b: 1, b: 2}", "key `b` is given twice"},
        {"t.x=1", "--set t.x=1: `x` cannot be set in the value 5, which is no map of keys"},
        {"l.3=1", "a list of 2 entries has no entry `3`; they count from 0"},
        {"l.-1=1", "a list of 2 entries has no entry `-1`"},
        {"l.x.y=1", "a list of 2 entries has no entry `x`"},
    };
    for (size_t i = 0; i < SUPPORT_COUNT(wrong); i++) {
        trm_yaml *y = parsed("t: 5\nl: [1, 2]\n");
        assert_fault(trm_yaml_set(y, wrong[i][0]), TRM_JOB, wrong[i][1]);
        trm_yaml_free(y);
    }
    trm_str s = {0};
    for (int i = 0; i < 40; i++) trm_str_add(&s, "a.");
    trm_str_add(&s, "a=1");
    trm_yaml *y = parsed("");
    assert_fault(trm_yaml_set(y, s.p), TRM_JOB, "KEY=VALUE");
    trm_yaml_free(y);
    trm_str_free(&s);
}

static void wraps_and_removes(void **state) {
    (void)state;
    trm_yaml *y = parsed("a: sgd\nb: 2\nc: 3\n");
    assert_ok(trm_yaml_wrap(&trm_yaml_find(y->root, "a")->value, "type"));
    assert_string_equal(trm_yaml_find(y->root, "a.type")->value->text, "sgd");
    trm_yaml_remove(y->root, "b");
    trm_yaml_remove(y->root, "x");
    assert_int_equal(y->root->n, 2);
    assert_ok(trm_yaml_set(y, "d=4"));
    assert_ok(trm_yaml_set(y, "a.lr=1"));
    assert_string_equal(trm_yaml_find(y->root, "c")->value->text, "3");
    trm_yaml_free(y);
}

/* Equal but for places and for the styles of quotes. */
static bool same(const trm_yaml_node *a, const trm_yaml_node *b) {
    if (a->kind != b->kind || a->n != b->n) return false;
    if (a->kind == TRM_YAML_TEXT)
        return trm_yaml_is_nothing(a) == trm_yaml_is_nothing(b) &&
               (trm_yaml_is_nothing(a) || !strcmp(a->text, b->text));
    for (int i = 0; i < a->n; i++) {
        if (a->item && !same(a->item[i], b->item[i])) return false;
        if (a->pair && (strcmp(a->pair[i].key, b->pair[i].key) || !same(a->pair[i].value, b->pair[i].value)))
            return false;
    }
    return true;
}

static void writes_what_reads_back(void **state) {
    (void)state;
    static const char *const texts[] = {
        "a: 1\n",
        "- relu\n- linear: 512\n- conv2d: {out: 20, kernel: [5, 5]}\n- residual:\n    layers:\n      - "
        "relu\n      - {relu: ~}\n",
        "a: {}\nb: []\nc: [[1, 2], [], [{x: y}]]\n",
        "a: \"quo\\\"te\\\\ \\n\\t\\u00e4\"\nb: 'x: y'\nc: '#no'\nd: '*.h5'\ne: -1e-3\nf: .5\ng: 'null'\nh: "
        "'~'\ni: '-'\n",
        "\"odd key: \": 1\n'null': 2\n'': 3\n",
        "- - - 1\n    - 2\n  - {a: [1], b: {c: d}}\n",
        "just text",
    };
    for (size_t i = 0; i < SUPPORT_COUNT(texts); i++) {
        trm_yaml *a = NULL, *b = NULL;
        trm_str s = {0};
        if (trm_yaml_parse("a", texts[i], strlen(texts[i]), &a) != TRM_OK) continue;
        trm_yaml_write(a->root, 0, &s);
        assert_ok(trm_yaml_parse("b", s.p, s.len, &b));
        if (!same(a->root, b->root)) fail_msg("%s became\n%s", texts[i], s.p);
        trm_yaml_free(a);
        trm_yaml_free(b);
        trm_str_free(&s);
    }
}

static void shows_values(void **state) {
    (void)state;
    char buf[80];
    trm_yaml *y = parsed("a: 0\nb: '0'\nc: [1]\nd: {x: 1}\ne:\nf: []\ng: a very long text that goes on and "
                         "on and on until no one reads it any more\n");
    static const char *const want[] = {"0",
                                       "\"0\"",
                                       "a list",
                                       "a map of keys",
                                       "empty",
                                       "an empty list",
                                       "a very long text that goes on and on and on until no one rea..."};
    for (int i = 0; i < y->root->n; i++)
        assert_string_equal(trm_yaml_shown(y->root->pair[i].value, buf, sizeof buf), want[i]);
    trm_yaml_free(y);
}

static const char good[] = "a: {b: [1, 'x', {c: \"d\"}]}\nf:\n  - g: h\n  - [i, [j]]\nk: ~\n";

/* Each allocation fails in turn: a sentence, no crash, no leak (the sanitizer looks). */
static void survives_failing_memory(void **state) {
    (void)state;
    for (uint64_t i = 1;; i++) {
        trm_yaml *y = NULL;
        trm_mem_fail_after(i);
        trm_status s = trm_yaml_parse("job.yaml", good, strlen(good), &y);
        if (s == TRM_OK) s = trm_yaml_set(y, "a.b.2.c={z: [1, 2]}");
        if (s == TRM_OK) s = trm_yaml_set(y, "new.key=1");
        if (s == TRM_OK) s = trm_yaml_wrap(&trm_yaml_find(y->root, "k")->value, "type");
        trm_mem_fail_after(0);
        trm_yaml_free(y);
        if (s == TRM_OK) break;
        assert_int_equal(s, TRM_MEMORY);
    }
}

/* A text cut at any byte gives a tree or a sentence. */
static void survives_cuts(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof good; n++) {
        trm_status s = parse(good, n);
        assert_true(s == TRM_OK || s == TRM_JOB);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_places),
        cmocka_unit_test(takes_what_settings_need),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_what_is_too_much),
        cmocka_unit_test(sets),
        cmocka_unit_test(refuses_overrides),
        cmocka_unit_test(wraps_and_removes),
        cmocka_unit_test(writes_what_reads_back),
        cmocka_unit_test(shows_values),
        cmocka_unit_test(survives_failing_memory),
        cmocka_unit_test(survives_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
