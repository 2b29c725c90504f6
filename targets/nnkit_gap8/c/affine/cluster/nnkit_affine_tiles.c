/* A call in tiles; see nnkit_affine_tiles.h. */
#include "nnkit_affine_tiles.h"

#include <string.h>

/* The rows of an input that a tile needs, of those that exist; returns the rows of padding above them. */
static nnkit_i32 input_rows(const struct nnkit_affine_input *input, const struct nnkit_affine_tile *tile,
    nnkit_i32 *begin, nnkit_i32 *end)
{
    const nnkit_i32 top = tile->row * input->stride - input->pad;

    *begin = top < 0 ? 0 : top;
    *end = (tile->row + tile->rows - 1) * input->stride - input->pad + input->span;
    if (*end > input->height) *end = input->height;
    if (*end < *begin) *end = *begin;
    return *begin - top;
}

/* Pixels of which `bytes` lie in L1 one after another, and `stride` bytes apart in L2. */
static nnkit_i32 transfer(struct nnkit_affine_tiles *tiles, nnkit_i32 l1, nnkit_u8 *l2, nnkit_i32 bytes,
    nnkit_i32 pixels, nnkit_i32 stride, nnkit_i32 to_l2)
{
    nnkit_u8 *local = tiles->l1 + l1;

    if (bytes == stride) {
        bytes *= pixels;
        pixels = 1;
    }
    if (pixels > 1 && stride > NNKIT_DMA_MOST_STRIDE) {
        for (; pixels > 1; --pixels) {
            nnkit_dma_wait(tiles->port, nnkit_dma_start(tiles->port, local, l2, (nnkit_u32)bytes, 1, 0, to_l2));
            local += bytes;
            l2 += stride;
        }
    }
    return nnkit_dma_start(tiles->port, local, l2, (nnkit_u32)bytes, (nnkit_u32)pixels, pixels > 1 ? (nnkit_u32)stride : 0,
        to_l2);
}

/* A tile's output on its way to L2, whose rows may lie between others'. */
static nnkit_i32 store(struct nnkit_affine_tiles *tiles, const struct nnkit_affine_tile *tile, nnkit_i32 l1)
{
    const struct nnkit_affine_tiling *tiling = &tiles->tiling;
    const nnkit_i32 bytes = tile->channels * tiling->out_value_bytes;
    const nnkit_i32 pixels = tiling->out_w;
    nnkit_u8 *l2 = tiles->l2_output + tile->row * tiling->out_row_bytes + tile->channel * tiling->out_value_bytes;
    nnkit_i32 rows = tile->rows;

    if (tiling->out_row_bytes == pixels * tiling->out_pixel_bytes) {
        return transfer(tiles, l1, l2, bytes, rows * pixels, tiling->out_pixel_bytes, 1);
    }
    if (bytes == tiling->out_pixel_bytes) {
        return transfer(tiles, l1, l2, pixels * bytes, rows, tiling->out_row_bytes, 1);
    }
    for (; rows > 1; --rows) {
        nnkit_dma_wait(tiles->port, transfer(tiles, l1, l2, bytes, pixels, tiling->out_pixel_bytes, 1));
        l1 += pixels * bytes;
        l2 += tiling->out_row_bytes;
    }
    return transfer(tiles, l1, l2, bytes, pixels, tiling->out_pixel_bytes, 1);
}

/* The tile of this index, in the buffers that follow those of `before` where something is new. */
static void set_tile(const struct nnkit_affine_tiles *tiles, nnkit_i32 index, const struct nnkit_affine_tile *before,
    struct nnkit_affine_tile *tile)
{
    const struct nnkit_affine_tiling *tiling = &tiles->tiling;
    const nnkit_i32 across = (tiling->out_channels + tiling->channels - 1) / tiling->channels;
    const nnkit_i32 down = (tiling->out_h + tiling->rows - 1) / tiling->rows;
    const nnkit_i32 inside = tiling->by_rows ? across : down;
    const nnkit_i32 outer = index / inside;
    const nnkit_i32 inner = index - outer * inside;
    struct nnkit_affine_tile last;

    last = *before;
    tile->row = (tiling->by_rows ? outer : inner) * tiling->rows;
    tile->channel = (tiling->by_rows ? inner : outer) * tiling->channels;
    tile->rows = tiling->out_h - tile->row < tiling->rows ? tiling->out_h - tile->row : tiling->rows;
    tile->channels = tiling->out_channels - tile->channel;
    if (tile->channels > tiling->channels) tile->channels = tiling->channels;
    /* An input with all channels changes with the rows alone, weights change with the channels alone. */
    tile->loads[0] = index == 0 || tile->row != last.row || (!tiling->input[0].whole && tile->channel != last.channel);
    tile->loads[1] = tiling->block_bytes && (index == 0 || tile->channel != last.channel);
    tile->turn[0] = index && tile->loads[0] ? !last.turn[0] : last.turn[0];
    tile->turn[1] = index && tile->loads[1] ? !last.turn[1] : last.turn[1];
}

static void load(struct nnkit_affine_tiles *tiles, const struct nnkit_affine_tile *tile)
{
    const struct nnkit_affine_tiling *tiling = &tiles->tiling;
    nnkit_i32 i, begin, end;

    tiles->loading[0] = tiles->loading[1] = tiles->loading[2] = -1;
    for (i = 0; tile->loads[0] && i < tiling->inputs; ++i) {
        const struct nnkit_affine_input *input = &tiling->input[i];

        input_rows(input, tile, &begin, &end);
        if (end == begin) continue; /* nothing but padding */
        tiles->loading[i] = transfer(tiles, input->l1[tile->turn[0]],
            tiles->l2_input[i] + begin * input->width * input->pixel_bytes
                + (input->whole ? 0 : tile->channel * input->value_bytes),
            input->whole ? input->pixel_bytes : tile->channels * input->value_bytes, (end - begin) * input->width,
            input->pixel_bytes, 0);
    }
    if (tile->loads[1]) {
        const nnkit_i32 bytes = (tile->channels + 3) / 4 * tiling->block_bytes;

        tiles->loading[2] = transfer(tiles, tiling->l1_weights[tile->turn[1]],
            tiles->l2_weights + tile->channel / 4 * tiling->block_bytes, bytes, 1, bytes, 0);
    }
}

