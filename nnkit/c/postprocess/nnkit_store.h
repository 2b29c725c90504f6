/*
 * nnkit_store.h: where a gallery is kept without power: two slots, which a port of the application reads and writes.
 * The host's port keeps them in a file, a board's in its flash.
 */
#ifndef NNKIT_STORE_H
#define NNKIT_STORE_H

#include "nnkit_types.h"

NNKIT_EXTERN_C_BEGIN

struct nnkit_store; /* the port's own state; opened by the application */

#define NNKIT_STORE_SLOTS 2

/* Each returns 0, or another value where it cannot be done. `offset` counts from the start of the slot. */
int nnkit_store_read(struct nnkit_store *store, int slot, nnkit_u32 offset, void *data, nnkit_u32 bytes);

/* Afterwards the first `bytes` of the slot can be written, each once. */
int nnkit_store_erase(struct nnkit_store *store, int slot, nnkit_u32 bytes);
int nnkit_store_write(struct nnkit_store *store, int slot, nnkit_u32 offset, const void *data, nnkit_u32 bytes);

NNKIT_EXTERN_C_END

#endif /* NNKIT_STORE_H */
