/*
 * nnkit_pca_combine.h: one feature from the two halves of a face, each of which ran the network with the split
 * projection.
 *
 * A half gives NNKIT_PCA_LENGTH = 2 K + 2 F values, K = NNKIT_PCA_COMPONENTS, F = NNKIT_PCA_FEATURES; where the
 * network has several outputs, they stand one after another. The feature has the direction of the projection and the
 * length of the centred feature before it; it is zero where either has no length.
 */
#ifndef NNKIT_PCA_COMBINE_H
#define NNKIT_PCA_COMBINE_H

#include "nnkit_postprocess.h"

NNKIT_EXTERN_C_BEGIN

/* One value of a half as the network gives it. */
typedef NNKIT_PCA_TYPE nnkit_pca_value;

/*
 * Writes NNKIT_PCA_COMPONENTS values in real units. Needs sqrt of the C library. NNKIT_OK or NNKIT_ERROR_NULL.
 */
int nnkit_pca_combine(const nnkit_pca_value *left, const nnkit_pca_value *right, float *feature);

NNKIT_EXTERN_C_END

#endif /* NNKIT_PCA_COMBINE_H */
