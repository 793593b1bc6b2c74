/* check: what a job would train, without training it. */
#include <string.h>

#include "run_impl.h"

static const char *flops(double n, char *buf, size_t cap) {
    static const char *const unit[] = {"", " k", " M", " G", " T", " P"};
    int u = 0;
    for (; n >= 1000 && u < 5; u++) n /= 1000;
    snprintf(buf, cap, u ? "%.3g%s" : "%.0f%s", n, unit[u]);
    return buf;
}

typedef struct totals {
    double forward, backward;
    int64_t activations;
} totals;

static totals layers(const trm_graph *g, trm_str *t) {
    totals sum = {0};
    trm_str_add(t, "%-24s %-20s %-14s %12s %14s\n", "layer", "kind", "output", "parameters", "FLOPs/sample");
    for (int i = 0; i < trm_graph_nodes(g); i++) {
        trm_node_info n = trm_graph_node(g, i);
        char shape[80], f[32];
        if (n.comm) continue;
        trm_str_add(t, "%-24s %-20s %-14s %12lld %14s\n", n.name, n.kind,
                    trm_shape_text(&n.out, shape, sizeof shape), (long long)n.params,
                    flops(n.forward_flops + n.backward_flops, f, sizeof f));
        sum.forward += n.forward_flops;
        sum.backward += n.backward_flops;
        sum.activations += n.activation_bytes;
    }
    return sum;
}

static void line_bytes(trm_str *t, const char *what, double bytes) {
    char text[16];
    trm_str_add(t, "  %-34s %10s\n", what, trm_human_bytes(bytes, text, sizeof text));
}

/* Values and their gradients are alive together at most; the plan reuses memory, so this is an upper estimate. */
static void memory(const trm_job *j, const trm_graph *g, totals sum, trm_str *t) {
    double space = (double)trm_graph_param_space(g) * 4;
    double slice = (double)trm_cut(j->train.batch, j->train.micro_batches, 1) * (double)sum.activations * 2;
    double moments = space * trm_optim_moments(&j->train.optim);
    trm_str_add(t, "memory of one rank that computes whole micro-batches (float32)\n");
    line_bytes(t, "weights", space);
    line_bytes(t, "gradients", space);
    line_bytes(t, "optimizer", moments);
    line_bytes(t, "activations and gradients, at most", slice);
    line_bytes(t, "together", 2 * space + moments + slice);
}

static void numbers(const trm_job *j, const trm_data_info *d, const trm_graph *g, totals sum, trm_str *t) {
    char a[32], b[32];
    int64_t batch = j->train.batch,
            per_epoch = d->samples / batch + (!j->train.drop_last && d->samples % batch > 0);
    trm_str_add(t, "parameters   %lld\n", (long long)trm_graph_param_count(g));
    trm_str_add(t, "FLOPs        %s forward, %s backward a sample\n", flops(sum.forward, a, sizeof a),
                flops(sum.backward, b, sizeof b));
    trm_str_add(t, "updates      %lld an epoch of %lld samples, %lld samples each\n", (long long)per_epoch,
                (long long)d->samples, (long long)batch);
}

/* Do the weights to begin with fit? Read as training would. */
static trm_status check_init(const trm_job *j, const trm_graph *g) {
    size_t n = (size_t)trm_graph_param_space(g) + 1, m = (size_t)trm_graph_state_space(g) + 1;
    if (!j->model_init) return TRM_OK;
    trm_weights w = {.weights = trm_alloc_array(n, sizeof(float), "the weights of model.init"),
                     .state = trm_alloc_array(m, sizeof(float), "the weights of model.init")};
    trm_status status = w.weights && w.state ? trm_weights_read(j->model_init, g, &w) : TRM_MEMORY;
    trm_free(w.weights);
    trm_free(w.state);
    return status;
}

static trm_status describe(const trm_job *j, const trm_data_info *d, trm_str *text) {
    trm_graph *g = NULL;
    char x[80], y[80];
    TRM_TRY(trm_job_model(j, d, &g));
    trm_job_table(j, text);
    trm_str_add(text, "\ndata         %s -> %s, stored as %s", trm_shape_text(&d->x, x, sizeof x),
                d->y_is_class && d->y.rank == 0 ? "class" : trm_shape_text(&d->y, y, sizeof y),
                trm_dtype_name(d->x_type));
    if (d->y_is_class) trm_str_add(text, ", %lld classes", (long long)d->classes);
    trm_str_add(text, "\n\n");
    totals sum = layers(g, text);
    trm_str_add(text, "\n");
    numbers(j, d, g, sum, text);
    memory(j, g, sum, text);
    trm_status status = check_init(j, g);
    trm_graph_free(g);
    return text->failed ? TRM_MEMORY : status;
}

static trm_status check_valid(const trm_job *j, const trm_data_info *train) {
    trm_dataset *set = NULL;
    trm_data_spec spec = trm_job_data_spec(j, true);
    if (j->data.n_valid == 0) return TRM_OK;
    if (spec.classes == 0) spec.classes = train->classes;
    TRM_TRY(trm_dataset_open(&spec, &set));
    trm_status status = trm_job_transform(j, set);
    if (status == TRM_OK) status = trm_engine_check_pair(train, set);
    trm_dataset_close(set);
    return status;
}

trm_status trm_run_check(const trm_job *j, trm_str *text) {
    trm_dataset *set = NULL;
    trm_data_spec spec = trm_job_data_spec(j, false);
    TRM_TRY(trm_dataset_open(&spec, &set));
    trm_status status = trm_job_transform(j, set);
    if (status == TRM_OK) status = check_valid(j, trm_dataset_info(set));
    if (status == TRM_OK) status = trm_job_stats_check(j, trm_dataset_info(set));
    if (status == TRM_OK) status = describe(j, trm_dataset_info(set), text);
    trm_dataset_close(set);
    return status;
}
