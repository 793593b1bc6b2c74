/* synth: data sets that are made, not found, and can be learnt.  Each sample is a pure function of (kind, seed, its
 * index), so that a longer set begins with a shorter one. */
#include "data_impl.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 1000 /* samples made and written together */
#define CLASSES 10

/* A stream of random numbers of one sample. */
typedef struct dice {
    trm_rng_key key;
    uint64_t next;
} dice;

static dice dice_of(const trm_synth_spec *spec, uint64_t sample) {
    return (dice){
        .key = {
            .seed = spec->seed, .purpose = TRM_RNG_SYNTH, .layer = (uint32_t)spec->kind, .sample = sample}};
}

static double between(dice *d, double low, double high) {
    return low + (high - low) * trm_rng_uniform(&d->key, d->next++);
}

static int pick(dice *d, int n) { return (int)between(d, 0, n); }

static unsigned char to_byte(double v) { return v <= 0 ? 0 : v >= 255 ? 255 : (unsigned char)(v + 0.5); }

/* Noise of [-most, most] on n bytes, four from each block of random words. */
static void add_noise(dice *d, double most, unsigned char *p, int n) {
    uint32_t word[4] = {0};
    uint64_t block = d->next / 4 + 1;
    for (int i = 0; i < n; i++) {
        if (i % 4 == 0) trm_rng_block(&d->key, block++, word);
        p[i] = to_byte(p[i] + most * (word[i % 4] * 0x1p-31 - 1));
    }
    d->next = 4 * block;
}

/* ---- digits: pen strokes on 28 x 28, shifted, slanted, stretched, shaky ---- */

#define SIDE 28
#define MOST_POINTS 9

/* Corners of the stroke in a box of one by one, y downwards. */
static const struct {
    int n;
    double at[MOST_POINTS][2];
} stroke[CLASSES] = {
    {7, {{.5, 0}, {.85, .2}, {.85, .8}, {.5, 1}, {.15, .8}, {.15, .2}, {.5, 0}}},
    {3, {{.3, .2}, {.55, 0}, {.55, 1}}},
    {6, {{.15, .2}, {.5, 0}, {.85, .2}, {.8, .45}, {.15, 1}, {.85, 1}}},
    {7, {{.15, .1}, {.6, 0}, {.85, .22}, {.5, .48}, {.85, .75}, {.55, 1}, {.15, .9}}},
    {4, {{.65, 1}, {.65, 0}, {.1, .65}, {.9, .65}}},
    {7, {{.85, 0}, {.2, 0}, {.2, .45}, {.6, .4}, {.85, .7}, {.55, 1}, {.15, .92}}},
    {7, {{.75, 0}, {.3, .35}, {.15, .75}, {.5, 1}, {.85, .75}, {.5, .5}, {.18, .7}}},
    {3, {{.15, 0}, {.85, 0}, {.4, 1}}},
    {9, {{.5, .48}, {.2, .25}, {.5, 0}, {.8, .25}, {.5, .48}, {.15, .75}, {.5, 1}, {.85, .75}, {.5, .48}}},
    {7, {{.82, .3}, {.5, .5}, {.15, .28}, {.45, 0}, {.85, .2}, {.8, .6}, {.6, 1}}},
};

static double to_segment(double x, double y, const double *a, const double *b) {
    double dx = b[0] - a[0], dy = b[1] - a[1], length = dx * dx + dy * dy;
    double t = length > 0 ? ((x - a[0]) * dx + (y - a[1]) * dy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    dx = x - a[0] - t * dx;
    dy = y - a[1] - t * dy;
    return sqrt(dx * dx + dy * dy);
}

static int place_stroke(dice *d, int digit, double at[MOST_POINTS][2]) {
    double height = between(d, 15, 21), width = height * between(d, .55, .8), slant = between(d, -.25, .25);
    double cx = SIDE / 2.0 + between(d, -3, 3), cy = SIDE / 2.0 + between(d, -2.5, 2.5);
    for (int i = 0; i < stroke[digit].n; i++) {
        double x = stroke[digit].at[i][0] - .5 + between(d, -.05, .05);
        double y = stroke[digit].at[i][1] - .5 + between(d, -.05, .05);
        at[i][0] = cx + width * x - height * slant * y;
        at[i][1] = cy + height * y;
    }
    return stroke[digit].n;
}

static void draw_digit(dice *d, int digit, unsigned char *image) {
    double at[MOST_POINTS][2];
    int n = place_stroke(d, digit, at);
    double radius = between(d, .8, 1.8), ink = between(d, 170, 255);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            double near = SIDE;
            for (int i = 1; i < n; i++) near = fmin(near, to_segment(x + .5, y + .5, at[i - 1], at[i]));
            double cover = radius + .5 - near;
            image[y * SIDE + x] = to_byte(ink * (cover < 0 ? 0 : cover > 1 ? 1 : cover));
        }
    add_noise(d, 30, image, SIDE * SIDE);
}

