#include "nnkit_segment.h"

#include "nnkit_math.h"

static float scaled(float value, float norm, const float *scale, int index)
{
    return norm > 0.0f ? value / norm * (scale ? scale[index] : 1.0f) : 0.0f;
}

void nnkit_normalize(const float *x, const float *scale, float *y, int channels, int inner, int across, int shared,
                     float eps)
{
    int i;
    float sum = 0.0f;
    if (across) {
        long k;
        for (k = 0; k < (long)channels * inner; k++) {
            sum += x[k] * x[k];
        }
    }
    for (i = 0; i < inner; i++) {
        int c;
        float norm = sum;
        for (c = 0; !across && c < channels; c++) {
            norm += x[(long)c * inner + i] * x[(long)c * inner + i];
        }
        norm = nnkit_sqrtf(norm + eps);
        for (c = 0; c < channels; c++) {
            y[(long)c * inner + i] = scaled(x[(long)c * inner + i], norm, scale, shared ? 0 : c);
        }
    }
}
