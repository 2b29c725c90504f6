#include "nnkit_segment.h"

#include "nnkit_math.h"

/* Sums are taken of so many values at a time, so that errors of rounding do not add up over a whole map. */
#define PART 64

static float sum_of(const float *x, int size)
{
    float sum = 0.0f;
    int i, k;
    for (i = 0; i < size; i += PART) {
        const int count = size - i < PART ? size - i : PART;
        float part = 0.0f;
        for (k = 0; k < count; k++) {
            part += x[i + k];
        }
        sum += part;
    }
    return sum;
}

static float squares_of(const float *x, int size, float mean)
{
    float sum = 0.0f;
    int i, k;
    for (i = 0; i < size; i += PART) {
        const int count = size - i < PART ? size - i : PART;
        float part = 0.0f;
        for (k = 0; k < count; k++) {
            const float difference = x[i + k] - mean;
            part += difference * difference;
        }
        sum += part;
    }
    return sum;
}

void nnkit_normalization(const float *x, const float *scale, const float *bias, float *y, int rows, int size, int cycle,
                         int each, float epsilon)
{
    int row, i, k;
    for (row = 0; row < rows; row++, x += size, y += size) {
        const float mean = sum_of(x, size) / (float)size;
        const float factor = 1.0f / nnkit_sqrtf(squares_of(x, size, mean) / (float)size + epsilon);
        int at = row % cycle * (size / each);
        for (i = 0; i < size; i += each, at++) {
            const float gain = scale[at], offset = bias[at];
            for (k = 0; k < each; k++) {
                y[i + k] = (x[i + k] - mean) * factor * gain + offset;
            }
        }
    }
}
