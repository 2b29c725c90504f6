#include "nnkit_segment.h"

#include "nnkit_math.h"

#define FAR 1073741824.0 /* 2^30: outside every image */

/* By cofactors; zeros for a singular matrix. */
static void invert(double *m)
{
    int i;
    double c[9], determinant;
    c[0] = m[4] * m[8] - m[5] * m[7];
    c[1] = m[2] * m[7] - m[1] * m[8];
    c[2] = m[1] * m[5] - m[2] * m[4];
    c[3] = m[5] * m[6] - m[3] * m[8];
    c[4] = m[0] * m[8] - m[2] * m[6];
    c[5] = m[2] * m[3] - m[0] * m[5];
    c[6] = m[3] * m[7] - m[4] * m[6];
    c[7] = m[1] * m[6] - m[0] * m[7];
    c[8] = m[0] * m[4] - m[1] * m[3];
    determinant = m[0] * c[0] + m[1] * c[3] + m[2] * c[6];
    for (i = 0; i < 9; i++) {
        m[i] = determinant != 0.0 ? c[i] / determinant : 0.0;
    }
}

static double limited(double value)
{
    if (value != value) {
        return 0.0;
    }
    return value < -FAR ? -FAR : (value > FAR ? FAR : value);
}

/* Half to even, as rint of C99. */
static double nearest_even(double value)
{
    const double low = floor(value), rest = value - low;
    return rest < 0.5 || (rest == 0.5 && floor(low * 0.5) * 2.0 == low) ? low : low + 1.0;
}

static float pixel(const float *map, const nnkit_warp *w, double row, double column)
{
    const int i = row < 0.0 ? 0 : (row > (double)(w->height - 1) ? w->height - 1 : (int)row);
    const int j = column < 0.0 ? 0 : (column > (double)(w->width - 1) ? w->width - 1 : (int)column);
    if (!w->replicate && ((double)i != row || (double)j != column)) {
        return w->border_value;
    }
    return map[(long)i * w->width + j];
}

static float sample(const float *map, const nnkit_warp *w, double y, double x)
{
    const double top = floor(y), left = floor(x);
    const float down = (float)(y - top), right = (float)(x - left);
    float upper, lower;
    if (w->nearest) {
        return pixel(map, w, nearest_even(y), nearest_even(x));
    }
    upper = (1.0f - right) * pixel(map, w, top, left) + right * pixel(map, w, top, left + 1.0);
    lower = (1.0f - right) * pixel(map, w, top + 1.0, left) + right * pixel(map, w, top + 1.0, left + 1.0);
    return (1.0f - down) * upper + down * lower;
}

void nnkit_warp_perspective(const float *x, const float *matrix, float *y, const nnkit_warp *warp)
{
    int i;
    const long map = (long)warp->height * warp->width, out_map = (long)warp->out_height * warp->out_width;
    double m[9] = {0, 0, 0, 0, 0, 0, 0, 0, 1.0};
    for (i = 0; i < warp->matrix_values; i++) {
        m[i] = (double)matrix[i];
    }
    if (warp->forward) {
        invert(m);
    }
    for (i = 0; i < warp->out_height; i++) {
        int j;
        for (j = 0; j < warp->out_width; j++) {
            int c;
            const double depth = m[6] * j + m[7] * i + m[8];
            const double inverse = depth != 0.0 ? 1.0 / depth : 0.0;
            const double column = limited((m[0] * j + m[1] * i + m[2]) * inverse);
            const double row = limited((m[3] * j + m[4] * i + m[5]) * inverse);
            for (c = 0; c < warp->channels; c++) {
                y[c * out_map + (long)i * warp->out_width + j] = sample(x + c * map, warp, row, column);
            }
        }
    }
}
