/* A layer in tiles; see nnkit_tiles.h. */
#include "nnkit_tiles.h"

#include <stddef.h>
#include <string.h>

/* Clip to 0 .. height; returns the rows of padding in front of the first that is there. */
static nnkit_i32 rows_before(const struct nnkit_tile_rows *rows, nnkit_i32 first, nnkit_i32 count, nnkit_i32 *begin,
    nnkit_i32 *end)
{
    const nnkit_i32 top = first * rows->stride - rows->pad;

    *begin = top < 0 ? 0 : top;
    *end = (first + count - 1) * rows->stride - rows->pad + rows->span;
    if (*end > rows->height) *end = rows->height;
    if (*end < *begin) *end = *begin;
    return *begin - top;
}

/* The rows of an input that a tile needs. */
static nnkit_i32 input_rows(const struct nnkit_tiling *tiling, const struct nnkit_tile *tile, nnkit_i32 input,
    nnkit_i32 *begin, nnkit_i32 *end)
{
    nnkit_i32 first = tile->row;
    nnkit_i32 last = tile->row + tile->rows;

    if (tiling->pool) rows_before(&tiling->pool_rows, tile->row, tile->rows, &first, &last);
    first += tile->kept;
    return rows_before(&tiling->input[input].rows, first, last - first, begin, end);
}

/* The convolution rows of `tile` that the tile before it has made, and whether there are others. */
static nnkit_i32 kept_rows(const struct nnkit_tiling *tiling, const struct nnkit_tile *before,
    const struct nnkit_tile *tile, nnkit_i32 *more)
{
    nnkit_i32 begin, end, last_begin, last_end;

    *more = 1;
    if (!tiling->pool || before->channel != tile->channel || before->row + before->rows != tile->row) return 0;
    rows_before(&tiling->pool_rows, before->row, before->rows, &last_begin, &last_end);
    rows_before(&tiling->pool_rows, tile->row, tile->rows, &begin, &end);
    *more = end > last_end;
    return last_end > begin ? last_end - begin : 0;
}

static nnkit_i32 transfer(struct nnkit_tiles *tiles, nnkit_i32 l1, nnkit_u8 *l2, nnkit_i32 line_bytes, nnkit_i32 lines,
    nnkit_i32 stride, nnkit_i32 to_l2)
{
    nnkit_u8 *local = tiles->l1 + l1;

    if (line_bytes == stride) {
        line_bytes *= lines;
        lines = 1;
    }
    if (lines > 1 && stride > NNKIT_DMA_MOST_STRIDE) {
        for (; lines > 1; --lines) {
            nnkit_dma_wait(tiles->port, nnkit_dma_start(tiles->port, local, l2, (nnkit_u32)line_bytes, 1, 0, to_l2));
            local += line_bytes;
            l2 += stride;
        }
    }
    return nnkit_dma_start(tiles->port, local, l2, (nnkit_u32)line_bytes, (nnkit_u32)lines,
        lines > 1 ? (nnkit_u32)stride : 0, to_l2);
}

/* The tile of this index, in the buffers that follow those of `before` where something is new. */
static void set_tile(const struct nnkit_tiles *tiles, nnkit_i32 index, const struct nnkit_tile *before,
    struct nnkit_tile *tile)
{
    const struct nnkit_tiling *tiling = &tiles->tiling;
    const nnkit_i32 across = (tiles->all_channels + tiling->channels - 1) / tiling->channels;
    const nnkit_i32 down = (tiling->out_h + tiling->rows - 1) / tiling->rows;
    nnkit_i32 outer, inner;
    nnkit_i32 more = 1;
    struct nnkit_tile last;

