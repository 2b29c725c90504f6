#include "nnkit_segment.h"

#include "nnkit_math.h"

static float first(nnkit_reduce_op op)
{
    return op == NNKIT_REDUCE_MAX ? -nnkit_infinity : (op == NNKIT_REDUCE_MIN ? nnkit_infinity : 0.0f);
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
        return sum + nnkit_fabsf(x);
    case NNKIT_REDUCE_L2:
    case NNKIT_REDUCE_SUM_SQUARE:
        return sum + x * x;
    }
    return sum;
}

/* The sum of values side by side, four at a time. */
static float sum_of(const float *x, int count)
{
    float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
    int i;
    for (i = 0; i + 4 <= count; i += 4) {
        a += x[i];
        b += x[i + 1];
        c += x[i + 2];
        d += x[i + 3];
    }
    for (; i < count; i++) {
        a += x[i];
    }
    return (a + b) + (c + d);
}

void nnkit_reduce(nnkit_reduce_op op, const float *x, float *y, const nnkit_grid *grid, int outputs, int each)
{
    const int last = grid->rank - 1;
    const int count = grid->sizes[last], step_x = grid->a[last], step_y = grid->b[last];
    int at[NNKIT_MAX_RANK] = {0};
    long from = 0, to = 0;
    int i;
    for (i = 0; i < outputs; i++) {
        y[i] = first(op);
    }
    do {
        const float *source = x + from;
        float *target = y + to;
        if (step_y == 0 && step_x == 1 && (op == NNKIT_REDUCE_SUM || op == NNKIT_REDUCE_MEAN)) {
            *target += sum_of(source, count);
            continue;
        }
        for (i = 0; i < count; i++, source += step_x, target += step_y) {
            *target = join(op, *target, *source);
        }
    } while (nnkit_grid_next(grid, at, &from, &to));
    for (i = 0; i < outputs; i++) {
        if (op == NNKIT_REDUCE_MEAN) {
            y[i] /= (float)each;
        } else if (op == NNKIT_REDUCE_L2) {
            y[i] = nnkit_sqrtf(y[i]);
        }
    }
}
