/* bytes: plans as plain bytes, and back.  What comes back may be damaged: every count is held against what is left before
 * anything is allocated, and the first thing that does not fit spoils the cursor. */
#ifndef TRIREME_DATA_BYTES_H
#define TRIREME_DATA_BYTES_H

#include <trireme/base.h>

void trm_put(trm_str *s, int64_t v);
void trm_put_text(trm_str *s, const char *text);        /* NULL is another thing than "" */

typedef struct trm_cursor {
    const char *p;
    size_t left;
    bool bad;
} trm_cursor;
void trm_get_bytes(trm_cursor *c, void *dst, size_t n); /* zeros where the cursor is bad */
int64_t trm_get(trm_cursor *c);
int64_t trm_get_upto(trm_cursor *c, int64_t most);      /* a number in [0, most] */
int64_t trm_get_count(trm_cursor *c, size_t each);      /* how many things of at least `each` bytes follow */
char *trm_get_text(trm_cursor *c);                      /* trm_free */

#endif
