#include "nnkit_segment.h"

/* Adds x * kernel to every output position that an input position reaches. */
static void spread(const float *x, const float *kernel, float *y, const nnkit_window *w)
{
    int i;
    for (i = 0; i < w->height; i++) {
        int j;
        for (j = 0; j < w->width; j++) {
            int ky;
            const float value = x[(long)i * w->width + j];
            for (ky = 0; ky < w->kernel_h; ky++) {
                int kx;
                const int row = i * w->stride_h - w->pad_top + ky * w->dilation_h;
                if (row < 0 || row >= w->out_height) {
                    continue;
                }
                for (kx = 0; kx < w->kernel_w; kx++) {
                    const int column = j * w->stride_w - w->pad_left + kx * w->dilation_w;
                    if (column >= 0 && column < w->out_width) {
                        y[(long)row * w->out_width + column] += value * kernel[ky * w->kernel_w + kx];
                    }
                }
            }
        }
    }
}

void nnkit_conv_transpose(const float *x, const float *weights, const float *bias, float *y,
                          const nnkit_window *window)
{
    int o;
    const int channels = window->channels / window->groups;
    const int outputs = window->out_channels / window->groups;
    const long map = (long)window->height * window->width;
    const long out_map = (long)window->out_height * window->out_width;
    const long kernel = (long)window->kernel_h * window->kernel_w;
    for (o = 0; o < window->out_channels; o++) {
        int c;
        long i;
        const int group = o / outputs;
        float *to = y + o * out_map;
        for (i = 0; i < out_map; i++) {
            to[i] = bias ? bias[o] : 0.0f;
        }
        for (c = group * channels; c < (group + 1) * channels; c++) {
            spread(x + c * map, weights + ((long)c * outputs + o % outputs) * kernel, to, window);
        }
    }
}
