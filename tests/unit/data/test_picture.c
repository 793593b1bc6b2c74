/* Pictures: both formats, their channels, faults and scaling. */
#include "data_impl.h"
#include "data_support.h"
#include <math.h>
#include <png.h>
#include <turbojpeg.h>

enum { H = 24, W = 36 };

typedef struct bytes {
    unsigned char *p;
    size_t n;
} bytes;

/* A smooth pattern, so that JPEG loses little. */
static void paint(unsigned char *p, int c) {
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int k = 0; k < c; k++) p[(y * W + x) * c + k] = (unsigned char)(4 * y + 3 * x + 20 * k);
}

/* Through libpng's own simple interface: another way in than the one that is tested. */
static bytes make_png(png_uint_32 format, const void *pixels) {
    bytes b = {malloc(1 << 16), 1 << 16};
    png_image image = {.version = PNG_IMAGE_VERSION, .width = W, .height = H, .format = format};
    png_alloc_size_t n = b.n;
    assert_true(png_image_write_to_memory(&image, b.p, &n, 0, pixels, 0, NULL));
    b.n = n;
    return b;
}

static bytes make_jpeg(int c, const unsigned char *pixels) {
    tjhandle h = tjInitCompress();
    unsigned char *to = NULL;
    unsigned long n = 0;
    assert_int_equal(tjCompress2(h, pixels, W, 0, H, c == 1 ? TJPF_GRAY : TJPF_RGB, &to, &n,
                                 c == 1 ? TJSAMP_GRAY : TJSAMP_444, 98, 0),
                     0);
    bytes b = {malloc(n), n};
    memcpy(b.p, to, n);
    tjFree(to);
    tjDestroy(h);
    return b;
}

static void png_is_exact(void **state) {
    (void)state;
    unsigned char want[H * W * 4];
    trm_picture p = {0};
    for (int c = 1; c <= 3; c += 2) {
        paint(want, c);
        bytes b = make_png(c == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB, want);
        assert_ok(trm_picture_look(b.p, b.n, &p));
        assert_int_equal(p.h, H);
        assert_int_equal(p.w, W);
        assert_int_equal(p.c, c);
        assert_ok(trm_picture_decode(b.p, b.n, 0, &p));
        assert_int_equal(p.c, c);
        assert_memory_equal(p.bytes, want, (size_t)(H * W * c));
        free(b.p);
    }
    /* Alpha is left out, whatever it says. */
    unsigned char rgb[H * W * 3];
    paint(rgb, 3);
    for (int i = 0; i < H * W; i++) {
        memcpy(want + 4 * i, rgb + 3 * i, 3);
        want[4 * i + 3] = (unsigned char)(i % 255);
    }
    bytes b = make_png(PNG_FORMAT_RGBA, want);
    assert_ok(trm_picture_decode(b.p, b.n, 0, &p));
    assert_int_equal(p.c, 3);
    assert_memory_equal(p.bytes, rgb, sizeof rgb);
    free(b.p);
    trm_picture_free(&p);
}

static void palettes_are_colours(void **state) {
    (void)state;
    unsigned char index[H * W], map[3 * 4] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 8, 7};
    trm_picture p = {0};
    for (int i = 0; i < H * W; i++) index[i] = (unsigned char)(i * 7 % 4);
    bytes b = {malloc(1 << 16), 0};
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = W,
                       .height = H,
                       .format = PNG_FORMAT_RGB_COLORMAP,
                       .colormap_entries = 4};
    png_alloc_size_t n = 1 << 16;
    assert_true(png_image_write_to_memory(&image, b.p, &n, 0, index, 0, map));
    assert_ok(trm_picture_decode(b.p, n, 0, &p));
    assert_int_equal(p.c, 3);
    for (int i = 0; i < H * W; i++) assert_memory_equal(p.bytes + 3 * i, map + 3 * index[i], 3);
    free(b.p);
    trm_picture_free(&p);
}

static void jpeg_is_near(void **state) {
    (void)state;
    unsigned char want[H * W * 3];
    trm_picture p = {0};
    for (int c = 1; c <= 3; c += 2) {
        paint(want, c);
        bytes b = make_jpeg(c, want);
        assert_ok(trm_picture_look(b.p, b.n, &p));
        assert_int_equal(p.c, c);
        assert_ok(trm_picture_decode(b.p, b.n, 0, &p));
        assert_true(p.h == H && p.w == W && p.c == c);
        for (int i = 0; i < H * W * c; i++) assert_in_range(abs(p.bytes[i] - want[i]), 0, 6);
        free(b.p);
    }
    trm_picture_free(&p);
}

