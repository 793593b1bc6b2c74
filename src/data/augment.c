/* augment: what is done to an image between the file and the model: resizing, cropping, padding, flipping, erasing.
 *
 * A chain of stages is planned once for a data set.  A stage works on raw elements, on planes of rows of pixels: an image
 * stored (C,H,W) has C planes, one stored (H,W,C) has one plane of wider pixels, so both give the same numbers.  Places
 * and chances are drawn by (seed, epoch, sample, stage) and by nothing else.  Without a draw a random stage takes its
 * middle: a crop the centre, and nothing is flipped or erased. */
#include "data_impl.h"
#include <math.h>
#include <string.h>

#define MOST_STAGES 32
#define MOST_SIDE 65536
#define ERASE_TRIES 10
#define PLACE_DRAW 64 /* words of a draw from here on are for places */

/* New pixels as weighted sums of old ones: pixel i takes `taps` old ones from first[i] on. */
typedef struct taps {
    int64_t taps;
    int64_t *first;
    float *weight;
} taps;

typedef struct stage {
    trm_transform t;
    bool random;        /* of the list that only training draws for */
    uint32_t number;    /* within its list */
    int64_t h, w;       /* before it */
    int64_t to_h, to_w; /* behind it */
    taps rows, columns; /* resize */
} stage;

struct trm_augment {
    trm_data_info info; /* of the data set behind the chain */
    stage stage[MOST_STAGES];
    int n, last_move;       /* the last stage that needs another place for its result; -1: none */
    int64_t planes, lanes;  /* elements of a pixel within a plane */
    size_t item, pixel;     /* bytes of an element, of a pixel */
    size_t raw, most, line; /* bytes of a raw sample, of the largest image on the way, of a line to work on */
    char *own;              /* a raw sample and scratch, for reading without a feed */
};

/* ---- stages that move pixels to another place ---- */

static void fill(const trm_augment *c, char *at, int64_t pixels, double value) {
    int64_t n = pixels * c->lanes;
    if (c->info.x_type == TRM_U8) {
        memset(at, (int)value, (size_t)n);
        return;
    }
    float *to = (float *)at;
    for (int64_t i = 0; i < n; i++) to[i] = (float)value;
}

static void pad(const trm_augment *c, const stage *s, const char *from, char *to) {
    int64_t top = s->t.size[0], left = s->t.size[1];
    size_t row = (size_t)s->w * c->pixel;
    fill(c, to, c->planes * s->to_h * s->to_w, s->t.value);
    for (int64_t p = 0; p < c->planes; p++)
        for (int64_t y = 0; y < s->h; y++)
            memcpy(to + (size_t)((p * s->to_h + top + y) * s->to_w + left) * c->pixel,
                   from + (size_t)(p * s->h + y) * row, row);
}

static void crop(const trm_augment *c, const stage *s, int64_t top, int64_t left, const char *from,
                 char *to) {
    size_t row = (size_t)s->to_w * c->pixel;
    for (int64_t p = 0; p < c->planes; p++)
        for (int64_t y = 0; y < s->to_h; y++)
            memcpy(to + (size_t)(p * s->to_h + y) * row,
                   from + (size_t)((p * s->h + top + y) * s->w + left) * c->pixel, row);
}

/* The old rows that make row y, added up in `line`: w * lanes numbers. */
static void mix_rows_u8(const trm_augment *c, const stage *s, const unsigned char *plane, int64_t y,
                        float *line) {
    int64_t n = s->w * c->lanes, k = s->rows.taps;
    const unsigned char *row = plane + s->rows.first[y] * n;
    const float *weight = s->rows.weight + y * k;
    for (int64_t i = 0; i < n; i++) line[i] = weight[0] * (float)row[i];
    for (int64_t t = 1; t < k; t++)
        for (int64_t i = 0; i < n; i++) line[i] += weight[t] * (float)row[t * n + i];
}

