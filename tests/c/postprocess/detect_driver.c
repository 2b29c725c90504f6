/* Reads location and scores; writes the count, and the members of every detection one after another. */
#include <stdio.h>

#include "nnkit_detect.h"

int main(void)
{
    static nnkit_box_value location[NNKIT_DETECT_BOXES * 4L * (NNKIT_DETECT_SHARED ? 1 : NNKIT_DETECT_CLASSES)];
    static nnkit_score scores[NNKIT_DETECT_BOXES * (long)NNKIT_DETECT_CLASSES];
    static nnkit_detections found;
    nnkit_i32 size = (nnkit_i32)sizeof found;
    fwrite(&size, sizeof size, 1, stdout);
    while (fread(location, sizeof location, 1, stdin) == 1 && fread(scores, sizeof scores, 1, stdin) == 1) {
        nnkit_i32 k;
        if (nnkit_detect(location, scores, &found) != NNKIT_OK) {
            return 1;
        }
        fwrite(&found.count, sizeof found.count, 1, stdout);
        for (k = 0; k < found.count; ++k) {
            const double score = (double)found.rows[k].score;
            fwrite(&score, sizeof score, 1, stdout);
            fwrite(&found.rows[k].label, sizeof found.rows[k].label, 1, stdout);
            fwrite(found.rows[k].box, sizeof found.rows[k].box, 1, stdout);
        }
    }
    return nnkit_detect(NULL, scores, &found) == NNKIT_ERROR_NULL ? 0 : 2;
}
