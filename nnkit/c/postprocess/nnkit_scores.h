/*
 * nnkit_scores.h: softmax, argmax, topk and l2_normalize of what a network gives, as its recipe asks for them.
 *
 * Each reads NNKIT_<WORD>_POSITIONS rows of NNKIT_<WORD>_CLASSES values as the network stores them, and writes in the
 * same order. NNKIT_OK or NNKIT_ERROR_NULL. softmax and l2_normalize need <math.h>.
 */
#ifndef NNKIT_SCORES_H
#define NNKIT_SCORES_H

#include "nnkit_postprocess.h"

NNKIT_EXTERN_C_BEGIN

#ifdef NNKIT_SOFTMAX_CLASSES
/* probabilities: one for each value; those of a row add up to 1. */
int nnkit_post_softmax(const NNKIT_SOFTMAX_TYPE *values, float *probabilities);
#endif

#ifdef NNKIT_ARGMAX_CLASSES
/* indices: one for each row, of its largest value, the first of equals. */
int nnkit_post_argmax(const NNKIT_ARGMAX_TYPE *values, nnkit_u32 *indices);
#endif

#ifdef NNKIT_TOPK_CLASSES
/* indices: NNKIT_TOPK_K for each row, of its largest values, best first. */
int nnkit_post_topk(const NNKIT_TOPK_TYPE *values, nnkit_u32 *indices);
#endif

#ifdef NNKIT_L2_NORMALIZE_CLASSES
/* unit: one for each value; the squares of a row add up to 1, or are 0. */
int nnkit_post_l2_normalize(const NNKIT_L2_NORMALIZE_TYPE *values, float *unit);
#endif

NNKIT_EXTERN_C_END

#endif /* NNKIT_SCORES_H */
