/* safetensors: what we lay out reads back; a hostile header is refused before it costs anything. */
#include "safetensors.h"

#include <string.h>

#include "support.h"

/* A file of a header and `data` bytes of zeros behind it. */
static const char *file_of(const char *header, size_t data) {
    const char *path = support_path("x.safetensors");
    size_t h = strlen(header), n = 8 + h + data;
    char *bytes = trm_alloc(n, "a test");
    for (int i = 0; i < 8; i++) bytes[i] = (char)(h >> (8 * i) & 0xFF);
    memcpy(bytes + 8, header, h);
    assert_ok(trm_write_file(path, bytes, n));
    trm_free(bytes);
    return path;
}

static void refused(const char *header, size_t data, const char *why) {
    trm_st_file *f = NULL;
    assert_fault(trm_st_open(file_of(header, data), &f), TRM_DATA, why);
    assert_null(f);
}

static void reads_back(void **state) {
    (void)state;
    const char *const name[] = {"a.weight", "b", "scalar"};
    const trm_shape shape[] = {trm_shape_of(2, 2, 3), trm_shape_of(1, 4), trm_shape_of(0)};
    trm_st_image image;
    trm_st_file *f = NULL;
    float got[6];
    assert_ok(trm_st_layout(3, name, shape, &image));
    for (int t = 0, v = 0; t < 3; t++)
        for (int64_t i = 0; i < trm_shape_count(&shape[t]); i++) image.at[t][i] = (float)v++;
    assert_int_equal((image.n - 11 * sizeof(float)) % TRM_ALIGN, 0);
    const char *path = support_path("back.safetensors");
    assert_ok(trm_write_file(path, image.bytes, image.n));
    assert_ok(trm_st_open(path, &f));
    assert_int_equal(f->tensors, 3);
    for (int t = 0, v = 0; t < 3; t++) {
        const trm_st_tensor *x = trm_st_find(f, name[t]);
        assert_non_null(x);
        assert_true(trm_shape_equal(&x->shape, &shape[t]));
        assert_ok(trm_st_read(f, x, got));
        for (int64_t i = 0; i < trm_shape_count(&shape[t]); i++) assert_true(got[i] == (float)v++);
    }
    assert_null(trm_st_find(f, "c"));
    trm_st_close(f);
    trm_st_image_free(&image);
}

static void converts(void **state) {
    (void)state;
    const char *header = "{\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
                         "\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[8,12]},"
                         "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[12,16]}}";
    const char *path = file_of(header, 16);
    FILE *file = fopen(path, "r+b");
    double d = -2.5;
    unsigned char half[] = {0x00, 0x3C, 0x00, 0xC0, 0x80, 0x3F, 0x00, 0xC0}; /* 1, -2; 1, -2 */
    float got[2];
    trm_st_file *f = NULL;
    fseek(file, (long)(8 + strlen(header)), SEEK_SET);
    fwrite(&d, 8, 1, file);
    fwrite(half, 1, sizeof half, file);
    fclose(file);
    assert_ok(trm_st_open(path, &f));
    assert_ok(trm_st_read(f, trm_st_find(f, "d"), got));
    assert_true(got[0] == -2.5f);
    for (int i = 0; i < 2; i++) {
        assert_ok(trm_st_read(f, trm_st_find(f, i ? "h" : "b"), got));
        assert_true(got[0] == 1.0f && got[1] == -2.0f);
    }
    trm_st_close(f);
}

static void foreign_types_do_not_block_the_rest(void **state) {
    (void)state;
    const char *path = file_of("{\"mask\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]},"
                               "\"none\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[3,3]},"
                               "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[3,7]}}",
                               7);
    trm_st_file *f = NULL;
    float got[1] = {1};
    assert_ok(trm_st_open(path, &f));
    assert_ok(trm_st_read(f, trm_st_find(f, "w"), got));
    assert_true(got[0] == 0);
    assert_fault(trm_st_read(f, trm_st_find(f, "mask"), got), TRM_DATA, "type");
    assert_fault(trm_st_read(f, trm_st_find(f, "none"), got), TRM_DATA, "shape");
    trm_st_close(f);
}

static void bad_lengths(void **state) {
    (void)state;
    trm_st_file *f = NULL;
    const char *path = support_file("short", "abc");
    assert_fault(trm_st_open(path, &f), TRM_DATA, "too short");
    const unsigned char lengths[][8] = {{0},
                                        {1},
                                        {3},
                                        {0xFF, 0xFF, 0xFF, 0xFF},
                                        {0, 0, 0, 0, 0, 0, 0, 0x80},
                                        {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}};
    for (size_t i = 0; i < SUPPORT_COUNT(lengths); i++) {
        char bytes[10];
        memcpy(bytes, lengths[i], 8);
        memcpy(bytes + 8, "{}", 2);
        assert_ok(trm_write_file(path, bytes, sizeof bytes));
        uint64_t before = trm_mem_count().peak_bytes;
        assert_fault(trm_st_open(path, &f), TRM_DATA, "claims a header");
        assert_true(trm_mem_count().peak_bytes < before + 4096);
    }
    assert_fault(trm_st_open(support_dir(), &f), TRM_IO, "regular");
}

static void hostile_headers(void **state) {
    (void)state;
    refused("[]", 0, "not a JSON object");
    refused("{\"a\":", 0, "not JSON");
    refused("{\"a\":1}", 0, "no dtype");
    refused("{\"a\":{\"dtype\":\"F32\"}}", 0, "no shape");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no data_offsets");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "impossible shape");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "impossible shape");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
            "impossible");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
            "does not fit");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "does not fit");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "outside");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "outside");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,9223372036854775807]}}", 4,
            "outside");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "gap");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, "end at byte 4");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
            4, "overlaps");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
            "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
            4, "not JSON");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_back),      cmocka_unit_test(converts),
        cmocka_unit_test(bad_lengths),     cmocka_unit_test(foreign_types_do_not_block_the_rest),
        cmocka_unit_test(hostile_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
