/* bpe: byte-level byte pair encoding with a given vocabulary, as GPT-2 has it.
 *
 * A text is cut into words by a pattern over Unicode classes.  A word begins as its bytes, each a token; then again and
 * again the pair of neighbours that stands first in the list of merges becomes one token, everywhere in the word, until no
 * pair of the word is in the list.  The files write a byte as a visible character: that table is theirs, too. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "make_impl.h"
#include <jansson.h>
#include <limits.h>
#include <pcre2.h>
#include <string.h>
#include <unistd.h>

#define FILE_LIMIT (256 * TRM_MIB)
#define MOST_TOKENS (1 << 26)
#define WORD_CACHE 16384 /* words that are remembered, a power of two */
#define WORD_BYTES 24    /* the longest one of them */

/* White space as Unicode defines it; the library's own class has one character more. */
#define SPACE                                                                                                \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{" \
    "3000}"

static const char pattern[] = "'(?:[sdmt]|ll|ve|re)"
                              "| ?\\p{L}+"
                              "| ?\\p{N}+"
                              "| ?[^" SPACE "\\p{L}\\p{N}]+"
                              "|[" SPACE "]+(?![^" SPACE "])"
                              "|[" SPACE "]+";

typedef struct merge {
    int32_t a, b, to, rank; /* rank -1: the slot is free */
} merge;

typedef struct word {
    unsigned char n, tokens; /* n 0: the slot is free */
    char bytes[WORD_BYTES];
    int32_t token[WORD_BYTES];
} word;

struct trm_bpe {
    pcre2_code *code;
    pcre2_match_data *match;
    json_t *vocabulary;   /* text -> number, while the merges are read, and for trm_bpe_find */
    int32_t of_byte[256]; /* -1: none */
    int64_t tokens;       /* 1 + the largest number */
    merge *merges;
    size_t slots;
    word *cache;
    int32_t *token, *rank; /* of the word at work */
    size_t room;
};

/* ---- bytes as characters ---- */

static bool is_plain(int byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

/* The UTF-8 of the character that stands for a byte: itself where it can be seen, else one from 256 on. */
static void byte_text(int byte, char out[3]) {
    int code = byte;
    if (!is_plain(byte)) {
        code = 256;
        for (int i = 0; i < byte; i++) code += !is_plain(i);
    }
    if (code < 128) {
        out[0] = (char)code;
        out[1] = '\0';
    } else {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
        out[2] = '\0';
    }
}

/* ---- the vocabulary ---- */

static trm_status read_text(const char *path, char **text, size_t *n) {
    int fd;
    int64_t size;
    TRM_TRY(trm_open_regular(path, &fd, &size));
    close(fd);
    return trm_read_file(path, FILE_LIMIT, text, n);
}

/* -1: not there. */
static int32_t number_of(const trm_bpe *b, const char *text, size_t n) {
    json_t *v = json_object_getn(b->vocabulary, text, n);
    return v ? (int32_t)json_integer_value(v) : -1;
}

/* Every number is one, in range, and of one token only. */
static trm_status check_numbers(trm_bpe *b, const char *path) {
    const char *text;
    json_t *v;
    size_t most = 0;
    json_object_foreach(b->vocabulary, text, v) {
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= MOST_TOKENS)
            return trm_fail(TRM_DATA,
                            "%s: the number of token '%.40s' is none; allowed are whole numbers from 0 to %d",
                            path, text, MOST_TOKENS - 1);
        if ((size_t)json_integer_value(v) >= most) most = (size_t)json_integer_value(v) + 1;
    }
    unsigned char *taken = trm_alloc(most + 1, "a vocabulary");
    if (!taken) return TRM_MEMORY;
    trm_status s = most > 0 ? TRM_OK : trm_fail(TRM_DATA, "%s: holds no token", path);
    json_object_foreach(b->vocabulary, text, v) {
        unsigned char *t = &taken[json_integer_value(v)];
        if (*t && s == TRM_OK)
            s = trm_fail(TRM_DATA, "%s: two tokens have the number %lld, one is '%.40s'", path,
                         (long long)json_integer_value(v), text);
        *t = 1;
    }
    trm_free(taken);
    b->tokens = (int64_t)most;
    return s;
}

