/* safetensors: reading and laying out.  A file comes from anywhere: every number of the header is
 * checked against the size of the file before anything is allocated by it. */
#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_LIMIT ((int64_t)32 << 20)

static const struct {
    const char *name;
    trm_dtype type;
} types[] = {{"F32", TRM_F32}, {"F16", TRM_F16}, {"BF16", TRM_BF16}, {"F64", TRM_F64}, {"I64", TRM_I64},
             {"I32", TRM_I32}, {"I16", TRM_I16}, {"I8", TRM_I8},     {"U8", TRM_U8}};

static trm_dtype type_of(const char *name) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) return types[i].type;
    return TRM_DTYPE_COUNT;
}

static trm_status read_at(const trm_st_file *f, void *to, int64_t n, int64_t at) {
    char *p = to;
    while (n > 0) {
        ssize_t got = pread(f->fd, p, (size_t)trm_min64(n, 1 << 30), at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return trm_fail(TRM_IO, "cannot read %s at byte %lld", f->path, (long long)at);
        p += got;
        at += got;
        n -= got;
    }
    return TRM_OK;
}

/* ---- the header ---- */

static trm_status bad(const trm_st_file *f, const char *tensor, const char *why) {
    return trm_fail(TRM_DATA, "%s: tensor '%.96s' %s", f->path, tensor, why);
}

/* *bytes: what shape and type ask for; -1 where the product is too large to be true. */
static trm_status parse_shape(const trm_st_file *f, trm_st_tensor *t, json_t *shape, int64_t *elements) {
    if (!json_is_array(shape) || json_array_size(shape) > 64) return bad(f, t->name, "has no shape");
    t->fits = json_array_size(shape) <= TRM_MAX_DIMS;
    t->shape.rank = t->fits ? (int)json_array_size(shape) : 0;
    *elements = 1;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        json_t *dim = json_array_get(shape, i);
        int64_t d = json_is_integer(dim) ? (int64_t)json_integer_value(dim) : -1;
        if (d < 0 || __builtin_mul_overflow(*elements, d, elements))
            return bad(f, t->name, "has an impossible shape");
        if (d == 0) t->fits = false;
        if (i < TRM_MAX_DIMS) t->shape.dim[i] = d;
    }
    return TRM_OK;
}

static trm_status parse_offsets(const trm_st_file *f, trm_st_tensor *t, json_t *offsets, int64_t data_bytes) {
    json_t *a = json_array_get(offsets, 0), *b = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(a) || !json_is_integer(b))
        return bad(f, t->name, "has no data_offsets");
    t->begin = (int64_t)json_integer_value(a);
    t->end = (int64_t)json_integer_value(b);
    if (t->begin < 0 || t->end < t->begin || t->end > data_bytes)
        return bad(f, t->name, "has data_offsets outside the file");
    return TRM_OK;
}

static trm_status parse_tensor(const trm_st_file *f, const char *name, json_t *j, int64_t data_bytes,
                               trm_st_tensor *t) {
    const char *type = json_string_value(json_object_get(j, "dtype"));
    int64_t elements = 0, bytes = 0;
    t->name = trm_strdup(name);
    if (!t->name) return TRM_MEMORY;
    if (!type) return bad(f, name, "has no dtype");
    t->type = type_of(type);
    TRM_TRY(parse_shape(f, t, json_object_get(j, "shape"), &elements));
    TRM_TRY(parse_offsets(f, t, json_object_get(j, "data_offsets"), data_bytes));
    if (t->type == TRM_DTYPE_COUNT) return TRM_OK;
    if (__builtin_mul_overflow(elements, (int64_t)trm_dtype_size(t->type), &bytes) ||
        bytes != t->end - t->begin)
        return bad(f, name, "has a shape that does not fit its data_offsets");
    return TRM_OK;
}

