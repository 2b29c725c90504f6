#include "nnkit_segment.h"

#include <math.h>

static int limited(float value, int most)
{
    return value < 0.0f ? 0 : (value > (float)most ? most : (int)value);
}

void nnkit_psroi_pooling(const float *x, const float *rois, float *y, int height, int width, int regions,
                         int output_dim, int group_size, float spatial_scale)
{
    for (int r = 0; r < regions; r++, rois += 5) {
        const float left = roundf(rois[1]) * spatial_scale, top = roundf(rois[2]) * spatial_scale;
        const float right = (roundf(rois[3]) + 1.0f) * spatial_scale;
        const float bottom = (roundf(rois[4]) + 1.0f) * spatial_scale;
        const float bin_w = fmaxf(right - left, 0.1f) / (float)group_size;
        const float bin_h = fmaxf(bottom - top, 0.1f) / (float)group_size;
        const float *map = x;
        for (int c = 0; c < output_dim; c++) {
            for (int i = 0; i < group_size; i++) {
                const int row0 = limited(floorf((float)i * bin_h + top), height);
                const int row1 = limited(ceilf((float)(i + 1) * bin_h + top), height);
                for (int j = 0; j < group_size; j++, map += (long)height * width) {
                    const int column0 = limited(floorf((float)j * bin_w + left), width);
                    const int column1 = limited(ceilf((float)(j + 1) * bin_w + left), width);
                    const int empty = rois[0] != 0.0f || row0 >= row1 || column0 >= column1;
                    float sum = 0.0f;
                    for (int row = row0; !empty && row < row1; row++) {
                        for (int column = column0; column < column1; column++) {
                            sum += map[(long)row * width + column];
                        }
                    }
                    *y++ = empty ? 0.0f : sum / (float)((row1 - row0) * (column1 - column0));
                }
            }
        }
    }
}
