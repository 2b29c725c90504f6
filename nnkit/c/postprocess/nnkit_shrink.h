/* nnkit_shrink.h: a gray frame to the detector's input: each value is the mean of a square of pixels, half up. */
#ifndef NNKIT_SHRINK_H
#define NNKIT_SHRINK_H

#include "nnkit_pipeline_config.h"
#include "nnkit_postprocess.h"

NNKIT_EXTERN_C_BEGIN

/* One value of the detector's input. */
typedef NNKIT_SHRINK_TYPE nnkit_shrink_value;

/*
 * pixels: NNKIT_SHRINK_HEIGHT * NNKIT_SHRINK_FACTOR rows of NNKIT_SHRINK_WIDTH * NNKIT_SHRINK_FACTOR. out: gray levels with
 * NNKIT_SHRINK_FRAC fraction bits, saturated to the type. NNKIT_OK or NNKIT_ERROR_NULL.
 */
int nnkit_shrink(const nnkit_u8 *pixels, nnkit_shrink_value *out);

/* The same for rows `first` up to, not including, `last` of the output, which cores may share. */
void nnkit_shrink_rows(const nnkit_u8 *pixels, nnkit_shrink_value *out, nnkit_i32 first, nnkit_i32 last);

NNKIT_EXTERN_C_END

#endif /* NNKIT_SHRINK_H */
