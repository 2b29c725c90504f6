/* Calls nnkit_face_crop with every kind of bad argument; prints one status a line. The output must stay untouched. */
#include <stdio.h>

#include "nnkit_face_crop.h"

#define CROP_PIXELS (NNKIT_FACE_CROP_SIZE * NNKIT_FACE_CROP_SIZE)

static nnkit_face_crop_scratch scratch;
static nnkit_i16 out[CROP_PIXELS];

static void report(const char *name, int status)
{
    int touched = 0;
    int i;
    for (i = 0; i < CROP_PIXELS; ++i) {
        touched |= out[i] != -1;
        out[i] = -1;
    }
    printf("%s %d %s\n", name, status, touched ? "touched" : "untouched");
}

static void try_frame(const char *name, nnkit_i32 width, nnkit_i32 height, nnkit_i32 stride)
{
    static const nnkit_u8 pixels[16] = {0};
    const nnkit_box box = {0, 0, 4, 4};
    nnkit_frame frame;
    frame.pixels = pixels;
    frame.width = width;
    frame.height = height;
    frame.stride = stride;
    report(name, nnkit_face_crop(&frame, &box, &scratch, out));
}

static void try_box(const char *name, nnkit_i32 x, nnkit_i32 y, nnkit_i32 width, nnkit_i32 height)
{
    static const nnkit_u8 pixels[16] = {0};
    const nnkit_frame frame = {pixels, 4, 4, 4};
    nnkit_box box;
    box.x = x;
    box.y = y;
    box.width = width;
    box.height = height;
    report(name, nnkit_face_crop(&frame, &box, &scratch, out));
}

int main(void)
{
    static const nnkit_u8 pixels[16] = {0};
    const nnkit_frame frame = {pixels, 4, 4, 4};
    const nnkit_frame empty = {NULL, 4, 4, 4};
    const nnkit_box box = {0, 0, 4, 4};
    int i;
    for (i = 0; i < CROP_PIXELS; ++i) {
        out[i] = -1;
    }
    report("null_frame", nnkit_face_crop(NULL, &box, &scratch, out));
    report("null_pixels", nnkit_face_crop(&empty, &box, &scratch, out));
    report("null_box", nnkit_face_crop(&frame, NULL, &scratch, out));
    report("null_scratch", nnkit_face_crop(&frame, &box, NULL, out));
    report("null_out", nnkit_face_crop(&frame, &box, &scratch, NULL));
    try_frame("no_width", 0, 4, 4);
    try_frame("negative_height", 4, -1, 4);
    try_frame("short_stride", 4, 4, 3);
    try_frame("huge_width", 16385, 1, 16385);
    try_box("no_width_box", 0, 0, 0, 4);
    try_box("negative_height_box", 0, 0, 4, -4);
    try_box("huge_box", 0, 0, 16385, 4);
    try_box("far_box", 0, -16385, 4, 16384);
    try_box("largest_int_box", 2147483647, 0, 4, 4);
    try_box("right_of_frame", 4, 0, 4, 4);
    try_box("above_frame", 0, -4, 4, 4);
    try_box("one_pixel_inside", -3, 3, 4, 4);
    return 0;
}
