#include "nnkit_segment.h"

#include <string.h>

void nnkit_embedding(const float *ids, const float *table, float *y, int count, int rows, int features)
{
    int i;
    for (i = 0; i < count; i++, y += features) {
        int row = 0;
        if (ids[i] > 0.0f) {
            row = ids[i] < (float)rows ? (int)ids[i] : rows - 1;
            row = row < rows ? row : rows - 1; /* a large number of rows may be rounded up as a float */
        }
        memcpy(y, table + (long)row * features, (size_t)features * sizeof(*y));
    }
}
