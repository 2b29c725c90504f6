#include "nnkit_segment.h"

/* First output position whose window offset is not before the map's start, for an offset of `shift` pixels. */
static int first_inside(int shift, int stride)
{
    return shift >= 0 ? 0 : (-shift + stride - 1) / stride;
}

/* One past the last output position whose window offset lies before `size`. */
static int end_inside(int shift, int stride, int size, int positions)
{
    const int end = size > shift ? (size - shift - 1) / stride + 1 : 0;
    return end < positions ? end : positions;
}

/* Adds one weight's share to all positions of a map: the innermost loop walks along rows. */
static void add_weight(const float *x, float weight, float *y, int ky, int kx, const nnkit_window *w)
{
    int i;
    const int down = ky * w->dilation_h - w->pad_top, across = kx * w->dilation_w - w->pad_left;
    const int row_end = end_inside(down, w->stride_h, w->height, w->out_height);
    const int first = first_inside(across, w->stride_w);
    const int end = end_inside(across, w->stride_w, w->width, w->out_width);
    for (i = first_inside(down, w->stride_h); i < row_end; i++) {
        int j;
        const float *from = x + (long)(i * w->stride_h + down) * w->width;
        float *to = y + (long)i * w->out_width;
        for (j = first; j < end; j++) {
            to[j] += weight * from[j * w->stride_w + across];
        }
    }
}

void nnkit_conv(const float *x, const float *weights, const float *bias, float *y, const nnkit_window *window)
{
    const int channels = window->channels / window->groups;
    const int outputs = window->out_channels / window->groups;
    const long map = (long)window->height * window->width;
    const long out_map = (long)window->out_height * window->out_width;
    int o;
    for (o = 0; o < window->out_channels; o++, y += out_map) {
        const float *from = x + (long)(o / outputs) * channels * map;
        long i;
        int c;
        for (i = 0; i < out_map; i++) {
            y[i] = bias ? bias[o] : 0.0f;
        }
        for (c = 0; c < channels; c++, from += map) {
            int ky;
            for (ky = 0; ky < window->kernel_h; ky++) {
                int kx;
                for (kx = 0; kx < window->kernel_w; kx++) {
                    add_weight(from, *weights++, y, ky, kx, window);
                }
            }
        }
    }
}
