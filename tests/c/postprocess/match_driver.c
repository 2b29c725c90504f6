/*
 * Reads operations ('e' enrol, 'm' match, 'i' init) with a descriptor after 'e' and 'm'; writes five 32-bit words for
 * each: status, index, known, and the high and low half of the distance.
 */
#include <stdio.h>
#include <string.h>

#include "nnkit_match.h"

int main(void)
{
    static nnkit_gallery gallery;
    static nnkit_match match;
    static nnkit_descriptor_value descriptor[NNKIT_MATCH_LENGTH];
    int operation;
    while ((operation = getchar()) != EOF) {
        nnkit_u32 words[5] = {0, 0, 0, 0, 0};
        if (operation == 'i') {
            words[0] = (nnkit_u32)nnkit_gallery_init(&gallery);
        } else if (fread(descriptor, sizeof descriptor, 1, stdin) != 1) {
            return 1;
        } else if (operation == 'e') {
            words[0] = (nnkit_u32)nnkit_gallery_enrol(&gallery, descriptor, &words[1]);
        } else {
            memset(&match, 0, sizeof match);
            words[0] = (nnkit_u32)nnkit_gallery_match(&gallery, descriptor, &match);
            words[1] = match.index;
            words[2] = (nnkit_u32)match.known;
            words[3] = match.distance.high;
            words[4] = match.distance.low;
        }
        fwrite(words, sizeof words, 1, stdout);
    }
    return 0;
}
