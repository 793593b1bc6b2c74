/* shape: per-sample shapes. */
#include <trireme/tensor.h>

#define MOST_ELEMENTS ((int64_t)1 << 48)

trm_shape trm_shape_from(int rank, const int64_t *dims) {
    trm_shape s = {rank, {0}};
    for (int i = 0; i < rank && i < TRM_MAX_DIMS; i++) s.dim[i] = dims[i];
    return s;
}

int64_t trm_shape_count(const trm_shape *s) {
    int64_t count = 1;
    for (int i = 0; i < s->rank; i++) count *= s->dim[i];
    return count;
}

bool trm_shape_valid(const trm_shape *s) {
    int64_t count = 1;
    if (s->rank < 0 || s->rank > TRM_MAX_DIMS) return false;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 1 || s->dim[i] > MOST_ELEMENTS / count) return false;
        count *= s->dim[i];
    }
    return true;
}

bool trm_shape_equal(const trm_shape *a, const trm_shape *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

const char *trm_shape_text(const trm_shape *s, char *buf, size_t cap) {
    size_t at = (size_t)snprintf(buf, cap, "(");
    for (int i = 0; i < s->rank && i < TRM_MAX_DIMS && at < cap; i++)
        at += (size_t)snprintf(buf + at, cap - at, "%s%lld", i > 0 ? "," : "", (long long)s->dim[i]);
    if (at < cap) snprintf(buf + at, cap - at, ")");
    return buf;
}
