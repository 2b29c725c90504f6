/*
 * nnkit_packed.h: the inner loop of packed convolutions, 4 output channels by 4 pixels. The same for every network.
 *
 * Image and weights are made of groups of 4 bytes, each 2 int16 or 4 int8 lanes. A group of weights follows the other,
 * 4 output channels at a time; a pixel's groups lie together, `groups` of them for each of `rows` kernel rows.
 *
 * nnkit_block_s16, nnkit_block_s8 and nnkit_block_u8 (lanes of the image; weights are signed) do the same in three ways:
 *
 * - NNKIT_XPULP: RI5CY's vector extension by encodings, for compilers that do not know it: dot products of whole groups,
 *   loads with post-increment, hardware loops;
 * - __gap8__: the builtins of GAP8's compiler;
 * - otherwise plain C, lane by lane.
 */
#ifndef NNKIT_PACKED_H
#define NNKIT_PACKED_H

#include "nnkit_types.h"

/* A convolution in packed form; in_h, out_h, out_channels and pad_top are those of the tile in L1. */
struct nnkit_packed_conv {
    nnkit_i32 in_channels, in_h, in_w;
    nnkit_i32 out_channels, out_h, out_w;
    nnkit_i32 stride_h, stride_w;
    nnkit_i32 pad_top, pad_left, pad_value;
    nnkit_i32 kernel_h, kernel_w;
    nnkit_i32 dilation_h, dilation_w;
    nnkit_i32 folded;           /* an entry of the image holds the kernel_w pixels of an output (1) or one pixel (0) */
    nnkit_i32 image_w;          /* entries of an image row */
    nnkit_i32 entry_groups;     /* groups of an entry */
    nnkit_i32 row_groups;       /* groups of a kernel row: they follow each other in the image */
    nnkit_i32 pixel_groups;     /* groups from an output's first entry to the next output's */
    nnkit_i32 block_bytes;
    nnkit_i32 shift, rounding;
    nnkit_i32 low, high;
    nnkit_i32 slope_shift, slope_rounding;
    nnkit_i32 clip_low, clip_high;
    nnkit_i32 pixel_parts;      /* parts that divide the pixels; the others divide the blocks */
};

/* Blocks of 4 output channels by 4 pixels. All offsets count bytes. */
struct nnkit_block {
    const nnkit_u8 *image;      /* the first pixel's first group */
    const nnkit_u8 *weights;    /* the block's first group */
    const nnkit_i32 *start;     /* what the 4 channels' sums start from */
    nnkit_i32 groups, rows;
    nnkit_i32 row_gap;          /* from the end of a kernel row to the next one's start */
    nnkit_i32 pixel[3];         /* from the first pixel to the others */
    nnkit_u8 *out;              /* the first channel's first pixel */
    nnkit_i32 out_plane;
    nnkit_i32 shift, low, high;
    nnkit_i32 blocks;           /* to be stored, one after another */
    nnkit_i32 sums[16];         /* [channel][pixel] of one block, where nothing is stored */
};

#if defined(NNKIT_XPULP)

/*
 * s0-s11, t3-t6: sums, 4 channels of each pixel. a3-a6: weights. t1, t2: pixels. a0: image, a1: weights, a2: the block,
 * a7, t0, ra: offsets of the other pixels. A load stands at least one instruction before its use. Loop ends are labels
 * on the last instruction; `.word` takes their distance, which `.insn` does not.
 */
