/*
 * nnkit_affine_tiles.h: a call in tiles, of tensors whose channels are innermost. While one tile is computed in L1, the
 * next one is on its way from L2 and the last one's output on its way back. The same for every network.
 *
 *     nnkit_affine_tiles_start(&tiles, ...);
 *     while (nnkit_affine_tiles_next(&tiles)) {
 *         if (tiles.fresh) make the image of tiles.image_task, where the call has one;
 *         nnkit_affine_tiles_ahead(&tiles);
 *         run the kernel on tiles.task;
 *     }
 */
#ifndef NNKIT_AFFINE_TILES_H
#define NNKIT_AFFINE_TILES_H

#include "nnkit_dma.h"

NNKIT_EXTERN_C_BEGIN

/* Output rows first .. last need rows first * stride - pad .. (last - 1) * stride - pad + span of `height`. */
struct nnkit_affine_input {
    nnkit_i32 whole;            /* every tile has all channels (1) or its own (0) */
    nnkit_i32 width, pixel_bytes, value_bytes;
    nnkit_i32 height, stride, pad, span;
    nnkit_i32 l1[2];            /* two in turn; one where there is an image, which is made of it at once */
};

/* How a call is cut. Offsets in L1 count bytes; -1: there is none. */
struct nnkit_affine_tiling {
    const void *numbers;        /* of the whole call; a tile has a copy of its own */
    nnkit_i32 numbers_count;    /* of `int` */
    nnkit_i32 at[6];            /* which of them a tile changes, or -1: input rows, output rows, padding above, output
                                   channels, from pixel to pixel of the output, elements */
    nnkit_i32 counted;          /* elements of an output pixel, as the last of these counts */
    nnkit_i32 channels, rows;   /* of the output, in a tile */
    nnkit_i32 by_rows;          /* the next tile has the next channels (1) or the next rows (0) */
    nnkit_i32 out_channels, out_h, out_w, out_value_bytes;
    nnkit_i32 out_pixel_bytes;  /* from pixel to pixel in L2 */
    nnkit_i32 out_row_bytes;    /* from row to row there */
    nnkit_i32 inputs;
    struct nnkit_affine_input input[2];
    nnkit_i32 block_bytes;      /* of the weights of 4 output channels; 0: none */
    nnkit_i32 table_bytes;      /* that all tiles need; 0: none */
    nnkit_i32 l1_weights[2];
    nnkit_i32 l1_output[2];
    nnkit_i32 l1_image;
    nnkit_i32 l1_scratch;       /* the table, then the parts' own memory */
};

/* A tile: output rows and channels, and which of the buffers hold what it needs. */
struct nnkit_affine_tile {
    nnkit_i32 channel, channels, row, rows;
    nnkit_i32 turn[2];          /* of inputs and weights */
    nnkit_i32 loads[2];
};

#define NNKIT_AFFINE_NUMBERS 40

struct nnkit_affine_tiles {
    struct nnkit_affine_tiling tiling; /* a copy in L1 */
    struct nnkit_port *port;
    nnkit_u8 *l1;
    nnkit_u8 *l2_input[2];
    nnkit_u8 *l2_weights;
    nnkit_u8 *l2_output;
    nnkit_i32 index, count;
    struct nnkit_affine_tile now, ahead;
    nnkit_i32 loading[3];       /* transfers of `ahead`: inputs, weights; -1: none */
    nnkit_i32 storing[2];       /* transfers of outputs, two in turn */
    nnkit_i32 fresh;            /* the tile's input is new: its image must be made */
    struct nnkit_task task, image_task;
    nnkit_i32 numbers[NNKIT_AFFINE_NUMBERS];
};

#define NNKIT_AFFINE_TILES_BYTES 1024 /* in front of the buffers in L1 */
NNKIT_STATIC_CHECK(affine_tiles_fit_their_place, sizeof(struct nnkit_affine_tiles) <= NNKIT_AFFINE_TILES_BYTES);

void nnkit_affine_tiles_start(struct nnkit_affine_tiles *tiles, const struct nnkit_affine_tiling *tiling,
    struct nnkit_port *port, nnkit_u8 *l1, const nnkit_u8 *input0, const nnkit_u8 *input1, const nnkit_u8 *weights,
    nnkit_u8 *output);

/* Make the next tile ready: 1. When all are computed and stored: 0. */
nnkit_i32 nnkit_affine_tiles_next(struct nnkit_affine_tiles *tiles);

/* Let the tile after this one come. Its input may take the place of the one that an image has been made of. */
void nnkit_affine_tiles_ahead(struct nnkit_affine_tiles *tiles);

NNKIT_EXTERN_C_END

#endif