    last = *before;
    if (index && last.slice + 1 < tiling->slices) { /* the same tile, of the next input channels */
        *tile = last;
        ++tile->slice;
        tile->turn[0] ^= tile->loads[0];
        tile->turn[1] ^= 1;
        return;
    }
    tile->slice = 0;
    tile->output = index ? last.output + 1 : 0;
    outer = tile->output / (tiling->by_rows ? across : down);
    inner = tile->output - outer * (tiling->by_rows ? across : down);
    tile->row = (tiling->by_rows ? outer : inner) * tiling->rows;
    tile->channel = (tiling->by_rows ? inner : outer) * tiling->channels;
    tile->rows = tiling->out_h - tile->row < tiling->rows ? tiling->out_h - tile->row : tiling->rows;
    tile->channels = tiles->all_channels - tile->channel;
    if (tile->channels > tiling->channels) tile->channels = tiling->channels;
    tile->kept = index ? kept_rows(tiling, &last, tile, &more) : 0;
    /* An input with all channels changes with the rows alone, weights change with the channels alone. */
    tile->loads[0] = index == 0 || tiling->slices > 1 || tile->row != last.row
        || (!tiling->input[0].channels && tile->channel != last.channel);
    tile->loads[0] &= more;
    tile->loads[1] = tiling->block_bytes && (index == 0 || tiling->slices > 1 || tile->channel != last.channel);
    tile->turn[0] = index && tile->loads[0] ? !last.turn[0] : last.turn[0];
    tile->turn[1] = index && tile->loads[1] ? !last.turn[1] : last.turn[1];
}

/* Groups of each pixel that a tile's slice has, where there are slices. */
static nnkit_i32 slice_groups(const struct nnkit_tiling *tiling, const struct nnkit_tile *tile)
{
    const nnkit_i32 left = tiling->groups - tile->slice * tiling->slice_groups;

    return left < tiling->slice_groups ? left : tiling->slice_groups;
}

/* The input channels of a tile's slice from `*first` on. */
static nnkit_i32 slice_channels(const struct nnkit_tiling *tiling, const struct nnkit_tile *tile, nnkit_i32 *first)
{
    const nnkit_i32 most = slice_groups(tiling, tile) * tiling->group_channels;
    nnkit_i32 left;

    *first = tile->slice * tiling->slice_groups * tiling->group_channels;
    left = tiling->input[0].channels - *first;
    return left < most ? left : most;
}

/* Bytes of a slice's weights of 4 output channels; the starts lie in front of those of the first. */
static nnkit_i32 slice_bytes(const struct nnkit_tiling *tiling, const struct nnkit_tile *tile, nnkit_i32 *first)
{
    const nnkit_i32 head = tiling->block_bytes - tiling->groups * tiling->group_bytes;
    const nnkit_i32 bytes = slice_groups(tiling, tile) * tiling->group_bytes;

    *first = tile->slice ? head + tile->slice * tiling->slice_groups * tiling->group_bytes : 0;
    return tile->slice ? bytes : bytes + head;
}

static void load(struct nnkit_tiles *tiles, const struct nnkit_tile *tile)
{
    const struct nnkit_tiling *tiling = &tiles->tiling;
    nnkit_i32 i, begin, end;

    tiles->loading[0] = tiles->loading[1] = tiles->loading[2] = -1;
    for (i = 0; tile->loads[0] && i < tiling->inputs; ++i) {
        const struct nnkit_tile_input *input = &tiling->input[i];
        const nnkit_i32 plane = input->rows.height * input->row_bytes;
        nnkit_i32 first = input->channels ? 0 : tiles->first_channel + tile->channel;
        nnkit_i32 channels = input->channels ? input->channels : tile->channels;

        if (tiling->slices > 1) channels = slice_channels(tiling, tile, &first);
        input_rows(tiling, tile, i, &begin, &end);
        if (end == begin) continue; /* nothing but padding */
        tiles->loading[i] = transfer(tiles, tiling->l1_input[i][tile->turn[0]],
            tiles->l2_input[i] + first * plane + begin * input->row_bytes, (end - begin) * input->row_bytes,
            channels, plane, 0);
    }
    if (tile->loads[1]) {
        nnkit_i32 bytes = tiling->block_bytes;
        nnkit_i32 first = 0;

        if (tiling->slices > 1) bytes = slice_bytes(tiling, tile, &first);
        tiles->loading[2] = transfer(tiles, tiling->l1_weights[tile->turn[1]],
            tiles->l2_weights + tile->channel / 4 * tiling->block_bytes + first, bytes, (tile->channels + 3) / 4,
            tiling->block_bytes, 0);
    }
}

