/*
 * nnkit_port_host.h: the cluster on a hosted machine, strict about transfers.
 *
 * Weights come from a file or from memory. A transfer is made as late as it may be, when it is waited for; until then
 * its destination is poisoned. It ends the program if two transfers touch the same bytes and one of them writes, if
 * its source or destination is written before it is complete, if it leaves L1 or L2, if its number is waited for
 * without a transfer, or if one is left when the network returns. So a missing wait shows on any machine.
 *
 * Parts run in a shuffled order (the environment's NNKIT_PART_ORDER, a number, chooses another one), or with
 * NNKIT_HOST_THREADS defined as threads.
 */
#ifndef NNKIT_PORT_HOST_H
#define NNKIT_PORT_HOST_H

#include <stdio.h>

#include "nnkit_dma.h"

NNKIT_EXTERN_C_BEGIN

/* Set one of the first two. The weights must outlive the network's calls; the port is not for two threads at once. */
struct nnkit_port {
    const nnkit_u8 *weights; /* the content of weights.bin */
    FILE *file;              /* or weights.bin, opened "rb" */
};

/* The memories that transfers must stay in. */
void nnkit_host_memories(void *l1, nnkit_u32 l1_bytes, void *l2, nnkit_u32 l2_bytes);

/* Ends the program if a transfer has not been waited for. */
void nnkit_host_nothing_pending(void);

NNKIT_EXTERN_C_END

#endif
