/* eval: weights from somewhere, evaluated on the validation set. */
#include <math.h>

#include "run_impl.h"

static void say(const trm_engine *e, const trm_exam_result *r) {
    char words[64], took[24];
    trm_exam_words(e, r->loss, r->accuracy, words, sizeof words);
    trm_run_say(e, "valid loss %.6f%s (%lld samples in %s, %.0f samples/s)", r->loss, words,
                (long long)r->samples, trm_human_time(r->seconds, took, sizeof took),
                r->seconds > 0 ? (double)r->samples / r->seconds : 0.0);
}

static trm_status evaluate(trm_engine *e, trm_exam *x, const char *weights, bool *alone) {
    trm_exam_result result;
    TRM_TRY(trm_comm_agree(e->comm, trm_exam_open(e, e->valid, x)));
    TRM_TRY(trm_engine_load_weights(e, weights));
    *alone = true;
    TRM_TRY(trm_exam_run(e, x, &result));
    *alone = false;
    say(e, &result);
    if (isfinite(result.loss)) return TRM_OK;
    return trm_fail(TRM_NUMERIC, "the loss of %s is not finite", weights);
}

trm_status trm_run_eval(const trm_job *j, trm_comm *c, const char *weights, const trm_run_options *o) {
    trm_engine e = {0};
    trm_exam x = {0};
    bool alone = false;
    if (j->data.n_valid == 0) {
        trm_fail(TRM_JOB, "%s: data.valid names no files to evaluate on", j->path);
        trm_hint("give them with --set data.valid=FILE");
        return TRM_JOB;
    }
    trm_status status = trm_engine_create(j, c, o, false, weights, &e);
    if (status == TRM_OK) status = evaluate(&e, &x, weights, &alone);
    if (status != TRM_OK && (alone || status == TRM_COMM) && e.ranks > 1 && o->alone)
        o->alone(o->print_ctx, status);
    trm_exam_close(&x);
    trm_engine_free(&e);
    return status;
}
