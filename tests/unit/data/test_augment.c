/* Transforms: each against slow code that looks pixel by pixel, in both orders of storage and both types; what draws depend
 * on; what is refused. */
#include "data_support.h"
#include "data_impl.h"
#include <math.h>

/* ---- images, and a slow copy of them ---- */

#define MOST (16 * 40 * 40)

/* A picture as (c,h,w), in numbers whatever the type. */
typedef struct picture {
    int64_t c, h, w;
    double v[MOST];
} picture;

static double *at(picture *p, int64_t c, int64_t y, int64_t x) { return &p->v[(c * p->h + y) * p->w + x]; }

static double value_of(int64_t i, int64_t e, bool byte) {
    int64_t v = (int64_t)(((uint64_t)i * 7919 + (uint64_t)e * 104729 + 17) % 251);
    return byte ? (double)v : (double)v / 16 - 3;
}

static void fill_picture(picture *p, int64_t i, int64_t c, int64_t h, int64_t w, bool byte) {
    *p = (picture){.c = c, .h = h, .w = w};
    for (int64_t e = 0; e < c * h * w; e++) p->v[e] = value_of(i, e, byte);
}

/* A file of n such pictures, stored (N,C,H,W) or (N,H,W,C). */
static const char *write_images(const char *name, int64_t n, int64_t c, int64_t h, int64_t w, bool hwc,
                                bool byte) {
    const char *path = support_path(name);
    trm_h5_file *f = NULL;
    int64_t count = c * h * w;
    unsigned char *bytes = malloc((size_t)(n * count));
    float *floats = malloc((size_t)(n * count) * sizeof *floats);
    int64_t *label = malloc((size_t)n * sizeof *label);
    static picture p;
    for (int64_t i = 0; i < n; i++) {
        label[i] = i % 3;
        fill_picture(&p, i, c, h, w, byte);
        for (int64_t k = 0; k < c; k++)
            for (int64_t y = 0; y < h; y++)
                for (int64_t x = 0; x < w; x++) {
                    int64_t to = i * count + (hwc ? (y * w + x) * c + k : (k * h + y) * w + x);
                    bytes[to] = (unsigned char)*at(&p, k, y, x);
                    floats[to] = (float)*at(&p, k, y, x);
                }
    }
    trm_shape shape = hwc ? trm_shape_of(4, n, h, w, c) : trm_shape_of(4, n, c, h, w),
              one = trm_shape_of(1, n);
    assert_ok(trm_h5_create(path, &f));
    assert_ok(
        trm_h5_write(f, "data", byte ? TRM_U8 : TRM_F32, &shape, byte ? (void *)bytes : (void *)floats));
    assert_ok(trm_h5_write(f, "label", TRM_I64, &one, label));
    assert_ok(trm_h5_close(f));
    free(bytes);
    free(floats);
    free(label);
    return path;
}

static trm_dataset *open_images(const char *path, bool hwc) {
    trm_dataset *d = NULL;
    trm_data_spec spec = {.files = &path, .n_files = 1, .hwc = hwc};
    assert_ok(trm_dataset_open(&spec, &d));
    return d;
}

/* A sample out of a slot or buffer as a picture. */
static void take_picture(const trm_data_info *info, const char *raw, picture *p) {
    *p = (picture){.c = info->x.dim[0], .h = info->x.dim[1], .w = info->x.dim[2]};
    for (int64_t c = 0; c < p->c; c++)
        for (int64_t y = 0; y < p->h; y++)
            for (int64_t x = 0; x < p->w; x++) {
                int64_t e = info->x_hwc ? (y * p->w + x) * p->c + c : (c * p->h + y) * p->w + x;
                trm_convert_f64(raw + e * (int64_t)trm_dtype_size(info->x_type), info->x_type, 1,
                                at(p, c, y, x));
            }
}

