/* The CPU device: which loops it takes, what it says of itself, and the matrix product below everything. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu_impl.h"
#include "support.h"

static void open_and_close(void **state) {
    (void)state;
    trm_device *d;
    assert_ok(trm_device_open("cpu", 2, &d));
    assert_non_null(strstr(d->about, "float32, oneDNN "));
    assert_non_null(strstr(d->about, trm_cpu_kernels(d)->isa));
    assert_non_null(strstr(d->about, "2 threads"));
    assert_int_equal(d->backend->float_size, 4);
    trm_device_close(d);
}

static void instruction_set_may_be_lowered(void **state) {
    (void)state;
    trm_device *d;
    assert_int_equal(setenv("TRIREME_ISA", "v2", 1), 0);
    assert_ok(trm_device_open("cpu", 1, &d));
    assert_string_equal(trm_cpu_kernels(d)->isa, "x86-64-v2");
    assert_non_null(strstr(d->about, "1 thread"));
    trm_device_close(d);
    const char *const bad[] = {"v5", "v1", "avx2", "v22"};
    for (size_t i = 0; i < SUPPORT_COUNT(bad); i++) {
        assert_int_equal(setenv("TRIREME_ISA", bad[i], 1), 0);
        assert_fault(trm_device_open("cpu", 1, &d), TRM_USAGE, "must be v2, v3 or v4");
    }
    assert_int_equal(unsetenv("TRIREME_ISA"), 0);
}

static void opening_reports_lack_of_memory(void **state) {
    (void)state;
    for (uint64_t n = 1; n <= 3; n++) {
        trm_device *d;
        uint64_t before = trm_mem_count().live_bytes;
        trm_mem_fail_after(n);
        assert_int_equal(trm_device_open("cpu", 1, &d), TRM_MEMORY);
        assert_int_equal(trm_mem_count().live_bytes, before);
    }
    trm_mem_fail_after(0);
}

/* ---- the product ---------------------------------------------------------------------------- */

static float value(int64_t i) { return (float)((double)(i * 2654435761u >> 7 & 4095) / 2048 - 1); }

static double element(const float *m, bool transposed, int64_t ld, int64_t row, int64_t col) {
    return transposed ? m[col * ld + row] : m[row * ld + col];
}

/* Largest error of C = 0.5 op(A) op(B) + beta C with rows longer than needed. */
static double product_error(char ta, char tb, int64_t m, int64_t n, int64_t k, float beta) {
    int64_t lda = (ta == 'T' ? m : k) + 3, ldb = (tb == 'T' ? k : n) + 5, ldc = n + 2;
    int64_t in = lda * (ta == 'T' ? k : m), other = ldb * (tb == 'T' ? n : k);
    float *a = trm_alloc_array((size_t)in, 4, "a"), *b = trm_alloc_array((size_t)other, 4, "b");
    float *c = trm_alloc_array((size_t)(m * ldc), 4, "c");
    assert_true(a && b && c);
    for (int64_t i = 0; i < in; i++) a[i] = value(i);
    for (int64_t i = 0; i < other; i++) b[i] = value(i + 77);
    for (int64_t i = 0; i < m * ldc; i++) c[i] = value(i + 999);
    assert_ok(trm_cpu_sgemm(ta, tb, m, n, k, 0.5f, a, lda, b, ldb, beta, c, ldc));
    double worst = 0;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < ldc; j++) {
            double want = value(i * ldc + j + 999), sum = 0;
            for (int64_t p = 0; p < k && j < n; p++)
                sum += element(a, ta == 'T', lda, i, p) * element(b, tb == 'T', ldb, p, j);
            if (j < n) want = 0.5 * sum + beta * want;
            worst = fmax(worst, fabs(c[i * ldc + j] - want));
        }
    }
    trm_free(a);
    trm_free(b);
    trm_free(c);
    return worst;
}

static void products(void **state) {
    (void)state;
    trm_device *d;
    assert_ok(trm_device_open("cpu", 2, &d));
    const char *const kinds[] = {"NN", "NT", "TN", "TT"};
    for (size_t i = 0; i < SUPPORT_COUNT(kinds); i++) {
        assert_bound(product_error(kinds[i][0], kinds[i][1], 1, 1, 1, 0), 1e-6);
        assert_bound(product_error(kinds[i][0], kinds[i][1], 7, 13, 5, 1), 1e-5);
        assert_bound(product_error(kinds[i][0], kinds[i][1], 65, 33, 129, -1), 2e-5);
    }
    trm_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_and_close),
        cmocka_unit_test(instruction_set_may_be_lowered),
        cmocka_unit_test(opening_reports_lack_of_memory),
        cmocka_unit_test(products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
