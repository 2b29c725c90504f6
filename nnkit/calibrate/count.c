/* What nnkit/calibrate/observers.py: bin_counts does in numpy, to the same bits, at a third of the time. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_THIS_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_THIS_PROCESSOR
#endif

/* NNKIT_BINS is given by the build: as many for negative numbers as for positive ones. */
enum { BLOCK = 512, TABLES = 4, MOST_BLOCKS = UINT16_MAX / (BLOCK / TABLES) };

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
 * returns -1.
 * counts: [bins], written. ends: least and greatest number, written.
 */
FOR_THIS_PROCESSOR
int64_t nnkit_count(const float *numbers, size_t left, float lowest, float limit, float negative_scale, float scale,
                    int64_t *counts, float ends[2])
{
    /* Numbers take the tables in turn: equal ones often follow each other, and a count has to be written before it can
     * be read again. With 16 bits they fit a core's nearest cache, and are emptied before they overflow. */
    uint16_t tables[TABLES][NNKIT_BINS];
    const int32_t least = key_of(lowest), beyond = key_of(limit), middle = NNKIT_BINS / 2;
    int32_t low = INT32_MAX, high = INT32_MIN;
    int64_t zeros = 0;
    int blocks = 0;
    memset(tables, 0, sizeof tables);
    memset(counts, 0, NNKIT_BINS * sizeof *counts);
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
            ++tables[0][bin[i]];
            ++tables[1][bin[i + 1]];
            ++tables[2][bin[i + 2]];
            ++tables[3][bin[i + 3]];
        }
        for (; i < length; ++i)
            ++tables[0][bin[i]];
        numbers += length;
        left -= length;
        if (++blocks == MOST_BLOCKS || left == 0) {
            for (int table = 0; table < TABLES; ++table)
                for (size_t i = 0; i < NNKIT_BINS; ++i)
                    counts[i] += tables[table][i];
            memset(tables, 0, sizeof tables);
            blocks = 0;
        }
    }
    counts[middle] -= zeros;
    low = ordered(low);
    high = ordered(high);
    memcpy(&ends[0], &low, sizeof low);
    memcpy(&ends[1], &high, sizeof high);
    return zeros;
}
