/*
 * nnkit_affine_packed.h: the inner loops of affine convolutions by dot products of words. The same for every network.
 *
 * NNKIT_XPULP: RI5CY's vector extension by encodings, for compilers that do not know it; otherwise plain C, where a
 * depthwise row is left to the kernel (NNKIT_ROW_3X3) and so is storing blocks (NNKIT_AFFINE_STORES).
 */
#ifndef NNKIT_AFFINE_PACKED_H
#define NNKIT_AFFINE_PACKED_H

#include "nnkit_affine.h"
#include "nnkit_packed.h"

#if defined(NNKIT_XPULP)

/* Four values in a word, times four weights. */
#define NNKIT_DOT(name, code)                                                                   \
    NNKIT_INLINE int name(const void *values, int weights, int sum)                             \
    {                                                                                           \
        int four;                                                                               \
                                                                                                \
        __asm__("lw %0, %1" : "=r"(four) : "m"(*(const nnkit_u32 *)values));                    \
        __asm__(".insn r 0x57, 1, " code ", %0, %1, %2" : "+r"(sum) : "r"(four), "r"(weights)); \
        return sum;                                                                             \
    }
NNKIT_DOT(nnkit_dot_u8, "0x54")
NNKIT_DOT(nnkit_dot_i8, "0x5c")

/* Four pixels of four channels as four channels of four pixels. Steps count words. */
NNKIT_INLINE void nnkit_turned(const nnkit_u32 *from, int step, nnkit_u32 *to, int plane)
{
    const nnkit_u32 first = from[0], second = from[step], third = from[2 * step], fourth = from[3 * step];
    nnkit_u32 a = first, b = first, c = third, d = third, low, high;

    __asm__(".insn r 0x57, 1, 0x64, %0, %1, %2" : "+r"(a) : "r"(second), "r"(0x05010400));
    __asm__(".insn r 0x57, 1, 0x64, %0, %1, %2" : "+r"(b) : "r"(second), "r"(0x07030602));
    __asm__(".insn r 0x57, 1, 0x64, %0, %1, %2" : "+r"(c) : "r"(fourth), "r"(0x05010400));
    __asm__(".insn r 0x57, 1, 0x64, %0, %1, %2" : "+r"(d) : "r"(fourth), "r"(0x07030602));
    __asm__(".insn r 0x57, 0, 0x68, %0, %1, %2" : "=r"(low) : "r"(c), "r"(a));
    __asm__(".insn r 0x57, 0, 0x64, %0, %1, %2" : "+r"(a) : "r"(c), "r"(0x30001));
    __asm__(".insn r 0x57, 0, 0x68, %0, %1, %2" : "=r"(high) : "r"(d), "r"(b));
    __asm__(".insn r 0x57, 0, 0x64, %0, %1, %2" : "+r"(b) : "r"(d), "r"(0x30001));
    to[0] = low;
    to[plane] = a;
    to[2 * plane] = high;
    to[3 * plane] = b;
}

/* One word in each of four planes. */
NNKIT_INLINE void nnkit_four(nnkit_u32 *to, int plane, nnkit_u32 word)
{
    to[0] = word;
    to[plane] = word;
    to[2 * plane] = word;
    to[3 * plane] = word;
}

/* Of the words of four planes what the mask keeps, elsewhere the padding. */
NNKIT_INLINE void nnkit_kept(nnkit_u32 *to, int plane, nnkit_u32 mask, nnkit_u32 pad)
{
    int i;

    for (i = 0; i < 4; i++, to += plane) *to = (*to & mask) | (pad & ~mask);
}

/* Four bytes from any address. */
NNKIT_INLINE nnkit_u32 nnkit_any_word(const nnkit_u8 *from)
{
    nnkit_u32 word;

    __asm__("lw %0, %1" : "=r"(word) : "m"(*(const nnkit_u32 *)(const void *)from));
    return word;
}

/*
 * Blocks of 4 channels by 4 pixels with all that follows their sums: multiplier and shift of each channel, then 0 .. high
 * or -high - 1 .. high. In the block `shift` is 1 + 2 * zero point and `out_plane` the bytes from pixel to pixel. t0:
 * where a channel's pixels go, t1: multiplier, t2: shift, ra: what is added.
 */
#define NNKIT_AFFINE_STORES 1
#define NNKIT_X_LIMIT_I8 "5"
#define NNKIT_X_LIMIT_U8 "6"
#define NNKIT_X_SCALED(limit, v)                                                                                 \
    " mulh " v ", " v ", t1\n add " v ", " v ", ra\n sra " v ", " v ", t2\n .insn r 0x33, " limit ", 0x0a, " v ", " v \
    ", a7\n .insn r 0x2b, 4, 0x00, a6, t0, " v "\n"
