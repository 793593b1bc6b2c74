/* base: what every C program needs and nothing about learning.
 *
 * Errors are sentences, made once by the function that detects the fault, carried up as a
 * code plus one text per thread, and printed once by `cli`.  Nothing here prints or exits.
 */
#ifndef TRIREME_BASE_H
#define TRIREME_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define TRM_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define TRM_USED __attribute__((warn_unused_result))
#define TRM_API __attribute__((visibility("default")))
#else
#define TRM_PRINTF(fmt, args)
#define TRM_USED
#define TRM_API
#endif

/* ---- status ------------------------------------------------------------------------- */

/* One list gives enum, name, exit code and message. */
#define TRM_STATUS_LIST(X)                                                                  \
    X(OK, 0, "done")                                                                        \
    X(RUN, 1, "the run failed")                                                             \
    X(USAGE, 2, "wrong usage")                                                              \
    X(JOB, 2, "the job file is wrong")                                                      \
    X(DATA, 2, "the data is wrong")                                                         \
    X(MACHINE, 3, "the machine lacks something")                                            \
    X(MEMORY, 3, "out of memory")                                                           \
    X(IO, 1, "reading or writing failed")                                                   \
    X(COMM, 1, "communication failed")                                                      \
    X(NUMERIC, 1, "a number is not finite")                                                 \
    X(STOPPED, 75, "stopped on purpose with a checkpoint")                                  \
    X(INTERNAL, 1, "a bug in Trireme")

typedef enum trm_status {
#define X(name, exit_code, text) TRM_##name,
    TRM_STATUS_LIST(X)
#undef X
} trm_status;

TRM_API const char *trm_status_name(trm_status s);      /* "DATA" */
TRM_API const char *trm_status_text(trm_status s);      /* "the data is wrong" */
TRM_API int trm_status_exit_code(trm_status s);

/* Records the sentence of a fault for this thread and returns `s` so that failing is one
 * line.  The sentence says what was asked, the value seen, what is allowed and where; lower
 * case, no final stop.  A later call on the same thread replaces an earlier sentence. */
TRM_API trm_status trm_fail(trm_status s, const char *fmt, ...) TRM_PRINTF(2, 3);
/* Adds one `hint:` line to the recorded sentence. */
TRM_API void trm_hint(const char *fmt, ...) TRM_PRINTF(1, 2);
/* Puts "prefix: " before the recorded sentence and returns `s`. */
TRM_API trm_status trm_prefix(trm_status s, const char *fmt, ...) TRM_PRINTF(2, 3);
/* The sentence / hint of the last fault of this thread; "" where there is none. Valid until
 * the thread's next call of trm_fail.  Lets a worker thread hand its fault to another. */
TRM_API const char *trm_error_text(void);
TRM_API const char *trm_error_hint(void);

/* Return on failure, when there is nothing to release. */
#define TRM_TRY(expr)                                                                       \
    do {                                                                                    \
        trm_status trm_try_ = (expr);                                                       \
        if (trm_try_ != TRM_OK) return trm_try_;                                            \
    } while (0)
/* Go to `out` on failure, with the code in the local variable `status`. */
#define TRM_GOTO(expr)                                                                      \
    do {                                                                                    \
        status = (expr);                                                                    \
        if (status != TRM_OK) goto out;                                                     \
    } while (0)

/* ---- memory ------------------------------------------------------------------------- */

#define TRM_ALIGN 64

/* Zeroed memory aligned to 64 bytes; NULL with a recorded TRM_MEMORY sentence on failure.
 * `what` names the use for that sentence ("activations").  Free with trm_free. */
TRM_API void *trm_alloc(size_t bytes, const char *what);
/* count * size with an overflow check. */
TRM_API void *trm_alloc_array(size_t count, size_t size, const char *what);
/* Grows a block to new_bytes; new bytes are zero.  `p` may be NULL. NULL on failure (the old
 * block stays valid). */
TRM_API void *trm_realloc(void *p, size_t old_bytes, size_t new_bytes, const char *what);
TRM_API char *trm_strdup(const char *s);
TRM_API void trm_free(void *p);                         /* accepts NULL */
/* a * b into *out; false on overflow. */
TRM_API bool trm_mul_size(size_t a, size_t b, size_t *out);

