#include "nnkit_segment.h"

#include "nnkit_math.h"

/* 0 for what is not a number: its conversion would be undefined. */
static int limited(float value, int most)
{
    return value > 0.0f ? (value < (float)most ? (int)value : most) : 0;
}

void nnkit_psroi_pooling(const float *x, const float *rois, float *y, int height, int width, int regions,
                         int output_dim, int group_size, float spatial_scale)
{
    int r;
    for (r = 0; r < regions; r++, rois += 5) {
        int c;
        const float left = nnkit_roundf(rois[1]) * spatial_scale, top = nnkit_roundf(rois[2]) * spatial_scale;
        const float right = (nnkit_roundf(rois[3]) + 1.0f) * spatial_scale;
        const float bottom = (nnkit_roundf(rois[4]) + 1.0f) * spatial_scale;
        const float bin_w = nnkit_maxf(right - left, 0.1f) / (float)group_size;
        const float bin_h = nnkit_maxf(bottom - top, 0.1f) / (float)group_size;
        const float *map = x;
        for (c = 0; c < output_dim; c++) {
            int i;
            for (i = 0; i < group_size; i++) {
                int j;
                const int row0 = limited(nnkit_floorf((float)i * bin_h + top), height);
                const int row1 = limited(nnkit_ceilf((float)(i + 1) * bin_h + top), height);
                for (j = 0; j < group_size; j++, map += (long)height * width) {
                    int row;
                    const int column0 = limited(nnkit_floorf((float)j * bin_w + left), width);
                    const int column1 = limited(nnkit_ceilf((float)(j + 1) * bin_w + left), width);
                    const int empty = rois[0] != 0.0f || row0 >= row1 || column0 >= column1;
                    float sum = 0.0f;
                    for (row = row0; !empty && row < row1; row++) {
                        int column;
                        for (column = column0; column < column1; column++) {
                            sum += map[(long)row * width + column];
                        }
                    }
                    *y++ = empty ? 0.0f : sum / (float)((row1 - row0) * (column1 - column0));
                }
            }
        }
    }
}
