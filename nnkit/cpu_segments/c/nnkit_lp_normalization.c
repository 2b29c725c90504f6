#include "nnkit_segment.h"

#include <math.h>

void nnkit_lp_normalization(const float *x, float *y, int outer, int size, int inner, int p)
{
    for (int o = 0; o < outer; o++) {
        for (int i = 0; i < inner; i++) {
            const float *from = x + (long)o * size * inner + i;
            float *to = y + (long)o * size * inner + i;
            float norm = 0.0f;
            for (int k = 0; k < size; k++) {
                const float value = from[(long)k * inner];
                norm += p == 1 ? fabsf(value) : value * value;
            }
            norm = p == 1 ? norm : sqrtf(norm);
            for (int k = 0; k < size; k++) {
                to[(long)k * inner] = norm > 0.0f ? from[(long)k * inner] / norm : 0.0f;
            }
        }
    }
}