#define NNKIT_X_SCALED_CHANNEL(limit, at, a, b, c, d)                                                    \
    " lw t1, 16 + 4 * " at "(a3)\n lw t2, 32 + 4 * " at "(a3)\n addi t0, a4, " at "\n sll ra, a5, t2\n"   \
    " addi t2, t2, 1\n" NNKIT_X_SCALED(limit, a) NNKIT_X_SCALED(limit, b) NNKIT_X_SCALED(limit, c)      \
    NNKIT_X_SCALED(limit, d)
#define NNKIT_X_SCALED_BLOCK(limit)                                                              \
    " lw a3, 8(a2)\n lw a4, 36(a2)\n lw a5, 44(a2)\n lw a6, 40(a2)\n lw a7, 52(a2)\n"            \
    NNKIT_X_SCALED_CHANNEL(limit, "0", "s0", "s4", "s8", "t3")                                   \
    NNKIT_X_SCALED_CHANNEL(limit, "1", "s1", "s5", "s9", "t4")                                   \
    NNKIT_X_SCALED_CHANNEL(limit, "2", "s2", "s6", "s10", "t5")                                  \
    NNKIT_X_SCALED_CHANNEL(limit, "3", "s3", "s7", "s11", "t6")                                  \
    /* The next block follows this one's weights. */                                             \
    " lw a3, 56(a2)\n addi a4, a4, 4\n sw a4, 36(a2)\n mv a5, a1\n sw a5, 8(a2)\n"               \
    " addi a1, a1, 48\n addi a3, a3, -1\n sw a3, 56(a2)\n bnez a3, 3b\n"
#define NNKIT_AFFINE_BLOCKS(name, dot, limit)                 \
    static void name(struct nnkit_block *block)               \
    {                                                         \
        NNKIT_X_BLOCK(dot, NNKIT_X_SCALED_BLOCK(limit));      \
    }

/*
 * A row of 3x3 depthwise sums with all that follows them. a0, a1, a4: image rows; a5: outputs, a6 bytes apart; a3: how
 * many.
 */
#define NNKIT_ROW_3X3 1
struct nnkit_row_3x3 {
    const nnkit_u8 *rows[3];
    nnkit_i32 weights[3];
    nnkit_i32 start, multiplier, added, shift, high;
    nnkit_u8 *to;
    nnkit_i32 stride, count;
};
#define NNKIT_X_ROW_3X3(dot, limit, step)                                                                      \
    __asm__ volatile(".option push\n .option norvc\n .option norelax\n .balign 4\n" NNKIT_X_LOOP0              \
                     " .insn i 0x0b, 2, t0, a0, " step "\n .insn i 0x0b, 2, t1, a1, " step "\n"                \
                     " .insn i 0x0b, 2, t2, a4, " step "\n mv t3, %[start]\n" dot("t3", "t0", "%[w0]")         \
                     dot("t3", "t1", "%[w1]") dot("t3", "t2", "%[w2]")                                         \
                     " mulh t3, t3, %[multiplier]\n add t3, t3, %[added]\n sra t3, t3, %[shift]\n"             \
                     " .insn r 0x33, " limit ", 0x0a, t3, t3, %[high]\n"                                       \
                     "1: .insn r 0x2b, 4, 0x00, a6, a5, t3\n .option pop\n"                                    \
                     : "+r"(row0), "+r"(row1), "+r"(row2), "+r"(to), "+r"(count)                               \
                     : "r"(stride), [w0] "r"(row->weights[0]), [w1] "r"(row->weights[1]),                      \
                       [w2] "r"(row->weights[2]), [start] "r"(row->start), [multiplier] "r"(row->multiplier),  \
                       [added] "r"(row->added), [shift] "r"(row->shift), [high] "r"(row->high)                 \
                     : "memory", "t0", "t1", "t2", "t3")
#define NNKIT_ROW_FUNCTION(name, dot, limit)                        \
    static void name(const struct nnkit_row_3x3 *row, nnkit_i32 step) \
    {                                                               \
        register const nnkit_u8 *row0 __asm__("a0");                \
        register const nnkit_u8 *row1 __asm__("a1");                \
        register const nnkit_u8 *row2 __asm__("a4");                \
        register nnkit_u8 *to __asm__("a5");                        \
        register nnkit_i32 stride __asm__("a6");                    \
        register nnkit_i32 count __asm__("a3");                     \
                                                                    \
        row0 = row->rows[0];                                      \
        row1 = row->rows[1];                                      \
        row2 = row->rows[2];                                      \
        to = row->to;                                             \
        stride = row->stride;                                     \
        count = row->count;                                       \
        if (step == 1) {                                            \
            NNKIT_X_ROW_3X3(dot, limit, "1");                       \
        } else {                                                    \
            NNKIT_X_ROW_3X3(dot, limit, "2");                       \
        }                                                           \
    }

