/* nnkit_detect.c: see the header, and docs/cpu_side.md for the arithmetic. */
#include "nnkit_detect.h"

#if NNKIT_DETECT_LOCATION_FLOAT
#include <math.h>
#endif

#define BOXES NNKIT_DETECT_BOXES
#define CLASSES NNKIT_DETECT_CLASSES
#define CENTER_SIZE 0
#define CORNER 1
#define CORNER_SIZE 2
#define CORNERS 3
#define CENTER 4
#define CODE NNKIT_DETECT_CODE
#define SETS (NNKIT_DETECT_SHARED ? 1 : CLASSES)
#define SHIFT_MOST 65535
#define EXP_LEAST (-15 * 8192)
#define EXP_MOST (6 * 8192 - 1)
#define BOX_LEAST (NNKIT_DETECT_CLIP ? 0 : -NNKIT_DETECT_ONE)
#define BOX_MOST (NNKIT_DETECT_CLIP ? NNKIT_DETECT_ONE : 2 * NNKIT_DETECT_ONE - 1)

#if CODE <= CORNER_SIZE
/* By box: centre and sides, or corners. */
static const nnkit_i16 priors[BOXES][4] = {
#include "nnkit_detect_priors.h"
};
#endif

#if NNKIT_DETECT_SCORE_FLOAT
typedef float wide_score;
#else
typedef nnkit_i32 wide_score;
#endif

static nnkit_i32 clamped(nnkit_i32 value, nnkit_i32 low, nnkit_i32 high)
{
    return value < low ? low : value > high ? high : value;
}

#if NNKIT_DETECT_LOCATION_FLOAT

static nnkit_i32 scaled(nnkit_box_value value, int i, nnkit_i32 low, nnkit_i32 high)
{
    static const double factors[4] = NNKIT_DETECT_FACTORS;
    const double product = (double)value * factors[i];
    const double rounded = floor(product + 0.5);
    if (!(rounded > (double)low)) {
        return low;
    }
    return rounded > (double)high ? high : (nnkit_i32)rounded;
}

#else

static nnkit_i32 scaled(nnkit_box_value value, int i, nnkit_i32 low, nnkit_i32 high)
{
    static const nnkit_i32 factors[4][3] = NNKIT_DETECT_FACTORS;
    const nnkit_i32 v = (nnkit_i32)value - NNKIT_DETECT_LOCATION_ZERO;
    const nnkit_i32 product = v * factors[i][0] + ((v * factors[i][1] + 8192) >> 14);
    return clamped((product + ((nnkit_i32)1 << (factors[i][2] - 1))) >> factors[i][2], low, high);
}

#endif

#if CODE == CENTER_SIZE
static nnkit_i32 half_side(nnkit_i32 exponent, nnkit_i32 side)
{
    static const nnkit_u16 points[65] = NNKIT_DETECT_EXP2;
    const nnkit_i32 whole = exponent >> 13, index = (exponent & 8191) >> 7, rest = exponent & 127;
    const nnkit_i32 step = (nnkit_i32)points[index + 1] - (nnkit_i32)points[index];
    const nnkit_i32 power = (nnkit_i32)points[index] + ((step * rest + 64) >> 7);
    return (power * side + ((nnkit_i32)1 << (14 - whole))) >> (15 - whole);
}
#endif

static void decode(const nnkit_box_value *value, nnkit_i32 index, nnkit_i16 *box)
{
    int i;
#if CODE <= CORNER_SIZE
    const nnkit_i16 *prior = priors[index];
#else
    (void)index;
#endif
    for (i = 0; i < 2; i++) {
        nnkit_i32 low, high;
        nnkit_i32 a = scaled(value[i], i, -SHIFT_MOST, SHIFT_MOST);
#if CODE == CENTER_SIZE
        const nnkit_i32 b = half_side(scaled(value[i + 2], i + 2, EXP_LEAST, EXP_MOST), prior[i + 2]);
        a = prior[i] + ((a * prior[i + 2] + 4096) >> 13);
        low = a - b;
        high = a + b;
#else
        const nnkit_i32 b = scaled(value[i + 2], i + 2, -SHIFT_MOST, SHIFT_MOST);
#if CODE == CORNERS
        low = a;
        high = b;
#elif CODE == CENTER
        low = a - (b >> 1);
        high = low + b;
#elif CODE == CORNER
        low = prior[i] + 2 * a;
        high = prior[i + 2] + 2 * b;
#else
        low = prior[i] + ((a * (prior[i + 2] - prior[i]) + 4096) >> 13);
        high = prior[i + 2] + ((b * (prior[i + 2] - prior[i]) + 4096) >> 13);
#endif
#endif
        box[i] = (nnkit_i16)clamped(low, BOX_LEAST, BOX_MOST);
        box[i + 2] = (nnkit_i16)clamped(high, BOX_LEAST, BOX_MOST);
    }
}

static nnkit_u32 area(const nnkit_i16 *box)
{
    const nnkit_i32 width = box[2] - box[0], height = box[3] - box[1];
    return width < 0 || height < 0 ? 0 : (nnkit_u32)width * (nnkit_u32)height;
}