static void mix_rows_f32(const trm_augment *c, const stage *s, const float *plane, int64_t y, float *line) {
    int64_t n = s->w * c->lanes, k = s->rows.taps;
    const float *row = plane + s->rows.first[y] * n;
    const float *weight = s->rows.weight + y * k;
    for (int64_t i = 0; i < n; i++) line[i] = weight[0] * row[i];
    for (int64_t t = 1; t < k; t++)
        for (int64_t i = 0; i < n; i++) line[i] += weight[t] * row[t * n + i];
}

/* Lane `lane` of new pixel x out of a mixed line. */
static float mix_pixel(const trm_augment *c, const stage *s, const float *line, int64_t x, int64_t lane) {
    int64_t k = s->columns.taps;
    const float *weight = s->columns.weight + x * k, *at = line + s->columns.first[x] * c->lanes + lane;
    float sum = weight[0] * at[0];
    for (int64_t t = 1; t < k; t++) sum += weight[t] * at[t * c->lanes];
    return sum;
}

static void resize_u8(const trm_augment *c, const stage *s, const unsigned char *from, unsigned char *to,
                      float *line) {
    for (int64_t p = 0; p < c->planes; p++)
        for (int64_t y = 0; y < s->to_h; y++) {
            mix_rows_u8(c, s, from + p * s->h * s->w * c->lanes, y, line);
            for (int64_t x = 0; x < s->to_w; x++)
                for (int64_t lane = 0; lane < c->lanes; lane++)
                    *to++ = (unsigned char)(mix_pixel(c, s, line, x, lane) + 0.5f);
        }
}

static void resize_f32(const trm_augment *c, const stage *s, const float *from, float *to, float *line) {
    for (int64_t p = 0; p < c->planes; p++)
        for (int64_t y = 0; y < s->to_h; y++) {
            mix_rows_f32(c, s, from + p * s->h * s->w * c->lanes, y, line);
            for (int64_t x = 0; x < s->to_w; x++)
                for (int64_t lane = 0; lane < c->lanes; lane++) *to++ = mix_pixel(c, s, line, x, lane);
        }
}

static void resize(const trm_augment *c, const stage *s, const char *from, char *to, char *line) {
    if (c->info.x_type == TRM_U8)
        resize_u8(c, s, (const unsigned char *)from, (unsigned char *)to, (float *)line);
    else
        resize_f32(c, s, (const float *)from, (float *)to, (float *)line);
}

/* ---- stages that work in place ---- */

static void flip_rows(const trm_augment *c, const stage *s, char *x, char *line) {
    size_t row = (size_t)s->w * c->pixel;
    for (int64_t p = 0; p < c->planes; p++) {
        char *top = x + (size_t)(p * s->h) * row, *bottom = top + (size_t)(s->h - 1) * row;
        for (; top < bottom; top += row, bottom -= row) {
            memcpy(line, top, row);
            memcpy(top, bottom, row);
            memcpy(bottom, line, row);
        }
    }
}

#define FLIP(name, type)                       \
    static void name(char *row, int64_t w) {   \
        type *a = (type *)row, *b = a + w - 1; \
        for (; a < b; a++, b--) {              \
            type held = *a;                    \
            *a = *b;                           \
            *b = held;                         \
        }                                      \
    }
FLIP(flip_1, unsigned char)
FLIP(flip_4, uint32_t)

static void flip_any(char *row, int64_t w, size_t pixel, char *held) {
    char *a = row, *b = row + (size_t)(w - 1) * pixel;
    for (; a < b; a += pixel, b -= pixel) {
        memcpy(held, a, pixel);
        memcpy(a, b, pixel);
        memcpy(b, held, pixel);
    }
}

static void flip_columns(const trm_augment *c, const stage *s, char *x, char *line) {
    size_t row = (size_t)s->w * c->pixel;
    int64_t rows = c->planes * s->h;
    for (int64_t i = 0; i < rows; i++, x += row) {
        if (c->pixel == 1)
            flip_1(x, s->w);
        else if (c->pixel == 4)
            flip_4(x, s->w);
        else
            flip_any(x, s->w, c->pixel, line);
    }
}