#define NNKIT_X_LW(d, p) " .insn i 0x0b, 2, " d ", " p ", 4\n"
#define NNKIT_X_LW_AT(d, o, p) " .insn r 0x03, 7, 0x10, " d ", " p ", " o "\n"
#define NNKIT_X_DOTS(dot, x, a, b, c, d) dot(a, x, "a3") dot(b, x, "a4") dot(c, x, "a5") dot(d, x, "a6")
#define NNKIT_X_COPY(a, b, c, d) " mv " a ", s0\n mv " b ", s1\n mv " c ", s2\n mv " d ", s3\n"
/* lp.setup: loop 0 counts a3, loop 1 counts a4. */
#define NNKIT_X_LOOP0 "77: .word 0x407b + (13 << 15) + (((1f - 77b) / 2) << 20)\n"
#define NNKIT_X_LOOP1 "78: .word 0x40fb + (14 << 15) + (((2f - 78b) / 2) << 20)\n"
#define NNKIT_X_SUMS(dot)                                                                                     \
    ".option push\n .option norvc\n .option norelax\n .balign 4\n"                                            \
    " lw a5, 8(a2)\n lw a1, 4(a2)\n 3: lw a4, 16(a2)\n lw a0, 0(a2)\n"                                       \
    " lw s0, 0(a5)\n lw s1, 4(a5)\n lw s2, 8(a5)\n lw s3, 12(a5)\n"                                           \
    " lw a7, 24(a2)\n lw t0, 28(a2)\n lw ra, 32(a2)\n"                                                        \
    NNKIT_X_COPY("s4", "s5", "s6", "s7") NNKIT_X_COPY("s8", "s9", "s10", "s11")                               \
    NNKIT_X_COPY("t3", "t4", "t5", "t6")                                                                      \
    NNKIT_X_LOOP1 " lw a3, 12(a2)\n nop\n" NNKIT_X_LOOP0                                                      \
    NNKIT_X_LW("a3", "a1") NNKIT_X_LW_AT("t2", "a7", "a0") NNKIT_X_LW("a4", "a1") NNKIT_X_LW("a5", "a1")      \
    NNKIT_X_LW("a6", "a1") NNKIT_X_LW_AT("t1", "t0", "a0")                                                    \
    NNKIT_X_DOTS(dot, "t2", "s4", "s5", "s6", "s7") NNKIT_X_LW_AT("t2", "ra", "a0")                           \
    NNKIT_X_DOTS(dot, "t1", "s8", "s9", "s10", "s11") NNKIT_X_LW("t1", "a0")                                  \
    NNKIT_X_DOTS(dot, "t2", "t3", "t4", "t5", "t6")                                                           \
    dot("s0", "t1", "a3") dot("s1", "t1", "a4") dot("s2", "t1", "a5") "1:" dot("s3", "t1", "a6")              \
    " lw a3, 20(a2)\n nop\n 2: add a0, a0, a3\n"
#define NNKIT_X_STORE(sum, store, at) \
    " sra " sum ", " sum ", a3\n .insn r 0x33, 6, 0x02, " sum ", " sum ", a4\n .insn r 0x33, 4, 0x02, " sum ", " sum ", a5\n " \
    store " " sum ", " at "(t0)\n"
#define NNKIT_X_CHANNEL(store, size, a, b, c, d) \
    NNKIT_X_STORE(a, store, "0") NNKIT_X_STORE(b, store, "1*" size) NNKIT_X_STORE(c, store, "2*" size) \
    NNKIT_X_STORE(d, store, "3*" size) " add t0, t0, a6\n"
#define NNKIT_X_STORED(store, size)                                                              \
    " lw t0, 36(a2)\n lw a6, 40(a2)\n lw a3, 44(a2)\n lw a4, 48(a2)\n lw a5, 52(a2)\n"           \
    NNKIT_X_CHANNEL(store, size, "s0", "s4", "s8", "t3") NNKIT_X_CHANNEL(store, size, "s1", "s5", "s9", "t4") \
    NNKIT_X_CHANNEL(store, size, "s2", "s6", "s10", "t5") NNKIT_X_CHANNEL(store, size, "s3", "s7", "s11", "t6") \
    /* The next block's starts follow this block's weights. */                                   \
    " lw a3, 56(a2)\n sw t0, 36(a2)\n mv a5, a1\n addi a1, a1, 16\n addi a3, a3, -1\n sw a3, 56(a2)\n bnez a3, 3b\n"
#define NNKIT_X_KEPT                                                                             \
    " sw s0, 60(a2)\n sw s4, 64(a2)\n sw s8, 68(a2)\n sw t3, 72(a2)\n"                           \
    " sw s1, 76(a2)\n sw s5, 80(a2)\n sw s9, 84(a2)\n sw t4, 88(a2)\n"                           \
    " sw s2, 92(a2)\n sw s6, 96(a2)\n sw s10, 100(a2)\n sw t5, 104(a2)\n"                         \
    " sw s3, 108(a2)\n sw s7, 112(a2)\n sw s11, 116(a2)\n sw t6, 120(a2)\n"
#define NNKIT_X_BLOCK(dot, end)                                                                  \
    do {                                                                                         \
        register struct nnkit_block *nnkit_x_block __asm__("a2") = block;                        \
        __asm__ volatile(NNKIT_X_SUMS(dot) end " .option pop\n"                                  \
                         : "+r"(nnkit_x_block)                                                   \
                         :                                                                       \
                         : "memory", "ra", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", \
                           "s9", "s10", "s11", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a0",   \
                           "a1", "a3", "a4", "a5", "a6", "a7");                                  \
    } while (0)
