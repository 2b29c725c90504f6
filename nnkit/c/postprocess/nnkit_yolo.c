/* nnkit_yolo.c: see the header, and docs/cpu_side.md for the arithmetic. */
#include "nnkit_yolo.h"

#define V3 0
#define V5 1
#define X 2
#define CODE NNKIT_YOLO_CODE
#define ROW (5 + NNKIT_YOLO_CLASSES)
#define NNKIT_BOXES_EXP2 (CODE != V5 || !NNKIT_YOLO_ACTIVATED)
#include "nnkit_boxes.h"

#if NNKIT_YOLO_FLOAT
#include <math.h>
#endif

/* What a value is multiplied by. */
#define EXPONENT 0
#define ACTIVATED 1
#define OFFSET 2

/* A map: the output with its rows, the first of them, height, width, anchors, the first of them. */
static const nnkit_i32 heads[NNKIT_YOLO_HEADS][6] = NNKIT_YOLO_MAPS;
static const nnkit_i16 anchors[][2] = NNKIT_YOLO_ANCHORS;

#if NNKIT_YOLO_FLOAT

static nnkit_i32 scaled(nnkit_yolo_value value, nnkit_i32 output, int kind, nnkit_i32 low, nnkit_i32 high)
{
    static const double factors[NNKIT_YOLO_OUTPUTS][3] = NNKIT_YOLO_FACTORS;
    const double product = (double)value * factors[output][kind];
    const double rounded = floor(product + 0.5);
    if (!(rounded > (double)low)) {
        return low;
    }
    return rounded > (double)high ? high : (nnkit_i32)rounded;
}

#else

static nnkit_i32 scaled(nnkit_yolo_value value, nnkit_i32 output, int kind, nnkit_i32 low, nnkit_i32 high)
{
    static const nnkit_i32 zeros[NNKIT_YOLO_OUTPUTS] = NNKIT_YOLO_ZEROS;
    static const nnkit_i32 factors[NNKIT_YOLO_OUTPUTS][3][3] = NNKIT_YOLO_FACTORS;
    const nnkit_i32 *factor = factors[output][kind];
    const nnkit_i32 v = (nnkit_i32)value - zeros[output];
    const nnkit_i32 product = v * factor[0] + ((v * factor[1] + 8192) >> 14);
    return clamped((product + ((nnkit_i32)1 << (factor[2] - 1))) >> factor[2], low, high);
}

#endif

/* The logistic function with 15 fraction bits. */
static nnkit_i32 logistic(nnkit_yolo_value value, nnkit_i32 output)
{
#if NNKIT_YOLO_ACTIVATED
    return scaled(value, output, ACTIVATED, 0, 32768);
#else
    const nnkit_i32 exponent = scaled(value, output, EXPONENT, -15 * 8192, 15 * 8192);
    const nnkit_i32 below = exponent < 0 ? exponent : -exponent;
    const nnkit_u32 power = (((nnkit_u32)power_of_two(below) << 3 >> -(below >> 13)) + 1) >> 1;
    const nnkit_u32 divisor = 65536U + power;
    return (nnkit_i32)(((exponent < 0 ? power << 15 : 0x80000000U) + divisor / 2) / divisor);
#endif
}

/* The box of a row of a map. */
static void decode(const nnkit_yolo_value *value, const nnkit_i32 *head, nnkit_i32 row, nnkit_i16 *box)
{
    const nnkit_i32 output = head[0];
#if NNKIT_YOLO_ANCHORS_FIRST
    const nnkit_i32 cell = row % (head[2] * head[3]), anchor = row / (head[2] * head[3]);
#else
    const nnkit_i32 cell = row / head[4], anchor = row % head[4];
#endif
    int i;
    for (i = 0; i < 2; i++) {
        const nnkit_i32 side = anchors[head[5] + anchor][i], across = head[3 - i];
        const nnkit_i32 at = i == 0 ? cell % head[3] : cell / head[3];
        nnkit_i32 centre, half;
#if CODE == X
        centre = scaled(value[i], output, OFFSET, -SHIFT_MOST, SHIFT_MOST);
#else
        centre = (NNKIT_YOLO_SCALE_XY * logistic(value[i], output) - (NNKIT_YOLO_SCALE_XY - 4096) * 16384 + 8192) >> 14;
#endif
        centre = 2 * (at * 8192 + centre) + across / 2;
        centre = centre < 0 ? -((across - 1 - centre) / across) : centre / across;
#if CODE == V5
        half = logistic(value[i + 2], output);
        half = (((half * half + 16384) >> 15) * side + 8192) >> 14;
#else
        half = scaled(value[i + 2], output, EXPONENT, EXP_LEAST, EXP_MOST);
        half = HALF_SIDE(half, side);
#endif
        box[i] = (nnkit_i16)clamped(centre - half, NNKIT_BOX_LEAST(NNKIT_YOLO_CLIP), NNKIT_BOX_MOST(NNKIT_YOLO_CLIP));
        box[i + 2] =
            (nnkit_i16)clamped(centre + half, NNKIT_BOX_LEAST(NNKIT_YOLO_CLIP), NNKIT_BOX_MOST(NNKIT_YOLO_CLIP));
    }
}

