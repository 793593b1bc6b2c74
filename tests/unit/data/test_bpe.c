/* BPE: words, merges and UTF-8, with a vocabulary that fits on a page. tests/reference/bpe.py looks at whole texts. */
#include "make_impl.h"
#include "data_support.h"

/* Tokens that were put, as text: "a ab Ġ". */
typedef struct heard {
    int32_t token[256];
    size_t n;
} heard;

static trm_status hear(void *ctx, const int32_t *token, size_t n) {
    heard *h = ctx;
    for (size_t i = 0; i < n && h->n < 256; i++) h->token[h->n++] = token[i];
    return TRM_OK;
}

static trm_bpe *make(const char *vocabulary, const char *merges) {
    trm_bpe *b = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s", support_file("vocab.json", vocabulary));
    assert_ok(trm_bpe_open(path, support_file("merges.txt", merges), &b));
    return b;
}

static void are(trm_bpe *b, const char *text, const int32_t *want, size_t n) {
    /* Twice: the second time the word is remembered. */
    for (int k = 0; k < 2; k++) {
        heard h = {0};
        size_t used = 0;
        assert_ok(trm_bpe_encode(b, text, strlen(text), true, hear, &h, &used));
        assert_int_equal(used, strlen(text));
        assert_int_equal(h.n, n);
        assert_memory_equal(h.token, want, n * sizeof *want);
    }
}

#define ARE(b, text, ...) \
    are(b, text, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void merges_go_from_left_to_right(void **state) {
    (void)state;
    trm_bpe *b = make("{\"a\":0,\"b\":1,\"aa\":2,\"ab\":3,\"aab\":4,\"aaaa\":5}",
                      "#version: 0.2\na a\na b\naa b\naa aa\n");
    assert_int_equal(trm_bpe_tokens(b), 6);
    assert_int_equal(trm_bpe_find(b, "aab"), 4);
    assert_int_equal(trm_bpe_find(b, "ba"), -1);
    ARE(b, "a", 0);
    ARE(b, "aa", 2);
    ARE(b, "aaa", 2, 0);
    ARE(b, "aaaaa", 5, 0);
    ARE(b, "ab", 3);
    ARE(b, "aab", 4);
    ARE(b, "aaab", 2, 3);
    ARE(b, "bbaab", 1, 1, 4);
    trm_bpe_close(b);
    /* A list that was not learnt: what becomes possible late stands first. */
    b = make("{\"a\":0,\"b\":1,\"ab\":2,\"abab\":3}", "ab ab\r\na b\r\n");
    ARE(b, "ababab", 3, 2);
    trm_bpe_close(b);
    trm_bpe_close(NULL);
}

/* Every word ends where another token begins: with a merge of all letters they can be counted. */
static void words_are_cut(void **state) {
    (void)state;
    trm_bpe *b = make("{\"a\":0,\"b\":1,\"\\u0120\":2,\"'\":3,\"s\":4,\"t\":5,\"1\":6,\"!\":7,\"\\u010a\":8,"
                      "\"\\u0120a\":9,\"aa\":10,\"'s\":11,\"\\u0120\\u0120\":12,\"a1\":13,\"!a\":14,\"st\":"
                      "15,\"\\u010a\\u0120\":16,\"r\":17}",
                      "\xC4\xA0 a\na a\n' s\n\xC4\xA0 \xC4\xA0\na 1\n! a\ns t\n\xC4\x8A \xC4\xA0\n");
    ARE(b, "aa", 10);
    ARE(b, "a a", 0, 9);
    ARE(b, "a  a", 0, 2, 9); /* the last blank goes with the word */
    ARE(b, "a   a", 0, 12, 9);
    ARE(b, "a  ", 0, 12); /* at the end all stay together */
    ARE(b, "a1", 0, 6);   /* letters and numbers are apart */
    ARE(b, "!a", 7, 0);
    ARE(b, "a's", 0, 11);
    ARE(b, "a'st", 0, 11, 5); /* 's is a word of its own */
    ARE(b, "a'r", 0, 3, 17);  /* and 'r none */
    ARE(b, "a\n a", 0, 8, 9);
    ARE(b, "a\n \n", 0, 16, 8);
    trm_bpe_close(b);
}

/* Cut anywhere, a text gives the same tokens: what may go on is kept back. */
static void pieces_make_the_same(void **state) {
    (void)state;
    const char *text = "'s a'ss aa  aab'  'a ab \n\n  a's";
    trm_bpe *b = make("{\"a\":0,\"b\":1,\"\\u0120\":2,\"'\":3,\"s\":4,\"\\u010a\":8,\"aa\":10,\"'s\":11,"
                      "\"\\u0120\\u0120\":12}",
                      "a a\n' s\n\xC4\xA0 \xC4\xA0\n");
    size_t n = strlen(text), used;
    heard whole = {0};
    assert_ok(trm_bpe_encode(b, text, n, true, hear, &whole, &used));
    for (size_t cut = 0; cut <= n; cut++) {
        heard h = {0};
        assert_ok(trm_bpe_encode(b, text, cut, false, hear, &h, &used));
        size_t first = used;
        assert_true(first <= cut);
        assert_ok(trm_bpe_encode(b, text + first, n - first, true, hear, &h, &used));
        assert_int_equal(h.n, whole.n);
        assert_memory_equal(h.token, whole.token, h.n * sizeof *h.token);
    }
    trm_bpe_close(b);
}

static void utf8(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t whole;
        bool good;
    } cases[] = {
        {"", 0, true},
        {"abc", 3, true},
        {"\xC3\xA9", 2, true},
        {"a\xC3", 1, true}, /* the rest may come */
        {"\xE2\x82\xAC\xE2\x82", 3, true},
        {"\xF0\x9F\x98\x80", 4, true},
        {"\xF4\x8F\xBF\xBF", 4, true}, /* the last one */
        {"a\x80", 1, false},
        {"a\xC3(", 1, false},
        {"\xC0\x80", 0, false}, /* longer than need be */
        {"\xE0\x80\x80", 0, false},
        {"\xF0\x80\x80\x80", 0, false},
        {"\xED\xA0\x80", 0, false},     /* half of a pair */
        {"\xF4\x90\x80\x80", 0, false}, /* behind the last one */
        {"ab\xFF", 2, false},
    };
    for (size_t i = 0; i < SUPPORT_COUNT(cases); i++) {
        size_t whole;
        assert_int_equal(trm_utf8_whole(cases[i].text, strlen(cases[i].text), &whole), cases[i].good);
        assert_int_equal(whole, cases[i].whole);
    }
}