static void channels_are_made(void **state) {
    (void)state;
    unsigned char grey[H * W], rgb[H * W * 3];
    trm_picture p = {0};
    paint(grey, 1);
    paint(rgb, 3);
    bytes a = make_png(PNG_FORMAT_GRAY, grey), b = make_png(PNG_FORMAT_RGB, rgb);
    assert_ok(trm_picture_decode(a.p, a.n, 3, &p));
    assert_int_equal(p.c, 3);
    for (int i = 0; i < H * W * 3; i++) assert_int_equal(p.bytes[i], grey[i / 3]);
    assert_ok(trm_picture_decode(b.p, b.n, 1, &p));
    assert_int_equal(p.c, 1);
    for (int i = 0; i < H * W; i++) {
        double y = 0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2];
        assert_in_range(abs(p.bytes[i] - (int)(y + 0.5)), 0, 1);
    }
    free(a.p);
    free(b.p);
    trm_picture_free(&p);
}

static trm_status decode_text(const char *text, size_t n) {
    trm_picture p = {0};
    trm_status s = trm_picture_decode(text, n, 0, &p);
    trm_picture_free(&p);
    return s;
}

static void faults_are_told(void **state) {
    (void)state;
    unsigned char rgb[H * W * 3], wide[H * W * 8];
    paint(rgb, 3);
    bytes png = make_png(PNG_FORMAT_RGB, rgb), jpeg = make_jpeg(3, rgb);
    uint64_t live = trm_mem_count().live_bytes;
#define IS(b, n, says) assert_fault(decode_text((const char *)(b), n), TRM_DATA, says)
    IS("", 0, "an empty file; allowed are PNG and JPEG");
    IS("GIF89a....", 10, "a GIF picture");
    IS("BM........", 10, "a BMP picture");
    IS("RIFF....WEBPVP8 ", 16, "a WebP picture");
    IS("II*\0........", 12, "a TIFF picture");
    IS("hello", 5, "starts with bytes 68 65");
    IS("h", 1, "starts with bytes 68 00");
    /* Cut anywhere, neither is taken for whole. */
    for (size_t n = 8; n + 1 < png.n; n += 7) IS(png.p, n, "a damaged PNG picture: ");
    for (size_t n = 4; n + 2 < jpeg.n; n += 7) IS(jpeg.p, n, "a damaged JPEG picture: ");
    png.p[png.n / 2] ^= 0x55;
    IS(png.p, png.n, "a damaged PNG picture: ");
    /* 16 bits a value */
    memset(wide, 7, sizeof wide);
    bytes deep = make_png(PNG_FORMAT_LINEAR_Y, wide);
    IS(deep.p, deep.n, "16 bits a value; allowed are up to 8");
    /* A size that these few bytes cannot hold: width and its checksum are written over. */
    bytes claim = make_png(PNG_FORMAT_RGB, rgb);
    memcpy(claim.p + 16, (const unsigned char[]){0, 1, 0, 0, 0, 1, 0, 0}, 8);
    unsigned long crc = 0xFFFFFFFFu;
    for (int i = 12; i < 29; i++) {
        crc ^= claim.p[i];
        for (int k = 0; k < 8; k++) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    }
    crc ^= 0xFFFFFFFFu;
    for (int i = 0; i < 4; i++) claim.p[29 + i] = (unsigned char)(crc >> (24 - 8 * i));
    IS(claim.p, claim.n, "claims 65536 x 65536 pixels in");
    assert_int_equal(trm_mem_count().live_bytes, live);
    free(png.p);
    free(jpeg.p);
    free(deep.p);
    free(claim.p);
}

/* The same by the slow formula: every new pixel is the mean of all old ones under its triangle. */
static double slow(const trm_picture *p, double y0, double x0, double step, int64_t y, int64_t x, int k) {
    double wide = step > 1 ? step : 1, cy = y0 + ((double)y + 0.5) * step, cx = x0 + ((double)x + 0.5) * step;
    double sum = 0, weights = 0;
    for (int64_t i = 0; i < p->h; i++)
        for (int64_t j = 0; j < p->w; j++) {
            double dy = 1 - fabs((double)i + 0.5 - cy) / wide, dx = 1 - fabs((double)j + 0.5 - cx) / wide;
            if (dy <= 0 || dx <= 0) continue;
            sum += dy * dx * p->bytes[(i * p->w + j) * p->c + k];
            weights += dy * dx;
        }
    return sum / weights;
}