/* A rectangle whose share of the image and whose shape are drawn, as often as it takes to fit in. */
static bool draw_hole(const stage *s, const trm_rng_key *key, int64_t *h, int64_t *w) {
    double low = log(s->t.ratio[0]), high = log(s->t.ratio[1]), image = (double)(s->h * s->w);
    for (uint64_t k = 1; k <= ERASE_TRIES; k++) {
        double share = s->t.area[0] + trm_rng_uniform(key, 4 * k) * (s->t.area[1] - s->t.area[0]);
        double ratio = exp(low + trm_rng_uniform(key, 4 * k + 1) * (high - low));
        *h = (int64_t)(sqrt(share * image * ratio) + 0.5);
        *w = (int64_t)(sqrt(share * image / ratio) + 0.5);
        if (*h >= 1 && *w >= 1 && *h <= s->h && *w <= s->w) return true;
    }
    return false;
}

static int64_t draw_place(const trm_rng_key *key, int which, int64_t places) {
    return (int64_t)trm_rng_below(key, PLACE_DRAW / 2 + (uint64_t)which, (uint64_t)places);
}

static void erase(const trm_augment *c, const stage *s, const trm_rng_key *key, char *x) {
    int64_t h, w;
    if (!draw_hole(s, key, &h, &w)) return;
    int64_t top = draw_place(key, 0, s->h - h + 1), left = draw_place(key, 1, s->w - w + 1);
    for (int64_t p = 0; p < c->planes; p++)
        for (int64_t y = 0; y < h; y++)
            fill(c, x + (size_t)((p * s->h + top + y) * s->w + left) * c->pixel, w, s->t.value);
}

/* ---- a sample through the chain ---- */

static bool moves(const stage *s) { return s->t.kind != TRM_FLIP && s->t.kind != TRM_ERASE; }

/* key NULL: the middle. */
static void move(const trm_augment *c, const stage *s, const trm_rng_key *key, const char *from, char *to,
                 char *line) {
    int64_t down = s->h - s->to_h, right = s->w - s->to_w;
    switch (s->t.kind) {
    case TRM_RESIZE: resize(c, s, from, to, line); break;
    case TRM_PAD: pad(c, s, from, to); break;
    case TRM_CROP:
        if (key)
            crop(c, s, draw_place(key, 0, down + 1), draw_place(key, 1, right + 1), from, to);
        else
            crop(c, s, down / 2, right / 2, from, to);
        break;
    default: crop(c, s, down / 2, right / 2, from, to); break;
    }
}

static void change(const trm_augment *c, const stage *s, const trm_rng_key *key, char *x, char *line) {
    if (!key || trm_rng_uniform(key, 0) >= s->t.p) return;
    if (s->t.kind == TRM_ERASE)
        erase(c, s, key, x);
    else if (s->t.vertical)
        flip_rows(c, s, x, line);
    else
        flip_columns(c, s, x, line);
}

/* `raw` is worked on and left in any state. scratch: two images and a line. */
static void run_one(const trm_augment *c, const trm_draw *draw, int64_t sample, char *raw, char *x,
                    char *scratch) {
    char *at = raw, *line = scratch + 2 * c->most;
    int turn = 0;
    if (c->last_move < 0 && raw != x) memcpy(x, raw, c->raw);
    if (c->last_move < 0) at = x;
    for (int i = 0; i < c->n; i++) {
        const stage *s = &c->stage[i];
        trm_rng_key key = {.purpose = TRM_RNG_AUGMENT, .layer = s->number, .sample = (uint64_t)sample};
        if (draw) key.seed = draw->seed, key.update = (uint64_t)draw->epoch;
        const trm_rng_key *drawn = draw && s->random ? &key : NULL;
        if (!moves(s)) {
            change(c, s, drawn, at, line);
            continue;
        }
        char *to = i == c->last_move ? x : scratch + (size_t)(turn ^= 1) * c->most;
        move(c, s, drawn, at, to, line);
        at = to;
    }
}

