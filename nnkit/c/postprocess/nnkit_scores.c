/* nnkit_scores.c: see the header. Sums run in order, each operation is rounded by itself. */
#include "nnkit_scores.h"

#if defined(NNKIT_SOFTMAX_CLASSES) || defined(NNKIT_L2_NORMALIZE_CLASSES)
#include <math.h>
#endif

/* a < b, where a NaN, of floats alone, counts as minus infinity. */
#define FINITE(x) ((x) >= -3.4028234e38f)
#define LESS(is_float, a, b) ((a) < (b) || ((is_float) && !FINITE(a) && FINITE(b)))

#ifdef NNKIT_SOFTMAX_CLASSES

static double power_of_e(double x)
{
    static const double terms[14] = NNKIT_SOFTMAX_TERMS;
    double whole, part, rest, power = 0.0;
    int i;
    if (!(x > -87.0)) {
        return 0.0;
    }
    part = x * 1.4426950408889634;
    whole = (double)(nnkit_i32)(part - 0.5);
    part = whole * 0.6931471803691238;
    rest = x - part;
    part = whole * 1.9082149292705877e-10;
    rest = rest - part;
    for (i = 0; i < 14; ++i) {
        power = power * rest;
        power = power + terms[i];
    }
    return ldexp(power, (int)whole);
}

int nnkit_post_softmax(const NNKIT_SOFTMAX_TYPE *values, float *probabilities)
{
    nnkit_i32 row, i;
    if (values == NULL || probabilities == NULL) {
        return NNKIT_ERROR_NULL;
    }
    for (row = 0; row < NNKIT_SOFTMAX_POSITIONS; ++row) {
        const NNKIT_SOFTMAX_TYPE *x = values + (size_t)row * NNKIT_SOFTMAX_CLASSES;
        float *y = probabilities + (size_t)row * NNKIT_SOFTMAX_CLASSES;
        NNKIT_SOFTMAX_TYPE most = x[0];
        double sum = 0.0;
        for (i = 1; i < NNKIT_SOFTMAX_CLASSES; ++i) {
            if (LESS(NNKIT_SOFTMAX_FLOAT, most, x[i])) {
                most = x[i];
            }
        }
        for (i = 0; i < NNKIT_SOFTMAX_CLASSES; ++i) {
            sum += power_of_e(((double)x[i] - (double)most) * NNKIT_SOFTMAX_SCALE);
        }
        for (i = 0; i < NNKIT_SOFTMAX_CLASSES; ++i) {
            const double power = power_of_e(((double)x[i] - (double)most) * NNKIT_SOFTMAX_SCALE);
            y[i] = sum > 0.0 ? (float)(power / sum) : 0.0f;
        }
    }
    return NNKIT_OK;
}

#endif

#ifdef NNKIT_ARGMAX_CLASSES

int nnkit_post_argmax(const NNKIT_ARGMAX_TYPE *values, nnkit_u32 *indices)
{
    nnkit_i32 row, i;
    if (values == NULL || indices == NULL) {
        return NNKIT_ERROR_NULL;
    }
    for (row = 0; row < NNKIT_ARGMAX_POSITIONS; ++row) {
        const NNKIT_ARGMAX_TYPE *x = values + (size_t)row * NNKIT_ARGMAX_CLASSES;
        nnkit_i32 best = 0;
        for (i = 1; i < NNKIT_ARGMAX_CLASSES; ++i) {
            if (LESS(NNKIT_ARGMAX_FLOAT, x[best], x[i])) {
                best = i;
            }
        }
        indices[row] = (nnkit_u32)best;
    }
    return NNKIT_OK;
}

#endif

#ifdef NNKIT_TOPK_CLASSES

int nnkit_post_topk(const NNKIT_TOPK_TYPE *values, nnkit_u32 *indices)
{
    nnkit_i32 row, i;
    if (values == NULL || indices == NULL) {
        return NNKIT_ERROR_NULL;
    }
    for (row = 0; row < NNKIT_TOPK_POSITIONS; ++row) {
        const NNKIT_TOPK_TYPE *x = values + (size_t)row * NNKIT_TOPK_CLASSES;
        nnkit_u32 *best = indices + (size_t)row * NNKIT_TOPK_K;
        nnkit_i32 count = 0;
        for (i = 0; i < NNKIT_TOPK_CLASSES; ++i) {
            nnkit_i32 place = count;
            while (place > 0 && LESS(NNKIT_TOPK_FLOAT, x[best[place - 1]], x[i])) {
                --place;
            }
            if (place < NNKIT_TOPK_K) {
                nnkit_i32 k = count < NNKIT_TOPK_K ? count++ : NNKIT_TOPK_K - 1;
                for (; k > place; --k) {
                    best[k] = best[k - 1];
                }
                best[place] = (nnkit_u32)i;
            }
        }
    }
    return NNKIT_OK;
}

#endif

#ifdef NNKIT_L2_NORMALIZE_CLASSES

int nnkit_post_l2_normalize(const NNKIT_L2_NORMALIZE_TYPE *values, float *unit)
{
    nnkit_i32 row, i;
    if (values == NULL || unit == NULL) {
        return NNKIT_ERROR_NULL;
    }
    for (row = 0; row < NNKIT_L2_NORMALIZE_POSITIONS; ++row) {
        const NNKIT_L2_NORMALIZE_TYPE *x = values + (size_t)row * NNKIT_L2_NORMALIZE_CLASSES;
        float *y = unit + (size_t)row * NNKIT_L2_NORMALIZE_CLASSES;
        double sum = 0.0, length;
        for (i = 0; i < NNKIT_L2_NORMALIZE_CLASSES; ++i) {
            const double value = (double)x[i] - (double)NNKIT_L2_NORMALIZE_ZERO;
            const double square = value * value;
            sum += square;
        }
        length = sqrt(sum);
        for (i = 0; i < NNKIT_L2_NORMALIZE_CLASSES; ++i) {
            y[i] = length > 0.0 ? (float)(((double)x[i] - (double)NNKIT_L2_NORMALIZE_ZERO) / length) : 0.0f;
        }
    }
    return NNKIT_OK;
}

#endif
