/* np: 1 2 3 4 */
/* timeout: 240 */
/* One suite for every transport: what comm.h promises, each test on each of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <trireme/mpi.h>

#include "mpi_support.h"

typedef struct transport {
    const char *name, *how, *nodes;
} transport;

static const transport transports[] = {
    {"self", NULL, NULL},         {"window", "window", "0"},    {"messages", "mpi", "0"},
    {"2 pretend nodes", "", "2"}, {"3 pretend nodes", "", "3"},
};

static const transport *now_testing;

static trm_comm *open_transport(const transport *t) {
    trm_comm *c = NULL;
    now_testing = t;
    if (!t->how) {
        assert_agreed_ok(trm_comm_self(&c));
        return c;
    }
    setenv("TRIREME_COMM", t->how, 1);
    setenv("TRIREME_FAKE_NODES", t->nodes, 1);
    assert_agreed_ok(trm_comm_from_mpi(MPI_COMM_WORLD, &c));
    return c;
}

#define FOR_EACH_TRANSPORT(t) \
    for (const transport *t = transports; t < transports + sizeof transports / sizeof *transports; t++)

/* ---- numbers that every rank knows ----------------------------------------------------- */

/* What rank r brings as element i; different magnitudes, so that the order of additions shows. */
static double value(int r, int64_t i, int round) {
    uint64_t x = (uint64_t)i * 2654435761u + (uint64_t)r * 40503u + (uint64_t)round * 97u;
    x ^= x >> 13;
    x *= 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    return ((double)(x % 20011) - 10005) / (double)(1 + x % 97);
}

static double get(const trm_comm_buffer *b, trm_dtype type, int64_t i) {
    const void *p = trm_comm_buffer_data(b);
    return type == TRM_F32 ? ((const float *)p)[i] : ((const double *)p)[i];
}

static void put(trm_comm_buffer *b, trm_dtype type, int64_t i, double x) {
    void *p = trm_comm_buffer_data(b);
    if (type == TRM_F32)
        ((float *)p)[i] = (float)x;
    else
        ((double *)p)[i] = x;
}

/* The sum over contributing ranks in rank order, in the type's own precision. */
static double expected(trm_dtype type, int ranks, const uint8_t *contributes, int64_t i, int round) {
    float sum32 = 0;
    double sum64 = 0;
    for (int r = 0; r < ranks; r++) {
        if (contributes && !contributes[r]) continue;
        sum32 += (float)value(r, i, round);
        sum64 += value(r, i, round);
    }
    return type == TRM_F32 ? sum32 : sum64;
}

/* Several nodes add in another grouping. */
static bool agrees(const trm_comm *c, trm_dtype type, double got, double want) {
    if (trm_comm_nodes(c) == 1) return got == want;
    return fabs(got - want) <= (type == TRM_F32 ? 2e-2 : 1e-10);
}

static uint64_t hash_range(const trm_comm_buffer *b, trm_dtype type, int64_t offset, int64_t count) {
    size_t size = trm_dtype_size(type);
    return trm_hash((const char *)trm_comm_buffer_data(b) + (size_t)offset * size, (size_t)count * size, 0);
}

/* Whether all ranks of the transport hold the same number. */
static bool same_everywhere(trm_comm *c, uint64_t mine) {
    uint64_t all[64];
    if (trm_comm_allgather(c, &mine, sizeof mine, all) != TRM_OK) return false;
    for (int k = 0; k < trm_comm_size(c); k++)
        if (all[k] != mine) return false;
    return true;
}

/* ---- sums ------------------------------------------------------------------------------- */

typedef struct sum_case {
    trm_dtype type;
    int64_t offset, count;
    const uint8_t *contributes;
} sum_case;

static void fill(trm_comm *c, trm_comm_buffer *b, const sum_case *k, int64_t total, int round) {
    int me = trm_comm_rank(c);
    bool mine = !k->contributes || k->contributes[me];
    for (int64_t i = 0; i < total; i++) {
        bool inside = i >= k->offset && i < k->offset + k->count;
        put(b, k->type, i, !inside ? 7 : mine ? value(me, i, round) : NAN);
    }
}