static void assert_pictures(const picture *got, const picture *want, double bound, const char *what) {
    if (got->c != want->c || got->h != want->h || got->w != want->w)
        fail_msg("%s: (%d,%d,%d), not (%d,%d,%d)", what, (int)got->c, (int)got->h, (int)got->w, (int)want->c,
                 (int)want->h, (int)want->w);
    for (int64_t e = 0; e < got->c * got->h * got->w; e++)
        if (!(fabs(got->v[e] - want->v[e]) <= bound))
            fail_msg("%s: element %d is %g, not %g", what, (int)e, got->v[e], want->v[e]);
}

/* ---- slow transforms ---- */

static trm_rng_key key_of(uint64_t seed, int64_t epoch, int64_t sample, int number) {
    return (trm_rng_key){.seed = seed,
                         .purpose = TRM_RNG_AUGMENT,
                         .layer = (uint32_t)number,
                         .update = (uint64_t)epoch,
                         .sample = (uint64_t)sample};
}

static void slow_window(picture *p, int64_t top, int64_t left, int64_t h, int64_t w, double value) {
    static picture out;
    out = (picture){.c = p->c, .h = h, .w = w};
    for (int64_t c = 0; c < p->c; c++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++) {
                int64_t from_y = y + top, from_x = x + left;
                bool inside = from_y >= 0 && from_y < p->h && from_x >= 0 && from_x < p->w;
                *at(&out, c, y, x) = inside ? *at(p, c, from_y, from_x) : value;
            }
    *p = out;
}

static double slow_pixel(picture *p, int64_t c, double y, double x) {
    y = fmin(fmax(y, 0), (double)(p->h - 1));
    x = fmin(fmax(x, 0), (double)(p->w - 1));
    int64_t y0 = (int64_t)floor(y), x0 = (int64_t)floor(x);
    int64_t y1 = trm_min64(y0 + 1, p->h - 1), x1 = trm_min64(x0 + 1, p->w - 1);
    double v = y - (double)y0, u = x - (double)x0;
    return (1 - v) * ((1 - u) * *at(p, c, y0, x0) + u * *at(p, c, y0, x1)) +
           v * ((1 - u) * *at(p, c, y1, x0) + u * *at(p, c, y1, x1));
}

/* The mean of the old pixels that lie under a new one. */
static double slow_area(picture *p, int64_t c, int64_t y, int64_t x, int64_t h, int64_t w) {
    double sum = 0, n = 0;
    for (int64_t i = 0; i < p->h; i++)
        for (int64_t j = 0; j < p->w; j++) {
            bool in_y = (i + 1) * h > y * p->h && i * h < (y + 1) * p->h;
            bool in_x = (j + 1) * w > x * p->w && j * w < (x + 1) * p->w;
            if (!in_y || !in_x) continue;
            sum += *at(p, c, i, j);
            n++;
        }
    return sum / n;
}

static void slow_resize(picture *p, int64_t h, int64_t w, bool area, bool byte) {
    static picture out;
    out = (picture){.c = p->c, .h = h, .w = w};
    for (int64_t c = 0; c < p->c; c++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++) {
                double v = area ? slow_area(p, c, y, x, h, w)
                                : slow_pixel(p, c, ((double)y + 0.5) * (double)p->h / (double)h - 0.5,
                                             ((double)x + 0.5) * (double)p->w / (double)w - 0.5);
                *at(&out, c, y, x) = byte ? floor(v + 0.5) : v;
            }
    *p = out;
}

static void slow_flip(picture *p, bool vertical) {
    static picture out;
    out = *p;
    for (int64_t c = 0; c < p->c; c++)
        for (int64_t y = 0; y < p->h; y++)
            for (int64_t x = 0; x < p->w; x++)
                *at(&out, c, y, x) = *at(p, c, vertical ? p->h - 1 - y : y, vertical ? x : p->w - 1 - x);
    *p = out;
}