static trm_status read_vocabulary(trm_bpe *b, const char *path) {
    json_error_t e;
    char *text = NULL;
    size_t n;
    TRM_TRY(read_text(path, &text, &n));
    b->vocabulary = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    trm_free(text);
    if (!b->vocabulary) return trm_fail(TRM_DATA, "%s line %d: no JSON: %s", path, e.line, e.text);
    if (!json_is_object(b->vocabulary))
        return trm_fail(TRM_DATA, "%s: is no vocabulary; expected is {\"token\": number, ...}", path);
    TRM_TRY(check_numbers(b, path));
    for (int i = 0; i < 256; i++) {
        char c[3];
        byte_text(i, c);
        b->of_byte[i] = number_of(b, c, strlen(c));
    }
    return TRM_OK;
}

/* ---- the merges ---- */

static size_t slot_of(const trm_bpe *b, int32_t x, int32_t y) {
    uint64_t key = ((uint64_t)(uint32_t)x << 32 | (uint32_t)y) * 0x9E3779B97F4A7C15u;
    size_t at = (size_t)(key >> 32) & (b->slots - 1);
    while (b->merges[at].rank >= 0 && (b->merges[at].a != x || b->merges[at].b != y))
        at = (at + 1) & (b->slots - 1);
    return at;
}

static trm_status add_merge(trm_bpe *b, const char *path, int64_t line, char *text, int32_t rank) {
    char *space = strchr(text, ' ');
    if (!space || space == text || !space[1] || strchr(space + 1, ' '))
        return trm_fail(TRM_DATA, "%s line %lld: '%.40s'; expected are two tokens with a blank between", path,
                        (long long)line, text);
    size_t n = (size_t)(space - text), m = strlen(space + 1);
    int32_t x = number_of(b, text, n), y = number_of(b, space + 1, m);
    memmove(space, space + 1, m + 1);
    int32_t to = number_of(b, text, n + m);
    if (x < 0 || y < 0 || to < 0)
        return trm_fail(TRM_DATA, "%s line %lld: '%.40s' is not in the vocabulary", path, (long long)line,
                        to < 0 ? text : "one of its two tokens");
    merge *slot = &b->merges[slot_of(b, x, y)];
    if (slot->rank < 0) *slot = (merge){x, y, to, rank}; /* the first word counts */
    return TRM_OK;
}

static trm_status make_slots(trm_bpe *b, const char *text) {
    size_t lines = 1;
    for (const char *c = text; (c = strchr(c, '\n')); c++) lines++;
    for (b->slots = 64; b->slots < 2 * lines; b->slots *= 2) {}
    b->merges = trm_alloc_array(b->slots, sizeof *b->merges, "merges");
    if (!b->merges) return TRM_MEMORY;
    for (size_t i = 0; i < b->slots; i++) b->merges[i].rank = -1;
    return TRM_OK;
}

static trm_status read_merges(trm_bpe *b, const char *path) {
    char *text = NULL, *next;
    size_t n;
    int32_t rank = 0;
    int64_t line = 0;
    TRM_TRY(read_text(path, &text, &n));
    trm_status s =
        strlen(text) == n ? make_slots(b, text) : trm_fail(TRM_DATA, "%s: holds a zero byte", path);
    for (char *at = text; at && s == TRM_OK; at = next) {
        next = strchr(at, '\n');
        size_t length = next ? (size_t)(next - at) : strlen(at);
        if (next) *next++ = '\0';
        line++;
        if (length > 0 && at[length - 1] == '\r') at[--length] = '\0';
        if (length > 0 && !(line == 1 && strncmp(at, "#version", 8) == 0))
            s = add_merge(b, path, line, at, rank++);
    }
    trm_free(text);
    return s;
}

