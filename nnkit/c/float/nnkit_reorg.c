#include "nnkit_segment.h"

void nnkit_reorg(const float *x, float *y, int channels, int height, int width, int stride, int reverse)
{
    int c;
    const int part = channels / (stride * stride);
    long place = 0;
    for (c = 0; c < channels; c++) {
        int i;
        const int offset = c / part, plane = c % part;
        for (i = 0; i < height; i++) {
            int j;
            const long row = (long)height * stride * plane + (long)i * stride + offset / stride;
            for (j = 0; j < width; j++, place++) {
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
