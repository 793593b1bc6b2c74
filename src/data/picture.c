/* picture: the bytes of a PNG or JPEG file -> 8-bit rows (H,W,C), scaled and cropped.
 *
 * Values come out as they are stored: no gamma, no profile of colours, no turning by the camera's note; alpha is left out.
 * Where the bytes came from is not known here: callers put a name before the sentences. */
#include "data_impl.h"
#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <string.h>
#include <turbojpeg.h>

#define MOST_BYTES (256 * TRM_MIB) /* of one decoded picture */

/* ---- memory ---- */

static trm_status make_room(trm_picture *p, int64_t h, int64_t w, int c) {
    size_t bytes;
    if (h < 1 || w < 1 || !trm_mul_size((size_t)h, (size_t)w, &bytes) ||
        !trm_mul_size(bytes, (size_t)c, &bytes) || bytes > MOST_BYTES)
        return trm_fail(TRM_DATA, "a picture of %lld x %lld pixels; allowed are 1 to %zu MiB of values",
                        (long long)h, (long long)w, MOST_BYTES / TRM_MIB);
    if (bytes > p->cap) {
        trm_free(p->bytes);
        p->cap = 0;
        p->bytes = trm_alloc(bytes, "a picture");
        if (!p->bytes) return TRM_MEMORY;
        p->cap = bytes;
    }
    p->h = h;
    p->w = w;
    p->c = c;
    return TRM_OK;
}

void trm_picture_free(trm_picture *p) {
    trm_free(p->bytes);
    if (p->jpeg) tjDestroy(p->jpeg);
    *p = (trm_picture){0};
}

/* ---- PNG ---- */

/* libpng jumps back on a fault: what its calls change lives in here, not on the stack. */
typedef struct png_job {
    png_structp png;
    png_infop info;
    const unsigned char *at;
    size_t left;
    trm_picture *out;
    png_uint_32 w, h;
    int depth, colour;
    char why[96];
} png_job;

static void png_take(png_structp png, png_bytep dst, size_t n) {
    png_job *j = png_get_io_ptr(png);
    if (n > j->left) png_error(png, "it ends early");
    memcpy(dst, j->at, n);
    j->at += n;
    j->left -= n;
}

static void png_fault(png_structp png, png_const_charp text) {
    png_job *j = png_get_error_ptr(png);
    snprintf(j->why, sizeof j->why, "%s", text);
    png_longjmp(png, 1);
}

static void png_no_warning(png_structp png, png_const_charp text) {
    (void)png;
    (void)text;
}

static void png_head(png_job *j) {
    png_set_read_fn(j->png, j, png_take);
    png_set_user_limits(j->png, 1 << 20, 1 << 20);
    png_read_info(j->png, j->info);
    png_get_IHDR(j->png, j->info, &j->w, &j->h, &j->depth, &j->colour, NULL, NULL, NULL);
}

static int png_channels(const png_job *j) { return j->colour & PNG_COLOR_MASK_COLOR ? 3 : 1; }

