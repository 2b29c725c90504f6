/*
 * nnkit_postprocess.h: what the CPU-side stages share. Every function returns one of these codes and, but for
 * NNKIT_OK, leaves its outputs untouched.
 */
#ifndef NNKIT_POSTPROCESS_H
#define NNKIT_POSTPROCESS_H

#include "nnkit_postprocess_config.h"
#include "nnkit_types.h"

#define NNKIT_OK 0
#define NNKIT_ERROR_NULL (-1)        /* a pointer is NULL */
#define NNKIT_ERROR_FRAME (-2)       /* the frame's width, height or stride is out of range */
#define NNKIT_ERROR_BOX (-3)         /* the box is empty, too large or too far away */
#define NNKIT_ERROR_BOX_OUTSIDE (-4) /* the box has no pixel in common with the frame */
#define NNKIT_ERROR_FULL (-5)        /* the gallery has no free place */
#define NNKIT_ERROR_GALLERY (-6)     /* the gallery's count exceeds its capacity: not initialised, or overwritten */

#endif /* NNKIT_POSTPROCESS_H */
