#include "nnkit_segment.h"

#include "nnkit_math.h"

/* Columns of a row that are pooled together: all of them are read before the first is written. */
#define TILE 32

/* First and last + 1 of `count` positions, `stride` apart, that lie in a map of `size` from `start` on. */
static void inside(int start, int stride, int count, int size, int *first, int *end)
{
    *first = start < 0 ? (-start + stride - 1) / stride : 0;
    *end = start < size ? (size - start - 1) / stride + 1 : 0;
    if (*end > count) {
        *end = count;
    }
}

static void most_of(float *tile, const float *from, int stride, int first, int end)
{
    int j;
    if (stride == 1) {
        for (j = first; j < end; j++) {
            tile[j] = from[j] > tile[j] ? from[j] : tile[j];
        }
    } else if (stride == 2) {
        for (j = first; j < end; j++) {
            tile[j] = from[2 * j] > tile[j] ? from[2 * j] : tile[j];
        }
    } else {
        for (j = first; j < end; j++) {
            tile[j] = from[j * stride] > tile[j] ? from[j * stride] : tile[j];
        }
    }
}

static void add_to(float *tile, const float *from, int stride, int first, int end)
{
    int j;
    if (stride == 1) {
        for (j = first; j < end; j++) {
            tile[j] += from[j];
        }
    } else {
        for (j = first; j < end; j++) {
            tile[j] += from[j * stride];
        }
    }
}

/* Joins what the windows of `count` columns from column `j` on of output row `i` hold. */
static void pool_tile(const float *x, float *tile, int i, int j, int count, const nnkit_window *w, int sum)
{
    int ky, kx;
    for (ky = 0; ky < w->kernel_h; ky++) {
        const int row = i * w->stride_h - w->pad_top + ky * w->dilation_h;
        for (kx = 0; kx < w->kernel_w && row >= 0 && row < w->height; kx++) {
            const int column = j * w->stride_w - w->pad_left + kx * w->dilation_w;
            const float *from = x + (long)row * w->width + column;
            int first, end;
            inside(column, w->stride_w, count, w->width, &first, &end);
            if (sum) {
                add_to(tile, from, w->stride_w, first, end);
            } else {
                most_of(tile, from, w->stride_w, first, end);
            }
        }
    }
}

void nnkit_max_pool(const float *x, float *y, const nnkit_window *w)
{
    int c, i, j, t;
    for (c = 0; c < w->channels; c++, x += (long)w->height * w->width) {
        for (i = 0; i < w->out_height; i++) {
            for (j = 0; j < w->out_width; j += TILE) {
                const int count = w->out_width - j < TILE ? w->out_width - j : TILE;
                float tile[TILE];
                for (t = 0; t < TILE; t++) {
                    tile[t] = -nnkit_infinity;
                }
                pool_tile(x, tile, i, j, count, w, 0);
                for (t = 0; t < count; t++) {
                    *y++ = tile[t];
                }
            }
        }
    }
}

/* How many of a window's `count` places, `dilation` apart, lie between `low` and `high`. */
static int places(int start, int dilation, int count, int low, int high)
{
    int k, number = 0;
    for (k = 0; k < count; k++, start += dilation) {
        number += start >= low && start < high;
    }
    return number;
}

void nnkit_average_pool(const float *x, float *y, const nnkit_window *w, int count_pad)
{
    const int top = count_pad ? -w->pad_top : 0, left = count_pad ? -w->pad_left : 0;
    const int bottom = w->height + (count_pad ? w->pad_bottom : 0), right = w->width + (count_pad ? w->pad_right : 0);
    int c, i, j, t;
    for (c = 0; c < w->channels; c++, x += (long)w->height * w->width) {
        for (i = 0; i < w->out_height; i++) {
            const int rows = places(i * w->stride_h - w->pad_top, w->dilation_h, w->kernel_h, top, bottom);
            for (j = 0; j < w->out_width; j += TILE) {
                const int count = w->out_width - j < TILE ? w->out_width - j : TILE;
                float tile[TILE];
                for (t = 0; t < TILE; t++) {
                    tile[t] = 0.0f;
                }
                pool_tile(x, tile, i, j, count, w, 1);
                for (t = 0; t < count; t++) {
                    const int start = (j + t) * w->stride_w - w->pad_left;
                    const int number = rows * places(start, w->dilation_w, w->kernel_w, left, right);
                    *y++ = number > 0 ? tile[t] / (float)number : 0.0f;
                }
            }
        }
    }
}
