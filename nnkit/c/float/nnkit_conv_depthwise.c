#include "nnkit_segment.h"

#include "nnkit_vector.h"

/* First and last + 1 of `count` taps, `dilation` apart, that lie in a map of `size` from `start` on. */
static void taps_inside(int start, int dilation, int count, int size, int *first, int *end)
{
    if (dilation == 1) {
        *first = start < 0 ? -start : 0;
        *end = size - start;
    } else {
        *first = start < 0 ? (-start + dilation - 1) / dilation : 0;
        *end = start < size ? (size - start - 1) / dilation + 1 : 0;
    }
    if (*end > count) {
        *end = count;
    }
    if (*first > *end) {
        *first = *end;
    }
}

/* One pixel, of whose window the rows `first` to `end` lie in the map. */
static float one_pixel(const float *x, const float *table, int row, int column, int first, int end,
                       const nnkit_window *w)
{
    float sum = table[0];
    int left, right, ky, kx;
    const float *from = x + (long)(row + first * w->dilation_h) * w->width + column;
    const float *weights = table + 1 + first * w->kernel_w;
    const long down = (long)w->dilation_h * w->width;
    taps_inside(column, w->dilation_w, w->kernel_w, w->width, &left, &right);
    if (right - left == 3) {
        const int step = w->dilation_w;
        from += left * step;
        weights += left;
        for (ky = first; ky < end; ky++, from += down, weights += w->kernel_w) {
            sum += weights[0] * from[0];
            sum += weights[1] * from[step];
            sum += weights[2] * from[2 * step];
        }
        return sum;
    }
    for (ky = first; ky < end; ky++, from += down, weights += w->kernel_w) {
        for (kx = left; kx < right; kx++) {
            sum += weights[kx] * from[kx * w->dilation_w];
        }
    }
    return sum;
}

/* A map, pixel after pixel: what a pixel reads is read before it is written. */
static void pixel_by_pixel(const float *x, const float *table, float *y, const nnkit_window *w,
                           const nnkit_clip *clip)
{
    int i, j;
    for (i = 0; i < w->out_height; i++) {
        const int row = i * w->stride_h - w->pad_top;
        int first, end;
        taps_inside(row, w->dilation_h, w->kernel_h, w->height, &first, &end);
        for (j = 0; j < w->out_width; j++) {
            const float sum = one_pixel(x, table, row, j * w->stride_w - w->pad_left, first, end, w);
            *y++ = NNKIT_CLIPPED(sum, clip->low, clip->high);
        }
    }
}

/*
 * Rows of a map are copied, padding around them, every `stride` row and column together: then each tap of all pixels
 * is a stretch of the copy. `pitch` values are a row of it, those behind the map's width are computed in vain.
 */
#ifdef NNKIT_HAS_VECTORS
#define COPY 2048
#define TOGETHER 32 /* pixels that are summed up side by side */
#else
#define COPY 512
#define TOGETHER 4
#endif
#define TAPS 49

typedef struct patch {
    int pitch, rows, more; /* values of a row; output rows that are made of one copy; rows beside them */
    int size; /* of the copy */
    int taps;
    int offset[TAPS];
} patch;

/* Whether the window can be made of copies. */
static int plan(patch *p, const nnkit_window *w)
{
    const int phases = w->stride_h * w->stride_w;
    int ky, kx, plane;
    p->taps = w->kernel_h * w->kernel_w;
    p->pitch = w->out_width + ((w->kernel_w - 1) * w->dilation_w + w->stride_w - 1) / w->stride_w;
    p->more = ((w->kernel_h - 1) * w->dilation_h + w->stride_h - 1) / w->stride_h;
    if (p->taps > TAPS || w->stride_h > 4 || w->stride_w > 4 || p->pitch > COPY) {
        return 0;
    }
    p->rows = COPY / phases / p->pitch - p->more;
    if (p->rows > w->out_height) {
        p->rows = w->out_height;
    }
    plane = (p->rows + p->more) * p->pitch;
    p->size = phases * plane;
    for (ky = 0; ky < w->kernel_h; ky++) {
        for (kx = 0; kx < w->kernel_w; kx++) {
            const int down = ky * w->dilation_h, across = kx * w->dilation_w;
            const int phase = down % w->stride_h * w->stride_w + across % w->stride_w;
            p->offset[ky * w->kernel_w + kx] =
                phase * plane + down / w->stride_h * p->pitch + across / w->stride_w;
        }
    }
    return p->rows > 0;
}

static void copy_rows(const float *x, float *copy, int first, const patch *p, const nnkit_window *w)
{
    int i, j, r, c;
    for (r = 0; r < w->stride_h; r++) {
        for (c = 0; c < w->stride_w; c++) {
            for (i = first; i < first + p->rows + p->more; i++, copy += p->pitch) {
                const int row = i * w->stride_h + r - w->pad_top, shift = c - w->pad_left;
                int begin = shift < 0 ? (-shift + w->stride_w - 1) / w->stride_w : 0;
                int end = w->width > shift ? (w->width - shift - 1) / w->stride_w + 1 : 0;
                const float *from = x + (long)row * w->width + shift;
                end = row < 0 || row >= w->height ? 0 : (end < p->pitch ? end : p->pitch);
                begin = begin < end ? begin : end;
                for (j = 0; j < begin; j++) {
                    copy[j] = 0.0f;
                }
                if (w->stride_w == 1) {
                    for (j = begin; j < end; j++) {
                        copy[j] = from[j];
                    }
                } else {
                    for (j = begin; j < end; j++) {
                        copy[j] = from[j * w->stride_w];
                    }
                }
                for (j = end; j < p->pitch; j++) {
                    copy[j] = 0.0f;
                }
            }
        }
    }
}

