/* judge: the facts of one HDF5 data set -> a place in the plan, or the sentence that says why not. */
#include "data_impl.h"
#include <string.h>

#define BOMB_FLOOR ((uint64_t)1 << 30)
#define BOMB_RATIO 1100 /* deflate cannot shrink more than 1032 times */

static const struct {
    int id;
    const char *name;
} known_filters[] = {
    {1, "gzip"},    {2, "shuffle"},     {3, "fletcher32"}, {4, "szip"},
    {5, "nbit"},    {6, "scaleoffset"}, {305, "lzo"},      {307, "bzip2"},
    {32000, "lzf"}, {32001, "blosc"},   {32004, "lz4"},    {32008, "bitshuffle"},
    {32013, "zfp"}, {32015, "zstd"},    {32017, "sz"},     {32026, "blosc2"},
};

/* ---- texts ---- */

const char *trm_dims_text(const int64_t *dim, int rank, int from, char *buf, size_t cap) {
    size_t at = (size_t)snprintf(buf, cap, "(");
    for (int i = from; i < rank && at < cap; i++)
        at += (size_t)snprintf(buf + at, cap - at, "%s%lld", i > from ? "," : "", (long long)dim[i]);
    if (at < cap) snprintf(buf + at, cap - at, ")");
    return buf;
}

void trm_facts_text(const trm_h5_facts *facts, trm_str *out) {
    char dims[128];
    const char *shape = facts->layout == TRM_H5_VIRTUAL ? "(virtual)"
                        : facts->rank < 0               ? "(no shape)"
                        : facts->rank == 0              ? "(scalar)"
                                           : trm_dims_text(facts->dim, facts->rank, 0, dims, sizeof dims);
    trm_str_add(out, "%s %s", facts->type_text, shape);
}

const char *trm_filter_text(const trm_h5_filter *f) {
    for (size_t i = 0; i < sizeof known_filters / sizeof *known_filters; i++)
        if (known_filters[i].id == f->id) return known_filters[i].name;
    return f->name[0] ? f->name : "unknown";
}

/* ---- finding ---- */

#define SHOWN 12

typedef struct shelf {
    trm_h5 *f;
    trm_str text;
    char *name[SHOWN + 1];
    int n, more;
} shelf;

static bool collect(void *ctx, const char *path, trm_h5_kind kind) {
    shelf *s = ctx;
    if (kind != TRM_H5_DATASET) return true;
    if (s->n == SHOWN) {
        s->more++;
        return s->more < 100;
    }
    s->name[s->n] = trm_strdup(path);
    if (!s->name[s->n]) return false;
    s->n++;
    return true;
}

/* "X_train uint8 (40,3,8,8), y_train int64 (40)" */
static void fill_shelf(shelf *s, const char *group) {
    (void)!trm_h5_list(s->f, group, 8, collect, s);
    for (int i = 0; i < s->n; i++) {
        trm_h5_facts facts;
        trm_str_add(&s->text, "%s%s ", i > 0 ? ", " : "", s->name[i]);
        if (trm_h5_facts_of(s->f, s->name[i], &facts) == TRM_OK) trm_facts_text(&facts, &s->text);
    }
    if (s->more > 0) trm_str_add(&s->text, " and %d%s more", s->more, s->more == 100 ? " or" : "");
}

static void empty_shelf(shelf *s) {
    trm_str_free(&s->text);
    for (int i = 0; i < s->n; i++) trm_free(s->name[i]);
}

/* The names that may be meant: all but the one that another column has already. */
static void other_names(const shelf *s, const char *taken, const char **list) {
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const char *at = s->name[i] + (s->name[i][0] == '/');
        if (!taken || strcmp(at, taken + (taken[0] == '/')) != 0) list[n++] = s->name[i];
    }
    list[n] = NULL;
}

