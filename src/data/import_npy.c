/* import_npy: numpy's arrays, alone (.npy) or in a zip archive (.npz).
 *
 * Values keep their type.  The head of an array is a line of Python that is read here as what it is: three keys, nothing else. */
#include "make_impl.h"
#include <ctype.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#define HEAD_LIMIT TRM_MIB
#define FORTRAN_BLOCK (16 * TRM_MIB)

/* An array that is read from its beginning: bytes of a file, or of a member of an archive. */
typedef struct array {
    char *name; /* for sentences */
    int fd;
    zip_file_t *member;
    int64_t at, bytes; /* read so far; all there are, head included */
    trm_dtype type;
    bool swap, fortran;
    int rank;
    int64_t dim[TRM_MAX_DIMS];
    const char *set; /* its name in the new file */
} array;

/* ---- bytes ---- */

static trm_status take(array *a, void *dst, size_t n) {
    if ((int64_t)n > a->bytes - a->at)
        return trm_fail(TRM_DATA, "%s: ends %lld bytes early", a->name,
                        (long long)((int64_t)n - (a->bytes - a->at)));
    if (a->fd >= 0) TRM_TRY(trm_pread_all(a->fd, a->name, dst, n, (uint64_t)a->at));
    for (size_t done = 0; a->fd < 0 && done < n;) {
        zip_int64_t got = zip_fread(a->member, (char *)dst + done, n - done);
        if (got < 0) return trm_fail(TRM_DATA, "%s: damaged: %s", a->name, zip_file_strerror(a->member));
        if (got == 0) return trm_fail(TRM_DATA, "%s: ends %zu bytes early", a->name, n - done);
        done += (size_t)got;
    }
    a->at += (int64_t)n;
    return TRM_OK;
}

static void close_array(array *a) {
    if (a->fd >= 0) close(a->fd);
    if (a->member) zip_fclose(a->member);
    trm_free(a->name);
    *a = (array){.fd = -1};
}

/* ---- the head ---- */

static trm_status bad_head(const array *a, const char *what) {
    return trm_fail(TRM_DATA, "%s: its head cannot be read: %s", a->name, what);
}

static const char *skip(const char *p) {
    while (*p == ' ' || *p == '\n') p++;
    return p;
}

/* 'text' or "text" into buf; NULL where it is none. */
static const char *quoted(const char *p, char *buf, size_t cap) {
    char q = *p;
    if (q != '\'' && q != '"') return NULL;
    const char *end = strchr(++p, q);
    if (!end || (size_t)(end - p) >= cap) return NULL;
    memcpy(buf, p, (size_t)(end - p));
    buf[end - p] = '\0';
    return end + 1;
}

static trm_status set_type(array *a, const char *descr) {
    static const struct {
        const char *code;
        trm_dtype type;
    } known[] = {{"u1", TRM_U8},  {"i1", TRM_I8},  {"b1", TRM_U8},  {"u2", TRM_U16},
                 {"i2", TRM_I16}, {"u4", TRM_U32}, {"i4", TRM_I32}, {"u8", TRM_U64},
                 {"i8", TRM_I64}, {"f2", TRM_F16}, {"f4", TRM_F32}, {"f8", TRM_F64}};
    if (strchr("<>=|", descr[0]) && descr[0])
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            if (strcmp(descr + 1, known[i].code) != 0) continue;
            a->type = known[i].type;
            a->swap = descr[0] == '>' && trm_dtype_size(a->type) > 1;
            return TRM_OK;
        }
    trm_fail(TRM_DATA,
             "%s: holds elements of type '%.20s'; allowed are booleans, integers and floats of 2 to 8 bytes",
             a->name, descr);
    trm_hint("convert it: numpy.save(name, array.astype('float32'))");
    return TRM_DATA;
}

static trm_status read_type(array *a, const char **p) {
    char descr[64];
    if (**p == '[')
        return trm_fail(TRM_DATA, "%s: is a structured array; save its fields as arrays of their own",
                        a->name);
    *p = quoted(*p, descr, sizeof descr);
    return *p ? set_type(a, descr) : bad_head(a, "no type behind 'descr'");
}

static trm_status read_order(array *a, const char **p) {
    a->fortran = strncmp(*p, "True", 4) == 0;
    if (!a->fortran && strncmp(*p, "False", 5) != 0)
        return bad_head(a, "'fortran_order' is neither True nor False");
    *p += a->fortran ? 4 : 5;
    return TRM_OK;
}

