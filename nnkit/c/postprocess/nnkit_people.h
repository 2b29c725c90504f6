/*
 * nnkit_people.h: a gallery whose entries have names, which can be removed, stored and loaded.
 *
 * A person may have several entries. What is stored says of which network its descriptors are: those of another one
 * are not loaded. A gallery is written to the slot that does not hold the last one, its first bytes at the end: where
 * power fails meanwhile, the last one is still there.
 */
#ifndef NNKIT_PEOPLE_H
#define NNKIT_PEOPLE_H

#include "nnkit_match.h"
#include "nnkit_pipeline_config.h"
#include "nnkit_store.h"

NNKIT_EXTERN_C_BEGIN

/* Beside those of nnkit_postprocess.h. */
#define NNKIT_ERROR_STORE (-7)   /* the store cannot be read or written */
#define NNKIT_ERROR_EMPTY (-8)   /* nothing is stored, or what is stored is damaged */
#define NNKIT_ERROR_OTHER (-9)   /* what is stored are descriptors of another network */
#define NNKIT_ERROR_NAME (-10)   /* the name is empty, too long, or not in the gallery */

/* Of a slot, at least. */
#define NNKIT_PEOPLE_STORE_BYTES \
    (40 + NNKIT_MATCH_CAPACITY * (NNKIT_PEOPLE_NAME_BYTES + NNKIT_MATCH_LENGTH * (nnkit_u32)sizeof(nnkit_match_value)))

typedef struct nnkit_people {
    nnkit_gallery gallery;
    char names[NNKIT_MATCH_CAPACITY][NNKIT_PEOPLE_NAME_BYTES]; /* UTF-8, zeros behind */
} nnkit_people;

/* Empties the gallery: to be called once before any other use. NNKIT_OK or NNKIT_ERROR_NULL. */
int nnkit_people_init(nnkit_people *people);

/* Adds a descriptor under a name. NNKIT_OK, NNKIT_ERROR_NULL, _NAME, _FULL or _GALLERY. */
int nnkit_people_enrol(nnkit_people *people, const char *name, const nnkit_descriptor_value *descriptor);

/* Removes all entries of a name; those behind move up. NNKIT_OK, NNKIT_ERROR_NULL, _NAME or _GALLERY. */
int nnkit_people_remove(nnkit_people *people, const char *name);

/* Writes all entries to the store. NNKIT_OK, NNKIT_ERROR_NULL, _GALLERY or _STORE. */
int nnkit_people_save(const nnkit_people *people, struct nnkit_store *store);

/* Reads the entries that were saved last; otherwise leaves the gallery as it is. NNKIT_OK, NNKIT_ERROR_NULL, _EMPTY, _OTHER or _STORE. */
int nnkit_people_load(nnkit_people *people, struct nnkit_store *store);

NNKIT_EXTERN_C_END

#endif /* NNKIT_PEOPLE_H */
