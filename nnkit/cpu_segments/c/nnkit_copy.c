#include "nnkit_segment.h"

void nnkit_copy(const float *x, float *y, const nnkit_grid *grid)
{
    int at[NNKIT_MAX_RANK] = {0};
    long from = 0, to = 0;
    int d = 0;
    while (d >= 0) {
        y[to] = x[from];
        for (d = grid->rank - 1; d >= 0; d--) {
            from += grid->a[d];
            to += grid->b[d];
            if (++at[d] < grid->sizes[d]) {
                break;
            }
            from -= (long)grid->a[d] * grid->sizes[d];
            to -= (long)grid->b[d] * grid->sizes[d];
            at[d] = 0;
        }
    }
}

void nnkit_fill(float *y, int count, float value)
{
    for (int i = 0; i < count; i++) {
        y[i] = value;
    }
}
