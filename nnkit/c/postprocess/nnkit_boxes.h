/*
 * nnkit_boxes.h: what nnkit_detect.c and nnkit_yolo.c share of the arithmetic of boxes; nothing for the application.
 * Coordinates have 14 fraction bits. NNKIT_BOXES_EXP2: whether powers of two are needed.
 */
#ifndef NNKIT_BOXES_H
#define NNKIT_BOXES_H

#include "nnkit_postprocess.h"

#define NNKIT_BOX_ONE 16384
#define NNKIT_BOX_LEAST(clip) ((clip) ? 0 : -NNKIT_BOX_ONE)
#define NNKIT_BOX_MOST(clip) ((clip) ? NNKIT_BOX_ONE : 2 * NNKIT_BOX_ONE - 1)
#define SHIFT_MOST 65535
#define EXP_LEAST (-15 * 8192)
#define EXP_MOST (6 * 8192 - 1)

static nnkit_i32 clamped(nnkit_i32 value, nnkit_i32 low, nnkit_i32 high)
{
    return value < low ? low : value > high ? high : value;
}

#if NNKIT_BOXES_EXP2

/* 2 to the fraction of an exponent of 13 fraction bits, with 14 of them. */
static nnkit_i32 power_of_two(nnkit_i32 exponent)
{
    static const nnkit_u16 points[65] = NNKIT_EXP2;
    const nnkit_i32 index = (exponent & 8191) >> 7, rest = exponent & 127;
    const nnkit_i32 step = (nnkit_i32)points[index + 1] - (nnkit_i32)points[index];
    return (nnkit_i32)points[index] + ((step * rest + 64) >> 7);
}

/* Half of side * 2^exponent. */
#define HALF_SIDE(exponent, side)                                                                                     \
    ((power_of_two(exponent) * (side) + ((nnkit_i32)1 << (14 - ((exponent) >> 13)))) >> (15 - ((exponent) >> 13)))

#endif

static nnkit_u32 area(const nnkit_i16 *box)
{
    const nnkit_i32 width = box[2] - box[0], height = box[3] - box[1];
    return width < 0 || height < 0 ? 0 : (nnkit_u32)width * (nnkit_u32)height;
}

/* Whether common / (area a + area b - common) is above the threshold, in products of 48 bits. */
static int overlaps(const nnkit_i16 *a, const nnkit_i16 *b, nnkit_u32 threshold)
{
    const nnkit_i32 width = (a[2] < b[2] ? a[2] : b[2]) - (a[0] > b[0] ? a[0] : b[0]);
    const nnkit_i32 height = (a[3] < b[3] ? a[3] : b[3]) - (a[1] > b[1] ? a[1] : b[1]);
    nnkit_u32 common, first, second, high, low, least_high, least_low;
    if (width <= 0 || height <= 0) {
        return 0;
    }
    common = (nnkit_u32)width * (nnkit_u32)height;
    first = area(a);
    second = area(b);
    low = (common & 0xFFFFU) * (NNKIT_BOX_ONE + threshold);
    high = (common >> 16) * (NNKIT_BOX_ONE + threshold) + (low >> 16);
    least_low = (first & 0xFFFFU) * threshold + (second & 0xFFFFU) * threshold;
    least_high = (first >> 16) * threshold + (second >> 16) * threshold + (least_low >> 16);
    return high != least_high ? high > least_high : (low & 0xFFFFU) > (least_low & 0xFFFFU);
}

#endif /* NNKIT_BOXES_H */
