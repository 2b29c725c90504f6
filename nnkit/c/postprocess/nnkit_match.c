/* nnkit_match.c: see the header. */
#include "nnkit_match.h"

#if NNKIT_MATCH_FLOAT
#include <float.h>
#include <math.h>
#endif

#define LENGTH NNKIT_MATCH_LENGTH
#define CAPACITY NNKIT_MATCH_CAPACITY

/* A sum of 65536 squares, each below 2^32, needs 48 bits of the 64. */
NNKIT_STATIC_CHECK(match_length, LENGTH >= 1 && LENGTH <= 65536);
NNKIT_STATIC_CHECK(match_capacity, CAPACITY >= 1 && CAPACITY <= 65536);

static void add_to(nnkit_distance *sum, nnkit_u32 value)
{
    sum->low += value;
    if (sum->low < value) {
        ++sum->high;
    }
}

static int is_less(nnkit_distance a, nnkit_distance b)
{
    return a.high != b.high ? a.high < b.high : a.low < b.low;
}

#if NNKIT_MATCH_NORMALIZE && NNKIT_MATCH_FLOAT

/* The descriptor scaled to unit length, 14 fraction bits; zeros where it has no length. */
static void prepare(const nnkit_descriptor_value *descriptor, nnkit_match_value *prepared)
{
    double sum = 0.0, root;
    nnkit_i32 i;
    for (i = 0; i < LENGTH; ++i) {
        const double square = (double)descriptor[i] * (double)descriptor[i];
        sum += square;
    }
    root = sqrt(sum);
    for (i = 0; i < LENGTH; ++i) {
        const double value = (double)descriptor[i], size = (value < 0.0 ? -value : value) / root;
        const double scaled = sum > 0.0 && sum <= DBL_MAX ? floor(size * 16384.0 + 0.5) : 0.0;
        prepared[i] = (nnkit_match_value)(value < 0.0 ? -scaled : scaled);
    }
}

#elif NNKIT_MATCH_NORMALIZE

static nnkit_u32 magnitude(nnkit_i32 value)
{
    return (nnkit_u32)(value < 0 ? -value : value);
}

static nnkit_distance square_of(nnkit_u32 value)
{
    const nnkit_u32 high = value >> 16;
    const nnkit_u32 low = value & 0xFFFFU;
    nnkit_distance square;
    square.high = high * high + ((high * low) >> 15);
    square.low = 0;
    add_to(&square, low * low);
    add_to(&square, ((high * low) & 0x7FFFU) << 17);
    return square;
}

/*
 * Square root of a sum below 2^48, rounded to nearest. `root` is the floor; the rounded one is larger by 1 where
 * sum - root^2 > root. That difference is at most 2 * root, so that its low half is all of it.
 */
static nnkit_u32 rounded_root(nnkit_distance sum)
{
    nnkit_u32 root = 0;
    nnkit_u32 bit;
    for (bit = 0x800000U; bit != 0; bit >>= 1) {
        if (!is_less(sum, square_of(root + bit))) {
            root += bit;
        }
    }
    return sum.low - square_of(root).low > root ? root + 1 : root;
}

/* Left shift that brings the largest magnitude to [2^14, 2^16), so that the root has at least 14 bits. */
static nnkit_u32 shift_of(nnkit_u32 largest)
{
    nnkit_u32 shift = 0;
    while ((largest << shift) < 0x4000U) {
        ++shift;
    }
    return shift;
}

/* value * 2^14 / norm, half away from zero: below 2^16 * 2^14 + 2^23 before the division, 2^14 after it. */
static nnkit_match_value unit_value(nnkit_i32 value, nnkit_u32 shift, nnkit_u32 norm)
{
    const nnkit_u32 scaled = (((magnitude(value) << shift) << 14) + norm / 2) / norm;
    return (nnkit_match_value)(value < 0 ? -(nnkit_i32)scaled : (nnkit_i32)scaled);
}

