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

#include "nnkit_task.h"

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
    nnkit_i32 out_plane;        /* elements from a channel's first output to the next channel's: out_h * out_w or more */
    nnkit_i32 begins, ends;     /* of a tile with a slice of the input channels: the first of them, the last (0 or 1) */
};

#define NNKIT_MOST_APART 4

/* A transposed convolution in packed form: `apart_h` by `apart_w` phases, each a convolution of stride 1 of the image. */
struct nnkit_packed_transposed {
    struct nnkit_packed_conv conv; /* its outputs are those of one phase, its kernel reaches over all phases' taps */
    nnkit_i32 apart_h, apart_w; /* from an output of a phase to the next */
    nnkit_i32 rows[NNKIT_MOST_APART], down[NNKIT_MOST_APART]; /* by the phase's row: kernel rows, the first one's place */
    nnkit_i32 columns[NNKIT_MOST_APART], across[NNKIT_MOST_APART]; /* by its column */
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

/* A pool behind a packed convolution, on the rows of a tile. */
struct nnkit_packed_pool {
    struct nnkit_pool pool;
    nnkit_i32 in_plane;         /* elements from a channel's first input to the next channel's */
    nnkit_i32 kept_rows;        /* the last rows of a channel, which end up as its first: the next tile needs them too */
};

#if defined(NNKIT_XPULP)

#include "nnkit_packed_xpulp.h"

#else

#define NNKIT_BLOCK_STORES 0
#define NNKIT_LANES 0
#define NNKIT_MAX_3X3 0

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
        const image_type p1 = *(const image_type *)(const void *)x1;                       \
        const image_type p2 = *(const image_type *)(const void *)x2;                           \
        const image_type p3 = *(const image_type *)(const void *)x3;                           \
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

/* A lane at a time; the sums are unsigned because a 32-bit accumulator wraps by definition. */
#define NNKIT_CHANNEL(c, weight)                       \
    {                                                  \
        const nnkit_i32 q = weight;                    \
                                                       \
        a##c##0 += (nnkit_u32)(p0 * q);                \
        a##c##1 += (nnkit_u32)(p1 * q);                \
        a##c##2 += (nnkit_u32)(p2 * q);                \
        a##c##3 += (nnkit_u32)(p3 * q);                \
    }
#define NNKIT_LANE(lanes, l)                                              \
    {                                                                     \
        const nnkit_i32 p0 = x0[l], p1 = x1[l], p2 = x2[l], p3 = x3[l];   \
                                                                          \
        NNKIT_CHANNEL(0, w[l])                                            \
        NNKIT_CHANNEL(1, w[lanes + l])                                    \
        NNKIT_CHANNEL(2, w[2 * lanes + l])                                \
        NNKIT_CHANNEL(3, w[3 * lanes + l])                                \
    }
/* All sums, pixels and pointers fit RV32's registers; GCC spills some of them by its usual allocation (int8: 20 of 186
   instructions a group are accesses of the stack, 1 of 167 by this one). */
#if defined(__riscv) && defined(__GNUC__) && !defined(__clang__)
#define NNKIT_SUMS_IN_REGISTERS __attribute__((optimize("ira-region=one", "ira-algorithm=priority")))
#endif
#define NNKIT_SUM nnkit_u32
#define NNKIT_GROUP_S16 NNKIT_LANE(2, 0) NNKIT_LANE(2, 1)
#define NNKIT_GROUP_S8 NNKIT_LANE(4, 0) NNKIT_LANE(4, 1) NNKIT_LANE(4, 2) NNKIT_LANE(4, 3)
#define NNKIT_GROUP_U8 NNKIT_GROUP_S8

#endif

#ifndef NNKIT_SUMS_IN_REGISTERS
#define NNKIT_SUMS_IN_REGISTERS
#endif
#define NNKIT_BLOCK_FUNCTION(name, image_type, weight_type, lanes, group)                          \
    NNKIT_SUMS_IN_REGISTERS static void name(struct nnkit_block *block, nnkit_i32 size)            \
    {                                                                                              \
        const image_type *x0 = (const image_type *)(const void *)block->image;                     \
        const image_type *x1 = x0 + block->pixel[0] / (4 / lanes);                                 \
        const image_type *x2 = x0 + block->pixel[1] / (4 / lanes);                                 \
        const image_type *x3 = x0 + block->pixel[2] / (4 / lanes);                                 \
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
                group                                                                              \
                x0 += lanes; x1 += lanes; x2 += lanes; x3 += lanes;                                \
                w += 4 * lanes;                                                                    \
            }                                                                                      \
            x0 += gap; x1 += gap; x2 += gap; x3 += gap;                                            \
        }                                                                                          \
        sums[0] = (nnkit_i32)a00; sums[1] = (nnkit_i32)a01; sums[2] = (nnkit_i32)a02; sums[3] = (nnkit_i32)a03;     \
        sums[4] = (nnkit_i32)a10; sums[5] = (nnkit_i32)a11; sums[6] = (nnkit_i32)a12; sums[7] = (nnkit_i32)a13;     \
        sums[8] = (nnkit_i32)a20; sums[9] = (nnkit_i32)a21; sums[10] = (nnkit_i32)a22; sums[11] = (nnkit_i32)a23;   \
        sums[12] = (nnkit_i32)a30; sums[13] = (nnkit_i32)a31; sums[14] = (nnkit_i32)a32; sums[15] = (nnkit_i32)a33; \
    }
#define NNKIT_BLOCK_S16(name) NNKIT_BLOCK_FUNCTION(name, nnkit_i16, nnkit_i16, 2, NNKIT_GROUP_S16)
#define NNKIT_BLOCK_S8(name) NNKIT_BLOCK_FUNCTION(name, nnkit_i8, nnkit_i8, 4, NNKIT_GROUP_S8)
#define NNKIT_BLOCK_U8(name) NNKIT_BLOCK_FUNCTION(name, nnkit_u8, nnkit_i8, 4, NNKIT_GROUP_U8)
#define NNKIT_BLOCK_APART_S16(name) NNKIT_BLOCK_S16(name)
#define NNKIT_BLOCK_APART_S8(name) NNKIT_BLOCK_S8(name)
#define NNKIT_BLOCK_APART_U8(name) NNKIT_BLOCK_U8(name)

#endif

#endif
