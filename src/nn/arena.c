/* Memory plan: offsets in one arena so that regions alive at the same time do not overlap. */
#include "nn_impl.h"

#include <stdlib.h>

typedef struct by_size {
    int64_t bytes;
    int index;
} by_size;

/* Large first; ties by index, so that equal graphs get equal plans. */
static int larger_first(const void *a, const void *b) {
    const by_size *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->index - y->index;
}

static bool alive_together(const trm_region *a, const trm_region *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset at which region r collides with none of the placed ones that live with it. */
static int64_t lowest_fit(const trm_region *regions, const by_size *order, int placed, const trm_region *r) {
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < placed; i++) {
            const trm_region *p = &regions[order[i].index];
            if (!alive_together(p, r) || at + r->bytes <= p->offset || p->offset + p->bytes <= at) continue;
            at = p->offset + p->bytes;
            moved = true;
        }
    }
    return at;
}

int64_t trm_arena_place(trm_region *regions, int n) {
    by_size *order = trm_alloc_array((size_t)n + 1, sizeof *order, "memory plan");
    if (!order) return -1;
    for (int i = 0; i < n; i++) {
        regions[i].bytes = (int64_t)trm_round_up((size_t)regions[i].bytes, TRM_ALIGN);
        order[i] = (by_size){regions[i].bytes, i};
    }
    qsort(order, (size_t)n, sizeof *order, larger_first);
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        trm_region *r = &regions[order[i].index];
        r->offset = lowest_fit(regions, order, i, r);
        total = trm_max64(total, r->offset + r->bytes);
    }
    trm_free(order);
    return total;
}
