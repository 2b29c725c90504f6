#include "nnkit_segment.h"

#include "nnkit_math.h"

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
        return nnkit_powf(a, b);
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
    const int last = grid->rank - 1;
    const int count = grid->sizes[last], step_a = grid->a[last], step_b = grid->b[last];
    int at[NNKIT_MAX_RANK] = {0};
    long left = 0, right = 0;
    do {
        const float *first = a + left, *second = b + right;
        int i;
        for (i = 0; i < count; i++, first += step_a, second += step_b) {
            *y++ = apply(op, *first, *second);
        }
    } while (nnkit_grid_next(grid, at, &left, &right));
}
