/* rollcall: when a deadline passes between nodes, ask who is there.
 *
 * A waiting rank answers calls with what it has reached; one that is stuck, or has not come to this point, is silent or
 * behind, and gets named.  Costs nothing before a wait is a few milliseconds old. */
#include <string.h>

#include "mpi_impl.h"

enum { TAG_ASK, TAG_ANSWER };
#define ANSWER_EVERY_S 1e-3
#define LISTEN_S 1.0

/* Nobody waits for its arrival, as a lost rank might never take it: the bytes lie in the transport, not here. */
static void say(trm_mpi *m, int rank, int tag) {
    MPI_Request q;
    uint64_t *text = m->said[m->said_count++ % TRM_MPI_SAID];
    memcpy(text, m->place, sizeof m->place);
    if (MPI_Isend(text, tag == TAG_ASK ? 0 : (int)sizeof m->place, MPI_BYTE, rank, tag, m->watch, &q) ==
        MPI_SUCCESS)
        MPI_Request_free(&q);
}

static bool hear(trm_mpi *m, int tag, int *from, uint64_t place[TRM_MPI_PLACES]) {
    int there = 0;
    MPI_Status st;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag, m->watch, &there, &st) != MPI_SUCCESS || !there) return false;
    *from = st.MPI_SOURCE;
    return MPI_Recv(place, TRM_MPI_PLACES * (int)sizeof *place, MPI_BYTE, st.MPI_SOURCE, tag, m->watch,
                    MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

static void answer_all(trm_mpi *m) {
    int from;
    uint64_t nothing[TRM_MPI_PLACES];
    while (hear(m, TAG_ASK, &from, nothing)) say(m, from, TAG_ANSWER);
}

void trm_mpi_answer(trm_mpi *m, double now) {
    if (now - m->answered < ANSWER_EVERY_S) return;
    m->answered = now;
    answer_all(m);
}

/* Clears the flag of each rank that says in time that it is as far as this one.  Always the whole time: ranks whose deadline
 * passes a little later want this one's answer. */
static int listen(trm_mpi *m, int place, uint64_t at, uint8_t *missing) {
    int left = m->base.size - 1, from;
    uint64_t reached[TRM_MPI_PLACES];
    for (double end = trm_now() + LISTEN_S; trm_now() < end; trm_sleep(100e-6)) {
        answer_all(m);
        while (hear(m, TAG_ANSWER, &from, reached)) {
            if (!missing[from] || reached[place] < at) continue;
            missing[from] = 0;
            left--;
        }
    }
    return left;
}

trm_status trm_mpi_roll_call(trm_mpi *m, int place, uint64_t at, const char *what, double waited) {
    char text[512];
    uint8_t *missing = trm_alloc((size_t)m->base.size, "a text");
    if (!missing) return TRM_MEMORY;
    memset(missing, 1, (size_t)m->base.size);
    missing[m->base.rank] = 0;
    for (int k = 0; k < m->base.size; k++)
        if (k != m->base.rank) say(m, k, TAG_ASK);
    trm_status s;
    if (listen(m, place, at, missing) > 0)
        s = trm_fail(TRM_COMM, "waited %.3g s for %s, but no word from %s", waited, what,
                     trm_comm_missing_text(&m->base, missing, text, sizeof text));
    else
        s = trm_fail(TRM_COMM, "waited %.3g s for %s; all ranks are there, but their messages do not arrive",
                     waited, what);
    trm_free(missing);
    return s;
}