static trm_status read_shape(array *a, const char **p) {
    if (*(*p)++ != '(') return bad_head(a, "'shape' is no tuple");
    for (*p = skip(*p); **p != ')'; *p = skip(*p)) {
        int64_t v = 0;
        if (!isdigit((unsigned char)**p)) return bad_head(a, "'shape' is no tuple of numbers");
        for (; isdigit((unsigned char)**p); (*p)++)
            if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, **p - '0', &v))
                return bad_head(a, "a number of 'shape' is too large");
        if (a->rank == TRM_MAX_DIMS)
            return trm_fail(TRM_DATA, "%s: has more than %d dimensions", a->name, TRM_MAX_DIMS);
        a->dim[a->rank++] = v;
        if (**p == 'L') (*p)++;
        *p = skip(*p);
        if (**p == ',') (*p)++;
    }
    (*p)++;
    return TRM_OK;
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } */
static trm_status parse_head(array *a, const char *p) {
    char key[32];
    unsigned seen = 0;
    p = skip(p);
    if (*p++ != '{') return bad_head(a, "it is no dictionary");
    for (p = skip(p); *p != '}'; p = skip(p)) {
        p = quoted(p, key, sizeof key);
        if (!p || *(p = skip(p)) != ':') return bad_head(a, "a key is damaged");
        p = skip(p + 1);
        unsigned bit = strcmp(key, "descr") == 0           ? 1
                       : strcmp(key, "fortran_order") == 0 ? 2
                       : strcmp(key, "shape") == 0         ? 4
                                                           : 0;
        if (bit == 0 || (seen & bit)) return bad_head(a, "a key is unknown or there twice");
        seen |= bit;
        TRM_TRY(bit == 1 ? read_type(a, &p) : bit == 2 ? read_order(a, &p) : read_shape(a, &p));
        p = skip(p);
        if (*p == ',')
            p++;
        else if (*p != '}')
            return bad_head(a, "no comma behind a value");
    }
    return seen == 7 ? TRM_OK : bad_head(a, "a key is missing");
}

static trm_status read_head(array *a) {
    unsigned char start[12];
    TRM_TRY(take(a, start, 8));
    if (memcmp(start, "\x93NUMPY", 6) != 0) {
        trm_fail(TRM_DATA, "%s: not a numpy array: it starts with bytes %02x %02x", a->name, start[0],
                 start[1]);
        if (memcmp(start, "PK\003\004", 4) == 0) trm_hint("this is an archive: `trireme data import npz`");
        return TRM_DATA;
    }
    if (start[6] < 1 || start[6] > 3)
        return trm_fail(TRM_DATA, "%s: is of version %d.%d of the format; allowed are 1 to 3", a->name,
                        start[6], start[7]);
    size_t n = start[6] == 1 ? 2 : 4, length = 0;
    TRM_TRY(take(a, start + 8, n));
    for (size_t i = n; i-- > 0;) length = length << 8 | start[8 + i];
    if (length > HEAD_LIMIT) return bad_head(a, "it claims more than 1 MiB");
    char *text = trm_alloc(length + 1, "a head");
    if (!text) return TRM_MEMORY;
    trm_status s = take(a, text, length);
    if (s == TRM_OK && memchr(text, '\0', length)) s = bad_head(a, "it holds a zero byte");
    if (s == TRM_OK) s = parse_head(a, text);
    trm_free(text);
    return s;
}

static int64_t rows_of(const array *a) { return a->dim[0]; }

static int64_t row_elements(const array *a) {
    int64_t n = 1;
    for (int i = 1; i < a->rank; i++) n *= a->dim[i];
    return n;
}

static trm_status check_size(const array *a) {
    char text[80];
    trm_shape shape = trm_shape_from(a->rank, a->dim);
    if (a->rank == 0) return trm_fail(TRM_DATA, "%s: is a single number, an array expected", a->name);
    if (!trm_shape_valid(&shape))
        return trm_fail(TRM_DATA, "%s: has shape %s, which is empty or too large", a->name,
                        trm_shape_text(&shape, text, sizeof text));
    int64_t want = trm_shape_count(&shape) * (int64_t)trm_dtype_size(a->type), have = a->bytes - a->at;
    if (want != have)
        return trm_fail(TRM_DATA, "%s: has %lld bytes of values; its shape %s needs %lld", a->name,
                        (long long)have, trm_shape_text(&shape, text, sizeof text), (long long)want);
    if (row_elements(a) * (int64_t)trm_dtype_size(a->type) > (int64_t)TRM_GIB)
        return trm_fail(TRM_DATA, "%s: one row is larger than 1 GiB", a->name);
    if (a->rank == 1) return TRM_OK; /* one order for all */
    if (!a->fortran || a->fd >= 0) return TRM_OK;
    trm_fail(TRM_DATA, "%s: lies in Fortran's order inside of an archive; C's order expected", a->name);
    trm_hint("save numpy.ascontiguousarray(array), or the array alone as .npy");
    return TRM_DATA;
}

