/* nnkit_port_host.h: weights.bin from a file or from memory, on a hosted machine. */
#ifndef NNKIT_PORT_HOST_H
#define NNKIT_PORT_HOST_H

#include <stdio.h>

#include "nnkit_port.h"

NNKIT_EXTERN_C_BEGIN

/* Set one of the two. The weights must outlive the network's calls; the port is not for two threads at once. */
struct nnkit_port {
    const nnkit_u8 *weights; /* the content of weights.bin */
    FILE *file;              /* or weights.bin, opened "rb" */
};

NNKIT_EXTERN_C_END

#endif
