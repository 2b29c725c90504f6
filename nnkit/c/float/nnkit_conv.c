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

/* Columns of a map, and maps, that are summed up side by side: as many as registers hold. */
#if defined(__AVX__)
#define TILE 16
#elif defined(__SSE__) || defined(__ARM_NEON) || defined(__aarch64__)
#define TILE 8
#else
#define TILE 4
#endif
#define MAPS 4

/*
 * Adds one weight of each of the maps times a row of values to their sums. The row's values are those of the tile's
 * columns `first` to `end`, `stride` apart; the other columns read padding.
 */
static void add_columns(const float *row, int stride, const float *weights, long step, float sums[MAPS][TILE],
                        int first, int end)
{
    const float a = weights[0], b = weights[step], c = weights[2 * step], d = weights[3 * step];
    float values[TILE];
    int t;
    if (stride != 1 || first > 0 || end < TILE) {
        for (t = 0; t < TILE; t++) {
            values[t] = 0.0f;
        }
        for (t = first; t < end; t++) {
            values[t] = row[(t - first) * stride];
        }
        row = values;
    }
    for (t = 0; t < TILE; t++) {
        sums[0][t] += a * row[t];
        sums[1][t] += b * row[t];
        sums[2][t] += c * row[t];
        sums[3][t] += d * row[t];
    }
}

/* MAPS output maps of a convolution without groups; `step` weights from one map's to the next one's. */
static void some_maps(const float *x, const float *weights, long step, const float *bias, float *y,
                      const nnkit_window *w)
{
    const long map = (long)w->height * w->width, out_map = (long)w->out_height * w->out_width;
    int i, j, t, o;
    for (i = 0; i < w->out_height; i++) {
        for (j = 0; j < w->out_width; j += TILE) {
            const int count = w->out_width - j < TILE ? w->out_width - j : TILE;
            const float *at = weights;
            float sums[MAPS][TILE];
            int c, ky, kx;
            for (o = 0; o < MAPS; o++) {
                for (t = 0; t < TILE; t++) {
                    sums[o][t] = bias ? bias[o] : 0.0f;
                }
            }
            for (c = 0; c < w->channels; c++) {
                for (ky = 0; ky < w->kernel_h; ky++, at += w->kernel_w) {
                    const int row = i * w->stride_h + ky * w->dilation_h - w->pad_top;
                    for (kx = 0; row >= 0 && row < w->height && kx < w->kernel_w; kx++) {
                        const int shift = j * w->stride_w + kx * w->dilation_w - w->pad_left;
                        const int first = first_inside(shift, w->stride_w);
                        const int end = end_inside(shift, w->stride_w, w->width, count);
                        if (first < end) {
                            const float *from = x + c * map + (long)row * w->width + shift + first * w->stride_w;
                            add_columns(from, w->stride_w, at + kx, step, sums, first, end);
                        }
                    }
                }
            }
            for (o = 0; o < MAPS; o++) {
                for (t = 0; t < count; t++) {
                    y[o * out_map + (long)i * w->out_width + j + t] = sums[o][t];
                }
            }
        }
    }
}

void nnkit_conv(const float *x, const float *weights, const float *bias, float *y, const nnkit_window *window)
{
    const int channels = window->channels / window->groups;
    const int outputs = window->out_channels / window->groups;
    const long map = (long)window->height * window->width;
    const long out_map = (long)window->out_height * window->out_width;
    const long step = (long)channels * window->kernel_h * window->kernel_w;
    int o = 0;
    if (window->groups == 1) {
        nnkit_window whole = *window;
        if (step == channels && map == out_map && window->stride_h == 1 && window->stride_w == 1) {
            whole.height = whole.out_height = 1; /* one pixel after the other: the map is one row */
            whole.width = whole.out_width = window->height * window->width;
        }
        for (; o + MAPS <= window->out_channels; o += MAPS) {
            some_maps(x, weights, step, bias ? bias + o : bias, y, &whole);
            weights += MAPS * step;
            y += MAPS * out_map;
        }
    }
    for (; o < window->out_channels; o++, y += out_map) {
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