static void slow_erase(picture *p, const trm_transform *t, const trm_rng_key *key) {
    int64_t h = 0, w = 0;
    for (uint64_t k = 1; k <= 10; k++) {
        double share = t->area[0] + trm_rng_uniform(key, 4 * k) * (t->area[1] - t->area[0]);
        double low = log(t->ratio[0]), high = log(t->ratio[1]);
        double ratio = exp(low + trm_rng_uniform(key, 4 * k + 1) * (high - low)),
               image = (double)(p->h * p->w);
        h = (int64_t)floor(sqrt(share * image * ratio) + 0.5);
        w = (int64_t)floor(sqrt(share * image / ratio) + 0.5);
        if (h >= 1 && w >= 1 && h <= p->h && w <= p->w) break;
        h = 0;
    }
    if (h == 0) return;
    int64_t top = (int64_t)trm_rng_below(key, 32, (uint64_t)(p->h - h + 1));
    int64_t left = (int64_t)trm_rng_below(key, 33, (uint64_t)(p->w - w + 1));
    for (int64_t c = 0; c < p->c; c++)
        for (int64_t y = top; y < top + h; y++)
            for (int64_t x = left; x < left + w; x++) *at(p, c, y, x) = t->value;
}

/* key NULL: without a draw. */
static void slow_transform(picture *p, const trm_transform *t, const trm_rng_key *key, bool byte) {
    int64_t down = p->h - t->size[0], right = p->w - t->size[1];
    switch (t->kind) {
    case TRM_RESIZE: slow_resize(p, t->size[0], t->size[1], t->area_mean, byte); return;
    case TRM_CENTER_CROP: slow_window(p, down / 2, right / 2, t->size[0], t->size[1], 0); return;
    case TRM_PAD:
        slow_window(p, -t->size[0], -t->size[1], p->h + 2 * t->size[0], p->w + 2 * t->size[1], t->value);
        return;
    case TRM_CROP:
        slow_window(p, key ? (int64_t)trm_rng_below(key, 32, (uint64_t)down + 1) : down / 2,
                    key ? (int64_t)trm_rng_below(key, 33, (uint64_t)right + 1) : right / 2, t->size[0],
                    t->size[1], 0);
        return;
    case TRM_FLIP:
        if (key && trm_rng_uniform(key, 0) < t->p) slow_flip(p, t->vertical);
        return;
    case TRM_ERASE:
        if (key && trm_rng_uniform(key, 0) < t->p) slow_erase(p, t, key);
        return;
    }
}

/* ---- chains ---- */

typedef struct chain {
    const char *name;
    int64_t c, h, w;
    int n_fixed, n_random;
    trm_transform fixed[3], random[4];
} chain;

#define FLIP(up) \
    { .kind = TRM_FLIP, .vertical = (up), .p = 0.5 }
#define CROP(h, w)                         \
    {                                      \
        .kind = TRM_CROP, .size = { h, w } \
    }
#define PAD(y, x, v) \
    { .kind = TRM_PAD, .size = {y, x}, .value = (v) }
#define RESIZE(h, w, mean) \
    { .kind = TRM_RESIZE, .size = {h, w}, .area_mean = (mean) }
#define ERASE(low, high) \
    { .kind = TRM_ERASE, .p = 0.8, .area = {low, high}, .ratio = {0.3, 3.3}, .value = 9 }

