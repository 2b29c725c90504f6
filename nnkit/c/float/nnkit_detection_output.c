#include "nnkit_segment.h"

#include "nnkit_math.h"

/* An entry is a row of the output: image id 0, class, confidence, x_min, y_min, x_max, y_max. */
#define ENTRY 7
#define CONFIDENCE 2
#define BOX 3

static float area(const float *box)
{
    const float w = box[2] - box[0], h = box[3] - box[1];
    return w < 0.0f || h < 0.0f ? 0.0f : w * h;
}

static float jaccard(const float *a, const float *b)
{
    const float w = nnkit_minf(a[2], b[2]) - nnkit_maxf(a[0], b[0]);
    const float h = nnkit_minf(a[3], b[3]) - nnkit_maxf(a[1], b[1]);
    return w > 0.0f && h > 0.0f ? w * h / (area(a) + area(b) - w * h) : 0.0f;
}

static void decode(const float *prior, const float *variance, const float *location, float *box,
                   const nnkit_detection *d)
{
    int i;
    float side[2], shift[4];
    side[0] = prior[2] - prior[0];
    side[1] = prior[3] - prior[1];
    for (i = 0; i < 4; i++) {
        shift[i] = d->variance_in_target ? location[i] : location[i] * variance[i];
    }
    for (i = 0; i < 2; i++) {
        if (d->code == NNKIT_BOX_CENTER_SIZE) {
            const float centre = (prior[i] + prior[i + 2]) * 0.5f + shift[i] * side[i];
            const float half = nnkit_expf(shift[i + 2]) * side[i] * 0.5f;
            box[i] = centre - half;
            box[i + 2] = centre + half;
        } else {
            const float unit = d->code == NNKIT_BOX_CORNER ? 1.0f : side[i];
            box[i] = prior[i] + shift[i] * unit;
            box[i + 2] = prior[i + 2] + shift[i + 2] * unit;
        }
    }
    for (i = 0; d->clip && i < 4; i++) {
        box[i] = nnkit_minf(nnkit_maxf(box[i], 0.0f), 1.0f);
    }
}

/* The boxes of one class that stay, best first, appended to `list`; returns its new length. */
static int one_class(const float *location, const float *confidence, const float *priors, int label, int *order,
                     float *list, int length, const nnkit_detection *d)
{
    const int sets = d->share_location ? 1 : d->classes;
    const int set = d->share_location ? 0 : label;
    const int first = length;
    float threshold = d->nms_threshold;
    int candidates = nnkit_best_above(confidence + label, d->classes, d->priors, d->confidence_threshold, order,
                                      d->class_limit);
    /* Of one class no more than `keep` can be among the best of all. */
    for (; candidates > 0 && (d->keep < 0 || length - first < d->keep); candidates--) {
        int k;
        const int index = nnkit_take_best(confidence + label, d->classes, order, candidates);
        float *entry = list + (long)ENTRY * length; /* decoded in place: overwritten where it does not stay */
        int free = 1;
        decode(priors + 4L * index, priors + 4L * (d->priors + index), location + 4L * ((long)index * sets + set),
               entry + BOX, d);
        for (k = first; free && k < length; k++) {
            free = !(jaccard(entry + BOX, list + (long)ENTRY * k + BOX) > threshold);
        }
        if (free) {
            entry[0] = 0.0f;
            entry[1] = (float)label;
            entry[CONFIDENCE] = confidence[(long)index * d->classes + label];
            length++;
            if (d->eta < 1.0f && threshold > 0.5f) {
                threshold *= d->eta;
            }
        }
    }
    return length;
}

/* Keeps the best d->keep entries, in their order. An entry further up goes first among equals. */
static int trim(float *list, int length, int *order, const nnkit_detection *d)
{
    int i, last, kept = 0;
    float least;
    if (d->keep < 0 || length <= d->keep) {
        return length;
    }
    for (i = 0; i < length; i++) {
        order[i] = i;
    }
    nnkit_select_best(list + CONFIDENCE, ENTRY, order, length, d->keep);
    last = order[length - d->keep];
    least = list[(long)ENTRY * last + CONFIDENCE];
    for (i = 0; i < length; i++) {
        const float *entry = list + (long)ENTRY * i;
        if (entry[CONFIDENCE] > least || (entry[CONFIDENCE] == least && i <= last)) {
            int k;
            for (k = 0; k < ENTRY; k++) {
                list[(long)ENTRY * kept + k] = entry[k];
            }
            kept++;
        }
    }
    return kept;
}

void nnkit_detection_output(const float *location, const float *confidence, const float *priors, float *y, int *order,
                            float *list, const nnkit_detection *detection)
{
    int label, row;
    int length = 0;
    for (label = 0; label < detection->classes; label++) {
        if (label != detection->background) {
            length = one_class(location, confidence, priors, label, order, list, length, detection);
            length = trim(list, length, order, detection);
        }
    }
    for (row = 0; row < detection->rows; row++) {
        int k;
        float *to = y + (long)ENTRY * row;
        for (k = 0; k < ENTRY; k++) {
            to[k] = row < length ? list[(long)ENTRY * row + k] : (k == 0 ? -1.0f : 0.0f);
        }
    }
}
