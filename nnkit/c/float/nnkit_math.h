/*
 * nnkit_math.h: functions of float. Where <math.h> has them (C99, C++11) they are those; C90 has functions of double
 * alone, whose results are rounded to float.
 */
#ifndef NNKIT_MATH_H
#define NNKIT_MATH_H

#include <math.h>

/* Arguments are evaluated more than once. */
#define nnkit_minf(a, b) ((a) < (b) ? (a) : (b))
#define nnkit_maxf(a, b) ((a) > (b) ? (a) : (b))

#if (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L) || (defined(__cplusplus) && __cplusplus >= 201103L)
#define nnkit_infinity INFINITY
#define nnkit_expf(x) expf(x)
#define nnkit_expm1f(x) expm1f(x)
#define nnkit_logf(x) logf(x)
#define nnkit_log1pf(x) log1pf(x)
#define nnkit_powf(x, y) powf(x, y)
#define nnkit_sqrtf(x) sqrtf(x)
#define nnkit_tanhf(x) tanhf(x)
#define nnkit_fabsf(x) fabsf(x)
#define nnkit_floorf(x) floorf(x)
#define nnkit_ceilf(x) ceilf(x)
#define nnkit_roundf(x) roundf(x)
#else
#define nnkit_infinity ((float)HUGE_VAL)
#define nnkit_expf(x) ((float)exp((double)(x)))
/* x + x^2 / 2 is exp(x) - 1 to 2^-34 of it below 2^-16 in magnitude, where the difference itself has lost digits. */
#define nnkit_expm1f(x) \
    ((float)(fabs((double)(x)) < 1.52587890625e-5 ? (double)(x) + 0.5 * (double)(x) * (double)(x) \
                                                  : exp((double)(x)) - 1.0))
#define nnkit_logf(x) ((float)log((double)(x)))
/* x - x^2 / 2, likewise. */
#define nnkit_log1pf(x) \
    ((float)(fabs((double)(x)) < 1.52587890625e-5 ? (double)(x) - 0.5 * (double)(x) * (double)(x) \
                                                  : log(1.0 + (double)(x))))
#define nnkit_powf(x, y) ((float)pow((double)(x), (double)(y)))
#define nnkit_sqrtf(x) ((float)sqrt((double)(x)))
#define nnkit_tanhf(x) ((float)tanh((double)(x)))
#define nnkit_fabsf(x) ((float)fabs((double)(x)))
#define nnkit_floorf(x) ((float)floor((double)(x)))
#define nnkit_ceilf(x) ((float)ceil((double)(x)))
/* Half away from zero: the sum is exact in double. */
#define nnkit_roundf(x) ((float)((x) < 0.0f ? ceil((double)(x) - 0.5) : floor((double)(x) + 0.5)))
#endif

#endif /* NNKIT_MATH_H */
