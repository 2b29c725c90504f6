#include "nnkit_segment.h"

/* Whether index a comes before index b. */
static int better(const float *scores, int stride, int a, int b)
{
    const float left = scores[(long)a * stride], right = scores[(long)b * stride];
    return left > right || (left == right && a < b);
}

/* Restores the heap below `root`: the best index on top, or with `worst` the last one. */
static void sift(const float *scores, int stride, int *order, int count, int root, int worst)
{
    int child;
    for (child = 2 * root + 1; child < count; child = 2 * root + 1) {
        const int moved = order[root];
        if (child + 1 < count && better(scores, stride, order[child + 1], order[child]) != worst) {
            child++;
        }
        if (better(scores, stride, order[child], moved) == worst) {
            return;
        }
        order[root] = order[child];
        order[child] = moved;
        root = child;
    }
}

static void heap(const float *scores, int stride, int *order, int count, int worst)
{
    int i;
    for (i = count / 2 - 1; i >= 0; i--) {
        sift(scores, stride, order, count, i, worst);
    }
}

int nnkit_best_above(const float *scores, int stride, int count, float above, int *order, int limit)
{
    int i, found = 0, heaped = 0;
    for (i = 0; i < count; i++) {
        if (!(scores[(long)i * stride] > above)) {
            continue;
        }
        if (found < limit) {
            order[found++] = i;
            continue;
        }
        if (!heaped) {
            heap(scores, stride, order, found, 1);
            heaped = 1;
        }
        if (found > 0 && better(scores, stride, i, order[0])) {
            order[0] = i;
            sift(scores, stride, order, found, 0, 1);
        }
    }
    heap(scores, stride, order, found, 0);
    return found;
}

int nnkit_take_best(const float *scores, int stride, int *order, int count)
{
    const int best = order[0];
    order[0] = order[count - 1];
    order[count - 1] = best;
    sift(scores, stride, order, count - 1, 0, 0);
    return best;
}

void nnkit_select_best(const float *scores, int stride, int *order, int count, int wanted)
{
    int end;
    heap(scores, stride, order, count, 0);
    for (end = count; end > 0 && end > count - wanted; end--) {
        nnkit_take_best(scores, stride, order, end);
    }
}
