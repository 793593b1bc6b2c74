/* support: what tests share.  Includes CMocka in the order that it wants. */
#ifndef TRIREME_TESTS_SUPPORT_H
#define TRIREME_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <trireme/base.h>

/* A folder of this process, made at the first call and removed with all it holds at exit. */
const char *support_dir(void);
/* support_dir()/name; one of eight buffers in turn. */
const char *support_path(const char *name);
/* Writes a small text file there and returns its path. */
const char *support_file(const char *name, const char *text);

/* trm_now() from here on; moves only by support_clock_advance. */
void support_clock_start(double now);
void support_clock_advance(double seconds);
void support_clock_stop(void);

/* |got - want| / |want| (Euclid; |got| where want is 0). Not finite where an element is not. */
double support_error_f32(const float *got, const double *want, int64_t n);
double support_error_f64(const double *got, const double *want, int64_t n);

/* Fails with the recorded sentence where a call that should succeed does not. */
#define assert_ok(expr) support_assert_ok((expr), #expr, __FILE__, __LINE__)
void support_assert_ok(trm_status s, const char *what, const char *file, int line);
/* The call fails with this status, and its sentence contains this text. */
#define assert_fault(expr, status, text) support_assert_fault((expr), status, text, #expr, __FILE__, __LINE__)
void support_assert_fault(trm_status got, trm_status want, const char *text, const char *what, const char *file,
                          int line);
/* error <= bound, and both are shown where not. */
#define assert_bound(error, bound) support_assert_bound((error), (bound), #error, __FILE__, __LINE__)
void support_assert_bound(double error, double bound, const char *what, const char *file, int line);

#define SUPPORT_COUNT(tests) (sizeof(tests) / sizeof *(tests))

#endif