static trm_status missing(trm_h5 *f, const char *key, const char *name, const char *taken) {
    shelf s = {.f = f};
    const char *other[SHOWN + 1];
    fill_shelf(&s, "/");
    other_names(&s, taken, other);
    const char *near = trm_nearest(name, other);
    trm_status r = trm_fail(TRM_DATA, "%s: no data set '%s'; %s%s%s%s", trm_h5_path(f), name,
                            near ? "did you mean '" : "", near ? near : "", near ? "'? " : "",
                            s.n > 0 ? "this file has:" : "this file has no data set");
    if (s.n > 0) r = trm_fail(TRM_DATA, "%s %s", trm_error_text(), trm_str_get(&s.text));
    if (other[0])
        trm_hint("name the data set: `data.%s: %s`", key, near ? near : other[0]);
    else if (s.n > 0)
        trm_hint(
            "a stream of tokens is its own target, and needs the tokens of one sample: `data.window: N`");
    empty_shelf(&s);
    return r;
}

static trm_status is_group(trm_h5 *f, const char *key, const char *name) {
    shelf s = {.f = f};
    fill_shelf(&s, name);
    trm_status r = trm_fail(TRM_DATA, "%s: '%s' is a group, not a data set; it contains: %s", trm_h5_path(f),
                            name, s.n > 0 ? trm_str_get(&s.text) : "no data set");
    if (s.n > 0) trm_hint("`data.%s: %s`", key, s.name[0]);
    empty_shelf(&s);
    return r;
}

static trm_status is_link(trm_h5 *f, const char *key, const trm_h5_found *found) {
    const char *path = trm_h5_path(f);
    trm_status r;
    if (found->kind == TRM_H5_SOFT) {
        r = trm_fail(TRM_DATA, "%s: '%s' is a soft link to '%s', which %s; links are not followed", path,
                     found->at, found->target, found->target_exists ? "exists" : "does not exist");
        if (found->target_exists)
            trm_hint("name its target: `data.%s: %s`; or `data.allow_links: true`", key, found->target);
    } else if (found->kind == TRM_H5_EXTERNAL) {
        r = trm_fail(TRM_DATA, "%s: '%s' is an external link to %s; links to other files are not followed",
                     path, found->at, found->target);
        trm_hint("name that file itself under `data.train`; or `data.allow_links: true`, for files in this "
                 "folder");
    } else {
        r = trm_fail(TRM_DATA, "%s: '%s' is a link of an unknown kind; it is not followed", path, found->at);
    }
    return r;
}

static trm_status judge_found(trm_h5 *f, const char *key, const char *name, const char *taken,
                              const trm_h5_found *found) {
    switch (found->kind) {
    case TRM_H5_DATASET: return TRM_OK;
    case TRM_H5_MISSING: return missing(f, key, name, taken);
    case TRM_H5_GROUP: return is_group(f, key, name);
    case TRM_H5_BROKEN:
        return trm_fail(TRM_DATA, "%s: '%s' cannot be opened: the file is damaged there", trm_h5_path(f),
                        found->at);
    case TRM_H5_TYPE:
        return trm_fail(TRM_DATA, "%s: '%s' is a committed data type, not a data set", trm_h5_path(f), name);
    default: return is_link(f, key, found);
    }
}

/* The first of the common names that is there; the first one of all where none is, for the sentence. */
const char *trm_judge_pick(trm_h5 *f, const char *const *common) {
    trm_h5_found found;
    for (const char *const *c = common; *c; c++)
        if (trm_h5_look(f, *c, &found) == TRM_OK && found.kind != TRM_H5_MISSING) return *c;
    return common[0];
}

trm_status trm_judge_look(trm_h5 *f, const char *key, const char *name, const char *taken,
                          const char *const *common, char **out) {
    trm_h5_found found;
    if (!name) name = trm_judge_pick(f, common);
    TRM_TRY(trm_h5_look(f, name, &found));
    TRM_TRY(judge_found(f, key, name, taken, &found));
    *out = trm_strdup(found.at);
    return *out ? TRM_OK : TRM_MEMORY;
}

trm_status trm_judge_find(trm_h5 *f, const char *key, const char *name, const char *taken,
                          const char *const *common, char **out, trm_h5_facts *facts) {
    char *at = NULL;
    TRM_TRY(trm_judge_look(f, key, name, taken, common, &at));
    trm_status s = trm_h5_facts_of(f, at, facts);
    if (s == TRM_OK) s = trm_judge_set(f, at, key, facts);
    if (s == TRM_OK)
        *out = at;
    else
        trm_free(at);
    return s;
}