/* Of a long range some elements, at an odd stride; the hash covers the others. */
static bool is_summed(trm_comm *c, trm_comm_buffer *b, const sum_case *k, int64_t total, int round) {
    int64_t stride = total < 5000 ? 1 : total / 10000 * 2 + 1;
    for (int64_t i = 0; i < total; i += stride) {
        bool inside = i >= k->offset && i < k->offset + k->count;
        double want = inside ? expected(k->type, trm_comm_size(c), k->contributes, i, round) : 7;
        if (!agrees(c, k->type, get(b, k->type, i), want)) return false;
    }
    return same_everywhere(c, hash_range(b, k->type, k->offset, k->count));
}

static double sumsq_of(const trm_comm_buffer *b, const sum_case *k) {
    double sum = 0;
    for (int64_t i = k->offset; i < k->offset + k->count; i++) sum += get(b, k->type, i) * get(b, k->type, i);
    return sum;
}

/* Three rounds of one request; the result may be overwritten at once. */
static void check_sum(trm_comm *c, const sum_case *k) {
    int64_t total = k->offset + k->count + 5;
    trm_comm_buffer *b = NULL;
    trm_comm_request *r = NULL;
    double sumsq = 0, want_sumsq = 0;
    assert_agreed_ok(trm_comm_buffer_alloc(c, k->type, total, "a test", &b));
    bool clean = true;
    for (int64_t i = 0; i < total; i++) clean = clean && get(b, k->type, i) == 0;
    assert_agreed(clean);
    assert_agreed((uintptr_t)trm_comm_buffer_data(b) % TRM_ALIGN == 0);
    trm_comm_call call = {.kind = TRM_COMM_SUM,
                          .group = TRM_GROUP_DATA,
                          .channel = TRM_CHANNEL_GRAD,
                          .buffer = b,
                          .offset = k->offset,
                          .count = k->count,
                          .contributes = k->contributes,
                          .sumsq = &sumsq,
                          .what = "test sum"};
    assert_agreed_ok(trm_comm_plan(c, &call, &r));
    for (int round = 0; round < 3; round++) {
        fill(c, b, k, total, round);
        trm_status s = trm_comm_post(c, r);
        if (s == TRM_OK) s = trm_comm_wait(c, r);
        assert_agreed_ok(s);
        if (!support_agree(is_summed(c, b, k, total, round)))
            fail_msg("%s: %s, offset %lld, count %lld, round %d", now_testing->name, trm_dtype_name(k->type),
                     (long long)k->offset, (long long)k->count, round);
        want_sumsq += sumsq_of(b, k);
    }
    assert_agreed_ok(trm_comm_sum_f64(c, &sumsq, 1));
    assert_agreed(fabs(sumsq - want_sumsq) <= 1e-9 * want_sumsq);
    trm_comm_request_free(c, r);
    trm_comm_buffer_free(c, b);
}

static void sums_of_all_lengths(void **state) {
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 3, 15, 16, 17, 31, 64, 100, 1000, 4099, 70001};
    FOR_EACH_TRANSPORT(t) {
        trm_comm *c = open_transport(t);
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
            for (int type = 0; type < 2; type++) {
                int64_t offset = k % 2 ? 3 + (int64_t)k : 0;
                check_sum(c, &(sum_case){type ? TRM_F64 : TRM_F32, offset, counts[k], NULL});
            }
        trm_comm_close(c);
    }
}

/* More than the messages' and the pieces' largest sizes. */
static void large_sums(void **state) {
    (void)state;
    FOR_EACH_TRANSPORT(t) {
        trm_comm *c = open_transport(t);
        check_sum(c, &(sum_case){TRM_F32, 5, 2500007, NULL});
        check_sum(c, &(sum_case){TRM_F64, 0, 700001, NULL});
        trm_comm_close(c);
    }
}

