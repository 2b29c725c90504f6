#include "nnkit_segment.h"

void nnkit_sample(const float *x, float *y, int channels, int height, int width, int out_height, int out_width,
                  const int *rows, const int *columns)
{
    int c;
    for (c = 0; c < channels; c++, x += (long)height * width) {
        int i;
        for (i = 0; i < out_height; i++) {
            int j;
            for (j = 0; j < out_width; j++) {
                *y++ = x[(long)rows[i] * width + columns[j]];
            }
        }
    }
}

void nnkit_bilinear(const float *x, float *y, int channels, int height, int width, int out_height, int out_width,
                    const int *rows, const float *row_weights, const int *columns, const float *column_weights)
{
    int c;
    for (c = 0; c < channels; c++, x += (long)height * width) {
        int i;
        for (i = 0; i < out_height; i++) {
            int j;
            const float *near = x + (long)rows[2 * i] * width;
            const float *far = x + (long)rows[2 * i + 1] * width;
            const float down = row_weights[i];
            for (j = 0; j < out_width; j++) {
                const int left = columns[2 * j], right = columns[2 * j + 1];
                const float across = column_weights[j];
                const float upper = (1.0f - across) * near[left] + across * near[right];
                const float lower = (1.0f - across) * far[left] + across * far[right];
                *y++ = (1.0f - down) * upper + down * lower;
            }
        }
    }
}
