#include "nnkit_segment.h"

#include <math.h>

void nnkit_softmax(const float *x, float *y, int outer, int size, int inner)
{
    for (int o = 0; o < outer; o++) {
        for (int i = 0; i < inner; i++) {
            const float *from = x + (long)o * size * inner + i;
            float *to = y + (long)o * size * inner + i;
            float most = from[0], sum = 0.0f;
            for (int k = 1; k < size; k++) {
                const float value = from[(long)k * inner];
                most = value > most ? value : most;
            }
            for (int k = 0; k < size; k++) {
                const float value = expf(from[(long)k * inner] - most);
                to[(long)k * inner] = value;
                sum += value;
            }
            for (int k = 0; k < size; k++) {
                to[(long)k * inner] /= sum;
            }
        }
    }
}
