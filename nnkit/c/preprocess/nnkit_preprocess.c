#include "nnkit_preprocess.h"

#include <math.h>
#include <string.h>

enum { FRACTION_BITS = 32 - 8 - 2 };

/* A view of pixels: crop and flip are steps of addresses. gray: pixels of 3 channels are read as one. */
typedef struct {
    const unsigned char *pixels;
    int width, height, channels, gray;
    long row, step;
} view;

/* Where pixels are written: the steps, in bytes, from row to row, pixel to pixel, channel to channel. */
typedef struct {
    unsigned char *pixels;
    long row, step, channel;
} target;

/* What becomes of a picture. width, height: that it is scaled to. rows: its height is scaled first. */
typedef struct {
    int status, left, top, crop_width, crop_height, width, height, rows;
} geometry;

/* Gray is ITU-R 601 in 16 fraction bits. */
static int pixel(const view *image, long y, long x, int c)
{
    const unsigned char *at = image->pixels + y * image->row + x * image->step;
    return image->gray ? (int)((at[0] * 19595UL + at[1] * 38470UL + at[2] * 7471UL + 0x8000UL) >> 16) : at[c];
}

/* The side of a picture whose other side fills the network's, half up. */
static int fitted(int side, int to, int of)
{
    long twice = 2L * side * to, whole = (twice + of) / (2L * of);
    return whole < 1 ? 1 : (int)whole;
}

/* The centred part: of the network's own size, or the largest one of its aspect ratio, rounded down. */
static void center(const nnkit_preprocess *how, int width, int height, geometry *made)
{
    long wide = (long)width * how->height, high = (long)height * how->width;
    made->crop_width = how->width;
    made->crop_height = how->height;
    if (how->resize != NNKIT_RESIZE_NONE) {
        made->crop_width = wide >= high ? (int)(high / how->height) : width;
        made->crop_height = wide >= high ? height : (int)(wide / how->width);
        made->crop_width += made->crop_width < 1;
        made->crop_height += made->crop_height < 1;
    }
    made->left = (width - made->crop_width) >> 1;
    made->top = (height - made->crop_height) >> 1;
}