static void png_body(png_job *j) {
    if (j->colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(j->png);
    if (j->colour == PNG_COLOR_TYPE_GRAY && j->depth < 8) png_set_expand_gray_1_2_4_to_8(j->png);
    png_set_strip_alpha(j->png);
    int passes = png_set_interlace_handling(j->png);
    png_read_update_info(j->png, j->info);
    size_t row = (size_t)j->w * (size_t)png_channels(j);
    if (png_get_rowbytes(j->png, j->info) != row) png_error(j->png, "an unusual kind of pixels");
    for (int pass = 0; pass < passes; pass++)
        for (png_uint_32 y = 0; y < j->h; y++) png_read_row(j->png, j->out->bytes + y * row, NULL);
    png_read_end(j->png, NULL);
}

static trm_status png_run(png_job *j, void (*work)(png_job *)) {
    if (setjmp(png_jmpbuf(j->png))) return trm_fail(TRM_DATA, "a damaged PNG picture: %s", j->why);
    work(j);
    return TRM_OK;
}

static trm_status png_sizes(const png_job *j, size_t n) {
    if (j->depth > 8)
        return trm_fail(TRM_DATA, "a PNG picture with %d bits a value; allowed are up to 8", j->depth);
    /* Before memory is taken for it: can the file hold what it claims? */
    if ((uint64_t)j->w * j->h / 8 / TRM_DEFLATE_MOST > n)
        return trm_fail(TRM_DATA, "a PNG picture that claims %u x %u pixels in %zu bytes", (unsigned)j->h,
                        (unsigned)j->w, n);
    return TRM_OK;
}

/* Only the head where `out` keeps no pixels. */
static trm_status png_all(const void *bytes, size_t n, int want_c, bool pixels, trm_picture *out) {
    png_job j = {.at = bytes, .left = n, .out = out};
    j.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &j, png_fault, png_no_warning);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    trm_status s = j.info ? png_run(&j, png_head) : trm_fail(TRM_MEMORY, "libpng cannot be started");
    if (s == TRM_OK) s = png_sizes(&j, n);
    int c = s == TRM_OK ? png_channels(&j) : 0;
    if (s == TRM_OK && pixels) {
        s = make_room(out, j.h, j.w, c > want_c ? c : want_c);
        if (s == TRM_OK) s = png_run(&j, png_body);
    }
    png_destroy_read_struct(&j.png, &j.info, NULL);
    if (s != TRM_OK) return s;
    out->h = j.h;
    out->w = j.w;
    out->c = c;
    return TRM_OK;
}

/* ---- JPEG ---- */

/* A decoder that met a fault is not to be trusted with the next picture. */
static void drop_jpeg(trm_picture *p) {
    tjDestroy(p->jpeg);
    p->jpeg = NULL;
}

static trm_status jpeg_fault(trm_picture *p, const char *why) {
    trm_fail(TRM_DATA, "a damaged JPEG picture: %s", why);
    drop_jpeg(p);
    return TRM_DATA;
}

static trm_status jpeg_head(const void *bytes, size_t n, trm_picture *out) {
    int w = 0, h = 0, sampling = 0, colours = 0;
    if (!out->jpeg) out->jpeg = tjInitDecompress();
    if (!out->jpeg) return trm_fail(TRM_MEMORY, "libjpeg-turbo cannot be started");
    if (tjDecompressHeader3(out->jpeg, bytes, n, &w, &h, &sampling, &colours) != 0)
        return jpeg_fault(out, tjGetErrorStr2(out->jpeg));
    if (w < 1 || h < 1) return jpeg_fault(out, "it ends before its size");
    if (colours != TJCS_GRAY && colours != TJCS_YCbCr && colours != TJCS_RGB)
        return trm_fail(TRM_DATA, "a JPEG picture in print colours (CMYK); allowed are grey and RGB");
    out->h = h;
    out->w = w;
    out->c = colours == TJCS_GRAY ? 1 : 3;
    return TRM_OK;
}

/* Rubbish between two markers does no harm to the pixels; every other warning is about missing or wrong ones. */
static bool jpeg_harmless(trm_picture *p) {
    return tjGetErrorCode(p->jpeg) == TJERR_WARNING && strstr(tjGetErrorStr2(p->jpeg), "extraneous bytes");
}

static trm_status jpeg_all(const void *bytes, size_t n, int want_c, trm_picture *out) {
    TRM_TRY(jpeg_head(bytes, n, out));
    int c = out->c;
    TRM_TRY(make_room(out, out->h, out->w, c > want_c ? c : want_c));
    out->c = c;
    if (tjDecompress2(out->jpeg, bytes, n, out->bytes, (int)out->w, 0, (int)out->h,
                      c == 1 ? TJPF_GRAY : TJPF_RGB, 0) == 0)
        return TRM_OK;
    if (!jpeg_harmless(out)) return jpeg_fault(out, tjGetErrorStr2(out->jpeg));
    drop_jpeg(out);
    return TRM_OK;
}

