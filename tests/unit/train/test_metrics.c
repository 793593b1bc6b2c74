/* metrics: where the time went, and what a whole small run leaves behind. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "run_impl.h"
#include "support.h"

/* ---- why ---- */

static const char *sentence(const trm_why_rank *r, int n, double wall) {
    static char text[512];
    trm_str s = {0};
    trm_why_sentence(r, n, wall, &s);
    snprintf(text, sizeof text, "%s", trm_str_get(&s));
    trm_str_free(&s);
    return text;
}

static void says_who_waited_for_whom(void **state) {
    (void)state;
    const trm_why_rank r[] = {{"a", 50, 7, 0.1, 0, 7, 10}, {"b", 50, 5, 2.1, 0, 7, 10}};
    assert_string_equal(sentence(r, 2, 7.1),
                        "rank 1 waited 30 % for the others: rank 0 computed 1.4x longer");
}

static void says_who_was_robbed(void **state) {
    (void)state;
    const trm_why_rank r[] = {{"a", 50, 7, 0.1, 0, 3, 10}, {"b", 50, 5, 2.1, 0, 7, 10}};
    assert_non_null(strstr(sentence(r, 2, 7.1), "did not have its core for itself"));
}

static void says_that_all_are_robbed(void **state) {
    (void)state;
    const trm_why_rank r[] = {{"a", 64, 5, 0, 0, 2, 10}};
    assert_non_null(strstr(sentence(r, 1, 5), "rank 0 had its core for 40 % of its compute time"));
}

static void says_that_data_is_slow(void **state) {
    (void)state;
    const trm_why_rank r[] = {{"a", 50, 5, 3, 0, 5, 10}, {"b", 50, 5, 0, 4, 5, 10}};
    assert_non_null(strstr(sentence(r, 2, 9), "rank 1 waited 44 % of the time for data"));
}

static void says_that_talk_is_slow(void **state) {
    (void)state;
    const trm_why_rank r[] = {{"a", 50, 5, 2, 0, 5, 10}, {"b", 50, 5.1, 1.9, 0, 5, 10}};
    assert_non_null(
        strstr(sentence(r, 2, 7), "rank 0 waited 29 % in communication although all ranks computed alike"));
}

static void says_that_all_is_well(void **state) {
    (void)state;
    const trm_why_rank r[] = {{"a", 50, 5, 0.1, 0, 5, 10}, {"b", 50, 5, 0.1, 0, 5, 10}};
    assert_string_equal(sentence(r, 2, 5.1), "every rank computed 98 % of the time: no large loss");
    assert_string_equal(sentence(r, 1, 5.1), "the rank computed 98 % of the time: no large loss");
}

static void knows_ranks_without_samples(void **state) {
    (void)state;
    const trm_why_rank r[] = {{"a", 0, 0, 5, 0, 5, 10}, {"b", 64, 5, 0, 0, 5, 10}};
    assert_string_equal(sentence(r, 2, 5), "rank 0 has no samples and waited 100 % for the others");
}

static void no_share_is_above_the_whole(void **state) {
    (void)state;
    const trm_why_rank r[] = {{"a", 64, 3, 5, 0, 3, 10}, {"b", 64, 3, 5, 0, 3, 10}};
    trm_str s = {0};
    trm_why_table(r, 2, 2, &s);
    assert_null(strstr(s.p, "250 %"));
    assert_non_null(strstr(s.p, "38 %"));
    assert_non_null(strstr(s.p, "62 %"));
    trm_str_free(&s);
}

static void short_times_are_not_compared(void **state) {
    (void)state;
    const trm_why_rank r[] = {{"a", 64, 0.00001, 0.009, 0, 0, 10}, {"b", 64, 0.009, 0, 0, 0.009, 10}};
    assert_null(strstr(sentence(r, 2, 0.01), "longer"));
    const trm_why_rank idle[] = {{"a", 0, 0.01, 5, 0, 0, 10}, {"b", 64, 5, 0, 0, 5, 10}};
    assert_non_null(strstr(sentence(idle, 2, 5), "rank 0 has no samples"));
}

static void table_stays_short(void **state) {
    (void)state;
    trm_why_rank r[100] = {{0}};
    trm_str s = {0};
    int lines = 0;
    trm_why_table(r, 100, 1, &s);
    for (const char *p = s.p; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 18);
    assert_non_null(strstr(s.p, "and 84 more ranks"));
    trm_str_free(&s);
}

/* ---- a whole run ---- */

typedef struct watcher {
    uint64_t first, last;
    int lines;
} watcher;

/* Each update prints a line: allocations between two of them within an epoch are the step's. */
static void watch(void *ctx, const char *line, bool transient) {
    watcher *w = ctx;
    assert_false(transient);
    if (!strstr(line, "update ")) return;
    uint64_t n = trm_mem_count().allocations;
    if (w->lines++ == 2) w->first = n;
    w->last = n;
}