static int by_begin(const void *a, const void *b) {
    const trm_st_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* The tensors, sorted, must follow each other from 0 to the end: no gap hides anything, none
 * overlaps another. */
static trm_status check_tiling(const trm_st_file *f, int64_t data_bytes) {
    int64_t at = 0;
    for (int i = 0; i < f->tensors; i++) {
        if (f->tensor[i].begin != at)
            return bad(f, f->tensor[i].name, "leaves a gap or overlaps its neighbour");
        at = f->tensor[i].end;
    }
    if (at != data_bytes)
        return trm_fail(TRM_DATA, "%s: the tensors end at byte %lld of the data, the file at %lld", f->path,
                        (long long)at, (long long)data_bytes);
    return TRM_OK;
}

static trm_status parse_header(trm_st_file *f, json_t *header, int64_t data_bytes) {
    const char *name;
    json_t *j;
    if (!json_is_object(header)) return trm_fail(TRM_DATA, "%s: the header is not a JSON object", f->path);
    f->tensor = trm_alloc_array(json_object_size(header) + 1, sizeof *f->tensor, "a list of tensors");
    if (!f->tensor) return TRM_MEMORY;
    json_object_foreach(header, name, j) {
        if (strcmp(name, "__metadata__") == 0) continue;
        TRM_TRY(parse_tensor(f, name, j, data_bytes, &f->tensor[f->tensors++]));
    }
    qsort(f->tensor, (size_t)f->tensors, sizeof *f->tensor, by_begin);
    return check_tiling(f, data_bytes);
}

static trm_status read_header(trm_st_file *f, int64_t file_bytes) {
    unsigned char length[8];
    uint64_t n = 0;
    if (file_bytes < 8) return trm_fail(TRM_DATA, "%s is too short to be a safetensors file", f->path);
    TRM_TRY(read_at(f, length, 8, 0));
    for (int i = 7; i >= 0; i--) n = n << 8 | length[i];
    if (n < 2 || n > (uint64_t)trm_min64(HEADER_LIMIT, file_bytes - 8))
        return trm_fail(TRM_DATA,
                        "%s is not a safetensors file: it claims a header of %llu bytes (the file has %lld)",
                        f->path, (unsigned long long)n, (long long)file_bytes);
    char *text = trm_alloc((size_t)n, "a safetensors header");
    if (!text) return TRM_MEMORY;
    json_error_t error;
    json_t *header = NULL;
    trm_status status = read_at(f, text, (int64_t)n, 8);
    if (status == TRM_OK) header = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &error);
    if (status == TRM_OK && !header)
        status = trm_fail(TRM_DATA, "%s: the safetensors header is not JSON: %s", f->path, error.text);
    f->data_at = 8 + (int64_t)n;
    if (status == TRM_OK) status = parse_header(f, header, file_bytes - f->data_at);
    json_decref(header);
    trm_free(text);
    return status;
}