/* What each rank of a node writes, all of them read; where there is no window nobody gets any. */
static void memory_of_a_node(void **state) {
    (void)state;
    enum { EACH = 100003 };
    FOR_EACH_TRANSPORT(t) {
        trm_comm *c = open_transport(t);
        int mine = trm_comm_node_rank(c), ranks = trm_comm_node_size(c);
        trm_comm_shared *s = NULL;
        int there[64] = {0}, here;
        assert_agreed_ok(trm_comm_shared_alloc(c, EACH * (size_t)trm_comm_size(c), "a block", &s));
        here = s != NULL;
        assert_agreed_ok(trm_comm_allgather(c, &here, sizeof here, there));
        bool good = t->how == NULL || strcmp(t->how, "mpi") == 0 || here || ranks < trm_comm_size(c);
        for (int r = 0; r < trm_comm_size(c); r++) good = good && there[r] == here;
        unsigned char *p = s ? trm_comm_shared_data(s) : NULL;
        if (p) memset(p + (size_t)mine * EACH, trm_comm_rank(c) + 1, EACH);
        assert_agreed_ok(trm_comm_barrier(c, "a barrier"));
        for (int k = 0; p && k < ranks; k++)
            for (int i = 1; i < EACH; i++) good = good && p[(size_t)k * EACH + i] == p[(size_t)k * EACH];
        for (int k = 1; p && k < ranks; k++) good = good && p[(size_t)k * EACH] > p[(size_t)(k - 1) * EACH];
        good = good && (!p || p[(size_t)mine * EACH] == trm_comm_rank(c) + 1);
        assert_agreed(good);
        assert_agreed_ok(trm_comm_barrier(c, "a barrier"));
        trm_comm_shared_free(c, s);
        trm_comm_shared_free(c, NULL);
        trm_comm_close(c);
    }
}

static void ranks_that_do_not_contribute(void **state) {
    (void)state;
    FOR_EACH_TRANSPORT(t) {
        trm_comm *c = open_transport(t);
        int ranks = trm_comm_size(c);
        for (int mask = 0; mask < 1 << ranks; mask++) {
            uint8_t contributes[64];
            for (int k = 0; k < ranks; k++) contributes[k] = mask >> k & 1;
            check_sum(c, &(sum_case){TRM_F32, 1, 1003, contributes});
            check_sum(c, &(sum_case){TRM_F64, 0, 9, contributes});
            check_sum(c, &(sum_case){TRM_F32, 0, 150001, contributes});
        }
        trm_comm_close(c);
    }
}

static void groups_of_one_rank(void **state) {
    (void)state;
    FOR_EACH_TRANSPORT(t) {
        trm_comm *c = open_transport(t);
        trm_comm_buffer *b = NULL;
        trm_comm_request *r = NULL;
        double sumsq = 0;
        assert_agreed_ok(trm_comm_buffer_alloc(c, TRM_F32, 3, "a test", &b));
        trm_comm_call call = {
            .kind = TRM_COMM_SUM, .group = TRM_GROUP_TENSOR, .buffer = b, .count = 3, .sumsq = &sumsq};
        assert_agreed_ok(trm_comm_plan(c, &call, &r));
        for (int i = 0; i < 3; i++) put(b, TRM_F32, i, 1 + trm_comm_rank(c));
        trm_status s = trm_comm_post(c, r);
        if (s == TRM_OK) s = trm_comm_wait(c, r);
        assert_agreed_ok(s);
        double mine = 1 + trm_comm_rank(c);
        assert_agreed(get(b, TRM_F32, 0) == mine && get(b, TRM_F32, 2) == mine && sumsq == 3 * mine * mine);
        assert_agreed(trm_comm_group_size(c, TRM_GROUP_TENSOR) == 1 &&
                      trm_comm_group_rank(c, TRM_GROUP_TENSOR) == 0);
        trm_comm_request_free(c, r);
        trm_comm_buffer_free(c, b);
        trm_comm_close(c);
    }
}

/* ---- gather ------------------------------------------------------------------------------ */

