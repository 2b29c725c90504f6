#include "nnkit_segment.h"

#include "nnkit_math.h"

/* Lower, then upper corner. */
static void corners_of(const float *box, int centred, float *corners)
{
    int i;
    for (i = 0; i < 2; i++) {
        const float half = box[i + 2] * 0.5f;
        const float a = centred ? box[i] - half : box[i], b = centred ? box[i] + half : box[i + 2];
        corners[i] = nnkit_minf(a, b);
        corners[i + 2] = nnkit_maxf(a, b);
    }
}

static float overlap(const float *a, const float *b)
{
    const float w = nnkit_minf(a[2], b[2]) - nnkit_maxf(a[0], b[0]);
    const float h = nnkit_minf(a[3], b[3]) - nnkit_maxf(a[1], b[1]);
    const float areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]);
    return w > 0.0f && h > 0.0f ? w * h / (areas - w * h) : 0.0f;
}

void nnkit_non_max_suppression(const float *boxes, const float *scores, float *y, int *order, int count, int classes,
                               int most, int centred, float iou_threshold, float score_threshold)
{
    int label, row = 0, i;
    for (label = 0; label < classes; label++) {
        const float *of_class = scores + (long)label * count;
        const int first = row;
        int left = nnkit_best_above(of_class, 1, count, score_threshold, order, count);
        for (; left > 0 && row - first < most; left--) {
            const int index = nnkit_take_best(of_class, 1, order, left);
            float box[4], other[4];
            int k, stays = 1;
            corners_of(boxes + 4L * index, centred, box);
            for (k = first; stays && k < row; k++) {
                corners_of(boxes + 4L * (long)y[3L * k + 2], centred, other);
                stays = !(overlap(box, other) > iou_threshold);
            }
            if (stays) {
                y[3L * row] = 0.0f;
                y[3L * row + 1] = (float)label;
                y[3L * row + 2] = (float)index;
                row++;
            }
        }
    }
    for (i = 3 * row; i < 3 * classes * most; i++) {
        y[i] = -1.0f;
    }
}
