#include "nnkit_segment.h"

#include <math.h>

void nnkit_lrn(const float *x, float *y, int channels, int inner, int size, float alpha, float beta, float bias)
{
    for (int c = 0; c < channels; c++) {
        const int start = c - (size - 1) / 2;
        const int end = c + size / 2; /* included */
        for (int i = 0; i < inner; i++) {
            float sum = 0.0f;
            for (int k = start < 0 ? 0 : start; k <= end && k < channels; k++) {
                const float value = x[(long)k * inner + i];
                sum += value * value;
            }
            y[(long)c * inner + i] = x[(long)c * inner + i] / powf(bias + alpha / (float)size * sum, beta);
        }
    }
}
