#include "nnkit_segment.h"

static float at_window(const float *x, const float *weights, const nnkit_window *w, int i, int j, int channels)
{
    float sum = 0.0f;
    for (int c = 0; c < channels; c++) {
        const float *map = x + (long)c * w->height * w->width;
        const float *kernel = weights + (long)c * w->kernel_h * w->kernel_w;
        for (int ky = 0; ky < w->kernel_h; ky++) {
            const int row = i * w->stride_h - w->pad_top + ky * w->dilation_h;
            if (row < 0 || row >= w->height) {
                continue;
            }
            for (int kx = 0; kx < w->kernel_w; kx++) {
                const int column = j * w->stride_w - w->pad_left + kx * w->dilation_w;
                if (column >= 0 && column < w->width) {
                    sum += map[(long)row * w->width + column] * kernel[ky * w->kernel_w + kx];
                }
            }
        }
    }
    return sum;
}

void nnkit_conv(const float *x, const float *weights, const float *bias, float *y, const nnkit_window *window)
{
    const int channels = window->channels / window->groups;
    const int outputs = window->out_channels / window->groups;
    const long map = (long)window->height * window->width;
    const long kernel = (long)channels * window->kernel_h * window->kernel_w;
    for (int o = 0; o < window->out_channels; o++) {
        const float *from = x + (long)(o / outputs) * channels * map;
        for (int i = 0; i < window->out_height; i++) {
            for (int j = 0; j < window->out_width; j++) {
                *y++ = at_window(from, weights + o * kernel, window, i, j, channels) + (bias ? bias[o] : 0.0f);
            }
        }
    }
}
