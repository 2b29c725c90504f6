/* nnkit_pca_combine.c: see nnkit_pca_combine.h. */
#include "nnkit_pca_combine.h"

#include <math.h>
#include <stddef.h>

/* Sum of squares, added in order. */
static double squares(const nnkit_pca_value *values, double sum)
{
    size_t i;
    for (i = 0; i < NNKIT_PCA_FEATURES; ++i) {
        const double value = (double)values[i];
        const double square = value * value;
        sum += square;
    }
    return sum;
}

int nnkit_pca_combine(const nnkit_pca_value *left, const nnkit_pca_value *right, float *feature)
{
    double before, after = 0.0, ratio;
    size_t k;
    if (left == NULL || right == NULL || feature == NULL) {
        return NNKIT_ERROR_NULL;
    }
    /* Features: the left half's, centred with the left mean, then the right half's with the right mean. */
    before = squares(left + 2 * NNKIT_PCA_COMPONENTS, 0.0);
    before = squares(right + 2 * NNKIT_PCA_COMPONENTS + NNKIT_PCA_FEATURES, before);
    for (k = 0; k < NNKIT_PCA_COMPONENTS; ++k) {
        const double sum = (double)left[k] + (double)right[NNKIT_PCA_COMPONENTS + k];
        const double square = sum * sum;
        after += square;
    }
    ratio = before > 0.0 && after > 0.0 ? sqrt(before) / sqrt(after) : 0.0;
    for (k = 0; k < NNKIT_PCA_COMPONENTS; ++k) {
        const double sum = (double)left[k] + (double)right[NNKIT_PCA_COMPONENTS + k];
        feature[k] = (float)(sum * ratio * NNKIT_PCA_SCALE);
    }
    return NNKIT_OK;
}
