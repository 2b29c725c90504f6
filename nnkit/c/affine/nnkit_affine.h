/*
 * nnkit_affine.h: what the kernels of affine integers share, the same for every network.
 *
 * RQ(x, m, s) = (x * m + 2^(s-1)) >> s is the arithmetic of all of them; nnkit_high is what most need of the product.
 * Where the compiler is for an Arm core with the DSP extension (Cortex-M4, M7, M33), its instructions are used; the
 * results are the same to the bit. -DNNKIT_PLAIN leaves them out.
 */
#ifndef NNKIT_AFFINE_H
#define NNKIT_AFFINE_H

#include <limits.h>
#include <string.h>

#include "nnkit_types.h"

#if INT_MAX < 2147483647
#error "int has to have 32 bits"
#endif

#if defined(__GNUC__)
#define NNKIT_INLINE static __inline__
#elif (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L) || defined(__cplusplus)
#define NNKIT_INLINE static inline
#else
#define NNKIT_INLINE static
#endif

#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && !defined(__ARMEB__) && !defined(NNKIT_PLAIN)
#define NNKIT_DSP 1
#else
#define NNKIT_DSP 0
#endif

/* Whether the compiler makes vectors of plain loops; others are written out. */
#if defined(__SSE2__) || defined(__ARM_NEON) || defined(__ARM_FEATURE_MVE) || defined(__riscv_vector)
#define NNKIT_VECTORS 1
#else
#define NNKIT_VECTORS 0
#endif

/* Sixteen numbers at a time, where GNU's compiler or clang has registers for them. */
#if NNKIT_VECTORS && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)) && !defined(NNKIT_PLAIN)
#define NNKIT_SIXTEEN 1
typedef int nnkit_lanes __attribute__((vector_size(32))); /* half of them */
typedef nnkit_i16 nnkit_half_i16 __attribute__((vector_size(16)));
typedef nnkit_i16 nnkit_lanes_i16 __attribute__((vector_size(32)));
typedef nnkit_u8 nnkit_lanes_u8 __attribute__((vector_size(16)));
typedef nnkit_i8 nnkit_lanes_i8 __attribute__((vector_size(16)));
#else
#define NNKIT_SIXTEEN 0
#endif

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8
#define NNKIT_UNROLL _Pragma("GCC unroll 4")
#else
#define NNKIT_UNROLL
#endif

/* Loads stay behind it: read all at once, they would not fit into registers. */
#if defined(__GNUC__)
#define NNKIT_IN_ORDER __asm__ __volatile__("" : : : "memory");
#else
#define NNKIT_IN_ORDER
#endif

/* The upper 32 bits of a signed product. */
NNKIT_INLINE int nnkit_high(int a, int b)
{
#if NNKIT_HAS_64BIT
    return (int)(((nnkit_i64)a * b) >> 32);
#else
    const int a1 = a >> 16, b1 = b >> 16;
    const unsigned a0 = (unsigned)a & 0xffffu, b0 = (unsigned)b & 0xffffu;
    const int middle = a1 * (int)b0 + (int)((a0 * b0) >> 16);
    const int other = (int)a0 * b1 + (middle & 0xffff);
    return a1 * b1 + (middle >> 16) + (other >> 16);
#endif
}

NNKIT_INLINE int nnkit_clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

/* A real number as it is stored: half to even, saturated. */
NNKIT_INLINE int nnkit_stored(float value, float scale, int zero, int low, int high)
{
    const float wanted = value / scale;
    const float near = wanted < -70000.0f ? -70000.0f : wanted > 70000.0f ? 70000.0f : wanted;
    int whole = (int)near;
    const float rest = near - (float)whole;
    if (rest > 0.5f || (rest == 0.5f && (whole & 1))) {
        whole++;
    } else if (rest < -0.5f || (rest == -0.5f && (whole & 1))) {
        whole--;
    }
    return nnkit_clamp(whole + zero, low, high);
}

#if NNKIT_DSP

typedef int nnkit_word __attribute__((may_alias));