static trm_status open_file(trm_st_file *f, const char *path) {
    struct stat st;
    f->fd = -1;
    f->path = trm_strdup(path);
    if (!f->path) return TRM_MEMORY;
    /* Without O_NONBLOCK a pipe would hold us here for ever. */
    f->fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (f->fd < 0 || fstat(f->fd, &st) != 0)
        return trm_fail(TRM_IO, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return trm_fail(TRM_IO, "cannot read %s: it is not a regular file", path);
    return read_header(f, (int64_t)st.st_size);
}

trm_status trm_st_open(const char *path, trm_st_file **out) {
    trm_st_file *f = trm_alloc(sizeof *f, "a safetensors file");
    if (!f) return TRM_MEMORY;
    trm_status status = open_file(f, path);
    if (status == TRM_OK)
        *out = f;
    else
        trm_st_close(f);
    return status;
}

void trm_st_close(trm_st_file *f) {
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    for (int i = 0; i < f->tensors; i++) trm_free(f->tensor[i].name);
    trm_free(f->tensor);
    trm_free(f->path);
    trm_free(f);
}

const trm_st_tensor *trm_st_find(const trm_st_file *f, const char *name) {
    for (int i = 0; i < f->tensors; i++)
        if (strcmp(f->tensor[i].name, name) == 0) return &f->tensor[i];
    return NULL;
}

trm_status trm_st_read(const trm_st_file *f, const trm_st_tensor *t, float *out) {
    if (t->type == TRM_DTYPE_COUNT) return bad(f, t->name, "has a type that cannot be read here");
    if (!t->fits) return bad(f, t->name, "has a shape that cannot be read here");
    int64_t bytes = t->end - t->begin;
    if (t->type == TRM_F32) return read_at(f, out, bytes, f->data_at + t->begin);
    void *raw = trm_alloc((size_t)bytes, "a tensor of another type");
    if (!raw) return TRM_MEMORY;
    trm_status status = read_at(f, raw, bytes, f->data_at + t->begin);
    if (status == TRM_OK) trm_convert_f32(raw, t->type, trm_shape_count(&t->shape), out);
    trm_free(raw);
    return status;
}

/* ---- laying out ---- */

static json_t *tensor_json(const trm_shape *shape, int64_t begin, int64_t end) {
    json_t *dims = json_array();
    for (int i = 0; i < shape->rank; i++) json_array_append_new(dims, json_integer(shape->dim[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", dims, "data_offsets", (json_int_t)begin,
                     (json_int_t)end);
}

static int add_text(const char *bytes, size_t n, void *text) {
    trm_str_addn(text, bytes, n);
    return 0;
}

/* The header as text, padded with blanks so that the data is aligned to 64 bytes. */
static trm_status header_text(int tensors, const char *const *name, const trm_shape *shape, trm_str *text) {
    json_t *header = json_pack("{s:{s:s, s:s}}", "__metadata__", "format", "pt", "writer", "trireme");
    int64_t at = 0;
    bool good = header != NULL;
    for (int i = 0; i < tensors && good; i++) {
        int64_t end = at + trm_shape_count(&shape[i]) * (int64_t)sizeof(float);
        good = json_object_set_new(header, name[i], tensor_json(&shape[i], at, end)) == 0;
        at = end;
    }
    good = good && json_dump_callback(header, add_text, text, JSON_COMPACT) == 0;
    json_decref(header);
    if (!good) return trm_fail(TRM_MEMORY, "cannot build a safetensors header");
    while ((8 + text->len) % TRM_ALIGN != 0 && !text->failed) trm_str_addn(text, " ", 1);
    return text->failed ? TRM_MEMORY : TRM_OK;
}

trm_status trm_st_layout(int tensors, const char *const *name, const trm_shape *shape, trm_st_image *out) {
    trm_str text = {0};
    trm_st_image image = {0};
    trm_status status = TRM_OK;
    size_t data = 0;
    TRM_GOTO(header_text(tensors, name, shape, &text));
    for (int i = 0; i < tensors; i++) data += (size_t)trm_shape_count(&shape[i]) * sizeof(float);
    image.n = 8 + text.len + data;
    image.bytes = trm_alloc(image.n, "a safetensors file");
    image.at = trm_alloc_array((size_t)tensors + 1, sizeof *image.at, "a safetensors file");
    if (!image.bytes || !image.at) TRM_GOTO(TRM_MEMORY);
    for (int i = 0; i < 8; i++) image.bytes[i] = (char)((uint64_t)text.len >> (8 * i) & 0xFF);
    memcpy(image.bytes + 8, text.p, text.len);
    float *at = (float *)(void *)(image.bytes + 8 + text.len);
    for (int i = 0; i < tensors; i++) {
        image.at[i] = at;
        at += trm_shape_count(&shape[i]);
    }
out:
    trm_str_free(&text);
    if (status == TRM_OK)
        *out = image;
    else
        trm_st_image_free(&image);
    return status;
}

void trm_st_image_free(trm_st_image *i) {
    trm_free(i->bytes);
    trm_free(i->at);
    *i = (trm_st_image){0};
}