#define NNKIT_X_DOT_S16(d, x, w) " .insn r 0x57, 0, 0x5c, " d ", " x ", " w "\n"
#define NNKIT_X_DOT_S8(d, x, w) " .insn r 0x57, 1, 0x5c, " d ", " x ", " w "\n"
#define NNKIT_X_DOT_U8(d, x, w) " .insn r 0x57, 1, 0x54, " d ", " x ", " w "\n"
#define NNKIT_BLOCK_STORES 1
#define NNKIT_BLOCK_FUNCTION(name, dot)                         \
    static void name(struct nnkit_block *block, nnkit_i32 size) \
    {                                                           \
        if (size == 2) {                                        \
            NNKIT_X_BLOCK(dot, NNKIT_X_STORED("sh", "2"));      \
        } else if (size == 1) {                                 \
            NNKIT_X_BLOCK(dot, NNKIT_X_STORED("sb", "1"));      \
        } else {                                                \
            NNKIT_X_BLOCK(dot, NNKIT_X_KEPT);                   \
        }                                                       \
    }
#define NNKIT_BLOCK_S16(name) NNKIT_BLOCK_FUNCTION(name, NNKIT_X_DOT_S16)
#define NNKIT_BLOCK_S8(name) NNKIT_BLOCK_FUNCTION(name, NNKIT_X_DOT_S8)
#define NNKIT_BLOCK_U8(name) NNKIT_BLOCK_FUNCTION(name, NNKIT_X_DOT_U8)

#else

#define NNKIT_BLOCK_STORES 0

#if defined(__gap8__)

typedef signed short nnkit_s16x2 __attribute__((vector_size(4), may_alias));
typedef signed char nnkit_s8x4 __attribute__((vector_size(4), may_alias));
typedef unsigned char nnkit_u8x4 __attribute__((vector_size(4), may_alias));

/* A whole group at once. */
#define NNKIT_GROUP(image_type, weight_type, lanes, dot)                                              \
    {                                                                                                 \
        const weight_type w0 = ((const weight_type *)(const void *)w)[0];                             \
        const weight_type w1 = ((const weight_type *)(const void *)w)[1];                             \
        const weight_type w2 = ((const weight_type *)(const void *)w)[2];                             \
        const weight_type w3 = ((const weight_type *)(const void *)w)[3];                             \
        const image_type p0 = *(const image_type *)(const void *)x0;                                  \
        const image_type p1 = *(const image_type *)(const void *)(x = x0 + d1);                       \
        const image_type p2 = *(const image_type *)(const void *)(x += d2);                           \
        const image_type p3 = *(const image_type *)(const void *)(x += d3);                           \
        a00 = dot(p0, w0, a00); a01 = dot(p1, w0, a01); a02 = dot(p2, w0, a02); a03 = dot(p3, w0, a03); \
        a10 = dot(p0, w1, a10); a11 = dot(p1, w1, a11); a12 = dot(p2, w1, a12); a13 = dot(p3, w1, a13); \
        a20 = dot(p0, w2, a20); a21 = dot(p1, w2, a21); a22 = dot(p2, w2, a22); a23 = dot(p3, w2, a23); \
        a30 = dot(p0, w3, a30); a31 = dot(p1, w3, a31); a32 = dot(p2, w3, a32); a33 = dot(p3, w3, a33); \
    }
#define NNKIT_SUM nnkit_i32
#define NNKIT_GROUP_S16 NNKIT_GROUP(nnkit_s16x2, nnkit_s16x2, 2, __builtin_pulp_sdotsp2)
#define NNKIT_GROUP_S8 NNKIT_GROUP(nnkit_s8x4, nnkit_s8x4, 4, __builtin_pulp_sdotsp4)
#define NNKIT_GROUP_U8 NNKIT_GROUP(nnkit_u8x4, nnkit_s8x4, 4, __builtin_pulp_sdotusp4)

#else

/*
 * A lane at a time; the sums are unsigned because a 32-bit accumulator wraps by definition. One pointer goes from pixel
 * to pixel, which leaves registers for all sums.
 */
#define NNKIT_PIXEL(n)                     \
    {                                      \
        const nnkit_i32 p = *x;            \
        a0##n += (nnkit_u32)(p * w0);      \
        a1##n += (nnkit_u32)(p * w1);      \
        a2##n += (nnkit_u32)(p * w2);      \
        a3##n += (nnkit_u32)(p * w3);      \
    }