/* ---- types and storage that no column may have ---- */

static trm_status judge_type(const char *path, const char *name, const char *key, const trm_h5_facts *x) {
    if (x->cls == TRM_H5_NUMBER) return TRM_OK;
    if (x->cls == TRM_H5_COMPLEX) {
        trm_status s = trm_fail(TRM_DATA, "%s: '%s' is complex {r,i}, real numbers expected", path, name);
        trm_hint(
            "`data.complex: channels` makes the real and the imaginary part two channels, `magnitude` one");
        return s;
    }
    bool holds = x->cls != TRM_H5_COMPOUND;
    trm_status s = trm_fail(TRM_DATA, "%s: '%s' %s %s, numbers expected", path, name,
                            holds ? "holds" : "is a", x->type_text);
    switch (x->cls) {
    case TRM_H5_STRING:
    case TRM_H5_VLEN_STRING:
        trm_hint("store class numbers from 0 instead of names under `data.%s`", key);
        break;
    case TRM_H5_VLEN:
        trm_hint("coded pictures, or sequences? `data.sample: bytes`, and `data.decode` for pictures");
        break;
    case TRM_H5_COMPOUND: trm_hint("name the member that is meant: `data.%s: %s.MEMBER`", key, name); break;
    case TRM_H5_OPAQUE:
        trm_hint(x->type_bytes == 2 ? "bfloat16 saved by Keras? `data.input_type: bfloat16`"
                                    : "store it as plain numbers");
        break;
    case TRM_H5_ARRAY: trm_hint("store the array's dimensions as dimensions of the data set"); break;
    default: trm_hint("store it as plain numbers, such as uint8 or float32"); break;
    }
    return s;
}

/* Bytes that the shape claims; false where no machine could hold them. */
static bool claimed_bytes(const trm_h5_facts *x, uint64_t *bytes) {
    *bytes = x->type_bytes;
    for (int i = 0; i < x->rank; i++)
        if (__builtin_mul_overflow(*bytes, (uint64_t)x->dim[i], bytes) || *bytes > (uint64_t)1 << 56)
            return false;
    return true;
}

static trm_status judge_shape(const char *path, const char *name, const trm_h5_facts *x) {
    char dims[128];
    uint64_t claim;
    if (x->rank < 0) return trm_fail(TRM_DATA, "%s: '%s' has no shape (a null data space)", path, name);
    if (x->rank == 0)
        return trm_fail(TRM_DATA, "%s: '%s' is a scalar; at least one dimension is needed (samples first)",
                        path, name);
    if (x->rank > TRM_STRETCH_RANK)
        return trm_fail(TRM_DATA, "%s: '%s' has %d dimensions, at most %d are read", path, name, x->rank,
                        TRM_STRETCH_RANK);
    trm_dims_text(x->dim, x->rank, 0, dims, sizeof dims);
    if (x->dim[0] == 0) return trm_fail(TRM_DATA, "%s: '%s' has 0 samples", path, name);
    for (int i = 1; i < x->rank; i++)
        if (x->dim[i] == 0)
            return trm_fail(TRM_DATA, "%s: '%s' has samples without elements: %s", path, name, dims);
    if (!claimed_bytes(x, &claim))
        return trm_fail(TRM_DATA, "%s: '%s' claims an impossible shape %s", path, name, dims);
    return TRM_OK;
}

/* Bytes in other files: the shape of a virtual data set is not even known. */
static trm_status judge_place(trm_h5 *f, const char *name, const trm_h5_facts *x) {
    const char *path = trm_h5_path(f);
    if (x->layout == TRM_H5_VIRTUAL) {
        trm_status s = trm_fail(TRM_DATA,
                                "%s: '%s' is a virtual data set over other files%s%s%s; it is refused, for a "
                                "missing source would "
                                "silently read as fill values",
                                path, name, x->source_missing ? ", of which " : "",
                                x->source_missing ? x->external : "", x->source_missing ? " is missing" : "");
        trm_hint("list its source files under `data.train`, or allow those below its folder: "
                 "`data.allow_virtual: true`");
        return s;
    }
    if (x->n_external == 0) return TRM_OK;
    if (trm_h5_allowed(f) & TRM_ALLOW_EXTERNAL) return trm_judge_external(f, name, x);
    trm_status s =
        trm_fail(TRM_DATA, "%s: '%s' keeps its bytes in another file (%s); external raw storage is refused",
                 path, name, x->external);
    trm_hint("`data.allow_external: true` reads files of the same folder and below");
    return s;
}