static void check_gather(trm_comm *c, int64_t offset, int64_t count) {
    int ranks = trm_comm_size(c), me = trm_comm_rank(c);
    trm_comm_buffer *b = NULL;
    trm_comm_request *r = NULL;
    assert_agreed_ok(trm_comm_buffer_alloc(c, TRM_U8, offset + count * ranks + 1, "notes", &b));
    trm_comm_call call = {
        .kind = TRM_COMM_GATHER, .channel = TRM_CHANNEL_NOTE, .buffer = b, .offset = offset, .count = count};
    assert_agreed_ok(trm_comm_plan(c, &call, &r));
    uint8_t *bytes = trm_comm_buffer_data(b);
    for (int round = 0; round < 3; round++) {
        memset(bytes, 255, (size_t)(offset + count * ranks + 1));
        for (int64_t i = 0; i < count; i++)
            bytes[offset + me * count + i] = (uint8_t)(me * 50 + round + i % 7);
        trm_status s = trm_comm_post(c, r);
        if (s == TRM_OK) s = trm_comm_wait(c, r);
        assert_agreed_ok(s);
        bool right = (offset == 0 || bytes[offset - 1] == 255) && bytes[offset + count * ranks] == 255;
        for (int k = 0; k < ranks; k++)
            for (int64_t i = 0; i < count; i++)
                right = right && bytes[offset + k * count + i] == (uint8_t)(k * 50 + round + i % 7);
        assert_agreed(right);
    }
    trm_comm_request_free(c, r);
    trm_comm_buffer_free(c, b);
}

static void gathers(void **state) {
    (void)state;
    FOR_EACH_TRANSPORT(t) {
        trm_comm *c = open_transport(t);
        check_gather(c, 0, 64);
        check_gather(c, 3, 1);
        check_gather(c, 64, 0);
        check_gather(c, 1, 3000017);
        trm_comm_close(c);
    }
}

/* ---- many at a time ---------------------------------------------------------------------- */

enum { GRADS = 5, STEPS = 2, REQUESTS = GRADS + STEPS + 1, ROUNDS = 1000 };

typedef struct crowd {
    trm_comm_buffer *grad, *step, *note;
    trm_comm_request *r[REQUESTS];
    int64_t offset[REQUESTS], count[REQUESTS];
} crowd;

static trm_status plan_crowd(trm_comm *c, crowd *w) {
    static const int64_t counts[GRADS] = {700, 33, 20000, 1, 5000};
    TRM_TRY(trm_comm_buffer_alloc(c, TRM_F32, 40000, "gradients", &w->grad));
    TRM_TRY(trm_comm_buffer_alloc(c, TRM_F64, 512, "statistics", &w->step));
    TRM_TRY(trm_comm_buffer_alloc(c, TRM_U8, 8 * trm_comm_size(c), "notes", &w->note));
    int64_t offset = 0;
    for (int k = 0; k < REQUESTS; k++) {
        trm_comm_call call = {.what = "one of many"};
        w->offset[k] = k < GRADS ? offset : (k - GRADS) * 200;
        w->count[k] = k < GRADS ? counts[k] : 130;
        if (k < GRADS)
            call.channel = TRM_CHANNEL_GRAD, call.buffer = w->grad;
        else
            call.channel = TRM_CHANNEL_STEP, call.buffer = w->step;
        if (k < GRADS) offset += counts[k];
        if (k == REQUESTS - 1) {
            w->offset[k] = 0;
            w->count[k] = 8;
            call.kind = TRM_COMM_GATHER, call.channel = TRM_CHANNEL_NOTE, call.buffer = w->note;
        }
        call.offset = w->offset[k];
        call.count = w->count[k];
        TRM_TRY(trm_comm_plan(c, &call, &w->r[k]));
    }
    return TRM_OK;
}

static void free_crowd(trm_comm *c, crowd *w) {
    for (int k = 0; k < REQUESTS; k++) trm_comm_request_free(c, w->r[k]);
    trm_comm_buffer_free(c, w->grad);
    trm_comm_buffer_free(c, w->step);
    trm_comm_buffer_free(c, w->note);
}

static unsigned dice(unsigned *seed) { return (*seed = *seed * 1103515245u + 12345u) >> 16; }

/* Each rank dawdles in its own way. */
static void dawdle(unsigned *seed) {
    unsigned x = dice(seed) % 64;
    if (x == 0) usleep(dice(seed) % 300);
    for (volatile unsigned i = 0; i < x * 20; i++) {}
}

