/*
 * nnkit_tiles.h: a layer in tiles. While one tile is computed in L1, the next one is on its way from L2 and the last
 * one's output on its way back. The same for every network.
 *
 *     nnkit_tiles_start(&tiles, ...);
 *     while (nnkit_tiles_next(&tiles)) {
 *         if (tiles.fresh) make the image of tiles.image_task, where the layer has one;
 *         nnkit_tiles_ahead(&tiles);
 *         run the layer's kernel on tiles.task, and where tiles.complete its pool on tiles.pool_task;
 *     }
 */
#ifndef NNKIT_TILES_H
#define NNKIT_TILES_H

#include "nnkit_dma.h"
#include "nnkit_packed.h"

NNKIT_EXTERN_C_BEGIN

/* Rows first .. last need the rows first * stride - pad .. (last - 1) * stride - pad + span of `height` before them. */
struct nnkit_tile_rows {
    nnkit_i32 height, stride, pad, span;
};

struct nnkit_tile_input {
    nnkit_i32 channels;         /* all of them for every tile; 0: those of the output */
    nnkit_i32 row_bytes;
    struct nnkit_tile_rows rows;
};

/* How a layer is cut. Offsets in L1 count bytes; -1: there is none. */
struct nnkit_tiling {
    const void *layer;          /* parameters of the whole layer; a tile has a copy of its own */
    nnkit_i32 layer_bytes;
    nnkit_i32 at[5];            /* offsets of fields that a tile changes, or -1: in_h, out_h, pad_top, channels, the elements
                                   of a channel (without a field for channels: of the tile) */
    const struct nnkit_pool *pool; /* behind a packed convolution, or 0 */
    struct nnkit_tile_rows pool_rows;
    nnkit_i32 channels, rows;   /* of the output, in a tile */
    nnkit_i32 by_rows;          /* the next tile has the next channels (1) or the next rows (0) */
    nnkit_i32 out_channels, out_h, out_row_bytes;
    nnkit_i32 out_w;            /* elements of a row */
    nnkit_i32 inputs;
    struct nnkit_tile_input input[2];
    nnkit_i32 block_bytes;      /* of the weights of 4 output channels; 0: no weights */
    nnkit_i32 l1_input[2][2];   /* of each input, two in turn; one where there is an image, which is made of it at once */
    nnkit_i32 l1_weights[2];
    nnkit_i32 l1_output[2];
    nnkit_i32 l1_image;
    nnkit_i32 l1_band;          /* convolution rows in front of the pool */
    nnkit_i32 band_rows, band_row_bytes; /* most of them; of one channel's row */
    nnkit_i32 l1_scratch;       /* or the sums that slices of input channels leave to each other */
    nnkit_i32 slices;           /* of the input channels of a packed convolution; 1: a tile has all of them */
    nnkit_i32 slice_groups, groups; /* of a pixel: in a slice, in all */
    nnkit_i32 group_channels;   /* input channels of a group */
    nnkit_i32 group_bytes;      /* of a group's weights of 4 output channels */
};

/* A tile: output rows and channels, and which of the buffers hold what it needs. */
struct nnkit_tile {
    nnkit_i32 channel, channels, row, rows;
    nnkit_i32 output;           /* its number */
    nnkit_i32 slice;            /* of the input channels; a tile's slices follow each other, the last one completes it */
    nnkit_i32 kept;             /* convolution rows in front of the pool that the last tile has left */
    nnkit_i32 turn[2];          /* of inputs and weights */
    nnkit_i32 loads[2];
};

struct nnkit_tiles {
    struct nnkit_tiling tiling; /* a copy in L1 */
    struct nnkit_port *port;
    nnkit_u8 *l1;
    nnkit_u8 *l2_input[2];
    nnkit_u8 *l2_weights;
    nnkit_u8 *l2_output;        /* the first channel of the tiles */
    nnkit_i32 first_channel, all_channels;
    nnkit_i32 index, count;
    struct nnkit_tile now, ahead;
    nnkit_i32 loading[3];       /* transfers of `ahead`: inputs, weights; -1: none */
    nnkit_i32 storing[2];       /* transfers of outputs, two in turn */
    nnkit_i32 fresh;            /* the tile's input is new: its image must be made */
    nnkit_i32 complete;         /* this is the tile's last slice: a pool behind the convolution runs */
    struct nnkit_task task, image_task, pool_task;
    struct nnkit_packed_pool pool;
    union {
        struct nnkit_packed_conv packed; /* and the first field of the next */
        struct nnkit_packed_transposed transposed;
        struct nnkit_conv conv;
        struct nnkit_pool pool;
        struct nnkit_elementwise elementwise;
        struct nnkit_lookup lookup;
        nnkit_u8 bytes[1];
    } layer;                    /* the last field: nnkit_tiles_start clears those between `tiling` and this one */
};

#define NNKIT_TILES_BYTES 1024 /* in front of the buffers in L1 */
NNKIT_STATIC_CHECK(tiles_fit_their_place, sizeof(struct nnkit_tiles) <= NNKIT_TILES_BYTES);

/* The step's weights hold blocks first_block .. first_block + blocks - 1; without weights both are 0. */
void nnkit_tiles_start(struct nnkit_tiles *tiles, const struct nnkit_tiling *tiling, struct nnkit_port *port,
    nnkit_u8 *l1, const struct nnkit_task *step);

/* Make the next tile ready: 1. When all are computed and stored: 0. */
nnkit_i32 nnkit_tiles_next(struct nnkit_tiles *tiles);

/* Let the tile after this one come. Its input may take the place of the one that an image has been made of. */
void nnkit_tiles_ahead(struct nnkit_tiles *tiles);

NNKIT_EXTERN_C_END

#endif
