/* Pictures to the pixels of a network's input, step by step as the recipe's `preprocess` says: gray, crop, flip,
 * resize, letterbox, order of the colours. Every step gives the pixels that Pillow gives, which calibrated the network.
 * Mean and scale are not applied here. C90, no heap.
 */
#ifndef NNKIT_PREPROCESS_H
#define NNKIT_PREPROCESS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 8 bits a channel, rows without padding; 1 channel: gray, 3 channels: R, G, B of one pixel after another. */
typedef struct {
    const unsigned char *pixels;
    int width, height, channels;
} nnkit_image;

enum { NNKIT_GRAY, NNKIT_RGB, NNKIT_BGR };
enum { NNKIT_CROP_NONE, NNKIT_CROP_RECTANGLE, NNKIT_CROP_CENTER };
enum { NNKIT_RESIZE_NONE, NNKIT_NEAREST, NNKIT_BOX, NNKIT_BILINEAR, NNKIT_HAMMING, NNKIT_BICUBIC, NNKIT_LANCZOS };
enum {
    NNKIT_PREPROCESS_OK = 0,
    NNKIT_PREPROCESS_CROP = -1,  /* the crop does not lie in the picture */
    NNKIT_PREPROCESS_SIZE = -2,  /* another size than the network's, and no resize */
    NNKIT_PREPROCESS_MEMORY = -3, /* no scratch memory, where some is needed */
    NNKIT_PREPROCESS_IMAGE = -4  /* no pixels, or neither 1 nor 3 channels */
};

typedef struct {
    int width, height; /* of the network's input */
    int color;         /* NNKIT_GRAY, _RGB, _BGR: the channels and their order */
    int crop;          /* NNKIT_CROP_... */
    int left, top, crop_width, crop_height; /* of NNKIT_CROP_RECTANGLE */
    int flip;          /* mirror left to right */
    int resize;        /* NNKIT_RESIZE_NONE or the filter */
    int letterbox;     /* keep the aspect ratio, and fill what is left over */
    int fill;          /* its gray level */
    int rows_first;    /* as newer Pillows: where more than twice as many rows as columns go, they are resized first */
    int channels_last; /* the result is [height][width][channels], not [channels][height][width] */
} nnkit_preprocess;

/* Bytes of scratch memory, aligned for int, that a picture of that size takes; 0 where nothing is resized. */
size_t nnkit_preprocess_bytes(const nnkit_preprocess *how, int width, int height, int channels);

/* result: 1 channel for NNKIT_GRAY, else 3. scratch: NULL where none is needed. Returns NNKIT_PREPROCESS_... */
int nnkit_preprocess_image(const nnkit_preprocess *how, const nnkit_image *image, void *scratch, unsigned char *result);

#ifdef __cplusplus
}
#endif

#endif
