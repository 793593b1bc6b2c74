/* timeout: 120 */
/* Files of strangers: whatever the child does, the parent has a sentence; and a plan that answers another question is refused.
 * This program is its own child: started as `... data guard` it does what TMPDIR, which is handed on, says. */
#include "data_support.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the child ---- */

static void say(int64_t what, const void *bytes, size_t n) {
    int64_t head[2] = {what, (int64_t)n};
    (void)!send(0, head, sizeof head, MSG_NOSIGNAL);
    (void)!send(0, bytes, n, MSG_NOSIGNAL);
}

/* Reads the question to its end. */
static void listen_first(void) {
    char buf[4096];
    while (read(0, buf, sizeof buf) > 0) {}
}

/* Answers with the plan of `path`, opened as it likes. */
static void send_plan(const char *path, int64_t classes, bool no_target, size_t cut) {
    trm_dataset *d = NULL;
    void *bytes = NULL;
    size_t n = 0;
    trm_data_spec spec = {.files = &path, .n_files = 1, .classes = classes, .no_target = no_target};
    if (trm_dataset_open(&spec, &d) != TRM_OK || trm_dataset_pack(d, &bytes, &n) != TRM_OK) _exit(9);
    say(4, bytes, n - cut);
    trm_free(bytes);
    trm_dataset_close(d);
}

/* Tells the pipe `path` in which limits it answered.  It is no file, so the limit on files lets it. */
static int answer_in_limits(const char *path) {
    struct rlimit core, file, cpu;
    int open_fds = 0;
    for (int fd = 3; fd < 64; fd++) open_fds += fcntl(fd, F_GETFD) >= 0;
    if (trm_dataset_guard(0) != TRM_OK) return 9;
    getrlimit(RLIMIT_CORE, &core);
    getrlimit(RLIMIT_FSIZE, &file);
    getrlimit(RLIMIT_CPU, &cpu);
    int fd = open(path, O_WRONLY | O_NONBLOCK);
    char text[64];
    int n = snprintf(text, sizeof text, "fds %d core %d file %d cpu %d", open_fds, (int)core.rlim_max,
                     (int)file.rlim_max, (int)cpu.rlim_cur);
    (void)!write(fd, text, (size_t)n);
    return 0;
}

static int child(void) {
    char word[32] = "", path[400] = "";
    const char *how = getenv("TMPDIR");
    sscanf(how ? how : "", "%31[^:]:%399s", word, path);
    if (strcmp(word, "real") == 0) return trm_dataset_guard(0) == TRM_OK ? 0 : 1;
    if (strcmp(word, "limits") == 0) return answer_in_limits(path);
    listen_first();
    if (strcmp(word, "segv") == 0) raise(SIGSEGV);
    if (strcmp(word, "abort") == 0) abort();
    if (strcmp(word, "xcpu") == 0) raise(SIGXCPU);
    if (strcmp(word, "late") == 0) {
        say(1, path, strlen(path));
        raise(SIGBUS);
    }
    if (strcmp(word, "silent") == 0) return 7;
    if (strcmp(word, "noise") == 0) say(77, "????", 4);
    if (strcmp(word, "long") == 0) {
        int64_t head[2] = {4, INT64_MAX};
        (void)!send(0, head, sizeof head, MSG_NOSIGNAL);
    }
    if (strcmp(word, "negative") == 0) {
        int64_t head[2] = {4, -1};
        (void)!send(0, head, sizeof head, MSG_NOSIGNAL);
    }
    if (strcmp(word, "other") == 0) send_plan(path, 10, false, 0);
    if (strcmp(word, "classes") == 0) send_plan(path, 12, false, 0);
    if (strcmp(word, "bare") == 0) send_plan(path, 10, true, 0);
    if (strcmp(word, "cut") == 0) send_plan(path, 10, false, 8);
    if (strcmp(word, "lingers") == 0) {
        send_plan(path, 10, false, 0);
        close(0);
        sleep(60);
    }
    return 0;
}

/* ---- the parent ---- */

static trm_status ask(const char *how, const char *files, const char *path, trm_dataset **d) {
    char value[500];
    snprintf(value, sizeof value, "%s:%s", how, path);
    setenv("TMPDIR", value, 1);
    trm_data_spec spec = {.files = &files, .n_files = 1, .classes = 10, .untrusted = true};
    trm_status s = trm_dataset_open(&spec, d);
    unsetenv("TMPDIR");
    return s;
}