/* ---- which of the two ---- */

static bool is_png(const unsigned char *b, size_t n) {
    return n >= 8 && memcmp(b, "\x89PNG\r\n\x1a\n", 8) == 0;
}
static bool is_jpeg(const unsigned char *b, size_t n) { return n >= 3 && memcmp(b, "\xFF\xD8\xFF", 3) == 0; }

static trm_status no_picture(const unsigned char *b, size_t n) {
    const char *what = n == 0                                                              ? "an empty file"
                       : n >= 4 && memcmp(b, "GIF8", 4) == 0                               ? "a GIF picture"
                       : n >= 12 && memcmp(b, "RIFF", 4) == 0 && !memcmp(b + 8, "WEBP", 4) ? "a WebP picture"
                       : n >= 2 && memcmp(b, "BM", 2) == 0                                 ? "a BMP picture"
                       : n >= 4 && (!memcmp(b, "II*\0", 4) || !memcmp(b, "MM\0*", 4))      ? "a TIFF picture"
                                                                                           : NULL;
    if (what) return trm_fail(TRM_DATA, "%s; allowed are PNG and JPEG", what);
    return trm_fail(TRM_DATA, "no PNG or JPEG picture: it starts with bytes %02x %02x", b[0],
                    n > 1 ? b[1] : 0u);
}

trm_status trm_picture_look(const void *bytes, size_t n, trm_picture *out) {
    if (is_png(bytes, n)) return png_all(bytes, n, 0, false, out);
    if (is_jpeg(bytes, n)) return jpeg_head(bytes, n, out);
    return no_picture(bytes, n);
}

/* ---- channels ---- */

/* The weights of ITU-R 601, in 16 bits, as other programs have them. */
static void to_grey(trm_picture *p) {
    size_t n = (size_t)(p->h * p->w);
    for (size_t i = 0; i < n; i++) {
        const unsigned char *rgb = p->bytes + 3 * i;
        p->bytes[i] = (unsigned char)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
    }
    p->c = 1;
}

/* From behind, in place: there is room for three. */
static void to_rgb(trm_picture *p) {
    for (size_t i = (size_t)(p->h * p->w); i-- > 0;) {
        unsigned char v = p->bytes[i];
        p->bytes[3 * i] = p->bytes[3 * i + 1] = p->bytes[3 * i + 2] = v;
    }
    p->c = 3;
}

trm_status trm_picture_decode(const void *bytes, size_t n, int want_c, trm_picture *out) {
    if (is_png(bytes, n))
        TRM_TRY(png_all(bytes, n, want_c, true, out));
    else if (is_jpeg(bytes, n))
        TRM_TRY(jpeg_all(bytes, n, want_c, out));
    else
        return no_picture(bytes, n);
    if (want_c == 1 && out->c == 3) to_grey(out);
    if (want_c == 3 && out->c == 1) to_rgb(out);
    return TRM_OK;
}

/* ---- scaling ---- */

/* Which old places make a new one, and with what weights: a triangle as wide as the larger of both pixels. */
typedef struct tap {
    int64_t first;
    int n;
    float *weight;
} tap;

static void fill_tap(tap *t, int64_t old, double from, double scale, int64_t at) {
    double wide = scale > 1 ? scale : 1, centre = from + ((double)at + 0.5) * scale, sum = 0;
    int64_t first = trm_max64((int64_t)(centre - wide + 0.5), 0);
    int64_t end = trm_min64((int64_t)(centre + wide + 0.5), old);
    t->first = first;
    t->n = (int)(end - first);
    for (int i = 0; i < t->n; i++) {
        double d = fabs(((double)(first + i) - centre + 0.5) / wide);
        t->weight[i] = d < 1 ? (float)(1 - d) : 0;
        sum += t->weight[i];
    }
    for (int i = 0; i < t->n; i++) t->weight[i] = (float)(t->weight[i] / sum);
}

