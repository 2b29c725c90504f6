/* Reads values of a row's word; writes what each word that is configured gives. All words read the same values. */
#include <stdio.h>

#include "nnkit_scores.h"

int main(void)
{
    static NNKIT_SOFTMAX_TYPE values[NNKIT_SOFTMAX_POSITIONS * NNKIT_SOFTMAX_CLASSES];
    static float reals[NNKIT_SOFTMAX_POSITIONS * NNKIT_SOFTMAX_CLASSES];
    static nnkit_u32 best[NNKIT_SOFTMAX_POSITIONS], top[NNKIT_SOFTMAX_POSITIONS * NNKIT_TOPK_K];
    while (fread(values, sizeof values, 1, stdin) == 1) {
        if (nnkit_post_softmax(values, reals) != NNKIT_OK) {
            return 1;
        }
        fwrite(reals, sizeof reals, 1, stdout);
        if (nnkit_post_argmax(values, best) != NNKIT_OK || nnkit_post_topk(values, top) != NNKIT_OK) {
            return 1;
        }
        fwrite(best, sizeof best, 1, stdout);
        fwrite(top, sizeof top, 1, stdout);
        if (nnkit_post_l2_normalize(values, reals) != NNKIT_OK) {
            return 1;
        }
        fwrite(reals, sizeof reals, 1, stdout);
    }
    return nnkit_post_softmax(NULL, reals) == NNKIT_ERROR_NULL && nnkit_post_argmax(values, NULL) == NNKIT_ERROR_NULL &&
                   nnkit_post_topk(NULL, top) == NNKIT_ERROR_NULL &&
                   nnkit_post_l2_normalize(values, NULL) == NNKIT_ERROR_NULL
               ? 0
               : 2;
}