static void fill_one(trm_comm *c, crowd *w, int k, int round) {
    int me = trm_comm_rank(c);
    uint64_t word = (uint64_t)(me + 1) * 1000003u + (uint64_t)round;
    for (int64_t i = w->offset[k]; i < w->offset[k] + w->count[k] && k < REQUESTS - 1; i++)
        put(k < GRADS ? w->grad : w->step, k < GRADS ? TRM_F32 : TRM_F64, i, value(me, i, round));
    if (k == REQUESTS - 1) memcpy((char *)trm_comm_buffer_data(w->note) + 8 * me, &word, 8);
}

static bool one_is_right(trm_comm *c, crowd *w, int k, int round) {
    trm_dtype type = k < GRADS ? TRM_F32 : TRM_F64;
    /* A few elements of each: this is about order and timing. */
    for (int64_t j = 0; j < w->count[k] && k < REQUESTS - 1; j += 1 + w->count[k] / 19) {
        int64_t i = w->offset[k] + j;
        double want = expected(type, trm_comm_size(c), NULL, i, round);
        if (!agrees(c, type, get(k < GRADS ? w->grad : w->step, type, i), want)) return false;
    }
    const uint64_t *note = trm_comm_buffer_data(w->note);
    for (int r = 0; r < trm_comm_size(c) && k == REQUESTS - 1; r++)
        if (note[r] != (uint64_t)(r + 1) * 1000003u + (uint64_t)round) return false;
    return true;
}

/* Posts in the common order of each channel; waits in an order of this rank's own. */
static trm_status one_round(trm_comm *c, crowd *w, int round, unsigned *seed, bool *right) {
    int left[GRADS + 1], n = 0;
    for (int k = 0; k < GRADS; k++) {
        fill_one(c, w, k, round);
        dawdle(seed);
        TRM_TRY(trm_comm_post(c, w->r[k]));
        left[n++] = k;
        if (k == 1) {
            fill_one(c, w, REQUESTS - 1, round);
            TRM_TRY(trm_comm_post(c, w->r[REQUESTS - 1]));
            left[n++] = REQUESTS - 1;
        }
        if (k % 2) continue;
        int s = GRADS + (k / 2) % STEPS;
        fill_one(c, w, s, round);
        TRM_TRY(trm_comm_post(c, w->r[s]));
        TRM_TRY(trm_comm_wait(c, w->r[s]));
        *right = *right && one_is_right(c, w, s, round);
    }
    while (n > 0) {
        int pick = (int)(dice(seed) % (unsigned)n), k = left[pick];
        dawdle(seed);
        TRM_TRY(trm_comm_wait(c, w->r[k]));
        *right = *right && one_is_right(c, w, k, round);
        left[pick] = left[--n];
    }
    return TRM_OK;
}

/* Returns what must be equal in a second run. */
static uint64_t run_crowd(const transport *t, int rounds) {
    trm_comm *c = open_transport(t);
    crowd w = {0};
    unsigned seed = 17u * (unsigned)support_rank() + (unsigned)getpid();
    bool right = true;
    trm_status s = TRM_OK;
    uint64_t allocations = 0, hash = 0;
    assert_agreed_ok(plan_crowd(c, &w));
    for (int round = 0; round < rounds && s == TRM_OK; round++) {
        if (round == 1) allocations = trm_mem_count().allocations;
        s = one_round(c, &w, round, &seed, &right);
        hash ^= hash_range(w.grad, TRM_F32, 0, 25000) + (uint64_t)round;
    }
    assert_agreed_ok(s);
    assert_agreed(right);
    assert_agreed(trm_mem_count().allocations == allocations);
    assert_agreed(t->how == NULL || same_everywhere(c, hash));
    trm_comm_counts counts = trm_comm_count(c);
    assert_agreed(counts.posts == (uint64_t)rounds * (GRADS + 3 + 1));
    assert_agreed(counts.wait_s >= counts.sum_s && counts.bytes > 0);
    free_crowd(c, &w);
    trm_comm_close(c);
    return hash;
}

