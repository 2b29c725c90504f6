#include "nnkit_segment.h"

#include "nnkit_math.h"

static float within(float value, float most)
{
    return nnkit_minf(nnkit_maxf(value, 0.0f), most);
}

static float overlap(const float *a, const float *b)
{
    const float w = nnkit_maxf(nnkit_minf(a[2], b[2]) - nnkit_maxf(a[0], b[0]) + 1.0f, 0.0f);
    const float h = nnkit_maxf(nnkit_minf(a[3], b[3]) - nnkit_maxf(a[1], b[1]) + 1.0f, 0.0f);
    const float areas = (a[2] - a[0] + 1.0f) * (a[3] - a[1] + 1.0f) + (b[2] - b[0] + 1.0f) * (b[3] - b[1] + 1.0f);
    return w * h / (areas - w * h);
}

/* Box `index`, counted by anchor, row and column, as the scores are in memory. */
static void decode(const float *deltas, const float *info, const float *corners, float *box, int index,
                   const nnkit_proposal *p)
{
    int i;
    const int map = p->height * p->width;
    const int anchor = index / map, position = index % map;
    float shift[2];
    shift[0] = (float)(position % p->width * p->feat_stride);
    shift[1] = (float)(position / p->width * p->feat_stride);
    for (i = 0; i < 2; i++) {
        const float low = shift[i] + corners[4 * anchor + i];
        const float side = shift[i] + corners[4 * anchor + i + 2] - low + 1.0f;
        const float centre = low + 0.5f * side + deltas[(long)(4 * anchor + i) * map + position] * side;
        const float half = 0.5f * nnkit_expf(deltas[(long)(4 * anchor + i + 2) * map + position]) * side;
        box[i] = within(centre - half, info[1 - i] - 1.0f);
        box[i + 2] = within(centre + half, info[1 - i] - 1.0f);
    }
}

void nnkit_proposal_run(const float *scores, const float *deltas, const float *info, float *rois,
                        const float *corners, int *order, float *boxes, const nnkit_proposal *proposal)
{
    int i, rank, row;
    const int map = proposal->height * proposal->width, total = map * proposal->anchors;
    const float least = proposal->min_size * info[2];
    int candidates = 0, kept = 0, limit;
    /* The indices of `boxes` count position first, anchor second: of equal scores the earlier one goes first. */
    float *ranked = boxes + 4L * total;
    for (i = 0; i < total; i++) {
        const int source = i % proposal->anchors * map + i / proposal->anchors;
        float *box = boxes + 4L * i;
        decode(deltas, info, corners, box, source, proposal);
        ranked[i] = scores[(long)total + source];
        if (box[2] - box[0] + 1.0f >= least && box[3] - box[1] + 1.0f >= least) {
            order[candidates++] = i;
        }
    }
    limit = candidates < proposal->pre_nms ? candidates : proposal->pre_nms;
    nnkit_select_best(ranked, 1, order, candidates, limit);
    for (rank = 0; rank < limit && kept < proposal->post_nms; rank++) {
        int k;
        const float *box = boxes + 4L * order[candidates - 1 - rank];
        int free = 1;
        for (k = 0; free && k < kept; k++) {
            free = !(overlap(box, rois + 5L * k + 1) > proposal->nms_threshold);
        }
        if (free) {
            float *roi = rois + 5L * kept++;
            roi[0] = 0.0f;
            for (i = 0; i < 4; i++) {
                roi[1 + i] = box[i];
            }
        }
    }
    for (row = kept; row < proposal->post_nms; row++) {
        rois[5L * row] = -1.0f;
        for (i = 1; i < 5; i++) {
            rois[5L * row + i] = 0.0f;
        }
    }
}