static void fits(void **state) {
    (void)state;
    static const struct {
        int64_t h, w;
        double y0, x0, step;
    } cases[] = {
        {12, 18, 0, 0, 2},   {24, 24, 0, 6, 1}, {8, 8, 0, 6, 3},
        {48, 72, 0, 0, 0.5}, {10, 36, 7, 0, 1}, {7, 5, 0, 9.428571428571429, 24.0 / 7},
    };
    trm_picture p = {0}, q = {0};
    for (int c = 1; c <= 3; c += 2) {
        unsigned char pixels[H * W * 3];
        for (int i = 0; i < H * W * c; i++) pixels[i] = (unsigned char)(i * 37 % 251);
        bytes b = make_png(c == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB, pixels);
        assert_ok(trm_picture_decode(b.p, b.n, 0, &p));
        for (size_t i = 0; i < SUPPORT_COUNT(cases); i++) {
            assert_ok(trm_picture_fit(&p, cases[i].h, cases[i].w, &q));
            assert_true(q.h == cases[i].h && q.w == cases[i].w && q.c == c);
            for (int64_t y = 0; y < q.h; y++)
                for (int64_t x = 0; x < q.w; x++)
                    for (int k = 0; k < c; k++) {
                        double want = slow(&p, cases[i].y0, cases[i].x0, cases[i].step, y, x, k);
                        assert_bound(fabs(q.bytes[(y * q.w + x) * c + k] - want), 0.51);
                    }
        }
        free(b.p);
    }
    unsigned char planes[H * W * 3];
    trm_picture_planes(&p, planes);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < H * W; i++) assert_int_equal(planes[k * H * W + i], p.bytes[3 * i + k]);
    trm_picture_free(&p);
    trm_picture_free(&q);
}

/* What was wrong with one picture is forgotten with the next. */
static void a_good_one_follows_a_bad_one(void **state) {
    (void)state;
    unsigned char rgb[H * W * 3];
    trm_picture p = {0};
    paint(rgb, 3);
    bytes png = make_png(PNG_FORMAT_RGB, rgb), jpeg = make_jpeg(3, rgb);
    for (size_t n = 4; n < jpeg.n - 2; n += 5) {
        assert_int_equal(trm_picture_decode(jpeg.p, n, 0, &p), TRM_DATA);
        assert_int_equal(trm_picture_look(png.p, 20, &p), TRM_DATA);
        assert_ok(trm_picture_decode(jpeg.p, jpeg.n, 0, &p));
        assert_true(p.h == H && p.w == W && p.c == 3);
        for (int i = 0; i < H * W * 3; i++) assert_in_range(abs(p.bytes[i] - rgb[i]), 0, 6);
    }
    trm_picture_free(&p);
    free(png.p);
    free(jpeg.p);
}

static void memory_may_fail(void **state) {
    (void)state;
    unsigned char rgb[H * W * 3];
    paint(rgb, 3);
    bytes b = make_png(PNG_FORMAT_RGB, rgb);
    uint64_t live = trm_mem_count().live_bytes;
    for (uint64_t n = 1;; n++) {
        trm_picture p = {0}, q = {0};
        trm_mem_fail_after(n);
        trm_status s = trm_picture_decode(b.p, b.n, 0, &p);
        if (s == TRM_OK) s = trm_picture_fit(&p, 10, 10, &q);
        trm_mem_fail_after(0);
        trm_picture_free(&p);
        trm_picture_free(&q);
        assert_int_equal(trm_mem_count().live_bytes, live);
        if (s == TRM_OK) break;
        assert_int_equal(s, TRM_MEMORY);
        assert_in_range(n, 1, 20);
    }
    free(b.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png_is_exact),
        cmocka_unit_test(palettes_are_colours),
        cmocka_unit_test(jpeg_is_near),
        cmocka_unit_test(channels_are_made),
        cmocka_unit_test(faults_are_told),
        cmocka_unit_test(fits),
        cmocka_unit_test(a_good_one_follows_a_bad_one),
        cmocka_unit_test(memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
