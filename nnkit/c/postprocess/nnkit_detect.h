/*
 * nnkit_detect.h: boxes and scores of a network to detections, in integers alone but for what the network gives.
 *
 * Coordinates are fractions of the image with 14 fraction bits: 16384 is the right or lower edge. Scores are as the
 * network stores them. Indices of boxes are sorted, and only boxes that may stay are decoded.
 */
#ifndef NNKIT_DETECT_H
#define NNKIT_DETECT_H

#include "nnkit_postprocess.h"

NNKIT_EXTERN_C_BEGIN

#define NNKIT_DETECT_ONE 16384

typedef NNKIT_DETECT_LOCATION_TYPE nnkit_box_value;
typedef NNKIT_DETECT_SCORE_TYPE nnkit_score;

#if NNKIT_DETECT_BOXES <= 65536
typedef nnkit_u16 nnkit_box_index;
#else
typedef nnkit_u32 nnkit_box_index;
#endif

typedef struct nnkit_detection {
    nnkit_score score;
    nnkit_i16 label;  /* class */
    nnkit_i16 box[4]; /* x_min, y_min, x_max, y_max */
} nnkit_detection;

/* Results, and the working memory of a call. */
typedef struct nnkit_detections {
    nnkit_i32 count;                             /* at most NNKIT_DETECT_KEEP */
    nnkit_detection rows[NNKIT_DETECT_ROWS];     /* the first `count`: classes ascend, within each the best first */
    nnkit_box_index order[NNKIT_DETECT_TOP_K];   /* working memory */
} nnkit_detections;

/*
 * location: NNKIT_DETECT_BOXES * 4 values, as many for every class where boxes are not shared. scores: a value for
 * each box and class. NNKIT_OK or NNKIT_ERROR_NULL.
 */
int nnkit_detect(const nnkit_box_value *location, const nnkit_score *scores, nnkit_detections *detections);

NNKIT_EXTERN_C_END

#endif /* NNKIT_DETECT_H */
