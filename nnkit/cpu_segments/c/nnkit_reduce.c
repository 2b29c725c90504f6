#include "nnkit_segment.h"

#include <math.h>

static float first(nnkit_reduce_op op)
{
    return op == NNKIT_REDUCE_MAX ? -INFINITY : (op == NNKIT_REDUCE_MIN ? INFINITY : 0.0f);
}

static float join(nnkit_reduce_op op, float sum, float x)
{
    switch (op) {
    case NNKIT_REDUCE_SUM:
    case NNKIT_REDUCE_MEAN:
        return sum + x;
    case NNKIT_REDUCE_MAX:
        return x > sum ? x : sum;
    case NNKIT_REDUCE_MIN:
        return x < sum ? x : sum;
    case NNKIT_REDUCE_L1:
        return sum + fabsf(x);
    case NNKIT_REDUCE_L2:
    case NNKIT_REDUCE_SUM_SQUARE:
        return sum + x * x;
    }
    return sum;
}

void nnkit_reduce(nnkit_reduce_op op, const float *x, float *y, const nnkit_grid *grid, int outputs, int each)
{
    int at[NNKIT_MAX_RANK] = {0};
    long from = 0, to = 0;
    for (int i = 0; i < outputs; i++) {
        y[i] = first(op);
    }
    do {
        y[to] = join(op, y[to], x[from]);
    } while (nnkit_grid_next(grid, at, &from, &to));
    for (int i = 0; i < outputs; i++) {
        if (op == NNKIT_REDUCE_MEAN) {
            y[i] /= (float)each;
        } else if (op == NNKIT_REDUCE_L2) {
            y[i] = sqrtf(y[i]);
        }
    }
}
