/* backend: the only list of back ends, and how one is opened. */
#include <string.h>
#include <trireme/backend.h>

extern const trm_backend trm_backend_cpu, trm_backend_ref;

/* The first is what a run takes by itself. */
static const trm_backend *const backends[] = {&trm_backend_cpu, &trm_backend_ref, NULL};
enum { BACKENDS = sizeof backends / sizeof *backends };

const trm_backend *const *trm_backends(void) { return backends; }

static const trm_backend *find(const char *name) {
    for (int i = 0; backends[i]; i++)
        if (strcmp(backends[i]->name, name) == 0) return backends[i];
    return NULL;
}

static trm_status unknown(const char *name) {
    const char *names[BACKENDS] = {0};
    trm_str list = {0};
    for (int i = 0; backends[i]; i++) {
        names[i] = backends[i]->name;
        trm_str_add(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    trm_status s =
        trm_fail(TRM_USAGE, "no back end is named \"%s\"; there are: %s", name, trm_str_get(&list));
    const char *near = trm_nearest(name, names);
    if (near) trm_hint("did you mean \"%s\"?", near);
    trm_str_free(&list);
    return s;
}

trm_status trm_device_open(const char *backend, int threads, trm_device **out) {
    const trm_backend *b = find(backend ? backend : "");
    if (!b) return unknown(backend ? backend : "");
    if (threads < 1)
        return trm_fail(TRM_USAGE, "back end %s wants at least 1 thread, not %d", b->name, threads);
    trm_device *d = trm_alloc(sizeof *d, "a device");
    if (!d) return TRM_MEMORY;
    d->backend = b;
    d->threads = threads;
    snprintf(d->about, sizeof d->about, "%s", b->about);
    trm_status s = b->open ? b->open(d) : TRM_OK;
    if (s != TRM_OK) {
        trm_free(d);
        return trm_prefix(s, "back end %s", b->name);
    }
    *out = d;
    return TRM_OK;
}

void trm_device_close(trm_device *d) {
    if (!d) return;
    if (d->backend->close) d->backend->close(d);
    trm_free(d);
}

trm_status trm_device_half(const trm_device *d) {
    if (d->backend->half) return d->backend->half(d);
    return trm_fail(TRM_MACHINE, "back end %s has no bfloat16: it computes in float%zu", d->backend->name,
                    8 * d->backend->float_size);
}

bool trm_op_half_pays(const trm_device *d, const trm_op_desc *forward) {
    return d->backend->half_pays && d->backend->half_pays(d, forward);
}