static void change(struct nnkit_tiles *tiles, nnkit_i32 field, nnkit_i32 value)
{
    const nnkit_i32 at = tiles->tiling.at[field];

    if (at >= 0) memcpy(tiles->layer.bytes + at, &value, sizeof value);
}

/* The layer's parameters for the slice of the tile `now`. */
static void set_slice(struct nnkit_tiles *tiles)
{
    const struct nnkit_tiling *tiling = &tiles->tiling;
    const struct nnkit_tile *tile = &tiles->now;
    struct nnkit_packed_conv *layer = &tiles->layer.packed;
    nnkit_i32 first;

    layer->in_channels = slice_channels(tiling, tile, &first);
    layer->entry_groups = slice_groups(tiling, tile);
    layer->row_groups = layer->entry_groups * layer->kernel_w;
    layer->pixel_groups = layer->entry_groups * layer->stride_w;
    layer->block_bytes = slice_bytes(tiling, tile, &first);
    layer->begins = tile->slice == 0;
    layer->ends = tiles->complete;
}

/* The layer's parameters and tasks for the tile `now`. */
static void set_tasks(struct nnkit_tiles *tiles)
{
    const struct nnkit_tiling *tiling = &tiles->tiling;
    const struct nnkit_tile *tile = &tiles->now;
    nnkit_u8 *const output = tiles->l1 + tiling->l1_output[tiles->now.output & 1];
    nnkit_i32 rows = tile->rows;
    nnkit_i32 begin, end, pad;

    if (tiling->pool) {
        pad = rows_before(&tiling->pool_rows, tile->row, tile->rows, &begin, &end);
        tiles->pool.pool.window.pad_top = pad;
        tiles->pool.pool.in_h = end - begin;
        tiles->pool.pool.out_h = tile->rows;
        tiles->pool.pool.channels = tile->channels;
        tiles->pool_task.output = output;
        rows = end - begin - tile->kept;
    }
    pad = input_rows(tiling, tile, 0, &begin, &end);
    change(tiles, 0, end - begin);
    change(tiles, 1, rows);
    change(tiles, 2, pad);
    change(tiles, 3, tile->channels);
    change(tiles, 4, rows * tiling->out_w * (tiling->at[3] < 0 ? tile->channels : 1));
    tiles->task.input[0] = tiles->l1 + tiling->l1_input[0][tile->turn[0]];
    tiles->task.input[1] = tiles->l1 + tiling->l1_input[1][tile->turn[0]];
    if (tiling->l1_image >= 0) {
        tiles->image_task.input[0] = tiles->task.input[0];
        tiles->task.input[0] = tiles->image_task.output;
    }
    tiles->task.output = output;
    if (tiling->l1_image >= 0) tiles->layer.packed.out_plane = rows * tiles->layer.packed.out_w;
    if (tiling->pool) {
        tiles->layer.packed.out_plane = tiles->pool.in_plane;
        tiles->task.output = tiles->l1 + tiling->l1_band + tile->kept * tiling->band_row_bytes;
    }
    if (tiling->block_bytes) tiles->task.weights = tiles->l1 + tiling->l1_weights[tile->turn[1]];
    tiles->task.blocks = tiling->block_bytes ? (tile->channels + 3) / 4 : 0;
    tiles->fresh = tile->loads[0];
    tiles->complete = tile->slice + 1 == tiling->slices;
    if (tiling->slices > 1) set_slice(tiles);
}

