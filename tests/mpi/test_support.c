/* np: 1 2 3 */
/* What the tests on ranks stand on: verdicts are agreed, files are shared. */
#include <string.h>
#include "mpi_support.h"

static void a_lone_no_is_heard_by_all(void **state) {
    (void)state;
    int alone = support_rank() == support_ranks() - 1;
    assert_int_equal(support_agree(1), 1);
    assert_int_equal(support_agree(!alone), 0);
    assert_int_equal(support_agree(0), 0);
    assert_agreed(support_ranks() >= 1);
    assert_agreed_ok(TRM_OK);
}

static void rank_0_makes_the_shared_folder(void **state) {
    (void)state;
    char *text = NULL;
    const char *path = support_shared_path("word");
    trm_status s = support_rank() == 0 ? trm_write_file(path, "oar", 3) : TRM_OK;
    assert_agreed_ok(s);
    assert_agreed_ok(trm_read_file(path, 10, &text, NULL));
    assert_agreed(strcmp(text, "oar") == 0);
    trm_free(text);
    assert_agreed(1);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_no_is_heard_by_all),
        cmocka_unit_test(rank_0_makes_the_shared_folder),
    };
    return support_mpi_main(&argc, &argv, tests, SUPPORT_COUNT(tests));
}
