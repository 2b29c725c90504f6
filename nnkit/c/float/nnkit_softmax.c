#include "nnkit_segment.h"

#include "nnkit_math.h"

void nnkit_softmax(const float *x, float *y, int outer, int size, int inner)
{
    int o;
    for (o = 0; o < outer; o++) {
        int i;
        for (i = 0; i < inner; i++) {
            int k;
            const float *from = x + (long)o * size * inner + i;
            float *to = y + (long)o * size * inner + i;
            float most = from[0], sum = 0.0f;
            for (k = 1; k < size; k++) {
                const float value = from[(long)k * inner];
                most = value > most ? value : most;
            }
            for (k = 0; k < size; k++) {
                const float value = nnkit_expf(from[(long)k * inner] - most);
                to[(long)k * inner] = value;
                sum += value;
            }
            for (k = 0; k < size; k++) {
                to[(long)k * inner] /= sum;
            }
        }
    }
}

void nnkit_log_softmax(const float *x, float *y, int outer, int size, int inner)
{
    int o;
    for (o = 0; o < outer; o++) {
        int i;
        for (i = 0; i < inner; i++) {
            int k;
            const float *from = x + (long)o * size * inner + i;
            float *to = y + (long)o * size * inner + i;
            float most = from[0], sum = 0.0f;
            for (k = 1; k < size; k++) {
                const float value = from[(long)k * inner];
                most = value > most ? value : most;
            }
            k = 0;
            do { /* at least one value, so that the sum is not 0 */
                sum += nnkit_expf(from[(long)k * inner] - most);
            } while (++k < size);
            sum = nnkit_logf(sum);
            for (k = 0; k < size; k++) {
                to[(long)k * inner] = from[(long)k * inner] - most - sum;
            }
        }
    }
}
