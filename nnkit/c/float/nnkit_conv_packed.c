#include "nnkit_segment.h"

#include "nnkit_vector.h"

/*
 * Convolutions with constant weights. A block of the table is for NNKIT_LANES output maps: their biases, then for each
 * row, column and input map of the window their weights. PIXELS pixels of a block, or of two, are summed up side by
 * side; where a window reaches beyond the map, they read a zero.
 */
#ifdef NNKIT_HAS_VECTORS
#define PIXELS 6
#else
#define PIXELS 2
#endif

/* Pixels of one tap: where their values of the first map are; how many of them lie in the map. */
typedef struct tap {
    const float *at[PIXELS];
    int inside;
} tap;

/* Taps that are worked out once for all maps; those of larger windows are for every block. */
#define TAPS 40

/* Pixels whose sums are made together: rows and columns of their windows' starts. */
typedef struct pixels {
    int row[PIXELS], column[PIXELS];
    int known;
    tap taps[TAPS];
} pixels;

/* What padding reads; a step to the next map is none then. */
static const float zero = 0.0f;
#define STEP(pointer, map) ((pointer) == &zero ? 0L : (map))

static void find_tap(tap *t, const float *x, const pixels *group, int down, int across, const nnkit_window *w)
{
    int q;
    t->inside = 0;
    for (q = 0; q < PIXELS; q++) {
        const int row = group->row[q] + down, column = group->column[q] + across;
        if (row >= 0 && row < w->height && column >= 0 && column < w->width) {
            t->at[q] = x + (long)row * w->width + column;
            t->inside++;
        } else {
            t->at[q] = &zero;
        }
    }
}

static void start_pixels(pixels *group, const float *x, long first, long end, const nnkit_window *w)
{
    int i = (int)(first / w->out_width), j = (int)(first % w->out_width), q, ky, kx, k = 0;
    for (q = 0; q < PIXELS; q++) {
        /* Behind the last pixel: far outside. */
        group->row[q] = first + q < end ? i * w->stride_h - w->pad_top : -(1 << 28);
        group->column[q] = j * w->stride_w - w->pad_left;
        if (++j == w->out_width) {
            j = 0;
            i++;
        }
    }
    group->known = w->kernel_h * w->kernel_w <= TAPS;
    for (ky = 0; group->known && ky < w->kernel_h; ky++) {
        for (kx = 0; kx < w->kernel_w; kx++) {
            find_tap(&group->taps[k++], x, group, ky * w->dilation_h, kx * w->dilation_w, w);
        }
    }
}

/* Writes `count` pixels of `maps` maps; sums are [pixel][lane], and are brought between the bounds. */
static void put(float *sums, float *y, long out_map, int maps, int count, const nnkit_clip *clip)
{
    int o, q;
#ifdef NNKIT_HAS_VECTORS
    for (q = 0; q < PIXELS; q++) {
        nnkit_vector v = NNKIT_VECTOR(sums + q * NNKIT_LANES);
        NNKIT_CLIP_VECTOR(v, clip->low, clip->high);
        NNKIT_STORE(sums + q * NNKIT_LANES, v);
    }
#else
    for (o = 0; o < PIXELS * NNKIT_LANES; o++) {
        sums[o] = NNKIT_CLIPPED(sums[o], clip->low, clip->high);
    }
#endif
    if (count == PIXELS) {
        for (o = 0; o < maps; o++, y += out_map) {
            for (q = 0; q < PIXELS; q++) {
                y[q] = sums[q * NNKIT_LANES + o];
            }
        }
        return;
    }
    for (o = 0; o < maps; o++, y += out_map) {
        for (q = 0; q < count; q++) {
            y[q] = sums[q * NNKIT_LANES + o];
        }
    }
}

#ifdef NNKIT_HAS_VECTORS

/* One pixel's value times the weights of two blocks. */
#define ADD(p, q) \
    do { \
        const float value = *(p); \
        a##q += u * value; \
        b##q += v * value; \
    } while (0)