/* ---- opening ---- */

static trm_status make_pattern(trm_bpe *b) {
    int code;
    PCRE2_SIZE at;
    PCRE2_UCHAR text[120];
    b->code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
    if (!b->code) {
        pcre2_get_error_message(code, text, sizeof text);
        return trm_fail(TRM_MACHINE, "the pattern of words cannot be compiled: %s", (char *)text);
    }
    (void)pcre2_jit_compile(b->code, PCRE2_JIT_COMPLETE); /* only faster */
    b->match = pcre2_match_data_create_from_pattern(b->code, NULL);
    return b->match ? TRM_OK : trm_fail(TRM_MEMORY, "PCRE2 cannot be started");
}

trm_status trm_bpe_open(const char *vocabulary, const char *merges, trm_bpe **out) {
    trm_bpe *b = trm_alloc(sizeof *b, "a vocabulary");
    if (!b) return TRM_MEMORY;
    trm_status s = read_vocabulary(b, vocabulary);
    if (s == TRM_OK) s = read_merges(b, merges);
    if (s == TRM_OK) s = make_pattern(b);
    if (s == TRM_OK && !(b->cache = trm_alloc_array(WORD_CACHE, sizeof *b->cache, "words"))) s = TRM_MEMORY;
    if (s == TRM_OK)
        *out = b;
    else
        trm_bpe_close(b);
    return s;
}

void trm_bpe_close(trm_bpe *b) {
    if (!b) return;
    pcre2_match_data_free(b->match);
    pcre2_code_free(b->code);
    json_decref(b->vocabulary);
    trm_free(b->merges);
    trm_free(b->cache);
    trm_free(b->token);
    trm_free(b->rank);
    trm_free(b);
}

int64_t trm_bpe_tokens(const trm_bpe *b) { return b->tokens; }
int32_t trm_bpe_find(const trm_bpe *b, const char *token) { return number_of(b, token, strlen(token)); }

/* ---- a word ---- */

static trm_status make_room(trm_bpe *b, size_t n) {
    if (n <= b->room) return TRM_OK;
    trm_free(b->token);
    trm_free(b->rank);
    b->room = 0;
    b->token = trm_alloc_array(n, sizeof *b->token, "a word");
    b->rank = trm_alloc_array(n, sizeof *b->rank, "a word");
    if (!b->token || !b->rank) return TRM_MEMORY;
    b->room = n;
    return TRM_OK;
}

/* Place in the list of the pair that begins at i; INT_MAX: not in it. */
static int32_t rank_at(const trm_bpe *b, size_t i, size_t n) {
    if (i + 1 >= n) return INT_MAX;
    const merge *m = &b->merges[slot_of(b, b->token[i], b->token[i + 1])];
    return m->rank < 0 ? INT_MAX : m->rank;
}

#define NEW (-1) /* in place of a rank: the token was made in this sweep */

/* One sweep: every pair of this place in the list becomes one token, from left to right. */
static size_t sweep(trm_bpe *b, size_t n, int32_t rank) {
    size_t to = 0;
    for (size_t i = 0; i < n; to++) {
        bool both = b->rank[i] == rank;
        b->token[to] = both ? b->merges[slot_of(b, b->token[i], b->token[i + 1])].to : b->token[i];
        b->rank[to] = both ? NEW : b->rank[i];
        i += both ? 2 : 1;
    }
    for (size_t i = 0; i < to; i++) {
        bool next_is_new = i + 1 < to && b->rank[i + 1] == NEW;
        if (b->rank[i] == NEW || next_is_new || i + 1 == to) b->rank[i] = rank_at(b, i, to);
    }
    return to;
}