static int better(const nnkit_yolo_candidate *a, const nnkit_yolo_candidate *b)
{
    if (a->score != b->score) {
        return a->score > b->score;
    }
    return a->row != b->row ? a->row < b->row : a->label < b->label;
}

/* Restores the heap below `root`: the best on top, or with `worst` the last one. */
static void sift(nnkit_yolo_candidate *order, nnkit_i32 count, nnkit_i32 root, int worst)
{
    nnkit_i32 child;
    for (child = 2 * root + 1; child < count; child = 2 * root + 1) {
        const nnkit_yolo_candidate moved = order[root];
        if (child + 1 < count && better(order + child + 1, order + child) != worst) {
            ++child;
        }
        if (better(order + child, &moved) == worst) {
            return;
        }
        order[root] = order[child];
        order[child] = moved;
        root = child;
    }
}

static void heap(nnkit_yolo_candidate *order, nnkit_i32 count, int worst)
{
    nnkit_i32 root;
    for (root = count / 2 - 1; root >= 0; --root) {
        sift(order, count, root, worst);
    }
}

/* The best rows and classes of all heads, as a heap; returns how many. */
static nnkit_i32 candidates_of(const nnkit_yolo_value *const *outputs, nnkit_yolo_candidate *order)
{
    nnkit_i32 count = 0, first = 0, i;
    int head, label, full = 0;
    for (head = 0; head < NNKIT_YOLO_HEADS; first += heads[head][2] * heads[head][3] * heads[head][4], ++head) {
        const nnkit_i32 output = heads[head][0], rows = heads[head][2] * heads[head][3] * heads[head][4];
        const nnkit_yolo_value *row = outputs[output] + (size_t)heads[head][1] * ROW;
        for (i = 0; i < rows; ++i, row += ROW) {
            const nnkit_i32 objectness = logistic(row[4], output);
            for (label = 0; objectness > NNKIT_YOLO_SCORE_ABOVE && label < NNKIT_YOLO_CLASSES; ++label) {
                const nnkit_i32 score = (objectness * logistic(row[5 + label], output) + 16384) >> 15;
                nnkit_yolo_candidate each;
                if (score <= NNKIT_YOLO_SCORE_ABOVE) {
                    continue;
                }
                each.row = (nnkit_yolo_row)(first + i);
                each.label = (nnkit_u16)label;
                each.score = (nnkit_u16)score;
                if (count < NNKIT_YOLO_TOP_K) {
                    order[count++] = each;
                    continue;
                }
                if (!full) {
                    heap(order, count, 1);
                    full = 1;
                }
                if (better(&each, order)) {
                    order[0] = each;
                    sift(order, count, 0, 1);
                }
            }
        }
    }
    heap(order, count, 0);
    return count;
}

int nnkit_yolo(const nnkit_yolo_value *const outputs[NNKIT_YOLO_OUTPUTS], nnkit_yolo_detections *detections)
{
    nnkit_yolo_candidate *order;
    nnkit_i32 left, k;
    int i;
    if (outputs == NULL || detections == NULL) {
        return NNKIT_ERROR_NULL;
    }
    for (i = 0; i < NNKIT_YOLO_OUTPUTS; ++i) {
        if (outputs[i] == NULL) {
            return NNKIT_ERROR_NULL;
        }
    }
    order = detections->candidates;
    detections->count = 0;
    for (left = candidates_of(outputs, order); left > 0 && detections->count < NNKIT_YOLO_KEEP; --left) {
        const nnkit_yolo_candidate best = order[0];
        nnkit_yolo_detection *found = detections->rows + detections->count; /* overwritten where it does not stay */
        nnkit_i32 row = (nnkit_i32)best.row;
        const nnkit_i32 *head = heads[0];
        int stays = 1;
        order[0] = order[left - 1];
        sift(order, left - 1, 0, 0);
        for (; row >= head[2] * head[3] * head[4]; head += 6) {
            row -= head[2] * head[3] * head[4];
        }
        decode(outputs[head[0]] + (size_t)(head[1] + row) * ROW, head, row, found->box);
        for (k = 0; stays && k < detections->count; ++k) {
            const nnkit_yolo_detection *other = detections->rows + k;
            stays = other->label != (nnkit_i16)best.label || !overlaps(found->box, other->box, NNKIT_YOLO_IOU);
        }
        if (stays) {
            found->score = best.score;
            found->label = (nnkit_i16)best.label;
            ++detections->count;
        }
    }
    return NNKIT_OK;
}