static const chain chains[] = {
    {"flip", 3, 6, 5, 0, 1, {{0}}, {FLIP(false)}},
    {"upside down", 3, 5, 7, 0, 1, {{0}}, {FLIP(true)}},
    {"one pixel", 1, 1, 1, 0, 3, {{0}}, {FLIP(false), FLIP(true), ERASE(0.5, 1)}},
    {"one pixel padded", 2, 1, 1, 1, 2, {PAD(1, 2, 7)}, {CROP(2, 2), FLIP(false)}},
    {"crop", 3, 9, 8, 0, 1, {{0}}, {CROP(4, 7)}},
    {"crop of all", 3, 9, 8, 0, 1, {{0}}, {CROP(9, 8)}},
    {"pad and crop", 3, 8, 8, 0, 3, {{0}}, {PAD(4, 4, 0), CROP(8, 8), FLIP(false)}},
    {"flip before crop", 4, 8, 6, 0, 3, {{0}}, {FLIP(false), CROP(5, 5), FLIP(true)}},
    {"erase", 3, 12, 10, 0, 1, {{0}}, {ERASE(0.02, 0.33)}},
    {"a hole that never fits",
     1,
     1,
     9,
     0,
     1,
     {{0}},
     {{.kind = TRM_ERASE, .p = 1, .area = {1, 1}, .ratio = {3, 3}, .value = 9}}},
    {"center crop", 3, 9, 8, 1, 0, {{.kind = TRM_CENTER_CROP, .size = {4, 3}}}, {{0}}},
    {"larger", 2, 4, 5, 1, 0, {RESIZE(9, 8, false)}, {{0}}},
    {"smaller", 3, 9, 8, 1, 0, {RESIZE(4, 5, false)}, {{0}}},
    {"to one pixel", 3, 9, 8, 1, 0, {RESIZE(1, 1, false)}, {{0}}},
    {"from one pixel", 1, 1, 1, 1, 0, {RESIZE(3, 2, false)}, {{0}}},
    {"one row", 1, 1, 6, 1, 0, {RESIZE(4, 3, false)}, {{0}}},
    {"means, whole", 3, 8, 8, 1, 0, {RESIZE(4, 2, true)}, {{0}}},
    {"means, odd", 2, 9, 7, 1, 0, {RESIZE(4, 5, true)}, {{0}}},
    {"means, larger", 1, 3, 2, 1, 0, {RESIZE(7, 5, true)}, {{0}}},
    {"all",
     3,
     11,
     13,
     3,
     4,
     {RESIZE(20, 18, false), {.kind = TRM_CENTER_CROP, .size = {16, 17}}, PAD(1, 0, 3)},
     {PAD(2, 2, 5), CROP(16, 16), FLIP(false), ERASE(0.1, 0.3)}},
};

static void slow_chain(const chain *k, picture *p, int64_t i, bool byte, bool draws, uint64_t seed,
                       int64_t epoch) {
    fill_picture(p, i, k->c, k->h, k->w, byte);
    for (int t = 0; t < k->n_fixed; t++) slow_transform(p, &k->fixed[t], NULL, byte);
    for (int t = 0; t < k->n_random; t++) {
        trm_rng_key key = key_of(seed, epoch, i, t);
        slow_transform(p, &k->random[t], draws ? &key : NULL, byte);
    }
}

static void put_chain(trm_dataset *d, const chain *k) {
    assert_ok(trm_dataset_transform(d, k->fixed, k->n_fixed, k->random, k->n_random));
}

#define N 7

/* What a feed gives is what slow code gives, and what is read without a feed is the middle. */
static void check_chain(const chain *k, bool hwc, bool byte) {
    static picture got, want;
    char what[80];
    /* Sums in double and in float may lie on two sides of a half. */
    bool resizes = k->n_fixed > 0 && k->fixed[0].kind == TRM_RESIZE;
    double bound = !byte ? 2e-5 : resizes ? 1 : 0;
    trm_dataset *d = open_images(write_images("chain.h5", N, k->c, k->h, k->w, hwc, byte), hwc);
    put_chain(d, k);
    const trm_data_info *info = trm_dataset_info(d);
    assert_int_equal(info->x_stride, trm_shape_count(&info->x) * (int64_t)trm_dtype_size(info->x_type));
    trm_feed_spec spec = {.shuffle = TRM_SHUFFLE_EXACT, .seed = 5, .batch = 3, .micro_batches = 1};
    trm_feed *f = NULL;
    assert_ok(trm_feed_open(d, &spec, &f));
    for (int u = 0; u < 6; u++) {
        trm_slot s;
        assert_ok(trm_feed_next(f, &s, NULL));
        for (int64_t i = 0; i < s.n; i++) {
            snprintf(what, sizeof what, "%s, %s %s, sample %d of epoch %d", k->name, hwc ? "hwc" : "chw",
                     byte ? "uint8" : "float32", (int)s.sample[i], (int)s.epoch);
            take_picture(info, (const char *)s.x_raw + i * info->x_stride, &got);
            slow_chain(k, &want, s.sample[i], byte, true, 5, s.epoch);
            assert_pictures(&got, &want, bound, what);
            assert_int_equal(((const int64_t *)s.y_raw)[i], s.sample[i] % 3);
        }
        trm_feed_release(f, &s);
    }
    trm_feed_close(f);
    char *x = malloc((size_t)info->x_stride * N), *y = malloc(N * sizeof(int64_t));
    int64_t all[N] = {4, 1, 2, 0, 6, 5, 3};
    assert_ok(trm_dataset_read(d, all, N, x, y));
    for (int64_t i = 0; i < N; i++) {
        snprintf(what, sizeof what, "%s, middle of sample %d", k->name, (int)all[i]);
        take_picture(info, x + i * info->x_stride, &got);
        slow_chain(k, &want, all[i], byte, false, 0, 0);
        assert_pictures(&got, &want, bound, what);
    }
    free(x);
    free(y);
    trm_dataset_close(d);
}

