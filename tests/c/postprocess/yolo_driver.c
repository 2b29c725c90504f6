/* Reads the outputs one after another; writes the count, and the members of every detection. */
#include <stdio.h>
#include <string.h>

#include "nnkit_yolo.h"

int main(void)
{
    static const nnkit_i32 maps[NNKIT_YOLO_HEADS][6] = NNKIT_YOLO_MAPS;
    static nnkit_yolo_value values[NNKIT_YOLO_ROWS * (5L + NNKIT_YOLO_CLASSES)];
    static nnkit_yolo_detections found;
    const nnkit_yolo_value *outputs[NNKIT_YOLO_OUTPUTS];
    nnkit_i32 size = (nnkit_i32)sizeof found;
    size_t start = 0;
    int output, head;
    for (output = 0; output < NNKIT_YOLO_OUTPUTS; ++output) {
        outputs[output] = values + start;
        for (head = 0; head < NNKIT_YOLO_HEADS; ++head) {
            if (maps[head][0] == output) {
                start += (size_t)(maps[head][2] * maps[head][3] * maps[head][4] * (5 + NNKIT_YOLO_CLASSES));
            }
        }
    }
    fwrite(&size, sizeof size, 1, stdout);
    while (fread(values, sizeof values, 1, stdin) == 1) {
        nnkit_i32 k;
        memset(&found, 0x55, sizeof found);
        if (nnkit_yolo(outputs, &found) != NNKIT_OK) {
            return 1;
        }
        fwrite(&found.count, sizeof found.count, 1, stdout);
        for (k = 0; k < found.count; ++k) {
            fwrite(&found.rows[k].score, sizeof found.rows[k].score, 1, stdout);
            fwrite(&found.rows[k].label, sizeof found.rows[k].label, 1, stdout);
            fwrite(found.rows[k].box, sizeof found.rows[k].box, 1, stdout);
        }
    }
    return nnkit_yolo(outputs, NULL) == NNKIT_ERROR_NULL ? 0 : 2;
}
