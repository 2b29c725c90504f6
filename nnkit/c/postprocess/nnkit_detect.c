/* nnkit_detect.c: see the header, and docs/cpu_side.md for the arithmetic. */
#include "nnkit_detect.h"

#define NNKIT_BOXES_EXP2 (NNKIT_DETECT_CODE == 0)
#include "nnkit_boxes.h"

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
        const nnkit_i32 exponent = scaled(value[i + 2], i + 2, EXP_LEAST, EXP_MOST);
        const nnkit_i32 b = HALF_SIDE(exponent, prior[i + 2]);
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
        box[i] = (nnkit_i16)clamped(low, NNKIT_BOX_LEAST(NNKIT_DETECT_CLIP), NNKIT_BOX_MOST(NNKIT_DETECT_CLIP));
        box[i + 2] = (nnkit_i16)clamped(high, NNKIT_BOX_LEAST(NNKIT_DETECT_CLIP), NNKIT_BOX_MOST(NNKIT_DETECT_CLIP));
    }
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