static void change(struct nnkit_affine_tiles *tiles, nnkit_i32 field, nnkit_i32 value)
{
    const nnkit_i32 at = tiles->tiling.at[field];

    if (at >= 0) tiles->numbers[at] = value;
}

/* The numbers and tasks of the tile `now`. */
static void set_tasks(struct nnkit_affine_tiles *tiles)
{
    const struct nnkit_affine_tiling *tiling = &tiles->tiling;
    const struct nnkit_affine_tile *tile = &tiles->now;
    nnkit_i32 begin, end;
    const nnkit_i32 pad = input_rows(&tiling->input[0], tile, &begin, &end);

    change(tiles, 0, end - begin);
    change(tiles, 1, tile->rows);
    change(tiles, 2, pad);
    change(tiles, 3, tile->channels);
    change(tiles, 4, tile->channels);
    change(tiles, 5, tile->rows * tiling->out_w * tiling->counted);
    tiles->task.input[0] = tiles->l1 + tiling->input[0].l1[tile->turn[0]];
    tiles->task.input[1] = tiles->l1 + tiling->input[1].l1[tile->turn[0]];
    if (tiling->l1_image >= 0) {
        tiles->image_task.input[0] = tiles->task.input[0];
        tiles->task.input[0] = tiles->image_task.output;
    }
    tiles->task.output = tiles->l1 + tiling->l1_output[tiles->index & 1];
    if (tiling->block_bytes) tiles->task.weights = tiles->l1 + tiling->l1_weights[tile->turn[1]];
    tiles->fresh = tile->loads[0];
}

void nnkit_affine_tiles_start(struct nnkit_affine_tiles *tiles, const struct nnkit_affine_tiling *tiling,
    struct nnkit_port *port, nnkit_u8 *l1, const nnkit_u8 *input0, const nnkit_u8 *input1, const nnkit_u8 *weights,
    nnkit_u8 *output)
{
    nnkit_i32 table = -1;

    memset(tiles, 0, sizeof *tiles);
    memcpy(&tiles->tiling, tiling, sizeof *tiling);
    tiling = &tiles->tiling;
    tiles->port = port;
    tiles->l1 = l1;
    tiles->l2_input[0] = (nnkit_u8 *)(size_t)input0;
    tiles->l2_input[1] = (nnkit_u8 *)(size_t)input1;
    tiles->l2_weights = (nnkit_u8 *)(size_t)weights;
    tiles->l2_output = output;
    tiles->count = (tiling->out_channels + tiling->channels - 1) / tiling->channels
        * ((tiling->out_h + tiling->rows - 1) / tiling->rows);
    tiles->index = -1;
    tiles->storing[0] = tiles->storing[1] = -1;
    memcpy(tiles->numbers, tiling->numbers, (size_t)tiling->numbers_count * sizeof tiles->numbers[0]);
    tiles->task.layer = tiles->image_task.layer = tiles->numbers;
    tiles->image_task.output = l1 + (tiling->l1_image < 0 ? 0 : tiling->l1_image);
    if (tiling->l1_scratch >= 0) {
        tiles->task.weights = l1 + tiling->l1_scratch;
        tiles->task.scratch = l1 + tiling->l1_scratch + tiling->table_bytes;
    }
    if (tiling->table_bytes) {
        table = transfer(tiles, tiling->l1_scratch, tiles->l2_weights, tiling->table_bytes, 1, tiling->table_bytes, 0);
    }
    set_tile(tiles, 0, &tiles->now, &tiles->ahead);
    load(tiles, &tiles->ahead);
    if (table >= 0) nnkit_dma_wait(port, table);
}

nnkit_i32 nnkit_affine_tiles_next(struct nnkit_affine_tiles *tiles)
{
    const struct nnkit_affine_tiling *tiling = &tiles->tiling;
    nnkit_i32 i, turn;

    if (tiles->index >= 0) {
        const struct nnkit_affine_tile *done = &tiles->now;

        turn = tiles->index & 1;
        tiles->storing[turn] = store(tiles, done, tiling->l1_output[turn]);
    }
    for (i = 0; i < 3; ++i) {
        if (tiles->loading[i] >= 0) nnkit_dma_wait(tiles->port, tiles->loading[i]);
        tiles->loading[i] = -1;
    }
    ++tiles->index;
    for (turn = 0; turn < 2; ++turn) {
        /* The output that is two tiles old must have left its buffer; at the end, all. */
        if (tiles->storing[turn] >= 0 && (tiles->index == tiles->count || turn == (tiles->index & 1))) {
            nnkit_dma_wait(tiles->port, tiles->storing[turn]);
            tiles->storing[turn] = -1;
        }
    }
    if (tiles->index == tiles->count) return 0;
    tiles->now = tiles->ahead;
    set_tasks(tiles);
    return 1;
}

void nnkit_affine_tiles_ahead(struct nnkit_affine_tiles *tiles)
{
    if (tiles->index + 1 == tiles->count) return;
    set_tile(tiles, tiles->index + 1, &tiles->now, &tiles->ahead);
    load(tiles, &tiles->ahead);
}
