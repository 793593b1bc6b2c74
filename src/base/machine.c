/* machine: what this computer has to give. */
#include <string.h>
#include <trireme/base.h>

static bool number_in(const char *path, const char *word, int64_t *out) {
    char *text = NULL;
    if (trm_read_file(path, 65536, &text, NULL) != TRM_OK) return false;
    char *at = word ? strstr(text, word) : text, digits[24] = "";
    if (at) {
        at += word ? strlen(word) : 0;
        at += strspn(at, " \t");
        snprintf(digits, sizeof digits, "%.*s", (int)strspn(at, "0123456789"), at);
    }
    trm_free(text);
    return trm_parse_int(digits, out);
}

size_t trm_mem_available(void) {
    int64_t free_kib = 0, limit;
    if (!number_in("/proc/meminfo", "MemAvailable:", &free_kib)) free_kib = 4 << 20;
    size_t bytes = (size_t)free_kib << 10;
    /* A container's limit; its use counts file pages too, so only half of it is taken for free. */
    if (number_in("/sys/fs/cgroup/memory.max", NULL, &limit) ||
        number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", NULL, &limit))
        if ((uint64_t)limit / 2 < bytes) bytes = (size_t)limit / 2;
    return bytes;
}
