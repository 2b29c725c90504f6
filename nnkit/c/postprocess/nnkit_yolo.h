/*
 * nnkit_yolo.h: the rows of a YOLO head to detections, in integers alone but for what the network gives.
 *
 * Coordinates are fractions of the image with 14 fraction bits: 16384 is the right or lower edge. Scores have 15
 * fraction bits. Boxes are decoded only where they may stay.
 */
#ifndef NNKIT_YOLO_H
#define NNKIT_YOLO_H

#include "nnkit_postprocess.h"

NNKIT_EXTERN_C_BEGIN

typedef NNKIT_YOLO_TYPE nnkit_yolo_value;

#if NNKIT_YOLO_ROWS <= 65536
typedef nnkit_u16 nnkit_yolo_row;
#else
typedef nnkit_u32 nnkit_yolo_row;
#endif

typedef struct nnkit_yolo_detection {
    nnkit_u16 score;
    nnkit_i16 label;  /* class */
    nnkit_i16 box[4]; /* x_min, y_min, x_max, y_max */
} nnkit_yolo_detection;

typedef struct nnkit_yolo_candidate {
    nnkit_yolo_row row;
    nnkit_u16 label;
    nnkit_u16 score;
} nnkit_yolo_candidate;

/* Results, and the working memory of a call. */
typedef struct nnkit_yolo_detections {
    nnkit_i32 count;                                  /* at most NNKIT_YOLO_KEEP */
    nnkit_yolo_detection rows[NNKIT_YOLO_KEEP];       /* the first `count`, best first */
    nnkit_yolo_candidate candidates[NNKIT_YOLO_TOP_K]; /* working memory */
} nnkit_yolo_detections;

/* outputs: the network's, as it stores them, in the order of NNKIT_YOLO_FACTORS. NNKIT_OK or NNKIT_ERROR_NULL. */
int nnkit_yolo(const nnkit_yolo_value *const outputs[NNKIT_YOLO_OUTPUTS], nnkit_yolo_detections *detections);

NNKIT_EXTERN_C_END

#endif /* NNKIT_YOLO_H */