/* The descriptor scaled to unit length, 14 fraction bits. An all-zero one stays zero. */
static void prepare(const nnkit_descriptor_value *descriptor, nnkit_match_value *prepared)
{
    nnkit_distance sum;
    nnkit_u32 largest = 0;
    nnkit_u32 shift;
    nnkit_u32 norm;
    nnkit_i32 i;
    for (i = 0; i < LENGTH; ++i) {
        const nnkit_u32 value = magnitude((nnkit_i32)descriptor[i] - NNKIT_MATCH_ZERO);
        largest = value > largest ? value : largest;
    }
    if (largest == 0) {
        for (i = 0; i < LENGTH; ++i) {
            prepared[i] = 0;
        }
        return;
    }
    shift = shift_of(largest);
    sum.high = 0;
    sum.low = 0;
    for (i = 0; i < LENGTH; ++i) {
        const nnkit_u32 value = magnitude((nnkit_i32)descriptor[i] - NNKIT_MATCH_ZERO) << shift;
        add_to(&sum, value * value);
    }
    norm = rounded_root(sum);
    for (i = 0; i < LENGTH; ++i) {
        prepared[i] = unit_value((nnkit_i32)descriptor[i] - NNKIT_MATCH_ZERO, shift, norm);
    }
}

#else

static void prepare(const nnkit_descriptor_value *descriptor, nnkit_match_value *prepared)
{
    nnkit_i32 i;
    for (i = 0; i < LENGTH; ++i) {
        prepared[i] = descriptor[i];
    }
}

#endif

/* A difference of two 16-bit values is at most 65535 in magnitude: its square fits an unsigned 32-bit integer. */
static nnkit_distance distance_between(const nnkit_match_value *entry, const nnkit_match_value *query)
{
    nnkit_distance sum;
    nnkit_i32 i;
    sum.high = 0;
    sum.low = 0;
    for (i = 0; i < LENGTH; ++i) {
        const nnkit_i32 difference = (nnkit_i32)entry[i] - (nnkit_i32)query[i];
        const nnkit_u32 size = (nnkit_u32)(difference < 0 ? -difference : difference);
        add_to(&sum, size * size);
    }
    return sum;
}

int nnkit_gallery_init(nnkit_gallery *gallery)
{
    if (gallery == NULL) {
        return NNKIT_ERROR_NULL;
    }
    gallery->count = 0;
    return NNKIT_OK;
}

int nnkit_gallery_enrol(nnkit_gallery *gallery, const nnkit_descriptor_value *descriptor, nnkit_u32 *index)
{
    if (gallery == NULL || descriptor == NULL || index == NULL) {
        return NNKIT_ERROR_NULL;
    }
    if (gallery->count > CAPACITY) {
        return NNKIT_ERROR_GALLERY;
    }
    if (gallery->count == CAPACITY) {
        return NNKIT_ERROR_FULL;
    }
    prepare(descriptor, gallery->entries[gallery->count]);
    *index = gallery->count++;
    return NNKIT_OK;
}

int nnkit_gallery_match(const nnkit_gallery *gallery, const nnkit_descriptor_value *descriptor, nnkit_match *match)
{
    nnkit_distance limit;
    const nnkit_match_value *query;
    nnkit_u32 index;
    if (gallery == NULL || descriptor == NULL || match == NULL) {
        return NNKIT_ERROR_NULL;
    }
    if (gallery->count > CAPACITY) {
        return NNKIT_ERROR_GALLERY;
    }
    limit.high = NNKIT_MATCH_LIMIT_HIGH;
    limit.low = NNKIT_MATCH_LIMIT_LOW;
#if NNKIT_MATCH_NORMALIZE
    prepare(descriptor, match->query);
    query = match->query;
#else
    query = descriptor;
#endif
    match->index = NNKIT_NO_INDEX;
    match->distance.high = 0xFFFFFFFFU;
    match->distance.low = 0xFFFFFFFFU;
    for (index = 0; index < gallery->count; ++index) {
        const nnkit_distance distance = distance_between(gallery->entries[index], query);
        if (is_less(distance, match->distance)) {
            match->index = index;
            match->distance = distance;
        }
    }
    match->known = match->index != NNKIT_NO_INDEX && !is_less(limit, match->distance);
    return NNKIT_OK;
}