/* ---- values ---- */

/* Place in a row of C's order of the j-th value of a row in Fortran's. */
static int64_t c_place(const array *a, int64_t j) {
    int64_t place = 0, stride = row_elements(a);
    for (int i = 1; i < a->rank; i++) {
        stride /= a->dim[i];
        place += j % a->dim[i] * stride;
        j /= a->dim[i];
    }
    return place;
}

/* Fortran lays the rows' first values together, then their second ones: n of each are fetched and dealt out. */
static trm_status take_fortran(array *a, int64_t first, int64_t n, char *dst, char *column) {
    size_t size = trm_dtype_size(a->type);
    int64_t elements = row_elements(a);
    for (int64_t j = 0; j < elements; j++) {
        uint64_t at = (uint64_t)a->at + (uint64_t)(j * rows_of(a) + first) * size;
        TRM_TRY(trm_pread_all(a->fd, a->name, column, (size_t)n * size, at));
        char *to = dst + (size_t)c_place(a, j) * size;
        for (int64_t i = 0; i < n; i++)
            memcpy(to + (size_t)(i * elements) * size, column + (size_t)i * size, size);
    }
    return TRM_OK;
}

static trm_status check_values(const array *a, int64_t first, int64_t n, const void *rows) {
    int64_t elements = row_elements(a), at = -1;
    if (trm_dtype_is_float(a->type)) at = trm_first_nonfinite(rows, a->type, n * elements);
    if (at >= 0)
        return trm_fail(TRM_DATA, "%s: a value of row %lld is not finite", a->name,
                        (long long)(first + at / elements));
    return TRM_OK;
}

static trm_status check_labels(const array *a, int64_t first, int64_t n, const void *rows, int64_t *most) {
    for (int64_t i = 0; i < n; i++) {
        int64_t v;
        trm_convert_i64((const char *)rows + (size_t)i * trm_dtype_size(a->type), a->type, 1, &v);
        *most = trm_max64(*most, v);
        if (v >= 0 && v <= INT32_MAX) continue;
        trm_fail(TRM_DATA, "%s: label %lld of row %lld is no class; allowed are whole numbers from 0",
                 a->name, (long long)v, (long long)(first + i));
        trm_hint("`--float-target` takes numbers to regress");
        return TRM_DATA;
    }
    return TRM_OK;
}

/* most: labels are checked, and the largest is kept there; else NULL. */
static trm_status put_values(array *a, trm_h5_file *f, int64_t *most, const trm_tell *tell) {
    size_t size = trm_dtype_size(a->type), row = (size_t)row_elements(a) * size;
    bool fortran = a->fortran && a->rank > 1;
    int64_t rows = rows_of(a), step = trm_max64((int64_t)((fortran ? FORTRAN_BLOCK : TRM_MIB) / row), 1);
    if (step > rows) step = rows;
    trm_shape shape = trm_shape_from(a->rank, a->dim);
    TRM_TRY(trm_h5_make(f, a->set, a->type, &shape, 0, 0, false));
    char *buf = trm_alloc_array((size_t)step, row + size, "rows");
    if (!buf) return TRM_MEMORY;
    trm_status s = TRM_OK;
    for (int64_t at = 0, n; at < rows && s == TRM_OK; at += n) {
        n = trm_min64(step, rows - at);
        s = fortran ? take_fortran(a, at, n, buf, buf + (size_t)step * row) : take(a, buf, (size_t)n * row);
        if (s == TRM_OK && a->swap) trm_swap_elements(buf, n * row_elements(a), size);
        if (s == TRM_OK) s = most ? check_labels(a, at, n, buf, most) : check_values(a, at, n, buf);
        if (s == TRM_OK) s = trm_h5_put(f, a->set, a->type, at, n, row, buf);
        if (s == TRM_OK) trm_tell_now(tell, at + n, rows);
    }
    trm_free(buf);
    return s;
}

