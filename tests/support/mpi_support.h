/* mpi_support: tests on several ranks.
 *
 * Agree, then assert: an assertion that fails on one rank alone jumps out of the test and leaves
 * the others waiting in a collective until the time limit.  So a verdict is first made the same
 * on all ranks, then asserted:   assert_agreed(x == 3);
 */
#ifndef TRIREME_TESTS_MPI_SUPPORT_H
#define TRIREME_TESTS_MPI_SUPPORT_H

#include <mpi.h>

#include "support.h"

/* Starts MPI (MPI_THREAD_MULTIPLE), silences all ranks but 0, runs the tests, ends MPI.  For main:
 *     return support_mpi_main(&argc, &argv, tests, SUPPORT_COUNT(tests)); */
int support_mpi_main(int *argc, char ***argv, const struct CMUnitTest *tests, size_t n);
int support_rank(void);
int support_ranks(void);

/* Collective: 1 where `ok` is not 0 on every rank. */
int support_agree(int ok);

/* Collective: asserts on all ranks that `cond` holds on all; says on which it does not. */
#define assert_agreed(cond) support_assert_agreed((cond) != 0, #cond, __FILE__, __LINE__)
void support_assert_agreed(int ok, const char *what, const char *file, int line);
/* Collective: asserts on all ranks that the status is TRM_OK on all, with the sentences. */
#define assert_agreed_ok(expr) support_assert_agreed_ok((expr), #expr, __FILE__, __LINE__)
void support_assert_agreed_ok(trm_status s, const char *what, const char *file, int line);

/* Collective: support_path() of rank 0, for files that the ranks share. */
const char *support_shared_path(const char *name);

#endif
