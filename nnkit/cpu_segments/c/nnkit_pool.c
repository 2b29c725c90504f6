#include "nnkit_segment.h"

#include <math.h>

void nnkit_max_pool(const float *x, float *y, const nnkit_window *w)
{
    for (int c = 0; c < w->channels; c++, x += (long)w->height * w->width) {
        for (int i = 0; i < w->out_height; i++) {
            for (int j = 0; j < w->out_width; j++) {
                float most = -INFINITY;
                for (int ky = 0; ky < w->kernel_h; ky++) {
                    const int row = i * w->stride_h - w->pad_top + ky * w->dilation_h;
                    for (int kx = 0; kx < w->kernel_w && row >= 0 && row < w->height; kx++) {
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
    for (int c = 0; c < w->channels; c++, x += (long)w->height * w->width) {
        for (int i = 0; i < w->out_height; i++) {
            for (int j = 0; j < w->out_width; j++) {
                float sum = 0.0f;
                int count = 0;
                for (int ky = 0; ky < w->kernel_h; ky++) {
                    const int row = i * w->stride_h - w->pad_top + ky * w->dilation_h;
                    for (int kx = 0; kx < w->kernel_w; kx++) {
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