/*
 * A row of depthwise sums of any kernel of one or two words a row, with all that follows them. a0: the first output's
 * values; a1: weights, of four channels in turn; a3: kernel rows, `down` bytes apart; a4: how many outputs; a5: where
 * they go, a6 bytes apart.
 */
struct nnkit_row_any {
    const nnkit_u8 *values;
    const nnkit_i32 *weights;
    nnkit_i32 kernel_h, down, step, start, multiplier, added, shift, high;
    nnkit_u8 *to;
    nnkit_i32 stride, count;
};
#define NNKIT_X_LW_STEP(d, p, step) " .insn r 0x0b, 7, 0x10, " d ", " p ", " step "\n"
#define NNKIT_X_ONE_WORD(dot) \
    NNKIT_X_LW_STEP("t0", "t4", "%[down]") NNKIT_X_LOAD("2", "t1", "t5", "16") "1:" dot("t6", "t0", "t1")
#define NNKIT_X_TWO_WORDS(dot)                                                          \
    NNKIT_X_LOAD("2", "t0", "t4", "4") NNKIT_X_LOAD("2", "t1", "t5", "16")                            \
    NNKIT_X_LW_STEP("t2", "t4", "%[down]") NNKIT_X_LOAD("2", "t3", "t5", "16")                 \
    dot("t6", "t0", "t1") "1:" dot("t6", "t2", "t3")
#define NNKIT_X_ROW_ANY(dot, limit, words)                                                                     \
    __asm__ volatile(".option push\n .option norvc\n .option norelax\n .balign 4\n" NNKIT_X_LOOP1              \
                     " mv t4, a0\n mv t5, a1\n mv t6, %[start]\n" NNKIT_X_LOOP0 words(dot)                     \
                     " mulh t6, t6, %[multiplier]\n add t6, t6, %[added]\n sra t6, t6, %[shift]\n"             \
                     " .insn r 0x33, " limit ", 0x0a, t6, t6, %[high]\n add a0, a0, %[step]\n"                 \
                     "2: .insn r 0x2b, 4, 0x00, a6, a5, t6\n .option pop\n"                                    \
                     : "+r"(values), "+r"(to), "+r"(count)                                                     \
                     : "r"(weights), "r"(kernel_h), "r"(stride), [down] "r"(down), [start] "r"(row->start),    \
                       [step] "r"(row->step), [multiplier] "r"(row->multiplier), [added] "r"(row->added),      \
                       [shift] "r"(row->shift), [high] "r"(row->high)                                          \
                     : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6")
#define NNKIT_ROW_ANY_FUNCTION(name, dot, limit)                        \
    static void name(const struct nnkit_row_any *row, nnkit_i32 words)  \
    {                                                                   \
        register const nnkit_u8 *values __asm__("a0");                  \
        register const nnkit_i32 *weights __asm__("a1");                \
        register nnkit_i32 kernel_h __asm__("a3");                      \
        register nnkit_i32 count __asm__("a4");                         \
        register nnkit_u8 *to __asm__("a5");                            \
        register nnkit_i32 stride __asm__("a6");                        \
        const nnkit_i32 down = words == 1 ? row->down : row->down - 4;  \
                                                                        \
        values = row->values;                                           \
        weights = row->weights;                                         \
        kernel_h = row->kernel_h;                                       \
        count = row->count;                                             \
        to = row->to;                                                   \
        stride = row->stride;                                           \
        if (words == 1) {                                               \
            NNKIT_X_ROW_ANY(dot, limit, NNKIT_X_ONE_WORD);              \
        } else {                                                        \
            NNKIT_X_ROW_ANY(dot, limit, NNKIT_X_TWO_WORDS);             \
        }                                                               \
    }

#else

#define NNKIT_AFFINE_STORES 0
#define NNKIT_ROW_3X3 0
#define NNKIT_DOT(name, type)                                                       \
    NNKIT_INLINE int name(const void *values, int weights, int sum)                 \
    {                                                                               \
        const type *v = (const type *)values;                                       \
        nnkit_i8 w[4];                                                              \
                                                                                    \
        memcpy(w, &weights, sizeof(w));                                             \
        return sum + v[0] * w[0] + v[1] * w[1] + v[2] * w[2] + v[3] * w[3];         \
    }
NNKIT_DOT(nnkit_dot_u8, nnkit_u8)
NNKIT_DOT(nnkit_dot_i8, nnkit_i8)

#endif

#endif