typedef struct trm_mem_counts {
    uint64_t allocations;           /* calls so far: a step must not change it */
    uint64_t live_bytes, peak_bytes;
} trm_mem_counts;
TRM_API trm_mem_counts trm_mem_count(void);
/* Test hook: the n-th allocation from now fails once (0 = never). */
TRM_API void trm_mem_fail_after(uint64_t n);
/* Resident set of this process, bytes (0 if unknown). */
TRM_API size_t trm_mem_available(void);                 /* bytes that this machine, or its container, can still give */
TRM_API size_t trm_mem_resident(void);

/* ---- log ---------------------------------------------------------------------------- */

typedef enum trm_log_level { TRM_LOG_ERROR, TRM_LOG_WARN, TRM_LOG_INFO, TRM_LOG_DEBUG } trm_log_level;
typedef void (*trm_log_fn)(void *ctx, trm_log_level level, const char *line);
/* Where lines go; `cli` installs the printer (rank 0 only) and a log file.  Default: nowhere. */
TRM_API void trm_log_set(trm_log_fn fn, void *ctx, trm_log_level max_level);
TRM_API void trm_log(trm_log_level level, const char *fmt, ...) TRM_PRINTF(2, 3);

/* ---- growing string ----------------------------------------------------------------- */

typedef struct trm_str {
    char *p;                        /* always NUL-terminated once used; NULL when new */
    size_t len, cap;
    bool failed;                    /* an allocation failed: contents are cut */
} trm_str;
TRM_API void trm_str_add(trm_str *s, const char *fmt, ...) TRM_PRINTF(2, 3);
TRM_API void trm_str_addn(trm_str *s, const char *bytes, size_t n);
TRM_API const char *trm_str_get(const trm_str *s);      /* "" when empty */
TRM_API void trm_str_free(trm_str *s);

/* Control characters become '?': names out of files must neither break a line nor speak to a terminal. */
TRM_API void trm_one_line(char *text);

/* The nearest of `names` (NULL-terminated) by edit distance, or NULL when none is near. */
TRM_API const char *trm_nearest(const char *word, const char *const *names);
/* "1.5 GiB"; buf of >= 16 bytes. Returns buf. */
TRM_API const char *trm_human_bytes(double bytes, char *buf, size_t cap);
/* "1 h 02 min", "3.4 s"; buf of >= 24 bytes. */
TRM_API const char *trm_human_time(double seconds, char *buf, size_t cap);
/* Strict, locale-free parsers: whole text or false. */
TRM_API bool trm_parse_int(const char *text, int64_t *out);
TRM_API bool trm_parse_double(const char *text, double *out);
TRM_API bool trm_parse_float(const char *text, float *out);   /* the nearest float: not the nearest of the nearest double */

/* ---- files -------------------------------------------------------------------------- */

/* mkdir -p.  IO sentence on failure, USAGE where a file has the name. */
TRM_API trm_status trm_make_dirs(const char *path);
/* Writes a whole file aside, syncs and renames it over `path`. */
TRM_API trm_status trm_write_file(const char *path, const void *bytes, size_t n);
/* Reads a whole regular file (at most `limit` bytes); *out is NUL-terminated, freed by
 * trm_free.  A directory, pipe or device is refused and never blocks. */
TRM_API trm_status trm_read_file(const char *path, size_t limit, char **out, size_t *n);
TRM_API trm_status trm_remove_tree(const char *path);
/* How files of one kind are known: `n` bytes of `magic` at byte `at`, within the first 16. */
typedef struct trm_output_kind { const char *name, *magic; size_t at, n; } trm_output_kind;
/* USAGE sentence where no file can be written as `path`: its folder is missing, it is a folder, pipe, device or link, or
 * a file that holds something and is not of `kind` (NULL: any). */
TRM_API trm_status trm_output_check(const char *path, const trm_output_kind *kind);
/* USAGE sentence where `path` is one of the files that are read. */
TRM_API trm_status trm_output_apart(const char *path, const char *const *inputs, int n);
/* 64-bit FNV-1a style hash for fingerprints; chain with `seed` (start with 0). */
TRM_API uint64_t trm_hash(const void *bytes, size_t n, uint64_t seed);

/* ---- clock -------------------------------------------------------------------------- */