/* ---- images: five figures, plain or striped, on 3 x 32 x 32 ---- */

#define IMAGE_SIDE 32

static bool inside(int figure, double x, double y) {
    double ax = fabs(x), ay = fabs(y), r = x * x + y * y;
    switch (figure) {
    case 0: return r < 1;                                        /* disc */
    case 1: return ax < .85 && ay < .85;                         /* square */
    case 2: return y < .8 && ay < 1 && ax < (y + 1) * .55;       /* triangle */
    case 3: return (ax < .33 && ay < 1) || (ay < .33 && ax < 1); /* cross */
    default: return r < 1 && r > .36;                            /* ring */
    }
}

/* Two colours that differ well in brightness. */
static void pick_colours(dice *d, double back[3], double fore[3]) {
    bool dark = pick(d, 2);
    for (int c = 0; c < 3; c++) {
        back[c] = dark ? between(d, 10, 110) : between(d, 145, 245);
        fore[c] = dark ? between(d, 145, 245) : between(d, 10, 110);
    }
}

static void draw_image(dice *d, int label, unsigned char *image) {
    double back[3], fore[3], size = between(d, 8, 13);
    double cx = IMAGE_SIDE / 2.0 + between(d, -3, 3), cy = IMAGE_SIDE / 2.0 + between(d, -3, 3);
    int phase = pick(d, 4);
    pick_colours(d, back, fore);
    for (int y = 0; y < IMAGE_SIDE; y++)
        for (int x = 0; x < IMAGE_SIDE; x++) {
            bool ink = inside(label / 2, (x + .5 - cx) / size, (y + .5 - cy) / size);
            if (label % 2 && (y + phase) % 4 < 2) ink = false;
            for (int c = 0; c < 3; c++)
                image[(c * IMAGE_SIDE + y) * IMAGE_SIDE + x] = to_byte(ink ? fore[c] : back[c]);
        }
    add_noise(d, 35, image, 3 * IMAGE_SIDE * IMAGE_SIDE);
}

/* ---- tokens: a text of few words, each of which is followed by one of four ---- */

#define WORDS 48
#define WORD_BYTES 8

typedef struct text_model {
    char word[WORDS][WORD_BYTES + 1];
    int next[WORDS][4];
} text_model;

static void make_text_model(const trm_synth_spec *spec, text_model *m) {
    static const char vowel[] = "aeiou", consonant[] = "bdfgklmnprstvz";
    for (int w = 0; w < WORDS; w++) {
        dice d = dice_of(spec, (uint64_t)1 << 40 | (unsigned)w);
        int n = 2 + pick(&d, WORD_BYTES - 2);
        for (int i = 0; i < n; i++) m->word[w][i] = i % 2 ? vowel[pick(&d, 5)] : consonant[pick(&d, 14)];
        for (int k = 0; k < 4; k++) m->next[w][k] = pick(&d, WORDS);
    }
}

static int next_word(const text_model *m, dice *d, int word) {
    double u = between(d, 0, 1);
    return m->next[word][u < .55 ? 0 : u < .8 ? 1 : u < .93 ? 2 : 3];
}

/* Writes n bytes that go on behind those before. */
static void go_on(const text_model *m, dice *d, int *word, int *letter, unsigned char *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        char c = m->word[*word][*letter];
        to[i] = c ? (unsigned char)c : ' ';
        ++*letter;
        if (c) continue;
        *letter = 0;
        *word = next_word(m, d, *word);
    }
}

/* ---- vectors: a small fixed network is the teacher ---- */

#define FEATURES 16
#define HIDDEN 8

static double teach(const trm_synth_spec *spec, const float *x) {
    trm_rng_key key = {.seed = spec->seed, .purpose = TRM_RNG_SYNTH, .layer = 100};
    double y = 0;
    for (int h = 0; h < HIDDEN; h++) {
        double sum = 0;
        for (int i = 0; i < FEATURES; i++)
            sum += trm_rng_normal(&key, (uint64_t)(h * FEATURES + i)) * x[i] / 4;
        y += trm_rng_normal(&key, (uint64_t)(HIDDEN * FEATURES + h)) * tanh(sum);
    }
    return y;
}

static void make_vector(const trm_synth_spec *spec, int64_t at, float *x, float *y) {
    dice d = dice_of(spec, (uint64_t)at);
    for (int i = 0; i < FEATURES; i++) x[i] = (float)trm_rng_normal(&d.key, (uint64_t)i);
    *y = (float)teach(spec, x);
}

/* ---- files ---- */

typedef struct plan {
    const trm_synth_spec *spec;
    trm_dtype x_type;
    trm_shape x;                 /* with the samples first */
    const char *x_name, *y_name; /* y_name NULL: tokens */
    trm_dtype y_type;
    trm_shape y;
    int64_t chunk;
} plan;

