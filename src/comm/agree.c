/* agree: one sentence out of many, and texts that name ranks. */
#include <string.h>

#include "comm_impl.h"

#define TEXT_BYTES 1024
#define HINT_BYTES 512

/* snprintf at the end of buf; a text that does not fit is cut. */
TRM_PRINTF(3, 4) static void append(char *buf, size_t cap, const char *fmt, ...) {
    size_t len = strlen(buf);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf + len, cap - len, fmt, ap);
    va_end(ap);
}

/* End of the run of flagged ranks that starts at `first`. */
static int run_end(const uint8_t *flag, int size, int first, const trm_comm *same_host) {
    int last = first;
    while (last + 1 < size && flag[last + 1] &&
           (!same_host || strcmp(trm_comm_host(same_host, last + 1), trm_comm_host(same_host, first)) == 0))
        last++;
    return last;
}

const char *trm_comm_ranks_text(const uint8_t *flag, int size, char *buf, size_t cap) {
    int flagged = 0;
    for (int k = 0; k < size; k++) flagged += flag[k] != 0;
    snprintf(buf, cap, "%s ", flagged == 1 ? "rank" : "ranks");
    const char *comma = "";
    for (int k = 0; k < size; k++) {
        if (!flag[k]) continue;
        int last = run_end(flag, size, k, NULL);
        if (last > k)
            append(buf, cap, "%s%d-%d", comma, k, last);
        else
            append(buf, cap, "%s%d", comma, k);
        comma = ", ";
        k = last;
    }
    return buf;
}

const char *trm_comm_missing_text(const trm_comm *c, const uint8_t *flag, char *buf, size_t cap) {
    const char *comma = "";
    buf[0] = '\0';
    for (int k = 0; k < c->size; k++) {
        if (!flag[k]) continue;
        int last = run_end(flag, c->size, k, c);
        if (last > k)
            append(buf, cap, "%sranks %d-%d on %s", comma, k, last, trm_comm_host(c, k));
        else
            append(buf, cap, "%srank %d on %s", comma, k, trm_comm_host(c, k));
        comma = ", ";
        k = last;
    }
    return buf;
}

typedef struct brought {
    int32_t status;
    char text[TEXT_BYTES], hint[HINT_BYTES];
} brought;

/* A cause outranks a consequence: a failed communication, or a stop, is most often the echo of another rank's fault. */
static int gravity(trm_status s) {
    static const trm_status order[] = {TRM_OK,      TRM_STOPPED, TRM_COMM,    TRM_RUN,
                                       TRM_NUMERIC, TRM_IO,      TRM_DATA,    TRM_JOB,
                                       TRM_USAGE,   TRM_MEMORY,  TRM_MACHINE, TRM_INTERNAL};
    int n = (int)(sizeof order / sizeof *order);
    for (int k = 0; k < n; k++)
        if (order[k] == s) return k;
    return n;
}

static trm_status adopt_worst(const brought *all, int size) {
    int worst = 0;
    for (int k = 1; k < size; k++)
        if (gravity((trm_status)all[k].status) > gravity((trm_status)all[worst].status)) worst = k;
    const brought *w = &all[worst];
    uint8_t *alike = trm_alloc((size_t)size, "a text");
    if (!alike) return TRM_MEMORY;
    int count = 0;
    for (int k = 0; k < size; k++)
        count += alike[k] = all[k].status == w->status && strcmp(all[k].text, w->text) == 0;
    trm_status status =
        trm_fail((trm_status)w->status, "%s", w->text[0] ? w->text : trm_status_text(w->status));
    char ranks[256];
    if (count < size) trm_prefix(status, "%s", trm_comm_ranks_text(alike, size, ranks, sizeof ranks));
    if (w->hint[0]) trm_hint("%s", w->hint);
    trm_free(alike);
    return status;
}

trm_status trm_comm_agree(trm_comm *c, trm_status mine) {
    double worst = gravity(mine);
    char text[TEXT_BYTES], hint[HINT_BYTES];
    /* Kept aside: what follows may record sentences of its own. */
    snprintf(text, sizeof text, "%s", mine == TRM_OK ? "" : trm_error_text());
    snprintf(hint, sizeof hint, "%s", mine == TRM_OK ? "" : trm_error_hint());
    TRM_TRY(trm_comm_max_f64(c, &worst, 1));
    if (worst == 0) return TRM_OK;
    /* Without memory for the texts of all ranks there is still the worst status to agree on; but then a rank that
     * lacks it must not leave the others in the all-gather. */
    brought *all = trm_alloc_array((size_t)c->size + 1, sizeof *all, "the ranks' sentences");
    double without = all == NULL;
    trm_status status = trm_comm_max_f64(c, &without, 1);
    if (status == TRM_OK && without > 0)
        status = trm_fail(TRM_MEMORY, "a fault, and no memory left to tell which");
    if (status != TRM_OK) goto out;
    brought *me = &all[c->size];
    me->status = (int32_t)mine;
    memcpy(me->text, text, sizeof text);
    memcpy(me->hint, hint, sizeof hint);
    status = trm_comm_allgather(c, me, sizeof *me, all);
    if (status == TRM_OK) status = adopt_worst(all, c->size);
out:
    trm_free(all);
    return status;
}
