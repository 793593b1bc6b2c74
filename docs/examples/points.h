/* points: rows of numbers in an HDF5 file, for kmeans.c: one data set "x" [rows, columns], of any kind of number.  Each
 * rank opens the file by itself, to read, with the serial HDF5 library. */
#ifndef TRIREME_EXAMPLE_POINTS_H
#define TRIREME_EXAMPLE_POINTS_H

#include <hdf5.h>
#include <trireme/base.h>

#define MADE_COLUMNS 16

typedef struct open_set {
    hid_t file, set, space;
} open_set;

static inline open_set open_file(const char *name) {
    open_set o = {.file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT)};
    o.set = H5Dopen2(o.file, "x", H5P_DEFAULT);
    o.space = H5Dget_space(o.set);
    return o;
}

/* Closes what is open, and says what was wrong. */
static inline trm_status close_file(open_set o, const char *name, bool good) {
    H5Sclose(o.space);
    H5Dclose(o.set);
    H5Fclose(o.file);
    return good ? TRM_OK
                : trm_fail(TRM_DATA, "'%s' has no data set 'x' of rows and columns that can be read", name);
}

static inline trm_status read_size(const char *name, int64_t *rows, int64_t *columns) {
    hsize_t size[2] = {0};
    open_set o = open_file(name);
    bool good =
        H5Sget_simple_extent_ndims(o.space) == 2 && H5Sget_simple_extent_dims(o.space, size, NULL) == 2;
    *rows = (int64_t)size[0];
    *columns = (int64_t)size[1];
    return close_file(o, name, good && *rows > 0 && *columns > 0);
}

static inline trm_status read_rows(const char *name, int64_t begin, int64_t count, int64_t columns,
                                   double *x) {
    hsize_t start[2] = {(hsize_t)begin, 0}, size[2] = {(hsize_t)count, (hsize_t)columns};
    if (count == 0) return TRM_OK;
    open_set o = open_file(name);
    hid_t room = H5Screate_simple(2, size, NULL);
    bool good = H5Sselect_hyperslab(o.space, H5S_SELECT_SET, start, NULL, size, NULL) >= 0 &&
                H5Dread(o.set, H5T_NATIVE_DOUBLE, room, o.space, H5P_DEFAULT, x) >= 0;
    H5Sclose(room);
    return close_file(o, name, good);
}

/* Sixteen clouds that touch each other, the same at every call. */
static inline trm_status make_file(const char *name, int64_t rows) {
    hsize_t size[2] = {(hsize_t)rows, MADE_COLUMNS};
    double *x = trm_alloc_array((size_t)rows, MADE_COLUMNS * sizeof *x, "points");
    if (!x) return TRM_MEMORY;
    for (int64_t i = 0; i < rows; i++) {
        trm_rng_key noise = {.seed = 1, .purpose = TRM_RNG_SYNTH, .sample = (uint64_t)i},
                    cloud = {.seed = 2, .sample = (uint64_t)i % 16};
        for (uint64_t j = 0; j < MADE_COLUMNS; j++)
            x[i * MADE_COLUMNS + (int64_t)j] = trm_rng_normal(&noise, j) + 3 * trm_rng_uniform(&cloud, j);
    }
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
          space = H5Screate_simple(2, size, NULL);
    hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    bool good = H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0;
    H5Dclose(set);
    H5Sclose(space);
    good = H5Fclose(file) >= 0 && good;
    trm_free(x);
    return good ? TRM_OK : trm_fail(TRM_IO, "cannot write '%s'", name);
}

#endif