TRM_API double trm_now(void);                           /* monotonic seconds */
TRM_API double trm_thread_cpu(void);                    /* CPU seconds of this thread */
TRM_API double trm_thread_delay(void);                  /* seconds that it was ready and had no core; 0 where the kernel does not tell */
TRM_API void trm_sleep(double seconds);
/* Test hook: replaces trm_now (NULL restores); meanwhile threads take no CPU time and wait for no core. */
TRM_API void trm_clock_replace(double (*fn)(void));

/* ---- random numbers ----------------------------------------------------------------- */

/* Philox4x32-10 (Salmon et al., SC'11), counter-based: a number is a pure function of its
 * key and counter and never of the rank.  The packing is fixed here and nowhere else:
 *   key     = seed ^ mix64(purpose << 32 | layer)          low word first; mix64 = SplitMix64's finalizer
 *   counter = { bits 0..31 of block, bits 0..31 of sample, bits 0..31 of update,
 *               bits 32..39 of block | bits 32..47 of sample << 8 | bits 32..39 of update << 24 }
 * mix64 is a bijection, so with one seed no two (purpose, layer) share a key: within a run nothing
 * collides up to 2^40 blocks, 2^48 samples and 2^40 updates (higher bits are not used).  Runs of
 * different seeds share a key only by chance, 2^-64 a pair.
 * Four consecutive elements share one block; element e is word e % 4 of block e / 4. */
typedef enum trm_rng_purpose {
    TRM_RNG_INIT = 1,               /* initial weights: layer = parameter index, sample = update = 0 */
    TRM_RNG_ORDER = 2,              /* order of samples: update = epoch */
    TRM_RNG_DROPOUT = 3,
    TRM_RNG_SYNTH = 4,
    TRM_RNG_AUGMENT = 5,
} trm_rng_purpose;

typedef struct trm_rng_key {
    uint64_t seed;
    uint32_t purpose;               /* trm_rng_purpose */
    uint32_t layer;                 /* global layer (or parameter) id */
    uint64_t update;                /* update number or epoch */
    uint64_t sample;                /* global sample index */
} trm_rng_key;

/* The four 32-bit words of elements 4*block .. 4*block+3. */
TRM_API void trm_rng_block(const trm_rng_key *key, uint64_t block, uint32_t out[4]);
/* The Philox key and counter that trm_rng_block uses, for loops that draw many blocks side by side.
 * Block b + k has the same counter but for its first word, which is k larger (b + k < 2^32). */
TRM_API void trm_rng_pack(const trm_rng_key *key, uint64_t block, uint32_t philox_key[2], uint32_t counter[4]);
TRM_API uint32_t trm_rng_u32(const trm_rng_key *key, uint64_t element);
TRM_API double trm_rng_uniform(const trm_rng_key *key, uint64_t element);  /* [0,1), 32 bits */
/* Standard normal by Box-Muller on words (2k, 2k+1) of the block: one per element. */
TRM_API double trm_rng_normal(const trm_rng_key *key, uint64_t element);
/* Uniform in [0, n) without bias worth noting (64-bit multiply, bias < n / 2^64); element counts
 * in units of 64 bits (two words each): element e is words 2e and 2e+1, low word first. */
TRM_API uint64_t trm_rng_below(const trm_rng_key *key, uint64_t element, uint64_t n);

/* ---- part: who owns which range of N things ------------------------------------------ */

/* offset[p] .. offset[p+1] belongs to owner p; offset has owners+1 entries. */
typedef struct trm_part {
    int owners;
    int64_t *offset;
} trm_part;
/* Cuts n things by non-negative weights (NULL = equal), by minimax integers: each next thing
 * goes to the owner whose (count+1)/weight would be lowest, ties to the lower owner.  A weight
 * of 0 owns nothing.  Local. */
TRM_API trm_status trm_part_by_weights(int owners, const double *weights, int64_t n, trm_part *out);
static inline int64_t trm_part_begin(const trm_part *p, int owner) { return p->offset[owner]; }
static inline int64_t trm_part_count(const trm_part *p, int owner) { return p->offset[owner + 1] - p->offset[owner]; }
TRM_API void trm_part_free(trm_part *p);

static inline int64_t trm_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t trm_max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline size_t trm_round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
/* Offset of the k-th of `parts` equal cuts of n (the first n % parts get one more). */
static inline int64_t trm_cut(int64_t n, int64_t parts, int64_t k) { return n / parts * k + trm_min64(k, n % parts); }

#endif