size_t trm_augment_scratch(const trm_augment *c) { return 2 * c->most + c->line; }

bool trm_augment_in_place(const trm_augment *c) { return c->last_move < 0; }

size_t trm_augment_raw(const trm_augment *c) { return c->raw; }

const trm_data_info *trm_augment_info(const trm_augment *c) { return &c->info; }

void trm_augment_run(const trm_augment *c, const trm_draw *draw, const int64_t *sample, int64_t n, char *raw,
                     char *x, char *scratch) {
    for (int64_t i = 0; i < n; i++)
        run_one(c, draw, sample[i], raw + (size_t)i * c->raw, x + i * c->info.x_stride, scratch);
}

/* ---- reading without a feed ---- */

trm_status trm_dataset_read(trm_dataset *d, const int64_t *sample, int64_t n, void *x, void *y) {
    const trm_augment *c = d->augment;
    if (!c || c->last_move < 0) return trm_dataset_read_raw(d, sample, n, x, y);
    for (int64_t i = 0; i < n; i++) {
        char *to_y = y ? (char *)y + i * d->info.y_stride : NULL;
        TRM_TRY(trm_dataset_read_raw(d, &sample[i], 1, c->own, to_y));
        trm_augment_run(c, NULL, &sample[i], 1, c->own, (char *)x + i * c->info.x_stride, c->own + c->most);
    }
    return TRM_OK;
}

/* ---- planning ---- */

static const char *const kind_names[] = {[TRM_RESIZE] = "resize", [TRM_CENTER_CROP] = "center_crop",
                                         [TRM_PAD] = "pad",       [TRM_CROP] = "crop",
                                         [TRM_FLIP] = "flip",     [TRM_ERASE] = "erase"};

const char *trm_transform_name(trm_transform_kind k) { return kind_names[k]; }

static const char *list_name(const stage *s) { return s->random ? "data.augment" : "data.transform"; }

/* Bilinear, as if the corners of the pixel squares lay on each other; no smoothing where it gets smaller. */
static void bilinear(int64_t n, int64_t m, taps *t) {
    for (int64_t i = 0; i < m; i++) {
        double at = ((double)i + 0.5) * (double)n / (double)m - 0.5;
        if (at < 0) at = 0;
        int64_t first = trm_min64((int64_t)at, n - 1);
        double part = at - (double)first;
        /* The last pixel is its own neighbour. */
        if (first > n - t->taps) {
            first = n - t->taps;
            part = 1;
        }
        t->first[i] = first;
        t->weight[i * t->taps] = t->taps == 1 ? 1 : (float)(1 - part);
        if (t->taps > 1) t->weight[i * t->taps + 1] = (float)part;
    }
}

/* Where the old pixels under new pixel i begin and end. */
static int64_t area_first(int64_t n, int64_t m, int64_t i) { return i * n / m; }
static int64_t area_end(int64_t n, int64_t m, int64_t i) { return ((i + 1) * n + m - 1) / m; }

static int64_t area_taps(int64_t n, int64_t m) {
    int64_t most = 1;
    for (int64_t i = 0; i < m; i++) most = trm_max64(most, area_end(n, m, i) - area_first(n, m, i));
    return most;
}

static void area(int64_t n, int64_t m, taps *t) {
    for (int64_t i = 0; i < m; i++) {
        int64_t first = area_first(n, m, i), count = area_end(n, m, i) - first;
        /* Taps that are not needed have weight 0, and lie within the image too. */
        t->first[i] = trm_min64(first, n - t->taps);
        for (int64_t k = 0; k < count; k++)
            t->weight[i * t->taps + first - t->first[i] + k] = 1 / (float)count;
    }
}