#define NNKIT_LANE(lanes, l)                                                                        \
    {                                                                                               \
        const nnkit_i32 w0 = w[l], w1 = w[lanes + l], w2 = w[2 * lanes + l], w3 = w[3 * lanes + l]; \
                                                                                                    \
        x = x0 + l;                                                                                 \
        NNKIT_PIXEL(0) x += d1;                                                                     \
        NNKIT_PIXEL(1) x += d2;                                                                     \
        NNKIT_PIXEL(2) x += d3;                                                                     \
        NNKIT_PIXEL(3)                                                                              \
    }
#define NNKIT_SUM nnkit_u32
#define NNKIT_GROUP_S16 NNKIT_LANE(2, 0) NNKIT_LANE(2, 1)
#define NNKIT_GROUP_S8 NNKIT_LANE(4, 0) NNKIT_LANE(4, 1) NNKIT_LANE(4, 2) NNKIT_LANE(4, 3)
#define NNKIT_GROUP_U8 NNKIT_GROUP_S8

#endif

#define NNKIT_BLOCK_FUNCTION(name, image_type, weight_type, lanes, group)                          \
    static void name(struct nnkit_block *block, nnkit_i32 size)                                    \
    {                                                                                              \
        const image_type *x0 = (const image_type *)(const void *)block->image;                     \
        const image_type *x;                                                                       \
        const nnkit_i32 d1 = block->pixel[0] / (4 / lanes);                                        \
        const nnkit_i32 d2 = block->pixel[1] / (4 / lanes) - d1;                                   \
        const nnkit_i32 d3 = block->pixel[2] / (4 / lanes) - d1 - d2;                              \
        const weight_type *w = (const weight_type *)(const void *)block->weights;                  \
        const nnkit_i32 gap = block->row_gap / (4 / lanes);                                        \
        const nnkit_i32 run = block->groups * 4 * lanes;                                           \
        const weight_type *const stop = w + block->rows * run;                                     \
        nnkit_i32 *const sums = block->sums;                                                       \
        NNKIT_SUM a00 = (NNKIT_SUM)block->start[0], a01 = a00, a02 = a00, a03 = a00;               \
        NNKIT_SUM a10 = (NNKIT_SUM)block->start[1], a11 = a10, a12 = a10, a13 = a10;               \
        NNKIT_SUM a20 = (NNKIT_SUM)block->start[2], a21 = a20, a22 = a20, a23 = a20;               \
        NNKIT_SUM a30 = (NNKIT_SUM)block->start[3], a31 = a30, a32 = a30, a33 = a30;               \
                                                                                                   \
        (void)size;                                                                                \
        while (w != stop) {                                                                        \
            const weight_type *const row_stop = w + run;                                           \
                                                                                                   \
            while (w != row_stop) {                                                                \
                group x0 += lanes;                                                                 \
                w += 4 * lanes;                                                                    \
            }                                                                                      \
            x0 += gap;                                                                             \
        }                                                                                          \
        sums[0] = (nnkit_i32)a00; sums[1] = (nnkit_i32)a01; sums[2] = (nnkit_i32)a02; sums[3] = (nnkit_i32)a03;     \
        sums[4] = (nnkit_i32)a10; sums[5] = (nnkit_i32)a11; sums[6] = (nnkit_i32)a12; sums[7] = (nnkit_i32)a13;     \
        sums[8] = (nnkit_i32)a20; sums[9] = (nnkit_i32)a21; sums[10] = (nnkit_i32)a22; sums[11] = (nnkit_i32)a23;   \
        sums[12] = (nnkit_i32)a30; sums[13] = (nnkit_i32)a31; sums[14] = (nnkit_i32)a32; sums[15] = (nnkit_i32)a33; \
    }
#define NNKIT_BLOCK_S16(name) NNKIT_BLOCK_FUNCTION(name, nnkit_i16, nnkit_i16, 2, NNKIT_GROUP_S16)
#define NNKIT_BLOCK_S8(name) NNKIT_BLOCK_FUNCTION(name, nnkit_i8, nnkit_i8, 4, NNKIT_GROUP_S8)
#define NNKIT_BLOCK_U8(name) NNKIT_BLOCK_FUNCTION(name, nnkit_u8, nnkit_i8, 4, NNKIT_GROUP_U8)

#endif

#endif
