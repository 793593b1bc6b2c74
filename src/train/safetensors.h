/* safetensors: the file format of weights that other programs read: 8 bytes of length (little
 * endian), a JSON header, then the data.  https://github.com/huggingface/safetensors */
#ifndef TRIREME_TRAIN_SAFETENSORS_H
#define TRIREME_TRAIN_SAFETENSORS_H

#include <trireme/tensor.h>

typedef struct trm_st_tensor {
    char *name;
    trm_dtype type;                 /* TRM_DTYPE_COUNT where the type is none of ours */
    trm_shape shape;
    bool fits;                      /* the shape is one of ours: rank <= TRM_MAX_DIMS, no dim of 0 */
    int64_t begin, end;             /* bytes within the data */
} trm_st_tensor;

typedef struct trm_st_file {
    int fd;
    char *path;
    int64_t data_at;                /* where the data begins in the file */
    trm_st_tensor *tensor;
    int tensors;
} trm_st_file;

/* Reads and checks the header: lengths, types, shapes, and that the tensors cover the data without gap or overlap. */
trm_status trm_st_open(const char *path, trm_st_file **out);
void trm_st_close(trm_st_file *f);
const trm_st_tensor *trm_st_find(const trm_st_file *f, const char *name);
/* Converts to float32: trm_shape_count(shape) values. */
trm_status trm_st_read(const trm_st_file *f, const trm_st_tensor *t, float *out);

/* A file to be written, as one block: header in place, `at[i]` = where tensor i's float32 values go. */
typedef struct trm_st_image {
    char *bytes;                    /* trm_free */
    size_t n;
    float **at;                     /* trm_free */
} trm_st_image;
trm_status trm_st_layout(int tensors, const char *const *name, const trm_shape *shape, trm_st_image *out);
void trm_st_image_free(trm_st_image *i);

#endif
