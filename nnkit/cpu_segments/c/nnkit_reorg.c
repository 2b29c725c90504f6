#include "nnkit_segment.h"

void nnkit_reorg(const float *x, float *y, int channels, int height, int width, int stride, int reverse)
{
    const int part = channels / (stride * stride);
    long place = 0;
    for (int c = 0; c < channels; c++) {
        const int offset = c / part, plane = c % part;
        for (int i = 0; i < height; i++) {
            const long row = (long)height * stride * plane + (long)i * stride + offset / stride;
            for (int j = 0; j < width; j++, place++) {
                const long other = row * width * stride + (long)j * stride + offset % stride;
                if (reverse) {
                    y[other] = x[place];
                } else {
                    y[place] = x[other];
                }
            }
        }
    }
}