void nnkit_tiles_start(struct nnkit_tiles *tiles, const struct nnkit_tiling *tiling, struct nnkit_port *port,
    nnkit_u8 *l1, const struct nnkit_task *step)
{
    nnkit_i32 out_plane;

    memcpy(&tiles->tiling, tiling, sizeof *tiling);
    memset((nnkit_u8 *)tiles + sizeof tiles->tiling, 0, offsetof(struct nnkit_tiles, layer) - sizeof tiles->tiling);
    tiling = &tiles->tiling;
    tiles->port = port;
    tiles->l1 = l1;
    tiles->l2_input[0] = (nnkit_u8 *)(size_t)step->input[0];
    tiles->l2_input[1] = (nnkit_u8 *)(size_t)step->input[1];
    tiles->l2_weights = (nnkit_u8 *)(size_t)step->weights;
    tiles->first_channel = step->first_block * 4;
    tiles->all_channels = tiling->out_channels;
    if (step->blocks) {
        tiles->all_channels -= tiles->first_channel;
        if (tiles->all_channels > step->blocks * 4) tiles->all_channels = step->blocks * 4;
    }
    out_plane = tiling->out_h * tiling->out_row_bytes;
    tiles->l2_output = (nnkit_u8 *)step->output + tiles->first_channel * out_plane;
    tiles->count = (tiles->all_channels + tiling->channels - 1) / tiling->channels
        * ((tiling->out_h + tiling->rows - 1) / tiling->rows) * tiling->slices;
    tiles->index = -1;
    tiles->storing[0] = tiles->storing[1] = -1;
    memcpy(tiles->layer.bytes, tiling->layer, (size_t)tiling->layer_bytes);
    tiles->task.layer = tiles->image_task.layer = &tiles->layer;
    tiles->task.scratch = l1 + (tiling->l1_scratch < 0 ? 0 : tiling->l1_scratch);
    tiles->image_task.output = l1 + (tiling->l1_image < 0 ? 0 : tiling->l1_image);
    if (tiling->pool) {
        tiles->pool.pool = *tiling->pool;
        tiles->pool.in_plane = tiling->band_rows * tiling->pool->in_w;
        tiles->pool_task.layer = &tiles->pool;
        tiles->pool_task.input[0] = l1 + tiling->l1_band;
    }
    set_tile(tiles, 0, &tiles->now, &tiles->ahead);
    load(tiles, &tiles->ahead);
}

nnkit_i32 nnkit_tiles_next(struct nnkit_tiles *tiles)
{
    const struct nnkit_tiling *tiling = &tiles->tiling;
    const nnkit_i32 out_plane = tiling->out_h * tiling->out_row_bytes;
    nnkit_i32 i, turn;

    if (tiles->index >= 0 && tiles->complete) {
        const struct nnkit_tile *done = &tiles->now;

        turn = done->output & 1;
        tiles->storing[turn] = transfer(tiles, tiling->l1_output[turn],
            tiles->l2_output + done->channel * out_plane + done->row * tiling->out_row_bytes,
            done->rows * tiling->out_row_bytes, done->channels, out_plane, 1);
    }
    for (i = 0; i < 3; ++i) {
        if (tiles->loading[i] >= 0) nnkit_dma_wait(tiles->port, tiles->loading[i]);
        tiles->loading[i] = -1;
    }
    ++tiles->index;
    for (turn = 0; turn < 2; ++turn) {
        /* The output that is two tiles old must have left its buffer; at the end, all. */
        if (tiles->storing[turn] >= 0 && (tiles->index == tiles->count || turn == (tiles->ahead.output & 1))) {
            nnkit_dma_wait(tiles->port, tiles->storing[turn]);
            tiles->storing[turn] = -1;
        }
    }
    if (tiles->index == tiles->count) return 0;
    tiles->now = tiles->ahead;
    set_tasks(tiles);
    return 1;
}

void nnkit_tiles_ahead(struct nnkit_tiles *tiles)
{
    tiles->pool.kept_rows = 0;
    if (tiles->index + 1 == tiles->count) return;
    set_tile(tiles, tiles->index + 1, &tiles->now, &tiles->ahead);
    load(tiles, &tiles->ahead);
    tiles->pool.kept_rows = tiles->ahead.kept;
}
