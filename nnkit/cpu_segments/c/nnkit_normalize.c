#include "nnkit_segment.h"

#include <math.h>

static float scaled(float value, float norm, const float *scale, int index)
{
    return norm > 0.0f ? value / norm * (scale ? scale[index] : 1.0f) : 0.0f;
}

void nnkit_normalize(const float *x, const float *scale, float *y, int channels, int inner, int across, int shared,
                     float eps)
{
    float sum = 0.0f;
    if (across) {
        for (long i = 0; i < (long)channels * inner; i++) {
            sum += x[i] * x[i];
        }
    }
    for (int i = 0; i < inner; i++) {
        float norm = sum;
        for (int c = 0; !across && c < channels; c++) {
            norm += x[(long)c * inner + i] * x[(long)c * inner + i];
        }
        norm = sqrtf(norm + eps);
        for (int c = 0; c < channels; c++) {
            y[(long)c * inner + i] = scaled(x[(long)c * inner + i], norm, scale, shared ? 0 : c);
        }
    }
}
