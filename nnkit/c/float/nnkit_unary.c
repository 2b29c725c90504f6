#include "nnkit_segment.h"

#include "nnkit_math.h"

static float apply(nnkit_unary_op op, float x, float p, float q)
{
    switch (op) {
    case NNKIT_RELU:
        return x < 0.0f ? 0.0f : x;
    case NNKIT_LEAKY_RELU:
        return x < 0.0f ? p * x : x;
    case NNKIT_CLIP:
        x = x < p ? p : x;
        return x > q ? q : x;
    case NNKIT_SIGMOID:
        return 1.0f / (1.0f + nnkit_expf(-x));
    case NNKIT_HARD_SIGMOID:
        x = p * x + q;
        return x < 0.0f ? 0.0f : (x > 1.0f ? 1.0f : x);
    case NNKIT_HARD_SWISH: /* x times the hard sigmoid of slope 1 / 6 and offset 1 / 2 */
        p = x * (1.0f / 6.0f) + 0.5f;
        return x * (p < 0.0f ? 0.0f : (p > 1.0f ? 1.0f : p));
    case NNKIT_TANH:
        return nnkit_tanhf(x);
    case NNKIT_ELU:
        return x < 0.0f ? p * nnkit_expm1f(x) : x;
    case NNKIT_SOFTPLUS:
        return x > 0.0f ? x + nnkit_log1pf(nnkit_expf(-x)) : nnkit_log1pf(nnkit_expf(x));
    case NNKIT_EXP:
        return nnkit_expf(x);
    case NNKIT_LOG:
        return nnkit_logf(x);
    case NNKIT_SQRT:
        return nnkit_sqrtf(x);
    case NNKIT_ABS:
        return nnkit_fabsf(x);
    case NNKIT_NEG:
        return -x;
    case NNKIT_RECIPROCAL:
        return 1.0f / x;
    case NNKIT_FLOOR:
        return nnkit_floorf(x);
    case NNKIT_CEIL:
        return nnkit_ceilf(x);
    case NNKIT_SOFTSIGN:
        return x / (1.0f + nnkit_fabsf(x));
    case NNKIT_MISH: /* softplus(x) as above */
        return x * nnkit_tanhf((x > 0.0f ? x : 0.0f) + nnkit_log1pf(nnkit_expf(-nnkit_fabsf(x))));
    case NNKIT_SIGN:
        return (float)((x > 0.0f) - (x < 0.0f));
    }
    return x;
}

void nnkit_unary(nnkit_unary_op op, const float *x, float *y, int count, float p, float q)
{
    int i;
    if (op == NNKIT_RELU) {
        for (i = 0; i < count; i++) {
            y[i] = x[i] < 0.0f ? 0.0f : x[i];
        }
        return;
    }
    for (i = 0; i < count; i++) {
        y[i] = apply(op, x[i], p, q);
    }
}
