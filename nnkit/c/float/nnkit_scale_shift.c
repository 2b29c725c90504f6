#include "nnkit_segment.h"

void nnkit_scale_shift(const float *x, const float *scale, const float *shift, float *y, int channels, int inner)
{
    int c;
    for (c = 0; c < channels; c++) {
        int i;
        for (i = 0; i < inner; i++) {
            y[(long)c * inner + i] = x[(long)c * inner + i] * scale[c] + shift[c];
        }
    }
}
