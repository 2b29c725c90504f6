/* nnkit_port_rv32.h: weights in an emulated L3. */
#ifndef NNKIT_PORT_RV32_H
#define NNKIT_PORT_RV32_H

#include "nnkit_port.h"

struct nnkit_port {
    const nnkit_u8 *l3; /* the content of weights.bin */
};

#endif
