#include "nnkit_segment.h"

void nnkit_copy(const float *x, float *y, const nnkit_grid *grid)
{
    int at[NNKIT_MAX_RANK] = {0};
    long from = 0, to = 0;
    do {
        y[to] = x[from];
    } while (nnkit_grid_next(grid, at, &from, &to));
}

void nnkit_fill(float *y, int count, float value)
{
    for (int i = 0; i < count; i++) {
        y[i] = value;
    }
}