/* The tokens of n bytes go to b->token. */
static trm_status encode_bytes(trm_bpe *b, const char *bytes, size_t n, size_t *tokens) {
    TRM_TRY(make_room(b, n));
    for (size_t i = 0; i < n; i++) {
        b->token[i] = b->of_byte[(unsigned char)bytes[i]];
        if (b->token[i] < 0)
            return trm_fail(TRM_DATA, "the vocabulary has no token for the byte %02x",
                            (unsigned char)bytes[i]);
    }
    for (size_t i = 0; i < n; i++) b->rank[i] = rank_at(b, i, n);
    for (;;) {
        int32_t best = INT_MAX;
        for (size_t i = 0; i < n; i++)
            if (b->rank[i] < best) best = b->rank[i];
        if (best == INT_MAX) break;
        n = sweep(b, n, best);
    }
    *tokens = n;
    return TRM_OK;
}

static trm_status encode_word(trm_bpe *b, const char *bytes, size_t n, const int32_t **token,
                              size_t *tokens) {
    word *w = NULL;
    if (n <= WORD_BYTES) {
        w = &b->cache[trm_hash(bytes, n, 0) & (WORD_CACHE - 1)];
        if (w->n == n && memcmp(w->bytes, bytes, n) == 0) {
            *token = w->token;
            *tokens = w->tokens;
            return TRM_OK;
        }
    }
    TRM_TRY(encode_bytes(b, bytes, n, tokens));
    *token = b->token;
    if (!w) return TRM_OK;
    w->n = (unsigned char)n;
    w->tokens = (unsigned char)*tokens;
    memcpy(w->bytes, bytes, n);
    memcpy(w->token, b->token, *tokens * sizeof *w->token);
    return TRM_OK;
}

/* ---- a text ---- */

#define LOOK_AHEAD 8 /* bytes behind a word that may say how it ends: "'re" and half a character */

static trm_status next_word(trm_bpe *b, const char *text, size_t n, size_t at, size_t *end) {
    int r =
        pcre2_match(b->code, (PCRE2_SPTR)text, n, at, PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, b->match, NULL);
    if (r < 0) {
        PCRE2_UCHAR why[120];
        pcre2_get_error_message(r, why, sizeof why);
        return trm_fail(TRM_RUN, "the text cannot be cut into words: %s", (char *)why);
    }
    *end = pcre2_get_ovector_pointer(b->match)[1];
    return *end > at ? TRM_OK : trm_fail(TRM_INTERNAL, "an empty word");
}

trm_status trm_bpe_encode(trm_bpe *b, const char *text, size_t n, bool last, trm_bpe_put put, void *ctx,
                          size_t *used) {
    const int32_t *token;
    size_t tokens = 0, end = 0;
    *used = 0;
    while (*used < n) {
        TRM_TRY(next_word(b, text, n, *used, &end));
        if (!last && end + LOOK_AHEAD > n) return TRM_OK;
        TRM_TRY(encode_word(b, text + *used, end - *used, &token, &tokens));
        TRM_TRY(put(ctx, token, tokens));
        *used = end;
    }
    return TRM_OK;
}

/* ---- UTF-8 ---- */

/* Bytes of the character at p; 0: it is cut off by the end, -1: it is none. */
static int character(const unsigned char *p, size_t n) {
    int bytes = p[0] < 0x80                   ? 1
                : p[0] >= 0xC2 && p[0] < 0xE0 ? 2
                : (p[0] & 0xF0) == 0xE0       ? 3
                : p[0] >= 0xF0 && p[0] < 0xF5 ? 4
                                              : -1;
    for (int i = 1; i < bytes; i++) {
        if ((size_t)i >= n) return 0;
        if ((p[i] & 0xC0) != 0x80) return -1;
        if (i > 1) continue;
        /* Longer than need be, half of a pair, or behind the last character. */
        if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF0 && p[1] < 0x90) ||
            (p[0] == 0xF4 && p[1] > 0x8F))
            return -1;
    }
    return bytes;
}

bool trm_utf8_whole(const char *text, size_t n, size_t *whole) {
    for (*whole = 0; *whole < n;) {
        int bytes = character((const unsigned char *)text + *whole, n - *whole);
        if (bytes <= 0) return bytes == 0;
        *whole += (size_t)bytes;
    }
    return true;
}
