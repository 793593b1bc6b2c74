/* wire: what a run says to the outside and what ranks say to each other once per step. */
#ifndef TRIREME_WIRE_H
#define TRIREME_WIRE_H

#include <trireme/base.h>

/* ---- records: one JSON object a line -------------------------------------------------- */

typedef struct trm_record { trm_str text; bool first; int depth; } trm_record;
TRM_API void trm_record_begin(trm_record *r, const char *kind);     /* {"kind":"update","v":1 */
TRM_API void trm_record_int(trm_record *r, const char *key, int64_t v);
TRM_API void trm_record_num(trm_record *r, const char *key, double v);      /* not finite -> null; shortest text that reads back equal */
TRM_API void trm_record_str(trm_record *r, const char *key, const char *v);
TRM_API void trm_record_bool(trm_record *r, const char *key, bool v);
TRM_API void trm_record_open(trm_record *r, const char *key, char bracket);  /* '{' or '['; key NULL inside an array */
TRM_API void trm_record_close(trm_record *r, char bracket);
TRM_API const char *trm_record_end(trm_record *r);      /* closes; the line without '\n', valid until the next begin. Where text.failed: cut */
TRM_API void trm_record_free(trm_record *r);

struct json_t;                      /* jansson's */
/* Hands the records of a file, in order, to `visit` with the number of their line and their kind, until one is refused.  A last line
 * without an end is left out: it was torn by a kill, or is being written. */
typedef trm_status (*trm_record_visit)(void *ctx, int64_t line, const char *kind, const struct json_t *record);
TRM_API trm_status trm_records_read(const char *path, trm_record_visit visit, void *ctx);

/* ---- the step note: 64 bytes per rank per step, gathered one step late ------------------ */

typedef struct trm_note {
    int64_t update;
    float compute_s, wait_s, data_s, cpu_s;     /* of that step */
    float fixed_s;                  /* of compute_s: the update of the weights, which does not depend on the share */
    float delay_s;                  /* the thread was ready and had no core */
    uint32_t memory_mib;
    uint16_t status;                /* trm_status of the rank */
    uint16_t orders;                /* TRM_ORDER_* bits seen by the rank */
    uint8_t spare[24];
} trm_note;
_Static_assert(sizeof(trm_note) == 64, "a note is 64 bytes");
enum { TRM_ORDER_STOP = 1, TRM_ORDER_CHECKPOINT = 2 };

/* What the notes of all ranks say together. Local, pure: equal notes give equal decisions on all ranks. */
typedef struct trm_note_sum {
    int64_t update;                 /* of the first note */
    bool same_update;               /* all notes are of that update; else the ranks have lost step */
    uint16_t orders;                /* seen by any rank */
    uint16_t worst;                 /* the highest status, and the lowest rank that reports it (-1: all are well) */
    int worst_rank;
} trm_note_sum;
TRM_API trm_note_sum trm_note_fold(const trm_note *notes, int n);

#endif
