/* mem: the only caller of the C allocator.  Counts what is live, so that a test can hold a
 * training step to zero allocations and a leak shows as a number. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <trireme/base.h>
#include <unistd.h>

/* Lies just before each block; one alignment unit long, so that the block stays aligned. */
typedef union header {
    size_t bytes;
    unsigned char pad[TRM_ALIGN];
} header;

static atomic_uint_fast64_t allocations, live_bytes, peak_bytes, fail_in;

bool trm_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }

void trm_mem_fail_after(uint64_t n) { atomic_store(&fail_in, n); }

/* Counts the hook down; true for the one call that has to fail. */
static bool hook_fires(void) {
    uint_fast64_t n = atomic_load(&fail_in);
    while (n > 0)
        if (atomic_compare_exchange_weak(&fail_in, &n, n - 1)) return n == 1;
    return false;
}

static void count_new(size_t bytes) {
    atomic_fetch_add(&allocations, 1);
    uint_fast64_t live = atomic_fetch_add(&live_bytes, bytes) + bytes;
    uint_fast64_t peak = atomic_load(&peak_bytes);
    while (live > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, live)) {}
}

void *trm_alloc(size_t bytes, const char *what) {
    size_t whole;
    void *raw = NULL;
    if (hook_fires() || __builtin_add_overflow(bytes, sizeof(header), &whole) ||
        posix_memalign(&raw, TRM_ALIGN, whole) != 0) {
        char size[16];
        trm_fail(TRM_MEMORY, "cannot allocate %s for %s", trm_human_bytes((double)bytes, size, sizeof size),
                 what ? what : "an unnamed use");
        return NULL;
    }
    memset(raw, 0, whole);
    header *h = raw;
    h->bytes = bytes;
    count_new(bytes);
    return h + 1;
}

void *trm_alloc_array(size_t count, size_t size, const char *what) {
    size_t bytes;
    if (trm_mul_size(count, size, &bytes)) return trm_alloc(bytes, what);
    trm_fail(TRM_MEMORY, "cannot allocate %zu x %zu bytes for %s: the product overflows", count, size,
             what ? what : "an unnamed use");
    return NULL;
}

void *trm_realloc(void *p, size_t old_bytes, size_t new_bytes, const char *what) {
    void *q = trm_alloc(new_bytes, what);
    if (!q) return NULL;
    if (p) memcpy(q, p, old_bytes < new_bytes ? old_bytes : new_bytes);
    trm_free(p);
    return q;
}

char *trm_strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char *copy = trm_alloc(n, "a text");
    if (copy) memcpy(copy, s, n);
    return copy;
}

void trm_free(void *p) {
    if (!p) return;
    header *h = (header *)p - 1;
    atomic_fetch_sub(&live_bytes, h->bytes);
    free(h);
}

trm_mem_counts trm_mem_count(void) {
    return (trm_mem_counts){atomic_load(&allocations), atomic_load(&live_bytes), atomic_load(&peak_bytes)};
}

size_t trm_mem_resident(void) {
    char text[128];
    unsigned long pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return 0;
    text[n] = '\0';
    if (sscanf(text, "%*u %lu", &pages) != 1) return 0;
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}