static void many_requests_on_three_channels(void **state) {
    (void)state;
    FOR_EACH_TRANSPORT(t) run_crowd(t, ROUNDS);
}

static void two_runs_give_the_same_bits(void **state) {
    (void)state;
    FOR_EACH_TRANSPORT(t) {
        uint64_t first = run_crowd(t, 50), second = run_crowd(t, 50);
        assert_agreed(first == second);
    }
}

/* ---- outside a step ---------------------------------------------------------------------- */

static void small_collectives(void **state) {
    (void)state;
    FOR_EACH_TRANSPORT(t) {
        trm_comm *c = open_transport(t);
        int ranks = trm_comm_size(c), me = trm_comm_rank(c), root = ranks - 1;
        assert_agreed_ok(trm_comm_barrier(c, "a test"));
        double x[2] = {me + 1, -me};
        assert_agreed_ok(trm_comm_sum_f64(c, x, 2));
        assert_agreed(x[0] == ranks * (ranks + 1) / 2 && x[1] == -ranks * (ranks - 1) / 2);
        double y[2] = {me, -me};
        assert_agreed_ok(trm_comm_max_f64(c, y, 2));
        assert_agreed(y[0] == ranks - 1 && y[1] == 0);
        size_t n = me == root ? 9000001 : 0;
        char *block = me == root ? trm_alloc(n, "a test") : NULL;
        if (me == root) block[0] = 1, block[n - 1] = 2;
        void *p = block;
        assert_agreed_ok(trm_comm_bcast_block(c, &p, &n, root));
        block = p;
        assert_agreed(n == 9000001 && block[0] == 1 && block[n - 1] == 2);
        trm_free(block);
        assert_agreed_ok(trm_comm_bcast(c, NULL, 0, 0));
        assert_agreed(strlen(trm_comm_host(c, me)) > 0 && strlen(trm_comm_about(c)) > 0);
        trm_comm_close(c);
    }
}

static void pretend_nodes_are_dealt(void **state) {
    (void)state;
    int np = support_ranks(), me = support_rank();
    trm_comm *c = open_transport(&transports[3]);
    int nodes = np < 2 ? np : 2;
    assert_agreed(trm_comm_nodes(c) == nodes && trm_comm_node(c) == me % nodes);
    assert_agreed(trm_comm_node_rank(c) == me / nodes);
    assert_agreed(trm_comm_node_size(c) == (np - me % nodes + nodes - 1) / nodes);
    trm_comm_close(c);
}

static void faults_are_agreed(void **state) {
    (void)state;
    FOR_EACH_TRANSPORT(t) {
        trm_comm *c = open_transport(t);
        int ranks = trm_comm_size(c), me = trm_comm_rank(c);
        char want[64];
        assert_agreed(trm_comm_agree(c, TRM_OK) == TRM_OK);

        trm_fail(TRM_DATA, "no such file");
        trm_hint("look again");
        assert_agreed(trm_comm_agree(c, TRM_DATA) == TRM_DATA);
        assert_agreed(strcmp(trm_error_text(), "no such file") == 0);
        assert_agreed(strcmp(trm_error_hint(), "look again") == 0);

        trm_status mine = TRM_OK;
        if (me == ranks - 1) mine = trm_fail(TRM_MEMORY, "too small");
        assert_agreed(trm_comm_agree(c, mine) == TRM_MEMORY);
        snprintf(want, sizeof want, ranks > 1 ? "rank %d: too small" : "too small", ranks - 1);
        assert_agreed(strcmp(trm_error_text(), want) == 0);

        /* The worst wins, and those that say the same are named together. */
        if (me == ranks - 1)
            mine = trm_fail(TRM_COMM, "an echo");
        else
            mine = trm_fail(TRM_INTERNAL, "the cause");
        assert_agreed(trm_comm_agree(c, mine) == (ranks > 1 ? TRM_INTERNAL : TRM_COMM));
        snprintf(want, sizeof want,
                 ranks > 2   ? "ranks 0-%d: the cause"
                 : ranks > 1 ? "rank 0: the cause"
                             : "an echo",
                 ranks - 2);
        assert_agreed(strcmp(trm_error_text(), want) == 0);
        trm_comm_close(c);
    }
}