static plan plan_of(const trm_synth_spec *spec) {
    int64_t n = spec->samples;
    plan p = {.spec = spec,
              .x_type = TRM_U8,
              .x_name = "data",
              .y_name = "label",
              .y_type = TRM_U8,
              .y = trm_shape_of(1, n)};
    p.chunk = spec->chunk > 0 ? spec->chunk : spec->deflate > 0 ? 256 : 0;
    switch (spec->kind) {
    case TRM_SYNTH_DIGITS: p.x = trm_shape_of(4, n, 1, SIDE, SIDE); break;
    case TRM_SYNTH_IMAGES: p.x = trm_shape_of(4, n, 3, IMAGE_SIDE, IMAGE_SIDE); break;
    case TRM_SYNTH_TOKENS:
        p.x = trm_shape_of(1, n);
        p.x_name = "tokens";
        p.y_name = NULL;
        p.chunk = spec->chunk > 0 ? spec->chunk : spec->deflate > 0 ? 65536 : 0;
        break;
    case TRM_SYNTH_VECTORS:
        p.x = trm_shape_of(2, n, FEATURES);
        p.x_type = p.y_type = TRM_F32;
        p.y = trm_shape_of(2, n, 1);
        p.y_name = "targets";
        break;
    }
    if (p.chunk > n) p.chunk = n;
    return p;
}

static void make_sample(const plan *p, int64_t at, void *x, void *y) {
    if (p->spec->kind == TRM_SYNTH_VECTORS) {
        make_vector(p->spec, at, x, y);
        return;
    }
    dice d = dice_of(p->spec, (uint64_t)at);
    int label = pick(&d, CLASSES);
    *(unsigned char *)y = (unsigned char)label;
    if (p->spec->kind == TRM_SYNTH_DIGITS)
        draw_digit(&d, label, x);
    else
        draw_image(&d, label, x);
}

static trm_status write_samples(const plan *p, trm_h5_file *f, char *x, char *y, size_t x_row, size_t y_row) {
    for (int64_t at = 0; at < p->spec->samples; at += BLOCK) {
        int64_t n = trm_min64(BLOCK, p->spec->samples - at);
        for (int64_t i = 0; i < n; i++) make_sample(p, at + i, x + (size_t)i * x_row, y + (size_t)i * y_row);
        TRM_TRY(trm_h5_put(f, p->x_name, p->x_type, at, n, x_row, x));
        TRM_TRY(trm_h5_put(f, p->y_name, p->y_type, at, n, y_row, y));
    }
    return TRM_OK;
}

static trm_status write_tokens(const plan *p, trm_h5_file *f, unsigned char *buf, int64_t room) {
    text_model m = {0};
    dice d = dice_of(p->spec, 0);
    int word = 0, letter = 0;
    make_text_model(p->spec, &m);
    for (int64_t at = 0; at < p->spec->samples; at += room) {
        int64_t n = trm_min64(room, p->spec->samples - at);
        go_on(&m, &d, &word, &letter, buf, n);
        TRM_TRY(trm_h5_put(f, p->x_name, p->x_type, at, n, 1, buf));
    }
    return TRM_OK;
}

static size_t row_bytes(const trm_shape *s, trm_dtype t) {
    return (size_t)(trm_shape_count(s) / s->dim[0]) * trm_dtype_size(t);
}

static trm_status write_all(const plan *p, trm_h5_file *f) {
    size_t x_row = row_bytes(&p->x, p->x_type), y_row = row_bytes(&p->y, p->y_type);
    TRM_TRY(trm_h5_make(f, p->x_name, p->x_type, &p->x, p->chunk, p->spec->deflate, false));
    if (p->y_name) TRM_TRY(trm_h5_make(f, p->y_name, p->y_type, &p->y, 0, 0, false));
    size_t room = p->y_name ? BLOCK * (x_row + y_row) : TRM_MIB;
    char *buf = trm_alloc(room, "samples being made");
    if (!buf) return TRM_MEMORY;
    trm_status s = p->y_name ? write_samples(p, f, buf, buf + BLOCK * x_row, x_row, y_row)
                             : write_tokens(p, f, (unsigned char *)buf, (int64_t)room);
    trm_free(buf);
    return s;
}

static trm_status fill(trm_h5_file *f, const void *ctx) { return write_all(ctx, f); }

trm_status trm_synth(const trm_synth_spec *spec, const char *out) {
    if (spec->samples < 1)
        return trm_fail(TRM_USAGE, "%lld samples to be made, at least 1 expected", (long long)spec->samples);
    if (spec->deflate < 0 || spec->deflate > 9)
        return trm_fail(TRM_USAGE, "deflate level %d, 0 to 9 expected", spec->deflate);
    if ((unsigned)spec->kind > TRM_SYNTH_VECTORS || spec->chunk < 0)
        return trm_fail(TRM_USAGE, "an unknown kind of data or chunk to be made");
    plan p = plan_of(spec);
    if (!trm_shape_valid(&p.x))
        return trm_fail(TRM_USAGE, "%lld samples are too many", (long long)spec->samples);
    return trm_h5_replace(out, fill, &p);
}
