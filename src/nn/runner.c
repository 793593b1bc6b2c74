/* The runner: owns programs, arena and update ops; replays a program and times it. */
#include <math.h>
#include <string.h>

#include "runner_impl.h"

int trm_optim_moments(const trm_optim_spec *o) { return trm_optimizer_moments(o->kind, o->momentum); }

/* ---- plan: update ops --------------------------------------------------------------------- */

static bool decays(const trm_runner *r, const trm_param *p) {
    return r->spec.optim.weight_decay != 0 && (p->decay || r->spec.optim.decay_all);
}

static void *at(const trm_runner *r, void *space, int64_t offset) {
    return space ? (char *)space + (size_t)offset * r->spec.device->backend->float_size : NULL;
}

static trm_status plan_range(trm_runner *r, trm_op_kind kind, int64_t begin, int64_t end, bool decay,
                             trm_range_op *out) {
    const trm_optim_spec *o = &r->spec.optim;
    trm_op_desc d = {.kind = kind,
                     .n = 1,
                     .count = end - begin,
                     .optimizer = o->kind,
                     .nesterov = o->nesterov,
                     .eps = o->eps};
    const bool rmsprop = o->kind == TRM_OPT_RMSPROP;
    d.beta1 = o->kind == TRM_OPT_SGD || rmsprop ? o->momentum : o->beta1;
    d.beta2 = rmsprop ? o->alpha : o->beta2;
    d.weight_decay = decay ? o->weight_decay : 0;
    out->begin = begin;
    return trm_op_plan(r->spec.device, &d, &out->op);
}

static trm_status bind_range(const trm_runner *r, const trm_range_op *u) {
    if (!u->op) return TRM_OK;
    void *args[TRM_ARG_COUNT] = {0};
    args[TRM_ARG_W] = at(r, r->spec.weights, u->begin);
    args[TRM_ARG_G] = at(r, r->spec.grads, u->begin);
    args[TRM_ARG_M1] = at(r, r->spec.m1, u->begin);
    args[TRM_ARG_M2] = at(r, r->spec.m2, u->begin);
    return trm_op_bind(u->op, args, r->scratch);
}

/* Every parameter has its own step. */
static trm_status plan_update_each(trm_runner *r) {
    const trm_graph *g = r->spec.graph;
    for (int i = 0; i < g->n_params; i++) {
        const trm_param *p = &g->params[i];
        if (p->kind != TRM_PARAM) continue;
        TRM_TRY(plan_range(r, TRM_OP_UPDATE, p->offset, p->offset + p->count, decays(r, p),
                           &r->updates[r->n_updates]));
        r->n_updates++;
    }
    return TRM_OK;
}

/* Neighbours that decay alike share one op; padding belongs to the entry before it and stays zero. */
static trm_status plan_updates(trm_runner *r) {
    const trm_graph *g = r->spec.graph;
    r->updates = trm_alloc_array((size_t)g->n_params, sizeof *r->updates, "update");
    if (!r->updates) return TRM_MEMORY;
    if (r->spec.optim.kind == TRM_OPT_LAMB) return plan_update_each(r);
    int64_t begin = 0;
    int run = -1; /* decay of the open run */
    for (int i = 0; i < g->n_params; i++) {
        const trm_param *p = &g->params[i];
        if (p->kind != TRM_PARAM) continue;
        const int decay = decays(r, p);
        if (run >= 0 && decay != run) {
            TRM_TRY(plan_range(r, TRM_OP_UPDATE, begin, p->offset, run, &r->updates[r->n_updates]));
            r->n_updates++;
            begin = p->offset;
        }
        run = decay;
    }
    TRM_TRY(plan_range(r, TRM_OP_UPDATE, begin, g->param_space, run > 0, &r->updates[r->n_updates]));
    r->n_updates++;
    return TRM_OK;
}

/* Reductions sum the squares of what they reduce; without any, one pass does. */
static trm_status plan_sumsq(trm_runner *r) {
    for (int i = 0; i < r->spec.graph->n_nodes; i++)
        if (r->spec.graph->nodes[i].kind == TRM_NODE_SUM_GRADS) return TRM_OK;
    return plan_range(r, TRM_OP_SUMSQ, 0, r->spec.graph->param_space, false, &r->sumsq);
}

trm_status trm_runner_create(const trm_runner_spec *spec, trm_runner **out) {
    trm_status status = TRM_MEMORY;
    trm_runner *r = trm_alloc(sizeof *r, "runner");
    if (!r) return status;
    r->spec = *spec;
    r->node_forward = trm_alloc_array((size_t)spec->graph->n_nodes, sizeof(double), "runner");
    r->node_backward = trm_alloc_array((size_t)spec->graph->n_nodes, sizeof(double), "runner");
    if (!r->node_forward || !r->node_backward) goto out;
    if (spec->half) TRM_GOTO(trm_device_half(spec->device));
    if (spec->half) TRM_GOTO(trm_half_create(&r->spec, &r->half));
    TRM_GOTO(plan_updates(r));
    TRM_GOTO(plan_sumsq(r));
out:
    if (status == TRM_OK)
        *out = r;
    else
        trm_runner_free(r);
    return status;
}