static void wrong_calls_are_refused(void **state) {
    (void)state;
    FOR_EACH_TRANSPORT(t) {
        trm_comm *c = open_transport(t);
        trm_comm_buffer *b = NULL, *notes = NULL;
        trm_comm_request *r = NULL;
        double sumsq;
        assert_agreed(trm_comm_buffer_alloc(c, TRM_I32, 5, "x", &b) == TRM_INTERNAL);
        assert_agreed(trm_comm_buffer_alloc(c, TRM_F32, -1, "x", &b) == TRM_INTERNAL);
        assert_agreed_ok(trm_comm_buffer_alloc(c, TRM_F32, 10, "x", &b));
        assert_agreed_ok(trm_comm_buffer_alloc(c, TRM_U8, 10, "y", &notes));
        assert_agreed(trm_comm_plan(c, &(trm_comm_call){.buffer = NULL, .count = 1}, &r) == TRM_INTERNAL);
        assert_agreed(trm_comm_plan(c, &(trm_comm_call){.buffer = b, .count = 11}, &r) == TRM_INTERNAL);
        assert_agreed(trm_comm_plan(c, &(trm_comm_call){.buffer = b, .offset = 9, .count = 2}, &r) ==
                      TRM_INTERNAL);
        assert_agreed(trm_comm_plan(c, &(trm_comm_call){.buffer = b, .offset = -1, .count = 2}, &r) ==
                      TRM_INTERNAL);
        assert_agreed(trm_comm_plan(c, &(trm_comm_call){.buffer = notes, .count = 2}, &r) == TRM_INTERNAL);
        assert_agreed(
            trm_comm_plan(c,
                          &(trm_comm_call){.buffer = b, .count = 1, .kind = TRM_COMM_GATHER, .sumsq = &sumsq},
                          &r) == TRM_INTERNAL);
        assert_agreed_ok(trm_comm_plan(c, &(trm_comm_call){.buffer = b, .count = 10, .what = "it"}, &r));
        assert_agreed(trm_comm_wait(c, r) == TRM_INTERNAL);
        assert_agreed_ok(trm_comm_post(c, r));
        assert_agreed(trm_comm_post(c, r) == TRM_INTERNAL);
        assert_agreed_ok(trm_comm_wait(c, r));
        trm_comm_request_free(c, r);
        trm_comm_request_free(c, NULL);
        trm_comm_buffer_free(c, b);
        trm_comm_buffer_free(c, notes);
        trm_comm_buffer_free(c, NULL);
        trm_comm_close(c);
        trm_comm_close(NULL);
    }
}

/* Requests come and go, as at a change of shares; some are not posted, some not waited for. */
static void planned_anew(void **state) {
    (void)state;
    enum { LIVE = 100 };
    FOR_EACH_TRANSPORT(t) {
        trm_comm *c = open_transport(t);
        trm_comm_buffer *b = NULL;
        trm_comm_request *r[LIVE];
        trm_status s = TRM_OK;
        bool right = true;
        assert_agreed_ok(trm_comm_buffer_alloc(c, TRM_F64, LIVE, "x", &b));
        for (int turn = 0; turn < 5 && s == TRM_OK; turn++) {
            for (int k = 0; k < LIVE && s == TRM_OK; k++)
                s = trm_comm_plan(c, &(trm_comm_call){.buffer = b, .offset = k, .count = 1}, &r[k]);
            for (int k = 0; k < LIVE; k++) put(b, TRM_F64, k, trm_comm_rank(c) + k + turn);
            for (int k = 0; k < LIVE - 2 && s == TRM_OK; k++) s = trm_comm_post(c, r[k]);
            for (int k = 0; k < LIVE - 2 - turn && s == TRM_OK; k++) s = trm_comm_wait(c, r[k]);
            int n = trm_comm_size(c);
            for (int k = 0; k < LIVE - 2 - turn; k++)
                right = right && get(b, TRM_F64, k) == n * (n - 1) / 2 + n * (k + turn);
            for (int k = 0; k < LIVE; k++) trm_comm_request_free(c, r[k]);
        }
        assert_agreed_ok(s);
        assert_agreed(right);
        trm_comm_buffer_free(c, b);
        trm_comm_close(c);
    }
}

