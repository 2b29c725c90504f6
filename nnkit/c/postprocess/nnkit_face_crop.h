/*
 * nnkit_face_crop.h: camera frame + detector box -> square network input.
 *
 * The crop is the square around the box's centre whose side is the longer side of the box, so that the aspect is
 * preserved. It is sampled bilinearly on a grid of NNKIT_FACE_CROP_SIZE x NNKIT_FACE_CROP_SIZE pixel centres. Pixels
 * outside the frame repeat its border, or read NNKIT_FACE_CROP_FILL where NNKIT_FACE_CROP_REPLICATE is 0. The output is
 * in the number format of the network's input.
 */
#ifndef NNKIT_FACE_CROP_H
#define NNKIT_FACE_CROP_H

#include "nnkit_postprocess.h"

NNKIT_EXTERN_C_BEGIN

/* Largest frame side, box side and |x|, |y| of a box, in pixels. */
#define NNKIT_FACE_CROP_MAX_PIXELS 16384

/* 8-bit gray, row after row; `stride` is the distance of two rows in bytes, at least `width`. */
typedef struct nnkit_frame {
    const nnkit_u8 *pixels;
    nnkit_i32 width;
    nnkit_i32 height;
    nnkit_i32 stride;
} nnkit_frame;

/* Top left corner and size in pixels; may lie partly outside the frame. */
typedef struct nnkit_box {
    nnkit_i32 x;
    nnkit_i32 y;
    nnkit_i32 width;
    nnkit_i32 height;
} nnkit_box;

/* One value of the network's input. */
typedef NNKIT_FACE_CROP_TYPE nnkit_face_crop_value;

/* Working memory of one call: needs no initialisation, holds nothing between calls. */
typedef struct nnkit_face_crop_scratch {
    nnkit_i32 column[NNKIT_FACE_CROP_SIZE]; /* the left one of two source columns */
    nnkit_i32 weight[NNKIT_FACE_CROP_SIZE]; /* weight of the right one, 11 fraction bits */
    nnkit_i32 top, height;                  /* of the box */
    nnkit_i32 side;                         /* of the square around it */
} nnkit_face_crop_scratch;

/*
 * Writes NNKIT_FACE_CROP_SIZE rows of as many values to `out`: gray levels with NNKIT_FACE_CROP_FRAC fraction bits,
 * saturated to the type. Returns NNKIT_OK, NNKIT_ERROR_NULL, NNKIT_ERROR_FRAME, NNKIT_ERROR_BOX or NNKIT_ERROR_BOX_OUTSIDE.
 */
int nnkit_face_crop(const nnkit_frame *frame, const nnkit_box *box, nnkit_face_crop_scratch *scratch,
                    nnkit_face_crop_value *out);

/*
 * The same in parts, which cores may share: nnkit_face_crop_start once, then rows `first` up to, not including, `last`
 * of the crop in any order, all with the same frame, scratch and `out`. Returns as nnkit_face_crop does.
 */
int nnkit_face_crop_start(const nnkit_frame *frame, const nnkit_box *box, nnkit_face_crop_scratch *scratch);
void nnkit_face_crop_rows(const nnkit_frame *frame, const nnkit_face_crop_scratch *scratch, nnkit_face_crop_value *out,
                          nnkit_i32 first, nnkit_i32 last);

NNKIT_EXTERN_C_END

#endif /* NNKIT_FACE_CROP_H */
