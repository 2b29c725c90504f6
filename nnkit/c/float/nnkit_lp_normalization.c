#include "nnkit_segment.h"

#include "nnkit_math.h"

void nnkit_lp_normalization(const float *x, float *y, int outer, int size, int inner, int p)
{
    int o;
    for (o = 0; o < outer; o++) {
        int i;
        for (i = 0; i < inner; i++) {
            int k;
            const float *from = x + (long)o * size * inner + i;
            float *to = y + (long)o * size * inner + i;
            float norm = 0.0f;
            for (k = 0; k < size; k++) {
                const float value = from[(long)k * inner];
                norm += p == 1 ? nnkit_fabsf(value) : value * value;
            }
            norm = p == 1 ? norm : nnkit_sqrtf(norm);
            for (k = 0; k < size; k++) {
                to[(long)k * inner] = norm > 0.0f ? from[(long)k * inner] / norm : 0.0f;
            }
        }
    }
}
