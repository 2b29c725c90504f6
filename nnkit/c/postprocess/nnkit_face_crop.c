/* nnkit_face_crop.c: see the header. All arithmetic is on 32-bit integers; no intermediate can overflow. */
#include "nnkit_face_crop.h"

#define SIZE NNKIT_FACE_CROP_SIZE
#define LIMIT NNKIT_FACE_CROP_MAX_PIXELS
#define WEIGHT_BITS 11
#define WEIGHT_ONE (1 << WEIGHT_BITS)

NNKIT_STATIC_CHECK(face_crop_size, SIZE >= 1 && SIZE <= 1024);
NNKIT_STATIC_CHECK(face_crop_frac, NNKIT_FACE_CROP_FRAC >= -8 && NNKIT_FACE_CROP_FRAC <= 8);

typedef struct axis_position {
    nnkit_i32 pixel;  /* the lower one of two source pixels, may lie outside the frame */
    nnkit_i32 weight; /* of the upper one, 0 to WEIGHT_ONE */
} axis_position;

/*
 * Source position of output pixel `index` along one axis. With pixel centres at whole numbers plus a half it is
 *     corner + (index + 1/2) * side / SIZE - 1/2,   corner = start + (length - side) / 2,
 * here as an exact fraction with denominator 2 * SIZE; only the weight is rounded, half up. The numerator stays within
 * 49152 * 1024 + 2047 * 16384 < 2^27. 65536 whole pixels are added while dividing, because C90 leaves the quotient of
 * a negative number to the implementation; the sum stays below 2^28 + 2^27.
 */
static axis_position position_of(nnkit_i32 index, nnkit_i32 start, nnkit_i32 length, nnkit_i32 side)
{
    const nnkit_i32 denominator = 2 * SIZE;
    const nnkit_i32 twice_corner = 2 * start + length - side;
    const nnkit_i32 numerator = twice_corner * SIZE + (2 * index + 1) * side - SIZE + 65536 * denominator;
    axis_position position;
    position.pixel = numerator / denominator - 65536;
    position.weight = ((numerator % denominator) * WEIGHT_ONE + SIZE) / denominator;
    return position;
}

#if NNKIT_FACE_CROP_REPLICATE

static nnkit_i32 clamp_to(nnkit_i32 value, nnkit_i32 length)
{
    if (value < 0) {
        return 0;
    }
    return value < length ? value : length - 1;
}

static nnkit_i32 pixel_at(const nnkit_frame *frame, nnkit_i32 x, nnkit_i32 y)
{
    const size_t row = (size_t)clamp_to(y, frame->height);
    return frame->pixels[row * (size_t)frame->stride + (size_t)clamp_to(x, frame->width)];
}

#else

static nnkit_i32 pixel_at(const nnkit_frame *frame, nnkit_i32 x, nnkit_i32 y)
{
    if (x < 0 || y < 0 || x >= frame->width || y >= frame->height) {
        return NNKIT_FACE_CROP_FILL;
    }
    return frame->pixels[(size_t)y * (size_t)frame->stride + (size_t)x];
}

#endif

/*
 * Blend of the four pixels around a position. The weights add up to 2^22, so that the sum is at most 255 * 2^22 + 2^21,
 * below 2^30; half of the last place adds at most 2^29. One rounding, half up, at the end.
 */
static nnkit_face_crop_value blend(const nnkit_frame *frame, nnkit_i32 x, nnkit_i32 x_weight, axis_position row)
{
    const nnkit_i32 upper = pixel_at(frame, x, row.pixel) * (WEIGHT_ONE - x_weight)
        + pixel_at(frame, x + 1, row.pixel) * x_weight;
    const nnkit_i32 lower = pixel_at(frame, x, row.pixel + 1) * (WEIGHT_ONE - x_weight)
        + pixel_at(frame, x + 1, row.pixel + 1) * x_weight;
    const nnkit_i32 sum = upper * (WEIGHT_ONE - row.weight) + lower * row.weight;
    const int shift = 2 * WEIGHT_BITS - (NNKIT_FACE_CROP_FRAC);
    const nnkit_i32 value = (sum + ((nnkit_i32)1 << (shift - 1))) >> shift;
    return (nnkit_face_crop_value)(value < NNKIT_FACE_CROP_MAX ? value : NNKIT_FACE_CROP_MAX);
}

static int check_frame(const nnkit_frame *frame)
{
    if (frame->width < 1 || frame->width > LIMIT || frame->height < 1 || frame->height > LIMIT) {
        return NNKIT_ERROR_FRAME;
    }
    return frame->stride < frame->width ? NNKIT_ERROR_FRAME : NNKIT_OK;
}

static int check_box(const nnkit_frame *frame, const nnkit_box *box)
{
    if (box->width < 1 || box->width > LIMIT || box->height < 1 || box->height > LIMIT) {
        return NNKIT_ERROR_BOX;
    }
    if (box->x < -LIMIT || box->x > LIMIT || box->y < -LIMIT || box->y > LIMIT) {
        return NNKIT_ERROR_BOX;
    }
    if (box->x >= frame->width || box->y >= frame->height) {
        return NNKIT_ERROR_BOX_OUTSIDE;
    }
    return box->x + box->width <= 0 || box->y + box->height <= 0 ? NNKIT_ERROR_BOX_OUTSIDE : NNKIT_OK;
}

int nnkit_face_crop_start(const nnkit_frame *frame, const nnkit_box *box, nnkit_face_crop_scratch *scratch)
{
    nnkit_i32 x;
    int status;

    if (frame == NULL || frame->pixels == NULL || box == NULL || scratch == NULL) {
        return NNKIT_ERROR_NULL;
    }
    status = check_frame(frame);
    if (status == NNKIT_OK) {
        status = check_box(frame, box);
    }
    if (status != NNKIT_OK) {
        return status;
    }
    scratch->top = box->y;
    scratch->height = box->height;
    scratch->side = box->width > box->height ? box->width : box->height;
    for (x = 0; x < SIZE; ++x) {
        const axis_position column = position_of(x, box->x, box->width, scratch->side);
        scratch->column[x] = column.pixel;
        scratch->weight[x] = column.weight;
    }
    return NNKIT_OK;
}

void nnkit_face_crop_rows(const nnkit_frame *frame, const nnkit_face_crop_scratch *scratch, nnkit_face_crop_value *out,
                          nnkit_i32 first, nnkit_i32 last)
{
    const nnkit_frame source = *frame; /* a copy, which stays in registers: `out` may alias the original */
    nnkit_i32 x;
    nnkit_i32 y;

    for (y = first; y < last; ++y) {
        const axis_position row = position_of(y, scratch->top, scratch->height, scratch->side);
        for (x = 0; x < SIZE; ++x) {
            out[y * SIZE + x] = blend(&source, scratch->column[x], scratch->weight[x], row);
        }
    }
}

int nnkit_face_crop(const nnkit_frame *frame, const nnkit_box *box, nnkit_face_crop_scratch *scratch,
                    nnkit_face_crop_value *out)
{
    const int status = out == NULL ? NNKIT_ERROR_NULL : nnkit_face_crop_start(frame, box, scratch);

    if (status == NNKIT_OK) {
        nnkit_face_crop_rows(frame, scratch, out, 0, SIZE);
    }
    return status;
}