static void equals_slow_code(void **state) {
    (void)state;
    for (size_t k = 0; k < SUPPORT_COUNT(chains); k++)
        for (int way = 0; way < 4; way++) check_chain(&chains[k], way & 1, way & 2);
}

/* Weights that a float holds exactly: to the nearest whole number, halves up. */
static void bytes_are_rounded(void **state) {
    (void)state;
    static const chain k = {"rounding", 1, 2, 2, 1, 0, {RESIZE(4, 4, false)}, {{0}}};
    static picture got, want;
    trm_dataset *d = open_images(write_images("round.h5", 1, 1, 2, 2, false, true), false);
    put_chain(d, &k);
    unsigned char x[16];
    int64_t none = 0, y;
    assert_ok(trm_dataset_read(d, &none, 1, x, &y));
    take_picture(trm_dataset_info(d), (char *)x, &got);
    slow_chain(&k, &want, 0, true, false, 0, 0);
    assert_pictures(&got, &want, 0, "rounding");
    trm_dataset_close(d);
}

/* ---- who reads does not matter ---- */

typedef struct share {
    int ranks, rank;
} share;

static void cut(void *ctx, int64_t update, int64_t m, int64_t *begin, int64_t *count) {
    const share *s = ctx;
    int64_t weight[3] = {1 + update % 3, s->ranks > 1 ? 2 : 0, s->ranks > 2 ? update % 2 : 0};
    int64_t sum = weight[0] + weight[1] + weight[2], before = 0;
    for (int r = 0; r < s->rank; r++) before += weight[r];
    *begin = m * before / sum;
    *count = m * (before + weight[s->rank]) / sum - *begin;
}

#define IMAGES 23
#define EPOCHS 2

/* Every sample of every epoch, by whoever read it; `from`: the update to go on at. */
static void read_epochs(const char *path, trm_data_cache cache, int ranks, int micro, int from, char *out) {
    const chain *k = &chains[SUPPORT_COUNT(chains) - 1];
    for (int r = 0; r < ranks; r++) {
        trm_dataset *d = NULL;
        trm_data_spec set = {.files = &path, .n_files = 1, .cache = cache};
        assert_ok(trm_dataset_open(&set, &d));
        put_chain(d, k);
        const trm_data_info *info = trm_dataset_info(d);
        share who = {ranks, r};
        trm_feed *f = NULL;
        trm_feed_spec spec = {.shuffle = TRM_SHUFFLE_EXACT,
                              .seed = 8,
                              .batch = 6,
                              .micro_batches = micro,
                              .cut = cut,
                              .cut_ctx = &who};
        assert_ok(trm_feed_open(d, &spec, &f));
        int updates = (int)trm_feed_updates_per_epoch(f);
        if (from) assert_ok(trm_feed_seek(f, from / updates, from % updates, from));
        for (int u = from; u < EPOCHS * updates; u++) {
            trm_slot s;
            assert_ok(trm_feed_next(f, &s, NULL));
            for (int64_t i = 0; i < s.n; i++)
                memcpy(out + (s.epoch * IMAGES + s.sample[i]) * info->x_stride,
                       (const char *)s.x_raw + i * info->x_stride, (size_t)info->x_stride);
            trm_feed_release(f, &s);
        }
        trm_feed_close(f);
        trm_dataset_close(d);
    }
}