static trm_status plan_taps(const stage *s, int64_t n, int64_t m, taps *t) {
    t->taps = s->t.area_mean ? area_taps(n, m) : trm_min64(n, 2);
    t->first = trm_alloc_array((size_t)m, sizeof *t->first, "resizing");
    t->weight = trm_alloc_array((size_t)m, (size_t)t->taps * sizeof *t->weight, "resizing");
    if (!t->first || !t->weight) return TRM_MEMORY;
    if (s->t.area_mean)
        area(n, m, t);
    else
        bilinear(n, m, t);
    return TRM_OK;
}

static trm_status plan_resize(stage *s) {
    TRM_TRY(plan_taps(s, s->h, s->to_h, &s->rows));
    return plan_taps(s, s->w, s->to_w, &s->columns);
}

static trm_status check_crop(const trm_dataset *d, const stage *s) {
    if (s->to_h <= s->h && s->to_w <= s->w) return TRM_OK;
    trm_status r = trm_fail(TRM_DATA, "%s: '%s' images are %lldx%lld where %s of %s takes %lldx%lld of them",
                            d->file[0].path, d->x.name, (long long)s->h, (long long)s->w,
                            kind_names[s->t.kind], list_name(s), (long long)s->to_h, (long long)s->to_w);
    trm_hint("a smaller %s, or a `pad` or `resize` before it", kind_names[s->t.kind]);
    return r;
}

/* A byte holds whole numbers only. */
static trm_status check_value(const trm_dataset *d, const stage *s) {
    double v = s->t.value;
    if (d->info.x_type != TRM_U8 || (v >= 0 && v <= 255 && v == floor(v))) return TRM_OK;
    return trm_fail(TRM_DATA, "%s: '%s' holds uint8, but %s of %s has the value %g; allowed are 0 to 255",
                    d->file[0].path, d->x.name, kind_names[s->t.kind], list_name(s), v);
}

/* Targets that are pictures or sequences too would have to go the same way.  Other sizes and holes move nothing. */
static trm_status check_target(const trm_dataset *d, const stage *s) {
    char shape[80];
    if (!d->has_y || d->info.y.rank < 2 || s->t.kind == TRM_RESIZE || s->t.kind == TRM_ERASE) return TRM_OK;
    trm_status r = trm_fail(TRM_DATA, "%s: %s of %s would move '%s', but not its targets of shape %s",
                            d->file[0].path, kind_names[s->t.kind], list_name(s), d->x.name,
                            trm_shape_text(&d->info.y, shape, sizeof shape));
    trm_hint("leave it out; `resize` and `erase` move nothing");
    return r;
}

static void size_behind(stage *s) {
    s->to_h = s->t.kind == TRM_PAD ? s->h + 2 * s->t.size[0] : moves(s) ? s->t.size[0] : s->h;
    s->to_w = s->t.kind == TRM_PAD ? s->w + 2 * s->t.size[1] : moves(s) ? s->t.size[1] : s->w;
}

static trm_status grow_most(const trm_dataset *d, trm_augment *c, const stage *s) {
    size_t bytes;
    bool fits = s->to_h <= MOST_SIDE && s->to_w <= MOST_SIDE &&
                trm_mul_size((size_t)(s->to_h * s->to_w), (size_t)c->planes * c->pixel, &bytes) &&
                bytes <= TRM_GIB / 2;
    if (!fits)
        return trm_fail(TRM_DATA, "%s: '%s': %s of %s makes images of %lldx%lld, which are too large",
                        d->file[0].path, d->x.name, kind_names[s->t.kind], list_name(s), (long long)s->to_h,
                        (long long)s->to_w);
    if (bytes > c->most) c->most = bytes;
    size_t line = (size_t)trm_max64(s->w, s->to_w) * (size_t)c->lanes * sizeof(float);
    if (line > c->line) c->line = line;
    return TRM_OK;
}

