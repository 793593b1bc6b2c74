/* topo: who sits on which node. */
#include <string.h>

#include "mpi_impl.h"

void trm_mpi_topo_free(trm_mpi_topo *t) {
    trm_free(t->node_of);
    trm_free(t->first);
    trm_free(t->member);
    memset(t, 0, sizeof *t);
}

/* Numbers the colors in the order in which ranks bring them. */
static int number_nodes(const int *color, int size, int *node_of) {
    int nodes = 0;
    for (int r = 0; r < size; r++) {
        int k = 0;
        while (k < r && color[k] != color[r]) k++;
        node_of[r] = k < r ? node_of[k] : nodes++;
    }
    return nodes;
}

trm_status trm_mpi_topo_make(const int *color, int rank, int size, trm_mpi_topo *t) {
    memset(t, 0, sizeof *t);
    t->node_of = trm_alloc_array((size_t)size, sizeof(int), "the nodes");
    t->member = trm_alloc_array((size_t)size, sizeof(int), "the nodes");
    t->first = trm_alloc_array((size_t)size + 1, sizeof(int), "the nodes");
    if (!t->node_of || !t->member || !t->first) {
        trm_mpi_topo_free(t);
        return TRM_MEMORY;
    }
    t->nodes = number_nodes(color, size, t->node_of);
    t->node = t->node_of[rank];
    int placed = 0;
    for (int k = 0; k < t->nodes; k++) {
        t->first[k] = placed;
        for (int r = 0; r < size; r++) {
            if (t->node_of[r] != k) continue;
            if (r == rank) t->node_rank = placed - t->first[k];
            t->member[placed++] = r;
        }
    }
    t->first[t->nodes] = placed;
    t->node_size = t->first[t->node + 1] - t->first[t->node];
    return TRM_OK;
}

/* A number that the members share and others do not: the lowest member's rank. */
static trm_status name_node(MPI_Comm node_comm, MPI_Comm world, int *name) {
    int rank;
    TRM_TRY(trm_mpi_check(MPI_Comm_rank(world, &rank), "MPI_Comm_rank"));
    return trm_mpi_check(MPI_Allreduce(&rank, name, 1, MPI_INT, MPI_MIN, node_comm), "MPI_Allreduce");
}

trm_status trm_mpi_find_nodes(MPI_Comm world, int fake_nodes, int *color, MPI_Comm *node_comm) {
    int mine, rank, host_rank;
    MPI_Comm host;
    TRM_TRY(trm_mpi_check(MPI_Comm_rank(world, &rank), "MPI_Comm_rank"));
    TRM_TRY(trm_mpi_check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host),
                          "MPI_Comm_split_type"));
    *node_comm = host;
    if (fake_nodes > 0) {
        TRM_TRY(trm_mpi_check(MPI_Comm_rank(host, &host_rank), "MPI_Comm_rank"));
        TRM_TRY(
            trm_mpi_check(MPI_Comm_split(host, host_rank % fake_nodes, rank, node_comm), "MPI_Comm_split"));
        TRM_TRY(trm_mpi_check(MPI_Comm_free(&host), "MPI_Comm_free"));
    }
    TRM_TRY(trm_mpi_check(MPI_Comm_set_errhandler(*node_comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    TRM_TRY(name_node(*node_comm, world, &mine));
    return trm_mpi_check(MPI_Allgather(&mine, 1, MPI_INT, color, 1, MPI_INT, world), "MPI_Allgather");
}
