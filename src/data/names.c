/* names: a set of texts, numbered in the order of their bytes once all are known. */
#include "make_impl.h"
#include <stdlib.h>
#include <string.h>

#define MOST_NAMES 1000000

/* The slot of `text`, or the empty one where it would go. */
static size_t slot_of(const trm_names *s, const char *text) {
    size_t mask = s->slots - 1, at = (size_t)trm_hash(text, strlen(text), 0) & mask;
    while (s->slot[at] && strcmp(s->name[s->slot[at] - 1], text) != 0) at = (at + 1) & mask;
    return at;
}

static void fill_slots(trm_names *s) {
    memset(s->slot, 0, s->slots * sizeof *s->slot);
    for (int64_t i = 0; i < s->n; i++) s->slot[slot_of(s, s->name[i])] = (int32_t)i + 1;
}

/* Twice as many names and, always half empty, four times as many slots. */
static trm_status grow(trm_names *s) {
    size_t cap = s->cap ? 2 * s->cap : 64;
    void *name = trm_realloc(s->name, s->cap * sizeof *s->name, cap * sizeof *s->name, "names");
    if (!name) return TRM_MEMORY;
    s->name = name;
    int32_t *slot = trm_alloc_array(4 * cap, sizeof *slot, "names");
    if (!slot) return TRM_MEMORY;
    trm_free(s->slot);
    s->slot = slot;
    s->slots = 4 * cap;
    s->cap = cap;
    fill_slots(s);
    return TRM_OK;
}

trm_status trm_names_add(trm_names *s, const char *text) {
    if (s->slots && s->slot[slot_of(s, text)]) return TRM_OK;
    if (s->n == MOST_NAMES) return trm_fail(TRM_DATA, "more than %d different classes", MOST_NAMES);
    if ((size_t)s->n == s->cap) TRM_TRY(grow(s));
    char *own = trm_strdup(text);
    if (!own) return TRM_MEMORY;
    s->slot[slot_of(s, own)] = (int32_t)s->n + 1;
    s->name[s->n++] = own;
    return TRM_OK;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void trm_names_sort(trm_names *s) {
    if (s->n == 0) return;
    qsort(s->name, (size_t)s->n, sizeof *s->name, by_bytes);
    fill_slots(s);
}

int64_t trm_names_find(const trm_names *s, const char *text) {
    return s->slots ? (int64_t)s->slot[slot_of(s, text)] - 1 : -1;
}

void trm_names_free(trm_names *s) {
    for (int64_t i = 0; i < s->n; i++) trm_free(s->name[i]);
    trm_free(s->name);
    trm_free(s->slot);
    *s = (trm_names){0};
}

trm_status trm_names_write(const trm_names *s, trm_h5_file *f, const char *set) {
    size_t width = 1;
    for (int64_t i = 0; i < s->n; i++)
        if (strlen(s->name[i]) > width) width = strlen(s->name[i]);
    char *all = trm_alloc_array((size_t)s->n, width, "names");
    if (!all) return TRM_MEMORY;
    for (int64_t i = 0; i < s->n; i++) memcpy(all + (size_t)i * width, s->name[i], strlen(s->name[i]));
    trm_status st = trm_h5_make_texts(f, set, s->n, width);
    if (st == TRM_OK) st = trm_h5_put_stored(f, set, 0, s->n, width, all);
    trm_free(all);
    return st;
}