void trm_runner_free(trm_runner *r) {
    if (!r) return;
    for (int i = 0; i < r->n_programs; i++) trm_program_free(r, r->programs[i]);
    for (int i = 0; r->updates && i < r->spec.graph->n_params; i++) trm_op_destroy(r->updates[i].op);
    trm_op_destroy(r->sumsq.op);
    trm_half_free(&r->half);
    trm_free(r->updates);
    trm_free(r->programs);
    trm_free(r->arena);
    trm_free(r->scratch);
    trm_free(r->node_forward);
    trm_free(r->node_backward);
    trm_free(r);
}

/* ---- plan: programs and memory -------------------------------------------------------------- */

static trm_status bind_program(trm_runner *r, trm_program *p) {
    for (int k = 0; k < p->micro_batches; k++)
        if (p->passes[k]) TRM_TRY(trm_pass_bind(p->passes[k], r->arena, r->scratch));
    return TRM_OK;
}

/* Replaces *block by one of at least `bytes`; *moved is set when it did. */
static trm_status grow(char **block, int64_t *have, int64_t bytes, const char *what, bool *moved) {
    if (*block && bytes <= *have) return TRM_OK;
    char *p = trm_alloc((size_t)trm_max64(bytes, TRM_ALIGN), what);
    if (!p) return TRM_MEMORY;
    trm_free(*block);
    *block = p;
    *have = bytes;
    *moved = true;
    return TRM_OK;
}

static int64_t range_scratch(const trm_runner *r) {
    int64_t bytes = r->sumsq.op ? (int64_t)r->sumsq.op->scratch_bytes : 0;
    for (int i = 0; i < r->n_updates; i++) bytes = trm_max64(bytes, (int64_t)r->updates[i].op->scratch_bytes);
    return bytes;
}

static trm_status bind_ranges(const trm_runner *r) {
    for (int i = 0; i < r->n_updates; i++) TRM_TRY(bind_range(r, &r->updates[i]));
    return bind_range(r, &r->sumsq);
}

trm_status trm_runner_settle(trm_runner *r, trm_program *p) {
    int64_t arena = r->arena_bytes, scratch = trm_max64(r->scratch_bytes, range_scratch(r));
    for (int k = 0; k < p->micro_batches; k++) {
        if (!p->passes[k]) continue;
        arena = trm_max64(arena, p->passes[k]->arena_bytes);
        scratch = trm_max64(scratch, p->passes[k]->scratch_bytes);
    }
    bool moved = false;
    TRM_TRY(grow(&r->arena, &r->arena_bytes, arena, "activations", &moved));
    TRM_TRY(grow(&r->scratch, &r->scratch_bytes, scratch, "scratch memory", &moved));
    if (moved) TRM_TRY(bind_ranges(r));
    for (int i = 0; moved && i < r->n_programs; i++)
        if (r->programs[i]) TRM_TRY(bind_program(r, r->programs[i]));
    return bind_program(r, p);
}

static int find_program(const trm_runner *r, bool eval, int micro_batches, const int64_t *counts, int64_t n) {
    for (int i = 0; i < r->n_programs; i++) {
        const trm_program *p = r->programs[i];
        if (p && p->eval == eval && p->micro_batches == micro_batches &&
            !memcmp(p->counts, counts, (size_t)n * sizeof *counts))
            return i;
    }
    return -1;
}

/* The place of a program that was forgotten; else one behind the last. */
static int free_place(const trm_runner *r) {
    int i = 0;
    while (i < r->n_programs && r->programs[i]) i++;
    return i;
}

static trm_status keep_program(trm_runner *r, trm_program *p, int *program) {
    trm_status status = trm_runner_settle(r, p);
    int place = free_place(r);
    if (status == TRM_OK && place == r->cap_programs) {
        int cap = r->cap_programs ? 2 * r->cap_programs : 8;
        trm_program **q = trm_realloc(r->programs, (size_t)r->cap_programs * sizeof *q,
                                      (size_t)cap * sizeof *q, "programs");
        if (q) {
            r->programs = q;
            r->cap_programs = cap;
        } else {
            status = TRM_MEMORY;
        }
    }
    if (status != TRM_OK) {
        trm_program_free(r, p);
        return status;
    }
    *program = place;
    r->programs[place] = p;
    if (place == r->n_programs) r->n_programs++;
    return TRM_OK;
}

void trm_runner_forget(trm_runner *r, int program) {
    trm_program_free(r, r->programs[program]);
    r->programs[program] = NULL;
}

trm_status trm_runner_plan(trm_runner *r, int micro_batches, const int64_t *counts, int *program) {
    *program = find_program(r, false, micro_batches, counts, (int64_t)r->spec.ranks * micro_batches);
    if (*program >= 0) return TRM_OK;
    trm_program *p;
    TRM_TRY(trm_program_build(r, micro_batches, counts, &p));
    return keep_program(r, p, program);
}

trm_status trm_runner_plan_eval(trm_runner *r, int64_t n, int *program) {
    *program = find_program(r, true, 1, &n, 1);
    if (*program >= 0) return TRM_OK;
    trm_program *p;
    TRM_TRY(trm_program_build_eval(r, n, &p));
    return keep_program(r, p, program);
}