static geometry geometry_of(const nnkit_preprocess *how, int width, int height)
{
    geometry made;
    made.status = NNKIT_PREPROCESS_OK;
    made.left = how->left;
    made.top = how->top;
    made.crop_width = how->crop_width;
    made.crop_height = how->crop_height;
    if (how->crop == NNKIT_CROP_NONE) {
        made.left = made.top = 0;
        made.crop_width = width;
        made.crop_height = height;
    } else if (how->crop == NNKIT_CROP_CENTER) {
        center(how, width, height, &made);
    }
    made.width = how->width;
    made.height = how->height;
    made.rows = 0;
    if (made.left < 0 || made.top < 0 || made.crop_width > width - made.left || made.crop_height > height - made.top) {
        made.status = NNKIT_PREPROCESS_CROP;
    } else if (how->resize == NNKIT_RESIZE_NONE) {
        if (made.crop_width != how->width || made.crop_height != how->height) {
            made.status = NNKIT_PREPROCESS_SIZE;
        }
    } else {
        if (how->letterbox) {
            if ((long)made.crop_width * how->height >= (long)made.crop_height * how->width) {
                made.height = fitted(made.crop_height, how->width, made.crop_width);
            } else {
                made.width = fitted(made.crop_width, how->height, made.crop_height);
            }
        }
        made.rows = how->rows_first && made.crop_height > made.height
                    && made.crop_height - made.height > 2 * (made.crop_width - made.width);
    }
    return made;
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

static double widened(int from, int to)
{
    return from < to ? 1.0 : (double)from / to;
}

/* Most pixels of a side of `from` that a pixel of a side of `to` is a mean of. */
static size_t most_taps(int filter, int from, int to)
{
    return (size_t)ceil(support_of(filter) * widened(from, to)) * 2 + 1;
}

/* The weights of pixel `index` of a side; begin: of the first that it is a mean of. Returns how many there are. */
static int taps_of(int filter, int from, int to, int index, int *begin, int *weights)
{
    double scale = (double)from / to, wider = widened(from, to), support = support_of(filter) * wider;
    double center_at = (index + 0.5) * scale, sum = 0.0, factor = 1.0 / wider;
    int first = (int)(center_at - support + 0.5), end = (int)(center_at + support + 0.5), x;
    first = first < 0 ? 0 : first;
    end = end > from ? from : end;
    for (x = first; x < end; x++) {
        sum += weight_of(filter, (x - center_at + 0.5) * factor);
    }
    for (x = first; x < end; x++) {
        double weight = weight_of(filter, (x - center_at + 0.5) * factor), part = sum != 0.0 ? weight / sum : weight;
        weights[x - first] = (int)((part < 0.0 ? -0.5 : 0.5) + part * (1 << FRACTION_BITS));
    }
    *begin = first;
    return end - first;
}

static unsigned char rounded(int sum)
{
    int whole = sum >= 0 ? sum >> FRACTION_BITS : -1;
    return (unsigned char)(whole < 0 ? 0 : whole > 255 ? 255 : whole);
}

/* One side of a picture becomes `to` long. */
static void resampled(const view *image, int filter, int to, int vertical, int *weights, const target *made)
{
    int from = vertical ? image->height : image->width, lines = vertical ? image->width : image->height, i, l, c, x;
    for (i = 0; i < to; i++) {
        int begin, taps = taps_of(filter, from, to, i, &begin, weights);
        for (l = 0; l < lines; l++) {
            unsigned char *at = made->pixels + (vertical ? i : l) * made->row + (vertical ? l : i) * made->step;
            for (c = 0; c < image->channels; c++) {
                int sum = 1 << (FRACTION_BITS - 1);
                for (x = 0; x < taps; x++) {
                    sum += weights[x] * (vertical ? pixel(image, begin + x, l, c) : pixel(image, l, begin + x, c));
                }
                at[c * made->channel] = rounded(sum);
            }
        }
    }
}

/* Each pixel is the one of the source that its middle lies in; places are summed up, as Pillow does, whose roundings
 * decide at borders. */
static void nearest(const view *image, int width, int height, const target *made)
{
    double across = (double)image->width / width, down = (double)image->height / height, from_y = down * 0.5;
    int x, y, c;
    for (y = 0; y < height; y++, from_y += down) {
        int row = (int)from_y < image->height ? (int)from_y : image->height - 1;
        double from_x = across * 0.5;
        for (x = 0; x < width; x++, from_x += across) {
            int column = (int)from_x < image->width ? (int)from_x : image->width - 1;
            for (c = 0; c < image->channels; c++) {
                made->pixels[y * made->row + x * made->step + c * made->channel] =
                    (unsigned char)pixel(image, row, column, c);
            }
        }
    }
}

static size_t at_most(size_t one, size_t other)
{
    return one > other ? one : other;
}

/* The side that is scaled first becomes `width` x `height` pixels on the way. Returns whether both sides are scaled. */
static int between(const geometry *made, int *width, int *height)
{
    *width = made->rows ? made->crop_width : made->width;
    *height = made->rows ? made->height : made->crop_height;
    return made->crop_width != made->width && made->crop_height != made->height;
}

static size_t weight_bytes(const nnkit_preprocess *how, const geometry *made)
{
    return sizeof(int) * at_most(most_taps(how->resize, made->crop_width, made->width),
                                 most_taps(how->resize, made->crop_height, made->height));
}

static int weighted(const nnkit_preprocess *how, const geometry *made)
{
    return made->status == NNKIT_PREPROCESS_OK && how->resize > NNKIT_NEAREST
           && (made->crop_width != made->width || made->crop_height != made->height);
}

size_t nnkit_preprocess_bytes(const nnkit_preprocess *how, int width, int height, int channels)
{
    geometry made = geometry_of(how, width, height);
    int wide, high, both = between(&made, &wide, &high);
    size_t kept = how->color == NNKIT_GRAY ? 1 : (size_t)channels;
    if (!weighted(how, &made)) {
        return 0;
    }
    return weight_bytes(how, &made) + (both ? kept * (size_t)wide * (size_t)high : 0);
}

static void scaled(const nnkit_preprocess *how, const geometry *made, const view *image, void *scratch, const target *to)
{
    int *weights = (int *)scratch, wide, high;
    if (!weighted(how, made)) {
        nearest(image, made->width, made->height, to);
    } else if (between(made, &wide, &high)) {
        target on_the_way;
        view again = *image;
        on_the_way.pixels = (unsigned char *)scratch + weight_bytes(how, made);
        on_the_way.channel = 1;
        on_the_way.step = again.step = image->channels;
        on_the_way.row = again.row = (long)wide * image->channels;
        again.pixels = on_the_way.pixels;
        again.width = wide;
        again.height = high;
        again.gray = 0;
        resampled(image, how->resize, made->rows ? made->height : made->width, made->rows, weights, &on_the_way);
        resampled(&again, how->resize, made->rows ? made->width : made->height, !made->rows, weights, to);
    } else {
        int vertical = made->crop_height != made->height;
        resampled(image, how->resize, vertical ? made->height : made->width, vertical, weights, to);
    }
}

int nnkit_preprocess_image(const nnkit_preprocess *how, const nnkit_image *image, void *scratch, unsigned char *result)
{
    geometry made = geometry_of(how, image->width, image->height);
    int wanted = how->color == NNKIT_GRAY ? 1 : 3, c;
    long plane = (long)how->width * how->height, i;
    view source;
    target to;
    if (!image->pixels || (image->channels != 1 && image->channels != 3)) {
        return NNKIT_PREPROCESS_IMAGE;
    }
    if (made.status != NNKIT_PREPROCESS_OK) {
        return made.status;
    }
    if (weighted(how, &made) && !scratch) {
        return NNKIT_PREPROCESS_MEMORY;
    }
    source.gray = how->color == NNKIT_GRAY && image->channels == 3;
    source.channels = source.gray ? 1 : image->channels; /* a gray picture stays gray, whatever the network wants */
    source.width = made.crop_width;
    source.height = made.crop_height;
    source.row = (long)image->width * image->channels;
    source.step = how->flip ? -image->channels : image->channels;
    source.pixels = image->pixels + made.top * source.row
                    + (made.left + (how->flip ? made.crop_width - 1 : 0)) * (long)image->channels;
    to.step = how->channels_last ? wanted : 1;
    to.row = to.step * how->width;
    to.channel = how->channels_last ? 1 : plane;
    to.pixels = result + (how->height - made.height) / 2 * to.row + (how->width - made.width) / 2 * to.step;
    if (made.width != how->width || made.height != how->height) {
        memset(result, how->fill, (size_t)plane * (size_t)wanted);
    }
    if (how->color == NNKIT_BGR && source.channels == 3) {
        to.pixels += 2 * to.channel;
        to.channel = -to.channel;
    }
    scaled(how, &made, &source, scratch, &to);
    for (c = 1; source.channels == 1 && c < wanted; c++) {
        for (i = 0; i < plane; i++) {
            result[c * to.channel + i * to.step] = result[i * to.step];
        }
    }
    return NNKIT_PREPROCESS_OK;
}
