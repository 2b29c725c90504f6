#include "nnkit_segment.h"

#include <math.h>

static int limited(float value, int most)
{
    return value < 0.0f ? 0 : (value > (float)most ? most : (int)value);
}

void nnkit_roi_pooling(const float *x, const float *rois, float *y, int channels, int height, int width, int regions,
                       int pooled_h, int pooled_w, float spatial_scale)
{
    for (int r = 0; r < regions; r++, rois += 5) {
        const float left = roundf(rois[1] * spatial_scale), top = roundf(rois[2] * spatial_scale);
        const float bin_w = fmaxf(roundf(rois[3] * spatial_scale) - left + 1.0f, 1.0f) / (float)pooled_w;
        const float bin_h = fmaxf(roundf(rois[4] * spatial_scale) - top + 1.0f, 1.0f) / (float)pooled_h;
        for (int c = 0; c < channels; c++) {
            const float *map = x + (long)c * height * width;
            for (int i = 0; i < pooled_h; i++) {
                const int row0 = limited(floorf((float)i * bin_h) + top, height);
                const int row1 = limited(ceilf((float)(i + 1) * bin_h) + top, height);
                for (int j = 0; j < pooled_w; j++) {
                    const int column0 = limited(floorf((float)j * bin_w) + left, width);
                    const int column1 = limited(ceilf((float)(j + 1) * bin_w) + left, width);
                    const int empty = rois[0] != 0.0f || row0 >= row1 || column0 >= column1;
                    float most = empty ? 0.0f : map[(long)row0 * width + column0];
                    for (int row = row0; !empty && row < row1; row++) {
                        for (int column = column0; column < column1; column++) {
                            most = fmaxf(most, map[(long)row * width + column]);
                        }
                    }
                    *y++ = most;
                }
            }
        }
    }
}
