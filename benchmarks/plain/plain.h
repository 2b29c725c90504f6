/*
 * Layers in plain C, as a person writes them: one function a layer, nested loops, tensors as [C][H][W], weights as
 * [O][I][KH][KW], nothing fused. The arithmetic is that of nnkit.program.fixed.
 */
#ifndef PLAIN_H
#define PLAIN_H

#include <stdint.h>

/* One function for all layers of its types, as in a file of its own: never specialised for the sizes of one layer. */
#define LAYER static __attribute__((noinline, noclone, unused))

struct window {
    int kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
};

/* After an accumulator: shift with rounding, saturation, slope of negative values, clip. slopes: 0, 1 or C. */
struct stage {
    int shift, min, max, clip_min, clip_max, slope_count, slope_shift;
    const int16_t *slopes;
};

struct conv {
    int in_channels, in_h, in_w, out_channels, out_h, out_w, groups;
    struct window window;
    int pad_value, bias_shift;
    struct stage stage;
};

struct pool {
    int channels, in_h, in_w, out_h, out_w;
    struct window window;
    int multiplier, shift, clip_min, clip_max;
    const int32_t *multipliers_by_count;
};

struct elementwise {
    int channels, plane, shift_a, shift_b, b_per_channel;
    struct stage stage;
};

struct move {
    int channels, in_h, in_w, out_h, out_w, scale_h, scale_w, top, left, value;
};

static inline int64_t norm(int64_t value, int shift)
{
    return shift ? (value + ((int64_t)1 << (shift - 1))) >> shift : value;
}

static inline int clamp(int value, int min, int max)
{
    return value < min ? min : value > max ? max : value;
}

/* What follows saturation: slope and clip. */
static inline int activate(int v, const struct stage *stage, int channel)
{
    if (stage->slope_count && v < 0) {
        const int slope = stage->slopes[stage->slope_count > 1 ? channel : 0];

        v = clamp((int)norm((int64_t)v * slope, stage->slope_shift), stage->min, stage->max);
    }
    return clamp(v, stage->clip_min, stage->clip_max);
}

static inline int finish32(int32_t acc, const struct stage *stage, int channel)
{
    if (stage->shift) acc = (acc + (1 << (stage->shift - 1))) >> stage->shift;
    return activate(clamp(acc, stage->min, stage->max), stage, channel);
}

static inline int finish64(int64_t acc, const struct stage *stage, int channel)
{
    acc = norm(acc, stage->shift);
    if (acc < stage->min) acc = stage->min;
    if (acc > stage->max) acc = stage->max;
    return activate((int)acc, stage, channel);
}

#endif
