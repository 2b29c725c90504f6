/*
 * Reads frames and boxes, writes statuses and crops; all numbers as the machine has them.
 * Input: { i32 width, height, stride, boxes; the frame's bytes, the last row without its padding; boxes * 4 i32 }...
 * Output for each box: i32 status, and after a 0 the crop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nnkit_face_crop.h"

static int read_all(void *to, size_t bytes)
{
    return fread(to, 1, bytes, stdin) == bytes;
}

static nnkit_face_crop_value parts[NNKIT_FACE_CROP_SIZE * NNKIT_FACE_CROP_SIZE];

/* The crop as cores share it, the last rows first. */
static int in_parts(const nnkit_frame *frame, const nnkit_box *box)
{
    nnkit_face_crop_scratch scratch;
    const int status = nnkit_face_crop_start(frame, box, &scratch);
    nnkit_i32 part;
    for (part = 2; part >= 0 && status == NNKIT_OK; --part) {
        nnkit_face_crop_rows(frame, &scratch, parts, NNKIT_FACE_CROP_SIZE * part / 3, NNKIT_FACE_CROP_SIZE * (part + 1) / 3);
    }
    return status;
}

int main(void)
{
    static nnkit_face_crop_value out[NNKIT_FACE_CROP_SIZE * NNKIT_FACE_CROP_SIZE];
    static nnkit_face_crop_scratch scratch;
    nnkit_i32 header[4];
    while (read_all(header, sizeof header)) {
        const size_t bytes = (size_t)header[2] * (size_t)(header[1] - 1) + (size_t)header[0];
        nnkit_u8 *pixels = (nnkit_u8 *)malloc(bytes);
        nnkit_frame frame;
        nnkit_i32 i;
        if (pixels == NULL || !read_all(pixels, bytes)) {
            return 1;
        }
        frame.pixels = pixels;
        frame.width = header[0];
        frame.height = header[1];
        frame.stride = header[2];
        for (i = 0; i < header[3]; ++i) {
            nnkit_box box;
            nnkit_i32 status;
            if (!read_all(&box, sizeof box)) {
                return 1;
            }
            status = nnkit_face_crop(&frame, &box, &scratch, out);
            fwrite(&status, sizeof status, 1, stdout);
            if (in_parts(&frame, &box) != status || (status == NNKIT_OK && memcmp(parts, out, sizeof out) != 0)) {
                return 2;
            }
            if (status == NNKIT_OK) {
                fwrite(out, sizeof out, 1, stdout);
            }
        }
        free(pixels);
    }
    return 0;
}
