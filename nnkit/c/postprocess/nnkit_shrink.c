/* nnkit_shrink.c: see the header. */
#include "nnkit_shrink.h"

#define FACTOR NNKIT_SHRINK_FACTOR
#define AREA ((nnkit_u32)FACTOR * FACTOR)

/* The sum of 64 x 64 pixels, with 8 fraction bits and doubled, needs 30 bits. */
NNKIT_STATIC_CHECK(shrink_factor, FACTOR >= 1 && FACTOR <= 64);
NNKIT_STATIC_CHECK(shrink_frac, NNKIT_SHRINK_FRAC >= 0 && NNKIT_SHRINK_FRAC <= 8);

void nnkit_shrink_rows(const nnkit_u8 *pixels, nnkit_shrink_value *out, nnkit_i32 first, nnkit_i32 last)
{
    const nnkit_i32 stride = NNKIT_SHRINK_WIDTH * FACTOR;
    nnkit_i32 row, column, y, x;

    out += first * NNKIT_SHRINK_WIDTH;
    for (row = first; row < last; ++row) {
        for (column = 0; column < NNKIT_SHRINK_WIDTH; ++column) {
            const nnkit_u8 *corner = pixels + row * FACTOR * stride + column * FACTOR;
            nnkit_u32 sum = 0;
            for (y = 0; y < FACTOR; ++y) {
                for (x = 0; x < FACTOR; ++x) {
                    sum += corner[y * stride + x];
                }
            }
            sum = ((sum << NNKIT_SHRINK_FRAC << 1) + AREA) / (AREA << 1);
            *out++ = (nnkit_shrink_value)(sum < NNKIT_SHRINK_MAX ? sum : NNKIT_SHRINK_MAX);
        }
    }
}

int nnkit_shrink(const nnkit_u8 *pixels, nnkit_shrink_value *out)
{
    if (pixels == NULL || out == NULL) {
        return NNKIT_ERROR_NULL;
    }
    nnkit_shrink_rows(pixels, out, 0, NNKIT_SHRINK_HEIGHT);
    return NNKIT_OK;
}
