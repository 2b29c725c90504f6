#include "nnkit_segment.h"

#include "nnkit_math.h"

/*
 * The error function, which C90 has not, to 3e-7: below one half its power series, beyond it formula 7.1.26 of
 * Abramowitz and Stegun, Handbook of Mathematical Functions.
 */
static float erf_of(float x)
{
    const float size = nnkit_fabsf(x), square = x * x;
    float t, rest;
    if (size < 0.5f) {
        return x * (1.12837917f
                    + square * (-0.376126389f
                                + square * (0.112837917f
                                            + square * (-0.0268661706f
                                                        + square * (0.00522397762f - square * 0.000854832613f)))));
    }
    t = 1.0f / (1.0f + 0.3275911f * size);
    rest = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    rest = 1.0f - rest * nnkit_expf(-square);
    return x < 0.0f ? -rest : rest;
}

void nnkit_erf(const float *x, float *y, int count)
{
    int i;
    for (i = 0; i < count; i++) {
        y[i] = erf_of(x[i]);
    }
}

void nnkit_gelu(const float *x, float *y, int count)
{
    int i;
    for (i = 0; i < count; i++) {
        y[i] = 0.5f * x[i] * (1.0f + erf_of(0.707106781f * x[i]));
    }
}

void nnkit_gelu_tanh(const float *x, float *y, int count)
{
    int i;
    for (i = 0; i < count; i++) {
        const float value = x[i];
        y[i] = 0.5f * value * (1.0f + nnkit_tanhf(0.797884561f * (value + 0.044715f * value * value * value)));
    }
}