/* ---- a rank that does not come ------------------------------------------------------------ */

/* Frees nothing that a peer may still use, and so needs no peer.  The rank that stayed away knows of no fault, and would wait
 * for the others here: it leaves its transport open, where a program would be aborted. */
static void close_after_fault(trm_comm *c, trm_comm_buffer *b, trm_comm_request *r) {
    trm_comm_request_free(c, r);
    trm_comm_buffer_free(c, b);
    trm_comm_close(c);
}

static void a_missing_rank_is_named(void **state) {
    (void)state;
    FOR_EACH_TRANSPORT(t) {
        trm_comm *c = open_transport(t);
        int last = trm_comm_size(c) - 1, me = trm_comm_rank(c);
        if (last == 0) {
            trm_comm_close(c);
            continue;
        }
        trm_comm_buffer *b = NULL;
        trm_comm_request *r = NULL;
        assert_agreed_ok(trm_comm_buffer_alloc(c, TRM_F32, 100, "x", &b));
        trm_comm_call call = {.buffer = b, .count = 100, .channel = TRM_CHANNEL_GRAD, .what = "bucket 3"};
        assert_agreed_ok(trm_comm_plan(c, &call, &r));
        trm_comm_set_deadline(c, 1);
        char want[128] = "";
        snprintf(want, sizeof want, "no word from rank %d on %s", last, trm_comm_host(c, last));
        double start = trm_now();
        bool right = true;
        if (me != last) {
            trm_status s = trm_comm_post(c, r);
            if (s == TRM_OK) s = trm_comm_wait(c, r);
            bool named = strstr(trm_error_text(), want) && strstr(trm_error_text(), "bucket 3");
            /* The others may learn of the first one's failure before their own deadline passes. */
            right = s == TRM_COMM && (named || strstr(trm_error_text(), "gave up while"));
            right = right && trm_now() - start < 5;
            if (!right) print_error("# %s: %s\n", t->name, trm_error_text());
        }
        assert_agreed(right);
        assert_agreed(me == last || trm_comm_post(c, r) != TRM_OK);
        if (me != last) close_after_fault(c, b, r);
    }
}

static void a_missing_rank_is_named_outside_a_step(void **state) {
    (void)state;
    FOR_EACH_TRANSPORT(t) {
        trm_comm *c = open_transport(t);
        int me = trm_comm_rank(c);
        bool right = true;
        char want[128] = "";
        trm_comm_set_deadline(c, 1);
        snprintf(want, sizeof want, "no word from rank 0 on %s", trm_comm_host(c, 0));
        if (me > 0) {
            trm_status s = trm_comm_barrier(c, "the epoch's end");
            bool named = strstr(trm_error_text(), want) && strstr(trm_error_text(), "the epoch's end");
            right = s == TRM_COMM && (named || strstr(trm_error_text(), "gave up while"));
            if (!right) print_error("# %s: %s\n", t->name, trm_error_text());
        }
        assert_agreed(right);
        if (me > 0) trm_comm_close(c);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_all_lengths),
        cmocka_unit_test(large_sums),
        cmocka_unit_test(memory_of_a_node),
        cmocka_unit_test(ranks_that_do_not_contribute),
        cmocka_unit_test(groups_of_one_rank),
        cmocka_unit_test(gathers),
        cmocka_unit_test(many_requests_on_three_channels),
        cmocka_unit_test(two_runs_give_the_same_bits),
        cmocka_unit_test(small_collectives),
        cmocka_unit_test(pretend_nodes_are_dealt),
        cmocka_unit_test(faults_are_agreed),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(planned_anew),
        cmocka_unit_test(a_missing_rank_is_named),
        cmocka_unit_test(a_missing_rank_is_named_outside_a_step),
    };
    return support_mpi_main(&argc, &argv, tests, SUPPORT_COUNT(tests));
}
