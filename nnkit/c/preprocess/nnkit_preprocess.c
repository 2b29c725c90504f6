#include "nnkit_preprocess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint8_t *pixels;
    int width, height, channels;
} picture;

static uint8_t *pixels_of(int width, int height, int channels)
{
    return malloc((size_t)width * (size_t)height * (size_t)channels);
}

/* Gray is ITU-R 601 in 16 fraction bits. A gray picture stays gray, whatever the network wants. */
static int copied(const nnkit_preprocess *how, const nnkit_image *image, picture *result)
{
    size_t count = (size_t)image->width * (size_t)image->height, i;
    result->width = image->width;
    result->height = image->height;
    result->channels = how->color == NNKIT_GRAY ? 1 : image->channels;
    result->pixels = pixels_of(result->width, result->height, result->channels);
    if (!result->pixels) {
        return NNKIT_PREPROCESS_MEMORY;
    }
    if (result->channels == image->channels) {
        memcpy(result->pixels, image->pixels, count * (size_t)image->channels);
        return NNKIT_PREPROCESS_OK;
    }
    for (i = 0; i < count; i++) {
        const uint8_t *rgb = image->pixels + 3 * i;
        result->pixels[i] = (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
    }
    return NNKIT_PREPROCESS_OK;
}

/* The centred part: of the network's own size, or the largest one of its aspect ratio, rounded down. */
static void center(const nnkit_preprocess *how, const picture *image, int *left, int *top, int *width, int *height)
{
    long wide = (long)image->width * how->height, high = (long)image->height * how->width;
    if (how->resize == NNKIT_RESIZE_NONE) {
        *width = how->width;
        *height = how->height;
    } else if (wide >= high) {
        *height = image->height;
        *width = (int)(high / how->height);
        *width = *width < 1 ? 1 : *width;
    } else {
        *width = image->width;
        *height = (int)(wide / how->width);
        *height = *height < 1 ? 1 : *height;
    }
    *left = (image->width - *width) >> 1;
    *top = (image->height - *height) >> 1;
}

/* In place: rows move to the front. */
static int cropped(const nnkit_preprocess *how, picture *image)
{
    int left = how->left, top = how->top, width = how->crop_width, height = how->crop_height, y;
    size_t channels = (size_t)image->channels;
    if (how->crop == NNKIT_CROP_NONE) {
        return NNKIT_PREPROCESS_OK;
    }
    if (how->crop == NNKIT_CROP_CENTER) {
        center(how, image, &left, &top, &width, &height);
    }
    if (left < 0 || top < 0 || width > image->width - left || height > image->height - top) {
        return NNKIT_PREPROCESS_CROP;
    }
    for (y = 0; y < height; y++) {
        size_t from = ((size_t)(top + y) * (size_t)image->width + (size_t)left) * channels;
        memmove(image->pixels + (size_t)y * (size_t)width * channels, image->pixels + from, (size_t)width * channels);
    }
    image->width = width;
    image->height = height;
    return NNKIT_PREPROCESS_OK;
}

static void flipped(picture *image)
{
    size_t channels = (size_t)image->channels, width = (size_t)image->width, x;
    int y;
    for (y = 0; y < image->height; y++) {
        uint8_t *row = image->pixels + (size_t)y * width * channels;
        for (x = 0; x < width / 2; x++) {
            uint8_t kept[3];
            uint8_t *one = row + x * channels, *other = row + (width - 1 - x) * channels;
            memcpy(kept, one, channels);
            memcpy(one, other, channels);
            memcpy(other, kept, channels);
        }
    }
}

static double sinc(double x)
{
    const double pi = 3.14159265358979323846;
    return x == 0.0 ? 1.0 : sin(x * pi) / (x * pi);
}

static double weight_of(int filter, double x)
{
    const double pi = 3.14159265358979323846;
    double a = x < 0.0 ? -x : x;
    switch (filter) {
    case NNKIT_BOX:
        return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case NNKIT_BILINEAR:
        return a < 1.0 ? 1.0 - a : 0.0;
    case NNKIT_HAMMING:
        return a >= 1.0 ? 0.0 : a == 0.0 ? 1.0 : sin(a * pi) / (a * pi) * (0.54f + 0.46f * cos(a * pi));
    case NNKIT_BICUBIC:
        return a < 1.0 ? ((-0.5 + 2.0) * a - (-0.5 + 3.0)) * a * a + 1
             : a < 2.0 ? (((a - 5) * a + 8) * a - 4) * -0.5 : 0.0;
    default: /* Lanczos */
        return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
    }
}

static double support_of(int filter)
{
    return filter == NNKIT_BOX ? 0.5 : filter == NNKIT_BICUBIC ? 2.0 : filter == NNKIT_LANCZOS ? 3.0 : 1.0;
}

enum { FRACTION_BITS = 32 - 8 - 2 };

/* first: of the source pixels that each pixel of the result is a mean of; taps: how many, and their weights. */
typedef struct {
    int *first, *taps;
    int32_t *weights;
    int most;
} taps;

static void taps_freed(taps *all)
{
    free(all->first);
    free(all->taps);
    free(all->weights);
}

static int taps_of(int filter, int from, int to, taps *all)
{
    double scale = (double)from / to, wider = scale < 1.0 ? 1.0 : scale, support = support_of(filter) * wider;
    double *row;
    int i, x;
    all->most = (int)ceil(support) * 2 + 1;
    all->first = malloc(sizeof(int) * (size_t)to);
    all->taps = malloc(sizeof(int) * (size_t)to);
    all->weights = malloc(sizeof(int32_t) * (size_t)to * (size_t)all->most);
    row = malloc(sizeof(double) * (size_t)all->most);
    if (!all->first || !all->taps || !all->weights || !row) {
        taps_freed(all);
        free(row);
        return NNKIT_PREPROCESS_MEMORY;
    }
    for (i = 0; i < to; i++) {
        double center_at = (i + 0.5) * scale, sum = 0.0, factor = 1.0 / wider;
        int begin = (int)(center_at - support + 0.5), end = (int)(center_at + support + 0.5);
        int32_t *weights = all->weights + (size_t)i * (size_t)all->most;
        begin = begin < 0 ? 0 : begin;
        end = end > from ? from : end;
        for (x = 0; x < end - begin; x++) {
            row[x] = weight_of(filter, (x + begin - center_at + 0.5) * factor);
            sum += row[x];
        }
        for (x = 0; x < end - begin; x++) {
            double part = sum != 0.0 ? row[x] / sum : row[x];
            weights[x] = (int32_t)((part < 0.0 ? -0.5 : 0.5) + part * (1 << FRACTION_BITS));
        }
        all->first[i] = begin;
        all->taps[i] = end - begin;
    }
    free(row);
    return NNKIT_PREPROCESS_OK;
}

static uint8_t rounded(int32_t sum)
{
    int32_t whole = sum >= 0 ? sum >> FRACTION_BITS : -1;
    return (uint8_t)(whole < 0 ? 0 : whole > 255 ? 255 : whole);
}

/* One side of a picture of `lines` lines becomes `to` long; step: between the pixels that are summed, line: between the
 * lines, both in bytes. */
static int resampled(picture *image, int filter, int to, int vertical)
{
    int from = vertical ? image->height : image->width, lines = vertical ? image->width : image->height;
    int channels = image->channels, i, l, c, x, status;
    int width = vertical ? image->width : to, height = vertical ? to : image->height;
    size_t step = (size_t)channels * (vertical ? (size_t)image->width : 1);
    size_t line = (size_t)channels * (vertical ? 1 : (size_t)image->width);
    uint8_t *result;
    taps all;
    if (from == to) {
        return NNKIT_PREPROCESS_OK;
    }
    result = pixels_of(width, height, channels);
    if (!result) {
        return NNKIT_PREPROCESS_MEMORY;
    }
    status = taps_of(filter, from, to, &all);
    if (status != NNKIT_PREPROCESS_OK) {
        free(result);
        return status;
    }
    for (l = 0; l < lines; l++) {
        for (i = 0; i < to; i++) {
            const int32_t *weights = all.weights + (size_t)i * (size_t)all.most;
            const uint8_t *source = image->pixels + (size_t)l * line + (size_t)all.first[i] * step;
            uint8_t *target = result + (size_t)channels * (vertical ? (size_t)i * (size_t)width + (size_t)l
                                                                    : (size_t)l * (size_t)width + (size_t)i);
            for (c = 0; c < channels; c++) {
                int32_t sum = 1 << (FRACTION_BITS - 1);
                for (x = 0; x < all.taps[i]; x++) {
                    sum += source[(size_t)x * step + (size_t)c] * weights[x];
                }
                target[c] = rounded(sum);
            }
        }
    }
    taps_freed(&all);
    free(image->pixels);
    image->pixels = result;
    image->width = width;
    image->height = height;
    return NNKIT_PREPROCESS_OK;
}

static int nearest(picture *image, int width, int height)
{
    double across = (double)image->width / width, down = (double)image->height / height;
    size_t channels = (size_t)image->channels;
    uint8_t *result = pixels_of(width, height, image->channels);
    int *columns = malloc(sizeof(int) * (size_t)width);
    double at = across * 0.5;
    int x, y;
    if (!result || !columns) {
        free(result);
        free(columns);
        return NNKIT_PREPROCESS_MEMORY;
    }
    for (x = 0; x < width; x++, at += across) { /* summed up, as Pillow does, whose roundings decide at borders */
        columns[x] = (int)at < image->width ? (int)at : image->width - 1;
    }
    at = down * 0.5;
    for (y = 0; y < height; y++, at += down) {
        int row = (int)at < image->height ? (int)at : image->height - 1;
        for (x = 0; x < width; x++) {
            size_t source = ((size_t)row * (size_t)image->width + (size_t)columns[x]) * channels;
            memcpy(result + ((size_t)y * (size_t)width + (size_t)x) * channels, image->pixels + source, channels);
        }
    }
    free(columns);
    free(image->pixels);
    image->pixels = result;
    image->width = width;
    image->height = height;
    return NNKIT_PREPROCESS_OK;
}

/* The side of a picture whose other side fills the network's, half up. */
static int fitted(int side, int to, int of)
{
    long twice = 2L * side * to, whole = (twice + of) / (2L * of);
    return whole < 1 ? 1 : (int)whole;
}

static int resized(const nnkit_preprocess *how, picture *image)
{
    int width = how->width, height = how->height, rows, status;
    if (how->resize == NNKIT_RESIZE_NONE) {
        return NNKIT_PREPROCESS_OK;
    }
    if (how->letterbox) {
        if ((long)image->width * how->height >= (long)image->height * how->width) {
            height = fitted(image->height, how->width, image->width);
        } else {
            width = fitted(image->width, how->height, image->height);
        }
    }
    if (image->width == width && image->height == height) {
        return NNKIT_PREPROCESS_OK;
    }
    if (how->resize == NNKIT_NEAREST) {
        return nearest(image, width, height);
    }
    rows = how->rows_first && image->height > height && image->height - height > 2 * (image->width - width);
    status = resampled(image, how->resize, rows ? height : width, rows);
    return status != NNKIT_PREPROCESS_OK ? status : resampled(image, how->resize, rows ? width : height, !rows);
}

int nnkit_preprocess_image(const nnkit_preprocess *how, const nnkit_image *image, uint8_t *planes)
{
    picture made = {NULL, 0, 0, 0};
    size_t plane = (size_t)how->width * (size_t)how->height;
    int wanted = how->color == NNKIT_GRAY ? 1 : 3, c, x, y, status = copied(how, image, &made);
    if (status == NNKIT_PREPROCESS_OK) {
        status = cropped(how, &made);
    }
    if (status == NNKIT_PREPROCESS_OK && how->flip) {
        flipped(&made);
    }
    if (status == NNKIT_PREPROCESS_OK) {
        status = resized(how, &made);
    }
    if (status == NNKIT_PREPROCESS_OK && !(how->resize != NNKIT_RESIZE_NONE && how->letterbox)
        && (made.width != how->width || made.height != how->height)) {
        status = NNKIT_PREPROCESS_SIZE;
    }
    if (status == NNKIT_PREPROCESS_OK) {
        int left = (how->width - made.width) / 2, top = (how->height - made.height) / 2;
        memset(planes, how->fill, plane * (size_t)wanted);
        for (c = 0; c < wanted; c++) {
            int source = made.channels == 1 ? 0 : how->color == NNKIT_BGR ? 2 - c : c;
            for (y = 0; y < made.height; y++) {
                const uint8_t *row = made.pixels + (size_t)y * (size_t)made.width * (size_t)made.channels;
                uint8_t *target = planes + (size_t)c * plane + (size_t)(top + y) * (size_t)how->width + (size_t)left;
                for (x = 0; x < made.width; x++) {
                    target[x] = row[x * made.channels + source];
                }
            }
        }
    }
    free(made.pixels);
    return status;
}
