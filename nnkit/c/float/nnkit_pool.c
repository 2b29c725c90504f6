#include "nnkit_segment.h"

#include "nnkit_math.h"

void nnkit_max_pool(const float *x, float *y, const nnkit_window *w)
{
    int c;
    for (c = 0; c < w->channels; c++, x += (long)w->height * w->width) {
        int i;
        for (i = 0; i < w->out_height; i++) {
            int j;
            for (j = 0; j < w->out_width; j++) {
                int ky;
                float most = -nnkit_infinity;
                for (ky = 0; ky < w->kernel_h; ky++) {
                    int kx;
                    const int row = i * w->stride_h - w->pad_top + ky * w->dilation_h;
                    for (kx = 0; kx < w->kernel_w && row >= 0 && row < w->height; kx++) {
                        const int column = j * w->stride_w - w->pad_left + kx * w->dilation_w;
                        if (column >= 0 && column < w->width && x[(long)row * w->width + column] > most) {
                            most = x[(long)row * w->width + column];
                        }
                    }
                }
                *y++ = most;
            }
        }
    }
}

void nnkit_average_pool(const float *x, float *y, const nnkit_window *w, int count_pad)
{
    int c;
    for (c = 0; c < w->channels; c++, x += (long)w->height * w->width) {
        int i;
        for (i = 0; i < w->out_height; i++) {
            int j;
            for (j = 0; j < w->out_width; j++) {
                int ky;
                float sum = 0.0f;
                int count = 0;
                for (ky = 0; ky < w->kernel_h; ky++) {
                    int kx;
                    const int row = i * w->stride_h - w->pad_top + ky * w->dilation_h;
                    for (kx = 0; kx < w->kernel_w; kx++) {
                        const int column = j * w->stride_w - w->pad_left + kx * w->dilation_w;
                        if (row >= 0 && row < w->height && column >= 0 && column < w->width) {
                            sum += x[(long)row * w->width + column];
                            count++;
                        } else if (count_pad && row < w->height + w->pad_bottom && column < w->width + w->pad_right) {
                            count++;
                        }
                    }
                }
                *y++ = count > 0 ? sum / (float)count : 0.0f;
            }
        }
    }
}
