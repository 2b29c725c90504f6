/*
 * nnkit_dma.h: transfers between L2 and L1, which run beside the cores. The port implements them.
 */
#ifndef NNKIT_DMA_H
#define NNKIT_DMA_H

#include "nnkit_port.h"

NNKIT_EXTERN_C_BEGIN

#define NNKIT_DMA_MOST_STRIDE 65535 /* of a transfer of several lines */
#define NNKIT_DMA_TRANSFERS 8       /* under way at once, at most */

/*
 * Start a transfer of `lines` lines of `line_bytes`. They lie one after another in L1, and `stride` bytes apart in L2.
 * to_l2: from L1 to L2 (1) or from L2 to L1 (0). Returns the transfer's number, from 0 on.
 */
nnkit_i32 nnkit_dma_start(struct nnkit_port *port, void *l1, void *l2, nnkit_u32 line_bytes, nnkit_u32 lines,
    nnkit_u32 stride, nnkit_i32 to_l2);

/* Wait until a transfer is complete. */
void nnkit_dma_wait(struct nnkit_port *port, nnkit_i32 transfer);

/*
 * Wait until at most `left` of the copies from L3 are under way; they end in the order in which they were started.
 * Returns 0, or another value if one failed.
 */
int nnkit_port_fetch_wait_for(struct nnkit_port *port, nnkit_i32 left);

NNKIT_EXTERN_C_END

#endif
