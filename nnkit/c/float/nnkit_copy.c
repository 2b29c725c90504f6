#include "nnkit_segment.h"

void nnkit_copy(const float *x, float *y, const nnkit_grid *grid)
{
    const int last = grid->rank - 1;
    const int count = grid->sizes[last], step_x = grid->a[last], step_y = grid->b[last];
    int at[NNKIT_MAX_RANK] = {0};
    long from = 0, to = 0;
    do {
        const float *source = x + from;
        float *target = y + to;
        int i;
        for (i = 0; i < count; i++, source += step_x, target += step_y) {
            *target = *source;
        }
    } while (nnkit_grid_next(grid, at, &from, &to));
}

void nnkit_fill(float *y, int count, float value)
{
    int i;
    for (i = 0; i < count; i++) {
        y[i] = value;
    }
}