NNKIT_INLINE int nnkit_load(const void *bytes)
{
    int word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

NNKIT_INLINE int nnkit_smlad(int a, int b, int sum)
{
    __asm__("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

NNKIT_INLINE int nnkit_smlabb(int a, int b, int sum)
{
    __asm__("smlabb %0, %1, %2, %0" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

NNKIT_INLINE int nnkit_smlatt(int a, int b, int sum)
{
    __asm__("smlatt %0, %1, %2, %0" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

/* sum + the upper 32 bits of a * b */
NNKIT_INLINE int nnkit_smmla(int a, int b, int sum)
{
    int result;
    __asm__("smmla %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

/* Bytes 0 and 2, or 1 and 3, of a word as two numbers of 16 bits. */
NNKIT_INLINE int nnkit_even_i8(int word)
{
    int result;
    __asm__("sxtb16 %0, %1" : "=r"(result) : "r"(word));
    return result;
}

NNKIT_INLINE int nnkit_odd_i8(int word)
{
    int result;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(result) : "r"(word));
    return result;
}

NNKIT_INLINE int nnkit_even_u8(int word)
{
    int result;
    __asm__("uxtb16 %0, %1" : "=r"(result) : "r"(word));
    return result;
}

NNKIT_INLINE int nnkit_odd_u8(int word)
{
    int result;
    __asm__("uxtb16 %0, %1, ror #8" : "=r"(result) : "r"(word));
    return result;
}

/*
 * a, b, c, d += the products of `count` groups of four weights, 8 bits each, with four columns of 16 bits, which lie
 * group by group: depths 0 2 1 3 of the first column, then those of the others.
 */
#define NNKIT_FOUR_COLUMNS(weight, column, count, a, b, c, d) \
    { \
        int nnkit_left = (count), nnkit_even, nnkit_odd; \
        __asm__ volatile( \
            "1:\n\t" \
            "ldr %[even], [%[w]], #4\n\t" \
            "ldm %[x]!, {r0, r1, r2, r3}\n\t" \
            "sxtb16 %[odd], %[even], ror #8\n\t" \
            "sxtb16 %[even], %[even]\n\t" \
            "smlad %[a0], r0, %[even], %[a0]\n\t" \
            "smlad %[b0], r2, %[even], %[b0]\n\t" \
            "smlad %[a0], r1, %[odd], %[a0]\n\t" \
            "smlad %[b0], r3, %[odd], %[b0]\n\t" \
            "ldm %[x]!, {r0, r1, r2, r3}\n\t" \
            "subs %[left], %[left], #1\n\t" \
            "smlad %[c0], r0, %[even], %[c0]\n\t" \
            "smlad %[d0], r2, %[even], %[d0]\n\t" \
            "smlad %[c0], r1, %[odd], %[c0]\n\t" \
            "smlad %[d0], r3, %[odd], %[d0]\n\t" \
            "bne 1b" \
            : [a0] "+r"(a), [b0] "+r"(b), [c0] "+r"(c), [d0] "+r"(d), [w] "+r"(weight), [x] "+r"(column), \
              [left] "+r"(nnkit_left), [even] "=&r"(nnkit_even), [odd] "=&r"(nnkit_odd) \
            : \
            : "r0", "r1", "r2", "r3", "cc", "memory"); \
    }

/* Half of it, rounded down, and clamped. */
NNKIT_INLINE int nnkit_half_u8(int value)
{
    int result;
    __asm__("usat %0, #8, %1, asr #1" : "=r"(result) : "r"(value));
    return result;
}

NNKIT_INLINE int nnkit_half_i8(int value)
{
    int result;
    __asm__("ssat %0, #8, %1, asr #1" : "=r"(result) : "r"(value));
    return result;
}

#else

NNKIT_INLINE int nnkit_smmla(int a, int b, int sum)
{
    return sum + nnkit_high(a, b);
}

NNKIT_INLINE int nnkit_half_u8(int value)
{
    return nnkit_clamp(value >> 1, 0, 255);
}

NNKIT_INLINE int nnkit_half_i8(int value)
{
    return nnkit_clamp(value >> 1, -128, 127);
}

#endif

#if NNKIT_HAS_64BIT

/* 64 bits of two halves. */
NNKIT_INLINE nnkit_i64 nnkit_start(int low, int high)
{
    return (nnkit_i64)high * 65536 * 65536 + (unsigned)low;
}

/*
 * RQ of any sum, exact. A result beyond 2^30, which every format clamps, is 2^30 or its negative.
 */
NNKIT_INLINE int nnkit_rescaled(nnkit_i64 sum, int multiplier, int shift)
{
    const nnkit_i64 half = (nnkit_i64)1 << (shift - 1), limit = 2147483647, most = 1073741824;
    nnkit_i64 result;
    if (sum >= -limit && sum <= limit) {
        result = (sum * multiplier + half) >> shift;
    } else {
        const nnkit_i64 low = (sum & limit) * multiplier + half;
        const nnkit_i64 high = (sum >> 31) * multiplier + (low >> 31);
        if (shift >= 31) {
            result = high >> (shift - 31);
        } else if (high > limit || high < -limit) {
            result = high;
        } else {
            result = high * ((nnkit_i64)1 << (31 - shift)) + ((low & limit) >> shift);
        }
    }
    return (int)(result > most ? most : result < -most ? -most : result);
}

#endif

#endif /* NNKIT_AFFINE_H */
