#include "nnkit_segment.h"

#include <math.h>

static float apply(nnkit_binary_op op, float a, float b)
{
    switch (op) {
    case NNKIT_ADD:
        return a + b;
    case NNKIT_SUB:
        return a - b;
    case NNKIT_MUL:
        return a * b;
    case NNKIT_DIV:
        return a / b;
    case NNKIT_POW:
        return powf(a, b);
    case NNKIT_MAX:
        return a > b ? a : b;
    case NNKIT_MIN:
        return a < b ? a : b;
    case NNKIT_PRELU:
        return a < 0.0f ? a * b : a;
    }
    return a;
}

void nnkit_binary(nnkit_binary_op op, const float *a, const float *b, float *y, const nnkit_grid *grid)
{
    int at[NNKIT_MAX_RANK] = {0};
    long left = 0, right = 0, i = 0;
    do {
        y[i++] = apply(op, a[left], b[right]);
    } while (nnkit_grid_next(grid, at, &left, &right));
}