static void bad_vocabularies(void **state) {
    (void)state;
    static const struct {
        const char *vocabulary, *merges, *says;
    } cases[] = {
        {"", "", "no JSON"},
        {"{\"a\":0", "", "no JSON"},
        {"[\"a\"]", "", "is no vocabulary"},
        {"{}", "", "holds no token"},
        {"{\"a\":0,\"a\":1}", "", "no JSON"},
        {"{\"a\":0,\"b\":0}", "", "two tokens have the number 0"},
        {"{\"a\":0,\"b\":1.5}", "", "the number of token 'b' is none"},
        {"{\"a\":0,\"b\":\"1\"}", "", "the number of token 'b' is none"},
        {"{\"a\":0,\"b\":-1}", "", "the number of token 'b' is none"},
        {"{\"a\":0,\"b\":99999999999}", "", "the number of token 'b' is none"},
        {"{\"a\":0,\"b\":1}", "a b\n", "merges.txt line 1: 'ab' is not in the vocabulary"},
        {"{\"a\":0,\"ab\":1}", "a b\n", "line 1: 'one of its two tokens' is not"},
        {"{\"a\":0,\"aa\":1}", "#version: 0.2\n\na a\naa\n",
         "merges.txt line 4: 'aa'; expected are two tokens"},
        {"{\"a\":0,\"aa\":1}", "a a a\n", "line 1: 'a a a'; expected"},
        {"{\"a\":0,\"aa\":1}", " a\n", "line 1: ' a'; expected"},
        {"{\"a\":0,\"aa\":1}", "a \n", "line 1: 'a '; expected"},
    };
    uint64_t live = trm_mem_count().live_bytes;
    for (size_t i = 0; i < SUPPORT_COUNT(cases); i++) {
        trm_bpe *b = NULL;
        char path[512];
        snprintf(path, sizeof path, "%s", support_file("vocab.json", cases[i].vocabulary));
        assert_fault(trm_bpe_open(path, support_file("merges.txt", cases[i].merges), &b), TRM_DATA,
                     cases[i].says);
        assert_int_equal(trm_mem_count().live_bytes, live);
    }
    trm_bpe *b = make("{\"a\":0}", "");
    heard h = {0};
    size_t used;
    assert_fault(trm_bpe_encode(b, "ab", 2, true, hear, &h, &used), TRM_DATA, "no token for the byte 62");
    trm_bpe_close(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_go_from_left_to_right),
        cmocka_unit_test(words_are_cut),
        cmocka_unit_test(pieces_make_the_same),
        cmocka_unit_test(utf8),
        cmocka_unit_test(bad_vocabularies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