/* ---- run -------------------------------------------------------------------------------------- */

/* Mean loss, norm of the mean gradient, clip factor (Pascanu et al. 2013), and whether all of it is finite. */
static void finish(const trm_runner *r, trm_step *step, trm_step_result *res) {
    const double *t = step->tail, count = t[TRM_TAIL_COUNT];
    step->inv_count = count > 0 ? 1 / count : 0;
    res->count = count;
    res->correct = t[TRM_TAIL_CORRECT];
    res->loss = t[TRM_TAIL_LOSS] * step->inv_count;
    res->grad_norm = sqrt(t[TRM_TAIL_SUMSQ]) * step->inv_count;
    res->finite = isfinite(res->loss) && isfinite(res->grad_norm) && t[TRM_TAIL_FAULT] == 0;
    const double clip = r->spec.optim.clip;
    step->clip_factor = clip > 0 && res->grad_norm > clip ? clip / (res->grad_norm + 1e-6) : 1;
}

static trm_status run_instr(trm_runner *r, const trm_instr *in, trm_step *step, trm_step_result *res) {
    switch (in->kind) {
    case TRM_INSTR_OP: return trm_op_run(in->op, step);
    case TRM_INSTR_POST: return r->spec.talk->post(r->spec.talk->ctx, in->request);
    case TRM_INSTR_WAIT: return r->spec.talk->wait(r->spec.talk->ctx, in->request);
    case TRM_INSTR_FINISH: finish(r, step, res); return TRM_OK;
    }
    return TRM_OK;
}

static void stamp(trm_runner *r, const trm_instr *in, double seconds) {
    r->phase[in->phase] += seconds;
    if (in->phase == TRM_PHASE_FORWARD) r->node_forward[in->node] += seconds;
    if (in->phase == TRM_PHASE_BACKWARD) r->node_backward[in->node] += seconds;
    if (in->phase == TRM_PHASE_BACKWARD && r->posted) r->backward_behind += seconds;
    if (r->spec.graph->nodes[in->node].kind == TRM_NODE_SUM_GRADS) r->posted = true;
}

static trm_status replay(trm_runner *r, const trm_program *p, trm_step *step, trm_step_result *res) {
    double then = trm_now();
    for (int i = 0; i < p->n_list; i++) {
        const trm_instr *in = &p->list[i];
        TRM_TRY(run_instr(r, in, step, res));
        const double now = trm_now();
        stamp(r, in, now - then);
        then = now;
        if (in->kind == TRM_INSTR_FINISH && !res->finite) return TRM_OK;
    }
    res->applied = true;
    return TRM_OK;
}

trm_status trm_runner_step(trm_runner *r, int program, trm_step *step, bool fault, trm_step_result *result) {
    memset(result, 0, sizeof *result);
    step->tail = r->spec.small;
    memset(step->tail, 0, TRM_TAIL_SIZE * sizeof(double));
    step->tail[TRM_TAIL_FAULT] = fault;
    r->steps++;
    r->posted = false;
    return replay(r, r->programs[program], step, result);
}

trm_status trm_runner_eval(trm_runner *r, int program, trm_step *step) {
    trm_step_result unused;
    const trm_program *p = r->programs[program];
    r->output = r->arena + p->passes[0]->regions[p->passes[0]->output_region].offset;
    return replay(r, p, step, &unused);
}

const void *trm_runner_output(const trm_runner *r) { return r->output; }

trm_runner_times trm_runner_time(const trm_runner *r) {
    return (trm_runner_times){r->phase[TRM_PHASE_LOAD],
                              r->phase[TRM_PHASE_FORWARD],
                              r->phase[TRM_PHASE_BACKWARD],
                              r->phase[TRM_PHASE_UPDATE],
                              r->phase[TRM_PHASE_WAIT],
                              r->backward_behind,
                              r->steps,
                              r->node_forward,
                              r->node_backward};
}

void trm_runner_time_reset(trm_runner *r) {
    const size_t bytes = (size_t)r->spec.graph->n_nodes * sizeof(double);
    memset(r->phase, 0, sizeof r->phase);
    r->backward_behind = 0;
    memset(r->node_forward, 0, bytes);
    memset(r->node_backward, 0, bytes);
    r->steps = 0;
}

int64_t trm_runner_arena_bytes(const trm_runner *r) { return r->arena_bytes + r->scratch_bytes; }

void trm_runner_describe(const trm_runner *r, int program, trm_str *out) {
    static const char *const kinds[] = {"", "post", "wait", "finish"};
    const trm_program *p = r->programs[program];
    for (int i = 0; i < p->n_list; i++) {
        const trm_instr *in = &p->list[i];
        if (in->kind == TRM_INSTR_FINISH)
            trm_str_add(out, "%4d finish\n", i);
        else
            trm_str_add(out, "%4d %-14s %-24s %s\n", i,
                        in->op ? trm_op_name(in->op->desc.kind) : kinds[in->kind],
                        r->spec.graph->nodes[in->node].name, in->op ? in->op->impl : "");
    }
}
