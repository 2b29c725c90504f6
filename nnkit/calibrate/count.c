/* What nnkit/calibrate/observers.py: bin_counts does in numpy, to the same bits, at a third of the time. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_THIS_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_THIS_PROCESSOR
#endif

enum { BLOCK = 2048, TABLES = 4, SMALL = 4096 };

/* A float's bits as an integer of the same order, NaN beyond both infinities; and back. */
static int32_t ordered(int32_t bits)
{
    return bits ^ ((bits >> 31) & INT32_MAX);
}

static int32_t key_of(float number)
{
    int32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return ordered(bits);
}

/* Counts of numbers in bins: of v >= 0 in bin floor(v * scale) + bins / 2, of v < 0 in floor(v * negative_scale) +
 * bins / 2. Zeros are not counted in bins; returned is how many they are.
 *
 * lowest, limit: all numbers must lie in [lowest, limit), whose bins are 0 to bins - 1. Otherwise, and for NaN, it
 * returns -1 and writes nothing.
 * tables: room for [TABLES][bins], which the numbers take in turn: equal ones often follow each other, and a count has
 * to be written before it can be read again.
 * counts: [bins], written. ends: least and greatest number, written.
 */
FOR_THIS_PROCESSOR
int64_t nnkit_count(const float *numbers, size_t left, float lowest, float limit, float negative_scale, float scale,
                    uint32_t *tables, int64_t *counts, size_t bins, float ends[2])
{
    /* A few numbers are counted sooner than four tables are cleared. */
    const size_t used = left < SMALL ? 1 : TABLES, step = used == 1 ? 0 : bins;
    uint32_t *first = tables, *second = first + step, *third = second + step, *fourth = third + step;
    const int32_t least = key_of(lowest), beyond = key_of(limit);
    const int32_t middle = (int32_t)(bins / 2);
    int32_t low = INT32_MAX, high = INT32_MIN;
    int64_t zeros = 0;
    memset(tables, 0, used * bins * sizeof *tables);
    while (left > 0) {
        const size_t length = left < BLOCK ? left : BLOCK;
        int32_t bin[BLOCK];
        int32_t zeros_here = 0;
        memcpy(bin, numbers, length * sizeof *bin);
        for (size_t i = 0; i < length; ++i) {
            const int32_t key = ordered(bin[i]);
            low = key < low ? key : low;
            high = key > high ? key : high;
        }
        if (low < least || high >= beyond)
            return -1;
        for (size_t i = 0; i < length; ++i) {
            const float number = numbers[i];
            const float scaled = number * (number < 0.0f ? negative_scale : scale);
            const int32_t truncated = (int32_t)scaled;
            /* A scale below 1 makes the least negative numbers zero. */
            const int32_t below = ((float)truncated > scaled) | ((number < 0.0f) & (truncated == 0));
            bin[i] = truncated - below + middle;
            zeros_here += number == 0.0f;
        }
        zeros += zeros_here;
        size_t i = 0;
        for (; i + TABLES <= length; i += TABLES) {
            ++first[bin[i]];
            ++second[bin[i + 1]];
            ++third[bin[i + 2]];
            ++fourth[bin[i + 3]];
        }
        for (; i < length; ++i)
            ++first[bin[i]];
        numbers += length;
        left -= length;
    }
    for (size_t i = 0; i < bins; ++i)
        counts[i] = first[i];
    for (size_t table = 1; table < used; ++table)
        for (size_t i = 0; i < bins; ++i)
            counts[i] += tables[table * bins + i];
    counts[middle] -= zeros;
    low = ordered(low);
    high = ordered(high);
    memcpy(&ends[0], &low, sizeof low);
    memcpy(&ends[1], &high, sizeof high);
    return zeros;
}