static void is_equal_on_any_ranks(void **state) {
    (void)state;
    size_t bytes = (size_t)EPOCHS * IMAGES * 3 * 16 * 16;
    char *want = calloc(bytes, 1), *got = calloc(bytes, 1);
    const char *path = write_images("ranks.h5", IMAGES, 3, 11, 13, false, true);
    read_epochs(path, TRM_CACHE_ON, 1, 1, 0, want);
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int micro = 1; micro <= 2; micro++) {
            memset(got, 0, bytes);
            read_epochs(path, ranks == 2 ? TRM_CACHE_OFF : TRM_CACHE_ON, ranks, micro, 0, got);
            assert_memory_equal(got, want, bytes);
        }
    /* Going on in the middle of the second epoch gives the same as not having stopped. */
    memcpy(got, want, bytes);
    read_epochs(path, TRM_CACHE_ON, 2, 2, 5, got);
    assert_memory_equal(got, want, bytes);
    /* The two epochs are not alike. */
    assert_memory_not_equal(want, want + bytes / 2, bytes / 2);
    free(want);
    free(got);
}

/* ---- memory ---- */

static void a_slot_takes_no_memory(void **state) {
    (void)state;
    uint64_t live = trm_mem_count().live_bytes, before = 0;
    trm_dataset *d = open_images(write_images("memory.h5", IMAGES, 3, 11, 13, false, true), false);
    put_chain(d, &chains[SUPPORT_COUNT(chains) - 1]);
    trm_feed *f = NULL;
    trm_feed_spec spec = {.shuffle = TRM_SHUFFLE_EXACT, .seed = 8, .batch = 6, .micro_batches = 1};
    assert_ok(trm_feed_open(d, &spec, &f));
    for (int u = 0; u < 20; u++) {
        trm_slot s;
        if (u == 10) before = trm_mem_count().allocations;
        assert_ok(trm_feed_next(f, &s, NULL));
        trm_feed_release(f, &s);
    }
    assert_int_equal(trm_mem_count().allocations, before);
    trm_feed_close(f);
    trm_dataset_close(d);
    assert_int_equal(trm_mem_count().live_bytes, live);
}

static void survives_failing_memory(void **state) {
    (void)state;
    const chain *k = &chains[SUPPORT_COUNT(chains) - 1];
    trm_dataset *d = open_images(write_images("failing.h5", 3, 3, 11, 13, false, true), false);
    for (uint64_t i = 1;; i++) {
        trm_mem_fail_after(i);
        trm_status s = trm_dataset_transform(d, k->fixed, k->n_fixed, k->random, k->n_random);
        trm_mem_fail_after(0);
        if (s == TRM_OK) break;
        assert_int_equal(s, TRM_MEMORY);
        assert_int_equal(trm_dataset_info(d)->x.dim[1], 11);
    }
    trm_dataset_close(d);
}

/* ---- what is refused ---- */

static void refuse(const char *path, const trm_transform *t, bool random, const char *sentence,
                   const char *hint) {
    trm_dataset *d = open_images(path, false);
    assert_fault(trm_dataset_transform(d, t, !random, t, random), TRM_DATA, sentence);
    if (!strstr(trm_error_hint(), hint)) fail_msg("hint '%s', not '%s'", trm_error_hint(), hint);
    trm_dataset_close(d);
}