/* libzip compares the check sum where the member ends. */
static trm_status check_end(array *a) {
    char more;
    if (a->fd >= 0 || zip_fread(a->member, &more, 1) == 0) return TRM_OK;
    return trm_fail(TRM_DATA, "%s: damaged: %s", a->name, zip_file_strerror(a->member));
}

/* ---- pairs of arrays ---- */

typedef struct pair {
    array x, y;
    bool has_y, floats;
    const trm_tell *tell;
    int64_t most_label;
} pair;

static trm_status write_pair(trm_h5_file *f, const void *ctx) {
    pair *p = (pair *)ctx;
    TRM_TRY(put_values(&p->x, f, NULL, p->tell));
    TRM_TRY(check_end(&p->x));
    if (!p->has_y) return TRM_OK;
    TRM_TRY(put_values(&p->y, f, p->floats ? NULL : &p->most_label, NULL));
    return check_end(&p->y);
}

static trm_status check_y(pair *p) {
    array *x = &p->x, *y = &p->y;
    char text[80];
    trm_shape shape = trm_shape_from(y->rank, y->dim);
    if (rows_of(x) != rows_of(y))
        return trm_fail(TRM_DATA, "%s: has %lld rows but %s has %lld", x->name, (long long)rows_of(x),
                        y->name, (long long)rows_of(y));
    p->floats = p->floats || trm_dtype_is_float(y->type);
    y->set = p->floats ? "targets" : "label";
    if (p->floats || row_elements(y) == 1) return TRM_OK;
    trm_fail(TRM_DATA, "%s: classes of shape %s; allowed are (N) and (N,1)", y->name,
             trm_shape_text(&shape, text, sizeof text));
    trm_hint("of one-hot rows keep array.argmax(1); `--float-target` takes numbers to regress");
    return TRM_DATA;
}

static trm_status check_pair(pair *p) {
    array *x = &p->x;
    TRM_TRY(check_size(x));
    if (p->has_y) TRM_TRY(check_size(&p->y));
    bool stream = x->rank == 1 && !p->has_y && !trm_dtype_is_float(x->type);
    x->set = stream ? "tokens" : "data";
    if (x->rank == 1 && !stream) {
        trm_fail(TRM_DATA, "%s: has one dimension; inputs of shape (N,...) expected", x->name);
        trm_hint("save array.reshape(-1, 1)");
        return TRM_DATA;
    }
    return p->has_y ? check_y(p) : TRM_OK;
}

static trm_status import(pair *p, const char *out, trm_made *made) {
    TRM_TRY(check_pair(p));
    TRM_TRY(trm_h5_replace(out, write_pair, p));
    *made = (trm_made){.samples = rows_of(&p->x),
                       .x = trm_shape_from(p->x.rank - 1, p->x.dim + 1),
                       .type = p->x.type,
                       .classes = p->has_y && !p->floats ? p->most_label + 1 : 0,
                       .target = p->has_y,
                       .floats = p->has_y && p->floats};
    return TRM_OK;
}

/* ---- .npy ---- */

static trm_status open_npy(const char *path, array *a) {
    if (!(a->name = trm_strdup(path))) return TRM_MEMORY;
    TRM_TRY(trm_open_regular(path, &a->fd, &a->bytes));
    return read_head(a);
}

trm_status trm_import_npy(const char *x, const char *y, bool float_target, const trm_tell *tell,
                          const char *out, trm_made *made) {
    pair p = {.x.fd = -1, .y.fd = -1, .has_y = y != NULL, .floats = float_target, .tell = tell};
    TRM_TRY(trm_output_apart(out, (const char *const[]){x, y}, y ? 2 : 1));
    trm_status s = open_npy(x, &p.x);
    if (s == TRM_OK && y) s = open_npy(y, &p.y);
    if (s == TRM_OK) s = import(&p, out, made);
    close_array(&p.x);
    close_array(&p.y);
    return s;
}

/* ---- .npz ---- */

static trm_status open_zip(const char *path, zip_t **z) {
    int fd, code;
    int64_t size;
    TRM_TRY(trm_open_regular(path, &fd, &size));
    if ((*z = zip_fdopen(fd, 0, &code))) return TRM_OK;
    close(fd);
    zip_error_t e;
    zip_error_init_with_code(&e, code);
    trm_status s =
        trm_fail(TRM_DATA, "%s: cannot be read as an archive (.npz): %s", path, zip_error_strerror(&e));
    zip_error_fini(&e);
    return s;
}

