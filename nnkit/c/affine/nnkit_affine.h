/*
 * nnkit_affine.h: what the kernels of affine integers share, the same for every network.
 *
 * RQ(x, m, s) = (x * m + 2^(s-1)) >> s is the arithmetic of all of them; nnkit_high is what most need of the product.
 * Where the compiler is for an Arm core with the DSP extension (Cortex-M4, M7, M33), its instructions are used; the
 * results are the same to the bit; so it is with those of AVX2 on a host. -DNNKIT_PLAIN leaves them out.
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

/* Sixteen products at a time on a host. */
#if defined(__GNUC__) && defined(__AVX2__) && !defined(NNKIT_PLAIN)
#define NNKIT_AVX2 1
#include <immintrin.h>
#else
#define NNKIT_AVX2 0
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

/* a / b, b not 0. -DNNKIT_OWN_DIVISION: not by the compiler's library, whose functions take a stack that nothing tells. */
#if defined(NNKIT_OWN_DIVISION)
NNKIT_INLINE nnkit_u64 nnkit_quotient(nnkit_u64 a, nnkit_u64 b)
{
    nnkit_u64 bit = 1, quotient = 0;

    for (; b < a && b >> 63 == 0; b <<= 1) {
        bit <<= 1;
    }
    for (; bit != 0; bit >>= 1, b >>= 1) {
        if (a >= b) {
            a -= b;
            quotient |= bit;
        }
    }
    return quotient;
}
#else
#define nnkit_quotient(a, b) ((a) / (b))
#endif

NNKIT_INLINE int nnkit_clamp(int value, int low, int high)
{
#if defined(NNKIT_XPULP) /* RI5CY's maximum and minimum */
    __asm__(".insn r 0x33, 6, 0x02, %0, %0, %1\n\t.insn r 0x33, 4, 0x02, %0, %0, %2" : "+&r"(value) : "r"(low), "r"(high));
    return value;
#else
    return value < low ? low : value > high ? high : value;
#endif
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

#if NNKIT_AVX2

NNKIT_INLINE __m256i nnkit_sixteen_i16(const nnkit_i16 *values)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)values);
}

NNKIT_INLINE __m256i nnkit_sixteen_i8(const nnkit_i8 *values)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)values));
}

NNKIT_INLINE __m256i nnkit_sixteen_u8(const nnkit_u8 *values)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)values));
}

/* The first `count` of them, a multiple of 4, and zeros; nothing else is read. */
NNKIT_INLINE __m256i nnkit_some_i16(const nnkit_i16 *values, int count)
{
    const __m256i places = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    return _mm256_maskload_epi32((const int *)(const void *)values, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), places));
}

NNKIT_INLINE __m256i nnkit_some_i8(const nnkit_i8 *values, int count)
{
    const __m128i places = _mm_setr_epi32(0, 4, 8, 12);
    return _mm256_cvtepi8_epi16(
        _mm_maskload_epi32((const int *)(const void *)values, _mm_cmpgt_epi32(_mm_set1_epi32(count), places)));
}

NNKIT_INLINE __m128i nnkit_eight_i8(const nnkit_i8 *values)
{
    return _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)values));
}

NNKIT_INLINE __m128i nnkit_eight_u8(const nnkit_u8 *values)
{
    return _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)values));
}

/* Pairs of a and b: eight pairs of numbers. */
NNKIT_INLINE __m256i nnkit_pairs(__m128i a, __m128i b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi16(a, b)), _mm_unpackhi_epi16(a, b), 1);
}

NNKIT_INLINE __m256i nnkit_added(__m256i sums, __m256i a, __m256i b)
{
    return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
}

/* In each half the sums of the halves of a, b, c and d. */
NNKIT_INLINE __m256i nnkit_four_sums(__m256i a, __m256i b, __m256i c, __m256i d)
{
    return _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
}