static trm_status judge_storage(const trm_h5 *f, const char *name, const trm_h5_facts *x) {
    const char *path = trm_h5_path(f);
    char claim_text[16], stored_text[16];
    uint64_t claim = 0;
    (void)claimed_bytes(x, &claim);
    trm_human_bytes((double)claim, claim_text, sizeof claim_text);
    trm_human_bytes((double)x->stored, stored_text, sizeof stored_text);
    if (x->stored == 0)
        return trm_fail(TRM_DATA, "%s: '%s' claims %s but stores 0 bytes (never written?)", path, name,
                        claim_text);
    if (x->n_external == 0 && x->stored > (uint64_t)trm_h5_size(f))
        return trm_fail(TRM_DATA, "%s: '%s' says that it stores %s, more than the whole file", path, name,
                        stored_text);
    if (claim > BOMB_FLOOR && claim / BOMB_RATIO > x->stored)
        return trm_fail(
            TRM_DATA,
            "%s: '%s' claims %s but stores %s: it was hardly written, or is meant to fill the memory", path,
            name, claim_text, stored_text);
    return TRM_OK;
}

static trm_status judge_filters(const trm_h5 *file, const char *name, const trm_h5_facts *x) {
    bool plugins = trm_h5_allowed(file) & TRM_ALLOW_PLUGINS;
    for (int i = 0; i < x->n_filters; i++) {
        const trm_h5_filter *f = &x->filter[i];
        if (f->available || f->id == TRM_FILTER_LZF) continue;
        trm_status s = trm_fail(TRM_DATA, "%s: '%s' needs HDF5 filter %d (%s), which is not available; %s",
                                trm_h5_path(file), name, f->id, trm_filter_text(f),
                                plugins ? "no plug-in for it was found" : "plug-ins are not loaded");
        if (plugins)
            trm_hint("HDF5 looks for plug-ins in the folders of HDF5_PLUGIN_PATH");
        else
            trm_hint("convert it where the filter is installed: h5repack -f GZIP=1 in.h5 out.h5; or "
                     "`data.allow_plugins: true`");
        return s;
    }
    return TRM_OK;
}

/* HDF5 shuffles elements of the type's size and of no other; undone by another size it gives other numbers. */
static trm_status judge_shuffle(const char *path, const char *name, const trm_h5_facts *x) {
    for (int i = 0; i < x->n_filters; i++)
        if (x->filter[i].id == TRM_FILTER_SHUFFLE && x->filter[i].param != x->type_bytes)
            return trm_fail(
                TRM_DATA,
                "%s: '%s' is damaged: its filter shuffle is for elements of %u bytes, they have %zu", path,
                name, x->filter[i].param, x->type_bytes);
    return TRM_OK;
}

trm_status trm_judge_storage(trm_h5 *f, const char *name, const trm_h5_facts *x) {
    if (x->n_external > 0)
        return trm_fail(
            TRM_DATA,
            "%s: '%s' keeps its bytes in another file (%s); external raw storage is read of plain rows only",
            trm_h5_path(f), name, x->external);
    if (x->layout == TRM_H5_VIRTUAL) return TRM_OK;
    TRM_TRY(judge_storage(f, name, x));
    return judge_filters(f, name, x);
}

trm_status trm_judge_set(trm_h5 *f, const char *name, const char *key, const trm_h5_facts *x) {
    const char *path = trm_h5_path(f);
    TRM_TRY(judge_place(f, name, x));
    TRM_TRY(judge_type(path, name, key, x));
    TRM_TRY(judge_shape(path, name, x));
    TRM_TRY(judge_storage(f, name, x));
    TRM_TRY(judge_filters(f, name, x));
    return judge_shuffle(path, name, x);
}
