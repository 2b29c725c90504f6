/* What runs one segment on the NNIE: nnkit_nnie.c beside this file, or a function of your program. C99. */
#ifndef NNKIT_NNIE_FORWARD_H
#define NNKIT_NNIE_FORWARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor that enters or leaves an NNIE segment: planar, C x H x W, lines without padding; or a camera frame of H x W:
 * luma, then pairs of V and U, one for each 2 x 2 pixels (420) or 1 x 2 pixels (422). */
typedef struct {
    const char *blob; /* its name in the prototxt */
    int channels, height, width;
    int is_pixels; /* 1: uint8_t pixels; 0: int32_t in S20.12 */
    int frame; /* 420, 422: of a camera frame, YVU420SP or YVU422SP; 0: of what is planar */
    const void *source; /* of an input */
    int32_t *result; /* of an output */
} nnkit_nnie_blob;

/* Runs NNIE segment `segment`, counted among the NNIE's. board: as the caller was given it; for nnkit_nnie.c its
 * `nnkit_nnie`, and the segment is found by the names of its outputs. Returns 0, or an error code. */
int nnkit_nnie_forward(void *board, int segment, const nnkit_nnie_blob *inputs, int input_count,
                       const nnkit_nnie_blob *outputs, int output_count);

#ifdef __cplusplus
}
#endif

#endif