/* Half of the sum of two, the one of a and the other of b. */
NNKIT_INLINE __m256i nnkit_joined(__m256i a, __m256i b)
{
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/* Eight numbers that lie `step` apart. */
NNKIT_INLINE __m256i nnkit_column(const int *values, int step)
{
    return _mm256_setr_epi32(values[0], values[step], values[2 * step], values[3 * step], values[4 * step],
        values[5 * step], values[6 * step], values[7 * step]);
}

/* Three columns of eight rows of three numbers. */
NNKIT_INLINE void nnkit_three_columns(const int *values, __m256i *first, __m256i *second, __m256i *third)
{
    const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)values);
    const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(values + 8));
    const __m256i c = _mm256_loadu_si256((const __m256i *)(const void *)(values + 16));
    *first = _mm256_permutevar8x32_epi32(
        _mm256_blend_epi32(_mm256_blend_epi32(a, b, 0x92), c, 0x24), _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5));
    *second = _mm256_permutevar8x32_epi32(
        _mm256_blend_epi32(_mm256_blend_epi32(a, b, 0x24), c, 0x49), _mm256_setr_epi32(1, 4, 7, 2, 5, 0, 3, 6));
    *third = _mm256_permutevar8x32_epi32(
        _mm256_blend_epi32(_mm256_blend_epi32(a, b, 0x49), c, 0x92), _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7));
}

/* Eight times nnkit_smmla(sum, multiplier, twice * (1 << shift)) >> shift >> 1. */
NNKIT_INLINE __m256i nnkit_eight_rescaled(__m256i sums, __m256i multiplier, __m256i shift, __m256i twice)
{
    const __m256i even = _mm256_mul_epi32(sums, multiplier);
    const __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(sums, 32), _mm256_srli_epi64(multiplier, 32));
    const __m256i high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    return _mm256_srai_epi32(
        _mm256_srav_epi32(_mm256_add_epi32(high, _mm256_sllv_epi32(twice, shift)), shift), 1);
}

/* Of each half four numbers, saturated, in its lowest bytes. */
NNKIT_INLINE __m256i nnkit_narrow_u8(__m256i values)
{
    const __m256i shorts = _mm256_packs_epi32(values, values);
    return _mm256_packus_epi16(shorts, shorts);
}

NNKIT_INLINE __m256i nnkit_narrow_i8(__m256i values)
{
    const __m256i shorts = _mm256_packs_epi32(values, values);
    return _mm256_packs_epi16(shorts, shorts);
}

NNKIT_INLINE __m256i nnkit_narrow_i16(__m256i values)
{
    return _mm256_packs_epi32(values, values);
}

NNKIT_INLINE __m256i nnkit_narrow_u16(__m256i values)
{
    return _mm256_packus_epi32(values, values);
}

/* What narrowing left of eight numbers. */
NNKIT_INLINE void nnkit_put_eight_bytes(void *to, __m256i narrow)
{
    const __m128i all = _mm_unpacklo_epi32(_mm256_castsi256_si128(narrow), _mm256_extracti128_si256(narrow, 1));
    _mm_storel_epi64((__m128i *)to, all);
}

NNKIT_INLINE void nnkit_put_eight_shorts(void *to, __m256i narrow)
{
    const __m128i all = _mm_unpacklo_epi64(_mm256_castsi256_si128(narrow), _mm256_extracti128_si256(narrow, 1));
    _mm_storeu_si128((__m128i *)to, all);
}

/* The lowest bytes of a register, 4 or 8 where all of it is wanted. */
NNKIT_INLINE void nnkit_put_bytes(void *to, __m128i values, int bytes)
{
    if (bytes == 4) {
        const int word = _mm_cvtsi128_si32(values);
        memcpy(to, &word, sizeof(word));
    } else if (bytes == 8) {
        _mm_storel_epi64((__m128i *)to, values);
    } else {
        unsigned char all[16];
        memcpy(all, &values, sizeof(all));
        memcpy(to, all, (size_t)bytes);
    }
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
