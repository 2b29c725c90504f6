/*
 * nnkit_segment.h: the float kernels. C90 and its <math.h> only: no heap, no recursion, no I/O, no globals.
 *
 * Arrays are contiguous, NCHW without the batch of 1. Every pointer is to as many values as the sizes say; outputs do
 * not overlap inputs, unless a kernel says that it may work in place, or the input lies so far above the output that
 * nothing is overwritten before it is read.
 */
#ifndef NNKIT_SEGMENT_H
#define NNKIT_SEGMENT_H

#define NNKIT_MAX_RANK 8

#ifdef __cplusplus
extern "C" {
#endif

/* Elements in an order, last dimension fastest, and how far two arrays step in each dimension (in values). */
typedef struct nnkit_grid {
    int rank;
    int sizes[NNKIT_MAX_RANK];
    int a[NNKIT_MAX_RANK];
    int b[NNKIT_MAX_RANK];
} nnkit_grid;

/*
 * Moves on to the next row: all dimensions but the last. `at` starts as zeros; `a` and `b` are where the row begins
 * in their arrays. 0 behind the last row.
 */
int nnkit_grid_next(const nnkit_grid *grid, int *at, long *a, long *b);

/* A window that slides over a map: convolutions and pools. */
typedef struct nnkit_window {
    int channels, height, width;
    int out_channels, out_height, out_width;
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int dilation_h, dilation_w;
    int pad_top, pad_left, pad_bottom, pad_right;
    int groups;
} nnkit_window;

/* Of planes [height, width]; taps: of the filter of an output. */
typedef struct {
    int channels, height, width, out_height, out_width, row_taps, column_taps;
} nnkit_resampling;

/* Results are brought between these bounds, which may be infinite. */
typedef struct nnkit_clip {
    float low, high;
} nnkit_clip;

typedef enum nnkit_unary_op {
    NNKIT_RELU,
    NNKIT_LEAKY_RELU, /* p: slope below 0 */
    NNKIT_CLIP,       /* p: least, q: most */
    NNKIT_SIGMOID,
    NNKIT_HARD_SIGMOID, /* p: slope, q: offset */
    NNKIT_HARD_SWISH,
    NNKIT_TANH,
    NNKIT_ELU, /* p: alpha */
    NNKIT_SOFTPLUS,
    NNKIT_EXP,
    NNKIT_LOG,
    NNKIT_SQRT,
    NNKIT_ABS,
    NNKIT_NEG,
    NNKIT_RECIPROCAL,
    NNKIT_FLOOR,
    NNKIT_CEIL,
    NNKIT_SOFTSIGN,
    NNKIT_MISH,
    NNKIT_SIGN
} nnkit_unary_op;

typedef enum nnkit_binary_op {
    NNKIT_ADD,
    NNKIT_SUB,
    NNKIT_MUL,
    NNKIT_DIV,
    NNKIT_POW,
    NNKIT_MAX,
    NNKIT_MIN,
    NNKIT_PRELU /* b: slope where a is below 0 */
} nnkit_binary_op;

typedef enum nnkit_reduce_op {
    NNKIT_REDUCE_SUM,
    NNKIT_REDUCE_MEAN,
    NNKIT_REDUCE_MAX,
    NNKIT_REDUCE_MIN,
    NNKIT_REDUCE_L1,
    NNKIT_REDUCE_L2,
    NNKIT_REDUCE_SUM_SQUARE
} nnkit_reduce_op;

typedef enum nnkit_box_code { NNKIT_BOX_CORNER, NNKIT_BOX_CENTER_SIZE, NNKIT_BOX_CORNER_SIZE } nnkit_box_code;

typedef struct nnkit_detection {
    int priors, classes, background;
    int share_location, variance_in_target, clip;
    nnkit_box_code code;
    int class_limit; /* most boxes of a class that are looked at */
    int keep;        /* most detections in all, -1: no limit */
    int rows;        /* of the output */
    float nms_threshold, eta, confidence_threshold;
} nnkit_detection;

typedef struct nnkit_proposal {
    int anchors, height, width, feat_stride;
    int pre_nms, post_nms;
    float nms_threshold, min_size;
} nnkit_proposal;

typedef struct nnkit_warp {
    int channels, height, width, out_height, out_width;
    int matrix_values; /* 9, or 8 where the last one is 1 */
    int forward, nearest, replicate;
    float border_value;
} nnkit_warp;

/* GRU_RESET_FIRST: the state is reset before its product, not behind it. */
typedef enum nnkit_recurrent_kind {
    NNKIT_RNN,
    NNKIT_RNN_RELU,
    NNKIT_GRU,
    NNKIT_GRU_RESET_FIRST,
    NNKIT_LSTM
} nnkit_recurrent_kind;

/* One direction. inputs, hidden: values of a step and of a state; y_step: values of y from one step to the next. */
typedef struct nnkit_recurrence {
    nnkit_recurrent_kind kind;
    int steps, sequences, inputs, hidden;
    int y_step, backwards;
} nnkit_recurrence;

/* y at strides b = x at strides a. */
void nnkit_copy(const float *x, float *y, const nnkit_grid *grid);
void nnkit_fill(float *y, int count, float value);
/* In place is allowed. */
void nnkit_unary(nnkit_unary_op op, const float *x, float *y, int count, float p, float q);
/* y contiguous; a and b at their strides, 0 where they are repeated. y may be a, or b, where that has y's shape. */
void nnkit_binary(nnkit_binary_op op, const float *a, const float *b, float *y, const nnkit_grid *grid);
/* x at strides a; y at strides b, which are 0 in the dimensions reduced. `outputs` values of y, `each` x in one. */
void nnkit_reduce(nnkit_reduce_op op, const float *x, float *y, const nnkit_grid *grid, int outputs, int each);
/* x [outer, size, inner]; in place is allowed. */
void nnkit_softmax(const float *x, float *y, int outer, int size, int inner);
void nnkit_log_softmax(const float *x, float *y, int outer, int size, int inner);
/* In place is allowed. */
void nnkit_erf(const float *x, float *y, int count);
void nnkit_gelu(const float *x, float *y, int count);
void nnkit_gelu_tanh(const float *x, float *y, int count);
/*
 * x [rows, size] to mean 0 and variance 1 by row, then by scale and bias: `each` values in a line share one, every
 * `cycle` rows they begin anew; in place is allowed.
 */
void nnkit_normalization(const float *x, const float *scale, const float *bias, float *y, int rows, int size, int cycle,
                         int each, float epsilon);
void nnkit_lp_normalization(const float *x, float *y, int outer, int size, int inner, int p);
/* Rows of table [rows, features] by `count` numbers, which are kept within it. */
void nnkit_embedding(const float *ids, const float *table, float *y, int count, int rows, int features);
/* y = x * scale + shift by channel; in place is allowed. */
void nnkit_scale_shift(const float *x, const float *scale, const float *shift, float *y, int channels, int inner);
void nnkit_lrn(const float *x, float *y, int channels, int inner, int size, float alpha, float beta, float bias);
/* weights [out_channels, channels / groups, kernel_h, kernel_w]; bias may be null */
void nnkit_conv(const float *x, const float *weights, const float *bias, float *y, const nnkit_window *window);
/* table: blocks of 8 maps of each group: biases [8], weights [kernel_h, kernel_w, channels / groups, 8] */
void nnkit_conv_packed(const float *x, const float *table, float *y, const nnkit_window *window,
                       const nnkit_clip *clip);
/* channels == out_channels == groups; table [channels, 1 + kernel_h * kernel_w]: bias, weights */
void nnkit_conv_depthwise(const float *x, const float *table, float *y, const nnkit_window *window,
                          const nnkit_clip *clip);
/* weights [channels, out_channels / groups, kernel_h, kernel_w]; bias may be null */
void nnkit_conv_transpose(const float *x, const float *weights, const float *bias, float *y,
                          const nnkit_window *window);
void nnkit_max_pool(const float *x, float *y, const nnkit_window *window);
void nnkit_average_pool(const float *x, float *y, const nnkit_window *window, int count_pad);
/* y [batches, m, n] = alpha * a [m, k] * b [k, n], with steps between rows, columns and batches of a and b */
void nnkit_matmul(const float *a, const float *b, float *y, int m, int k, int n, int batches, const int *a_steps,
                  const int *b_steps, float alpha);
/*
 * x [steps, sequences, inputs]; w [gates, hidden, inputs], r [gates, hidden, hidden], bias of both in a line, gates in
 * ONNX's order; states [sequences, hidden]. bias, the first states (then zero) and all results may be null. work:
 * (gates + 3) * hidden values.
 */
void nnkit_recurrent(const float *x, const float *w, const float *r, const float *bias, const float *first_h,
                     const float *first_c, float *y, float *last_h, float *last_c, float *work,
                     const nnkit_recurrence *shape);
/* y[c, i, j] = x[c, rows[i], columns[j]] */
void nnkit_sample(const float *x, float *y, int channels, int height, int width, int out_height, int out_width,
                  const int *rows, const int *columns);
/* Bilinear: rows and columns are pairs (near, far), weights those of the far one. */
void nnkit_bilinear(const float *x, float *y, int channels, int height, int width, int out_height, int out_width,
                    const int *rows, const float *row_weights, const int *columns, const float *column_weights);
/*
 * Any filter along height, then along width: an output row is the sum of `row_taps` rows of x from rows[i], with weights
 * [out_height, row_taps]; columns likewise. work: `width` values.
 */
void nnkit_resample(const float *x, float *y, float *work, const int *rows, const float *row_weights,
                    const int *columns, const float *column_weights, const nnkit_resampling *shape);
/* scale: one value, or one a channel; may be null */
void nnkit_normalize(const float *x, const float *scale, float *y, int channels, int inner, int across, int shared,
                     float eps);
void nnkit_roi_pooling(const float *x, const float *rois, float *y, int channels, int height, int width, int regions,
                       int pooled_h, int pooled_w, float spatial_scale);
void nnkit_psroi_pooling(const float *x, const float *rois, float *y, int height, int width, int regions,
                         int output_dim, int group_size, float spatial_scale);
/* channels, height, width: of x */
void nnkit_reorg(const float *x, float *y, int channels, int height, int width, int stride, int reverse);
void nnkit_warp_perspective(const float *x, const float *matrix, float *y, const nnkit_warp *warp);
/* list: n * 7 values, n = keep + min(keep, class_limit); without `keep` it may be y itself. order: max(class_limit, n)
 * values. */
void nnkit_detection_output(const float *location, const float *confidence, const float *priors, float *y, int *order,
                            float *list, const nnkit_detection *detection);
/* boxes [count, 4], scores [classes, count]; y: classes * most rows (0, class, index), -1 behind the last. order:
 * `count` values. Indices below 2^24. */
void nnkit_non_max_suppression(const float *boxes, const float *scores, float *y, int *order, int count, int classes,
                               int most, int centred, float iou_threshold, float score_threshold);
/* corners: anchors * 4 of position (0, 0). order: anchors * height * width values, boxes: 5
 * times as many. */
void nnkit_proposal_run(const float *scores, const float *deltas, const float *info, float *rois,
                        const float *corners, int *order, float *boxes, const nnkit_proposal *proposal);
/* Writes the indices of the scores above `above`, at most `limit`: then the best ones. Returns how many there are, in
 * an order that nnkit_take_best keeps up. */
int nnkit_best_above(const float *scores, int stride, int count, float above, int *order, int limit);
/* The best of `count` indices, which goes to their end; the others are in order for the next call. */
int nnkit_take_best(const float *scores, int stride, int *order, int count);
/* Moves the best `wanted` of `count` indices to the end of `order`, the best one last: highest
 * scores[index * stride], of equal ones the lower index. */
void nnkit_select_best(const float *scores, int stride, int *order, int count, int wanted);

#ifdef __cplusplus
}
#endif

#endif /* NNKIT_SEGMENT_H */
