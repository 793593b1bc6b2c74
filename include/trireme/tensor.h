/* tensor: element types and shapes.  No device calls.
 *
 * Canonical order is PyTorch's: images (C,H,W), volumes (C,D,H,W), sequences (T,C), convolution weights
 * (O,I/groups,KH,KW), linear weights (out,in).  Images and volumes lie in memory with their channels last.
 */
#ifndef TRIREME_TENSOR_H
#define TRIREME_TENSOR_H

#include <trireme/base.h>

#define TRM_DTYPE_LIST(X)                                                                   \
    X(U8, "uint8", 1) X(I8, "int8", 1) X(U16, "uint16", 2) X(I16, "int16", 2)               \
    X(U32, "uint32", 4) X(I32, "int32", 4) X(U64, "uint64", 8) X(I64, "int64", 8)           \
    X(F16, "float16", 2) X(BF16, "bfloat16", 2) X(F32, "float32", 4) X(F64, "float64", 8)

typedef enum trm_dtype {
#define X(name, text, size) TRM_##name,
    TRM_DTYPE_LIST(X)
#undef X
    TRM_DTYPE_COUNT
} trm_dtype;
TRM_API const char *trm_dtype_name(trm_dtype t);
TRM_API size_t trm_dtype_size(trm_dtype t);
TRM_API bool trm_dtype_is_float(trm_dtype t);
/* Converts n elements of `type` (host byte order, any alignment) to double / float / int64.
 * To int64: truncates, saturates at the ends of the range, NaN becomes 0. */
TRM_API void trm_convert_f64(const void *src, trm_dtype type, int64_t n, double *dst);
TRM_API void trm_convert_f32(const void *src, trm_dtype type, int64_t n, float *dst);
TRM_API void trm_convert_i64(const void *src, trm_dtype type, int64_t n, int64_t *dst);

#define TRM_MAX_DIMS 5
#define TRM_MAX_AXES 3              /* depth, height, width: dimensions of a sample beside its channels */
/* A per-sample shape; rank 0 is a scalar (1 element). */
typedef struct trm_shape {
    int rank;
    int64_t dim[TRM_MAX_DIMS];
} trm_shape;
TRM_API trm_shape trm_shape_from(int rank, const int64_t *dims);
/* trm_shape_of(3, c, h, w): any integer type will do, each is converted to int64_t. */
#define trm_shape_of(rank_, ...) trm_shape_from(rank_, (const int64_t[TRM_MAX_DIMS + 1]){__VA_ARGS__})
TRM_API int64_t trm_shape_count(const trm_shape *s);    /* product of dims */
/* false where a dim is < 1 or the product passes 2^48. */
TRM_API bool trm_shape_valid(const trm_shape *s);
TRM_API bool trm_shape_equal(const trm_shape *a, const trm_shape *b);
/* Three dimensions or more: the first one is channels, and they lie last in memory. */
static inline bool trm_shape_channels_first(const trm_shape *s) { return s->rank >= 3; }
/* The dimension of channels: the first of an image or volume, else the last. */
static inline int trm_shape_channel_dim(const trm_shape *s) { return trm_shape_channels_first(s) ? 0 : s->rank - 1; }
static inline int64_t trm_shape_channels(const trm_shape *s) { return s->rank ? s->dim[trm_shape_channel_dim(s)] : 1; }
/* "(3,32,32)"; buf of >= 80 bytes; returns buf. */
TRM_API const char *trm_shape_text(const trm_shape *s, char *buf, size_t cap);

#endif
