/* dense: what surrounds a matrix product, one pass each over rows x cols. */
#include "cpu/bf16.h"
#include "cpu/kernels.h"
#include "cpu/vecmath.h"

void TRM_K(fill_rows)(float *y, const float *b, const float *res, int64_t rows, int64_t cols, int threads) {
#pragma omp parallel for if (threads > 1) num_threads(threads)
    for (int64_t i = 0; i < rows; i++) {
        float *yi = y + i * cols;
        const float *ri = res ? res + i * cols : NULL;
        if (b && ri) {
#pragma omp simd
            for (int64_t j = 0; j < cols; j++) yi[j] = ri[j] + b[j];
        } else if (b || (ri && ri != yi)) {
            memcpy(yi, b ? b : ri, (size_t)cols * sizeof *yi);
        } else if (!ri) {
            memset(yi, 0, (size_t)cols * sizeof *yi);
        }
    }
}

/* One row of z += b, y = act(z).  Where y is z the sum is not stored first. */
#define TRM_ACT_ROW(name, expr)                                                                              \
    static void name##_row(float *y, float *z, const float *b, int64_t cols) {                               \
        if (y == z && b) {                                                                                   \
            _Pragma("omp simd") for (int64_t j = 0; j < cols; j++) {                                         \
                float v = z[j] + b[j];                                                                       \
                y[j] = expr;                                                                                 \
            }                                                                                                \
        } else if (b) {                                                                                      \
            _Pragma("omp simd") for (int64_t j = 0; j < cols; j++) {                                         \
                float v = z[j] + b[j];                                                                       \
                z[j] = v;                                                                                    \
                y[j] = expr;                                                                                 \
            }                                                                                                \
        } else {                                                                                             \
            _Pragma("omp simd") for (int64_t j = 0; j < cols; j++) {                                         \
                float v = z[j];                                                                              \
                y[j] = expr;                                                                                 \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    void TRM_K(name)(float *y, float *z, const float *b, int64_t rows, int64_t cols, int threads) {          \
        _Pragma("omp parallel for if (threads > 1) num_threads(threads)") for (int64_t i = 0; i < rows; i++) \
            name##_row(y + i * cols, z + i * cols, b, cols);                                                 \
    }

TRM_ACT_ROW(bias_relu, v < 0.0f ? 0.0f : v)
TRM_ACT_ROW(bias_tanh, trm_tanhf(v))
TRM_ACT_ROW(bias_sigmoid, trm_sigmoidf(v))
TRM_ACT_ROW(bias_gelu, trm_geluf(v))
TRM_ACT_ROW(bias_gelu_tanh, trm_gelu_tanhf(v))
TRM_ACT_ROW(bias_silu, trm_siluf(v))

/* The same with y as bfloat16. */
#define TRM_ACT_ROW_BF16(name, expr)                                                                    \
    void TRM_K(name##_bf16)(uint16_t * y, float *z, const float *b, int64_t rows, int64_t cols,         \
                            int threads) {                                                              \
        _Pragma("omp parallel for if (threads > 1) num_threads(threads)") for (int64_t i = 0; i < rows; \
                                                                               i++) {                   \
            float *zi = z + i * cols;                                                                   \
            uint16_t *yi = y + i * cols;                                                                \
            if (b) _Pragma("omp simd") for (int64_t j = 0; j < cols; j++) {                             \
                    float v = zi[j] + b[j];                                                             \
                    zi[j] = v;                                                                          \
                    yi[j] = trm_bf16_of(expr);                                                          \
                }                                                                                       \
            else                                                                                        \
                _Pragma("omp simd") for (int64_t j = 0; j < cols; j++) {                                \
                    float v = zi[j];                                                                    \
                    yi[j] = trm_bf16_of(expr);                                                          \
                }                                                                                       \
        }                                                                                               \
    }

TRM_ACT_ROW_BF16(bias_gelu, trm_geluf(v))
TRM_ACT_ROW_BF16(bias_gelu_tanh, trm_gelu_tanhf(v))
TRM_ACT_ROW_BF16(bias_silu, trm_siluf(v))

/* Sums of up to SUM_BLOCK columns, four rows at a time.  They stay in the first-level cache; long columns are
 * summed in pieces of SUM_ROWS rows, which keeps rounding small. */
enum { SUM_BLOCK = 256, SUM_ROWS = 512 };

static void sum_piece(float *total, const float *x, int64_t rows, int64_t cols, int64_t width) {
    float sum[SUM_BLOCK] = {0};
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4, x += 4 * cols) {
        const float *x1 = x + cols, *x2 = x1 + cols, *x3 = x2 + cols;
#pragma omp simd
        for (int64_t j = 0; j < width; j++) sum[j] += (x[j] + x1[j]) + (x2[j] + x3[j]);
    }
    for (; i < rows; i++, x += cols) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) sum[j] += x[j];
    }
    for (int64_t j = 0; j < width; j++) total[j] += sum[j];
}

static void sum_block(float *out, const float *x, int64_t rows, int64_t cols, int64_t width, bool add) {
    float total[SUM_BLOCK] = {0};
    for (int64_t i = 0; i < rows; i += SUM_ROWS)
        sum_piece(total, x + i * cols, rows - i < SUM_ROWS ? rows - i : SUM_ROWS, cols, width);
    for (int64_t j = 0; j < width; j++) out[j] = add ? out[j] + total[j] : total[j];
}

/* Threads share the columns, so that the order of every sum is the same for all of them. */
static int64_t column_block(int64_t cols, int threads) {
    int64_t share = (cols + threads - 1) / threads;
    return share < SUM_BLOCK ? (share + 15) / 16 * 16 : SUM_BLOCK;
}

void TRM_K(column_sums)(float *out, const float *x, int64_t rows, int64_t cols, bool add, int threads) {
    int64_t block = column_block(cols, threads);
#pragma omp parallel for if (threads > 1) num_threads(threads)
    for (int64_t j = 0; j < cols; j += block) {
        int64_t width = cols - j < block ? cols - j : block;
        sum_block(out + j, x + j, rows, cols, width, add);
    }
}

static void pad_and_sum(float *y, int64_t ld, const float *x, int64_t rows, int64_t cols, int64_t width,
                        float *total) {
    float sum[SUM_BLOCK] = {0};
    for (int64_t i = 0; i < rows; i++, x += cols, y += ld) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) {
            y[j] = x[j];
            sum[j] += x[j];
        }
    }
    for (int64_t j = 0; j < width; j++) total[j] += sum[j];
}

void TRM_K(pad_rows)(float *y, int64_t ld, const float *x, int64_t rows, int64_t cols, float *sum,
                     int threads) {
    if (!sum) {
#pragma omp parallel for if (threads > 1) num_threads(threads)
        for (int64_t i = 0; i < rows; i++) memcpy(y + i * ld, x + i * cols, (size_t)cols * sizeof *y);
        return;
    }
    int64_t block = column_block(cols, threads);
#pragma omp parallel for if (threads > 1) num_threads(threads)
    for (int64_t j = 0; j < cols; j += block) {
        int64_t width = cols - j < block ? cols - j : block;
        pad_and_sum(y + j, ld, x + j, rows, cols, width, sum + j);
    }
}

void TRM_K(add_into)(float *y, const float *x, int64_t n, int threads) {
#pragma omp parallel for simd if (parallel : threads > 1) num_threads(threads)
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}