/* The names in the archive, without their ".npy". */
static void list_members(zip_t *z, trm_str *out) {
    zip_int64_t n = zip_get_num_entries(z, 0);
    for (zip_int64_t i = 0; i < n && i < 20; i++) {
        const char *name = zip_get_name(z, (zip_uint64_t)i, 0);
        size_t length = name ? strlen(name) : 0;
        if (length > 4 && strcmp(name + length - 4, ".npy") == 0) length -= 4;
        if (name) trm_str_add(out, "%s%.*s", out->len ? ", " : "", (int)(length < 60 ? length : 60), name);
    }
    if (n > 20) trm_str_add(out, ", ...");
}

static zip_int64_t locate(zip_t *z, const char *name) {
    trm_str member = {0};
    trm_str_add(&member, "%s.npy", name);
    zip_int64_t at = member.failed ? -1 : zip_name_locate(z, member.p, 0);
    trm_str_free(&member);
    return at >= 0 ? at : zip_name_locate(z, name, 0);
}

/* The member `asked`, or the first of `common` that is there; at -1: there is none. */
static trm_status find_member(zip_t *z, const char *path, const char *option, const char *asked,
                              const char *const *common, zip_int64_t *at) {
    *at = -1;
    if (asked) *at = locate(z, asked);
    for (int i = 0; !asked && common[i] && *at < 0; i++) *at = locate(z, common[i]);
    if (*at >= 0 || !asked) return TRM_OK;
    trm_str names = {0};
    list_members(z, &names);
    trm_fail(TRM_DATA, "%s: no array '%.60s' for --%s; there are: %s", path, asked, option,
             trm_str_get(&names));
    trm_str_free(&names);
    return TRM_DATA;
}

static trm_status open_member(zip_t *z, const char *path, zip_int64_t at, array *a) {
    zip_stat_t st;
    trm_str name = {0};
    trm_str_add(&name, "%s: %s", path, zip_get_name(z, (zip_uint64_t)at, 0));
    if (name.failed) return TRM_MEMORY;
    trm_one_line(name.p);
    a->name = name.p;
    if (zip_stat_index(z, (zip_uint64_t)at, 0, &st) != 0 || !(st.valid & ZIP_STAT_SIZE) ||
        st.size > INT64_MAX)
        return trm_fail(TRM_DATA, "%s: has no size", a->name);
    a->bytes = (int64_t)st.size;
    a->member = zip_fopen_index(z, (zip_uint64_t)at, 0);
    if (!a->member) return trm_fail(TRM_DATA, "%s: cannot be opened: %s", a->name, zip_strerror(z));
    return read_head(a);
}

static trm_status open_pair(zip_t *z, const char *path, const char *input, const char *target, pair *p) {
    static const char *const inputs[] = {"data", "x", "X", "images", "tokens", "x_train", "arr_0", NULL},
                             *const targets[] = {"label",   "labels",  "y",     "Y",
                                                 "targets", "y_train", "arr_1", NULL};
    zip_int64_t x, y;
    TRM_TRY(find_member(z, path, "input", input, inputs, &x));
    TRM_TRY(find_member(z, path, "target", target, targets, &y));
    if (x < 0) {
        trm_str names = {0};
        list_members(z, &names);
        trm_fail(TRM_DATA, "%s: which array holds the inputs? there are: %s", path, trm_str_get(&names));
        trm_str_free(&names);
        trm_hint("say `--input NAME`, and `--target NAME` for the targets");
        return TRM_DATA;
    }
    if (x == y) return trm_fail(TRM_USAGE, "--input and --target name one array; allowed are two");
    p->has_y = y >= 0;
    TRM_TRY(open_member(z, path, x, &p->x));
    return p->has_y ? open_member(z, path, y, &p->y) : TRM_OK;
}

trm_status trm_import_npz(const char *path, const char *input, const char *target, bool float_target,
                          const trm_tell *tell, const char *out, trm_made *made) {
    pair p = {.x.fd = -1, .y.fd = -1, .floats = float_target, .tell = tell};
    zip_t *z = NULL;
    TRM_TRY(trm_output_apart(out, &path, 1));
    TRM_TRY(open_zip(path, &z));
    trm_status s = open_pair(z, path, input, target, &p);
    if (s == TRM_OK) s = import(&p, out, made);
    close_array(&p.x);
    close_array(&p.y);
    zip_discard(z);
    return s;
}