static void refuses_what_does_not_fit(void **state) {
    (void)state;
    const char *images = write_images("small.h5", 2, 3, 8, 9, false, true);
    trm_transform crop = CROP(9, 9), middle = {.kind = TRM_CENTER_CROP, .size = {8, 10}},
                  half = PAD(1, 1, 0.5), dark = PAD(1, 1, -1), huge = RESIZE(65536, 65536, false),
                  bright = ERASE(0.1, 0.2);
    refuse(images, &crop, true, "'data' images are 8x9 where crop of data.augment takes 9x9 of them",
           "a smaller crop");
    refuse(images, &middle, false, "images are 8x9 where center_crop of data.transform takes 8x10",
           "a smaller center_crop");
    refuse(images, &half, false, "'data' holds uint8, but pad of data.transform has the value 0.5", "");
    refuse(images, &dark, true, "pad of data.augment has the value -1; allowed are 0 to 255", "");
    bright.value = 256;
    refuse(images, &bright, true, "erase of data.augment has the value 256", "");
    refuse(images, &huge, false, "makes images of 65536x65536, which are too large", "");
    refuse(support_set("vectors.h5", 5, 0), &half, false,
           "'data' samples are (6), but data.transform is for images", "");
    trm_h5_file *f = NULL;
    const char *planes = support_path("planes.h5");
    trm_shape x = trm_shape_of(3, 2, 4, 5), wide = trm_shape_of(4, 2, 1, 4, 5), y = trm_shape_of(1, 2);
    static const unsigned char zeros[80 * 2];
    static const int64_t label[2];
    assert_ok(trm_h5_create(planes, &f));
    assert_ok(trm_h5_write(f, "data", TRM_U8, &x, zeros));
    assert_ok(trm_h5_write(f, "label", TRM_I64, &y, label));
    assert_ok(trm_h5_close(f));
    refuse(planes, &crop, true, "'data' samples are (4,5), but data.augment is for images (C,H,W)",
           "`data.shape: [1, 4, 5]`");
    const char *words = support_path("words.h5");
    assert_ok(trm_h5_create(words, &f));
    assert_ok(trm_h5_write(f, "data", TRM_I16, &wide, zeros));
    assert_ok(trm_h5_write(f, "label", TRM_I64, &y, label));
    assert_ok(trm_h5_close(f));
    refuse(words, &crop, true, "'data' is int16, but data.augment is for uint8 and float32", "");
}

/* Targets that are pictures stay where they are: what moves pixels is refused. */
static void refuses_to_move_beside_targets(void **state) {
    (void)state;
    trm_transform flip = FLIP(false), hole = ERASE(0.1, 0.2), larger = RESIZE(6, 8, false);
    const char *path = support_path("masks.h5");
    trm_h5_file *f = NULL;
    trm_shape x = trm_shape_of(4, 2, 1, 3, 4), y = trm_shape_of(3, 2, 3, 4);
    static const unsigned char zeros[24];
    static const float mask[24];
    assert_ok(trm_h5_create(path, &f));
    assert_ok(trm_h5_write(f, "data", TRM_U8, &x, zeros));
    assert_ok(trm_h5_write(f, "label", TRM_F32, &y, mask));
    assert_ok(trm_h5_close(f));
    trm_data_spec spec = {.files = &path, .n_files = 1, .float_target = true};
    trm_dataset *d = NULL;
    assert_ok(trm_dataset_open(&spec, &d));
    assert_fault(trm_dataset_transform(d, NULL, 0, &flip, 1), TRM_DATA,
                 "flip of data.augment would move 'data', but not its targets of shape (3,4)");
    assert_ok(trm_dataset_transform(d, &larger, 1, &hole, 1));
    trm_dataset_close(d);
}

/* The plan says nothing of transforms, and the fingerprint is that of what is stored. */
static void are_no_part_of_the_data(void **state) {
    (void)state;
    const chain *k = &chains[4];
    trm_dataset *d = open_images(write_images("plain.h5", 4, k->c, k->h, k->w, false, true), false);
    trm_data_info before = *trm_dataset_info(d);
    put_chain(d, k);
    trm_dataset *twin = support_twin(d);
    assert_true(trm_shape_equal(&trm_dataset_info(twin)->x, &before.x));
    assert_true(trm_dataset_info(d)->fingerprint == before.fingerprint);
    trm_shape want = trm_shape_of(3, 3, 4, 7);
    assert_ok(trm_dataset_expect(d, &want));
    assert_fault(trm_dataset_expect(d, &before.x), TRM_DATA,
                 "samples are (3,4,7), the model expects (3,9,8)");
    trm_dataset_close(twin);
    trm_dataset_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_slow_code),        cmocka_unit_test(bytes_are_rounded),
        cmocka_unit_test(is_equal_on_any_ranks),   cmocka_unit_test(a_slot_takes_no_memory),
        cmocka_unit_test(survives_failing_memory), cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(are_no_part_of_the_data), cmocka_unit_test(refuses_to_move_beside_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
