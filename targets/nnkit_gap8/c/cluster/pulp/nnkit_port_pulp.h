/* nnkit_port_pulp.h: the port for a bare cluster of the PULP family. The network is a task of the cluster's first core. */
#ifndef NNKIT_PORT_PULP_H
#define NNKIT_PORT_PULP_H

#include "nnkit_dma.h"

struct nnkit_port {
    nnkit_u32 l3; /* where weights.bin begins in external memory */
};

/* On the fabric controller: L3's settings, and a transfer of 4 n bytes to it. */
void nnkit_port_open(void);
void nnkit_port_write(nnkit_u32 l3, const void *source, nnkit_u32 bytes);

#endif
