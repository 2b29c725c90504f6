#include "nnkit_segment.h"

/* Into `work` the sum of `taps` rows of x with their weights. */
static void filter_rows(const float *x, float *work, int width, const float *weights, int taps)
{
    int j, k;
    for (j = 0; j < width; j++) {
        work[j] = weights[0] * x[j];
    }
    for (k = 1; k < taps; k++) {
        x += width;
        for (j = 0; j < width; j++) {
            work[j] += weights[k] * x[j];
        }
    }
}

void nnkit_resample(const float *x, float *y, float *work, const int *rows, const float *row_weights,
                    const int *columns, const float *column_weights, const nnkit_resampling *shape)
{
    const int taps = shape->column_taps;
    int c;
    for (c = 0; c < shape->channels; c++, x += (long)shape->height * shape->width) {
        int i;
        for (i = 0; i < shape->out_height; i++) {
            int j;
            filter_rows(x + (long)rows[i] * shape->width, work, shape->width, row_weights + (long)i * shape->row_taps,
                        shape->row_taps);
            for (j = 0; j < shape->out_width; j++) {
                const float *near = work + columns[j];
                const float *weights = column_weights + (long)j * taps;
                float sum = weights[0] * near[0];
                int k;
                for (k = 1; k < taps; k++) {
                    sum += weights[k] * near[k];
                }
                *y++ = sum;
            }
        }
    }
}
