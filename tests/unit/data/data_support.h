/* data_support: what the tests of this room share. */
#ifndef TRIREME_TESTS_DATA_SUPPORT_H
#define TRIREME_TESTS_DATA_SUPPORT_H

#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <trireme/data.h>

/* Lines of the log, newest last. */
static struct {
    int warnings;
    char last[2048];
} support_log;

static inline void support_log_line(void *ctx, trm_log_level level, const char *line) {
    (void)ctx;
    if (level > TRM_LOG_WARN) return;
    support_log.warnings++;
    snprintf(support_log.last, sizeof support_log.last, "%s", line);
}

static inline void support_log_start(void) {
    support_log.warnings = 0;
    support_log.last[0] = '\0';
    trm_log_set(support_log_line, NULL, TRM_LOG_WARN);
}

/* Runs a Python script of the tree with the interpreter that has h5py; 77 where none has. stdout goes to `list`. */
static inline int support_python(const char *script, const char *arguments, const char *list) {
    static const char *const python[] = {"/usr/bin/python3", "python3"};
    char command[2048];
    for (size_t i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "%s -c 'import h5py' 2>/dev/null", python[i]);
        if (system(command) != 0) continue;
        snprintf(command, sizeof command, "%s %s %s >%s", python[i], script, arguments, list);
        int status = system(command);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    return 77;
}

/* Value of element j of sample i in the files of make_files.py. */
static inline int64_t support_value(int64_t i, int64_t j) { return (7 * i + 13 * j) % 101; }

/* A data set of ours: `data` int32 (n, width) with support_value, `label` int64 (n) with i % 10. */
static inline const char *support_wide(const char *name, int64_t n, int64_t width, int64_t chunk) {
    const char *path = support_path(name);
    trm_h5_file *f = NULL;
    trm_shape x = trm_shape_of(2, n, width), y = trm_shape_of(1, n);
    int32_t *data = malloc((size_t)(n * width) * sizeof *data);
    int64_t *label = malloc((size_t)n * sizeof *label);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < width; j++) data[width * i + j] = (int32_t)support_value(i, j);
        label[i] = i % 10;
    }
    assert_ok(trm_h5_create(path, &f));
    if (chunk > 0)
        assert_ok(trm_h5_write_chunked(f, "data", TRM_I32, &x, data, chunk, 1));
    else
        assert_ok(trm_h5_write(f, "data", TRM_I32, &x, data));
    assert_ok(trm_h5_write(f, "label", TRM_I64, &y, label));
    assert_ok(trm_h5_close(f));
    free(data);
    free(label);
    return path;
}

static inline const char *support_set(const char *name, int64_t n, int64_t chunk) {
    return support_wide(name, n, 6, chunk);
}

static inline trm_dataset *support_open(const char *path, trm_data_cache cache) {
    trm_dataset *d = NULL;
    trm_data_spec spec = {.files = &path, .n_files = 1, .cache = cache};
    assert_ok(trm_dataset_open(&spec, &d));
    return d;
}

/* A second data set, as another rank has it. */
static inline trm_dataset *support_twin(const trm_dataset *d) {
    void *bytes = NULL;
    size_t n = 0;
    trm_dataset *twin = NULL;
    assert_ok(trm_dataset_pack(d, &bytes, &n));
    assert_ok(trm_dataset_unpack(bytes, n, &twin));
    trm_free(bytes);
    return twin;
}

#endif