#ifdef NNKIT_HAS_VECTORS

static void sum_copy(const float *copy, const float *table, float *sums, int count, const patch *p,
                     const nnkit_clip *clip)
{
    int f, t;
    for (f = 0; f < count; f += TOGETHER) {
        const nnkit_vector none = {0};
        nnkit_vector a = none + table[0], b = a, c = a, d = a;
        for (t = 0; t < p->taps; t++) {
            const float *from = copy + f + p->offset[t];
            const float weight = table[1 + t];
            a += NNKIT_VECTOR(from) * weight;
            b += NNKIT_VECTOR(from + 8) * weight;
            c += NNKIT_VECTOR(from + 16) * weight;
            d += NNKIT_VECTOR(from + 24) * weight;
        }
        NNKIT_CLIP_VECTOR(a, clip->low, clip->high);
        NNKIT_CLIP_VECTOR(b, clip->low, clip->high);
        NNKIT_CLIP_VECTOR(c, clip->low, clip->high);
        NNKIT_CLIP_VECTOR(d, clip->low, clip->high);
        NNKIT_STORE(sums + f, a);
        NNKIT_STORE(sums + f + 8, b);
        NNKIT_STORE(sums + f + 16, c);
        NNKIT_STORE(sums + f + 24, d);
    }
}

/* Sums of `rows` rows, then those of the map's columns. */
static float *put_rows(const float *copy, const float *table, float *y, int rows, const patch *p,
                       const nnkit_window *w, const nnkit_clip *clip)
{
    float sums[COPY + TOGETHER];
    int i, j;
    sum_copy(copy, table, sums, rows * p->pitch, p, clip);
    for (i = 0; i < rows; i++) {
        for (j = 0; j < w->out_width; j++) {
            *y++ = sums[i * p->pitch + j];
        }
    }
    return y;
}

#else

static float *put_rows(const float *copy, const float *table, float *y, int rows, const patch *p,
                       const nnkit_window *w, const nnkit_clip *clip)
{
    const int count = rows * p->pitch, plain = w->kernel_w == 3 && w->dilation_w == 1 && w->stride_w == 1;
    int f, t, column = 0;
    for (f = 0; f < count; f += TOGETHER, copy += TOGETHER) {
        float a = table[0], b = a, c = a, d = a;
        float sums[TOGETHER];
        if (plain) {
            for (t = 0; t < p->taps; t += 3) {
                const float *from = copy + p->offset[t];
                const float u = table[t + 1], v = table[t + 2], z = table[t + 3];
                const float p1 = from[1], p2 = from[2], p3 = from[3], p4 = from[4];
                a += u * from[0];
                b += u * p1;
                c += u * p2;
                d += u * p3;
                a += v * p1;
                b += v * p2;
                c += v * p3;
                d += v * p4;
                a += z * p2;
                b += z * p3;
                c += z * p4;
                d += z * from[5];
            }
        } else {
            for (t = 0; t < p->taps; t++) {
                const float *from = copy + p->offset[t];
                const float weight = table[t + 1];
                a += weight * from[0];
                b += weight * from[1];
                c += weight * from[2];
                d += weight * from[3];
            }
        }
        sums[0] = a;
        sums[1] = b;
        sums[2] = c;
        sums[3] = d;
        for (t = 0; t < TOGETHER && f + t < count; t++) {
            if (column < w->out_width) {
                *y++ = NNKIT_CLIPPED(sums[t], clip->low, clip->high);
            }
            if (++column == p->pitch) {
                column = 0;
            }
        }
    }
    return y;
}

#endif

/* A map, some rows after the others: a row is written after what it reads, and before what no earlier one reads. */
static void rows_by_rows(const float *x, const float *table, float *y, const patch *p, const nnkit_window *w,
                         const nnkit_clip *clip)
{
    float copy[COPY + TOGETHER];
    int first, i;
    for (i = p->size; i < p->size + TOGETHER; i++) {
        copy[i] = 0.0f;
    }
    for (first = 0; first < w->out_height; first += p->rows) {
        const int rows = w->out_height - first < p->rows ? w->out_height - first : p->rows;
        copy_rows(x, copy, first, p, w);
        y = put_rows(copy, table, y, rows, p, w, clip);
    }
}

void nnkit_conv_depthwise(const float *x, const float *table, float *y, const nnkit_window *w, const nnkit_clip *clip)
{
    const long map = (long)w->height * w->width, out_map = (long)w->out_height * w->out_width;
    const int step = w->kernel_h * w->kernel_w + 1;
    patch p;
    const int in_copies = plan(&p, w);
    int c;
    for (c = 0; c < w->channels; c++, x += map, y += out_map, table += step) {
        if (in_copies) {
            rows_by_rows(x, table, y, &p, w, clip);
        } else {
            pixel_by_pixel(x, table, y, w, clip);
        }
    }
}