/* `to` taps for the stretch of `scale` * to old places that begins at `from`; one block, freed by the caller. */
static tap *make_taps(int64_t old, double from, double scale, int64_t to) {
    size_t most = (size_t)(2 * (scale > 1 ? scale : 1)) + 3, floats;
    if (!trm_mul_size((size_t)to, most, &floats) || floats > MOST_BYTES) {
        (void)trm_fail(TRM_MEMORY, "a picture cannot be scaled so much");
        return NULL;
    }
    tap *t = trm_alloc((size_t)to * sizeof *t + floats * sizeof(float), "scaling");
    float *weight = t ? (float *)(void *)(t + to) : NULL;
    for (int64_t i = 0; t && i < to; i++) {
        t[i].weight = weight + (size_t)i * most;
        fill_tap(&t[i], old, from, scale, i);
    }
    return t;
}

static void scale_row(const unsigned char *row, const tap *t, int64_t w, int c, float *to) {
    for (int64_t x = 0; x < w; x++)
        for (int k = 0; k < c; k++) {
            const unsigned char *v = row + t[x].first * c + k;
            float sum = 0;
            for (int i = 0; i < t[x].n; i++) sum += t[x].weight[i] * v[i * c];
            to[x * c + k] = sum;
        }
}

static void scale_column(const float *rows, const tap *t, int64_t values, unsigned char *to) {
    for (int64_t x = 0; x < values; x++) {
        float sum = 0.5f;
        for (int i = 0; i < t->n; i++) sum += t->weight[i] * rows[(t->first + i) * values + x];
        to[x] = (unsigned char)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
}

static trm_status scale(const trm_picture *p, const tap *across, const tap *down, trm_picture *out) {
    int64_t values = out->w * out->c, first = down[0].first;
    int64_t end = down[out->h - 1].first + down[out->h - 1].n;
    /* Rows outside of the crop are never used; the place of the first one stays where it is counted from. */
    float *rows = trm_alloc_array((size_t)(end - first), (size_t)values * sizeof *rows, "scaling");
    if (!rows) return TRM_MEMORY;
    for (int64_t y = first; y < end; y++)
        scale_row(p->bytes + y * p->w * p->c, across, out->w, out->c, rows + (y - first) * values);
    for (int64_t y = 0; y < out->h; y++) {
        tap t = down[y];
        t.first -= first;
        scale_column(rows, &t, values, out->bytes + y * values);
    }
    trm_free(rows);
    return TRM_OK;
}

trm_status trm_picture_fit(const trm_picture *p, int64_t h, int64_t w, trm_picture *out) {
    TRM_TRY(make_room(out, h, w, p->c));
    if (p->h == h && p->w == w) {
        memcpy(out->bytes, p->bytes, (size_t)(h * w) * (size_t)p->c);
        return TRM_OK;
    }
    /* The largest part of this shape, from the middle. */
    double a = (double)p->w / (double)w, b = (double)p->h / (double)h, step = a < b ? a : b;
    tap *across = make_taps(p->w, ((double)p->w - step * (double)w) / 2, step, w);
    tap *down = make_taps(p->h, ((double)p->h - step * (double)h) / 2, step, h);
    trm_status s = across && down ? scale(p, across, down, out) : TRM_MEMORY;
    trm_free(across);
    trm_free(down);
    return s;
}

void trm_picture_planes(const trm_picture *p, unsigned char *dst) {
    size_t n = (size_t)(p->h * p->w);
    for (int k = 0; k < p->c; k++)
        for (size_t i = 0; i < n; i++) dst[(size_t)k * n + i] = p->bytes[i * (size_t)p->c + (size_t)k];
}
