/*
 * nnkit_match.h: a gallery of descriptors and the nearest one to a query, by squared L2 distance.
 *
 * Raw descriptors are compared as they are; where NNKIT_MATCH_NORMALIZE is 1 each is first scaled to unit length.
 * Distances are exact integers in units of NNKIT_MATCH_STEP squared. They need more than 32 bits, which C90 does not
 * promise: a distance is a pair of 32-bit halves.
 */
#ifndef NNKIT_MATCH_H
#define NNKIT_MATCH_H

#include "nnkit_postprocess.h"

NNKIT_EXTERN_C_BEGIN

#define NNKIT_NO_INDEX 0xFFFFFFFFU

typedef struct nnkit_distance {
    nnkit_u32 high;
    nnkit_u32 low;
} nnkit_distance;

/* One value of a descriptor as the network gives it. */
typedef NNKIT_MATCH_TYPE nnkit_descriptor_value;

/* One value of a descriptor as it is compared. */
#if NNKIT_MATCH_NORMALIZE
typedef nnkit_i16 nnkit_match_value;
#else
typedef nnkit_descriptor_value nnkit_match_value;
#endif

/* Plain data: may be stored and loaded as it is on the same machine. */
typedef struct nnkit_gallery {
    nnkit_u32 count;
    nnkit_match_value entries[NNKIT_MATCH_CAPACITY][NNKIT_MATCH_LENGTH];
} nnkit_gallery;

typedef struct nnkit_match {
    int known;               /* 1: the distance is within the threshold; 0: unknown */
    nnkit_u32 index;         /* the nearest entry, the first of equals; NNKIT_NO_INDEX where the gallery is empty */
    nnkit_distance distance; /* to that entry, squared; all ones where the gallery is empty */
#if NNKIT_MATCH_NORMALIZE
    nnkit_match_value query[NNKIT_MATCH_LENGTH]; /* working memory: the query, scaled to unit length */
#endif
} nnkit_match;

/* Empties the gallery: to be called once before any other use. NNKIT_OK or NNKIT_ERROR_NULL. */
int nnkit_gallery_init(nnkit_gallery *gallery);

/*
 * Adds NNKIT_MATCH_LENGTH values as a new entry and writes its index.
 * NNKIT_OK, NNKIT_ERROR_NULL, NNKIT_ERROR_FULL or NNKIT_ERROR_GALLERY.
 */
int nnkit_gallery_enrol(nnkit_gallery *gallery, const nnkit_descriptor_value *descriptor, nnkit_u32 *index);

/* Finds the entry nearest to NNKIT_MATCH_LENGTH values. NNKIT_OK, NNKIT_ERROR_NULL or NNKIT_ERROR_GALLERY. */
int nnkit_gallery_match(const nnkit_gallery *gallery, const nnkit_descriptor_value *descriptor, nnkit_match *match);

NNKIT_EXTERN_C_END

#endif /* NNKIT_MATCH_H */