static void a_good_file_is_the_same_set(void **state) {
    (void)state;
    const char *path = support_set("good.h5", 57, 8);
    trm_dataset *d = NULL, *plain = NULL;
    trm_data_spec spec = {.files = &path, .n_files = 1, .classes = 10};
    uint64_t live = trm_mem_count().live_bytes;
    assert_ok(trm_dataset_open(&spec, &plain));
    assert_ok(ask("real", path, "", &d));
    assert_true(trm_dataset_info(d)->fingerprint == trm_dataset_info(plain)->fingerprint);
    assert_memory_equal(trm_dataset_info(d), trm_dataset_info(plain), sizeof(trm_data_info));
    for (int64_t i = 0; i < 57; i++) {
        int32_t x[6];
        int64_t y;
        assert_ok(trm_dataset_read(d, &i, 1, x, &y));
        for (int64_t j = 0; j < 6; j++) assert_int_equal(x[j], support_value(i, j));
        assert_int_equal(y, i % 10);
    }
    trm_dataset_close(d);
    trm_dataset_close(plain);
    assert_int_equal(trm_mem_count().live_bytes, live);
}

static void however_it_ends(void **state) {
    (void)state;
    static const struct {
        const char *how;
        trm_status status;
        const char *says;
    } ends[] = {
        {"segv", TRM_DATA, "set.h5: the file makes HDF5 crash (signal 11): refused"},
        {"abort", TRM_DATA, "set.h5: the file makes HDF5 crash (signal 6): refused"},
        {"late", TRM_DATA, "second.h5: the file makes HDF5 crash (signal 7): refused"},
        {"xcpu", TRM_DATA, "set.h5: to open and read the file takes more than 30 s: refused"},
        {"silent", TRM_MACHINE, "which ended with code 7 and said nothing"},
        {"noise", TRM_MACHINE, "which ended with code 0 and said nothing"},
        {"long", TRM_MACHINE, "said nothing"},
        {"negative", TRM_MACHINE, "said nothing"},
        {"cut", TRM_INTERNAL, "the plan of a data set came damaged"},
    };
    char path[512];
    snprintf(path, sizeof path, "%s", support_set("set.h5", 20, 0));
    for (size_t i = 0; i < SUPPORT_COUNT(ends); i++) {
        trm_dataset *d = NULL;
        uint64_t live = trm_mem_count().live_bytes;
        assert_fault(ask(ends[i].how, path, i == 2 ? "second.h5" : path, &d), ends[i].status, ends[i].says);
        assert_int_equal(trm_mem_count().live_bytes, live);
    }
}

static void a_plan_of_something_else_is_refused(void **state) {
    (void)state;
    char path[512], other[512];
    trm_dataset *d = NULL;
    snprintf(path, sizeof path, "%s", support_set("asked.h5", 20, 0));
    snprintf(other, sizeof other, "%s", support_set("other.h5", 20, 0));
    assert_fault(ask("other", path, other, &d), TRM_DATA, "names other files than were asked for");
    assert_fault(ask("classes", path, path, &d), TRM_DATA, "does not answer what was asked");
    assert_fault(ask("bare", path, path, &d), TRM_DATA, "does not answer what was asked");
    assert_ok(ask("other", path, path, &d));
    trm_dataset_close(d);
}

/* Who has answered is not waited for. */
static void one_that_lingers_is_ended(void **state) {
    (void)state;
    char path[512];
    trm_dataset *d = NULL;
    snprintf(path, sizeof path, "%s", support_set("lingers.h5", 20, 0));
    double began = trm_now();
    assert_ok(ask("lingers", path, path, &d));
    assert_true(trm_now() - began < 10);
    trm_dataset_close(d);
}

static void limits_hold_in_the_child(void **state) {
    (void)state;
    char pipe[512], text[64] = "";
    trm_dataset *d = NULL;
    snprintf(pipe, sizeof pipe, "%s", support_path("pipe"));
    assert_int_equal(mkfifo(pipe, 0600), 0);
    int fd = open(pipe, O_RDONLY | O_NONBLOCK);
    assert_ok(ask("limits", support_set("limits.h5", 20, 0), pipe, &d));
    assert_true(read(fd, text, sizeof text - 1) > 0);
    assert_string_equal(text, "fds 0 core 0 file 0 cpu 30");
    close(fd);
    trm_dataset_close(d);
}

static void no_program_is_a_sentence(void **state) {
    (void)state;
    trm_dataset *d = NULL;
    const char *path = support_set("p.h5", 5, 0);
    trm_data_spec spec = {.files = &path, .n_files = 1, .untrusted = true, .guard = "/nowhere/trireme"};
    assert_fault(trm_dataset_open(&spec, &d), TRM_MACHINE, "which cannot be started: No such file");
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "data") == 0 && strcmp(argv[2], "guard") == 0) return child();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_the_same_set),
        cmocka_unit_test(however_it_ends),
        cmocka_unit_test(a_plan_of_something_else_is_refused),
        cmocka_unit_test(one_that_lingers_is_ended),
        cmocka_unit_test(limits_hold_in_the_child),
        cmocka_unit_test(no_program_is_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
