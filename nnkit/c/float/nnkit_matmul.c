#include "nnkit_segment.h"

void nnkit_matmul(const float *a, const float *b, float *y, int m, int k, int n, int batches, const int *a_steps,
                  const int *b_steps, float alpha)
{
    int batch;
    for (batch = 0; batch < batches; batch++, a += a_steps[2], b += b_steps[2]) {
        int i;
        for (i = 0; i < m; i++) {
            int j;
            for (j = 0; j < n; j++) {
                int l;
                float sum = 0.0f;
                for (l = 0; l < k; l++) {
                    sum += a[(long)i * a_steps[0] + (long)l * a_steps[1]] *
                           b[(long)l * b_steps[0] + (long)j * b_steps[1]];
                }
                *y++ = alpha * sum;
            }
        }
    }
}
