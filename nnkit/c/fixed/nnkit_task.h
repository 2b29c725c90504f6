/*
 * nnkit_task.h: what a kernel works on. The same for every network.
 *
 * A layer's parameters are constants (`struct nnkit_conv`, ...). A task adds the addresses of one call.
 * All sizes count elements unless the name says bytes.
 */
#ifndef NNKIT_TASK_H
#define NNKIT_TASK_H

#include "nnkit_types.h"

struct nnkit_task {
    const void *layer;     /* parameters, of the type that the kernel names */
    const void *input[2];  /* input tensors */
    void *output;          /* output tensor */
    const void *weights;   /* weight blocks first_block .. first_block + blocks - 1, in L2 */
    nnkit_i32 first_block;
    nnkit_i32 blocks;
    void *scratch;         /* in L1, shared by all parts of the call */
};

typedef void (*nnkit_kernel)(const struct nnkit_task *task, nnkit_i32 part, nnkit_i32 parts);

/* Window of a convolution or pool. The padding is what is really read. */
struct nnkit_window {
    nnkit_i32 kernel_h, kernel_w;
    nnkit_i32 stride_h, stride_w;
    nnkit_i32 dilation_h, dilation_w;
    nnkit_i32 pad_top, pad_left;
};

/*
 * Pooling of planes. Average: (sum * multiplier + rounding) >> shift, in 64 bits; with `multipliers` the factor is
 * multipliers[n] for a window of n present elements.
 */
struct nnkit_pool {
    nnkit_i32 channels;
    nnkit_i32 in_h, in_w;
    nnkit_i32 out_h, out_w;
    struct nnkit_window window;
    nnkit_i32 multiplier;
    nnkit_i32 shift;
    nnkit_i32 low, high;
    const nnkit_i32 *multipliers;
};

/*
 * Convolution. Channels are per group. out_h and out_w are those before a fused pool.
 *
 * Output stage: clamp(acc >> shift, low, high); the rounding constant is in the accumulator's starting value,
 * which stands in the weight block. A leaky layer then scales negative values by the block's slopes and clamps to
 * clip_low .. clip_high. A `running` layer rounds and clamps to low .. high after every input channel.
 */
struct nnkit_conv {
    nnkit_i32 groups;
    nnkit_i32 in_channels, in_h, in_w;
    nnkit_i32 out_channels, out_h, out_w;
    struct nnkit_window window;
    nnkit_i32 pad_value;
    nnkit_i32 taps;             /* per output value; for `running`, per input channel of it */
    nnkit_i32 blocks_per_group;
    nnkit_i32 block_bytes;
    nnkit_i32 shift, rounding;
    nnkit_i32 low, high;
    nnkit_i32 slope_shift, slope_rounding;
    nnkit_i32 clip_low, clip_high;
    nnkit_i32 max_parts;        /* parts for which there is scratch */
    nnkit_i32 split_blocks;     /* parts divide the weight blocks (1) or the output pixels (0) */
    nnkit_i32 tile_pixels;      /* pixels gathered at once: 4, or 1 where L1 is too small for 4 */
    nnkit_i32 row_bytes;        /* L1 of one part for gathered pixels, or for a depthwise layer's band */
    nnkit_i32 band_rows;        /* depthwise: output rows per band of input rows in L1 */
    nnkit_i32 band_width;       /* depthwise: elements of a band's row */
    nnkit_i32 pool_blocks;      /* blocks whose rows fit in L1, over all parts */
    nnkit_i32 pool_rows;        /* convolution rows kept per channel */
    const struct nnkit_pool *pool;
    const nnkit_i32 *phases;    /* transposed: see nnkit_conv_transposed.c */
};

/* Element-wise layers: clamp((a << shift_a) + (b << shift_b) + rounding >> shift, low, high), leaky as above. */
struct nnkit_elementwise {
    nnkit_i32 channels;
    nnkit_i32 plane;            /* elements per channel */
    nnkit_i32 shift_a, shift_b;
    nnkit_i32 shift, rounding;
    nnkit_i32 low, high;
    nnkit_i32 slope_shift, slope_rounding;
    nnkit_i32 clip_low, clip_high;
    nnkit_i32 slope_step;       /* 0: one slope for all channels; 1: one per channel */
    const nnkit_i16 *slopes;
    nnkit_i32 per_channel;      /* the second input has one element per channel */
};

/*
 * A function from a table: with u = x - least, table[u], or for steps of several inputs, with i = u >> step_bits and
 * f = u's lower step_bits, clamp(table[i] + ((table[i + 1] - table[i]) * f + rounding >> step_bits), low, high).
 */
struct nnkit_lookup {
    nnkit_i32 elements;
    nnkit_i32 least;            /* of the input's type */
    nnkit_i32 step_bits, rounding;
    nnkit_i32 low, high;
    const void *table;          /* of the output's type */
};

/* Layers that move elements: nearest upsampling by scale, constant padding. */
struct nnkit_move {
    nnkit_i32 channels;
    nnkit_i32 in_h, in_w;
    nnkit_i32 out_h, out_w;
    nnkit_i32 scale_h, scale_w;
    nnkit_i32 top, left;
    nnkit_i32 value;
};

/* Layers that read their input in another order: out[i][j][k][l] = in[first + i * steps[0] + j * steps[1] ...]. */
struct nnkit_gather {
    nnkit_i32 sizes[4];
    nnkit_i32 steps[4];
    nnkit_i32 first;
};

/*
 * Softmax of rows: with d the largest element minus an element, e = (coarse[d >> 8] * fine[d & 255] + 2^13) >> 14,
 * clamp(((e << bits) + sum / 2) / sum, low, high).
 */
struct nnkit_rows {
    nnkit_i32 rows, size, step;
    nnkit_i32 bits;             /* of fraction of the output */
    nnkit_i32 low, high;
    const nnkit_u16 *coarse, *fine;
};

/*
 * Logarithms of a softmax: with s the sum of e as above and l its logarithm in 24 bits of fraction, from a table of
 * 257 logarithms and what is between, clamp(2^(shift - 1) - (d << spread) - (l << widen) >> shift, low, high).
 */
struct nnkit_log_rows {
    nnkit_i32 rows, size, step;
    nnkit_i32 spread, widen, shift;
    nnkit_i32 low, high;
    const nnkit_u16 *coarse, *fine;
    const nnkit_i32 *logarithms;
};

/* Rows of a table by their numbers, each kept within the table. Weights are blocks of rows. */
struct nnkit_embedding {
    nnkit_i32 numbers;
    nnkit_i32 rows, size;
    nnkit_i32 block_rows;
};

/* Rows with mean 0 and variance 1 in 20 bits of fraction, z: clamp(z * gain + offset >> shift, low, high), rounded. */
struct nnkit_normalize {
    nnkit_i32 rows, size;
    nnkit_i32 shift;
    nnkit_i32 low, high;
    nnkit_u32 epsilon_high, epsilon_low;
    const nnkit_i32 *gain;      /* one for each element of a row */
    const nnkit_u32 *offset;    /* upper and lower 32 bits for each element of a row */
};

/* Products of matrices, [rows][depth] by [depth][columns]: clamp(acc + rounding >> shift, low, high). */
struct nnkit_matmul {
    nnkit_i32 matrices, rows;
    nnkit_i32 depth, columns;
    nnkit_i32 shift, rounding;
    nnkit_i32 low, high;
};

#endif