static trm_status add_stage(const trm_dataset *d, trm_augment *c, const trm_transform *t, int number,
                            bool random) {
    if (c->n == MOST_STAGES) return trm_fail(TRM_DATA, "more than %d transforms", MOST_STAGES);
    stage *s = &c->stage[c->n];
    const trm_shape *x = &c->info.x;
    *s = (stage){.t = *t, .random = random, .number = (uint32_t)number, .h = x->dim[1], .w = x->dim[2]};
    size_behind(s);
    TRM_TRY(check_target(d, s));
    if (s->t.kind == TRM_CROP || s->t.kind == TRM_CENTER_CROP) TRM_TRY(check_crop(d, s));
    if (s->t.kind == TRM_PAD || s->t.kind == TRM_ERASE) TRM_TRY(check_value(d, s));
    TRM_TRY(grow_most(d, c, s));
    if (moves(s)) c->last_move = c->n;
    c->n++;
    if (s->t.kind == TRM_RESIZE) TRM_TRY(plan_resize(s));
    c->info.x = trm_shape_of(3, x->dim[0], s->to_h, s->to_w);
    return TRM_OK;
}

static trm_status check_images(const trm_dataset *d, const char *list) {
    char shape[80];
    const trm_data_info *info = &d->info;
    if (info->kind != TRM_DATA_SAMPLES || info->x.rank != 3) {
        trm_status s =
            trm_fail(TRM_DATA, "%s: '%s' samples are %s, but %s is for images (C,H,W)", d->file[0].path,
                     d->x.name, trm_shape_text(&info->x, shape, sizeof shape), list);
        if (info->kind == TRM_DATA_SAMPLES && info->x.rank == 2)
            trm_hint("`data.shape: [1, %lld, %lld]`", (long long)info->x.dim[0], (long long)info->x.dim[1]);
        return s;
    }
    if (info->x_type == TRM_U8 || info->x_type == TRM_F32) return TRM_OK;
    return trm_fail(TRM_DATA, "%s: '%s' is %s, but %s is for uint8 and float32", d->file[0].path, d->x.name,
                    trm_dtype_name(info->x_type), list);
}

static trm_status plan_augment(trm_dataset *d, trm_augment *c, const trm_transform *fixed, int n_fixed,
                               const trm_transform *random, int n_random) {
    TRM_TRY(check_images(d, n_fixed > 0 ? "data.transform" : "data.augment"));
    c->info = d->info;
    c->last_move = -1;
    c->raw = c->most = (size_t)d->info.x_stride;
    c->item = trm_dtype_size(d->info.x_type);
    c->lanes = d->info.x_hwc ? d->info.x.dim[0] : 1;
    c->planes = d->info.x_hwc ? 1 : d->info.x.dim[0];
    c->pixel = c->item * (size_t)c->lanes;
    for (int i = 0; i < n_fixed; i++) TRM_TRY(add_stage(d, c, &fixed[i], i, false));
    for (int i = 0; i < n_random; i++) TRM_TRY(add_stage(d, c, &random[i], i, true));
    c->info.x_stride = trm_shape_count(&c->info.x) * (int64_t)c->item;
    c->most = trm_round_up(c->most, TRM_ALIGN);
    c->own = trm_alloc(c->most + trm_augment_scratch(c), "transforms of a sample");
    return c->own ? TRM_OK : TRM_MEMORY;
}

void trm_augment_free(trm_augment *c) {
    if (!c) return;
    for (int i = 0; i < c->n; i++) {
        trm_free(c->stage[i].rows.first);
        trm_free(c->stage[i].rows.weight);
        trm_free(c->stage[i].columns.first);
        trm_free(c->stage[i].columns.weight);
    }
    trm_free(c->own);
    trm_free(c);
}

trm_status trm_dataset_transform(trm_dataset *d, const trm_transform *fixed, int n_fixed,
                                 const trm_transform *random, int n_random) {
    if (n_fixed + n_random == 0) return TRM_OK;
    trm_augment *c = trm_alloc(sizeof *c, "transforms");
    if (!c) return TRM_MEMORY;
    trm_status s = plan_augment(d, c, fixed, n_fixed, random, n_random);
    if (s != TRM_OK) {
        trm_augment_free(c);
        return s;
    }
    trm_augment_free(d->augment);
    d->augment = c;
    return TRM_OK;
}