/* Two blocks of PIXELS pixels: their sums, [block][pixel][lane]. */
static void sum_blocks(const float *x, const float *first, const float *second, const pixels *group, float *sums,
                       const nnkit_window *w)
{
    const int channels = w->channels / w->groups;
    const long map = (long)w->height * w->width;
    nnkit_vector a0 = NNKIT_VECTOR(first), b0 = NNKIT_VECTOR(second);
    nnkit_vector a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, b1 = b0, b2 = b0, b3 = b0, b4 = b0, b5 = b0;
    int ky, kx, c;
    for (ky = 0; ky < w->kernel_h; ky++) {
        for (kx = 0; kx < w->kernel_w; kx++) {
            const tap *t = group->taps + ky * w->kernel_w + kx;
            tap own;
            if (!group->known) {
                find_tap(&own, x, group, ky * w->dilation_h, kx * w->dilation_w, w);
                t = &own;
            }
            if (t->inside == PIXELS) {
                const float *p0 = t->at[0], *p1 = t->at[1], *p2 = t->at[2];
                const float *p3 = t->at[3], *p4 = t->at[4], *p5 = t->at[5];
                long at = 0;
                for (c = 0; c < channels; c++, at += map) {
                    const nnkit_vector u = NNKIT_VECTOR(first += NNKIT_LANES);
                    const nnkit_vector v = NNKIT_VECTOR(second += NNKIT_LANES);
                    ADD(p0 + at, 0);
                    ADD(p1 + at, 1);
                    ADD(p2 + at, 2);
                    ADD(p3 + at, 3);
                    ADD(p4 + at, 4);
                    ADD(p5 + at, 5);
                }
            } else if (t->inside) {
                const long s0 = STEP(t->at[0], map), s1 = STEP(t->at[1], map), s2 = STEP(t->at[2], map);
                const long s3 = STEP(t->at[3], map), s4 = STEP(t->at[4], map), s5 = STEP(t->at[5], map);
                for (c = 0; c < channels; c++) {
                    const nnkit_vector u = NNKIT_VECTOR(first += NNKIT_LANES);
                    const nnkit_vector v = NNKIT_VECTOR(second += NNKIT_LANES);
                    ADD(t->at[0] + c * s0, 0);
                    ADD(t->at[1] + c * s1, 1);
                    ADD(t->at[2] + c * s2, 2);
                    ADD(t->at[3] + c * s3, 3);
                    ADD(t->at[4] + c * s4, 4);
                    ADD(t->at[5] + c * s5, 5);
                }
            } else {
                first += (long)channels * NNKIT_LANES;
                second += (long)channels * NNKIT_LANES;
            }
        }
    }
    NNKIT_STORE(sums, a0);
    NNKIT_STORE(sums + 8, a1);
    NNKIT_STORE(sums + 16, a2);
    NNKIT_STORE(sums + 24, a3);
    NNKIT_STORE(sums + 32, a4);
    NNKIT_STORE(sums + 40, a5);
    NNKIT_STORE(sums + 48, b0);
    NNKIT_STORE(sums + 56, b1);
    NNKIT_STORE(sums + 64, b2);
    NNKIT_STORE(sums + 72, b3);
    NNKIT_STORE(sums + 80, b4);
    NNKIT_STORE(sums + 88, b5);
}

/* Pixels of a row that are summed up side by side where a window is one pixel. */
#define ROW 16

/* Four maps of ROW pixels, a window of one pixel; `step`: from one output map to the next. */
static void sum_row(const float *x, long map, const float *bias, const float *weights, int channels, float *y,
                    long step, const nnkit_clip *clip)
{
    const nnkit_vector none = {0};
    nnkit_vector a0 = none + bias[0], b0 = none + bias[1], c0 = none + bias[2], d0 = none + bias[3];
    nnkit_vector a1 = a0, b1 = b0, c1 = c0, d1 = d0;
    int c;
    for (c = 0; c < channels; c++, x += map, weights += NNKIT_LANES) {
        const nnkit_vector u = NNKIT_VECTOR(x), v = NNKIT_VECTOR(x + 8);
        a0 += u * weights[0];
        a1 += v * weights[0];
        b0 += u * weights[1];
        b1 += v * weights[1];
        c0 += u * weights[2];
        c1 += v * weights[2];
        d0 += u * weights[3];
        d1 += v * weights[3];
    }
    NNKIT_CLIP_VECTOR(a0, clip->low, clip->high);
    NNKIT_CLIP_VECTOR(a1, clip->low, clip->high);
    NNKIT_CLIP_VECTOR(b0, clip->low, clip->high);
    NNKIT_CLIP_VECTOR(b1, clip->low, clip->high);
    NNKIT_CLIP_VECTOR(c0, clip->low, clip->high);
    NNKIT_CLIP_VECTOR(c1, clip->low, clip->high);
    NNKIT_CLIP_VECTOR(d0, clip->low, clip->high);
    NNKIT_CLIP_VECTOR(d1, clip->low, clip->high);
    NNKIT_STORE(y, a0);
    NNKIT_STORE(y + 8, a1);
    NNKIT_STORE(y + step, b0);
    NNKIT_STORE(y + step + 8, b1);
    NNKIT_STORE(y + 2 * step, c0);
    NNKIT_STORE(y + 2 * step + 8, c1);
    NNKIT_STORE(y + 3 * step, d0);
    NNKIT_STORE(y + 3 * step + 8, d1);
}

/* All pixels of a window of one pixel, at least ROW; maps in fours. The last rows of ROW pixels overlap. */
static void sum_rows(const float *x, const float *table, int channels, long map, float *y, int maps,
                     const nnkit_clip *clip)
{
    const long block = (long)NNKIT_LANES * (channels + 1);
    long p, next;
    for (p = 0; p < map; p = next) {
        int o;
        next = p + ROW;
        if (next > map) {
            p = map - ROW;
        }
        for (o = 0; o < maps; o += 4) {
            const float *bias = table + o / NNKIT_LANES * block + o % NNKIT_LANES;
            sum_row(x + p, map, bias, bias + NNKIT_LANES, channels, y + o * map + p, map, clip);
        }
    }
}

