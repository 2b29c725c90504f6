#include "nnkit_segment.h"

int nnkit_grid_next(const nnkit_grid *grid, int *at, long *a, long *b)
{
    int d;
    for (d = grid->rank - 2; d >= 0; d--) {
        *a += grid->a[d];
        *b += grid->b[d];
        if (++at[d] < grid->sizes[d]) {
            return 1;
        }
        *a -= (long)grid->a[d] * grid->sizes[d];
        *b -= (long)grid->b[d] * grid->sizes[d];
        at[d] = 0;
    }
    return 0;
}
