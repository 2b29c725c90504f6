#include "nnkit_segment.h"

#include "nnkit_math.h"

/* to = (to +) matrix [rows, columns] x + bias; bias may be null. */
static void product(const float *matrix, const float *x, const float *bias, float *to, int rows, int columns, int add)
{
    int row;
    for (row = 0; row < rows; row++, matrix += columns) {
        int i;
        float sum = bias ? bias[row] : 0.0f;
        for (i = 0; i < columns; i++) {
            sum += matrix[i] * x[i];
        }
        to[row] = add ? to[row] + sum : sum;
    }
}

static float logistic(float x)
{
    return 1.0f / (1.0f + nnkit_expf(-x));
}

static void rnn_step(float *h, const float *gates, const nnkit_recurrence *shape)
{
    int i;
    for (i = 0; i < shape->hidden; i++) {
        h[i] = shape->kind == NNKIT_RNN ? nnkit_tanhf(gates[i]) : nnkit_maxf(gates[i], 0.0f);
    }
}

/* gates: z, r of both products, n of x alone. spare: room for 2 * hidden values. */
static void gru_step(float *h, const float *r_matrix, const float *r_bias, float *gates, float *spare,
                     const nnkit_recurrence *shape)
{
    const int size = shape->hidden;
    const float *last = r_matrix + 2L * size * size, *last_bias = r_bias ? r_bias + 2L * size : 0;
    float *again = spare + size;
    int i;
    for (i = 0; i < 2 * size; i++) {
        gates[i] = logistic(gates[i]);
    }
    for (i = 0; i < size; i++) {
        spare[i] = shape->kind == NNKIT_GRU ? h[i] : gates[size + i] * h[i];
    }
    product(last, spare, last_bias, again, size, size, 0);
    for (i = 0; i < size; i++) {
        const float added = shape->kind == NNKIT_GRU ? gates[size + i] * again[i] : again[i];
        const float candidate = nnkit_tanhf(gates[2 * size + i] + added);
        h[i] = (1.0f - gates[i]) * candidate + gates[i] * h[i];
    }
}

/* gates: i, o, f, g. */
static void lstm_step(float *h, float *c, const float *gates, const nnkit_recurrence *shape)
{
    const int size = shape->hidden;
    int i;
    for (i = 0; i < size; i++) {
        c[i] = logistic(gates[2 * size + i]) * c[i] + logistic(gates[i]) * nnkit_tanhf(gates[3 * size + i]);
        h[i] = logistic(gates[size + i]) * nnkit_tanhf(c[i]);
    }
}

static int gates_of(nnkit_recurrent_kind kind)
{
    switch (kind) {
    case NNKIT_GRU:
    case NNKIT_GRU_RESET_FIRST:
        return 3;
    case NNKIT_LSTM:
        return 4;
    case NNKIT_RNN:
    case NNKIT_RNN_RELU:
        break;
    }
    return 1;
}

static void store(float *to, const float *from, int count)
{
    int i;
    for (i = 0; i < count; i++) {
        to[i] = from ? from[i] : 0.0f;
    }
}

void nnkit_recurrent(const float *x, const float *w, const float *r, const float *bias, const float *first_h,
                     const float *first_c, float *y, float *last_h, float *last_c, float *work,
                     const nnkit_recurrence *shape)
{
    const int size = shape->hidden, rows = gates_of(shape->kind) * size;
    const int gru = gates_of(shape->kind) == 3;
    const float *r_bias = bias ? bias + rows : 0;
    float *h = work, *c = work + size, *gates = work + 3L * size;
    int sequence;
    for (sequence = 0; sequence < shape->sequences; sequence++) {
        const long at = (long)sequence * size;
        int count;
        store(h, first_h ? first_h + at : 0, size);
        store(c, first_c ? first_c + at : 0, size);
        for (count = 0; count < shape->steps; count++) {
            const int step = shape->backwards ? shape->steps - 1 - count : count;
            const float *from = x + ((long)step * shape->sequences + sequence) * shape->inputs;
            product(w, from, bias, gates, rows, shape->inputs, 0);
            product(r, h, r_bias, gates, gru ? 2 * size : rows, size, 1);
            if (gru) {
                gru_step(h, r, r_bias, gates, c, shape);
            } else if (shape->kind == NNKIT_LSTM) {
                lstm_step(h, c, gates, shape);
            } else {
                rnn_step(h, gates, shape);
            }
            if (y) {
                store(y + (long)step * shape->y_step + at, h, size);
            }
        }
        if (last_h) {
            store(last_h + at, h, size);
        }
        if (last_c) {
            store(last_c + at, c, size);
        }
    }
}
