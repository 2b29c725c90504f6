#include "nnkit_segment.h"

#include "nnkit_math.h"

void nnkit_lrn(const float *x, float *y, int channels, int inner, int size, float alpha, float beta, float bias)
{
    int c;
    for (c = 0; c < channels; c++) {
        int i;
        const int start = c - (size - 1) / 2;
        const int end = c + size / 2; /* included */
        for (i = 0; i < inner; i++) {
            int k;
            float sum = 0.0f;
            for (k = start < 0 ? 0 : start; k <= end && k < channels; k++) {
                const float value = x[(long)k * inner + i];
                sum += value * value;
            }
            y[(long)c * inner + i] = x[(long)c * inner + i] / nnkit_powf(bias + alpha / (float)size * sum, beta);
        }
    }
}
