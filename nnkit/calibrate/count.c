/* What nnkit/calibrate/observers.py: bin_counts does in numpy, to the same bits, at a third of the time. */
#include <stddef.h>
#include <stdint.h>

enum { BLOCK = 2048 };

/* Add numbers to counts[4][size]: a number v to bin floor(v * scale) + offset, zeros among them.
 *
 * The product is exact (the scale is a power of two), and every bin lies in 0 .. size - 1. Four tables in turn, as equal
 * numbers often follow each other and a count has to be written before it can be read again.
 * Returns how many of the numbers are zero.
 */
size_t nnkit_count(const float *numbers, size_t left, float scale, int32_t offset, uint32_t *counts, size_t size)
{
    uint32_t *first = counts, *second = first + size, *third = second + size, *fourth = third + size;
    size_t zeros = 0;
    while (left > 0) {
        const size_t length = left < BLOCK ? left : BLOCK;
        int32_t bins[BLOCK];
        int32_t zeros_here = 0;
        for (size_t i = 0; i < length; ++i) {
            const float scaled = numbers[i] * scale;
            const int32_t truncated = (int32_t)scaled;
            bins[i] = truncated - ((float)truncated > scaled) + offset;
            zeros_here += numbers[i] == 0.0f;
        }
        zeros += (size_t)zeros_here;
        size_t i = 0;
        for (; i + 4 <= length; i += 4) {
            ++first[bins[i]];
            ++second[bins[i + 1]];
            ++third[bins[i + 2]];
            ++fourth[bins[i + 3]];
        }
        for (; i < length; ++i)
            ++first[bins[i]];
        numbers += length;
        left -= length;
    }
    return zeros;
}
