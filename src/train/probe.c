/* probe: how fast is each rank, with this job's own layers?  A runner of its own, without communication, trains on
 * empty samples for two seconds; all ranks do so at the same time, as they will in the run. */
#include <stdlib.h>
#include <string.h>

#include "run_impl.h"

#define PROBE_SECONDS 2.0
#define PROBE_STEPS 256

typedef struct probe {
    trm_graph *graph;
    trm_runner *runner;
    void *weights, *grads, *m1, *m2, *state, *x, *y;
    double *small;
    int64_t *sample;
    int program;
} probe;

static void free_probe(probe *p) {
    trm_runner_free(p->runner);
    trm_graph_free(p->graph);
    void *all[] = {p->weights, p->grads, p->m1, p->m2, p->state, p->x, p->y, p->small, p->sample};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) trm_free(all[i]);
}

static trm_status alloc_probe(const trm_engine *e, probe *p, int64_t n) {
    size_t space = (size_t)trm_graph_param_space(p->graph) + 1, f = trm_engine_float(e), count = (size_t)n;
    const trm_data_info *d = trm_engine_data(e);
    p->weights = trm_alloc_array(space, f, "probe");
    p->grads = trm_alloc_array(space, f, "probe");
    p->m1 = trm_alloc_array(space, f, "probe");
    p->m2 = trm_alloc_array(space, f, "probe");
    p->state = trm_alloc_array((size_t)trm_graph_state_space(p->graph) + 1, f, "probe");
    p->small = trm_alloc_array((size_t)trm_graph_small_space(p->graph), sizeof *p->small, "probe");
    p->x = trm_alloc_array(count, (size_t)trm_max64(d->x_stride, 1), "probe");
    p->y = trm_alloc_array(count, (size_t)trm_max64(d->y_stride, 1), "probe");
    p->sample = trm_alloc_array(count, sizeof *p->sample, "probe");
    if (p->weights && p->grads && p->m1 && p->m2 && p->state && p->small && p->x && p->y && p->sample)
        return TRM_OK;
    return TRM_MEMORY;
}

static trm_status make_probe(trm_engine *e, probe *p, int64_t n) {
    TRM_TRY(trm_job_model(e->job, trm_engine_data(e), &p->graph));
    TRM_TRY(alloc_probe(e, p, n));
    int moments = trm_optim_moments(&e->optim);
    trm_runner_spec spec = {.graph = p->graph,
                            .device = e->device,
                            .ranks = 1,
                            .loss = e->job->train.loss,
                            .load = trm_engine_load(e->job, trm_engine_data(e)),
                            .half = e->job->train.bf16,
                            .optim = e->optim,
                            .weights = p->weights,
                            .grads = p->grads,
                            .m1 = moments > 0 ? p->m1 : NULL,
                            .m2 = moments > 1 ? p->m2 : NULL,
                            .state = p->state,
                            .small = p->small};
    TRM_TRY(trm_runner_create(&spec, &p->runner));
    return trm_runner_plan(p->runner, 1, &n, &p->program);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median seconds of a step, behind a first one that warms up. */
static trm_status run_probe(probe *p, double *seconds) {
    double took[PROBE_STEPS], until = trm_now() + PROBE_SECONDS;
    int n = 0;
    trm_step_result unused;
    for (int i = 0; n < PROBE_STEPS && (n == 0 || trm_now() < until); i++) {
        trm_step step = {.update = i + 1, .x_raw = p->x, .y_raw = p->y, .sample = p->sample};
        double begun = trm_now();
        TRM_TRY(trm_runner_step(p->runner, p->program, &step, false, &unused));
        if (i > 0) took[n++] = trm_now() - begun;
    }
    qsort(took, (size_t)n, sizeof *took, compare);
    *seconds = took[n / 2];
    return TRM_OK;
}

trm_status trm_probe_speeds(trm_engine *e, int64_t samples, double *speed) {
    int64_t n = trm_max64(samples / e->ranks, 1);
    probe p = {0};
    double seconds = 0;
    trm_status status = trm_comm_agree(e->comm, make_probe(e, &p, n));
    if (status == TRM_OK) status = trm_comm_agree(e->comm, run_probe(&p, &seconds));
    free_probe(&p);
    TRM_TRY(status);
    double mine = 1 / (seconds > 0 ? seconds : 1e-9);
    return trm_comm_allgather(e->comm, &mine, sizeof mine, speed);
}

/* ---- hardware ---- */

static void cpu_name(char *buf, size_t cap) {
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    buf[0] = '\0';
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10)) {
            snprintf(buf, cap, "%.150s", line);
            break;
        }
    if (f) fclose(f);
}

trm_status trm_probe_alike(const trm_engine *e, bool *alike) {
    char mine[256] = {0}, cpu[160];
    cpu_name(cpu, sizeof cpu);
    snprintf(mine, sizeof mine, "%.90s %s", e->device->about, cpu);
    char *all = trm_alloc_array((size_t)e->ranks, sizeof mine, "names of devices");
    trm_status status = trm_comm_agree(e->comm, all ? TRM_OK : TRM_MEMORY);
    if (status == TRM_OK) status = trm_comm_allgather(e->comm, mine, sizeof mine, all);
    *alike = true;
    for (int r = 1; status == TRM_OK && r < e->ranks; r++)
        if (memcmp(all, all + (size_t)r * sizeof mine, sizeof mine) != 0) *alike = false;
    trm_free(all);
    return status;
}
