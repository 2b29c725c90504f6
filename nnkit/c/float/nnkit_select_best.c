#include "nnkit_segment.h"

/* Whether index a comes before index b. */
static int better(const float *scores, int stride, int a, int b)
{
    const float left = scores[(long)a * stride], right = scores[(long)b * stride];
    return left > right || (left == right && a < b);
}

/* Restores the heap below `root`: the best index on top. */
static void sift(const float *scores, int stride, int *order, int count, int root)
{
    int child;
    for (child = 2 * root + 1; child < count; child = 2 * root + 1) {
        const int moved = order[root];
        if (child + 1 < count && better(scores, stride, order[child + 1], order[child])) {
            child++;
        }
        if (!better(scores, stride, order[child], moved)) {
            return;
        }
        order[root] = order[child];
        order[child] = moved;
        root = child;
    }
}

void nnkit_select_best(const float *scores, int stride, int *order, int count, int wanted)
{
    int i, end;
    for (i = count / 2 - 1; i >= 0; i--) {
        sift(scores, stride, order, count, i);
    }
    for (end = count - 1; end >= 0 && end >= count - wanted; end--) {
        const int best = order[0];
        order[0] = order[end];
        order[end] = best;
        sift(scores, stride, order, end, 0);
    }
}
