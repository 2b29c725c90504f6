#include "nnkit_segment.h"

#include "nnkit_math.h"

/* 0 for what is not a number: its conversion would be undefined. */
static int limited(float value, int most)
{
    return value > 0.0f ? (value < (float)most ? (int)value : most) : 0;
}

void nnkit_roi_pooling(const float *x, const float *rois, float *y, int channels, int height, int width, int regions,
                       int pooled_h, int pooled_w, float spatial_scale)
{
    int r;
    for (r = 0; r < regions; r++, rois += 5) {
        int c;
        const float left = nnkit_roundf(rois[1] * spatial_scale), top = nnkit_roundf(rois[2] * spatial_scale);
        const float bin_w = nnkit_maxf(nnkit_roundf(rois[3] * spatial_scale) - left + 1.0f, 1.0f) / (float)pooled_w;
        const float bin_h = nnkit_maxf(nnkit_roundf(rois[4] * spatial_scale) - top + 1.0f, 1.0f) / (float)pooled_h;
        for (c = 0; c < channels; c++) {
            int i;
            const float *map = x + (long)c * height * width;
            for (i = 0; i < pooled_h; i++) {
                int j;
                const int row0 = limited(nnkit_floorf((float)i * bin_h) + top, height);
                const int row1 = limited(nnkit_ceilf((float)(i + 1) * bin_h) + top, height);
                for (j = 0; j < pooled_w; j++) {
                    int row;
                    const int column0 = limited(nnkit_floorf((float)j * bin_w) + left, width);
                    const int column1 = limited(nnkit_ceilf((float)(j + 1) * bin_w) + left, width);
                    const int empty = rois[0] != 0.0f || row0 >= row1 || column0 >= column1;
                    float most = empty ? 0.0f : map[(long)row0 * width + column0];
                    for (row = row0; !empty && row < row1; row++) {
                        int column;
                        for (column = column0; column < column1; column++) {
                            most = nnkit_maxf(most, map[(long)row * width + column]);
                        }
                    }
                    *y++ = most;
                }
            }
        }
    }
}