/* Whether common / (area a + area b - common) is above the threshold, in products of 48 bits. */
static int overlaps(const nnkit_i16 *a, const nnkit_i16 *b, nnkit_u32 threshold)
{
    const nnkit_i32 width = (a[2] < b[2] ? a[2] : b[2]) - (a[0] > b[0] ? a[0] : b[0]);
    const nnkit_i32 height = (a[3] < b[3] ? a[3] : b[3]) - (a[1] > b[1] ? a[1] : b[1]);
    nnkit_u32 common, first, second, high, low, least_high, least_low;
    if (width <= 0 || height <= 0) {
        return 0;
    }
    common = (nnkit_u32)width * (nnkit_u32)height;
    first = area(a);
    second = area(b);
    low = (common & 0xFFFFU) * (NNKIT_DETECT_ONE + threshold);
    high = (common >> 16) * (NNKIT_DETECT_ONE + threshold) + (low >> 16);
    least_low = (first & 0xFFFFU) * threshold + (second & 0xFFFFU) * threshold;
    least_high = (first >> 16) * threshold + (second >> 16) * threshold + (least_low >> 16);
    return high != least_high ? high > least_high : (low & 0xFFFFU) > (least_low & 0xFFFFU);
}

#if NNKIT_DETECT_CLASSES_FIRST
#define STEP 1
#define OF_CLASS(scores, label) ((scores) + (size_t)(label) * BOXES)
#else
#define STEP CLASSES
#define OF_CLASS(scores, label) ((scores) + (label))
#endif

static int better(const nnkit_score *scores, nnkit_box_index a, nnkit_box_index b)
{
    const nnkit_score left = scores[(size_t)a * STEP], right = scores[(size_t)b * STEP];
    return left > right || (left == right && a < b);
}

/* Restores the heap below `root`: the best index on top, or with `worst` the last one. */
static void sift(const nnkit_score *scores, nnkit_box_index *order, nnkit_i32 count, nnkit_i32 root, int worst)
{
    nnkit_i32 child;
    for (child = 2 * root + 1; child < count; child = 2 * root + 1) {
        const nnkit_box_index moved = order[root];
        if (child + 1 < count && better(scores, order[child + 1], order[child]) != worst) {
            ++child;
        }
        if (better(scores, order[child], moved) == worst) {
            return;
        }
        order[root] = order[child];
        order[child] = moved;
        root = child;
    }
}

static void heap(const nnkit_score *scores, nnkit_box_index *order, nnkit_i32 count, int worst)
{
    nnkit_i32 root;
    for (root = count / 2 - 1; root >= 0; --root) {
        sift(scores, order, count, root, worst);
    }
}

/* The indices of the best boxes of a class, as a heap; returns how many. */
static nnkit_i32 candidates_of(const nnkit_score *scores, nnkit_box_index *order, wide_score above)
{
    nnkit_i32 i, count = 0;
    int full = 0;
    for (i = 0; i < BOXES; ++i) {
        if (!(scores[(size_t)i * STEP] > above)) {
            continue;
        }
        if (count < NNKIT_DETECT_TOP_K) {
            order[count++] = (nnkit_box_index)i;
            continue;
        }
        if (!full) {
            heap(scores, order, count, 1);
            full = 1;
        }
        if (better(scores, (nnkit_box_index)i, order[0])) {
            order[0] = (nnkit_box_index)i;
            sift(scores, order, count, 0, 1);
        }
    }
    heap(scores, order, count, 0);
    return count;
}

/* Appends the boxes of a class that stay to the rows. */
static void one_class(const nnkit_box_value *location, const nnkit_score *scores, int label, nnkit_detections *all)
{
    nnkit_box_index *order = all->order;
    const nnkit_i32 first = all->count;
    nnkit_i32 left, k;
    nnkit_u32 threshold = NNKIT_DETECT_IOU;
    for (left = candidates_of(scores, order, NNKIT_DETECT_SCORE_ABOVE); left > 0 && all->count - first < NNKIT_DETECT_KEEP; --left) {
        const nnkit_box_index index = order[0];
        nnkit_detection *row = all->rows + all->count; /* decoded in place: overwritten where it does not stay */
        int stays = 1;
        order[0] = order[left - 1];
        sift(scores, order, left - 1, 0, 0);
        decode(location + 4 * ((size_t)index * SETS + (size_t)(NNKIT_DETECT_SHARED ? 0 : label)), (nnkit_i32)index,
               row->box);
        for (k = first; stays && k < all->count; ++k) {
            stays = !overlaps(row->box, all->rows[k].box, threshold);
        }
        if (stays) {
            row->score = scores[(size_t)index * STEP];
            row->label = (nnkit_i16)label;
            ++all->count;
            if (NNKIT_DETECT_ETA < NNKIT_DETECT_ONE && threshold > NNKIT_DETECT_ONE / 2) {
                threshold = (threshold * NNKIT_DETECT_ETA + NNKIT_DETECT_ONE / 2) >> 14;
            }
        }
    }
}

/* Keeps the best NNKIT_DETECT_KEEP rows in their order; of equal ones the last goes first. */
static void trim(nnkit_detections *all)
{
    while (all->count > NNKIT_DETECT_KEEP) {
        nnkit_i32 k, worst = 0;
        for (k = 1; k < all->count; ++k) {
            if (!(all->rows[k].score > all->rows[worst].score)) {
                worst = k;
            }
        }
        for (k = worst + 1; k < all->count; ++k) {
            all->rows[k - 1] = all->rows[k];
        }
        --all->count;
    }
}

int nnkit_detect(const nnkit_box_value *location, const nnkit_score *scores, nnkit_detections *detections)
{
    int label;
    if (location == NULL || scores == NULL || detections == NULL) {
        return NNKIT_ERROR_NULL;
    }
    detections->count = 0;
    for (label = 0; label < CLASSES; ++label) {
        if (label != NNKIT_DETECT_BACKGROUND) {
            one_class(location, OF_CLASS(scores, label), label, detections);
            trim(detections);
        }
    }
    return NNKIT_OK;
}
