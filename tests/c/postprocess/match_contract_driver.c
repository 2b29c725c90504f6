/* Calls the gallery functions with bad arguments; prints one status a line. */
#include <stdio.h>

#include "nnkit_match.h"

int main(void)
{
    static nnkit_gallery gallery;
    static nnkit_match match;
    static const nnkit_i16 descriptor[NNKIT_MATCH_LENGTH] = {0};
    nnkit_u32 index = 0;
    printf("init_null %d\n", nnkit_gallery_init(NULL));
    printf("enrol_null_gallery %d\n", nnkit_gallery_enrol(NULL, descriptor, &index));
    printf("enrol_null_descriptor %d\n", nnkit_gallery_enrol(&gallery, NULL, &index));
    printf("enrol_null_index %d\n", nnkit_gallery_enrol(&gallery, descriptor, NULL));
    printf("match_null_gallery %d\n", nnkit_gallery_match(NULL, descriptor, &match));
    printf("match_null_descriptor %d\n", nnkit_gallery_match(&gallery, NULL, &match));
    printf("match_null_match %d\n", nnkit_gallery_match(&gallery, descriptor, NULL));
    gallery.count = NNKIT_MATCH_CAPACITY + 1U;
    printf("enrol_corrupt %d\n", nnkit_gallery_enrol(&gallery, descriptor, &index));
    printf("match_corrupt %d\n", nnkit_gallery_match(&gallery, descriptor, &match));
    gallery.count = NNKIT_MATCH_CAPACITY;
    printf("enrol_full %d\n", nnkit_gallery_enrol(&gallery, descriptor, &index));
    return 0;
}
