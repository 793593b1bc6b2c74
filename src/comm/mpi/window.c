/* window: shared memory of a node, and the slots of flags that live in it.
 *
 * Flags are C11 atomics on plain loads and stores: one MPI epoch (lock_all) stays open from open to close, and the
 * release and acquire orders of the flags stand in for MPI_Win_sync. */
#include <string.h>
#include <sys/statvfs.h>

#include "mpi_impl.h"

#define SHM_DIR "/dev/shm"
#define SPARE_BYTES (1u << 20)
#define PAGE_SLOTS 64

/* Writing to a window that does not fit into /dev/shm is a bus error, so look first.  (With another backing folder this
 * is too strict or too lax by what the user chose.) */
trm_status trm_mpi_window_fits(trm_mpi *m, size_t bytes, bool *fits) {
    uint64_t mine = bytes + 2 * TRM_ALIGN, wanted = 0;
    struct statvfs shm;
    TRM_TRY(trm_mpi_check(MPI_Allreduce(&mine, &wanted, 1, MPI_UINT64_T, MPI_SUM, m->node_comm),
                          "MPI_Allreduce"));
    int enough = statvfs(SHM_DIR, &shm) == 0 &&
                 (uint64_t)shm.f_bavail * shm.f_frsize >= wanted + wanted / 16 + SPARE_BYTES;
    int all = 0;
    TRM_TRY(trm_mpi_check(MPI_Allreduce(&enough, &all, 1, MPI_INT, MPI_MIN, m->world), "MPI_Allreduce"));
    *fits = all;
    return TRM_OK;
}

static unsigned char *aligned(unsigned char *p) {
    return p + ((TRM_ALIGN - (uintptr_t)p % TRM_ALIGN) % TRM_ALIGN);
}

/* Pages of its own per rank, so that each rank's memory is near it where that matters. */
static trm_status allocate(trm_mpi *m, size_t bytes, MPI_Win *win) {
    unsigned char *base;
    MPI_Info info;
    TRM_TRY(trm_mpi_check(MPI_Info_create(&info), "MPI_Info_create"));
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    int rc = MPI_Win_allocate_shared((MPI_Aint)(bytes + TRM_ALIGN), 1, info, m->node_comm, &base, win);
    MPI_Info_free(&info);
    TRM_TRY(trm_mpi_check(rc, "MPI_Win_allocate_shared"));
    TRM_TRY(trm_mpi_check(MPI_Win_set_errhandler(*win, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler"));
    return trm_mpi_check(MPI_Win_lock_all(MPI_MODE_NOCHECK, *win), "MPI_Win_lock_all");
}

trm_status trm_mpi_window_map(trm_mpi *m, size_t bytes, trm_mpi_window *w) {
    int ranks = m->real.node_size;
    w->win = MPI_WIN_NULL;
    w->part = trm_alloc_array((size_t)ranks, sizeof *w->part, "a window");
    if (!w->part) return TRM_MEMORY;
    TRM_TRY(allocate(m, bytes, &w->win));
    for (int k = 0; k < ranks; k++) {
        MPI_Aint size;
        int unit;
        void *base;
        TRM_TRY(trm_mpi_check(MPI_Win_shared_query(w->win, k, &size, &unit, &base), "MPI_Win_shared_query"));
        w->part[k] = aligned(base);
    }
    return TRM_OK;
}

trm_status trm_mpi_window_open(trm_mpi *m, size_t bytes, trm_mpi_window *w) {
    TRM_TRY(trm_mpi_window_map(m, bytes, w));
    memset(w->part[m->real.node_rank], 0, bytes);
    return trm_mpi_check(MPI_Barrier(m->node_comm), "MPI_Barrier");
}

void trm_mpi_window_close(trm_mpi_window *w) {
    if (w->win != MPI_WIN_NULL) {
        MPI_Win_unlock_all(w->win);
        MPI_Win_free(&w->win);
    }
    trm_free(w->part);
    w->part = NULL;
}

/* ---- slots -------------------------------------------------------------------------------- */

static size_t slot_bytes(const trm_mpi *m) { return sizeof(trm_mpi_line) * (size_t)(m->real.node_size + 1); }

static trm_mpi_line *slot_lines(const trm_mpi *m, int slot) {
    const trm_mpi_window *page = &m->slots.page[slot / PAGE_SLOTS];
    /* The first line of a page is the head. */
    return (trm_mpi_line *)(page->part[0] + TRM_ALIGN + (size_t)(slot % PAGE_SLOTS) * slot_bytes(m));
}

static trm_status grow_lists(trm_mpi_slots *s) {
    size_t pages = (size_t)s->pages;
    void *page =
        trm_realloc(s->page, pages * sizeof *s->page, (pages + 1) * sizeof *s->page, "request flags");
    if (!page) return TRM_MEMORY;
    s->page = page;
    size_t list = pages * PAGE_SLOTS * sizeof *s->unused;
    void *unused = trm_realloc(s->unused, list, list + PAGE_SLOTS * sizeof *s->unused, "request flags");
    if (!unused) return TRM_MEMORY;
    s->unused = unused;
    return TRM_OK;
}

/* Collective over the node. */
static trm_status add_page(trm_mpi *m) {
    trm_mpi_slots *s = &m->slots;
    TRM_TRY(grow_lists(s));
    size_t bytes = m->real.node_rank == 0 ? TRM_ALIGN + PAGE_SLOTS * slot_bytes(m) : 0;
    TRM_TRY(trm_mpi_window_open(m, bytes, &s->page[s->pages]));
    for (int k = PAGE_SLOTS - 1; k >= 0; k--) s->unused[s->unused_count++] = s->pages * PAGE_SLOTS + k;
    s->pages++;
    return TRM_OK;
}

trm_status trm_mpi_slots_open(trm_mpi *m) {
    TRM_TRY(add_page(m));
    m->head = (trm_mpi_head *)m->slots.page[0].part[0];
    return TRM_OK;
}

void trm_mpi_slots_close(trm_mpi *m) {
    for (int k = 0; k < m->slots.pages; k++) trm_mpi_window_close(&m->slots.page[k]);
    trm_free(m->slots.page);
    trm_free(m->slots.unused);
    m->head = NULL;
}

trm_status trm_mpi_slot_take(trm_mpi *m, int *slot, trm_mpi_line **line) {
    if (m->slots.unused_count == 0) {
        TRM_TRY(trm_mpi_meet(m, "room for requests"));
        TRM_TRY(add_page(m));
    }
    *slot = m->slots.unused[--m->slots.unused_count];
    *line = slot_lines(m, *slot);
    return TRM_OK;
}

void trm_mpi_slot_give(trm_mpi *m, int slot) { m->slots.unused[m->slots.unused_count++] = slot; }
