/* cores: how many threads a rank may start so that the ranks of a node share its cores. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "run_impl.h"

typedef struct seat {
    int node;
    cpu_set_t mask;
} seat;

/* The lowest hardware thread of the core that `cpu` belongs to, so that a core counts once. */
static int core_of(int cpu) {
    char path[96];
    int first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "re");
    if (!f) return cpu;
    if (fscanf(f, "%d", &first) != 1 || first < 0 || first >= CPU_SETSIZE) first = cpu;
    fclose(f);
    return first;
}

static int cores_in(const cpu_set_t *mask) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, mask)) CPU_SET(core_of(cpu), &cores);
    return CPU_COUNT(&cores);
}

/* Ranks of this node whose cores overlap with ours, ourselves included. */
static int sharing(const seat *mine, const seat *all, int ranks) {
    int n = 0;
    for (int r = 0; r < ranks; r++) {
        cpu_set_t both;
        CPU_AND(&both, &mine->mask, &all[r].mask);
        if (all[r].node == mine->node && CPU_COUNT(&both) > 0) n++;
    }
    return n > 0 ? n : 1;
}

trm_status trm_cores_each(trm_comm *c, int *out) {
    int ranks = trm_comm_size(c);
    seat mine = {.node = trm_comm_node(c)};
    seat *all = trm_alloc_array((size_t)ranks, sizeof *all, "a list of cores");
    if (sched_getaffinity(0, sizeof mine.mask, &mine.mask) != 0) CPU_SET(0, &mine.mask);
    trm_status status = trm_comm_agree(c, all ? TRM_OK : TRM_MEMORY);
    if (status == TRM_OK) status = trm_comm_allgather(c, &mine, sizeof mine, all);
    if (status == TRM_OK) *out = (int)trm_max64(1, cores_in(&mine.mask) / sharing(&mine, all, ranks));
    trm_free(all);
    return status;
}