static trm_job *make_job(const char *more) {
    char text[2048];
    trm_job *j = NULL;
    trm_synth_spec spec = {.kind = TRM_SYNTH_DIGITS, .samples = 130, .seed = 1};
    assert_ok(trm_synth(&spec, support_path("d.h5")));
    snprintf(text, sizeof text,
             "run: {name: x, dir: %s/runs, log_every: 1}\ndata: {train: %s/d.h5, valid: %s/d.h5}\n"
             "device: {threads: 1}\nmodel: {layers: [{conv2d: {out: 4, kernel: 3}}, batch_norm, relu, "
             "flatten, linear: 10]}\n"
             "train: {epochs: 1, batch: 8, micro_batches: 2, optimizer: {type: adam, lr: 0.01}%s}\n",
             support_dir(), support_dir(), support_dir(), more);
    assert_ok(trm_job_parse("job.yaml", text, strlen(text), NULL, 0, &j));
    return j;
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    watcher w = {0};
    trm_comm *c = NULL;
    trm_job *j = make_job(", clip: 1");
    trm_run_options o = {.print = watch, .print_ctx = &w};
    assert_ok(trm_comm_self(&c));
    assert_ok(trm_run_train(j, c, &o));
    assert_int_equal(w.lines, 17);
    assert_int_equal(w.last, w.first);
    trm_comm_close(c);
    trm_job_free(j);
}

static json_t *records(const char *path) {
    char *text = NULL;
    size_t n = 0;
    json_t *all = json_array();
    assert_ok(trm_read_file(path, 1 << 20, &text, &n));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *j = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(j);
        json_array_append_new(all, j);
    }
    trm_free(text);
    return all;
}

static void records_add_up(void **state) {
    (void)state;
    trm_comm *c = NULL;
    trm_job *j = make_job(", valid_every: 4");
    trm_run_options o = {0};
    j->run.name = (trm_free(j->run.name), trm_strdup("y"));
    assert_ok(trm_comm_self(&c));
    assert_ok(trm_run_train(j, c, &o));
    json_t *all = records(support_path("runs/y/metrics.jsonl")), *r;
    double loss = 0, epoch_loss = 0;
    int64_t samples = 0, updates = 0, valids = 0;
    size_t i;
    json_array_foreach(all, i, r) {
        const char *kind = json_string_value(json_object_get(r, "kind"));
        double value = json_number_value(json_object_get(r, "loss"));
        int64_t n = json_integer_value(json_object_get(r, "samples"));
        assert_int_equal(json_integer_value(json_object_get(r, "v")), 1);
        if (strcmp(kind, "valid") == 0) valids++;
        if (strcmp(kind, "epoch") == 0) epoch_loss = json_number_value(json_object_get(r, "train_loss"));
        if (strcmp(kind, "update") != 0) continue;
        assert_int_equal(json_integer_value(json_object_get(r, "update")), ++updates);
        assert_int_equal(n, updates < 17 ? 8 : 2);
        loss += value * (double)n;
        samples += n;
    }
    assert_int_equal(updates, 17);
    assert_int_equal(samples, 130);
    assert_int_equal(valids, 5);
    assert_true(fabs(loss / 130 - epoch_loss) < 1e-12);
    json_decref(all);
    trm_comm_close(c);
    trm_job_free(j);
}

/* Wherever memory runs out, the run ends with a status and leaves nothing allocated. */
static void any_allocation_may_fail(void **state) {
    (void)state;
    trm_comm *c = NULL;
    trm_job *j = make_job("");
    trm_run_options o = {0};
    assert_ok(trm_comm_self(&c));
    uint64_t live = trm_mem_count().live_bytes;
    for (uint64_t n = 1; n < 500; n += 1 + n / 40) {
        trm_mem_fail_after(n);
        trm_status status = trm_run_train(j, c, &o);
        trm_mem_fail_after(0);
        if (status == TRM_OK) continue;
        assert_int_equal(trm_mem_count().live_bytes, live);
        assert_string_not_equal(trm_error_text(), "");
    }
    trm_comm_close(c);
    trm_job_free(j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_who_waited_for_whom),    cmocka_unit_test(says_who_was_robbed),
        cmocka_unit_test(says_that_all_are_robbed),    cmocka_unit_test(says_that_data_is_slow),
        cmocka_unit_test(says_that_talk_is_slow),      cmocka_unit_test(says_that_all_is_well),
        cmocka_unit_test(knows_ranks_without_samples), cmocka_unit_test(table_stays_short),
        cmocka_unit_test(no_share_is_above_the_whole), cmocka_unit_test(short_times_are_not_compared),
        cmocka_unit_test(a_step_allocates_nothing),    cmocka_unit_test(records_add_up),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