static void put_blocks(const float *x, const float *table, long block, const pixels *group, float *y, int maps,
                       int count, const nnkit_window *w, const nnkit_clip *clip)
{
    const long out_map = (long)w->out_height * w->out_width;
    float sums[2 * PIXELS * NNKIT_LANES];
    int o;
    for (o = 0; o < maps; o += 2 * NNKIT_LANES) {
        const float *first = table + o / NNKIT_LANES * block;
        const int left = maps - o;
        sum_blocks(x, first, left > NNKIT_LANES ? first + block : first, group, sums, w);
        put(sums, y + o * out_map, out_map, left < NNKIT_LANES ? left : NNKIT_LANES, count, clip);
        if (left > NNKIT_LANES) {
            put(sums + PIXELS * NNKIT_LANES, y + (o + NNKIT_LANES) * out_map, out_map,
                left < 2 * NNKIT_LANES ? left - NNKIT_LANES : NNKIT_LANES, count, clip);
        }
    }
}

#else

static void put_blocks(const float *x, const float *table, long block, const pixels *group, float *y, int maps,
                       int count, const nnkit_window *w, const nnkit_clip *clip)
{
    const int channels = w->channels / w->groups;
    const long map = (long)w->height * w->width, out_map = (long)w->out_height * w->out_width;
    int o, ky, kx;
    for (o = 0; o < maps; o += NNKIT_LANES) {
        const float *at = table + o / NNKIT_LANES * block;
        float a0 = at[0], a1 = at[1], a2 = at[2], a3 = at[3], a4 = at[4], a5 = at[5], a6 = at[6], a7 = at[7];
        float b0 = a0, b1 = a1, b2 = a2, b3 = a3, b4 = a4, b5 = a5, b6 = a6, b7 = a7;
        float sums[PIXELS * NNKIT_LANES];
        at += NNKIT_LANES;
        for (ky = 0; ky < w->kernel_h; ky++) {
            for (kx = 0; kx < w->kernel_w; kx++) {
                const float *p, *q, *end = at + (long)channels * NNKIT_LANES;
                const tap *t = group->taps + ky * w->kernel_w + kx;
                long step_p, step_q;
                tap own;
                if (!group->known) {
                    find_tap(&own, x, group, ky * w->dilation_h, kx * w->dilation_w, w);
                    t = &own;
                }
                p = t->at[0];
                q = t->at[1];
                step_p = STEP(p, map);
                step_q = STEP(q, map);
                for (; t->inside && at != end; at += NNKIT_LANES, p += step_p, q += step_q) {
                    const float u = *p, v = *q;
                    a0 += at[0] * u;
                    b0 += at[0] * v;
                    a1 += at[1] * u;
                    b1 += at[1] * v;
                    a2 += at[2] * u;
                    b2 += at[2] * v;
                    a3 += at[3] * u;
                    b3 += at[3] * v;
                    a4 += at[4] * u;
                    b4 += at[4] * v;
                    a5 += at[5] * u;
                    b5 += at[5] * v;
                    a6 += at[6] * u;
                    b6 += at[6] * v;
                    a7 += at[7] * u;
                    b7 += at[7] * v;
                }
                at = end;
            }
        }
        sums[0] = a0;
        sums[1] = a1;
        sums[2] = a2;
        sums[3] = a3;
        sums[4] = a4;
        sums[5] = a5;
        sums[6] = a6;
        sums[7] = a7;
        sums[8] = b0;
        sums[9] = b1;
        sums[10] = b2;
        sums[11] = b3;
        sums[12] = b4;
        sums[13] = b5;
        sums[14] = b6;
        sums[15] = b7;
        put(sums, y + o * out_map, out_map, maps - o < NNKIT_LANES ? maps - o : NNKIT_LANES, count, clip);
    }
}

#endif

void nnkit_conv_packed(const float *x, const float *table, float *y, const nnkit_window *w, const nnkit_clip *clip)
{
    const int channels = w->channels / w->groups, maps = w->out_channels / w->groups;
    const int taps = w->kernel_h * w->kernel_w;
    const long map = (long)w->height * w->width, out_map = (long)w->out_height * w->out_width;
    const long block = NNKIT_LANES * ((long)channels * taps + 1);
    int g;
    for (g = 0; g < w->groups; g++) {
        long p = 0;
#ifdef NNKIT_HAS_VECTORS
        if (taps == 1 && map == out_map && w->stride_h == 1 && w->stride_w == 1 && map >= ROW && maps % 4 == 0) {
            sum_rows(x, table, channels, map, y, maps, clip);
            p = out_map;
        }
#endif
        for (; p < out_map; p += PIXELS) {
            const int count = out_map - p < PIXELS ? (int)(out_map - p) : PIXELS;
            pixels group;
            start_pixels(&group, x, p, out_map, w);
            put_blocks(x, table, block, &group, y + p, maps, count, w, clip);
        }
        x += channels * map;
        y += maps * out_map;
        table += (maps + NNKIT_LANES - 1) / NNKIT_LANES * block;
    }
}
